/* The cost of one attempt. Tokens times pico-dollars are summed with 128 bits (a count and a rate of 63 bits each fit)
 * and rounded half-up once, so that no order of summing and no number of parts can change a result. */
#include "base/check.h"
#include "price/price.h"

__extension__ typedef __int128 wide; /* the type has no portable name */

/* Adds n tokens at `rate`; false when there are tokens and no known rate. */
static bool add(wide *sum, int64_t n, int64_t rate)
{
    if (n <= 0)
        return true;
    if (rate < 0)
        return false;
    *sum += (wide)n * rate;
    return true;
}

static int64_t first_known(int64_t a, int64_t b)
{
    return a >= 0 ? a : b;
}

/* The highest tier that the prompt reaches. */
static const struct price_tier *tier_of(const struct price_more *m, int64_t prompt)
{
    const struct price_tier *found = NULL;
    for (size_t i = 0; i < m->n_tiers; i++) {
        const struct price_tier *t = &m->tiers[i];
        if (prompt > t->above || (t->is_inclusive && prompt == t->above))
            found = t;
    }
    return found;
}

struct price_tier price_rates(const struct price *p, int64_t prompt)
{
    static const struct price_tier nothing = {0, false, -1, -1, -1, -1, -1, -1};
    const struct price_more *m = p->more;
    const struct price_tier *t = m != NULL ? tier_of(m, prompt) : NULL;
    struct price_tier r = t != NULL ? *t : nothing;
    r.input = first_known(r.input, p->input);
    r.output = first_known(r.output, p->output);
    r.cache_read = first_known(first_known(r.cache_read, p->cache_read), r.input);
    r.cache_write_5m = first_known(first_known(r.cache_write_5m, p->cache_write_5m), r.input);
    r.cache_write_1h = first_known(first_known(r.cache_write_1h, p->cache_write_1h), r.input);
    r.reasoning = first_known(first_known(r.reasoning, m != NULL ? m->reasoning : -1), r.output);
    return r;
}

int64_t price_cost(const struct price *p, const struct usage *u)
{
    RM_ASSERT(u != NULL);
    if (p == NULL)
        return NUSD_UNKNOWN;
    struct price_tier r = price_rates(p, usage_prompt(u));
    int64_t output = u->output > 0 ? u->output : 0;
    int64_t reasoning = u->reasoning < 0 ? 0 : u->reasoning > output ? output : u->reasoning;
    wide pusd = p->more != NULL ? p->more->request : 0;
    bool is_known = add(&pusd, u->input, r.input);
    is_known &= add(&pusd, u->cache_read, r.cache_read);
    is_known &= add(&pusd, u->cache_write_5m, r.cache_write_5m);
    is_known &= add(&pusd, u->cache_write_1h, r.cache_write_1h);
    is_known &= add(&pusd, output - reasoning, r.output);
    is_known &= add(&pusd, reasoning, r.reasoning);
    if (!is_known)
        return NUSD_UNKNOWN;
    wide nusd = (pusd + 500) / 1000;
    return nusd > INT64_MAX ? INT64_MAX : (int64_t)nusd;
}

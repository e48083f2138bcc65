/* The cost of one attempt. Tokens times pico-dollars are summed with 128 bits (a count and a rate of 63 bits each fit)
 * and rounded half-up once, so that no order of summing and no number of parts can change a result. */
#include "base/check.h"
#include "price/price.h"

__extension__ typedef __int128 wide; /* the one typedef: the type has no portable name */

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

static int64_t rate_or_input(const struct price *p, int64_t rate)
{
    return rate < 0 ? p->input : rate;
}

int64_t price_cost(const struct price *p, const struct usage *u)
{
    RM_ASSERT(u != NULL);
    if (p == NULL)
        return NUSD_UNKNOWN;
    wide pusd = 0;
    bool is_known = add(&pusd, u->input, p->input);
    is_known &= add(&pusd, u->cache_read, rate_or_input(p, p->cache_read));
    is_known &= add(&pusd, u->cache_write_5m, rate_or_input(p, p->cache_write_5m));
    is_known &= add(&pusd, u->cache_write_1h, rate_or_input(p, p->cache_write_1h));
    is_known &= add(&pusd, u->output, p->output);
    if (!is_known)
        return NUSD_UNKNOWN;
    wide nusd = (pusd + 500) / 1000;
    return nusd > INT64_MAX ? INT64_MAX : (int64_t)nusd;
}

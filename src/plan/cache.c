/* A cache write costs (write - 1) of the prefix's price more than an uncached read, a hit saves (1 - read) of it. So a
 * write pays where
 *
 *     P(the outage outlasts the next reuse) x expected reuses within the TTL x (1 - read) > write - 1
 *
 * The product on the left is summed reuse by reuse (cache_reuses): the second one needs an outage that lasts until the
 * second one. Both the prefix and the conversation may come again, the livelier one counts.
 *
 * A standby that is warm already is asked with the hint whatever the setting: the read is cheap, and only the tail is
 * written. A hedge is a bet on this very request, so nothing is written for it.
 *
 * What is warm is what a provider said: the tokens that it read from its cache or wrote to it. Between an answer's
 * first token and its usage report a hint that was sent counts as written. */
#include "plan/cache.h"

#include "base/mem.h"
#include "plan/candidate.h"
#include "price/price.h"

#include <math.h>
#include <stdio.h>

enum { SECOND_US = 1000000, SHORT_S = 300, LONG_S = 3600, CACHED_TOKENS_MIN = 1024, STEPS_PER_DOUBLING = 4 };

struct cache_memory *cache_memory_new(void)
{
    struct cache_memory *m = mem_zalloc_lines(sizeof *m);
    m->prefixes = prefixes_new();
    return m;
}

void cache_memory_free(struct cache_memory *m)
{
    if (m == NULL)
        return;
    prefixes_free(m->prefixes);
    mem_free(m);
}

static bool is_anthropic(const struct link_conf *link)
{
    return bytes_is(BYTES("anthropic"), link->provider->dialect);
}

/* ---- the rule ---- */

static double share(int64_t rate, int64_t input)
{
    return rate < 0 ? 1.0 : (double)rate / (double)input;
}

struct cache_rates cache_rates_of(const struct link_conf *link, int64_t n_prompt, int64_t ttl_s)
{
    bool is_long = ttl_s > SHORT_S;
    struct price_tier t = {.input = -1};
    if (link->price != NULL)
        t = price_rates(link->price, n_prompt);
    if (t.input > 0)
        return (struct cache_rates){.read = share(t.cache_read, t.input),
                                    .write = share(is_long ? t.cache_write_1h : t.cache_write_5m, t.input)};
    return (struct cache_rates){.read = 0.1, .write = !is_anthropic(link) ? 1.0 : is_long ? 2.0 : 1.25};
}

double cache_break_even(struct cache_rates r)
{
    if (r.write <= 1)
        return 0;
    return r.read < 1 ? (r.write - 1) / (1 - r.read) : (double)INFINITY;
}

/* a + a^2 + ... + a^m */
static double powers(double a, double m)
{
    return a >= 1 ? m : a * (1 - pow(a, m)) / (1 - a);
}

/* Reuses are taken one by one at first, then in groups that double in size every four: what comes later matters less,
 * and a prefix may come a thousand times within the hour. */
double cache_reuses(const struct outage_span *away, struct rhythm rhythm, uint64_t ttl_us)
{
    double gap = rhythm.gap_us > 1 ? rhythm.gap_us : 1, most = floor((double)ttl_us / gap);
    double sum = 0, alive = 1, group = 1, k = 1;
    for (int i = 1; k <= most; i++) {
        double m = group < most - k + 1 ? group : most - k + 1;
        double middle = (k + (m - 1) / 2) * gap;
        sum += alive * powers(rhythm.again, m) * outage_lasts(away, (uint64_t)middle);
        alive *= pow(rhythm.again, m);
        k += m;
        if (i % STEPS_PER_DOUBLING == 0)
            group *= 2;
    }
    return sum;
}

/* ---- what is known of a request's prefix ---- */

int64_t cache_wanted_s(const struct call *call, uint32_t hint_s)
{
    if (hint_s > 0 && !call->has_cache_markers)
        return hint_s <= SHORT_S ? SHORT_S : LONG_S;
    return call->has_cache_markers ? (call->has_long_marker ? LONG_S : SHORT_S) : 0;
}

static uint64_t ttl_us(int64_t ttl_s)
{
    return (uint64_t)(ttl_s > 0 ? ttl_s : SHORT_S) * SECOND_US;
}

void cache_see(struct cache_memory *m, const struct call *call, int64_t ttl_s, uint64_t now_us)
{
    prefixes_see(m->prefixes, call->prefix_hash, ttl_us(ttl_s), now_us);
    if (call->talk_hash != call->prefix_hash)
        prefixes_see(m->prefixes, call->talk_hash, ttl_us(ttl_s), now_us);
}

/* The two entries of a call; NULL where there is none. */
static void entries(const struct cache_memory *m, const struct call *call, struct prefix *out[2])
{
    out[0] = prefixes_find(m->prefixes, call->prefix_hash);
    out[1] = call->talk_hash == call->prefix_hash ? NULL : prefixes_find(m->prefixes, call->talk_hash);
}

static uint32_t warmth_of(const struct cache_memory *m, const struct call *call, uint16_t target_id, uint64_t now_us)
{
    struct prefix *x[2];
    entries(m, call, x);
    uint32_t a = prefix_warmth(x[0], target_id, now_us), b = prefix_warmth(x[1], target_id, now_us);
    return a > b ? a : b;
}

static double reuses_of(const struct cache_memory *m, const struct call *call, const struct outage_span *away,
                        int64_t ttl_s)
{
    struct prefix *x[2];
    double most = 0;
    entries(m, call, x);
    for (int i = 0; i < 2; i++) {
        if (x[i] == NULL)
            continue;
        double n = cache_reuses(away, prefixes_rhythm(m->prefixes, x[i]), ttl_us(ttl_s));
        most = n > most ? n : most;
    }
    return most;
}

/* ---- a failover ---- */

/* What a target's absence looks like on the trail; what it would not do for this one request is none. */
static bool is_away(enum outcome o)
{
    switch (o) {
    case OUTCOME_RATE_LIMITED:
    case OUTCOME_OVERLOADED:
    case OUTCOME_QUOTA_EXHAUSTED:
    case OUTCOME_AUTH_ERROR:
    case OUTCOME_NOT_FOUND:
    case OUTCOME_SERVER_ERROR:
    case OUTCOME_CONNECT_ERROR:
    case OUTCOME_CONNECT_TIMEOUT:
    case OUTCOME_TTFT_TIMEOUT:
    case OUTCOME_TOTAL_TIMEOUT:
    case OUTCOME_IDLE_TIMEOUT:
    case OUTCOME_STREAM_ERROR:
    case OUTCOME_PROTOCOL_ERROR:
    case OUTCOME_SKIPPED_OPEN:
        return true;
    default:
        return false;
    }
}

/* When the link's target may be asked again; 0 = now. */
static uint64_t shut_until(const struct cache_ask *ask, const struct link_conf *l)
{
    if (ask->registry == NULL)
        return 0;
    return registry_until(ask->registry, l->target_id, l->provider->credential_id, ask->now_us);
}

/* Somebody is asking it, and nobody knows yet what comes of it. */
static bool is_on_trial(const struct cache_ask *ask, const struct link_conf *l)
{
    return ask->registry != NULL &&
           (registry_state(ask->registry, l->target_id, ask->now_us) == HEALTH_TRIAL ||
            registry_credential_state(ask->registry, l->provider->credential_id, ask->now_us) == HEALTH_TRIAL);
}

/* The first link of the trail that is away, all of them noted; NULL = none. */
static const struct link_conf *note_away(struct cache_memory *m, const struct cache_ask *ask)
{
    const struct link_conf *first = NULL;
    for (uint16_t i = 0; i < ask->trail->n_attempts; i++) {
        const struct attempt_record *rec = &ask->trail->attempts[i];
        if (rec->n == ask->n || !is_away(rec->outcome) || rec->link >= ask->route->n_links)
            continue;
        const struct link_conf *l = &ask->route->links[rec->link];
        if (rec->outcome == OUTCOME_SKIPPED_OPEN)
            outages_shut(&m->outages, l->target_id, ask->now_us, is_on_trial(ask, l) ? 0 : shut_until(ask, l));
        else
            outages_bad(&m->outages, l->target_id, ask->now_us);
        if (first == NULL && l->target_id != ask->link->target_id)
            first = l;
    }
    return first;
}

static struct outage_span span_of(const struct cache_memory *m, const struct cache_ask *ask,
                                  const struct link_conf *away)
{
    return outage_span(outages_find(&m->outages, away->target_id), ask->now_us, shut_until(ask, away));
}

/* "0.1", "0.27", "3.4", "120" */
static void put_number(char out[16], double v)
{
    if (v >= 100)
        snprintf(out, 16, v < 1e6 ? "%.0f" : "%.0e", v);
    else if (v >= 1 || v < 0.005)
        snprintf(out, 16, "%.1f", v);
    else
        snprintf(out, 16, "%.2g", v);
}

static void weigh(const struct cache_memory *m, const struct cache_ask *ask, const struct outage_span *away,
                  struct cache_verdict *v)
{
    char expected[16], even[16];
    struct cache_rates r = cache_rates_of(ask->link, candidate_prompt_tokens(ask->call), ask->ttl_s);
    v->expected = reuses_of(m, ask->call, away, ask->ttl_s);
    v->break_even = cache_break_even(r);
    v->is_withheld = v->expected <= v->break_even && v->break_even > 0;
    put_number(expected, v->expected);
    put_number(even, v->break_even);
    if (isinf(v->break_even))
        snprintf(v->words, sizeof v->words, "cache write withheld: reads cost as much there as input does");
    else
        snprintf(v->words, sizeof v->words, "cache write %s: %s expected reuses, break-even %s",
                 v->is_withheld ? "withheld" : "pays", expected, even);
}

static void judge_standby(const struct cache_memory *m, const struct cache_ask *ask, const struct outage_span *away,
                          struct cache_verdict *v)
{
    const struct cache_conf *conf = &ask->route->cache;
    uint64_t need_us = (uint64_t)conf->sustained_after_ms * 1000;
    switch ((enum cache_standby)conf->standby) {
    case STANDBY_NEVER:
        v->is_withheld = true;
        snprintf(v->words, sizeof v->words, "cache write withheld: standby never");
        return;
    case STANDBY_ALWAYS:
        snprintf(v->words, sizeof v->words, "cache write: standby always");
        return;
    case STANDBY_SUSTAINED:
        v->is_withheld = away->age_us < need_us;
        snprintf(v->words, sizeof v->words, "cache write%s: away for %llu ms, sustained after %u",
                 v->is_withheld ? " withheld" : "", (unsigned long long)(away->age_us / 1000),
                 conf->sustained_after_ms);
        return;
    case STANDBY_EXPECTED_VALUE:
        weigh(m, ask, away, v);
        return;
    }
    RM_UNREACHABLE();
}

static bool is_hedge(const struct cache_ask *ask)
{
    const struct request_record *trail = ask->trail;
    return ask->n > 0 && ask->n <= trail->n_attempts && trail->attempts[ask->n - 1].kind == ATTEMPT_HEDGE;
}

struct cache_verdict cache_judge(struct cache_memory *m, const struct cache_ask *ask)
{
    struct cache_verdict v = {0};
    const struct link_conf *away = note_away(m, ask);
    bool is_bet = is_hedge(ask);
    v.is_failover = away != NULL || is_bet;
    if (!v.is_failover || ask->ttl_s <= 0 || !is_anthropic(ask->link))
        return v;
    uint32_t n_warm = warmth_of(m, ask->call, ask->link->target_id, ask->now_us);
    if (n_warm > 0) {
        snprintf(v.words, sizeof v.words, "cache hint sent: %u tokens are warm there", n_warm);
    } else if (is_bet && ask->route->cache.standby != STANDBY_ALWAYS) {
        v.is_withheld = true;
        snprintf(v.words, sizeof v.words, "cache write withheld: a hedge");
    } else {
        struct outage_span span = away != NULL ? span_of(m, ask, away) : (struct outage_span){0};
        judge_standby(m, ask, &span, &v);
    }
    return v;
}

/* ---- what answers teach ---- */

static void warm(struct prefix *const x[2], const struct warmth *w)
{
    for (int i = 0; i < 2; i++)
        if (x[i] != NULL)
            prefix_warm(x[i], w->target_id, w->n_tokens, w->until_us);
}

static uint32_t clipped(int64_t n)
{
    return n < 0 ? 0 : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

void cache_served(struct cache_memory *m, const struct call *call, const struct link_conf *link, bool is_marked,
                  int64_t ttl_s, uint64_t now_us)
{
    outages_good(&m->outages, link->target_id, now_us);
    if (!is_marked || !is_anthropic(link))
        return;
    struct prefix *x[2];
    struct warmth w = {link->target_id, clipped(candidate_prompt_tokens(call)), now_us + ttl_us(ttl_s)};
    entries(m, call, x);
    warm(x, &w);
}

/* Caches that write by themselves say only what they read. */
static int64_t held_tokens(const struct link_conf *link, const struct usage *u)
{
    int64_t n = usage_prompt(u), held = n - (u->input > 0 ? u->input : 0);
    bool is_automatic = !is_anthropic(link) && link->price != NULL && link->price->cache_read >= 0;
    return held > 0 || !is_automatic || n < CACHED_TOKENS_MIN ? held : n;
}

void cache_learn(struct cache_memory *m, const struct call *call, const struct link_conf *link,
                 const struct attempt_record *rec, int64_t ttl_s, uint64_t now_us)
{
    struct prefix *x[2];
    if (rec->tokens_from != TOKENS_REPORTED || rec->ttft_us < 0)
        return;
    entries(m, call, x);
    if (x[0] == NULL && x[1] == NULL)
        return;
    uint64_t ago = rec->total_us > rec->ttft_us ? (uint64_t)(rec->total_us - rec->ttft_us) : 0;
    struct warmth w = {link->target_id, clipped(held_tokens(link, &rec->tokens)),
                       (now_us > ago ? now_us - ago : 0) + ttl_us(ttl_s)};
    warm(x, &w);
    for (int i = 0; i < 2; i++)
        if (x[i] != NULL)
            x[i]->n_output = clipped(rec->tokens.output);
}

/* ---- going back ---- */

/* Pico-dollars of a request with n_warm of its n tokens in the cache; is_write: the others are written to it. */
static double cost_of(const struct price_tier *t, const struct cache_rates *r, double n, double n_warm, double n_out,
                      bool is_write)
{
    double in = (double)t->input;
    return in * ((n - n_warm) * (is_write ? r->write : 1.0) + n_warm * r->read) + (double)t->output * n_out;
}

struct side {
    struct price_tier tier;
    struct cache_rates rates;
    double n_warm;
};

static bool side_of(const struct cache_memory *m, const struct cache_return_ask *ask, size_t place, struct side *out)
{
    const struct link_conf *l = ask->links[place];
    bool is_away = ask->registry != NULL &&
                   registry_until(ask->registry, l->target_id, l->provider->credential_id, ask->now_us) > ask->now_us;
    if (l->price == NULL || l->provider->is_off || is_away)
        return false;
    int64_t n = candidate_prompt_tokens(ask->call);
    out->tier = price_rates(l->price, n);
    out->rates = cache_rates_of(l, n, ask->ttl_s);
    out->n_warm = warmth_of(m, ask->call, l->target_id, ask->now_us);
    return out->tier.input > 0 && out->tier.output >= 0;
}

static double output_of(const struct cache_memory *m, const struct call *call)
{
    struct prefix *x[2];
    entries(m, call, x);
    uint32_t a = x[0] != NULL ? x[0]->n_output : 0, b = x[1] != NULL ? x[1]->n_output : 0;
    return a > b ? a : b;
}

/* How much less it costs to stay at `there` than to go home: this request, and n_more like it. */
static double gain(const struct cache_memory *m, const struct cache_return_ask *ask, const struct side *home,
                   const struct side *there)
{
    double n = (double)candidate_prompt_tokens(ask->call), n_out = output_of(m, ask->call);
    n = n > there->n_warm ? n : there->n_warm;
    n = n > home->n_warm ? n : home->n_warm;
    double n_more = reuses_of(m, ask->call, &(struct outage_span){.sure_us = ttl_us(ask->ttl_s)}, ask->ttl_s);
    double stay = (1 + n_more) * cost_of(&there->tier, &there->rates, n, there->n_warm, n_out, false);
    double back = cost_of(&home->tier, &home->rates, n, home->n_warm, n_out, true) +
                  n_more * cost_of(&home->tier, &home->rates, n, n, n_out, false);
    return back - stay;
}

size_t cache_stay(const struct cache_memory *m, const struct cache_return_ask *ask, char words[CACHE_WORDS])
{
    struct side home, there;
    size_t best = 0;
    double most = 0;
    words[0] = '\0';
    if (ask->n_links < 2 || !side_of(m, ask, 0, &home))
        return 0;
    for (size_t i = 1; i < ask->n_links; i++) {
        if (!side_of(m, ask, i, &there) || there.n_warm <= home.n_warm)
            continue;
        double g = gain(m, ask, &home, &there);
        if (g <= most)
            continue;
        most = g;
        best = i;
        snprintf(words, CACHE_WORDS, "stays: %.0f tokens are warm here, %.0f at the first link; saves $%.6f",
                 there.n_warm, home.n_warm, g / 1e12);
    }
    return best;
}

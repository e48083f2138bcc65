/* What the four settings of cache.standby cost in an outage of ten seconds and in one of ten minutes, for different
 * traffic: the real rule over seeded arrivals. Prices and sizes are those of the comparison in docs/cache.md: a prefix
 * of 15,000 tokens, 2,000 more in, 500 out, a standby at 2 / 0.2 / 2.5 / 10 USD per million tokens (input, read, write,
 * output). The bill is that of the requests which the standby served, and no others: a longer view would only dilute
 * it.
 *
 * The law under test: expected_value costs at most 5 % more than the better of never and always, in either outage: for
 * traffic of mixed rhythms, and for conversations that all come on one steady clock, whatever its period. The clocks
 * are the hardest: chance evens nothing out. A breaker makes the outage longer than it is and hides how it goes on;
 * with it the same law holds.
 *
 * No rule keeps that law for every length: one that keeps it for a clock of ten seconds in an outage of ten (so may
 * write for a quarter of them at most) pays a quarter too much in one of twenty. What the lengths between cost is
 * printed, and bounded. */
#include "unit.h"

#include "base/rng.h"
#include "plan/cache.h"
#include "price/price.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define S UINT64_C(1000000)

enum {
    ARRIVALS_MAX = 200000,
    KEYS_MAX = 20000,
    WARM_UP_S = 900,
    BREAKER_S = 90, /* a breaker may keep a target closed for longer than it was away */
    CLOCKS = 600,
    PREFIX = 15000,
    TAIL = 2000,
    OUTPUT = 500,
    N_POLICIES = 4,
    PAST_MAX = 8
};

struct arrival {
    uint64_t at_us, key;
};
struct traffic {
    struct arrival v[ARRIVALS_MAX];
    size_t n;
    uint64_t from_us, end_us, n_keys; /* the outage begins */
    struct rng rng;
};
static struct traffic traffic; /* large */

static const struct price standby_price = {
    .input = 2000000, .output = 10000000, .cache_read = 200000, .cache_write_5m = 2500000, .cache_write_1h = 4000000};
static const struct breaker_conf breaker = {.failures = 5,
                                            .ratio_permille = 500,
                                            .ratio_min = 10,
                                            .window_ms = 30000,
                                            .cooldown_ms = 5000,
                                            .cooldown_max_ms = 60000};
static const struct provider_conf pa = {.name = "primary", .dialect = "openai"},
                                  pb = {.name = "standby", .dialect = "anthropic"};
static struct link_conf links[2] = {
    {.provider = &pa, .model = "p", .target_id = 1},
    {.provider = &pb, .model = "s", .target_id = 2, .index = 1, .price = &standby_price}};

/* ---- traffic ---- */

static double chance(void)
{
    return (double)(rng_next(&traffic.rng) >> 11) / 9007199254740992.0;
}

static double waited(double mean_s)
{
    return -log(1 - chance()) * mean_s;
}

static void arrive(double at_s, uint64_t key)
{
    uint64_t at = (uint64_t)(at_s * 1e6);
    if (at >= traffic.end_us)
        return;
    assert_true(traffic.n < ARRIVALS_MAX);
    traffic.v[traffic.n++] = (struct arrival){at + 1, key};
}

/* Conversations that begin `rate` times a second and go on with chance `again`, gap_s from turn to turn. */
static void talks(double rate, double gap_s, double again)
{
    for (double t = waited(1 / rate); t * 1e6 < (double)traffic.end_us; t += waited(1 / rate)) {
        uint64_t key = ++traffic.n_keys;
        double at = t;
        arrive(at, key);
        while (chance() < again) {
            at += gap_s * (0.3 + 1.4 * chance());
            arrive(at, key);
        }
    }
}

/* n system prompts shared by all: the i-th is asked 1/i as often as the first. */
static void shared(double rate, unsigned n)
{
    double sum = 0;
    uint64_t first = traffic.n_keys + 1;
    traffic.n_keys += n;
    for (unsigned i = 1; i <= n; i++)
        sum += 1.0 / i;
    for (double t = waited(1 / rate); t * 1e6 < (double)traffic.end_us; t += waited(1 / rate)) {
        double left = chance() * sum;
        unsigned i = 1;
        for (; i < n && left > 1.0 / i; i++)
            left -= 1.0 / i;
        arrive(t, first + i - 1);
    }
}

static void clocks(double period_s, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint64_t key = ++traffic.n_keys;
        for (double t = chance() * period_s; t * 1e6 < (double)traffic.end_us; t += period_s * (0.9 + 0.2 * chance()))
            arrive(t, key);
    }
}

static void agents(void)
{
    talks(1.0, 4, 0.95);
}
static void chats(void)
{
    talks(5, 30, 0.8);
}
static void slow_chats(void)
{
    talks(5, 80, 0.7);
}
static void once(void)
{
    talks(8, 1, 0);
}
static void system_prompts(void)
{
    shared(8, 200);
}
static void mixture(void)
{
    talks(0.5, 4, 0.95);
    talks(3, 30, 0.8);
    talks(4, 1, 0);
    shared(3, 100);
}
static void clock_15s(void)
{
    clocks(15, 300);
}
static void clock_60s(void)
{
    clocks(60, 600);
}
static void clock_120s(void)
{
    clocks(120, 600);
}

/* Exactly, and spread evenly over the period. */
static void steady(double period_s, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint64_t key = ++traffic.n_keys;
        for (double t = (i + 0.5) * period_s / n; t * 1e6 < (double)traffic.end_us; t += period_s)
            arrive(t, key);
    }
}

static int by_time(const void *a, const void *b)
{
    const struct arrival *x = a, *y = b;
    return x->at_us != y->at_us ? (x->at_us < y->at_us ? -1 : 1) : (x->key > y->key) - (x->key < y->key);
}

struct scene {
    const char *name;
    void (*make)(void); /* NULL = clocks of this period */
    double period_s;
    uint64_t length_s, seed;
    const uint64_t *past_s;
    size_t n_past;
    bool has_breaker;
};

static void make_traffic(const struct scene *s)
{
    double known_s = 5 * s->period_s; /* a rhythm is known after five times */
    traffic.n = 0;
    traffic.n_keys = 0;
    traffic.from_us = (uint64_t)(known_s > WARM_UP_S ? known_s : WARM_UP_S) * S;
    traffic.end_us = traffic.from_us + (s->length_s + (s->has_breaker ? BREAKER_S : 0)) * S;
    traffic.rng = (struct rng){.state = s->seed};
    if (s->make != NULL)
        s->make();
    else
        steady(s->period_s, s->period_s < 20 ? CLOCKS / 10 : CLOCKS);
    assert_true(traffic.n_keys < KEYS_MAX);
    qsort(traffic.v, traffic.n, sizeof traffic.v[0], by_time);
}

/* ---- the world ---- */

struct world {
    struct cache_memory *memory;
    struct registry *registry; /* NULL = no breaker */
    struct rng rng;            /* of its cooldowns */
    struct route_conf route;
    uint64_t warm_until_us[KEYS_MAX]; /* the provider's cache, as it is and not as it is believed to be */
    int64_t bill_nusd;                /* of what the standby served */
    uint64_t n_served;
};

static struct world w;

/* The provider's own cache decides what is billed, by what was really sent. */
static void serve_on_standby(const struct call *call, enum outcome first, uint64_t now)
{
    struct attempt_record tries[2] = {{.n = 1, .link = 0, .outcome = first, .is_started = true},
                                      {.n = 2, .link = 1, .outcome = OUTCOME_NONE, .is_started = true}};
    struct request_record trail = {.attempts = tries, .n_attempts = 2};
    struct cache_ask ask = {.call = call,
                            .route = &w.route,
                            .link = &links[1],
                            .trail = &trail,
                            .n = 2,
                            .ttl_s = 300,
                            .registry = w.registry,
                            .now_us = now};
    bool is_marked = !cache_judge(w.memory, &ask).is_withheld;
    bool is_warm = w.warm_until_us[call->prefix_hash] > now;
    struct usage u = {.input = PREFIX + TAIL, .output = OUTPUT};
    if (is_marked)
        u = (struct usage){.input = TAIL,
                           .cache_read = is_warm ? PREFIX : 0,
                           .cache_write_5m = is_warm ? 0 : PREFIX,
                           .output = OUTPUT};
    if (is_marked)
        w.warm_until_us[call->prefix_hash] = now + 300 * S;
    w.bill_nusd += price_cost(&standby_price, &u);
    w.n_served++;
    tries[1] =
        (struct attempt_record){.n = 2, .tokens_from = TOKENS_REPORTED, .tokens = u, .ttft_us = 0, .total_us = 0};
    cache_served(w.memory, call, &links[1], is_marked, 300, now);
    cache_learn(w.memory, call, &links[1], &tries[1], 300, now);
}

/* How the first link fails; OUTCOME_OK = it serves. */
static enum outcome ask_primary(bool is_away, uint64_t now)
{
    struct trial trial = {0};
    if (w.registry == NULL)
        return is_away ? OUTCOME_SERVER_ERROR : OUTCOME_OK;
    if (registry_pass(w.registry, links[0].target_id, 0, now, &trial) == PASS_NO)
        return OUTCOME_SKIPPED_OPEN;
    if (is_away)
        registry_bad(w.registry, links[0].target_id, now, false, &breaker, &w.rng, &trial);
    else
        registry_good(w.registry, links[0].target_id, 0, now, &trial);
    return is_away ? OUTCOME_SERVER_ERROR : OUTCOME_OK;
}

static void play(const struct scene *s)
{
    for (size_t i = 0; i < traffic.n; i++) {
        const struct arrival *a = &traffic.v[i];
        struct call call = {.prefix_hash = a->key, .talk_hash = a->key, .prompt_bytes = 4 * (PREFIX + TAIL)};
        bool is_away = a->at_us >= traffic.from_us && a->at_us < traffic.from_us + s->length_s * S;
        cache_see(w.memory, &call, 300, a->at_us);
        enum outcome first = ask_primary(is_away, a->at_us);
        if (first != OUTCOME_OK)
            serve_on_standby(&call, first, a->at_us);
        else
            cache_served(w.memory, &call, &links[0], true, 300, a->at_us);
    }
}

/* Leaves its bill in `w`. */
static void run(enum cache_standby standby, const struct scene *s)
{
    uint16_t id;
    w = (struct world){.memory = cache_memory_new(), .route = {.links = links, .n_links = 2}, .rng = {.state = 5}};
    w.route.cache = (struct cache_conf){.standby = standby, .sustained_after_ms = 60000};
    if (s->has_breaker) {
        w.registry = registry_new();
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(registry_intern_target(w.registry, links[i].provider->name, "h", links[i].model, &id),
                             ERR_OK);
            links[i].target_id = id;
        }
        assert_int_equal(registry_intern_credential(w.registry, "primary", 1, &id), ERR_OK);
    }
    for (size_t i = 0; i < s->n_past; i++)
        outages_remember(&w.memory->outages, links[0].target_id, s->past_s[i] * S, 1);
    play(s);
    registry_free(w.registry);
    cache_memory_free(w.memory);
}

/* How much dearer expected_value is than the better of never and always; all four bills are printed. */
static double compare(const struct scene *s)
{
    double usd[N_POLICIES];
    char name[40];
    make_traffic(s);
    for (unsigned p = 0; p < N_POLICIES; p++) {
        run((enum cache_standby)p, s);
        usd[p] = (double)w.bill_nusd / 1e9;
    }
    double never = usd[STANDBY_NEVER], always = usd[STANDBY_ALWAYS], better = never < always ? never : always;
    double over = better > 0 ? usd[STANDBY_EXPECTED_VALUE] / better - 1 : 0;
    snprintf(name, sizeof name, "clock %g s", s->period_s);
    printf("%5llu s%s  %-15s %6llu  never $%9.2f  expected_value $%9.2f  sustained $%9.2f  always $%9.2f  %+5.1f %%\n",
           (unsigned long long)s->length_s, s->has_breaker ? " (breaker)" : "", s->name != NULL ? s->name : name,
           (unsigned long long)w.n_served, never, usd[STANDBY_EXPECTED_VALUE], usd[STANDBY_SUSTAINED], always,
           100 * over);
    return over;
}

/* ---- the law ---- */

static const struct {
    const char *name;
    void (*make)(void);
} rows[] = {
    {"agents", agents},
    {"chats", chats},
    {"slow chats", slow_chats},
    {"never again", once},
    {"system prompts", system_prompts},
    {"mixture", mixture},
    {"clock 15 s", clock_15s},
    {"clock 60 s", clock_60s},
    {"clock 120 s", clock_120s},
};
#define N_MIXED 6 /* of them; the others are clocks */
static const uint64_t lengths[] = {10, 600};
static const double periods[] = {1,  2,  3,  4,  5,   6,   7,   8,   9,   10,  11,  12,  15,   20,
                                 30, 45, 60, 90, 120, 149, 151, 200, 250, 299, 310, 600, 1800, 7200};
#define LAW 0.05

static void test_bills_of_two_outages(void **state)
{
    int n_bad = 0;
    for (size_t k = 0; k < 2 * RM_COUNTOF(lengths); k++)
        for (size_t i = 0; i < RM_COUNTOF(rows); i++)
            for (uint64_t seed = 1; seed <= (k % 2 == 0 ? 3 : 1); seed++) {
                struct scene s = {rows[i].name, rows[i].make, 0, lengths[k / 2], seed, NULL, 0, k % 2 == 1};
                n_bad += compare(&s) > LAW;
                assert_true(w.n_served > 40);
            }
    assert_int_equal(n_bad, 0);
}

static void test_steady_clocks(void **state)
{
    int n_bad = 0;
    for (size_t k = 0; k < 2 * RM_COUNTOF(lengths); k++)
        for (size_t i = 0; i < RM_COUNTOF(periods); i++) {
            struct scene s = {NULL, NULL, periods[i], lengths[k / 2], 1, NULL, 0, k % 2 == 1};
            n_bad += compare(&s) > LAW;
            assert_true(w.n_served > 0);
        }
    assert_int_equal(n_bad, 0);
}

/* What the law does not speak of. */
static void test_lengths_between(void **state)
{
    static const uint64_t others[] = {3, 20, 30, 60, 120, 300};
    static const double hard[] = {10, 12, 15, 20};
    int n_bad = 0;
    for (size_t k = 0; k < RM_COUNTOF(others); k++) {
        for (size_t i = 0; i < N_MIXED; i++) {
            struct scene s = {rows[i].name, rows[i].make, 0, others[k], 1, NULL, 0, false};
            n_bad += compare(&s) > 0.13;
        }
        for (size_t i = 0; i < RM_COUNTOF(hard); i++) {
            struct scene s = {NULL, NULL, hard[i], others[k], 1, NULL, 0, false};
            n_bad += compare(&s) > 0.40;
        }
    }
    assert_int_equal(n_bad, 0);
}

/* A target that is known for short outages, and one that is known for long ones. */
static void test_bills_with_a_past(void **state)
{
    static const uint64_t brief[PAST_MAX] = {2, 8, 3, 1, 12, 5, 9, 4},
                          grave[PAST_MAX] = {300, 900, 420, 1500, 610, 240, 3600, 700};
    int n_bad = 0;
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct scene s = {rows[i].name, rows[i].make, 0, 10, 1, brief, PAST_MAX, false};
        n_bad += compare(&s) > LAW;
        s.length_s = 600;
        s.past_s = grave;
        n_bad += compare(&s) > LAW;
    }
    assert_int_equal(n_bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bills_of_two_outages),
                                       cmocka_unit_test(test_steady_clocks), cmocka_unit_test(test_lengths_between),
                                       cmocka_unit_test(test_bills_with_a_past)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The numbers here are computed by hand from the rule in plan/cache.c and the law in plan/outage.c,
 * 0.994 exp(-(x / 10)^4) + 0.006 (1 + x / 120)^-0.5: 0.371437 for 10 s, 0.005555 for 20 s, 0.005367 for 30 s. */
#include "unit.h"

#include "plan/cache.h"

#include <math.h>
#include <string.h>

#define S UINT64_C(1000000)

static struct price dear = {.input = 5000000,
                            .output = 30000000,
                            .cache_read = 500000,
                            .cache_write_5m = 6250000,
                            .cache_write_1h = -1},
                    cheap = {.input = 2000000,
                             .output = 10000000,
                             .cache_read = 200000,
                             .cache_write_5m = 2500000,
                             .cache_write_1h = 4000000};
static struct provider_conf pa = {.name = "pa", .dialect = "openai"}, pb = {.name = "pb", .dialect = "anthropic"};
static struct link_conf links[2];
static struct route_conf route;
static struct call call;
static struct attempt_record tries[2];
static struct request_record trail;
static struct cache_memory *memory;

static int setup(void **state)
{
    links[0] = (struct link_conf){.provider = &pa, .model = "m", .price = &dear, .target_id = 3};
    links[1] = (struct link_conf){.provider = &pb, .model = "n", .price = &cheap, .target_id = 4, .index = 1};
    route = (struct route_conf){.links = links, .n_links = 2};
    route.cache = (struct cache_conf){.standby = STANDBY_EXPECTED_VALUE, .sustained_after_ms = 60000};
    call = (struct call){.prefix_hash = 77, .talk_hash = 78, .prompt_bytes = 68000};
    tries[0] = (struct attempt_record){.n = 1, .link = 0, .outcome = OUTCOME_SERVER_ERROR, .is_started = true};
    tries[1] = (struct attempt_record){.n = 2, .link = 1, .outcome = OUTCOME_NONE, .is_started = true};
    trail = (struct request_record){.attempts = tries, .n_attempts = 2};
    memory = cache_memory_new();
    return 0;
}

static int teardown(void **state)
{
    cache_memory_free(memory);
    return 0;
}

static void assert_near(double got, double want)
{
    if (fabs(got - want) > 1e-4)
        fail_msg("%.6f, expected %.6f", got, want);
}

static struct cache_verdict judged(uint64_t now_us)
{
    struct cache_ask ask = {
        .call = &call, .route = &route, .link = &links[1], .trail = &trail, .n = 2, .ttl_s = 300, .now_us = now_us};
    return cache_judge(memory, &ask);
}

static void test_break_even(void **state)
{
    assert_near(cache_break_even((struct cache_rates){.read = 0.1, .write = 1.25}), 0.277778);
    assert_near(cache_break_even((struct cache_rates){.read = 0.1, .write = 2.0}), 1.111111);
    assert_near(cache_break_even((struct cache_rates){.read = 0.5, .write = 1.0}), 0);
    assert_true(isinf(cache_break_even((struct cache_rates){.read = 1.0, .write = 1.25})));
}

static void test_rates(void **state)
{
    struct cache_rates r = cache_rates_of(&links[1], 1000, 300);
    assert_near(r.read, 0.1);
    assert_near(r.write, 1.25);
    assert_near(cache_rates_of(&links[1], 1000, 3600).write, 2.0);
    assert_near(cache_rates_of(&links[0], 1000, 3600).write, 1.0); /* not told: as input */
    links[0].price = links[1].price = NULL;
    assert_near(cache_rates_of(&links[1], 1000, 300).write, 1.25);
    assert_near(cache_rates_of(&links[0], 1000, 300).write, 1.0);
    assert_near(cache_rates_of(&links[0], 1000, 300).read, 0.1);
}

static void test_survival(void **state)
{
    struct outages o = {0};
    assert_near(outage_survival(NULL, 0, 10 * S), 0.371437);
    assert_near(outage_survival(NULL, 10 * S, 20 * S), 0.005555 / 0.371437);
    assert_near(outage_survival(NULL, 10 * S, 10 * S), 1);
    outages_remember(&o, 3, 15 * S, S);
    outages_remember(&o, 3, 100 * S, S);
    const struct outage *out = outages_find(&o, 3);
    assert_near(outage_survival(out, 0, 10 * S), (2 + 3 * 0.371437) / 5);
    assert_near(outage_survival(out, 0, 20 * S), (1 + 3 * 0.005555) / 5);
    assert_near(outage_survival(out, 200 * S, 401 * S), pow(521.0 / 320.0, -0.5)); /* longer than any */
}

static struct outage_span span_at(const struct outages *o, uint64_t now_us)
{
    return outage_span(outages_find(o, 3), now_us, 0);
}

static void test_outages(void **state)
{
    struct outages o = {0};
    assert_null(outages_find(&o, 3));
    outages_good(&o, 3, S);
    assert_null(outages_find(&o, 3)); /* a healthy target takes no place */
    outages_bad(&o, 3, 10 * S);
    outages_bad(&o, 3, 15 * S);
    const struct outage *out = outages_find(&o, 3);
    assert_int_equal(span_at(&o, 16 * S).age_us, 6 * S);
    assert_int_equal(span_at(&o, 16 * S).known_us, 5 * S);
    outages_good(&o, 3, 20 * S);
    assert_int_equal(span_at(&o, 21 * S).age_us, 0);
    assert_int_equal(span_at(&o, 21 * S).known_us, 0);
    outages_bad(&o, 3, 21 * S); /* it had not recovered */
    assert_int_equal(span_at(&o, 22 * S).age_us, 12 * S);
    assert_int_equal(out->n_past, 0);
    outages_good(&o, 3, 25 * S);
    outages_bad(&o, 3, 90 * S);
    assert_int_equal(out->n_past, 1);
    assert_int_equal(out->past_ms[0], 15000);
    assert_int_equal(span_at(&o, 90 * S).age_us, 0);
}

/* A target that nobody asks tells nothing; that it is closed anew tells that somebody asked, here or on another core.
 */
static void test_what_is_closed_tells_nothing(void **state)
{
    struct outages o = {0};
    outages_bad(&o, 3, 100 * S);
    outages_shut(&o, 3, 101 * S, 106 * S);
    outages_shut(&o, 3, 105 * S, 106 * S);
    struct outage_span s = outage_span(outages_find(&o, 3), 105 * S, 106 * S);
    assert_true(s.age_us == 5 * S && s.known_us == 0 && s.sure_us == S);
    assert_near(outage_lasts(&s, S), 1);            /* it is not asked before */
    assert_near(outage_lasts(&s, 5 * S), 0.371437); /* 10 s in all */
    outages_shut(&o, 3, 108 * S, 116 * S);          /* it was asked at 106 s, and failed */
    s = outage_span(outages_find(&o, 3), 110 * S, 116 * S);
    assert_true(s.age_us == 10 * S && s.known_us == 6 * S && s.sure_us == 6 * S);
    outages_shut(&o, 3, 111 * S, 130 * S); /* longer, but before anybody could ask: it said so itself */
    assert_int_equal(span_at(&o, 111 * S).known_us, 6 * S);
    outages_shut(&o, 3, 112 * S, 0); /* under trial: nothing new */
    outages_bad(&o, 3, 131 * S);
    assert_int_equal(span_at(&o, 132 * S).known_us, 31 * S);
    outages_good(&o, 3, 140 * S);
    outages_shut(&o, 3, 300 * S, 305 * S); /* another one, which other cores saw begin */
    s = span_at(&o, 301 * S);
    assert_true(s.age_us == S && s.known_us == 0);
}

/* The same through the registry's words: while its trial is under way nothing is known of a target. */
static void test_a_trial_tells_when_it_is_over(void **state)
{
    static const struct breaker_conf breaker = {.failures = 5, .cooldown_ms = 5000, .cooldown_max_ms = 60000};
    struct registry *reg = registry_new();
    struct rng rng = {.state = 1};
    struct trial trial = {0};
    assert_int_equal(registry_intern_target(reg, "pa", "h", "m", &links[0].target_id), ERR_OK);
    for (int i = 0; i < 5; i++)
        registry_bad(reg, links[0].target_id, 100 * S, false, &breaker, &rng, &trial);
    struct cache_ask ask = {.call = &call,
                            .route = &route,
                            .link = &links[1],
                            .trail = &trail,
                            .n = 2,
                            .ttl_s = 300,
                            .registry = reg,
                            .now_us = 100 * S};
    uint64_t until = registry_until(reg, links[0].target_id, 0, 100 * S);
    (void)cache_judge(memory, &ask); /* the one that failed */
    tries[0].outcome = OUTCOME_SKIPPED_OPEN;
    ask.now_us = until - 1;
    (void)cache_judge(memory, &ask);
    assert_int_equal(registry_pass(reg, links[0].target_id, 0, until, &trial), PASS_TRIAL);
    const struct outage *o = outages_find(&memory->outages, links[0].target_id);
    for (uint64_t later = 0; later < 4; later++) {
        ask.now_us = until + later * S;
        (void)cache_judge(memory, &ask);
        assert_int_equal(outage_span(o, ask.now_us, 0).known_us, 0);
    }
    registry_bad(reg, links[0].target_id, until + 4 * S, false, &breaker, &rng, &trial);
    ask.now_us = until + 5 * S;
    (void)cache_judge(memory, &ask);
    assert_int_equal(outage_span(o, ask.now_us, 0).known_us, until - 100 * S);
    registry_free(reg);
}

static void test_outages_are_bounded(void **state)
{
    struct outages o = {0};
    for (uint64_t i = 0; i < 1000; i++)
        outages_bad(&o, (uint16_t)i, i * S + 1);
    assert_int_equal(o.n, OUTAGE_TARGETS);
    assert_null(outages_find(&o, 1000 - OUTAGE_TARGETS - 1));
    assert_non_null(outages_find(&o, 1000 - OUTAGE_TARGETS));
    for (uint64_t i = 0; i < 100; i++)
        outages_remember(&o, 999, (i + 1) * S, 1000 * S);
    assert_int_equal(outages_find(&o, 999)->n_past, OUTAGE_PAST);
    assert_int_equal(outages_find(&o, 999)->past_ms[0], 85000);
}

static void test_reuses(void **state)
{
    struct rhythm sure = {.gap_us = 10.0 * S, .again = 1}, half = {.gap_us = 10.0 * S, .again = 0.5};
    struct outages o = {0};
    struct outage_span none = {0}, shut = {.sure_us = 20 * S}, hour = {.sure_us = 3600 * S};
    assert_near(cache_reuses(&none, sure, 30 * S), 0.371437 + 0.005555 + 0.005367);
    assert_near(cache_reuses(&none, sure, 9 * S), 0); /* it comes too late for the cache */
    assert_near(cache_reuses(&none, half, 30 * S), 0.371437 / 2 + 0.005555 / 4 + 0.005367 / 8);
    assert_near(cache_reuses(&shut, sure, 30 * S), 2 + 0.005367); /* closed until 20 s from now */
    outages_remember(&o, 3, 15 * S, S);
    outages_remember(&o, 3, 100 * S, S);
    struct outage_span known = {.outage = outages_find(&o, 3)};
    assert_near(cache_reuses(&known, sure, 30 * S),
                (2 + 3 * 0.371437) / 5 + (1 + 3 * 0.005555) / 5 + (1 + 3 * 0.005367) / 5);
    /* without an outage: a + a^2 + … + a^30, in groups of one, two, four … */
    struct rhythm often = {.gap_us = 10.0 * S, .again = 0.9};
    assert_near(cache_reuses(&hour, often, 300 * S), 0.9 * (1 - pow(0.9, 30)) / 0.1);
    struct rhythm storm = {.gap_us = 0, .again = 1};
    assert_true(cache_reuses(&hour, storm, 3600 * S) >= 1e9); /* and ends at once */
}

static void test_rhythm(void **state)
{
    struct prefixes *p = prefixes_new();
    prefixes_see(p, 7, 300 * S, 100 * S); /* new: 3, came again: 1 */
    struct rhythm r = prefixes_rhythm(p, prefixes_find(p, 7));
    assert_near(r.again, 1.0 / 3);
    assert_near(r.gap_us / S, 60);
    prefixes_see(p, 7, 300 * S, 110 * S); /* 3 and 2: (1 + 2 * 2/3) / 3 */
    prefixes_see(p, 7, 300 * S, 124 * S); /* gap 10 + (14 - 10) / 4; (2 + 4/3) / 4 */
    r = prefixes_rhythm(p, prefixes_find(p, 7));
    assert_near(r.again, (2 + 4.0 / 3) / 4);
    assert_near(r.gap_us / S, 11);
    prefixes_see(p, 7, 300 * S, 1000 * S); /* too late: 1 + (3 - 1) / 2 arrivals are left */
    assert_int_equal(prefixes_find(p, 7)->n, 2);
    prefixes_see(p, 0, 300 * S, 1000 * S);
    assert_null(prefixes_find(p, 0));
    for (uint64_t key = 1000; key < 5000; key++) /* none comes again: nobody is expected to */
        prefixes_see(p, key, 300 * S, 1001 * S);
    assert_true(prefixes_rhythm(p, NULL).again < 0.001);
    prefixes_free(p);
}

static void test_table_is_bounded(void **state)
{
    struct prefixes *p = prefixes_new();
    uint64_t n_kept = 0;
    for (uint64_t key = 1; key <= 100000; key++)
        prefixes_see(p, key * 0x9e3779b97f4a7c15ULL, 300 * S, key);
    for (uint64_t key = 1; key <= 100000; key++)
        n_kept += prefixes_find(p, key * 0x9e3779b97f4a7c15ULL) != NULL;
    assert_in_range(n_kept, PREFIX_BUCKETS, PREFIX_BUCKETS * PREFIX_WAYS);
    assert_non_null(prefixes_find(p, 100000 * 0x9e3779b97f4a7c15ULL));
    prefixes_free(p);
}

/* First seen at its failover: comes again by 1/3, then 1/9 …, every 60 s. After 14 s in all such an outage lasts
 * with 0.1747, 0.1527 … for so long: 0.05824 + 0.01697 + 0.00509 + 0.00155 + 0.00048. */
static void test_expected_value(void **state)
{
    outages_bad(&memory->outages, 3, S);
    cache_see(memory, &(struct call){.prefix_hash = 77}, 300, 15 * S);
    struct cache_verdict v = judged(15 * S);
    assert_true(v.is_failover && v.is_withheld);
    assert_near(v.expected, 0.082327);
    assert_near(v.break_even, 0.277778);
    assert_string_equal(v.words, "cache write withheld: 0.082 expected reuses, break-even 0.28");
    v = judged(601 * S);
    assert_true(v.is_failover && !v.is_withheld);
    assert_string_equal(v.words, "cache write pays: 0.47 expected reuses, break-even 0.28");
}

static void test_a_busy_prefix_is_written_at_once(void **state)
{
    for (uint64_t i = 0; i < 20; i++)
        cache_see(memory, &call, 300, (100 + i) * S);
    struct cache_verdict v = judged(119 * S);
    assert_true(v.is_failover && !v.is_withheld && v.expected > 0.3);
}

static void test_an_hour_costs_more(void **state)
{
    for (uint64_t i = 0; i < 4; i++)
        cache_see(memory, &call, 3600, (100 + 9 * i) * S);
    struct cache_ask ask = {
        .call = &call, .route = &route, .link = &links[1], .trail = &trail, .n = 2, .now_us = 127 * S};
    ask.ttl_s = 300;
    assert_false(cache_judge(memory, &ask).is_withheld);
    ask.ttl_s = 3600;
    struct cache_verdict v = cache_judge(memory, &ask);
    assert_true(v.is_withheld);
    assert_near(v.break_even, 1.111111);
}

static void test_the_other_settings(void **state)
{
    cache_see(memory, &call, 300, S);
    route.cache.standby = STANDBY_NEVER;
    assert_true(judged(S).is_withheld);
    route.cache.standby = STANDBY_ALWAYS;
    assert_false(judged(S).is_withheld);
    route.cache.standby = STANDBY_SUSTAINED;
    struct cache_verdict v = judged(60 * S);
    assert_true(v.is_withheld);
    assert_string_equal(v.words, "cache write withheld: away for 59000 ms, sustained after 60000");
    assert_false(judged(61 * S).is_withheld);
}

static void test_who_is_no_failover(void **state)
{
    cache_see(memory, &call, 300, S);
    tries[0].outcome = OUTCOME_SKIPPED_INCAPABLE; /* it never was the one to ask */
    assert_false(judged(S).is_failover);
    tries[0].outcome = OUTCOME_CONTEXT_LENGTH;
    assert_false(judged(S).is_failover);
    tries[0].outcome = OUTCOME_SKIPPED_OPEN;
    assert_true(judged(S).is_withheld);
    tries[0].link = 1; /* a retry of the same target */
    assert_false(judged(S).is_failover);
    tries[0] = (struct attempt_record){.n = 1, .link = 9, .outcome = OUTCOME_SERVER_ERROR}; /* no such link */
    assert_false(judged(S).is_failover);
    trail.n_attempts = 0;
    assert_false(judged(S).is_failover);
}

static void test_chat_targets_are_left_alone(void **state)
{
    cache_see(memory, &call, 300, S);
    links[1].provider = &pa;
    struct cache_verdict v = judged(S);
    assert_true(v.is_failover && !v.is_withheld && v.words[0] == '\0');
}

static void test_a_hedge_writes_nothing(void **state)
{
    for (uint64_t i = 0; i < 20; i++)
        cache_see(memory, &call, 300, (100 + i) * S);
    tries[0].outcome = OUTCOME_NONE; /* still out */
    tries[1].kind = ATTEMPT_HEDGE;
    struct cache_verdict v = judged(119 * S);
    assert_true(v.is_withheld);
    assert_string_equal(v.words, "cache write withheld: a hedge");
    route.cache.standby = STANDBY_ALWAYS;
    assert_false(judged(119 * S).is_withheld);
}

static struct attempt_record answered(int64_t input, int64_t read, int64_t write)
{
    return (struct attempt_record){
        .outcome = OUTCOME_OK,
        .tokens_from = TOKENS_REPORTED,
        .tokens = {.input = input, .cache_read = read, .cache_write_5m = write, .output = 500},
        .ttft_us = 0,
        .total_us = 2 * (int64_t)S};
}

static void test_a_warm_standby_is_read(void **state)
{
    cache_see(memory, &call, 300, S);
    assert_true(judged(S).is_withheld);
    cache_served(memory, &call, &links[1], true, 300, 2 * S); /* some other policy wrote it */
    assert_false(judged(3 * S).is_withheld);
    struct attempt_record rec = answered(2000, 0, 15000);
    cache_learn(memory, &call, &links[1], &rec, 300, 4 * S);
    struct cache_verdict v = judged(5 * S);
    assert_false(v.is_withheld);
    assert_string_equal(v.words, "cache hint sent: 15000 tokens are warm there");
    struct call turn = {.prefix_hash = 99, .talk_hash = 78};
    cache_see(memory, &turn, 300, 6 * S); /* the next turn of the conversation finds it */
    call = turn;
    assert_false(judged(6 * S).is_withheld);
    assert_null(strstr(judged(302 * S).words, "warm")); /* 5 minutes after its first token, at 2 s */
}

static void test_too_small_to_be_cached(void **state)
{
    cache_see(memory, &call, 300, S);
    cache_served(memory, &call, &links[1], true, 300, 2 * S);
    struct attempt_record rec = answered(800, 0, 0); /* below the provider's least: the marker did nothing */
    cache_learn(memory, &call, &links[1], &rec, 300, 4 * S);
    assert_true(judged(5 * S).is_withheld);
}

static size_t stay_at(uint64_t now_us, char *words)
{
    const struct link_conf *in_order[] = {&links[0], &links[1]};
    struct cache_return_ask ask = {.call = &call, .links = in_order, .n_links = 2, .ttl_s = 300, .now_us = now_us};
    return cache_stay(memory, &ask, words);
}

/* The article's prices, 15,000 of 17,000 tokens warm at the standby, 500 out:
 *     stay   $0.012 a request          (2000 x 2 + 15000 x 0.2 + 500 x 10) / 1e6
 *     back   $0.100 first, then $0.0235 */
static void test_return_by_value(void **state)
{
    char words[CACHE_WORDS];
    cache_see(memory, &call, 300, S);
    assert_int_equal(stay_at(S, words), 0); /* nothing is warm */
    struct attempt_record rec = answered(2000, 0, 15000);
    cache_learn(memory, &call, &links[1], &rec, 300, 3 * S);
    assert_int_equal(stay_at(4 * S, words), 1);
    assert_memory_equal(words, "stays: 15000 tokens are warm here, 0 at the first link; saves $0.", 65);
    assert_int_equal(stay_at(302 * S, words), 0); /* it has gone cold there */
    assert_string_equal(words, "");
    struct attempt_record home = answered(2000, 15000, 0);
    cache_learn(memory, &call, &links[0], &home, 300, 5 * S);
    assert_int_equal(stay_at(6 * S, words), 0); /* warm at home too */
}

static void test_going_back_pays_when_home_is_much_cheaper(void **state)
{
    char words[CACHE_WORDS];
    struct attempt_record rec = answered(2000, 0, 15000);
    links[0].price = &cheap;
    links[1].price = &dear;
    cache_see(memory, &call, 300, S);
    cache_learn(memory, &call, &links[1], &rec, 300, 3 * S);
    /* stay 0.0325, back 0.0475 at first and 0.0084 later: with one more request in sight, back */
    for (uint64_t i = 0; i < 20; i++)
        cache_see(memory, &call, 300, (4 + i) * S);
    assert_int_equal(stay_at(24 * S, words), 0);
    links[0].price = NULL; /* what cannot be weighed is gone back from */
    assert_int_equal(stay_at(24 * S, words), 0);
}

static void test_wanted(void **state)
{
    struct call c = {0};
    assert_int_equal(cache_wanted_s(&c, 0), 0);
    assert_int_equal(cache_wanted_s(&c, 300), 300);
    assert_int_equal(cache_wanted_s(&c, 301), 3600);
    c.has_cache_markers = true;
    assert_int_equal(cache_wanted_s(&c, 301), 300); /* the client's own go before the hint */
    c.has_long_marker = true;
    assert_int_equal(cache_wanted_s(&c, 0), 3600);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_break_even),
                                       TEST(test_rates),
                                       TEST(test_survival),
                                       TEST(test_outages),
                                       TEST(test_what_is_closed_tells_nothing),
                                       TEST(test_a_trial_tells_when_it_is_over),
                                       TEST(test_outages_are_bounded),
                                       TEST(test_reuses),
                                       TEST(test_rhythm),
                                       TEST(test_table_is_bounded),
                                       TEST(test_expected_value),
                                       TEST(test_a_busy_prefix_is_written_at_once),
                                       TEST(test_an_hour_costs_more),
                                       TEST(test_the_other_settings),
                                       TEST(test_who_is_no_failover),
                                       TEST(test_chat_targets_are_left_alone),
                                       TEST(test_a_hedge_writes_nothing),
                                       TEST(test_a_warm_standby_is_read),
                                       TEST(test_too_small_to_be_cached),
                                       TEST(test_return_by_value),
                                       TEST(test_going_back_pays_when_home_is_much_cheaper),
                                       TEST(test_wanted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

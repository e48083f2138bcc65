/* Budgets that set themselves: by hand where a rule is small, in the seeded world of latency_world.h where only the
 * long run tells. Time is a number here. */
#include "unit.h"

#include "latency_world.h"

#include <pthread.h>
#include <stdio.h>

static struct latency *lat;
static struct latency_core *core;
static struct auto_conf conf;
static uint64_t now;

static int setup(void **state)
{
    lat = latency_new(2);
    core = latency_core(lat, 0);
    conf = conf_default;
    now = HOUR;
    return 0;
}

static int teardown(void **state)
{
    latency_free(lat);
    return 0;
}

static const struct latency_key key0;

static struct latency_grant ask_on(struct latency_core *c, bool is_trial)
{
    struct latency_grant g;
    latency_grant(c, key0, &conf, is_trial, 0, now, &g);
    return g;
}

static struct latency_grant ask(void)
{
    return ask_on(core, false);
}

static void answer(uint64_t ms)
{
    struct latency_grant g = ask();
    now += SECOND;
    (void)latency_answered(&conf, &g, ms * 1000, -1, 0, now);
}

static void cut(void)
{
    struct latency_grant g = ask();
    now += SECOND;
    latency_cut(&conf, &g, g.us, -1, 7, now);
}

/* 100, 110, … 1090 ms over and over: the 99th percentile is 1080 ms. */
static void learn(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        answer(100 + 10 * (i * 37 % 100));
}

static struct latency_report report(void)
{
    struct latency_report r;
    assert_true(latency_report(lat, key0, &conf, now, &r));
    return r;
}

static void expect_between(double got, double lo, double hi)
{
    if (got < lo || got > hi) {
        print_error("got %f, expected %f to %f\n", got, lo, hi);
        fail();
    }
}

/* ---- by hand ---- */

static void test_keys(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *effort, *size_word, *effort_word;
    } rows[] = {{0, "", "1k", "none"},
                {4000, "low", "1k", "low"},
                {4001, "medium", "4k", "medium"},
                {16001, "none", "16k", "minimal"},
                {256000, "minimal", "64k", "minimal"},
                {256001, "high", "more", "high"},
                {UINT64_MAX, "max", "more", "max"},
                {1, "xhigh", "1k", "max"},
                {1, "\xff\x01", "1k", "max"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct call call = {.prompt_bytes = rows[i].bytes, .effort = bytes_of(rows[i].effort)};
        struct latency_key k = latency_key_of(3, &call);
        assert_int_equal(k.target_id, 3);
        assert_string_equal(latency_size_word(k.size), rows[i].size_word);
        assert_string_equal(latency_effort_word(k.effort), rows[i].effort_word);
    }
}

static void test_fallback_until_there_are_samples(void **state)
{
    struct latency_grant g = ask();
    assert_false(g.is_known);
    assert_int_equal(g.us, 15000000);
    learn(190);
    assert_false(ask().is_known);
    learn(110);
    g = ask();
    assert_true(g.is_known);
    expect_between((double)g.base_us, 1050000, 1150000);
}

static void test_floor_and_ceiling(void **state)
{
    learn(400);
    conf.min_ms = 2000;
    assert_int_equal(ask().base_us, 2000000);
    conf.min_ms = 300;
    conf.max_ms = 900;
    assert_int_equal(ask().base_us, 900000);
    for (int i = 0; i < 16; i++) /* watched ones too */
        assert_true(ask().us <= 900000);
    assert_int_equal(ask_on(core, true).us, 900000);
}

static void test_every_eighth_is_watched(void **state)
{
    unsigned n_watched = 0;
    learn(400);
    for (int i = 0; i < 800; i++) {
        struct latency_grant g = ask();
        n_watched += g.is_watch;
        assert_int_equal(g.us, g.is_watch ? g.base_us + g.base_us / 2 : g.base_us);
    }
    assert_int_equal(n_watched, 100);
    cut();
    cut();
    for (int i = 0; i < 20; i++) /* two in a row may be an outage: nobody is asked to wait longer */
        assert_false(ask().is_watch);
    answer(500);
    for (int i = 0; i < 8; i++)
        n_watched += ask().is_watch;
    assert_int_equal(n_watched, 101);
}

static void test_trials_are_given_more_and_more(void **state)
{
    learn(400);
    uint64_t base = ask().base_us, want = base;
    for (int i = 0; i < 5; i++)
        cut();
    base = ask().base_us;
    for (int i = 0; i < 8; i++) {
        struct latency_grant g = ask_on(core, true);
        want = (base << i) + (base << i) / 2;
        assert_true(g.is_trial);
        assert_int_equal(g.us, want < 30000000 ? want : 30000000);
        now += 60 * SECOND;
        latency_cut(&conf, &g, g.us, -1, 0, now);
    }
    answer(500); /* it is back: all is as it was */
    struct latency_grant g = ask_on(core, true);
    assert_int_equal(g.us, g.base_us + g.base_us / 2);
    assert_int_equal(report().counts.n_regimes, 0);
}

static void test_a_late_answer_is_told(void **state)
{
    learn(400);
    struct latency_grant g = ask();
    assert_false(latency_answered(&conf, &g, g.base_us, -1, 50, now));
    assert_true(latency_answered(&conf, &g, g.base_us + 1, -1, 50, now));
    assert_true(latency_answered(&conf, &g, 3 * g.base_us, -1, 60, now));
    struct latency_counts c = report().counts;
    assert_int_equal(c.n_late, 2);
    assert_int_equal(c.n_late_soon, 1);
    assert_int_equal(c.n_watched, 0); /* it was not given more: nobody stands for the cut ones here */
    assert_int_equal(c.late_nusd, 110);
}

static void test_what_is_counted_as_false(void **state)
{
    struct latency_counts c = {.n_cut = 100, .n_watched = 3, .n_moved = 50, .cut_nusd = 1000};
    struct latency_false f = latency_false(&c);
    assert_int_equal(f.n_trips, 21);
    assert_int_equal(f.n_downgrades, 11);
    assert_int_equal(f.cost_nusd, 210);
    c.n_watched = 90;
    assert_int_equal(latency_false(&c).n_trips, 100);
    assert_int_equal(latency_false(&(struct latency_counts){0}).n_trips, 0);
}

static void test_cold_starts(void **state)
{
    struct latency_grant g;
    learn(400);
    latency_grant(core, key0, &conf, false, 400000, now, &g);
    assert_false(g.is_cold);
    now += 56 * SECOND;
    latency_grant(core, key0, &conf, false, 400000, now, &g);
    assert_true(g.is_cold);
    assert_int_equal(g.us, g.base_us + 400000);
    assert_false(latency_answered(&conf, &g, g.base_us + 300000, 300000, 0, now));
    now += 56 * SECOND; /* the allowance is at most the budget itself */
    latency_grant(core, key0, &conf, false, 60 * SECOND, now, &g);
    assert_int_equal(g.us, 2 * g.base_us);
    assert_true(latency_answered(&conf, &g, g.base_us + 300000, -1, 0, now));
}

static void test_the_shadow_cuts_nothing(void **state)
{
    learn(400);
    conf.is_shadow = true;
    for (int i = 0; i < 32; i++) {
        struct latency_grant g = ask();
        assert_true(g.is_shadow && !g.is_watch);
    }
    unsigned n_late = 0;
    for (int i = 0; i < 20; i++) { /* slow ones are samples, whatever the weather: the budget follows them at once */
        struct latency_grant g = ask();
        now += SECOND;
        bool is_late = latency_answered(&conf, &g, 4000000, -1, 11, now);
        assert_true(is_late || i > 0);
        n_late += is_late;
    }
    struct latency_report r = report();
    assert_int_equal(r.counts.n_cut, 0);
    assert_int_equal(r.counts.n_late, n_late);
    assert_int_equal(r.counts.late_nusd, 11 * (int64_t)n_late);
    assert_int_equal(r.counts.n_regimes, 0);
    expect_between((double)r.p99_us, 3900000, 4100000);
    expect_between((double)r.budget_us, 3900000, 4200000);
}

static void test_who_leaves_says_only_longer_than(void **state)
{
    learn(400);
    uint64_t before = report().p50_us;
    for (int i = 0; i < 200; i++) {
        struct latency_grant g = ask();
        latency_left(&g, 20000, -1, now);
    }
    struct latency_report r = report();
    assert_int_equal(r.p50_us, before);
    assert_int_equal(r.counts.n_cut, 0);
    assert_false(r.is_still);
}

static void test_cores_share_what_they_know(void **state)
{
    struct latency_core *other = latency_core(lat, 1);
    learn(400);
    struct latency_grant g = ask_on(other, false);
    assert_true(g.is_known);
    expect_between((double)g.base_us, 1050000, 1150000);
    /* The other core sees a change of regime: five cuts, then two trials that come late. */
    for (int i = 0; i < 5; i++) {
        g = ask_on(other, false);
        latency_cut(&conf, &g, g.us, -1, 0, now += SECOND);
    }
    for (int i = 0; i < 2; i++) {
        g = ask_on(other, true);
        (void)latency_answered(&conf, &g, 3000000, -1, 0, now += SECOND);
    }
    assert_int_equal(report().counts.n_regimes, 1);
    assert_false(ask_on(other, false).is_known);
    assert_false(ask().is_known); /* the first core forgets as well */
    assert_int_equal(ask().us, 15000000);
}

static void test_quantiles_for_others(void **state)
{
    assert_int_equal(latency_quantile_us(core, key0, 950, 100, now), 0);
    learn(400);
    expect_between((double)latency_quantile_us(core, key0, 950, 100, now), 1010000, 1060000);
    expect_between((double)latency_quantile_us(core, key0, 500, 100, now), 570000, 610000);
    assert_int_equal(latency_quantile_us(core, key0, 950, 1000, now), 0);
}

static void test_keys_are_bounded(void **state)
{
    struct latency_grant g;
    for (unsigned i = 0; i < LATENCY_KEYS_MAX + 100; i++) {
        struct latency_key k = {
            .target_id = (uint16_t)(i / 30), .size = (uint8_t)(i % 5), .effort = (uint8_t)(i / 5 % 6)};
        latency_grant(core, k, &conf, false, 0, now, &g);
        assert_int_equal(g.base_us, 15000000);
        (void)latency_answered(&conf, &g, 1000, -1, 0, now);
        latency_cut(&conf, &g, 15000000, -1, 0, now);
        latency_left(&g, 1000, -1, now);
        latency_moved(core, k);
        struct latency_report r;
        assert_true(latency_report(lat, k, &conf, now, &r) == (i < LATENCY_KEYS_MAX));
    }
}

/* ---- over a restart ---- */

static struct registry *a_registry(void)
{
    uint16_t id;
    struct registry *r = registry_new();
    assert_int_equal(registry_intern_target(r, "p", "h:1", "m/x", &id), ERR_OK);
    assert_int_equal(id, 0);
    return r;
}

static void test_written_and_read_back(void **state)
{
    struct registry *r = a_registry(), *again = registry_new();
    struct buf text = {0};
    uint16_t other;
    learn(2000);
    for (int i = 0; i < 3; i++) { /* cuts are kept as cuts */
        cut();
        answer(300);
    }
    (void)ask();
    struct latency_report before = report();
    latency_write(lat, r, now, &text);
    assert_int_equal(registry_intern_target(again, "q", "h:2", "n", &other), ERR_OK); /* ids differ in another life */
    struct latency *l = latency_new(4);
    struct bytes rest = buf_bytes(&text), line = bytes_cut(&rest, '\n');
    assert_int_equal(latency_read_line(l, again, line, 0, 5 * SECOND), ERR_OK);
    assert_int_equal(rest.n, 0);
    struct latency_report after;
    const struct latency_key key = {.target_id = 1};
    assert_true(latency_report(l, key, &conf, 5 * SECOND, &after));
    assert_true(after.is_known);
    expect_between(after.n_samples / before.n_samples, 0.999, 1.001);
    assert_int_equal(after.p50_us, before.p50_us);
    assert_int_equal(after.p99_us, before.p99_us);
    assert_int_equal(after.budget_us, before.budget_us);
    struct latency_grant g; /* a core that has nothing of its own knows it too */
    latency_grant(latency_core(l, 3), key, &conf, false, 0, 6 * SECOND, &g);
    assert_true(g.is_known);
    latency_free(l);
    l = latency_new(1); /* a day away: 1/64 is left, too little to go by */
    assert_int_equal(latency_read_line(l, again, line, 24 * HOUR, 5 * SECOND), ERR_OK);
    assert_true(latency_report(l, key, &conf, 5 * SECOND, &after));
    expect_between(after.n_samples / before.n_samples * 64, 0.9, 1.1);
    assert_false(after.is_known);
    latency_free(l);
    buf_fini(&text);
    registry_free(again);
    registry_free(r);
}

static void test_damaged_lines_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "latency",
        "latency 1k none",
        "target 1k none 0,0,0,0,0,0 - - p h m",
        "latency 2k none 0,0,0,0,0,0 - - p h m",
        "latency 1k some 0,0,0,0,0,0 - - p h m",
        "latency 1k none 0,0,0,0,0 - - p h m",
        "latency 1k none 0,0,0,0,0,0,0 - - p h m",
        "latency 1k none 0,0,0,0,0,99999999999 - - p h m",
        "latency 1k none 0,0,0,0,0,-1 - - p h m",
        "latency 1k none 0,0,0,0,0,0 1:1,1:1 - p h m",
        "latency 1k none 0,0,0,0,0,0 704:1 - p h m",
        "latency 1k none 0,0,0,0,0,0 1:4294967296 - p h m",
        "latency 1k none 0,0,0,0,0,0 1: - p h m",
        "latency 1k none 0,0,0,0,0,0 1:1, - p h m",
        "latency 1k none 0,0,0,0,0,0 - x p h m",
        "latency 1k none 0,0,0,0,0,0 - - p h",
        "latency 1k none 0,0,0,0,0,0 - -",
    };
    struct registry *r = registry_new();
    struct latency_report told;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(latency_read_line(lat, r, bytes_of(bad[i]), 0, now), ERR_SYNTAX);
    assert_false(latency_report(lat, key0, &conf, now, &told));
    assert_int_equal(latency_read_line(lat, r, BYTES("latency 1k none 0,0,0,0,0,0 - - p h m"), 0, now), ERR_OK);
    registry_free(r);
}

static void test_every_changed_byte_is_survived(void **state)
{
    struct registry *r = a_registry();
    struct buf text = {0};
    struct rng rng = {77};
    learn(500);
    latency_write(lat, r, now, &text);
    text.n--; /* the line's end */
    for (size_t i = 0; i < text.n; i++) {
        char was = text.p[i];
        struct latency *l = latency_new(1);
        struct latency_grant g;
        text.p[i] = (char)rng_below(&rng, 256);
        enum err e = latency_read_line(l, r, buf_bytes(&text), rng_next(&rng) >> (i % 64), now);
        assert_true(e == ERR_OK || e == ERR_SYNTAX);
        e = latency_read_line(l, r, bytes_slice(buf_bytes(&text), 0, i), 0, now);
        assert_true(e == ERR_OK || e == ERR_SYNTAX); /* cut short within the name it is a line of its own */
        latency_grant(latency_core(l, 0), key0, &conf, false, 0, now, &g);
        assert_true(g.us >= 300000 && g.us <= 60000000);
        latency_free(l);
        text.p[i] = was;
    }
    buf_fini(&text);
    registry_free(r);
}

/* ---- two threads ---- */

static void *read_for_long(void *arg)
{
    struct latency_report r;
    uint64_t n_known = 0;
    for (int i = 0; i < 3000; i++)
        if (latency_report(lat, key0, &conf, HOUR, &r) && r.p50_us != 0) {
            n_known++;
            if (r.p50_us < 500000 || r.p50_us > 700000)
                *(bool *)arg = true;
        }
    return NULL;
}

static void test_readers_see_whole_sketches(void **state)
{
    bool is_torn = false;
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_for_long, &is_torn), 0);
    learn(20000); /* ten times halved, meanwhile */
    pthread_join(reader, NULL);
    assert_false(is_torn);
}

/* ---- the long run ---- */

static const struct outage outages[] = {{3, 0.5, 1}, {8, 3, 1}, {15, 10, 1}, {20, 5, 0.3}, {23, 2, 1}};

static struct story drifting(void)
{
    return (struct story){.hours = 26,
                          .per_second = 0.7,
                          .median_ms = 800,
                          .sigma = 0.5,
                          .swing = 0.5,
                          .outages = outages,
                          .n_outages = sizeof outages / sizeof outages[0],
                          .n_cores = 2,
                          .conf = conf_default};
}

static void tell(const char *name, uint64_t seed, const struct told *t)
{
    printf(
        "%-12s seed %llu: %6llu calls, false trips %.2f %%, an outage is noticed after %.2f x p99 (19 of 20: %.2f)\n",
        name, (unsigned long long)seed, (unsigned long long)t->n, t->false_percent, t->detect_mean, t->detect_p95);
}

/* The issue's own bounds: false trips <= 1.5 %, detection within 1.3 x p99. No fixed budget keeps both on this story.
 */
static void test_auto_against_fixed(void **state)
{
    static const uint32_t fixed[] = {2000, 2560, 3000, 3500, 5000, 15000};
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct story s = drifting();
        struct told t = scene_play(&s, seed, 1);
        tell("auto", seed, &t);
        assert_true(t.n > 50000 && t.n_hung > 20);
        assert_true(t.false_percent <= 1.5);
        assert_true(t.detect_mean <= 1.3);
        assert_true(t.detect_p95 <= 1.3 * 1.5); /* a watched one is given half as much again */
    }
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        struct story s = drifting();
        char name[16];
        s.fixed_ms = fixed[i];
        struct told t = scene_play(&s, 1, 1);
        snprintf(name, sizeof name, "%u ms", (unsigned)fixed[i]);
        tell(name, 1, &t);
        assert_true(t.false_percent > 1.5 || t.detect_mean > 1.3);
    }
}

static struct story steady(double hours)
{
    struct story s = drifting();
    s.hours = hours;
    s.swing = 0;
    s.n_outages = 0;
    return s;
}

static void test_cutting_does_not_draw_the_budget_down(void **state)
{
    struct story s = steady(30);
    struct told t = scene_play(&s, 5, 1);
    expect_between(t.last_ratio, 0.85, 1.35);
    expect_between(t.false_percent, 0.3, 1.3);
    struct latency_false f = latency_false(&t.report.counts); /* and what is reported of it is about true */
    expect_between((double)f.n_trips / (double)t.n_false, 0.6, 1.7);
}

static void test_an_outage_does_not_lift_it(void **state)
{
    static const struct outage long_one[] = {{10, 300, 1}}, gray[] = {{10, 120, 0.3}}, light[] = {{10, 300, 0.08}};
    static const struct outage *const all[] = {long_one, gray, light};
    for (int i = 0; i < 3; i++)
        for (unsigned cores = 1; cores <= 4; cores += 3) {
            struct story s = steady(16);
            s.outages = all[i];
            s.n_outages = 1;
            s.n_cores = cores;
            struct told t = scene_play(&s, 3, 9);
            assert_true(t.n_hung + t.n_trials > 100);
            assert_true(t.detect_mean <= 1.6);
            expect_between(t.last_ratio, 0.85, 1.5);
            assert_true(t.false_percent <= 1.5);
            assert_int_equal(t.report.counts.n_regimes, 0);
        }
}

static void test_a_step_does_not_lock_it_in(void **state)
{
    static const double factors[] = {6, 2.5, 1.4, 0.4};
    for (int i = 0; i < 4; i++)
        for (int has_breaker = i > 0; has_breaker < 2; has_breaker++) {
            const struct step step = {10, factors[i]};
            struct story s = steady(14);
            s.steps = &step;
            s.n_steps = 1;
            s.has_no_breaker = !has_breaker;
            struct told t = scene_play(&s, 2, 9.9);
            expect_between(t.last_ratio, 0.85, 1.45);
            assert_true(t.false_percent <= (has_breaker ? 2 : 6)); /* within the four hours that are counted */
        }
}

static void test_slow_traffic(void **state)
{
    struct story s = drifting();
    s.per_second = 0.05;
    struct told t = scene_play(&s, 1, 3);
    assert_true(t.report.is_known);
    assert_true(t.false_percent <= 1.5);
    expect_between(t.last_ratio, 0.7, 2);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_keys),
        T(test_fallback_until_there_are_samples),
        T(test_floor_and_ceiling),
        T(test_every_eighth_is_watched),
        T(test_trials_are_given_more_and_more),
        T(test_a_late_answer_is_told),
        T(test_what_is_counted_as_false),
        T(test_cold_starts),
        T(test_the_shadow_cuts_nothing),
        T(test_who_leaves_says_only_longer_than),
        T(test_cores_share_what_they_know),
        T(test_quantiles_for_others),
        T(test_keys_are_bounded),
        T(test_written_and_read_back),
        T(test_damaged_lines_are_refused),
        T(test_every_changed_byte_is_survived),
        T(test_readers_see_whole_sketches),
        T(test_auto_against_fixed),
        T(test_cutting_does_not_draw_the_budget_down),
        T(test_an_outage_does_not_lift_it),
        T(test_a_step_does_not_lock_it_in),
        T(test_slow_traffic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

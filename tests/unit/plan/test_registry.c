#include "unit.h"

#include "model/failure.h"
#include "plan/registry.h"
#include "plan/standby.h"

#include <pthread.h>

#define S UINT64_C(1000000)
static const struct breaker_conf breaker = {.failures = 5,
                                            .ratio_permille = 500,
                                            .ratio_min = 10,
                                            .window_ms = 30000,
                                            .cooldown_ms = 5000,
                                            .cooldown_max_ms = 60000};
static struct registry *reg;
static struct rng rng;
static struct trial none;

static int setup(void **state)
{
    uint16_t id;
    reg = registry_new();
    rng.state = 7;
    assert_int_equal(registry_intern_target(reg, "a", "h", "m", &id), ERR_OK);
    assert_int_equal(registry_intern_credential(reg, "a", 1, &id), ERR_OK);
    return 0;
}

static int teardown(void **state)
{
    registry_free(reg);
    return 0;
}

static void fail_at(uint64_t now, struct trial *t)
{
    registry_bad(reg, 0, now, false, &breaker, &rng, t);
}

static uint64_t open_it(uint64_t now)
{
    for (int i = 0; i < 5; i++)
        fail_at(now, &none);
    return registry_until(reg, 0, 0, now);
}

static void test_keys(void **state)
{
    uint16_t a, b, c;
    assert_int_equal(registry_intern_target(reg, "p", "h1", "m", &a), ERR_OK);
    assert_int_equal(registry_intern_target(reg, "p", "h2", "m", &b), ERR_OK);
    assert_int_equal(registry_intern_target(reg, "p", "h1", "m", &c), ERR_OK);
    assert_int_equal(a, c);
    assert_int_not_equal(a, b);
    assert_int_equal(registry_intern_credential(reg, "p", 9, &a), ERR_OK);
    assert_int_equal(registry_intern_credential(reg, "p", 10, &b), ERR_OK);
    assert_int_not_equal(a, b);
}

static void test_five_in_a_row_however_far_apart(void **state)
{
    for (uint64_t i = 1; i <= 4; i++) {
        fail_at(i * 3600 * S, &none);
        assert_int_equal(registry_state(reg, 0, 0), HEALTH_CLOSED);
    }
    uint64_t now = 5 * 3600 * S;
    fail_at(now, &none);
    assert_int_equal(registry_state(reg, 0, now), HEALTH_OPEN);
    uint64_t until = registry_until(reg, 0, 0, now);
    assert_in_range(until - now, 4 * S, 6 * S);
    struct trial t;
    assert_int_equal(registry_pass(reg, 0, 0, until - 1, &t), PASS_NO);
    assert_int_equal(registry_pass(reg, 0, 0, until, &t), PASS_TRIAL);
    registry_neutral(reg, &t, until);
}

static void test_success_ends_a_row(void **state)
{
    for (int i = 0; i < 4; i++)
        fail_at(S, &none);
    registry_good(reg, 0, 0, S, &none);
    fail_at(2 * S, &none);
    assert_int_equal(registry_state(reg, 0, S), HEALTH_CLOSED);
}

static void test_half_of_ten(void **state)
{
    for (int i = 0; i < 5; i++) {
        registry_good(reg, 0, 0, S, &none);
        fail_at(S, &none);
        assert_int_equal(registry_state(reg, 0, S), i < 4 ? HEALTH_CLOSED : HEALTH_OPEN);
    }
}

static void test_ratio_forgets_after_the_window(void **state)
{
    for (int i = 0; i < 4; i++) {
        registry_good(reg, 0, 0, S, &none);
        fail_at(S, &none);
    }
    registry_good(reg, 0, 0, 40 * S, &none);
    fail_at(40 * S, &none);
    assert_int_equal(registry_state(reg, 0, 40 * S), HEALTH_CLOSED);
}

static void five_good_on(struct registry *core, uint64_t now)
{
    for (int i = 0; i < 5; i++)
        registry_good(core, 0, 0, now, &none);
}

/* Six failures among five successes, never two failures in a row. */
static enum health_state after_six_of_eleven(uint64_t now)
{
    for (int i = 0; i < 11; i++)
        if (i % 2 == 0)
            fail_at(now, &none);
        else
            registry_good(reg, 0, 0, now, &none);
    return registry_state(reg, 0, now);
}

/* Each core counts its own successes; a failure is held against those of all. A closed trial forgets all cores'. */
static void test_ratio_of_all_cores(void **state)
{
    struct registry *other = registry_of_core(reg, 1), *same = registry_of_core(reg, 0);
    five_good_on(other, S);
    assert_int_equal(after_six_of_eleven(S), HEALTH_CLOSED); /* 6 of 16 */
    registry_good(same, 0, 0, 2 * S, &none);
    uint64_t until = open_it(2 * S);
    struct trial t;
    assert_int_equal(registry_pass(other, 0, 0, until, &t), PASS_TRIAL);
    registry_good(other, 0, 0, until, &t);
    assert_int_equal(registry_state(reg, 0, until), HEALTH_CLOSED);
    assert_int_equal(after_six_of_eleven(until), HEALTH_OPEN); /* 6 of 12: the sixteen are forgotten */
    registry_free(same);
    registry_free(other);
}

static void test_trial_doubles_and_closes(void **state)
{
    uint64_t now = open_it(S), least = 8 * S;
    for (int i = 0; i < 6; i++) {
        struct trial t, other;
        assert_int_equal(registry_pass(reg, 0, 0, now, &t), PASS_TRIAL);
        assert_int_equal(registry_pass(reg, 0, 0, now, &other), PASS_NO);
        assert_int_equal(registry_state(reg, 0, now), HEALTH_TRIAL);
        fail_at(now, &t);
        assert_int_equal(t.word, 0);
        uint64_t until = registry_until(reg, 0, 0, now);
        assert_in_range(until - now, least, least * 3 / 2);
        least = least * 2 > 48 * S ? 48 * S : least * 2;
        now = until;
    }
    struct trial t;
    assert_int_equal(registry_pass(reg, 0, 0, now, &t), PASS_TRIAL);
    registry_good(reg, 0, 0, now, &t);
    assert_int_equal(registry_pass(reg, 0, 0, now, &t), PASS_YES);
    assert_in_range(open_it(now) - now, 4 * S, 6 * S); /* from the beginning again */
}

static void test_trial_given_back(void **state)
{
    uint64_t now = open_it(S);
    struct trial t, other;
    assert_int_equal(registry_pass(reg, 0, 0, now, &t), PASS_TRIAL);
    registry_neutral(reg, &t, now);
    assert_int_equal(registry_pass(reg, 0, 0, now, &other), PASS_TRIAL);
    registry_neutral(reg, &other, now);
}

static void test_first_token_is_probation(void **state)
{
    uint64_t now = open_it(S);
    struct trial t;
    assert_int_equal(registry_pass(reg, 0, 0, now, &t), PASS_TRIAL);
    registry_first_token(reg, 0, now, &t);
    assert_int_equal(registry_pass(reg, 0, 0, now, &t), PASS_YES);
    fail_at(now, &t);
    assert_int_equal(registry_state(reg, 0, now), HEALTH_OPEN);
}

static void test_forced_trial(void **state)
{
    uint64_t until = open_it(S);
    struct trial t, other;
    assert_true(registry_force(reg, 0, 0, 2 * S, &t));
    assert_false(registry_force(reg, 0, 0, 2 * S, &other));
    fail_at(2 * S, &t);
    assert_int_equal(registry_until(reg, 0, 0, 2 * S), until); /* as it was */
    assert_true(registry_force(reg, 0, 0, 2 * S, &t));
    registry_good(reg, 0, 0, 2 * S, &t);
    assert_int_equal(registry_state(reg, 0, 2 * S), HEALTH_CLOSED);
}

static void test_late_success_proves_nothing(void **state)
{
    (void)open_it(S);
    registry_good(reg, 0, 0, S, &none);
    assert_int_equal(registry_state(reg, 0, S), HEALTH_OPEN);
}

static void test_hint(void **state)
{
    registry_hint(reg, 0, S, 7000, &rng, &none);
    assert_in_range(registry_until(reg, 0, 0, S), 8 * S, 8 * S + 700000);
    registry_hint(reg, 0, S, 1000, &rng, &none); /* never shortens */
    assert_true(registry_until(reg, 0, 0, S) >= 8 * S);
}

static void test_second_hintless_429(void **state)
{
    registry_bad(reg, 0, S, true, &breaker, &rng, &none);
    registry_bad(reg, 0, 11 * S + 1, true, &breaker, &rng, &none); /* a microsecond too late */
    assert_int_equal(registry_state(reg, 0, S), HEALTH_CLOSED);
    registry_bad(reg, 0, 21 * S + 1, true, &breaker, &rng, &none); /* exactly ten seconds */
    assert_int_equal(registry_until(reg, 0, 0, 21 * S + 1), 31 * S + 1);
}

static void test_credential(void **state)
{
    struct trial t, other;
    registry_quota(reg, 0, S, -1, &none);
    registry_quota(reg, 0, S, -1, &none); /* in flight together: one discovery */
    assert_int_equal(registry_until(reg, 0, 0, S), 3601 * S);
    assert_int_equal(registry_pass(reg, 0, 0, 3601 * S, &t), PASS_TRIAL);
    assert_true(t.is_credential);
    assert_int_equal(registry_pass(reg, 0, 0, 3601 * S, &other), PASS_NO);
    registry_quota(reg, 0, 3601 * S, -1, &t);
    assert_int_equal(registry_until(reg, 0, 0, 3601 * S), (3601 + 7200) * S);
    assert_int_equal(registry_pass(reg, 0, 0, 11000 * S, &t), PASS_TRIAL);
    registry_good(reg, 0, 0, 11000 * S, &t);
    assert_int_equal(registry_credential_state(reg, 0, 11000 * S), HEALTH_CLOSED);
    registry_auth(reg, 0, 11000 * S, &none);
    assert_int_equal(registry_until(reg, 0, 0, 11000 * S), 11300 * S);
}

static void test_credential_trial_is_also_the_targets(void **state)
{
    struct trial t;
    registry_auth(reg, 0, S, &none);
    (void)open_it(S);
    uint64_t now = 400 * S;
    assert_int_equal(registry_pass(reg, 0, 0, now, &t), PASS_TRIAL);
    registry_good(reg, 0, 0, now, &t);
    assert_int_equal(registry_pass(reg, 0, 0, now, &t), PASS_YES);
}

static void test_breaker_off(void **state)
{
    struct breaker_conf off = breaker;
    off.is_off = true;
    for (int i = 0; i < 20; i++)
        registry_bad(reg, 0, S, false, &off, &rng, &none);
    assert_int_equal(registry_state(reg, 0, S), HEALTH_CLOSED);
}

static void test_not_found(void **state)
{
    registry_not_found(reg, 0, S, &none);
    assert_int_equal(registry_until(reg, 0, 0, S), 601 * S);
}

static void test_quirks_and_keepalive(void **state)
{
    assert_true(registry_learn_quirk(reg, 0, QUIRK_MAX_TOKENS));
    assert_false(registry_learn_quirk(reg, 0, QUIRK_MAX_TOKENS));
    assert_int_equal(registry_quirks(reg, 0), QUIRK_MAX_TOKENS);
    registry_touch(reg, 0, 10 * S);
    assert_false(registry_lease_keepalive(reg, 0, 40 * S - 1, 30 * S));
    assert_true(registry_lease_keepalive(reg, 0, 40 * S, 30 * S));
    assert_false(registry_lease_keepalive(reg, 0, 40 * S, 30 * S));
    assert_true(registry_keepalive_spend(reg, 0, 5, 40, 100));
    assert_false(registry_keepalive_spend(reg, 0, 5, 60, 100));
    assert_false(registry_keepalive_allowed(reg, 0, 5, true, 100));
    assert_true(registry_keepalive_spend(reg, 0, 6, 60, 100)); /* a new day */
    for (int i = 0; i < 2879; i++)
        assert_true(registry_keepalive_spend(reg, 0, 6, NUSD_UNKNOWN, 0));
    assert_false(registry_keepalive_spend(reg, 0, 6, NUSD_UNKNOWN, 0));
}

static void test_standby(void **state)
{
    struct provider_conf p = {.name = "a"};
    struct link_conf links[2] = {{.provider = &p, .target_id = 0, .model = "m"},
                                 {.provider = &p, .model = "m2", .index = 1}};
    struct route_conf route = {.links = links,
                               .n_links = 2,
                               .keepalive_sec = 30,
                               .keepalive_idle_stop_sec = 900,
                               .keepalive_max_nusd_per_day = 1000};
    assert_int_equal(registry_intern_target(reg, "a", "h", "m2", &links[1].target_id), ERR_OK);
    struct standby_ask ask = {.route = &route, .used_us = 0, .now_us = 100 * S, .day = 1};
    assert_null(standby_due(reg, &ask)); /* never used */
    ask.used_us = 90 * S;
    assert_ptr_equal(standby_due(reg, &ask), &links[1]);
    assert_null(standby_due(reg, &ask));
    ask.now_us = 130 * S;
    assert_ptr_equal(standby_due(reg, &ask), &links[1]);
    ask.now_us = 990 * S; /* idle for 900 s */
    assert_null(standby_due(reg, &ask));
}

/* Two threads, one trial: twenty thousand openings, each granted exactly once. */
/* Another process, another clock: what was open stays open for as long as was left, what was learned stays learned. */
static void test_written_out_and_read_back(void **state)
{
    uint16_t target, credential, again;
    struct buf text = {0}, second = {0};
    struct trial t;
    assert_int_equal(registry_intern_target(reg, "prov", "host:1", "a model/with spaces", &target), ERR_OK);
    assert_int_equal(registry_intern_credential(reg, "prov", UINT64_MAX, &credential), ERR_OK);
    registry_hint(reg, target, 100 * S, 7000, &rng, &none);
    registry_learn_quirk(reg, target, QUIRK_MAX_TOKENS);
    registry_quota(reg, credential, 100 * S, -1, &none);
    registry_write(reg, 101 * S, &text);

    struct registry *other = registry_new();
    assert_int_equal(registry_read(other, buf_bytes(&text), 5000 * S), ERR_OK);
    registry_write(other, 5000 * S, &second);
    assert_true(bytes_eq(buf_bytes(&text), buf_bytes(&second)));
    assert_int_equal(registry_intern_target(other, "prov", "host:1", "a model/with spaces", &again), ERR_OK);
    assert_int_equal(registry_intern_credential(other, "prov", UINT64_MAX, &credential), ERR_OK);
    assert_int_equal(registry_quirks(other, again), QUIRK_MAX_TOKENS);
    assert_int_equal(registry_state(other, again, 5000 * S), HEALTH_OPEN);
    assert_int_equal(registry_pass(other, again, credential, 5000 * S + 6 * S, &t), PASS_NO); /* out of credit */
    assert_int_equal(registry_credential_state(other, credential, 5000 * S), HEALTH_OPEN);
    assert_true(registry_until(other, again, credential, 5000 * S) > 5000 * S + 3500 * S);
    registry_free(other);

    static const char *const bad[] = {
        "nonsense\n", "target 1 2\n", "target 1 2 3 4 only-provider\n", "target x 0 0 0 a b c\n", "credential 1 1 1\n",
        "\n"};
    for (size_t i = 0; i < RM_COUNTOF(bad); i++) {
        struct registry *fresh = registry_new();
        assert_int_equal(registry_read(fresh, bytes_of(bad[i]), S), ERR_SYNTAX);
        registry_free(fresh);
    }
    buf_fini(&text);
    buf_fini(&second);
}

enum { ROUNDS = 20000 };
static _Atomic uint32_t granted;
static pthread_barrier_t gate;

static void *compete(void *arg)
{
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct trial t;
        pthread_barrier_wait(&gate);
        uint64_t now = (i + 1) * 200 * S;
        enum pass p = registry_pass(reg, 0, 0, now, &t);
        if (p == PASS_TRIAL)
            atomic_fetch_add(&granted, 1);
        pthread_barrier_wait(&gate);
        if (p == PASS_TRIAL)
            registry_hint(reg, 0, now, 1000, arg, &t);
    }
    return NULL;
}

static void test_threads_one_trial(void **state)
{
    pthread_t other;
    struct rng mine = {1}, theirs = {2};
    atomic_store(&granted, 0);
    registry_hint(reg, 0, S, 1000, &rng, &none);
    assert_int_equal(pthread_barrier_init(&gate, NULL, 2), 0);
    assert_int_equal(pthread_create(&other, NULL, compete, &theirs), 0);
    compete(&mine);
    pthread_join(other, NULL);
    pthread_barrier_destroy(&gate);
    assert_int_equal(atomic_load(&granted), ROUNDS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_keys),
        TEST(test_five_in_a_row_however_far_apart),
        TEST(test_success_ends_a_row),
        TEST(test_half_of_ten),
        TEST(test_ratio_forgets_after_the_window),
        TEST(test_ratio_of_all_cores),
        TEST(test_trial_doubles_and_closes),
        TEST(test_trial_given_back),
        TEST(test_first_token_is_probation),
        TEST(test_forced_trial),
        TEST(test_late_success_proves_nothing),
        TEST(test_hint),
        TEST(test_second_hintless_429),
        TEST(test_credential),
        TEST(test_credential_trial_is_also_the_targets),
        TEST(test_breaker_off),
        TEST(test_not_found),
        TEST(test_quirks_and_keepalive),
        TEST(test_standby),
        TEST(test_written_out_and_read_back),
        TEST(test_threads_one_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

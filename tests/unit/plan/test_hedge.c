/* The caps of a hedge. */
#include "unit.h"

#include "plan/hedge.h"

#define HOUR UINT64_C(3600000000)
#define MINUTE UINT64_C(60000000)

static struct registry *reg;
static struct hedge_book *book;
static struct link_conf slow;
static struct route_conf route;

static int setup(void **state)
{
    reg = registry_new();
    book = hedge_book_new();
    assert_int_equal(registry_intern_target(reg, "a", "h", "m", &slow.target_id), ERR_OK);
    route = (struct route_conf){.model = "r"};
    route.hedge = (struct hedge_conf){.is_on = true, .after_ms = 1, .max_extra_permyriad = 200, .max_per_minute = 3};
    return 0;
}

static int teardown(void **state)
{
    hedge_book_free(book);
    registry_free(reg);
    return 0;
}

static void settle(enum outcome o, int64_t nusd, unsigned n, uint64_t now)
{
    struct attempt_record a = {.is_started = true, .outcome = o, .cost_nusd = nusd};
    struct request_record rec = {.attempts = &a, .n_attempts = 1};
    for (unsigned i = 0; i < n; i++)
        hedge_settle(book, &route, &rec, now);
}

/* The hedge of a request won, its first attempt is lost. */
static void race(int64_t nusd, uint64_t now)
{
    struct attempt_record both[] = {
        {.is_started = true, .outcome = OUTCOME_HEDGE_LOST, .cost_nusd = nusd},
        {.is_started = true, .kind = ATTEMPT_HEDGE, .outcome = OUTCOME_OK, .cost_nusd = nusd}};
    struct request_record rec = {.attempts = both, .n_attempts = 2};
    hedge_settle(book, &route, &rec, now);
}

static bool may(uint64_t now)
{
    return hedge_may(book, reg, &route, &slow, now);
}

/* Two per cent: the fiftieth attempt of equal cost pays for the first that loses. */
static void a_share_of_the_spend(void **state)
{
    assert_false(may(0));
    settle(OUTCOME_OK, 1000, 49, 0);
    assert_false(may(0));
    settle(OUTCOME_OK, 1000, 1, 0);
    assert_true(may(0));
    race(1000, 0);
    assert_false(may(0));
    settle(OUTCOME_OK, 1000, 48, 0);
    assert_true(may(0));
}

/* A burst of slow requests asks before any of them is over. */
static void what_is_out_counts(void **state)
{
    route.hedge.max_per_minute = 1000;
    settle(OUTCOME_OK, 1000, 150, 0);
    assert_true(may(0) && may(0) && may(0));
    assert_false(may(0));
    race(1000, 0); /* it was lost indeed */
    assert_false(may(0));
    settle(OUTCOME_OK, 1000, 48, 0); /* of 200 */
    assert_true(may(0));
    struct attempt_record failed[] = {{.is_started = true, .outcome = OUTCOME_OK, .cost_nusd = 1000},
                                      {.kind = ATTEMPT_HEDGE, .outcome = OUTCOME_CONNECT_ERROR}};
    struct request_record rec = {.attempts = failed, .n_attempts = 2};
    assert_false(may(0));
    hedge_settle(book, &route, &rec, 0); /* it cost nothing */
    assert_true(may(0));
}

static void dear_losers_count_more(void **state)
{
    settle(OUTCOME_OK, 1000, 100, 0);
    settle(OUTCOME_HEDGE_LOST, 1900, 1, 0);
    assert_false(may(0)); /* 1900 + 1009 of 101900 */
    settle(OUTCOME_OK, 1000, 50, 0);
    assert_true(may(0));
}

static void so_many_a_minute(void **state)
{
    settle(OUTCOME_OK, 1000, 1000, 0);
    assert_true(may(0) && may(1) && may(MINUTE - 1));
    assert_false(may(MINUTE - 1));
    assert_true(may(MINUTE));
}

static void unknown_costs_are_counted_by_attempts(void **state)
{
    settle(OUTCOME_OK, NUSD_UNKNOWN, 49, 0);
    assert_false(may(0));
    settle(OUTCOME_OK, NUSD_UNKNOWN, 1, 0);
    assert_true(may(0));
    settle(OUTCOME_HEDGE_LOST, NUSD_UNKNOWN, 1, 0);
    assert_false(may(0));
}

static void yesterday_does_not_pay(void **state)
{
    settle(OUTCOME_OK, 1000, 1000, 0);
    assert_true(may(4 * HOUR)); /* 62 are left of them */
    race(0, 4 * HOUR);
    assert_false(may(5 * HOUR));  /* 31 */
    assert_false(may(99 * HOUR)); /* none */
    settle(OUTCOME_OK, 1000, 50, 99 * HOUR);
    assert_true(may(99 * HOUR));
}

static void routes_do_not_pay_for_each_other(void **state)
{
    struct route_conf other = route;
    other.model = "other";
    settle(OUTCOME_OK, 1000, 1000, 0);
    assert_false(hedge_may(book, reg, &other, &slow, 0));
    assert_true(may(0));
}

static void skips_cost_nothing(void **state)
{
    struct attempt_record a = {.outcome = OUTCOME_SKIPPED_OPEN};
    struct request_record rec = {.attempts = &a, .n_attempts = 1};
    for (int i = 0; i < 1000; i++)
        hedge_settle(book, &route, &rec, 0);
    assert_false(may(0));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_share_of_the_spend),   TEST(dear_losers_count_more),
        TEST(so_many_a_minute),       TEST(unknown_costs_are_counted_by_attempts),
        TEST(yesterday_does_not_pay), TEST(routes_do_not_pay_for_each_other),
        TEST(skips_cost_nothing),     TEST(what_is_out_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

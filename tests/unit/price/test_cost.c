#include "unit.h"

#include "base/rng.h"
#include "price/price.h"

static const struct price alpha = {5000000, 30000000, 500000, -1, -1, "t", "t", NULL};
static const struct price beta = {3000000, 15000000, 300000, 3750000, 6000000, "t", "t", NULL};

static int64_t cost(const struct price *p, int64_t in, int64_t read, int64_t w5, int64_t w1, int64_t out)
{
    struct usage u = {in, read, w5, w1, out, -1};
    return price_cost(p, &u);
}

static void by_hand(void **state)
{
    assert_int_equal(cost(&alpha, 4000, 16000, 0, 0, 900), 55000 * 1000);
    assert_int_equal(cost(&beta, 10, 0, 1000, 3000, 5), 21855 * 1000);
    assert_int_equal(cost(&beta, 120, 9000, 800, 0, 50), 6810 * 1000);
    assert_int_equal(cost(&alpha, 64, 0, 0, 0, 1500), 45320 * 1000);
}

static void cache_rates_fall_back_to_input(void **state)
{
    assert_int_equal(cost(&alpha, 0, 0, 1000, 0, 0), 5000 * 1000);
    assert_int_equal(cost(&alpha, 0, 0, 0, 1000, 0), 5000 * 1000);
    struct price p = {-1, 1000000, -1, -1, -1, "t", "t", NULL};
    assert_int_equal(cost(&p, 0, 1, 0, 0, 0), NUSD_UNKNOWN);
}

static void unknown_is_never_zero(void **state)
{
    assert_int_equal(cost(NULL, 1, 0, 0, 0, 1), NUSD_UNKNOWN);
    struct price p = {1000000, -1, -1, -1, -1, "t", "t", NULL};
    assert_int_equal(cost(&p, 7, 0, 0, 0, 1), NUSD_UNKNOWN);
    assert_int_equal(cost(&p, 7, -1, -1, -1, 0), 7000); /* the rate that is missing is not needed */
    struct price free_of_charge = {0, 0, -1, -1, -1, "t", "t", NULL};
    assert_int_equal(cost(&free_of_charge, 1000, 0, 0, 0, 1000), 0);
}

static void rounded_half_up_once(void **state)
{
    struct price p = {499, 1, 1, 1, 1, "t", "t", NULL}; /* pico-dollars a token */
    assert_int_equal(cost(&p, 1, 0, 0, 0, 0), 0);
    assert_int_equal(cost(&p, 1, 0, 0, 0, 1), 1);      /* 500: up */
    assert_int_equal(cost(&p, 3, 0, 0, 0, 2), 1);      /* 1499 */
    assert_int_equal(cost(&p, 3, 1, 1, 0, 1), 2);      /* 1500: the parts are not rounded alone */
    assert_int_equal(cost(&p, -5, -1, -1, -1, -9), 0); /* negative counts count 0 */
}

static void large_does_not_overflow(void **state)
{
    assert_int_equal(cost(&alpha, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX), INT64_MAX);
    assert_int_equal(cost(&alpha, INT64_C(1000000000000), 0, 0, 0, 0), INT64_C(5000000000000000));
}

/* Whole requests are priced by the length of their prompt, cached input included. Per million tokens: 1 in, 10 out;
 * above 200,000: 2 in, 15 out. */
static void tiers_by_hand(void **state)
{
    static const struct price_tier tiers[] = {{200000, false, 2000000, 15000000, -1, -1, -1, -1}};
    static const struct price_more more = {.reasoning = -1, .tiers = tiers, .n_tiers = 1};
    static const struct price p = {1000000, 10000000, 100000, -1, -1, "t", "t", &more};
    assert_int_equal(cost(&p, 200000, 0, 0, 0, 100), INT64_C(201000000)); /* 0.2 + 0.001 */
    assert_int_equal(cost(&p, 200001, 0, 0, 0, 100), INT64_C(401502000)); /* 0.400002 + 0.0015 */
    assert_int_equal(cost(&p, 1, 200000, 0, 0, 100),
                     INT64_C(21502000));                                /* 0.000002 + 0.02 + 0.0015: read as the base */
    assert_int_equal(cost(&p, 1, 0, 200000, 0, 0), INT64_C(400002000)); /* a write as this tier's input */
    static const struct price_tier steps[] = {{32000, true, 3000000, -1, -1, -1, -1, -1},
                                              {128000, false, 5000000, -1, 400000, -1, -1, -1}};
    static const struct price_more two = {.reasoning = -1, .tiers = steps, .n_tiers = 2};
    static const struct price q = {1000000, 10000000, -1, -1, -1, "t", "t", &two};
    assert_int_equal(cost(&q, 31999, 0, 0, 0, 0), 31999 * 1000);
    assert_int_equal(cost(&q, 32000, 0, 0, 0, 0), 32000 * 3000); /* inclusive */
    assert_int_equal(cost(&q, 128000, 0, 0, 0, 1), 128000 * 3000 + 10000);
    assert_int_equal(cost(&q, 128001, 0, 0, 0, 1), 128001 * 5000 + 10000);
    assert_int_equal(cost(&q, 0, 128001, 0, 0, 0), 128001 * 400);
    struct price_tier r = price_rates(&q, 40000);
    assert_int_equal(r.cache_read, 3000000); /* as input, of this tier */
    assert_int_equal(r.reasoning, 10000000);
}

static void reasoning_and_requests(void **state)
{
    static const struct price_more more = {.reasoning = 3000000, .request = INT64_C(5000000000)};
    static const struct price p = {1000000, 10000000, -1, -1, -1, "t", "t", &more};
    struct usage u = {100, 0, 0, 0, 50, 20};
    assert_int_equal(price_cost(&p, &u), 5000000 + 100 * 1000 + 30 * 10000 + 20 * 3000);
    u.reasoning = 90; /* never more than the output it is part of */
    assert_int_equal(price_cost(&p, &u), 5000000 + 100 * 1000 + 50 * 3000);
    u.reasoning = -1;
    assert_int_equal(price_cost(&p, &u), 5000000 + 100 * 1000 + 50 * 10000);
    struct usage none = {0, 0, 0, 0, 0, 0};
    assert_int_equal(price_cost(&p, &none), 5000000);
    /* Without a rate of its own reasoning is output, once: 100 x 5 + 1000 x 30. */
    struct usage thought = {100, 0, 0, 0, 1000, 800};
    assert_int_equal(price_cost(&alpha, &thought), 30500 * 1000);
}

/* The sum does not depend on which part a token is counted in when the rates are equal. */
static void parts_add_up(void **state)
{
    struct rng r = {1};
    for (int i = 0; i < 1000; i++) {
        int64_t a = (int64_t)rng_below(&r, 100000), b = (int64_t)rng_below(&r, 100000);
        int64_t rate = (int64_t)rng_below(&r, 100000000);
        struct price p = {rate, rate, rate, rate, rate, "t", "t", NULL};
        assert_int_equal(cost(&p, a, b, 0, 0, 0), cost(&p, 0, 0, a, b, 0));
        assert_int_equal(cost(&p, a, b, 0, 0, 0), cost(&p, 0, 0, 0, 0, a + b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(cache_rates_fall_back_to_input),
        cmocka_unit_test(unknown_is_never_zero),
        cmocka_unit_test(rounded_half_up_once),
        cmocka_unit_test(tiers_by_hand),
        cmocka_unit_test(reasoning_and_requests),
        cmocka_unit_test(large_does_not_overflow),
        cmocka_unit_test(parts_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

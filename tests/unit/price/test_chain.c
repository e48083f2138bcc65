#include "unit.h"

#include "base/rng.h"
#include "price/chain.h"

static const struct price first = {
    .input = 5000000, .output = 30000000, .cache_read = -1, .cache_write_5m = -1, .cache_write_1h = -1};
static const struct price second = {
    .input = 2000000, .output = 10000000, .cache_read = -1, .cache_write_5m = -1, .cache_write_1h = -1};
static const struct price third = {
    .input = 1000000, .output = 5000000, .cache_read = -1, .cache_write_5m = -1, .cache_write_1h = -1};

/* 2,000 in and 500 out; every link fails one call in ten, half of them by hanging. */
static struct chain_ask three_links(void)
{
    return (struct chain_ask){.links = {{&first, 100000, 500000, ABORT_INPUT_AND_GENERATED},
                                        {&second, 100000, 500000, ABORT_INPUT_AND_GENERATED},
                                        {&third, 100000, 500000, ABORT_INPUT_AND_GENERATED}},
                              .n = 3,
                              .call = {2000, 0, 0, 0, 500, 0},
                              .waste_ppm = 500000};
}

/*            whole   cut    served        hung            per 1,000 calls
 * first      25.00   17.50  0.9           0.05            22.500 + 0.875
 * second      9.00    6.50  0.09          0.005            0.810 + 0.0325
 * third       4.50    3.25  0.009         0.0005           0.0405 + 0.001625 */
static void by_hand(void **state)
{
    struct chain_ask ask = three_links();
    struct chain_bill b;
    chain_sequential(&ask, &b);
    assert_int_equal(b.steps[0].cost_nusd, INT64_C(23375000000));
    assert_int_equal(b.steps[1].cost_nusd, INT64_C(842500000));
    assert_int_equal(b.steps[2].cost_nusd, INT64_C(42125000));
    assert_int_equal(b.cost_nusd, INT64_C(24259625000));
    assert_int_equal(b.waste_nusd, INT64_C(909125000));
    assert_int_equal(b.steps[2].waste_nusd, INT64_C(1625000));
    assert_int_equal(b.unanswered, CHAIN_CALLS / 1000);
}

/* The second beside an answer (0.9): its input, 4.00, where it did not fail at once (0.855); as the answer (0.1): 0.81
 * + 0.0325. Without cancelling it runs on: 0.81 x 9.00 + 0.045 x 6.50. */
static void hedged_by_hand(void **state)
{
    struct chain_ask ask = three_links();
    assert_int_equal(chain_hedged(&ask, true), INT64_C(27637500000));
    assert_int_equal(chain_hedged(&ask, false), INT64_C(31800000000));
    ask.n = 1;
    assert_int_equal(chain_hedged(&ask, false), INT64_C(23375000000));
}

/* What is billed of the hung ones, 0.05 of 1,000 calls at the first link: 17.50, 10.00 (its input), 25.00 (all of it)
 * or nothing. A hedge that loses early costs 4.00, 4.00, 9.00 or nothing. */
static void as_the_provider_bills_it(void **state)
{
    static const int64_t hung[ABORT_N_RULES] = {875000000, 500000000, 1250000000, 0};
    static const int64_t hedge[ABORT_N_RULES] = {3600000000, 3600000000, 8100000000, 0};
    for (int rule = 0; rule < ABORT_N_RULES; rule++) {
        struct chain_ask ask = three_links();
        struct chain_bill b;
        ask.links[0].cut = (enum abort_rule)rule;
        chain_sequential(&ask, &b);
        assert_int_equal(b.steps[0].waste_nusd, hung[rule]);
        assert_int_equal(b.steps[0].cost_nusd, INT64_C(22500000000) + hung[rule]);
        ask = (struct chain_ask){.links = {{.price = &first}, {.price = &second, .cut = (enum abort_rule)rule}},
                                 .n = 2,
                                 .call = {2000, 0, 0, 0, 500, 0},
                                 .waste_ppm = 500000};
        ask.links[0].fail_ppm = 100000; /* 0.9 of the hedges lose, 0.1 are the answer */
        assert_int_equal(chain_hedged(&ask, true), INT64_C(22500000000) + hedge[rule] + 900000000);
    }
}

static void alone_and_cut(void **state)
{
    struct usage call = {2000, 0, 0, 0, 500, 0};
    assert_int_equal(chain_alone(&first, &call), INT64_C(25000000000));
    assert_int_equal(chain_cut(&first, &call, 500000), INT64_C(17500000000));
    assert_int_equal(chain_cut(&first, &call, 0), INT64_C(10000000000));
    assert_int_equal(chain_cut(&first, &call, PPM), INT64_C(25000000000));
    struct usage odd = {0, 0, 0, 0, 3, 0}; /* half of three tokens is two */
    assert_int_equal(chain_cut(&first, &odd, 500000), INT64_C(60000000));
    assert_int_equal(chain_share(INT64_C(26500000000), 50000), INT64_C(1325000000));
    assert_int_equal(chain_share(-3, 500000), -2);
}

static void unknown_where_it_is_needed(void **state)
{
    struct chain_ask ask = three_links();
    struct chain_bill b;
    ask.links[2].price = NULL;
    chain_sequential(&ask, &b);
    assert_int_equal(b.cost_nusd, NUSD_UNKNOWN);
    assert_int_equal(b.waste_nusd, NUSD_UNKNOWN);
    assert_int_equal(b.steps[0].cost_nusd, INT64_C(23375000000));
    ask.links[1].fail_ppm = 0; /* nothing reaches the third */
    chain_sequential(&ask, &b);
    assert_int_equal(b.cost_nusd, INT64_C(24275000000)); /* 23.375 + 0.1 x 9.00 */
    assert_int_equal(chain_alone(NULL, &ask.call), NUSD_UNKNOWN);
    assert_int_equal(chain_share(NUSD_UNKNOWN, 1), NUSD_UNKNOWN);
    ask.links[1].price = NULL;
    assert_int_equal(chain_hedged(&ask, true), NUSD_UNKNOWN);
}

/* No call is lost or invented, and the links' bills add up, whatever the shares. */
static void parts_add_up(void **state)
{
    struct rng r = {11};
    for (int i = 0; i < 100000; i++) {
        struct chain_ask ask = three_links();
        struct chain_bill b;
        ask.n = 1 + (size_t)rng_below(&r, 3);
        for (size_t k = 0; k < ask.n; k++) {
            ask.links[k].fail_ppm = (uint32_t)rng_below(&r, PPM + 1);
            ask.links[k].hang_ppm = (uint32_t)rng_below(&r, PPM + 1);
        }
        chain_sequential(&ask, &b);
        int64_t served = 0, cost = 0, reached = CHAIN_CALLS;
        for (size_t k = 0; k < ask.n; k++) {
            const struct chain_step *s = &b.steps[k];
            assert_int_equal(s->reached, reached);
            assert_int_equal(s->reached, s->fast + s->hung + s->served);
            assert_true(s->fast >= 0 && s->hung >= 0 && s->served >= 0 && s->waste_nusd <= s->cost_nusd);
            reached = s->fast + s->hung;
            served += s->served;
            cost += s->cost_nusd;
        }
        assert_int_equal(served + b.unanswered, CHAIN_CALLS);
        assert_in_range(b.cost_nusd - cost + 2, 0, 4); /* each is rounded once */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(hedged_by_hand),
        cmocka_unit_test(as_the_provider_bills_it),
        cmocka_unit_test(alone_and_cut),
        cmocka_unit_test(unknown_where_it_is_needed),
        cmocka_unit_test(parts_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

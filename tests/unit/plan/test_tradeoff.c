/* The trade of a budget, against a world of ten thousand calls that is played through. */
#include "unit.h"

#include "base/rng.h"
#include "plan/tradeoff.h"

#include <math.h>
#include <string.h>

enum { N = 10000 };
static uint64_t took[N]; /* UINT64_MAX = never */
static struct survival curve;

/* Lognormal around 900 ms; one in fifty never answers. What takes longer than 30 s was cut there. */
static int setup(void **state)
{
    static struct sketch_sum sum;
    struct rng r = {42};
    memset(&sum, 0, sizeof sum);
    for (int i = 0; i < N; i++) {
        double u = ((double)(rng_next(&r) >> 11) + 0.5) / 9007199254740992.0;
        double v = ((double)(rng_next(&r) >> 11) + 0.5) / 9007199254740992.0;
        double z = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
        bool is_hung = rng_below(&r, 50) == 0;
        took[i] = is_hung ? UINT64_MAX : (uint64_t)(900000 * exp(0.6 * z));
        if (is_hung)
            sum.cut[sketch_bucket(30000000)]++, sum.n_cut++;
        else
            sum.answered[sketch_bucket(took[i])]++, sum.n_answered++;
    }
    survival_of(&sum, &curve);
    return 0;
}

static struct tradeoff_ask ask_of(double second_usd)
{
    return (struct tradeoff_ask){.survival = &curve,
                                 .from_us = 300000,
                                 .to_us = 20000000,
                                 .next_us = 700000,
                                 .hung_share = -1,
                                 .cut_usd = 0.004,
                                 .second_usd = second_usd};
}

static void expect_close(double got, double want, double by)
{
    if (fabs(got - want) > by) {
        print_error("got %f, expected %f within %f\n", got, want, by);
        fail();
    }
}

static void test_as_played_through(void **state)
{
    static const uint64_t budgets[] = {400000, 900000, 2000000, 3600000, 8000000};
    struct tradeoff_ask ask = ask_of(0.01);
    for (size_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++) {
        double n_false = 0, n_cut = 0, n_answering = 0, wait_us = 0;
        for (int i = 0; i < N; i++) {
            bool is_cut = took[i] > budgets[b];
            n_answering += took[i] != UINT64_MAX;
            n_false += is_cut && took[i] != UINT64_MAX;
            n_cut += is_cut;
            wait_us += is_cut ? (double)budgets[b] + 700000 : (double)took[i];
        }
        struct tradeoff_point p = tradeoff_at(&ask, budgets[b]);
        expect_close(p.false_share, n_false / n_answering, 0.006);
        expect_close(p.cut_share, n_cut / N, 0.006);
        expect_close(p.wait_us / (wait_us / N), 1, 0.01);
        expect_close(p.waste_usd, n_cut / N * 0.004, 0.00003);
        expect_close(p.total_usd, p.waste_usd + p.wait_us / 1e6 * 0.01, 1e-12);
    }
}

static void test_the_worth_of_a_second_decides(void **state)
{
    struct tradeoff_ask none = ask_of(0), cheap = ask_of(0.002), dear = ask_of(1);
    static struct tradeoff t[3];
    tradeoff_of(&none, &t[0]);
    tradeoff_of(&cheap, &t[1]);
    tradeoff_of(&dear, &t[2]);
    assert_true(t[0].points[t[0].cheapest].false_share < 0.0005); /* waste alone: cut nothing that may still come */
    assert_true(t[1].cheapest < t[0].cheapest);
    assert_true(t[2].cheapest < t[1].cheapest); /* nobody may wait: cut early */
    for (int k = 0; k < 3; k++)
        for (unsigned i = 0; i < TRADEOFF_POINTS; i++)
            assert_true(t[k].points[i].total_usd >= t[k].points[t[k].cheapest].total_usd);
    assert_int_equal(t[0].points[0].budget_us, 300000);
    assert_int_equal(t[0].points[TRADEOFF_POINTS - 1].budget_us, 20000000);
    for (unsigned i = 1; i < TRADEOFF_POINTS; i++) {
        assert_true(t[0].points[i].budget_us > t[0].points[i - 1].budget_us);
        assert_true(t[0].points[i].false_share <= t[0].points[i - 1].false_share);
    }
}

static void test_the_share_that_hangs(void **state)
{
    struct tradeoff_ask ask = ask_of(0.01);
    struct tradeoff t;
    tradeoff_of(&ask, &t);
    expect_close(t.hung_share, 0.02, 0.005);
    ask.hung_share = 0.5;
    struct tradeoff_point p = tradeoff_at(&ask, 20000000);
    expect_close(p.cut_share, 0.5, 0.001);
    expect_close(p.wait_us, 0.5 * 20700000 + 0.5 * 900000 * exp(0.18), 40000);
}

static void test_nothing_known(void **state)
{
    struct sketch_sum empty = {0};
    static struct survival none;
    survival_of(&empty, &none);
    struct tradeoff_ask ask = ask_of(0.01);
    ask.survival = &none;
    struct tradeoff_point p = tradeoff_at(&ask, 1000000);
    assert_true(p.false_share == 0 && p.cut_share == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_played_through),
        cmocka_unit_test(test_the_worth_of_a_second_decides),
        cmocka_unit_test(test_the_share_that_hangs),
        cmocka_unit_test(test_nothing_known),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

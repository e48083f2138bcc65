/* Percentiles and intervals against a reference written here another way, and against values known from elsewhere. */
#include "unit.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lab/bootstrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct dist *d, const int64_t *ms, size_t n)
{
    *d = (struct dist){0};
    for (size_t i = 0; i < n; i++)
        dist_put(d, ms[i] * 1000, 0);
    dist_sort(d);
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) < 1e-9))
        fail_msg("%.12f is not %.12f", a, b);
}

/* What numpy.percentile gives for these. */
static void known_samples(void **state)
{
    static const int64_t ten[] = {10, 1, 9, 2, 8, 3, 7, 4, 6, 5}, skew[] = {15, 20, 35, 40, 50}, one[] = {7};
    struct dist d;
    fill(&d, ten, 10);
    assert_near(dist_percentile_ms(&d, 0), 1);
    assert_near(dist_percentile_ms(&d, 50), 5.5);
    assert_near(dist_percentile_ms(&d, 95), 9.55);
    assert_near(dist_percentile_ms(&d, 99), 9.91);
    assert_near(dist_percentile_ms(&d, 100), 10);
    dist_fini(&d);
    fill(&d, skew, 5);
    assert_near(dist_percentile_ms(&d, 40), 29);
    dist_fini(&d);
    fill(&d, one, 1);
    assert_near(dist_percentile_ms(&d, 0), 7);
    assert_near(dist_percentile_ms(&d, 99), 7);
    dist_fini(&d);
    fill(&d, one, 0);
    assert_true(isnan(dist_percentile_ms(&d, 50)));
}

/* The definition read from its other end: the value at which the piecewise linear curve through the points
 * (i / (n - 1), x[i]) meets p. */
static double reference(const int64_t *sorted_us, size_t n, double p)
{
    double at = p / 100;
    for (size_t i = 0; i + 1 < n; i++) {
        double left = (double)i / (double)(n - 1), right = (double)(i + 1) / (double)(n - 1);
        if (at >= left && at <= right)
            return ((double)sorted_us[i] * (right - at) + (double)sorted_us[i + 1] * (at - left)) / (right - left) /
                   1000;
    }
    return (double)sorted_us[n - 1] / 1000;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void against_reference(void **state)
{
    struct rng rng = {7};
    for (size_t n = 2; n < 400; n += 7) {
        struct dist d = {0};
        int64_t v[400];
        for (size_t i = 0; i < n; i++) {
            v[i] = (int64_t)rng_below(&rng, 1 << (1 + n % 20));
            dist_put(&d, v[i], 0);
        }
        dist_sort(&d);
        qsort(v, n, sizeof *v, by_value);
        for (double p = 0; p <= 100; p += 0.5)
            if (fabs(dist_percentile_ms(&d, p) - reference(v, n, p)) > 1e-6)
                fail_msg("n %zu p %.1f: %f, reference %f", n, p, dist_percentile_ms(&d, p), reference(v, n, p));
        dist_fini(&d);
    }
}

/* A weight is the value standing so many times. */
static void weights_repeat(void **state)
{
    struct rng rng = {11};
    for (int round = 0; round < 50; round++) {
        struct dist d = {0}, repeated = {0};
        uint32_t w[20];
        for (int i = 0; i < 20; i++)
            dist_put(&d, (int64_t)rng_below(&rng, 1000), 0);
        dist_sort(&d);
        for (int i = 0; i < 20; i++) {
            w[i] = (uint32_t)rng_below(&rng, 4);
            for (uint32_t k = 0; k < w[i]; k++)
                dist_put(&repeated, d.v[i].us, 0);
        }
        dist_sort(&repeated);
        for (int p = 0; p <= 100; p += 10)
            assert_near(dist_weighted_ms(&d, w, p), dist_percentile_ms(&repeated, p));
        dist_fini(&d);
        dist_fini(&repeated);
    }
}

static void no_weight_is_no_value(void **state)
{
    static const int64_t two[] = {1, 2};
    static const uint32_t none[] = {0, 0};
    struct dist d;
    fill(&d, two, 2);
    assert_true(isnan(dist_weighted_ms(&d, none, 50)));
    dist_fini(&d);
}

/* Six rounds that drift together, b 5 ms under a in each: the drift is in both, so the interval is tight around 5. */
static void paired_rounds_cancel_drift(void **state)
{
    struct dist a = {0}, b = {0};
    for (uint32_t round = 0; round < 6; round++)
        for (int i = 0; i < 100; i++) {
            int64_t us = 100000 + round * 20000 + i * 10;
            dist_put(&a, us + 5000, round);
            dist_put(&b, us, round);
        }
    dist_sort(&a);
    dist_sort(&b);
    struct interval x = bootstrap_difference(&a, &b, 50, 0, 1);
    assert_near(x.value, 5);
    assert_near(x.low, 5);
    assert_near(x.high, 5);
    x = bootstrap_difference(&a, &b, 50, 3, 1);
    assert_near(x.value, 2);
    assert_near(x.low, 2);
    dist_fini(&a);
    dist_fini(&b);
}

static void noise(struct dist *d, uint64_t seed, int64_t shift_us, uint32_t n_rounds)
{
    struct rng rng = {seed};
    *d = (struct dist){0};
    for (uint32_t round = 0; round < n_rounds; round++)
        for (int i = 0; i < 200; i++)
            dist_put(d, 100000 + shift_us + (int64_t)rng_below(&rng, 40000), round);
    dist_sort(d);
}

/* Of many pairs with a true difference of 2 ms, the interval must hold it nearly always, and tell it from 20 ms. */
static void covers_the_truth(void **state)
{
    int n_held = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct dist a, b;
        noise(&a, seed, 2000, 2);
        noise(&b, seed + 1000, 0, 2);
        struct interval x = bootstrap_difference(&a, &b, 50, 0, seed);
        assert_true(x.low <= x.value && x.value <= x.high && x.low < x.high);
        n_held += x.low <= 2 && 2 <= x.high;
        assert_true(x.high < 20);
        dist_fini(&a);
        dist_fini(&b);
    }
    assert_true(n_held >= 34);
}

/* Rounds of equal spend: the interval is that of a mean, and lies within the rounds' own shares. */
static void shares(void **state)
{
    const struct bootstrap_money even[] = {{10, 100}, {10, 100}, {10, 100}};
    const struct bootstrap_money odd[] = {{0, 100}, {10, 100}, {20, 100}, {30, 100}, {40, 100}, {50, 100}};
    const struct bootstrap_money none = {0, 0}, once = {0, 300};
    struct interval x = bootstrap_share(even, 3, none, 1);
    assert_true(x.value == 10 && x.low == 10 && x.high == 10);
    x = bootstrap_share(even, 3, once, 1);
    assert_true(x.value == 5 && x.low == 5 && x.high == 5);
    x = bootstrap_share(odd, 6, none, 1);
    assert_true(x.value == 25 && x.low > 5 && x.low < 20 && x.high > 30 && x.high < 45);
    x = bootstrap_share(odd, 2, none, 1);
    assert_true(x.value == 5 && isnan(x.low) && isnan(x.high));
    assert_true(isnan(bootstrap_share(odd, 0, none, 1).value));
}

static void seeded(void **state)
{
    struct dist a, b;
    noise(&a, 1, 0, 5);
    noise(&b, 2, 0, 5);
    struct interval x = bootstrap_difference(&a, &b, 95, 0, 9), y = bootstrap_difference(&a, &b, 95, 0, 9);
    assert_memory_equal(&x, &y, sizeof x);
    dist_fini(&a);
    dist_fini(&b);
}

static void nothing_measured(void **state)
{
    struct dist a = {0}, b;
    noise(&b, 2, 0, 3);
    assert_true(isnan(bootstrap_difference(&a, &b, 50, 0, 1).value));
    assert_true(isnan(bootstrap_difference(&b, &a, 50, 0, 1).low));
    dist_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_samples),
        cmocka_unit_test(against_reference),
        cmocka_unit_test(weights_repeat),
        cmocka_unit_test(no_weight_is_no_value),
        cmocka_unit_test(paired_rounds_cancel_drift),
        cmocka_unit_test(covers_the_truth),
        cmocka_unit_test(shares),
        cmocka_unit_test(seeded),
        cmocka_unit_test(nothing_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

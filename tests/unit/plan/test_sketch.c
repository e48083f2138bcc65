/* The sketch against exact quantiles, and what fades and is cut against what is known to be true. */
#include "unit.h"

#include "base/mem.h"
#include "base/rng.h"
#include "plan/natural.h"
#include "plan/sketch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define H UINT64_C(3600000000)
enum { N = 20000 };

static double uniform(struct rng *r)
{
    return ((double)(rng_next(r) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(struct rng *r)
{
    double u = uniform(r), v = uniform(r);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- many distributions, in microseconds ---- */

static uint64_t draw_uniform(struct rng *r)
{
    return rng_between(r, 20000, 4000000);
}
static uint64_t draw_exponential(struct rng *r)
{
    return 2000 + (uint64_t)(-log(uniform(r)) * 800000);
}
static uint64_t draw_lognormal(struct rng *r)
{
    return 1100 + (uint64_t)(900000 * exp(0.6 * normal(r)));
}
static uint64_t draw_heavy(struct rng *r)
{
    return (uint64_t)(100000 / pow(uniform(r), 1 / 1.3));
}
static uint64_t draw_two_humps(struct rng *r)
{
    return rng_below(r, 10) == 0 ? rng_between(r, 8000000, 9000000) : rng_between(r, 200000, 300000);
}
static uint64_t draw_constant(struct rng *r)
{
    (void)r;
    return 777777;
}
static uint64_t draw_quick(struct rng *r)
{
    return rng_between(r, 1024, 3000);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void expect_close(uint64_t got, uint64_t want, double share)
{
    if (fabs((double)got - (double)want) > share * (double)want) {
        print_error("got %llu us, expected %llu within %.3f\n", (unsigned long long)got, (unsigned long long)want,
                    share);
        fail();
    }
}

static void sum_of(const struct sketch *s, uint64_t now_us, struct sketch_sum *sum)
{
    memset(sum, 0, sizeof *sum);
    assert_true(sketch_add(s, now_us, sum));
}

static uint64_t quantile(const struct sketch *s, double q, uint64_t now_us)
{
    struct sketch_sum sum;
    struct survival v;
    sum_of(s, now_us, &sum);
    survival_of(&sum, &v);
    return survival_quantile(&v, q);
}

static void test_exact_quantiles(void **state)
{
    static uint64_t (*const draws[])(struct rng *) = {draw_uniform,   draw_exponential, draw_lognormal, draw_heavy,
                                                      draw_two_humps, draw_constant,    draw_quick};
    static const double qs[] = {0.01, 0.1, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999};
    uint64_t *v = mem_alloc(N * sizeof *v);
    struct sketch *s = mem_alloc(sizeof *s);
    for (size_t d = 0; d < sizeof draws / sizeof draws[0]; d++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct rng r = {seed};
            sketch_init(s, 1000 * H, 1 << 20);
            for (int i = 0; i < N; i++) {
                v[i] = draws[d](&r);
                sketch_answered(s, v[i], 1);
            }
            qsort(v, N, sizeof *v, by_size);
            /* half_n is 2^20: over N samples the first weighs 1.3 % less than the last, hence ranks are almost exact;
             * the two neighbours' ranks are let in as well. */
            for (size_t i = 0; i < sizeof qs / sizeof qs[0]; i++) {
                size_t at = (size_t)ceil(qs[i] * N) - 1, off = N / 2000;
                uint64_t got = quantile(s, qs[i], 1);
                uint64_t lo = v[at > off ? at - off : 0], hi = v[at + off < N ? at + off : N - 1];
                assert_true((double)got >= (double)lo * 0.98 && (double)got <= (double)hi * 1.02);
            }
        }
    mem_free(s);
    mem_free(v);
}

static void test_buckets(void **state)
{
    for (uint64_t us = 1024; us < UINT64_C(1) << 32; us += us / 97 + 1)
        expect_close(sketch_time(sketch_bucket(us)), us, 0.016);
    for (unsigned i = 0; i < SKETCH_BUCKETS; i++)
        assert_int_equal(sketch_bucket(sketch_time(i)), i);
    assert_int_equal(sketch_bucket(0), 0);
    assert_int_equal(sketch_bucket(1023), 0);
    assert_int_equal(sketch_bucket(UINT64_MAX), SKETCH_BUCKETS - 1);
}

static void test_nothing(void **state)
{
    struct sketch s;
    struct survival v;
    struct sketch_sum sum;
    sketch_init(&s, H, 1000);
    assert_int_equal(quantile(&s, 0.5, 5), 0);
    sum_of(&s, 5, &sum);
    survival_of(&sum, &v);
    assert_true(survival_at(&v, 1000000) == 1);
    sketch_cut(&s, 1000000, 5); /* cuts alone say that it is longer, no more */
    assert_int_equal(quantile(&s, 0.5, 5), 0);
}

static void test_merge_is_union(void **state)
{
    struct sketch parts[4], *all = mem_alloc(sizeof *all);
    struct sketch_sum merged, whole;
    struct rng r = {11};
    sketch_init(all, H, 1 << 20);
    for (int i = 0; i < 4; i++)
        sketch_init(&parts[i], H, 1 << 20);
    for (int i = 0; i < N; i++) {
        uint64_t us = draw_lognormal(&r), now = (uint64_t)i * 10000;
        bool is_cut = rng_below(&r, 20) == 0;
        struct sketch *part = &parts[rng_below(&r, 4)];
        (is_cut ? sketch_cut : sketch_answered)(part, us, now);
        (is_cut ? sketch_cut : sketch_answered)(all, us, now);
    }
    uint64_t now = (uint64_t)N * 10000;
    sum_of(all, now, &whole);
    memset(&merged, 0, sizeof merged);
    for (int i = 0; i < 4; i++)
        assert_true(sketch_add(&parts[i], now, &merged));
    /* Time fades them alike; what the count fades differs by less than the two per cent that N samples are worth. */
    assert_true(fabs(merged.n_answered / whole.n_answered - 1) < 0.02);
    assert_true(fabs(merged.n_cut / whole.n_cut - 1) < 0.03);
    struct survival a, b;
    survival_of(&merged, &a);
    survival_of(&whole, &b);
    for (int i = 1; i < 100; i++)
        expect_close(survival_quantile(&a, i / 100.0), survival_quantile(&b, i / 100.0), 0.04);
    mem_free(all);
}

static void test_time_halves(void **state)
{
    struct sketch s;
    struct sketch_sum sum;
    sketch_init(&s, 4 * H, 1 << 20);
    for (int i = 0; i < 1000; i++)
        sketch_answered(&s, 1000000, H);
    double was = (sum_of(&s, H, &sum), sum.n_answered);
    assert_true(fabs(was - 1000) < 2);
    sum_of(&s, 5 * H, &sum);
    assert_true(fabs(sum.n_answered - 500) < 2);
    sum_of(&s, 25 * H, &sum); /* a day: six half-lives */
    assert_true(fabs(sum.n_answered - 1000 / 64.0) < 0.5);
    sketch_answered(&s, 8000000, 25 * H); /* written there, it weighs the same */
    sum_of(&s, 25 * H, &sum);
    assert_true(fabs(sum.n_answered - 1000 / 64.0 - 1) < 0.5);
    sum_of(&s, 10000 * H, &sum);
    assert_true(sum.n_answered < 0.001);
    sketch_answered(&s, 1000000, 10000 * H);
    sum_of(&s, 10000 * H, &sum);
    assert_true(fabs(sum.n_answered - 1) < 0.01);
    sketch_answered(&s, 1000000, 9999 * H); /* a clock that lies back */
    sum_of(&s, 10000 * H, &sum);
    assert_true(fabs(sum.n_answered - 2) < 0.01);
}

static void test_count_halves(void **state)
{
    struct sketch s;
    struct sketch_sum sum;
    sketch_init(&s, 1000 * H, 2000);
    for (int i = 0; i < 30000; i++)
        sketch_answered(&s, 1000000, 1);
    sum_of(&s, 1, &sum);
    assert_true(fabs(sum.n_answered / (2000 / log(2)) - 1) < 0.07);
    for (int i = 0; i < 2000; i++)
        sketch_answered(&s, 4000000, 1);
    sum_of(&s, 1, &sum);
    double old = sum.answered[sketch_bucket(1000000)], fresh = sum.answered[sketch_bucket(4000000)];
    assert_true(fabs(old / (old + fresh) - 0.5) < 0.04); /* half of the weight is younger than a half-life */
    assert_int_equal(quantile(&s, 0.99, 1), sketch_time(sketch_bucket(4000000)));
}

static void test_a_new_regime_rules_after_a_day(void **state)
{
    struct sketch s;
    sketch_init(&s, 4 * H, 2000);
    struct rng r = {3};
    for (int i = 0; i < 5000; i++)
        sketch_answered(&s, 5 * draw_lognormal(&r), H + (uint64_t)i * 1000);
    uint64_t before = quantile(&s, 0.9, 2 * H);
    for (int i = 0; i < 600; i++) /* a day later, few samples */
        sketch_answered(&s, draw_lognormal(&r), 26 * H + (uint64_t)i * 1000);
    uint64_t after = quantile(&s, 0.9, 26 * H + 600000);
    assert_true(after * 3 < before);
}

static void test_cuts_are_not_samples(void **state)
{
    /* A tenth is cut somewhere below its true time, at times of its own: the estimate must still be of the truth. */
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct sketch s;
        struct rng r = {seed};
        sketch_init(&s, 1000 * H, 1 << 20);
        for (int i = 0; i < N; i++) {
            uint64_t us = draw_lognormal(&r), limit = rng_between(&r, 500000, 6000000);
            us <= limit ? sketch_answered(&s, us, 1) : sketch_cut(&s, limit, 1);
        }
        expect_close(quantile(&s, 0.5, 1), 901100, 0.04);
        expect_close(quantile(&s, 0.9, 1), (uint64_t)(1100 + 900000 * exp(0.6 * 1.2816)), 0.06);
        expect_close(quantile(&s, 0.95, 1), (uint64_t)(1100 + 900000 * exp(0.6 * 1.6449)), 0.08);
    }
}

static void test_beyond_the_budget_nothing_is_known(void **state)
{
    struct sketch s;
    struct rng r = {5};
    sketch_init(&s, 1000 * H, 1 << 20);
    for (int i = 0; i < N; i++) { /* all cut at one time, which is about the 95th percentile */
        uint64_t us = draw_lognormal(&r), limit = 2416000;
        us <= limit ? sketch_answered(&s, us, 1) : sketch_cut(&s, limit, 1);
    }
    expect_close(quantile(&s, 0.9, 1), (uint64_t)(900000 * exp(0.6 * 1.2816)), 0.05);
    assert_int_equal(quantile(&s, 0.99, 1), 0);
    struct sketch_sum sum;
    struct survival v;
    sum_of(&s, 1, &sum);
    survival_of(&sum, &v);
    assert_true(fabs(survival_at(&v, 60000000) - 0.05) < 0.006); /* what is left is told as left */
}

static void test_load_is_what_was_read(void **state)
{
    struct sketch a, b;
    struct sketch_sum x, y;
    struct rng r = {9};
    sketch_init(&a, 4 * H, 2000);
    sketch_init(&b, 4 * H, 2000);
    for (int i = 0; i < 3000; i++)
        (i % 50 == 0 ? sketch_cut : sketch_answered)(&a, draw_lognormal(&r), H + (uint64_t)i * 1000000);
    sum_of(&a, 2 * H, &x);
    sketch_load(&b, &x, 2 * H);
    sum_of(&b, 2 * H, &y);
    assert_true(fabs(y.n_answered / x.n_answered - 1) < 0.001);
    assert_true(fabs(y.n_cut / x.n_cut - 1) < 0.001);
    sum_of(&b, 6 * H, &y);
    assert_true(fabs(y.n_answered / x.n_answered - 0.5) < 0.001);
}

static void test_clear(void **state)
{
    struct sketch s;
    struct sketch_sum sum;
    sketch_init(&s, H, 2000);
    sketch_answered(&s, 5000, 1);
    sketch_cut(&s, 5000, 1);
    sketch_clear(&s);
    sum_of(&s, 1, &sum);
    assert_true(sum.n_answered == 0 && sum.n_cut == 0);
    sketch_answered(&s, 5000, 2);
    sum_of(&s, 2, &sum);
    assert_true(fabs(sum.n_answered - 1) < 0.01);
}

/* ---- what the sketch's owner learns by ---- */

static void test_logarithm_is_libms(void **state)
{
    (void)state;
    assert_true(fabs(ln_u64(0)) < 1e-7);
    for (uint64_t v = 1; v < 70000; v++)
        assert_true(fabs(ln_u64(v) - log((double)v)) < 1e-7);
    for (unsigned bit = 16; bit < 64; bit++)
        for (uint64_t step = 0; step < 64; step++) {
            uint64_t v = (UINT64_C(1) << bit) + (step << (bit - 6));
            assert_true(fabs(ln_u64(v) - log((double)v)) < 1e-7);
            assert_true(fabs(ln_u64(v - 1) - log((double)(v - 1))) < 1e-7);
        }
    assert_true(fabs(ln_u64(UINT64_MAX) - log((double)UINT64_MAX)) < 1e-7);
}

static void test_exponential_is_libms(void **state)
{
    (void)state;
    assert_true(exp_near(0) == 1);
    for (int i = -1500; i <= 1500; i++)
        assert_true(fabs(exp_near(i / 1000.0) / exp(i / 1000.0) - 1) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_quantiles),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_merge_is_union),
        cmocka_unit_test(test_time_halves),
        cmocka_unit_test(test_count_halves),
        cmocka_unit_test(test_a_new_regime_rules_after_a_day),
        cmocka_unit_test(test_cuts_are_not_samples),
        cmocka_unit_test(test_beyond_the_budget_nothing_is_known),
        cmocka_unit_test(test_load_is_what_was_read),
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_logarithm_is_libms),
        cmocka_unit_test(test_exponential_is_libms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

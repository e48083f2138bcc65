/* Drawn times: what is stated of a distribution is what is drawn. Seeded, so nothing here can fail by chance. */
#include "unit.h"

#include "lab/mock_chance.h"

#include "base/check.h"

#include <stdlib.h>

enum { N = 200000 };

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* One draw for each of N requests, as a provider draws them; sorted. */
static uint64_t *draw(const struct spread *s, uint64_t seed)
{
    static uint64_t v[N];
    for (size_t i = 0; i < N; i++) {
        struct rng r = chance_of_request(seed, "A", i + 1);
        v[i] = spread_draw(s, &r, 0);
    }
    qsort(v, N, sizeof *v, by_size);
    return v;
}

static void assert_within_percent(uint64_t got, uint64_t wanted, unsigned percent)
{
    if (got * 100 < wanted * (100 - percent) || got * 100 > wanted * (100 + percent))
        fail_msg("%llu, not within %u %% of %llu", (unsigned long long)got, percent, (unsigned long long)wanted);
}

/* The bounds are some four standard errors of each percentile at N draws. */
static void lognormal_keeps_its_percentiles(void **state)
{
    static const struct {
        struct spread spread;
        unsigned median_percent, tail_percent;
    } table[] = {{{SPREAD_LOGNORMAL, 150, 400}, 1, 2},
                 {{SPREAD_LOGNORMAL, 40, 2000}, 2, 5},
                 {{SPREAD_LOGNORMAL, 300, 310}, 1, 1}};
    for (size_t i = 0; i < RM_COUNTOF(table); i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const struct spread *s = &table[i].spread;
            const uint64_t *v = draw(s, seed);
            assert_within_percent(v[N / 2], s->a * 1000, table[i].median_percent);
            assert_within_percent(v[N / 100 * 99], s->b * 1000, table[i].tail_percent);
            /* symmetric on the logarithm: p1 is p50²/p99 */
            assert_within_percent(v[N / 100], s->a * 1000 * s->a / s->b, table[i].tail_percent);
            assert_true(v[N - 1] <= s->b * 100000);
        }
}

static void uniform_fills_its_range(void **state)
{
    struct spread s = {SPREAD_UNIFORM, 100, 300};
    const uint64_t *v = draw(&s, 7);
    assert_true(v[0] >= 100000 && v[N - 1] <= 300000);
    for (size_t k = 1; k < 10; k++)
        assert_within_percent(v[N / 10 * k], 100000 + 20000 * k, 1);
}

static void fixed_and_by_prompt(void **state)
{
    struct rng r = {1};
    struct spread s = spread_fixed(40);
    assert_int_equal(spread_draw(&s, &r, 99999), 40000);
    s = (struct spread){SPREAD_PROMPT, 50, 100};
    assert_int_equal(spread_draw(&s, &r, 0), 50000);
    assert_int_equal(spread_draw(&s, &r, 2500), 300000);
    s = (struct spread){SPREAD_LOGNORMAL, 80, 80};
    assert_int_equal(spread_draw(&s, &r, 0), 80000);
}

static void chances(void **state)
{
    struct rng r = {5};
    int n = 0;
    for (int i = 0; i < N; i++) {
        assert_false(chance_hits(&r, 0));
        assert_true(chance_hits(&r, 1000000));
        n += chance_hits(&r, 50000);
    }
    assert_true(n > N / 20 * 97 / 100 && n < N / 20 * 103 / 100);
}

static void requests_have_their_own(void **state)
{
    struct rng a = chance_of_request(7, "A", 1), same = chance_of_request(7, "A", 1);
    struct rng next = chance_of_request(7, "A", 2), other = chance_of_request(7, "B", 1),
               seed = chance_of_request(8, "A", 1);
    uint64_t first = rng_next(&a);
    assert_int_equal(first, rng_next(&same));
    assert_int_not_equal(first, rng_next(&next));
    assert_int_not_equal(first, rng_next(&other));
    assert_int_not_equal(first, rng_next(&seed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lognormal_keeps_its_percentiles),
        cmocka_unit_test(uniform_fills_its_range),
        cmocka_unit_test(fixed_and_by_prompt),
        cmocka_unit_test(chances),
        cmocka_unit_test(requests_have_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

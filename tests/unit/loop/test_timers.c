/* The heap alone: order, equal times, removal from the middle, against a plain list. */
#include "unit.h"

#include "base/rng.h"
#include "loop/timers.h"

enum { N = 500 };

static void nothing(struct timer *t)
{
    (void)t;
}

static void equal_times_keep_their_order(void **state)
{
    struct timers ts = {.next_order = UINT32_MAX - 4}; /* the numbers begin anew meanwhile */
    struct timer v[10] = {0};
    for (int i = 0; i < 10; i++)
        timers_put(&ts, &v[i], 100);
    timers_put(&ts, &v[0], 100); /* armed again: goes last */
    for (int i = 1; i < 10; i++)
        assert_ptr_equal(timers_take_due(&ts, 100), &v[i]);
    assert_ptr_equal(timers_take_due(&ts, 100), &v[0]);
    assert_null(timers_take_due(&ts, 100));
    timers_fini(&ts);
}

/* The earliest timer of the model: first by time, then by order of arming. */
static int earliest(const uint64_t *key, const uint64_t *order, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (key[i] == 0)
            continue;
        if (best < 0 || key[i] < key[best] || (key[i] == key[best] && order[i] < order[best]))
            best = i;
    }
    return best;
}

static void random_moves_match_a_plain_list(void **state)
{
    static struct timer v[N];
    static uint64_t key[N], order[N];
    struct timers ts = {0};
    struct rng rng = {7};
    uint64_t next_order = 0;
    for (int step = 0; step < 20000; step++) {
        int i = (int)rng_below(&rng, N);
        v[i].fn = nothing;
        switch (rng_below(&rng, 4)) {
        case 0:
        case 1:
            key[i] = 1 + rng_below(&rng, 50);
            order[i] = next_order++;
            timers_put(&ts, &v[i], key[i]);
            break;
        case 2:
            key[i] = 0;
            timers_remove(&ts, &v[i]);
            assert_false(timer_is_armed(&v[i]));
            break;
        default: {
            int best = earliest(key, order, N);
            assert_int_equal(timers_next_us(&ts), best < 0 ? UINT64_MAX : key[best]);
            struct timer *t = timers_take_due(&ts, UINT64_MAX);
            assert_ptr_equal(t, best < 0 ? NULL : &v[best]);
            if (best >= 0)
                key[best] = 0;
        }
        }
    }
    for (int i = 0; i < N; i++)
        timers_remove(&ts, &v[i]);
    timers_fini(&ts);
}

static void early_ones_only(void **state)
{
    struct timers ts = {0};
    struct timer a = {.fn = nothing}, b = {.fn = nothing};
    timers_put(&ts, &a, 20);
    timers_put(&ts, &b, 10);
    assert_null(timers_take_due(&ts, 9));
    assert_ptr_equal(timers_take_due(&ts, 10), &b);
    assert_null(timers_take_due(&ts, 19));
    timers_remove(&ts, &a);
    timers_remove(&ts, &a);
    assert_int_equal(timers_next_us(&ts), UINT64_MAX);
    timers_fini(&ts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_times_keep_their_order),
        cmocka_unit_test(random_moves_match_a_plain_list),
        cmocka_unit_test(early_ones_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

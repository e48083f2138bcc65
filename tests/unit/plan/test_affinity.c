#include "unit.h"

#include "plan/affinity.h"

static struct provider_conf pa = {.name = "pa"}, pb = {.name = "pb"}, pc = {.name = "pc"}, pd = {.name = "pd"};
static struct link_conf a, b, c, d;

static int setup(void **state)
{
    a = (struct link_conf){.provider = &pa, .model = "m", .index = 0, .equals = 0};
    b = (struct link_conf){.provider = &pb, .model = "m", .index = 1, .equals = 0};
    c = (struct link_conf){.provider = &pc, .model = "m", .index = 2, .equals = 0};
    d = (struct link_conf){.provider = &pd, .model = "other", .index = 3, .equals = 3};
    return 0;
}

static void test_key(void **state)
{
    struct call call = {0};
    struct bytes none = {NULL, 0};
    assert_true(affinity_key(&call, none) == 0);
    call.prefix_hash = 5;
    assert_true(affinity_key(&call, none) == 5);
    call.talk_hash = 7; /* a conversation's prefix changes with each turn, its start does not */
    assert_true(affinity_key(&call, none) == 7);
    uint64_t session = affinity_key(&call, BYTES("s1"));
    assert_true(session != 7 && session == affinity_key(&call, BYTES("s1")) &&
                session != affinity_key(&call, BYTES("s2")));
    call.cache_key = BYTES("s1");
    uint64_t key = affinity_key(&call, BYTES("s2"));
    assert_true(key == affinity_key(&call, none) && key != session);
}

static void test_spread_is_even_and_steady(void **state)
{
    int n_first[3] = {0}, n_moved = 0;
    for (uint64_t key = 1; key <= 3000; key++) {
        const struct link_conf *all[] = {&a, &b, &c, &d}, *again[] = {&c, &a, &b, &d}, *two[] = {&a, &b};
        affinity_order(key, all, 4);
        affinity_order(key, again, 4);
        affinity_order(key, two, 2);
        assert_memory_equal(all, again, sizeof all); /* whatever order they stood in */
        assert_ptr_equal(all[3], &d);
        n_first[all[0]->index]++;
        if (all[0] != &c && all[0] != two[0])
            n_moved++; /* without c only those of c may move */
        if (all[0] == &c)
            assert_ptr_equal(two[0], all[1]); /* … each to its own second */
    }
    assert_int_equal(n_moved, 0);
    for (int i = 0; i < 3; i++)
        assert_in_range(n_first[i], 900, 1100); /* 1000 expected, standard deviation 26 */
}

static void test_only_equals_move(void **state)
{
    a.equals = 0;
    b.equals = 1;
    c.equals = 1;
    bool was_swapped = false;
    for (uint64_t key = 1; key <= 64; key++) {
        const struct link_conf *all[] = {&a, &b, &c, &d};
        affinity_order(key, all, 4);
        assert_ptr_equal(all[0], &a);
        assert_ptr_equal(all[3], &d);
        was_swapped |= all[1] == &c;
    }
    assert_true(was_swapped);
    const struct link_conf *all[] = {&c, &b};
    affinity_order(0, all, 2);
    assert_ptr_equal(all[0], &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_key, setup),
                                       cmocka_unit_test_setup(test_spread_is_even_and_steady, setup),
                                       cmocka_unit_test_setup(test_only_equals_move, setup)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a provider's cache holds of a prompt, by the three names that it has. */
#include "unit.h"

#include "sim/larder.h"

enum { S = 1000000, TTL = 300 * S };

static struct larder_prompt asked(uint64_t talk, int64_t n_held)
{
    return (struct larder_prompt){
        .way = LARDER_ASKED, .is_marked = true, .talk_hash = talk, .n_held = n_held, .ttl_us = TTL};
}

static void assert_use(struct larder_use use, int64_t n_read, int64_t n_written)
{
    assert_int_equal(use.n_read, n_read);
    assert_int_equal(use.n_written, n_written);
}

static void a_conversation_grows(void **state)
{
    (void)state;
    struct larder *l = larder_new();
    struct larder_prompt one = asked(5, 2000), two = asked(5, 3000);
    assert_use(larder_look(l, &one, 1 * S), 0, 2000);
    assert_use(larder_look(l, &one, 2 * S), 0, 2000); /* the first has not begun to answer */
    larder_keep(l, &one, 3 * S);
    assert_use(larder_look(l, &two, 4 * S), 2000, 1000);
    larder_keep(l, &two, 5 * S);
    assert_use(larder_look(l, &one, 6 * S), 2000, 0); /* an earlier turn once more */
    larder_keep(l, &one, 7 * S);
    assert_use(larder_look(l, &two, 8 * S), 3000, 0);
    struct larder_prompt elsewhere = two, plain = two;
    elsewhere.target = 1;
    assert_use(larder_look(l, &elsewhere, 9 * S), 0, 3000);
    plain.is_marked = false;
    assert_use(larder_look(l, &plain, 9 * S), 0, 0);
    larder_free(l);
}

static void it_lives_from_its_last_use(void **state)
{
    (void)state;
    struct larder *l = larder_new();
    struct larder_prompt p = asked(5, 2000);
    larder_keep(l, &p, 1 * S);
    assert_use(larder_look(l, &p, 300 * S), 2000, 0);
    assert_use(larder_look(l, &p, 599 * S), 2000, 0);
    assert_use(larder_look(l, &p, 899 * S), 0, 2000);
    struct larder_prompt longer = asked(5, 3000);
    larder_keep(l, &longer, 1000 * S);
    larder_keep(l, &p, 1400 * S); /* what was longer is gone by then */
    assert_use(larder_look(l, &longer, 1401 * S), 2000, 1000);
    larder_free(l);
}

static void heads_and_marked_parts_are_shared(void **state)
{
    (void)state;
    struct larder *l = larder_new();
    struct larder_prompt a = asked(5, 5000), b = asked(6, 5000), c = asked(7, 5000);
    a.head_hash = b.head_hash = c.head_hash = 9;
    a.n_head = b.n_head = 2000;
    larder_keep(l, &a, 1 * S);
    assert_use(larder_look(l, &b, 2 * S), 2000, 3000);
    assert_use(larder_look(l, &c, 2 * S), 0, 5000); /* its own head is not marked */
    a.cache_hash = c.cache_hash = 11;
    larder_keep(l, &a, 3 * S);
    assert_use(larder_look(l, &c, 4 * S), 5000, 0);
    larder_free(l);
}

static void what_caches_by_itself(void **state)
{
    (void)state;
    struct larder *l = larder_new();
    struct larder_prompt p = {.way = LARDER_AUTOMATIC, .talk_hash = 5, .n_held = 2000, .ttl_us = TTL}, small = p;
    assert_use(larder_look(l, &p, 1 * S), 0, 0);
    larder_keep(l, &p, 1 * S);
    assert_use(larder_look(l, &p, 2 * S), 1920, 0);
    small.talk_hash = 6;
    small.n_held = 1000;
    larder_keep(l, &small, 3 * S);
    assert_use(larder_look(l, &small, 4 * S), 0, 0);
    p.way = LARDER_NONE;
    assert_use(larder_look(l, &p, 5 * S), 0, 0);
    larder_free(l);
}

static void all_are_found_again(void **state)
{
    (void)state;
    enum { N = 20000 };
    struct larder *l = larder_new();
    for (uint64_t i = 1; i <= N; i++) {
        struct larder_prompt p = asked(i, 2000 + (int64_t)i);
        larder_keep(l, &p, S);
    }
    for (uint64_t i = 1; i <= N; i++) {
        struct larder_prompt p = asked(i, 99999);
        assert_int_equal(larder_look(l, &p, 2 * S).n_read, 2000 + i);
    }
    larder_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_grows),
        cmocka_unit_test(it_lives_from_its_last_use),
        cmocka_unit_test(heads_and_marked_parts_are_shared),
        cmocka_unit_test(what_caches_by_itself),
        cmocka_unit_test(all_are_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

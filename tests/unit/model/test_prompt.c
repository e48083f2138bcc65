#include "unit.h"

#include "model/prompt.h"

/* Each need comes back, and no other one. */
static void needs_come_back(void **state)
{
    (void)state;
    for (unsigned needs = 0; needs < 2 * NEED_HEAD_CACHED; needs++) {
        struct call from = {.n = 1}, to = {.n = 1};
        const struct prompt_record p = {.is_known = true, .needs = needs};
        prompt_to_call(&p, &from);
        assert_int_equal(prompt_of_call(&from, 0, 0).needs, needs);
        struct prompt_record again = prompt_of_call(&from, 0, 0);
        prompt_to_call(&again, &to);
        assert_int_equal(prompt_of_call(&to, 0, 0).needs, needs);
        assert_true(from.has_vision == ((needs & NEED_VISION) != 0) && from.n == ((needs & NEED_CHOICES) ? 2 : 1));
    }
}

static void what_is_kept_of_a_cache(void **state)
{
    (void)state;
    struct call c = {.n = 1, .prompt_bytes = 900, .cache_bytes = 400, .has_cache_markers = true, .talk_hash = 5};
    assert_int_equal(prompt_of_call(&c, 300, 5).cache_bytes, 400);
    assert_int_equal(prompt_of_call(&c, 0, 5).cache_bytes, 0); /* nothing was asked for */
    c.has_cache_markers = false;
    assert_int_equal(prompt_of_call(&c, 3600, 5).cache_bytes, 900); /* x-cache: all of it */
    assert_int_equal(prompt_of_call(&c, 3600, 5).cache_ttl_s, 3600);
    assert_int_equal(prompt_of_call(&c, 0, 5).affinity_key, 0); /* the conversation's own is not kept twice */
    assert_int_equal(prompt_of_call(&c, 0, 6).affinity_key, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(needs_come_back), cmocka_unit_test(what_is_kept_of_a_cache)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

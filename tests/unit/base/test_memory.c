/* buf, arena, shelf, bytes. */
#include "unit.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/rng.h"

#include <pthread.h>
#include <stdio.h>

static void buf_has_a_maximum(void **state)
{
    (void)state;
    struct buf b = {.max = 10};
    assert_true(buf_puts(&b, "12345678"));
    assert_false(buf_puts(&b, "abc"));
    assert_true(b.overflow);
    assert_true(bytes_is(buf_bytes(&b), "12345678"));
    buf_clear(&b);
    assert_false(b.overflow);
    assert_true(buf_printf(&b, "%s", "0123456789"));
    assert_false(buf_putc(&b, 'x'));
    assert_string_equal(buf_cstr(&b), "0123456789");
    assert_false(buf_putc(&b, 'x')); /* the NUL's place is not the text's */
    assert_string_equal(buf_cstr(&b), "0123456789");
    buf_drop(&b, 8);
    assert_false(buf_put_u64(&b, 123456789));
    assert_true(bytes_is(buf_bytes(&b), "89"));
    assert_true(bytes_is(buf_bytes(&b), "89"));
    struct buf moved = buf_take(&b);
    assert_int_equal(b.n, 0);
    assert_null(b.p);
    buf_fini(&moved);
    buf_fini(&b);
}

static void digits_are(uint64_t v)
{
    char room[BYTES_DIGITS_MAX], text[32];
    struct buf b = {0};
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    assert_true(bytes_is(bytes_digits(v, room), text));
    assert_int_equal(bytes_n_digits(v), strlen(text));
    assert_true(buf_putc(&b, '=') && buf_put_u64(&b, v));
    assert_true(bytes_is(bytes_slice(buf_bytes(&b), 1, b.n), text));
    buf_fini(&b);
}

static void digits_of_any_number(void **state)
{
    (void)state;
    struct rng r = {5};
    uint64_t power = 1;
    for (int n = 1; n <= BYTES_DIGITS_MAX; n++, power *= 10) {
        digits_are(power - 1);
        digits_are(power);
        digits_are(power + 1);
    }
    digits_are((uint64_t)UINT32_MAX);
    digits_are((uint64_t)UINT32_MAX + 1);
    digits_are(UINT64_MAX);
    for (int i = 0; i < 10000; i++)
        digits_are(rng_between(&r, 0, INT64_MAX) >> (i % 63));
}

static void buf_prints_long_text(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 'y', sizeof text);
    struct buf b = {0};
    assert_true(buf_printf(&b, "%.*s!", (int)sizeof text, text));
    assert_int_equal(b.n, 1001);
    buf_fini(&b);
}

static void arena_resets_to_a_mark(void **state)
{
    (void)state;
    int64_t before = mem_live(MEM_ARENA);
    struct arena a = {0};
    char *first = arena_alloc(&a, 100);
    memset(first, 1, 100);
    struct arena_mark m = arena_mark(&a);
    for (int i = 0; i < 1000; i++)
        memset(arena_alloc(&a, 500), 2, 500);
    arena_reset(&a, m);
    assert_int_equal(a.n_bytes, m.n_bytes);
    assert_int_equal(first[99], 1);
    char *again = arena_alloc(&a, 64);
    for (int i = 0; i < 64; i++)
        assert_int_equal(again[i], 0);
    assert_string_equal(arena_printf(&a, "%d-%s", 7, "x").p, "7-x");
    arena_fini(&a);
    assert_int_equal(mem_live(MEM_ARENA), before);
}

static void bytes_compare_and_search(void **state)
{
    (void)state;
    assert_int_equal(bytes_find(BYTES("aXbXYc"), BYTES("XY")), 3);
    assert_true(bytes_find(BYTES("abc"), BYTES("abcd")) == SIZE_MAX);
    assert_int_equal(bytes_find_nocase(BYTES("Context LENGTH"), BYTES("length")), 8);
    assert_true(bytes_eq_nocase(BYTES("Retry-After"), BYTES("retry-aFTER")));
    assert_int_equal(bytes_distance(BYTES("ttft_budget"), BYTES("ttft_buget"), 3), 1);
    assert_int_equal(bytes_distance(BYTES("abc"), BYTES("xyz"), 2), 3);
    uint64_t v;
    assert_true(bytes_to_u64(BYTES("18446744073709551615"), &v));
    assert_false(bytes_to_u64(BYTES("18446744073709551616"), &v));
    assert_false(bytes_to_u64(BYTES("18446744073709551620"), &v));
    assert_false(bytes_to_u64(BYTES("99999999999999999999"), &v));
    assert_false(bytes_to_u64(BYTES("184467440737095516150"), &v));
    assert_true(bytes_to_u64(BYTES("000018446744073709551615"), &v));
    assert_true(v == UINT64_MAX);
    assert_true(bytes_to_u64(BYTES("00000000000000000000007"), &v));
    assert_int_equal(v, 7);
    assert_false(bytes_to_u64(BYTES("0000000000000000000000x"), &v));
    assert_false(bytes_to_u64(BYTES(""), &v));
    assert_false(bytes_to_u64(BYTES("+1"), &v));
    int64_t i;
    assert_true(bytes_to_i64(BYTES("-9223372036854775808"), &i));
    assert_false(bytes_to_i64(BYTES("9223372036854775808"), &i));
    assert_true(bytes_is_utf8(BYTES("\xf4\x8f\xbf\xbf")));
    assert_false(bytes_is_utf8(BYTES("\xf4\x90\x80\x80")));
    assert_false(bytes_is_utf8(BYTES("\xe2\x82")));
    assert_true(bytes_eq_fixed_time(BYTES("same"), BYTES("same")));
    assert_false(bytes_eq_fixed_time(BYTES("same"), BYTES("sane")));
    assert_false(bytes_eq_fixed_time(BYTES("same"), BYTES("sam")));
    struct bytes rest = BYTES("a:b:c"), first = bytes_cut(&rest, ':');
    assert_true(bytes_is(first, "a") && bytes_is(rest, "b:c"));
}

static void lists_survive_removal(void **state)
{
    (void)state;
    struct list head, nodes[5];
    list_init(&head);
    for (int i = 0; i < 5; i++)
        list_put(&head, &nodes[i]);
    int n = 0;
    LIST_EACH(&head, node)
    {
        list_del(node);
        n++;
    }
    assert_int_equal(n, 5);
    assert_true(list_is_empty(&head));
    assert_null(list_take(&head));
}

static void *count_some(void *arg)
{
    for (int i = 0; i < 1000; i++)
        mem_count(MEM_TIMER, i % 2 ? -1 : 2);
    return arg;
}

/* There are fewer slots than threads here. */
static void objects_are_counted_over_all_threads(void **state)
{
    (void)state;
    enum { N_THREADS = 100 };
    pthread_t threads[N_THREADS];
    int64_t before = mem_live(MEM_TIMER);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_some, NULL), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(mem_live(MEM_TIMER) - before, N_THREADS * 500);
    mem_count(MEM_TIMER, -(N_THREADS * 500));
    assert_int_equal(mem_live(MEM_TIMER), before);
}

/* With a shelf and without one, a block that is taken is nobody else's, and a zeroed one is zeroed whatever was in it.
 */
static void taken_blocks_are_ones_own(bool has_shelf)
{
    enum { LIVE = 100, STEPS = 20000, BYTES = MEM_SHELF_BYTES_MAX + 200 };
    struct rng r = {7};
    unsigned char *live[LIVE] = {NULL};
    size_t n[LIVE];

    if (has_shelf)
        mem_shelf_open();
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)rng_between(&r, 0, LIVE - 1);
        if (live[i] == NULL) {
            n[i] = (size_t)(step % 4 == 0 ? rng_between(&r, 1, BYTES) : rng_between(&r, 1, 80));
            bool is_zero = step % 2 == 0;
            live[i] = is_zero ? mem_take_zero(n[i]) : mem_take(n[i]);
            for (size_t k = 0; is_zero && k < n[i]; k++)
                assert_int_equal(live[i][k], 0);
            memset(live[i], (int)i + 1, n[i]);
        } else {
            for (size_t k = 0; k < n[i]; k++)
                assert_int_equal(live[i][k], i + 1);
            mem_put(live[i], n[i]);
            live[i] = NULL;
        }
    }
    mem_shelf_close(); /* what is out is put back without one */
    for (size_t i = 0; i < LIVE; i++)
        mem_put(live[i], n[i]);
}

static void blocks_of_a_shelf(void **state)
{
    taken_blocks_are_ones_own(true);
}

static void blocks_without_a_shelf(void **state)
{
    taken_blocks_are_ones_own(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_a_shelf),
        cmocka_unit_test(blocks_without_a_shelf),
        cmocka_unit_test(buf_has_a_maximum),
        cmocka_unit_test(buf_prints_long_text),
        cmocka_unit_test(digits_of_any_number),
        cmocka_unit_test(arena_resets_to_a_mark),
        cmocka_unit_test(bytes_compare_and_search),
        cmocka_unit_test(lists_survive_removal),
        cmocka_unit_test(objects_are_counted_over_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

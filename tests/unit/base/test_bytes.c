/* What is done eight bytes at a time, against the same done byte by byte, at every length and offset. */
#include "unit.h"

#include "base/fields.h"
#include "base/mem.h"
#include "base/rng.h"

enum { LENGTH_MAX = 40, ROUNDS = 200 };

static int small(int c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static bool same_letters(struct bytes a, struct bytes b)
{
    for (size_t i = 0; i < a.n; i++)
        if (small((unsigned char)a.p[i]) != small((unsigned char)b.p[i]))
            return false;
    return a.n == b.n;
}

/* Bytes of their own size on the heap, so that a read beyond them is seen. */
static char *some_bytes(struct rng *r, size_t n)
{
    char *p = mem_alloc(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)(rng_below(r, 4) == 0 ? rng_next(r) : 'A' + rng_below(r, 60));
    return p;
}

static void letters_compare_without_case(void **state)
{
    struct rng r = {1};
    for (size_t n = 0; n <= LENGTH_MAX; n++)
        for (int round = 0; round < ROUNDS; round++) {
            char *p = some_bytes(&r, n), *q = mem_dup(p, n);
            for (size_t i = 0; i < n; i++)
                if (rng_below(&r, 3) == 0 && small((unsigned char)q[i]) >= 'a' && small((unsigned char)q[i]) <= 'z')
                    q[i] ^= 0x20;
            assert_true(bytes_eq_nocase((struct bytes){p, n}, (struct bytes){q, n}));
            if (n > 0)
                q[rng_below(&r, n)] ^= (char)(1 << rng_below(&r, 8));
            assert_int_equal(bytes_eq_nocase((struct bytes){p, n}, (struct bytes){q, n}),
                             same_letters((struct bytes){p, n}, (struct bytes){q, n}));
            assert_int_equal(bytes_eq_fixed_time((struct bytes){p, n}, (struct bytes){q, n}), memcmp(p, q, n) == 0);
            mem_free(p);
            mem_free(q);
        }
    assert_false(bytes_eq_nocase(BYTES("abc"), BYTES("abcd")));
    assert_false(bytes_eq_fixed_time(BYTES("abc"), BYTES("abcd")));
    assert_false(bytes_eq_nocase(BYTES("@[`{aaaa"), BYTES("`{@[aaaa"))); /* the neighbours of the letters */
}

static void control_characters_are_seen_wherever_they_are(void **state)
{
    for (size_t n = 0; n <= LENGTH_MAX; n++)
        for (size_t at = 0; at < n; at++)
            for (int c = 0; c < 256; c++) {
                char *p = mem_alloc(n);
                memset(p, at % 2 ? ' ' : '\xff', n);
                p[at] = (char)c;
                assert_int_equal(bytes_is_plain((struct bytes){p, n}), c >= 0x20 && c != 0x7f);
                mem_free(p);
            }
    assert_true(bytes_is_plain(BYTES("")));
}

/* A name is found among others of its length that differ in one byte, whatever that is; its case does not matter. */
static void names_are_told_apart(void **state)
{
    static const char *const names[] = {"te",       "via",     "host",       "accept",         "upgrade",
                                        "trailers", "x-api-9", "connection", "content-length", "retry-after-ms-0"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        size_t n = strlen(names[k]);
        for (size_t at = 0; at < n; at++)
            for (int c = 0x21; c < 0x7f; c++) {
                char *p = mem_dup(names[k], n);
                p[at] = (char)c;
                struct field v = {{p, n}, BYTES("v")};
                struct fields f = {.v = &v, .n = 1};
                assert_int_equal(fields_find(&f, bytes_of(names[k]), 0), small(c) != names[k][at]);
                mem_free(p);
            }
    }
}

static void fields_are_found_with_and_without_marks(void **state)
{
    struct field v[] = {{BYTES("Host"), BYTES("a")},
                        {BYTES("X-Api-Key"), BYTES("k")},
                        {BYTES("accept"), BYTES("1")},
                        {BYTES("ACCEPT"), BYTES("2")}};
    struct fields f = {.v = v, .n = sizeof v / sizeof v[0]};
    for (int is_marked = 0; is_marked < 2; is_marked++) {
        assert_true(bytes_is(fields_get(&f, "host"), "a"));
        assert_true(bytes_is(fields_get(&f, "x-api-key"), "k"));
        assert_true(bytes_is(fields_get(&f, "Accept"), "1"));
        assert_int_equal(fields_count(&f, "accept"), 2);
        assert_true(fields_has(&f, "HOST"));
        assert_false(fields_has(&f, "expect")); /* as long as accept */
        assert_false(fields_has(&f, "hosts"));
        assert_int_equal(fields_count(&f, "traceparent"), 0);
        assert_null(fields_get(&f, "traceparent").p);
        for (size_t i = 0; i < f.n; i++)
            f.marks |= field_mark(v[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_compare_without_case), cmocka_unit_test(control_characters_are_seen_wherever_they_are),
        cmocka_unit_test(names_are_told_apart), cmocka_unit_test(fields_are_found_with_and_without_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

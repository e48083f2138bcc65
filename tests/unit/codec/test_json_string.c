/* One string by itself is read as the tree reads it: the same strings are refused, the same text comes out. */
#include "unit.h"

#include "base/buf.h"
#include "base/rng.h"
#include "codec/json_string.h"
#include "codec/json_tree.h"

#include <stdlib.h>

/* With more behind it, where a short one is seen at once, it is the same. */
static void check_before(struct bytes inside, bool is_string, bool has_escapes)
{
    struct buf text = {0};
    struct json_string s = {0};
    buf_put(&text, inside);
    buf_puts(&text, "\",\"and\":\"more than sixteen\"");
    bool is_read = json_string_read(buf_bytes(&text), &s) && s.n == inside.n;
    assert_int_equal(is_read, is_string);
    if (is_read)
        assert_int_equal(s.has_escapes, has_escapes);
    buf_fini(&text);
}

/* `inside` stands between quotes, with something behind it. */
static void check(struct bytes inside)
{
    struct arena a = {0};
    struct buf text = {0};
    struct json_string s = {0};
    yyjson_val *root = NULL;
    buf_puts(&text, "[\"");
    buf_put(&text, inside);
    buf_puts(&text, "\"]");
    bool is_json = json_tree_parse(buf_bytes(&text), 4, &a, &root) == ERR_OK;
    char *copy = malloc(text.n - 2); /* of its own size: reading past it is seen */
    memcpy(copy, text.p + 2, text.n - 2);
    bool is_string = json_string_read(bytes_from(copy, text.n - 2), &s) && s.n == inside.n;
    if (is_json && yyjson_arr_size(root) == 1 && yyjson_is_str(yyjson_arr_get_first(root))) {
        struct bytes want = json_tree_bytes(yyjson_arr_get_first(root));
        assert_true(is_string);
        assert_int_equal(s.has_escapes, bytes_find_byte(inside, '\\') != SIZE_MAX);
        assert_true(bytes_eq(json_string_value(bytes_from(copy, s.n), s.has_escapes, &a), want));
    } else {
        assert_false(is_string);
    }
    check_before(inside, is_string, s.has_escapes);
    free(copy);
    buf_fini(&text);
    arena_fini(&a);
}

static void known_ones(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "a",
                                        "exactly sixteen b",
                                        "\\\"",
                                        "\\\\",
                                        "\\/\\b\\f\\n\\r\\t",
                                        "\\u0041\\u00e9\\u20ac",
                                        "\\ud83d\\ude82",
                                        "\\uD83D\\uDE82 a\\u000A",
                                        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x82",
                                        "\\u00e",
                                        "\\u00eg",
                                        "\\x",
                                        "\\",
                                        "\\ud83d",
                                        "\\ude82",
                                        "\\ud83d\\u0041",
                                        "\\ud83d\\ud83d",
                                        "\\ud83dx\\ude82",
                                        "\\ude82\\ud83d",
                                        "\x01",
                                        "\x1f",
                                        "\x7f",
                                        "\xff",
                                        "\xc3",
                                        "\xc0\x80",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xe2\x82",
                                        "\xc3\xa9\xa9",
                                        "0123456789abcde\\u0041",
                                        "0123456789abcdef\xc3\xa9",
                                        "0123456789abcdef0123456789abcde\x1f",
                                        "a\nb",
                                        "\t",
                                        "\\'",
                                        "\\U0041",
                                        "\\u-041"};
    for (size_t i = 0; i < RM_COUNTOF(texts); i++)
        check(bytes_of(texts[i]));
    check(BYTES("a\0b"));
    check(BYTES("\\u0000"));
}

static void cut_ones(void **state)
{
    (void)state;
    struct json_string s;
    struct bytes in = BYTES("a \\ud83d\\ude82 \xc3\xa9 0123456789abcdef\"");
    for (size_t n = 0; n < in.n; n++)
        assert_false(json_string_read(bytes_slice(in, 0, n), &s));
    assert_true(json_string_read(in, &s));
    assert_int_equal(s.n, in.n - 1);
}

static void any_ones(void **state)
{
    (void)state;
    static const char *const pieces[] = {"\\",   "\\u",          "d83d", "\\ude82", "\\ud83d", "0041",
                                         "a",    "\\n",          "\"",   "\xc3",    "\xa9",    "\xe2\x82\xac",
                                         "\xf0", "\x9f\x9a\x82", "\x1f", "00",      "E",       "0123456789abcdef"};
    struct rng r = {7};
    for (int i = 0; i < 100000; i++) {
        struct buf b = {0};
        for (uint64_t n = rng_below(&r, 7); n > 0; n--)
            buf_puts(&b, pieces[rng_below(&r, RM_COUNTOF(pieces))]);
        check(buf_bytes(&b));
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_ones), cmocka_unit_test(cut_ones),
                                       cmocka_unit_test(any_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

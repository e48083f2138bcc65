#include "unit.h"

#include "base/rng.h"
#include "codec/json_tree.h"
#include "codec/json_write.h"

#include <stdio.h>

/* A string the slow way: each byte by itself, what is not UTF-8 a byte at a time. */
static void expected(struct bytes s, struct buf *out)
{
    static const char odd[] = "\"\\\b\f\n\r\t";
    buf_putc(out, '"');
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0x80 ? 2 : 1;
        if (c >= 0x80 && (i + whole > s.n || !bytes_is_utf8(bytes_slice(s, i, i + whole)))) {
            buf_puts(out, "\xef\xbf\xbd");
            i++;
            continue;
        }
        const char *at = c != 0 ? strchr(odd, c) : NULL;
        if (at != NULL)
            buf_printf(out, "\\%c", "\"\\bfnrt"[at - odd]);
        else if (c < 0x20)
            buf_printf(out, "\\u%04x", c);
        else
            buf_put(out, bytes_slice(s, i, i + whole));
        i += whole;
    }
    buf_putc(out, '"');
}

static void assert_written(struct bytes s)
{
    struct buf got = {0}, want = {0};
    struct json_writer w;
    jw_init(&w, &got);
    jw_string(&w, s);
    expected(s, &want);
    assert_string_equal(buf_cstr(&got), buf_cstr(&want));
    jw_init(&w, &got);
    buf_clear(&got);
    jw_object(&w);
    jw_key_bytes(&w, s);
    jw_null(&w);
    jw_end(&w);
    assert_int_equal(got.n, want.n + sizeof "{:null}" - 1);
    assert_memory_equal(got.p + 1, want.p, want.n);
    buf_fini(&got);
    buf_fini(&want);
}

/* Each byte at each place of texts around the eight that are looked at together. */
static void every_byte_everywhere(void **state)
{
    char text[20];
    for (int c = 0; c < 256; c++)
        for (size_t n = 1; n <= sizeof text; n++)
            for (size_t at = 0; at < n; at++) {
                memset(text, 'a', sizeof text);
                text[at] = (char)c;
                assert_written(bytes_from(text, n));
            }
}

static void mixtures(void **state)
{
    static const char *const parts[] = {
        "plain text",       "\"",   "\\",       "\n",   "\x1f",         "\x7f",    "é",           "—",
        "\xf0\x9f\x98\x80", "\xc3", "\xe2\x80", "\xff", "\xed\xa0\x80", "1234567", "\xe2\x80\xa8"};
    struct rng rng = {11};
    struct buf text = {0};
    assert_written(BYTES(""));
    for (int round = 0; round < 3000; round++) {
        buf_clear(&text);
        for (uint64_t n = rng_below(&rng, 9); n > 0; n--)
            buf_puts(&text, parts[rng_below(&rng, RM_COUNTOF(parts))]);
        if (text.n > 0)
            assert_written(buf_bytes(&text));
    }
    buf_fini(&text);
}

static void members(void **state)
{
    struct buf out = {0};
    struct json_writer w;
    jw_init(&w, &out);
    jw_object(&w);
    jw_key(&w, "first");
    jw_int(&w, -1);
    jw_named_int(&w, "int", INT64_MIN);
    jw_named_uint(&w, "uint", UINT64_MAX);
    jw_named_bool(&w, "yes", true);
    jw_key(&w, "inner");
    jw_object(&w);
    jw_key(&w, "a");
    jw_array(&w);
    jw_null(&w);
    jw_raw(&w, BYTES("0.5"));
    jw_end(&w);
    jw_named_string(&w, "b", BYTES("x\ty"));
    jw_end(&w);
    jw_named_cstr(&w, "empty", "");
    jw_named_text(&w, "none", "");
    jw_named_text(&w, "null", NULL);
    jw_named_text(&w, "text", "t");
    jw_named_count(&w, "zero", 0);
    jw_named_count(&w, "unknown", -1);
    jw_named_known(&w, "known", -5, true);
    jw_named_known(&w, "not", 7, false);
    jw_end(&w);
    assert_string_equal(
        buf_cstr(&out),
        "{\"first\":-1,\"int\":-9223372036854775808,\"uint\":18446744073709551615,\"yes\":true,\"inner\":"
        "{\"a\":[null,0.5],\"b\":\"x\\ty\"},\"empty\":\"\",\"none\":null,\"null\":null,\"text\":\"t\","
        "\"zero\":0,\"unknown\":null,\"known\":-5,\"not\":null}");
    buf_fini(&out);
}

/* A buffer that is full says so, and takes what exactly fits. */
static void bounded(void **state)
{
    for (size_t max = 1; max < 24; max++) {
        struct buf out = {.max = max};
        struct json_writer w;
        jw_init(&w, &out);
        jw_object(&w);
        jw_key(&w, "name");
        jw_cstr(&w, "a\"b value");
        jw_end(&w);
        assert_int_equal(out.overflow, max < sizeof "{\"name\":\"a\\\"b value\"}" - 1);
        assert_true(out.n <= max);
        buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_everywhere),
        cmocka_unit_test(mixtures),
        cmocka_unit_test(members),
        cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

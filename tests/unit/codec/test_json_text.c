/* The writer and the tree. */
#include "unit.h"

#include "codec/json_tree.h"
#include "codec/json_write.h"

static void writes(void **state)
{
    (void)state;
    struct buf b = {0};
    struct json_writer w;
    jw_init(&w, &b);
    jw_object(&w);
    jw_key(&w, "a\"");
    jw_array(&w);
    jw_int(&w, INT64_MIN);
    jw_uint(&w, UINT64_MAX);
    jw_string(&w, BYTES("x\n\x01\0\xff\xe2\x80\xa8\\/\xf0\x9f\x9a\x8b"));
    jw_object(&w);
    jw_end(&w);
    jw_bool(&w, true);
    jw_end(&w);
    jw_key(&w, "raw");
    jw_raw(&w, BYTES("1e2"));
    jw_key(&w, "none");
    jw_null(&w);
    jw_end(&w);
    assert_string_equal(buf_cstr(&b), "{\"a\\\"\":[-9223372036854775808,18446744073709551615,"
                                      "\"x\\n\\u0001\\u0000\xef\xbf\xbd\xe2\x80\xa8\\\\/\xf0\x9f\x9a\x8b\",{},true],"
                                      "\"raw\":1e2,\"none\":null}");
    buf_fini(&b);
}

/* Numbers as written, members in order, NULs inside strings. */
static void keeps_what_it_read(void **state)
{
    (void)state;
    static const char text[] = "{\"z\":1e2,\"a\":9223372036854775807123,\"s\":\"a\\u0000b\",\"n\":[-0.0,{}]}";
    struct arena a = {0};
    yyjson_val *root;
    assert_int_equal(json_tree_parse(bytes_of(text), 8, &a, &root), ERR_OK);
    assert_true(bytes_eq(json_tree_text(root, &a), bytes_of(text)));
    struct bytes s = json_tree_str(root, "s");
    assert_int_equal(s.n, 3);
    assert_memory_equal(s.p, "a\0b", 3);
    arena_fini(&a);
}

static void reads_whole_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want; /* -1 = none */
    } cases[] = {{"{\"v\":5}", 5},
                 {"{\"v\":5.0}", 5},
                 {"{\"v\":1e2}", 100},
                 {"{\"v\":1.5}", -1},
                 {"{\"v\":\"5\"}", -1},
                 {"{\"v\":150e-1}", 15},
                 {"{\"v\":1e99}", -1},
                 {"{\"v\":null}", -1},
                 {"{}", -1},
                 {"{\"v\":9223372036854775807}", INT64_MAX},
                 {"{\"v\":9223372036854775808}", -1},
                 {"{\"v\":0e999}", -1},
                 {"{\"v\":0}", 0}};
    for (size_t i = 0; i < RM_COUNTOF(cases); i++) {
        struct arena a = {0};
        yyjson_val *root;
        assert_int_equal(json_tree_parse(bytes_of(cases[i].text), 8, &a, &root), ERR_OK);
        assert_int_equal(json_tree_int(root, "v", -1), cases[i].want);
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes), cmocka_unit_test(keeps_what_it_read),
                                       cmocka_unit_test(reads_whole_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "unit.h"

#include "codec/json_scan.h"
#include "codec/json_tree.h"

#include <stdio.h>
#include <stdlib.h>

static enum err scan_for(const char *text, const char *name, unsigned depth, struct json_member *m)
{
    struct json_scan scan;
    *m = (struct json_member){.name = name};
    return json_scan(bytes_of(text), depth, m, 1, &scan);
}

static void finds_ranges(void **state)
{
    (void)state;
    static const char text[] = " { \"a\" : [1,{\"model\":\"no\"}] , \"model\" :\t\"x\\\"y\" ,\"z\":{}}\n";
    struct json_member m[3] = {{.name = "model"}, {.name = "z"}, {.name = "absent"}};
    struct json_scan scan;
    assert_int_equal(json_scan(bytes_of(text), 8, m, 3, &scan), ERR_OK);
    assert_int_equal(scan.open_at, 1);
    assert_int_equal(m[0].type, JSON_STRING);
    assert_true(bytes_is(json_member_raw(bytes_of(text), &m[0]), "\"x\\\"y\""));
    assert_int_equal(text[m[0].name_at], '"');
    assert_int_equal(m[1].type, JSON_OBJECT);
    assert_int_equal(m[2].type, JSON_ABSENT);
}

static void types(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum json_type type;
    } cases[] = {{"{\"v\":\"\"}", JSON_STRING}, {"{\"v\":-1.5e9}", JSON_NUMBER}, {"{\"v\":[]}", JSON_ARRAY},
                 {"{\"v\":{}}", JSON_OBJECT},   {"{\"v\":true}", JSON_TRUE},     {"{\"v\":false}", JSON_FALSE},
                 {"{\"v\":null}", JSON_NULL},   {"{\"w\":null}", JSON_ABSENT}};
    for (size_t i = 0; i < RM_COUNTOF(cases); i++) {
        struct json_member m;
        assert_int_equal(scan_for(cases[i].text, "v", 8, &m), ERR_OK);
        assert_int_equal(m.type, cases[i].type);
    }
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum err want;
    } cases[] = {
        {"", ERR_SYNTAX},
        {"[]", ERR_SYNTAX},
        {"{", ERR_SYNTAX},
        {"{}x", ERR_SYNTAX},
        {"{}{}", ERR_SYNTAX},
        {"{\"a\":1,}", ERR_SYNTAX},
        {"{,\"a\":1}", ERR_SYNTAX},
        {"{\"a\" 1}", ERR_SYNTAX},
        {"{\"a\":}", ERR_SYNTAX},
        {"{\"a\":[1,]}", ERR_SYNTAX},
        {"{\"a\":[1 2]}", ERR_SYNTAX},
        {"{\"a\":[1}", ERR_SYNTAX},
        {"{\"a\":{\"b\":1]}", ERR_SYNTAX},
        {"{\"a\":{\"b\":1,}}", ERR_SYNTAX},
        {"{\"a\":{1:2}}", ERR_SYNTAX},
        {"{a:1}", ERR_SYNTAX},
        {"{\"a\":tru}", ERR_SYNTAX},
        {"{\"a\":\"\x01\"}", ERR_SYNTAX},
        {"{\"a\":\"\n\"}", ERR_SYNTAX},
        {"{\"a\":\"\xff\"}", ERR_SYNTAX},
        {"{\"a\":\"\xc0\x80\"}", ERR_SYNTAX},
        {"{\"a\":\"\xed\xa0\x80\"}", ERR_SYNTAX},
        {"{\"a\":\"\\x\"}", ERR_SYNTAX},
        {"{\"a\":\"\\u12\"}", ERR_SYNTAX},
        {"{\"a\":\"", ERR_SYNTAX},
        {"{\"a\":\"\\", ERR_SYNTAX},
        {"{\"a\":\"\xe2\x82", ERR_SYNTAX},
        {"{\"m\":1,\"m\":2}", ERR_DUPLICATE},
        {"{\"m\":1,\"\\u006d\":2}", ERR_DUPLICATE},
        {"{\"\\u006D\":1,\"m\":2}", ERR_DUPLICATE},
        {"{\"a\":[[[[[[[[1]]]]]]]]}", ERR_LIMIT},
        {"{\"a\":1,\"a\":2}", ERR_OK},
        {"{\"x\":{\"m\":1,\"m\":2}}", ERR_OK},
        {"{\"a\":[[[[[[[1]]]]]]]}", ERR_OK},
        {"{\"a\":\"\\ud800\"}", ERR_OK},
        {"{\"a\":\"\xf0\x9f\x9a\x8b\"}", ERR_OK},
    };
    for (size_t i = 0; i < RM_COUNTOF(cases); i++) {
        struct json_member m;
        enum err got = scan_for(cases[i].text, "m", 8, &m);
        if (got != cases[i].want)
            print_message("%s\n", cases[i].text);
        assert_int_equal(got, cases[i].want);
    }
}

static void finds_an_escaped_name(void **state)
{
    (void)state;
    struct json_member m;
    assert_int_equal(scan_for("{\"mod\\u0065l\":\"x\"}", "model", 8, &m), ERR_OK);
    assert_int_equal(m.type, JSON_STRING);
    assert_int_equal(scan_for("{\"mod\\\\el\":\"x\"}", "model", 8, &m), ERR_OK);
    assert_int_equal(m.type, JSON_ABSENT);
}

/* A million brackets: no stack, no time. */
static void is_not_deep_itself(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = malloc(N + 16);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '[', N);
    struct json_member m = {.name = "a"};
    struct json_scan scan;
    assert_int_equal(json_scan(bytes_from(text, N + 5), 128, &m, 1, &scan), ERR_LIMIT);
    assert_int_equal(json_scan(bytes_from(text, N + 5), 1u << 30, &m, 1, &scan), ERR_LIMIT);
    struct arena a = {0};
    yyjson_val *root;
    assert_int_equal(json_tree_parse(bytes_from(text, N + 5), 128, &a, &root), ERR_LIMIT);
    arena_fini(&a);
    free(text);
}

/* Cut anywhere, a text is refused, and nothing past its end is read (the buffer is exactly as long as the text). */
static void every_prefix_is_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"model\":\"a\\u00e9\xc3\xa9\",\"n\":[1,{\"k\":null}],\"t\":true}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, text, n);
        struct json_member m = {.name = "model"};
        struct json_scan scan;
        assert_int_equal(json_scan(bytes_from(cut, n), 8, &m, 1, &scan), ERR_SYNTAX);
        free(cut);
    }
}

/* What the tree parser accepts, the scan accepts; ranges hold the same text. */
static void agrees_with_the_tree(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\":9223372036854775807123,\"b\":1e2}",
                                        "{\"b\":{\"x\":[{}]},\"a\":\"\\u0000\"}", "{ }", "{\"a\":[[],{}],\"b\":\"\"}"};
    for (size_t i = 0; i < RM_COUNTOF(texts); i++) {
        struct arena a = {0};
        yyjson_val *root;
        struct json_member m[2] = {{.name = "a"}, {.name = "b"}};
        struct json_scan scan;
        assert_int_equal(json_tree_parse(bytes_of(texts[i]), 8, &a, &root), ERR_OK);
        assert_int_equal(json_scan(bytes_of(texts[i]), 8, m, 2, &scan), ERR_OK);
        for (int k = 0; k < 2; k++) {
            yyjson_val *v = yyjson_obj_get(root, m[k].name);
            assert_int_equal(v != NULL, m[k].type != JSON_ABSENT);
            if (v != NULL)
                assert_true(bytes_eq(json_tree_text(v, &a), json_member_raw(bytes_of(texts[i]), &m[k])));
        }
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_ranges),
        cmocka_unit_test(types),
        cmocka_unit_test(refuses),
        cmocka_unit_test(finds_an_escaped_name),
        cmocka_unit_test(is_not_deep_itself),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(agrees_with_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

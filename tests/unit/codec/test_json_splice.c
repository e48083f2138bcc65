#include "unit.h"

#include "base/buf.h"
#include "codec/json_splice.h"
#include "codec/json_tree.h"

static const char *const names[] = {"a", "b", "c", "d"};

static void flatten(const struct pieces *p, struct buf *out)
{
    buf_clear(out);
    for (size_t i = 0; i < p->n; i++)
        buf_put(out, p->v[i]);
    assert_int_equal(out->n, p->n_bytes);
}

/* With members that are ready to be inserted the text is the same. */
static void expect_same_with_members(struct bytes text, const struct json_scan *scan, struct json_edit *edits, size_t n,
                                     struct bytes want)
{
    static const char *const whole[] = {"\"p\":7,", "\"q\":7,"};
    struct arena a = {0};
    struct buf got = {0};
    struct pieces pieces;
    for (size_t i = 0; i < n; i++)
        if (edits[i].found->type == JSON_ABSENT)
            edits[i].member = bytes_of(whole[edits[i].name[0] - 'p']);
    json_splice(text, scan, edits, n, &a, &pieces);
    flatten(&pieces, &got);
    assert_true(bytes_eq(buf_bytes(&got), want));
    arena_fini(&a);
    buf_fini(&got);
}

/* Bit i of `removed` and `changed` is member i; `n_new` members are inserted. */
static void one(int n, unsigned removed, unsigned changed, int n_new, bool is_airy)
{
    struct buf text = {0}, got = {0};
    struct arena a = {0};
    buf_puts(&text, is_airy ? " {\n " : "{");
    for (int i = 0; i < n; i++)
        buf_printf(&text, is_airy ? "%s\"%s\" : [%d, {\"x\":1}]" : "%s\"%s\":[%d,{\"x\":1}]",
                   i ? (is_airy ? " ,\n " : ",") : "", names[i], i);
    buf_puts(&text, is_airy ? " } " : "}");
    struct json_member m[6] = {{.name = "a"}, {.name = "b"}, {.name = "c"},
                               {.name = "d"}, {.name = "p"}, {.name = "q"}};
    struct json_scan scan;
    assert_int_equal(json_scan(buf_bytes(&text), 8, m, 6, &scan), ERR_OK);
    struct json_edit edits[6];
    size_t n_edits = 0;
    for (int i = n - 1; i >= 0; i--) {
        if (removed >> i & 1)
            edits[n_edits++] = (struct json_edit){.name = names[i], .found = &m[i], .remove = true};
        if (changed >> i & 1)
            edits[n_edits++] = (struct json_edit){.name = names[i], .found = &m[i], .value = BYTES("\"new\"")};
    }
    for (int i = 0; i < n_new; i++)
        edits[n_edits++] = (struct json_edit){.name = m[4 + i].name, .found = &m[4 + i], .value = BYTES("7")};
    struct pieces pieces;
    json_splice(buf_bytes(&text), &scan, edits, n_edits, &a, &pieces);
    flatten(&pieces, &got);
    yyjson_val *root;
    assert_int_equal(json_tree_parse(buf_bytes(&got), 8, &a, &root), ERR_OK);
    assert_int_equal(yyjson_obj_size(root), n - __builtin_popcount(removed) + n_new);
    for (int i = 0; i < n; i++) {
        yyjson_val *v = yyjson_obj_get(root, names[i]);
        assert_int_equal(v == NULL, removed >> i & 1);
        if (v != NULL)
            assert_int_equal(yyjson_is_str(v), changed >> i & 1);
    }
    for (int i = 0; i < n_new; i++)
        assert_non_null(yyjson_obj_get(root, m[4 + i].name));
    expect_same_with_members(buf_bytes(&text), &scan, edits, n_edits, buf_bytes(&got));
    if (removed == 0 && changed == 0 && n_new == 0)
        assert_true(bytes_eq(buf_bytes(&got), buf_bytes(&text)));
    arena_fini(&a);
    buf_fini(&text);
    buf_fini(&got);
}

static void every_combination(void **state)
{
    (void)state;
    for (int n = 0; n <= 4; n++)
        for (unsigned removed = 0; removed < 1u << n; removed++)
            for (unsigned changed = 0; changed < 1u << n; changed++)
                for (int n_new = 0; n_new <= 2 && !(removed & changed); n_new++) {
                    one(n, removed, changed, n_new, false);
                    one(n, removed, changed, n_new, true);
                }
}

static void leaves_every_other_byte(void **state)
{
    (void)state;
    static const char text[] = "{\"z\":1e2,\"model\": \"chain\" ,\"big\":9223372036854775807123,\"s\":\"\\u0041\"}";
    struct arena a = {0};
    struct buf got = {0};
    struct json_member m[2] = {{.name = "model"}, {.name = "stream_options"}};
    struct json_scan scan;
    assert_int_equal(json_scan(bytes_of(text), 8, m, 2, &scan), ERR_OK);
    struct json_edit edits[] = {{.name = "model", .found = &m[0], .value = BYTES("\"up\"")},
                                {.name = "stream_options", .found = &m[1], .value = BYTES("{\"include_usage\":true}")}};
    struct pieces pieces;
    json_splice(bytes_of(text), &scan, edits, 2, &a, &pieces);
    flatten(&pieces, &got);
    assert_string_equal(buf_cstr(&got), "{\"stream_options\":{\"include_usage\":true},\"z\":1e2,\"model\": \"up\" ,"
                                        "\"big\":9223372036854775807123,\"s\":\"\\u0041\"}");
    arena_fini(&a);
    buf_fini(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_combination), cmocka_unit_test(leaves_every_other_byte)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

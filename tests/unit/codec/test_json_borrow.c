/* A borrowed tree against a parsed one: both are there or neither, and they hold the same. */
#include "unit.h"

#include "base/buf.h"
#include "base/rng.h"
#include "codec/json_tree.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 64 };

static void expect_same(yyjson_val *a, yyjson_val *b)
{
    size_t i, n;
    yyjson_val *key, *value;
    assert_int_equal(yyjson_get_type(a), yyjson_get_type(b));
    if (yyjson_is_obj(a)) {
        yyjson_obj_iter other = yyjson_obj_iter_with(b);
        assert_int_equal(yyjson_obj_size(a), yyjson_obj_size(b));
        yyjson_obj_foreach(a, i, n, key, value)
        {
            yyjson_val *k = yyjson_obj_iter_next(&other);
            assert_true(bytes_eq(json_tree_bytes(key), json_tree_bytes(k)));
            expect_same(value, yyjson_obj_iter_get_val(k));
        }
    } else if (yyjson_is_arr(a)) {
        yyjson_arr_iter other = yyjson_arr_iter_with(b);
        assert_int_equal(yyjson_arr_size(a), yyjson_arr_size(b));
        yyjson_arr_foreach(a, i, n, value) expect_same(value, yyjson_arr_iter_next(&other));
    } else if (yyjson_is_str(a)) {
        assert_true(bytes_eq(json_tree_bytes(a), json_tree_bytes(b)));
    } else if (yyjson_is_raw(a)) {
        assert_true(bytes_eq(bytes_from(yyjson_get_raw(a), yyjson_get_len(a)),
                             bytes_from(yyjson_get_raw(b), yyjson_get_len(b))));
    } else {
        assert_int_equal(yyjson_get_bool(a), yyjson_get_bool(b));
    }
}

/* In memory of its own size, so that a look beyond it is seen. */
static void check(struct bytes text)
{
    struct arena a = {0};
    yyjson_val *borrowed = NULL, *parsed = NULL;
    char *copy = malloc(text.n + 1);
    memcpy(copy + 1, text.p, text.n);
    enum err one = json_tree_borrow(bytes_from(copy + 1, text.n), DEPTH, &a, &borrowed);
    enum err two = json_tree_parse(text, DEPTH, &a, &parsed);
    assert_int_equal(one, two);
    if (one == ERR_OK) {
        expect_same(borrowed, parsed);
        assert_true(bytes_eq(json_tree_text(borrowed, &a), json_tree_text(parsed, &a)));
    }
    free(copy);
    arena_fini(&a);
}

static void known_ones(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{}",
        " { } ",
        "[]",
        "1",
        "\"a\"",
        "{\"a\":{},\"b\":[],\"c\":[{}],\"d\":{\"e\":[]}}",
        "{\"a\":[1,-2,3.5e7,0,true,false,null,\"\",\"x\\n\\u00e9\\\\\"]}",
        "{\"a\":1,\"a\":2}",
        "{\"\\u0061\":1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":-}",
        "{\"a\":1e5,\"b\":1E+5,\"c\":-0.0}",
        "{\"a\":\"\\ud83d\\ude82\"}",
        "{\"a\":\"\\ud83d\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc3\xa9\xf0\x9f\x9a\x82\"}",
        "{\"a\":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}",
        "{\"a\":[[[[[[[[[[[[[{\"b\":[1]}]]]]]]]]]]]]]}",
        "{\"a\":1} x",
        "{\"a\":1}}",
        "{\"a\":tru}",
        "\xef\xbb\xbf{\"a\":1}",
        "<html>",
    };
    for (size_t i = 0; i < RM_COUNTOF(texts); i++)
        check(bytes_of(texts[i]));
}

static void as_deep_as_allowed(void **state)
{
    (void)state;
    struct buf text = {0};
    for (int levels = 1; levels < DEPTH + 3; levels++) {
        buf_clear(&text);
        buf_puts(&text, "{\"a\":");
        for (int i = 1; i < levels; i++)
            buf_puts(&text, i % 2 ? "[" : "{\"b\":");
        buf_puts(&text, "\"c\"");
        for (int i = levels - 1; i > 0; i--)
            buf_puts(&text, i % 2 ? "]" : "}");
        buf_putc(&text, '}');
        check(buf_bytes(&text));
    }
    buf_fini(&text);
}

/* ---- what was recorded, whole and damaged ---- */

static unsigned n_read;

static void damaged(struct bytes text, struct rng *r)
{
    static const char odd[] = "\"\\{}[],:0.-e \n\xc3\xff";
    struct buf b = {0};
    for (int i = 0; i < 8; i++) {
        buf_clear(&b);
        buf_put(&b, text);
        b.p[rng_below(r, b.n)] = odd[rng_below(r, sizeof odd - 1)];
        check(buf_bytes(&b));
    }
    buf_fini(&b);
}

static void check_lines(struct bytes text)
{
    struct rng r = {bytes_hash(text, 0)};
    check(bytes_trim(text));
    while (text.n > 0) {
        struct bytes line = bytes_trim(bytes_cut(&text, '\n'));
        if (bytes_starts_with(line, BYTES("data:")))
            line = bytes_trim(bytes_slice(line, 5, line.n));
        if (line.n == 0)
            continue;
        check(line);
        damaged(line, &r);
    }
}

static int read_file(const char *path, const struct stat *s, int kind, struct FTW *place)
{
    (void)place;
    if (kind != FTW_F || s->st_size == 0 || s->st_size > 300000)
        return 0;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = malloc((size_t)s->st_size);
    size_t n = fread(text, 1, (size_t)s->st_size, f);
    fclose(f);
    check_lines(bytes_from(text, n));
    free(text);
    n_read++;
    return 0;
}

static void recorded_ones(void **state)
{
    (void)state;
    const char *source = getenv("RINGMAIN_SOURCE"), *fixtures = getenv("RINGMAIN_FIXTURES");
    struct buf golden = {0};
    buf_printf(&golden, "%s/tests/golden", source != NULL ? source : ".");
    n_read = 0;
    assert_int_equal(nftw(buf_cstr(&golden), read_file, 16, FTW_PHYS), 0);
    assert_true(n_read > 100);
    if (fixtures != NULL)
        nftw(fixtures, read_file, 16, FTW_PHYS); /* not everywhere there */
    buf_fini(&golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_ones),
        cmocka_unit_test(as_deep_as_allowed),
        cmocka_unit_test(recorded_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Files that are no files of settings: each is told and none hurts. */
#include "unit.h"

#include "base/rng.h"
#include "config/loading.h"

static void hostile_files(void **state)
{
    expect_fault("", "the file is empty");
    expect_fault("# only a comment\n", "the file is empty");
    expect_fault("~", "the file is empty");
    expect_fault("text", "the file is text; expected a map");
    expect_fault("- a\n", "the file is a list; expected a map");
    expect_fault("a: [b\n", "not well-formed YAML");
    expect_fault("a: b: c\n", "not well-formed YAML");
    expect_fault("listen: \"\xff\"\n", ":1:1: error: not UTF-8");
    expect_fault("{[a]: b}", "a key is text, not a map or a list");
    expect_fault("a: &x 1\nb: *x\n", "anchors (&name) and aliases (*name) are not read here");
    expect_fault("listen: !tag x\n", "tags (!name) are not read here");
    expect_fault(WITH(ROUTE) "---\nx: 1\n", "a second document");
    expect_fault("\xef\xbb\xbf" WITH(ROUTE), "");
    expect_fault("a: &a [x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n", "aliases");
}

static void nul_and_size(void **state)
{
    const struct config_known known = {.dialects = loading_dialects};
    struct config *c;
    struct config_faults f;
    assert_int_not_equal(config_parse(BYTES("a: 1\nb:\0 2\n"), "x", &known, NULL, &c, &f), ERR_OK);
    assert_string_equal(f.v[0].message, "a NUL byte; the file must be text");
    assert_int_equal(f.v[0].line, 2);
    config_faults_fini(&f);
    struct buf big = {0};
    memset(buf_reserve(&big, (4 << 20) + 1), ' ', (4 << 20) + 1);
    buf_grew(&big, (4 << 20) + 1);
    assert_int_not_equal(config_parse(buf_bytes(&big), "x", &known, NULL, &c, &f), ERR_OK);
    assert_string_equal(f.v[0].message, "larger than 4 MiB");
    config_faults_fini(&f);
    buf_fini(&big);
}

static void deep_files(void **state)
{
    struct buf deep = {0};
    for (unsigned n = 20; n < 5000; n = n * 2) {
        buf_clear(&deep);
        buf_puts(&deep, "routes: ");
        for (unsigned i = 0; i < n; i++)
            buf_putc(&deep, '[');
        for (unsigned i = 0; i < n; i++)
            buf_putc(&deep, ']');
        struct loading l = load_text(buf_cstr(&deep));
        assert_int_not_equal(l.err, ERR_OK);
        loading_fini(&l);
    }
    buf_fini(&deep);
}

/* Every prefix and many changed bytes of a whole file: never a crash, and out and faults agree (load_text). */
static void damaged_files(void **state)
{
    static const char text[] =
        "listen: 127.0.0.1:${PORT}\nlimits: {memory: 25%, body_bytes: 1M}\n"
        "prices: {a/m: {input: 1, output: \"2\"}}\n"
        "providers:\n  a: {dialect: openai, base_url: \"http://h/v1\", api_key: '${KEY}', headers: {x: y}}\n"
        "defaults: {breaker: {ratio: 0.5}}\n"
        "routes:\n  - model: m\n    chain:\n      - {provider: a, set: {t: [1, {u: 2}]}, drop: [v], supports: {tools: "
        "true}}\n";
    char copy[sizeof text];
    struct rng r = {7};
    for (size_t n = 0; n < sizeof text; n += 3) {
        memcpy(copy, text, sizeof text);
        copy[n] = '\0';
        struct loading l = load_text(copy);
        loading_fini(&l);
    }
    for (int i = 0; i < 300; i++) {
        memcpy(copy, text, sizeof text);
        for (int k = 0; k < 3; k++)
            copy[rng_below(&r, sizeof text - 1)] = (char)(1 + rng_below(&r, 126));
        struct loading l = load_text(copy);
        loading_fini(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hostile_files), cmocka_unit_test(nul_and_size),
                                       cmocka_unit_test(deep_files), cmocka_unit_test(damaged_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "unit.h"

#include "base/check.h"
#include "lab/report.h"

#define OPENING "<script id=\"results\" type=\"application/json\">"
#define CLOSING "</script>"

/* What the page holds between the opening and the first closing of the results' element, as a browser reads it. */
static struct bytes held(struct bytes page)
{
    size_t at = bytes_find(page, BYTES(OPENING));
    assert_true(at != SIZE_MAX);
    struct bytes rest = bytes_slice(page, at + strlen(OPENING), page.n);
    size_t end = bytes_find_nocase(rest, BYTES(CLOSING));
    assert_true(end != SIZE_MAX);
    return bytes_slice(rest, 0, end);
}

/* The three escapes undone. */
static void unescape(struct bytes text, struct buf *out)
{
    static const struct {
        const char *escape, *plain;
    } rows[] = {{"\\u003c", "<"}, {"\\u003e", ">"}, {"\\u0026", "&"}};
    while (text.n > 0) {
        size_t taken = 0;
        for (size_t i = 0; i < 3 && !taken; i++)
            if (bytes_starts_with(text, bytes_of(rows[i].escape))) {
                buf_puts(out, rows[i].plain);
                taken = strlen(rows[i].escape);
            }
        if (!taken)
            buf_putc(out, text.p[0]);
        text = bytes_slice(text, taken ? taken : 1, text.n);
    }
}

/* The page around the results is the same whatever they are, and they can be read back from it. */
static void check_whole(struct bytes json)
{
    struct buf page = {0}, plain = {0}, back = {0};
    report_html(json, &page);
    report_html(BYTES(""), &plain);
    struct bytes in = held(buf_bytes(&page)), all = buf_bytes(&page), none = buf_bytes(&plain);
    assert_true(bytes_find_byte(in, '<') == SIZE_MAX);
    assert_true(bytes_find_byte(in, '>') == SIZE_MAX);
    assert_true(bytes_find_byte(in, '&') == SIZE_MAX);
    size_t before = bytes_find(none, BYTES(OPENING)) + strlen(OPENING);
    assert_int_equal(all.n, none.n + in.n);
    assert_true(bytes_eq(bytes_slice(all, 0, before), bytes_slice(none, 0, before)));
    assert_true(bytes_eq(bytes_slice(all, before + in.n, all.n), bytes_slice(none, before, none.n)));
    unescape(in, &back);
    assert_true(bytes_eq(buf_bytes(&back), json));
    buf_fini(&page);
    buf_fini(&plain);
    buf_fini(&back);
}

static void test_no_content_leaves_its_element(void **state)
{
    (void)state;
    check_whole(BYTES("{\"format\":\"ringmain-bench/1\"}"));
    check_whole(BYTES("{\"command\":\"</script><script>alert(1)</script>\"}"));
    check_whole(BYTES("{\"command\":\"</SCRIPT ><img src=x onerror=alert(1)>\"}"));
    check_whole(BYTES("{\"command\":\"<!--<script>\"}"));
    check_whole(BYTES("{\"command\":\"-->]]>&lt;&amp;\"}"));
    check_whole(BYTES("{\"command\":\"@RESULTS@\"}"));
    check_whole(BYTES("<<<>>>&&&"));
    check_whole(BYTES("no JSON at all \xff\xfe </script"));
    check_whole(BYTES("\xe2\x80\xa8\xe2\x80\xa9 \xc3"));
}

static void test_every_byte_and_every_place(void **state)
{
    (void)state;
    char every[256];
    for (size_t i = 0; i < sizeof every; i++)
        every[i] = (char)i;
    check_whole(bytes_from(every, sizeof every));
    for (size_t at = 0; at < 5; at++) {
        char text[] = "abcde";
        text[at] = '<';
        check_whole(bytes_from(text, 5));
    }
}

/* The results are appended: what stood in the buffer stays. */
static void test_appends(void **state)
{
    (void)state;
    struct buf out = {0};
    buf_puts(&out, "before");
    report_html(BYTES("{}"), &out);
    assert_true(bytes_starts_with(buf_bytes(&out), BYTES("before<!doctype html>")));
    assert_true(bytes_ends_with(bytes_trim(buf_bytes(&out)), BYTES("</html>")));
    buf_fini(&out);
}

static void test_a_full_buffer_is_told(void **state)
{
    (void)state;
    struct buf page = {0};
    report_html(BYTES("{}"), &page);
    struct buf fits = {.max = page.n}, small = {.max = page.n - 1};
    report_html(BYTES("{}"), &fits);
    report_html(BYTES("{}"), &small);
    assert_false(fits.overflow);
    assert_true(small.overflow);
    buf_fini(&page);
    buf_fini(&fits);
    buf_fini(&small);
}

/* The page as built lets nothing run but its own script, by hash, and names no place to load from. */
static void test_the_page_is_sealed(void **state)
{
    (void)state;
    struct buf out = {0};
    report_html(BYTES("{}"), &out);
    struct bytes page = buf_bytes(&out);
    assert_true(bytes_find(page, BYTES("default-src 'none'")) < 1024);
    assert_true(bytes_find(page, BYTES("script-src 'sha256-")) < 1024);
    assert_true(bytes_find(page, BYTES("style-src 'sha256-")) < 1024);
    assert_true(bytes_find(page, BYTES("unsafe-inline")) == SIZE_MAX);
    assert_true(bytes_find(page, BYTES("https:")) == SIZE_MAX);
    assert_true(bytes_find(page, BYTES("src=")) == SIZE_MAX);
    assert_true(bytes_find(page, BYTES("innerHTML")) == SIZE_MAX);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_content_leaves_its_element),
        cmocka_unit_test(test_every_byte_and_every_place),
        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_a_full_buffer_is_told),
        cmocka_unit_test(test_the_page_is_sealed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

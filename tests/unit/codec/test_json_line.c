/* json_line.h against json_write.h: the same texts, from both, where a line must grow and where it need not. */
#include "unit.h"

#include "codec/json_line.h"
#include "codec/json_write.h"

static void both(const char *text, int64_t v, bool is_known, struct buf *got, struct buf *want)
{
    struct json_line l;
    struct json_writer w;
    jl_begin(&l, got);
    jl_put(&l, BYTES("{\"text\":"));
    jl_text(&l, text);
    jl_put(&l, BYTES(",\"number\":"));
    jl_known(&l, v, is_known);
    jl_put(&l, BYTES(",\"again\":"));
    jl_text(&l, text);
    jl_put(&l, BYTES("}"));
    jl_end(&l);
    jw_init(&w, want);
    jw_object(&w);
    jw_named_text(&w, "text", text);
    jw_named_known(&w, "number", v, is_known);
    jw_named_text(&w, "again", text);
    jw_end(&w);
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->p, want->p, got->n);
}

static void as_the_writer(void **state)
{
    (void)state;
    static const char *const texts[] = {
        NULL, "", "x", "gpt-5.6-sol", "a \"quoted\" \\ name", "d\xc3\xa9j\xc3\xa0", "\xff\x01\n", "tab\t"};
    static const int64_t numbers[] = {0, 7, -1, 1200, INT64_MAX, INT64_MIN};
    struct buf got = {0}, want = {0};
    for (size_t i = 0; i < RM_COUNTOF(texts); i++)
        for (size_t k = 0; k < RM_COUNTOF(numbers); k++) {
            both(texts[i], numbers[k], true, &got, &want);
            both(texts[i], numbers[k], false, &got, &want);
        }
    buf_fini(&got);
    buf_fini(&want);
}

/* Of every length up to twice the room that is taken at first, plain and with an escape at its end. */
static void of_every_length(void **state)
{
    enum { MAX = 2100 };
    static char text[MAX + 1];
    (void)state;
    for (size_t n = 1; n <= MAX; n++) {
        struct buf got = {0}, want = {0};
        memset(text, 'm', n);
        text[n] = '\0';
        both(text, 5, true, &got, &want);
        text[n - 1] = '"';
        both(text, 5, true, &got, &want);
        buf_fini(&got);
        buf_fini(&want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_writer), cmocka_unit_test(of_every_length)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

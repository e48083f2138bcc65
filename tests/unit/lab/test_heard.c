#include "unit.h"

#include "lab/heard.h"

static const char role[] =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
static const char text[] =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n";
static const char finish[] = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
static const char usage[] = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1400,\"completion_tokens\":60,"
                            "\"prompt_tokens_details\":{\"cached_tokens\":1024}}}\n\n";
static const char done[] = "data: [DONE]\n\n";
static const char error[] = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";

struct hearing {
    struct heard h;
    uint64_t at_us;
};

static void begin(struct hearing *x)
{
    heard_init(&x->h);
    x->at_us = 0;
}

static void feed(struct hearing *x, const char *part)
{
    heard_feed(&x->h, bytes_of(part), ++x->at_us);
}

static void assert_fault(struct hearing *x, bool is_whole, const char *fault)
{
    const char *got = heard_fault(&x->h, is_whole);
    if (fault == NULL)
        assert_null(got);
    else
        assert_string_equal(got, fault);
    heard_fini(&x->h);
}

/* Neither a head, nor a ping, nor a role, nor an empty text is a first token. */
static void first_token(void **state)
{
    struct hearing x;
    begin(&x);
    feed(&x, ": ping\n\n");
    feed(&x, role);
    assert_int_equal(x.h.first_us, 0);
    feed(&x, text);
    feed(&x, text);
    assert_int_equal(x.h.first_us, 3);
    feed(&x, finish);
    feed(&x, usage);
    feed(&x, done);
    assert_int_equal(x.h.input, 1400);
    assert_int_equal(x.h.cache, 1024);
    assert_int_equal(x.h.output, 60);
    assert_fault(&x, true, NULL);
}

static void other_first_tokens(void **state)
{
    static const char *const deltas[] = {
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"refusal\":\"no\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}\n\n",
    };
    for (size_t i = 0; i < sizeof deltas / sizeof *deltas; i++) {
        struct hearing x;
        begin(&x);
        feed(&x, deltas[i]);
        assert_int_equal(x.h.first_us, 1);
        heard_fini(&x.h);
    }
}

/* Whatever the split, the same is heard. */
static void every_split(void **state)
{
    struct buf all = {0};
    buf_puts(&all, role);
    buf_puts(&all, text);
    buf_puts(&all, finish);
    buf_puts(&all, usage);
    buf_puts(&all, done);
    for (size_t at = 0; at <= all.n; at++) {
        struct heard h;
        heard_init(&h);
        heard_feed(&h, bytes_slice(buf_bytes(&all), 0, at), 1);
        heard_feed(&h, bytes_slice(buf_bytes(&all), at, all.n), 2);
        size_t text_ends = sizeof role - 1 + sizeof text - 1;
        assert_int_equal(h.first_us, at >= text_ends ? 1 : 2);
        assert_int_equal(h.output, 60);
        assert_null(heard_fault(&h, true));
        heard_fini(&h);
    }
    buf_fini(&all);
}

static void faults(void **state)
{
    struct hearing x;
    begin(&x);
    feed(&x, role);
    feed(&x, error);
    feed(&x, done);
    assert_fault(&x, true, "error_event");
    begin(&x);
    feed(&x, text);
    feed(&x, "data: {\"choi\n\n");
    feed(&x, finish);
    feed(&x, done);
    assert_fault(&x, true, "malformed");
    begin(&x);
    feed(&x, text);
    feed(&x, done); /* no finish reason */
    assert_fault(&x, true, "truncated");
    begin(&x);
    feed(&x, text);
    feed(&x, finish); /* no [DONE] */
    assert_fault(&x, true, "truncated");
    begin(&x);
    feed(&x, text);
    feed(&x, finish);
    feed(&x, done);
    assert_fault(&x, false, "truncated"); /* the body broke off */
    begin(&x);
    feed(&x, role);
    feed(&x, finish);
    feed(&x, done);
    assert_fault(&x, true, "no_text");
    begin(&x);
    assert_fault(&x, true, "truncated");
}

static void too_large(void **state)
{
    struct hearing x;
    struct buf b = {0};
    begin(&x);
    buf_puts(&b, "data: ");
    for (int i = 0; i < (1 << 20) + 10; i++)
        buf_putc(&b, 'x');
    heard_feed(&x.h, buf_bytes(&b), 1);
    feed(&x, text);
    buf_fini(&b);
    assert_fault(&x, true, "malformed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_token), cmocka_unit_test(other_first_tokens), cmocka_unit_test(every_split),
        cmocka_unit_test(faults),      cmocka_unit_test(too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "unit.h"

#include "base/check.h"
#include "lab/mock_ask.h"
#include "lab/mock_order.h"
#include "lab/script.h"

#include <stdio.h>

struct told {
    struct arena arena;
    struct script script;
    struct buf bytes; /* all steps together */
};

static struct shape_request request(enum shape_dialect d, bool is_stream)
{
    return (struct shape_request){.dialect = d,
                                  .n = 7,
                                  .created_s = 1796000000,
                                  .model = "m",
                                  .is_stream = is_stream,
                                  .has_usage = true,
                                  .prompt_tokens = 9,
                                  .n_words = 4,
                                  .words = "one two three"};
}

static void tell(struct told *t, const struct shape_request *r, const char *word)
{
    struct fault f;
    struct script_pace pace = {30000, 5000};
    memset(t, 0, sizeof *t);
    if (!fault_parse(bytes_of(word), &f))
        fail_msg("%s is no fault", word);
    script_chat(r, &pace, &f, &t->arena, &t->script);
    for (size_t i = 0; i < t->script.n; i++)
        buf_put(&t->bytes, t->script.steps[i].data);
    buf_cstr(&t->bytes);
}

static void untell(struct told *t)
{
    buf_fini(&t->bytes);
    arena_fini(&t->arena);
}

static size_t count(struct bytes hay, const char *needle)
{
    size_t n = 0, at;
    while ((at = bytes_find(hay, bytes_of(needle))) != SIZE_MAX) {
        n++;
        hay = bytes_slice(hay, at + strlen(needle), hay.n);
    }
    return n;
}

static void assert_has(const struct told *t, const char *part, size_t times)
{
    size_t n = count(buf_bytes(&t->bytes), part);
    if (n != times)
        fail_msg("%zu times, not %zu: %s in\n%s", n, times, part, t->bytes.p);
}

static void openai_stream(void **state)
{
    struct told t;
    struct shape_request r = request(SHAPE_OPENAI, true);
    tell(&t, &r, "ok");
    assert_int_equal(t.script.end, SCRIPT_KEEP);
    assert_int_equal(t.script.status, 200);
    assert_int_equal(t.script.steps[0].delay_us, 30000);
    assert_int_equal(t.script.steps[3].delay_us, 5000);
    assert_memory_equal(t.bytes.p, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n", 65);
    assert_has(&t, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}", 1);
    assert_has(&t, "\"delta\":{\"content\":\" two\"}", 1);
    assert_has(&t, "\"delta\":{\"content\":\" one\"}", 1); /* the fourth word: repeated */
    assert_has(&t, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"", 1);
    assert_has(&t, "usage", 0);
    assert_true(bytes_ends_with(buf_bytes(&t.bytes), BYTES("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")));
    untell(&t);
    r.wants_usage = true;
    tell(&t, &r, "ok");
    assert_has(&t, "\"usage\":null}\n\n", 6);
    assert_has(&t, "\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13,", 1);
    untell(&t);
    r.has_usage = false;
    tell(&t, &r, "ok");
    assert_has(&t, "usage", 0);
    untell(&t);
}

static void anthropic_stream(void **state)
{
    static const char *const in_order[] = {"message_start",       "content_block_start", "ping",
                                           "content_block_delta", "content_block_stop",  "message_delta",
                                           "message_stop"};
    struct told t;
    struct shape_request r = request(SHAPE_ANTHROPIC, true);
    r.is_cut_short = true;
    tell(&t, &r, "ok");
    size_t last = 0;
    for (size_t i = 0; i < RM_COUNTOF(in_order); i++) {
        char line[64];
        snprintf(line, sizeof line, "event: %s\ndata: {\"type\":\"%s\"", in_order[i], in_order[i]);
        size_t at = bytes_find(buf_bytes(&t.bytes), bytes_of(line));
        assert_true(at != SIZE_MAX && at > last);
        last = at;
    }
    assert_int_equal(t.script.steps[0].delay_us, 0); /* the head comes at once, the first word later */
    assert_int_equal(t.script.steps[2].delay_us, 30000);
    assert_has(&t, "\"usage\":{\"output_tokens\":4}", 1);
    assert_has(&t, "\"stop_reason\":\"max_tokens\"", 1);
    untell(&t);
}

struct expected {
    const char *word;
    enum script_end end;
    size_t n_words, n_terminal, n_last_chunk;
};

/* What of a stream is left when it breaks. */
static void streams_break(void **state)
{
    static const struct expected table[] = {
        {"cut", SCRIPT_FIN, 3, 0, 0},
        {"cut:0", SCRIPT_FIN, 0, 0, 0},
        {"cut:9", SCRIPT_FIN, 4, 0, 0},
        {"rst-after:2", SCRIPT_RST, 2, 0, 0},
        {"stall:1", SCRIPT_HANG, 1, 0, 0},
        {"end-early:2", SCRIPT_KEEP, 2, 0, 1},
        {"error-after-token:1", SCRIPT_KEEP, 1, 0, 1},
        {"error-in-200", SCRIPT_KEEP, 0, 0, 1},
        {"hang-after-head", SCRIPT_HANG, 0, 0, 0},
        {"hang-after-role", SCRIPT_HANG, 0, 0, 0},
        {"malformed", SCRIPT_KEEP, 4, 1, 1},
        {"no-done", SCRIPT_KEEP, 4, 0, 1},
        {"slow:900", SCRIPT_KEEP, 4, 1, 1},
    };
    for (int d = SHAPE_OPENAI; d <= SHAPE_ANTHROPIC; d++)
        for (size_t i = 0; i < RM_COUNTOF(table); i++) {
            struct told t;
            struct shape_request r = request((enum shape_dialect)d, true);
            tell(&t, &r, table[i].word);
            assert_int_equal(t.script.end, table[i].end);
            assert_has(&t, d == SHAPE_OPENAI ? "\"delta\":{\"content\":" : "\"text_delta\"", table[i].n_words);
            assert_has(&t, d == SHAPE_OPENAI ? "data: [DONE]" : "event: message_stop", table[i].n_terminal);
            assert_has(&t, "\r\n0\r\n\r\n", table[i].n_last_chunk);
            untell(&t);
        }
}

static void error_events(void **state)
{
    struct told t;
    struct shape_request r = request(SHAPE_ANTHROPIC, true);
    tell(&t, &r, "error-in-200");
    assert_has(&t, "\r\n\r\n79\r\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"", 1);
    untell(&t);
    r.dialect = SHAPE_OPENAI;
    tell(&t, &r, "error-in-200");
    assert_has(&t, "\r\ndata: {\"error\":{\"message\":", 1);
    assert_has(&t, "\"choices\"", 0);
    untell(&t);
}

static void no_byte_at_all(void **state)
{
    struct told t;
    struct shape_request r = request(SHAPE_OPENAI, true);
    tell(&t, &r, "hang");
    assert_int_equal(t.script.n, 0);
    assert_int_equal(t.script.end, SCRIPT_HANG);
    untell(&t);
    tell(&t, &r, "deaf"); /* the request was read: what is left of it */
    assert_int_equal(t.script.n, 0);
    assert_int_equal(t.script.end, SCRIPT_HANG);
    untell(&t);
    tell(&t, &r, "reset");
    assert_int_equal(t.script.n, 0);
    assert_int_equal(t.script.end, SCRIPT_RST);
    untell(&t);
}

static void statuses(void **state)
{
    static const unsigned all[] = {400, 401, 403, 404, 422, 429, 500, 502, 503, 504, 529};
    char word[8], line[32];
    struct told t;
    for (int d = SHAPE_OPENAI; d <= SHAPE_ANTHROPIC; d++)
        for (size_t i = 0; i < RM_COUNTOF(all); i++) {
            struct shape_request r = request((enum shape_dialect)d, true);
            snprintf(word, sizeof word, "%u", all[i]);
            tell(&t, &r, word);
            assert_int_equal(t.script.status, all[i]);
            snprintf(line, sizeof line, "HTTP/1.1 %u ", all[i]);
            assert_memory_equal(t.bytes.p, line, strlen(line));
            assert_has(&t, "Retry-After", 0);
            assert_has(&t,
                       d == SHAPE_OPENAI ? "{\"error\":{\"message\":" : "{\"type\":\"error\",\"error\":{\"type\":", 1);
            untell(&t);
        }
    struct shape_request r = request(SHAPE_OPENAI, false);
    tell(&t, &r, "429:2");
    assert_has(&t, "Retry-After: 2\r\n", 1);
    assert_has(&t, "\"code\":\"rate_limit_exceeded\"", 1);
    untell(&t);
}

static void whole_answers(void **state)
{
    struct told t;
    struct shape_request r = request(SHAPE_OPENAI, false);
    tell(&t, &r, "ok");
    assert_has(&t, "\"message\":{\"role\":\"assistant\",\"content\":\"one two three one\"", 1);
    assert_has(&t, "\"total_tokens\":13", 1);
    assert_int_equal(t.script.n, 1);
    assert_int_equal(t.script.steps[0].delay_us, 30000 + 3 * 5000);
    size_t n_whole = t.bytes.n;
    untell(&t);
    tell(&t, &r, "cut");
    assert_true(t.bytes.n < n_whole);
    assert_int_equal(t.script.end, SCRIPT_FIN);
    untell(&t);
    r.dialect = SHAPE_ANTHROPIC;
    tell(&t, &r, "ok");
    assert_has(&t, "\"content\":[{\"type\":\"text\",\"text\":\"one two three one\"}],\"stop_reason\":\"end_turn\"", 1);
    untell(&t);
    tell(&t, &r, "empty");
    assert_has(&t, "Content-Length: 0\r\n\r\n", 1);
    untell(&t);
    tell(&t, &r, "html");
    assert_has(&t, "Content-Type: text/html\r\n", 1);
    untell(&t);
}

static void words_of_faults(void **state)
{
    struct fault f[FAULT_LIST_MAX];
    size_t n;
    struct bytes bad;
    assert_true(fault_parse_list(BYTES("503,ok,cut:2"), f, &n, &bad));
    assert_int_equal(n, 3);
    assert_int_equal(f[0].times, 1);
    assert_int_equal(f[2].times, -1);
    assert_int_equal(f[2].after, 2);
    assert_false(fault_parse_list(BYTES("503,nonsense"), f, &n, &bad));
    assert_true(bytes_is(bad, "nonsense"));
    assert_false(fault_parse(BYTES("200"), f));
    assert_false(fault_parse(BYTES("cut:x"), f));
    assert_false(fault_parse(BYTES("status"), f));
}

static const char *read_ask(enum shape_dialect d, const char *body, struct arena *a, struct mock_ask *ask)
{
    return mock_ask_read(bytes_of(body), d, a, ask);
}

static void asks(void **state)
{
    struct arena a = {0};
    struct mock_ask ask;
    assert_null(
        read_ask(SHAPE_OPENAI,
                 "{\"model\":\"x\",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"max_tokens\":5,"
                 "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a [[mock fault=429 "
                 "retry_after=2]] b\"}]}]}",
                 &a, &ask));
    assert_true(ask.is_stream && ask.wants_usage && ask.has_marker);
    assert_int_equal(ask.max_tokens, 5);
    assert_int_equal(ask.marker.status, 429);
    assert_int_equal(ask.marker.retry_after_ms, 2000);
    assert_null(read_ask(SHAPE_OPENAI,
                         "{\"model\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"[[mock fault=503]]\"},"
                         "{\"role\":\"user\",\"content\":\"plain\"}]}",
                         &a, &ask));
    assert_false(ask.has_marker); /* the last user message counts */
    assert_non_null(read_ask(SHAPE_OPENAI, "{\"model\":", &a, &ask));
    assert_non_null(read_ask(SHAPE_OPENAI, "{\"messages\":[{}]}", &a, &ask));
    assert_non_null(read_ask(SHAPE_OPENAI, "{\"model\":\"x\",\"stream_options\":{},\"messages\":[{}]}", &a, &ask));
    assert_non_null(read_ask(SHAPE_ANTHROPIC, "{\"model\":\"x\",\"messages\":[{}]}", &a, &ask));
    struct mock_order o;
    assert_null(mock_order_read(BYTES("{\"fault\":\"429\",\"times\":2,\"retry_after\":3}"), true, &a, &o));
    assert_int_equal(o.n, 1);
    assert_int_equal(o.v[0].fault.times, 2);
    assert_int_equal(o.v[0].fault.retry_after_ms, 3000);
    assert_null(mock_order_read(BYTES("{\"fault\":503}"), true, &a, &o));
    assert_int_equal(o.v[0].fault.status, 503);
    assert_int_equal(o.v[0].fault.times, -1);
    assert_non_null(mock_order_read(BYTES("{\"fault\":\"what\"}"), true, &a, &o));
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openai_stream), cmocka_unit_test(anthropic_stream), cmocka_unit_test(streams_break),
        cmocka_unit_test(error_events),  cmocka_unit_test(no_byte_at_all),   cmocka_unit_test(statuses),
        cmocka_unit_test(whole_answers), cmocka_unit_test(words_of_faults),  cmocka_unit_test(asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

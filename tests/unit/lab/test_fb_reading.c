/* What the failover bench's client makes of an answer, at every split of it. */
#include "unit.h"

#include "lab/fb.h"
#include "lab/fb_config.h"
#include "lab/fb_reading.h"

#include <stdio.h>

/* A stream of the first n words, then `tail`. */
static void stream_of(unsigned n, const char *tail, struct buf *out)
{
    struct bytes rest = bytes_of(fb_words);
    buf_clear(out);
    buf_puts(
        out,
        "data: {\"model\":\"m1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n");
    for (unsigned i = 0; i < n; i++) {
        struct bytes word = bytes_cut(&rest, ' ');
        buf_puts(out, "data: {\"model\":\"m1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
        buf_puts(out, i > 0 ? " " : "");
        buf_put(out, word);
        buf_puts(out, "\"},\"finish_reason\":null}]}\n\n");
    }
    buf_puts(out, tail);
}

#define FINISH "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
#define USAGE "data: {\"choices\":[],\"usage\":{\"completion_tokens\":60}}\n\n"
#define DONE "data: [DONE]\n\n"
#define ERROR "data: {\"error\":{\"message\":\"it broke\",\"code\":\"stream_error\"}}\n\n"

static struct judge_call read_all(unsigned status, const char *type, struct bytes body, size_t step, const char *broken)
{
    struct judge_call c;
    struct fb_reading r;
    fb_reading_init(&r, &c);
    fb_reading_head(&r, status, bytes_of(type));
    for (size_t at = 0; at < body.n && !fb_reading_is_through(&r); at += step)
        fb_reading_body(&r, bytes_slice(body, at, at + step), 1000 + at);
    fb_reading_end(&r, broken);
    fb_reading_fini(&r);
    return c;
}

static struct judge_call read_stream(const struct buf *b, size_t step, const char *broken)
{
    return read_all(200, "text/event-stream; charset=utf-8", buf_bytes(b), step, broken);
}

static const size_t steps[] = {1, 2, 3, 7, 64, 1 << 20};
#define EACH_STEP(step) for (const size_t *step = steps; step < steps + RM_COUNTOF(steps); step++)

static void whole_stream(void **state)
{
    struct buf b = {0};
    stream_of(60, FINISH USAGE DONE, &b);
    EACH_STEP(step)
    {
        struct judge_call c = read_stream(&b, *step, NULL);
        assert_int_equal(judge_outcome(&c), JUDGE_ANSWERED);
        assert_int_equal(c.n_words, 60);
        assert_true(c.has_finish && c.has_done && c.has_usage && !c.has_error && c.ttft_us >= 1000);
        assert_string_equal(c.model, "m1");
        /* it is through at [DONE]: what breaks later does not reach it */
        c = read_stream(&b, *step, "connection reset");
        assert_int_equal(judge_outcome(&c), JUDGE_ANSWERED);
    }
    stream_of(60, FINISH USAGE, &b);
    struct judge_call c = read_stream(&b, 5, NULL);
    assert_int_equal(judge_outcome(&c), JUDGE_ANSWERED);
    c = read_stream(&b, 5, "closed in the middle");
    assert_int_equal(judge_outcome(&c), JUDGE_ERROR);
    assert_string_equal(c.error, "closed in the middle");
    buf_fini(&b);
}

static void broken_streams(void **state)
{
    static const struct {
        unsigned n;
        const char *tail, *broken;
        enum judge_outcome outcome;
    } rows[] = {
        {40, "", "closed", JUDGE_ERROR},
        {40, "", NULL, JUDGE_TRUNCATED},
        {40, DONE, NULL, JUDGE_TRUNCATED},
        {40, DONE, "closed", JUDGE_TRUNCATED},
        {40, FINISH DONE, NULL, JUDGE_TRUNCATED},
        {40, ERROR, NULL, JUDGE_ERROR},
        {40, ERROR, "closed", JUDGE_ERROR},
        {40, ERROR DONE, NULL, JUDGE_MASKED},
        {40, ERROR FINISH, NULL, JUDGE_MASKED},
        {40, FINISH ERROR, NULL, JUDGE_MASKED},
        {0, ERROR, NULL, JUDGE_ERROR},
        {0, "", NULL, JUDGE_TRUNCATED},
        {59, FINISH DONE, NULL, JUDGE_TRUNCATED},
        {60, ERROR, NULL, JUDGE_ERROR},
        {40, "event: error\ndata: {\"message\":\"x\"}\n\n", NULL, JUDGE_ERROR},
        {40, "data: {\"error\":\"just text\"}\n\n", NULL, JUDGE_ERROR},
        {40, "data: {\"error\":null,\"choices\":[]}\n\n", NULL, JUDGE_TRUNCATED},
        {40, ERROR "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}]}\n\n", NULL, JUDGE_ERROR},
    };
    struct buf b = {0};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        stream_of(rows[i].n, rows[i].tail, &b);
        EACH_STEP(step)
        {
            struct judge_call c = read_stream(&b, *step, rows[i].broken);
            assert_int_equal(judge_outcome(&c), rows[i].outcome);
            assert_int_equal(c.n_words, rows[i].n);
        }
    }
    stream_of(3, ERROR, &b);
    struct judge_call c = read_stream(&b, 9, NULL);
    assert_string_equal(c.error, "in the stream: stream_error: it broke");
    buf_fini(&b);
}

static void odd_texts(void **state)
{
    struct buf b = {0};
    /* a malformed event is passed over and counted */
    stream_of(60, "data: {\"choices\":[{\"del\n\n" FINISH DONE, &b);
    struct judge_call c = read_stream(&b, 11, NULL);
    assert_int_equal(judge_outcome(&c), JUDGE_ANSWERED);
    assert_int_equal(c.n_bad_events, 1);
    /* doubled text is not the text */
    stream_of(60, "data: {\"choices\":[{\"delta\":{\"content\":\" tonight.\"}}]}\n\n" FINISH DONE, &b);
    c = read_stream(&b, 11, NULL);
    assert_int_equal(judge_outcome(&c), JUDGE_TRUNCATED);
    assert_int_equal(c.n_words, 61);
    /* blanks are normalised */
    stream_of(60, "data: {\"choices\":[{\"delta\":{\"content\":\"\\n\\t \"}}]}\n\n" FINISH DONE, &b);
    c = read_stream(&b, 11, NULL);
    assert_int_equal(judge_outcome(&c), JUDGE_ANSWERED);
    /* sixty words that are others */
    buf_clear(&b);
    for (int i = 0; i < 60; i++)
        buf_puts(&b, "data: {\"choices\":[{\"delta\":{\"content\":\"no \"}}]}\n\n");
    c = read_stream(&b, 64, NULL);
    assert_int_equal(c.n_words, 60);
    assert_int_equal(judge_outcome(&c), JUDGE_TRUNCATED);
    buf_fini(&b);
}

static void huge_event(void **state)
{
    struct buf b = {0};
    stream_of(3, "data: ", &b);
    for (int i = 0; i < 1100; i++)
        for (int k = 0; k < 16; k++)
            buf_puts(&b, "0123456789012345678901234567890123456789012345678901234567890123");
    struct judge_call c = read_stream(&b, 4096, NULL);
    assert_int_equal(judge_outcome(&c), JUDGE_ERROR);
    assert_non_null(strstr(c.error, "1 MB"));
    buf_fini(&b);
}

static void whole_bodies(void **state)
{
    struct buf b = {0};
    buf_printf(&b,
               "{\"model\":\"fb-ok\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"%s\"},"
               "\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":60}}",
               fb_words);
    EACH_STEP(step)
    {
        struct judge_call c = read_all(200, "application/json", buf_bytes(&b), *step, NULL);
        assert_int_equal(judge_outcome(&c), JUDGE_ANSWERED);
        assert_true(c.has_usage && c.has_finish);
        assert_string_equal(c.model, "fb-ok");
    }
    static const struct {
        unsigned status;
        const char *type, *body, *error;
        enum judge_outcome outcome;
    } rows[] = {
        {503, "application/json", "{\"error\":{\"message\":\"all down\",\"code\":\"all_providers_unavailable\"}}",
         "HTTP 503 all_providers_unavailable: all down", JUDGE_ERROR},
        {429, "application/json", "{\"error\":{\"message\":\"slow\",\"type\":\"rate\"}}", "HTTP 429 rate: slow",
         JUDGE_ERROR},
        {502, "text/html", "<html>", "HTTP 502", JUDGE_ERROR},
        {500, "text/event-stream", ERROR, "HTTP 500", JUDGE_ERROR},
        {204, "application/json", "", "the body of a 200 is no JSON", JUDGE_ERROR},
        {200, "application/json", "{\"error\":{\"message\":\"m\"}}", "m", JUDGE_ERROR},
        {200, "application/json", "{\"choices\":", "the body of a 200 is no JSON", JUDGE_ERROR},
        {200, "application/json", "{\"choices\":[]}", "", JUDGE_TRUNCATED},
        {200, "text/html", "<html>hello</html>", "", JUDGE_TRUNCATED},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct judge_call c = read_all(rows[i].status, rows[i].type, bytes_of(rows[i].body), 4, NULL);
        assert_int_equal(judge_outcome(&c), rows[i].outcome);
        assert_string_equal(c.error, rows[i].error);
    }
    buf_fini(&b);
}

static void config_text(void **state)
{
    static const struct {
        const char *in, *out;
        unsigned speed;
    } rows[] = {
        {"ttft_budget_ms: 10000", "ttft_budget_ms: 2500", 4},
        {"  ttft_budget_ms:10000 # a: 5\n  idle_timeout_ms: 30000",
         "  ttft_budget_ms:2500 # a: 5\n  idle_timeout_ms: 7500", 4},
        {"{\"deadline_ms\": 90000, \"retries\": 2}", "{\"deadline_ms\": 22500, \"retries\": 2}", 4},
        {"{cooldown_ms: 5000, cooldown_max_ms: 15000, window_ms: 3000}",
         "{cooldown_ms: 1250, cooldown_max_ms: 3750, window_ms: 1000}", 4},
        {"wait_retry_after_ms: 3000\nconnect_timeout_ms: 2000", "wait_retry_after_ms: 3000\nconnect_timeout_ms: 2000",
         4},
        {"ttft_budget_ms: 30", "ttft_budget_ms: 10", 20},
        {"ttft_budget_ms: 3", "ttft_budget_ms: 3", 20}, /* wrong before, wrong after */
        {"ttft_budget_ms: auto", "ttft_budget_ms: auto", 4},
        {"x_ttft_budget_ms: 10000 ttft_budget_ms_x: 10000", "x_ttft_budget_ms: 10000 ttft_budget_ms_x: 10000", 4},
        {"ttft_budget_ms: 10000", "ttft_budget_ms: 10000", 1},
        {"", "", 4},
        {"ttft_budget_ms:", "ttft_budget_ms:", 4},
    };
    struct buf out = {0};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        buf_clear(&out);
        fb_config_speed(bytes_of(rows[i].in), rows[i].speed, &out);
        assert_string_equal(buf_cstr(&out), rows[i].out);
    }
    buf_clear(&out);
    assert_int_equal(fb_config_replace(BYTES("a 1:9 b 1:9"), BYTES("1:9"), BYTES("2:8080"), &out), 2);
    assert_string_equal(buf_cstr(&out), "a 2:8080 b 2:8080");
    buf_clear(&out);
    assert_int_equal(fb_config_replace(BYTES("abc"), BYTES("x"), BYTES("y"), &out), 0);
    assert_string_equal(buf_cstr(&out), "abc");
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_stream), cmocka_unit_test(broken_streams), cmocka_unit_test(odd_texts),
        cmocka_unit_test(huge_event),   cmocka_unit_test(whole_bodies),   cmocka_unit_test(config_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

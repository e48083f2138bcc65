/* Answers: every split of a body gives the same events and the same bytes. */
#include "unit.h"

#include "base/check.h"
#include "base/mem.h"
#include "upstream/answer.h"

#include <zlib.h>

#define CHUNK(content) \
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0," content "}]}\n\n"
#define HELLO CHUNK("\"delta\":{\"content\":\"Hello\"},\"finish_reason\":null")
#define WORLD CHUNK("\"delta\":{\"content\":\" world\"},\"finish_reason\":null")
#define STOP CHUNK("\"delta\":{},\"finish_reason\":\"stop\"")
#define DONE "data: [DONE]\n\n"
#define STREAM ": hi\n\n" HELLO WORLD STOP DONE
#define WHOLE                                                                                                     \
    "{\"id\":\"c\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\"," \
    "\"content\":\"Hello world\"},\"finish_reason\":\"stop\"}]}"

#define BOM "\xef\xbb\xbf"

struct told {
    struct buf text, raw;
    enum answer_result end;
    struct failure failure;
    size_t n_outputs;
};

static void note(struct told *t, const struct output *out)
{
    t->n_outputs++;
    assert_true(t->n_outputs < 10000);
    if (!out->is_dropped) {
        buf_put(&t->raw, bytes_slice(out->raw, 0, out->strip_at));
        buf_put(&t->raw, bytes_slice(out->raw, out->strip_end, out->raw.n));
    }
    for (size_t i = 0; i < out->n; i++)
        if (out->v[i].kind == EVENT_TEXT)
            buf_put(&t->text, out->v[i].text);
}

static struct answer_spec usual_spec(void)
{
    return (struct answer_spec){.target = dialect_by_name(BYTES("openai")),
                                .vendor = BYTES("generic"),
                                .max_depth = 32,
                                .max_event = 4096,
                                .max_body = 65536};
}

enum { ENDS, CUT, OPEN };

/* Feeds the body in pieces (first, then step bytes), each a copy of its own so that a view kept too long is found.
 * The last one stays, as where a whole body is lent. */
static struct told run(const struct answer_spec *spec, const char *type, const char *coding, struct bytes body,
                       size_t first, size_t step, int how)
{
    struct field v[2] = {{BYTES("content-type"), bytes_of(type)}, {BYTES("content-encoding"), bytes_of(coding)}};
    struct head head = {.status = 200, .fields = {.v = v, .n = coding ? 2 : 1}};
    struct told t = {0};
    struct answer a;
    struct output out;
    struct arena arena = {0};
    struct answer_spec with_arena = *spec;
    with_arena.arena = &arena;
    answer_init(&a, &with_arena, &head);
    enum answer_result r = ANSWER_MORE;
    char *last = NULL;
    for (size_t at = 0, n = first; at < body.n && r == ANSWER_MORE; at += n, n = step) {
        struct bytes piece = bytes_slice(body, at, at + n);
        char *copy = mem_dup(piece.p, piece.n);
        answer_feed(&a, (struct bytes){copy, piece.n});
        while ((r = answer_next(&a, &out)) == ANSWER_OUTPUT)
            note(&t, &out);
        if (at + n >= body.n) {
            last = copy;
            continue;
        }
        answer_keep(&a);
        mem_free(copy);
    }
    if (r == ANSWER_MORE && how == CUT)
        r = answer_cut(&a, "cut");
    while (how == ENDS && (r == ANSWER_MORE || r == ANSWER_OUTPUT))
        if ((r = answer_end(&a, &out)) == ANSWER_OUTPUT)
            note(&t, &out);
    t.end = r;
    if (a.failure != NULL)
        t.failure = *a.failure;
    answer_fini(&a);
    arena_fini(&arena);
    mem_free(last);
    return t;
}

static void told_fini(struct told *t)
{
    buf_fini(&t->text);
    buf_fini(&t->raw);
}

/* At every split: ends DONE with this text and these bytes. */
static void assert_whole(const char *type, const char *coding, struct bytes body, const char *text, const char *raw,
                         int how)
{
    struct answer_spec spec = usual_spec();
    for (size_t first = 1; first <= body.n; first++) {
        struct told t = run(&spec, type, coding, body, first, body.n, how);
        assert_int_equal(t.end, ANSWER_DONE);
        assert_string_equal(buf_cstr(&t.text), text);
        assert_string_equal(buf_cstr(&t.raw), raw);
        told_fini(&t);
    }
    struct told t = run(&spec, type, coding, body, 1, 1, how);
    assert_int_equal(t.end, ANSWER_DONE);
    assert_string_equal(buf_cstr(&t.text), text);
    assert_string_equal(buf_cstr(&t.raw), raw);
    told_fini(&t);
}

static void assert_fails(const struct answer_spec *spec, const char *type, const char *coding, struct bytes body,
                         int how, enum outcome want, const char *text)
{
    for (size_t first = 1; first == 1 || first <= body.n; first++) {
        struct told t = run(spec, type, coding, body, first, body.n + 1, how);
        assert_int_equal(t.end, ANSWER_FAILED);
        assert_string_equal(outcome_word(t.failure.outcome), outcome_word(want));
        assert_string_equal(buf_cstr(&t.text), text);
        told_fini(&t);
    }
}

static void test_streams(void **state)
{
    assert_whole("text/event-stream", NULL, BYTES(STREAM), "Hello world", STREAM, OPEN);
    assert_whole("text/event-stream; charset=utf-8", NULL, BYTES(STREAM), "Hello world", STREAM, ENDS);
    assert_whole("text/event-stream", NULL, BYTES(BOM STREAM), "Hello world", STREAM, ENDS);
    /* finish without [DONE], and a last event without its empty line */
    assert_whole("text/event-stream", NULL, BYTES(HELLO STOP), "Hello", HELLO STOP, ENDS);
    assert_whole("text/event-stream", NULL, BYTES(HELLO STOP "data: [DONE]"), "Hello", HELLO STOP DONE, ENDS);
    assert_whole("text/event-stream", NULL, BYTES(HELLO STOP "data: [DONE]\n"), "Hello", HELLO STOP DONE, ENDS);
    /* what follows the terminal marker is nobody's */
    assert_whole("text/event-stream", NULL, BYTES(HELLO STOP DONE WORLD), "Hello", HELLO STOP DONE, OPEN);
}

static void test_json(void **state)
{
    assert_whole("application/json", NULL, BYTES(WHOLE), "Hello world", WHOLE, ENDS);
    assert_whole("application/json", NULL, BYTES("\r\n\n " WHOLE), "Hello world", WHOLE, ENDS);
    assert_whole("application/json", NULL, BYTES(BOM WHOLE), "Hello world", WHOLE, ENDS);
    assert_whole("application/json", NULL, BYTES(" \n" BOM "\r\n" WHOLE), "Hello world", WHOLE, ENDS);
}

/* In one read: told where it lies. In two: the answer has it. */
static void test_a_body_in_one_read_is_lent(void **state)
{
    struct answer_spec spec = usual_spec();
    struct field v[] = {{BYTES("content-type"), BYTES("application/json")}};
    struct head head = {.status = 200, .fields = {.v = v, .n = 1}};
    struct bytes body = BYTES(WHOLE);
    for (size_t first = 1; first <= body.n; first++) {
        struct arena arena = {0};
        struct answer a;
        struct output out;
        spec.arena = &arena;
        answer_init(&a, &spec, &head);
        answer_feed(&a, bytes_slice(body, 0, first));
        assert_int_equal(answer_next(&a, &out), ANSWER_MORE);
        if (first < body.n) {
            answer_feed(&a, bytes_slice(body, first, body.n));
            assert_int_equal(answer_next(&a, &out), ANSWER_MORE);
        }
        assert_int_equal(answer_end(&a, &out), ANSWER_OUTPUT);
        assert_true(bytes_eq(out.raw, body));
        assert_int_equal(out.raw.p == body.p, first == body.n);
        assert_int_equal(out.body == NULL, first == body.n);
        assert_true(answer_is_told(&a));
        answer_fini(&a);
        arena_fini(&arena);
    }
}

static void test_labels_lie(void **state)
{
    assert_whole("application/json", NULL, BYTES(STREAM), "Hello world", STREAM, OPEN);
    assert_whole("text/plain", NULL, BYTES(HELLO STOP DONE), "Hello", HELLO STOP DONE, OPEN);
    assert_whole("text/event-stream", NULL, BYTES(WHOLE), "Hello world", WHOLE, ENDS);
    assert_whole("", NULL, BYTES(WHOLE), "Hello world", WHOLE, ENDS);
    struct answer_spec spec = usual_spec();
    assert_fails(&spec, "text/html", NULL, BYTES("<html>"), ENDS, OUTCOME_PROTOCOL_ERROR, "");
    assert_fails(&spec, "text/plain", NULL, BYTES("error code: 502"), ENDS, OUTCOME_PROTOCOL_ERROR, "");
    assert_fails(&spec, "", NULL, BYTES("da"), ENDS, OUTCOME_PROTOCOL_ERROR, "");
    assert_fails(&spec, "application/json", NULL, BYTES("<html>"), ENDS, OUTCOME_PROTOCOL_ERROR, "");
}

static void test_failures(void **state)
{
    struct answer_spec spec = usual_spec();
    assert_fails(&spec, "application/json", NULL, BYTES(""), ENDS, OUTCOME_STREAM_ERROR, "");
    assert_fails(&spec, "text/event-stream", NULL, BYTES("\n\n"), ENDS, OUTCOME_STREAM_ERROR, "");
    assert_fails(&spec, "text/event-stream", NULL, BYTES(HELLO), ENDS, OUTCOME_STREAM_ERROR, "Hello");
    assert_fails(&spec, "text/event-stream", NULL, BYTES(HELLO "data: {\"cho"), ENDS, OUTCOME_STREAM_ERROR, "Hello");
    assert_fails(&spec, "text/event-stream", NULL, BYTES(HELLO WORLD), CUT, OUTCOME_STREAM_ERROR, "Hello world");
    assert_fails(&spec, "text/event-stream", NULL, BYTES(HELLO "data: {nonsense\n\n" WORLD), OPEN,
                 OUTCOME_PROTOCOL_ERROR, "Hello");
    assert_fails(&spec, "application/json", NULL, BYTES("{\"choices\":["), ENDS, OUTCOME_PROTOCOL_ERROR, "");
    assert_fails(&spec, "application/json", "br", BYTES("xyz"), ENDS, OUTCOME_PROTOCOL_ERROR, "");
    assert_fails(&spec, "application/json", "gzip", BYTES("not gzip"), ENDS, OUTCOME_PROTOCOL_ERROR, "");
    spec.max_event = 300;
    struct buf b = {0};
    buf_puts(&b, HELLO "data: ");
    while (b.n < 1000)
        buf_putc(&b, 'x');
    assert_fails(&spec, "text/event-stream", NULL, buf_bytes(&b), OPEN, OUTCOME_PROTOCOL_ERROR, "Hello");
    buf_fini(&b);
    spec.max_body = 40;
    assert_fails(&spec, "application/json", NULL, BYTES(WHOLE), ENDS, OUTCOME_PROTOCOL_ERROR, "");
    assert_fails(&spec, "application/json", NULL, BYTES(BOM WHOLE), ENDS, OUTCOME_PROTOCOL_ERROR, "");
    assert_fails(&spec, "application/json", NULL, BYTES(BOM), ENDS, OUTCOME_STREAM_ERROR, "");
}

/* A provider that sends nothing but blanks fills no memory, also where a mark before them came in two reads. */
static void test_blanks_are_not_kept(void **state)
{
    struct answer_spec spec = usual_spec();
    struct head head = {.status = 200};
    struct arena arena = {0};
    struct answer a;
    struct output out;
    spec.arena = &arena;
    answer_init(&a, &spec, &head);
    answer_feed(&a, BYTES("\xef"));
    assert_int_equal(answer_next(&a, &out), ANSWER_MORE);
    for (int i = 0; i < 10; i++) {
        answer_feed(&a, i == 0 ? BYTES("\xbb\xbf  ") : BYTES(" \r\n "));
        assert_int_equal(answer_next(&a, &out), ANSWER_MORE);
        assert_int_equal(a.body.n, 0);
    }
    answer_fini(&a);
    arena_fini(&arena);
}

static void test_bad_events_can_be_skipped(void **state)
{
    struct answer_spec spec = usual_spec();
    spec.skip_bad_events = true;
    struct bytes body = BYTES(HELLO "data: {nonsense\n\n" WORLD STOP DONE);
    struct told t = run(&spec, "text/event-stream", NULL, body, 7, 7, OPEN);
    assert_int_equal(t.end, ANSWER_DONE);
    assert_string_equal(buf_cstr(&t.text), "Hello world");
    assert_string_equal(buf_cstr(&t.raw), HELLO WORLD STOP DONE);
    told_fini(&t);
}

static void test_error_in_stream(void **state)
{
    struct answer_spec spec = usual_spec();
    struct bytes body = BYTES(HELLO "data: {\"error\":{\"message\":\"Overloaded now\",\"code\":503}}\n\n" WORLD);
    for (size_t step = 1; step < body.n; step++) {
        struct told t = run(&spec, "text/event-stream", NULL, body, step, step, OPEN);
        assert_int_equal(t.end, ANSWER_FAILED);
        assert_true(t.failure.in_stream);
        assert_string_equal(buf_cstr(&t.text), "Hello");
        assert_string_equal(buf_cstr(&t.raw), HELLO);
        told_fini(&t);
    }
    struct told t = run(&spec, "application/json", NULL,
                        BYTES("{\"error\":{\"message\":\"no\",\"type\":\"server_error\"}}"), 5, 5, ENDS);
    assert_int_equal(t.end, ANSWER_FAILED);
    assert_true(t.failure.in_stream);
    assert_string_equal(t.failure.message, "no");
    told_fini(&t);
}

static void test_usage_is_cut_out(void **state)
{
    static const char with[] =
        "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n";
    static const char without[] = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    static const char usage[] =
        "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2,"
        "\"total_tokens\":3}}\n\n";
    struct answer_spec spec = usual_spec();
    spec.strips_usage = true;
    struct buf body = {0}, want = {0};
    buf_printf(&body, "%s%s%s%s", with, STOP, usage, DONE);
    buf_printf(&want, "%s%s%s", without, STOP, DONE);
    for (size_t step = 1; step <= body.n; step += 3) {
        struct told t = run(&spec, "text/event-stream", NULL, buf_bytes(&body), step, step, OPEN);
        assert_int_equal(t.end, ANSWER_DONE);
        assert_string_equal(buf_cstr(&t.raw), buf_cstr(&want));
        told_fini(&t);
    }
    buf_fini(&body);
    buf_fini(&want);
}

/* bits: 31 gzip, 15 zlib, -15 raw. */
static struct bytes packed(const char *text, int bits, char *out, size_t cap)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)text,
                  .avail_in = (unsigned)strlen(text),
                  .next_out = (unsigned char *)out,
                  .avail_out = (unsigned)cap};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = cap - z.avail_out;
    deflateEnd(&z);
    return (struct bytes){out, n};
}

static void test_codings(void **state)
{
    char out[4096], two[8192];
    assert_whole("text/event-stream", "gzip", packed(STREAM, 31, out, sizeof out), "Hello world", STREAM, OPEN);
    assert_whole("application/json", "X-GZIP", packed(WHOLE, 31, out, sizeof out), "Hello world", WHOLE, ENDS);
    assert_whole("application/json", "deflate", packed(WHOLE, 15, out, sizeof out), "Hello world", WHOLE, ENDS);
    assert_whole("application/json", "deflate", packed(WHOLE, -15, out, sizeof out), "Hello world", WHOLE, ENDS);
    assert_whole("application/json", "identity", BYTES(WHOLE), "Hello world", WHOLE, ENDS);
    struct bytes a = packed(HELLO, 31, two, sizeof two);
    struct bytes b = packed(STOP DONE, 31, two + a.n, sizeof two - a.n);
    assert_whole("text/event-stream", "gzip", (struct bytes){two, a.n + b.n}, "Hello", HELLO STOP DONE, OPEN);
}

static void test_a_bomb_meets_the_limit(void **state)
{
    struct answer_spec spec = usual_spec();
    struct buf big = {0};
    char out[65536];
    buf_puts(&big, "{\"x\":\"");
    while (big.n < 4000000)
        buf_puts(&big, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    struct told t =
        run(&spec, "application/json", "gzip", packed(buf_cstr(&big), 31, out, sizeof out), 100, 1000, ENDS);
    assert_int_equal(t.end, ANSWER_FAILED);
    assert_int_equal(t.failure.outcome, OUTCOME_PROTOCOL_ERROR);
    told_fini(&t);
    buf_fini(&big);
}

static int no_leaks(void **state)
{
    return mem_live(MEM_BUF) == 0 && mem_live(MEM_ARENA) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_streams, no_leaks),
        cmocka_unit_test_teardown(test_json, no_leaks),
        cmocka_unit_test_teardown(test_a_body_in_one_read_is_lent, no_leaks),
        cmocka_unit_test_teardown(test_labels_lie, no_leaks),
        cmocka_unit_test_teardown(test_failures, no_leaks),
        cmocka_unit_test_teardown(test_blanks_are_not_kept, no_leaks),
        cmocka_unit_test_teardown(test_bad_events_can_be_skipped, no_leaks),
        cmocka_unit_test_teardown(test_error_in_stream, no_leaks),
        cmocka_unit_test_teardown(test_usage_is_cut_out, no_leaks),
        cmocka_unit_test_teardown(test_codings, no_leaks),
        cmocka_unit_test_teardown(test_a_bomb_meets_the_limit, no_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* From a provider's output to the client's bytes: relayed, translated, held back, ended, and gone wrong. */
#include "front_world.h"

#include "base/mem.h"

#include "model/event.h"

#define KEY "x-api-key: team-a\r\n"
#define FIRST "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n"
#define TOKEN "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n"
#define DONE "data: [DONE]\n\n"

static struct attempt_record attempts[] = {{.n = 1,
                                            .outcome = OUTCOME_RATE_LIMITED,
                                            .is_started = true,
                                            .status = 429,
                                            .provider = "providerA",
                                            .model = "llama-3.3-70b-instruct",
                                            .start_us = 0,
                                            .ttft_us = -1,
                                            .total_us = 12000},
                                           {.n = 2,
                                            .is_started = true,
                                            .provider = "providerB",
                                            .model = "llama-3.3-70b-instruct",
                                            .start_us = 12000,
                                            .ttft_us = 352000,
                                            .total_us = -1}};
static struct request_record record = {.n_attempts = 2,
                                       .n_started = 2,
                                       .attempts = attempts,
                                       .adjusted = "max_tokens=8192",
                                       .cost_nusd = 12345678901,
                                       .key = "",
                                       .route = "flagship"};
#define TRAIL                                                                           \
    "x-ringmain-trail: providerA/llama-3.3-70b-instruct;rate_limited;status=429;12ms, " \
    "providerB/llama-3.3-70b-instruct;ok;ttft=340ms\r\n"

static void call_chat(struct front_world *w, bool is_stream)
{
    front_world_send(w, "POST /v1/chat/completions", KEY,
                     is_stream ? "{\"model\":\"flagship\",\"stream\":true,\"messages\":[]}"
                               : "{\"model\":\"flagship\",\"messages\":[]}");
    assert_non_null(w->call);
}

static void call_messages(struct front_world *w)
{
    front_world_send(w, "POST /v1/messages", KEY,
                     "{\"model\":\"flagship\",\"max_tokens\":9,\"stream\":true,\"messages\":[]}");
    assert_non_null(w->call);
}

/* (The lines of a link are no use where the trail has more than its one attempt.) */
static struct draft *draft_from(struct front_world *w, const char *target)
{
    struct draft_options o = {.target = dialect_by_name(bytes_of(target)),
                              .provider = "providerB",
                              .model = "upstream-model",
                              .served_lines = BYTES("x-wrong: "),
                              .gate_bytes = 1000,
                              .body_bytes = 1000000,
                              .wall_ms = 1800000000000};
    return draft_new(w->call, &o);
}

static uint32_t put(struct draft *d, const char *raw, bool is_stream, const struct event *v, size_t n)
{
    struct output in = {.raw = bytes_of(raw), .raw_is_stream = is_stream, .v = v, .n = n};
    uint32_t made = 0;
    assert_true(draft_put(d, &in, &made));
    return made;
}

static const struct event start_event = {.kind = EVENT_START, .id = {"c1", 2}, .text = {"m1", 2}};
static const struct event token_event = {.kind = EVENT_TEXT, .is_token = true, .text = {"Hi", 2}, .text_bytes = 2};
static const struct event done_event = {.kind = EVENT_DONE};

static void finish(struct front_world *w, struct draft *d)
{
    w->call = NULL;
    draft_end(d, &record);
    draft_free(d);
    front_world_settle(w);
}

static void commit_now(struct front_world *w, struct draft *d)
{
    draft_commit(d, &record);
    draft_flush(d);
    front_world_settle(w);
}

static void test_relays_a_stream_byte_for_byte(void **state)
{
    struct front_world *w = *state;
    call_chat(w, true);
    struct draft *d = draft_from(w, "openai");
    struct field provider_fields[] = {{BYTES("X-Request-Id"), BYTES("up-1")},
                                      {BYTES("openai-organization"), BYTES("org-secret")},
                                      {BYTES("x-ratelimit-remaining-requests"), BYTES("7")},
                                      {BYTES("set-cookie"), BYTES("a=b")}};
    struct fields fields = {.v = provider_fields, .n = RM_COUNTOF(provider_fields)};
    draft_set_fields(d, &fields);
    assert_int_equal(put(d, ": queued\n\n", true, NULL, 0), 0);
    assert_int_equal(put(d, FIRST, true, &start_event, 1), strlen(FIRST));
    assert_int_equal(put(d, TOKEN, true, &token_event, 1), strlen(TOKEN));
    front_world_settle(w);
    assert_int_equal(w->got.n, 0); /* nothing before commit */
    assert_int_equal(draft_status(d), 0);
    commit_now(w, d);
    assert_int_equal(draft_status(d), 200);
    assert_true(front_world_has(w, "HTTP/1.1 200 OK\r\n"));
    assert_true(front_world_has(w, "content-type: text/event-stream; charset=utf-8\r\n"));
    assert_true(front_world_has(w, "cache-control: no-cache\r\nx-accel-buffering: no\r\n"));
    assert_true(front_world_has(w, "x-ringmain-request-id: req_"));
    assert_true(front_world_has(w, "x-ringmain-provider: providerB\r\nx-ringmain-model: upstream-model\r\n" TRAIL));
    assert_true(front_world_has(w, "x-ringmain-attempts: 2\r\nx-ringmain-adjusted: max_tokens=8192\r\n"));
    assert_true(front_world_has(w, ": up-1\r\n"));
    assert_true(front_world_has(w, ": 7\r\n"));
    assert_false(front_world_has(w, "org-secret"));
    assert_false(front_world_has(w, "a=b"));
    assert_false(front_world_has(w, "cost"));
    assert_int_equal(put(d, ": keep-alive\n\n", true, NULL, 0), 14);
    draft_flush(d);
    assert_int_equal(put(d, DONE, true, &done_event, 1), strlen(DONE));
    draft_flush(d);
    finish(w, d);
    assert_string_equal(front_world_body(w), FIRST TOKEN ": keep-alive\n\n" DONE "<end>");
}

static void test_strips_and_drops(void **state)
{
    struct front_world *w = *state;
    call_chat(w, true);
    struct draft *d = draft_from(w, "openai");
    uint32_t n = 0;
    struct output in = {
        .raw = BYTES("data: {\"a\":1,\"usage\":null}\n\n"), .raw_is_stream = true, .strip_at = 12, .strip_end = 25};
    in.v = &token_event;
    in.n = 1;
    assert_true(draft_put(d, &in, &n));
    assert_int_equal(n, in.raw.n - 13);
    commit_now(w, d);
    assert_true(draft_put(d, &in, &n));
    draft_flush(d);
    in.is_dropped = true;
    assert_true(draft_put(d, &in, &n));
    assert_int_equal(n, 0);
    draft_flush(d);
    put(d, DONE, true, &done_event, 1);
    finish(w, d);
    assert_string_equal(front_world_body(w), "data: {\"a\":1}\n\ndata: {\"a\":1}\n\n" DONE "<end>");
}

#define FINISH "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
#define USAGE "data: {\"choices\":[],\"usage\":{}}\n\n"

static const struct event cut_event = {.kind = EVENT_FINISH, .reason = FINISH_LENGTH};
static const struct event told_usage = {.kind = EVENT_USAGE};

/* A token, then a finish and what comes with it: all but the token are kept back. */
static struct draft *draft_at_its_finish(struct front_world *w)
{
    call_chat(w, true);
    struct draft *d = draft_from(w, "openai");
    put(d, TOKEN, true, &token_event, 1);
    commit_now(w, d);
    assert_int_equal(put(d, FINISH, true, &cut_event, 1), strlen(FINISH));
    draft_flush(d);
    put(d, USAGE, true, &told_usage, 1);
    draft_flush(d);
    front_world_settle(w);
    assert_true(front_world_has(w, "Hi"));
    assert_false(front_world_has(w, "finish_reason\":\"length"));
    assert_false(front_world_has(w, "usage"));
    return d;
}

static void test_a_finish_waits_for_the_end(void **state)
{
    struct front_world *w = *state;
    struct draft *d = draft_at_its_finish(w);
    put(d, DONE, true, &done_event, 1);
    draft_flush(d);
    front_world_settle(w);
    assert_true(front_world_has(w, "[DONE]"));
    finish(w, d);
    assert_string_equal(front_world_body(w), TOKEN FINISH USAGE DONE "<end>");
}

static void test_a_finish_without_marker_goes_out_at_the_end(void **state)
{
    struct front_world *w = *state;
    struct draft *d = draft_at_its_finish(w);
    finish(w, d);
    assert_string_equal(front_world_body(w), TOKEN FINISH USAGE DONE "<end>");
}

/* n > 1: the other choices go on. */
static void test_a_token_shows_that_a_finish_was_meant(void **state)
{
    struct front_world *w = *state;
    struct draft *d = draft_at_its_finish(w);
    put(d, TOKEN, true, &token_event, 1);
    put(d, FINISH, true, &cut_event, 1); /* without a flush between */
    put(d, TOKEN, true, &token_event, 1);
    draft_flush(d);
    put(d, DONE, true, &done_event, 1);
    finish(w, d);
    assert_string_equal(front_world_body(w), TOKEN FINISH USAGE TOKEN FINISH TOKEN DONE "<end>");
}

/* The attempt failed after it had named a finish: the client never hears of that finish. */
static void test_a_finish_before_an_error_is_not_told(void **state)
{
    struct front_world *w = *state;
    struct draft *d = draft_at_its_finish(w);
    struct answer_error e = {
        .status = 502, .openai_type = "server_error", .message = BYTES("broken off"), .retry_after_ms = -1};
    call_error_in_stream(w->call, &e);
    w->call = NULL;
    draft_free(d);
    front_world_settle(w);
    const char *body = front_world_body(w);
    assert_null(strstr(body, "finish_reason\":\"length"));
    assert_non_null(strstr(body, "broken off"));
}

static void test_owes_the_terminal_marker(void **state)
{
    struct front_world *w = *state;
    call_chat(w, true);
    struct draft *d = draft_from(w, "openai");
    put(d, "data: {\"x\":1}\n", true, &token_event, 1); /* its empty line is missing too */
    commit_now(w, d);
    finish(w, d);
    assert_string_equal(front_world_body(w), "data: {\"x\":1}\n\n\n" DONE "<end>");
}

/* Lines end in CRLF and the cut fell between an event's last CR and its LF: the LF leads the next event, even one that
 * is taken out. */
static void test_a_cut_line_end_is_made_whole(void **state)
{
    struct front_world *w = *state;
    call_chat(w, true);
    struct draft *d = draft_from(w, "openai");
    put(d, "data: {\"x\":1}\r\n\r", true, &token_event, 1);
    commit_now(w, d);
    put(d, "\ndata: {\"x\":2}\r\n\r", true, &token_event, 1);
    draft_flush(d);
    uint32_t n = 0;
    struct output usage = {.raw = BYTES("\ndata: {\"usage\":1}\r\n\r"), .raw_is_stream = true, .is_dropped = true};
    assert_true(draft_put(d, &usage, &n));
    put(d, "\ndata: {\"x\":3}\r\n\r\n", true, &token_event, 1);
    put(d, "data: [DONE]\r\n\r", true, &done_event, 1);
    finish(w, d);
    assert_string_equal(front_world_body(w), "data: {\"x\":1}\r\n\r\ndata: {\"x\":2}\r\n\r\n"
                                             "data: {\"x\":3}\r\n\r\ndata: [DONE]\r\n\r\n<end>");
}

static void test_gate_is_bounded(void **state)
{
    struct front_world *w = *state;
    char big[2000] = {0};
    memset(big, 'x', sizeof big - 3);
    memcpy(big + sizeof big - 3, "\n\n", 2);
    call_chat(w, true);
    struct draft *d = draft_from(w, "openai");
    uint32_t n = 0;
    struct output in = {.raw = bytes_of(big), .raw_is_stream = true, .v = &start_event, .n = 1};
    assert_false(draft_put(d, &in, &n));
    draft_free(d);
    d = draft_from(w, "openai");
    in.v = &token_event; /* the gate opens at once: nothing to bound */
    assert_true(draft_put(d, &in, &n));
    draft_free(d);
    front_world_hang_up(w);
    assert_int_equal(w->n_gone, 1);
}

static void test_translates_a_stream(void **state)
{
    struct front_world *w = *state;
    struct event finish_event = {.kind = EVENT_FINISH, .reason = FINISH_STOP};
    call_messages(w);
    struct draft *d = draft_from(w, "openai");
    put(d, FIRST, true, &start_event, 1);
    put(d, TOKEN, true, &token_event, 1);
    commit_now(w, d);
    put(d, "data: {}\n\n", true, &finish_event, 1);
    draft_flush(d);
    put(d, DONE, true, &done_event, 1);
    draft_flush(d);
    finish(w, d);
    const char *body = front_world_body(w);
    assert_non_null(strstr(body, "event: message_start\n"));
    assert_non_null(strstr(body, "\"text\":\"Hi\""));
    assert_non_null(strstr(body, "event: message_stop\n"));
    assert_null(strstr(body, "[DONE]"));
    assert_string_equal(strstr(body, "event: message_stop\n"),
                        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n<end>");
}

/* A translated stream in which most events are the one before with other text. */
static void translate_words(struct front_world *w, bool is_known, struct buf *body)
{
    static const char *const words[] = {"one", " two", " \"three\"", " four", " five", " six", " seven"};
    call_messages(w);
    struct draft *d = draft_from(w, "openai");
    put(d, FIRST, true, &start_event, 1);
    put(d, TOKEN, true, &token_event, 1);
    commit_now(w, d);
    draft_flush(d);
    for (size_t i = 0; i < RM_COUNTOF(words); i++) {
        struct event e = {.kind = EVENT_TEXT, .is_token = true, .text = bytes_of(words[i])};
        struct output in = {.raw = BYTES(TOKEN), .raw_is_stream = true, .is_lasting = true, .v = &e, .n = 1};
        uint32_t made = 0;
        bool is_put = false;
        e.is_more = is_known;
        e.is_plain = is_known && strchr(words[i], '"') == NULL;
        bool is_out = i % 2 == 0 && draft_pass(d, &in, &is_put);
        assert_true(is_known || !is_out);
        if (!is_put)
            assert_true(draft_put(d, &in, &made));
        if (!is_out && i != 3) /* the fifth stands behind the fourth in one flush */
            draft_flush(d);
    }
    put(d, DONE, true, &done_event, 1);
    draft_flush(d);
    finish(w, d);
    buf_puts(body, front_world_body(w));
}

static void test_what_is_known_is_translated_the_same(void **state)
{
    struct front_world *w = *state;
    struct buf known = {0}, unknown = {0};
    translate_words(w, true, &known);
    translate_words(w, false, &unknown);
    /* what the provider did not tell is made from the request's id */
    size_t from[] = {bytes_find(buf_bytes(&known), BYTES("content_block_start")),
                     bytes_find(buf_bytes(&unknown), BYTES("content_block_start"))};
    assert_true(from[0] != SIZE_MAX && from[0] == from[1]);
    assert_true(bytes_eq(bytes_slice(buf_bytes(&known), from[0], known.n),
                         bytes_slice(buf_bytes(&unknown), from[1], unknown.n)));
    assert_true(bytes_find(buf_bytes(&known), BYTES("\"text\":\" \\\"three\\\"\"")) != SIZE_MAX);
    buf_fini(&known);
    buf_fini(&unknown);
}

static void test_keeps_a_whole_answer_as_it_is(void **state)
{
    struct front_world *w = *state;
    const char *json = "{ \"id\" : \"c1\",\n \"choices\" : [] , \"odd\":1e2}\n";
    call_chat(w, false);
    struct draft *d = draft_from(w, "openai");
    put(d, json, false, &token_event, 1);
    draft_commit(d, &record);
    draft_flush(d);
    front_world_settle(w);
    assert_int_equal(w->got.n, 0); /* a whole answer goes at its end */
    finish(w, d);
    assert_true(front_world_has(w, "content-type: application/json\r\n"));
    assert_true(front_world_has(w, "x-ringmain-cost-usd: 12.345678901\r\n"));
    assert_false(front_world_has(w, "x-accel-buffering"));
    assert_string_equal(front_world_body(w), json);
}

static void test_a_lent_answer_is_the_same(void **state)
{
    struct front_world *w = *state;
    const char *json = "{ \"id\" : \"c1\",\n \"choices\" : [] , \"odd\":1e2}\n";
    char *there = mem_dup(json, strlen(json)); /* a view that is kept too long is found */
    struct output in = {.raw = bytes_of(there), .v = &token_event, .n = 1}, cut = in, stream = in;
    cut.strip_end = 1;
    stream.raw_is_stream = true;
    call_chat(w, false);
    struct draft *d = draft_from(w, "openai");
    assert_false(draft_lend(d, &cut));
    assert_false(draft_lend(d, &stream));
    assert_true(draft_lend(d, &in));
    draft_free(d); /* its attempt was cut */
    d = draft_from(w, "anthropic");
    assert_false(draft_lend(d, &in));
    draft_free(d);
    d = draft_from(w, "openai");
    assert_true(draft_lend(d, &in));
    draft_commit(d, &record);
    w->call = NULL;
    draft_end(d, &record);
    mem_free(there);
    draft_free(d);
    front_world_settle(w);
    assert_true(front_world_has(w, "content-type: application/json\r\n"));
    assert_string_equal(front_world_body(w), json);
}

/* What is written once for all answers of a link, and what is written for this one: the same lines. */
static void test_served_lines_are_the_same_lines(void **state)
{
    struct front_world *w = *state;
    struct attempt_record one = {
        .n = 1, .is_started = true, .provider = "provider;B", .model = "up, model", .ttft_us = 352000, .total_us = -1};
    struct request_record rec = {.n_attempts = 1, .n_started = 1, .attempts = &one, .adjusted = "", .cost_nusd = -1};
    struct buf lines = {0};
    reply_served_lines(one.provider, one.model, &lines);
    for (int is_moulded = 0; is_moulded < 2; is_moulded++) {
        struct draft_options o = {.target = dialect_by_name(BYTES("openai")),
                                  .provider = one.provider,
                                  .model = one.model,
                                  .served_lines = is_moulded ? buf_bytes(&lines) : BYTES(""),
                                  .gate_bytes = 1000,
                                  .body_bytes = 1000000};
        struct output in = {.raw = BYTES("{}"), .v = &done_event, .n = 1};
        uint32_t made = 0;
        call_chat(w, false);
        struct draft *d = draft_new(w->call, &o);
        assert_true(draft_put(d, &in, &made));
        draft_commit(d, &rec);
        w->call = NULL;
        draft_end(d, &rec);
        draft_free(d);
        front_world_settle(w);
        assert_true(front_world_has(w, "\r\nx-ringmain-provider: provider;B\r\nx-ringmain-model: up, model\r\n"
                                       "x-ringmain-trail: provider%3BB/up%2C%20model;ok;ttft=352ms\r\n"
                                       "x-ringmain-attempts: 1\r\n"));
    }
    buf_fini(&lines);
}

static void test_assembles_a_stream(void **state)
{
    struct front_world *w = *state;
    struct event finish_event = {.kind = EVENT_FINISH, .reason = FINISH_STOP};
    call_chat(w, false);
    struct draft *d = draft_from(w, "openai");
    put(d, ": wait\n\n", true, NULL, 0);
    put(d, FIRST, true, &start_event, 1);
    put(d, TOKEN, true, &token_event, 1);
    put(d, ": wait\n\n", true, NULL, 0);
    put(d,
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"mood\":1.50},\"finish_reason\":\"stop\"}],\r\n"
        "data: \"service_tier\":\"flex\",\"usage\":{\"total_tokens\":3,\"cost\":0.00012}}\r\n\r\n",
        true, &finish_event, 1);
    struct output beyond = {
        .raw = BYTES("data: {\"choices\":[],\"late\":1}\n\n"), .raw_is_stream = true, .is_dropped = true};
    uint32_t n_bytes;
    assert_true(draft_put(d, &beyond, &n_bytes));
    put(d, DONE, true, &done_event, 1);
    draft_commit(d, &record);
    finish(w, d);
    assert_string_equal(
        front_world_body(w),
        "{\"id\":\"c1\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hi\",\"mood\":1.50}"
        ","
        "\"finish_reason\":\"stop\"}],\"service_tier\":\"flex\",\"usage\":{\"total_tokens\":3,\"cost\":0.00012},"
        "\"created\":1800000000,\"object\":\"chat.completion\",\"model\":\"upstream-model\"}");
}

static void test_what_is_assembled_is_bounded(void **state)
{
    struct front_world *w = *state;
    char raw[4096];
    size_t n_fits = 0;
    uint32_t n_bytes;
    struct buf event = {0};
    memset(raw, 'a', sizeof raw);
    buf_puts(&event, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
    buf_put(&event, bytes_from(raw, sizeof raw));
    buf_puts(&event, "\"}}]}\n\n");
    call_chat(w, false);
    struct draft *d = draft_from(w, "openai");
    struct output in = {.raw = buf_bytes(&event), .raw_is_stream = true, .v = &token_event, .n = 1};
    while (n_fits < 1000 && draft_put(d, &in, &n_bytes))
        n_fits++;
    assert_in_range(n_fits, 100, 245); /* 1,000,000 bytes */
    draft_free(d);
    buf_fini(&event);
}

static void test_streams_a_whole_answer(void **state)
{
    struct front_world *w = *state;
    struct event v[] = {start_event, token_event, {.kind = EVENT_FINISH, .reason = FINISH_STOP}, done_event};
    call_chat(w, true);
    struct draft *d = draft_from(w, "openai");
    put(d, "{\"choices\":[]}", false, v, RM_COUNTOF(v));
    commit_now(w, d);
    finish(w, d);
    const char *body = front_world_body(w);
    assert_non_null(strstr(body, "\"content\":\"Hi\""));
    assert_non_null(strstr(body, DONE "<end>"));
}

static struct answer_error red(void)
{
    return (struct answer_error){.status = 503,
                                 .openai_type = "upstream_unavailable",
                                 .openai_code = "all_providers_unavailable",
                                 .anthropic_type = "overloaded_error",
                                 .message = BYTES("none could answer"),
                                 .retry_after_ms = 7001};
}

static void test_error_answer(void **state)
{
    struct front_world *w = *state;
    struct answer_error e = red();
    call_chat(w, false);
    call_answer_error(w->call, &e, &record, true);
    front_world_settle(w);
    assert_true(front_world_has(w, "HTTP/1.1 503 "));
    assert_true(front_world_has(w, "retry-after: 8\r\nx-should-retry: false\r\n"));
    assert_true(front_world_has(w, TRAIL));
    assert_true(front_world_has(w, "x-ringmain-cost-usd: 12.345678901\r\n"));
    assert_true(front_world_has(w, "\"code\":\"all_providers_unavailable\""));
    e.retry_after_ms = 0;
    call_chat(w, true);
    call_answer_error(w->call, &e, &record, false);
    front_world_settle(w);
    assert_true(front_world_has(w, "retry-after: 1\r\n"));
    assert_false(front_world_has(w, "x-should-retry"));
    assert_false(front_world_has(w, "cost"));
}

static void test_error_in_stream(void **state)
{
    struct front_world *w = *state;
    struct answer_error e = red();
    call_chat(w, true);
    struct draft *d = draft_from(w, "openai");
    put(d, TOKEN, true, &token_event, 1);
    commit_now(w, d);
    call_error_in_stream(w->call, &e);
    draft_free(d);
    front_world_settle(w);
    const char *body = front_world_body(w);
    assert_int_equal(strncmp(body, TOKEN "data: {\"error\":", strlen(TOKEN "data: {\"error\":")), 0);
    assert_null(strstr(body, "[DONE]"));
    assert_non_null(strstr(body, "}\n\n<end>"));
}

static void test_heartbeat(void **state)
{
    struct front_world *w = *state;
    struct answer_error e = red();
    call_chat(w, false);
    call_heartbeat(w->call, &record);
    front_world_settle(w);
    assert_int_equal(w->got.n, 0);
    call_answer_error(w->call, &e, &record, false);
    front_world_settle(w);
    call_messages(w);
    call_heartbeat(w->call, &record);
    call_heartbeat(w->call, &record);
    front_world_settle(w);
    assert_true(front_world_has(w, "HTTP/1.1 200 OK\r\n"));
    call_answer_error(w->call, &e, &record, false); /* all red after the head: told inside */
    front_world_settle(w);
    const char *body = front_world_body(w);
    const char *begin = ": ringmain\n\n: ringmain\n\nevent: error\ndata: {\"type\":\"error\"";
    assert_int_equal(strncmp(body, begin, strlen(begin)), 0);
    assert_null(strstr(body, "message_stop"));
}

static void test_trail(void **state)
{
    struct attempt_record v[] = {
        {.outcome = OUTCOME_SKIPPED_OPEN, .provider = "a", .model = "x y;z,é", .total_us = 5000},
        {.outcome = OUTCOME_TTFT_TIMEOUT,
         .is_started = true,
         .provider = "b",
         .model = "org/m",
         .start_us = 1000,
         .total_us = 2001400},
        {.outcome = OUTCOME_OK,
         .is_started = true,
         .provider = "c",
         .model = "m",
         .start_us = 2000000,
         .ttft_us = -1,
         .total_us = 2500600}};
    struct request_record rec = {.attempts = v, .n_attempts = RM_COUNTOF(v)};
    struct buf out = {0};
    trail_text(&rec, &out);
    assert_string_equal(buf_cstr(&out),
                        "a/x%20y%3Bz%2C%C3%A9;skipped_open, b/org/m;ttft_timeout;2000ms, c/m;ok;ttft=501ms");
    buf_fini(&out);
}

static void test_trail_is_bounded(void **state)
{
    static struct attempt_record v[200];
    for (size_t i = 0; i < RM_COUNTOF(v); i++)
        v[i] = (struct attempt_record){
            .outcome = OUTCOME_SKIPPED_BUSY, .provider = "provider-with-a-name", .model = "model-with-a-name"};
    struct request_record rec = {.attempts = v, .n_attempts = RM_COUNTOF(v)};
    struct buf out = {0};
    trail_text(&rec, &out);
    assert_in_range(out.n, 3900, 4096);
    assert_true(bytes_ends_with(buf_bytes(&out), BYTES(";skipped_busy")));
    buf_fini(&out);
}

#define WITH(f) cmocka_unit_test_setup_teardown(f, front_world_set_up, front_world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_relays_a_stream_byte_for_byte),
        WITH(test_strips_and_drops),
        WITH(test_a_finish_waits_for_the_end),
        WITH(test_a_finish_without_marker_goes_out_at_the_end),
        WITH(test_a_token_shows_that_a_finish_was_meant),
        WITH(test_a_finish_before_an_error_is_not_told),
        WITH(test_a_cut_line_end_is_made_whole),
        WITH(test_owes_the_terminal_marker),
        WITH(test_gate_is_bounded),
        WITH(test_translates_a_stream),
        WITH(test_what_is_known_is_translated_the_same),
        WITH(test_keeps_a_whole_answer_as_it_is),
        WITH(test_a_lent_answer_is_the_same),
        WITH(test_served_lines_are_the_same_lines),
        WITH(test_assembles_a_stream),
        WITH(test_what_is_assembled_is_bounded),
        WITH(test_streams_a_whole_answer),
        WITH(test_error_answer),
        WITH(test_error_in_stream),
        WITH(test_heartbeat),
        cmocka_unit_test(test_trail),
        cmocka_unit_test(test_trail_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

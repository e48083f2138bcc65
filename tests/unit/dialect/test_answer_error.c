/* Errors as clients get them. */
#include "unit.h"

#include "answer_kit.h"
#include "codec/json_tree.h"
#include "dialect/error.h"

static struct answer_error told(struct arena *a, enum failure_class class, unsigned status)
{
    struct failure f = {
        .class = class, .outcome = failure_outcome(class), .status = (uint16_t)status, .retry_after_ms = 1500};
    struct answer_error e;
    failure_text(f.type, sizeof f.type, BYTES("their_type"));
    failure_text(f.code, sizeof f.code, BYTES("their_code"));
    failure_text(f.param, sizeof f.param, BYTES("tools[0]"));
    failure_text(f.message, sizeof f.message, BYTES("their usage limits"));
    error_of_failure(&f, "alpha", a, &e);
    return e;
}

static void each_class_has_its_status_and_words(void **state)
{
    (void)state;
    static const struct {
        enum failure_class class;
        unsigned came, status;
        const char *type, *code, *anthropic, *param;
    } rows[] = {
        {FAILURE_FAULT, 500, 502, "server_error", "provider_error", "api_error", NULL},
        {FAILURE_OVERLOAD, 503, 503, "server_error", "provider_overloaded", "overloaded_error", NULL},
        {FAILURE_RATE, 429, 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", NULL},
        {FAILURE_QUOTA, 402, 429, "insufficient_quota", "insufficient_quota", "rate_limit_error", NULL},
        {FAILURE_AUTH, 401, 502, "provider_auth_error", "provider_auth_error", "api_error", NULL},
        {FAILURE_NOTFOUND, 404, 404, "invalid_request_error", "model_not_found", "not_found_error", NULL},
        {FAILURE_CONTEXT, 413, 400, "invalid_request_error", "context_length_exceeded", "invalid_request_error",
         "tools[0]"},
        {FAILURE_POLICY, 400, 400, "invalid_request_error", "content_policy_violation", "invalid_request_error",
         "tools[0]"},
        {FAILURE_COMPAT, 422, 422, "their_type", "their_code", "invalid_request_error", "tools[0]"},
        {FAILURE_CLIENT, 422, 422, "their_type", "their_code", "invalid_request_error", "tools[0]"},
        {FAILURE_CLIENT, 0, 400, "their_type", "their_code", "invalid_request_error", "tools[0]"},
    };
    struct arena a = {0};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct answer_error e = told(&a, rows[i].class, rows[i].came);
        assert_int_equal(e.status, rows[i].status);
        assert_string_equal(e.openai_type, rows[i].type);
        assert_string_equal(e.openai_code, rows[i].code);
        assert_string_equal(e.anthropic_type, rows[i].anthropic);
        assert_int_equal(e.param == NULL, rows[i].param == NULL);
        assert_int_equal(e.retry_after_ms, 1500);
        assert_true(e.message.n > 0);
    }
    arena_fini(&a);
}

static bool says(const struct answer_error *e, const char *text)
{
    return bytes_find(e->message, bytes_of(text)) != SIZE_MAX;
}

static void the_gateways_account_is_not_the_clients_business(void **state)
{
    (void)state;
    struct arena a = {0};
    struct answer_error e = told(&a, FAILURE_QUOTA, 400);
    assert_true(says(&e, "alpha"));
    assert_false(says(&e, "usage limits"));
    e = told(&a, FAILURE_AUTH, 401);
    assert_true(says(&e, "alpha"));
    assert_false(says(&e, "usage limits"));
    e = told(&a, FAILURE_NOTFOUND, 404);
    assert_true(says(&e, "alpha"));
    e = told(&a, FAILURE_CLIENT, 400);
    assert_true(bytes_is(e.message, "their usage limits"));
    arena_fini(&a);
}

static void timeouts_are_504(void **state)
{
    (void)state;
    static const enum outcome outcomes[] = {OUTCOME_TTFT_TIMEOUT, OUTCOME_CONNECT_TIMEOUT, OUTCOME_TOTAL_TIMEOUT,
                                            OUTCOME_IDLE_TIMEOUT, OUTCOME_DEADLINE};
    struct arena a = {0};
    struct answer_error e;
    struct failure f;
    for (size_t i = 0; i < RM_COUNTOF(outcomes); i++) {
        failure_make(&f, outcomes[i], "late");
        error_of_failure(&f, "alpha", &a, &e);
        assert_int_equal(e.status, 504);
    }
    failure_make(&f, OUTCOME_STREAM_ERROR, "cut");
    error_of_failure(&f, "alpha", &a, &e);
    assert_int_equal(e.status, 502);
    assert_int_equal(error_status(&kit_openai, &e), 502);
    e.status = 503;
    assert_int_equal(error_status(&kit_openai, &e), 503);
    assert_int_equal(error_status(&kit_anthropic, &e), 529);
    arena_fini(&a);
}

static const struct attempt_record attempts[] = {
    {.n = 1,
     .outcome = OUTCOME_TTFT_TIMEOUT,
     .is_started = true,
     .provider = "a",
     .model = "m\"1",
     .total_us = 2000400},
    {.n = 2,
     .outcome = OUTCOME_RATE_LIMITED,
     .is_started = true,
     .status = 429,
     .provider = "b",
     .model = "m",
     .total_us = 12000},
    {.n = 3, .outcome = OUTCOME_SKIPPED_OPEN, .provider = "c", .model = "m"},
};

static void all_red_tells_every_attempt(void **state)
{
    (void)state;
    struct answer_error e = {.status = 503,
                             .openai_type = "upstream_unavailable",
                             .openai_code = "all_providers_unavailable",
                             .anthropic_type = "overloaded_error",
                             .message = BYTES("none"),
                             .retry_after_ms = 8000,
                             .attempts = attempts,
                             .n_attempts = 3,
                             .request_id = "req_1"};
    struct buf out = {0};
    error_body(&kit_openai, &e, &out);
    assert_string_equal(
        buf_cstr(&out),
        "{\"error\":{\"message\":\"none\",\"type\":\"upstream_unavailable\",\"code\":\"all_providers_unavailable\","
        "\"param\":null,\"retry_after_ms\":8000,\"attempts\":["
        "{\"provider\":\"a\",\"model\":\"m\\\"1\",\"outcome\":\"ttft_timeout\",\"status\":null,\"ms\":2000},"
        "{\"provider\":\"b\",\"model\":\"m\",\"outcome\":\"rate_limited\",\"status\":429,\"ms\":12},"
        "{\"provider\":\"c\",\"model\":\"m\",\"outcome\":\"skipped_open\",\"status\":null,\"ms\":0}]}}");
    buf_clear(&out);
    e.n_attempts = 0;
    error_body(&kit_anthropic, &e, &out);
    assert_string_equal(buf_cstr(&out), "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
                                        "\"none\",\"retry_after_ms\":8000,\"attempts\":[]},\"request_id\":\"req_1\"}");
    buf_fini(&out);
}

static void in_a_stream_it_is_one_event(void **state)
{
    (void)state;
    struct answer_error e = {.status = 502,
                             .openai_type = "server_error",
                             .anthropic_type = "api_error",
                             .message = BYTES("a\nb"),
                             .retry_after_ms = -1};
    struct buf out = {0};
    error_event(&kit_openai, &e, &out);
    assert_string_equal(buf_cstr(&out), "data: {\"error\":{\"message\":\"a\\nb\",\"type\":\"server_error\",\"code\":"
                                        "null,\"param\":null}}\n\n");
    buf_clear(&out);
    error_event(&kit_anthropic, &e, &out);
    assert_string_equal(buf_cstr(&out), "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
                                        "\"message\":\"a\\nb\"}}\n\n");
    buf_fini(&out);
}

/* What we write of an error is read as that error again: a gateway may stand behind another. */
static void our_own_errors_are_understood(void **state)
{
    (void)state;
    struct arena a = {0};
    struct answer_error e = told(&a, FAILURE_RATE, 429);
    const struct dialect *both[] = {&kit_openai, &kit_anthropic};
    for (size_t i = 0; i < 2; i++) {
        struct buf out = {0};
        struct decoder d;
        struct kit_sink sink = {0};
        error_event(both[i], &e, &out);
        decoder_init(&d, both[i], BYTES("generic"), KIT_DEPTH, false);
        kit_stream(&d, buf_bytes(&out), out.n, 0, &sink);
        assert_true(d.has_error);
        assert_true(d.failure->in_stream);
        assert_int_equal(d.failure->class, FAILURE_RATE);
        assert_false(decoder_is_complete(&d));
        decoder_fini(&d);
        buf_fini(&out);
    }
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_has_its_status_and_words),
        cmocka_unit_test(the_gateways_account_is_not_the_clients_business),
        cmocka_unit_test(timeouts_are_504),
        cmocka_unit_test(all_red_tells_every_attempt),
        cmocka_unit_test(in_a_stream_it_is_one_event),
        cmocka_unit_test(our_own_errors_are_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

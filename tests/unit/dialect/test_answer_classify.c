/* Error answers and their classes: the table of failover semantics 2 and 3, row by row, and the hints. */
#include "unit.h"

#include "answer_kit.h"

struct row {
    const char *vendor;
    unsigned status;
    const char *body;
    enum failure_class class;
};

static struct failure classify(const struct dialect *d, const char *vendor, unsigned status,
                               const struct fields *fields, const char *body)
{
    struct failure f;
    dialect_classify(d, bytes_of(vendor), status, fields, bytes_of(body), 1796205600000, &f);
    return f;
}

static void check_rows(const struct dialect *d, const struct row *rows, size_t n)
{
    const struct fields none = {.v = NULL, .n = 0};
    for (size_t i = 0; i < n; i++) {
        struct failure f = classify(d, rows[i].vendor, rows[i].status, &none, rows[i].body);
        if (f.class != rows[i].class)
            fail_msg("row %zu: %s %u %s: got %s, want %s", i, rows[i].vendor, rows[i].status, rows[i].body,
                     failure_class_name(f.class), failure_class_name(rows[i].class));
        assert_int_equal(f.status, rows[i].status);
        assert_false(f.in_stream);
    }
}

#define ERR(members) "{\"error\":{" members "}}"
#define MSG(text) ERR("\"message\":\"" text "\"")
#define CODE(code) ERR("\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"" code "\"")

static void openai_and_azure(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"openai", 400, CODE("context_length_exceeded"), FAILURE_CONTEXT},
        {"openai", 400, CODE("string_above_max_length"), FAILURE_CONTEXT},
        {"openai", 400, MSG("This model's maximum context length is 8192 tokens."), FAILURE_CONTEXT},
        {"openai", 400, MSG("Your input exceeds the context window of this model."), FAILURE_CONTEXT},
        {"azure", 400, CODE("content_filter"), FAILURE_POLICY},
        {"azure", 400,
         ERR("\"message\":\"m\",\"code\":\"x\",\"innererror\":{\"code\":\"ResponsibleAIPolicyViolation\"}"),
         FAILURE_POLICY},
        {"openai", 400, CODE("content_policy_violation"), FAILURE_POLICY},
        {"openai", 400, CODE("invalid_prompt"), FAILURE_POLICY},
        {"openai", 400, CODE("unsupported_parameter"), FAILURE_COMPAT},
        {"openai", 400, CODE("unsupported_value"), FAILURE_COMPAT},
        {"openai", 400, CODE("unknown_parameter"), FAILURE_COMPAT},
        {"openai", 400, CODE("model_not_found"), FAILURE_NOTFOUND},
        {"openai", 400, CODE("billing_not_active"), FAILURE_QUOTA},
        {"openai", 403, CODE("account_deactivated"), FAILURE_QUOTA},
        {"openai", 400, CODE("invalid_value"), FAILURE_CLIENT},
        {"openai", 400,
         ERR("\"message\":\"Invalid schema for function 'billing'\",\"code\":\"invalid_function_parameters\""),
         FAILURE_CLIENT},
        {"openai", 400, MSG("whatever"), FAILURE_CLIENT},
        {"openai", 401, CODE("invalid_api_key"), FAILURE_AUTH},
        {"azure", 401, ERR("\"code\":\"401\",\"message\":\"Access denied\""), FAILURE_AUTH},
        {"openai", 403, CODE("unsupported_country_region_territory"), FAILURE_AUTH},
        {"openai", 403, "", FAILURE_AUTH},
        {"openai", 404, CODE("model_not_found"), FAILURE_NOTFOUND},
        {"azure", 404, CODE("DeploymentNotFound"), FAILURE_NOTFOUND},
        {"openai", 408, "", FAILURE_FAULT},
        {"openai", 409, "", FAILURE_FAULT},
        {"openai", 429, CODE("insufficient_quota"), FAILURE_QUOTA},
        {"openai", 429, MSG("please check your plan and billing details."), FAILURE_QUOTA},
        {"openai", 429, CODE("rate_limit_exceeded"), FAILURE_RATE},
        {"openai", 429, ERR("\"type\":\"requests\",\"message\":\"add a payment method\""), FAILURE_RATE},
        {"azure", 429, ERR("\"code\":\"RateLimitReached\",\"message\":\"m\""), FAILURE_RATE},
        {"openai", 429, "", FAILURE_RATE},
        {"openai", 500, MSG("boom"), FAILURE_FAULT},
        {"openai", 502, "", FAILURE_FAULT},
        {"openai", 503, ERR("\"type\":\"server_error\",\"message\":\"overloaded\""), FAILURE_OVERLOAD},
        {"openai", 504, "", FAILURE_FAULT},
        {"openai", 500, CODE("model_not_found"), FAILURE_FAULT},
        /* A body that says overload is one, whatever its number (but a rate's). */
        {"openai", 500, ERR("\"type\":\"server_error\",\"message\":\"The engine is currently overloaded\""),
         FAILURE_OVERLOAD},
        {"openai", 502, MSG("Model is at capacity"), FAILURE_OVERLOAD},
        {"openai", 0, ERR("\"type\":\"server_error\",\"message\":\"overloaded\""), FAILURE_OVERLOAD},
        {"openai", 424, MSG("Model is overloaded"), FAILURE_OVERLOAD},
        {"openai", 429, MSG("Model is overloaded"), FAILURE_RATE},
        {"openai", 400, MSG("tool 'f' is overloaded"), FAILURE_CLIENT},
    };
    check_rows(&kit_openai, rows, RM_COUNTOF(rows));
}

static void compatible_hosts(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"together", 402, "", FAILURE_QUOTA},
        {"together", 403, MSG("input tokens exceed the limit"), FAILURE_CONTEXT},
        {"together", 403, MSG("no access"), FAILURE_AUTH},
        {"together", 429, MSG("slow"), FAILURE_RATE},
        {"together", 503, "", FAILURE_OVERLOAD},
        {"together", 524, "", FAILURE_FAULT},
        {"together", 529, "", FAILURE_FAULT},
        {"fireworks", 412, MSG("Account suspended"), FAILURE_QUOTA},
        {"fireworks", 413, "", FAILURE_CONTEXT},
        {"fireworks", 404, "", FAILURE_NOTFOUND},
        {"deepinfra", 422, "{\"detail\":[{\"loc\":[\"body\",\"x\"],\"msg\":\"bad\"}]}", FAILURE_COMPAT},
        {"deepinfra", 402, "", FAILURE_QUOTA},
        {"groq", 400, CODE("tool_use_failed"), FAILURE_FAULT},
        {"groq", 413, MSG("Request too large for model on tokens per minute (TPM)"), FAILURE_RATE},
        {"groq", 422, "", FAILURE_FAULT},
        {"groq", 424, "", FAILURE_FAULT},
        {"groq", 498, "", FAILURE_OVERLOAD},
        {"groq", 499, "", FAILURE_FAULT},
        {"mistral", 401, "{\"detail\":\"Invalid API Key\"}", FAILURE_AUTH},
        {"mistral", 422, "{\"detail\":[]}", FAILURE_COMPAT},
        {"mistral", 400, "{\"object\":\"error\",\"message\":\"Prompt is too large for model\",\"type\":\"x\"}",
         FAILURE_CONTEXT},
        {"deepseek", 402, ERR("\"message\":\"Insufficient Balance\",\"code\":\"invalid_request_error\""),
         FAILURE_QUOTA},
        {"deepseek", 422, MSG("bad"), FAILURE_CLIENT},
        {"deepseek", 401, ERR("\"type\":\"authentication_error\",\"code\":\"invalid_request_error\""), FAILURE_AUTH},
        {"openrouter", 400, ERR("\"code\":400,\"message\":\"m\",\"metadata\":{\"error_type\":\"string_too_long\"}"),
         FAILURE_CONTEXT},
        {"openrouter", 400, ERR("\"code\":400,\"message\":\"m\",\"metadata\":{\"error_type\":\"invalid_prompt\"}"),
         FAILURE_CLIENT},
        {"openrouter", 502,
         ERR("\"code\":502,\"message\":\"m\",\"metadata\":{\"error_type\":\"provider_unavailable\"}"), FAILURE_FAULT},
        {"openrouter", 503, ERR("\"code\":503,\"message\":\"m\",\"metadata\":{\"error_type\":\"provider_overloaded\"}"),
         FAILURE_OVERLOAD},
        {"openrouter", 403, ERR("\"code\":403,\"message\":\"flagged\",\"metadata\":{\"reasons\":[\"violence\"]}"),
         FAILURE_POLICY},
        {"openrouter", 403, ERR("\"code\":403,\"message\":\"no\""), FAILURE_AUTH},
        {"openrouter", 402, ERR("\"code\":402,\"message\":\"in_flight_budget_exhausted\""), FAILURE_RATE},
        {"openrouter", 402, ERR("\"code\":402,\"message\":\"Insufficient credits.\""), FAILURE_QUOTA},
        {"openrouter", 429,
         ERR("\"message\":\"m\",\"availability\":{\"code\":\"capacity_exhausted\",\"retry_after\":7}"), FAILURE_RATE},
        {"xai", 400, "{\"code\":\"invalid-argument\",\"error\":\"Incorrect API key provided.\"}", FAILURE_AUTH},
        {"xai", 429, "{\"code\":\"x\",\"error\":\"Your team has used all available credits\"}", FAILURE_QUOTA},
        {"xai", 422, "{\"error\":\"bad\"}", FAILURE_COMPAT},
        {"cerebras", 429, "{\"message\":\"m\",\"type\":\"too_many_requests_error\",\"code\":\"queue_exceeded\"}",
         FAILURE_OVERLOAD},
        {"vllm", 400, "{\"object\":\"error\",\"message\":\"This model's maximum context length is 4096\",\"code\":400}",
         FAILURE_CONTEXT},
        {"vllm", 400,
         ERR("\"message\":\"The input (9000 tokens) is longer than the model's context length (8192 tokens).\","
             "\"type\":\"BadRequestError\",\"code\":400"),
         FAILURE_CONTEXT},
        {"vllm", 500, ERR("\"message\":\"EngineDead\",\"code\":500"), FAILURE_FAULT},
        {"llamacpp", 400, ERR("\"code\":400,\"message\":\"m\",\"type\":\"exceed_context_size_error\""),
         FAILURE_CONTEXT},
        {"llamacpp", 503, ERR("\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\""),
         FAILURE_OVERLOAD},
        {"llamacpp", 501, ERR("\"code\":501,\"message\":\"m\",\"type\":\"not_supported_error\""), FAILURE_COMPAT},
        {"ollama", 404, MSG("model 'x' not found, try pulling it first"), FAILURE_NOTFOUND},
        {"ollama", 400, MSG("prompt too long; exceeded max context length"), FAILURE_CONTEXT},
        {"ollama", 502, "", FAILURE_FAULT},
        {"cohere", 400, "{\"error_type\":\"TOO_MANY_TOKENS\",\"message\":\"m\"}", FAILURE_CONTEXT},
        {"cohere", 429, "{\"message\":\"limited to 1000 API calls / month\"}", FAILURE_QUOTA},
        {"cohere", 498, "{\"message\":\"blocked\"}", FAILURE_POLICY},
        {"generic", 400, MSG("insufficient credits"), FAILURE_QUOTA},
        {"generic", 422, MSG("Extra inputs are not permitted: stream_options"), FAILURE_COMPAT},
        {"generic", 400, MSG("Unrecognized request argument supplied: stream_options"), FAILURE_COMPAT},
        {"generic", 400, "[{\"error\":{\"code\":400,\"message\":\"exceeds the maximum number of tokens allowed\"}}]",
         FAILURE_CONTEXT},
        {"generic", 400, "{\"errors\":[{\"message\":\"out of credits\"}]}", FAILURE_QUOTA},
    };
    check_rows(&kit_openai, rows, RM_COUNTOF(rows));
}

static void status_defaults(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        enum failure_class class;
    } rows[] = {
        {302, FAILURE_FAULT},  {400, FAILURE_CLIENT},   {401, FAILURE_AUTH},     {402, FAILURE_QUOTA},
        {403, FAILURE_AUTH},   {404, FAILURE_NOTFOUND}, {405, FAILURE_AUTH},     {407, FAILURE_AUTH},
        {408, FAILURE_FAULT},  {409, FAILURE_FAULT},    {410, FAILURE_NOTFOUND}, {411, FAILURE_CLIENT},
        {412, FAILURE_CLIENT}, {413, FAILURE_CONTEXT},  {415, FAILURE_CLIENT},   {418, FAILURE_FAULT},
        {421, FAILURE_FAULT},  {422, FAILURE_CLIENT},   {423, FAILURE_FAULT},    {424, FAILURE_FAULT},
        {425, FAILURE_FAULT},  {426, FAILURE_FAULT},    {429, FAILURE_RATE},     {431, FAILURE_CLIENT},
        {451, FAILURE_POLICY}, {460, FAILURE_CLIENT},   {498, FAILURE_OVERLOAD}, {499, FAILURE_FAULT},
        {500, FAILURE_FAULT},  {501, FAILURE_COMPAT},   {502, FAILURE_FAULT},    {503, FAILURE_OVERLOAD},
        {504, FAILURE_FAULT},  {520, FAILURE_FAULT},    {524, FAILURE_FAULT},    {529, FAILURE_OVERLOAD},
        {530, FAILURE_FAULT},  {599, FAILURE_FAULT},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        const struct row openai = {"generic", rows[i].status, "", rows[i].class};
        const struct row anthropic = {"generic", rows[i].status, "gone", rows[i].class};
        check_rows(&kit_openai, &openai, 1);
        check_rows(&kit_anthropic, &anthropic, 1);
    }
    assert_int_equal(classify(&kit_openai, "generic", 302, NULL, "").outcome, OUTCOME_PROTOCOL_ERROR);
    assert_int_equal(classify(&kit_openai, "generic", 503, NULL, "").outcome, OUTCOME_OVERLOADED);
}

#define A(type, text) "{\"type\":\"error\",\"error\":{\"type\":\"" type "\",\"message\":\"" text "\"}}"

static void anthropic_rows(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"anthropic", 400, A("invalid_request_error", "Your credit balance is too low"), FAILURE_QUOTA},
        {"anthropic", 400, A("invalid_request_error", "You have reached your specified API usage limits."),
         FAILURE_QUOTA},
        {"anthropic", 400, A("invalid_request_error", "prompt is too long: 9000 tokens > 8192 maximum"),
         FAILURE_CONTEXT},
        {"anthropic", 400, A("invalid_request_error", "input length and `max_tokens` exceed context limit"),
         FAILURE_CONTEXT},
        {"anthropic", 400, A("invalid_request_error", "`temperature` is deprecated for this model."), FAILURE_COMPAT},
        {"anthropic", 400, A("invalid_request_error", "This model does not support effort level 'xhigh'."),
         FAILURE_COMPAT},
        {"anthropic", 400, A("invalid_request_error", "This model does not support assistant message prefill."),
         FAILURE_COMPAT},
        {"anthropic", 400, A("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"),
         FAILURE_COMPAT},
        {"anthropic", 400, A("invalid_request_error", "`tool_use` ids were found without `tool_result` blocks"),
         FAILURE_CLIENT},
        {"anthropic", 400, A("invalid_request_error", "messages.0: Input does not match the expected shape."),
         FAILURE_CLIENT},
        {"anthropic", 401, A("authentication_error", "invalid x-api-key"), FAILURE_AUTH},
        {"anthropic", 403, A("permission_error", "no"), FAILURE_AUTH},
        {"anthropic", 402, A("billing_error", "pay"), FAILURE_QUOTA},
        {"anthropic", 404, A("not_found_error", "model: x"), FAILURE_NOTFOUND},
        {"anthropic", 404,
         "{\"error\":{\"type\":\"not_found_error\",\"message\":\"m\",\"details\":{\"error_code\":\"thread_not_found\"}}"
         "}",
         FAILURE_CLIENT},
        {"anthropic", 409, A("conflict_error", "m"), FAILURE_FAULT},
        {"anthropic", 413, A("request_too_large", "m"), FAILURE_CONTEXT},
        {"anthropic", 413, "<html><body>413</body></html>", FAILURE_CONTEXT},
        {"anthropic", 429,
         "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"m\",\"details\":{\"error_code\":"
         "\"enforced_spend_limit_reached\"}}}",
         FAILURE_QUOTA},
        {"anthropic", 429, A("rate_limit_error", "no header tells when"), FAILURE_QUOTA},
        {"generic", 429, A("rate_limit_error", "no header tells when"), FAILURE_RATE},
        {"anthropic", 500, A("api_error", "m"), FAILURE_FAULT},
        {"anthropic", 503, "", FAILURE_OVERLOAD},
        {"anthropic", 504, A("timeout_error", "m"), FAILURE_FAULT},
        {"anthropic", 529, A("overloaded_error", "Overloaded"), FAILURE_OVERLOAD},
    };
    check_rows(&kit_anthropic, rows, RM_COUNTOF(rows));
}

static void a_rate_limit_with_a_hint_is_no_spend_cap(void **state)
{
    (void)state;
    struct field after = {BYTES("Retry-After"), BYTES("12")};
    struct field left[] = {{BYTES("anthropic-ratelimit-tokens-remaining"), BYTES("0")},
                           {BYTES("anthropic-ratelimit-tokens-reset"), BYTES("2026-12-02T10:00:20Z")},
                           {BYTES("date"), BYTES("Wed, 02 Dec 2026 10:00:00 GMT")}};
    const struct fields one = {.v = &after, .n = 1}, three = {.v = left, .n = 3};
    struct failure f = classify(&kit_anthropic, "anthropic", 429, &one, A("rate_limit_error", "m"));
    assert_int_equal(f.class, FAILURE_RATE);
    assert_int_equal(f.retry_after_ms, 12000);
    f = classify(&kit_anthropic, "anthropic", 429, &three, A("rate_limit_error", "m"));
    assert_int_equal(f.class, FAILURE_RATE);
    assert_int_equal(f.retry_after_ms, 20000);
}

static int64_t hint_of(unsigned status, const char *name, const char *value, const char *body)
{
    struct field v[] = {{BYTES("Date"), BYTES("Wed, 02 Dec 2026 10:00:00 GMT")}, {bytes_of(name), bytes_of(value)}};
    const struct fields fields = {.v = v, .n = 2};
    return classify(&kit_openai, "generic", status, &fields, body).retry_after_ms;
}

static void hints_in_headers(void **state)
{
    (void)state;
    const char *date = "Wed, 02 Dec 2026 10:00:30 GMT";
    assert_int_equal(hint_of(429, "retry-after", "30", ""), 30000);
    assert_int_equal(hint_of(429, "retry-after", "1.5", ""), 1500);
    assert_int_equal(hint_of(429, "retry-after-ms", "250.4", ""), 250);
    assert_int_equal(hint_of(429, "retry-after-ms", "0", ""), 100);
    assert_int_equal(hint_of(429, "retry-after", date, ""), 30000);
    assert_int_equal(hint_of(429, "retry-after", "Wednesday, 02-Dec-26 10:00:30 GMT", ""), 30000);
    assert_int_equal(hint_of(429, "retry-after", "Wed Dec  2 10:00:30 2026", ""), 30000);
    assert_int_equal(hint_of(429, "retry-after", "Wed, 02 Dec 2026 09:00:00 GMT", ""), 100);
    assert_int_equal(hint_of(503, "retry-after", "4236", ""), 3600000);
    assert_int_equal(hint_of(429, "retry-after", "99999999999999999999", ""), 3600000);
    assert_int_equal(hint_of(500, "retry-after", "5", ""), 5000);
    assert_int_equal(hint_of(400, "retry-after", "5", ""), -1);
    assert_int_equal(hint_of(429, "retry-after", "soon", ""), -1);
    assert_int_equal(hint_of(429, "x-other", "5", ""), -1);
}

static void a_date_without_a_date_header_counts_from_our_clock(void **state)
{
    (void)state;
    struct field after = {BYTES("retry-after"), BYTES("Wed, 02 Dec 2026 10:00:30 GMT")};
    const struct fields fields = {.v = &after, .n = 1};
    /* 1796205600 is 2026-12-02 10:00:00 UTC. */
    assert_int_equal(classify(&kit_openai, "generic", 429, &fields, "").retry_after_ms, 30000);
}

static void hints_of_exhausted_dimensions(void **state)
{
    (void)state;
    struct field v[] = {{BYTES("x-ratelimit-remaining-requests"), BYTES("10")},
                        {BYTES("x-ratelimit-reset-requests"), BYTES("1h2m3s")},
                        {BYTES("x-ratelimit-remaining-tokens"), BYTES("0")},
                        {BYTES("x-ratelimit-reset-tokens"), BYTES("6m0.5s")}};
    const struct fields fields = {.v = v, .n = 4};
    assert_int_equal(classify(&kit_openai, "openai", 429, &fields, "").retry_after_ms, 360500);
    assert_int_equal(classify(&kit_openai, "openai", 503, &fields, "").retry_after_ms, -1);
    v[0].value = BYTES("0");
    assert_int_equal(classify(&kit_openai, "openai", 429, &fields, "").retry_after_ms, 3600000);
    struct field plain[] = {{BYTES("x-ratelimit-remaining"), BYTES("0")}, {BYTES("x-ratelimit-reset"), BYTES("2")}};
    const struct fields two = {.v = plain, .n = 2};
    assert_int_equal(classify(&kit_openai, "together", 429, &two, "").retry_after_ms, 2000);
    plain[1].value = BYTES("1796205607000");
    assert_int_equal(classify(&kit_openai, "openrouter", 429, &two, "").retry_after_ms, 7000);
}

static void hints_in_bodies(void **state)
{
    (void)state;
    const struct fields none = {.v = NULL, .n = 0};
    static const struct {
        const char *body;
        int64_t ms;
    } rows[] = {
        {MSG("Please try again in 2s."), 2000},
        {MSG("Please try again in 1m2.5s. Visit us"), 62500},
        {MSG("try again in 20ms"), 100},
        {MSG("Please try again in 3 seconds."), 3000},
        {MSG("Please retry in 27.4s."), 27400},
        {MSG("Please retry after 10 seconds."), 10000},
        {MSG("please try again later"), -1},
        {ERR("\"message\":\"m\",\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\","
             "\"retryDelay\":\"27s\"}]"),
         27000},
        {ERR("\"message\":\"m\",\"availability\":{\"retry_after\":7}"), 7000},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        assert_int_equal(classify(&kit_openai, "generic", 429, &none, rows[i].body).retry_after_ms, rows[i].ms);
}

static void a_quota_date_is_not_clamped(void **state)
{
    (void)state;
    struct field date = {BYTES("date"), BYTES("Wed, 02 Dec 2026 00:00:00 GMT")};
    const struct fields fields = {.v = &date, .n = 1};
    struct failure f = classify(&kit_anthropic, "anthropic", 400, &fields,
                                A("invalid_request_error", "You have reached your specified API usage limits. "
                                                           "You will regain access on 2026-12-05 at 00:00 UTC."));
    assert_int_equal(f.class, FAILURE_QUOTA);
    assert_int_equal(f.retry_after_ms, INT64_C(3) * 86400000);
}

static void words_are_kept(void **state)
{
    (void)state;
    struct failure f = classify(&kit_openai, "generic", 400, NULL,
                                ERR("\"message\":\"bad\\nvalue\",\"type\":\"t\",\"param\":\"tools[0]\",\"code\":400"));
    assert_string_equal(f.message, "bad value");
    assert_string_equal(f.type, "t");
    assert_string_equal(f.code, "400");
    assert_string_equal(f.param, "tools[0]");
}

static void markup_and_keys_never_show(void **state)
{
    (void)state;
    static const char *const bodies[] = {"<!DOCTYPE html><html><script>alert(1)</script></html>",
                                         "<html>\n<head><title>502 Bad Gateway</title></head></html>",
                                         ERR("\"message\":\"<html><body>x</body></html>\""), "nearly <b>text</b>"};
    for (size_t i = 0; i < RM_COUNTOF(bodies); i++) {
        struct failure f = classify(&kit_openai, "generic", 502, NULL, bodies[i]);
        assert_null(strchr(f.message, '<'));
        assert_true(strlen(f.message) > 0);
        assert_int_equal(f.class, FAILURE_FAULT);
    }
    struct failure f = classify(&kit_openai, "openai", 401, NULL,
                                MSG("Incorrect API key provided: sk-proj-abcdefghijkl. See sk-****abcd or ask"));
    assert_string_equal(f.message, "Incorrect API key provided: ***. See *** or ask");
    char body[2000];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    f = classify(&kit_openai, "generic", 500, NULL, body);
    assert_int_equal(strlen(f.message), 200);
}

static void an_edge_block_is_not_the_key(void **state)
{
    (void)state;
    struct field ray = {BYTES("CF-Ray"), BYTES("x")};
    const struct fields fields = {.v = &ray, .n = 1};
    assert_int_equal(classify(&kit_openai, "openai", 403, &fields, "<html>blocked</html>").class, FAILURE_FAULT);
    assert_int_equal(classify(&kit_openai, "openai", 403, &fields, MSG("no")).class, FAILURE_AUTH);
}

static void cures_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        unsigned quirk;
    } rows[] = {
        {ERR("\"message\":\"Unrecognized request argument supplied: stream_options\",\"param\":\"stream_options\","
             "\"code\":null"),
         QUIRK_NO_STREAM_OPTIONS},
        {ERR("\"message\":\"Unsupported parameter: 'max_tokens' is not supported with this model. Use "
             "'max_completion_tokens' instead.\",\"param\":\"max_tokens\",\"code\":\"unsupported_parameter\""),
         QUIRK_MAX_COMPLETION_TOKENS},
        {MSG("Unknown field: max_completion_tokens"), QUIRK_MAX_TOKENS},
        {ERR("\"message\":\"Unsupported value: 'temperature' does not support 0.2 with this model.\",\"param\":"
             "\"temperature\",\"code\":\"unsupported_value\""),
         QUIRK_NO_SAMPLING},
        {ERR("\"message\":\"Unsupported value: 'messages[0].role' does not support 'developer' with this model.\","
             "\"param\":\"messages[0].role\",\"code\":\"unsupported_value\""),
         QUIRK_SYSTEM_FOR_DEVELOPER},
        {CODE("unsupported_parameter"), 0},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct failure f = classify(&kit_openai, "generic", 400, NULL, rows[i].body);
        assert_int_equal(f.class, FAILURE_COMPAT);
        assert_int_equal(f.quirk, rows[i].quirk);
    }
    struct failure f = classify(&kit_anthropic, "anthropic", 400, NULL,
                                A("invalid_request_error", "Invalid `signature` in `thinking` block"));
    assert_int_equal(f.quirk, QUIRK_NO_THINKING_HISTORY);
    /* A wrong value is the client's, whatever it names. */
    f = classify(&kit_openai, "openai", 400, NULL,
                 ERR("\"message\":\"max_tokens is too large: 5000. This model supports at most 4096\","
                     "\"param\":\"max_tokens\",\"code\":\"invalid_value\""));
    assert_int_equal(f.class, FAILURE_CLIENT);
    assert_int_equal(f.quirk, 0);
}

/* ---- recorded ---- */

static const struct {
    const char *file;
    unsigned status;
    const char *vendor;
    enum failure_class class;
} recorded[] = {
    {"anthropic/error-400-credit-balance.json", 400, "anthropic", FAILURE_QUOTA},
    {"anthropic/error-400-prompt-too-long.json", 400, "anthropic", FAILURE_CONTEXT},
    {"anthropic/error-400-shape.json", 400, "anthropic", FAILURE_CLIENT},
    {"anthropic/error-400-unsupported-effort.json", 400, "anthropic", FAILURE_COMPAT},
    {"anthropic/error-401.json", 401, "anthropic", FAILURE_AUTH},
    {"anthropic/error-404-model.json", 404, "anthropic", FAILURE_NOTFOUND},
    {"synthetic/anthropic-error-400-usage-limit.json", 400, "anthropic", FAILURE_QUOTA},
    {"synthetic/anthropic-error-429-spend.json", 429, "anthropic", FAILURE_QUOTA},
    {"synthetic/anthropic-error-529.json", 529, "anthropic", FAILURE_OVERLOAD},
    {"azure/error-401.json", 401, "azure", FAILURE_AUTH},
    {"azure/error-404-deployment.json", 404, "azure", FAILURE_NOTFOUND},
    {"azure/error-429-rate-limit.json", 429, "azure", FAILURE_RATE},
    {"synthetic/azure-error-400-content-filter.json", 400, "azure", FAILURE_POLICY},
    {"cohere/error-400-too-many-tokens.json", 400, "cohere", FAILURE_CONTEXT},
    {"deepseek/error-400-context-length.json", 400, "deepseek", FAILURE_CONTEXT},
    {"deepseek/error-401.json", 401, "deepseek", FAILURE_AUTH},
    {"synthetic/deepseek-error-402.json", 402, "deepseek", FAILURE_QUOTA},
    {"groq/error-400-tool-use-failed.json", 400, "groq", FAILURE_FAULT},
    {"groq/error-404-model.json", 404, "groq", FAILURE_NOTFOUND},
    {"mistral/error-401.json", 401, "mistral", FAILURE_AUTH},
    {"ollama/error-400-context.json", 400, "ollama", FAILURE_CONTEXT},
    {"ollama/error-401.json", 401, "ollama", FAILURE_AUTH},
    {"openai/error-400-bad-json.json", 400, "openai", FAILURE_COMPAT},
    {"openai/error-400-missing-parameter.json", 400, "openai", FAILURE_CLIENT},
    {"openai/error-400-no-code.json", 400, "openai", FAILURE_CLIENT},
    {"openai/error-400-unsupported-parameter.json", 400, "openai", FAILURE_COMPAT},
    {"openai/error-400-unsupported-value-role.json", 400, "openai", FAILURE_COMPAT},
    {"openai/error-401-invalid-key.json", 401, "openai", FAILURE_AUTH},
    {"openai/error-404-model-deprecated.json", 404, "openai", FAILURE_NOTFOUND},
    {"openai/error-404-model-not-found.json", 404, "openai", FAILURE_NOTFOUND},
    {"synthetic/openai-error-429-insufficient-quota.json", 429, "openai", FAILURE_QUOTA},
    {"synthetic/openai-error-429-tokens.json", 429, "openai", FAILURE_RATE},
    {"synthetic/openai-error-503-overloaded.json", 503, "openai", FAILURE_OVERLOAD},
    {"openrouter/error-400-context-length.json", 400, "openrouter", FAILURE_CONTEXT},
    {"openrouter/error-401-no-auth.json", 401, "openrouter", FAILURE_AUTH},
    {"openrouter/error-429-provider.json", 429, "openrouter", FAILURE_RATE},
    {"perplexity/error-400-too-long.json", 400, "perplexity", FAILURE_CONTEXT},
    {"xai/error-400-bad-key.json", 400, "xai", FAILURE_AUTH},
    {"synthetic/llamacpp-error-400-context.json", 400, "llamacpp", FAILURE_CONTEXT},
    {"synthetic/llamacpp-error-503-loading.json", 503, "llamacpp", FAILURE_OVERLOAD},
    {"synthetic/cloudflare-524.html", 524, "generic", FAILURE_FAULT},
    {"synthetic/nginx-502.html", 502, "generic", FAILURE_FAULT},
};

static void recorded_errors(void **state)
{
    (void)state;
    const char *folder = getenv("RINGMAIN_FIXTURES");
    struct buf body = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", recorded[0].file);
    if (folder == NULL || !kit_read(path, &body)) {
        print_message("skipped: no recorded fixtures\n");
        skip();
    }
    for (size_t i = 0; i < RM_COUNTOF(recorded); i++) {
        const struct fields none = {.v = NULL, .n = 0};
        buf_clear(&body);
        snprintf(path, sizeof path, "%s/%s", folder, recorded[i].file);
        assert_true(kit_read(path, &body));
        const struct dialect *d = strcmp(recorded[i].vendor, "anthropic") == 0 ? &kit_anthropic : &kit_openai;
        struct failure f;
        dialect_classify(d, bytes_of(recorded[i].vendor), recorded[i].status, &none, buf_bytes(&body), 0, &f);
        if (f.class != recorded[i].class)
            fail_msg("%s: got %s", recorded[i].file, failure_class_name(f.class));
        assert_null(strchr(f.message, '<'));
    }
    buf_fini(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openai_and_azure),
        cmocka_unit_test(compatible_hosts),
        cmocka_unit_test(status_defaults),
        cmocka_unit_test(anthropic_rows),
        cmocka_unit_test(a_rate_limit_with_a_hint_is_no_spend_cap),
        cmocka_unit_test(hints_in_headers),
        cmocka_unit_test(a_date_without_a_date_header_counts_from_our_clock),
        cmocka_unit_test(hints_of_exhausted_dimensions),
        cmocka_unit_test(hints_in_bodies),
        cmocka_unit_test(a_quota_date_is_not_clamped),
        cmocka_unit_test(words_are_kept),
        cmocka_unit_test(markup_and_keys_never_show),
        cmocka_unit_test(an_edge_block_is_not_the_key),
        cmocka_unit_test(cures_are_named),
        cmocka_unit_test(recorded_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

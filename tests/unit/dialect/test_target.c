/* What a target gets besides the body, which host is which vendor, and the registry. */
#include "unit.h"

#include "dialect/request_impl.h"

static const struct dialect *openai(void)
{
    return dialect_by_name(BYTES("openai"));
}

static const struct dialect *anthropic(void)
{
    return dialect_by_name(BYTES("anthropic"));
}

static void check_text(struct buf *b, const char *want)
{
    assert_string_equal(buf_cstr(b), want);
    buf_fini(b);
}

static void registry(void **state)
{
    (void)state;
    assert_non_null(openai());
    assert_non_null(anthropic());
    assert_null(dialect_by_name(BYTES("gemini")));
    assert_null(dialect_by_name(BYTES("")));
    assert_ptr_equal(dialect_by_path(BYTES("/v1/chat/completions")), openai());
    assert_ptr_equal(dialect_by_path(BYTES("/v1/messages")), anthropic());
    assert_null(dialect_by_path(BYTES("/v1/messages/count_tokens")));
    assert_ptr_equal(dialect_of_errors(BYTES("/v1/messages/count_tokens")), anthropic());
    assert_ptr_equal(dialect_of_errors(BYTES("/v1/messages")), anthropic());
    assert_ptr_equal(dialect_of_errors(BYTES("/v1/messagesx")), openai());
    assert_string_equal(dialect_of_errors(BYTES("/v1beta/models/x:generateContent"))->name, "gemini");
    assert_null(dialect_by_name(BYTES("gemini")));
    assert_ptr_equal(dialect_of_errors(BYTES("")), openai());
}

static void check_path(const struct dialect *d, const char *base, const char *want)
{
    struct buf b = {0};
    dialect_target_path(d, bytes_of(base), &b);
    check_text(&b, want);
}

static void paths(void **state)
{
    (void)state;
    check_path(openai(), "/v1", "/v1/chat/completions");
    check_path(openai(), "/v1/", "/v1/chat/completions");
    check_path(openai(), "/inference/v1", "/inference/v1/chat/completions");
    check_path(openai(), "", "/chat/completions");
    check_path(anthropic(), "", "/v1/messages");
    check_path(anthropic(), "/", "/v1/messages");
    check_path(anthropic(), "/v1", "/v1/messages");
    check_path(anthropic(), "/anthropic/v1/", "/anthropic/v1/messages");
    check_path(anthropic(), "/anthropic", "/anthropic/v1/messages");
}

static void check_fields(const struct dialect *client, const struct dialect *target, bool is_stream, const char *want)
{
    struct field v[] = {{BYTES("Anthropic-Version"), BYTES("2026-10-21")},
                        {BYTES("anthropic-beta"), BYTES("a-1, b-2")},
                        {BYTES("anthropic-beta"), BYTES("c-3")},
                        {BYTES("x-api-key"), BYTES("rk-client")},
                        {BYTES("OpenAI-Organization"), BYTES("org-1")}};
    struct fields f = {.v = v, .n = RM_COUNTOF(v)};
    struct buf b = {0};
    dialect_target_fields(client, target, &f, BYTES("secret"), is_stream, &b);
    check_text(&b, want);
}

static void request_fields(void **state)
{
    (void)state;
    check_fields(openai(), openai(), true, "authorization: Bearer secret\r\naccept: text/event-stream\r\n");
    check_fields(anthropic(), openai(), false, "authorization: Bearer secret\r\naccept: application/json\r\n");
    check_fields(openai(), anthropic(), true,
                 "x-api-key: secret\r\nanthropic-version: 2023-06-01\r\naccept: text/event-stream\r\n");
    check_fields(anthropic(), anthropic(), true,
                 "x-api-key: secret\r\nanthropic-version: 2026-10-21\r\nanthropic-beta: a-1, b-2\r\n"
                 "anthropic-beta: c-3\r\naccept: text/event-stream\r\n");
}

static void fields_cannot_be_injected(void **state)
{
    (void)state;
    struct field v[] = {{BYTES("anthropic-version"), BYTES("2099-01-01")},
                        {BYTES("anthropic-beta"), BYTES("a\r\nx-evil: 1")}};
    struct fields f = {.v = v, .n = RM_COUNTOF(v)};
    struct buf b = {0};
    dialect_target_fields(anthropic(), anthropic(), &f, BYTES(""), false, &b);
    check_text(&b, "anthropic-version: 2023-06-01\r\naccept: application/json\r\n");
    dialect_target_fields(anthropic(), anthropic(), NULL, BYTES("k"), false, &b);
    check_text(&b, "x-api-key: k\r\nanthropic-version: 2023-06-01\r\naccept: application/json\r\n");
}

static void answer_fields(void **state)
{
    (void)state;
    assert_true(dialect_field_goes_down(openai(), openai(), BYTES("X-Request-Id")));
    assert_true(dialect_field_goes_down(openai(), openai(), BYTES("x-ratelimit-remaining-tokens")));
    assert_true(dialect_field_goes_down(openai(), anthropic(), BYTES("request-id")));
    assert_true(dialect_field_goes_down(anthropic(), anthropic(), BYTES("anthropic-ratelimit-tokens-limit")));
    assert_false(dialect_field_goes_down(openai(), anthropic(), BYTES("anthropic-ratelimit-tokens-limit")));
    assert_false(dialect_field_goes_down(anthropic(), openai(), BYTES("x-ratelimit-limit-requests")));
    assert_false(dialect_field_goes_down(openai(), openai(), BYTES("openai-organization")));
    assert_false(dialect_field_goes_down(anthropic(), anthropic(), BYTES("anthropic-organization-id")));
    assert_false(dialect_field_goes_down(openai(), openai(), BYTES("set-cookie")));
    assert_false(dialect_field_goes_down(openai(), openai(), BYTES("connection")));
    struct field v[] = {{BYTES("Request-Id"), BYTES("req_1")}, {BYTES("x-request-id"), BYTES("")}};
    struct fields f = {.v = v, .n = RM_COUNTOF(v)};
    assert_true(bytes_is(dialect_request_id(anthropic(), &f), "req_1"));
    assert_true(bytes_is(dialect_request_id(openai(), &f), "req_1"));
    f.n = 0;
    assert_null(dialect_request_id(openai(), &f).p);
}

static void check_keepalive(const struct dialect *d, struct profile p, const char *want)
{
    struct buf b = {0};
    dialect_build_keepalive(d, &p, &b);
    check_text(&b, want);
}

static void keepalives(void **state)
{
    (void)state;
    struct set_member set[] = {{BYTES("provider"), BYTES("{\"sort\":\"price\"}")}, {BYTES("max_tokens"), BYTES("9")}};
    struct profile p = {
        .model = BYTES("m\"x"), .vendor = BYTES("together"), .adds_usage = true, .set = set, .n_set = 2};
    check_keepalive(openai(), p,
                    "{\"model\":\"m\\\"x\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\".\"}],"
                    "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"provider\":{\"sort\":\"price\"}}");
    p = (struct profile){.model = BYTES("m"), .vendor = BYTES("openai"), .adds_usage = true};
    p.quirks = QUIRK_NO_STREAM_OPTIONS;
    check_keepalive(openai(), p,
                    "{\"model\":\"m\",\"max_completion_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\".\"}],"
                    "\"stream\":true}");
    check_keepalive(anthropic(), p,
                    "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\".\"}],"
                    "\"stream\":true}");
}

static void vendors(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"api.openai.com", "openai"},
                                          {"API.OpenAI.com:443", "openai"},
                                          {"x.openai.azure.com", "azure"},
                                          {"api.anthropic.com", "anthropic"},
                                          {"api.together.xyz", "together"},
                                          {"api.together.ai", "together"},
                                          {"api.fireworks.ai", "fireworks"},
                                          {"api.deepinfra.com", "deepinfra"},
                                          {"api.groq.com", "groq"},
                                          {"api.mistral.ai", "mistral"},
                                          {"api.deepseek.com", "deepseek"},
                                          {"openrouter.ai", "openrouter"},
                                          {"api.x.ai", "xai"},
                                          {"api.cerebras.ai", "cerebras"},
                                          {"ollama.com", "ollama"},
                                          {"api.z.ai", "zai"},
                                          {"api.moonshot.ai", "moonshot"},
                                          {"dashscope.aliyuncs.com", "alibaba"},
                                          {"api.perplexity.ai", "perplexity"},
                                          {"api.cohere.com", "cohere"},
                                          {"api.novita.ai", "novita"},
                                          {"gateway.ai.cloudflare.com", "cloudflare"},
                                          {"bedrock-runtime.us-east-1.amazonaws.com", "bedrock"},
                                          {"generativelanguage.googleapis.com", "google"},
                                          {"api.sambanova.ai", "sambanova"},
                                          {"api.studio.nebius.ai", "nebius"},
                                          {"router.huggingface.co", "huggingface"},
                                          {"api.replicate.com", "replicate"},
                                          {"api.ai21.com", "ai21"},
                                          {"api.minimax.io", "minimax"},
                                          {"localhost:8000", "generic"},
                                          {"notx.ai.example", "generic"},
                                          {"evilopenai.com", "generic"},
                                          {"[::1]:8080", "generic"},
                                          {"", "generic"},
                                          {"api.groq.com.", "groq"},
                                          {"xgroq.com", "generic"}};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct bytes got = vendor_from_host(bytes_of(rows[i][0]));
        if (!bytes_is(got, rows[i][1]))
            fail_msg("%s is %.*s", rows[i][0], (int)got.n, got.p);
        assert_true(vendor_is_known(got));
    }
    assert_true(vendor_is_known(BYTES("vllm")) && vendor_is_known(BYTES("llamacpp")));
    assert_false(vendor_is_known(BYTES("opanai")));
    for (const char *const *name = vendor_names(); *name != NULL; name++)
        assert_true(vendor_is_known(bytes_of(*name)));
}

static void claude_names(void **state)
{
    (void)state;
    static const struct {
        const char *model, *vendor;
        bool sampling, adaptive, schema;
    } rows[] = {{"claude-3-5-haiku-20241022", "anthropic", true, false, false},
                {"claude-3-7-sonnet-latest", "anthropic", true, false, false},
                {"claude-sonnet-4-20250514", "anthropic", true, false, false},
                {"claude-opus-4-1-20250805", "anthropic", true, false, true},
                {"anthropic/claude-sonnet-4.5", "openrouter", true, false, true},
                {"claude-haiku-4-5", "anthropic", true, false, true},
                {"claude-opus-4-6", "anthropic", true, true, true},
                {"claude-opus-4-7", "anthropic", false, true, true},
                {"claude-sonnet-5", "anthropic", false, true, true},
                {"claude-opus-5-5-20261001", "anthropic", false, true, true},
                {"claude-next", "anthropic", false, true, true},
                {"house-model", "anthropic", false, true, true},
                {"house-model", "generic", true, false, true}};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct claude c = claude_of(bytes_of(rows[i].model), bytes_of(rows[i].vendor));
        if (c.takes_sampling != rows[i].sampling || c.is_adaptive != rows[i].adaptive ||
            c.takes_schema != rows[i].schema)
            fail_msg("%s: %d %d %d", rows[i].model, c.takes_sampling, c.is_adaptive, c.takes_schema);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registry),       cmocka_unit_test(paths),
        cmocka_unit_test(request_fields), cmocka_unit_test(fields_cannot_be_injected),
        cmocka_unit_test(answer_fields),  cmocka_unit_test(keepalives),
        cmocka_unit_test(vendors),        cmocka_unit_test(claude_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

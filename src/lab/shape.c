#include "lab/shape.h"

#include "codec/json_write.h"
#include "http/head.h"

#include <stdio.h>

static int64_t count_words(struct bytes text)
{
    int64_t n = 0;
    while (text.n > 0)
        n += bytes_cut(&text, ' ').n > 0;
    return n;
}

struct bytes shape_word(const struct shape_request *r, int64_t i, struct arena *arena)
{
    struct bytes rest = bytes_of(r->words), word = {0};
    int64_t n = count_words(rest), at = r->first_word + i;
    if (i == 0 && r->first_text.p != NULL)
        return arena_dup(arena, r->first_text);
    for (int64_t k = 0; n > 0 && k <= at % n;) {
        word = bytes_cut(&rest, ' ');
        k += word.n > 0;
    }
    if (n == 0)
        word = BYTES("word"); /* a text without words */
    return at == 0 ? arena_dup(arena, word) : arena_printf(arena, " %.*s", (int)word.n, word.p);
}

static void named(struct json_writer *w, const char *name, const char *text)
{
    jw_key(w, name);
    if (text != NULL)
        jw_cstr(w, text);
    else
        jw_null(w);
}

/* "chatcmpl-mock7", "msg_mock7" */
static void put_id(struct json_writer *w, const struct shape_request *r)
{
    char id[48];
    snprintf(id, sizeof id, "%smock%llu", r->dialect == SHAPE_OPENAI ? "chatcmpl-" : "msg_", (unsigned long long)r->n);
    named(w, "id", id);
}

/* ---- OpenAI ---- */

static void openai_usage(struct json_writer *w, const struct shape_request *r)
{
    jw_key(w, "usage");
    jw_object(w);
    jw_named_int(w, "prompt_tokens", r->prompt_tokens);
    jw_named_int(w, "completion_tokens", r->n_words);
    jw_named_int(w, "total_tokens", r->prompt_tokens + r->n_words);
    jw_key(w, "prompt_tokens_details");
    jw_object(w);
    jw_named_int(w, "cached_tokens", r->cache_read);
    jw_end(w);
    jw_key(w, "completion_tokens_details");
    jw_object(w);
    jw_named_int(w, "reasoning_tokens", 0);
    jw_end(w);
    jw_end(w);
}

static void openai_begin(struct json_writer *w, const struct shape_request *r, const char *object)
{
    jw_object(w);
    put_id(w, r);
    named(w, "object", object);
    jw_named_int(w, "created", r->created_s);
    named(w, "model", r->model);
    named(w, "service_tier", "default");
    named(w, "system_fingerprint", "fp_mock");
}

/* delta: "role", "content" or NULL for an empty one. */
static void openai_chunk(const struct shape_request *r, const char *delta, struct bytes text, const char *finish,
                         struct buf *out)
{
    struct json_writer w;
    buf_puts(out, "data: ");
    jw_init(&w, out);
    openai_begin(&w, r, "chat.completion.chunk");
    jw_key(&w, "choices");
    jw_array(&w);
    jw_object(&w);
    jw_named_int(&w, "index", 0);
    jw_key(&w, "delta");
    jw_object(&w);
    if (delta != NULL && strcmp(delta, "role") == 0)
        named(&w, "role", "assistant");
    if (delta != NULL) {
        jw_key(&w, "content");
        jw_string(&w, text);
    }
    jw_end(&w);
    named(&w, "logprobs", NULL);
    named(&w, "finish_reason", finish);
    jw_end(&w);
    jw_end(&w);
    if (r->wants_usage && r->has_usage)
        named(&w, "usage", NULL);
    jw_end(&w);
    buf_puts(out, "\n\n");
}

static void openai_finish(const struct shape_request *r, struct buf *out)
{
    openai_chunk(r, NULL, BYTES(""), r->is_cut_short ? "length" : "stop", out);
    if (!r->wants_usage || !r->has_usage)
        return;
    struct json_writer w;
    buf_puts(out, "data: ");
    jw_init(&w, out);
    openai_begin(&w, r, "chat.completion.chunk");
    jw_key(&w, "choices");
    jw_array(&w);
    jw_end(&w);
    openai_usage(&w, r);
    jw_end(&w);
    buf_puts(out, "\n\n");
}

static void openai_whole(const struct shape_request *r, struct bytes text, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    openai_begin(&w, r, "chat.completion");
    jw_key(&w, "choices");
    jw_array(&w);
    jw_object(&w);
    jw_named_int(&w, "index", 0);
    jw_key(&w, "message");
    jw_object(&w);
    named(&w, "role", "assistant");
    jw_key(&w, "content");
    jw_string(&w, text);
    named(&w, "refusal", NULL);
    jw_key(&w, "annotations");
    jw_array(&w);
    jw_end(&w);
    jw_end(&w);
    named(&w, "logprobs", NULL);
    named(&w, "finish_reason", r->is_cut_short ? "length" : "stop");
    jw_end(&w);
    jw_end(&w);
    if (r->has_usage)
        openai_usage(&w, r);
    jw_end(&w);
}

static void openai_error(const struct shape_error *e, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "error");
    jw_object(&w);
    named(&w, "message", e->message);
    named(&w, "type", e->type);
    named(&w, "param", NULL);
    named(&w, "code", e->code);
    jw_end(&w);
    jw_end(&w);
}

/* ---- Anthropic ---- */

static void begin_event(struct json_writer *w, const char *name, struct buf *out)
{
    buf_printf(out, "event: %s\ndata: ", name);
    jw_init(w, out);
    jw_object(w);
    named(w, "type", name);
}

static void end_event(struct json_writer *w, struct buf *out)
{
    jw_end(w);
    buf_puts(out, "\n\n");
}

static void anthropic_usage(struct json_writer *w, const struct shape_request *r, int64_t output)
{
    jw_key(w, "usage");
    jw_object(w);
    int64_t written = r->cache_5m + r->cache_1h;
    jw_named_int(w, "input_tokens", r->has_usage ? r->prompt_tokens - r->cache_read - written : 0);
    jw_named_int(w, "cache_creation_input_tokens", r->has_usage ? written : 0);
    jw_named_int(w, "cache_read_input_tokens", r->has_usage ? r->cache_read : 0);
    if (r->has_usage && written > 0) {
        jw_key(w, "cache_creation");
        jw_object(w);
        jw_named_int(w, "ephemeral_5m_input_tokens", r->cache_5m);
        jw_named_int(w, "ephemeral_1h_input_tokens", r->cache_1h);
        jw_end(w);
    }
    jw_named_int(w, "output_tokens", r->has_usage ? output : 0);
    jw_end(w);
}

static void anthropic_message(struct json_writer *w, const struct shape_request *r)
{
    put_id(w, r);
    named(w, "type", "message");
    named(w, "role", "assistant");
    named(w, "model", r->model);
}

static void anthropic_open(const struct shape_request *r, struct buf *out)
{
    struct json_writer w;
    begin_event(&w, "message_start", out);
    jw_key(&w, "message");
    jw_object(&w);
    anthropic_message(&w, r);
    jw_key(&w, "content");
    jw_array(&w);
    jw_end(&w);
    named(&w, "stop_reason", NULL);
    named(&w, "stop_sequence", NULL);
    anthropic_usage(&w, r, 1);
    jw_end(&w);
    end_event(&w, out);
    begin_event(&w, "content_block_start", out);
    jw_named_int(&w, "index", 0);
    jw_key(&w, "content_block");
    jw_object(&w);
    named(&w, "type", "text");
    named(&w, "text", "");
    jw_end(&w);
    end_event(&w, out);
    begin_event(&w, "ping", out);
    end_event(&w, out);
}

static void anthropic_delta(struct bytes text, struct buf *out)
{
    struct json_writer w;
    begin_event(&w, "content_block_delta", out);
    jw_named_int(&w, "index", 0);
    jw_key(&w, "delta");
    jw_object(&w);
    named(&w, "type", "text_delta");
    jw_key(&w, "text");
    jw_string(&w, text);
    jw_end(&w);
    end_event(&w, out);
}

static void anthropic_finish(const struct shape_request *r, struct buf *out)
{
    struct json_writer w;
    begin_event(&w, "content_block_stop", out);
    jw_named_int(&w, "index", 0);
    end_event(&w, out);
    begin_event(&w, "message_delta", out);
    jw_key(&w, "delta");
    jw_object(&w);
    named(&w, "stop_reason", r->is_cut_short ? "max_tokens" : "end_turn");
    named(&w, "stop_sequence", NULL);
    jw_end(&w);
    jw_key(&w, "usage");
    jw_object(&w);
    if (r->has_usage)
        jw_named_int(&w, "output_tokens", r->n_words);
    jw_end(&w);
    end_event(&w, out);
}

static void anthropic_whole(const struct shape_request *r, struct bytes text, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    anthropic_message(&w, r);
    jw_key(&w, "content");
    jw_array(&w);
    jw_object(&w);
    named(&w, "type", "text");
    jw_key(&w, "text");
    jw_string(&w, text);
    jw_end(&w);
    jw_end(&w);
    named(&w, "stop_reason", r->is_cut_short ? "max_tokens" : "end_turn");
    named(&w, "stop_sequence", NULL);
    anthropic_usage(&w, r, r->n_words);
    jw_end(&w);
}

static void anthropic_error(const struct shape_request *r, const struct shape_error *e, struct buf *out)
{
    struct json_writer w;
    char id[48];
    snprintf(id, sizeof id, "req_mock%llu", (unsigned long long)r->n);
    jw_init(&w, out);
    jw_object(&w);
    named(&w, "type", "error");
    jw_key(&w, "error");
    jw_object(&w);
    named(&w, "type", e->type);
    named(&w, "message", e->message);
    jw_end(&w);
    named(&w, "request_id", id);
    jw_end(&w);
}

/* ---- both ---- */

void shape_open(const struct shape_request *r, struct buf *out)
{
    if (r->dialect == SHAPE_OPENAI)
        openai_chunk(r, "role", BYTES(""), NULL, out);
    else
        anthropic_open(r, out);
}

void shape_delta(const struct shape_request *r, struct bytes text, struct buf *out)
{
    if (r->dialect == SHAPE_OPENAI)
        openai_chunk(r, "content", text, NULL, out);
    else
        anthropic_delta(text, out);
}

void shape_finish(const struct shape_request *r, struct buf *out)
{
    if (r->dialect == SHAPE_OPENAI)
        openai_finish(r, out);
    else
        anthropic_finish(r, out);
}

void shape_terminal(const struct shape_request *r, struct buf *out)
{
    struct json_writer w;
    if (r->dialect == SHAPE_OPENAI) {
        buf_puts(out, "data: [DONE]\n\n");
        return;
    }
    begin_event(&w, "message_stop", out);
    end_event(&w, out);
}

void shape_error_body(const struct shape_request *r, const struct shape_error *e, struct buf *out)
{
    if (r->dialect == SHAPE_OPENAI)
        openai_error(e, out);
    else
        anthropic_error(r, e, out);
}

void shape_error_event(const struct shape_request *r, const struct shape_error *e, struct buf *out)
{
    buf_puts(out, r->dialect == SHAPE_OPENAI ? "data: " : "event: error\ndata: ");
    shape_error_body(r, e, out);
    buf_puts(out, "\n\n");
}

void shape_comment(const struct shape_request *r, struct buf *out)
{
    struct json_writer w;
    buf_puts(out, ": still here\n\n");
    if (r->dialect == SHAPE_OPENAI)
        return;
    begin_event(&w, "ping", out);
    end_event(&w, out);
}

void shape_bad_event(const struct shape_request *r, struct buf *out)
{
    if (r->dialect == SHAPE_OPENAI)
        buf_puts(out, "data: {\"id\":\"chatcmpl-mock\",\"choices\":[{\"index\":0,\"del\n\n");
    else
        buf_puts(out, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"ind\n\n");
}

void shape_whole(const struct shape_request *r, struct bytes more, struct arena *arena, struct buf *out)
{
    struct buf text = {0};
    for (int64_t i = 0; i < r->n_words; i++)
        buf_put(&text, shape_word(r, i, arena));
    buf_put(&text, more);
    if (r->dialect == SHAPE_OPENAI)
        openai_whole(r, buf_bytes(&text), out);
    else
        anthropic_whole(r, buf_bytes(&text), out);
    buf_fini(&text);
}

struct status_words {
    unsigned status;
    const char *openai_type, *openai_code, *anthropic_type;
    const char *message;
};

static const struct status_words status_table[] = {
    {400, "invalid_request_error", "invalid_value", "invalid_request_error", "Invalid value: made up by the mock."},
    {401, "invalid_request_error", "invalid_api_key", "authentication_error", "Incorrect API key provided."},
    {402, "insufficient_quota", "insufficient_quota", "billing_error", "Payment required."},
    {403, "invalid_request_error", "unsupported_country_region_territory", "permission_error", "Not permitted."},
    {404, "invalid_request_error", "model_not_found", "not_found_error", "The model does not exist."},
    {408, "server_error", NULL, "timeout_error", "Request timed out."},
    {413, "invalid_request_error", NULL, "request_too_large", "Request exceeds the maximum size."},
    {422, "invalid_request_error", NULL, "invalid_request_error", "Unprocessable entity."},
    {429, "requests", "rate_limit_exceeded", "rate_limit_error", "Rate limit reached for requests."},
    {500, "server_error", NULL, "api_error", "The server had an error while processing your request."},
    {502, "server_error", NULL, "api_error", "Bad gateway."},
    {503, "server_error", NULL, "overloaded_error", "The engine is currently overloaded, please try again later."},
    {504, "server_error", NULL, "timeout_error", "Gateway timeout."},
    {529, "server_error", NULL, "overloaded_error", "Overloaded"},
};

void shape_error_of_status(enum shape_dialect d, unsigned status, struct shape_error *out)
{
    static const struct status_words other_5xx = {0, "server_error", NULL, "api_error", "Server error."};
    static const struct status_words other_4xx = {0, "invalid_request_error", NULL, "invalid_request_error",
                                                  "Request refused."};
    const struct status_words *w = status >= 500 ? &other_5xx : &other_4xx;
    for (size_t i = 0; i < RM_COUNTOF(status_table); i++)
        if (status_table[i].status == status)
            w = &status_table[i];
    *out = (struct shape_error){.status = status,
                                .type = d == SHAPE_OPENAI ? w->openai_type : w->anthropic_type,
                                .code = w->openai_code,
                                .message = w->message,
                                .retry_after_ms = -1};
}

void shape_error_quota(enum shape_dialect d, struct shape_error *out)
{
    bool is_openai = d == SHAPE_OPENAI;
    *out = (struct shape_error){
        .status = is_openai ? 429 : 400,
        .type = is_openai ? "insufficient_quota" : "invalid_request_error",
        .code = "insufficient_quota",
        .message = is_openai ? "You exceeded your current quota, please check your plan and billing details."
                             : "Your credit balance is too low to access the Anthropic API.",
        .retry_after_ms = -1};
}

void shape_error_context(enum shape_dialect d, struct shape_error *out)
{
    *out = (struct shape_error){.status = 400,
                                .type = "invalid_request_error",
                                .code = "context_length_exceeded",
                                .message = d == SHAPE_OPENAI ? "This model's maximum context length is 8192 tokens."
                                                             : "prompt is too long: 210000 tokens > 200000 maximum",
                                .retry_after_ms = -1};
}

void shape_error_policy(enum shape_dialect d, struct shape_error *out)
{
    *out = (struct shape_error){.status = 400,
                                .type = "invalid_request_error",
                                .code = "content_policy_violation",
                                .message = d == SHAPE_OPENAI ? "Your request was rejected by our safety system."
                                                             : "Output blocked by content filtering policy",
                                .retry_after_ms = -1};
}

void shape_error_prefill(enum shape_dialect d, struct shape_error *out)
{
    *out = (struct shape_error){.status = 400,
                                .type = "invalid_request_error",
                                .code = d == SHAPE_OPENAI ? "invalid_value" : NULL,
                                .message = "This model does not take a prefill: the last message must not be the "
                                           "assistant's.",
                                .retry_after_ms = -1};
}

void shape_error_model(enum shape_dialect d, struct bytes model, struct arena *arena, struct shape_error *out)
{
    int n = (int)(model.n < 200 ? model.n : 200);
    shape_error_of_status(d, 404, out);
    out->message = d == SHAPE_OPENAI
                       ? arena_printf(arena, "The model `%.*s` does not exist or is not open to you.", n, model.p).p
                       : arena_printf(arena, "model: %.*s", n, model.p).p;
}

void shape_fields(const struct shape_request *r, struct buf *out)
{
    char id[48];
    snprintf(id, sizeof id, "req_mock%llu", (unsigned long long)r->n);
    if (r->dialect == SHAPE_OPENAI) {
        head_put_field(out, "x-request-id", bytes_of(id));
        head_put_field(out, "openai-organization", BYTES("org-mock"));
        head_put_field(out, "openai-version", BYTES("2020-10-01"));
        head_put_field(out, "x-ratelimit-remaining-requests", BYTES("4999"));
    } else {
        head_put_field(out, "request-id", bytes_of(id));
        head_put_field(out, "anthropic-organization-id", BYTES("00000000-0000-4000-8000-000000000000"));
        head_put_field(out, "anthropic-ratelimit-requests-remaining", BYTES("4999"));
    }
}

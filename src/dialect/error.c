/* Errors told to clients, in their own dialect (DESIGN 3.8 and 4 "Errors"; failover semantics 1, last column). */
#include "dialect/error.h"
#include "base/check.h"
#include "codec/json_write.h"
#include "dialect/dialect.h"
#include "dialect/encode.h"

static bool is_messages(const struct dialect *client)
{
    return client->kind == DIALECT_ANTHROPIC;
}

static void key_text(struct json_writer *w, const char *name, const char *value)
{
    jw_key(w, name);
    if (value != NULL)
        jw_cstr(w, value);
    else
        jw_null(w);
}

static void write_attempt(struct json_writer *w, const struct attempt_record *a)
{
    jw_object(w);
    key_text(w, "provider", a->provider ? a->provider : "");
    key_text(w, "model", a->model ? a->model : "");
    key_text(w, "outcome", outcome_word(a->outcome));
    jw_key(w, "status");
    if (a->status > 0)
        jw_int(w, a->status);
    else
        jw_null(w);
    jw_key(w, "ms");
    /* rounded as in x-ringmain-trail: the same attempt shows the same time */
    jw_int(w, a->is_started && a->total_us > a->start_us ? (a->total_us - a->start_us + 500) / 1000 : 0);
    jw_end(w);
}

/* The members that tell of all attempts, when all are red. */
static void write_trail(struct json_writer *w, const struct answer_error *e)
{
    if (e->attempts == NULL)
        return;
    jw_key(w, "retry_after_ms");
    if (e->retry_after_ms >= 0)
        jw_int(w, e->retry_after_ms);
    else
        jw_null(w);
    jw_key(w, "attempts");
    jw_array(w);
    for (size_t i = 0; i < e->n_attempts; i++)
        write_attempt(w, &e->attempts[i]);
    jw_end(w);
}

static void write_openai(struct json_writer *w, const struct answer_error *e)
{
    jw_object(w);
    jw_key(w, "error");
    jw_object(w);
    jw_key(w, "message");
    jw_string(w, e->message);
    key_text(w, "type", e->openai_type);
    key_text(w, "code", e->openai_code);
    key_text(w, "param", e->param);
    write_trail(w, e);
    jw_end(w);
    jw_end(w);
}

static void write_anthropic(struct json_writer *w, const struct answer_error *e)
{
    jw_object(w);
    key_text(w, "type", "error");
    jw_key(w, "error");
    jw_object(w);
    key_text(w, "type", e->anthropic_type ? e->anthropic_type : "api_error");
    jw_key(w, "message");
    jw_string(w, e->message);
    write_trail(w, e);
    jw_end(w);
    if (e->request_id != NULL)
        key_text(w, "request_id", e->request_id);
    jw_end(w);
}

/* A Gemini path's errors: it is not served yet, but it is told so in its own form (gemini.md, errors). */
static const char *gemini_status(unsigned status)
{
    static const struct {
        unsigned status;
        const char *word;
    } rows[] = {{401, "UNAUTHENTICATED"},    {403, "PERMISSION_DENIED"}, {404, "NOT_FOUND"},
                {429, "RESOURCE_EXHAUSTED"}, {503, "UNAVAILABLE"},       {504, "DEADLINE_EXCEEDED"}};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (rows[i].status == status)
            return rows[i].word;
    return status >= 500 ? "INTERNAL" : "INVALID_ARGUMENT";
}

static void write_gemini(struct json_writer *w, const struct answer_error *e)
{
    jw_object(w);
    jw_key(w, "error");
    jw_object(w);
    jw_key(w, "code");
    jw_uint(w, e->status);
    jw_key(w, "message");
    jw_string(w, e->message);
    key_text(w, "status", gemini_status(e->status));
    jw_end(w);
    jw_end(w);
}

void error_body(const struct dialect *client, const struct answer_error *e, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    if (is_messages(client))
        write_anthropic(&w, e);
    else if (client->kind == DIALECT_GEMINI)
        write_gemini(&w, e);
    else
        write_openai(&w, e);
}

void error_event(const struct dialect *client, const struct answer_error *e, struct buf *out)
{
    buf_puts(out, is_messages(client) ? "event: error\ndata: " : "data: ");
    error_body(client, e, out);
    buf_puts(out, "\n\n");
}

unsigned error_status(const struct dialect *client, const struct answer_error *e)
{
    return is_messages(client) && e->status == 503 ? 529 : e->status;
}

/* ---- from a failure ---- */

static const char *anthropic_type_of(unsigned status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 402:
        return "billing_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
    case 529:
        return "overloaded_error";
    default:
        return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

static const char *kept(const char *text, struct arena *a)
{
    return text[0] != '\0' ? arena_dup(a, bytes_of(text)).p : NULL;
}

static void set(struct answer_error *out, unsigned status, const char *type, const char *code)
{
    out->status = status;
    out->openai_type = type;
    out->openai_code = code;
    out->anthropic_type = anthropic_type_of(status);
}

static bool is_timeout(enum outcome o)
{
    return o == OUTCOME_CONNECT_TIMEOUT || o == OUTCOME_TTFT_TIMEOUT || o == OUTCOME_TOTAL_TIMEOUT ||
           o == OUTCOME_IDLE_TIMEOUT || o == OUTCOME_DEADLINE;
}

/* The client's own mistake, in the provider's own words. */
static void keep_words(const struct failure *f, struct arena *a, struct answer_error *out)
{
    bool is_4xx = f->status >= 400 && f->status < 500;
    const char *type = kept(f->type, a);
    set(out, is_4xx ? f->status : 400, type ? type : "invalid_request_error", kept(f->code, a));
}

static void set_provider_fault(const struct failure *f, struct answer_error *out)
{
    if (is_timeout(f->outcome))
        set(out, 504, "server_error", "provider_timeout");
    else
        set(out, 502, "server_error", "provider_error");
}

static void set_class(const struct failure *f, struct arena *a, struct answer_error *out)
{
    switch (f->class) {
    case FAILURE_NONE:
    case FAILURE_FAULT:
        set_provider_fault(f, out);
        break;
    case FAILURE_OVERLOAD:
        set(out, 503, "server_error", "provider_overloaded");
        break;
    case FAILURE_RATE:
        set(out, 429, "rate_limit_error", "rate_limit_exceeded");
        break;
    case FAILURE_QUOTA:
        set(out, 429, "insufficient_quota", "insufficient_quota");
        break;
    case FAILURE_AUTH:
        set(out, 502, "provider_auth_error", "provider_auth_error");
        break;
    case FAILURE_NOTFOUND:
        set(out, 404, "invalid_request_error", "model_not_found");
        break;
    case FAILURE_CONTEXT:
        set(out, 400, "invalid_request_error", "context_length_exceeded");
        break;
    case FAILURE_POLICY:
        set(out, 400, "invalid_request_error", "content_policy_violation");
        break;
    case FAILURE_COMPAT:
    case FAILURE_CLIENT:
        keep_words(f, a, out);
        break;
    }
}

/* The client's own matters in the provider's words; the gateway's account is nobody's business but the operator's. */
static struct bytes message_of(const struct failure *f, const char *provider, struct arena *a)
{
    switch (f->class) {
    case FAILURE_CONTEXT:
    case FAILURE_POLICY:
    case FAILURE_COMPAT:
    case FAILURE_CLIENT:
        return arena_dup(a, bytes_of(f->message));
    case FAILURE_AUTH:
        return arena_printf(a, "provider %s refused the gateway's own credential; the client's key is fine", provider);
    case FAILURE_QUOTA:
        return arena_printf(a, "provider %s cannot serve: the gateway's account there has no quota left", provider);
    default:
        return arena_printf(a, "provider %s: %s", provider, f->message[0] ? f->message : outcome_word(f->outcome));
    }
}

void error_of_failure(const struct failure *f, const char *provider, struct arena *a, struct answer_error *out)
{
    *out = (struct answer_error){.retry_after_ms = f->retry_after_ms};
    set_class(f, a, out);
    bool is_clients = f->class == FAILURE_CONTEXT || f->class == FAILURE_POLICY || f->class == FAILURE_COMPAT ||
                      f->class == FAILURE_CLIENT;
    if (is_clients)
        out->param = kept(f->param, a);
    out->message = message_of(f, provider ? provider : "?", a);
}

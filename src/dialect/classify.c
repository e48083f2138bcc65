#include "dialect/classify.h"

#include "base/check.h"
#include "dialect/decode.h"
#include "dialect/dialect.h"
#include "dialect/hint.h"

#include <stdio.h>

enum { HINT_LEAST_MS = 100, HINT_MOST_MS = 3600000, MASK_MIN = 12 };

enum failure_class classify_by_rows(const struct class_row *rows, size_t n, const struct complaint *c)
{
    for (size_t i = 0; i < n; i++)
        if (complaint_is(c, rows[i].word))
            return rows[i].class;
    return FAILURE_NONE;
}

/* ---- text ---- */

static bool says_any(const struct complaint *c, const char *const *patterns, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (complaint_says(c, patterns[i]))
            return true;
    return false;
}

static bool says_context(const struct complaint *c)
{
    static const char *const patterns[] = {
        "maximum context length",
        "context window",
        "model's context length",
        "max context length",
        "context limit",
        "available context size",
        "prompt is too long",
        "prompt too long",
        "maximum number of tokens",
        "too many tokens",
        "too large for model",
        "total length of all messages is too long",
        "token limit",
        "input is too long",
        "context length exceeded",
    };
    return says_any(c, patterns, RM_COUNTOF(patterns));
}

static bool says_quota(const struct complaint *c)
{
    static const char *const patterns[] = {
        "credit balance is too low",
        "api usage limits",
        "used all available credits",
        "insufficient balance",
        "insufficient credits",
        "out of credits",
        "check your plan and billing",
        "exceeded your current quota",
        "insufficient_quota",
        "not enough credits",
        "insufficient funds",
        "spending limit",
        "spend limit",
    };
    return says_any(c, patterns, RM_COUNTOF(patterns));
}

static bool says_auth(const struct complaint *c)
{
    static const char *const patterns[] = {"incorrect api key", "invalid api key",    "api key not valid",
                                           "invalid x-api-key", "api key is invalid", "api key expired"};
    return says_any(c, patterns, RM_COUNTOF(patterns));
}

static bool says_policy(const struct complaint *c)
{
    static const char *const patterns[] = {
        "content management policy", "safety system", "content policy", "was flagged", "flagged by",
        "requires moderation"};
    return says_any(c, patterns, RM_COUNTOF(patterns));
}

/* Of a server or of a model: a client's own text may be quoted in a 4xx, and functions are overloaded too. */
static bool says_overload(unsigned status, const struct complaint *c)
{
    static const char *const patterns[] = {"model is overloaded",    "model is currently overloaded",
                                           "server is overloaded",   "server is currently overloaded",
                                           "servers are overloaded", "servers are currently overloaded",
                                           "engine is overloaded",   "engine is currently overloaded",
                                           "temporarily overloaded"};
    if (status == 0 || status >= 500)
        return complaint_says(c, "overloaded") || complaint_says(c, "at capacity");
    return status != 429 && says_any(c, patterns, RM_COUNTOF(patterns));
}

enum failure_class classify_by_text(unsigned status, const struct complaint *c)
{
    bool is_request = status == 0 || status == 400 || status == 413 || status == 422;
    bool is_client = status == 0 || (status >= 400 && status < 500);
    if (is_client && says_quota(c))
        return FAILURE_QUOTA;
    if (is_request && says_context(c))
        return FAILURE_CONTEXT;
    if (is_request && says_auth(c))
        return FAILURE_AUTH;
    if ((is_request || status == 403) && says_policy(c))
        return FAILURE_POLICY;
    if (says_overload(status, c))
        return FAILURE_OVERLOAD;
    /* Loose words, only where nothing else is named: a prompt's own words may be quoted in a message. */
    bool is_loose = status == 400 || status == 402 || status == 403 || status == 429;
    if (is_loose && c->param.n == 0 && (complaint_says(c, "billing") || complaint_says(c, "payment")))
        return FAILURE_QUOTA;
    return FAILURE_NONE;
}

/* ---- parameters ---- */

bool classify_is_refused_parameter(const struct complaint *c)
{
    static const char *const patterns[] = {
        "unsupported",         "not supported",    "does not support",  "doesn't support",
        "unrecognized",        "unknown field",    "unknown parameter", "unknown name",
        "not permitted",       "not allowed",      "unexpected",        "is deprecated",
        "no longer supported", "unknown argument", "not accept",        "only the default",
    };
    return says_any(c, patterns, RM_COUNTOF(patterns));
}

static bool names(const struct complaint *c, const char *name)
{
    return bytes_find(c->param, bytes_of(name)) != SIZE_MAX || complaint_says(c, name);
}

/* "Use 'max_completion_tokens' instead": the refused one is the one named first, or the param. */
static unsigned token_quirk(const struct complaint *c)
{
    size_t long_at = bytes_find_nocase(c->text, BYTES("max_completion_tokens"));
    size_t short_at = bytes_find_nocase(c->text, BYTES("max_tokens"));
    if (bytes_is(c->param, "max_completion_tokens"))
        return QUIRK_MAX_TOKENS;
    if (bytes_is(c->param, "max_tokens"))
        return QUIRK_MAX_COMPLETION_TOKENS;
    if (long_at == SIZE_MAX && short_at == SIZE_MAX)
        return 0;
    return long_at < short_at ? QUIRK_MAX_TOKENS : QUIRK_MAX_COMPLETION_TOKENS;
}

unsigned classify_quirk(const struct complaint *c)
{
    if (names(c, "stream_options") || names(c, "include_usage"))
        return QUIRK_NO_STREAM_OPTIONS;
    unsigned quirk = token_quirk(c);
    if (quirk != 0)
        return quirk;
    if (names(c, "temperature") || names(c, "top_p") || names(c, "top_k"))
        return QUIRK_NO_SAMPLING;
    if (names(c, "signature") || names(c, "thinking"))
        return QUIRK_NO_THINKING_HISTORY;
    if (complaint_says(c, "developer") && (names(c, "role") || complaint_says(c, "messages")))
        return QUIRK_SYSTEM_FOR_DEVELOPER;
    return 0;
}

/* ---- status ---- */

enum failure_class classify_by_status(unsigned status, const struct fields *fields, const struct complaint *c)
{
    static const struct {
        unsigned status;
        enum failure_class class;
    } rows[] = {
        {401, FAILURE_AUTH},     {402, FAILURE_QUOTA},    {403, FAILURE_AUTH},     {404, FAILURE_NOTFOUND},
        {405, FAILURE_AUTH},     {407, FAILURE_AUTH},     {408, FAILURE_FAULT},    {409, FAILURE_FAULT},
        {410, FAILURE_NOTFOUND}, {413, FAILURE_CONTEXT},  {418, FAILURE_FAULT},    {421, FAILURE_FAULT},
        {423, FAILURE_FAULT},    {424, FAILURE_FAULT},    {425, FAILURE_FAULT},    {426, FAILURE_FAULT},
        {429, FAILURE_RATE},     {451, FAILURE_POLICY},   {498, FAILURE_OVERLOAD}, {499, FAILURE_FAULT},
        {501, FAILURE_COMPAT},   {503, FAILURE_OVERLOAD}, {529, FAILURE_OVERLOAD},
    };
    bool is_edge = status == 403 && c->is_html && fields != NULL && fields_has(fields, "cf-ray");
    if (is_edge)
        return FAILURE_FAULT; /* this egress address is blocked at the edge; the key is fine */
    if (status == 422)
        return classify_quirk(c) != 0 ? FAILURE_COMPAT : FAILURE_CLIENT;
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (rows[i].status == status)
            return rows[i].class;
    return status >= 400 && status < 500 ? FAILURE_CLIENT : FAILURE_FAULT;
}

/* ---- the failure ---- */

static bool is_key_byte(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '-' || ch == '_' ||
           ch == '*';
}

static bool looks_like_key(struct bytes w)
{
    static const char *const starts[] = {"sk-", "sk_", "gsk_", "xai-", "pk-", "csk-",
                                         "fw_", "hf_", "AIza", "tgp_", "key-"};
    if (bytes_find(w, BYTES("***")) != SIZE_MAX)
        return true;
    for (size_t i = 0; w.n >= MASK_MIN && i < RM_COUNTOF(starts); i++)
        if (bytes_starts_with(w, bytes_of(starts[i])))
            return true;
    return false;
}

/* Providers quote the key that they refuse. */
static void mask_keys(char *text)
{
    struct bytes all = bytes_of(text);
    size_t to = 0;
    for (size_t at = 0; at < all.n;) {
        size_t end = at;
        while (end < all.n && is_key_byte(text[end]))
            end++;
        struct bytes w = bytes_slice(all, at, end);
        if (looks_like_key(w)) {
            memcpy(text + to, "***", 3);
            to += 3;
        } else {
            memmove(text + to, w.p, w.n);
            to += w.n;
        }
        if (end < all.n)
            text[to++] = text[end++];
        at = end;
    }
    text[to] = '\0';
}

static void message_of(const struct complaint *c, unsigned status, struct failure *out)
{
    if (c->message.n > 0)
        failure_text(out->message, sizeof out->message, c->message);
    else if (status > 0)
        snprintf(out->message, sizeof out->message, "answered with status %u and no readable error", status);
    else
        snprintf(out->message, sizeof out->message, "an error without a message");
    mask_keys(out->message);
}

void classify_fill(const struct complaint *c, enum failure_class class, unsigned status, struct failure *out)
{
    *out = (struct failure){
        .class = class, .outcome = failure_outcome(class), .status = (uint16_t)status, .retry_after_ms = -1};
    if ((status >= 300 && status < 400) || (status >= 200 && status < 300 && !c->is_json))
        out->outcome = OUTCOME_PROTOCOL_ERROR;
    failure_text(out->type, sizeof out->type, c->type);
    failure_text(out->code, sizeof out->code, c->code);
    failure_text(out->param, sizeof out->param, c->param);
    message_of(c, status, out);
    if (class == FAILURE_COMPAT)
        out->quirk = (uint8_t)classify_quirk(c);
}

/* Our convention: hints of a rate or an overload are kept between a tenth of a second and an hour. */
static int64_t clamped(enum failure_class class, int64_t hint_ms)
{
    if (hint_ms < 0 || class == FAILURE_QUOTA)
        return hint_ms;
    return hint_ms < HINT_LEAST_MS ? HINT_LEAST_MS : hint_ms > HINT_MOST_MS ? HINT_MOST_MS : hint_ms;
}

static void read_hint(const struct fields *fields, const struct complaint *c, int64_t wall_ms, struct failure *out)
{
    bool is_asked = out->class == FAILURE_RATE || out->class == FAILURE_OVERLOAD || out->class == FAILURE_QUOTA ||
                    (out->class == FAILURE_FAULT && hint_is_in_fields(fields));
    if (is_asked)
        out->retry_after_ms = clamped(out->class, hint_read(fields, c, wall_ms, out->class == FAILURE_RATE));
}

void classify_in_stream(const struct complaint *c, classify_judge *judge, struct bytes vendor, struct failure *out)
{
    classify_fill(c, judge(vendor, c->told, NULL, c), c->told, out);
    out->in_stream = true;
    read_hint(NULL, c, 0, out);
}

void classify_http(classify_judge *judge, struct bytes vendor, unsigned status, const struct fields *fields,
                   struct bytes body, int64_t wall_ms, struct failure *out)
{
    struct arena a;
    struct complaint c;
    arena_init(&a);
    complaint_read(body, &a, &c);
    classify_fill(&c, judge(vendor, status, fields, &c), status, out);
    read_hint(fields, &c, wall_ms, out);
    arena_fini(&a);
}

void dialect_classify(const struct dialect *target, struct bytes vendor, unsigned status, const struct fields *fields,
                      struct bytes body, int64_t wall_ms, struct failure *out)
{
    RM_ASSERT(target != NULL && target->classify != NULL);
    target->classify(vendor, status, fields, body, wall_ms, out);
}

/* What a target gets besides the body (path, header lines, the keepalive's body), and which of its answer's header
 * fields go down to the client. */
#include "dialect/request_impl.h"

static bool is_anthropic(const struct dialect *d)
{
    return d->kind == DIALECT_ANTHROPIC;
}

/* ---- path ---- */

void dialect_target_path(const struct dialect *target, struct bytes base_path, struct buf *out)
{
    while (base_path.n > 0 && base_path.p[base_path.n - 1] == '/')
        base_path.n--;
    if (is_anthropic(target) && bytes_ends_with(base_path, BYTES("/v1")))
        base_path.n -= 3;
    buf_put(out, base_path);
    buf_puts(out, is_anthropic(target) ? "/v1/messages" : "/chat/completions");
}

/* ---- request fields ---- */

/* A value of the client's may not bring line ends of its own; the head parser refuses them already. */
static bool is_clean(struct bytes value)
{
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < 0x20 || value.p[i] == 0x7f)
            return false;
    return value.n > 0;
}

static void put_field(struct buf *out, const char *name, struct bytes value)
{
    if (!is_clean(value))
        return;
    buf_puts(out, name);
    buf_puts(out, ": ");
    buf_put(out, value);
    buf_puts(out, "\r\n");
}

#define NEWER_VERSION "2026-10-21"

/* The newer version removes what a translated body may hold, so it is spoken only to those who speak it. */
static bool speaks_newer(const struct fields *client_fields)
{
    return bytes_is(fields_get(client_fields, "anthropic-version"), NEWER_VERSION);
}

static void put_anthropic(bool is_same, const struct fields *client_fields, struct bytes api_key, struct buf *out)
{
    bool is_newer = is_same && client_fields != NULL && speaks_newer(client_fields);
    put_field(out, "x-api-key", api_key);
    put_field(out, "anthropic-version", is_newer ? BYTES(NEWER_VERSION) : BYTES("2023-06-01"));
    if (!is_same || client_fields == NULL)
        return;
    for (size_t i = 0; i < client_fields->n; i++)
        if (bytes_eq_nocase(client_fields->v[i].name, BYTES("anthropic-beta")))
            put_field(out, "anthropic-beta", client_fields->v[i].value);
}

bool dialect_target_takes_fields(const struct dialect *client, const struct dialect *target,
                                 const struct fields *client_fields)
{
    if (client != target || client_fields == NULL || !is_anthropic(target))
        return false;
    return fields_has(client_fields, "anthropic-beta") || speaks_newer(client_fields);
}

void dialect_target_fields(const struct dialect *client, const struct dialect *target,
                           const struct fields *client_fields, struct bytes api_key, bool is_stream, struct buf *out)
{
    if (is_anthropic(target)) {
        put_anthropic(client == target, client_fields, api_key, out);
    } else if (is_clean(api_key)) {
        buf_puts(out, "authorization: Bearer ");
        buf_put(out, api_key);
        buf_puts(out, "\r\n");
    }
    put_field(out, "accept", is_stream ? BYTES("text/event-stream") : BYTES("application/json"));
}

/* ---- answer fields ---- */

static bool is_one_of(struct bytes name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (bytes_eq_nocase(name, bytes_of(*list)))
            return true;
    return false;
}

static bool has_prefix(struct bytes name, struct bytes prefix)
{
    return name.n > prefix.n && bytes_eq_nocase(bytes_slice(name, 0, prefix.n), prefix);
}

#define NAME(literal)                   \
    {                                   \
        "" literal, sizeof(literal) - 1 \
    }

/* Most answers have one; of the others most have none that is like one. */
static bool may_have_id(const struct fields *fields)
{
    uint64_t ids = field_mark(BYTES("x-request-id")) | field_mark(BYTES("apim-request-id")) |
                   field_mark(BYTES("x-ms-request-id")) | field_mark(BYTES("request-id")) | field_mark(BYTES("cf-ray"));
    return fields->marks == 0 || (fields->marks & ids) != 0;
}

static const struct bytes openai_ids[] = {NAME("x-request-id"), NAME("apim-request-id"), NAME("x-ms-request-id"),
                                          NAME("request-id"), NAME("cf-ray")};
static const struct bytes anthropic_ids[] = {NAME("request-id"), NAME("x-request-id"), NAME("cf-ray")};

bool dialect_field_goes_down(const struct dialect *client, const struct dialect *target, struct bytes name)
{
    char first = name.n > 0 ? (char)(name.p[0] | 0x20) : '\0';
    if (first != 'x' && first != 'r' && first != 'a') /* most fields: none of the names below begins so */
        return false;
    if (bytes_eq_nocase(name, BYTES("request-id")) || bytes_eq_nocase(name, BYTES("x-request-id")))
        return true;
    if (client != target || name.n <= sizeof "x-ratelimit-" - 1)
        return false;
    if (is_anthropic(target))
        return has_prefix(name, BYTES("anthropic-ratelimit-")) || has_prefix(name, BYTES("anthropic-priority-"));
    return has_prefix(name, BYTES("x-ratelimit-"));
}

struct bytes dialect_request_id(const struct dialect *target, const struct fields *fields)
{
    const struct bytes *names = is_anthropic(target) ? anthropic_ids : openai_ids;
    size_t n = is_anthropic(target) ? RM_COUNTOF(anthropic_ids) : RM_COUNTOF(openai_ids);
    for (size_t i = 0; may_have_id(fields) && i < n; i++) {
        size_t at = fields_may_have(fields, names[i]) ? fields_find(fields, names[i], 0) : fields->n;
        if (at < fields->n && fields->v[at].value.n > 0)
            return fields->v[at].value;
    }
    return (struct bytes){NULL, 0};
}

/* ---- keepalive ---- */

static bool wants_completion_tokens(const struct profile *p)
{
    if (p->quirks & QUIRK_MAX_COMPLETION_TOKENS)
        return true;
    if (p->quirks & QUIRK_MAX_TOKENS)
        return false;
    return bytes_is(p->vendor, "openai") || bytes_is(p->vendor, "azure");
}

static bool is_own_member(struct bytes name)
{
    static const char *const own[] = {
        "model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", NULL};
    return is_one_of(name, own);
}

static bool is_dropped(const struct profile *p, const char *name)
{
    for (size_t i = 0; i < p->n_drop; i++)
        if (bytes_is(p->drop[i], name))
            return true;
    return false;
}

void dialect_build_keepalive(const struct dialect *target, const struct profile *p, struct buf *out)
{
    struct json_writer w;
    bool is_chat = !is_anthropic(target);
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "model");
    jw_string(&w, p->model);
    jw_key(&w, is_chat && wants_completion_tokens(p) ? "max_completion_tokens" : "max_tokens");
    jw_int(&w, 1);
    jw_key(&w, "messages");
    jw_raw(&w, BYTES("[{\"role\":\"user\",\"content\":\".\"}]"));
    jw_key(&w, "stream");
    jw_bool(&w, true);
    bool adds_usage = is_chat && p->adds_usage && !(p->quirks & QUIRK_NO_STREAM_OPTIONS);
    if (adds_usage && !is_dropped(p, "stream_options")) {
        jw_key(&w, "stream_options");
        jw_raw(&w, BYTES("{\"include_usage\":true}"));
    }
    for (size_t i = 0; i < p->n_set; i++) {
        if (is_own_member(p->set[i].name))
            continue;
        jw_key_bytes(&w, p->set[i].name);
        jw_raw(&w, p->set[i].json);
    }
    jw_end(&w);
}

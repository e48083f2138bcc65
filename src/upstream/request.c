/* Our own lines are written first to one side, then those that the configuration does not replace are taken over. */
#include "upstream/request.h"

#include "http/head.h"

static bool frames_message(const char *name)
{
    static const char *const names[] = {"content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer",
                                        "expect",         "keep-alive"};
    for (size_t i = 0; i < RM_COUNTOF(names); i++)
        if (bytes_eq_nocase(bytes_of(name), bytes_of(names[i])))
            return true;
    return false;
}

static const char *configured(const struct provider_conf *p, struct bytes name)
{
    for (size_t i = 0; i < p->n_headers; i++)
        if (bytes_eq_nocase(bytes_of(p->headers[i].name), name) && !frames_message(p->headers[i].name))
            return p->headers[i].value;
    return NULL;
}

static void put_own(const struct exchange_spec *spec, const struct dialect *target, struct buf *own)
{
    head_put_field_u64(own, "content-length", spec->body.n_bytes);
    head_put_field(own, "content-type", BYTES("application/json"));
    head_put_field(own, "user-agent", BYTES("ringmain/" RINGMAIN_VERSION));
    head_put_field(own, "accept-encoding", BYTES("identity"));
    dialect_target_fields(spec->client, target, spec->client_fields, spec->provider->api_key, spec->is_stream, own);
    if (spec->traceparent.n > 0)
        head_put_field(own, "traceparent", spec->traceparent);
}

static void take_over(const struct provider_conf *p, struct bytes own, struct buf *out)
{
    while (own.n > 0) {
        struct bytes line = bytes_trim(bytes_cut(&own, '\n'));
        struct bytes value = line;
        struct bytes name = bytes_cut(&value, ':');
        if (configured(p, name) != NULL)
            continue;
        buf_put(out, line);
        buf_puts(out, "\r\n");
    }
}

void request_put_head(const struct exchange_spec *spec, const struct dialect *target, struct buf *out)
{
    const struct provider_conf *p = spec->provider;
    struct buf own = {0}, path = {0};
    const char *host = configured(p, BYTES("host"));
    dialect_target_path(target, bytes_of(p->url.path), &path);
    head_put_request(out, "POST", buf_bytes(&path), bytes_of(host ? host : p->url.authority));
    put_own(spec, target, &own);
    take_over(p, buf_bytes(&own), out);
    for (size_t i = 0; i < p->n_headers; i++)
        if (!frames_message(p->headers[i].name) && !bytes_eq_nocase(bytes_of(p->headers[i].name), BYTES("host")))
            head_put_named(out, bytes_of(p->headers[i].name), bytes_of(p->headers[i].value));
    head_put_end(out);
    buf_fini(&own);
    buf_fini(&path);
}

/* A head is written in pieces around what differs between two requests:
 *
 *     POST PATH HTTP/1.1, host, "content-length: "  N  our own lines (traceparent) configured lines, empty line
 *     '---------------- start -----------------'       '- tail, own_bytes of it -|- and the rest of it -------'
 *
 * The pieces depend on the provider and on whether a stream is asked for; a mould has them ready for both. Only where
 * the client's own version or beta headers go along they are made for the one request. */
#include "upstream/request.h"

#include "base/mem.h"
#include "http/head.h"

struct pieces_of_head {
    struct buf start, tail;
    size_t own_bytes;
    bool is_traced; /* the client's traceparent goes along: the configuration sets none */
};

struct request_mould {
    struct pieces_of_head whole, stream; /* by the answer that is asked for */
};

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

/* Our own lines, those that the configuration does not replace. */
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

static void put_own(const struct provider_conf *p, const struct dialect *client, const struct dialect *target,
                    const struct fields *client_fields, bool is_stream, struct buf *out)
{
    struct buf own = {0};
    head_put_field(&own, "content-type", BYTES("application/json"));
    head_put_field(&own, "user-agent", BYTES("ringmain/" RINGMAIN_VERSION));
    head_put_field(&own, "accept-encoding", BYTES("identity"));
    dialect_target_fields(client, target, client_fields, p->api_key, is_stream, &own);
    take_over(p, buf_bytes(&own), out);
    buf_fini(&own);
}

static void put_rest(const struct provider_conf *p, struct buf *out)
{
    for (size_t i = 0; i < p->n_headers; i++)
        if (!frames_message(p->headers[i].name) && !bytes_eq_nocase(bytes_of(p->headers[i].name), BYTES("host")))
            head_put_named(out, bytes_of(p->headers[i].name), bytes_of(p->headers[i].value));
    head_put_end(out);
}

static void make(struct pieces_of_head *h, const struct provider_conf *p, const struct dialect *client,
                 const struct dialect *target, const struct fields *client_fields, bool is_stream)
{
    struct buf path = {0};
    const char *host = configured(p, BYTES("host"));
    *h = (struct pieces_of_head){.is_traced = configured(p, BYTES("traceparent")) == NULL};
    dialect_target_path(target, bytes_of(p->url.path), &path);
    head_put_request(&h->start, "POST", buf_bytes(&path), bytes_of(host ? host : p->url.authority));
    buf_puts(&h->start, "content-length: ");
    buf_puts(&h->tail, "\r\n");
    put_own(p, client, target, client_fields, is_stream, &h->tail);
    h->own_bytes = h->tail.n;
    put_rest(p, &h->tail);
    buf_fini(&path);
}

static void drop(struct pieces_of_head *h)
{
    buf_fini(&h->start);
    buf_fini(&h->tail);
}

static void put(const struct pieces_of_head *h, uint64_t n_bytes, struct bytes traceparent, struct buf *out)
{
    enum { FURTHER_BYTES = 128 /* the length and a traceparent */ };
    struct bytes tail = buf_bytes(&h->tail);
    (void)buf_reserve(out, h->start.n + tail.n + FURTHER_BYTES);
    buf_add(out, buf_bytes(&h->start));
    buf_put_u64(out, n_bytes);
    if (traceparent.n > 0 && h->is_traced) {
        buf_add(out, bytes_slice(tail, 0, h->own_bytes));
        head_put_field(out, "traceparent", traceparent);
        tail = bytes_slice(tail, h->own_bytes, tail.n);
    }
    buf_put(out, tail);
}

struct request_mould *request_mould_new(const struct provider_conf *p)
{
    const struct dialect *target = dialect_by_name(bytes_of(p->dialect));
    struct request_mould *m = mem_zalloc(sizeof *m);
    make(&m->whole, p, NULL, target, NULL, false);
    make(&m->stream, p, NULL, target, NULL, true);
    return m;
}

/* It holds a credential. */
static void wipe(struct pieces_of_head *h)
{
    explicit_bzero(h->tail.p, h->tail.cap);
    drop(h);
}

void request_mould_free(struct request_mould *m)
{
    if (m == NULL)
        return;
    wipe(&m->whole);
    wipe(&m->stream);
    mem_free(m);
}

void request_put_head(const struct exchange_spec *spec, struct buf *out)
{
    const struct provider_conf *p = spec->provider;
    const struct request_mould *m = p->mould;
    if (m != NULL && !dialect_target_takes_fields(spec->client, spec->target, spec->client_fields)) {
        put(spec->is_stream ? &m->stream : &m->whole, spec->body.n_bytes, spec->traceparent, out);
        return;
    }
    struct pieces_of_head h;
    make(&h, p, spec->client, spec->target, spec->client_fields, spec->is_stream);
    put(&h, spec->body.n_bytes, spec->traceparent, out);
    drop(&h);
}

/* Answers to calls that are not a provider's output, and the header lines of ours that all answers carry. */
#include "front/reply.h"

#include "base/text.h"
#include "dialect/error.h"
#include "front/trail.h"
#include "front/visit.h"

#define TRAIL "x-ringmain-trail: "

enum { FIELDS_BYTES = 500 /* what ours come to, usually */, FIELD_BYTES = 40 /* and one of the provider's */ };

static void put_cstr(struct buf *out, struct bytes start, const char *value)
{
    if (value != NULL && value[0] != '\0')
        head_put_text(out, start, bytes_of(value));
}

/* What is made here or has a name's form needs no check for control characters. */
static void put_name(struct buf *out, struct bytes start, const char *name)
{
    if (name == NULL || name[0] == '\0')
        return;
    buf_put(out, start);
    buf_puts(out, name);
    buf_puts(out, "\r\n");
}

static void put_link(struct buf *out, const char *provider, const char *model)
{
    put_name(out, BYTES("x-ringmain-provider: "), provider);
    put_cstr(out, BYTES("x-ringmain-model: "), model);
}

void reply_served_lines(const char *provider, const char *model, struct buf *out)
{
    put_link(out, provider, model);
    buf_puts(out, TRAIL);
    trail_put_served(out, provider, model);
}

/* Trail and cost neither: they are of names, words and encoded text. */
static void put_trail(struct buf *out, const struct request_record *rec)
{
    if (rec == NULL || rec->n_attempts == 0)
        return;
    buf_puts(out, TRAIL);
    trail_text(rec, out);
    buf_puts(out, "\r\n");
}

static void put_link_and_trail(struct buf *out, const struct reply_facts *f)
{
    if (f->served_lines.n > 0 && f->rec != NULL && trail_is_one_served(f->rec)) {
        buf_put(out, f->served_lines);
        trail_put_served_time(out, &f->rec->attempts[0]);
        buf_puts(out, "\r\n");
        return;
    }
    put_link(out, f->provider, f->model);
    put_trail(out, f->rec);
}

static void put_record(struct buf *out, const struct request_record *rec, bool with_cost)
{
    if (rec->n_started == 1) {
        buf_puts(out, "x-ringmain-attempts: 1\r\n");
    } else {
        buf_puts(out, "x-ringmain-attempts: ");
        buf_put_u64(out, rec->n_started);
        buf_puts(out, "\r\n");
    }
    put_cstr(out, BYTES("x-ringmain-adjusted: "), rec->adjusted);
    if (with_cost && rec->n_started > 0 && rec->cost_nusd != NUSD_UNKNOWN) {
        buf_puts(out, "x-ringmain-cost-usd: ");
        text_usd(out, rec->cost_nusd);
        buf_puts(out, "\r\n");
    }
}

void reply_put_fields(struct buf *out, const struct reply_facts *f)
{
    put_name(out, BYTES("x-ringmain-request-id: "), f->id_text);
    put_link_and_trail(out, f);
    if (f->rec != NULL)
        put_record(out, f->rec, f->with_cost);
}

static void put_field(struct buf *out, const struct field *f)
{
    (void)buf_reserve(out, f->name.n + f->value.n + 4);
    buf_put(out, f->name);
    buf_puts(out, ": ");
    buf_put(out, f->value);
    buf_puts(out, "\r\n");
}

/* They come out of a head that was parsed: no name or value of it can end its line. */
static void put_provider_fields(struct buf *out, const struct dialect *client, const struct reply_facts *f)
{
    for (size_t i = 0; f->fields != NULL && i < f->fields->n; i++)
        if (dialect_field_goes_down(client, f->target, f->fields->v[i].name))
            put_field(out, &f->fields->v[i]);
}

static size_t fields_bytes(const struct reply_facts *f)
{
    return FIELDS_BYTES + (f->fields != NULL ? f->fields->n * FIELD_BYTES : 0);
}

void reply_head_of_stream(struct client_call *c, const struct reply_facts *f)
{
    RM_ASSERT(!c->head_sent);
    struct buf *out = inbound_open_head(c->inbound, 200, INBOUND_STREAM, 0, fields_bytes(f));
    buf_puts(out, "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
                  "x-accel-buffering: no\r\n");
    reply_put_fields(out, f);
    put_provider_fields(out, c->dialect, f);
    inbound_close_head(c->inbound);
    c->head_sent = true;
}

void reply_whole(struct client_call *c, unsigned status, const struct reply_facts *f, struct bytes further,
                 struct bytes body)
{
    RM_ASSERT(!c->head_sent);
    struct buf *out = inbound_open_head(c->inbound, status, INBOUND_LENGTH, body.n, fields_bytes(f) + further.n);
    buf_puts(out, "content-type: application/json\r\n");
    reply_put_fields(out, f);
    put_provider_fields(out, c->dialect, f);
    buf_put(out, further);
    inbound_close_head(c->inbound);
    c->head_sent = true;
    inbound_put(c->inbound, body);
    visit_end(visit_of_call(c));
}

/* Whole seconds, at least one, never sooner than told. */
static uint64_t retry_after_seconds(int64_t ms)
{
    return ms <= 1000 ? 1 : (uint64_t)(ms + 999) / 1000;
}

void call_answer_error(struct client_call *c, const struct answer_error *e, const struct request_record *rec,
                       bool no_retry)
{
    struct buf body = {0}, further = {0};
    struct reply_facts facts = {.id_text = c->id_text,
                                .provider = rec ? rec->provider : NULL,
                                .model = rec ? rec->model : NULL,
                                .rec = rec,
                                .with_cost = !c->is_stream};
    if (c->head_sent) {
        call_error_in_stream(c, e);
        return;
    }
    if (e->retry_after_ms >= 0)
        head_put_field_u64(&further, "retry-after", retry_after_seconds(e->retry_after_ms));
    if (no_retry)
        head_put_field(&further, "x-should-retry", BYTES("false"));
    error_body(c->dialect, e, &body);
    reply_whole(c, error_status(c->dialect, e), &facts, buf_bytes(&further), buf_bytes(&body));
    buf_fini(&further);
    buf_fini(&body);
}

void call_error_in_stream(struct client_call *c, const struct answer_error *e)
{
    struct buf event = {0};
    RM_ASSERT(c->head_sent);
    error_event(c->dialect, e, &event);
    inbound_put(c->inbound, buf_bytes(&event));
    visit_end(visit_of_call(c));
    buf_fini(&event);
}

/* A whole answer has no place for a comment: such a client waits. */
void call_heartbeat(struct client_call *c, const struct request_record *rec)
{
    if (!c->is_stream)
        return;
    if (!c->head_sent) {
        struct reply_facts facts = {.id_text = c->id_text, .rec = rec};
        reply_head_of_stream(c, &facts);
    }
    inbound_put(c->inbound, BYTES(": ringmain\n\n"));
    inbound_flush(c->inbound);
}

bool call_is_full(const struct client_call *c)
{
    return inbound_is_full(c->inbound);
}

/* One attempt's answer on its way to the client. What the provider's output becomes is settled by its first piece:
 *
 *                        same dialect                          other dialect, or the other shape
 *     client streams     RELAY: the provider's bytes           ENCODE: encoder, event by event (its JSON, too)
 *     client waits       KEEP:  the provider's JSON as it is   ENCODE: encoder, one JSON text at the end
 *                        COLLECT: its stream as one JSON text
 *
 * Before commit everything goes to `held`; after it RELAY lends the provider's bytes to the socket (no copy: they stay
 * valid until the flush), ENCODE writes to `held` and lends that.
 *
 * Where another draft left a stream half done, this one ENCODEs the rest of it, whatever the dialect.
 *
 * A provider can name a finish and fail all the same, and a failed answer must not look finished. So RELAY keeps the
 * events from a finish on in `waiting` until a token, the terminal marker or the end shows that it was meant (the
 * encoders do the same in their way). */
#include "base/mem.h"
#include "codec/sse.h"
#include "dialect/collect.h"
#include "front/reply.h"
#include "front/shown.h"
#include "front/visit.h"

enum { EVENT_COST = 32 /* bytes that an event costs beside its text, roughly */ };
enum mode { MODE_OPEN, MODE_RELAY, MODE_KEEP, MODE_COLLECT, MODE_ENCODE };

struct collecting {
    struct collector collector;
    struct sse sse; /* the provider's events once more */
};

/* What the client has of a stream that another draft may have to go on with. */
struct noted {
    struct encoder_begun begun; /* id and model are in `names` */
    struct arena names;
};

struct draft {
    struct client_call *call; /* not touched by draft_free: it may be gone by then */
    struct draft_options o;
    enum mode mode;
    bool is_stream; /* the client's wish */
    bool is_committed;
    bool is_plain;        /* a committed stream that is ENCODEd, or RELAYed where nobody asks what the client has */
    bool has_done;        /* the provider's terminal marker went by */
    bool ends_in_cr;      /* RELAY: the last event's line end may lack its LF */
    bool is_lf_owed;      /* RELAY: the last event was cut before its LF, which leads the next; ours stands already */
    struct buf held;      /* made and not lent yet */
    struct buf waiting;   /* RELAY: a finish and what followed it without a token */
    uint64_t n_collected; /* of a whole answer, roughly what is kept of it */
    const struct fields *fields;   /* the provider's; NULL = none, or the head is out */
    size_t n_lent;                 /* bytes of `held` that the inbound has until the flush */
    struct encoder *encoder;       /* ENCODE, else NULL */
    struct noted *noted;           /* RELAY, with `shown`, else NULL */
    struct collecting *collecting; /* COLLECT, else NULL */
    const struct output *whole;    /* KEEP: the answer where it was lent, instead of `held`; else NULL */
};

/* What ends a stream of a dialect. A provider that leaves its marker out (after a whole answer) must not leave the
 * client waiting for it. */
static struct bytes terminal_marker(const struct dialect *d)
{
    if (bytes_is(bytes_of(d->name), "anthropic"))
        return BYTES("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    return BYTES("data: [DONE]\n\n");
}

struct draft *draft_new(struct client_call *c, const struct draft_options *o)
{
    struct draft *d = mem_take_zero(sizeof *d);
    d->call = c;
    d->o = *o;
    d->is_stream = c->is_stream;
    return d;
}

void draft_free(struct draft *d)
{
    if (d == NULL)
        return;
    if (d->encoder != NULL)
        encoder_fini(d->encoder);
    mem_put(d->encoder, sizeof *d->encoder);
    if (d->collecting != NULL) {
        collector_fini(&d->collecting->collector);
        sse_fini(&d->collecting->sse);
        mem_put(d->collecting, sizeof *d->collecting);
    }
    buf_fini(&d->held);
    buf_fini(&d->waiting);
    if (d->noted != NULL)
        arena_fini(&d->noted->names);
    mem_put(d->noted, sizeof *d->noted);
    mem_put(d, sizeof *d);
}

static struct encoder_options answer_options(const struct draft *d)
{
    return (struct encoder_options){.is_stream = d->is_stream,
                                    .wants_usage = d->call->call->wants_usage,
                                    .model = bytes_of(d->o.model),
                                    .created_wall_s = d->o.wall_ms / 1000,
                                    .id_seed = d->call->id,
                                    .begun = d->o.shown != NULL ? d->o.shown->begun : (struct encoder_begun){0}};
}

static void begin_encoding(struct draft *d)
{
    struct encoder_options o = answer_options(d);
    d->mode = MODE_ENCODE;
    d->encoder = mem_take_zero(sizeof *d->encoder);
    encoder_init(d->encoder, d->call->dialect, &o);
}

static void begin_collecting(struct draft *d)
{
    struct encoder_options o = answer_options(d);
    d->mode = MODE_COLLECT;
    d->collecting = mem_take_zero(sizeof *d->collecting);
    collector_init(&d->collecting->collector, d->call->dialect, &o);
    sse_init(&d->collecting->sse, 0); /* the exchange keeps the limit */
}

static void settle_mode(struct draft *d, bool raw_is_stream)
{
    bool is_same = d->call->dialect == d->o.target;
    if (d->o.shown != NULL && d->o.shown->begun.is_on)
        begin_encoding(d);
    else if (is_same && d->is_stream == raw_is_stream)
        d->mode = d->is_stream ? MODE_RELAY : MODE_KEEP;
    else if (is_same && raw_is_stream)
        begin_collecting(d);
    else
        begin_encoding(d);
}

static bool is_plain(const struct draft *d)
{
    return d->is_committed && d->is_stream && (d->mode == MODE_ENCODE || (d->mode == MODE_RELAY && d->o.shown == NULL));
}

/* Nothing but comment lines: a provider's keep-alive. */
static bool is_comment(struct bytes raw)
{
    bool has_colon = false;
    while (raw.p != NULL && raw.n > 0) {
        struct bytes line = bytes_trim(bytes_cut(&raw, '\n'));
        if (line.n == 0)
            continue;
        if (line.p[0] != ':')
            return false;
        has_colon = true;
    }
    return has_colon;
}

/* A last event may come without its empty line; the client must see where it ends. */
static bool ends_with_empty_line(struct bytes raw)
{
    return bytes_ends_with(raw, BYTES("\n\n")) || bytes_ends_with(raw, BYTES("\r\n\r\n")) ||
           bytes_ends_with(raw, BYTES("\r\r")) || bytes_ends_with(raw, BYTES("\n\r\n")) ||
           bytes_ends_with(raw, BYTES("\r\n\r")) || bytes_ends_with(raw, BYTES("\r\n\n"));
}

static bool has_token(const struct output *in)
{
    for (size_t i = 0; i < in->n; i++)
        if (in->v[i].is_token)
            return true;
    return false;
}

static bool has_kind(const struct output *in, enum event_kind kind)
{
    for (size_t i = 0; i < in->n; i++)
        if (in->v[i].kind == kind)
            return true;
    return false;
}

static void lend_held(struct draft *d)
{
    if (d->held.n == d->n_lent)
        return;
    inbound_put(d->call->inbound, bytes_slice(buf_bytes(&d->held), d->n_lent, d->held.n));
    d->n_lent = d->held.n;
}

/* The finish was meant. What was lent before goes out first: `held` may move when it grows. */
static void release_waiting(struct draft *d)
{
    if (d->waiting.n == 0)
        return;
    if (d->n_lent > 0)
        draft_flush(d);
    buf_put(&d->held, buf_bytes(&d->waiting));
    buf_fini(&d->waiting);
    if (d->is_committed)
        lend_held(d);
}

/* True when this event must wait, for the finish that it brings or for one before it. */
static bool must_wait(struct draft *d, const struct output *in)
{
    if (has_kind(in, EVENT_DONE))
        return false;
    if (has_kind(in, EVENT_FINISH))
        return true;
    return d->waiting.n > 0 && !has_token(in) && d->waiting.n <= d->o.gate_bytes;
}

static void give(struct draft *d, bool waits, struct bytes part)
{
    if (waits)
        buf_put(&d->waiting, part);
    else if (d->is_committed)
        inbound_put(d->call->inbound, part);
    else
        buf_put(&d->held, part);
}

static size_t relay_raw(struct draft *d, const struct output *in)
{
    size_t from = d->is_lf_owed && bytes_starts_with(in->raw, BYTES("\n"));
    struct bytes head = bytes_slice(in->raw, from, in->raw.n), tail = {0}, end = {0};
    d->is_lf_owed = bytes_ends_with(in->raw, BYTES("\r\n\r"));
    if (in->is_dropped || (!d->is_committed && in->n == 0 && is_comment(in->raw)))
        return 0;
    bool waits = must_wait(d, in);
    if (!waits || has_token(in))
        release_waiting(d);
    if (in->strip_end > in->strip_at) {
        head = bytes_slice(in->raw, from, in->strip_at);
        tail = bytes_slice(in->raw, in->strip_end, in->raw.n);
    }
    if (!ends_with_empty_line(in->raw))
        end = BYTES("\n\n");
    else if (d->is_lf_owed)
        end = BYTES("\n"); /* the same bytes however they were cut */
    d->ends_in_cr = end.n == 0 && bytes_ends_with(in->raw, BYTES("\r"));
    give(d, waits, head);
    give(d, waits, tail);
    give(d, waits, end);
    return head.n + tail.n + end.n;
}

/* What another draft would have to know. Messages' blocks are counted by their events' types, as they stand in the
 * JSON: a text that holds such a word has its quotes escaped. */
static void note_begun(struct draft *d, const struct output *in)
{
    if (d->noted == NULL)
        d->noted = mem_take_zero(sizeof *d->noted);
    struct noted *n = d->noted;
    for (size_t i = 0; i < in->n; i++) {
        const struct event *e = &in->v[i];
        if (e->kind != EVENT_START || n->begun.is_on)
            continue;
        n->begun = (struct encoder_begun){
            .is_on = true, .id = arena_dup(&n->names, e->id), .model = arena_dup(&n->names, e->text)};
    }
    if (bytes_find(in->raw, BYTES("\"content_block_start\"")) != SIZE_MAX)
        n->begun.is_text_open = true;
    if (bytes_find(in->raw, BYTES("\"content_block_stop\"")) != SIZE_MAX) {
        n->begun.is_text_open = false;
        n->begun.n_blocks++;
    }
}

void draft_leave(const struct draft *d)
{
    struct encoder_begun begun = d->noted != NULL ? d->noted->begun : (struct encoder_begun){0};
    if (d->mode == MODE_ENCODE)
        encoder_begun(d->encoder, &begun);
    shown_begun(d->o.shown, &begun);
}

static size_t keep_raw(struct draft *d, const struct output *in)
{
    struct bytes raw = in->raw;
    if (in->body != NULL && in->strip_end == in->strip_at && d->held.n == 0) {
        RM_ASSERT(in->body->p == raw.p && in->body->n == raw.n);
        buf_fini(&d->held);
        d->held = buf_take(in->body);
        return raw.n;
    }
    if (in->strip_end > in->strip_at) {
        buf_put(&d->held, bytes_slice(raw, 0, in->strip_at));
        raw = bytes_slice(raw, in->strip_end, raw.n);
    }
    buf_put(&d->held, raw);
    return raw.n;
}

/* What was lent before goes out first: `held` may move when it grows. */
static size_t encode(struct draft *d, const struct output *in)
{
    if (d->n_lent > 0)
        draft_flush(d);
    size_t before = d->held.n;
    for (size_t i = 0; i < in->n; i++)
        if (in->v[i].kind != EVENT_ERROR)
            encoder_event(d->encoder, &in->v[i], &d->held);
    return d->held.n - before;
}

static void collect(struct draft *d, const struct output *in)
{
    struct collecting *c = d->collecting;
    struct sse_event ev;
    enum sse_result r;
    if (in->is_dropped)
        return;
    if (in->n == 1 && in->v[0].is_more && collector_more(&c->collector, in->v[0].text)) {
        d->n_collected = collector_bytes(&c->collector);
        return;
    }
    sse_feed(&c->sse, in->raw);
    while ((r = sse_next(&c->sse, &ev)) == SSE_EVENT || r == SSE_COMMENT)
        if (r == SSE_EVENT)
            collector_event(&c->collector, ev.name, ev.data);
    d->n_collected = collector_bytes(&c->collector);
}

/* The event before with other text, in a stream that runs: nothing to think about. */
static bool is_more(const struct draft *d, const struct output *in)
{
    return d->is_plain && in->n == 1 && in->v->is_more && d->waiting.n == 0 && !d->is_lf_owed;
}

/* What the client gets of it, in pieces that outlast the flush; false: it is for put_any. */
static bool make_more(struct draft *d, const struct output *in, struct bytes parts[INBOUND_SEND_PARTS])
{
    if (d->mode == MODE_ENCODE)
        return encoder_more(d->encoder, in->v, parts);
    d->ends_in_cr = false;
    if (in->strip_end == in->strip_at) {
        parts[0] = in->raw;
        parts[1] = parts[2] = (struct bytes){NULL, 0};
        return true;
    }
    parts[0] = bytes_slice(in->raw, 0, in->strip_at);
    parts[1] = bytes_slice(in->raw, in->strip_end, in->raw.n);
    parts[2] = (struct bytes){NULL, 0};
    return true;
}

static uint32_t put_more(struct draft *d, const struct bytes parts[INBOUND_SEND_PARTS])
{
    if (d->held.n > d->n_lent)
        lend_held(d);
    for (size_t i = 0; i < INBOUND_SEND_PARTS; i++)
        inbound_put(d->call->inbound, parts[i]);
    return (uint32_t)(parts[0].n + parts[1].n + parts[2].n);
}

static __attribute__((noinline)) bool put_any(struct draft *d, const struct output *in, uint32_t *n_bytes)
{
    size_t n = 0;
    if (d->mode == MODE_OPEN && in->raw_is_stream && in->n == 0 && is_comment(in->raw)) {
        *n_bytes = 0;
        return true;
    }
    if (d->mode == MODE_OPEN)
        settle_mode(d, in->raw_is_stream);
    d->is_plain = is_plain(d);
    for (size_t i = 0; i < in->n; i++) {
        const struct event *e = &in->v[i];
        d->has_done = d->has_done || e->kind == EVENT_DONE;
        if (d->mode != MODE_KEEP) /* of that only the bytes are kept, and the exchange has their limit */
            d->n_collected += EVENT_COST + e->text.n + e->id.n + e->name.n;
    }
    if (d->mode == MODE_RELAY && d->o.shown != NULL)
        note_begun(d, in);
    if (d->mode == MODE_RELAY)
        n = relay_raw(d, in);
    else if (d->mode == MODE_KEEP)
        n = keep_raw(d, in);
    else if (d->mode == MODE_COLLECT)
        collect(d, in);
    else
        n = encode(d, in);
    *n_bytes = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
    if (!d->is_stream)
        return d->n_collected <= d->o.body_bytes;
    /* a token opens the gate, so what came with it is not held for long */
    return d->is_committed || d->held.n <= d->o.gate_bytes || has_token(in);
}

bool draft_lend(struct draft *d, const struct output *in)
{
    if (d->mode != MODE_OPEN || d->is_stream || in->raw_is_stream || in->body != NULL || in->strip_at != in->strip_end)
        return false;
    settle_mode(d, false);
    if (d->mode == MODE_KEEP)
        d->whole = in;
    return d->whole != NULL;
}

bool draft_put(struct draft *d, const struct output *in, uint32_t *n_bytes)
{
    struct bytes parts[INBOUND_SEND_PARTS];
    if (!is_more(d, in) || !make_more(d, in, parts))
        return put_any(d, in, n_bytes);
    *n_bytes = put_more(d, parts);
    return true;
}

bool draft_pass(struct draft *d, const struct output *in, bool *is_put)
{
    struct bytes parts[INBOUND_SEND_PARTS];
    *is_put = is_more(d, in) && d->held.n == 0 && make_more(d, in, parts);
    if (!*is_put)
        return false;
    if (in->framed.n > 0 && parts[0].p == in->raw.p && parts[0].n == in->raw.n) /* in the provider's own frame */
        return inbound_pass(d->call->inbound, in->raw, in->framed);
    return inbound_send(d->call->inbound, parts);
}

void draft_set_fields(struct draft *d, const struct fields *f)
{
    d->fields = f;
}

static struct reply_facts facts_of(const struct draft *d, const struct request_record *rec)
{
    return (struct reply_facts){.id_text = d->call->id_text,
                                .provider = d->o.provider,
                                .model = d->o.model,
                                .served_lines = d->o.served_lines,
                                .rec = rec,
                                .with_cost = !d->is_stream,
                                .fields = d->fields,
                                .target = d->o.target};
}

void draft_commit(struct draft *d, const struct request_record *rec)
{
    RM_ASSERT(!d->is_committed);
    d->is_committed = true;
    d->is_plain = is_plain(d);
    if (!d->is_stream)
        return;
    if (!d->call->head_sent) {
        struct reply_facts facts = facts_of(d, rec);
        reply_head_of_stream(d->call, &facts);
    }
    d->fields = NULL;
    if (d->mode != MODE_ENCODE)
        lend_held(d);
}

static void forget_lent(struct draft *d)
{
    RM_ASSERT(d->n_lent == d->held.n);
    d->n_lent = 0;
    if (d->held.cap > 0)
        buf_fini(&d->held);
}

void draft_flush(struct draft *d)
{
    if (!d->is_committed || !d->is_stream)
        return;
    lend_held(d);
    inbound_flush(d->call->inbound);
    forget_lent(d);
}

static void end_stream(struct draft *d)
{
    if (d->n_lent > 0)
        draft_flush(d);
    if (d->mode == MODE_ENCODE)
        encoder_end(d->encoder, &d->held);
    release_waiting(d);
    lend_held(d);
    if (d->mode == MODE_RELAY && d->ends_in_cr)
        inbound_put(d->call->inbound, BYTES("\n"));
    if (d->mode == MODE_RELAY && !d->has_done)
        inbound_put(d->call->inbound, terminal_marker(d->call->dialect));
    struct client_call *c = d->call;
    d->call = NULL;
    visit_end(visit_of_call(c));
    forget_lent(d);
}

/* The last event may have come without its empty line. */
static void end_collecting(struct draft *d)
{
    struct sse_event ev;
    if (sse_end(&d->collecting->sse, &ev))
        collector_event(&d->collecting->collector, ev.name, ev.data);
    collector_end(&d->collecting->collector, &d->held);
}

void draft_end(struct draft *d, const struct request_record *rec)
{
    RM_ASSERT(d->is_committed);
    if (d->is_stream) {
        end_stream(d);
        return;
    }
    if (d->mode == MODE_OPEN)
        begin_encoding(d);
    if (d->mode == MODE_ENCODE)
        encoder_end(d->encoder, &d->held);
    if (d->mode == MODE_COLLECT)
        end_collecting(d);
    struct reply_facts facts = facts_of(d, rec);
    struct client_call *c = d->call;
    d->call = NULL;
    reply_whole(c, 200, &facts, BYTES(""), d->whole != NULL ? d->whole->raw : buf_bytes(&d->held));
}

unsigned draft_status(const struct draft *d)
{
    return d->is_committed ? 200 : 0;
}

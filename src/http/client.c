/* One connection, two machines: the request is written piece by piece as the socket takes it, the response is read on
 * its own account (a provider may answer before it has read everything).
 *
 *     request:   idle -> writing -> written
 *     response:  idle -> head -> body -> whole
 *
 * Bytes are read into a borrowed buffer and go up as views. Only the head is copied, because it may come in parts and
 * must stay until the exchange is finished, or longer: it lies in an arena that can be given away. A failed write does
 * not end the exchange by itself: providers refuse a large request with an answer and close; what can still be read is
 * read first.
 *
 * A request is written at the end of the turn that sends it, after all handlers have run: on a busy core a write takes
 * the kernel through more code than the processor's nearest cache holds, and what the next handler needs is gone. */
#include "http/client.h"

#include "base/mem.h"
#include "base/sm.h"

enum {
    HEAD_BYTES_MAX = 32768,
    HEAD_FIELDS_MAX = 200,
    INTERIM_MAX = 8,
    IOV_MAX_USED = 64,
    ARRAYS_BYTES = 960, /* of a usual head: what its arena's one block holds */
    READS_PER_TURN = 8  /* then the others have theirs: a provider may send faster than we read */
};

enum request_state { REQUEST_IDLE, REQUEST_WRITING, REQUEST_WRITTEN, REQUEST_BROKEN };
static const struct sm_row request_rows[] = {
    [REQUEST_IDLE] = {"idle", SM_TO(REQUEST_WRITING), false},
    [REQUEST_WRITING] = {"writing", SM_TO(REQUEST_WRITTEN) | SM_TO(REQUEST_BROKEN), false},
    [REQUEST_WRITTEN] = {"written", SM_TO(REQUEST_IDLE), false},
    [REQUEST_BROKEN] = {"broken", 0, true},
};
enum response_state { RESPONSE_IDLE, RESPONSE_HEAD, RESPONSE_BODY, RESPONSE_WHOLE, RESPONSE_OVER };
static const struct sm_row response_rows[] = {
    [RESPONSE_IDLE] = {"idle", SM_TO(RESPONSE_HEAD), false},
    [RESPONSE_HEAD] = {"head", SM_TO(RESPONSE_BODY) | SM_TO(RESPONSE_OVER), false},
    [RESPONSE_BODY] = {"body", SM_TO(RESPONSE_WHOLE) | SM_TO(RESPONSE_OVER), false},
    [RESPONSE_WHOLE] = {"whole", SM_TO(RESPONSE_IDLE), false},
    [RESPONSE_OVER] = {"over", 0, true},
};

struct client_conn {
    struct loop *loop;
    struct stream *stream;
    struct readbufs *reads;
    client_ready_fn *fn; /* of the exchange, or of the idle connection */
    void *arg;
    union {
        struct task task;
        struct reap reap; /* once it is closed */
    };

    const struct client_request *out; /* NULL = none, or written */
    size_t piece, offset;             /* where writing stands: piece 0 is the head */
    uint64_t n_sent;                  /* bytes of this exchange's request that the kernel took */

    struct buf *gathered; /* a head that comes in parts; NULL = none */
    struct arena arena;   /* the head, its arrays and its text */
    struct head *head;    /* NULL = none, or given away */
    struct body_reader reader;
    char *read;       /* the borrowed buffer, or NULL */
    struct bytes in;  /* what of it is not used yet */
    uint32_t turn_us; /* when n_reads began, the low half: a turn's clock is its own */
    struct sm request, response;
    uint8_t n_reads, n_interim;
    bool is_readable; /* reading may give something */
    bool is_paused;
    bool has_lent;            /* payload views were given since the last read */
    bool is_telling, is_done; /* on_ready runs; its owner has all there is, and is done with it as it returns */
    bool any_byte;            /* of a response */
    bool has_extra;           /* bytes came after the end of the response */
    bool has_eof;
    bool may_stay; /* says the response's head */
    enum io end;   /* how reading ended; IO_OK = it has not */
};

/* ---- writing ---- */

static struct bytes piece_at(const struct client_conn *c, size_t i)
{
    return i == 0 ? c->out->head : c->out->body[i - 1];
}

/* What is not written yet. Returns how many; *n_bytes: their sum. */
static int fill_vectors(const struct client_conn *c, struct iovec *v, size_t *n_bytes)
{
    const struct client_request *r = c->out;
    struct bytes first = piece_at(c, c->piece);
    int n = 1;
    v[0] = (struct iovec){.iov_base = (char *)(uintptr_t)first.p + c->offset, .iov_len = first.n - c->offset};
    *n_bytes = v[0].iov_len;
    for (size_t i = c->piece; i < r->n_body && n < IOV_MAX_USED; i++, n++) {
        v[n] = (struct iovec){.iov_base = (void *)(uintptr_t)r->body[i].p, .iov_len = r->body[i].n};
        *n_bytes += r->body[i].n;
    }
    return n;
}

static void advance(struct client_conn *c, size_t n)
{
    c->n_sent += n;
    while (c->piece <= c->out->n_body) {
        size_t left = piece_at(c, c->piece).n - c->offset;
        if (n < left) {
            c->offset += n;
            return;
        }
        n -= left;
        c->piece++;
        c->offset = 0;
    }
    RM_ASSERT(n == 0);
}

static void write_more(struct client_conn *c)
{
    while (c->request.state == REQUEST_WRITING) {
        struct iovec v[IOV_MAX_USED];
        size_t n = 0, n_bytes = 0;
        int n_v = fill_vectors(c, v, &n_bytes);
        enum io r = stream_write(c->stream, v, n_v, &n);
        if (r == IO_AGAIN)
            return;
        if (r != IO_OK) {
            sm_move(&c->request, request_rows, REQUEST_BROKEN, "http", "-");
            c->is_readable = true;
            return;
        }
        if (n == n_bytes && c->piece + (size_t)n_v > c->out->n_body) {
            c->n_sent += n;
            c->piece = c->out->n_body + 1;
        } else {
            advance(c, n);
        }
        if (c->piece > c->out->n_body) {
            sm_move(&c->request, request_rows, REQUEST_WRITTEN, "http", "-");
            c->out = NULL;
        }
    }
}

/* ---- events of the stream ---- */

static bool is_idle(const struct client_conn *c)
{
    return c->response.state == RESPONSE_IDLE;
}

static void give_buffer(struct client_conn *c)
{
    readbuf_put(c->reads, c->read);
    c->read = NULL;
    c->in = (struct bytes){0};
}

static void notify(struct client_conn *c)
{
    if (c->fn == NULL)
        return;
    c->is_telling = true;
    c->fn(c, c->arg);
    c->is_telling = false;
    if (!c->is_done)
        return;
    c->is_done = c->has_lent = false;
    give_buffer(c);
}

static enum io fill(struct client_conn *c);

/* Not of an idle one, nor after the end: what comes then is looked for, not read. */
static void fill_ahead(struct client_conn *c)
{
    bool is_awaited = c->response.state == RESPONSE_HEAD || c->response.state == RESPONSE_BODY;
    if (!is_awaited || c->is_paused || c->in.n > 0 || c->end != IO_OK)
        return;
    c->is_readable = true;
    (void)fill(c);
}

static void on_stream(struct stream *s, unsigned ready, void *arg)
{
    struct client_conn *c = arg;
    bool is_news = (ready & (LOOP_READ | LOOP_AHEAD)) != 0 && !c->is_paused;
    if (ready == LOOP_ASK) {
        fill_ahead(c);
        return;
    }
    if (ready & LOOP_READ)
        c->is_readable = true;
    if (is_idle(c)) {
        if (is_news && stream_is_stale(s))
            notify(c);
        return;
    }
    if ((ready & LOOP_WRITE) && c->request.state == REQUEST_WRITING) {
        write_more(c);
        is_news = is_news || c->request.state == REQUEST_BROKEN;
    }
    if (is_news)
        notify(c);
}

/* That the request is out is no news: who needs to know asks. */
static bool awaits_first_byte(const struct client_conn *c)
{
    return c->response.state == RESPONSE_HEAD && c->in.n == 0 && !c->is_readable;
}

static void on_task(struct task *t)
{
    struct client_conn *c = RM_CONTAINER(t, struct client_conn, task);
    c->n_reads = 0; /* two turns may show the same microsecond */
    if (c->request.state == REQUEST_WRITING)
        write_more(c);
    if (is_idle(c) ? stream_is_stale(c->stream) : !awaits_first_byte(c))
        notify(c);
}

/* ---- reading ---- */

static bool has_had_its_turn(struct client_conn *c)
{
    uint64_t now = loop_now_us(c->loop);
    if (c->turn_us != (uint32_t)now)
        c->n_reads = 0;
    c->turn_us = (uint32_t)now;
    if (c->n_reads++ < READS_PER_TURN)
        return false;
    task_cancel(&c->task); /* of this turn, where it would go on at once */
    loop_defer(c->loop, &c->task);
    return true;
}

/* IO_OK: c->in has something. */
static enum io fill(struct client_conn *c)
{
    size_t n = 0;
    if (c->in.n > 0)
        return IO_OK;
    if (!c->is_readable || has_had_its_turn(c)) {
        give_buffer(c);
        return c->end == IO_OK ? IO_AGAIN : c->end;
    }
    if (c->read == NULL)
        c->read = readbuf_take(c->reads);
    enum io r = stream_read(c->stream, c->read, READBUF_BYTES, &n);
    if (r != IO_OK) {
        c->is_readable = false;
        c->end = r == IO_AGAIN ? IO_OK : r;
        give_buffer(c);
        return r;
    }
    c->in = (struct bytes){c->read, n};
    c->is_readable = n == READBUF_BYTES;
    c->is_done = false;
    c->any_byte = true;
    return IO_OK;
}

static void drop(struct bytes *in, size_t n)
{
    in->p += n;
    in->n -= n;
}

static void end_over(struct client_conn *c, struct client_event *ev, enum client_event_kind kind, const char *why)
{
    sm_move(&c->response, response_rows, RESPONSE_OVER, "http", "-");
    *ev = (struct client_event){.kind = kind, .why = why, .any_response_byte = c->any_byte};
}

static void end_broken(struct client_conn *c, struct client_event *ev, enum io io)
{
    end_over(c, ev, CLIENT_BROKEN, io == IO_EOF ? "the peer closed the connection" : stream_error(c->stream));
}

static void end_whole(struct client_conn *c, struct client_event *ev)
{
    c->has_extra = c->in.n > 0;
    sm_move(&c->response, response_rows, RESPONSE_WHOLE, "http", "-");
    ev->kind = CLIENT_END;
}

static void drop_head(struct client_conn *c)
{
    c->head = NULL;
    arena_fini(&c->arena);
}

static void drop_gathered(struct client_conn *c)
{
    if (c->gathered == NULL)
        return;
    buf_fini(c->gathered);
    mem_free(c->gathered);
    c->gathered = NULL;
}

static bool take_interim(struct client_conn *c, struct client_event *ev)
{
    bool is_upgrade = c->head->status == 101;
    drop_head(c);
    drop_gathered(c);
    if (!is_upgrade && ++c->n_interim <= INTERIM_MAX)
        return false;
    end_over(c, ev, CLIENT_BAD, is_upgrade ? "an upgrade nobody asked for" : "too many interim answers");
    return true;
}

/* A head is there, in `text`. False: it was an interim one, look for the next. */
static bool take_head(struct client_conn *c, struct bytes text, struct client_event *ev)
{
    struct head *h = c->head;
    if (h->status < 200)
        return take_interim(c, ev);
    char *copy = arena_alloc_raw(&c->arena, text.n);
    memcpy(copy, text.p, text.n);
    head_move(h, text, copy);
    drop_gathered(c);
    c->may_stay = h->keep_alive;
    body_init(&c->reader, h->framing, h->content_length);
    sm_move(&c->response, response_rows, RESPONSE_BODY, "http", "-");
    *ev = (struct client_event){.kind = CLIENT_HEAD, .head = h};
    return true;
}

/* A head that came whole is read where it lies; one that comes in parts is gathered first. */
static enum head_result find_head(struct client_conn *c, struct bytes *text, const char **why)
{
    static const struct head_limits limits = {HEAD_BYTES_MAX, HEAD_FIELDS_MAX};
    size_t before = c->gathered != NULL ? c->gathered->n : 0, used = 0;
    *text = c->in;
    if (before > 0) {
        buf_put(c->gathered, bytes_slice(c->in, 0, HEAD_BYTES_MAX - before));
        *text = buf_bytes(c->gathered);
    }
    arena_reserve(&c->arena, ARRAYS_BYTES);
    c->head = arena_alloc_raw(&c->arena, sizeof *c->head);
    enum head_result r = head_parse(*text, HEAD_RESPONSE, false, &limits, &c->arena, c->head, &used, why);
    if (r == HEAD_OK)
        text->n = used;
    if (r == HEAD_OK || r == HEAD_MORE)
        drop(&c->in, text->n - before);
    if (r == HEAD_OK)
        return r;
    drop_head(c);
    if (r == HEAD_MORE && before == 0) {
        c->gathered = mem_zalloc(sizeof *c->gathered);
        buf_put(c->gathered, *text);
    }
    return r;
}

static void next_head(struct client_conn *c, struct client_event *ev)
{
    for (;;) {
        struct bytes text;
        const char *why = "";
        enum io io = fill(c);
        if (io == IO_AGAIN)
            return;
        if (io != IO_OK) {
            end_broken(c, ev, io);
            return;
        }
        enum head_result r = find_head(c, &text, &why);
        if (r != HEAD_MORE && r != HEAD_OK) {
            end_over(c, ev, CLIENT_BAD, why);
            return;
        }
        if (r == HEAD_OK && take_head(c, text, ev))
            return;
    }
}

static void next_body(struct client_conn *c, struct client_event *ev)
{
    for (;;) {
        enum body_result r = body_is_dry(&c->reader, c->in) ? BODY_MORE
                             : body_is_over(&c->reader)     ? BODY_END
                                                            : body_next(&c->reader, &c->in, &ev->body);
        if (r == BODY_DATA) {
            c->has_lent = true;
            ev->kind = CLIENT_BODY;
            return;
        }
        if (r == BODY_BAD) {
            end_over(c, ev, CLIENT_BAD, "malformed chunked coding");
            return;
        }
        if (r == BODY_END) {
            end_whole(c, ev);
            return;
        }
        if (c->has_lent) {
            c->has_lent = false;
            ev->kind = CLIENT_USED_UP;
            return;
        }
        enum io io = fill(c);
        if (io == IO_AGAIN)
            return;
        if (io == IO_EOF && body_is_whole_at_close(&c->reader)) {
            c->has_eof = true;
            end_whole(c, ev);
            return;
        }
        if (io != IO_OK) {
            end_broken(c, ev, io);
            return;
        }
    }
}

/* ---- the owner's calls ---- */

struct client_conn *client_conn_new(struct loop *l, struct stream *s)
{
    RM_ASSERT(l != NULL && s != NULL);
    struct client_conn *c = mem_zalloc(sizeof *c);
    mem_count(MEM_CONN, 1);
    c->loop = l;
    c->stream = s;
    c->is_readable = true;
    c->task.fn = on_task;
    list_init(&c->task.node);
    sm_init(&c->request, REQUEST_IDLE);
    sm_init(&c->response, RESPONSE_IDLE);
    stream_on_ready(s, on_stream, c);
    stream_read_ahead(s);
    return c;
}

void client_conn_share_reads(struct client_conn *c, struct readbufs *r)
{
    RM_ASSERT(c->read == NULL);
    c->reads = r;
}

void client_conn_send(struct client_conn *c, const struct client_request *r, client_ready_fn *fn, void *arg)
{
    RM_ASSERT(is_idle(c) && c->request.state == REQUEST_IDLE && r->head.n > 0);
    c->fn = fn;
    c->arg = arg;
    c->out = r;
    c->piece = c->offset = 0;
    c->n_sent = 0;
    c->n_interim = 0;
    c->any_byte = c->is_paused = false;
    sm_move(&c->request, request_rows, REQUEST_WRITING, "http", "-");
    sm_move(&c->response, response_rows, RESPONSE_HEAD, "http", "-");
    loop_post(c->loop, &c->task);
}

void client_conn_tell(struct client_conn *c, client_ready_fn *fn, void *arg)
{
    c->fn = fn;
    c->arg = arg;
}

void client_conn_next(struct client_conn *c, struct client_event *ev)
{
    *ev = (struct client_event){.kind = CLIENT_NOTHING};
    if (c->is_paused)
        return;
    if (c->response.state == RESPONSE_HEAD)
        next_head(c, ev);
    else if (c->response.state == RESPONSE_BODY)
        next_body(c, ev);
}

bool client_conn_payload(struct client_conn *c, struct bytes *out, struct bytes *framed)
{
    if (c->response.state != RESPONSE_BODY || c->is_paused)
        return false;
    if (c->in.n == 0 && (c->has_lent || fill(c) != IO_OK))
        return false;
    const char *from = c->in.p;
    if (!body_whole_chunk(&c->reader, &c->in, out))
        return false;
    *framed = bytes_from(from, (size_t)(c->in.p - from));
    c->has_lent = true;
    return true;
}

bool client_conn_is_used_up(const struct client_conn *c)
{
    return c->in.n == 0;
}

bool client_conn_rests(struct client_conn *c)
{
    c->is_done = c->is_telling && c->in.n == 0 && !c->is_readable && c->response.state == RESPONSE_BODY;
    return c->is_done;
}

void client_conn_pause(struct client_conn *c)
{
    c->is_paused = true;
}

void client_conn_resume(struct client_conn *c)
{
    if (!c->is_paused)
        return;
    c->is_paused = false;
    if (!is_idle(c))
        loop_post(c->loop, &c->task);
}

void client_conn_give_head(struct client_conn *c, struct arena *to)
{
    RM_ASSERT(c->response.state == RESPONSE_BODY && c->head != NULL && to->last == NULL);
    *to = c->arena;
    c->head = NULL;
    arena_init(&c->arena);
}

bool client_conn_is_sent(const struct client_conn *c)
{
    return c->request.state == REQUEST_WRITTEN;
}

bool client_conn_is_reusable(const struct client_conn *c)
{
    return client_conn_is_sent(c) && c->response.state == RESPONSE_WHOLE && c->may_stay && !c->has_extra && !c->has_eof;
}

bool client_conn_idle(struct client_conn *c, client_ready_fn *stale_fn, void *arg)
{
    if (!is_idle(c)) {
        RM_ASSERT(client_conn_is_reusable(c));
        sm_move(&c->request, request_rows, REQUEST_IDLE, "http", "-");
        sm_move(&c->response, response_rows, RESPONSE_IDLE, "http", "-");
    }
    give_buffer(c);
    c->has_lent = false;
    c->out = NULL;
    drop_head(c);
    c->is_paused = false;
    c->fn = stale_fn;
    c->arg = arg;
    /* A close that came together with the last bytes gives no further edge. */
    return !stream_is_stale(c->stream);
}

bool client_conn_is_stale(struct client_conn *c)
{
    return c->has_eof || stream_is_stale(c->stream);
}

bool client_conn_is_unacked(const struct client_conn *c)
{
    return c->n_sent > 0 && !c->any_byte && stream_unacked(c->stream) >= c->n_sent;
}

bool client_conn_any_sent(const struct client_conn *c)
{
    return c->n_sent > 0;
}

static void release(struct reap *r)
{
    struct client_conn *c = RM_CONTAINER(r, struct client_conn, reap);
    drop_gathered(c);
    drop_head(c);
    mem_free(c);
    mem_count(MEM_CONN, -1);
}

void client_conn_close(struct client_conn *c)
{
    bool is_running = c->response.state != RESPONSE_IDLE && c->response.state != RESPONSE_WHOLE;
    if (c->request.state == REQUEST_WRITING)
        is_running = true;
    task_cancel(&c->task);
    stream_close(c->stream, is_running);
    give_buffer(c);
    c->fn = NULL;
    c->reap = (struct reap){.fn = release};
    loop_reap(c->loop, &c->reap);
}

/* A connection reads one request, gets a script (script.h), plays it step by step with a timer, and watches all the
 * time whether the client leaves.
 *
 *     COLD --time--> READING --request--> PLAYING --last step--> READING (keep) | closed (FIN, RST) | HANGING
 *
 * While the provider is deaf, a connection in READING leaves what comes in the kernel.
 *
 * Each step is due a pause after the one before it was due, not after it was written: a late turn of the loop does not
 * slow the words down. Bytes that are due wait in `out`; with pieces they leave it a few at a time. */
#include "lab/mock_impl.h"

#include "base/mem.h"
#include "http/body.h"

enum { READ_BYTES = 65536, BODY_BYTES_MAX = 64 << 20, PIPELINED_BYTES_MAX = 1 << 20 };

enum conn_state { CONN_COLD, CONN_READING, CONN_PLAYING, CONN_HANGING, CONN_CLOSED };

struct conn {
    struct list node;
    struct provider *provider;
    struct stream *stream;
    struct mock_tls_end *tls; /* NULL = plain */
    struct reap reap;
    struct timer timer;
    enum conn_state state;
    struct buf in, out;
    /* the request */
    struct arena arena;
    bool has_head;
    struct head head;
    struct body_reader reader;
    struct buf body;
    uint64_t seen; /* its serial in the log; 0 = not logged */
    bool is_chat;  /* counted as active */
    /* the answer */
    struct script script;
    size_t step;
    uint64_t due_us;   /* of the last step that was taken */
    uint64_t piece_us; /* no piece before this */
    bool closes_after; /* the client asked for it */
    bool gave_order;   /* heard even by the deaf */
};

static uint64_t now_us(const struct conn *c)
{
    return loop_now_us(c->provider->mock->loop);
}

/* ---- closing ---- */

static void conn_reaped(struct reap *r)
{
    struct conn *c = RM_CONTAINER(r, struct conn, reap);
    buf_fini(&c->in);
    buf_fini(&c->out);
    buf_fini(&c->body);
    arena_fini(&c->arena);
    mem_free(c);
}

static void end_chat(struct conn *c)
{
    if (!c->is_chat)
        return;
    c->is_chat = false;
    c->provider->n_active--;
    c->provider->used_us = now_us(c);
}

static void close_wire(struct conn *c, bool reset, bool says_goodbye)
{
    if (c->state == CONN_CLOSED)
        return;
    c->state = CONN_CLOSED;
    end_chat(c);
    list_del(&c->node);
    timer_cancel(c->provider->mock->loop, &c->timer);
    if (c->tls != NULL)
        mock_tls_close(c->tls, says_goodbye);
    stream_close(c->stream, reset);
    c->reap.fn = conn_reaped;
    loop_reap(c->provider->mock->loop, &c->reap);
}

void mock_conn_close(struct conn *c, bool reset)
{
    close_wire(c, reset, false);
}

struct conn *mock_conn_of_node(struct list *node)
{
    return LIST_ITEM(node, struct conn, node);
}

static struct seen *seen_of(struct conn *c)
{
    return mock_log_find(&c->provider->log, c->seen);
}

/* The client left. */
static void conn_gone(struct conn *c)
{
    struct seen *s = seen_of(c);
    bool is_answering = c->state == CONN_PLAYING || c->state == CONN_HANGING;
    if (s != NULL && is_answering && !s->is_answered)
        s->hung_up_ms = (int64_t)(now_us(c) - s->arrived_us) / 1000;
    mock_conn_close(c, false);
}

/* ---- bytes ---- */

static enum io wire_read(struct conn *c, char *to, size_t cap, size_t *n)
{
    return c->tls != NULL ? mock_tls_read(c->tls, to, cap, n) : stream_read(c->stream, to, cap, n);
}

static enum io wire_write(struct conn *c, struct bytes b, size_t *n)
{
    struct iovec v = {(void *)(uintptr_t)b.p, b.n};
    return c->tls != NULL ? mock_tls_write(c->tls, b, n) : stream_write(c->stream, &v, 1, n);
}

/* Nothing waits in this process any more. */
static bool is_drained(struct conn *c)
{
    return c->out.n == 0 && (c->tls == NULL || mock_tls_flush(c->tls) == IO_OK);
}

/* False = the client is gone, and so is the connection. */
static bool flush(struct conn *c)
{
    size_t piece = c->state == CONN_PLAYING ? c->script.piece_bytes : 0;
    if (piece > 0 && now_us(c) < c->piece_us)
        return true;
    while (c->out.n > 0) {
        size_t n = 0;
        struct bytes part = bytes_slice(buf_bytes(&c->out), 0, piece > 0 ? piece : c->out.n);
        enum io io = wire_write(c, part, &n);
        if (io == IO_AGAIN)
            return true;
        if (io != IO_OK) {
            conn_gone(c);
            return false;
        }
        buf_drop(&c->out, n);
        if (piece > 0) {
            c->piece_us = now_us(c) + (uint64_t)c->script.piece_ms * 1000;
            return true;
        }
    }
    return true;
}

/* ---- playing a script ---- */

static void read_more(struct conn *c);

static void finish(struct conn *c)
{
    struct seen *s = seen_of(c);
    enum script_end end = c->script.end;
    if (end == SCRIPT_HANG) {
        c->state = CONN_HANGING;
        return;
    }
    if (s != NULL)
        s->is_answered = true;
    if (end != SCRIPT_KEEP || c->closes_after) {
        close_wire(c, end == SCRIPT_RST, end == SCRIPT_KEEP);
        return;
    }
    end_chat(c);
    c->state = CONN_READING;
    c->seen = 0;
    c->has_head = false;
    arena_fini(&c->arena);
    buf_clear(&c->body);
    read_more(c); /* a pipelined request may wait */
}

/* When the next step is due. */
static uint64_t next_due_us(const struct conn *c)
{
    return c->due_us + c->script.steps[c->step].delay_us;
}

/* Plays what is due; arms the timer for what comes next. */
static void play(struct conn *c)
{
    struct loop *l = c->provider->mock->loop;
    while (c->step < c->script.n && next_due_us(c) <= now_us(c)) {
        c->due_us = next_due_us(c);
        buf_put(&c->out, c->script.steps[c->step++].data);
    }
    if (!flush(c))
        return;
    if (c->step == c->script.n && is_drained(c)) {
        finish(c);
        return;
    }
    uint64_t at_us = c->step < c->script.n ? next_due_us(c) : UINT64_MAX;
    if (c->script.piece_bytes > 0 && c->out.n > 0 && c->piece_us < at_us)
        at_us = c->piece_us;
    if (at_us != UINT64_MAX)
        timer_arm(l, &c->timer, at_us);
}

static void start_script(struct conn *c)
{
    struct seen *s = seen_of(c);
    if (s != NULL)
        s->status = c->script.status;
    c->state = CONN_PLAYING;
    c->step = 0;
    c->due_us = now_us(c);
    c->piece_us = 0;
    play(c);
}

/* ---- reading ---- */

static void answer(struct conn *c)
{
    struct provider *p = c->provider;
    struct mock_request q = {
        .head = &c->head, .body = buf_bytes(&c->body), .arena = &c->arena, .script = &c->script, .conn = c};
    c->closes_after = !c->head.keep_alive;
    if (bytes_starts_with(c->head.path, BYTES("/_mock/"))) {
        c->gave_order = true;
        mock_control_answer(p, &q);
        start_script(c);
        return;
    }
    q.seen = mock_log_add(&p->log, &c->head);
    c->seen = q.seen->serial;
    q.seen->wall_ms = loop_wall_ms(p->mock->loop);
    q.seen->arrived_us = now_us(c);
    q.seen->at_ms = provider_since_reset_ms(p);
    q.seen->body_bytes = c->body.n;
    mock_chat_answer(p, &q);
    c->is_chat = true; /* only now: the answer depends on whether the provider was idle before */
    p->n_active++;
    start_script(c);
}

static void refuse(struct conn *c, unsigned status)
{
    struct mock_request q = {.arena = &c->arena, .script = &c->script};
    c->closes_after = true;
    mock_control_message(&q, status, "error", head_reason(status));
    start_script(c);
}

/* False = more is needed, or the request was refused. */
static bool read_head(struct conn *c)
{
    static const struct head_limits limits = {65536, 200};
    size_t used = 0;
    const char *why;
    struct bytes held = buf_bytes(&c->in);
    enum head_result r = head_parse(held, HEAD_REQUEST, false, &limits, &c->arena, &c->head, &used, &why);
    if (r == HEAD_MORE)
        return false;
    if (r != HEAD_OK) {
        refuse(c, 400);
        return false;
    }
    /* The views must survive the buffer: parse again from a copy in the arena. */
    struct bytes copy = arena_dup(&c->arena, bytes_slice(held, 0, used));
    r = head_parse(copy, HEAD_REQUEST, false, &limits, &c->arena, &c->head, &used, &why);
    RM_ASSERT(r == HEAD_OK);
    buf_drop(&c->in, used);
    body_init(&c->reader, c->head.framing, c->head.content_length);
    c->has_head = true;
    if (c->head.expects_continue) {
        buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
        return flush(c);
    }
    return true;
}

static void read_more(struct conn *c)
{
    if (c->state != CONN_READING || (!c->has_head && (c->in.n == 0 || !read_head(c))))
        return;
    struct bytes in = buf_bytes(&c->in), part;
    enum body_result r;
    while ((r = body_next(&c->reader, &in, &part)) == BODY_DATA && c->body.n + part.n <= BODY_BYTES_MAX)
        buf_put(&c->body, part);
    buf_drop(&c->in, c->in.n - in.n);
    if (r == BODY_END)
        answer(c);
    else if (r != BODY_MORE)
        refuse(c, r == BODY_DATA ? 413 : 400);
}

/* False = the client is gone, and so is the connection. */
static bool take_in(struct conn *c)
{
    for (;;) {
        size_t n = 0;
        char *to = buf_reserve(&c->in, READ_BYTES);
        enum io io = wire_read(c, to, READ_BYTES, &n);
        if (io == IO_AGAIN)
            return true;
        if (io != IO_OK || c->in.n > PIPELINED_BYTES_MAX + BODY_BYTES_MAX) {
            conn_gone(c);
            return false;
        }
        buf_grew(&c->in, n);
        if (n < READ_BYTES)
            return true;
    }
}

/* Nothing is read from this connection now. Where the client leaves, it is forgotten. */
static bool is_unheard(struct conn *c, unsigned ready)
{
    if (c->state != CONN_READING || !c->provider->is_deaf || c->gave_order)
        return false;
    if (ready & LOOP_HANGUP)
        conn_gone(c);
    return true;
}

static void conn_ready(struct stream *s, unsigned ready, void *arg)
{
    struct conn *c = arg;
    if (c->state == CONN_COLD || is_unheard(c, ready) || (c->out.n > 0 && !flush(c)) || !take_in(c))
        return;
    if (c->state == CONN_READING)
        read_more(c);
    else if (c->state == CONN_PLAYING)
        play(c);
}

static void conn_timer(struct timer *t)
{
    struct conn *c = RM_CONTAINER(t, struct conn, timer);
    if (c->state == CONN_COLD || c->state == CONN_READING) {
        c->state = CONN_READING;
        conn_ready(c->stream, LOOP_READ, c); /* what came meanwhile has used up its edge */
    } else {
        play(c);
    }
}

void mock_conn_hear(struct conn *c)
{
    if (c->state == CONN_READING)
        timer_arm(c->provider->mock->loop, &c->timer, now_us(c));
}

void mock_conn_accept(struct provider *p, struct stream *s)
{
    struct conn *c = mem_zalloc(sizeof *c);
    uint64_t connect_us = provider_is_cold(p) ? p->conf.cold.connect_ms * 1000 : 0;
    c->provider = p;
    c->stream = s;
    c->timer.fn = conn_timer;
    c->state = connect_us > 0 ? CONN_COLD : CONN_READING;
    if (p->tls != NULL)
        c->tls = mock_tls_open(p->tls, s);
    list_put(&p->conns, &c->node);
    stream_on_ready(s, conn_ready, c);
    if (connect_us > 0)
        timer_arm(p->mock->loop, &c->timer, loop_now_us(p->mock->loop) + connect_us);
}

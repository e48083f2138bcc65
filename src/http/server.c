/* The client side's driver: connections, reading requests, time limits. inbound.c has the answering half.
 *
 *     IDLE -> HEAD -> BODY -> WAITING -> ANSWERING -> FINISHING -> IDLE … or LINGER -> CLOSED
 *              '-------'----> WAITING (refused: on_refused writes the answer, then LINGER)
 *
 * Bytes are read until a short read (the stream is edge-triggered). The first ones go into a buffer of the core's, if
 * others are ready too ahead of this connection's turn (loop.h): where they are a whole request, its head and body are
 * all that is copied. Else they move to `in`, and more is read there; a body with a length is read straight into
 * `body`. While the owner has a request, what comes is read on up to the head limit: that is how a FIN is noticed, and
 * it is where pipelined requests wait. An idle connection holds no buffer.
 *
 * Whatever must be told to the owner, or follows from the owner's call, is done from the connection's task or from its
 * stream and timer events; so the owner is never called back from inside a call of his. */
#include "http/server.h"

#include "base/log.h"
#include "base/mem.h"
#include "codec/json_write.h"
#include "http/heads.h"
#include "http/readbuf.h"
#include "http/server_conn.h"

#include <stdio.h>
#include <time.h>

enum {
    FIRST_READ_BYTES = 8192,     /* into the core's buffer */
    READ_BYTES = 4096,           /* while the rest of a head is looked for */
    BODY_READ_BYTES = 64 * 1024, /* at most this much room is made ahead of the bytes that came */
    ASKED_BYTES = 2560,          /* a usual head and what is read in a short body: one block of the arena */
    READS_PER_EVENT = 32,        /* then other connections have their turn */
    LINGER_READS = 2,            /* for the same, of one that is refused */
    LINGER_SILENT_US = 2000000,  /* a client that goes on sending after its refusal may pause for this long … */
    LINGER_US = 30000000,        /* … and send for this long in all */
    TURNED_AWAY_MAX = 64,        /* connections over the limit that are told so at a time */
    FEW_BYTES = 4095             /* a body of known length has room for all of it at once */
};

struct server {
    struct loop *loop;
    struct server_limits limits;
    struct server_handler handler;
    void *arg;
    struct readbufs *reads;
    struct heads *heads;
    struct list conns;
    size_t n_conns;
    uint64_t memory_used; /* request bodies in flight */
    struct bytes *parts;  /* not lent, or NULL: one connection at a time has any, nearly always */
    bool is_draining;
    uint64_t start_until_us; /* `start` is right before; 0 = not written yet */
    char start[CONN_START_BYTES + 1];
};

/* Of a request whose head could not be read, or is not needed any more. */
static const struct head no_head = {.minor = 1};

const struct sm_row conn_rows[] = {
    [CONN_IDLE] = {"idle", SM_TO(CONN_HEAD) | SM_TO(CONN_CLOSED), false},
    [CONN_HEAD] = {"head", SM_TO(CONN_BODY) | SM_TO(CONN_WAITING) | SM_TO(CONN_CLOSED), false},
    [CONN_BODY] = {"body", SM_TO(CONN_WAITING) | SM_TO(CONN_CLOSED), false},
    [CONN_WAITING] = {"waiting", SM_TO(CONN_ANSWERING) | SM_TO(CONN_CLOSED), false},
    [CONN_ANSWERING] = {"answering", SM_TO(CONN_FINISHING) | SM_TO(CONN_CLOSED), false},
    [CONN_FINISHING] = {"finishing", SM_TO(CONN_IDLE) | SM_TO(CONN_LINGER) | SM_TO(CONN_CLOSED), false},
    [CONN_LINGER] = {"linger", SM_TO(CONN_CLOSED), false},
    [CONN_CLOSED] = {"closed", 0, true},
};

struct loop *conn_loop(const struct server_conn *c)
{
    return c->server->loop;
}

uint32_t conn_stall_ms(const struct server_conn *c)
{
    return c->server->limits.client_stall_ms;
}

/* ---- time ---- */

void conn_set_deadline(struct server_conn *c, uint64_t at_us)
{
    c->deadline_us = at_us;
    if (at_us != 0 && (!timer_is_armed(&c->timer) || at_us < c->timer.at_us))
        timer_arm(c->server->loop, &c->timer, at_us);
}

static void set_deadline_ms(struct server_conn *c, uint64_t from_us, uint32_t ms)
{
    conn_set_deadline(c, from_us + (uint64_t)ms * 1000);
}

static __attribute__((noinline)) void write_start(struct server *s)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    int64_t wall_ms = loop_turn_wall_ms(s->loop);
    time_t now = (time_t)(wall_ms / 1000);
    struct tm t;
    gmtime_r(&now, &t);
    snprintf(s->start, sizeof s->start, "HTTP/1.1 200 OK\r\ndate: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n",
             days[t.tm_wday], t.tm_mday, months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    s->start_until_us = loop_now_us(s->loop) + (uint64_t)(1000 - wall_ms % 1000) * 1000;
}

/* Told by the turn's clock: the other one need not be read for each answer. */
const char *conn_start_lines(struct server_conn *c)
{
    struct server *s = c->server;
    if (loop_now_us(s->loop) >= s->start_until_us)
        write_start(s);
    return s->start;
}

/* The buffer in which `fresh` begins; it is not said to be there any more. */
static char *take_ahead(struct server_conn *c)
{
    c->is_ahead = false;
    return (char *)(uintptr_t)c->fresh.p;
}

/* ---- the memory of bodies ---- */

static void uncount_body(struct server_conn *c)
{
    if (c->asked == NULL)
        return;
    c->server->memory_used -= c->asked->body_counted;
    c->asked->body_counted = 0;
}

static void drop_body(struct server_conn *c)
{
    if (c->asked == NULL)
        return;
    uncount_body(c);
    buf_fini(&c->asked->body);
}

void conn_drop_asked(struct server_conn *c)
{
    drop_body(c);
    c->inbound.head = &no_head;
    c->asked = NULL;
    arena_fini(&c->inbound.asked_arena);
}

/* ---- room for parts ---- */

void conn_borrow_parts(struct server_conn *c)
{
    struct server *s = c->server;
    c->parts = s->parts != NULL ? s->parts : mem_alloc(CONN_PARTS_MAX * sizeof *c->parts);
    s->parts = NULL;
}

void conn_give_parts(struct server_conn *c)
{
    struct server *s = c->server;
    c->n_parts = 0;
    if (s->parts != NULL)
        mem_free(c->parts);
    else
        s->parts = c->parts;
    c->parts = NULL;
}

/* ---- life ---- */

static void release_request(struct server_conn *c)
{
    conn_drop_asked(c);
    arena_fini(&c->inbound.arena);
    c->inbound = (struct inbound){.head = &no_head};
}

static void free_conn(struct reap *r)
{
    struct server_conn *c = RM_CONTAINER(r, struct server_conn, reap);
    buf_fini(&c->in);
    buf_fini(&c->out);
    if (c->asked != NULL)
        buf_fini(&c->asked->body);
    arena_fini(&c->inbound.asked_arena);
    arena_fini(&c->inbound.arena);
    mem_count(MEM_CONN, -1);
    mem_free(c);
}

void conn_close(struct server_conn *c, bool reset)
{
    conn_move(c, CONN_CLOSED);
    if (c->is_ahead)
        readbuf_put(c->server->reads, take_ahead(c));
    uncount_body(c);
    conn_give_parts(c);
    stream_close(c->stream, reset);
    timer_cancel(c->server->loop, &c->timer);
    task_cancel(&c->task);
    list_del(&c->node);
    c->server->n_conns--;
    c->reap = (struct reap){.fn = free_conn};
    loop_reap(c->server->loop, &c->reap);
}

/* The owner has the request and its answer is not whole. */
static bool is_owned(const struct server_conn *c)
{
    return c->sm.state == CONN_WAITING || c->sm.state == CONN_ANSWERING;
}

static void lose_client(struct server_conn *c, bool is_stall)
{
    if (is_owned(c))
        c->server->handler.on_gone(&c->inbound, is_stall, c->server->arg);
    conn_close(c, true);
}

bool conn_must_close(const struct server_conn *c)
{
    const struct server *s = c->server;
    return s->is_draining || c->is_eof || !c->may_stay ||
           (s->limits.requests_per_connection != 0 && c->n_requests >= s->limits.requests_per_connection);
}

/* ---- requests ---- */

/* head: static, or in asked_arena. */
static void set_head(struct server_conn *c, const struct head *head)
{
    c->inbound.head = head;
    c->may_stay = head->keep_alive;
    c->is_of_minor_0 = head->minor == 0;
}

/* The owner writes the answer. Where the request was not read to its end (can_stay is false), the connection cannot
 * serve another one. */
static void refuse_and(struct server_conn *c, bool can_stay, unsigned status, const char *why)
{
    conn_set_deadline(c, 0);
    drop_body(c);
    c->inbound.body = (struct bytes){NULL, 0};
    c->must_close = !can_stay;
    conn_move(c, CONN_WAITING);
    c->server->handler.on_refused(&c->inbound, status, why, c->server->arg);
}

static void refuse(struct server_conn *c, unsigned status, const char *why)
{
    refuse_and(c, false, status, why);
}

static void hand_over(struct server_conn *c)
{
    conn_set_deadline(c, 0);
    c->inbound.body = buf_bytes(&c->asked->body);
    conn_move(c, CONN_WAITING);
    c->server->handler.on_request(&c->inbound, c->server->arg);
}

/* What was read and not used yet. */
static struct bytes unread(const struct server_conn *c)
{
    return c->fresh.n > 0 ? c->fresh : buf_bytes(&c->in);
}

static void drop_unread(struct server_conn *c, size_t n)
{
    if (c->fresh.n > 0) {
        RM_ASSERT(n <= c->fresh.n);
        c->fresh = bytes_from(c->fresh.p + n, c->fresh.n - n);
        return;
    }
    buf_drop(&c->in, n);
    if (c->in.n == 0)
        buf_fini(&c->in);
}

static struct asked *asked_new(struct arena *arena)
{
    arena_reserve(arena, ASKED_BYTES);
    struct asked *a = arena_alloc_raw(arena, sizeof *a); /* the head is written at once, the reader with the body */
    a->body = (struct buf){0};
    a->body_counted = 0;
    return a;
}

/* HEAD_OK: the head is in c->asked, with a text of its own. */
static enum head_result read_head(struct server_conn *c, struct bytes in, size_t *used, const char **why)
{
    struct server *s = c->server;
    struct arena *arena = &c->inbound.asked_arena;
    c->asked = asked_new(arena);
    struct head *h = &c->asked->head;
    bool may_keep = !s->limits.keeps_no_heads;
    if (may_keep && heads_find(s->heads, in, &s->limits.head, arena, h, used))
        return HEAD_OK;
    enum head_result r = head_parse(in, HEAD_REQUEST, false, &s->limits.head, arena, h, used, why);
    if (r != HEAD_OK)
        return r;
    struct bytes text = bytes_slice(in, 0, *used);
    char *copy = arena_alloc_raw(arena, text.n);
    if (may_keep)
        heads_note(s->heads, text, h);
    memcpy(copy, text.p, text.n);
    head_move(h, text, copy);
    return HEAD_OK;
}

static bool is_over_memory(const struct server *s, uint64_t more)
{
    return s->limits.memory_bytes != 0 &&
           (s->memory_used > s->limits.memory_bytes || more > s->limits.memory_bytes - s->memory_used);
}

/* Refuses by what the head alone tells; true when it did. */
static bool refuse_by_head(struct server_conn *c)
{
    struct server *s = c->server;
    const struct head *h = c->inbound.head;
    if (h->minor >= 1 && !h->expects_continue && fields_has(&h->fields, "expect")) {
        refuse(c, 417, "unknown expectation");
        return true;
    }
    unsigned status = s->handler.on_head != NULL ? s->handler.on_head(&c->inbound, s->arg) : 0;
    if (status != 0) {
        refuse_and(c, h->framing == FRAMING_NONE, status, "refused by its head");
        return true;
    }
    if (h->framing == FRAMING_LENGTH && h->content_length > s->limits.body_bytes) {
        refuse(c, 413, "content-length is over limits.body_bytes");
        return true;
    }
    if (h->framing == FRAMING_LENGTH && is_over_memory(s, h->content_length)) {
        refuse(c, 503, "memory");
        return true;
    }
    return false;
}

static void begin_body(struct server_conn *c)
{
    const struct head *h = c->inbound.head;
    if (h->framing == FRAMING_NONE || (h->framing == FRAMING_LENGTH && h->content_length == 0)) {
        hand_over(c);
        return;
    }
    body_init(&c->asked->reader, h->framing, h->content_length);
    if (h->framing == FRAMING_LENGTH && h->content_length <= FEW_BYTES) /* room for a large one is made as it comes */
        (void)buf_reserve(&c->asked->body, (size_t)h->content_length + 1);
    conn_move(c, CONN_BODY);
    set_deadline_ms(c, loop_now_us(c->server->loop), c->server->limits.body_timeout_ms);
    if (h->expects_continue && h->minor >= 1 && unread(c).n == 0) {
        struct iovec v[1];
        (void)buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
        conn_push(c, v, 1);
    }
}

static void on_head_error(struct server_conn *c, enum head_result r, const char *why)
{
    conn_drop_asked(c);
    set_head(c, &no_head);
    c->n_requests++;
    if (r == HEAD_TOO_LARGE)
        refuse(c, 431, "the head is over limits.header_bytes or limits.headers");
    else if (r == HEAD_VERSION)
        refuse(c, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    else
        refuse(c, 400, why != NULL ? why : "malformed request head");
}

/* True when the state moved on. */
static bool step_head(struct server_conn *c)
{
    struct server *s = c->server;
    struct bytes in = unread(c);
    if (c->sm.state == CONN_IDLE) {
        if (in.n == 0)
            return false;
        conn_move(c, CONN_HEAD);
        c->inbound.arrived_us = loop_now_us(s->loop);
        set_deadline_ms(c, c->inbound.arrived_us, s->limits.head_timeout_ms);
    }
    size_t used = 0;
    const char *why = NULL;
    enum head_result r = read_head(c, in, &used, &why);
    if (r == HEAD_MORE) {
        conn_drop_asked(c);
        return false;
    }
    if (r != HEAD_OK) {
        on_head_error(c, r, why);
        return true;
    }
    set_head(c, &c->asked->head);
    drop_unread(c, used);
    c->n_requests++;
    if (!refuse_by_head(c))
        begin_body(c);
    return true;
}

/* Counts the body's memory as it grows; false when the request was refused. */
static bool admit_body(struct server_conn *c)
{
    struct server *s = c->server;
    struct asked *a = c->asked;
    if (a->body.n > s->limits.body_bytes) {
        refuse(c, 413, "the body is over limits.body_bytes");
        return false;
    }
    if (a->body.cap > a->body_counted && is_over_memory(s, a->body.cap - a->body_counted)) {
        refuse(c, 503, "memory");
        return false;
    }
    s->memory_used += a->body.cap - a->body_counted;
    a->body_counted = a->body.cap;
    return true;
}

/* Body bytes that are there already. True when the state moved on. */
static bool step_body(struct server_conn *c)
{
    struct asked *a = c->asked;
    struct bytes all = unread(c), in = all, data;
    enum body_result r = BODY_MORE;
    while ((r = body_is_over(&a->reader) ? BODY_END : body_next(&a->reader, &in, &data)) == BODY_DATA) {
        if (data.n > c->server->limits.body_bytes - a->body.n) {
            refuse(c, 413, "the body is over limits.body_bytes");
            return true;
        }
        (void)buf_put(&a->body, data);
    }
    drop_unread(c, all.n - in.n);
    if (r == BODY_BAD) {
        refuse(c, 400, "malformed chunked body");
        return true;
    }
    if (!admit_body(c))
        return true;
    if (r == BODY_END)
        hand_over(c);
    return r == BODY_END;
}

/* Uses what was read, as far as it goes. */
static void use_input(struct server_conn *c)
{
    bool moved = true;
    while (moved) {
        unsigned state = c->sm.state;
        if (state == CONN_IDLE || state == CONN_HEAD)
            moved = step_head(c);
        else if (state == CONN_BODY)
            moved = unread(c).n > 0 && step_body(c);
        else
            moved = false;
    }
    if (c->sm.state == CONN_IDLE && c->in.n == 0)
        buf_fini(&c->in);
}

/* ---- reading ---- */

/* Room to read into: *b is the buffer that grows. 0 = no more is taken now. A body's last read asks for one byte more
 * than there should be: its being short says that the socket is empty, without another call. */
static size_t room(struct server_conn *c, struct buf **b)
{
    *b = &c->in;
    if (c->sm.state == CONN_BODY) {
        struct asked *a = c->asked;
        if (a->head.framing != FRAMING_LENGTH)
            return BODY_READ_BYTES / 4;
        uint64_t left = a->head.content_length - a->body.n;
        *b = &a->body;
        return left < BODY_READ_BYTES ? (size_t)left + 1 : BODY_READ_BYTES;
    }
    if (c->sm.state == CONN_IDLE || c->sm.state == CONN_HEAD)
        return READ_BYTES;
    return c->in.n < c->server->limits.head.bytes ? READ_BYTES : 0;
}

static void after_body_read(struct server_conn *c)
{
    struct asked *a = c->asked;
    uint64_t length = a->head.content_length;
    if (a->body.n > length) { /* the next request has begun */
        (void)buf_put(&c->in, bytes_slice(buf_bytes(&a->body), (size_t)length, a->body.n));
        a->body.n = (size_t)length;
    }
    if (admit_body(c) && a->body.n == length)
        hand_over(c);
}

static void on_eof(struct server_conn *c)
{
    c->is_eof = true;
    c->can_read = false;
    if (c->sm.state == CONN_FINISHING)
        c->must_close = true;
    else if (is_owned(c))
        lose_client(c, false);
    else
        conn_close(c, false);
}

static enum io read_into(struct server_conn *c, struct buf *b, size_t cap)
{
    size_t n = 0;
    char *at = buf_reserve(b, cap);
    enum io r = stream_read(c->stream, at, cap, &n);
    if (r == IO_OK) {
        buf_grew(b, n);
        c->can_read = n == cap || c->is_hung_up;
    }
    if (b->n == 0)
        buf_fini(b);
    return r;
}

/* The first bytes of a request, or of what comes next. */
static enum io read_ahead(struct server_conn *c)
{
    char *p = readbuf_take(c->server->reads);
    size_t n = 0;
    enum io r = stream_read(c->stream, p, FIRST_READ_BYTES, &n);
    if (r != IO_OK) {
        readbuf_put(c->server->reads, p);
        return r;
    }
    c->can_read = n == FIRST_READ_BYTES || c->is_hung_up;
    c->fresh = bytes_from(p, n);
    c->is_ahead = true;
    return IO_OK;
}

static void use_ahead(struct server_conn *c)
{
    char *p = take_ahead(c);
    use_input(c);
    (void)buf_put(&c->in, c->fresh);
    c->fresh = (struct bytes){0};
    readbuf_put(c->server->reads, p);
}

static enum io read_first(struct server_conn *c)
{
    enum io r = read_ahead(c);
    if (r == IO_OK)
        use_ahead(c);
    return r;
}

/* When there is need of the connection, or of an end, a refused client has only the time to be silent. */
static uint64_t linger_us(const struct server *s)
{
    bool is_crowded = s->limits.connections != 0 && s->n_conns > s->limits.connections;
    return s->is_draining || is_crowded ? LINGER_SILENT_US : LINGER_US;
}

static void linger_on(struct server_conn *c)
{
    uint64_t until_us = loop_now_us(c->server->loop) + LINGER_SILENT_US;
    conn_set_deadline(c, until_us < c->linger_until_us ? until_us : c->linger_until_us);
}

static enum io discard(struct server_conn *c)
{
    struct readbufs *reads = c->server->reads;
    char *scratch = readbuf_take(reads);
    size_t n = 0;
    enum io r = stream_read(c->stream, scratch, READBUF_BYTES, &n);
    readbuf_put(reads, scratch);
    if (r != IO_OK)
        return r;
    linger_on(c);
    return IO_OK;
}

static bool is_between(const struct server_conn *c)
{
    return c->sm.state == CONN_IDLE && c->in.n == 0;
}

static enum io read_more(struct server_conn *c, struct buf *b, size_t cap)
{
    enum io r = read_into(c, b, cap);
    if (r != IO_OK)
        return r;
    if (b != &c->in)
        after_body_read(c);
    use_input(c);
    return IO_OK;
}

/* One read. False when there is nothing more to read now, or the connection is gone. */
static bool read_once(struct server_conn *c)
{
    enum io r;
    if (c->sm.state == CONN_LINGER) {
        r = discard(c);
    } else if (is_between(c)) {
        r = read_first(c);
    } else {
        struct buf *b = NULL;
        size_t cap = room(c, &b);
        if (cap == 0 && c->is_hung_up) /* the FIN stands behind more than we take */
            on_eof(c);
        if (cap == 0)
            return false;
        r = read_more(c, b, cap);
    }
    if (r == IO_AGAIN) {
        c->can_read = false;
        return false;
    }
    if (r == IO_OK)
        return c->sm.state != CONN_CLOSED;
    if (r == IO_EOF || c->sm.state == CONN_LINGER)
        on_eof(c);
    else
        lose_client(c, false);
    return false;
}

static void read_on(struct server_conn *c)
{
    int most = c->sm.state == CONN_LINGER ? LINGER_READS : READS_PER_EVENT;
    for (int i = 0; c->can_read && i < most; i++)
        if (!read_once(c))
            return;
    if (c->sm.state != CONN_CLOSED && c->can_read)
        loop_defer(c->server->loop, &c->task);
}

/* ---- what follows an answer ---- */

/* The answer is out and more of the request may come: a close now would answer it with RST, and many a client that is
 * still sending would then see that and not the answer. */
static void linger(struct server_conn *c)
{
    conn_move(c, CONN_LINGER);
    release_request(c);
    buf_fini(&c->in);
    stream_shutdown(c->stream);
    c->linger_until_us = loop_now_us(c->server->loop) + linger_us(c->server);
    linger_on(c);
    c->can_read = true;
    loop_post(c->server->loop, &c->task);
}

/* The answer is out: the next request, or the end. */
static void next(struct server_conn *c)
{
    if (c->is_eof) {
        conn_close(c, false);
        return;
    }
    if (c->must_close || c->server->is_draining) {
        linger(c);
        return;
    }
    release_request(c);
    c->must_close = false;
    c->is_full = false;
    conn_move(c, CONN_IDLE);
    set_deadline_ms(c, loop_now_us(c->server->loop), c->server->limits.client_idle_ms);
    if (c->in.n > 0)
        use_input(c);
}

/* The end of an answer, which inbound_end has left for the end of the turn. */
static void write_end(struct server_conn *c)
{
    struct iovec v[1];
    if (c->sm.state == CONN_FINISHING && conn_pending(c) > 0 && !c->is_blocked)
        conn_push(c, v, 1);
}

static void on_task(struct task *t)
{
    struct server_conn *c = RM_CONTAINER(t, struct server_conn, task);
    if (c->is_broken) {
        lose_client(c, false);
        return;
    }
    write_end(c);
    if (c->is_broken)
        return; /* and queued again */
    if (c->sm.state == CONN_FINISHING && conn_pending(c) == 0)
        next(c);
    if (c->can_read && c->sm.state != CONN_CLOSED)
        read_on(c);
}

static void write_on(struct server_conn *c)
{
    struct iovec v[1];
    c->is_blocked = false;
    if (conn_pending(c) > 0)
        conn_push(c, v, 1);
    if (c->is_broken)
        return;
    if (c->sm.state == CONN_FINISHING && conn_pending(c) == 0) {
        loop_post(c->server->loop, &c->task);
    } else if (c->is_full && conn_pending(c) < CONN_LOW_BYTES) {
        c->is_full = false;
        if (c->sm.state == CONN_ANSWERING)
            c->server->handler.on_writable(&c->inbound, c->server->arg);
    }
}

static void on_ready(struct stream *s, unsigned ready, void *arg)
{
    (void)s;
    struct server_conn *c = arg;
    if (ready == LOOP_ASK) {
        if (is_between(c))
            (void)read_ahead(c);
        return;
    }
    if (ready & LOOP_WRITE)
        write_on(c);
    if (c->sm.state == CONN_CLOSED || c->is_broken)
        return;
    if (c->is_ahead)
        use_ahead(c);
    if ((ready & LOOP_READ) && c->sm.state != CONN_CLOSED) {
        c->can_read = true;
        c->is_hung_up = c->is_hung_up || (ready & LOOP_HANGUP) != 0;
        read_on(c);
    }
}

static void on_deadline(struct server_conn *c)
{
    c->deadline_us = 0;
    switch (c->sm.state) {
    case CONN_HEAD:
        set_head(c, &no_head);
        c->n_requests++;
        refuse(c, 408, "the request's head did not come in time");
        return;
    case CONN_BODY:
        refuse(c, 408, "the request's body did not come in time");
        return;
    case CONN_ANSWERING:
    case CONN_FINISHING:
        lose_client(c, true);
        return;
    default:
        conn_close(c, false);
    }
}

static void on_timer(struct timer *t)
{
    struct server_conn *c = RM_CONTAINER(t, struct server_conn, timer);
    if (c->deadline_us == 0)
        return;
    if (loop_now_us(c->server->loop) < c->deadline_us)
        timer_arm(c->server->loop, t, c->deadline_us);
    else
        on_deadline(c);
}

/* ---- the server ---- */

struct server *server_new(struct loop *l, const struct server_limits *limits, const struct server_handler *h, void *arg)
{
    RM_ASSERT(h->on_request != NULL && h->on_refused != NULL && h->on_gone != NULL && h->on_writable != NULL);
    struct server *s = mem_zalloc_lines(sizeof *s);
    s->loop = l;
    s->limits = *limits;
    s->handler = *h;
    s->arg = arg;
    s->reads = readbufs_new();
    s->heads = heads_new();
    list_init(&s->conns);
    return s;
}

void server_set_limits(struct server *s, const struct server_limits *limits)
{
    s->limits = *limits;
    heads_forget(s->heads);
}

struct head_memo *inbound_memo(struct inbound *in)
{
    return heads_memo(RM_CONTAINER(in, struct server_conn, inbound)->server->heads);
}

static struct server_conn *conn_new(struct server *s, struct stream *stream)
{
    struct server_conn *c = mem_zalloc(sizeof *c);
    mem_count(MEM_CONN, 1);
    c->server = s;
    c->stream = stream;
    sm_init(&c->sm, CONN_IDLE);
    c->timer.fn = on_timer;
    c->task.fn = on_task;
    c->inbound.head = &no_head;
    list_init(&c->task.node);
    list_init(&c->node);
    list_put(&s->conns, &c->node);
    s->n_conns++;
    stream_on_ready(stream, on_ready, c);
    stream_read_ahead(stream);
    return c;
}

/* No handler sees this one: it never becomes a request. */
static void turn_away(struct server_conn *c)
{
    struct buf body = {0};
    struct json_writer w;
    jw_init(&w, &body);
    jw_object(&w);
    jw_key(&w, "error");
    jw_object(&w);
    jw_key(&w, "message");
    jw_cstr(&w, "The gateway has as many connections as limits.connections allows.");
    jw_key(&w, "type");
    jw_cstr(&w, "server_error");
    jw_key(&w, "code");
    jw_cstr(&w, "too_many_connections");
    jw_key(&w, "param");
    jw_null(&w);
    jw_end(&w);
    jw_end(&w);
    c->must_close = true;
    conn_move(c, CONN_HEAD);
    conn_move(c, CONN_WAITING);
    inbound_head(&c->inbound, 503, INBOUND_LENGTH, body.n,
                 BYTES("content-type: application/json\r\nretry-after: 1\r\n"));
    inbound_put(&c->inbound, buf_bytes(&body));
    inbound_end(&c->inbound);
    buf_fini(&body);
}

void server_accept(struct server *s, struct stream *stream)
{
    uint32_t max = s->limits.connections;
    if (max != 0 && s->n_conns >= (size_t)max + TURNED_AWAY_MAX) {
        stream_close(stream, true);
        return;
    }
    bool is_over = max != 0 && s->n_conns >= max;
    struct server_conn *c = conn_new(s, stream);
    if (is_over)
        turn_away(c);
    else
        set_deadline_ms(c, loop_now_us(s->loop), s->limits.client_idle_ms);
}

size_t server_n_conns(const struct server *s)
{
    return s->n_conns;
}

static void linger_no_longer(struct server_conn *c)
{
    uint64_t until_us = loop_now_us(c->server->loop) + linger_us(c->server);
    if (until_us < c->linger_until_us)
        c->linger_until_us = until_us;
    linger_on(c);
}

void server_drain(struct server *s)
{
    s->is_draining = true;
    LIST_EACH(&s->conns, node)
    {
        struct server_conn *c = LIST_ITEM(node, struct server_conn, node);
        if (c->sm.state == CONN_IDLE)
            conn_close(c, false);
        else if (c->sm.state == CONN_LINGER)
            linger_no_longer(c);
    }
}

void server_rest(struct server *s)
{
    readbufs_rest(s->reads);
    heads_forget(s->heads);
}

void server_close(struct server *s)
{
    LIST_EACH(&s->conns, node)
    {
        struct server_conn *c = LIST_ITEM(node, struct server_conn, node);
        write_end(c);
        if (is_owned(c))
            lose_client(c, false);
        else
            conn_close(c, false);
    }
}

void server_free(struct server *s)
{
    if (s == NULL)
        return;
    RM_ASSERT(list_is_empty(&s->conns));
    readbufs_free(s->reads);
    heads_free(s->heads);
    mem_free(s->parts);
    mem_free(s);
}

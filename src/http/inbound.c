/* Answering: the half of the client side's driver that its owner calls.
 *
 *     inbound_head -> out ("HTTP/1.1 200 OK…")          nothing is written yet
 *     inbound_put  -> parts[] (borrowed)
 *     inbound_flush:  writev( out | "1a2b\r\n" | parts… | "\r\n" )      one write for head and first chunk
 *
 * What the socket does not take is copied, into `out`. So is the end of an answer (all of it, where it is whole and
 * not long): it is written when all handlers of the turn have run (why: http/client.c). A write that fails is told by
 * the connection's task, never from inside these calls; until then they do nothing. */
#include "base/mem.h"
#include "http/server_conn.h"

enum {
    OUR_LINES_BYTES = 200,      /* of a head, usually: status, date, framing, connection */
    LATER_BYTES_MAX = 16 * 1024 /* of an answer's end that is copied, to be written later */
};

static struct server_conn *conn_of(struct inbound *in)
{
    return RM_CONTAINER(in, struct server_conn, inbound);
}

static struct iovec vector(struct bytes b)
{
    return (struct iovec){.iov_base = (void *)(uintptr_t)b.p, .iov_len = b.n};
}

/* Drops `took` bytes from the front of v[*at … n), and empty vectors. */
static void advance(struct iovec *v, int *at, int n, size_t took)
{
    while (*at < n && took >= v[*at].iov_len) {
        took -= v[*at].iov_len;
        ++*at;
    }
    if (*at < n) {
        v[*at].iov_base = (char *)v[*at].iov_base + took;
        v[*at].iov_len -= took;
    }
}

static void keep_rest(struct server_conn *c, const struct iovec *v, int at, int n)
{
    if (at == 0) {
        c->out_at = c->out.n - v[0].iov_len;
        at = 1;
    } else {
        buf_clear(&c->out);
        c->out_at = 0;
    }
    for (int i = at; i < n; i++)
        (void)buf_put(&c->out, bytes_from(v[i].iov_base, v[i].iov_len));
    if (c->out_at > CONN_HIGH_BYTES && c->out_at > c->out.n / 2) {
        buf_drop(&c->out, c->out_at);
        c->out_at = 0;
    }
    if (conn_pending(c) == 0) {
        buf_fini(&c->out);
        c->out_at = 0;
    }
}

static void break_off(struct server_conn *c)
{
    c->is_broken = true;
    buf_fini(&c->out);
    c->out_at = 0;
    loop_post(conn_loop(c), &c->task);
}

/* The stall clock runs only while bytes wait, and begins again with every byte that goes. */
static void watch_stall(struct server_conn *c, bool has_moved)
{
    if (c->sm.state != CONN_ANSWERING && c->sm.state != CONN_FINISHING)
        return;
    if (conn_pending(c) == 0)
        conn_set_deadline(c, 0);
    else if (has_moved || c->deadline_us == 0)
        conn_set_deadline(c, loop_now_us(conn_loop(c)) + (uint64_t)conn_stall_ms(c) * 1000);
}

void conn_push(struct server_conn *c, struct iovec *v, int n)
{
    if (c->is_broken)
        return;
    bool has_moved = false;
    int at = 0;
    v[0] = vector(bytes_slice(buf_bytes(&c->out), c->out_at, c->out.n));
    advance(v, &at, n, 0);
    while (at < n && !c->is_blocked) {
        size_t took = 0;
        enum io r = stream_write(c->stream, v + at, n - at, &took);
        if (r == IO_AGAIN) {
            c->is_blocked = true;
        } else if (r == IO_OK) {
            has_moved = has_moved || took > 0;
            advance(v, &at, n, took);
        } else {
            break_off(c);
            return;
        }
    }
    if (at < n || c->out.n > 0)
        keep_rest(c, v, at, n);
    watch_stall(c, has_moved);
    c->is_full = c->is_full || conn_pending(c) > CONN_HIGH_BYTES;
}

/* For the connection's task to write. */
static void keep(struct server_conn *c, struct iovec *v, int n)
{
    v[0] = vector(bytes_slice(buf_bytes(&c->out), c->out_at, c->out.n));
    keep_rest(c, v, 0, n);
}

static bool has_no_body_by_status(unsigned status)
{
    return status < 200 || status == 204 || status == 304;
}

static void put_length(struct buf *out, uint64_t length)
{
    buf_add(out, BYTES("content-length: "));
    (void)buf_put_u64(out, length);
    buf_add(out, BYTES("\r\n"));
}

static void put_framing(struct server_conn *c, unsigned status, enum inbound_body kind, uint64_t length)
{
    struct buf *out = &c->out;
    c->is_bodyless =
        kind == INBOUND_NO_BODY || has_no_body_by_status(status) || bytes_is(c->inbound.head->method, "HEAD");
    c->is_chunked = kind == INBOUND_STREAM && !c->is_of_minor_0;
    c->length_left = kind == INBOUND_LENGTH ? length : UINT64_MAX;
    if (has_no_body_by_status(status))
        return;
    if (kind == INBOUND_STREAM && c->is_chunked)
        head_put_field(out, "transfer-encoding", BYTES("chunked"));
    else if (kind != INBOUND_STREAM)
        put_length(out, kind == INBOUND_LENGTH ? length : 0);
    else if (!c->is_bodyless)
        c->must_close = true;
}

/* Status line and date. */
static void put_start(struct server_conn *c, unsigned status)
{
    const char *start = conn_start_lines(c);
    if (status == 200) {
        buf_add(&c->out, bytes_from(start, CONN_START_BYTES));
        return;
    }
    head_put_status(&c->out, status);
    (void)buf_put(&c->out, bytes_from(start + CONN_OK_LINE_BYTES, CONN_DATE_LINE_BYTES));
}

struct buf *inbound_open_head(struct inbound *in, unsigned status, enum inbound_body kind, uint64_t length,
                              size_t fields_bytes)
{
    struct server_conn *c = conn_of(in);
    RM_ASSERT(c->sm.state == CONN_WAITING);
    RM_ASSERT(status >= 200 && status <= 999);
    conn_move(c, CONN_ANSWERING);
    if (c->is_broken)
        return &c->out; /* emptied again by inbound_close_head */
    c->must_close = c->must_close || conn_must_close(c);
    bool is_short = kind == INBOUND_LENGTH && length <= LATER_BYTES_MAX;
    (void)buf_reserve(&c->out, OUR_LINES_BYTES + fields_bytes + (is_short ? (size_t)length : 0));
    put_start(c, status);
    put_framing(c, status, kind, length);
    if (c->must_close)
        head_put_field(&c->out, "connection", BYTES("close"));
    else if (c->is_of_minor_0)
        head_put_field(&c->out, "connection", BYTES("keep-alive"));
    return &c->out;
}

void inbound_close_head(struct inbound *in)
{
    struct server_conn *c = conn_of(in);
    if (c->is_broken)
        buf_fini(&c->out);
    else
        head_put_end(&c->out);
}

void inbound_head(struct inbound *in, unsigned status, enum inbound_body kind, uint64_t length, struct bytes fields)
{
    (void)buf_put(inbound_open_head(in, status, kind, length, fields.n), fields);
    inbound_close_head(in);
}

void inbound_put(struct inbound *in, struct bytes part)
{
    struct server_conn *c = conn_of(in);
    RM_ASSERT(c->sm.state == CONN_ANSWERING);
    if (part.n == 0 || c->is_broken)
        return;
    RM_ASSERT(part.n <= c->length_left || c->length_left == UINT64_MAX);
    bool is_short = c->length_left <= LATER_BYTES_MAX;
    if (c->length_left != UINT64_MAX)
        c->length_left -= part.n;
    if (c->is_bodyless)
        return;
    if (is_short && c->n_parts == 0) { /* what would be copied at the end in any case */
        (void)buf_put(&c->out, part);
        return;
    }
    struct bytes *last = c->n_parts > 0 ? &c->parts[c->n_parts - 1] : NULL;
    bool is_next = last != NULL && last->p + last->n == part.p; /* neighbours in one buffer are one part */
    if (!is_next && c->n_parts == CONN_PARTS_MAX)
        inbound_flush(in);
    if (c->n_parts == 0)
        conn_borrow_parts(c);
    if (is_next)
        last->n += part.n;
    else
        c->parts[c->n_parts++] = part;
    c->part_bytes += part.n;
}

/* What waits, in v (room for CONN_PARTS_MAX + 3) from v[1] on; v[0] is conn_push's. Returns how many. */
static int gather(struct server_conn *c, bool is_last, char size[BODY_CHUNK_HEAD_BYTES], struct iovec *v)
{
    int n = 1;
    bool has_chunk = c->is_chunked && c->part_bytes > 0;
    if (has_chunk)
        v[n++] = vector(bytes_from(size, body_chunk_head(size, c->part_bytes)));
    for (size_t i = 0; i < c->n_parts; i++)
        v[n++] = vector(c->parts[i]);
    struct bytes tail = BYTES("");
    if (is_last && c->is_chunked && !c->is_bodyless)
        tail = has_chunk ? BYTES("\r\n0\r\n\r\n") : BYTES("0\r\n\r\n");
    else if (has_chunk)
        tail = BYTES("\r\n");
    if (tail.n > 0)
        v[n++] = vector(tail);
    conn_give_parts(c);
    c->part_bytes = 0;
    return n;
}

void inbound_flush(struct inbound *in)
{
    struct server_conn *c = conn_of(in);
    struct iovec v[CONN_PARTS_MAX + 3];
    char size[BODY_CHUNK_HEAD_BYTES];
    RM_ASSERT(c->sm.state == CONN_ANSWERING);
    int n = gather(c, false, size, v);
    conn_push(c, v, n);
}

/* (Where the socket is full, something waits; and where it is broken, it takes nothing.) */
static bool is_free(const struct server_conn *c)
{
    return c->sm.state == CONN_ANSWERING && c->n_parts == 0 && c->out.n == 0 && c->deadline_us == 0 && c->is_chunked &&
           !c->is_bodyless;
}

/* False: the rest of it waits. */
static bool send_chunk(struct server_conn *c, struct bytes chunk)
{
    struct iovec v[2] = {{0}, vector(chunk)}; /* v[0] is conn_push's */
    size_t took = 0;
    enum io r = stream_write(c->stream, v + 1, 1, &took);
    if (r == IO_OK && took == chunk.n)
        return true;
    c->is_blocked = r == IO_AGAIN;
    v[1] = vector(bytes_slice(chunk, took, chunk.n));
    conn_push(c, v, 2);
    return false;
}

bool inbound_send(struct inbound *in, const struct bytes parts[INBOUND_SEND_PARTS])
{
    struct server_conn *c = conn_of(in);
    char chunk[BODY_CHUNK_HEAD_BYTES + INBOUND_SEND_BYTES_MAX + 2];
    size_t n_body = parts[0].n + parts[1].n + parts[2].n;
    if (!is_free(c) || parts[0].n == 0 || n_body > INBOUND_SEND_BYTES_MAX) {
        for (size_t i = 0; i < INBOUND_SEND_PARTS; i++)
            inbound_put(in, parts[i]);
        return false;
    }
    size_t n = body_chunk_head(chunk, n_body);
    for (size_t i = 0; i < INBOUND_SEND_PARTS; n += parts[i++].n)
        if (parts[i].n > 0)
            memcpy(chunk + n, parts[i].p, parts[i].n);
    memcpy(chunk + n, "\r\n", 2);
    return send_chunk(c, bytes_from(chunk, n + 2));
}

bool inbound_pass(struct inbound *in, struct bytes part, struct bytes framed)
{
    struct server_conn *c = conn_of(in);
    if (is_free(c))
        return send_chunk(c, framed);
    inbound_put(in, part);
    return false;
}

/* The parts, and what ends a chunked body. */
static void put_last(struct server_conn *c)
{
    struct iovec v[CONN_PARTS_MAX + 3];
    char size[BODY_CHUNK_HEAD_BYTES];
    bool is_short = c->part_bytes <= LATER_BYTES_MAX && !c->is_broken;
    int n = gather(c, true, size, v);
    if (is_short)
        keep(c, v, n);
    else
        conn_push(c, v, n);
}

void inbound_end(struct inbound *in)
{
    struct server_conn *c = conn_of(in);
    RM_ASSERT(c->sm.state == CONN_ANSWERING);
    RM_ASSERT(c->is_broken || c->is_bodyless || c->length_left == 0 || c->length_left == UINT64_MAX);
    conn_move(c, CONN_FINISHING);
    if (c->n_parts > 0 || c->is_chunked)
        put_last(c);
    loop_post(conn_loop(c), &c->task);
}

void inbound_abort(struct inbound *in)
{
    struct server_conn *c = conn_of(in);
    RM_ASSERT(c->sm.state == CONN_WAITING || c->sm.state == CONN_ANSWERING);
    conn_close(c, true);
}

bool inbound_is_full(const struct inbound *in)
{
    return conn_of((struct inbound *)(uintptr_t)in)->is_full;
}

bool inbound_head_sent(const struct inbound *in)
{
    unsigned state = conn_of((struct inbound *)(uintptr_t)in)->sm.state;
    return state == CONN_ANSWERING || state == CONN_FINISHING;
}

void inbound_drop_request(struct inbound *in)
{
    conn_drop_asked(conn_of(in));
    in->body = (struct bytes){0};
}

/* Two stream ends in memory that behave like a TCP connection on one loop: bounded, edge-triggered, with FIN and RST.
 *
 *     a ---write---> [ b's ring ] ---read---> b        and the same the other way round
 *
 * The bytes on their way belong to the reader, so that what was written before a close can still be read after it. */
#include "base/mem.h"
#include "net/stream_impl.h"

struct pipe_end {
    struct stream stream;  /* first */
    struct pipe_end *peer; /* NULL = it has closed */
    char *ring;            /* bytes that wait to be read here */
    size_t cap, at, n;
    bool is_ended;  /* the peer writes no more */
    bool is_reset;  /* the peer has gone with a reset */
    bool is_shut;   /* we write no more */
    bool was_short; /* a write of ours did not fit: tell when there is room */
};

static struct pipe_end *pipe_of(const struct stream *s)
{
    return (struct pipe_end *)(void *)(uintptr_t)s;
}

static size_t at_most(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum io pipe_read(struct stream *s, void *buf, size_t cap, size_t *n)
{
    struct pipe_end *p = pipe_of(s);
    if (p->is_reset) {
        s->error = "connection reset";
        return IO_ERROR;
    }
    if (p->n == 0)
        return p->is_ended ? IO_EOF : IO_AGAIN;
    size_t take = at_most(cap, p->n);
    size_t first = at_most(take, p->cap - p->at);
    memcpy(buf, p->ring + p->at, first);
    memcpy((char *)buf + first, p->ring, take - first);
    p->at = (p->at + take) % p->cap;
    p->n -= take;
    *n = take;
    if (p->peer != NULL && p->peer->was_short) {
        p->peer->was_short = false;
        stream_raise(&p->peer->stream, LOOP_WRITE);
    }
    if (p->n == 0 && take < cap && p->is_ended)
        stream_raise(s, LOOP_READ); /* the end stands behind a short read */
    return IO_OK;
}

static void ring_put(struct pipe_end *p, const char *from, size_t n)
{
    size_t end = (p->at + p->n) % p->cap;
    size_t first = at_most(n, p->cap - end);
    memcpy(p->ring + end, from, first);
    memcpy(p->ring, from + first, n - first);
    p->n += n;
}

static enum io pipe_write(struct stream *s, const struct iovec *v, int n_v, size_t *n)
{
    struct pipe_end *p = pipe_of(s);
    struct pipe_end *to = p->peer;
    size_t wanted = 0;
    if (p->is_reset || to == NULL || p->is_shut) {
        s->error = p->is_reset ? "connection reset" : "the peer has closed the connection";
        return IO_ERROR;
    }
    for (int i = 0; i < n_v; i++) {
        size_t take = at_most(v[i].iov_len, to->cap - to->n);
        wanted += v[i].iov_len;
        if (take > 0)
            ring_put(to, v[i].iov_base, take);
        *n += take;
    }
    p->was_short = *n < wanted;
    if (*n > 0)
        stream_raise(&to->stream, LOOP_READ);
    return *n == 0 && wanted > 0 ? IO_AGAIN : IO_OK;
}

static void end_writing(struct pipe_end *p)
{
    if (p->is_shut)
        return;
    p->is_shut = true;
    if (p->peer != NULL) {
        p->peer->is_ended = true;
        stream_raise(&p->peer->stream, LOOP_READ);
    }
}

static void pipe_close(struct stream *s, bool reset)
{
    struct pipe_end *p = pipe_of(s);
    struct pipe_end *peer = p->peer;
    end_writing(p);
    if (peer != NULL) {
        peer->peer = NULL;
        peer->is_reset = reset;
        stream_raise(&peer->stream, LOOP_READ | LOOP_WRITE);
    }
    p->peer = NULL;
    mem_free(p->ring);
    p->ring = NULL;
}

static void pipe_shutdown(struct stream *s)
{
    end_writing(pipe_of(s));
}

static size_t pipe_unacked(const struct stream *s)
{
    return 0;
}

static bool pipe_is_stale(struct stream *s)
{
    struct pipe_end *p = pipe_of(s);
    return p->n > 0 || p->is_ended || p->is_reset;
}

static const struct stream_class pipe_class = {
    .read = pipe_read,
    .write = pipe_write,
    .close = pipe_close,
    .shutdown = pipe_shutdown,
    .unacked = pipe_unacked,
    .is_stale = pipe_is_stale,
};

static struct pipe_end *end_new(struct loop *l, size_t cap)
{
    struct pipe_end *p = mem_zalloc(sizeof *p);
    stream_init(&p->stream, &pipe_class, l);
    p->ring = mem_alloc(cap);
    p->cap = cap;
    p->stream.pending = LOOP_WRITE;
    return p;
}

void stream_pipe(struct loop *l, size_t cap, struct stream **a, struct stream **b)
{
    RM_ASSERT(cap > 0);
    struct pipe_end *x = end_new(l, cap), *y = end_new(l, cap);
    x->peer = y;
    y->peer = x;
    *a = &x->stream;
    *b = &y->stream;
}

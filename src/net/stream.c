/* The part of a stream that does not depend on its kind: who is told, when, and how it goes away. */
#include "net/stream_impl.h"

#include "base/mem.h"

#include <errno.h>

static void deliver(struct task *t)
{
    struct stream *s = RM_CONTAINER(t, struct stream, task);
    stream_dispatch(s, 0);
}

void stream_give_back(struct reap *r)
{
    struct stream *s = RM_CONTAINER(r, struct stream, reap);
    mem_count(MEM_STREAM, -1);
    mem_free(s);
}

void stream_init(struct stream *s, const struct stream_class *class, struct loop *l)
{
    s->class = class;
    s->loop = l;
    s->task.fn = deliver;
    list_init(&s->task.node);
    s->error = "";
    mem_count(MEM_STREAM, 1);
}

void stream_dispatch(struct stream *s, unsigned ready)
{
    unsigned all = s->pending | ready;
    if (s->is_closed || all == 0)
        return;
    if (s->fn == NULL) {
        s->pending = (uint8_t)all;
        return;
    }
    if (s->pending != 0)
        task_cancel(&s->task);
    s->pending = 0;
    s->fn(s, all, s->arg);
}

void stream_raise(struct stream *s, unsigned ready)
{
    if (s->is_closed)
        return;
    s->pending |= (uint8_t)ready;
    if (s->pending != 0 && s->fn != NULL)
        loop_post(s->loop, &s->task);
}

void stream_on_ready(struct stream *s, stream_ready_fn *fn, void *arg)
{
    RM_ASSERT(!s->is_closed);
    s->fn = fn;
    s->arg = arg;
    if (fn == NULL)
        task_cancel(&s->task);
    else
        stream_raise(s, 0);
}

void stream_read_ahead(struct stream *s)
{
    s->reads_ahead = true;
}

enum io stream_read(struct stream *s, void *buf, size_t cap, size_t *n)
{
    RM_ASSERT(!s->is_closed && cap > 0);
    *n = 0;
    return s->class->read(s, buf, cap, n);
}

enum io stream_write(struct stream *s, const struct iovec *v, int n_v, size_t *n)
{
    RM_ASSERT(!s->is_closed && n_v > 0);
    *n = 0;
    return s->class->write(s, v, n_v, n);
}

void stream_close(struct stream *s, bool reset)
{
    if (s == NULL)
        return;
    RM_ASSERT(!s->is_closed);
    s->is_closed = true;
    s->fn = NULL;
    task_cancel(&s->task);
    s->reap = (struct reap){.fn = stream_give_back};
    s->class->close(s, reset);
    loop_reap(s->loop, &s->reap);
}

void stream_shutdown(struct stream *s)
{
    RM_ASSERT(!s->is_closed);
    s->class->shutdown(s);
}

const char *stream_error(const struct stream *s)
{
    return s->error;
}

size_t stream_unacked(const struct stream *s)
{
    return s->is_closed ? 0 : s->class->unacked(s);
}

bool stream_is_stale(struct stream *s)
{
    return s->is_closed || s->class->is_stale(s);
}

const char *stream_errno_text(int e)
{
    switch (e) {
    case ECONNREFUSED:
        return "connection refused";
    case ECONNRESET:
        return "connection reset";
    case ECONNABORTED:
        return "connection aborted";
    case EPIPE:
        return "the peer has closed the connection";
    case ETIMEDOUT:
        return "connection timed out";
    case EHOSTUNREACH:
        return "no route to host";
    case ENETUNREACH:
    case ENETDOWN:
        return "network unreachable";
    case EADDRNOTAVAIL:
        return "no local address for it";
    case EAFNOSUPPORT:
        return "address family not supported";
    case EACCES:
    case EPERM:
        return "not permitted";
    case EMFILE:
    case ENFILE:
        return "out of file descriptors";
    case ENOBUFS:
    case ENOMEM:
        return "out of socket memory";
    default:
        return "input or output failed";
    }
}

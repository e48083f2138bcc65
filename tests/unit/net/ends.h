/* A stream's owner for tests: gathers what comes in and remembers how it ended. */
#ifndef RM_TESTS_UNIT_NET_ENDS_H
#define RM_TESTS_UNIT_NET_ENDS_H

#include "base/buf.h"
#include "net/listen.h"
#include "net/stream.h"

#include <unistd.h>

enum { TURNS_MAX = 2000 };

struct end {
    struct stream *stream;
    struct buf in;
    enum io last; /* of the last read */
    int n_ready;
    unsigned ready;
    bool is_paused;
};

static inline void end_drain(struct end *e)
{
    char buf[5000];
    size_t n = 0;
    do {
        e->last = stream_read(e->stream, buf, sizeof buf, &n);
        if (e->last == IO_OK)
            buf_put(&e->in, bytes_from(buf, n));
    } while (e->last == IO_OK && n == sizeof buf); /* a short read is the last one */
}

static inline void end_on_ready(struct stream *s, unsigned ready, void *arg)
{
    struct end *e = arg;
    e->n_ready++;
    e->ready |= ready;
    if ((ready & LOOP_READ) && !e->is_paused)
        end_drain(e);
}

static inline void end_attach(struct end *e, struct stream *s)
{
    e->stream = s;
    e->last = IO_AGAIN;
    stream_on_ready(s, end_on_ready, e);
}

static inline void end_close(struct end *e, bool reset)
{
    if (e->stream)
        stream_close(e->stream, reset);
    e->stream = NULL;
    buf_fini(&e->in);
}

static inline enum io end_write(struct end *e, const char *text, size_t n, size_t *put)
{
    struct iovec v = {(void *)(uintptr_t)text, n};
    return stream_write(e->stream, &v, 1, put);
}

/* Turns until `cond`; bounded. */
#define TURN_UNTIL(loop, cond)                            \
    do {                                                  \
        for (int i_ = 0; i_ < TURNS_MAX && !(cond); i_++) \
            loop_turn((loop), 100000);                    \
        assert_true(cond);                                \
    } while (0)

/* A listener on 127.0.0.1 with a port of the kernel's choice. */
static inline int listen_somewhere(uint16_t *port)
{
    struct listen_address a;
    char message[200];
    int fd = -1;
    *port = 0;
    if (!listen_address_parse(BYTES("127.0.0.1:0"), &a) || listen_open(&a, 1, &fd, message, sizeof message) != ERR_OK)
        return -1;
    *port = a.port;
    return fd;
}

/* Waits for a connection on a non-blocking listener by turning the loop. */
static inline int accept_one(struct loop *l, int listener)
{
    int fd = -1;
    for (int i = 0; i < TURNS_MAX && fd < 0; i++) {
        fd = listen_accept(listener);
        if (fd < 0)
            loop_turn(l, 1000);
    }
    return fd;
}

#endif

/* What the kinds of stream (TCP, TLS, pipe) have in common, and the few functions in which they differ. Private to this
 * room; each kind embeds struct stream as its first member.
 *
 * Readiness travels on two ways: an event of the loop calls the owner straight away (stream_dispatch); what is found
 * out inside a call of the owner's is queued and comes later in the turn (stream_raise). What nobody has taken yet
 * stays in `pending` until an owner sets on_ready. */
#ifndef RM_NET_STREAM_IMPL_H
#define RM_NET_STREAM_IMPL_H

#include "net/stream.h"

struct stream_class {
    enum io (*read)(struct stream *s, void *buf, size_t cap, size_t *n);
    enum io (*write)(struct stream *s, const struct iovec *v, int n_v, size_t *n);
    /* Lets go of everything but the struct itself; for what goes with that, reap.fn may be one that calls
     * stream_give_back at its end. */
    void (*close)(struct stream *s, bool reset);
    void (*shutdown)(struct stream *s);
    size_t (*unacked)(const struct stream *s);
    bool (*is_stale)(struct stream *s);
};

struct stream {
    const struct stream_class *class;
    struct loop *loop;
    stream_ready_fn *fn;
    void *arg;
    const char *error;
    union {
        struct task task; /* delivers `pending` */
        struct reap reap; /* once it is closed */
    };
    uint8_t pending;
    bool is_closed;
    bool reads_ahead; /* its owner does */
};

/* s is the first member of an object from mem_zalloc, which stream_close gives back. */
void stream_init(struct stream *s, const struct stream_class *class, struct loop *l);
void stream_give_back(struct reap *r);
/* Tells the owner now; only from a loop event. */
void stream_dispatch(struct stream *s, unsigned ready);
/* Tells the owner later in this turn. */
void stream_raise(struct stream *s, unsigned ready);
/* Short static text of an errno. */
const char *stream_errno_text(int e);

#endif

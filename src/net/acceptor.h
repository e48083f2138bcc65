/* Takes the connections of one listening descriptor, a bounded number a turn. While the process has no descriptor left
 * it pauses: the listener would be ready again at once, and again. */
#ifndef RM_NET_ACCEPTOR_H
#define RM_NET_ACCEPTOR_H

#include "loop/loop.h"
#include "net/stream.h"

/* Embedded in its owner, who sets the two functions. */
struct acceptor {
    void (*on_stream)(struct acceptor *a, struct stream *s); /* the stream is the owner's */
    /* The process is short of descriptors. is_news: it was not when last asked. NULL = need not be told. */
    void (*on_short)(struct acceptor *a, bool is_news);
    struct loop *loop;
    int fd;
    bool is_short;
    struct watch watch;
    struct timer pause;
};

/* fd stays the caller's, to be closed after acceptor_close. ERR_IO: the kernel refuses to watch it. */
enum err acceptor_open(struct acceptor *a, struct loop *l, int fd) RM_MUST_USE;
/* Harmless when not open. */
void acceptor_close(struct acceptor *a);

#endif

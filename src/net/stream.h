/* A byte stream: TCP, TLS over TCP, or an in-memory pipe for tests. Non-blocking; serves both sides of the gateway.
 *
 * Edge-triggered: after on_ready(READ) read until IO_AGAIN (or a short read) before waiting again; the same for write.
 * Nothing is called from inside stream_read, stream_write or stream_close. */
#ifndef RM_NET_STREAM_H
#define RM_NET_STREAM_H

#include "base/bytes.h"
#include "loop/loop.h"

#include <sys/uio.h>

struct stream;

enum io {
    IO_OK,    /* some bytes moved */
    IO_AGAIN, /* would block: on_ready will come */
    IO_EOF,   /* read only: the peer has finished sending (FIN, TLS close_notify) */
    IO_ERROR  /* reset, broken TLS record, TLS truncation; stream_error() has a word */
};

/* `ready`: LOOP_READ / LOOP_WRITE bits, and LOOP_HANGUP (with LOOP_READ) where the peer's end was seen.
 * Set by the stream's owner. */
typedef void stream_ready_fn(struct stream *s, unsigned ready, void *arg);
void stream_on_ready(struct stream *s, stream_ready_fn *fn, void *arg);
/* The owner, who stays the same from here on, also takes LOOP_ASK and LOOP_AHEAD (see loop.h): he may read now, and
 * do nothing else; later in the turn, that what he has read then is all there is. They come of TCP only. */
void stream_read_ahead(struct stream *s);

/* Reads at most cap bytes; *n is set on IO_OK (> 0). A short read (n < cap) need not be followed by another try. */
enum io stream_read(struct stream *s, void *buf, size_t cap, size_t *n);
/* Writes from the vectors; *n bytes were taken on IO_OK, maybe fewer than all. The next write begins with what was not
 * taken, and brings no fewer bytes than that, for a TLS record may hold them sealed already; one with fewer may
 * fail. */
enum io stream_write(struct stream *s, const struct iovec *v, int n_v, size_t *n);
/* Closes at once, in two steps: nothing is dispatched afterwards, memory goes at the end of the turn. With `reset` the
 * peer sees a RST (used to cancel: unread data must not linger), else FIN. */
void stream_close(struct stream *s, bool reset);
/* Half-close: no more writes. */
void stream_shutdown(struct stream *s);

/* Short static or stream-owned text of the last IO_ERROR: "connection reset", "certificate verify failed: …". */
const char *stream_error(const struct stream *s);
/* Bytes written that the peer's kernel has not acknowledged yet (SIOCOUTQ), to tell a dead reused connection; 0 when
 * unknown. */
size_t stream_unacked(const struct stream *s);
/* True when bytes are readable without waiting, or the peer has closed: an idle pooled connection in this state is
 * stale. What came since the loop last looked is not seen yet: asking is free, and a request that meets such a
 * connection is replayed (DESIGN 3.6a). */
bool stream_is_stale(struct stream *s);

/* Wraps an accepted descriptor (owned from here on): sets non-blocking, TCP_NODELAY, keepalive. NULL + ERR on failure,
 * the fd is closed then. */
enum err stream_accept(struct loop *l, int fd, struct stream **out) RM_MUST_USE;
/* Two connected in-memory ends on one loop; each buffers at most cap bytes per direction. For tests. */
void stream_pipe(struct loop *l, size_t cap, struct stream **a, struct stream **b);

#endif

/* What has come over a plain stream and has not been used yet. Between two calls of the owner's only as much is kept as
 * really waits, which is nothing or a piece of a record; within a call it lies in room that the owner lends.
 *
 * `is_dry` remembers that the plain stream gave less than was asked for: until its next edge nobody asks again. */
#ifndef RM_NET_TLS_WIRE_H
#define RM_NET_TLS_WIRE_H

#include "net/stream.h"
#include "net/tls13.h"

struct tls_wire {
    struct stream *plain;
    char *p; /* lent, or a block of our own, or NULL with nothing in it */
    uint32_t at, end;
    bool is_lent;
    bool is_dry, is_at_eof; /* of the plain stream */
    bool is_broken;         /* stream_error(plain) says why */
};

/* Room for TLS13_WIRE_MAX bytes, until tls_wire_settle. */
void tls_wire_lend(struct tls_wire *w, char *room);
void tls_wire_settle(struct tls_wire *w);
/* Reads as much as there is room for; only while it is lent room and is not full. IO_OK: something has come. */
enum io tls_wire_fill(struct tls_wire *w);
void tls_wire_fini(struct tls_wire *w);

static inline struct bytes tls_wire_bytes(const struct tls_wire *w)
{
    return bytes_from(w->p + w->at, w->end - w->at);
}
static inline void tls_wire_use(struct tls_wire *w, size_t n)
{
    w->at += (uint32_t)n;
}

#endif

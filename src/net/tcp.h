/* TCP towards a provider, before it is a usable stream. Private to this room: dial.c races these. */
#ifndef RM_NET_TCP_H
#define RM_NET_TCP_H

#include "net/resolver.h"
#include "net/stream.h"

/* Begins to connect. ERR_OK: *out reports LOOP_WRITE (or an error: both bits) when tcp_connect_result is known. On
 * failure *errno_out says why and nothing is left behind. */
enum err tcp_connect(struct loop *l, const struct address *to, struct stream **out, int *errno_out) RM_MUST_USE;
/* 0 = connected, EINPROGRESS = not yet, else the errno of the failure. */
int tcp_connect_result(struct stream *s);
/* Whom it is connected to, e.g. "127.0.0.1:9101"; at most cap bytes. */
void tcp_peer(const struct stream *s, char *out, size_t cap);

#endif

/* A TLS 1.3 connection once the handshake is over (RFC 8446 §4.6, §5, §6). The handshake is OpenSSL's: versions, keys,
 * certificates, sessions. What comes after it is little: sealed records, tickets, KeyUpdate, alerts. It is done here
 * because a connection of OpenSSL's takes 14 KB for as long as it lives, most of it of no use after the handshake, and
 * a gateway holds thousands that wait; this takes 3 KB, 2 of them OpenSSL's ciphers (docs/decisions/0005).
 *
 * Tickets are for OpenSSL, which alone can make sessions of them: it is kept until the first data, since servers send
 * them straight after the handshake. Later ones are let go unread. */
#ifndef RM_NET_TLS_RECORDS_H
#define RM_NET_TLS_RECORDS_H

#include "net/tls_impl.h"
#include "net/tls_wire.h"

struct tls_records;

/* The client's end, from the traffic secrets of both (copied, suite->secret_bytes long). NULL when OpenSSL refuses. */
struct tls_records *tls_records_new(const struct tls13_suite *suite, const uint8_t *client, const uint8_t *server);
/* `shake` (taken over) has just ended its handshake and learns the tickets that come before the first data. */
void tls_records_take_tickets(struct tls_records *r, struct tls_shake *shake);
/* NULL is fine. */
void tls_records_free(struct tls_records *r);

/* As stream_read, but a short read says nothing; w is lent room. IO_EOF: close_notify. IO_ERROR: fatal. */
enum io tls_records_read(struct tls_records *r, struct tls_wire *w, void *buf, size_t cap, size_t *n);
/* At most TLS13_PLAIN_MAX bytes at once, all or none. After IO_AGAIN the next call must come with the same bytes (more
 * may follow them): they are sealed already. Fewer are an error. */
enum io tls_records_write(struct tls_records *r, struct tls_wire *w, struct bytes b, size_t *n);
/* close_notify, if it can be sent at once. */
void tls_records_goodbye(struct tls_records *r, struct tls_wire *w);
/* Static text after IO_ERROR; NULL where the plain stream is at fault. Where it is the peer's alert, it is the alert's
 * name alone. */
const char *tls_records_error(const struct tls_records *r);
bool tls_records_is_peers_alert(const struct tls_records *r);

#endif

/* The server's side of TLS for a pretend provider, over a plain stream: TLS 1.2 or newer, one certificate, http/1.1
 * where the client offers names. It stands here and not in net/, whose TLS is the gateway's own way to its providers.
 */
#ifndef RM_LAB_MOCK_TLS_H
#define RM_LAB_MOCK_TLS_H

#include "base/err.h"
#include "net/stream.h"

struct mock_tls;     /* what all connections share */
struct mock_tls_end; /* one connection */

/* PEM files. ERR_IO: message says which one is wrong. */
enum err mock_tls_new(const char *cert_file, const char *key_file, struct mock_tls **out, char *message,
                      size_t message_cap) RM_MUST_USE;
void mock_tls_free(struct mock_tls *t); /* NULL too */

/* `plain` stays the caller's and must outlive the end. Never NULL. */
struct mock_tls_end *mock_tls_open(struct mock_tls *t, struct stream *plain);
/* Does not touch the stream; with `says_goodbye` close_notify is written first, as far as the kernel takes it. */
void mock_tls_close(struct mock_tls_end *e, bool says_goodbye);
/* As stream_read and stream_write; the handshake happens inside. A short read means that nothing is left. */
enum io mock_tls_read(struct mock_tls_end *e, void *to, size_t cap, size_t *n);
enum io mock_tls_write(struct mock_tls_end *e, struct bytes b, size_t *n);
/* Hands to the kernel what is still encrypted and waiting: when the stream can be written again. */
enum io mock_tls_flush(struct mock_tls_end *e);

#endif

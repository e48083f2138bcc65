/* TLS to providers: OpenSSL 3, verification on, SNI, TLS 1.2 or newer, ALPN http/1.1, sessions resumed,
 * SSL_MODE_RELEASE_BUFFERS. One certificate store per CA file, shared by all cores; contexts are made at config load.
 */
#ifndef RM_NET_TLS_H
#define RM_NET_TLS_H

#include "base/err.h"
#include "net/stream.h"

struct tls_context;

/* ca_file NULL = the system's store. On failure *message (static or thread-local) says why. Any thread; the context may
 * be shared by loops. Reference counted: tls_context_unref when the last connection that uses it may still be open. */
enum err tls_context_new(const char *ca_file, struct tls_context **out, const char **message) RM_MUST_USE;
struct tls_context *tls_context_ref(struct tls_context *c);
void tls_context_unref(struct tls_context *c);

/* Wraps a connected plain stream (ownership moves) as a client; the handshake runs by itself. done is called once from
 * the loop: message NULL = ready. Cancel by stream_close on the returned stream. */
typedef void tls_done_fn(struct stream *s, const char *message, void *arg);
struct stream *tls_connect(struct loop *l, struct tls_context *c, struct stream *plain, const char *server_name,
                           tls_done_fn *done, void *arg);

#endif

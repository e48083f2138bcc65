/* Connects: name -> addresses (resolver) -> race (RFC 8305: next address after 250 ms or at once when one refuses,
 * families interleaved) -> TLS handshake -> stream. Nothing blocks the loop. A literal address bypasses the resolver.
 */
#ifndef RM_NET_DIAL_H
#define RM_NET_DIAL_H

#include "net/resolver.h"
#include "net/stream.h"
#include "net/tls.h"

struct dial;

enum dial_failure { DIAL_OK, DIAL_DNS, DIAL_REFUSED /* or unreachable, reset */, DIAL_TLS, DIAL_NO_DESCRIPTORS };

struct dial_result {
    struct stream *stream; /* owned by the callee on DIAL_OK */
    enum dial_failure failure;
    char message[160]; /* for people; no secrets */
};
/* Called once, from the loop, unless the dial was cancelled. The dial is gone afterwards. */
typedef void dial_fn(const struct dial_result *r, void *arg);

/* host: name or literal (IPv6 without brackets). tls NULL = plain. server_name goes into SNI and verification. The
 * caller owns the time limit: it cancels. */
struct dial *dial_start(struct loop *l, struct resolver *r, struct tls_context *tls, const char *host, uint16_t port,
                        dial_fn *fn, void *arg);
/* fn will not be called. */
void dial_cancel(struct dial *d);

#endif

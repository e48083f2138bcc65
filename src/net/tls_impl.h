/* Between the shared context (tls_context.c), the streams made from it (tls.c) and their records (tls_records.c).
 * Private to this room. */
#ifndef RM_NET_TLS_IMPL_H
#define RM_NET_TLS_IMPL_H

#include "net/tls.h"
#include "net/tls13.h"

#include <openssl/ssl.h>

enum { TLS_NAME_BYTES = 256 };

/* What OpenSSL has to do with one connection: the handshake, and the tickets with which a later one can be shorter.
 * Under TLS 1.2 it stays as long as the connection; under TLS 1.3 it goes with the first data (tls_records.h). */
struct tls_shake {
    SSL *ssl;
    uint64_t *session;  /* see tls_shake_new */
    bool frees_buffers; /* see tls_shake_rest */
    /* Traffic secrets of TLS 1.3; n: 0 until they have been told. */
    uint8_t n_client, n_server, client[TLS13_SECRET_MAX], server[TLS13_SECRET_MAX];
    char name[]; /* the server's: sessions are kept under it */
};

/* A client connection that will verify `name` and resumes the last session with it. *session, which outlives it, is the
 * number of the session that it resumes, later of the last one that it got; 0: none. *bio belongs to it and still needs
 * its stream. NULL when the name cannot be verified. */
struct tls_shake *tls_shake_new(struct tls_context *c, const char *name, uint64_t *session, BIO **bio);
/* NULL is fine. */
void tls_shake_free(struct tls_shake *s);
/* Nobody resumes this session any more: its connection has failed (RFC 8446 §6.2). 0, or one that another has taken the
 * place of, is fine. */
void tls_context_forget(struct tls_context *c, uint64_t session);
/* The connection waits. A read buffer of 16 KB stays with it then, whatever SSL_MODE_RELEASE_BUFFERS says;
 * SSL_free_buffers lets it go. Only where that heeds a record whose header alone has come: from 3.0.14, 3.1.6, 3.2.2,
 * 3.3.1 on (OpenSSL's advisory for CVE-2024-4741). */
void tls_shake_rest(struct tls_shake *s);
/* The suite of a TLS 1.3 handshake that is over, if its secrets are known too; else NULL. */
const struct tls13_suite *tls_shake_suite(const struct tls_shake *s, const struct tls_context *c);
/* From here on it reads nothing but what tls_shake_ticket gives it, and can write nothing. */
void tls_shake_detach(struct tls_shake *s);
/* One sealed record, of a ticket or a part of one, in the order they came. False: nothing more can be learned from it.
 */
bool tls_shake_ticket(struct tls_shake *s, struct bytes record);

/* How OpenSSL reads and writes our streams; one per context. */
BIO_METHOD *tls_bio_new(void);

#endif

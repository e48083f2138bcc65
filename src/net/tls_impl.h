/* Between the shared context (tls_context.c) and the streams made from it (tls.c). Private to this room. */
#ifndef RM_NET_TLS_IMPL_H
#define RM_NET_TLS_IMPL_H

#include "net/tls.h"

#include <openssl/ssl.h>

enum { TLS_NAME_BYTES = 256 };

/* A client connection that will verify `name` and resumes the last session with it. `name` must outlive the SSL (it is
 * the key under which new sessions are kept). *bio belongs to it and still needs its stream. NULL when the name cannot
 * be verified (too long). */
SSL *tls_context_ssl(struct tls_context *c, const char *name, BIO **bio);
/* A read buffer of 16 KB stays with a connection that waits, whatever SSL_MODE_RELEASE_BUFFERS says; SSL_free_buffers
 * lets it go. Only where that heeds a record whose header alone has come: from 3.0.14, 3.1.6, 3.2.2, 3.3.1 on
 * (OpenSSL's advisory for CVE-2024-4741). */
bool tls_context_frees_buffers(const struct tls_context *c);
/* How OpenSSL reads and writes our streams; one per context. */
BIO_METHOD *tls_bio_new(void);

#endif

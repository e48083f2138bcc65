/* OpenSSL works on two memory buffers: bytes of the stream are put into one before it reads, and taken out of the other
 * after everything it did.
 *
 *     stream --fill--> in --SSL_read--> owner        owner --SSL_write--> out --mock_tls_flush--> stream
 *
 * One more copy than net/tls.c has, and no need to know how a stream is made inside. */
#include "lab/mock_tls.h"

#include "base/mem.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>

enum { FILL_BYTES = 16384 };

struct mock_tls {
    SSL_CTX *ctx;
};
struct mock_tls_end {
    SSL *ssl;
    BIO *in, *out; /* the SSL's own */
    struct stream *plain;
    bool is_at_end; /* the client has finished sending */
};

static int choose_http1(SSL *ssl, const unsigned char **out, unsigned char *n, const unsigned char *in, unsigned n_in,
                        void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, n, ours, sizeof ours - 1, in, n_in) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

enum err mock_tls_new(const char *cert_file, const char *key_file, struct mock_tls **out, char *message, size_t cap)
{
    struct mock_tls *t = mem_zalloc(sizeof *t);
    *out = NULL;
    ERR_clear_error();
    t->ctx = SSL_CTX_new(TLS_server_method());
    if (t->ctx == NULL || SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION) != 1)
        snprintf(message, cap, "OpenSSL could not be set up");
    else if (SSL_CTX_use_certificate_chain_file(t->ctx, cert_file) != 1)
        snprintf(message, cap, "%s cannot be read or holds no certificate", cert_file);
    else if (SSL_CTX_use_PrivateKey_file(t->ctx, key_file, SSL_FILETYPE_PEM) != 1)
        snprintf(message, cap, "%s cannot be read, or is not the key of the certificate", key_file);
    else
        *out = t;
    ERR_clear_error();
    if (*out == NULL) {
        mock_tls_free(t);
        return ERR_IO;
    }
    SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(t->ctx, choose_http1, NULL);
    return ERR_OK;
}

void mock_tls_free(struct mock_tls *t)
{
    if (t == NULL)
        return;
    SSL_CTX_free(t->ctx);
    mem_free(t);
}

struct mock_tls_end *mock_tls_open(struct mock_tls *t, struct stream *plain)
{
    struct mock_tls_end *e = mem_zalloc(sizeof *e);
    e->plain = plain;
    e->ssl = SSL_new(t->ctx);
    e->in = BIO_new(BIO_s_mem());
    e->out = BIO_new(BIO_s_mem());
    RM_ASSERT(e->ssl != NULL && e->in != NULL && e->out != NULL);
    BIO_set_mem_eof_return(e->in, -1);
    BIO_set_mem_eof_return(e->out, -1);
    SSL_set_bio(e->ssl, e->in, e->out);
    SSL_set_accept_state(e->ssl);
    return e;
}

void mock_tls_close(struct mock_tls_end *e, bool says_goodbye)
{
    ERR_clear_error();
    if (says_goodbye && SSL_is_init_finished(e->ssl)) {
        SSL_shutdown(e->ssl);
        mock_tls_flush(e);
    }
    SSL_free(e->ssl);
    ERR_clear_error();
    mem_free(e);
}

enum io mock_tls_flush(struct mock_tls_end *e)
{
    char *p;
    long left;
    while ((left = BIO_get_mem_data(e->out, &p)) > 0) {
        char part[FILL_BYTES];
        size_t n = 0, most = (size_t)left < sizeof part ? (size_t)left : sizeof part;
        memcpy(part, p, most);
        struct iovec v = {part, most};
        enum io io = stream_write(e->plain, &v, 1, &n);
        if (io != IO_OK)
            return io;
        int taken = BIO_read(e->out, part, (int)n);
        RM_ASSERT(taken == (int)n);
    }
    return IO_OK;
}

/* More of the stream's bytes for OpenSSL. */
static enum io fill(struct mock_tls_end *e)
{
    char part[FILL_BYTES];
    size_t n = 0;
    enum io io = e->is_at_end ? IO_EOF : stream_read(e->plain, part, sizeof part, &n);
    if (io == IO_OK) {
        int put = BIO_write(e->in, part, (int)n);
        RM_ASSERT(put == (int)n);
    }
    e->is_at_end = io == IO_EOF;
    return io;
}

/* After OpenSSL did not go on: AGAIN when it wants bytes, else why it never will. */
static enum io stopped(struct mock_tls_end *e)
{
    int why = SSL_get_error(e->ssl, 0);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return IO_AGAIN;
    return why == SSL_ERROR_ZERO_RETURN ? IO_EOF : IO_ERROR;
}

enum io mock_tls_read(struct mock_tls_end *e, void *to, size_t cap, size_t *n)
{
    *n = 0;
    while (*n < cap) {
        size_t got = 0;
        ERR_clear_error();
        if (SSL_read_ex(e->ssl, (char *)to + *n, cap - *n, &got) == 1) {
            *n += got;
            continue;
        }
        enum io io = stopped(e), flushed = mock_tls_flush(e);
        if (flushed == IO_ERROR)
            return IO_ERROR;
        if (io == IO_AGAIN)
            io = fill(e);
        if (io != IO_OK)
            return *n > 0 ? IO_OK : io;
    }
    return IO_OK;
}

enum io mock_tls_write(struct mock_tls_end *e, struct bytes b, size_t *n)
{
    enum io io = mock_tls_flush(e);
    *n = 0;
    if (io != IO_OK || b.n == 0)
        return io;
    ERR_clear_error();
    if (SSL_write_ex(e->ssl, b.p, b.n, n) != 1)
        return stopped(e);
    return mock_tls_flush(e) == IO_ERROR ? IO_ERROR : IO_OK;
}

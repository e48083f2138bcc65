/* What connections to providers share: OpenSSL's context with the certificate store, and the last session per server
 * name, so that a new connection to a known provider takes one round trip less. Shared by all cores: the table is under
 * a lock, which is taken once or twice per handshake and never per read. */
#include "net/tls_impl.h"

#include "base/mem.h"
#include "net/address.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { SESSIONS_MAX = 64 };

struct kept_session {
    char name[TLS_NAME_BYTES];
    SSL_SESSION *session; /* NULL = free place */
};

struct tls_context {
    SSL_CTX *ctx;
    BIO_METHOD *bio;
    _Atomic int n_refs;
    bool frees_buffers;
    pthread_mutex_t lock;
    unsigned next_place; /* whose turn it is when the table is full */
    struct kept_session sessions[SESSIONS_MAX];
};

static struct kept_session *place_for(struct tls_context *c, const char *name)
{
    struct kept_session *free_place = NULL;
    for (int i = 0; i < SESSIONS_MAX; i++) {
        struct kept_session *k = &c->sessions[i];
        if (k->session != NULL && strcmp(k->name, name) == 0)
            return k;
        if (k->session == NULL && free_place == NULL)
            free_place = k;
    }
    return free_place != NULL ? free_place : &c->sessions[c->next_place++ % SESSIONS_MAX];
}

/* OpenSSL calls this with a session that may be resumed later; 1 = we keep the reference. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const char *name = SSL_get_app_data(ssl);
    if (name == NULL || !SSL_SESSION_is_resumable(session))
        return 0;
    pthread_mutex_lock(&c->lock);
    struct kept_session *k = place_for(c, name);
    SSL_SESSION *old = k->session;
    k->session = session;
    snprintf(k->name, sizeof k->name, "%s", name);
    pthread_mutex_unlock(&c->lock);
    SSL_SESSION_free(old);
    return 1;
}

static void resume(struct tls_context *c, SSL *ssl, const char *name)
{
    pthread_mutex_lock(&c->lock);
    struct kept_session *k = place_for(c, name);
    if (k->session != NULL && strcmp(k->name, name) == 0 && SSL_SESSION_is_resumable(k->session))
        SSL_set_session(ssl, k->session); /* takes its own reference */
    pthread_mutex_unlock(&c->lock);
}

static bool set_name(SSL *ssl, const char *name)
{
    struct address literal;
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (address_parse(name, &literal))
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

SSL *tls_context_ssl(struct tls_context *c, const char *name, BIO **bio)
{
    SSL *ssl = SSL_new(c->ctx);
    *bio = BIO_new(c->bio);
    if (ssl == NULL || *bio == NULL || !set_name(ssl, name)) {
        BIO_free(*bio);
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_bio(ssl, *bio, *bio);
    SSL_set_app_data(ssl, (void *)(uintptr_t)name);
    SSL_set_connect_state(ssl);
    resume(c, ssl, name);
    return ssl;
}

static bool set_up(SSL_CTX *ctx, struct tls_context *c)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    SSL_CTX_set_app_data(ctx, c);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(ctx, 1); /* one recv for head and body of a record */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, on_new_session);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_alpn_protos(ctx, alpn, sizeof alpn - 1) == 0;
}

static bool load_store(SSL_CTX *ctx, const char *ca_file)
{
    return ca_file == NULL ? SSL_CTX_set_default_verify_paths(ctx) == 1 : SSL_CTX_load_verify_file(ctx, ca_file) == 1;
}

static bool has_safe_free_buffers(unsigned long version)
{
    static const unsigned long first_good_patch[] = {14, 6, 2, 1}; /* of 3.0, 3.1, 3.2, 3.3 */
    unsigned long major = version >> 28, minor = version >> 20 & 0xff, patch = version >> 4 & 0xff;
    return major > 3 || (major == 3 && (minor >= RM_COUNTOF(first_good_patch) || patch >= first_good_patch[minor]));
}

bool tls_context_frees_buffers(const struct tls_context *c)
{
    return c->frees_buffers;
}

enum err tls_context_new(const char *ca_file, struct tls_context **out, const char **message)
{
    struct tls_context *c = mem_zalloc(sizeof *c);
    *out = NULL;
    pthread_mutex_init(&c->lock, NULL);
    atomic_init(&c->n_refs, 1);
    ERR_clear_error();
    c->frees_buffers = has_safe_free_buffers(OpenSSL_version_num());
    c->ctx = SSL_CTX_new(TLS_client_method());
    c->bio = tls_bio_new();
    if (c->ctx == NULL || c->bio == NULL || !set_up(c->ctx, c)) {
        *message = "OpenSSL could not be set up";
        goto fail;
    }
    if (!load_store(c->ctx, ca_file)) {
        *message = ca_file ? "the CA file cannot be read or holds no certificate" : "no system certificate store";
        goto fail;
    }
    *out = c;
    return ERR_OK;
fail:
    ERR_clear_error();
    tls_context_unref(c);
    return ERR_IO;
}

struct tls_context *tls_context_ref(struct tls_context *c)
{
    atomic_fetch_add_explicit(&c->n_refs, 1, memory_order_relaxed);
    return c;
}

void tls_context_unref(struct tls_context *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    for (int i = 0; i < SESSIONS_MAX; i++)
        SSL_SESSION_free(c->sessions[i].session);
    SSL_CTX_free(c->ctx);
    BIO_meth_free(c->bio);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

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
    uint64_t number;      /* which of all that were ever kept */
    SSL_SESSION *session; /* NULL = free place */
};

struct tls_context {
    SSL_CTX *ctx;
    BIO_METHOD *bio;
    _Atomic int n_refs;
    bool frees_buffers;
    struct tls13_suite suites[TLS13_SUITES];
    pthread_mutex_t lock;
    unsigned next_place; /* whose turn it is when the table is full */
    uint64_t n_sessions; /* ever kept */
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
    const struct tls_shake *s = SSL_get_app_data(ssl);
    if (s == NULL || !SSL_SESSION_is_resumable(session))
        return 0;
    pthread_mutex_lock(&c->lock);
    struct kept_session *k = place_for(c, s->name);
    SSL_SESSION *old = k->session;
    k->session = session;
    *s->session = k->number = ++c->n_sessions;
    snprintf(k->name, sizeof k->name, "%s", s->name);
    pthread_mutex_unlock(&c->lock);
    SSL_SESSION_free(old);
    return 1;
}

/* Hexadecimal digits as bytes; their number, 0 where it is not that or more than fits. */
static uint8_t from_hex(const char *hex, uint8_t secret[TLS13_SECRET_MAX])
{
    size_t n = 0;
    return OPENSSL_hexstr2buf_ex(secret, TLS13_SECRET_MAX, &n, hex, '\0') == 1 ? (uint8_t)n : 0;
}

/* OpenSSL tells each secret of a handshake as a line "LABEL random secret", the last two in hexadecimal. Nobody but the
 * connection itself is told: they are wiped with its handshake. */
static void on_secret(const SSL *ssl, const char *line)
{
    struct tls_shake *s = SSL_get_app_data(ssl);
    const char *space = strchr(line, ' '), *secret = strrchr(line, ' ');
    if (s == NULL || space == NULL)
        return;
    struct bytes label = bytes_from(line, (size_t)(space - line));
    if (bytes_is(label, "CLIENT_TRAFFIC_SECRET_0"))
        s->n_client = from_hex(secret + 1, s->client);
    else if (bytes_is(label, "SERVER_TRAFFIC_SECRET_0"))
        s->n_server = from_hex(secret + 1, s->server);
}

static void resume(struct tls_context *c, struct tls_shake *s)
{
    pthread_mutex_lock(&c->lock);
    struct kept_session *k = place_for(c, s->name);
    if (k->session != NULL && strcmp(k->name, s->name) == 0 && SSL_SESSION_is_resumable(k->session) &&
        SSL_set_session(s->ssl, k->session) == 1) /* takes its own reference */
        *s->session = k->number;
    pthread_mutex_unlock(&c->lock);
}

void tls_context_forget(struct tls_context *c, uint64_t session)
{
    SSL_SESSION *old = NULL;
    pthread_mutex_lock(&c->lock);
    for (struct kept_session *k = c->sessions; k < c->sessions + SESSIONS_MAX; k++)
        if (k->session != NULL && k->number == session) {
            old = k->session;
            k->session = NULL;
        }
    pthread_mutex_unlock(&c->lock);
    SSL_SESSION_free(old);
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

struct tls_shake *tls_shake_new(struct tls_context *c, const char *name, uint64_t *session, BIO **bio)
{
    size_t n_name = strlen(name) + 1;
    struct tls_shake *s = mem_zalloc(sizeof *s + n_name);
    memcpy(s->name, name, n_name);
    s->session = session;
    s->frees_buffers = c->frees_buffers;
    s->ssl = SSL_new(c->ctx);
    *bio = BIO_new(c->bio);
    if (n_name > TLS_NAME_BYTES || s->ssl == NULL || *bio == NULL || !set_name(s->ssl, name)) {
        BIO_free(*bio);
        tls_shake_free(s);
        return NULL;
    }
    SSL_set_bio(s->ssl, *bio, *bio);
    SSL_set_app_data(s->ssl, s);
    SSL_set_connect_state(s->ssl);
    resume(c, s);
    return s;
}

void tls_shake_free(struct tls_shake *s)
{
    if (s == NULL)
        return;
    /* A connection that was not shut down in both directions makes its session unusable, but a cancelled exchange says
     * nothing against it. Of one that has failed tls_context_forget is told. */
    if (s->ssl != NULL)
        SSL_set_shutdown(s->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(s->ssl);
    OPENSSL_cleanse(s, sizeof *s);
    mem_free(s);
}

void tls_shake_rest(struct tls_shake *s)
{
    if (s->frees_buffers)
        (void)SSL_free_buffers(s->ssl);
}

const struct tls13_suite *tls_shake_suite(const struct tls_shake *s, const struct tls_context *c)
{
    if (SSL_version(s->ssl) != TLS1_3_VERSION)
        return NULL;
    uint16_t id = SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(s->ssl));
    for (const struct tls13_suite *suite = c->suites; suite < c->suites + TLS13_SUITES; suite++)
        if (suite->id == id && suite->cipher != NULL && s->n_client == suite->secret_bytes &&
            s->n_server == suite->secret_bytes)
            return suite;
    return NULL;
}

void tls_shake_detach(struct tls_shake *s)
{
    BIO *nothing = BIO_new(BIO_s_null());
    SSL_set_bio(s->ssl, nothing, nothing);
    OPENSSL_cleanse(s->client, sizeof s->client);
    OPENSSL_cleanse(s->server, sizeof s->server);
}

bool tls_shake_ticket(struct tls_shake *s, struct bytes record)
{
    char c;
    size_t n;
    BIO *b = BIO_new_mem_buf(record.p, (int)record.n);
    if (b == NULL)
        return false;
    BIO_set_mem_eof_return(b, -1); /* its end is no end: more may come */
    SSL_set0_rbio(s->ssl, b);
    ERR_clear_error();
    bool waits = SSL_read_ex(s->ssl, &c, 1, &n) != 1 && SSL_get_error(s->ssl, 0) == SSL_ERROR_WANT_READ;
    ERR_clear_error();
    tls_shake_rest(s);
    SSL_set0_rbio(s->ssl, NULL);
    return waits;
}

static bool set_up(SSL_CTX *ctx, struct tls_context *c)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    SSL_CTX_set_app_data(ctx, c);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, on_new_session);
    SSL_CTX_set_keylog_callback(ctx, on_secret);
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
    tls13_suites_init(c->suites);
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
    tls13_suites_fini(c->suites);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

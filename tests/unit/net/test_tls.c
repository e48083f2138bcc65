/* The TLS client against a server of OpenSSL's on a thread of its own, over loopback; and over a pipe for lifetimes. */
#include "unit.h"

#include "authority.h"
#include "base/mem.h"
#include "ends.h"
#include "net/dial.h"
#include "net/tls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static struct authority known, unknown;
static struct loop *l;
static struct resolver *resolver;

enum script { ECHO, ECHO_AND_CLOSE, TRUNCATE, HANG_UP_EARLY, BIG, TOO_OLD };
enum { BIG_BYTES = 3000000 };

struct server {
    SSL_CTX *ctx;
    int listener;
    uint16_t port;
    enum script script;
    int n_connections;
    pthread_t thread;
    int n_resumed;
    char sni[64], alpn[16];
};

/* Eight-byte requests, eight-byte answers, until the client goes. */
static void echo(SSL *ssl, bool once)
{
    char buf[8];
    size_t n;
    while (SSL_read_ex(ssl, buf, sizeof buf, &n) == 1) {
        SSL_write_ex(ssl, buf, n, &n);
        if (once) {
            SSL_shutdown(ssl);
            return;
        }
    }
}

static void swallow(SSL *ssl)
{
    static char buf[16384];
    size_t n, total = 0;
    while (total < BIG_BYTES && SSL_read_ex(ssl, buf, sizeof buf, &n) == 1)
        total += n;
    for (size_t sent = 0; sent < BIG_BYTES; sent += n)
        if (SSL_write_ex(ssl, buf, sizeof buf < BIG_BYTES - sent ? sizeof buf : BIG_BYTES - sent, &n) != 1)
            break;
    SSL_shutdown(ssl);
}

static void serve_one(struct server *s, SSL *ssl)
{
    const unsigned char *proto;
    unsigned n_proto;
    s->n_resumed += SSL_session_reused(ssl);
    const char *sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    snprintf(s->sni, sizeof s->sni, "%s", sni ? sni : "-");
    SSL_get0_alpn_selected(ssl, &proto, &n_proto);
    snprintf(s->alpn, sizeof s->alpn, "%.*s", (int)n_proto, n_proto ? (const char *)proto : "");
    if (s->script == BIG)
        swallow(ssl);
    else
        echo(ssl, s->script != ECHO);
}

static void *serve(void *arg)
{
    struct server *s = arg;
    for (int i = 0; i < s->n_connections; i++) {
        int fd = accept(s->listener, NULL, NULL);
        if (fd < 0)
            break;
        if (s->script != HANG_UP_EARLY) {
            SSL *ssl = SSL_new(s->ctx);
            SSL_set_fd(ssl, fd);
            if (s->script == TRUNCATE)
                SSL_set_quiet_shutdown(ssl, 1); /* FIN without close_notify */
            if (SSL_accept(ssl) == 1)
                serve_one(s, ssl);
            SSL_free(ssl);
        }
        close(fd);
    }
    return NULL;
}

static int pick_alpn(SSL *ssl, const unsigned char **out, unsigned char *n_out, const unsigned char *in, unsigned n_in,
                     void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *picked;
    if (SSL_select_next_proto(&picked, n_out, ours, sizeof ours - 1, in, n_in) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = picked;
    return SSL_TLSEXT_ERR_OK;
}

static void server_start(struct server *s, enum script script, int n_connections, const char *alt_names)
{
    *s = (struct server){.script = script, .n_connections = n_connections};
    s->ctx = authority_server(&known, alt_names);
    SSL_CTX_set_alpn_select_cb(s->ctx, pick_alpn, NULL);
    SSL_CTX_set_session_id_context(s->ctx, (const unsigned char *)"t", 1);
    if (script == TOO_OLD)
        SSL_CTX_set_max_proto_version(s->ctx, TLS1_1_VERSION);
    s->listener = listen_somewhere(&s->port);
    assert_true(s->listener >= 0);
    struct timeval bound = {20, 0};
    setsockopt(s->listener, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    int flags = 0;
    assert_int_equal(ioctl(s->listener, FIONBIO, &flags), 0); /* the thread may block */
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_join(struct server *s)
{
    pthread_join(s->thread, NULL);
    close(s->listener);
    SSL_CTX_free(s->ctx);
}

static struct tls_context *context_for(const struct authority *a)
{
    struct tls_context *c;
    const char *message = "";
    assert_int_equal(tls_context_new(a->file, &c, &message), ERR_OK);
    return c;
}

struct client {
    struct end end;
    struct dial_result result;
    bool is_done;
};

static void on_dialled(const struct dial_result *r, void *arg)
{
    struct client *c = arg;
    c->result = *r;
    c->is_done = true;
    if (r->stream)
        end_attach(&c->end, r->stream);
}

static void dial(struct client *c, struct tls_context *tls, const char *host, uint16_t port)
{
    *c = (struct client){.is_done = false};
    assert_non_null(dial_start(l, resolver, tls, host, port, on_dialled, c));
    assert_false(c->is_done);
    TURN_UNTIL(l, c->is_done);
}

static void exchange(struct client *c, const char *eight)
{
    size_t n, before = c->end.in.n;
    struct iovec v[2] = {{(void *)(uintptr_t)eight, 3}, {(void *)(uintptr_t)(eight + 3), 5}};
    assert_int_equal(stream_write(c->end.stream, v, 2, &n), IO_OK);
    assert_int_equal(n, 8);
    TURN_UNTIL(l, c->end.in.n >= before + 8);
    assert_memory_equal(c->end.in.p + before, eight, 8);
}

static void good_name_and_ip(void **state)
{
    struct server s;
    struct client c;
    struct tls_context *tls = context_for(&known);
    server_start(&s, ECHO_AND_CLOSE, 2, "DNS:localhost,IP:127.0.0.1");
    dial(&c, tls, "localhost", s.port);
    assert_int_equal(c.result.failure, DIAL_OK);
    exchange(&c, "12345678");
    assert_string_equal(s.sni, "localhost");
    assert_string_equal(s.alpn, "http/1.1");
    TURN_UNTIL(l, c.end.last == IO_EOF);
    end_close(&c.end, false);
    dial(&c, tls, "127.0.0.1", s.port);
    assert_int_equal(c.result.failure, DIAL_OK);
    exchange(&c, "abcdefgh");
    assert_string_equal(s.sni, "-"); /* SNI is for names only */
    end_close(&c.end, true);
    server_join(&s);
    tls_context_unref(tls);
}

static void expect_failure(struct tls_context *tls, const char *host, const char *alt_names, enum script script,
                           const char *word)
{
    struct server s;
    struct client c;
    server_start(&s, script, 1, alt_names);
    dial(&c, tls, host, s.port);
    assert_int_equal(c.result.failure, DIAL_TLS);
    assert_null(c.result.stream);
    if (strstr(c.result.message, word) == NULL)
        fail_msg("no \"%s\" in \"%s\"", word, c.result.message);
    server_join(&s);
    tls_context_unref(tls);
}

static void wrong_name(void **state)
{
    expect_failure(context_for(&known), "localhost", "DNS:elsewhere.test", ECHO, "certificate verify failed: hostname");
}

static void wrong_ip(void **state)
{
    expect_failure(context_for(&known), "127.0.0.1", "DNS:localhost,IP:127.0.0.2", ECHO, "certificate verify failed");
}

static void unknown_authority(void **state)
{
    expect_failure(context_for(&unknown), "localhost", "DNS:localhost", ECHO, "certificate verify failed");
}

static void hung_up_in_the_handshake(void **state)
{
    expect_failure(context_for(&known), "localhost", "DNS:localhost", HANG_UP_EARLY, "handshake");
}

static void refused_by_the_server(void **state)
{
    expect_failure(context_for(&known), "localhost", "DNS:localhost", TOO_OLD,
                   "TLS alert from the peer: protocol version");
}

static void truncation_is_an_error(void **state)
{
    struct server s;
    struct client c;
    struct tls_context *tls = context_for(&known);
    server_start(&s, TRUNCATE, 1, "DNS:localhost");
    dial(&c, tls, "localhost", s.port);
    exchange(&c, "12345678");
    TURN_UNTIL(l, c.end.last == IO_ERROR);
    assert_string_equal(stream_error(c.end.stream), "TLS truncated");
    assert_true(stream_is_stale(c.end.stream));
    end_close(&c.end, false);
    server_join(&s);
    tls_context_unref(tls);
}

static void sessions_are_resumed(void **state)
{
    struct server s;
    struct client c;
    struct tls_context *tls = context_for(&known);
    server_start(&s, ECHO, 3, "DNS:localhost");
    for (int i = 0; i < 3; i++) {
        dial(&c, tls, "localhost", s.port);
        assert_int_equal(c.result.failure, DIAL_OK);
        exchange(&c, "12345678");
        /* The tickets that came in with the answer are not data. */
        assert_false(stream_is_stale(c.end.stream));
        end_close(&c.end, i == 1); /* a reset does not spoil the session */
    }
    server_join(&s);
    assert_int_equal(s.n_resumed, 2);
    tls_context_unref(tls);
}

/* Sends BIG_BYTES as the peer takes them, in uneven vectors. */
static void push(struct client *c, const char *from, size_t *sent)
{
    size_t n = 1;
    while (*sent < BIG_BYTES && n > 0) {
        size_t left = BIG_BYTES - *sent, a = left < 10 ? left : 10, b = left - a < 70000 ? left - a : 70000;
        struct iovec v[3] = {
            {(void *)(uintptr_t)(from + *sent), a}, {NULL, 0}, {(void *)(uintptr_t)(from + *sent + a), b}};
        enum io r = stream_write(c->end.stream, v, 3, &n);
        assert_int_not_equal(r, IO_ERROR);
        *sent += n;
        if (n < a + b)
            return; /* short: the edge will come */
    }
}

static void much_both_ways(void **state)
{
    struct server s;
    struct client c;
    struct tls_context *tls = context_for(&known);
    char *from = mem_zalloc(BIG_BYTES);
    size_t sent = 0;
    server_start(&s, BIG, 1, "DNS:localhost");
    dial(&c, tls, "localhost", s.port);
    push(&c, from, &sent);
    c.end.ready = 0;
    for (int i = 0; i < 200000 && sent < BIG_BYTES; i++) {
        loop_turn(l, 100000);
        if (c.end.ready & LOOP_WRITE) {
            c.end.ready = 0;
            push(&c, from, &sent);
        }
    }
    assert_int_equal(sent, BIG_BYTES);
    for (int i = 0; i < 200000 && c.end.last == IO_AGAIN; i++)
        loop_turn(l, 100000);
    for (int i = 0; i < 200000 && c.end.last != IO_EOF && c.end.last != IO_ERROR; i++)
        loop_turn(l, 100000);
    assert_int_equal(c.end.last, IO_EOF);
    assert_int_equal(c.end.in.n, BIG_BYTES);
    end_close(&c.end, false);
    server_join(&s);
    mem_free(from);
    tls_context_unref(tls);
}

/* What the server's end has to say goes out a byte at a time, and the loop turns after each. */
static void drip(SSL *ssl, int fd)
{
    char byte;
    while (BIO_read(SSL_get_wbio(ssl), &byte, 1) == 1) {
        assert_int_equal(send(fd, &byte, 1, 0), 1);
        loop_turn(l, 20000);
    }
}

static void take(SSL *ssl, int fd)
{
    char buf[4096];
    ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
    if (n > 0)
        BIO_write(SSL_get_rbio(ssl), buf, (int)n);
}

static SSL *server_end(SSL_CTX *ctx)
{
    SSL *ssl = SSL_new(ctx);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(ssl);
    return ssl;
}

/* Between any two bytes of a record the connection is one that waits, and lets its buffer go if it may. */
static void read_single_bytes(int version)
{
    static const char text[] = "a record of its own";
    struct tls_context *tls = context_for(&known);
    struct client c = {.is_done = false};
    SSL_CTX *ctx = authority_server(&known, "IP:127.0.0.1");
    SSL_CTX_set_max_proto_version(ctx, version);
    SSL *ssl = server_end(ctx);
    uint16_t port;
    int listener = listen_somewhere(&port), one = 1;
    size_t n;
    dial_start(l, resolver, tls, "127.0.0.1", port, on_dialled, &c);
    int fd = accept_one(l, listener);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; i < TURNS_MAX && !(c.is_done && SSL_is_init_finished(ssl)); i++) {
        loop_turn(l, 1000);
        take(ssl, fd);
        SSL_do_handshake(ssl);
        drip(ssl, fd);
    }
    assert_non_null(c.result.stream);
    assert_int_equal(SSL_version(ssl), version);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(SSL_write_ex(ssl, text, sizeof text, &n), 1);
        drip(ssl, fd);
    }
    TURN_UNTIL(l, c.end.in.n >= 20 * sizeof text);
    for (int i = 0; i < 20; i++)
        assert_memory_equal(c.end.in.p + i * sizeof text, text, sizeof text);
    end_close(&c.end, false);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    tls_context_unref(tls);
    close(fd);
    close(listener);
}

static void records_come_in_single_bytes(void **state)
{
    read_single_bytes(TLS1_3_VERSION);
    read_single_bytes(TLS1_2_VERSION);
}

static void cancel_in_the_handshake(void **state)
{
    struct tls_context *tls = context_for(&known);
    struct client c = {.is_done = false};
    uint16_t port;
    int listener = listen_somewhere(&port); /* takes the connection and says nothing */
    struct dial *d = dial_start(l, resolver, tls, "127.0.0.1", port, on_dialled, &c);
    int fd = accept_one(l, listener);
    assert_true(fd >= 0);
    char hello[1];
    ssize_t n = -1;
    for (int i = 0; i < TURNS_MAX && n < 0; i++) {
        loop_turn(l, 1000);
        n = recv(fd, hello, 1, 0);
    }
    assert_int_equal(n, 1); /* the handshake has begun */
    dial_cancel(d);
    tls_context_unref(tls);
    loop_turn(l, 0);
    assert_false(c.is_done);
    close(fd);
    close(listener);
}

static void bad_ca_file(void **state)
{
    struct tls_context *c;
    const char *message = "";
    assert_int_equal(tls_context_new("/nonexistent/ca.pem", &c, &message), ERR_IO);
    assert_null(c);
    assert_non_null(strstr(message, "CA file"));
    assert_int_equal(tls_context_new(NULL, &c, &message), ERR_OK);
    tls_context_unref(c);
}

static void on_bad_name(struct stream *s, const char *message, void *arg)
{
    snprintf(arg, 128, "%s", message ? message : "ok");
    stream_close(s, true);
}

static void impossible_name(void **state)
{
    struct tls_context *tls = context_for(&known);
    struct stream *a, *b;
    char told[128] = "";
    stream_pipe(l, 1000, &a, &b);
    tls_connect(l, tls, a, "", on_bad_name, told);
    tls_context_unref(tls);
    assert_string_equal(told, "");
    stream_close(b, false);
    loop_turn(l, 0);
    assert_string_not_equal(told, "");
    assert_string_not_equal(told, "ok");
}

static int open_loop(void **state)
{
    l = loop_new();
    resolver = resolver_new(l, RESOLVER_CARES);
    return 0;
}

static int close_loop(void **state)
{
    resolver_free(resolver);
    loop_free(l);
    assert_int_equal(mem_live(MEM_STREAM), 0);
    assert_int_equal(mem_live(MEM_CONN), 0);
    return 0;
}

static int make_authorities(void **state)
{
    signal(SIGPIPE, SIG_IGN); /* for the server thread: OpenSSL writes without MSG_NOSIGNAL */
    return authority_init(&known) && authority_init(&unknown) ? 0 : -1;
}

static int drop_authorities(void **state)
{
    authority_fini(&known);
    authority_fini(&unknown);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_name_and_ip, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(wrong_name, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(wrong_ip, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(unknown_authority, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(hung_up_in_the_handshake, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(refused_by_the_server, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(truncation_is_an_error, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(sessions_are_resumed, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(much_both_ways, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(records_come_in_single_bytes, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(cancel_in_the_handshake, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(bad_ca_file, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(impossible_name, open_loop, close_loop),
    };
    return cmocka_run_group_tests(tests, make_authorities, drop_authorities);
}

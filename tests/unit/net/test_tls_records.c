/* A TLS client over a pipe against a server of OpenSSL's that the test drives: what flows either way in every suite,
 * and, with the server's own secret in hand, what no server of OpenSSL's would send. */
#include "unit.h"

#include "authority.h"
#include "base/mem.h"
#include "ends.h"
#include "net/stream_impl.h"
#include "net/tls_records.h"

#include <openssl/conf.h>
#include <openssl/crypto.h>
#include <string.h>

/* One that we do not seal ourselves. */
#define OTHER_SUITE "TLS_AES_128_CCM_SHA256"

static struct authority known;
static struct loop *l;
static struct tls13_suite suites[TLS13_SUITES];

/* Both ends of a connection. */
struct world {
    struct tls_context *context;
    struct end client;
    bool is_ready;
    struct stream *far; /* the server's end of the pipe */
    SSL_CTX *ctx;
    SSL *server;
    struct buf got;           /* of `far`, not yet given to `server` */
    char early[64];           /* goes out with the server's first flight, sealed as its first record */
    struct tls13_key out, in; /* as the server's: what it writes and reads under */
};

static void on_secret(const SSL *ssl, const char *line)
{
    struct world *w = SSL_get_app_data(ssl);
    uint8_t secret[TLS13_SECRET_MAX];
    size_t n;
    bool is_server = strncmp(line, "SERVER_TRAFFIC_SECRET_0 ", 24) == 0;
    if (!is_server && strncmp(line, "CLIENT_TRAFFIC_SECRET_0 ", 24) != 0)
        return;
    assert_int_equal(OPENSSL_hexstr2buf_ex(secret, sizeof secret, &n, strrchr(line, ' ') + 1, '\0'), 1);
    for (int i = 0; i < TLS13_SUITES; i++)
        if (suites[i].id == SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl)))
            assert_true(tls13_key_init(is_server ? &w->out : &w->in, &suites[i], secret, is_server));
}

static void on_client_ready(struct stream *s, const char *message, void *arg)
{
    struct world *w = arg;
    assert_null(message);
    end_attach(&w->client, s);
    w->is_ready = true;
}

/* Bytes to the client, as the pipe takes them. */
static void send_raw(struct world *w, const char *p, size_t n)
{
    for (size_t at = 0, put = 0; at < n; at += put) {
        struct iovec v = {(void *)(uintptr_t)(p + at), n - at};
        if (stream_write(w->far, &v, 1, &put) != IO_OK)
            put = 0;
        loop_turn(l, 0);
    }
}

static void send_sealed(struct world *w, uint8_t type, struct bytes plain)
{
    static char wire[TLS13_WIRE_MAX];
    assert_true(tls13_seal(&w->out, (enum tls13_type)type, plain, wire));
    send_raw(w, wire, plain.n + TLS13_ADDED_BYTES);
}

/* What the client has written lies in w->got afterwards. */
static void take_raw(struct world *w)
{
    char buf[5000];
    size_t n;
    while (stream_read(w->far, buf, sizeof buf, &n) == IO_OK) {
        buf_put(&w->got, bytes_from(buf, n));
        loop_turn(l, 0);
    }
}

static void to_server(struct world *w)
{
    take_raw(w);
    if (w->got.n > 0)
        BIO_write(SSL_get_rbio(w->server), w->got.p, (int)w->got.n);
    buf_fini(&w->got);
    w->got = (struct buf){.p = NULL};
}

static void from_server(struct world *w)
{
    char buf[5000];
    int n;
    while ((n = BIO_read(SSL_get_wbio(w->server), buf, sizeof buf)) > 0)
        send_raw(w, buf, (size_t)n);
}

static void shake_hands(struct world *w)
{
    for (int i = 0; i < 50 && !(w->is_ready && SSL_is_init_finished(w->server)); i++) {
        loop_turn(l, 0);
        to_server(w);
        SSL_do_handshake(w->server);
        from_server(w);
        if (w->early[0] != '\0' && w->out.ctx != NULL)
            send_sealed(w, TLS13_DATA, bytes_of(w->early));
        w->early[0] = '\0';
    }
    assert_true(w->is_ready);
    loop_turn(l, 0);
}

struct terms {
    int version;       /* 0: TLS 1.3 */
    const char *suite; /* NULL: any */
    size_t cap;        /* of the pipe; 0: much */
    const char *early;
    int n_tickets;
    int n_fragment;           /* the longest content of the server's records; 0: as long as may be */
    const struct world *like; /* NULL, or whose contexts it shares, on either side */
};

static void open_contexts(struct world *w, struct terms t)
{
    const char *message;
    if (t.like != NULL) {
        w->context = tls_context_ref(t.like->context);
        w->ctx = t.like->ctx;
        SSL_CTX_up_ref(w->ctx);
        return;
    }
    assert_int_equal(tls_context_new(known.file, &w->context, &message), ERR_OK);
    w->ctx = authority_server(&known, "DNS:server.test");
    SSL_CTX_set_keylog_callback(w->ctx, on_secret);
    SSL_CTX_set_num_tickets(w->ctx, (size_t)t.n_tickets);
    if (t.version != 0)
        SSL_CTX_set_max_proto_version(w->ctx, t.version);
    if (t.suite != NULL)
        assert_int_equal(SSL_CTX_set_ciphersuites(w->ctx, t.suite), 1);
    if (t.n_fragment != 0)
        SSL_CTX_set_max_send_fragment(w->ctx, (size_t)t.n_fragment);
}

static struct world *open_world(struct terms t)
{
    struct world *w = mem_zalloc(sizeof *w);
    struct stream *near;
    open_contexts(w, t);
    w->server = SSL_new(w->ctx);
    SSL_set_app_data(w->server, w);
    SSL_set_bio(w->server, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(w->server);
    if (t.early != NULL)
        snprintf(w->early, sizeof w->early, "%s", t.early);
    stream_pipe(l, t.cap != 0 ? t.cap : 100000, &near, &w->far);
    tls_connect(l, w->context, near, "server.test", on_client_ready, w);
    shake_hands(w);
    return w;
}

static void close_world(struct world *w)
{
    end_close(&w->client, false);
    stream_close(w->far, false);
    loop_turn(l, 0);
    SSL_free(w->server);
    SSL_CTX_free(w->ctx);
    tls13_key_fini(&w->out);
    tls13_key_fini(&w->in);
    buf_fini(&w->got);
    tls_context_unref(w->context);
    mem_free(w);
}

/* ---------------------------------------------------------------- both ways */

static void server_says(struct world *w, const char *text, size_t n)
{
    size_t put, before = w->client.in.n;
    assert_int_equal(SSL_write_ex(w->server, text, n, &put), 1);
    from_server(w);
    loop_turn(l, 0);
    assert_int_equal(w->client.in.n, before + n);
    assert_memory_equal(w->client.in.p + before, text, n);
}

/* Written as the pipe takes it: each time the same bytes until they are taken. */
static void client_says(struct world *w, const char *text, size_t n)
{
    char *got = mem_alloc(n);
    size_t n_got = 0, at = 0, put;
    for (int i = 0; i < 100000 && n_got < n; i++) {
        struct iovec v[2] = {{(void *)(uintptr_t)(text + at), (n - at) / 3},
                             {(void *)(uintptr_t)(text + at + (n - at) / 3), n - at - (n - at) / 3}};
        if (at < n && stream_write(w->client.stream, v, 2, &put) == IO_OK)
            at += put;
        to_server(w);
        while (SSL_read_ex(w->server, got + n_got, n - n_got, &put) == 1)
            n_got += put;
        loop_turn(l, 0);
    }
    assert_int_equal(n_got, n);
    assert_memory_equal(got, text, n);
    mem_free(got);
}

static void talk(struct terms t)
{
    static const size_t lengths[] = {1, 4999, 5000, 5001, 16384, 30000};
    static char text[30000];
    struct world *w = open_world(t);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * i / 7);
    for (size_t i = 0; i < RM_COUNTOF(lengths); i++) {
        client_says(w, text, lengths[i]);
        server_says(w, text, lengths[i]);
    }
    stream_shutdown(w->client.stream);
    to_server(w);
    assert_int_equal(SSL_read_ex(w->server, text, 1, &(size_t){0}), 0);
    assert_int_equal(SSL_get_error(w->server, 0), SSL_ERROR_ZERO_RETURN); /* close_notify */
    SSL_shutdown(w->server);
    from_server(w);
    loop_turn(l, 0);
    assert_int_equal(w->client.last, IO_EOF);
    close_world(w);
}

static void every_version_and_suite(void **state)
{
    static const char *const names[] = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
                                        "TLS_CHACHA20_POLY1305_SHA256"};
    for (size_t i = 0; i < RM_COUNTOF(names); i++) {
        talk((struct terms){.suite = names[i], .n_tickets = 2});
        talk((struct terms){.suite = names[i], .cap = 1000});
    }
    talk((struct terms){.suite = OTHER_SUITE, .n_tickets = 2});
    talk((struct terms){.version = TLS1_2_VERSION});
    talk((struct terms){.version = TLS1_2_VERSION, .cap = 1000});
}

/* A ticket with much of the server's own in it. */
static int fill_ticket(SSL *ssl, void *arg)
{
    static const char much[3000];
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), much, sizeof much);
}

/* Under a suite that is left to OpenSSL: with a part of a ticket it is in a handshake again, and reads before it
 * writes. */
static void a_write_within_a_ticket(void **state)
{
    struct world *w = open_world((struct terms){.suite = OTHER_SUITE, .n_fragment = 512});
    char first[512 + 100];
    size_t put;
    SSL_CTX_set_session_ticket_cb(w->ctx, fill_ticket, NULL, NULL);
    assert_int_equal(SSL_new_session_ticket(w->server), 1);
    assert_int_equal(SSL_do_handshake(w->server), 1);
    int n = BIO_read(SSL_get_wbio(w->server), first, TLS13_HEAD_BYTES);
    n += BIO_read(SSL_get_wbio(w->server), first + n, (uint8_t)first[3] << 8 | (uint8_t)first[4]);
    send_raw(w, first, (size_t)n);
    loop_turn(l, 0);
    assert_int_equal(end_write(&w->client, "four", 4, &put), IO_AGAIN);
    w->client.ready = 0;
    from_server(w);
    loop_turn(l, 0);
    assert_int_not_equal(w->client.ready & LOOP_WRITE, 0);
    client_says(w, "four", 4);
    server_says(w, "and back", 8);
    close_world(w);
}

static void data_right_behind_the_handshake(void **state)
{
    struct world *w = open_world((struct terms){.early = "already here"});
    assert_int_equal(w->client.in.n, 12);
    assert_memory_equal(w->client.in.p, "already here", 12);
    close_world(w);
}

static void update_keys(struct terms t)
{
    struct world *w = open_world(t);
    for (int i = 0; i < 3; i++) {
        server_says(w, "under one key", 13);
        assert_int_equal(SSL_key_update(w->server, i == 1 ? SSL_KEY_UPDATE_NOT_REQUESTED : SSL_KEY_UPDATE_REQUESTED),
                         1);
        assert_int_equal(SSL_do_handshake(w->server), 1);
        server_says(w, "under the next", 14);
        client_says(w, "and the answer", 14);
        assert_int_equal(SSL_get_key_update_type(w->server), SSL_KEY_UPDATE_NONE);
    }
    close_world(w);
}

static void keys_are_updated(void **state)
{
    update_keys((struct terms){.n_tickets = 2});
    update_keys((struct terms){.n_tickets = 2, .cap = 7}); /* the answer waits in pieces, with data behind it */
    update_keys((struct terms){.suite = OTHER_SUITE});
}

/* Only OpenSSL can use a ticket, and it is gone with the first data. */
static void tickets_at_any_time(void **state)
{
    struct world *w = open_world((struct terms){.n_tickets = 5});
    assert_false(stream_is_stale(w->client.stream));
    server_says(w, "first data", 10);
    assert_int_equal(SSL_new_session_ticket(w->server), 1);
    server_says(w, "after a ticket", 14);
    assert_false(stream_is_stale(w->client.stream));
    close_world(w);
}

static void unasked_data_is_stale(void **state)
{
    struct world *w = open_world((struct terms){.n_tickets = 2});
    size_t put;
    w->client.is_paused = true;
    assert_int_equal(SSL_write_ex(w->server, "unasked", 7, &put), 1);
    from_server(w);
    assert_true(stream_is_stale(w->client.stream));
    close_world(w);
}

/* ---------------------------------------------------------------- sessions */

enum ending { CLOSED, RESET, BAD_RECORD, ALERTED, CUT_OFF };

static void end_with(struct world *w, enum ending how)
{
    static const char fatal[] = {2, 80}; /* internal_error */
    if (how == BAD_RECORD)
        send_raw(w, "\x17\3\3\0\x05hello", 10);
    if (how == ALERTED)
        send_sealed(w, TLS13_ALERT, bytes_from(fatal, sizeof fatal));
    if (how == CUT_OFF) {
        stream_close(w->far, false);
        w->far = NULL;
    }
    loop_turn(l, 0);
    assert_int_equal(w->client.last == IO_ERROR, how >= BAD_RECORD);
    if (how == RESET)
        end_close(&w->client, true);
}

/* Whether a connection that ended like this lets the next one resume its session. */
static bool is_resumed_after(struct terms t, enum ending how, bool with_data)
{
    struct world *w = open_world(t), *next;
    if (with_data) {
        client_says(w, "there", 5);
        server_says(w, "and back", 8);
    }
    end_with(w, how);
    end_close(&w->client, false);
    t.like = w;
    next = open_world(t);
    bool is_resumed = SSL_session_reused(next->server);
    close_world(next);
    close_world(w);
    return is_resumed;
}

/* RFC 8446 §6.2: with a connection that has failed goes its session, however long ago its ticket came. */
static void sessions_of_broken_connections(void **state)
{
    for (int with_data = 0; with_data < 2; with_data++) {
        struct terms t = {.n_tickets = 2}, old = {.version = TLS1_2_VERSION};
        assert_true(is_resumed_after(t, CLOSED, with_data));
        assert_true(is_resumed_after(t, RESET, with_data));
        assert_false(is_resumed_after(t, BAD_RECORD, with_data));
        assert_false(is_resumed_after(t, ALERTED, with_data));
        assert_false(is_resumed_after(t, CUT_OFF, with_data));
        assert_true(is_resumed_after(old, CLOSED, with_data));
        assert_true(is_resumed_after(old, RESET, with_data));
        assert_false(is_resumed_after(old, BAD_RECORD, with_data));
        assert_false(is_resumed_after(old, CUT_OFF, with_data));
    }
}

/* What another connection has got since is none of the broken one's business. */
static void a_newer_session_stays(void **state)
{
    struct terms t = {.n_tickets = 1};
    struct world *first = open_world(t), *second, *third;
    server_says(first, "data", 4);
    t.like = first;
    second = open_world(t);
    server_says(second, "data", 4);
    end_with(first, BAD_RECORD);
    end_close(&first->client, false);
    third = open_world(t);
    assert_true(SSL_session_reused(third->server));
    close_world(third);
    close_world(second);
    close_world(first);
}

/* ---------------------------------------------------------------- what must not be believed */

/* The alert that the client has sent under its own key, as its last record; -1: none. */
static int alert_of(struct world *w)
{
    char plain[TLS13_BODY_MAX];
    size_t n = 0, at = 0;
    uint8_t type = 0;
    take_raw(w);
    while (at < w->got.n) {
        size_t n_body = (size_t)(uint8_t)w->got.p[at + 3] << 8 | (uint8_t)w->got.p[at + 4];
        assert_true(at + TLS13_HEAD_BYTES + n_body <= w->got.n);
        assert_true(tls13_open(&w->in, w->got.p + at, n_body, plain, &n, &type));
        at += TLS13_HEAD_BYTES + n_body;
    }
    return type == TLS13_ALERT && n == 2 && plain[0] == 2 ? (uint8_t)plain[1] : -1;
}

static void expect_end(struct world *w, int alert, const char *word)
{
    size_t put;
    loop_turn(l, 0);
    assert_int_equal(w->client.last, IO_ERROR);
    if (strstr(stream_error(w->client.stream), word) == NULL)
        fail_msg("no \"%s\" in \"%s\"", word, stream_error(w->client.stream));
    assert_int_equal(alert_of(w), alert);
    assert_true(stream_is_stale(w->client.stream));
    assert_int_equal(end_write(&w->client, "more", 4, &put), IO_ERROR);
    close_world(w);
}

static void odd_records(void **state)
{
    static const struct {
        int type;
        struct bytes plain;
        int alert;
        const char *word;
    } odd[] = {
        {TLS13_HANDSHAKE, {"", 0}, 10, "empty handshake"},
        {TLS13_HANDSHAKE, {"\x0d\0\0\1x", 5}, 10, "unexpected handshake"}, /* CertificateRequest: never offered */
        {TLS13_HANDSHAKE, {"\x18\0\0\1\2", 5}, 47, "KeyUpdate"},
        {TLS13_HANDSHAKE, {"\x18\0\0\2\0\0", 6}, 50, "KeyUpdate"},
        {TLS13_HANDSHAKE, {"\x18\0\0\0", 4}, 50, "KeyUpdate"},
        {TLS13_HANDSHAKE, {"\x18\0\0\1\0\4\0\0\0", 9}, 10, "KeyUpdate"}, /* not its record's end */
        {TLS13_ALERT, {"", 0}, 10, "malformed alert"},
        {TLS13_ALERT, {"\2", 1}, 50, "malformed alert"},
        {TLS13_ALERT, {"\1\0\0", 3}, 50, "malformed alert"},
        {TLS13_ALERT, {"\2\x50", 2}, -1, "TLS alert from the peer: internal error"}, /* is not answered */
        {TLS13_CHANGE_CIPHER, {"\1", 1}, 10, "no known type"},
        {0, {"", 0}, 10, "no known type"},
        {0, {"\0\0\0", 3}, 10, "no known type"}, /* zeros alone */
        {0, {"more\4\0\0", 7}, 10, "no known type"},
        {77, {"x", 1}, 10, "no known type"},
    };
    for (size_t i = 0; i < RM_COUNTOF(odd); i++) {
        struct world *w = open_world((struct terms){.n_tickets = 0});
        send_sealed(w, (uint8_t)odd[i].type, odd[i].plain);
        expect_end(w, odd[i].alert, odd[i].word);
    }
}

static void records_that_are_not_sealed(void **state)
{
    struct world *w = open_world((struct terms){.n_tickets = 0});
    send_raw(w, "\x15\3\3\0\2\1\0", 7); /* a close_notify that anybody could have sent */
    expect_end(w, 10, "not sealed");
    w = open_world((struct terms){.n_tickets = 0});
    send_raw(w, "\x15\3\3\0\2", 5); /* its head says enough */
    expect_end(w, 10, "not sealed");
    w = open_world((struct terms){.n_tickets = 0});
    send_raw(w, "\x17\3\3\x40\x12", 5); /* content, type and zeros of 2^14 + 2 bytes */
    expect_end(w, 22, "too long");
    w = open_world((struct terms){.n_tickets = 0});
    send_raw(w, "\x17\3\3\0\x05hello", 10);
    expect_end(w, 20, "not sealed");
}

/* Zeros behind a record's type, up to as many as may be (§5.4). */
static void padding_is_taken_off(void **state)
{
    static char much[TLS13_PLAIN_MAX] = "data\x17";
    struct world *w = open_world((struct terms){.n_tickets = 0});
    send_sealed(w, 0, bytes_from(much, 5));
    send_sealed(w, 0, bytes_from(much, 20));
    send_sealed(w, 0, bytes_from(much, sizeof much));
    send_sealed(w, 0, bytes_from("\x18\0\0\1\0\x16\0\0", 8));
    assert_true(tls13_key_next(&w->out));
    memset(much + 4, 'x', sizeof much - 4);
    send_sealed(w, TLS13_DATA, bytes_from(much, sizeof much));
    loop_turn(l, 0);
    assert_int_equal(w->client.in.n, 12 + sizeof much);
    assert_memory_equal(w->client.in.p, "datadatadatadataxx", 18);
    close_world(w);
}

/* The server's end of the pipe goes before all of a record has come. */
static void an_end_within_a_record(void **state)
{
    char wire[5 + TLS13_ADDED_BYTES];
    for (size_t n = 0; n < sizeof wire; n++) {
        struct world *w = open_world((struct terms){.n_tickets = 0});
        assert_true(tls13_seal(&w->out, TLS13_DATA, BYTES("hello"), wire));
        send_raw(w, wire, n);
        stream_close(w->far, false);
        w->far = NULL;
        loop_turn(l, 0);
        assert_int_equal(w->client.last, IO_ERROR);
        assert_string_equal(stream_error(w->client.stream), "TLS truncated");
        assert_int_equal(w->client.in.n, 0);
        close_world(w);
    }
}

/* The alert that answers a bad record finds nobody any more: still the record is what was wrong. */
static void the_cause_is_told(void **state)
{
    struct world *w = open_world((struct terms){.n_tickets = 0});
    w->client.is_paused = true;
    send_raw(w, "\x17\3\3\0\x05hello", 10);
    stream_close(w->far, false);
    w->far = NULL;
    end_drain(&w->client);
    assert_int_equal(w->client.last, IO_ERROR);
    assert_string_equal(stream_error(w->client.stream), "TLS: a record that the peer has not sealed");
    close_world(w);
}

/* Against the contract of stream_write; once a record is sealed, its bytes cannot be taken back. */
static void a_write_that_is_not_repeated(void **state)
{
    static const char text[5000];
    struct world *w = open_world((struct terms){.cap = 1000});
    size_t put;
    assert_int_equal(end_write(&w->client, text, sizeof text, &put), IO_AGAIN);
    assert_int_equal(end_write(&w->client, text, 4999, &put), IO_ERROR);
    assert_string_equal(stream_error(w->client.stream), "TLS: a write was not repeated");
    assert_int_equal(end_write(&w->client, text, sizeof text, &put), IO_ERROR);
    close_world(w);
}

static void a_write_behind_the_end(void **state)
{
    struct world *w = open_world((struct terms){.n_tickets = 0});
    size_t put;
    stream_shutdown(w->client.stream);
    assert_int_equal(end_write(&w->client, "more", 4, &put), IO_ERROR);
    assert_string_equal(stream_error(w->client.stream), "TLS: written behind its end");
    close_world(w);
}

static void a_record_twice(void **state)
{
    char wire[5 + TLS13_ADDED_BYTES];
    struct world *w = open_world((struct terms){.n_tickets = 0});
    assert_true(tls13_seal(&w->out, TLS13_DATA, BYTES("hello"), wire));
    send_raw(w, wire, sizeof wire);
    loop_turn(l, 0);
    assert_int_equal(w->client.in.n, 5);
    send_raw(w, wire, sizeof wire);
    expect_end(w, 20, "not sealed");
}

/* A message may be cut anywhere (§5.1): here a KeyUpdate, and a ticket before it. */
static void a_key_update_in_pieces(void **state)
{
    static const char text[] = "\4\0\0\2ab\x18\0\0\1\1";
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        struct world *w = open_world((struct terms){.n_tickets = 0});
        send_sealed(w, TLS13_HANDSHAKE, bytes_from(text, cut));
        send_sealed(w, TLS13_HANDSHAKE, bytes_from(text + cut, sizeof text - 1 - cut));
        assert_true(tls13_key_next(&w->out));
        send_sealed(w, TLS13_DATA, BYTES("under the next"));
        loop_turn(l, 0);
        assert_int_equal(w->client.in.n, 14);
        close_world(w);
    }
    struct world *w = open_world((struct terms){.n_tickets = 0});
    send_sealed(w, TLS13_HANDSHAKE, bytes_from(text + 6, 4));
    send_sealed(w, TLS13_HANDSHAKE, bytes_from("\1\4", 2)); /* its end, and a ticket's beginning */
    expect_end(w, 10, "does not end its record");
}

static void a_message_broken_off(void **state)
{
    static const char ticket[] = "\4\0\0\x08"
                                 "12345678";
    struct world *w = open_world((struct terms){.n_tickets = 0});
    /* In pieces it is fine, whatever OpenSSL thinks of what it says. */
    for (size_t i = 0; i < sizeof ticket - 1; i++)
        send_sealed(w, TLS13_HANDSHAKE, bytes_from(ticket + i, 1));
    send_sealed(w, TLS13_DATA, BYTES("data"));
    loop_turn(l, 0);
    assert_int_equal(w->client.in.n, 4);
    send_sealed(w, TLS13_HANDSHAKE, bytes_from(ticket, 6));
    send_sealed(w, TLS13_DATA, BYTES("data"));
    expect_end(w, 10, "broken off");
}

static void only_records_without_data(void **state)
{
    struct world *w = open_world((struct terms){.n_tickets = 0});
    for (int i = 0; i < 32; i++)
        send_sealed(w, TLS13_DATA, BYTES(""));
    send_sealed(w, TLS13_DATA, BYTES("data"));
    loop_turn(l, 0);
    assert_int_equal(w->client.in.n, 4);
    for (int i = 0; i < 33; i++)
        send_sealed(w, TLS13_DATA, BYTES(""));
    expect_end(w, 10, "without data");
}

static void a_cancelled_user_is_no_end(void **state)
{
    struct world *w = open_world((struct terms){.n_tickets = 0});
    send_sealed(w, TLS13_ALERT, bytes_from("\1\x5a", 2));
    send_sealed(w, TLS13_DATA, BYTES("data"));
    loop_turn(l, 0);
    assert_int_equal(w->client.in.n, 4);
    send_sealed(w, TLS13_ALERT, bytes_from("\1\0", 2));
    loop_turn(l, 0);
    assert_int_equal(w->client.last, IO_EOF);
    close_world(w);
}

/* ---------------------------------------------------------------- records without a connection of OpenSSL's */

/* Takes what the client has sealed, as whole records; *n_data: how many of data came under this key. */
static void open_sealed(struct buf *wire, struct tls13_key *in, struct buf *data, uint32_t *n_data)
{
    char plain[TLS13_BODY_MAX];
    size_t n, at = 0;
    uint8_t type;
    while (wire->n - at >= TLS13_HEAD_BYTES) {
        size_t n_body = (size_t)(uint8_t)wire->p[at + 3] << 8 | (uint8_t)wire->p[at + 4];
        if (wire->n - at < TLS13_HEAD_BYTES + n_body)
            break;
        assert_true(tls13_open(in, wire->p + at, n_body, plain, &n, &type));
        at += TLS13_HEAD_BYTES + n_body;
        if (type == TLS13_DATA) {
            buf_put(data, bytes_from(plain, n));
            ++*n_data;
        } else {
            assert_int_equal(type, TLS13_HANDSHAKE);
            assert_int_equal(n, 5);
            assert_memory_equal(plain, "\x18\0\0\1\0", n);
            assert_true(tls13_key_next(in));
            *n_data = 0;
        }
    }
    buf_drop(wire, at);
}

/* Before more is sealed under a key than it bears, there is another. */
static void keys_wear_out(void **state)
{
    static const uint8_t client[TLS13_SECRET_MAX] = {1}, server[TLS13_SECRET_MAX] = {2};
    struct tls13_suite suite = suites[0];
    suite.records_max = 3;
    struct tls_records *r = tls_records_new(&suite, client, server);
    struct tls13_key in;
    struct tls_wire near = {.plain = NULL};
    struct buf wire = {.p = NULL}, data = {.p = NULL};
    struct stream *far;
    uint32_t n_data = 0, n_most = 0;
    char buf[100];
    size_t n;
    stream_pipe(l, 20, &near.plain, &far);
    assert_true(tls13_key_init(&in, &suite, client, false));
    for (int i = 0; i < 10; i++) {
        while (tls_records_write(r, &near, BYTES("ten bytes."), &n) == IO_AGAIN)
            while (stream_read(far, buf, sizeof buf, &n) == IO_OK)
                buf_put(&wire, bytes_from(buf, n));
        while (stream_read(far, buf, sizeof buf, &n) == IO_OK)
            buf_put(&wire, bytes_from(buf, n));
        open_sealed(&wire, &in, &data, &n_data);
        n_most = n_data > n_most ? n_data : n_most;
        assert_int_equal(data.n, 10 * (i + 1));
    }
    assert_int_equal(n_most, 3);
    assert_int_equal(n_data, 1); /* three keys with three records each, and the next */
    tls13_key_fini(&in);
    tls_records_free(r);
    buf_fini(&wire);
    buf_fini(&data);
    stream_close(near.plain, false);
    stream_close(far, false);
    loop_turn(l, 0);
}

static int open_loop(void **state)
{
    l = loop_new();
    return 0;
}

static int close_loop(void **state)
{
    loop_free(l);
    assert_int_equal(mem_live(MEM_STREAM), 0);
    return 0;
}

/* As an OpenSSL configuration of the machine's could: one suite more. */
static bool allow_other_suite(void)
{
    static const char text[] = "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\n"
                               "Ciphersuites = TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:"
                               "TLS_AES_128_GCM_SHA256:" OTHER_SUITE "\n";
    BIO *b = BIO_new_mem_buf(text, sizeof text - 1);
    CONF *conf = NCONF_new(NULL);
    bool ok = NCONF_load_bio(conf, b, NULL) == 1 && CONF_modules_load(conf, NULL, 0) == 1;
    NCONF_free(conf);
    BIO_free(b);
    return ok;
}

static int make_authority(void **state)
{
    tls13_suites_init(suites);
    return allow_other_suite() && authority_init(&known) ? 0 : -1;
}

static int drop_authority(void **state)
{
    tls13_suites_fini(suites);
    authority_fini(&known);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_version_and_suite, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_write_within_a_ticket, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(data_right_behind_the_handshake, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(keys_are_updated, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(tickets_at_any_time, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(unasked_data_is_stale, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(sessions_of_broken_connections, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_newer_session_stays, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(keys_wear_out, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(odd_records, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(records_that_are_not_sealed, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(padding_is_taken_off, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(an_end_within_a_record, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(the_cause_is_told, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_write_that_is_not_repeated, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_write_behind_the_end, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_record_twice, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_key_update_in_pieces, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_message_broken_off, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(only_records_without_data, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_cancelled_user_is_no_end, open_loop, close_loop),
    };
    return cmocka_run_group_tests(tests, make_authority, drop_authority);
}

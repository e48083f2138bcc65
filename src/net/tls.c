/* A TLS client stream over a plain one. What comes is read into one place (tls_wire), from where OpenSSL takes it
 * through a BIO of ours, or, once a TLS 1.3 handshake is over, the records of our own (tls_records):
 *
 *     owner --stream_read--> SSL_read --BIO-.
 *                       `--> tls_records_read --> tls_wire --> stream_read(plain)
 *     plain on_ready -> handshake step, or the owner's on_ready
 *
 * OpenSSL takes no byte more than the record it wants (no read-ahead), so that what lies in tls_wire when it has
 * finished the handshake is what comes behind it.
 *
 * Since a short read must mean that nothing is left, tls_read goes on until the buffer is full or the plain stream is
 * dry; tls_wire remembers that it is, so this costs no system call. An end that shows behind some bytes is kept and
 * raised again. */
#include "net/tls_records.h"

#include "base/mem.h"
#include "net/stream_impl.h"

#include <openssl/err.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 128 };

struct tls {
    struct stream stream; /* first */
    struct tls_wire wire;
    struct tls_context *context;
    struct tls_shake *shake;     /* NULL once `records` has it, or where there is no name to verify */
    struct tls_records *records; /* TLS 1.3, from the handshake's end on */
    uint64_t session;            /* 0, or the one to forget if the connection fails */
    tls_done_fn *done;           /* NULL once called */
    void *arg;
    char *text;     /* NULL, or what stream.error points to */
    enum io end;    /* IO_EOF or IO_ERROR once reading has ended, else IO_OK */
    bool is_open;   /* the handshake is over and good */
    bool is_broken; /* after a fatal error: it may not be used any more */
    bool read_waits_write, write_waits_read;
};

static struct tls *tls_of(const struct stream *s)
{
    return (struct tls *)(void *)(uintptr_t)s;
}

static int bio_read(BIO *b, char *buf, int cap)
{
    struct tls *t = BIO_get_data(b);
    struct bytes ready = tls_wire_bytes(&t->wire);
    BIO_clear_retry_flags(b);
    if (cap <= 0)
        return 0;
    if (ready.n == 0) {
        enum io got = tls_wire_fill(&t->wire);
        if (got == IO_AGAIN)
            BIO_set_retry_read(b);
        if (got != IO_OK)
            return got == IO_EOF ? 0 : -1;
        ready = tls_wire_bytes(&t->wire);
    }
    size_t n = ready.n < (size_t)cap ? ready.n : (size_t)cap;
    memcpy(buf, ready.p, n);
    tls_wire_use(&t->wire, n);
    return (int)n;
}

static int bio_write(BIO *b, const char *buf, int n)
{
    struct tls *t = BIO_get_data(b);
    struct iovec v = {(void *)(uintptr_t)buf, (size_t)n};
    size_t put = 0;
    BIO_clear_retry_flags(b);
    if (n <= 0)
        return 0;
    enum io r = stream_write(t->wire.plain, &v, 1, &put);
    if (r == IO_OK)
        return (int)put;
    if (r == IO_AGAIN)
        BIO_set_retry_write(b);
    else
        t->wire.is_broken = true;
    return -1;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
    struct tls *t = BIO_get_data(b);
    if (cmd == BIO_CTRL_FLUSH)
        return 1;
    return cmd == BIO_CTRL_EOF ? t->wire.is_at_eof && tls_wire_bytes(&t->wire).n == 0 : 0;
}

BIO_METHOD *tls_bio_new(void)
{
    /* Nobody looks for it by type, so it needs no number of its own. */
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stream");
    if (m == NULL)
        return NULL;
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_ctrl(m, bio_ctrl);
    return m;
}

static bool set_up(struct tls *t, const char *name)
{
    BIO *b;
    t->shake = tls_shake_new(t->context, name, &t->session, &b);
    if (t->shake == NULL)
        return false;
    BIO_set_data(b, t);
    BIO_set_init(b, 1);
    return true;
}

/* Of the last error. */
static RM_PRINTF(2, 3) void say(struct tls *t, const char *fmt, ...)
{
    va_list args;
    if (t->text == NULL)
        t->text = mem_alloc(TEXT_BYTES);
    va_start(args, fmt);
    vsnprintf(t->text, TEXT_BYTES, fmt, args);
    va_end(args);
    t->stream.error = t->text;
}

/* Of an alert (RFC 8446 §6) that the peer has sent, not we. */
static void say_alert(struct tls *t, const char *name)
{
    say(t, "TLS alert from the peer: %s", name);
}

/* After a fatal error of OpenSSL's: says in stream.error what it was. */
static void explain_shake(struct tls *t)
{
    unsigned long code = ERR_peek_last_error();
    long verdict = SSL_get_verify_result(t->shake->ssl);
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    if (t->wire.is_at_eof)
        say(t, "%s", t->is_open ? "TLS truncated" : "closed in the TLS handshake");
    else if (!t->is_open && verdict != X509_V_OK)
        say(t, "certificate verify failed: %s", X509_verify_cert_error_string(verdict));
    else if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET)
        say_alert(t, SSL_alert_desc_string_long(ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET));
    else
        say(t, "TLS: %s", reason ? reason : "broken");
}

/* After a fatal error: says in stream.error what it was. What a record was comes first: that its alert could not be
 * sent is no cause. */
static void explain(struct tls *t)
{
    const char *error = t->records != NULL ? tls_records_error(t->records) : NULL;
    t->is_broken = true;
    if (error != NULL && tls_records_is_peers_alert(t->records))
        say_alert(t, error);
    else if (error != NULL)
        t->stream.error = error;
    else if (t->wire.is_broken)
        say(t, "%s%s", stream_error(t->wire.plain), t->is_open ? "" : " in the TLS handshake");
    else if (t->shake != NULL)
        explain_shake(t);
}

/* Whether something can be read without another edge of the plain stream's. */
static bool has_more(const struct tls *t)
{
    if (!t->wire.is_dry || tls_wire_bytes(&t->wire).n > 0)
        return true;
    return t->shake != NULL && SSL_has_pending(t->shake->ssl);
}

static void finish_handshake(struct tls *t, const char *message)
{
    tls_done_fn *done = t->done;
    t->done = NULL;
    /* What is ready now has used up its edge; it is kept for the owner. */
    stream_raise(&t->stream, t->is_open && !has_more(t) ? LOOP_WRITE : LOOP_READ | LOOP_WRITE);
    done(&t->stream, message, t->arg);
}

/* The handshake is good: what comes next is ours, where it is TLS 1.3. */
static void open_up(struct tls *t)
{
    const struct tls13_suite *suite = tls_shake_suite(t->shake, t->context);
    t->is_open = true;
    t->records = suite != NULL ? tls_records_new(suite, t->shake->client, t->shake->server) : NULL;
    if (t->records == NULL)
        return;
    tls_records_take_tickets(t->records, t->shake);
    t->shake = NULL;
}

static int do_handshake(struct tls *t)
{
    char room[TLS13_WIRE_MAX];
    ERR_clear_error();
    tls_wire_lend(&t->wire, room);
    int r = SSL_do_handshake(t->shake->ssl);
    tls_wire_settle(&t->wire);
    return r;
}

static void step_handshake(struct tls *t)
{
    if (t->done == NULL)
        return;
    if (t->shake == NULL) {
        finish_handshake(t, t->text);
        return;
    }
    int r = do_handshake(t);
    if (r == 1) {
        open_up(t);
        finish_handshake(t, NULL);
        return;
    }
    int e = SSL_get_error(t->shake->ssl, r);
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
        return;
    explain(t);
    t->end = IO_ERROR;
    finish_handshake(t, t->text);
}

static void on_plain_ready(struct stream *plain, unsigned ready, void *arg)
{
    struct tls *t = arg;
    unsigned told = ready;
    if (ready & LOOP_READ)
        t->wire.is_dry = false;
    if (!t->is_open) {
        step_handshake(t);
        return;
    }
    if ((ready & LOOP_WRITE) && t->read_waits_write)
        told |= LOOP_READ;
    if ((ready & LOOP_READ) && t->write_waits_read)
        told |= LOOP_WRITE;
    stream_dispatch(&t->stream, told);
}

static enum io read_shake(struct tls *t, void *buf, size_t cap, size_t *n)
{
    ERR_clear_error();
    if (SSL_read_ex(t->shake->ssl, buf, cap, n) == 1)
        return IO_OK;
    int e = SSL_get_error(t->shake->ssl, 0);
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
        t->read_waits_write = e == SSL_ERROR_WANT_WRITE;
        tls_shake_rest(t->shake);
        return IO_AGAIN;
    }
    return e == SSL_ERROR_ZERO_RETURN ? IO_EOF : IO_ERROR;
}

/* Some bytes; or AGAIN, or the end of reading, kept in t->end. */
static enum io read_some(struct tls *t, void *buf, size_t cap, size_t *n)
{
    enum io io = t->records != NULL ? tls_records_read(t->records, &t->wire, buf, cap, n) : read_shake(t, buf, cap, n);
    if (io == IO_ERROR)
        explain(t);
    if (io == IO_EOF || io == IO_ERROR)
        t->end = io;
    return io;
}

static enum io tls_read(struct stream *s, void *buf, size_t cap, size_t *n)
{
    char room[TLS13_WIRE_MAX];
    struct tls *t = tls_of(s);
    enum io last = t->end;
    size_t got;
    if (!t->is_open)
        return t->end != IO_OK ? t->end : IO_AGAIN;
    t->read_waits_write = false;
    tls_wire_lend(&t->wire, room);
    while (last == IO_OK && *n < cap) {
        last = read_some(t, (char *)buf + *n, cap - *n, &got);
        *n += last == IO_OK ? got : 0;
    }
    tls_wire_settle(&t->wire);
    if (*n == 0)
        return last;
    if (t->end != IO_OK)
        stream_raise(s, LOOP_READ);
    return IO_OK;
}

/* A place in the caller's vectors. */
struct cursor {
    const struct iovec *v;
    int n_v;
    size_t at; /* in v[0] */
};

static void move_on(struct cursor *c, size_t n)
{
    while (c->n_v > 0 && n >= c->v->iov_len - c->at) {
        n -= c->v->iov_len - c->at;
        c->v++;
        c->n_v--;
        c->at = 0;
    }
    c->at += n;
}

/* The next record's bytes: straight from a vector that fills it or is the last, else gathered in `scratch`. */
static struct bytes next_record(struct cursor c, char scratch[TLS13_PLAIN_MAX])
{
    size_t n = 0, left = c.v->iov_len - c.at;
    if (c.n_v == 1 || left >= TLS13_PLAIN_MAX)
        return bytes_from((const char *)c.v->iov_base + c.at, left < TLS13_PLAIN_MAX ? left : TLS13_PLAIN_MAX);
    while (c.n_v > 0 && n < TLS13_PLAIN_MAX) {
        left = c.v->iov_len - c.at;
        size_t take = left < TLS13_PLAIN_MAX - n ? left : TLS13_PLAIN_MAX - n;
        if (take > 0)
            memcpy(scratch + n, (const char *)c.v->iov_base + c.at, take);
        n += take;
        move_on(&c, take);
    }
    return bytes_from(scratch, n);
}

/* With a part of a ticket, or of any message behind the handshake, OpenSSL is in a handshake again: it reads on before
 * it writes. */
static enum io write_shake(struct tls *t, struct bytes b, size_t *n)
{
    char room[TLS13_WIRE_MAX];
    ERR_clear_error();
    tls_wire_lend(&t->wire, room);
    int r = SSL_write_ex(t->shake->ssl, b.p, b.n, n);
    tls_wire_settle(&t->wire);
    if (r == 1)
        return IO_OK;
    int e = SSL_get_error(t->shake->ssl, 0);
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
        t->write_waits_read = e == SSL_ERROR_WANT_READ;
        return IO_AGAIN;
    }
    return IO_ERROR;
}

/* A record that did not fit is kept, sealed, and the same bytes must come again; the caller does that anyway, since
 * they were not taken. */
static enum io tls_write(struct stream *s, const struct iovec *v, int n_v, size_t *n)
{
    char scratch[TLS13_PLAIN_MAX];
    struct tls *t = tls_of(s);
    struct cursor c = {v, n_v, 0};
    enum io last = IO_OK;
    size_t put;
    if (t->is_broken)
        return IO_ERROR;
    if (!t->is_open)
        return IO_AGAIN;
    t->write_waits_read = false;
    move_on(&c, 0); /* over empty vectors */
    while (last == IO_OK && c.n_v > 0) {
        struct bytes b = next_record(c, scratch);
        last = t->records != NULL ? tls_records_write(t->records, &t->wire, b, &put) : write_shake(t, b, &put);
        if (last == IO_OK) {
            *n += put;
            move_on(&c, put);
        }
    }
    if (last == IO_ERROR)
        explain(t);
    return *n > 0 ? IO_OK : last;
}

/* close_notify, if it can be sent at once. */
static void say_goodbye(struct tls *t)
{
    char room[TLS13_WIRE_MAX];
    if (!t->is_open || t->is_broken)
        return;
    ERR_clear_error();
    tls_wire_lend(&t->wire, room);
    if (t->records != NULL)
        tls_records_goodbye(t->records, &t->wire);
    else if ((SSL_get_shutdown(t->shake->ssl) & SSL_SENT_SHUTDOWN) == 0)
        SSL_shutdown(t->shake->ssl);
    tls_wire_settle(&t->wire);
    ERR_clear_error();
}

static void give_back(struct reap *r)
{
    struct tls *t = tls_of(RM_CONTAINER(r, struct stream, reap));
    mem_free(t->text);
    stream_give_back(r);
}

static void tls_close(struct stream *s, bool reset)
{
    struct tls *t = tls_of(s);
    s->reap.fn = give_back;
    if (!reset)
        say_goodbye(t);
    tls_records_free(t->records);
    tls_shake_free(t->shake);
    if (t->is_broken)
        tls_context_forget(t->context, t->session);
    stream_close(t->wire.plain, reset);
    tls_wire_fini(&t->wire);
    tls_context_unref(t->context);
    ERR_clear_error();
}

static void tls_shutdown(struct stream *s)
{
    say_goodbye(tls_of(s));
    stream_shutdown(tls_of(s)->wire.plain);
}

static size_t tls_unacked(const struct stream *s)
{
    return stream_unacked(tls_of(s)->wire.plain);
}

/* Session tickets come unasked after a handshake: bytes on the socket are not yet a sign, only readable data or an end
 * is. Reading takes the tickets in; data that is read here is lost with the connection. */
static bool tls_is_stale(struct stream *s)
{
    char room[TLS13_WIRE_MAX], c;
    struct tls *t = tls_of(s);
    size_t n;
    if (!t->is_open || t->is_broken || t->end != IO_OK)
        return true;
    if (!has_more(t) && !stream_is_stale(t->wire.plain))
        return false;
    t->wire.is_dry = false;
    tls_wire_lend(&t->wire, room);
    enum io io = read_some(t, &c, 1, &n);
    tls_wire_settle(&t->wire);
    return io != IO_AGAIN;
}

static const struct stream_class tls_class = {
    .read = tls_read,
    .write = tls_write,
    .close = tls_close,
    .shutdown = tls_shutdown,
    .unacked = tls_unacked,
    .is_stale = tls_is_stale,
};

/* "example.com." is a name's absolute form; certificates do not have it. */
static char *copy_name(const char *server_name)
{
    size_t n = strlen(server_name);
    return mem_dup(server_name, n > 1 && server_name[n - 1] == '.' ? n - 1 : n);
}

struct stream *tls_connect(struct loop *l, struct tls_context *c, struct stream *plain, const char *server_name,
                           tls_done_fn *done, void *arg)
{
    struct tls *t = mem_zalloc(sizeof *t);
    RM_ASSERT(done != NULL);
    stream_init(&t->stream, &tls_class, l);
    t->wire.plain = plain;
    t->context = tls_context_ref(c);
    t->done = done;
    t->arg = arg;
    char *name = copy_name(server_name);
    if (!set_up(t, name)) {
        say(t, "not a server name that TLS can verify");
        t->is_broken = true;
        t->end = IO_ERROR;
    }
    mem_free(name);
    stream_on_ready(plain, on_plain_ready, t);
    stream_raise(plain, LOOP_WRITE); /* begins the handshake, from the queue */
    return &t->stream;
}

/* A TLS client stream over a plain one. OpenSSL reads and writes the plain stream itself, through a BIO of ours, so no
 * byte is buffered twice.
 *
 *     owner --stream_read--> SSL_read --BIO--> stream_read(plain)
 *     plain on_ready -> handshake step, or the owner's on_ready
 *
 * `is_dry` remembers that the plain stream gave less than was asked for: until its next edge the BIO answers "would
 * block" by itself. Since a short read must mean that nothing is left, tls_read goes on until the buffer is full or the
 * BIO is dry; with is_dry this costs no system call. An end that shows behind some bytes is kept and raised again. */
#include "net/tls_impl.h"

#include "base/mem.h"
#include "net/stream_impl.h"

#include <openssl/err.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { RECORD_BYTES = 16384, TEXT_BYTES = 128 };

struct tls {
    struct stream stream; /* first */
    struct stream *plain;
    struct tls_context *context;
    SSL *ssl;
    tls_done_fn *done; /* NULL once called */
    void *arg;
    enum io end;            /* IO_EOF or IO_ERROR once reading has ended, else IO_OK */
    bool is_open;           /* the handshake is over and good */
    bool is_broken;         /* OpenSSL reported a fatal error: it may not be used any more */
    bool is_dry, is_at_eof; /* of the plain stream */
    bool is_plain_broken;   /* stream_error(plain) says why */
    bool read_waits_write, write_waits_read;
    char *name; /* of the server: what sessions are kept under */
    char *text; /* NULL, or what stream.error points to */
};

static struct tls *tls_of(const struct stream *s)
{
    return (struct tls *)(void *)(uintptr_t)s;
}

static int bio_read(BIO *b, char *buf, int cap)
{
    struct tls *t = BIO_get_data(b);
    size_t n = 0;
    BIO_clear_retry_flags(b);
    if (cap <= 0 || t->is_at_eof)
        return 0;
    enum io got = t->is_dry ? IO_AGAIN : stream_read(t->plain, buf, (size_t)cap, &n);
    if (got == IO_OK) {
        t->is_dry = n < (size_t)cap;
        return (int)n;
    }
    t->is_dry = got == IO_AGAIN;
    t->is_at_eof = got == IO_EOF;
    t->is_plain_broken |= got == IO_ERROR;
    if (got == IO_AGAIN)
        BIO_set_retry_read(b);
    return got == IO_EOF ? 0 : -1;
}

static int bio_write(BIO *b, const char *buf, int n)
{
    struct tls *t = BIO_get_data(b);
    struct iovec v = {(void *)(uintptr_t)buf, (size_t)n};
    size_t put = 0;
    BIO_clear_retry_flags(b);
    if (n <= 0)
        return 0;
    enum io r = stream_write(t->plain, &v, 1, &put);
    if (r == IO_OK)
        return (int)put;
    if (r == IO_AGAIN)
        BIO_set_retry_write(b);
    else
        t->is_plain_broken = true;
    return -1;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
    struct tls *t = BIO_get_data(b);
    if (cmd == BIO_CTRL_FLUSH)
        return 1;
    return cmd == BIO_CTRL_EOF ? t->is_at_eof : 0;
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

static bool set_up(struct tls *t)
{
    BIO *b;
    t->ssl = tls_context_ssl(t->context, t->name, &b);
    if (t->ssl == NULL)
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

/* After a fatal error: says in stream.error what it was. */
static void explain(struct tls *t)
{
    unsigned long code = ERR_peek_last_error();
    long verdict = SSL_get_verify_result(t->ssl);
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    t->is_broken = true;
    if (t->is_plain_broken)
        say(t, "%s%s", stream_error(t->plain), t->is_open ? "" : " in the TLS handshake");
    else if (t->is_at_eof)
        say(t, "%s", t->is_open ? "TLS truncated" : "closed in the TLS handshake");
    else if (!t->is_open && verdict != X509_V_OK)
        say(t, "certificate verify failed: %s", X509_verify_cert_error_string(verdict));
    else
        say(t, "TLS: %s", reason ? reason : "broken");
}

static void finish_handshake(struct tls *t, const char *message)
{
    tls_done_fn *done = t->done;
    t->done = NULL;
    /* What is ready now has used up its edge; it is kept for the owner. */
    bool is_drained = t->is_open && t->is_dry && !SSL_has_pending(t->ssl);
    stream_raise(&t->stream, is_drained ? LOOP_WRITE : LOOP_READ | LOOP_WRITE);
    done(&t->stream, message, t->arg);
}

static void step_handshake(struct tls *t)
{
    if (t->done == NULL)
        return;
    if (t->ssl == NULL) {
        finish_handshake(t, t->text);
        return;
    }
    ERR_clear_error();
    int r = SSL_do_handshake(t->ssl);
    if (r == 1) {
        t->is_open = true;
        finish_handshake(t, NULL);
        return;
    }
    int e = SSL_get_error(t->ssl, r);
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
        t->is_dry = false;
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

/* One SSL_read failed: AGAIN, or the end of reading, kept in t->end. */
static enum io read_end(struct tls *t)
{
    int e = SSL_get_error(t->ssl, 0);
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
        t->read_waits_write = e == SSL_ERROR_WANT_WRITE;
        if (tls_context_frees_buffers(t->context))
            (void)SSL_free_buffers(t->ssl); /* a silent connection holds none */
        return IO_AGAIN;
    }
    if (e == SSL_ERROR_ZERO_RETURN) {
        t->end = IO_EOF;
        return IO_EOF;
    }
    explain(t);
    t->end = IO_ERROR;
    return IO_ERROR;
}

static enum io tls_read(struct stream *s, void *buf, size_t cap, size_t *n)
{
    struct tls *t = tls_of(s);
    enum io last = t->end;
    size_t got;
    if (!t->is_open)
        return t->end != IO_OK ? t->end : IO_AGAIN;
    t->read_waits_write = false;
    while (last == IO_OK && *n < cap) {
        ERR_clear_error();
        if (SSL_read_ex(t->ssl, (char *)buf + *n, cap - *n, &got) == 1)
            *n += got;
        else
            last = read_end(t);
    }
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
static struct bytes next_record(struct cursor c, char scratch[RECORD_BYTES])
{
    size_t n = 0, left = c.v->iov_len - c.at;
    if (c.n_v == 1 || left >= RECORD_BYTES)
        return bytes_from((const char *)c.v->iov_base + c.at, left < RECORD_BYTES ? left : RECORD_BYTES);
    while (c.n_v > 0 && n < RECORD_BYTES) {
        left = c.v->iov_len - c.at;
        size_t take = left < RECORD_BYTES - n ? left : RECORD_BYTES - n;
        if (take > 0)
            memcpy(scratch + n, (const char *)c.v->iov_base + c.at, take);
        n += take;
        move_on(&c, take);
    }
    return bytes_from(scratch, n);
}

static enum io write_end(struct tls *t)
{
    int e = SSL_get_error(t->ssl, 0);
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
        t->write_waits_read = e == SSL_ERROR_WANT_READ;
        return IO_AGAIN;
    }
    explain(t);
    return IO_ERROR;
}

/* OpenSSL keeps a record that did not fit and insists on getting the same bytes again; the caller does that anyway,
 * since they were not taken. */
static enum io tls_write(struct stream *s, const struct iovec *v, int n_v, size_t *n)
{
    char scratch[RECORD_BYTES];
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
        ERR_clear_error();
        if (SSL_write_ex(t->ssl, b.p, b.n, &put) != 1) {
            last = write_end(t);
            continue;
        }
        *n += put;
        move_on(&c, put);
    }
    return *n > 0 ? IO_OK : last;
}

static void say_goodbye(struct tls *t)
{
    ERR_clear_error();
    if (t->is_open && !t->is_broken)
        SSL_shutdown(t->ssl); /* close_notify, if it can be sent at once */
    ERR_clear_error();
}

static void give_back(struct reap *r)
{
    struct tls *t = tls_of(RM_CONTAINER(r, struct stream, reap));
    mem_free(t->name);
    mem_free(t->text);
    stream_give_back(r);
}

static void tls_close(struct stream *s, bool reset)
{
    struct tls *t = tls_of(s);
    s->reap.fn = give_back;
    if (t->ssl != NULL) {
        if (!reset)
            say_goodbye(t);
        /* A cancelled exchange says nothing against the session: else SSL_free would make it unusable. */
        if (t->is_open && !t->is_broken)
            SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        SSL_free(t->ssl);
        t->ssl = NULL;
    }
    stream_close(t->plain, reset);
    tls_context_unref(t->context);
    ERR_clear_error();
}

static void tls_shutdown(struct stream *s)
{
    say_goodbye(tls_of(s));
    stream_shutdown(tls_of(s)->plain);
}

static size_t tls_unacked(const struct stream *s)
{
    return stream_unacked(tls_of(s)->plain);
}

/* Session tickets come unasked after a handshake: bytes on the socket are not yet a sign, only readable data or an end
 * is. SSL_peek takes the tickets in. */
static bool tls_is_stale(struct stream *s)
{
    struct tls *t = tls_of(s);
    char c;
    size_t n;
    if (!t->is_open || t->is_broken || t->end != IO_OK)
        return true;
    if (!SSL_has_pending(t->ssl) && !stream_is_stale(t->plain))
        return false;
    t->is_dry = false;
    ERR_clear_error();
    if (SSL_peek_ex(t->ssl, &c, 1, &n) == 1)
        return true;
    return read_end(t) != IO_AGAIN;
}

static const struct stream_class tls_class = {
    .read = tls_read,
    .write = tls_write,
    .close = tls_close,
    .shutdown = tls_shutdown,
    .unacked = tls_unacked,
    .is_stale = tls_is_stale,
};

static char *copy_name(const char *server_name)
{
    size_t n = strlen(server_name);
    if (n > 1 && server_name[n - 1] == '.') /* "example.com." is a name's absolute form; certificates do not have it */
        n--;
    return mem_dup(server_name, n);
}

struct stream *tls_connect(struct loop *l, struct tls_context *c, struct stream *plain, const char *server_name,
                           tls_done_fn *done, void *arg)
{
    struct tls *t = mem_zalloc(sizeof *t);
    RM_ASSERT(done != NULL);
    stream_init(&t->stream, &tls_class, l);
    t->plain = plain;
    t->context = tls_context_ref(c);
    t->done = done;
    t->arg = arg;
    t->name = copy_name(server_name);
    if (!set_up(t)) {
        say(t, "not a server name that TLS can verify");
        t->is_broken = true;
        t->end = IO_ERROR;
    }
    stream_on_ready(plain, on_plain_ready, t);
    stream_raise(plain, LOOP_WRITE); /* begins the handshake, from the queue */
    return &t->stream;
}

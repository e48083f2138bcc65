/* Records of a TLS 1.3 connection, sealed as its peer could send them, read in pieces of any size while we write. Each
 * line of an input is a step of the peer's; its first byte says which:
 *
 *     d TEXT  data               t TEXT  a ticket, in pieces        h BYTES   a handshake record of just these
 *     D TEXT  the same, long     k K     a KeyUpdate, K in pieces   a BYTES   an alert of just these
 *     p TEXT  data, padded       u       user_canceled              o T BYTES a record of type T
 *     e       an empty record    c       close_notify, the last     r BYTES   just these, not sealed
 *
 * Laws: after the steps of the first two columns all data has come, and what ends it is what should; after any other,
 * nothing has come that was not sent; neither depends on how it was cut. What we have written can be opened, in order,
 * and an alert is the last of it. */
#include "fuzz.h"

#include "base/buf.h"
#include "net/stream_impl.h"
#include "net/tls_records.h"

#include <stdlib.h>

enum {
    IDLE_RECORDS_MAX = 32, /* as tls_records.c has it */
    MOST_PIECES = 1000     /* an input of more is not cut so small */
};

static const uint8_t client_secret[TLS13_SECRET_MAX] = "client", server_secret[TLS13_SECRET_MAX] = "server";

static const struct tls13_suite *suite_for(struct bytes in)
{
    static struct tls13_suite suites[TLS13_SUITES];
    struct rng rng = fuzz_rng(in, 1);
    if (suites[0].id == 0)
        tls13_suites_init(suites);
    struct tls13_suite *s = &suites[rng_below(&rng, TLS13_SUITES)];
    s->records_max = 1 + rng_below(&rng, 5);
    return s;
}

/* ---------------------------------------------------------------- the peer's side */

struct peer {
    struct tls13_key out;
    struct rng rng;
    struct buf wire, data;
    int n_idle;    /* records without data in a row */
    bool is_clean; /* nothing wrong has been sent */
    bool is_over;  /* close_notify has */
};

static void seal(struct peer *p, int type, struct bytes plain, bool has_data)
{
    char *to = buf_reserve(&p->wire, plain.n + TLS13_ADDED_BYTES);
    RM_ASSERT(tls13_seal(&p->out, (enum tls13_type)type, plain, to));
    buf_grew(&p->wire, plain.n + TLS13_ADDED_BYTES);
    p->n_idle = has_data ? 0 : p->n_idle + 1;
    if (p->n_idle > IDLE_RECORDS_MAX)
        p->is_clean = false;
}

static void send_data(struct peer *p, struct bytes b)
{
    seal(p, TLS13_DATA, b, b.n > 0);
    buf_put(&p->data, b);
}

static void send_long(struct peer *p, struct bytes text)
{
    struct buf b = {0};
    size_t n = rng_below(&p->rng, TLS13_PLAIN_MAX + 1);
    while (text.n > 0 && b.n < n)
        buf_put(&b, text);
    buf_cut(&b, b.n < n ? b.n : n);
    send_data(p, buf_bytes(&b));
    buf_fini(&b);
}

static void send_padded(struct peer *p, struct bytes text)
{
    static const char zeros[TLS13_PLAIN_MAX];
    struct buf b = {0};
    buf_put(&b, text);
    buf_putc(&b, TLS13_DATA);
    buf_put(&b, bytes_from(zeros, rng_below(&p->rng, (uint32_t)(TLS13_PLAIN_MAX - b.n))));
    seal(p, 0, buf_bytes(&b), text.n > 0);
    buf_put(&p->data, text);
    buf_fini(&b);
}

/* A handshake message, cut by chance. */
static void send_message(struct peer *p, int type, struct bytes body)
{
    struct buf b = {0};
    buf_put(&b, bytes_from((const char[]){(char)type, 0, (char)(body.n >> 8), (char)body.n}, 4));
    buf_put(&b, body);
    for (struct bytes rest = buf_bytes(&b); rest.n > 0;) {
        size_t n = 1 + rng_below(&p->rng, (uint32_t)rest.n);
        seal(p, TLS13_HANDSHAKE, bytes_slice(rest, 0, n), false);
        rest = bytes_slice(rest, n, rest.n);
    }
    buf_fini(&b);
}

static void send_wrong(struct peer *p, char kind, struct bytes b)
{
    p->is_clean = false;
    if (kind == 'h')
        seal(p, TLS13_HANDSHAKE, b, false);
    else if (kind == 'a')
        seal(p, TLS13_ALERT, b, false);
    else if (kind == 'o' && b.n > 0 && *b.p != TLS13_DATA)
        seal(p, (uint8_t)*b.p, bytes_slice(b, 1, b.n), false);
    else
        buf_put(&p->wire, b);
}

static void take_step(struct peer *p, char kind, struct bytes b)
{
    switch (kind) {
    case 'd':
    case 'e':
        send_data(p, kind == 'd' ? b : BYTES(""));
        break;
    case 'D':
        send_long(p, b);
        break;
    case 'p':
        send_padded(p, b);
        break;
    case 't':
        send_message(p, 4, b);
        break;
    case 'k':
        send_message(p, 24, b.n % 2 ? bytes_from("\1", 1) : bytes_from("\0", 1));
        RM_ASSERT(tls13_key_next(&p->out));
        break;
    case 'u':
        seal(p, TLS13_ALERT, bytes_from("\1\x5a", 2), false);
        break;
    case 'c':
        seal(p, TLS13_ALERT, bytes_from("\1\0", 2), false);
        p->is_over = true;
        break;
    default:
        send_wrong(p, kind, b);
    }
}

static void play(struct peer *p, struct bytes in)
{
    while (in.n > 0 && !p->is_over) {
        const char *end = memchr(in.p, '\n', in.n);
        size_t n = end != NULL ? (size_t)(end - in.p) : in.n;
        struct bytes line = bytes_slice(in, 0, n < 5000 ? n : 5000);
        if (line.n > 0)
            take_step(p, *line.p, bytes_slice(line, 1, line.n));
        in = bytes_slice(in, end != NULL ? n + 1 : n, in.n);
    }
}

/* ---------------------------------------------------------------- our side */

/* The plain stream: gives `in` and takes into `out`, in pieces, and often nothing. */
struct plain {
    struct stream stream; /* first */
    struct rng *rng;
    uint32_t most; /* bytes at once */
    struct bytes in;
    struct buf out;
};

static struct plain *plain_of(struct stream *s)
{
    return (struct plain *)(void *)s;
}

static enum io plain_read(struct stream *s, void *buf, size_t cap, size_t *n)
{
    struct plain *p = plain_of(s);
    if (rng_below(p->rng, 4) == 0)
        return IO_AGAIN;
    if (p->in.n == 0)
        return IO_EOF;
    *n = 1 + rng_below(p->rng, p->most);
    *n = *n < cap ? *n : cap;
    *n = *n < p->in.n ? *n : p->in.n;
    memcpy(buf, p->in.p, *n);
    p->in = bytes_slice(p->in, *n, p->in.n);
    return IO_OK;
}

static enum io plain_write(struct stream *s, const struct iovec *v, int n_v, size_t *n)
{
    struct plain *p = plain_of(s);
    RM_ASSERT(n_v == 1);
    if (rng_below(p->rng, 4) == 0)
        return IO_AGAIN;
    *n = 1 + rng_below(p->rng, p->most);
    *n = *n < v->iov_len ? *n : v->iov_len;
    buf_put(&p->out, bytes_from(v->iov_base, *n));
    return IO_OK;
}

struct reading {
    struct buf data;
    enum io end;
    const char *error;
    bool is_peers_alert;
};

/* Reads until nothing is left for now, and a little less by chance; each buffer ends where its allocation does. */
static void read_some(struct tls_records *r, struct tls_wire *w, struct rng *rng, struct reading *got)
{
    char *room = malloc(TLS13_WIRE_MAX);
    RM_ASSERT(room != NULL);
    w->is_dry = false;
    tls_wire_lend(w, room);
    do {
        size_t n, cap = 1 + rng_below(rng, rng_below(rng, 4) ? 40 : 2 * TLS13_PLAIN_MAX);
        char *buf = malloc(cap);
        RM_ASSERT(buf != NULL);
        got->end = tls_records_read(r, w, buf, cap, &n);
        RM_ASSERT(got->end != IO_OK || (n > 0 && n <= cap));
        if (got->end == IO_OK)
            buf_put(&got->data, bytes_from(buf, n));
        free(buf);
    } while (got->end == IO_OK && rng_below(rng, 8) != 0);
    tls_wire_settle(w);
    free(room);
}

/* Of `text`, which begins again at its end; what was not taken is what comes again. */
static void write_some(struct tls_records *r, struct tls_wire *w, struct bytes text, struct buf *sent)
{
    size_t n = 0, at = sent->n % text.n;
    if (tls_records_write(r, w, bytes_slice(text, at, text.n), &n) != IO_OK)
        return;
    RM_ASSERT(n == text.n - at);
    buf_put(sent, bytes_slice(text, at, text.n));
}

/* What we have sent, as the peer reads it: `sent`, but for a last record of which only a piece may be there. */
static void check_sent(const struct tls13_suite *suite, struct bytes wire, struct bytes sent)
{
    struct tls13_key in;
    char plain[TLS13_BODY_MAX];
    size_t n, at = 0;
    uint8_t type = TLS13_DATA;
    RM_ASSERT(tls13_key_init(&in, suite, client_secret, false));
    while (wire.n >= TLS13_HEAD_BYTES) {
        size_t n_body = (size_t)(uint8_t)wire.p[3] << 8 | (uint8_t)wire.p[4];
        if (wire.n < TLS13_HEAD_BYTES + n_body)
            break;
        RM_ASSERT(type != TLS13_ALERT); /* none follows one */
        RM_ASSERT(in.n_records <= suite->records_max && tls13_open(&in, wire.p, n_body, plain, &n, &type));
        wire = bytes_slice(wire, TLS13_HEAD_BYTES + n_body, wire.n);
        if (type == TLS13_HANDSHAKE) {
            RM_ASSERT(bytes_eq(bytes_from(plain, n), bytes_from("\x18\0\0\1\0", 5)) && tls13_key_next(&in));
        } else if (type == TLS13_DATA) {
            RM_ASSERT(at + n <= sent.n && memcmp(plain, sent.p + at, n) == 0);
            at += n;
        } else {
            RM_ASSERT(type == TLS13_ALERT && n == 2);
        }
    }
    RM_ASSERT(at == sent.n);
    tls13_key_fini(&in);
}

static void read_split(struct bytes in, struct bytes wire, uint32_t most, struct reading *got)
{
    static const struct stream_class class = {.read = plain_read, .write = plain_write};
    struct rng rng = fuzz_rng(in, most);
    const struct tls13_suite *suite = suite_for(in);
    struct plain plain = {.stream = {.class = &class}, .rng = &rng, .most = most, .in = wire};
    struct tls_wire w = {.plain = &plain.stream};
    struct tls_records *r = tls_records_new(suite, client_secret, server_secret);
    struct buf sent = {0};
    RM_ASSERT(r != NULL);
    while (got->end == IO_OK || got->end == IO_AGAIN) {
        read_some(r, &w, &rng, got);
        write_some(r, &w, BYTES("what we have to say"), &sent);
    }
    tls_records_goodbye(r, &w);
    got->error = tls_records_error(r);
    got->is_peers_alert = tls_records_is_peers_alert(r);
    check_sent(suite, buf_bytes(&plain.out), buf_bytes(&sent));
    tls_records_free(r);
    tls_wire_fini(&w);
    buf_fini(&plain.out);
    buf_fini(&sent);
}

static void check(const struct peer *p, const struct reading *got)
{
    struct bytes data = buf_bytes(&p->data), come = buf_bytes(&got->data);
    RM_ASSERT(come.n <= data.n && bytes_eq(come, bytes_slice(data, 0, come.n)));
    RM_ASSERT(got->end == IO_EOF || got->error != NULL);
    if (!p->is_clean)
        return;
    RM_ASSERT(come.n == data.n && !got->is_peers_alert);
    RM_ASSERT(got->end == (p->is_over ? IO_EOF : IO_ERROR));
    RM_ASSERT(p->is_over || strcmp(got->error, "TLS truncated") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t most[] = {20000, 60, 1};
    struct bytes in = bytes_from(data, size);
    struct reading got[RM_COUNTOF(most)] = {0};
    struct peer p = {.is_clean = true, .rng = fuzz_rng(in, 2)};
    RM_ASSERT(tls13_key_init(&p.out, suite_for(in), server_secret, true));
    play(&p, in);
    for (size_t i = 0; i < RM_COUNTOF(most) && p.wire.n <= MOST_PIECES * most[i]; i++) {
        read_split(in, buf_bytes(&p.wire), most[i], &got[i]);
        check(&p, &got[i]);
        RM_ASSERT(bytes_eq(buf_bytes(&got[i].data), buf_bytes(&got[0].data)) && got[i].end == got[0].end);
        RM_ASSERT(got[i].end == IO_EOF || strcmp(got[i].error, got[0].error) == 0);
    }
    for (size_t i = 0; i < RM_COUNTOF(most); i++)
        buf_fini(&got[i].data);
    tls13_key_fini(&p.out);
    buf_fini(&p.wire);
    buf_fini(&p.data);
    return 0;
}

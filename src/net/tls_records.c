/* Reading: whole records are opened where they lie (tls_wire) straight into the reader's buffer. Where that is too
 * small, what is left of the content takes the record's place, and `n_opened` counts it:
 *
 *     wire:  | content, n_opened | record | record | piece of a record |
 *
 * Writing: a record is sealed and sent. What did not fit waits in `unsent`; sealing it again would use its number
 * twice, which is the one thing that must never happen under such a key. */
#include "net/tls_records.h"

#include "base/err.h"
#include "base/mem.h"

#include <openssl/err.h>

enum message_type { NEW_SESSION_TICKET = 4, KEY_UPDATE = 24 };
enum alert {
    CLOSE_NOTIFY = 0,
    UNEXPECTED_MESSAGE = 10,
    BAD_RECORD_MAC = 20,
    RECORD_OVERFLOW = 22,
    ILLEGAL_PARAMETER = 47,
    DECODE_ERROR = 50,
    INTERNAL_ERROR = 80,
    USER_CANCELED = 90
};
enum { WARNING = 1, FATAL = 2 };
enum {
    MESSAGE_HEAD_BYTES = 4,
    UPDATE_BYTES = MESSAGE_HEAD_BYTES + 1 + TLS13_ADDED_BYTES, /* a KeyUpdate on the wire */
    IDLE_RECORDS_MAX = 32 /* without data in a row: tickets are two, a peer that only keeps us busy sends more */
};

struct tls_records {
    struct tls13_key in, out;
    struct tls_shake *tickets; /* NULL once nobody waits for more */
    const char *error;
    char *unsent; /* NULL, or the rest of a sealed record */
    uint32_t n_unsent, unsent_at;
    uint16_t n_promised;   /* of the caller's bytes stand in it */
    uint16_t n_opened;     /* of the wire's first bytes are content */
    uint32_t message_left; /* of a handshake message whose head is known */
    uint8_t message_head[MESSAGE_HEAD_BYTES], n_message_head;
    uint8_t n_idle; /* records without data in a row */
    bool owes_update, has_ended;
    bool is_peers_alert; /* what `error` says */
};

struct tls_records *tls_records_new(const struct tls13_suite *suite, const uint8_t *client, const uint8_t *server)
{
    struct tls_records *r = mem_zalloc(sizeof *r);
    if (tls13_key_init(&r->in, suite, server, false) && tls13_key_init(&r->out, suite, client, true))
        return r;
    tls_records_free(r);
    return NULL;
}

void tls_records_take_tickets(struct tls_records *r, struct tls_shake *shake)
{
    RM_ASSERT(r->tickets == NULL);
    tls_shake_detach(shake);
    r->tickets = shake;
}

static void drop_tickets(struct tls_records *r)
{
    tls_shake_free(r->tickets);
    r->tickets = NULL;
}

void tls_records_free(struct tls_records *r)
{
    if (r == NULL)
        return;
    drop_tickets(r);
    tls13_key_fini(&r->in);
    tls13_key_fini(&r->out);
    mem_free(r->unsent);
    mem_free(r);
}

const char *tls_records_error(const struct tls_records *r)
{
    return r->error;
}

bool tls_records_is_peers_alert(const struct tls_records *r)
{
    return r->is_peers_alert;
}

/* ---------------------------------------------------------------- writing */

/* Sends wire[*at, n) as far as the plain stream takes it; IO_OK: all of it. */
static enum io push(struct tls_wire *w, const char *wire, size_t n, size_t *at)
{
    enum io io = IO_OK;
    while (*at < n && io == IO_OK) {
        struct iovec v = {(void *)(uintptr_t)(wire + *at), n - *at};
        size_t put = 0;
        io = stream_write(w->plain, &v, 1, &put);
        *at += put;
    }
    w->is_broken |= io == IO_ERROR;
    return io;
}

/* The KeyUpdate that the peer has asked for, and our next key. The number of bytes, 0 = it failed. */
static size_t seal_update(struct tls_records *r, char *wire)
{
    static const char update[] = {KEY_UPDATE, 0, 0, 1, 0 /* update_not_requested */};
    r->owes_update = false;
    bool ok = tls13_seal(&r->out, TLS13_HANDSHAKE, bytes_from(update, sizeof update), wire) && tls13_key_next(&r->out);
    return ok ? UPDATE_BYTES : 0;
}

static enum io refuse_to_write(struct tls_records *r, const char *error)
{
    r->has_ended = true;
    r->error = error;
    return IO_ERROR;
}

static enum io write_new(struct tls_records *r, struct tls_wire *w, struct bytes b, size_t *n)
{
    char wire[UPDATE_BYTES + TLS13_PLAIN_MAX + TLS13_ADDED_BYTES];
    size_t n_wire = 0, at = 0;
    r->owes_update |= r->out.n_records >= r->out.suite->records_max;
    if ((r->owes_update && (n_wire = seal_update(r, wire)) == 0) || !tls13_seal(&r->out, TLS13_DATA, b, wire + n_wire))
        return refuse_to_write(r, "TLS: a record could not be sealed");
    n_wire += b.n + TLS13_ADDED_BYTES;
    enum io io = push(w, wire, n_wire, &at);
    if (io == IO_OK) {
        *n = b.n;
    } else if (io == IO_AGAIN) {
        r->n_unsent = (uint32_t)(n_wire - at);
        r->unsent = memcpy(mem_alloc(r->n_unsent), wire + at, r->n_unsent);
        r->unsent_at = 0;
        r->n_promised = (uint16_t)b.n;
    }
    return io;
}

enum io tls_records_write(struct tls_records *r, struct tls_wire *w, struct bytes b, size_t *n)
{
    size_t at = r->unsent_at;
    if (r->has_ended)
        return refuse_to_write(r, r->error ? r->error : "TLS: written behind its end");
    if (r->unsent == NULL)
        return write_new(r, w, b, n);
    if (b.n < r->n_promised)
        return refuse_to_write(r, "TLS: a write was not repeated");
    enum io io = push(w, r->unsent, r->n_unsent, &at);
    r->unsent_at = (uint32_t)at;
    if (io != IO_OK)
        return io;
    *n = r->n_promised;
    mem_free(r->unsent);
    r->unsent = NULL;
    return IO_OK;
}

/* The last that is sent, if it can be sent at once. */
static void send_alert(struct tls_records *r, struct tls_wire *w, int level, enum alert what)
{
    const char alert[] = {(char)level, (char)what};
    char wire[sizeof alert + TLS13_ADDED_BYTES];
    size_t at = 0;
    bool may = !r->has_ended && r->unsent == NULL;
    r->has_ended = true;
    if (may && tls13_seal(&r->out, TLS13_ALERT, bytes_from(alert, sizeof alert), wire))
        (void)push(w, wire, sizeof wire, &at);
}

void tls_records_goodbye(struct tls_records *r, struct tls_wire *w)
{
    send_alert(r, w, WARNING, CLOSE_NOTIFY);
}

/* ---------------------------------------------------------------- reading */

static enum io fail(struct tls_records *r, struct tls_wire *w, enum alert what, const char *error)
{
    r->error = error;
    send_alert(r, w, FATAL, what);
    return IO_ERROR;
}

/* `b`: the message's body, one byte, and what stands behind it in its record, which must be nothing: what comes under
 * the next key begins with a record (§5.1). */
static enum io update_key(struct tls_records *r, struct tls_wire *w, struct bytes b)
{
    if (b.p[0] != 0 && b.p[0] != 1)
        return fail(r, w, ILLEGAL_PARAMETER, "TLS: a KeyUpdate of no known kind");
    if (b.n > 1)
        return fail(r, w, UNEXPECTED_MESSAGE, "TLS: a KeyUpdate that does not end its record");
    drop_tickets(r); /* OpenSSL's key would be the old one */
    r->n_message_head = 0;
    r->owes_update |= b.p[0] == 1;
    return tls13_key_next(&r->in) ? IO_OK : fail(r, w, INTERNAL_ERROR, "TLS: no next key");
}

/* The head of a message, byte by byte, since it may be cut anywhere. */
static bool take_head(struct tls_records *r, struct bytes *b)
{
    while (r->n_message_head < MESSAGE_HEAD_BYTES && b->n > 0) {
        r->message_head[r->n_message_head++] = (uint8_t)*b->p;
        *b = bytes_slice(*b, 1, b->n);
    }
    const uint8_t *h = r->message_head;
    r->message_left = (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | h[3];
    return r->n_message_head == MESSAGE_HEAD_BYTES;
}

static enum io check_head(struct tls_records *r, struct tls_wire *w)
{
    if (r->message_head[0] == NEW_SESSION_TICKET)
        return IO_OK;
    if (r->message_head[0] != KEY_UPDATE)
        return fail(r, w, UNEXPECTED_MESSAGE, "TLS: an unexpected handshake message");
    return r->message_left == 1 ? IO_OK : fail(r, w, DECODE_ERROR, "TLS: a KeyUpdate of wrong length");
}

/* Handshake messages, or a piece of one. What a ticket says is between OpenSSL and the server. */
static enum io take_messages(struct tls_records *r, struct tls_wire *w, struct bytes b)
{
    if (b.n == 0)
        return fail(r, w, UNEXPECTED_MESSAGE, "TLS: an empty handshake record");
    while (b.n > 0) {
        if (r->n_message_head < MESSAGE_HEAD_BYTES) {
            if (!take_head(r, &b))
                break;
            if (check_head(r, w) != IO_OK)
                return IO_ERROR;
        }
        if (r->message_head[0] == KEY_UPDATE && b.n > 0)
            return update_key(r, w, b);
        size_t n = b.n < r->message_left ? b.n : r->message_left;
        r->message_left -= (uint32_t)n;
        b = bytes_slice(b, n, b.n);
        if (r->message_left == 0)
            r->n_message_head = 0;
    }
    return IO_OK;
}

static enum io take_handshake(struct tls_records *r, struct tls_wire *w, struct bytes content, struct bytes record)
{
    enum io io = take_messages(r, w, content);
    if (io == IO_OK && r->tickets != NULL && !tls_shake_ticket(r->tickets, record))
        drop_tickets(r);
    return io;
}

static enum io take_alert(struct tls_records *r, struct tls_wire *w, struct bytes b)
{
    if (b.n != 2)
        return fail(r, w, b.n == 0 ? UNEXPECTED_MESSAGE : DECODE_ERROR, "TLS: a malformed alert");
    if (b.p[1] == CLOSE_NOTIFY)
        return IO_EOF;
    if (b.p[1] == USER_CANCELED)
        return IO_OK;
    r->has_ended = true; /* §6.2: no alert answers an alert */
    r->is_peers_alert = true;
    r->error = SSL_alert_desc_string_long((uint8_t)b.p[1]);
    return IO_ERROR;
}

/* `content` lies in buf, or elsewhere because it might not have fitted: then what does not fit takes the place of the
 * record's end. */
static void take_data(struct tls_records *r, struct tls_wire *w, struct bytes content, char *buf, size_t cap, size_t *n)
{
    *n = content.n < cap ? content.n : cap;
    if (content.p != buf)
        memcpy(buf, content.p, *n);
    r->n_opened = (uint16_t)(content.n - *n);
    w->at -= r->n_opened;
    memcpy(w->p + w->at, content.p + *n, r->n_opened);
}

static enum io take_record(struct tls_records *r, struct tls_wire *w, char *buf, size_t cap, size_t *n)
{
    char room[TLS13_BODY_MAX];
    struct bytes record = tls_wire_bytes(w);
    size_t n_body = (size_t)(uint8_t)record.p[3] << 8 | (uint8_t)record.p[4], n_content;
    uint8_t type;
    if (record.p[0] != TLS13_DATA)
        return fail(r, w, UNEXPECTED_MESSAGE, "TLS: a record that is not sealed");
    if (n_body > TLS13_BODY_MAX)
        return fail(r, w, RECORD_OVERFLOW, "TLS: a record too long");
    char *to = n_body <= cap ? buf : room;
    if (!tls13_open(&r->in, record.p, n_body, to, &n_content, &type))
        return fail(r, w, BAD_RECORD_MAC, "TLS: a record that the peer has not sealed");
    record.n = TLS13_HEAD_BYTES + n_body;
    tls_wire_use(w, record.n);
    struct bytes content = bytes_from(to, n_content);
    if (type != TLS13_HANDSHAKE && r->n_message_head > 0)
        return fail(r, w, UNEXPECTED_MESSAGE, "TLS: a handshake message broken off");
    switch (type) {
    case TLS13_DATA:
        drop_tickets(r);
        take_data(r, w, content, buf, cap, n);
        return IO_OK;
    case TLS13_HANDSHAKE:
        return take_handshake(r, w, content, record);
    case TLS13_ALERT:
        return take_alert(r, w, content);
    default:
        return fail(r, w, UNEXPECTED_MESSAGE, "TLS: a record of no known type");
    }
}

/* A whole record, or a head that nothing good can follow. */
static bool has_record(struct bytes wire)
{
    if (wire.n < TLS13_HEAD_BYTES)
        return false;
    size_t n_body = (size_t)(uint8_t)wire.p[3] << 8 | (uint8_t)wire.p[4];
    return wire.p[0] != TLS13_DATA || n_body > TLS13_BODY_MAX || wire.n >= TLS13_HEAD_BYTES + n_body;
}

static enum io give_opened(struct tls_records *r, struct tls_wire *w, char *buf, size_t cap, size_t *n)
{
    *n = r->n_opened < cap ? r->n_opened : cap;
    memcpy(buf, w->p + w->at, *n);
    tls_wire_use(w, *n);
    r->n_opened -= (uint16_t)*n;
    return IO_OK;
}

enum io tls_records_read(struct tls_records *r, struct tls_wire *w, void *buf, size_t cap, size_t *n)
{
    enum io io = IO_OK;
    *n = 0;
    if (r->n_opened > 0)
        return give_opened(r, w, buf, cap, n);
    while (io == IO_OK && *n == 0) {
        if (!has_record(tls_wire_bytes(w))) {
            io = tls_wire_fill(w);
            if (io != IO_EOF)
                continue;
            r->error = "TLS truncated";
            return IO_ERROR;
        }
        io = take_record(r, w, buf, cap, n);
        if (*n > 0)
            r->n_idle = 0;
        else if (io == IO_OK && ++r->n_idle > IDLE_RECORDS_MAX)
            return fail(r, w, UNEXPECTED_MESSAGE, "TLS: records without data");
    }
    return io;
}

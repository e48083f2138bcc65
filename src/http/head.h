/* HTTP/1.1 message heads (RFC 9112), strict: what is not plainly right is for llhttp to say; framing is decided
 * here. Pure.
 *
 * A head is looked for in the bytes given: HEAD_MORE until the empty line is there, so the result does not depend on
 * how the input was split. Views in struct head point into `in`, which must stay; arrays live in the arena. */
#ifndef RM_HTTP_HEAD_H
#define RM_HTTP_HEAD_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fields.h"

enum head_kind { HEAD_REQUEST, HEAD_RESPONSE };
enum framing { FRAMING_NONE, FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_UNTIL_CLOSE };

struct head_limits {
    size_t bytes; /* start line and fields together */
    size_t fields;
};

struct head {
    struct bytes method, target; /* request, as sent */
    struct bytes path, query;    /* request: path without query, of origin and absolute form; query without '?' */
    struct bytes host;           /* request: Host, or the absolute target's authority (which wins) */
    uint16_t status;             /* response */
    unsigned minor;              /* HTTP/1.minor */
    struct fields fields;
    enum framing framing;
    uint64_t content_length; /* FRAMING_LENGTH */
    bool keep_alive;         /* the connection may be used again after this message */
    bool expects_continue;
};

enum head_result {
    HEAD_OK,
    HEAD_MORE,      /* not whole yet */
    HEAD_BAD,       /* malformed, ambiguous framing, bare LF or CR, missing or several Host: 400 and close */
    HEAD_TOO_LARGE, /* 431 */
    HEAD_VERSION    /* not HTTP/1.x: 505 */
};

/* *used = bytes of the head including the empty line (HEAD_OK). *why: static text when bad. For responses, the
 * request's method matters: is_head_request says the response has no body. 1xx, 204 and 304 have none either. A request
 * head with both Content-Length and Transfer-Encoding, repeated or list-valued lengths, a transfer coding other than
 * exactly "chunked", obs-fold, or blanks before a colon is HEAD_BAD. */
enum head_result head_parse(struct bytes in, enum head_kind kind, bool is_head_request,
                            const struct head_limits *limits, struct arena *arena, struct head *out, size_t *used,
                            const char **why);

/* The bytes that the views point into are now at `to` as well: the views follow. */
void head_move(struct head *h, struct bytes from, const char *to);

/* Writing. A control character, CR or LF in a value drops the field (never injects). `name`: a literal. */
void head_put_request(struct buf *out, const char *method, struct bytes target, struct bytes host);
void head_put_status(struct buf *out, unsigned status);
/* start: a literal "name: ". */
void head_put_text(struct buf *out, struct bytes start, struct bytes value);
void head_put_line(struct buf *out, struct bytes name, struct bytes value);
void head_put_line_u64(struct buf *out, struct bytes name, uint64_t value);
static inline void head_put_field(struct buf *out, const char *name, struct bytes value)
{
    head_put_line(out, bytes_of(name), value);
}
static inline void head_put_field_u64(struct buf *out, const char *name, uint64_t value)
{
    head_put_line_u64(out, bytes_of(name), value);
}
/* A name from outside (a configuration, a provider): checked like the value. */
void head_put_named(struct buf *out, struct bytes name, struct bytes value);
static inline void head_put_end(struct buf *out)
{
    buf_puts(out, "\r\n");
}
const char *head_reason(unsigned status);

#endif

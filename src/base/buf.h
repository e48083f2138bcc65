/* struct buf: owned bytes that grow up to a maximum. Appending past the maximum sets `overflow`, adds nothing and
 * returns false; it never truncates silently. The zero value is an empty buffer without a maximum. */
#ifndef RM_BASE_BUF_H
#define RM_BASE_BUF_H

#include "base/bytes.h"
#include "base/check.h"

#include <stdarg.h>

struct buf {
    char *p;    /* from mem_take(cap) */
    size_t n;   /* used */
    size_t cap; /* allocated; never more than max, so that what fits need not be held against that */
    /* One word for both: a silent stream has several buffers. */
    uint64_t max : 63;     /* 0 = no maximum */
    uint64_t overflow : 1; /* an append was refused since the last buf_clear */
};

static inline struct bytes buf_bytes(const struct buf *b)
{
    return (struct bytes){b->p, b->n};
}
/* Empty, memory kept. */
void buf_clear(struct buf *b);
/* Memory released; the buffer is the zero value with its max kept, and may be used again. Accepts the zero value. */
void buf_let_go(struct buf *b);
static inline void buf_fini(struct buf *b)
{
    b->overflow = false;
    if (b->p != NULL)
        buf_let_go(b);
}
/* Moves the content out: returns it and leaves *from empty. */
struct buf buf_take(struct buf *from);
/* n more bytes, one at least, fit where the buffer lies. */
static inline bool buf_has_room(const struct buf *b, size_t n)
{
    return n - 1 < b->cap - b->n;
}
/* The same where there is no room yet, or nothing to add. */
bool buf_put_growing(struct buf *b, struct bytes a);
static inline bool buf_put(struct buf *b, struct bytes a)
{
    if (!buf_has_room(b, a.n))
        return buf_put_growing(b, a);
    memcpy(b->p + b->n, a.p, a.n);
    b->n += a.n;
    return true;
}
/* The same for what room was reserved for; a is not empty. Inlined always, here and below: the length of a literal is
 * known then. */
static inline __attribute__((always_inline)) void buf_add(struct buf *b, struct bytes a)
{
    RM_ASSERT(a.n <= b->cap - b->n);
    memcpy(b->p + b->n, a.p, a.n);
    b->n += a.n;
}
static inline __attribute__((always_inline)) bool buf_puts(struct buf *b, const char *cstr)
{
    return buf_put(b, bytes_of(cstr));
}
static inline bool buf_putc(struct buf *b, char c)
{
    return buf_put(b, (struct bytes){&c, 1});
}
/* Decimal. */
bool buf_put_u64(struct buf *b, uint64_t v);
bool buf_put_i64(struct buf *b, int64_t v);
bool buf_printf(struct buf *b, const char *fmt, ...) RM_PRINTF(2, 3);
/* Room for at least n more bytes; returns where to write, or NULL at the maximum. Follow with buf_grew. */
static inline char *buf_reserve(struct buf *b, size_t n);
/* The same where there is none yet. */
char *buf_reserve_growing(struct buf *b, size_t n);
static inline char *buf_reserve(struct buf *b, size_t n)
{
    return buf_has_room(b, n) ? b->p + b->n : buf_reserve_growing(b, n);
}
static inline void buf_grew(struct buf *b, size_t n)
{
    RM_ASSERT(n <= b->cap - b->n);
    b->n += n;
}
/* Drops all but the first n bytes. */
static inline void buf_cut(struct buf *b, size_t n)
{
    RM_ASSERT(n <= b->n);
    b->n = n;
}
/* Drops the first n bytes. */
void buf_drop(struct buf *b, size_t n);
/* NUL-terminates without counting the NUL; returns the text. */
const char *buf_cstr(struct buf *b);

#endif

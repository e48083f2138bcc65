#include "base/buf.h"

#include "base/mem.h"

#include <stdio.h>

enum { FIRST_CAP = 256 }; /* a head or a small body: most buffers never grow */

void buf_clear(struct buf *b)
{
    b->n = 0;
    b->overflow = false;
}

void buf_let_go(struct buf *b)
{
    char *p = b->p;
    size_t cap = b->cap;
    *b = (struct buf){.max = b->max};
    mem_put(p, cap);
}

struct buf buf_take(struct buf *from)
{
    struct buf b = *from;
    *from = (struct buf){.max = b.max};
    return b;
}

/* The first n bytes stay. */
static __attribute__((noinline)) char *resize(char *p, size_t n, size_t cap, size_t to)
{
    if (to > MEM_SHELF_BYTES_MAX)
        return mem_realloc(p, to);
    char *q = mem_take(to);
    if (n > 0)
        memcpy(q, p, n);
    mem_put(p, cap);
    return q;
}

char *buf_reserve_growing(struct buf *b, size_t n)
{
    if (n > SIZE_MAX / 2 - b->n || (b->max != 0 && b->n + n > b->max)) {
        b->overflow = true;
        return NULL;
    }
    size_t need = b->n + n;
    if (need > b->cap) {
        size_t cap = need <= FIRST_CAP ? FIRST_CAP : (size_t)1 << (64 - __builtin_clzll(need - 1));
        if (b->max != 0 && cap > b->max)
            cap = b->max;
        b->p = b->p == NULL ? mem_take(cap) : resize(b->p, b->n, b->cap, cap);
        b->cap = cap;
    }
    return b->p + b->n;
}

bool buf_put_growing(struct buf *b, struct bytes a)
{
    if (a.n == 0)
        return true;
    char *at = buf_reserve(b, a.n);
    if (at == NULL)
        return false;
    memcpy(at, a.p, a.n);
    b->n += a.n;
    return true;
}

bool buf_put_u64(struct buf *b, uint64_t v)
{
    size_t n = bytes_n_digits(v);
    char *at = buf_reserve(b, n);
    if (at == NULL)
        return false;
    bytes_digits_before(at + n, v);
    b->n += n;
    return true;
}

bool buf_put_i64(struct buf *b, int64_t v)
{
    if (v >= 0)
        return buf_put_u64(b, (uint64_t)v);
    return buf_putc(b, '-') && buf_put_u64(b, 0 - (uint64_t)v);
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    bool done = false;
    if (n >= 0 && (size_t)n < sizeof small) {
        done = buf_put(b, bytes_from(small, (size_t)n));
    } else if (n >= 0) {
        char *at = buf_reserve(b, (size_t)n + 1);
        if (at != NULL) {
            vsnprintf(at, (size_t)n + 1, fmt, again);
            b->n += (size_t)n;
            done = true;
        }
    }
    va_end(again);
    return done;
}

void buf_drop(struct buf *b, size_t n)
{
    RM_ASSERT(n <= b->n);
    if (n == 0)
        return;
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
}

const char *buf_cstr(struct buf *b)
{
    size_t max = b->max;
    b->max = 0;
    *buf_reserve(b, 1) = '\0';
    b->max = max;
    if (max != 0 && b->cap > max)
        b->cap = max; /* the NUL may lie behind it */
    return b->p;
}

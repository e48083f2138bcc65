/* Read buffers of one core. A connection takes one when it is about to read and gives it back when everything that was
 * read is used, so a silent stream holds none and nothing is allocated per chunk. The zero pool (NULL) allocates and
 * frees each time: for tools and tests. */
#ifndef RM_HTTP_READBUF_H
#define RM_HTTP_READBUF_H

#include "base/check.h"
#include "base/poison.h"

#include <stddef.h>

enum { READBUF_BYTES = 64 * 1024, READBUFS_FREE_MAX = 16 };
struct readbufs { /* readbuf.c's own */
    char *free[READBUFS_FREE_MAX];
    size_t n_free;
    size_t n_made; /* of which the others are taken */
};

struct readbufs *readbufs_new(void);
/* Every buffer must have been put back. */
void readbufs_free(struct readbufs *r);
/* Those that are free go back to the allocator. */
void readbufs_rest(struct readbufs *r);
char *readbuf_take_new(struct readbufs *r);
void readbuf_let_go(struct readbufs *r, char *p);

/* READBUF_BYTES, uninitialised. Never NULL. */
static inline char *readbuf_take(struct readbufs *r)
{
    if (r == NULL || r->n_free == 0)
        return readbuf_take_new(r);
    char *p = r->free[--r->n_free];
    UNPOISON(p, READBUF_BYTES);
    return p;
}

/* p may be NULL. */
static inline void readbuf_put(struct readbufs *r, char *p)
{
    if (p == NULL || r == NULL || r->n_free == READBUFS_FREE_MAX) {
        readbuf_let_go(r, p);
        return;
    }
    RM_ASSERT(r->n_free < r->n_made);
    POISON(p, READBUF_BYTES);
    r->free[r->n_free++] = p;
}

#endif

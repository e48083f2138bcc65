/* A short stack of free buffers; what does not fit goes back to the allocator. Free ones are poisoned under ASan, so
 * that a view kept too long is found. */
#include "http/readbuf.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/poison.h"

enum { FREE_MAX = 8 };

struct readbufs {
    char *free[FREE_MAX];
    size_t n_free;
    size_t n_taken;
};

struct readbufs *readbufs_new(void)
{
    return mem_zalloc(sizeof(struct readbufs));
}

void readbufs_free(struct readbufs *r)
{
    if (r == NULL)
        return;
    RM_ASSERT(r->n_taken == 0);
    for (size_t i = 0; i < r->n_free; i++) {
        UNPOISON(r->free[i], READBUF_BYTES);
        mem_free(r->free[i]);
    }
    mem_free(r);
}

char *readbuf_take(struct readbufs *r)
{
    if (r == NULL)
        return mem_alloc(READBUF_BYTES);
    r->n_taken++;
    if (r->n_free == 0)
        return mem_alloc(READBUF_BYTES);
    char *p = r->free[--r->n_free];
    UNPOISON(p, READBUF_BYTES);
    return p;
}

void readbuf_put(struct readbufs *r, char *p)
{
    if (p == NULL)
        return;
    if (r != NULL) {
        RM_ASSERT(r->n_taken > 0);
        r->n_taken--;
        if (r->n_free < FREE_MAX) {
            POISON(p, READBUF_BYTES);
            r->free[r->n_free++] = p;
            return;
        }
    }
    mem_free(p);
}

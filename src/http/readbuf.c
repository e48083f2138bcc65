/* A short stack of free buffers; what does not fit goes back to the allocator. Free ones are poisoned under ASan, so
 * that a view kept too long is found. */
#include "http/readbuf.h"

#include "base/mem.h"

struct readbufs *readbufs_new(void)
{
    return mem_zalloc(sizeof(struct readbufs));
}

void readbufs_rest(struct readbufs *r)
{
    r->n_made -= r->n_free;
    while (r->n_free > 0) {
        char *p = r->free[--r->n_free];
        UNPOISON(p, READBUF_BYTES);
        mem_free(p);
    }
}

void readbufs_free(struct readbufs *r)
{
    if (r == NULL)
        return;
    RM_ASSERT(r->n_free == r->n_made);
    readbufs_rest(r);
    mem_free(r);
}

char *readbuf_take_new(struct readbufs *r)
{
    if (r != NULL)
        r->n_made++;
    return mem_alloc(READBUF_BYTES);
}

void readbuf_let_go(struct readbufs *r, char *p)
{
    if (p != NULL && r != NULL)
        r->n_made--;
    mem_free(p);
}

/* Read buffers of one core. A connection takes one when it is about to read and gives it back when everything that was
 * read is used, so a silent stream holds none and nothing is allocated per chunk. The zero pool (NULL) allocates and
 * frees each time: for tools and tests. */
#ifndef RM_HTTP_READBUF_H
#define RM_HTTP_READBUF_H

#include <stddef.h>

enum { READBUF_BYTES = 64 * 1024 };
struct readbufs;

struct readbufs *readbufs_new(void);
/* Every buffer must have been put back. */
void readbufs_free(struct readbufs *r);
/* READBUF_BYTES, uninitialised. Never NULL. */
char *readbuf_take(struct readbufs *r);
/* p may be NULL. */
void readbuf_put(struct readbufs *r, char *p);

#endif

/* Long-lived objects of one type on one core, in pages that are never moved. The owner holds the pointer; everyone
 * else holds a handle (index + generation), which turns into NULL once the object was released.
 * A released object is poisoned under ASan. */
#ifndef RM_BASE_SLAB_H
#define RM_BASE_SLAB_H

#include "base/mem.h"

struct slab;
struct handle {
    uint32_t index;
    uint32_t generation; /* 0 = none */
};

struct slab *slab_new(size_t object_bytes, enum mem_type type);
/* Every object must have been put back. */
void slab_free(struct slab *s);
/* A zeroed object. */
void *slab_take(struct slab *s);
void slab_put(struct slab *s, void *object);
struct handle slab_handle(const struct slab *s, const void *object);
/* NULL when the object that the handle meant is gone. */
void *slab_get(const struct slab *s, struct handle h);
size_t slab_n_live(const struct slab *s);

#endif

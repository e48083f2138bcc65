/* One request, one arena: everything a request needs is taken from it and released at once. Per-event scratch is
 * marked and reset, so that a long stream does not grow it.
 *
 *     [block]--->[block]--->[block]      each block: header | used ... | free (poisoned under ASan)
 *
 * With -Dalloc=plain every object is its own malloc, so that sanitizers and valgrind see each one. */
#ifndef RM_BASE_ARENA_H
#define RM_BASE_ARENA_H

#include "base/bytes.h"
#include "base/poison.h"

#include <string.h>

enum { ARENA_ALIGN = 16 };
struct arena_block { /* arena.c's own */
    struct arena_block *before;
    size_t used, cap; /* multiples of ARENA_ALIGN */
    _Alignas(ARENA_ALIGN) char data[];
};
struct arena {
    struct arena_block *last; /* NULL = nothing allocated yet */
    size_t n_bytes;           /* handed out since init */
};
struct arena_mark {
    struct arena_block *last;
    size_t used;
    size_t n_bytes;
};

/* The zero value is an empty arena too. */
void arena_init(struct arena *a);
/* Releases everything; the arena is empty again. */
static inline void arena_fini(struct arena *a);
/* The same where anything was allocated. */
void arena_drop_all(struct arena *a);
static inline void arena_fini(struct arena *a)
{
    if (a->last != NULL)
        arena_drop_all(a);
}
/* Of a new block, where the last one has no room. */
void *arena_alloc_more(struct arena *a, size_t n);
/* n bytes, not zeroed, aligned for any object; for what is written at once. Never NULL. */
static inline void *arena_alloc_raw(struct arena *a, size_t n)
{
    struct arena_block *b = a->last;
    if (b == NULL || n - 1 >= b->cap - b->used) /* 0 bytes take room as well, so that each has a place of its own */
        return arena_alloc_more(a, n);
    size_t taken = (n + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    char *p = b->data + b->used;
    b->used += taken;
    a->n_bytes += taken;
    UNPOISON(p, n);
    return p;
}
/* The same, zeroed. */
static inline void *arena_alloc(struct arena *a, size_t n)
{
    return memset(arena_alloc_raw(a, n), 0, n);
}
/* Makes sure that the next n bytes need no new block. Before the mark of a scratch arena: they stay, and what fits in
 * them never costs a malloc. */
void arena_reserve(struct arena *a, size_t n);
/* NUL-terminated copy that lives as long as the arena. */
struct bytes arena_dup(struct arena *a, struct bytes b);
struct bytes arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Everything allocated after the mark is released by arena_reset. Marks nest. */
struct arena_mark arena_mark(const struct arena *a);
void arena_reset(struct arena *a, struct arena_mark m);

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (n)))

#endif

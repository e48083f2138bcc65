/* One request, one arena: everything a request needs is taken from it and released at once. Per-event scratch is
 * marked and reset, so that a long stream does not grow it.
 *
 *     [block]--->[block]--->[block]      each block: header | used ... | free (poisoned under ASan)
 *
 * With -Dalloc=plain every object is its own malloc, so that sanitizers and valgrind see each one. */
#ifndef RM_BASE_ARENA_H
#define RM_BASE_ARENA_H

#include "base/bytes.h"

struct arena_block;
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
void arena_fini(struct arena *a);
/* n bytes, zeroed, aligned for any object. Never NULL. */
void *arena_alloc(struct arena *a, size_t n);
/* The same, not zeroed: for large pieces that are written at once. */
void *arena_alloc_raw(struct arena *a, size_t n);
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

#include "base/arena.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

/* The first blocks, with their heads, are of what a thread's shelf holds. */
enum { FIRST_BLOCK = 480, MOST_BLOCK = 64 * 1024 };

void arena_init(struct arena *a)
{
    *a = (struct arena){0};
}

static void drop_block(struct arena_block *b)
{
    UNPOISON(b->data, b->cap);
    mem_count(MEM_ARENA, -1);
    mem_put(b, sizeof *b + b->cap);
}

static void drop_last(struct arena *a)
{
    struct arena_block *b = a->last;
    a->last = b->before;
    drop_block(b);
}

/* b and all before it. */
static __attribute__((noinline)) void drop_blocks(struct arena_block *b)
{
    for (struct arena_block *before; b != NULL; b = before) {
        before = b->before;
        drop_block(b);
    }
}

/* Most have one block. */
void arena_drop_all(struct arena *a)
{
    struct arena_block *b = a->last;
    arena_init(a);
    if (b->before != NULL)
        drop_blocks(b->before);
    drop_block(b);
}

/* Of the usual size where that is enough. */
static size_t next_cap(const struct arena *a, size_t need)
{
#ifdef RM_ALLOC_PLAIN
    (void)a;
    return need;
#else
    size_t cap = a->last ? a->last->cap * 2 : FIRST_BLOCK;
    if (cap > MOST_BLOCK)
        cap = MOST_BLOCK;
    return cap < need ? need : cap;
#endif
}

static void add_block(struct arena *a, size_t cap)
{
    cap = (cap + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    struct arena_block *b = mem_take(sizeof *b + cap);
    b->before = a->last;
    b->used = 0;
    b->cap = cap;
    POISON(b->data, cap);
    mem_count(MEM_ARENA, 1);
    a->last = b;
}

void *arena_alloc_more(struct arena *a, size_t n)
{
    size_t least = n > 0 ? n : 1;
    RM_ASSERT(n < SIZE_MAX / 4);
    if (a->last == NULL || a->last->cap - a->last->used < least)
        add_block(a, next_cap(a, least));
    return arena_alloc_raw(a, least);
}

void arena_reserve(struct arena *a, size_t n)
{
    if (a->last == NULL || a->last->cap - a->last->used < n)
        add_block(a, a->last == NULL ? n : next_cap(a, n)); /* the first one is what is asked for */
}

struct bytes arena_dup(struct arena *a, struct bytes b)
{
    char *p = arena_alloc_raw(a, b.n + 1);
    if (b.n > 0)
        memcpy(p, b.p, b.n);
    p[b.n] = '\0';
    return bytes_from(p, b.n);
}

struct bytes arena_printf(struct arena *a, const char *fmt, ...)
{
    char probe[1];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(probe, sizeof probe, fmt, args);
    va_end(args);
    RM_ASSERT(n >= 0);
    char *p = arena_alloc_raw(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return bytes_from(p, (size_t)n);
}

struct arena_mark arena_mark(const struct arena *a)
{
    return (struct arena_mark){a->last, a->last ? a->last->used : 0, a->n_bytes};
}

void arena_reset(struct arena *a, struct arena_mark m)
{
    while (a->last != m.last) {
        RM_ASSERT(a->last != NULL);
        drop_last(a);
    }
    if (a->last != NULL) {
        RM_ASSERT(m.used <= a->last->used);
        POISON(a->last->data + m.used, a->last->cap - m.used);
        a->last->used = m.used;
    }
    a->n_bytes = m.n_bytes;
}

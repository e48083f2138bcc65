/* The only door to malloc and free. Small allocations abort on failure: a gateway that cannot get 100 bytes cannot
 * tell anyone either. Large ones are admitted by quota before they come here (DESIGN 3.15).
 *
 * What is made and let go with every call goes over the thread's shelf (mem_take, mem_put): a short stack of blocks for
 * each size, the warmest on top. A malloc and its free cost 200 instructions, these 20. Only a thread that has opened
 * its shelf has one (a loop that runs); else, and under sanitizers, each block is its own malloc.
 *
 * Live objects are counted per type (mem_live): after a test, and after a drain, each count must be zero. */
#ifndef RM_BASE_MEM_H
#define RM_BASE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Uninitialised memory of n bytes (n may be 0). Never NULL. Release with mem_free. */
void *mem_alloc(size_t n);
/* The same, zeroed. */
void *mem_zalloc(size_t n);
/* Zeroed, at the start of a cache line (64 bytes) and rounded up to whole lines: for what one thread writes and others
 * read, and for what is made once per core by one thread, so that no two cores' stand on one line. Release with
 * mem_free. */
void *mem_zalloc_lines(size_t n);
/* Grows or shrinks; p may be NULL. Never NULL. */
void *mem_realloc(void *p, size_t n);
/* p may be NULL. */
void mem_free(void *p);

/* n bytes, uninitialised; n > 0. Release with mem_put and the same n; or with mem_free, or go on with mem_realloc. */
static inline void *mem_take(size_t n);
/* The same, zeroed. */
static inline void *mem_take_zero(size_t n);
/* p: from mem_take(n), or NULL. */
static inline void mem_put(void *p, size_t n);
/* For the calling thread, from here on until it closes its shelf. Harmless twice. */
void mem_shelf_open(void);
void mem_shelf_close(void);

/* Once at the start of a long-lived process: large blocks (request bodies) go back to the system when freed, instead of
 * staying in a heap that a burst has grown. Up to 8 MB of smaller ones stay until mem_trim. */
void mem_give_back_large(void);
/* Pages that hold nothing go back to the system: of the calling thread's heap, and of others but for their ends. Takes
 * each heap in turn: for when little happens. */
void mem_trim(void);
/* NUL-terminated copy of n bytes; owned by the caller. */
char *mem_dup(const char *p, size_t n);

enum mem_type {
    MEM_ARENA,
    MEM_BUF,
    MEM_CONN,
    MEM_STREAM,
    MEM_EXCHANGE,
    MEM_RELAY,
    MEM_CHUNK,
    MEM_CONFIG,
    MEM_TIMER,
    MEM_N_TYPES
};
/* Counts an object that came alive (+1) or died (-1). Any thread. */
static inline void mem_count(enum mem_type type, int delta);
/* Objects of this type alive now, over all threads. */
int64_t mem_live(enum mem_type type);
const char *mem_type_name(enum mem_type type);

/* ---- inside ---- */

/* A class of sizes is what malloc gives the same block for: 16 c + 8 bytes. */
enum { MEM_SHELF_BYTES_MAX = 4104, MEM_CLASSES = MEM_SHELF_BYTES_MAX / 16 + 1 };
struct mem_spare {
    struct mem_spare *next;
};
struct mem_shelf {
    struct mem_spare *first[MEM_CLASSES];
    uint8_t room[MEM_CLASSES]; /* how many more it takes */
};
extern _Thread_local struct mem_shelf mem_shelf;
void *mem_take_new(size_t n);

extern _Thread_local _Atomic int64_t *mem_counts; /* by type; NULL: none yet, or the shared ones */
void mem_count_without_own(enum mem_type type, int delta);

static inline void mem_count(enum mem_type type, int delta)
{
    if (mem_counts == NULL) {
        mem_count_without_own(type, delta);
        return;
    }
    _Atomic int64_t *n = &mem_counts[type];
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + delta, memory_order_relaxed);
}

static inline size_t mem_class(size_t n)
{
    return (n + 7) / 16;
}

static inline void *mem_take(size_t n)
{
    size_t c = mem_class(n);
    struct mem_spare *s = c < MEM_CLASSES ? mem_shelf.first[c] : NULL;
    if (s == NULL)
        return mem_take_new(n);
    mem_shelf.first[c] = s->next;
    mem_shelf.room[c]++;
    return s;
}

static inline void *mem_take_zero(size_t n)
{
    return memset(mem_take(n), 0, n);
}

static inline void mem_put(void *p, size_t n)
{
    size_t c = mem_class(n);
    if (p == NULL || c >= MEM_CLASSES || mem_shelf.room[c] == 0) {
        mem_free(p);
        return;
    }
    struct mem_spare *s = (struct mem_spare *)p;
    s->next = mem_shelf.first[c];
    mem_shelf.first[c] = s;
    mem_shelf.room[c]--;
}

#endif

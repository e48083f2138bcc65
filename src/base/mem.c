/* The live counters are spread over cache lines of their own per thread slot, so that counting on one core never
 * touches a line that another core writes. A slot has one thread, which then needs no locked instruction; only threads
 * beyond their number share the last one. */
#include "base/mem.h"

#include "base/check.h"
#include "base/poison.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define N_SLOTS 64

struct slot {
    _Alignas(64) _Atomic int64_t n[MEM_N_TYPES];
};
static struct slot slots[N_SLOTS];
static _Atomic unsigned next_slot;

_Thread_local _Atomic int64_t *mem_counts;
_Thread_local struct mem_shelf mem_shelf;

/* Up to here malloc has a thread's own lists of free blocks; calloc, until glibc 2.41, has not. */
enum { LISTED_BYTES = 1032 };

void *mem_alloc(size_t n)
{
    void *p = malloc(n ? n : 1);
    RM_ASSERT(p != NULL);
    return p;
}

void *mem_zalloc(size_t n)
{
    if (n <= LISTED_BYTES)
        return memset(mem_alloc(n), 0, n);
    void *p = calloc(1, n);
    RM_ASSERT(p != NULL);
    return p;
}

void *mem_zalloc_lines(size_t n)
{
    size_t whole = (n + 63) / 64 * 64;
    void *p = aligned_alloc(64, whole ? whole : 64);
    RM_ASSERT(p != NULL);
    return memset(p, 0, whole ? whole : 64);
}

void *mem_realloc(void *p, size_t n)
{
    void *q = realloc(p, n ? n : 1);
    RM_ASSERT(q != NULL);
    return q;
}

void mem_free(void *p)
{
    free(p);
}

void *mem_take_new(size_t n)
{
    size_t c = mem_class(n);
    return mem_alloc(c < MEM_CLASSES ? c * 16 + 8 : n);
}

void mem_shelf_open(void)
{
#if !defined(RM_ALLOC_PLAIN) && !defined(RM_HAS_ASAN)
    enum { BLOCKS_MAX = 128, BYTES_MAX = 128 * 1024 }; /* of a size: most of what a turn full of calls has in hand */
    mem_shelf_close();
    for (size_t c = 1; c < MEM_CLASSES; c++) {
        size_t most = BYTES_MAX / (c * 16);
        mem_shelf.room[c] = (uint8_t)(most < BLOCKS_MAX ? most : BLOCKS_MAX);
    }
#endif
}

void mem_shelf_close(void)
{
    for (size_t c = 0; c < MEM_CLASSES; c++) {
        for (struct mem_spare *s; (s = mem_shelf.first[c]) != NULL;) {
            mem_shelf.first[c] = s->next;
            mem_free(s);
        }
        mem_shelf.room[c] = 0;
    }
}

enum { LARGE = 128 * 1024, WAVE = 8 * 1024 * 1024 };

void mem_give_back_large(void)
{
    mallopt(M_MMAP_THRESHOLD, LARGE); /* set, it does not grow by itself */
    /* The bodies of 64 calls of 60 KB come and go together: giving that back each time cost 7 page faults a call. */
    mallopt(M_TRIM_THRESHOLD, WAVE);
}

void mem_trim(void)
{
    malloc_trim(0);
    /* It leaves the end of a thread's heap alone. That goes when a block that lies there is freed, if it is long. */
    mallopt(M_TRIM_THRESHOLD, LARGE);
    void *volatile last = mem_alloc(LARGE - 1024);
    mem_free(last);
    mallopt(M_TRIM_THRESHOLD, WAVE);
}

char *mem_dup(const char *p, size_t n)
{
    char *q = mem_alloc(n + 1);
    if (n > 0)
        memcpy(q, p, n);
    q[n] = '\0';
    return q;
}

void mem_count_without_own(enum mem_type type, int delta)
{
    unsigned n = atomic_load_explicit(&next_slot, memory_order_relaxed);
    if (n < N_SLOTS - 1)
        n = atomic_fetch_add_explicit(&next_slot, 1, memory_order_relaxed);
    if (n < N_SLOTS - 1)
        mem_counts = slots[n].n;
    atomic_fetch_add_explicit(&slots[n < N_SLOTS - 1 ? n : N_SLOTS - 1].n[type], delta, memory_order_relaxed);
}

int64_t mem_live(enum mem_type type)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < N_SLOTS; i++)
        sum += atomic_load_explicit(&slots[i].n[type], memory_order_relaxed);
    return sum;
}

const char *mem_type_name(enum mem_type type)
{
    static const char *const names[MEM_N_TYPES] = {"arena", "buf",   "conn",   "stream", "exchange",
                                                   "relay", "chunk", "config", "timer"};
    RM_ASSERT(type < MEM_N_TYPES);
    return names[type];
}

/* The only door to malloc and free. Small allocations abort on failure: a gateway that cannot get 100 bytes cannot
 * tell anyone either. Large ones are admitted by quota before they come here (DESIGN 3.15).
 *
 * Live objects are counted per type (mem_live): after a test, and after a drain, each count must be zero. */
#ifndef RM_BASE_MEM_H
#define RM_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

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
/* Once at the start of a long-lived process: large blocks (request bodies) go back to the system when freed, instead of
 * staying in a heap that a burst has grown. */
void mem_give_back_large(void);
/* Pages that hold nothing go back to the system: what start-up has left behind. Takes every thread's heap in turn. */
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
void mem_count(enum mem_type type, int delta);
/* Objects of this type alive now, over all threads. */
int64_t mem_live(enum mem_type type);
const char *mem_type_name(enum mem_type type);

#endif

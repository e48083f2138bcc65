/* A byte ring between one producer (a loop) and one consumer (a thread). Records are length-prefixed and lie one after
 * the other in blocks, which exist only where something waits:
 *
 *     blocks: [ none | A, B, half of C | rest of C, D... | none | none ]      head, tail: bytes ever written / released
 *
 * So its memory is that of the backlog, not of its limit: one that is drained in time lives in two blocks for good.
 * Putting never waits: no room is an answer. The consumer reads with a cursor of its own and releases only what is
 * safely written, so a failed transaction simply reads the same records again. */
#ifndef RM_LEDGER_RING_H
#define RM_LEDGER_RING_H

#include "base/buf.h"

#include <stdatomic.h>

enum { RING_BLOCK_BYTES = 16 * 1024, RING_SPARES = 32 };

/* Three parts on cache lines of their own: what both only read, what the producer writes, what the consumer writes. An
 * array of rings is allocated by lines (mem_zalloc_lines), so that two producers share none either. */
struct ring {
    _Alignas(64) char **blocks; /* by position, RING_BLOCK_BYTES each; NULL = not in use */
    size_t cap;                 /* bytes, a power of two */
    uint64_t rows_max;          /* records that may wait */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t rows_in;
    _Atomic uint64_t lost; /* records refused */
    _Atomic uint32_t spares_out;
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint64_t rows_out;
    _Atomic uint32_t spares_in;
    char *spares[RING_SPARES]; /* blocks on their way back to the producer: a ring of their own */
};

/* bytes is rounded up to a power of two, at least 64 KiB; records and their prefixes may take one block less. */
void ring_init(struct ring *r, size_t bytes, uint64_t rows_max);
void ring_fini(struct ring *r);
enum ring_room { RING_FULL /* not put, counted in `lost` */, RING_SHORT /* put: it is half full now */, RING_ROOMY };
/* Producer. */
enum ring_room ring_put(struct ring *r, struct bytes record);
/* Any thread. More than half of the bytes or rows are taken. */
bool ring_is_half_full(const struct ring *r);
/* Consumer. The record at *cursor, in the ring's own memory until it is released; one that wraps at the end is copied
 * to *scratch, which the next read overwrites. The cursor, which starts as the tail, moves on; false = none there. */
bool ring_read(const struct ring *r, uint64_t *cursor, struct buf *scratch, struct bytes *out);
/* Consumer. Gives the memory of the n_rows records before the cursor back. */
void ring_release(struct ring *r, uint64_t cursor, uint64_t n_rows);
/* Any thread. */
uint64_t ring_n_waiting(const struct ring *r);

#endif

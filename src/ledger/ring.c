/* head is written by the producer alone, tail by the consumer alone; release on the writer's side and acquire on the
 * reader's order the bytes between them, and the places of the blocks that hold these. Positions never wrap (64 bits),
 * only the index of a block does. A block that was read goes back to the producer, so a steady flow allocates nothing;
 * more than RING_SPARES of them, after a backlog, go back to the system. */
#include "ledger/ring.h"

#include "base/mem.h"

enum { RING_BYTES_MIN = 64 * 1024 };

void ring_init(struct ring *r, size_t bytes, uint64_t rows_max)
{
    size_t cap = RING_BYTES_MIN;
    while (cap < bytes)
        cap *= 2;
    memset(r, 0, sizeof *r);
    r->blocks = mem_zalloc(cap / RING_BLOCK_BYTES * sizeof *r->blocks);
    r->cap = cap;
    r->rows_max = rows_max > 0 ? rows_max : 1;
}

/* ---- blocks ---- */

static char **block_at(const struct ring *r, uint64_t at)
{
    return &r->blocks[at / RING_BLOCK_BYTES & (r->cap / RING_BLOCK_BYTES - 1)];
}

/* Producer. */
static char *block_new(struct ring *r)
{
    uint32_t out = atomic_load_explicit(&r->spares_out, memory_order_relaxed);
    if (out == atomic_load_explicit(&r->spares_in, memory_order_acquire))
        return mem_alloc(RING_BLOCK_BYTES);
    char *block = r->spares[out % RING_SPARES];
    atomic_store_explicit(&r->spares_out, out + 1, memory_order_release);
    return block;
}

/* Consumer. */
static void block_free(struct ring *r, char *block)
{
    uint32_t in = atomic_load_explicit(&r->spares_in, memory_order_relaxed);
    if (in - atomic_load_explicit(&r->spares_out, memory_order_acquire) >= RING_SPARES) {
        mem_free(block);
        return;
    }
    r->spares[in % RING_SPARES] = block;
    atomic_store_explicit(&r->spares_in, in + 1, memory_order_release);
}

void ring_fini(struct ring *r)
{
    for (size_t i = 0; i < r->cap / RING_BLOCK_BYTES; i++)
        mem_free(r->blocks[i]);
    while (r->spares_out != r->spares_in)
        mem_free(block_new(r));
    mem_free(r->blocks);
    r->blocks = NULL;
    r->cap = 0;
}

/* ---- records ---- */

/* Each of these words has one writer: no locked instruction is needed. */
static void add(_Atomic uint64_t *v, uint64_t n)
{
    atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Of n bytes at a position: how many lie in its block. */
static size_t in_block(uint64_t at, size_t n)
{
    size_t left = RING_BLOCK_BYTES - (size_t)(at % RING_BLOCK_BYTES);
    return left < n ? left : n;
}

static inline char *room_at(struct ring *r, uint64_t at)
{
    char **block = block_at(r, at);
    if (*block == NULL)
        *block = block_new(r);
    return *block + at % RING_BLOCK_BYTES;
}

static void copy_in(struct ring *r, uint64_t at, const char *from, size_t n)
{
    while (n > 0) {
        size_t part = in_block(at, n);
        memcpy(room_at(r, at), from, part);
        at += part;
        from += part;
        n -= part;
    }
}

static void copy_out(const struct ring *r, uint64_t at, char *to, size_t n)
{
    while (n > 0) {
        size_t part = in_block(at, n);
        memcpy(to, *block_at(r, at) + at % RING_BLOCK_BYTES, part);
        at += part;
        to += part;
        n -= part;
    }
}

static inline bool is_short(const struct ring *r, uint64_t used, uint64_t n_waiting)
{
    return used > r->cap / 2 || n_waiting > r->rows_max / 2;
}

enum ring_room ring_put(struct ring *r, struct bytes record)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint64_t rows_in = atomic_load_explicit(&r->rows_in, memory_order_relaxed);
    uint64_t n_waiting = rows_in - atomic_load_explicit(&r->rows_out, memory_order_relaxed);
    uint32_t n = (uint32_t)record.n;
    size_t whole = sizeof n + n;
    /* The tail's block counts whole: a position one lap later would lie in it. */
    if (record.n + sizeof n > r->cap - (size_t)(head - tail / RING_BLOCK_BYTES * RING_BLOCK_BYTES) ||
        n_waiting >= r->rows_max) {
        add(&r->lost, 1);
        return RING_FULL;
    }
    if (in_block(head, whole) == whole) {
        char *to = room_at(r, head);
        memcpy(to, &n, sizeof n);
        if (n > 0)
            memcpy(to + sizeof n, record.p, n);
    } else { /* once in so many kilobytes */
        copy_in(r, head, (const char *)&n, sizeof n);
        copy_in(r, head + sizeof n, record.p, n);
    }
    atomic_store_explicit(&r->rows_in, rows_in + 1, memory_order_relaxed);
    atomic_store_explicit(&r->head, head + whole, memory_order_release);
    return is_short(r, head + whole - tail, n_waiting + 1) ? RING_SHORT : RING_ROOMY;
}

bool ring_is_half_full(const struct ring *r)
{
    uint64_t used =
        atomic_load_explicit(&r->head, memory_order_relaxed) - atomic_load_explicit(&r->tail, memory_order_relaxed);
    return is_short(r, used, ring_n_waiting(r));
}

static struct bytes joined(const struct ring *r, uint64_t at, size_t n, struct buf *scratch)
{
    buf_clear(scratch);
    char *to = buf_reserve(scratch, n);
    RM_ASSERT(to != NULL);
    copy_out(r, at, to, n);
    buf_grew(scratch, n);
    return buf_bytes(scratch);
}

bool ring_read(const struct ring *r, uint64_t *cursor, struct buf *scratch, struct bytes *out)
{
    uint32_t n;
    if (*cursor == atomic_load_explicit(&r->head, memory_order_acquire))
        return false;
    copy_out(r, *cursor, (char *)&n, sizeof n);
    uint64_t at = *cursor + sizeof n;
    if (n == 0)
        *out = bytes_from("", 0);
    else if (in_block(at, n) == n)
        *out = bytes_from(*block_at(r, at) + at % RING_BLOCK_BYTES, n);
    else
        *out = joined(r, at, n, scratch);
    *cursor = at + n;
    return true;
}

/* A block's place is empty before the tail tells the producer that it may be used again. */
void ring_release(struct ring *r, uint64_t cursor, uint64_t n_rows)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    for (uint64_t at = tail / RING_BLOCK_BYTES; at < cursor / RING_BLOCK_BYTES; at++) {
        char **block = block_at(r, at * RING_BLOCK_BYTES);
        block_free(r, *block);
        *block = NULL;
    }
    add(&r->rows_out, n_rows);
    atomic_store_explicit(&r->tail, cursor, memory_order_release);
}

uint64_t ring_n_waiting(const struct ring *r)
{
    uint64_t out = atomic_load_explicit(&r->rows_out, memory_order_relaxed);
    uint64_t in = atomic_load_explicit(&r->rows_in, memory_order_relaxed);
    return in > out ? in - out : 0;
}

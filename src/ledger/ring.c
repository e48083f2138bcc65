/* head is written by the producer alone, tail by the consumer alone; release on the writer's side and acquire on the
 * reader's order the bytes between them. Positions never wrap (64 bits), only the index into the memory does. */
#include "ledger/ring.h"

#include "base/mem.h"

enum { RING_BYTES_MIN = 64 * 1024 };

void ring_init(struct ring *r, size_t bytes, uint64_t rows_max)
{
    size_t cap = RING_BYTES_MIN;
    while (cap < bytes)
        cap *= 2;
    memset(r, 0, sizeof *r);
    r->p = mem_alloc(cap);
    r->cap = cap;
    r->rows_max = rows_max > 0 ? rows_max : 1;
}

void ring_fini(struct ring *r)
{
    mem_free(r->p);
    r->p = NULL;
    r->cap = 0;
}

/* Each of these words has one writer: no locked instruction is needed. */
static void add(_Atomic uint64_t *v, uint64_t n)
{
    atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + n, memory_order_relaxed);
}

static void copy_in(struct ring *r, uint64_t at, const void *from, size_t n)
{
    size_t i = (size_t)(at & (r->cap - 1)), first = r->cap - i < n ? r->cap - i : n;
    memcpy(r->p + i, from, first);
    if (first < n)
        memcpy(r->p, (const char *)from + first, n - first);
}

static void copy_out(const struct ring *r, uint64_t at, void *to, size_t n)
{
    size_t i = (size_t)(at & (r->cap - 1)), first = r->cap - i < n ? r->cap - i : n;
    memcpy(to, r->p + i, first);
    if (first < n)
        memcpy((char *)to + first, r->p, n - first);
}

bool ring_put(struct ring *r, struct bytes record)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint32_t n = (uint32_t)record.n;
    if (record.n + sizeof n > r->cap - (size_t)(head - tail) || ring_n_waiting(r) >= r->rows_max) {
        add(&r->lost, 1);
        return false;
    }
    copy_in(r, head, &n, sizeof n);
    if (n > 0)
        copy_in(r, head + sizeof n, record.p, n);
    add(&r->rows_in, 1);
    atomic_store_explicit(&r->head, head + sizeof n + n, memory_order_release);
    return true;
}

bool ring_is_half_full(const struct ring *r)
{
    uint64_t used =
        atomic_load_explicit(&r->head, memory_order_relaxed) - atomic_load_explicit(&r->tail, memory_order_relaxed);
    return used > r->cap / 2 || ring_n_waiting(r) > r->rows_max / 2;
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
    copy_out(r, *cursor, &n, sizeof n);
    uint64_t at = *cursor + sizeof n;
    size_t i = (size_t)(at & (r->cap - 1));
    *out = n <= r->cap - i ? bytes_from(r->p + i, n) : joined(r, at, n, scratch);
    *cursor = at + n;
    return true;
}

void ring_release(struct ring *r, uint64_t cursor, uint64_t n_rows)
{
    add(&r->rows_out, n_rows);
    atomic_store_explicit(&r->tail, cursor, memory_order_release);
}

uint64_t ring_n_waiting(const struct ring *r)
{
    uint64_t out = atomic_load_explicit(&r->rows_out, memory_order_relaxed);
    uint64_t in = atomic_load_explicit(&r->rows_in, memory_order_relaxed);
    return in > out ? in - out : 0;
}

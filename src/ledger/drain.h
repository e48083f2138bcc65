/* One thread that empties the rings of all loops into one place: the database, or the access log. It looks every
 * flush_ms, at once when a ring is half full, and a last time when it is stopped.
 *
 * While there is much to write the thread rests after each sip of it. It may share a core with a loop that is never
 * idle, and whoever works on keeps such a core until the scheduler's next tick: 4 ms, in which no request moves, with
 * the usual 250 ticks a second. One that has slept a millisecond is let in at once, and the loop after it. Giving way
 * without a sleep (sched_yield) leaves the loop waiting four times as long, and a short slice (sched_setattr) helps
 * nothing between ticks.
 *
 * Both places have their own rings and their own thread, so that a stuck standard output costs no ledger row. */
#ifndef RM_LEDGER_DRAIN_H
#define RM_LEDGER_DRAIN_H

#include "ledger/pack.h"
#include "ledger/ring.h"

#include <pthread.h>

enum { DRAIN_BATCH_ROWS = 2000, DRAIN_GROUP = 8 };

/* A batch: begin, put for its records (DRAIN_GROUP of them, or fewer), end. False = the place does not take it now; the
 * same records come again. */
struct drain_sink {
    bool (*begin)(void *arg);
    bool (*put)(const struct packed *p, unsigned n, void *arg);
    bool (*end)(void *arg);
    /* On the thread, once per turn; and once after the last batch (is_last). */
    void (*tick)(bool is_last, void *arg);
    void *arg;
    const char *what; /* "ledger rows", "access log lines": for the log */
    unsigned sip;     /* records that take some 300 us: what it does before it rests */
};

struct drain {
    struct drain_sink sink;
    struct ring *rings;
    unsigned n_rings;
    uint32_t flush_ms;
    int wake_fd, done_fd;
    _Atomic bool is_woken, is_stopping;
    _Atomic uint64_t rows_written;
    _Atomic uint64_t lost_at_us; /* last time that records were seen to be lost; 0 = never */
    uint64_t lost_seen, lost_said, said_at_us;
    uint64_t *cursors, *n_read; /* of the batch, per ring */
    uint64_t sip, n_sipped;     /* records before the next rest, and since the last */
    uint64_t stop_at_us;
    struct packed group[DRAIN_GROUP]; /* what is put together; attempts in the arena */
    struct buf scratch[DRAIN_GROUP];
    unsigned n_group;
    struct arena arena;
    struct arena_mark empty; /* of the arena, with its first block */
    pthread_t thread;
};

/* False when the thread or its descriptors cannot be made; nothing is left then. ring_bytes, rows_max: per ring. */
bool drain_start(struct drain *d, const struct drain_sink *sink, unsigned n_rings, uint32_t flush_ms, size_t ring_bytes,
                 uint64_t rows_max);
/* Producer side, wait-free. */
bool drain_put(struct drain *d, unsigned ring, struct bytes record);
/* Makes the thread look now. Any thread. */
void drain_wake(struct drain *d);
/* Writes what waits (at most 5 s), joins. False: the thread hangs in the kernel; its memory must not be released. */
bool drain_stop(struct drain *d);
uint64_t drain_n_lost(const struct drain *d);
uint64_t drain_n_waiting(const struct drain *d);

#endif

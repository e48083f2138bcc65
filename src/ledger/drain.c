#include "ledger/drain.h"

#include "base/log.h"
#include "base/mem.h"
#include "loop/loop.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { STOP_WAIT_US = 5000000, JOIN_WAIT_MS = 6000, RETRY_MS_MIN = 10, RETRY_MS_MAX = 250, SAY_EVERY_US = 1000000 };
enum { ROW_SCRATCH_BYTES = 8192 };
enum { REST_MS = 1, BACKLOG_ROWS = 4096 /* as many more make a sip as long again */ };

uint64_t drain_n_lost(const struct drain *d)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < d->n_rings; i++)
        n += atomic_load_explicit(&d->rings[i].lost, memory_order_relaxed);
    return n;
}

uint64_t drain_n_waiting(const struct drain *d)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < d->n_rings; i++)
        n += ring_n_waiting(&d->rings[i]);
    return n;
}

void drain_wake(struct drain *d)
{
    uint64_t one = 1;
    if (!atomic_exchange(&d->is_woken, true) && write(d->wake_fd, &one, sizeof one) < 0)
        LOG(LOG_ERROR, "ledger", "-", "cannot wake the writer of %s", d->sink.what);
}

bool drain_put(struct drain *d, unsigned ring, struct bytes record)
{
    RM_ASSERT(ring < d->n_rings);
    enum ring_room room = ring_put(&d->rings[ring], record);
    if (room != RING_ROOMY)
        drain_wake(d);
    return room != RING_FULL;
}

static bool put_group(struct drain *d)
{
    bool ok = d->n_group == 0 || d->sink.put(d->group, d->n_group, d->sink.arg);
    d->n_group = 0;
    arena_reset(&d->arena, d->empty);
    return ok;
}

static bool is_pressed(const struct drain *d)
{
    for (unsigned i = 0; i < d->n_rings; i++)
        if (ring_is_half_full(&d->rings[i]))
            return true;
    return atomic_load_explicit(&d->is_stopping, memory_order_relaxed);
}

/* After n more records. The more waits, the longer a sip, so that the thread keeps up with any flow. */
static void rest(struct drain *d, uint64_t n)
{
    d->n_sipped += n;
    if (d->n_sipped < d->sip)
        return;
    d->n_sipped = 0;
    if (!is_pressed(d))
        poll(NULL, 0, REST_MS);
}

/* Reads at most a batch into the sink. *n = records read. */
static bool fill(struct drain *d, uint64_t *n)
{
    for (unsigned i = 0; i < d->n_rings; i++) {
        d->cursors[i] = atomic_load_explicit(&d->rings[i].tail, memory_order_relaxed);
        d->n_read[i] = 0;
    }
    *n = 0;
    d->sip = d->sink.sip + d->sink.sip * drain_n_waiting(d) / BACKLOG_ROWS;
    for (unsigned i = 0; i < d->n_rings; i++) {
        struct bytes record;
        while (*n < DRAIN_BATCH_ROWS && ring_read(&d->rings[i], &d->cursors[i], &d->scratch[d->n_group], &record)) {
            pack_read(record, &d->arena, &d->group[d->n_group++]);
            if (d->n_group == DRAIN_GROUP) {
                if (!put_group(d))
                    return false;
                rest(d, DRAIN_GROUP);
            }
            d->n_read[i]++;
            (*n)++;
        }
    }
    return put_group(d);
}

/* One batch. *n = records written, 0 = none was waiting. */
static bool write_batch(struct drain *d, uint64_t *n)
{
    *n = 0;
    if (drain_n_waiting(d) == 0)
        return true;
    if (!d->sink.begin(d->sink.arg))
        return false;
    bool is_filled = fill(d, n);
    if (!d->sink.end(d->sink.arg) || !is_filled)
        return false;
    for (unsigned i = 0; i < d->n_rings; i++)
        ring_release(&d->rings[i], d->cursors[i], d->n_read[i]);
    atomic_fetch_add_explicit(&d->rows_written, *n, memory_order_relaxed);
    return true;
}

static void tell_losses(struct drain *d)
{
    uint64_t lost = drain_n_lost(d), now = loop_clock_us();
    if (lost != d->lost_seen) {
        d->lost_seen = lost;
        atomic_store(&d->lost_at_us, now);
    }
    if (lost == d->lost_said || (d->said_at_us != 0 && now - d->said_at_us < SAY_EVERY_US))
        return;
    LOG(LOG_ERROR, "ledger", "-", "%s lost: %llu more, %llu since start", d->sink.what,
        (unsigned long long)(lost - d->lost_said), (unsigned long long)lost);
    d->lost_said = lost;
    d->said_at_us = now;
}

static bool write_all(struct drain *d)
{
    uint64_t n = 0;
    do {
        if (!write_batch(d, &n))
            return false;
        tell_losses(d);
    } while (n > 0);
    return true;
}

/* After a failure the wake-up is left alone, so that full rings do not make the thread spin. */
static void wait_for_work(struct drain *d, bool is_failing)
{
    struct pollfd p = {.fd = d->wake_fd, .events = POLLIN};
    uint32_t ms = d->flush_ms;
    if (is_failing) {
        ms = ms < RETRY_MS_MIN ? RETRY_MS_MIN : ms > RETRY_MS_MAX ? RETRY_MS_MAX : ms;
        poll(NULL, 0, (int)ms);
        return;
    }
    if (poll(&p, 1, (int)ms) > 0) {
        uint64_t count;
        if (read(d->wake_fd, &count, sizeof count) > 0)
            atomic_store(&d->is_woken, false);
    }
}

static void *drain_main(void *arg)
{
    struct drain *d = arg;
    uint64_t stop_at_us = 0;
    for (;;) {
        bool is_stopping = atomic_load(&d->is_stopping);
        bool ok = write_all(d);
        if (is_stopping && stop_at_us == 0)
            stop_at_us = loop_clock_us() + STOP_WAIT_US;
        if (is_stopping && (ok || loop_clock_us() >= stop_at_us))
            break;
        tell_losses(d);
        d->sink.tick(false, d->sink.arg);
        wait_for_work(d, !ok);
    }
    d->stop_at_us = stop_at_us;
    d->sink.tick(true, d->sink.arg);
    uint64_t left = drain_n_waiting(d);
    if (left > 0)
        LOG(LOG_ERROR, "ledger", "-", "%llu %s could not be written before the stop", (unsigned long long)left,
            d->sink.what);
    uint64_t one = 1;
    if (write(d->done_fd, &one, sizeof one) < 0)
        LOG(LOG_ERROR, "ledger", "-", "the writer of %s cannot tell its end", d->sink.what);
    return NULL;
}

static void release(struct drain *d)
{
    for (unsigned i = 0; d->rings != NULL && i < d->n_rings; i++)
        ring_fini(&d->rings[i]);
    mem_free(d->rings);
    mem_free(d->cursors);
    mem_free(d->n_read);
    for (unsigned i = 0; i < DRAIN_GROUP; i++)
        buf_fini(&d->scratch[i]);
    arena_fini(&d->arena);
    if (d->wake_fd >= 0)
        close(d->wake_fd);
    if (d->done_fd >= 0)
        close(d->done_fd);
}

/* Signals belong to one thread of the program, which is not this one. */
static bool start_thread(struct drain *d)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&d->thread, NULL, drain_main, d);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0;
}

bool drain_start(struct drain *d, const struct drain_sink *sink, unsigned n_rings, uint32_t flush_ms, size_t ring_bytes,
                 uint64_t rows_max)
{
    memset(d, 0, sizeof *d);
    d->sink = *sink;
    d->n_rings = n_rings;
    d->flush_ms = flush_ms > 0 ? flush_ms : 1;
    d->rings = mem_zalloc_lines(n_rings * sizeof *d->rings);
    d->cursors = mem_zalloc(n_rings * sizeof *d->cursors);
    d->n_read = mem_zalloc(n_rings * sizeof *d->n_read);
    for (unsigned i = 0; i < n_rings; i++)
        ring_init(&d->rings[i], ring_bytes, rows_max);
    arena_reserve(&d->arena, ROW_SCRATCH_BYTES); /* the attempts of most groups: no malloc each */
    d->empty = arena_mark(&d->arena);
    d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    d->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->wake_fd >= 0 && d->done_fd >= 0 && start_thread(d))
        return true;
    release(d);
    return false;
}

bool drain_stop(struct drain *d)
{
    atomic_store(&d->is_stopping, true);
    uint64_t one = 1;
    if (write(d->wake_fd, &one, sizeof one) < 0)
        LOG(LOG_WARN, "ledger", "-", "the writer of %s stops at its next look", d->sink.what);
    struct pollfd p = {.fd = d->done_fd, .events = POLLIN};
    if (poll(&p, 1, JOIN_WAIT_MS) <= 0) {
        LOG(LOG_ERROR, "ledger", "-", "the writer of %s hangs; %llu were not written", d->sink.what,
            (unsigned long long)drain_n_waiting(d));
        pthread_detach(d->thread);
        return false;
    }
    pthread_join(d->thread, NULL);
    release(d);
    return true;
}

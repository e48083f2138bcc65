/* Two drains over the loops' records: rows for SQLite, and lines for the access log. See ring.h for how a record waits
 * until its transaction is committed, drain.h for the threads, store.h for the rows. */
#include "ledger/ledger.h"

#include "base/log.h"
#include "base/mem.h"
#include "ledger/access_log.h"
#include "ledger/drain.h"
#include "ledger/store.h"
#include "loop/loop.h"

#include <stdio.h>

enum { ROW_BYTES_TYPICAL = 512, RINGS_BYTES_MAX = 32 * 1024 * 1024, LOG_RINGS_BYTES_MAX = 8 * 1024 * 1024 };
enum { SIP_ROWS = 128, SIP_LINES = 512 }; /* 2 us a row, 0.6 us a line */
#define LOSS_REMEMBERED_US UINT64_C(60000000)

/* A loop's own cache line: it writes into it with each request. */
struct ledger_ring {
    _Alignas(64) struct ledger *ledger;
    unsigned index;
    struct buf scratch;
};

struct ledger {
    struct ledger_ring *rings;
    unsigned n_rings;
    struct store *store;    /* NULL = no ledger */
    struct access_log *log; /* NULL = off */
    struct drain rows, lines;
    bool has_lines; /* the lines' thread runs */
    _Atomic bool last_failed, wants_reopen;
    bool is_run_stamped, is_in_transaction, log_failed; /* log_failed: the lines' thread alone */
    pthread_mutex_t error_lock;
    char last_error[160];
};

/* ---- rows ---- */

static void note_failure(struct ledger *l)
{
    pthread_mutex_lock(&l->error_lock);
    snprintf(l->last_error, sizeof l->last_error, "%s", store_error(l->store));
    pthread_mutex_unlock(&l->error_lock);
    if (!atomic_exchange(&l->last_failed, true))
        LOG(LOG_WARN, "ledger", "-", "rows wait: %s", store_error(l->store));
}

/* The start of this run, once; retried while another process holds the file. */
static bool stamp_run(struct ledger *l)
{
    unsigned n_unclean = 0;
    if (l->is_run_stamped)
        return true;
    l->is_run_stamped = store_start_run(l->store, &n_unclean) == ERR_OK;
    if (l->is_run_stamped && n_unclean > 0)
        LOG(LOG_WARN, "ledger", "-", "the last run had no clean end: its last flush may be missing");
    return l->is_run_stamped;
}

static bool begin_rows(void *arg)
{
    struct ledger *l = arg;
    l->is_in_transaction = stamp_run(l) && store_begin(l->store) == ERR_OK;
    if (!l->is_in_transaction)
        note_failure(l);
    return l->is_in_transaction;
}

static bool put_rows(const struct packed *p, unsigned n, void *arg)
{
    struct ledger *l = arg;
    if (store_put(l->store, p, n) == ERR_OK)
        return true;
    note_failure(l);
    store_rollback(l->store);
    l->is_in_transaction = false;
    return false;
}

static bool end_rows(void *arg)
{
    struct ledger *l = arg;
    if (!l->is_in_transaction)
        return false;
    l->is_in_transaction = false;
    if (store_commit(l->store) != ERR_OK) {
        note_failure(l);
        store_rollback(l->store);
        return false;
    }
    if (atomic_exchange(&l->last_failed, false))
        LOG(LOG_INFO, "ledger", "-", "rows are written again");
    return true;
}

/* The start of this run is stamped even when no request comes; its end by the last tick. */
static void tick_rows(bool is_last, void *arg)
{
    struct ledger *l = arg;
    bool is_stamped = stamp_run(l);
    if (!is_last)
        return;
    uint64_t written = atomic_load(&l->rows.rows_written);
    uint64_t lost = drain_n_lost(&l->rows) + drain_n_waiting(&l->rows);
    enum err e = ERR_BUSY;
    while (e == ERR_BUSY && is_stamped) {
        e = store_end_run(l->store, written, lost);
        if (loop_clock_us() >= l->rows.stop_at_us)
            break;
    }
    if (e != ERR_OK)
        LOG(LOG_WARN, "ledger", "-", "the end of this run could not be stamped: %s", store_error(l->store));
}

/* ---- lines ---- */

static bool begin_lines(void *arg)
{
    struct ledger *l = arg;
    return access_log_flush(l->log);
}

static bool put_lines(const struct packed *p, unsigned n, void *arg)
{
    struct ledger *l = arg;
    for (unsigned i = 0; i < n; i++)
        if (!p[i].is_keepalive)
            access_log_add(l->log, &p[i]);
    return true;
}

/* Lines that were added are the log's own from here on, written or not: the batch never comes again. */
static bool end_lines(void *arg)
{
    struct ledger *l = arg;
    bool ok = access_log_flush(l->log);
    if (!ok && !l->log_failed)
        LOG(LOG_ERROR, "ledger", "-", "access log lines wait: %s", strerror(access_log_errno(l->log)));
    l->log_failed = !ok;
    return true;
}

static void tick_lines(bool is_last, void *arg)
{
    struct ledger *l = arg;
    if (atomic_exchange(&l->wants_reopen, false) && access_log_reopen(l->log) != ERR_OK)
        LOG(LOG_ERROR, "ledger", "-", "the access log cannot be opened again; the old file stays in use");
    if (!access_log_flush(l->log) && is_last)
        LOG(LOG_ERROR, "ledger", "-", "the last access log lines could not be written");
}

/* ---- the ledger ---- */

static size_t ring_bytes(const struct ledger_options *o, size_t max)
{
    size_t all = (size_t)o->queue_rows * ROW_BYTES_TYPICAL;
    return (all < max ? all : max) / o->n_rings;
}

static uint64_t rows_per_ring(const struct ledger_options *o)
{
    return (o->queue_rows + o->n_rings - 1) / o->n_rings;
}

static bool start_rows(struct ledger *l, const struct ledger_options *o)
{
    struct drain_sink sink = {begin_rows, put_rows, end_rows, tick_rows, l, "ledger rows", SIP_ROWS};
    return drain_start(&l->rows, &sink, o->n_rings, o->flush_ms, ring_bytes(o, RINGS_BYTES_MAX), rows_per_ring(o));
}

static bool start_lines(struct ledger *l, const struct ledger_options *o)
{
    struct drain_sink sink = {begin_lines, put_lines, end_lines, tick_lines, l, "access log lines", SIP_LINES};
    return drain_start(&l->lines, &sink, o->n_rings, o->flush_ms, ring_bytes(o, LOG_RINGS_BYTES_MAX), rows_per_ring(o));
}

static void release(struct ledger *l)
{
    store_close(l->store);
    access_log_close(l->log);
    for (unsigned i = 0; i < l->n_rings; i++)
        buf_fini(&l->rings[i].scratch);
    mem_free(l->rings);
    pthread_mutex_destroy(&l->error_lock);
    mem_free(l);
}

static struct ledger *new_ledger(unsigned n_rings)
{
    struct ledger *l = mem_zalloc(sizeof *l);
    pthread_mutex_init(&l->error_lock, NULL);
    l->n_rings = n_rings;
    l->rings = mem_zalloc_lines(n_rings * sizeof *l->rings);
    for (unsigned i = 0; i < n_rings; i++) {
        l->rings[i].ledger = l;
        l->rings[i].index = i;
    }
    return l;
}

enum err ledger_open(const struct ledger_options *o, struct ledger **out, char *message, size_t message_cap)
{
    RM_ASSERT(o->n_rings > 0);
    *out = NULL;
    struct ledger *l = new_ledger(o->n_rings);
    enum err e = ERR_OK;
    if (o->path != NULL && *o->path != '\0')
        e = store_open(o->path, &l->store, message, message_cap);
    bool wants_log = o->access_log != NULL && *o->access_log != '\0' && strcmp(o->access_log, "off") != 0;
    if (e == ERR_OK && wants_log)
        e = access_log_open(o->access_log, &l->log, message, message_cap);
    if (e == ERR_OK && l->log != NULL && !(l->has_lines = start_lines(l, o)))
        e = ERR_IO;
    if (e == ERR_OK && l->store != NULL && !start_rows(l, o))
        e = ERR_IO;
    if (e == ERR_OK) {
        *out = l;
        return ERR_OK;
    }
    if (*message == '\0')
        snprintf(message, message_cap, "the ledger's thread cannot be started");
    if (l->has_lines && !drain_stop(&l->lines))
        return e;
    release(l);
    return e;
}

void ledger_close(struct ledger *l)
{
    if (l == NULL)
        return;
    bool rows_done = l->store == NULL || drain_stop(&l->rows);
    bool lines_done = !l->has_lines || drain_stop(&l->lines);
    if (rows_done && lines_done)
        release(l); /* else a thread hangs in the kernel with this memory: it stays until the process ends */
}

struct ledger_ring *ledger_ring(struct ledger *l, unsigned i)
{
    RM_ASSERT(i < l->n_rings);
    return &l->rings[i];
}

bool ledger_put(struct ledger_ring *r, const struct request_record *rec)
{
    struct ledger *l = r->ledger;
    buf_clear(&r->scratch);
    size_t n_head = pack_request(&r->scratch, rec);
    if (l->has_lines)
        drain_put(&l->lines, r->index, bytes_slice(buf_bytes(&r->scratch), 0, n_head));
    return l->store == NULL || drain_put(&l->rows, r->index, buf_bytes(&r->scratch));
}

bool ledger_put_keepalive(struct ledger_ring *r, uint64_t id, int64_t started_wall_ms, const struct attempt_record *a)
{
    struct ledger *l = r->ledger;
    buf_clear(&r->scratch);
    pack_keepalive(&r->scratch, id, started_wall_ms, a);
    return l->store == NULL || drain_put(&l->rows, r->index, buf_bytes(&r->scratch));
}

void ledger_reopen_log(struct ledger *l)
{
    if (!l->has_lines)
        return;
    atomic_store(&l->wants_reopen, true);
    drain_wake(&l->lines);
}

void ledger_stats(const struct ledger *l, struct ledger_stats *out)
{
    memset(out, 0, sizeof *out);
    if (l->store == NULL)
        return;
    struct ledger *w = (struct ledger *)(uintptr_t)l; /* the lock is not part of what is asked */
    out->rows_written = atomic_load(&l->rows.rows_written);
    out->rows_lost = drain_n_lost(&l->rows);
    out->rows_waiting = drain_n_waiting(&l->rows);
    uint64_t lost_at_us = atomic_load(&l->rows.lost_at_us);
    bool lost_now = lost_at_us == 0 && out->rows_lost > 0;
    bool lost_lately = lost_at_us != 0 && loop_clock_us() - lost_at_us < LOSS_REMEMBERED_US;
    out->is_degraded = atomic_load(&l->last_failed) || lost_now || lost_lately;
    pthread_mutex_lock(&w->error_lock);
    snprintf(out->last_error, sizeof out->last_error, "%s", l->last_error);
    pthread_mutex_unlock(&w->error_lock);
}

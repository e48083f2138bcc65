/* The ledger: append-only records in SQLite, written by its own thread. Rows leave a loop through a ring without lock
 * or wake-up; the thread drains the rings every flush_ms or when one is half full. The access log goes the same way. A
 * slow or full disk never delays a request: rows wait in memory up to queue_rows, then are counted as lost, loudly. */
#ifndef RM_LEDGER_LEDGER_H
#define RM_LEDGER_LEDGER_H

#include "base/buf.h"
#include "base/err.h"
#include "model/record.h"

struct ledger;
struct ledger_ring; /* one per loop: single producer */

struct ledger_options {
    const char *path;       /* SQLite file; "" = no ledger (the access log still works) */
    const char *access_log; /* "stdout", "off" or a path */
    uint32_t flush_ms;
    uint32_t queue_rows; /* per process */
    uint32_t n_rings;
};

/* Opens (creates, migrates) the file, notes an unclean end of the last run, starts the thread. message: for people. */
enum err ledger_open(const struct ledger_options *o, struct ledger **out, char *message,
                     size_t message_cap) RM_MUST_USE;
/* Writes what is queued (at most 5 s against a stuck disk), marks a clean end, stops. */
void ledger_close(struct ledger *l);
struct ledger_ring *ledger_ring(struct ledger *l, unsigned i);
/* Copies the record into the ring. Never blocks. False = no room: lost and counted. Also writes the access-log line. */
bool ledger_put(struct ledger_ring *r, const struct request_record *rec);
/* A keepalive: an attempt without a request. */
bool ledger_put_keepalive(struct ledger_ring *r, uint64_t id, int64_t started_wall_ms, const struct attempt_record *a);
/* Reopens the access log (after rotation). Any thread. */
void ledger_reopen_log(struct ledger *l);

struct ledger_stats {
    uint64_t rows_written, rows_lost, rows_waiting;
    bool is_degraded; /* the last write failed, or rows were lost in the last minute */
    char last_error[160];
};
void ledger_stats(const struct ledger *l, struct ledger_stats *out);

/* ---- reading: own connection, any thread, one reader per thread ---- */

struct ledger_reader;
enum err ledger_reader_open(const char *path, struct ledger_reader **out, char *message,
                            size_t message_cap) RM_MUST_USE;
void ledger_reader_close(struct ledger_reader *r);
/* The object of DESIGN 4 as JSON. ERR_NOT_FOUND. */
enum err ledger_read_json(struct ledger_reader *r, uint64_t id, struct buf *out) RM_MUST_USE;
/* The newest n requests as a JSON array of those objects, newest first; before_id 0 = from the top. */
enum err ledger_list_json(struct ledger_reader *r, unsigned n, uint64_t before_id, struct buf *out) RM_MUST_USE;

/* The record itself as that JSON (used by the reader's tests and by the admin API). */
void record_json(const struct request_record *rec, struct buf *out);
/* A new time-ordered id: ms since 2020 << 22 | core << 16 | counter. */
uint64_t ledger_new_id(int64_t wall_ms, unsigned core, uint32_t *counter);

#endif

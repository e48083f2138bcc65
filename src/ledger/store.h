/* The writing connection: prepared statements, interned names, one transaction per batch. Used by one thread. */
#ifndef RM_LEDGER_STORE_H
#define RM_LEDGER_STORE_H

#include "base/err.h"
#include "ledger/pack.h"

struct store;

/* Opens and migrates (schema_open). */
enum err store_open(const char *path, struct store **out, char *message, size_t message_cap) RM_MUST_USE;
void store_close(struct store *s);
/* Stamps the start of this run, and marks earlier ones without an end as unclean: *n_unclean is their number. Once,
 * before the first store_begin. */
enum err store_start_run(struct store *s, unsigned *n_unclean) RM_MUST_USE;
/* Starts a transaction; waits at most 20 ms for another writer: ERR_BUSY, then nothing is open. */
enum err store_begin(struct store *s) RM_MUST_USE;
/* n records. Writing the same id again changes nothing, so a batch may be repeated. STORE_GROUP requests at once take a
 * sixth less than one by one: one statement writes all of their rows. */
enum { STORE_GROUP = 8 };
enum err store_put(struct store *s, const struct packed *p, unsigned n) RM_MUST_USE;
enum err store_commit(struct store *s) RM_MUST_USE;
void store_rollback(struct store *s);
/* Stamps the clean end of this run. */
enum err store_end_run(struct store *s, uint64_t rows_written, uint64_t rows_lost) RM_MUST_USE;
/* Text of the last failure. */
const char *store_error(const struct store *s);

#endif

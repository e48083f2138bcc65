/* What the reading side offers beyond ledger.h: records instead of JSON, for the command line and for sums. */
#ifndef RM_LEDGER_READER_H
#define RM_LEDGER_READER_H

#include "base/arena.h"
#include "ledger/ledger.h"

#include <sqlite3.h>

enum { READER_LIST_MAX = 1000 };

/* The record with texts and attempts in the arena. A keepalive's id gives a record with route "" and its one attempt.
 * ERR_NOT_FOUND, ERR_IO. */
enum err reader_record(struct ledger_reader *r, uint64_t id, struct arena *arena,
                       struct request_record *out) RM_MUST_USE;
/* At most n (<= READER_LIST_MAX) records with after < id < before (before 0 = no bound); the newest ones, newest first.
 * *n_out = how many. */
enum err reader_list(struct ledger_reader *r, unsigned n, uint64_t after, uint64_t before, struct arena *arena,
                     struct request_record *out, unsigned *n_out) RM_MUST_USE;
/* The newest ids alone, newest first; at most cap. For following: a request is written when it ends but its id tells
 * when it began, so what is new is what was not there before, not what is larger. */
enum err reader_ids(struct ledger_reader *r, uint64_t *ids, size_t cap, size_t *n_out) RM_MUST_USE;
/* The connection, for summary.c. */
sqlite3 *reader_db(struct ledger_reader *r);
/* Milliseconds since 1970 as the database tells them. */
int64_t reader_now_ms(struct ledger_reader *r);
/* The smallest id that a request started at this time can have. */
uint64_t reader_id_at(int64_t wall_ms);
/* Text of the last failure. */
const char *reader_error(const struct ledger_reader *r);

#endif

/* The ledger's tables, their version, and opening a file so that it has the newest one.
 *
 *   schema(version, applied_ms)    one row per migration that was run
 *   name(id, text)                 interned words: routes, providers, models, keys, outcomes
 *   request(id, …, a_…)            one row a request; its served attempt inline (a_*), NULL where none was
 *   attempt(request_id, n, …)      the other attempts, and keepalives (which have no request row)
 *   repriced(request_id, n, …)     what an attempt's price and cost were before `ledger reprice` changed them
 *   run(id, started_ms, ended_ms, is_unclean, …)   one row per start of the program
 *
 * Names are stored as integers of `name`, or as the text itself where that table is full. No secondary index. */
#ifndef RM_LEDGER_SCHEMA_H
#define RM_LEDGER_SCHEMA_H

#include "base/bytes.h"
#include "base/err.h"

#include <sqlite3.h>

/* READABLE: the oldest one whose tables the reader knows. PROMPT: the first one with what a replay needs of a prompt.
 * SERVICE: the first one with classes of service. */
enum { SCHEMA_VERSION = 5, SCHEMA_VERSION_READABLE = 2, SCHEMA_VERSION_PROMPT = 4, SCHEMA_VERSION_SERVICE = 5 };

/* Opens for writing: creates, sets WAL, migrates. Waits up to 5 s for another process's lock. message: for people. */
enum err schema_open(const char *path, sqlite3 **out, char *message, size_t message_cap) RM_MUST_USE;
/* Opens for reading alone. ERR_NOT_FOUND when there is no such file, ERR_UNSUPPORTED when its version is newer, or
 * older than SCHEMA_VERSION_READABLE. */
enum err schema_open_reader(const char *path, sqlite3 **out, char *message, size_t message_cap) RM_MUST_USE;
/* Version of an open file; 0 = none of our tables; -1 = cannot be read. */
int schema_version(sqlite3 *db);

#endif

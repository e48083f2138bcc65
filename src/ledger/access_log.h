/* The access log: one JSON line per request, whole lines only. Used by one thread, which may block in the write; nobody
 * waits for it. What the file does not take stays in memory (the caller bounds it) and is written later from the first
 * byte missing.
 */
#ifndef RM_LEDGER_ACCESS_LOG_H
#define RM_LEDGER_ACCESS_LOG_H

#include "base/buf.h"
#include "base/err.h"
#include "ledger/pack.h"

struct access_log;

/* where: "stdout" or a path (appended to, created). message: for people. */
enum err access_log_open(const char *where, struct access_log **out, char *message, size_t message_cap) RM_MUST_USE;
/* Ends with a whole line: what was begun and cannot be finished is cut off again. */
void access_log_close(struct access_log *log);
/* Opens the path again, after rotation. Standard output stays. On failure the old file stays in use. */
enum err access_log_reopen(struct access_log *log) RM_MUST_USE;
/* Adds the request's line to what waits. The caller bounds that: no new batch while access_log_flush is false. */
void access_log_add(struct access_log *log, const struct packed *p);
/* True when nothing is left to write. */
bool access_log_flush(struct access_log *log);
/* Errno of the last failed write; 0 = the last one went well. */
int access_log_errno(const struct access_log *log);
/* The line without its LF. Of p the head is enough. */
void access_log_line(const struct packed *p, struct buf *out);

#endif

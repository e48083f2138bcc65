/* A record as bytes, for the way from a loop to the writing thread: numbers in one piece, texts behind them, each with
 * a NUL, so that the reader points into the bytes and copies nothing. It never leaves the process, so it has no
 * version. Pure. */
#ifndef RM_LEDGER_PACK_H
#define RM_LEDGER_PACK_H

#include "base/arena.h"
#include "base/buf.h"
#include "model/record.h"

/* Longer texts are cut here, at a character boundary: names come from clients. */
enum { PACK_TEXT_MAX = 512 };

struct packed {
    bool is_keepalive;                   /* record has one attempt and nothing else of a request's */
    int64_t served_input, served_output; /* tokens of the served attempt; -1 = not known, or none was served */
    struct request_record record;        /* attempts NULL: packed were those of a head alone */
};

/* Those texts of a record that all calls served by a link have in common. Pure. */
void pack_names(struct arena *a, const char *route, const char *dialect, const char *provider, const char *model,
                struct record_names *out);
/* Appends the record. Returns the length of its head: so many of the bytes are a record of their own, without the
 * attempts. That is all a line of the access log needs. */
size_t pack_request(struct buf *out, const struct request_record *rec);
void pack_keepalive(struct buf *out, uint64_t id, int64_t started_wall_ms, const struct attempt_record *a);
/* The record: its texts in `in`, as long as that lives, its attempts in the arena. The bytes are pack_*'s own: damage
 * is asserted. */
void pack_read(struct bytes in, struct arena *arena, struct packed *out);

#endif

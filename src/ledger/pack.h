/* A record as compact bytes, for the way from a loop to the writing thread: zigzag varints and length-prefixed texts.
 * It never leaves the process, so it has no version. Pure. */
#ifndef RM_LEDGER_PACK_H
#define RM_LEDGER_PACK_H

#include "base/arena.h"
#include "base/buf.h"
#include "model/record.h"

/* Longer texts are cut here, at a character boundary: names come from clients. */
enum { PACK_TEXT_MAX = 512 };

struct packed {
    bool is_keepalive; /* record has one attempt and nothing else of a request's */
    struct request_record record;
};

void pack_request(struct buf *out, const struct request_record *rec);
void pack_keepalive(struct buf *out, uint64_t id, int64_t started_wall_ms, const struct attempt_record *a);
/* The record with its texts and attempts in the arena. The bytes are pack_*'s own: damage is asserted. */
void pack_read(struct bytes in, struct arena *arena, struct packed *out);

#endif

/* The keepalives of a time: what they say of their targets, and what they cost. */
#ifndef RM_LEDGER_KEEPALIVES_H
#define RM_LEDGER_KEEPALIVES_H

#include "ledger/reader.h"
#include "model/record.h"

struct keepalive {
    int64_t started_wall_ms;
    const char *provider, *model; /* live as long as the call */
    enum outcome outcome;
    int64_t cost_nusd; /* NUSD_UNKNOWN */
};
typedef void keepalive_fn(void *arg, const struct keepalive *k);

/* One after the other, by rising time. since_id: reader_id_at, 0 = all. ERR_IO: reader_error tells. */
enum err keepalives_read(struct ledger_reader *r, uint64_t since_id, keepalive_fn *fn, void *arg) RM_MUST_USE;

#endif

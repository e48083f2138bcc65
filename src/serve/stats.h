/* Counters of one core, read by the admin listener. Each is written by its own loop only. */
#ifndef RM_SERVE_STATS_H
#define RM_SERVE_STATS_H

#include "model/record.h"

#include <stdatomic.h>

struct stats {
    _Alignas(64) _Atomic uint64_t requests[OUTCOME_N]; /* by the request's outcome */
    _Atomic uint64_t attempts[OUTCOME_N];              /* by the attempt's outcome; skips too */
    _Atomic uint64_t keepalives;
    _Atomic uint64_t refused; /* answered by the front alone */
    _Atomic uint64_t in_flight;
    _Atomic uint64_t connections;
    _Atomic uint64_t alarms;
    _Atomic int64_t cost_nusd, waste_nusd; /* known prices only */
    _Atomic int64_t estimated_nusd;        /* of cost_nusd: of attempts without a report */
};

static inline void stats_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}
/* Adds a finished request. */
void stats_record(struct stats *s, const struct request_record *rec);

#endif

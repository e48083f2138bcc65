#include "serve/stats.h"

static void add_money(_Atomic int64_t *sum, int64_t nusd)
{
    if (nusd != NUSD_UNKNOWN)
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + nusd, memory_order_relaxed);
}

void stats_record(struct stats *s, const struct request_record *rec)
{
    stats_add(&s->requests[rec->outcome], 1);
    for (uint16_t i = 0; i < rec->n_attempts; i++)
        stats_add(&s->attempts[rec->attempts[i].outcome], 1);
    add_money(&s->cost_nusd, rec->cost_nusd);
    add_money(&s->waste_nusd, rec->waste_nusd);
}

#include "serve/stats.h"

static void add_money(_Atomic int64_t *sum, int64_t nusd)
{
    if (nusd != NUSD_UNKNOWN)
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + nusd, memory_order_relaxed);
}

void stats_record(struct stats *s, const struct request_record *rec)
{
    stats_add(&s->requests[rec->outcome], 1);
    for (uint16_t i = 0; i < rec->n_attempts; i++) {
        const struct attempt_record *a = &rec->attempts[i];
        stats_add(&s->attempts[a->outcome], 1);
        if (a->tokens_from == TOKENS_ESTIMATED)
            add_money(&s->estimated_nusd, a->cost_nusd);
    }
    add_money(&s->cost_nusd, rec->cost_nusd);
    add_money(&s->waste_nusd, rec->waste_nusd);
}

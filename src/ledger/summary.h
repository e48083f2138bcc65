/* Totals over the ledger: what `ringmain ledger sum` shows. Money is summed in nano-dollars over known prices; what has
 * no known price is counted, never taken as 0. */
#ifndef RM_LEDGER_SUMMARY_H
#define RM_LEDGER_SUMMARY_H

#include "ledger/budgets.h"
#include "ledger/counting.h"
#include "ledger/hedging.h"

struct summary_target {
    const char *provider, *model;
    int64_t n_attempts, n_served, n_failed; /* started ones; failed: neither ok nor cancelled */
    int64_t output_tokens;
    int64_t cost_nusd, waste_nusd;
    int64_t n_unpriced;
};
struct summary_count {
    const char *word;
    int64_t n;
};
struct summary {
    int64_t since_ms; /* 0 = from the beginning */
    int64_t n_requests, n_attempts, n_failed_over, n_unpriced;
    int64_t cost_nusd, waste_nusd; /* of requests; waste is part of cost */
    int64_t n_keepalives, keepalive_nusd, n_keepalives_unpriced;
    int64_t n_runs_unclean;
    struct hedging hedging;
    struct budgets budgets;
    struct counting counting;
    struct estimates estimates;     /* for the caller to fill in */
    struct summary_count *outcomes; /* by the request's outcome, most first */
    size_t n_outcomes;
    struct summary_target *targets; /* by provider and model, dearest first; keepalives included */
    size_t n_targets;
};

enum err summary_read(struct ledger_reader *r, int64_t since_ms, struct arena *arena, struct summary *out) RM_MUST_USE;
/* Waste in per cent of cost, in thousandths: 437 = 0.437 %; -1 when nothing was spent. */
int64_t summary_waste_milli(const struct summary *s);
void summary_json(const struct summary *s, struct buf *out);

#endif

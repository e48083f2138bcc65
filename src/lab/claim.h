/* What the figures say, in words: each claim with its verdict. Pure. */
#ifndef RM_LAB_CLAIM_H
#define RM_LAB_CLAIM_H

#include "base/buf.h"
#include "lab/delta.h"
#include "lab/outage.h"

enum claim_id { CLAIM_STEADY, CLAIM_FAILOVER, CLAIM_NO_ERRORS, CLAIM_WARM, CLAIM_WASTE, CLAIM_NAIVE, CLAIM_N };
enum claim_verdict { CLAIM_HOLDS, CLAIM_FAILS, CLAIM_NOT_MEASURED };

struct claim {
    const char *name;
    enum claim_verdict verdict;
    struct buf text; /* a sentence or two */
};

/* The failover claim's x: how much more than the budget and the backup's own first token half of the users may wait. */
enum { CLAIM_FAILOVER_MS = 25 };
struct claim_facts {
    const struct phase *phases; /* PHASE_N, closed */
    const struct delta *deltas; /* DELTA_N */
    const struct outage *outage;
    double budget_ms;
    bool is_real; /* what failed was a pretend link, and free of charge */
};

const char *claim_verdict_word(enum claim_verdict v);
/* The caller releases by claim_fini. */
void claim_all(const struct claim_facts *facts, struct claim out[CLAIM_N]);
void claim_fini(struct claim v[CLAIM_N]);

#endif

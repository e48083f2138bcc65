/* What a first-token budget trades: too short cuts calls that would have answered, too long lets users wait for what
 * never answers. Computed from one survival curve. Pure. */
#ifndef RM_PLAN_TRADEOFF_H
#define RM_PLAN_TRADEOFF_H

#include "plan/sketch.h"

enum { TRADEOFF_POINTS = 48 };

struct tradeoff_ask {
    const struct survival *survival;
    uint64_t from_us, to_us; /* the budgets that are looked at: 0 < from < to */
    uint64_t next_us;        /* what a later link takes to its first token */
    double hung_share;       /* of all calls, that never answer; < 0 = what the curve ends at */
    double cut_usd;          /* what a cut attempt costs */
    double second_usd;       /* what a second of a user's waiting is worth */
};
struct tradeoff_point {
    uint64_t budget_us;
    double false_share; /* of the calls that would answer, those that are cut */
    double cut_share;   /* of all calls */
    double wait_us;     /* until the first token of whoever answers, over all calls */
    double waste_usd;   /* per call: cut attempts */
    double total_usd;   /* per call: that, and the wait at its worth */
};
struct tradeoff {
    struct tradeoff_point points[TRADEOFF_POINTS]; /* by budget, in equal ratios */
    unsigned cheapest;
    double hung_share;
};

void tradeoff_of(const struct tradeoff_ask *ask, struct tradeoff *out);
/* The same for one budget. */
struct tradeoff_point tradeoff_at(const struct tradeoff_ask *ask, uint64_t budget_us);

#endif

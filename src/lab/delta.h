/* The differences that matter, each with its interval. Pure. */
#ifndef RM_LAB_DELTA_H
#define RM_LAB_DELTA_H

#include "lab/bootstrap.h"
#include "lab/phase.h"

enum { DELTA_N = 17 };
struct delta {
    char name[64]; /* a figure's: "steady.ttft.p50.delta_ms" */
    char title[96];
    struct interval interval;
};

/* phases: PHASE_N of them, closed. budget_ms is taken from a failover by the first-token budget. Each delta is put
 * among the figures too. */
void delta_all(const struct phase *phases, double budget_ms, uint64_t seed, struct delta out[DELTA_N],
               struct figures *f);
/* NULL = no such delta. */
const struct delta *delta_find(const struct delta v[DELTA_N], const char *name);

#endif

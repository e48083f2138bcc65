#include "lab/delta.h"

#include <stdio.h>

struct row {
    const char *name, *title;
    enum phase_id a, b;
    bool less_budget;
    unsigned n_points; /* how many of p50, p95, p99 */
    bool has_total;    /* the total time as well */
};

static const struct row rows[] = {
    {"steady", "gateway − direct", PHASE_HEALTHY, PHASE_DIRECT, false, 3, true},
    {"failover", "hang − (budget + B's own)", PHASE_HANG, PHASE_DIRECT_B, true, 3, false},
    {"rate_limited", "429 − B's own", PHASE_RATE_LIMITED, PHASE_DIRECT_B, false, 3, false},
    {"error_in_200", "error inside a 200 − B's own", PHASE_ERROR_IN_200, PHASE_DIRECT_B, false, 1, false},
    {"warm", "warm − cold standby", PHASE_WARM, PHASE_COLD, false, 2, false},
    {"naive", "client by itself − gateway, A hangs", PHASE_NAIVE, PHASE_HANG, false, 2, false},
};

static void one(const struct row *r, const struct phase *phases, bool is_total, int point, double budget_ms,
                uint64_t seed, struct delta *out)
{
    const struct phase *a = &phases[r->a], *b = &phases[r->b];
    snprintf(out->name, sizeof out->name, "%s.%s.%s.delta_ms", r->name, is_total ? "total" : "ttft",
             phase_point_names[point]);
    snprintf(out->title, sizeof out->title, "%s: %s, %s", is_total ? "Total time" : "First token", r->title,
             phase_point_names[point]);
    out->interval = bootstrap_difference(is_total ? &a->total : &a->ttft, is_total ? &b->total : &b->ttft,
                                         phase_points[point], r->less_budget ? budget_ms : 0, seed);
}

void delta_all(const struct phase *phases, double budget_ms, uint64_t seed, struct delta out[DELTA_N],
               struct figures *f)
{
    size_t n = 0;
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        for (int k = 0; k < 1 + rows[i].has_total; k++)
            for (unsigned p = 0; p < rows[i].n_points; p++) {
                RM_ASSERT(n < DELTA_N);
                one(&rows[i], phases, k == 1, (int)p, budget_ms, seed, &out[n]);
                figures_put(f, out[n].interval.value, "%s", out[n].name);
                n++;
            }
    RM_ASSERT(n == DELTA_N);
}

const struct delta *delta_find(const struct delta v[DELTA_N], const char *name)
{
    for (int i = 0; i < DELTA_N; i++)
        if (strcmp(v[i].name, name) == 0)
            return &v[i];
    return NULL;
}

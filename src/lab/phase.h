/* The phases of the failover benchmark: what each one does, what was measured in it. Pure. */
#ifndef RM_LAB_PHASE_H
#define RM_LAB_PHASE_H

#include "lab/dist.h"
#include "lab/figures.h"
#include "lab/sample.h"

enum phase_id {
    PHASE_DIRECT,
    PHASE_DIRECT_B,
    PHASE_HEALTHY,
    PHASE_RATE_LIMITED,
    PHASE_HANG,
    PHASE_ERROR_IN_200,
    PHASE_DOUBLE_FAILURE,
    PHASE_COLD,
    PHASE_WARM,
    PHASE_NAIVE,
    PHASE_N
};

enum phase_path {
    PATH_DIRECT_A, /* the client speaks to the provider itself */
    PATH_DIRECT_B,
    PATH_GATEWAY,
    PATH_STANDBY, /* many routes through the gateway, each with a standby of its own that was idle */
    PATH_NAIVE    /* the client tries A, A again, then B by itself */
};

struct phase_spec {
    const char *name, *title, *what;
    enum phase_path path;
    const char *fault_a, *fault_b; /* words of lab/fault.h; NULL = well */
};

/* A figure's percentiles that are shown. */
enum { PHASE_N_POINTS = 4, PHASE_WORDS_MAX = 16 };
extern const double phase_points[PHASE_N_POINTS];           /* 50, 95, 99, 100 */
extern const char *const phase_point_names[PHASE_N_POINTS]; /* "p50", "p95", "p99", "max" */

struct phase_count {
    char word[SAMPLE_WORD_BYTES];
    uint64_t n;
};
/* The zero value is a phase that was not run. */
struct phase {
    struct sample *v;
    size_t n, cap;
    /* what phase_close makes of them */
    struct dist ttft, total; /* of requests that ended well, from their due time */
    uint64_t n_ok;
    struct phase_count errors[PHASE_WORDS_MAX], served[PHASE_WORDS_MAX]; /* a word beyond is counted as "other" */
    size_t n_errors, n_served;
    int64_t input, output;         /* tokens; what was not told counts 0 */
    int64_t cost_nusd, waste_nusd; /* NUSD_UNKNOWN as soon as one request's is */
    double attempts;               /* a request; NAN = no request */
};

const struct phase_spec *phase_spec(enum phase_id id);
/* PHASE_N = no such phase. */
enum phase_id phase_find(struct bytes name);
/* The name that is most like it. */
const char *phase_nearest(struct bytes name);

void phase_put(struct phase *p, const struct sample *s);
/* Sums and percentiles over what was put; may be called again after more was put. */
void phase_close(struct phase *p);
void phase_fini(struct phase *p);
/* "NAME.ttft.p50_ms", "NAME.errors" and so on; NAN where nothing was measured. */
void phase_figures(const struct phase *p, enum phase_id id, struct figures *f);
/* Waste in per cent of cost; NAN = unknown, or nothing was spent. */
double phase_waste_pct(int64_t cost_nusd, int64_t waste_nusd);

#endif

/* The past under a policy: its requests go through the real engine again, at the times when they came, against targets
 * that do what they did (sim/draw.h). What cannot be known of it, and is assumed: docs/what-if.md. */
#ifndef RM_SIM_REPLAY_H
#define RM_SIM_REPLAY_H

#include "sim/draw.h"

/* What is compared. Requests that clients gave up, or that were their own mistakes, are counted apart. */
struct replay_figures {
    int64_t n_requests;
    int64_t n_answered;             /* whole and well */
    int64_t n_failed;               /* the others that count: answered + failed = what availability is of */
    int64_t n_attempts;             /* started */
    int64_t n_later;                /* answered by another attempt than the first */
    int64_t p50_us, p95_us, p99_us; /* to the first token, of what was answered; -1 = nothing was */
    int64_t cost_nusd, waste_nusd;  /* where the price is known */
    int64_t n_unpriced;             /* requests of unknown cost */
    int64_t n_read, n_written;      /* tokens from and to providers' prompt caches */
};

/* The figures of what was recorded. */
void replay_recorded(const struct past *p, struct replay_figures *out);

struct replay_ask {
    const struct past *past;
    struct config *config; /* its own copy: ids are written into it */
    const struct route_conf *route;
    uint64_t seed;
    void (*tick)(void *arg, size_t n_done, size_t n); /* now and then; NULL = nobody asks */
    void *arg;
};
struct replay_result {
    struct replay_figures figures;
    struct draw_counts draws;
};
/* ERR_LIMIT: more targets than a registry holds. */
enum err replay_run(const struct replay_ask *ask, struct replay_result *out) RM_MUST_USE;

/* Figures from records, one at a time; for whoever has them otherwise. Starts as {0}. */
struct replay_tally {
    struct replay_figures figures;
    int64_t *ttft_us;
    size_t n, cap;
};
void tally_add(struct replay_tally *t, const struct request_record *rec);
/* Fills the percentiles and releases. */
void tally_end(struct replay_tally *t, struct replay_figures *out);

#endif

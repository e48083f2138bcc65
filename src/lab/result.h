/* Everything that a run of the benchmark has found, and its JSON. Pure. */
#ifndef RM_LAB_RESULT_H
#define RM_LAB_RESULT_H

#include "lab/claim.h"
#include "lab/expect.h"

enum { RESULT_PROVIDERS_MAX = 8, RESULT_EXPECTS_MAX = 64 };

struct result_provider {
    char name[SAMPLE_WORD_BYTES], dialect[16], model[96], ttft[64], price[96];
    double tokens_per_s; /* NAN = not known */
};
struct result_settings {
    unsigned concurrency, requests_per_phase, rounds; /* rounds: those that were begun, of all merged runs */
    double rate;                                      /* 0 = closed loop */
    unsigned system_tokens, user_tokens, ttft_budget_ms;
    struct result_provider providers[RESULT_PROVIDERS_MAX];
    size_t n_providers;
};
struct result_machine {
    char kernel[96], cpu[96];
    unsigned cores;
    uint64_t memory_mb;
};
/* The zero value is a result without anything measured. */
struct result {
    struct buf command;
    int64_t started_wall_ms, ended_wall_ms;
    uint64_t seed;
    const char *partial_reason; /* NULL = whole */
    bool is_real;               /* real providers behind a pretend link that fails: its waste is no money */
    struct result_machine machine;
    struct result_settings settings;
    struct phase phases[PHASE_N];
    struct outage outage;
    double behind_max_ms; /* open loop: how late a request was sent at worst */
    struct expect expects[RESULT_EXPECTS_MAX];
    size_t n_expects;
    /* what result_close makes of it */
    struct delta deltas[DELTA_N];
    struct claim claims[CLAIM_N];
    struct figures figures;
    int64_t spend_nusd, waste_nusd; /* of what went through the gateway; NUSD_UNKNOWN */
    struct interval waste_pct;      /* waste of spend; the outage, which is run once, is in every draw */
};

/* Sums, percentiles, deltas, claims, figures; may be called again after more was put. Without any sample it still names
 * every figure there is. */
void result_close(struct result *r);
void result_fini(struct result *r);
/* After result_close: how many expectations do not hold. */
size_t result_n_unmet(const struct result *r);
/* After result_close. "ringmain-bench/1": docs/bench.md. */
void result_json(const struct result *r, struct buf *out);

#endif

/* The inside of the latency history, shared by latency.c and latency_book.c only. */
#ifndef RM_PLAN_LATENCY_IMPL_H
#define RM_PLAN_LATENCY_IMPL_H

#include "plan/latency.h"
#include "plan/sketch.h"

enum { LATENCY_KEYS_PER_TARGET = LATENCY_SIZES * LATENCY_EFFORTS, LATENCY_PENDING_MAX = 4 };

#define LATENCY_HALF_LIFE_US (UINT64_C(4) * 3600 * 1000000)

struct counters {
    _Atomic uint64_t n_answered, n_cut, n_late, n_late_soon, n_watched, n_moved, n_regimes;
    _Atomic int64_t cut_nusd, late_nusd;
};

/* What a core last merged. */
struct view {
    uint64_t at_us; /* 0 = never */
    double n_answered;
    struct survival survival;
};

/* Where answers lie, as running means of the logarithm of their time: a quick one, and a slow one to see it move. */
struct middle {
    double quick, slow;
    uint32_t n;
    uint64_t at_us;
};

struct key;
struct track {
    struct sketch sketch;
    struct key *key; /* whose it is */
    /* What other cores look at with each call while they know no budget themselves: on a line that is seldom written.
     */
    _Alignas(64) _Atomic uint32_t regime;
    _Atomic uint64_t budget_us[LATENCY_PERCENTILES]; /* the last that was known; 0 = none */
    _Alignas(64) _Atomic bool is_bad;
    struct counters counters;
    struct view view;
    struct middle middle;
    double known_us[LATENCY_PERCENTILES];  /* budgets as the sketch last told them; 0 = none … */
    double known_log[LATENCY_PERCENTILES]; /* … and where the middle was then */
    uint64_t recent;                       /* the last 64 ends: 1 = late or cut */
    uint32_t run;                          /* cuts since the last answer in time */
    uint32_t n_asked;
    uint64_t pending[LATENCY_PENDING_MAX]; /* cuts that wait for the next answer in time */
    unsigned n_pending;
    unsigned n_late, n_in_time, n_silent; /* since the weather turned bad */
};

struct key {
    struct latency_key name;
    _Atomic uint32_t regime;
    _Atomic uint32_t n_silent_trials; /* since the last answer in time */
    _Atomic(struct track *) tracks[]; /* by core */
};

struct latency_core {
    struct latency *all;
    unsigned core;
    uint64_t used_us[REGISTRY_TARGETS_MAX]; /* the last exchange with the target; 0 = none */
};

struct latency {
    unsigned n_cores;
    _Atomic unsigned n_keys;
    struct latency_core *cores;
    _Atomic(struct key *) keys[REGISTRY_TARGETS_MAX * LATENCY_KEYS_PER_TARGET];
};

/* NULL = nothing is kept of it. */
struct key *latency_find_key(const struct latency *l, struct latency_key name);
/* The track of this core, of the regime in force; NULL = no room. */
struct track *latency_track(struct latency_core *c, struct latency_key name, struct key **key);
/* All cores' samples as they weigh now. False when a track was being halved: it is missing. */
bool latency_merge(const struct latency *l, const struct key *k, uint64_t now_us, struct sketch_sum *sum);
/* The last budget known to this core (`own`, may be NULL), else to any; 0 = none. */
uint64_t latency_known_budget(const struct latency *l, const struct key *k, const struct track *own, unsigned p);
/* The known one where there are samples enough, else the fallback; within its bounds. */
uint64_t latency_budget_of(const struct auto_conf *conf, double n_answered, uint64_t known_us, bool *is_known);

#endif

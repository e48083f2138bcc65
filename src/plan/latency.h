/* How long targets take to their first token, and the budgets that follow from it (`ttft_budget_ms: auto`). Kept per
 * target, prompt size and reasoning effort, outside the config snapshot; survives a reload, and is written out and read
 * back over a restart. Each core writes its own sketches; who asks merges all cores' at most once a second and key.
 * Pure but for the atomics: `now_us` is a parameter (monotonic). */
#ifndef RM_PLAN_LATENCY_H
#define RM_PLAN_LATENCY_H

#include "model/call.h"
#include "model/record.h"
#include "plan/registry.h"
#include "plan/sketch.h"

struct latency;      /* all cores */
struct latency_core; /* one core's part: used on its loop only */

enum {
    LATENCY_SIZES = 5,   /* prompts up to 1k, 4k, 16k, 64k tokens, and larger */
    LATENCY_EFFORTS = 6, /* none given, minimal, low, medium, high, and above */
    LATENCY_KEYS_MAX = 1024,
    LATENCY_PERCENTILES = AUTO_PERCENTILE_N
};

struct latency *latency_new(unsigned n_cores);
void latency_free(struct latency *l);
struct latency_core *latency_core(struct latency *l, unsigned core);

struct latency_key {
    uint16_t target_id;
    uint8_t size, effort;
};
struct latency_key latency_key_of(uint16_t target_id, const struct call *call);
/* "4k", "more" and "none", "high", as they are shown and written. */
const char *latency_size_word(unsigned size);
const char *latency_effort_word(unsigned effort);

/* ---- on the request path ---- */

/* A link's time to its first token, decided when its first attempt starts; goes with it to its end. */
struct latency_grant {
    struct track *track; /* where its end is noted, on this core; NULL = nowhere: there are too many keys */
    uint64_t us;         /* what the link is given; 0 = nothing was asked for */
    uint64_t base_us;    /* the budget itself, without allowances: what would have cut, and what counts as late */
    bool is_known;       /* base_us comes from the history; false = the fallback */
    bool is_watch;       /* given half as much again, to learn how the slow ones go on */
    bool is_trial;       /* given more, because nothing answers in time */
    bool is_cold;        /* the target was idle on this core: given time to connect */
    bool is_shadow;      /* base_us is watched and cuts nothing */
};
/* is_trial: the breaker's single request. connect_us: what a cold start may take at most. */
void latency_grant(struct latency_core *c, struct latency_key key, const struct auto_conf *conf, bool is_trial,
                   uint64_t connect_us, uint64_t now_us, struct latency_grant *out);

/* What came of a grant, on the core that gave it. The attempt's first token came `took_us` after its start, of which
 * connect_us were spent on a new connection (<= 0 = none). True when it came later than base_us. would_nusd: what a cut
 * there would have cost, for the reports (0 = not known). */
bool latency_answered(const struct auto_conf *conf, const struct latency_grant *g, uint64_t took_us, int64_t connect_us,
                      int64_t would_nusd, uint64_t now_us);
/* It was cut without a token, by its budget or by the deadline. cost_nusd: what it cost (0 = not known). */
void latency_cut(const struct auto_conf *conf, const struct latency_grant *g, uint64_t after_us, int64_t connect_us,
                 int64_t cost_nusd, uint64_t now_us);
/* It ended without a token for a reason of ours or the client's: it would have taken longer than this, no more. */
void latency_left(const struct latency_grant *g, uint64_t after_us, int64_t connect_us, uint64_t now_us);
/* A call of this key was cut here and answered by a later link. */
void latency_moved(struct latency_core *c, struct latency_key key);

/* The time that a share `permille` of answers do not exceed; 0 = not known (fewer than `min_samples`, or beyond all
 * that was seen). As fresh as the last merge on this core. */
uint64_t latency_quantile_us(struct latency_core *c, struct latency_key key, unsigned permille, uint32_t min_samples,
                             uint64_t now_us);

/* The budget that such a curve of n answers gives, what it ends at being taken for calls that never answer; within the
 * bounds, and the fallback where they are too few. */
uint64_t latency_budget_us(const struct survival *s, double n_answered, const struct auto_conf *conf);

/* ---- for people; any thread ---- */

struct latency_counts {
    uint64_t n_answered;
    uint64_t n_cut;              /* by the budget or the deadline, before a token */
    uint64_t n_late;             /* answered, later than the budget: watched, in the shadow, or nobody else was left */
    uint64_t n_late_soon;        /* of them, within half the budget more */
    uint64_t n_watched;          /* of these, the watched ones: each stands for seven that were cut */
    uint64_t n_moved;            /* cut, then answered by a later link */
    uint64_t n_regimes;          /* changes after which the history began anew */
    int64_t cut_nusd, late_nusd; /* what the cut ones cost; what cuts of the late ones would have cost */
};
struct latency_report {
    struct latency_key key;
    double n_samples;                /* as they weigh now */
    uint64_t p50_us, p95_us, p99_us; /* 0 = not known */
    uint64_t budget_us;              /* without allowances */
    bool is_known;                   /* false = the fallback */
    bool is_still;                   /* too much is cut: the history stands still */
    /* Share of all attempts that take longer than the budget and at most half as much again: false trips, as the
     * sketch's tail tells them. In permille; -1 = not known. */
    int tail_permille;
    struct latency_counts counts;
};
/* False when nothing is kept of this key. */
bool latency_report(const struct latency *l, struct latency_key key, const struct auto_conf *conf, uint64_t now_us,
                    struct latency_report *out);
/* Of what was cut, how much would have answered within half the budget more, as the watched attempts tell it; at most
 * all. Calls that a later link answered only because of that; and what those cuts cost. */
struct latency_false {
    uint64_t n_trips, n_downgrades;
    int64_t cost_nusd;
};
struct latency_false latency_false(const struct latency_counts *c);

/* ---- written out and read back ---- */

/* One line a key that still holds a sample. Between latency_new and the first request, or on any thread later. */
void latency_write(const struct latency *l, const struct registry *r, uint64_t now_us, struct buf *out);
/* Reads one such line, written away_us ago, into core 0's part; before its loop runs. Targets are interned. ERR_SYNTAX:
 * not ours, nothing was taken over; ERR_LIMIT: full. */
enum err latency_read_line(struct latency *l, struct registry *r, struct bytes line, uint64_t away_us,
                           uint64_t now_us) RM_MUST_USE;

#endif

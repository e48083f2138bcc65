/* How sure a difference of two percentiles is: the bootstrap's percentile interval.
 *
 * Requests of one round share the state of the machine, so they are no independent witnesses. With three rounds or
 * more, whole rounds are drawn with replacement, the same rounds for both phases (they were interleaved, so a slow
 * minute is in both). With fewer, the requests of each phase are drawn one by one: that interval is wider where phases
 * are paired and cannot see what differs between rounds. Seeded, so the same samples give the same interval. Pure. */
#ifndef RM_LAB_BOOTSTRAP_H
#define RM_LAB_BOOTSTRAP_H

#include "lab/dist.h"

enum { BOOTSTRAP_DRAWS = 2000, BOOTSTRAP_ROUNDS_MIN = 3 };

struct interval {
    double value, low, high; /* milliseconds, or per cent; NAN = not known */
};

/* percentile p of a, minus percentile p of b, minus less_ms; the interval holds 95 %. Both sorted. */
struct interval bootstrap_difference(const struct dist *a, const struct dist *b, double p, double less_ms,
                                     uint64_t seed);

struct bootstrap_money {
    int64_t part, whole;
};
/* The sum of the parts in per cent of the sum of the wholes. v has the rounds, which are drawn; `fixed` was measured
 * once and is in every draw. With fewer than BOOTSTRAP_ROUNDS_MIN rounds there is a value and no interval. */
struct interval bootstrap_share(const struct bootstrap_money *v, uint32_t n_rounds, struct bootstrap_money fixed,
                                uint64_t seed);

#endif

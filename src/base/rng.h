/* A seeded generator (SplitMix64): the only source of chance, so that a seed is a replayable story. */
#ifndef RM_BASE_RNG_H
#define RM_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}
/* Uniform in [0, n); n > 0. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
    return rng_next(r) % n;
}
/* Uniform in [lo, hi]. */
static inline uint64_t rng_between(struct rng *r, uint64_t lo, uint64_t hi)
{
    return lo + rng_below(r, hi - lo + 1);
}
/* v spread by +- percent. */
static inline uint64_t rng_jitter(struct rng *r, uint64_t v, unsigned percent)
{
    uint64_t span = v * percent / 100;
    return span == 0 ? v : v - span + rng_below(r, 2 * span + 1);
}

#endif

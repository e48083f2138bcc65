/* A quantile sketch of times that fade: how long something took, and how long was waited for what was then cut. A cut
 * is not a sample of its length but of "longer than that" (censored), and is counted apart; survival_of() puts both
 * together. One thread writes, any may read; no lock. Pure: `now_us` is a parameter. */
#ifndef RM_PLAN_SKETCH_H
#define RM_PLAN_SKETCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Values from 1,024 us to 2^32 us (71 minutes) keep a relative error of at most 1/64 = 1.6 %; smaller ones fall into
 * the first bucket, larger ones into the last. */
enum {
    SKETCH_OCTAVES = 22,
    SKETCH_PER_OCTAVE = 32,
    SKETCH_FIRST_BIT = 10,
    SKETCH_BUCKETS = SKETCH_OCTAVES * SKETCH_PER_OCTAVE
};

/* 5.6 KB. A sample's weight halves after half_n further samples or half_us, whichever comes first (both together make
 * it fade as the sum of the two). */
struct sketch {
    uint64_t half_us;
    uint32_t half_n;
    _Atomic uint32_t turn;                                          /* odd while everything is being halved */
    _Atomic uint64_t age;                                           /* half-lives gone by, in 2^-20 */
    _Atomic uint64_t at_us;                                         /* up to then; 0 = nothing was put yet */
    _Atomic uint32_t answered[SKETCH_BUCKETS], cut[SKETCH_BUCKETS]; /* weights: a fresh sample is 1024 to 2047 */
};

/* Empty. half_us and half_n > 0, half_n <= 2^20. */
void sketch_init(struct sketch *s, uint64_t half_us, uint32_t half_n);
/* Its writer's thread. A `now_us` that lies back counts as no time gone by. */
void sketch_answered(struct sketch *s, uint64_t took_us, uint64_t now_us);
void sketch_cut(struct sketch *s, uint64_t after_us, uint64_t now_us);
/* Empty again; the half-lives stay. Its writer's thread. */
void sketch_clear(struct sketch *s);

/* What several sketches say together, in samples (a fresh sample is 1). */
struct sketch_sum {
    double answered[SKETCH_BUCKETS], cut[SKETCH_BUCKETS];
    double n_answered, n_cut;
};
/* Adds a sketch as it weighs at now_us. False when its writer was halving it: nothing was added. Any thread. */
bool sketch_add(const struct sketch *s, uint64_t now_us, struct sketch_sum *sum);
/* Puts a sum into an empty sketch, as if its samples had been put at now_us. Its writer's thread. */
void sketch_load(struct sketch *s, const struct sketch_sum *sum, uint64_t now_us);

/* The bucket of a time, and the time that stands for a bucket. */
unsigned sketch_bucket(uint64_t us);
uint64_t sketch_time(unsigned bucket);

/* The share that takes longer, by Kaplan and Meier: 1 at the start, falling at every answer. Where the last samples are
 * cuts it does not reach 0: how the rest would have gone on is not known. */
struct survival {
    double after[SKETCH_BUCKETS]; /* share that is longer than the bucket */
    unsigned end;                 /* buckets that hold samples lie below; 0 = none */
};
void survival_of(const struct sketch_sum *sum, struct survival *out);
/* Share longer than `us`; past the last sample what is left there. */
double survival_at(const struct survival *s, uint64_t us);
/* Share that is left at the end: never answered, as far as is known. 1 = nothing was answered. */
double survival_end(const struct survival *s);
/* The time that a share q (0 to 1) does not exceed; 0 = not known: it lies beyond all that was seen. */
uint64_t survival_quantile(const struct survival *s, double q);

#endif

/* Buckets. A time's highest bit tells the octave, the five bits below it the place in it: 32 equal steps an octave, so
 * a bucket is at most 1/32 of its lower end wide and its middle at most 1/64 away. Integers only: equal on every
 * machine.
 *
 *     us = 1 b b b b b x x x x …         bucket = (octave - 10) * 32 + bbbbb
 *
 * Fading. Instead of letting all old samples shrink at every new one, the new ones grow: a sample's weight is 2^age of
 * the sketch, age counted in half-lives. Its whole part would overflow, so when it grows by one everything is halved
 * (shifted right) instead; the fraction f makes the weight 1024 * (1 + f), a straight line that meets 2^f at both ends
 * and is at most 6 % off between. So a put is one addition, and all buckets are touched once a half-life.
 *
 * A reader that meets the halving (`turn` is odd, or moved while it read) takes nothing and asks again later.
 *
 * Cuts. An attempt that was cut at its budget would have taken longer, nobody knows how much. Taken as a sample at the
 * budget it would pull the quantiles down to the budget, left out it would do so faster still: the slowest answers are
 * what a budget cuts, so each estimate would be lower than the one before. The Kaplan-Meier estimate uses just what is
 * known: a cut stands among those "still out" up to its time and then leaves without an answer,
 *
 *     S(t) = product over answered times t_i <= t of (1 - answered_i / still out just before t_i)
 *
 * which is right as long as being cut says nothing else about the sample. (A provider that hangs breaks that: its cuts
 * are kept away from here, see latency.c.) Within a bucket answers come before cuts. */
#include "plan/sketch.h"

#include "base/check.h"

#include <string.h>

enum { AGE_BITS = 20, WEIGHT_BITS = 10 };
#define WEIGHT_ONE (UINT32_C(1) << WEIGHT_BITS)
#define AGE_ONE (UINT64_C(1) << AGE_BITS)
#define AGE_MAX (UINT64_C(64) << AGE_BITS) /* nothing is left of what is so old */

static uint64_t get64(const _Atomic uint64_t *v)
{
    return atomic_load_explicit(v, memory_order_relaxed);
}

static uint32_t get32(const _Atomic uint32_t *v)
{
    return atomic_load_explicit(v, memory_order_acquire); /* a reader's last look at `turn` stays the last */
}

static void set32(_Atomic uint32_t *v, uint32_t to)
{
    atomic_store_explicit(v, to, memory_order_release); /* who sees it sees the turn that it belongs to */
}

unsigned sketch_bucket(uint64_t us)
{
    if (us < UINT64_C(1) << SKETCH_FIRST_BIT)
        return 0;
    unsigned bit = 63 - (unsigned)__builtin_clzll(us), octave = bit - SKETCH_FIRST_BIT;
    if (octave >= SKETCH_OCTAVES)
        return SKETCH_BUCKETS - 1;
    return octave * SKETCH_PER_OCTAVE + (unsigned)((us >> (bit - 5)) & (SKETCH_PER_OCTAVE - 1));
}

uint64_t sketch_time(unsigned bucket)
{
    unsigned octave = bucket / SKETCH_PER_OCTAVE, step = bucket % SKETCH_PER_OCTAVE;
    uint64_t width = UINT64_C(1) << (octave + SKETCH_FIRST_BIT - 5);
    return (SKETCH_PER_OCTAVE + step) * width + width / 2;
}

void sketch_init(struct sketch *s, uint64_t half_us, uint32_t half_n)
{
    RM_ASSERT(half_us > 0 && half_n > 0 && half_n <= AGE_ONE);
    memset(s, 0, sizeof *s);
    s->half_us = half_us;
    s->half_n = half_n;
}

/* Half-lives that the time up to now_us is worth, in 2^-20. */
static uint64_t gone_by(const struct sketch *s, uint64_t at_us, uint64_t now_us)
{
    uint64_t us = at_us != 0 && now_us > at_us ? now_us - at_us : 0;
    if (us / s->half_us >= AGE_MAX >> AGE_BITS)
        return AGE_MAX;
    return (us / s->half_us << AGE_BITS) + (uint64_t)((unsigned __int128)(us % s->half_us) * AGE_ONE / s->half_us);
}

static void shift_all(struct sketch *s, uint64_t by)
{
    for (unsigned i = 0; i < SKETCH_BUCKETS; i++) {
        set32(&s->answered[i], by < 32 ? get32(&s->answered[i]) >> by : 0);
        set32(&s->cut[i], by < 32 ? get32(&s->cut[i]) >> by : 0);
    }
}

/* Everything between these two is seen by a reader as a whole or not at all. */
static void begin_turn(struct sketch *s)
{
    (void)atomic_exchange_explicit(&s->turn, get32(&s->turn) + 1, memory_order_acq_rel);
}

static void end_turn(struct sketch *s)
{
    atomic_store_explicit(&s->turn, get32(&s->turn) + 1, memory_order_release);
}

static void put(struct sketch *s, _Atomic uint32_t *v, uint64_t us, uint64_t now_us)
{
    uint64_t at_us = get64(&s->at_us), age = get64(&s->age);
    uint64_t now_age = age + gone_by(s, at_us, now_us) + AGE_ONE / s->half_n;
    uint64_t by = (now_age >> AGE_BITS) - (age >> AGE_BITS);
    if (by > 0) {
        begin_turn(s);
        shift_all(s, by);
    }
    atomic_store_explicit(&s->age, now_age, memory_order_relaxed);
    if (now_us > at_us)
        atomic_store_explicit(&s->at_us, now_us, memory_order_relaxed);
    if (by > 0)
        end_turn(s);
    uint32_t weight = WEIGHT_ONE + (uint32_t)((now_age & (AGE_ONE - 1)) >> (AGE_BITS - WEIGHT_BITS));
    _Atomic uint32_t *b = &v[sketch_bucket(us)];
    uint32_t old = get32(b);
    set32(b, old <= UINT32_MAX - weight ? old + weight : old);
}

void sketch_answered(struct sketch *s, uint64_t took_us, uint64_t now_us)
{
    put(s, s->answered, took_us, now_us);
}

void sketch_cut(struct sketch *s, uint64_t after_us, uint64_t now_us)
{
    put(s, s->cut, after_us, now_us);
}

void sketch_clear(struct sketch *s)
{
    begin_turn(s);
    shift_all(s, 32);
    end_turn(s);
}

bool sketch_add(const struct sketch *s, uint64_t now_us, struct sketch_sum *sum)
{
    uint32_t answered[SKETCH_BUCKETS], cut[SKETCH_BUCKETS];
    uint32_t turn = atomic_load_explicit(&s->turn, memory_order_acquire);
    uint64_t age = get64(&s->age), at_us = get64(&s->at_us);
    for (unsigned i = 0; i < SKETCH_BUCKETS; i++) {
        answered[i] = get32(&s->answered[i]);
        cut[i] = get32(&s->cut[i]);
    }
    if ((turn & 1) != 0 || get32(&s->turn) != turn)
        return false;
    uint64_t now_age = age + gone_by(s, at_us, now_us), by = (now_age >> AGE_BITS) - (age >> AGE_BITS);
    double one = WEIGHT_ONE + (double)(now_age & (AGE_ONE - 1)) / (AGE_ONE >> WEIGHT_BITS);
    for (; by > 0; by--)
        one *= 2;
    for (unsigned i = 0; i < SKETCH_BUCKETS; i++) {
        if ((answered[i] | cut[i]) == 0)
            continue;
        sum->answered[i] += answered[i] / one;
        sum->n_answered += answered[i] / one;
        sum->cut[i] += cut[i] / one;
        sum->n_cut += cut[i] / one;
    }
    return true;
}

static uint32_t weight_of(double samples)
{
    double w = samples * WEIGHT_ONE;
    return w <= 0 ? 0 : w < UINT32_MAX / 2 ? (uint32_t)(w + 0.5) : UINT32_MAX / 2;
}

void sketch_load(struct sketch *s, const struct sketch_sum *sum, uint64_t now_us)
{
    sketch_init(s, s->half_us, s->half_n);
    atomic_store_explicit(&s->at_us, now_us, memory_order_relaxed);
    for (unsigned i = 0; i < SKETCH_BUCKETS; i++) {
        set32(&s->answered[i], weight_of(sum->answered[i]));
        set32(&s->cut[i], weight_of(sum->cut[i]));
    }
}

/* ---- survival ---- */

void survival_of(const struct sketch_sum *sum, struct survival *out)
{
    double out_still = sum->n_answered + sum->n_cut, share = 1;
    out->end = 0;
    for (unsigned i = 0; i < SKETCH_BUCKETS; i++) {
        if (sum->answered[i] > 0) {
            double gone = out_still > 0 ? sum->answered[i] / out_still : 1;
            share *= gone < 1 ? 1 - gone : 0;
        }
        out_still -= sum->answered[i] + sum->cut[i];
        if (sum->answered[i] > 0 || sum->cut[i] > 0)
            out->end = i + 1;
        out->after[i] = share;
    }
}

double survival_at(const struct survival *s, uint64_t us)
{
    if (s->end == 0)
        return 1;
    unsigned i = sketch_bucket(us);
    return s->after[i < s->end ? i : s->end - 1];
}

double survival_end(const struct survival *s)
{
    return s->end > 0 ? s->after[s->end - 1] : 1;
}

uint64_t survival_quantile(const struct survival *s, double q)
{
    unsigned lo = 0, hi = s->end; /* the curve only falls */
    while (lo < hi) {
        unsigned middle = (lo + hi) / 2;
        if (s->after[middle] <= 1 - q + 1e-12)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo < s->end ? sketch_time(lo) : 0;
}

#include "lab/bootstrap.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One phase's weights: how often each of its items was drawn. */
struct draw {
    const struct dist *d;
    uint32_t *weights;
};

static void by_request(struct draw *w, struct rng *rng)
{
    memset(w->weights, 0, w->d->n * sizeof *w->weights);
    for (size_t i = 0; i < w->d->n; i++)
        w->weights[rng_below(rng, w->d->n)]++;
}

static void by_round(struct draw *w, const uint32_t *times)
{
    for (size_t i = 0; i < w->d->n; i++)
        w->weights[i] = times[w->d->v[i].round];
}

static void draw_rounds(uint32_t *times, uint32_t n, struct rng *rng)
{
    memset(times, 0, n * sizeof *times);
    for (uint32_t i = 0; i < n; i++)
        times[rng_below(rng, n)]++;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Fills v with the differences of BOOTSTRAP_DRAWS draws; returns how many could be told. */
static size_t differences(struct draw *a, struct draw *b, double p, uint64_t seed, double *v)
{
    uint32_t n_rounds = a->d->n_rounds > b->d->n_rounds ? a->d->n_rounds : b->d->n_rounds;
    uint32_t *times = mem_alloc(n_rounds * sizeof *times);
    struct rng rng = {seed};
    size_t n = 0;
    for (int i = 0; i < BOOTSTRAP_DRAWS; i++) {
        if (n_rounds >= BOOTSTRAP_ROUNDS_MIN) {
            draw_rounds(times, n_rounds, &rng);
            by_round(a, times);
            by_round(b, times);
        } else {
            by_request(a, &rng);
            by_request(b, &rng);
        }
        double one = dist_weighted_ms(a->d, a->weights, p) - dist_weighted_ms(b->d, b->weights, p);
        if (!isnan(one))
            v[n++] = one;
    }
    mem_free(times);
    return n;
}

/* What 95 of 100 draws lie within. */
static void bounds(double *v, size_t n, struct interval *out)
{
    qsort(v, n, sizeof *v, by_value);
    out->low = v[(size_t)((double)(n - 1) * 0.025)];
    out->high = v[(size_t)ceil((double)(n - 1) * 0.975)];
}

struct interval bootstrap_difference(const struct dist *a, const struct dist *b, double p, double less_ms,
                                     uint64_t seed)
{
    if (a->n == 0 || b->n == 0)
        return (struct interval){NAN, NAN, NAN};
    double *v = mem_alloc(BOOTSTRAP_DRAWS * sizeof *v);
    struct draw da = {a, mem_alloc(a->n * sizeof(uint32_t))}, db = {b, mem_alloc(b->n * sizeof(uint32_t))};
    struct interval out = {dist_percentile_ms(a, p) - dist_percentile_ms(b, p) - less_ms, NAN, NAN};
    size_t n = differences(&da, &db, p, seed, v);
    if (n > 0) {
        bounds(v, n, &out);
        out.low -= less_ms;
        out.high -= less_ms;
    }
    mem_free(da.weights);
    mem_free(db.weights);
    mem_free(v);
    return out;
}

static double share(const struct bootstrap_money *v, const uint32_t *times, uint32_t n, struct bootstrap_money sum)
{
    for (uint32_t i = 0; i < n; i++) {
        sum.part += times[i] * v[i].part;
        sum.whole += times[i] * v[i].whole;
    }
    return sum.whole > 0 ? 100.0 * (double)sum.part / (double)sum.whole : NAN;
}

struct interval bootstrap_share(const struct bootstrap_money *v, uint32_t n_rounds, struct bootstrap_money fixed,
                                uint64_t seed)
{
    uint32_t *times = mem_alloc((n_rounds + 1) * sizeof *times);
    double *drawn = mem_alloc(BOOTSTRAP_DRAWS * sizeof *drawn);
    struct rng rng = {seed};
    size_t n = 0;
    for (uint32_t i = 0; i < n_rounds; i++)
        times[i] = 1;
    struct interval out = {share(v, times, n_rounds, fixed), NAN, NAN};
    for (int i = 0; i < BOOTSTRAP_DRAWS && n_rounds >= BOOTSTRAP_ROUNDS_MIN; i++) {
        draw_rounds(times, n_rounds, &rng);
        double one = share(v, times, n_rounds, fixed);
        if (!isnan(one))
            drawn[n++] = one;
    }
    if (n > 0)
        bounds(drawn, n, &out);
    mem_free(times);
    mem_free(drawn);
    return out;
}

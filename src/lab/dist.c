#include "lab/dist.h"

#include "base/check.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

void dist_put(struct dist *d, int64_t us, uint32_t round)
{
    if (d->n == d->cap) {
        d->cap = d->cap == 0 ? 256 : 2 * d->cap;
        d->v = mem_realloc(d->v, d->cap * sizeof *d->v);
    }
    d->v[d->n++] = (struct dist_item){us, round};
    if (round + 1 > d->n_rounds)
        d->n_rounds = round + 1;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = ((const struct dist_item *)a)->us, y = ((const struct dist_item *)b)->us;
    return x < y ? -1 : x > y;
}

void dist_sort(struct dist *d)
{
    if (d->n > 1)
        qsort(d->v, d->n, sizeof *d->v, by_value);
}

void dist_fini(struct dist *d)
{
    mem_free(d->v);
    *d = (struct dist){0};
}

static double between(int64_t low_us, int64_t high_us, double part)
{
    return ((double)low_us + (double)(high_us - low_us) * part) / 1000;
}

double dist_percentile_ms(const struct dist *d, double p)
{
    RM_ASSERT(p >= 0 && p <= 100);
    if (d->n == 0)
        return NAN;
    double h = (double)(d->n - 1) * p / 100;
    size_t low = (size_t)h, high = low + 1 < d->n ? low + 1 : low;
    return between(d->v[low].us, d->v[high].us, h - (double)low);
}

double dist_weighted_ms(const struct dist *d, const uint32_t *weights, double p)
{
    uint64_t n = 0, seen = 0;
    for (size_t i = 0; i < d->n; i++)
        n += weights[i];
    if (n == 0)
        return NAN;
    double h = (double)(n - 1) * p / 100;
    uint64_t low = (uint64_t)h, high = low + 1 < n ? low + 1 : low;
    int64_t low_us = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (seen <= low && low < seen + weights[i])
            low_us = d->v[i].us;
        if (seen <= high && high < seen + weights[i])
            return between(low_us, d->v[i].us, h - (double)low);
        seen += weights[i];
    }
    RM_UNREACHABLE();
}

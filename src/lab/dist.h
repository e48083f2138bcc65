/* What was measured of one figure in one phase, round by round, and its percentiles.
 *
 * The percentile p of n sorted values is read at the place h = (n - 1) p / 100, counted from 0; between two places the
 * value is interpolated linearly (R's type 7, numpy's default). It is always taken over the values themselves: a mean
 * of percentiles is none. Pure. */
#ifndef RM_LAB_DIST_H
#define RM_LAB_DIST_H

#include <stddef.h>
#include <stdint.h>

struct dist_item {
    int64_t us;
    uint32_t round; /* from 0 */
};
/* The zero value is empty. */
struct dist {
    struct dist_item *v;
    size_t n, cap;
    uint32_t n_rounds; /* largest round + 1 */
};

void dist_put(struct dist *d, int64_t us, uint32_t round);
/* Before anything is read. */
void dist_sort(struct dist *d);
void dist_fini(struct dist *d);

/* Milliseconds; NAN when there is no value. p from 0 to 100. */
double dist_percentile_ms(const struct dist *d, double p);
/* The same where item i stands weights[i] times. */
double dist_weighted_ms(const struct dist *d, const uint32_t *weights, double p);

#endif

/* Of all calls a share h never answers; of the others F(t) take longer than t. With a budget B and a later link that
 * takes m, a call waits
 *
 *     W(B) = integral of (h + (1 - h) F(t)) from 0 to B   its own attempt, until it answers or is cut
 *          + (h + (1 - h) F(B)) m                          and the next one's
 *
 * and costs (h + (1 - h) F(B)) of a cut attempt in waste. The curve that was measured is a mixture of both already:
 * what it ends at is taken for h, and F is the rest, stretched to begin at 1. */
#include "plan/tradeoff.h"

#include "base/check.h"

#include <math.h>

/* Where a bucket begins: halfway to the one before it. */
static double begin_of(unsigned bucket)
{
    return bucket == 0 ? 0 : ((double)sketch_time(bucket - 1) + (double)sketch_time(bucket)) / 2;
}

/* F after a bucket; before the first one it is 1. */
static double slower_after(const struct survival *s, int bucket)
{
    double end = survival_end(s);
    if (end >= 1 || bucket >= (int)s->end)
        return 0;
    return bucket < 0 ? 1 : (s->after[bucket] - end) / (1 - end);
}

/* F(t), a straight line within a bucket. */
static double slower(const struct survival *s, uint64_t us)
{
    int i = (int)sketch_bucket(us);
    double from = begin_of((unsigned)i), to = begin_of((unsigned)i + 1), at = ((double)us - from) / (to - from);
    double before = slower_after(s, i - 1), after = slower_after(s, i);
    return before + (after - before) * (at < 0 ? 0 : at > 1 ? 1 : at);
}

static double hung(const struct tradeoff_ask *a)
{
    return a->hung_share >= 0 ? a->hung_share : survival_end(a->survival);
}

/* Integral of the share still out, from 0 to budget_us: trapezoids by bucket. */
static double waited(const struct tradeoff_ask *a, uint64_t budget_us)
{
    double h = hung(a), sum = 0, from = 0, before = 1;
    for (unsigned i = 0; from < (double)budget_us; i++) {
        double to = i + 1 < SKETCH_BUCKETS ? begin_of(i + 1) : (double)budget_us;
        bool is_last = to >= (double)budget_us;
        double after = is_last ? slower(a->survival, budget_us) : slower_after(a->survival, (int)i);
        to = is_last ? (double)budget_us : to;
        sum += (h + (1 - h) * (before + after) / 2) * (to - from);
        from = to;
        before = after;
    }
    return sum;
}

struct tradeoff_point tradeoff_at(const struct tradeoff_ask *a, uint64_t budget_us)
{
    double h = hung(a);
    struct tradeoff_point p = {.budget_us = budget_us, .false_share = slower(a->survival, budget_us)};
    p.cut_share = h + (1 - h) * p.false_share;
    p.wait_us = waited(a, budget_us) + p.cut_share * (double)a->next_us;
    p.waste_usd = p.cut_share * a->cut_usd;
    p.total_usd = p.waste_usd + p.wait_us / 1e6 * a->second_usd;
    return p;
}

void tradeoff_of(const struct tradeoff_ask *ask, struct tradeoff *out)
{
    RM_ASSERT(ask->from_us > 0 && ask->from_us < ask->to_us);
    double ratio = pow((double)ask->to_us / (double)ask->from_us, 1.0 / (TRADEOFF_POINTS - 1));
    *out = (struct tradeoff){.hung_share = hung(ask)};
    for (unsigned i = 0; i < TRADEOFF_POINTS; i++) {
        uint64_t us = i + 1 < TRADEOFF_POINTS ? (uint64_t)((double)ask->from_us * pow(ratio, i) + 0.5) : ask->to_us;
        out->points[i] = tradeoff_at(ask, us);
        if (out->points[i].total_usd < out->points[out->cheapest].total_usd)
            out->cheapest = i;
    }
}

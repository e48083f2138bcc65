/* What a target does with an attempt, as far as the past tells it:
 *
 * - the request asked this target then too: exactly what happened;
 * - else the target's own attempt or keepalive just before or just after (the nearer, the likelier) says whether it was
 * well then: an outage stays one. A failure that stands alone reaches 5 seconds; farther from any attempt such failures
 * come as often as they did. Where the target was well, one of its attempts of about then is drawn, outcome and times
 * together: from the smallest of these spans that holds eight: 10 seconds, a minute, a quarter of an hour, an hour
 * around, all; of the same prompt size where there is one. The answer is as long as this request's own was;
 * - an attempt that we cut goes on beyond the cut: as an attempt that was seen to take longer, drawn from such spans;
 *   where its neighbour failed or was cut too, it never answers; where nothing longer was ever seen, by the tail of a
 *   lognormal distribution through the target's median and 90th percentile, and as often as that tail explains the
 *   cuts: the others hang.
 *
 * What of a prompt was read from a provider's cache, and what was written to it, follows from what went there before
 * (sim/larder.h), played twice: in the past as it was, and now. An attempt that is on record keeps its recorded tokens,
 * changed by as much as the two differ; so what the larder does not know stays as it was. Prompts of which the record
 * does not say enough keep the shares that were cached. */
#ifndef RM_SIM_DRAW_H
#define RM_SIM_DRAW_H

#include "base/rng.h"
#include "sim/past.h"
#include "sim/stage.h"

struct drawer;

/* Where an attempt's behaviour came from. */
struct draw_counts {
    int64_t n_recorded; /* exactly as it was */
    int64_t n_drawn;
    int64_t n_beyond;  /* of both: went on beyond a cut, as one that was seen to */
    int64_t n_guessed; /* of both: beyond all that was seen */
    int64_t n_unknown; /* of a target without a past: not put to it */
};

/* The past must be sealed, and outlives it, as the route does: it says which of the targets are asked for a cache. */
struct drawer *drawer_new(const struct past *p, const struct route_conf *route, uint64_t seed);
void drawer_free(struct drawer *d);
/* For stage_host; arg is the drawer. Requests of the stage are those of the past, by number. */
void drawer_play(void *drawer, const struct part_ask *ask, struct part *out);
void drawer_begun(void *drawer, const struct part_ask *ask);
const struct draw_counts *drawer_counts(const struct drawer *d);

#endif

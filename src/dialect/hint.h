/* When a provider says it may be asked again. */
#ifndef RM_DIALECT_HINT_H
#define RM_DIALECT_HINT_H

#include "base/fields.h"
#include "dialect/complaint.h"

/* Milliseconds from now by the first form that parses (failover semantics 3 "Retry hint"), at least 0; -1 = none.
 * fields may be NULL. wall_ms 0 = not known: dates then count only against a Date header. reads_limits: also read the
 * reset of exhausted x-ratelimit dimensions. Not clamped. */
int64_t hint_read(const struct fields *fields, const struct complaint *c, int64_t wall_ms, bool reads_limits);
/* A retry hint stands in the headers themselves. */
bool hint_is_in_fields(const struct fields *fields);
/* A rate-limit dimension of the headers has nothing left. */
bool hint_is_exhausted(const struct fields *fields);
/* "1m2.5s", "20ms", "3 seconds", "6m0s", "27.3" (seconds) at the start of the text -> ms. */
bool hint_duration(struct bytes text, int64_t *ms);

#endif

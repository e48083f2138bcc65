/* What an attempt consumed and cost, when it is over (DESIGN 3.12, failover semantics 5). */
#ifndef RM_RELAY_METER_H
#define RM_RELAY_METER_H

#include "model/call.h"
#include "model/failure.h"
#include "plan/ratio.h"
#include "relay/attempt.h"

/* Fills tokens, tokens_from, price and cost of the attempt's record; outcome and is_served must be set. `failure`: NULL
 * = none. `ratios`: what estimates go by, and what learns from a report; NULL = four bytes a token. */
void meter_close(struct attempt *a, const struct call *call, const struct failure *failure, struct ratio_core *ratios);
/* The request's sums, from its attempts. */
void meter_sum(struct request_record *rec);

#endif

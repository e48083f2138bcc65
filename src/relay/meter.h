/* What an attempt consumed and cost, when it is over (DESIGN 3.12, failover semantics 5). */
#ifndef RM_RELAY_METER_H
#define RM_RELAY_METER_H

#include "model/call.h"
#include "model/failure.h"
#include "relay/attempt.h"

/* Fills tokens, tokens_from, price and cost of the attempt's record; outcome and is_served must be set. `failure`: NULL
 * = none. */
void meter_close(struct attempt *a, const struct call *call, const struct failure *failure);
/* The request's sums, from its attempts. */
void meter_sum(struct request_record *rec);

#endif

/* What an attempt consumed and cost, when it is over (DESIGN 3.12, failover semantics 5). */
#ifndef RM_RELAY_METER_H
#define RM_RELAY_METER_H

#include "model/call.h"
#include "model/failure.h"
#include "plan/ratio.h"
#include "relay/attempt.h"

/* The attempt begins, at wall_ms: notes the class of service that is asked for. The link's `set` goes before the
 * client's wish, which gets there only in its own dialect, where nothing drops it. */
void meter_open(struct attempt *a, const struct call *call, bool is_same_dialect, int64_t wall_ms);
/* The answer told its class of service, in the provider's word; it goes before the wish. */
void meter_hear(struct attempt *a, struct bytes service);
/* Fills tokens, tokens_from, service, price and cost of the attempt's record; outcome and is_served must be set.
 * `failure`: NULL = none. `ratios`: what estimates go by, and what learns from a report (not of a keepalive); NULL =
 * four bytes a token. */
void meter_close(struct attempt *a, const struct call *call, const struct failure *failure, struct ratio_core *ratios);
/* What the attempt would cost had we cut it before its first token. NUSD_UNKNOWN = not known. */
int64_t meter_cut_nusd(const struct attempt *a, const struct call *call, const struct ratio_core *ratios);
/* What is to be told of how it was billed and priced, for the decision; false = nothing. */
enum { METER_WORDS = 128 };
bool meter_words(const struct attempt_record *rec, char out[METER_WORDS]);
/* The request's sums, from its attempts. */
void meter_sum(struct request_record *rec);

#endif

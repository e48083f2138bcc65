/* What hedges bought: the slow end of the first tokens as users had it, against what the attempts that were hedged
 * would have given them, and what the losers cost. */
#ifndef RM_LEDGER_HEDGING_H
#define RM_LEDGER_HEDGING_H

#include "ledger/reader.h"

struct hedging {
    int64_t n_started, n_won;
    int64_t cost_nusd; /* of the attempts that lost, as far as known */
    int64_t n_unpriced;
    int64_t p99_us, p99_without_us; /* to the first token, on the routes that hedged; -1 = nothing was answered */
    bool is_at_least;               /* p99_without_us is the least that it can have been */
};

/* since_id: the smallest request id that counts. */
enum err hedging_read(struct ledger_reader *r, uint64_t since_id, struct hedging *out) RM_MUST_USE;
/* "hedges  37 started, 12 won: …", without a line end. Appends nothing when there were none. */
void hedging_text(const struct hedging *h, struct buf *out);

#endif

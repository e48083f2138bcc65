/* What the ledger says of a route's targets: how often attempts fail, how many of those are billed, how large calls
 * are. What `ringmain price --from-ledger` computes with. */
#ifndef RM_LEDGER_RATES_H
#define RM_LEDGER_RATES_H

#include "ledger/reader.h"

/* Attempts for clients that were started, of one provider and model. Failed: by the provider's fault, so that another
 * link is tried. Client errors and cancelled calls are neither failed nor answered. */
struct target_rate {
    const char *provider, *model;
    int64_t n_attempts;
    int64_t n_failed;
    int64_t n_billed;      /* of them, those that cost something: the provider had begun to work */
    int64_t billed_us;     /* time that these took, together */
    int64_t billed_output; /* tokens that these had generated, together */
};
struct route_rates {
    struct target_rate *targets; /* most attempts first */
    size_t n;
    int64_t n_answered;    /* attempts that ended well */
    struct usage answered; /* their tokens, together */
};

enum { RATES_TARGETS_MAX = 512 };

/* `route`: as the client asked. since_ms: wall clock, 0 = from the beginning. */
enum err rates_read(struct ledger_reader *r, const char *route, int64_t since_ms, struct arena *arena,
                    struct route_rates *out) RM_MUST_USE;

#endif

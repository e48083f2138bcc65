/* What follows from a provider's failure: for the request, and for the target's health. The only place that says so.
 * Pure. */
#ifndef RM_PLAN_VERDICT_H
#define RM_PLAN_VERDICT_H

#include "config/config.h"
#include "model/failure.h"

enum step {
    STEP_RETURN, /* the failure is the answer */
    STEP_NEXT,   /* the next link */
    STEP_RETRY,  /* the same link again after a short pause */
    STEP_WAIT,   /* the same link again when the provider's hint is over */
    STEP_REPAIR  /* the same link at once, without what it does not know */
};
enum effect { EFFECT_NEUTRAL, EFFECT_COUNTS, EFFECT_HINT, EFFECT_QUOTA, EFFECT_AUTH, EFFECT_NOT_FOUND };

struct verdict_ask {
    const struct failure *failure;
    const struct route_conf *route;
    bool is_later;      /* an earlier link failed for its own reasons */
    bool may_again;     /* one more attempt is within max_attempts */
    bool may_retry;     /* and a retry is left on this link, and a pause fits the budget */
    bool may_wait;      /* this link was not yet waited for */
    uint8_t quirks;     /* the attempt was written with these */
    uint64_t left_us;   /* to the request's deadline */
    int64_t head_us;    /* from the attempt's start to its response head; -1 = none came */
    uint64_t budget_us; /* of the link */
};
struct verdict {
    enum step step;
    enum effect effect;
    bool is_alarm;
    bool is_larger_only; /* NEXT: only to a link whose window is known to be larger */
    bool is_own_fault;   /* the link failed for its own reasons: a later 400 does not end the chain */
};

struct verdict verdict_of(const struct verdict_ask *ask);
/* The HTTP status that tells this failure when it is the answer: 502, 504, 503, 429, 404, the client's own 4xx. */
unsigned verdict_status(const struct failure *f);
/* Nobody can do anything about it soon: auth, not found, quota. */
bool verdict_is_hopeless(const struct failure *f);

#endif

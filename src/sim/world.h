/* The seeded world: a virtual clock, providers that fail by script, clients that leave, and the real relay and plan
 * between them. One seed is one replayable story. Pure: no clock, no I/O, nothing depends on addresses. */
#ifndef RM_SIM_WORLD_H
#define RM_SIM_WORLD_H

#include "base/buf.h"

/* Faults put between the engine and its judge, to prove that the laws see them. */
enum sabotage {
    SABOTAGE_NONE,
    SABOTAGE_GIVE_UP_EARLY, /* the first failover becomes an answer */
    SABOTAGE_FORGET_LINK,   /* a link is passed over without a word */
    SABOTAGE_DOUBLE_COMMIT, /* the gate opens twice */
    SABOTAGE_EARLY_COMMIT,  /* the gate opens at the head */
    SABOTAGE_NO_CANCEL,     /* a cut attempt is left running */
    SABOTAGE_DOUBLE_RECORD, /* a request is recorded twice */
    SABOTAGE_LOSE_RECORD,   /* or never */
    SABOTAGE_RETRY_TIMEOUT, /* a timeout is tried on the same link again */
    SABOTAGE_LATE_CUT,      /* timers come 1 us late */
    SABOTAGE_NO_TIME,       /* timers never come */
    SABOTAGE_IGNORE_HEALTH, /* open targets are asked */
    SABOTAGE_WRONG_SUM,     /* the request's cost is not the sum */
    SABOTAGE_HIDE_WASTE,    /* a lost attempt's waste is 0 */
    SABOTAGE_ANSWER_AFTER,  /* an answer after the commit */
    SABOTAGE_JOIN_EARLY,    /* a resuming attempt is shown before it met what was told */
    SABOTAGE_WRONG_ERROR,   /* the client is told what somebody said who was to go on */
    SABOTAGE_NO_RESUME,     /* an answer that broke off is given up */
    SABOTAGE_TWO_WINNERS,   /* the attempt that lost to its hedge goes on */
    SABOTAGE_EARLY_HEDGE,   /* a hedge starts before it is due */
    SABOTAGE_WRONG_RULE,    /* output is billed of a cut attempt whose provider bills none */
    SABOTAGE_N
};
const char *sabotage_name(enum sabotage s);

struct world_conf {
    uint64_t seed;
    enum sabotage sabotage;
    struct buf *story; /* one line a step; NULL = not told */
};
struct world_result {
    uint64_t hash; /* of all that happened */
    unsigned n_requests, n_ok, n_failed, n_cancelled, n_attempts;
    unsigned n_retries, n_repairs, n_waits, n_trials, n_overtimes, n_skips, n_in_stream, n_joins,
        n_hedges; /* what the story touched */
    /* Money, of requests whose attempts are all priced: summed over requests, and over their attempts. */
    int64_t requests_nusd, requests_waste_nusd, attempts_nusd, attempts_waste_nusd;
    char broken[200]; /* the first law that was broken; "" = none */
};

void world_run(const struct world_conf *conf, struct world_result *out);

#endif

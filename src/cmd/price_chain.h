/* What `ringmain price` computes for a route, between reading and printing. */
#ifndef RM_CMD_PRICE_CHAIN_H
#define RM_CMD_PRICE_CHAIN_H

#include "config/config.h"
#include "price/chain.h"

#include <getopt.h>

enum { PATTERNS_MAX = 16 };

struct chain_options {
    const char *config, *route, *since; /* since: of --from-ledger; NULL = assumed */
    const char *failures;               /* the text of --failure-rate */
    uint32_t hang_ppm, waste_ppm, tight_ppm;
    int64_t prefix; /* tokens; 0 = no cache rows */
    struct usage call;
    bool has_waste; /* waste_ppm was asked for: it counts whatever a provider's rule is */
    bool is_json;
};

/* One way to serve 1,000 calls. */
struct pattern {
    const char *name;
    int64_t bill_nusd;
    int64_t gross_nusd; /* NUSD_UNKNOWN = does not apply, or unknown */
    int64_t base_nusd;  /* what net is against */
};

struct chain_report {
    const struct route_conf *route;
    struct chain_ask ask;
    bool is_measured[CHAIN_LINKS_MAX]; /* the link's rates come from the ledger */
    int64_t n_attempts[CHAIN_LINKS_MAX];
    int64_t wait_us[CHAIN_LINKS_MAX]; /* how long a hung attempt keeps the client waiting */
    int64_t n_answered;               /* calls whose size was measured; 0 = the size is assumed */
    struct chain_bill steady;
    int64_t added_wait_us; /* a call waits longer for hung attempts, on average */
    struct pattern patterns[PATTERNS_MAX];
    size_t n_patterns;
};

/* Everything that follows from ask, wait_us and the options. */
void chain_report_compute(struct chain_report *r, const struct chain_options *o);
void chain_report_print(const struct chain_report *r, const struct chain_options *o);

#endif

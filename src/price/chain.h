/* What resilience costs: the bill of a chain of links for calls of one size, under each pattern of calling them. Pure,
 * and in integers throughout.
 *
 * Shares are parts per million. A share of a share of a call must not be rounded away, so calls are counted out of
 * 10^12: the parts of a chain add up to that exactly, whatever the shares. Money is nano-dollars per 1,000 calls, each
 * figure rounded half-up once. */
#ifndef RM_PRICE_CHAIN_H
#define RM_PRICE_CHAIN_H

#include "price/abort.h"
#include "price/price.h"

#include <stddef.h>

enum { CHAIN_LINKS_MAX = 64, PPM = 1000000 };
#define CHAIN_CALLS INT64_C(1000000000000) /* what `reached`, `fast`, `hung` and `served` are out of */

struct chain_link {
    const struct price *price; /* NULL = unknown */
    uint32_t fail_ppm;         /* of its attempts that fail */
    uint32_t hang_ppm;         /* of those, that hang until they are cut; the others fail at once, free */
    enum abort_rule cut;       /* what is billed of one that is cut */
};

struct chain_ask {
    struct chain_link links[CHAIN_LINKS_MAX];
    size_t n;           /* 1 to CHAIN_LINKS_MAX */
    struct usage call;  /* of a call that is served; -1 counts 0 */
    uint32_t waste_ppm; /* of its output, that a hung attempt has generated when it is cut */
};

/* What happens at one link, out of CHAIN_CALLS calls; reached = fast + hung + served. */
struct chain_step {
    int64_t reached, fast, hung, served;
    int64_t cost_nusd;  /* of its attempts, the hung ones too */
    int64_t waste_nusd; /* of the hung ones */
};

/* Nano-dollars per 1,000 calls; NUSD_UNKNOWN where a price that is needed is not known. */
struct chain_bill {
    struct chain_step steps[CHAIN_LINKS_MAX];
    int64_t cost_nusd;  /* the sum */
    int64_t waste_nusd; /* gross: what the failed attempts cost; part of cost_nusd */
    int64_t unanswered; /* out of CHAIN_CALLS: no link served them */
};

/* One attempt at a time, in order; failures of different links are independent. */
void chain_sequential(const struct chain_ask *ask, struct chain_bill *out);
/* Both of the first two links at once, for every call (one link: the same as alone). `cancels`: when the first link
 * answers, the second is cancelled in time to have generated nothing; else both run to their end. When the first
 * link fails the second serves. Nano-dollars per 1,000 calls. */
int64_t chain_hedged(const struct chain_ask *ask, bool cancels);
/* 1,000 calls that one link serves. */
int64_t chain_alone(const struct price *p, const struct usage *call);
/* 1,000 attempts that are cut with waste_ppm of their output generated. */
int64_t chain_cut(const struct price *p, const struct usage *call, uint32_t waste_ppm);
/* The share of an amount, rounded half away from zero once; NUSD_UNKNOWN stays. */
int64_t chain_share(int64_t nusd, uint32_t ppm);

#endif

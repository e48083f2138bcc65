/* What a member of a catalogue's entry means, by its name: <base>[_above_<N>k_tokens][_<service>]. Pure. */
#ifndef RM_PRICE_LITELLM_MEMBER_H
#define RM_PRICE_LITELLM_MEMBER_H

#include "base/bytes.h"

enum rate_kind { RATE_INPUT, RATE_OUTPUT, RATE_READ, RATE_WRITE_5M, RATE_WRITE_1H, RATE_REASONING, RATE_N };
enum service { SERVICE_STANDARD, SERVICE_FLEX, SERVICE_PRIORITY, SERVICE_BATCHES, SERVICE_N };
enum member_sort {
    MEMBER_RATE,        /* kind, service and above are set */
    MEMBER_REQUEST,     /* USD a request */
    MEMBER_TIERED,      /* tiered_pricing */
    MEMBER_OFF_PEAK,    /* off_peak_pricing */
    MEMBER_MULTIPLIERS, /* provider_specific_entry */
    MEMBER_UPLIFT,      /* a multiplier of one region: `region` */
    MEMBER_UNUSED,      /* a price of something that text tokens are not billed by */
    MEMBER_PLAIN,       /* no price */
    MEMBER_STRANGE,     /* not known */
};

struct member {
    enum member_sort sort;
    enum rate_kind kind;
    enum service service;
    int64_t above;       /* tokens; 0 = the base rate */
    struct bytes region; /* of MEMBER_UPLIFT; n 0 = not said */
};

struct member member_of(struct bytes name);
/* The base rate of that very name; false = none. For tiers, whose rates take no suffix. */
bool member_is_rate(struct bytes name, enum rate_kind *kind);
const char *service_word(enum service s); /* "" = standard */

#endif

/* What is remembered of a prompt so that it can be played again under other rules (docs/what-if.md): sizes, hashes and
 * needs, nothing of its text. */
#ifndef RM_MODEL_PROMPT_H
#define RM_MODEL_PROMPT_H

#include "model/call.h"

/* What the answer must come from, as bits: kept in ledgers. */
enum {
    NEED_TOOLS = 1,
    NEED_VISION = 2,
    NEED_JSON_SCHEMA = 4,
    NEED_AUDIO = 8,
    NEED_WHOLE = 16,
    NEED_PREFILL = 32,
    NEED_STATE = 64,
    NEED_CHOICES = 128,    /* more than one */
    NEED_HEAD_CACHED = 256 /* a marker stands before the first of the user's messages */
};

struct prompt_record {
    bool is_known; /* false: of a ledger that did not keep it yet */
    unsigned needs;
    uint64_t talk_hash, head_hash, cache_hash; /* as in struct call; 0 = none */
    int64_t head_bytes;                        /* text before the first of the user's messages */
    int64_t cache_bytes;                       /* text up to the last place where a cache was asked for; 0 = none was */
    int64_t cache_ttl_s;                       /* of that cache; 0 = none was asked for */
    uint64_t affinity_key; /* whose conversation, where prompt_cache_key or x-session-id said so; 0 = they did not */
    const char *routing;   /* x-routing as it came; "" = none */
};

/* ttl_s: of the cache that the request asks for, 0 = none. affinity_key: of whatever origin. */
struct prompt_record prompt_of_call(const struct call *c, int64_t ttl_s, uint64_t affinity_key);
/* The call's members that are on record. Markers are not the call's any more: whether it has some is in ttl_s. */
void prompt_to_call(const struct prompt_record *p, struct call *c);

#endif

/* Requests of one route, played through the real engine on a virtual clock, in the order of their arrival and as many
 * at once as were. Who plays the providers is handed in: the past (sim/replay.h), or providers that are known.
 *
 * Health, latency history, bytes a token, hedge caps and what is known of prompts that come again are the engine's own,
 * shared by all requests, and begin empty. Pure: no clock, no I/O; equal under an equal seed. */
#ifndef RM_SIM_STAGE_H
#define RM_SIM_STAGE_H

#include "relay/relay.h"

/* What a provider does with one attempt. Times are microseconds from its start; -1 = does not happen. */
struct part {
    bool is_unable;     /* the request cannot be put to this link at all: everything else counts nothing */
    bool is_reused;     /* a warm connection: connect_us is 0 */
    bool is_unsent;     /* it failed before anything was written */
    int64_t connect_us; /* -1 = never: the link's connect timeout cuts it */
    int64_t head_us, token_us;
    int64_t quiet_us; /* nothing comes from here on, until end_us */
    int64_t end_us;   /* -1 = it hangs */
    uint16_t status;  /* of the head */
    bool has_failed;  /* at its end; else it ends well */
    struct failure failure;
    struct usage usage;  /* told at the end; USAGE_NONE = not at all */
    const char *service; /* its class, told with it; NULL or "" = not at all */
    uint32_t text_bytes; /* of the whole answer, for estimates of what is cut */
};

struct part_ask {
    size_t request;
    const struct link_conf *link;
    unsigned nth; /* attempt of this request at this target, from 0 */
    uint64_t now_us;
    uint8_t quirks;       /* that the engine respects here */
    enum cache_mark mark; /* is the prompt cache asked for */
};
struct stage_host {
    void (*play)(void *arg, const struct part_ask *ask, struct part *out);
    /* Its first token came, at ask->now_us. NULL = nobody asks. */
    void (*begun)(void *arg, const struct part_ask *ask);
    void *arg;
};

struct stage_request {
    uint64_t at_us;        /* of the virtual clock, > 0 */
    struct call call;      /* without cache markers and cache_key: the next two stand for them */
    uint32_t cache_ttl_s;  /* of the cache that it asks for, by marker or hint; 0 = none */
    uint64_t affinity_key; /* of its conversation; 0 = nothing to go by */
    const char *routing;   /* its x-routing; NULL or "" = none. One that the route does not allow is not obeyed */
    const char *dialect;   /* of the client */
    int64_t leave_us;      /* the client leaves so long after its arrival; -1 = it stays */
    uint64_t id;           /* for the record */
    int64_t wall_ms;       /* for the record */
};

/* Requests one after the other, by rising time. False = there are no more. */
struct stage_source {
    bool (*next)(void *arg, struct stage_request *out);
    void *arg;
};
/* Each request as it ends: in the order of the ends, not of the arrivals. The record lives as long as the call. */
struct stage_sink {
    void (*take)(void *arg, size_t request, const struct request_record *rec);
    void *arg;
};

struct stage_conf {
    struct config *config; /* bound to a registry of the stage's own: plan_bind writes ids into it */
    const struct route_conf *route;
    struct stage_source source;
    struct stage_host host;
    struct stage_sink sink;
    uint64_t seed; /* of the engine's own chance: pauses and cooldowns */
};

/* ERR_LIMIT: more targets than a registry holds. */
enum err stage_run(const struct stage_conf *conf) RM_MUST_USE;

#endif

/* What a flight does about prompt caches: it asks plan/cache and plan/affinity at the right moments, and keeps what was
 * decided until the record is written. It decides nothing. */
#ifndef RM_SERVE_CACHING_H
#define RM_SERVE_CACHING_H

#include "front/front.h"
#include "plan/cache.h"
#include "relay/relay.h"

struct caching_try;

struct caching { /* of one flight; zero before caching_begin */
    struct cache_memory *memory;
    struct arena *arena;      /* the flight's */
    const struct call *facts; /* the flight's, without cache_key */
    const struct route_conf *route;
    int64_t ttl_s;           /* of the cache that is asked for; 0 = none is */
    struct bytes key;        /* a prompt_cache_key of ours for targets that take one; "" = none */
    char words[CACHE_WORDS]; /* why another link than the first is asked first; "" = it is not */
    struct caching_try *tries;
};

struct caching_start {
    struct cache_memory *memory;
    struct registry *registry;
    const struct client_call *call;
    const struct call *facts; /* outlive the flight */
    struct arena *arena;
    uint64_t now_us;
};
/* The request arrived: notes it, and puts the order in which its links are asked into *d where it is another than the
 * route's. */
void caching_begin(struct caching *c, const struct caching_start *s, struct directive *d);
/* Attempt n starts on `link`: fills the profile's cache members. `trail`: so far. */
void caching_profile(struct caching *c, const struct link_conf *link, uint16_t n, const struct request_record *trail,
                     struct registry *registry, uint64_t now_us, struct profile *p);
/* Attempt n is committed. */
void caching_commit(struct caching *c, uint16_t n, uint64_t now_us);
/* The request is over: what its attempts taught, and the words of what was decided go to the trail. */
void caching_end(struct caching *c, struct relay *r, uint64_t now_us);

#endif

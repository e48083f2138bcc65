/* What is done about prompt caches while one request lives: plan/cache and plan/affinity are asked at the right
 * moments, and what was decided is kept until the record is written. It decides nothing. Serving drives it, and so does
 * a replay of the past (sim/stage.c): one rule for both. Pure. */
#ifndef RM_RELAY_CACHING_H
#define RM_RELAY_CACHING_H

#include "plan/cache.h"
#include "relay/relay.h"

struct caching_words;

struct caching { /* of one request; zero before caching_begin */
    struct cache_memory *memory;
    int64_t ttl_s;              /* of the cache that is asked for; 0 = none is */
    struct caching_words *told; /* for the decisions of attempts; most requests have none */
};

struct caching_start {
    struct cache_memory *memory;
    struct registry *registry;
    const struct route_conf *route;
    const struct call *facts; /* those of the engine; cache_key is not read */
    uint64_t key;             /* of the conversation: affinity_key; 0 = nothing to go by */
    struct arena *arena;      /* the engine's */
    uint64_t now_us;
};
/* The request arrived: notes it, and puts the order in which its links are asked into *d where it is another than the
 * route's. */
void caching_begin(struct caching *c, const struct caching_start *s, struct directive *d);
/* Attempt n starts on `link`. True: the hint, or the client's own markers, are withheld from it. */
static inline bool caching_withholds(struct caching *c, struct relay *r, const struct link_conf *link, uint16_t n,
                                     struct registry *registry, uint64_t now_us);
/* Attempt n is committed. */
static inline void caching_commit(struct caching *c, const struct relay *r, uint16_t n, uint64_t now_us);
/* The request is over: what its attempts taught, and the words of what was decided go to the trail. */
static inline void caching_end(struct caching *c, struct relay *r, uint64_t now_us);

/* ---- inside: most requests ask for no cache, and most cores know of none ---- */

bool caching_judge(struct caching *c, struct relay *r, const struct link_conf *link, uint16_t n,
                   struct registry *registry, uint64_t now_us);
void caching_note_commit(struct caching *c, const struct relay *r, uint16_t n, uint64_t now_us);
void caching_note_end(struct caching *c, struct relay *r, uint64_t now_us);

static inline bool caching_withholds(struct caching *c, struct relay *r, const struct link_conf *link, uint16_t n,
                                     struct registry *registry, uint64_t now_us)
{
    bool is_first = n == 1; /* of all: nobody's standby */
    return (!is_first || c->ttl_s > 0 || c->told != NULL) && caching_judge(c, r, link, n, registry, now_us);
}

static inline void caching_commit(struct caching *c, const struct relay *r, uint16_t n, uint64_t now_us)
{
    if (!cache_is_blank(c->memory))
        caching_note_commit(c, r, n, now_us);
}

static inline void caching_end(struct caching *c, struct relay *r, uint64_t now_us)
{
    if (c->told != NULL || !cache_is_blank(c->memory))
        caching_note_end(c, r, now_us);
}

#endif

/* A provider's prompt cache does not travel (DESIGN 3.11). On a failover: is it worth writing the standby's? When the
 * preferred target is back: is it worth going back yet? One memory per core; nothing is shared. Pure but for the
 * registry's words: `now_us` is a parameter. */
#ifndef RM_PLAN_CACHE_H
#define RM_PLAN_CACHE_H

#include "base/arena.h"
#include "model/call.h"
#include "model/record.h"
#include "plan/outage.h"
#include "plan/prefix.h"
#include "plan/registry.h"

struct cache_memory {
    struct outages outages;
    struct prefixes *prefixes;
};
/* Release with cache_memory_free. */
struct cache_memory *cache_memory_new(void);
void cache_memory_free(struct cache_memory *m);
/* It holds neither an outage nor a prefix: cache_served and cache_learn would change nothing. */
static inline bool cache_is_blank(const struct cache_memory *m)
{
    return m->outages.n == 0 && prefixes_is_empty(m->prefixes);
}

/* ---- the rule ---- */

/* What a cached token costs, in shares of an uncached one's price. */
struct cache_rates {
    double read, write;
};
/* For a prompt of n_prompt tokens and a cache that lives for ttl_s. Without a known price: what Anthropic charges, or
 * elsewhere reads at a tenth and free writes. */
struct cache_rates cache_rates_of(const struct link_conf *link, int64_t n_prompt, int64_t ttl_s);
/* The expected reuses above which a write pays: (write - 1) / (1 - read). Below 0 never happens: a free write is 0;
 * where reads save nothing it is infinite. */
double cache_break_even(struct cache_rates r);
/* Expected reuses of a prefix that has just arrived, as long as its target is away and at most within ttl_us: the sum
 * over k = 1, 2, ... of again^k P(it is still away k * gap from now). A span that is sure for ttl_us: without an
 * outage. */
double cache_reuses(const struct outage_span *away, struct rhythm rhythm, uint64_t ttl_us);

/* ---- a request ---- */

/* How long the cache lives that this request wants: the hint of x-cache as it is written (5 minutes or 1 hour), else
 * the client's own markers. 0 = it wants none. Seconds. */
int64_t cache_wanted_s(const struct call *call, uint32_t hint_s);

/* A request arrived. ttl_s: cache_wanted_s; 0 counts as 5 minutes. */
void cache_see(struct cache_memory *m, const struct call *call, int64_t ttl_s, uint64_t now_us);

struct cache_ask {
    const struct call *call;
    const struct route_conf *route;
    const struct link_conf *link;       /* to be asked */
    const struct request_record *trail; /* so far; the attempt on `link` is entry n of it */
    uint16_t n;
    int64_t ttl_s; /* cache_wanted_s, > 0 */
    struct registry *registry;
    uint64_t now_us;
};
enum { CACHE_WORDS = 96 };
struct cache_verdict {
    bool is_failover; /* a target before it is away; else everything else is 0 */
    bool is_withheld;
    double expected, break_even; /* expected_value: what was weighed */
    char words[CACHE_WORDS];     /* "cache write withheld: 0.1 expected reuses, break-even 0.28"; "" = no failover */
};
/* Is the cache hint of this attempt sent, or withheld? Learns of the outage from the trail. */
struct cache_verdict cache_judge(struct cache_memory *m, const struct cache_ask *ask);

/* The link's target gave its first token; is_marked: its cache was asked for. */
void cache_served(struct cache_memory *m, const struct call *call, const struct link_conf *link, bool is_marked,
                  int64_t ttl_s, uint64_t now_us);
/* The attempt is over, and its provider reported what its cache did. */
void cache_learn(struct cache_memory *m, const struct call *call, const struct link_conf *link,
                 const struct attempt_record *rec, int64_t ttl_s, uint64_t now_us);

/* ---- going back ---- */

struct cache_return_ask {
    const struct call *call;
    const struct link_conf *const *links; /* in the order in which they would be asked */
    size_t n_links;
    int64_t ttl_s; /* cache_wanted_s */
    struct registry *registry;
    uint64_t now_us;
};
/* The place (in links) that should be asked first instead of place 0: a later link that holds the prefix warm while the
 * first does not, for as long as staying there costs less than moving back (this request and the expected further
 * ones). 0 = the first link. Whether the route wants it at all (`cache.return`) is the caller's to ask. */
size_t cache_stay(const struct cache_memory *m, const struct cache_return_ask *ask, char words[CACHE_WORDS]);

#endif

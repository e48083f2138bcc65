/* One core's worker: its loop, client side, provider side, and the requests in flight between them. */
#ifndef RM_SERVE_WORKER_H
#define RM_SERVE_WORKER_H

#include "base/list.h"
#include "front/front.h"
#include "ledger/ledger.h"
#include "net/acceptor.h"
#include "plan/cache.h"
#include "relay/relay.h"
#include "serve/stats.h"
#include "upstream/upstream.h"

struct worker_options {
    unsigned core;
    int listen_fd;            /* owned by the caller */
    uint64_t connections_max; /* clients at once, over all workers; 0 = as limits.connections says */
    struct config *config;    /* one reference is taken */
    struct registry *registry;
    struct latency *latency;   /* may be NULL: budgets stay as configured */
    struct ratio_book *ratios; /* may be NULL: four bytes a token */
    struct ledger *ledger;     /* may be NULL */
    uint64_t seed;
};

struct worker {
    unsigned core;
    struct loop *loop;
    struct resolver *resolver;
    struct upstream *upstream;
    struct front *front;
    struct config *config; /* current snapshot */
    struct registry *registry;
    struct ledger *ledger;
    struct ledger_ring *ring; /* NULL without a ledger */
    struct rng rng;
    struct cache_memory *caches;
    struct hedge_book *hedges;
    struct relay_env env;
    struct list flights;
    uint32_t id_counter;
    uint64_t connections_max;
    bool is_draining;
    int listen_fd;
    struct acceptor acceptor;
    struct timer drain_look;
    _Atomic bool is_drained;
    struct timer standby_timer;
    uint64_t *route_used_us; /* by route index: last request on this core; 0 = none */
    size_t n_route_used;
    struct list probes; /* keepalives under way */
    struct stats stats;
};

/* Builds the worker; it accepts once worker_run is called. NULL = the system grants no loop, errno says why. */
struct worker *worker_new(const struct worker_options *o);
/* Runs its loop on the calling thread until worker_stop. */
void worker_run(struct worker *w);
/* Any thread: swaps the snapshot (one reference is taken at once). */
void worker_reload(struct worker *w, struct config *now);
/* Any thread: if nothing is in flight when it is looked at, memory that is kept for the next calls goes back. */
void worker_rest(struct worker *w);
/* Any thread: stop accepting, close idle connections. */
void worker_drain(struct worker *w);
/* Any thread: cut what is still in flight, then stop the loop. n_cut (may be NULL) is increased by the number of cut
 * requests. */
void worker_cut(struct worker *w, _Atomic unsigned *n_cut);
/* After worker_drain: nothing is in flight and the last answer is out. Any thread. */
bool worker_is_drained(const struct worker *w);
/* Requests in flight. Any thread. */
uint64_t worker_in_flight(const struct worker *w);
/* After worker_run has returned. */
void worker_free(struct worker *w);

#endif

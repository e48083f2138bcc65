/* Generates load: many streamed requests at once on one loop, each written down as a sample.
 *
 *     closed loop   n workers; each sends its next request when its last one has ended
 *     open loop     request i is due at i / rate, whatever became of the others; latency counts from then
 *
 * Connections are kept and used again, per target, also from one load to the next. */
#ifndef RM_LAB_LOAD_H
#define RM_LAB_LOAD_H

#include "base/bytes.h"
#include "lab/sample.h"
#include "net/dial.h"

struct load;

struct load_target {
    const char *name; /* who served, where no header tells */
    const char *host;
    uint16_t port;
    struct tls_context *tls; /* NULL = plain */
    struct bytes head, body; /* the whole request; both outlive the load */
};

struct load_plan {
    const struct load_target *targets;
    size_t n_targets;
    bool is_chain;           /* a request tries them in turn, as a client does by itself; else request i goes to target
                                i modulo n_targets */
    uint64_t first_token_us; /* chain: how long a target may take to its first token, but for the last; 0 = no limit */
    uint64_t timeout_us;     /* of a whole request */
    uint64_t n;              /* requests */
    unsigned concurrency;    /* closed: workers. Open: most requests at once; what is due beyond waits, and its
                                latency counts */
    uint64_t ramp_us;        /* closed: workers begin spread over it */
    double rate;             /* requests a second; 0 = closed loop */
    uint32_t round;
    /* Asked before each start. False: asked again when a running one has ended; with none running no more are started.
     * NULL = always. */
    bool (*may_start)(void *arg);
    /* Told of each one that has ended. NULL = nobody. */
    void (*on_end)(const struct sample *s, void *arg);
    void *arg;
};

struct load_progress {
    uint64_t n, n_started, n_done, n_failed;
    uint64_t behind_max_us; /* open loop: how late a request was sent at worst */
    bool was_refused;       /* may_start said no */
};

struct load *load_new(struct loop *l, struct resolver *r);
/* Stops what runs and closes all; takes a turn of the loop. Not from inside the loop. NULL is fine. */
void load_free(struct load *l);
/* samples: plan->n of them, filled as they end; plan and samples stay until done. `done` is called once, from the loop,
 * when all have ended; none may be running. The load's clock is at 0 now. */
void load_start(struct load *l, const struct load_plan *plan, struct sample *samples, void (*done)(void *arg),
                void *arg);
/* Gives up what is under way (error "stopped") and starts nothing more; done is called. */
void load_stop(struct load *l);
const struct load_progress *load_progress(const struct load *l);
/* Monotonic time of the load's 0. */
uint64_t load_began_us(const struct load *l);

#endif

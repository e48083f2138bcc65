/* The inside of the world, shared by the files of this room only. */
#ifndef RM_SIM_INSIDE_H
#define RM_SIM_INSIDE_H

#include "base/rng.h"
#include "relay/relay.h"
#include "sim/world.h"

enum { WORLD_PROVIDERS = 4, WORLD_ROUTES = 2, WORLD_LINKS = 5, WORLD_REQUESTS = 24, WORLD_STEPS = 24 };
#define WORLD_START_US UINT64_C(1000000)

/* What one attempt at a provider will do, decided when it starts. */
struct host_step {
    uint64_t at_us;
    enum relay_event_kind kind;
    uint16_t status;
    int64_t connect_us;
    bool is_token, is_thought;
    uint32_t text_bytes;
    struct usage usage; /* output >= 0: a usage event */
    struct failure failure;
};
struct host_script {
    struct host_step v[WORLD_STEPS];
    size_t n;
};

/* What the judge knows of an attempt that is out. */
struct law_side {
    uint16_t open_n; /* 0 = no attempt is out */
    size_t place;
    uint64_t start_us, link_start_us, budget_us, head_us, idle_due_us, paused_us;
    bool is_stream, has_token, is_overtime, was_waited, is_hedge, is_link_fault;
    uint8_t quirks;
    unsigned n_retries;
};

/* What the judge knows of a request: kept from events and actions alone. */
struct laws {
    bool is_over, is_committed, is_head_sent, is_recorded;
    struct law_side side;   /* the attempt that is judged */
    struct law_side beside; /* a hedge, or what was hedged; open_n 0 else */
    uint64_t hedge_due_us;  /* 0 = none may start */
    bool tried[WORLD_LINKS];
    uint32_t unbuildable; /* places found to be so */
    unsigned n_started;
    bool has_failure, is_of_hedge, is_later, is_cut;
    struct failure failure; /* the last */
    uint64_t failure_us, failure_head_us;
    const struct link_conf *context_failed;
    bool is_larger_known;
    /* An answer that broke off. */
    bool is_resuming, is_untellable; /* the client has more than plain text */
    bool is_refused;                 /* the link that is tried takes no prefilled answer */
    uint64_t n_told;
    unsigned n_joins;
    enum resume_way way;
    enum outcome broke;
    uint16_t n_seen; /* entries of the trail already judged */
    /* Before the event that is being judged. */
    uint64_t until[WORLD_LINKS];
    enum health_state state[WORLD_LINKS], credential_state[WORLD_LINKS];
};

struct guest { /* a request and its client */
    size_t index;
    struct arena arena;
    struct relay *relay;
    struct call call;
    struct directive directive;
    const struct link_conf *order[WORLD_LINKS];
    const struct route_conf *route;
    struct relay_start start;
    uint64_t deadline_us, arrive_us;
    size_t n_chain;
    const struct link_conf *chain[WORLD_LINKS];
    uint32_t unbuildable; /* link indexes whose body cannot be written */
    bool is_arrived, is_gone;
    uint64_t armed_us;
    struct host_script scripts[2]; /* of the attempts that are out: a second one is a hedge */
    uint16_t script_n[2];          /* whose script it is; 0 = nobody's */
    enum resume_way way;           /* of the attempt that is out */
    unsigned join_in;              /* it meets what was told after so many tokens; 0 = it parts from it */
    struct laws laws;
};

enum thing_kind { THING_ARRIVE, THING_STEP, THING_TIMER, THING_LEAVE, THING_DRAIN, THING_PAUSE, THING_RESUME };
struct thing { /* in the queue */
    uint64_t at_us, tie;
    enum thing_kind kind;
    size_t guest;
    uint16_t n; /* attempt */
    size_t step;
};

struct world {
    const struct world_conf *conf;
    struct world_result *result;
    struct rng rng; /* the world's own chance */
    struct rng engine_rng;
    struct registry *registry;
    struct relay_env env;
    struct hedge_book *hedges;
    uint64_t now_us;
    struct config config;
    struct provider_conf providers[WORLD_PROVIDERS];
    struct route_conf routes[WORLD_ROUTES];
    struct link_conf links[WORLD_ROUTES][WORLD_LINKS];
    struct price prices[WORLD_PROVIDERS];
    struct guest guests[WORLD_REQUESTS];
    size_t n_guests;
    struct thing *queue; /* binary heap */
    size_t n_queue, cap_queue;
    int target_holder[WORLD_ROUTES * WORLD_LINKS]; /* guest that holds the trial; -1 = nobody */
    bool is_sabotaged;                             /* the fault was planted */
    bool is_choppy;                                /* many answers break off, and somebody is there to go on */
    unsigned n_events;
};

/* cast.c */
void cast_world(struct world *w);
uint64_t cast_span(struct rng *rng, uint64_t max_ms); /* often a multiple of 50 ms, sometimes 1 us beside it */
/* host.c */
void host_play(struct world *w, const struct guest *g, const struct relay_action *a, struct host_script *out);
/* world.c */
void world_queue(struct world *w, struct thing t);
void world_tell(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void world_break(struct world *w, const struct guest *g, const char *law);
void world_hash(struct world *w, uint64_t v);
/* laws.c */
void laws_before(struct world *w, struct guest *g);
void laws_event(struct world *w, struct guest *g, const struct relay_event *ev);
void laws_action(struct world *w, struct guest *g, const struct relay_event *ev, const struct relay_action *a);
void laws_after(struct world *w, struct guest *g, const struct relay_event *ev);
void laws_end(struct world *w);

#endif

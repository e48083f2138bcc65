/* A request in flight and its attempts, shared by flight.c and pilot.c only. */
#ifndef RM_SERVE_PILOT_H
#define RM_SERVE_PILOT_H

#include "base/text.h"
#include "front/seam.h"
#include "front/shown.h"
#include "model/call.h"
#include "relay/caching.h"
#include "serve/flight.h"

/* One attempt's two ends: the exchange with the provider, and the draft of what the client gets. */
struct pilot {
    struct flight *flight;
    struct exchange *exchange; /* NULL once closed */
    struct draft *draft;
    struct arena arena; /* of a body that is not the client's own, and what is noted on it */
    struct seam *seam;  /* in the arena; NULL = it does not go on with an answer that broke off */
    struct list node;
    struct reap reap;
    const char *adjusted;
    uint16_t n;
    bool is_closed, is_committed, is_paused;
    bool is_head_told; /* and with it how far the exchange had come */
    bool is_joining;   /* it is to go on with an answer that broke off, and has not met it yet */
};

struct flight {
    struct worker *worker;
    struct client_call *call; /* NULL once the answer is whole or the client has gone */
    struct config *config;
    struct relay *relay;
    struct arena arena;
    struct directive directive;
    struct caching caching;
    struct bytes cache_key; /* a prompt_cache_key of ours for targets that take one; "" = none */
    struct list node;       /* in worker->flights */
    struct list attempts;
    struct pilot first; /* the first attempt's: most requests have no other */
    union {
        struct timer timer;
        struct reap reap; /* once it is over */
    };
    struct shown *shown; /* the route resumes, and the client streams: body and shown text are kept. NULL = they are
                            not */
    const char *why_unbuildable; /* an event to be fed after the actions that are being carried out; NULL = none */
    uint16_t n_unbuildable;
    bool is_over;
    uint16_t status;
    int64_t gateway_us;
};

/* flight.c: feeds the engine and carries out what it says. The pilot may be closed afterwards. */
void flight_feed(struct flight *f, const struct relay_event *ev);
/* The same for what the engine mostly only notes (relay_tell). */
void flight_tell(struct flight *f, const struct relay_event *ev);

/* Builds the request and opens the exchange. A request that cannot be written is told by why_unbuildable. */
void pilot_start(struct flight *f, const struct relay_action *a);
/* Two steps: nothing of it is dispatched any more; its memory goes at the end of the turn. Harmless twice. */
void pilot_close(struct pilot *p);
/* NULL when it is closed. */
struct pilot *pilot_by_n(struct flight *f, uint16_t n);
/* The engine is told how far the exchange has come, unless it knows. Nothing follows from it. */
void pilot_tell_reached(struct pilot *p);
/* The request was written whole. */
bool pilot_is_sent(const struct pilot *p);
/* The request was written and its answer shown: it need not be held any more. */
void pilot_let_go_of_request(struct pilot *p);
/* The client takes its bytes again, perhaps: reads on where it stopped. */
void pilot_writable(struct pilot *p);

#endif

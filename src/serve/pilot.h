/* A request in flight and its attempts, shared by flight.c and pilot.c only. */
#ifndef RM_SERVE_PILOT_H
#define RM_SERVE_PILOT_H

#include "base/text.h"
#include "front/seam.h"
#include "front/shown.h"
#include "model/call.h"
#include "relay/caching.h"
#include "serve/flight.h"

struct flight {
    struct worker *worker;
    struct client_call *call; /* NULL once the answer is whole or the client has gone */
    struct config *config;
    struct relay *relay;
    struct arena arena;
    struct call facts; /* copies: outlive the client's body */
    char id_text[TEXT_ID_BYTES];
    struct directive directive;
    struct caching caching;
    struct bytes cache_key; /* a prompt_cache_key of ours for targets that take one; "" = none */
    struct list node;       /* in worker->flights */
    struct list attempts;
    struct timer timer;
    struct reap reap;
    struct relay_event pending;
    bool has_pending, is_paused, is_over;
    bool is_kept;       /* the route resumes, and the client streams: body and shown text are kept */
    struct shown shown; /* is_kept */
    unsigned status;
    int64_t gateway_us;
};

/* One attempt's two ends: the exchange with the provider, and the draft of what the client gets. */
struct pilot {
    struct flight *flight;
    struct exchange *exchange; /* NULL once closed */
    struct draft *draft;
    struct arena arena; /* the body's pieces */
    struct list node;
    struct reap reap;
    const struct link_conf *link;
    const char *adjusted;
    uint16_t n;
    bool is_closed, is_committed, is_paused;
    bool is_sent;    /* the request was wholly written: its body is not needed any more */
    bool is_joining; /* it is to go on with an answer that broke off, and has not met it yet */
    struct seam seam;
};

/* flight.c: feeds the engine and carries out what it says. The pilot may be closed afterwards. */
void flight_feed(struct flight *f, struct relay_event *ev);

/* Builds the request and opens the exchange; a request that cannot be written becomes the flight's pending event. */
void pilot_start(struct flight *f, const struct relay_action *a);
/* Two steps: nothing of it is dispatched any more; its memory goes at the end of the turn. Harmless twice. */
void pilot_close(struct pilot *p);
/* NULL when it is closed. */
struct pilot *pilot_by_n(struct flight *f, uint16_t n);
/* The request was written and its answer shown: it need not be held any more. */
void pilot_let_go_of_request(struct pilot *p);
/* The client takes its bytes again, perhaps: reads on where it stopped. */
void pilot_writable(struct pilot *p);

#endif

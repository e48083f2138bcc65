/* One request in flight: feeds the engine (relay/) with what the client side and the provider side tell, and carries
 * out its actions. It decides nothing.
 *
 *   front: client_call --.                          .--> exchange (upstream) + draft (front)   one pair per attempt
 *                         flight: events -> relay -> actions
 *   timer, drain --------'                          '--> answer, record (ledger) */
#ifndef RM_SERVE_FLIGHT_H
#define RM_SERVE_FLIGHT_H

#include "front/front.h"
#include "serve/worker.h"

struct flight;

/* Takes a call that the front handed up. */
void flight_start(struct worker *w, struct client_call *c);
/* The client left, or stalled. The flight is gone afterwards. */
void flight_client_gone(struct flight *f, bool is_stall);
/* The client takes bytes again. */
void flight_writable(struct flight *f);
/* The flight whose place in worker->flights this is. */
struct flight *flight_of_node(struct list *node);
/* Our own stop: the answer is cut, in-stream where it has begun. */
void flight_drain(struct flight *f);

#endif

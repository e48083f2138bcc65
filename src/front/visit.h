/* Private to the room: one request on the client listener, from its head to its answer. Lives in the inbound's arena;
 * inbound->owner points to it. A visit that asks for a model becomes a client_call. */
#ifndef RM_FRONT_VISIT_H
#define RM_FRONT_VISIT_H

#include "front/front.h"

enum endpoint { ENDPOINT_NONE, ENDPOINT_CALL, ENDPOINT_MODELS, ENDPOINT_HEALTHZ, ENDPOINT_READYZ };

struct refusal {
    struct answer_error reason;
    const char *allow; /* of a 405; NULL else */
};

struct visit {
    struct client_call call; /* config is NULL until the body is whole */
    struct front *front;
    enum endpoint endpoint;
    struct refusal *refusal; /* NULL = it is not refused */
};

static inline struct visit *visit_of_call(struct client_call *c)
{
    return RM_CONTAINER(c, struct visit, call);
}

/* The answer to a request that needs no provider. Finishes the visit. fields: further header lines. */
void visit_answer_json(struct visit *v, unsigned status, struct bytes body, struct bytes fields);
/* The answer is whole: releases what the visit holds and gives the inbound back. */
void visit_end(struct visit *v);

#endif

/* Private to the room: why a request is refused, in the words of both dialects. */
#ifndef RM_FRONT_REFUSAL_H
#define RM_FRONT_REFUSAL_H

#include "front/visit.h"

/* Each fills v->reason and returns its status. Texts that name what the client sent go to the arena. */
unsigned refusal_not_found(struct visit *v, struct bytes method, struct bytes path);
unsigned refusal_method(struct visit *v, struct bytes method, const char *allow);
unsigned refusal_key(struct visit *v, bool has_key);
unsigned refusal_body(struct visit *v, const char *why);
unsigned refusal_model(struct visit *v, const struct config *c);
/* What the driver refuses by itself: 400, 408, 413, 417, 431, 503, 505. why: the driver's text. */
unsigned refusal_by_driver(struct visit *v, unsigned status, const char *why);
/* Writes the answer of v->reason, tells the handler, and finishes the visit. */
void refusal_answer(struct visit *v);

#endif

/* A request whose model is to continue a given answer. Pure. */
#ifndef RM_DIALECT_PREFILL_H
#define RM_DIALECT_PREFILL_H

#include "base/arena.h"
#include "base/err.h"

/* The client's body with one more message at its end, the assistant's, holding `text`; every other byte as it was. The
 * same form in both dialects, so it is done before a body is built for a target. *out lives in the arena.
 * ERR_UNSUPPORTED: the body has no messages to put it after. */
enum err prefill_put(struct bytes body, struct bytes text, unsigned max_depth, struct arena *a,
                     struct bytes *out) RM_MUST_USE;

#endif

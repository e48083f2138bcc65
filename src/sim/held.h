/* Cached tokens of a past that is played again: what a prompt reads from its provider's cache and writes to it, now,
 * beside what it did then. Two larders are filled: one by the past as it was, at once; one by what is played. */
#ifndef RM_SIM_HELD_H
#define RM_SIM_HELD_H

#include "sim/past.h"
#include "sim/stage.h"

struct held;

enum { HELD_NOT_RECORDED = SIZE_MAX };

/* The past must be sealed, and outlives it. The route's links say which targets are asked for a cache (Messages);
 * others are taken to cache by themselves where one of their attempts said so. Release with held_free (NULL too). */
struct held *held_new(const struct past *p, const struct route_conf *route);
void held_free(struct held *h);
/* An attempt starts. `recorded`: place of the very attempt among those of its request, HELD_NOT_RECORDED when the
 * request made none there; *u: its tokens as they were, or those that it would have had if nothing was cached; their
 * cached part is set, input takes the rest. Unknown tokens (USAGE_NONE) stay unknown. */
void held_start(struct held *h, const struct part_ask *ask, size_t recorded, struct usage *u);
/* Its answer has begun. */
void held_begun(struct held *h, const struct part_ask *ask);

#endif

/* Times and lengths by distribution. Pure: chance is handed in. */
#ifndef RM_LAB_MOCK_CHANCE_H
#define RM_LAB_MOCK_CHANCE_H

#include "base/rng.h"

#include <stdbool.h>

enum spread_kind {
    SPREAD_FIXED,     /* a */
    SPREAD_UNIFORM,   /* from a to b */
    SPREAD_LOGNORMAL, /* its median is a, its 99th percentile b; b >= a > 0 */
    SPREAD_PROMPT     /* a, and b more for each thousand tokens of the prompt */
};
struct spread {
    enum spread_kind kind;
    uint64_t a, b; /* in the unit of what is drawn */
};

static inline struct spread spread_fixed(uint64_t a)
{
    return (struct spread){SPREAD_FIXED, a, 0};
}
/* In thousandths of the unit. A lognormal draw is at most a hundred times b. */
uint64_t spread_draw(const struct spread *s, struct rng *r, uint64_t prompt_tokens);
/* True in `ppm` of a million draws. */
bool chance_hits(struct rng *r, uint32_t ppm);
/* A generator for the n-th request of the provider with that name: what one request draws does not depend on what
 * others drew. */
struct rng chance_of_request(uint64_t seed, const char *provider, uint64_t n);

#endif

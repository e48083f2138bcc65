#include "lab/mock_chance.h"

#include "base/bytes.h"
#include "base/check.h"

#include <math.h>

static const double Z99 = 2.3263478740408408; /* a standard normal variable is below it in 99 of 100 cases */
static const double TWO_PI = 6.283185307179586;

/* In (0, 1], with 53 bits. */
static double unit(struct rng *r)
{
    return (double)((rng_next(r) >> 11) + 1) * 0x1p-53;
}

/* Box and Muller. */
static double normal(struct rng *r)
{
    double u = unit(r), v = unit(r);
    return sqrt(-2 * log(u)) * cos(TWO_PI * v);
}

static uint64_t lognormal(const struct spread *s, struct rng *r)
{
    RM_ASSERT(s->a > 0 && s->b >= s->a);
    double sigma = log((double)s->b / (double)s->a) / Z99;
    double drawn = 1000 * (double)s->a * exp(sigma * normal(r)), most = 100000 * (double)s->b;
    return (uint64_t)llround(drawn < most ? drawn : most);
}

uint64_t spread_draw(const struct spread *s, struct rng *r, uint64_t prompt_tokens)
{
    switch (s->kind) {
    case SPREAD_UNIFORM:
        return rng_between(r, s->a * 1000, s->b * 1000);
    case SPREAD_LOGNORMAL:
        return lognormal(s, r);
    case SPREAD_PROMPT:
        return s->a * 1000 + s->b * prompt_tokens;
    default:
        return s->a * 1000;
    }
}

bool chance_hits(struct rng *r, uint32_t ppm)
{
    return ppm >= 1000000 || rng_below(r, 1000000) < ppm;
}

struct rng chance_of_request(uint64_t seed, const char *provider, uint64_t n)
{
    struct rng r = {bytes_hash(bytes_of(provider), seed) + n};
    r.state = rng_next(&r); /* neighbours in n shall not be neighbours on the generator's own track */
    return r;
}

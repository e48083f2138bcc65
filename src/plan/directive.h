/* The x-routing and x-cache request headers (DESIGN 4). Pure. */
#ifndef RM_PLAN_DIRECTIVE_H
#define RM_PLAN_DIRECTIVE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/fields.h"
#include "config/config.h"

struct directive {
    const struct link_conf **order; /* exactly these, in this order; NULL = the route's chain */
    uint16_t n_order;
    bool fallback_off;
    uint32_t ttft_ms;     /* 0 = not given */
    uint32_t deadline_ms; /* 0 = not given */
    uint32_t cache_ttl_s; /* x-cache; 0 = not given */
};

/* Reads both headers of a request for a route. ERR_SYNTAX etc. with why (arena text) for the 400 invalid_routing /
 * invalid_cache. A link named by "provider" alone is the route's first link of that provider. */
enum err directive_parse(const struct fields *fields, const struct route_conf *route, struct arena *a,
                         struct directive *out, const char **why) RM_MUST_USE;

#endif

/* Which standby is due for a keepalive (DESIGN 3.9). Pure but for the registry's words. */
#ifndef RM_PLAN_STANDBY_H
#define RM_PLAN_STANDBY_H

#include "plan/registry.h"

struct standby_ask {
    const struct route_conf *route;
    uint64_t used_us; /* when the route was last asked for; 0 = never */
    uint64_t now_us;
    int64_t day; /* wall_ms / 86400000 */
};

/* The link to probe now, its lease taken (nobody else in the process will probe it within keepalive_sec); NULL = none
 * is due. Call again until NULL, once a second or so. The first link is not a standby. After the probe: its cost goes
 * to registry_keepalive_spend, its outcome to the registry (4xx neutral). */
const struct link_conf *standby_due(struct registry *r, const struct standby_ask *ask);

#endif

#include "plan/standby.h"

/* An open target is probed too once its time is over: through registry_pass by the caller, so that a keepalive may be
 * the trial. Until then it is left alone. */
static bool is_probeable(struct registry *r, const struct link_conf *l, const struct standby_ask *ask)
{
    const struct route_conf *route = ask->route;
    return !l->provider->is_off && registry_until(r, l->target_id, l->provider->credential_id, ask->now_us) == 0 &&
           registry_keepalive_allowed(r, l->target_id, ask->day, l->price != NULL, route->keepalive_max_nusd_per_day);
}

const struct link_conf *standby_due(struct registry *r, const struct standby_ask *ask)
{
    const struct route_conf *route = ask->route;
    uint64_t stop_us = (uint64_t)route->keepalive_idle_stop_sec * 1000000;
    if (route->keepalive_sec == 0 || ask->used_us == 0 || ask->now_us - ask->used_us >= stop_us)
        return NULL;
    for (size_t i = 1; i < route->n_links; i++) {
        const struct link_conf *l = &route->links[i];
        if (is_probeable(r, l, ask) &&
            registry_lease_keepalive(r, l->target_id, ask->now_us, (uint64_t)route->keepalive_sec * 1000000))
            return l;
    }
    return NULL;
}

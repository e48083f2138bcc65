/* Gives every link its target id and every provider its credential id, before the snapshot is published. A key is kept
 * as a hash only. */
#include "plan/registry.h"

enum err plan_bind(struct registry *r, struct config *c)
{
    for (size_t i = 0; i < c->n_providers; i++) {
        struct provider_conf *p = &c->providers[i];
        enum err e =
            registry_intern_credential(r, p->name, bytes_hash(p->api_key, 0x72696e676d61696e), &p->credential_id);
        if (e != ERR_OK)
            return e;
    }
    for (size_t i = 0; i < c->n_routes; i++) {
        struct route_conf *route = &c->routes[i];
        for (size_t k = 0; k < route->n_links; k++) {
            struct link_conf *l = &route->links[k];
            const char *host = l->provider->url.authority ? l->provider->url.authority : l->provider->url.host;
            enum err e = registry_intern_target(r, l->provider->name, host ? host : "", l->model, &l->target_id);
            if (e != ERR_OK)
                return e;
        }
    }
    return ERR_OK;
}

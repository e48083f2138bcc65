#include "serve/snapshot.h"

#include "codec/json_write.h"
#include "dialect/dialect.h"
#include "front/front.h"
#include "ledger/pack.h"
#include "net/tls.h"
#include "upstream/request.h"

#include <stdio.h>

static void release_made(struct config *c)
{
    for (size_t i = 0; i < c->n_providers; i++) {
        tls_context_unref(c->providers[i].tls);
        request_mould_free(c->providers[i].mould);
        c->providers[i].tls = c->providers[i].mould = NULL;
    }
}

static bool is_same_store(const struct provider_conf *a, const struct provider_conf *b)
{
    if (a->ca_file == NULL || b->ca_file == NULL)
        return a->ca_file == b->ca_file;
    return strcmp(a->ca_file, b->ca_file) == 0;
}

/* One store per CA file, shared; none where no base URL is https. */
static enum err fill_tls(struct config *c, size_t i, const char **why)
{
    struct provider_conf *p = &c->providers[i];
    if (!p->url.is_tls)
        return ERR_OK;
    for (size_t k = 0; k < i; k++)
        if (c->providers[k].tls != NULL && is_same_store(p, &c->providers[k])) {
            p->tls = tls_context_ref(c->providers[k].tls);
            return ERR_OK;
        }
    struct tls_context *context = NULL;
    enum err e = tls_context_new(p->ca_file, &context, why);
    p->tls = context;
    return e;
}

static void fill_vendors(struct config *c)
{
    for (size_t i = 0; i < c->n_providers; i++) {
        struct provider_conf *p = &c->providers[i];
        if (p->vendor[0] == '\0')
            p->vendor = arena_dup(&c->arena, vendor_from_host(bytes_of(p->url.host))).p;
    }
}

/* The registry's own text of each name: equal ones are one. */
static void fill_dialects(struct config *c)
{
    for (size_t i = 0; i < c->n_providers; i++) {
        const struct dialect *d = dialect_by_name(bytes_of(c->providers[i].dialect));
        if (d != NULL)
            c->providers[i].dialect = d->name;
    }
}

static struct profile profile_of(const struct link_conf *link)
{
    return (struct profile){.model = bytes_of(link->model),
                            .vendor = bytes_of(link->provider->vendor),
                            .max_output = link->max_output,
                            .takes_retention = link->supports.cache_retention == YES,
                            .set = link->set,
                            .n_set = link->n_set,
                            .drop = link->drop,
                            .n_drop = link->n_drop};
}

static struct bytes as_json(struct arena *a, struct bytes text, struct buf *scratch)
{
    struct json_writer w;
    buf_clear(scratch);
    jw_init(&w, scratch);
    jw_string(&w, text);
    return arena_dup(a, buf_bytes(scratch));
}

/* What its attempts, their answers and records have in common. */
static void fill_link(struct config *c, const struct route_conf *route, struct link_conf *link, struct buf *scratch)
{
    const struct provider_conf *p = link->provider;
    buf_clear(scratch);
    reply_served_lines(p->name, link->model, scratch);
    link->served_lines = arena_dup(&c->arena, buf_bytes(scratch));
    pack_names(&c->arena, route->model, p->dialect, p->name, link->model, &link->names);
    link->profile = profile_of(link);
    link->profile.model_json = as_json(&c->arena, link->profile.model, scratch);
}

static void fill_links(struct config *c)
{
    struct buf scratch = {0};
    for (size_t i = 0; i < c->n_routes; i++)
        for (size_t k = 0; k < c->routes[i].n_links; k++)
            fill_link(c, &c->routes[i], &c->routes[i].links[k], &scratch);
    buf_fini(&scratch);
}

enum err snapshot_prepare(struct config *c, struct registry *registry, char *message, size_t message_cap)
{
    const char *why = "";
    fill_vendors(c);
    fill_dialects(c);
    fill_links(c);
    for (size_t i = 0; i < c->n_providers; i++) {
        c->providers[i].mould = request_mould_new(&c->providers[i]);
        enum err e = fill_tls(c, i, &why);
        if (e != ERR_OK) {
            snprintf(message, message_cap, "provider %s: %s: %s", c->providers[i].name,
                     c->providers[i].ca_file ? c->providers[i].ca_file : "system certificates", why);
            release_made(c);
            return e;
        }
    }
    enum err e = plan_bind(registry, c);
    if (e != ERR_OK) {
        snprintf(message, message_cap, "more targets than this process can follow (%d)", REGISTRY_TARGETS_MAX);
        release_made(c);
        return e;
    }
    c->on_free = release_made;
    return ERR_OK;
}

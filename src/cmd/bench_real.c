/* The user's own file is taken as a tree and written again as it stands, ${…} and all: no secret is written anywhere.
 * Only its listeners, keys of clients, ledger and log give way to the run's own, paths become absolute, and of its
 * routes one is left, three times:
 *
 *     bench           link, link, …
 *     bench-fault     a pretend link that fails as the phase says, link, link, …
 *     bench-double    two of them, link, link, …
 *
 * without breaker, keepalive and hedge, so that every request of a phase meets the same chain. */
#include "cmd/bench.h"

#include "base/mem.h"
#include "cmd/load.h"
#include "codec/json_write.h"
#include "config/fault.h"
#include "lab/prompt.h"
#include "price/price.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

struct bench_real {
    struct arena arena;
    struct config *config;
    const struct route_conf *route;
    const struct node *root, *route_node;
    const char *folder; /* of the file, absolute, without its last slash */
    struct tls_context *tls;
};

/* ---- reading ---- */

static bool load(struct bench_real *r, const char *path)
{
    struct config_faults faults = {0};
    struct buf told = {0};
    bool ok = config_load_file(path, &faults, &r->config) == ERR_OK;
    if (!ok) {
        config_faults_text(&faults, &told);
        fputs(buf_cstr(&told), stderr);
    }
    buf_fini(&told);
    config_faults_fini(&faults);
    return ok;
}

/* The tree is the file's own, before ${…} is replaced. */
static bool parse(struct bench_real *r, const char *path)
{
    struct buf text = {0};
    struct config_faults faults = {0};
    struct fault_log log = {.faults = &faults, .file = path};
    char real[PATH_MAX];
    bool ok = realpath(path, real) != NULL && bench_read(path, &text);
    if (ok) {
        struct bytes kept = arena_dup(&r->arena, buf_bytes(&text));
        r->root = node_parse(kept, &r->arena, &log);
        *strrchr(real, '/') = '\0';
        r->folder = arena_dup(&r->arena, bytes_of(real)).p;
    }
    buf_fini(&text);
    config_faults_fini(&faults);
    return ok && r->root != NULL;
}

static bool find_route(struct bench_real *r, const char *path, const char *model)
{
    const struct config *c = r->config;
    const struct node *routes = node_get(r->root, "routes");
    size_t i = 0;
    while (model != NULL && i < c->n_routes && strcmp(c->routes[i].model, model) != 0)
        i++;
    if (i >= c->n_routes || routes == NULL) {
        fprintf(stderr, "ringmain bench: %s has no route '%s'; it has", path, model != NULL ? model : "");
        for (size_t k = 0; k < c->n_routes; k++)
            fprintf(stderr, "%s %s", k > 0 ? "," : "", c->routes[k].model);
        fputc('\n', stderr);
        return false;
    }
    r->route = &c->routes[i];
    r->route_node = routes->first;
    for (size_t k = 0; k < i; k++)
        r->route_node = r->route_node->next;
    return true;
}

static bool make_tls(struct bench_real *r)
{
    const struct provider_conf *p = r->route->links[0].provider;
    const char *message = "";
    if (!p->url.is_tls || tls_context_new(p->ca_file, &r->tls, &message) == ERR_OK)
        return true;
    fprintf(stderr, "ringmain bench: %s: %s\n", p->name, message);
    return false;
}

struct bench_real *bench_real_open(const char *path, const char *route)
{
    struct bench_real *r = mem_zalloc(sizeof *r);
    if (load(r, path) && parse(r, path) && find_route(r, path, route) && make_tls(r))
        return r;
    bench_real_free(r);
    return NULL;
}

void bench_real_free(struct bench_real *r)
{
    if (r == NULL)
        return;
    tls_context_unref(r->tls);
    if (r->config != NULL)
        config_unref(r->config);
    arena_fini(&r->arena);
    mem_free(r);
}

/* ---- writing it again ---- */

static void put(struct json_writer *j, const char *name, const char *value)
{
    jw_key(j, name);
    jw_cstr(j, value);
}

static void put_node(struct json_writer *j, const struct node *n)
{
    struct buf b = {0};
    node_json(n, &b);
    jw_raw(j, buf_bytes(&b));
    buf_fini(&b);
}

static void put_member(struct json_writer *j, const struct node *n)
{
    jw_key_bytes(j, n->key);
    put_node(j, n);
}

static void put_path(struct json_writer *j, const struct bench_real *r, const struct node *n)
{
    struct buf b = {0};
    if (!bytes_starts_with(n->raw, BYTES("/")))
        buf_printf(&b, "%s/", r->folder);
    buf_put(&b, n->raw);
    jw_key_bytes(j, n->key);
    jw_string(j, buf_bytes(&b));
    buf_fini(&b);
}

static bool is_one_of(struct bytes key, const char *const *names)
{
    for (; *names != NULL; names++)
        if (bytes_is(key, *names))
            return true;
    return false;
}

static void put_provider(struct json_writer *j, const struct bench_real *r, const struct node *p)
{
    static const char *const paths[] = {"api_key_file", "ca_file", NULL};
    jw_key_bytes(j, p->key);
    jw_object(j);
    NODE_EACH(p, item)
    {
        if (is_one_of(item->key, paths))
            put_path(j, r, item);
        else
            put_member(j, item);
    }
    jw_end(j);
}

static void put_pretend(struct json_writer *j, const char *name, uint16_t port)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u/v1", port);
    jw_key(j, name);
    jw_object(j);
    put(j, "dialect", "openai");
    put(j, "base_url", url);
    put(j, "api_key", "bench");
    jw_end(j);
}

static void put_providers(struct json_writer *j, const struct bench_real *r, const struct bench_world *w)
{
    const struct node *providers = node_get(r->root, "providers");
    jw_key(j, "providers");
    jw_object(j);
    NODE_EACH(providers, item)
    put_provider(j, r, item);
    put_pretend(j, "bench-fault-1", w->port_a);
    put_pretend(j, "bench-fault-2", w->port_b);
    jw_end(j);
}

/* What a pretend link takes is no money. */
static void put_free(struct json_writer *j, const char *model)
{
    jw_key(j, model);
    jw_object(j);
    put(j, "input", "0");
    put(j, "output", "0");
    jw_end(j);
}

static void put_prices(struct json_writer *j, const struct bench_real *r)
{
    const struct node *prices = node_get(r->root, "prices");
    jw_key(j, "prices");
    jw_object(j);
    if (prices != NULL && !node_is_empty(prices))
        NODE_EACH(prices, item)
    put_member(j, item);
    put_free(j, "bench-fault-1/bench");
    put_free(j, "bench-fault-2/bench");
    jw_end(j);
}

static void put_fault_link(struct json_writer *j, const char *provider, unsigned budget_ms)
{
    jw_object(j);
    put(j, "provider", provider);
    put(j, "model", "bench");
    jw_key(j, "ttft_budget_ms");
    jw_uint(j, budget_ms);
    jw_end(j);
}

/* The route has another name here, so a link's model is always written out. */
static void put_link(struct json_writer *j, const struct link_conf *link, const struct node *item)
{
    static const char *const own[] = {"provider", "model", NULL};
    jw_object(j);
    put(j, "provider", link->provider->name);
    put(j, "model", link->model);
    if (item->kind == NODE_MAP)
        NODE_EACH(item, member)
    if (!is_one_of(member->key, own))
        put_member(j, member);
    jw_end(j);
}

static void put_route(struct json_writer *j, const struct bench_real *r, const char *model, unsigned n_faults,
                      unsigned budget_ms)
{
    static const char *const own[] = {"model", "order", "chain", "breaker", "keepalive_sec", "hedge", NULL};
    const struct node *chain = node_get(r->route_node, "chain");
    chain = chain != NULL ? chain : node_get(r->route_node, "order");
    jw_object(j);
    put(j, "model", model);
    put(j, "breaker", "off");
    put(j, "keepalive_sec", "off");
    NODE_EACH(r->route_node, item)
    if (!is_one_of(item->key, own))
        put_member(j, item);
    jw_key(j, "chain");
    jw_array(j);
    if (n_faults > 0)
        put_fault_link(j, "bench-fault-1", budget_ms);
    if (n_faults > 1)
        put_fault_link(j, "bench-fault-2", budget_ms);
    const struct node *item = chain->first;
    for (size_t i = 0; i < r->route->n_links && item != NULL; i++, item = item->next)
        put_link(j, &r->route->links[i], item);
    jw_end(j);
    jw_end(j);
}

static void put_own(struct json_writer *j, const struct bench_world *w)
{
    char listen[32];
    snprintf(listen, sizeof listen, "127.0.0.1:%u", w->port);
    put(j, "listen", listen);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", w->admin_port);
    put(j, "admin", listen);
    put(j, "ledger", "sqlite:ringmain.db");
    put(j, "access_log", "off");
    jw_key(j, "ledger_flush_ms");
    jw_uint(j, 50);
}

void bench_real_config(const struct bench_real *r, const struct bench_world *w, unsigned budget_ms, struct buf *out)
{
    static const char *const kept[] = {"limits", "resolver", "workers", "defaults", NULL};
    static const char *const paths[] = {"price_file", NULL};
    struct json_writer j;
    jw_init(&j, out);
    jw_object(&j);
    put_own(&j, w);
    NODE_EACH(r->root, item)
    {
        if (is_one_of(item->key, kept))
            put_member(&j, item);
        else if (is_one_of(item->key, paths))
            put_path(&j, r, item);
    }
    put_prices(&j, r);
    put_providers(&j, r, w);
    jw_key(&j, "routes");
    jw_array(&j);
    put_route(&j, r, "bench", 0, budget_ms);
    put_route(&j, r, "bench-fault", 1, budget_ms);
    put_route(&j, r, "bench-double", 2, budget_ms);
    jw_end(&j);
    jw_end(&j);
}

/* ---- the direct path, and money ---- */

bool bench_real_target(const struct bench_real *r, const struct bench_options *o, struct arena *a,
                       struct load_target *out)
{
    const struct link_conf *link = &r->route->links[0];
    const struct provider_conf *p = link->provider;
    if (strcmp(p->dialect, "openai") != 0 || p->is_off)
        return false;
    struct buf body = {0}, head = {0};
    struct prompt prompt = {link->model, o->system_tokens, o->user_tokens, o->max_tokens};
    struct bytes key = arena_dup(a, p->api_key), path = arena_printf(a, "%s/chat/completions", p->url.path);
    prompt_body(&prompt, &body);
    prompt_head(&head, path, bytes_of(p->url.authority), key.p, body.n);
    *out = (struct load_target){.name = p->name,
                                .host = p->url.host,
                                .port = p->url.port,
                                .tls = r->tls,
                                .head = arena_dup(a, buf_bytes(&head)),
                                .body = arena_dup(a, buf_bytes(&body))};
    buf_fini(&body);
    buf_fini(&head);
    return true;
}

enum { BYTES_A_TOKEN_MIN = 2 }; /* of a prompt in English: never fewer */

static int64_t dearest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* One attempt at this link. */
static int64_t worst_of(const struct link_conf *link, size_t body_bytes, unsigned max_tokens)
{
    if (link->price == NULL || link->price->input < 0 || link->price->output < 0)
        return NUSD_UNKNOWN;
    struct price p = *link->price;
    if (p.more != NULL)
        p.output = dearest(p.output, p.more->reasoning);
    p.input = dearest(p.input, dearest(p.cache_write_5m, p.cache_write_1h));
    struct usage u = {.input = (int64_t)body_bytes / BYTES_A_TOKEN_MIN, .output = max_tokens};
    return price_cost(&p, &u);
}

bool bench_real_worst(const struct bench_real *r, size_t body_bytes, unsigned max_tokens, struct bench_worst *out,
                      char nameless[160])
{
    *out = (struct bench_worst){0};
    for (size_t i = 0; i < r->route->n_links; i++) {
        const struct link_conf *link = &r->route->links[i];
        int64_t one = worst_of(link, body_bytes, max_tokens);
        if (one == NUSD_UNKNOWN) {
            snprintf(nameless, 160, "%s/%s", link->provider->name, link->model);
            return false;
        }
        if (i == 0)
            out->direct_nusd = one;
        out->chain_nusd += one * (1 + (int64_t)link->retries);
    }
    return true;
}

/* A route that resumes may try further links after the head that tells its attempts. */
int64_t bench_real_cost(const struct bench_real *r, const struct sample *s, unsigned n_pretend)
{
    int64_t most = NUSD_UNKNOWN;
    if (!s->is_ok || s->input < 0 || s->output < 0 || s->attempts != n_pretend + 1 || r->route->resume)
        return NUSD_UNKNOWN;
    for (size_t i = 0; i < r->route->n_links; i++) {
        const struct link_conf *link = &r->route->links[i];
        struct usage u = {.input = s->input, .output = s->output};
        if (link->price != NULL && strcmp(link->provider->name, s->provider) == 0)
            most = dearest(most, price_cost(link->price, &u));
    }
    return most;
}

static void tell_link(const struct link_conf *link, struct result_provider *out)
{
    *out = (struct result_provider){.tokens_per_s = NAN};
    snprintf(out->name, sizeof out->name, "%s", link->provider->name);
    snprintf(out->dialect, sizeof out->dialect, "%s", link->provider->dialect);
    snprintf(out->model, sizeof out->model, "%s", link->model);
    snprintf(out->ttft, sizeof out->ttft, "real");
    if (link->price != NULL)
        snprintf(out->price, sizeof out->price, "$%.2f in, $%.2f out per million tokens",
                 (double)link->price->input / 1e6, (double)link->price->output / 1e6);
}

void bench_real_tell(const struct bench_real *r, struct result_settings *s)
{
    s->n_providers = 0;
    for (size_t i = 0; i < r->route->n_links && s->n_providers < RESULT_PROVIDERS_MAX; i++)
        tell_link(&r->route->links[i], &s->providers[s->n_providers++]);
}

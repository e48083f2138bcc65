/* Warnings: what is allowed and probably not meant. Each says what follows, not only what was seen. */
#include "config/loader.h"
#include "price/price.h"

enum { REASONING_BUDGET_MS = 1000 };

void advice_provider(struct loader *l, const struct provider_conf *p, const struct node *at)
{
    if (p->is_off)
        fault_warning(&l->log, place_of_key(at), "provider %s is off: %s is not set; its links are skipped", p->name,
                      p->off_variable);
    else if (p->url.is_tls && p->api_key.n == 0 && node_get(at, "api_key") == NULL &&
             node_get(at, "api_key_file") == NULL)
        fault_warning(&l->log, place_of_key(at),
                      "provider %s has no \"api_key\"; requests go to it without a credential", p->name);
    if (p->ca_file != NULL && !p->url.is_tls)
        fault_warning(&l->log, place_of(node_get(at, "ca_file")), "\"ca_file\" of %s does nothing: base_url is http://",
                      p->name);
}

/* ---- fate that is shared ---- */

static void warn_shared(struct loader *l, const struct route_conf *r, size_t i, struct place at)
{
    const struct provider_conf *p = r->links[i].provider;
    for (size_t k = 0; k < i; k++) {
        const struct provider_conf *q = r->links[k].provider;
        if (p != q)
            continue;
        fault_warning(&l->log, at, "links %zu and %zu of \"%s\" use one account (%s): what closes it closes both",
                      k + 1, i + 1, r->model, p->name);
        return;
    }
    for (size_t k = 0; k < i; k++) {
        const struct provider_conf *q = r->links[k].provider;
        if (p->url.host[0] == '\0' || p->url.port != q->url.port || strcmp(p->url.host, q->url.host) != 0)
            continue;
        fault_warning(&l->log, at, "links %zu and %zu of \"%s\" use one host (%s): when it is down both are", k + 1,
                      i + 1, r->model, p->url.host);
        return;
    }
}

/* ---- money ---- */

static void put_rates(struct buf *out, const struct price *p)
{
    /* pico-dollars a token are millionths of a dollar per million tokens */
    buf_printf(out, "%lld.%06lld/%lld.%06lld", (long long)(p->input / 1000000), (long long)(p->input % 1000000),
               (long long)(p->output / 1000000), (long long)(p->output % 1000000));
}

/* Compared by a typical request: four thousand tokens in, one thousand out. */
static bool is_dearer(const struct price *a, const struct price *b)
{
    if (a == NULL || b == NULL || a->input < 0 || a->output < 0 || b->input < 0 || b->output < 0)
        return false;
    struct usage typical = {.input = 4000, .output = 1000};
    return price_cost(a, &typical) > price_cost(b, &typical);
}

static void warn_dearer(struct loader *l, const struct route_conf *r, size_t i, struct place at)
{
    const struct price *mine = r->links[i].price, *first = r->links[0].price;
    if (i == 0 || !is_dearer(mine, first))
        return;
    struct buf rates = {0};
    put_rates(&rates, mine);
    buf_puts(&rates, " against ");
    put_rates(&rates, first);
    fault_warning(&l->log, at, "link %zu of \"%s\" (%s/%s) is dearer than the first: %s USD per million tokens in/out",
                  i + 1, r->model, r->links[i].provider->name, r->links[i].model, buf_cstr(&rates));
    buf_fini(&rates);
}

static void warn_keepalive(struct loader *l, const struct route_conf *r, size_t i, struct place at)
{
    if (i == 0 || r->keepalive_sec == 0 || r->links[i].price != NULL)
        return;
    fault_warning(
        &l->log, at,
        "\"keepalive_sec\" of \"%s\": %s/%s has no known price, so its keepalives are bounded by 2,880 calls a day "
        "and not by money; give it one in \"prices\"",
        r->model, r->links[i].provider->name, r->links[i].model);
}

/* ---- budgets ---- */

static bool is_reasoning(const char *model)
{
    static const char *const starts[] = {"o1", "o3", "o4", "gpt-5", "deepseek-reason", "deepseek-r1", "magistral"};
    static const char *const parts[] = {"thinking", "reasoning", "reasoner"};
    const char *slash = strrchr(model, '/');
    struct bytes name = bytes_of(slash == NULL ? model : slash + 1);
    for (size_t i = 0; i < RM_COUNTOF(starts); i++)
        if (bytes_starts_with(name, bytes_of(starts[i])))
            return true;
    for (size_t i = 0; i < RM_COUNTOF(parts); i++)
        if (bytes_find_nocase(name, bytes_of(parts[i])) != SIZE_MAX)
            return true;
    return false;
}

static void warn_budget(struct loader *l, const struct route_conf *r, size_t i, struct place at)
{
    const struct link_conf *link = &r->links[i];
    if (link->ttft_budget_ms < REASONING_BUDGET_MS && is_reasoning(link->model))
        fault_warning(&l->log, at,
                      "\"ttft_budget_ms\" %u is under a second for \"%s\", which reasons before it answers",
                      link->ttft_budget_ms, link->model);
    if (i + 1 < r->n_links && link->ttft_budget_ms >= r->deadline_ms)
        fault_warning(&l->log, at,
                      "\"ttft_budget_ms\" %u of link %zu of \"%s\" is not less than \"deadline_ms\" %u: no time is "
                      "left for the next",
                      link->ttft_budget_ms, i + 1, r->model, r->deadline_ms);
}

static void warn_resume(struct loader *l, const struct route_conf *r, struct place at)
{
    if (r->resume && r->n_links < 2)
        fault_warning(&l->log, at, "\"resume\" of \"%s\" does nothing: there is no second link to go on", r->model);
}

static void warn_cache(struct loader *l, const struct route_conf *r, struct place at)
{
    bool has_equals = false, has_prices = true;
    for (size_t i = 0; i < r->n_links; i++) {
        has_equals |= r->links[i].equals != i;
        has_prices &= r->links[i].price != NULL || r->links[i].provider->is_off;
    }
    if (r->cache.affinity != 0 && !has_equals)
        fault_warning(&l->log, at,
                      "\"cache.affinity\" of \"%s\" does nothing: no two neighbouring links serve one model", r->model);
    if (r->cache.goes_back == RETURN_BY_VALUE && !has_prices)
        fault_warning(&l->log, at,
                      "\"cache.return: by_value\" of \"%s\" cannot weigh a link without a known price; give it one in "
                      "\"prices\"",
                      r->model);
}

void advice_route(struct loader *l, const struct route_conf *r, const struct node *at, const struct node *const *items)
{
    warn_resume(l, r, place_of(at));
    warn_cache(l, r, place_of(at));
    for (size_t i = 0; i < r->n_links; i++) {
        struct place link = place_of(items[i]);
        if (link.line < at->line) /* the list stands in `defaults` */
            link = place_of(at);
        warn_shared(l, r, i, link);
        warn_dearer(l, r, i, link);
        warn_keepalive(l, r, i, link);
        warn_budget(l, r, i, link);
    }
}

void advice_tariff(struct loader *l)
{
    for (size_t i = 0; i < l->config->n_prices; i++)
        if (!l->price_is_used[i])
            fault_warning(&l->log, place_of_key(l->price_nodes[i]), "the price of \"%s\" belongs to no link",
                          fault_quote(&l->log, l->price_nodes[i]->key));
}

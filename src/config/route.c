/* routes: built-in defaults, then `defaults`, then the route, then the link, each layer laid over a copy of the one
 * below. So precedence is the order of the copies and is written nowhere else. */
#include "config/loader.h"
#include "price/service_class.h"

enum { SET_MAX = 64, MODEL_BYTES_MAX = 256 };

/* A route's settings with its nested maps already read. */
struct layer {
    struct route_values v;
    struct breaker_conf breaker;
    struct hedge_conf hedge;
    struct cache_conf cache;
    struct auto_conf ttft_auto;
    struct failover_on failover_on;
    unsigned client_routing;
};

/* ---- failover_on ---- */

/* DESIGN 6, "next link by default: yes". context_length and incompatible move on under a condition of their own. */
static const enum outcome moves_on[] = {OUTCOME_RATE_LIMITED, OUTCOME_OVERLOADED,    OUTCOME_QUOTA_EXHAUSTED,
                                        OUTCOME_SERVER_ERROR, OUTCOME_CONNECT_ERROR, OUTCOME_CONNECT_TIMEOUT,
                                        OUTCOME_TTFT_TIMEOUT, OUTCOME_TOTAL_TIMEOUT, OUTCOME_IDLE_TIMEOUT,
                                        OUTCOME_STREAM_ERROR, OUTCOME_PROTOCOL_ERROR};
static const enum outcome may_move_on[] = {OUTCOME_AUTH_ERROR,     OUTCOME_NOT_FOUND,      OUTCOME_CLIENT_ERROR,
                                           OUTCOME_CONTEXT_LENGTH, OUTCOME_CONTENT_POLICY, OUTCOME_INCOMPATIBLE};

static void expand_default(struct failover_on *f)
{
    f->has_default = true;
    for (size_t i = 0; i < RM_COUNTOF(moves_on); i++)
        f->outcomes[moves_on[i]] = true;
}

static void tell_failover_word(struct loader *l, const struct node *item)
{
    const char *words[RM_COUNTOF(moves_on) + RM_COUNTOF(may_move_on) + 2] = {"default"};
    size_t n = 1;
    for (size_t i = 0; i < RM_COUNTOF(moves_on); i++)
        words[n++] = outcome_word(moves_on[i]);
    for (size_t i = 0; i < RM_COUNTOF(may_move_on); i++)
        words[n++] = outcome_word(may_move_on[i]);
    words[n] = NULL;
    fault_error(&l->log, place_of(item),
                "\"failover_on\" holds \"%s\"; expected default, an outcome's word or a status from 400 to 599%s",
                fault_quote(&l->log, item->raw), fault_hint(&l->log, item->raw, words));
}

static bool find_outcome(struct bytes word, enum outcome *out)
{
    bool is_one = outcome_parse(word, out), may = false;
    for (size_t i = 0; is_one && i < RM_COUNTOF(moves_on); i++)
        may |= moves_on[i] == *out;
    for (size_t i = 0; is_one && i < RM_COUNTOF(may_move_on); i++)
        may |= may_move_on[i] == *out;
    return may;
}

static void read_failover_on(struct loader *l, const struct node *list, struct failover_on *f)
{
    *f = (struct failover_on){0};
    NODE_EACH(list, item)
    {
        enum outcome outcome;
        uint64_t status;
        if (item->kind != NODE_SCALAR)
            tell_failover_word(l, item);
        else if (bytes_is(item->text, "default"))
            expand_default(f);
        else if (find_outcome(item->text, &outcome))
            f->outcomes[outcome] = true;
        else if (!bytes_to_u64(item->text, &status) || status < 400 || status > 599)
            tell_failover_word(l, item);
        else if (f->n_statuses == RM_COUNTOF(f->statuses))
            fault_error(&l->log, place_of(item), "\"failover_on\" holds more than 32 statuses");
        else
            f->statuses[f->n_statuses++] = (uint16_t)status;
    }
}

/* ---- client_routing, breaker ---- */

static unsigned read_client_routing(struct loader *l, const struct node *list)
{
    static const char *const words[] = {"order", "ttft", "deadline", "fallback", NULL};
    static const unsigned bits[] = {CLIENT_ORDER, CLIENT_TTFT, CLIENT_DEADLINE, CLIENT_FALLBACK};
    unsigned set = 0;
    NODE_EACH(list, item)
    {
        size_t i = 0;
        while (words[i] != NULL && (item->kind != NODE_SCALAR || !bytes_is(item->text, words[i])))
            i++;
        if (words[i] != NULL)
            set |= bits[i];
        else
            fault_error(&l->log, place_of(item),
                        "\"client_routing\" holds \"%s\"; expected order, ttft, deadline or fallback%s",
                        fault_quote(&l->log, item->raw), fault_hint(&l->log, item->raw, words));
    }
    return set;
}

static void read_breaker(struct loader *l, const struct node *at, struct breaker_conf *b)
{
    if (at->kind == NODE_SCALAR && bytes_is(at->text, "off")) {
        b->is_off = true;
    } else if (at->kind != NODE_MAP) {
        fault_error(&l->log, place_of(at), "\"breaker\" is %s; expected off, or a map of its settings",
                    at->kind == NODE_SCALAR
                        ? arena_printf(&l->log.faults->arena, "\"%s\"", fault_quote(&l->log, at->raw)).p
                        : node_kind_text(at));
    } else {
        b->is_off = false;
        settings_read(&l->reader, SECTION_BREAKER, at, b);
        if (b->cooldown_max_ms < b->cooldown_ms)
            fault_error(&l->log, place_of_key(at), "\"cooldown_max_ms\" %u is less than \"cooldown_ms\" %u",
                        b->cooldown_max_ms, b->cooldown_ms);
    }
}

static void read_hedge(struct loader *l, const struct node *at, struct hedge_conf *h)
{
    if (at->kind == NODE_SCALAR && bytes_is(at->text, "off")) {
        h->is_on = false;
    } else if (at->kind != NODE_MAP) {
        fault_error(&l->log, place_of(at), "\"hedge\" is %s; expected off, or a map of its settings",
                    at->kind == NODE_SCALAR
                        ? arena_printf(&l->log.faults->arena, "\"%s\"", fault_quote(&l->log, at->raw)).p
                        : node_kind_text(at));
    } else {
        h->is_on = true;
        settings_read(&l->reader, SECTION_HEDGE, at, h);
    }
}

static void read_auto(struct loader *l, const struct node *at, struct auto_conf *a)
{
    settings_read(&l->reader, SECTION_AUTO, at, a);
    if (a->max_ms < a->min_ms)
        fault_error(&l->log, place_of_key(at), "\"max_ms\" %u is less than \"min_ms\" %u", a->max_ms, a->min_ms);
    else if (a->fallback_ms < a->min_ms || a->fallback_ms > a->max_ms)
        fault_error(&l->log, place_of_key(at), "\"fallback_ms\" %u is not between \"min_ms\" %u and \"max_ms\" %u",
                    a->fallback_ms, a->min_ms, a->max_ms);
}

/* ---- layers ---- */

static void begin_layer(struct loader *l, struct layer *layer)
{
    *layer = (struct layer){.client_routing = CLIENT_ORDER | CLIENT_TTFT | CLIENT_DEADLINE | CLIENT_FALLBACK};
    settings_defaults(&l->reader, SECTION_ROUTE, &layer->v);
    settings_defaults(&l->reader, SECTION_BREAKER, &layer->breaker);
    settings_defaults(&l->reader, SECTION_HEDGE, &layer->hedge);
    settings_defaults(&l->reader, SECTION_CACHE, &layer->cache);
    settings_defaults(&l->reader, SECTION_AUTO, &layer->ttft_auto);
    expand_default(&layer->failover_on);
}

static void lay_over(struct loader *l, struct layer *layer, const struct node *map)
{
    struct route_values *v = &layer->v;
    v->breaker = v->ttft_auto = v->hedge = v->cache = v->failover_on = v->client_routing = NULL;
    if (node_get(map, "order") != NULL || node_get(map, "chain") != NULL)
        v->order = v->chain = NULL; /* its own way goes before either of the layer below */
    settings_read(&l->reader, SECTION_ROUTE, map, v);
    if (v->breaker != NULL)
        read_breaker(l, v->breaker, &layer->breaker);
    if (v->ttft_auto != NULL)
        read_auto(l, v->ttft_auto, &layer->ttft_auto);
    if (v->hedge != NULL)
        read_hedge(l, v->hedge, &layer->hedge);
    if (v->cache != NULL)
        settings_read(&l->reader, SECTION_CACHE, v->cache, &layer->cache);
    if (v->failover_on != NULL)
        read_failover_on(l, v->failover_on, &layer->failover_on);
    if (v->client_routing != NULL)
        layer->client_routing = read_client_routing(l, v->client_routing);
}

/* ---- links ---- */

static const struct provider_conf *find_provider(struct loader *l, struct bytes name, const struct node *at)
{
    const struct provider_conf *p = config_provider(l->config, name);
    if (p != NULL || at->is_faulty)
        return p;
    bool has_slash = bytes_find_byte(name, '/') != SIZE_MAX;
    fault_error(&l->log, place_of(at), "there is no provider \"%s\"%s", fault_quote(&l->log, at->raw),
                has_slash ? "; to name a model use `chain: [{provider, model}]`" : loader_provider_hint(l, name));
    return NULL;
}

static const char *upstream_model(const struct provider_conf *p, const char *route_model)
{
    for (size_t i = 0; i < p->n_models; i++)
        if (strcmp(p->models[i].client, route_model) == 0)
            return p->models[i].upstream;
    return route_model;
}

static bool is_member_name(struct bytes name)
{
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] <= 0x20 || name.p[i] >= 0x7f || name.p[i] == '"' || name.p[i] == '\\')
            return false;
    return name.n > 0 && name.n <= NAME_BYTES_MAX;
}

static bool may_change(struct loader *l, const char *setting, struct bytes name, struct place at)
{
    static const char *const ours[] = {"model", "stream", "stream_options", "messages"};
    if (!is_member_name(name)) {
        fault_error(&l->log, at, "\"%s\": \"%s\" is not a member of a body", setting, fault_quote(&l->log, name));
        return false;
    }
    for (size_t i = 0; i < RM_COUNTOF(ours); i++) {
        if (!bytes_is(name, ours[i]))
            continue;
        fault_error(&l->log, at, "\"%s\": \"%s\" is the gateway's or the client's own", setting, ours[i]);
        return false;
    }
    return true;
}

static bool is_service(struct bytes member)
{
    return bytes_is(member, "service_tier") || bytes_is(member, "speed");
}

/* The class of service that a link asks for itself: what its attempts cost where the answer does not say. */
static void note_service(struct loader *l, const struct node *item, struct link_conf *link)
{
    char word[SERVICE_BYTES];
    if (!is_service(item->key) || item->kind != NODE_SCALAR)
        return;
    service_class_read(item->text, word);
    bool is_priority =
        bytes_is(item->key, "service_tier") && strcmp(word, "fast") == 0; /* one and the same to OpenAI */
    link->service = is_priority ? "priority" : arena_dup(&l->config->arena, bytes_of(word)).p;
}

static void read_set(struct loader *l, const struct node *map, struct link_conf *link)
{
    struct arena *a = &l->config->arena;
    if (map->n > SET_MAX) {
        fault_error(&l->log, place_of(map), "\"set\" holds more than 64 members");
        return;
    }
    struct set_member *set = ARENA_ARRAY(a, struct set_member, map->n);
    NODE_EACH(map, item)
    {
        if (!may_change(l, "set", item->key, place_of_key(item)))
            continue;
        struct buf json = {0};
        node_json(item, &json);
        set[link->n_set++] = (struct set_member){arena_dup(a, item->key), arena_dup(a, buf_bytes(&json))};
        buf_fini(&json);
        note_service(l, item, link);
    }
    link->set = set;
}

static void read_drop(struct loader *l, const struct node *list, struct link_conf *link)
{
    if (list->n > SET_MAX) {
        fault_error(&l->log, place_of(list), "\"drop\" holds more than 64 members");
        return;
    }
    struct bytes *drop = ARENA_ARRAY(&l->config->arena, struct bytes, list->n);
    NODE_EACH(list, item)
    {
        if (item->kind != NODE_SCALAR)
            fault_error(&l->log, place_of(item), "\"drop\" holds %s; expected the name of a member",
                        node_kind_text(item));
        else if (may_change(l, "drop", item->text, place_of(item)))
            drop[link->n_drop++] = arena_dup(&l->config->arena, item->text);
        link->drops_service |= item->kind == NODE_SCALAR && is_service(item->text);
    }
    link->drop = drop;
    for (size_t i = 0; i < link->n_drop; i++)
        for (size_t k = 0; k < link->n_set; k++)
            if (bytes_eq(drop[i], link->set[k].name))
                fault_error(&l->log, place_of(list), "\"%s\" stands in \"set\" and in \"drop\"", drop[i].p);
}

static struct link_values inherit(struct loader *l, const struct route_values *v)
{
    struct link_values link = {0};
    settings_defaults(&l->reader, SECTION_LINK, &link);
    link.ttft_budget_ms = v->ttft_budget_ms;
    link.connect_timeout_ms = v->connect_timeout_ms;
    link.idle_timeout_ms = v->idle_timeout_ms;
    link.total_budget_ms = v->total_budget_ms;
    link.retries = v->retries;
    return link;
}

static void read_supports(struct loader *l, const struct node *map, struct link_conf *link)
{
    struct supports_values s = {0};
    settings_read(&l->reader, SECTION_SUPPORTS, map, &s);
    link->supports.json_schema = (enum tristate)s.json_schema;
    link->supports.tools = (enum tristate)s.tools;
    link->supports.vision = (enum tristate)s.vision;
    link->supports.prefill = (enum tristate)s.prefill;
    link->supports.stream_usage = (enum tristate)s.stream_usage;
    link->supports.cache_retention = (enum tristate)s.cache_retention;
}

static void fill_link(struct loader *l, struct link_conf *link, const struct link_values *v)
{
    link->ttft_budget_ms = v->ttft_budget_ms;
    link->connect_timeout_ms = v->connect_timeout_ms;
    link->idle_timeout_ms = v->idle_timeout_ms;
    link->total_budget_ms = v->total_budget_ms;
    link->retries = v->retries;
    link->context_window = v->context_window;
    link->max_output = v->max_output;
    link->adjust = (enum adjust)v->adjust;
    if (v->supports != NULL)
        read_supports(l, v->supports, link);
    if (v->set != NULL)
        read_set(l, v->set, link);
    if (v->drop != NULL)
        read_drop(l, v->drop, link);
}

/* An item of `order` (a provider's name) or of `chain` (a map). False when it cannot be a link. */
static bool read_link(struct loader *l, const struct route_values *v, const struct node *item, bool is_chain,
                      struct link_conf *link)
{
    struct link_values values = inherit(l, v);
    struct bytes name = item->text;
    const struct node *at = item;
    if (is_chain) {
        if (!settings_read(&l->reader, SECTION_LINK, item, &values))
            return false;
        at = node_get(item, "provider");
        if (at == NULL)
            fault_error(&l->log, place_of(item), "a link has no \"provider\"");
        name = bytes_of(values.provider);
    } else if (item->kind != NODE_SCALAR || node_is_empty(item)) {
        fault_error(&l->log, place_of(item), "\"order\" holds %s; expected a provider's name", node_kind_text(item));
        return false;
    }
    fill_link(l, link, &values);
    if (at == NULL || (is_chain && values.provider == NULL))
        return false;
    link->provider = find_provider(l, name, at);
    if (link->provider == NULL)
        return false;
    link->model =
        values.model != NULL && values.model[0] != '\0' ? values.model : upstream_model(link->provider, v->model);
    bool is_standin;
    link->fare = tariff_find(l, link->provider, link->model);
    link->price = fare_at(link->fare, "", l->known->wall_ms, &is_standin);
    return true;
}

/* The list that says the links; NULL after telling why there is none. */
static const struct node *choose_list(struct loader *l, const struct route_values *v, const struct node *at)
{
    const struct node *list = v->chain != NULL ? v->chain : v->order;
    if (v->order != NULL && v->chain != NULL) {
        fault_error(&l->log, place_of_key(v->chain), "\"order\" and \"chain\" exclude each other; keep one");
        return NULL;
    }
    if (list == NULL) {
        bool is_written = node_get(at, "order") != NULL || node_get(at, "chain") != NULL;
        fault_error(&l->log, place_of(at), "%s; expected \"order\" (providers) or \"chain\" (links)",
                    is_written ? "the route's list of links cannot be read" : "the route has no links");
    } else if (list->n == 0) {
        fault_error(&l->log, place_of(list), "\"%s\" is empty; expected at least one %s",
                    v->chain != NULL ? "chain" : "order", v->chain != NULL ? "link" : "provider");
    } else if (list->n > LINKS_MAX) {
        fault_error(&l->log, place_of(list), "%zu links; a route has at most 64", list->n);
    } else {
        return list;
    }
    return NULL;
}

/* Neighbours that serve one model: of an `order` all, of a `chain` those of one name. */
static void join_equals(struct route_conf *r, bool is_chain)
{
    for (size_t i = 0; i < r->n_links; i++) {
        struct link_conf *link = &r->links[i];
        bool is_equal = i > 0 && r->cache.affinity != 0 && (!is_chain || strcmp(link->model, link[-1].model) == 0);
        link->equals = is_equal ? link[-1].equals : (uint16_t)i;
    }
}

static void read_links(struct loader *l, struct route_conf *r, const struct route_values *v, const struct node *at)
{
    const struct node *list = choose_list(l, v, at);
    if (list == NULL)
        return;
    const struct node **items = ARENA_ARRAY(&l->scratch, const struct node *, list->n);
    r->links = ARENA_ARRAY(&l->config->arena, struct link_conf, list->n);
    NODE_EACH(list, item)
    {
        struct link_conf *link = &r->links[r->n_links];
        link->index = (uint16_t)r->n_links;
        items[r->n_links] = item;
        if (!read_link(l, v, item, v->chain != NULL, link)) {
            *link = (struct link_conf){0};
            continue;
        }
        link->is_auto_budget = link->ttft_budget_ms == 0;
        if (link->is_auto_budget)
            link->ttft_budget_ms = r->ttft_auto.fallback_ms;
        r->n_links++;
    }
    join_equals(r, v->chain != NULL);
    advice_route(l, r, at, items);
}

/* ---- routes ---- */

static void check_model(struct loader *l, const struct route_conf *r, const struct node *at)
{
    const struct node *model = node_get(at, "model");
    if (model == NULL)
        fault_error(&l->log, place_of(at), "the route has no \"model\"");
    else if (strlen(r->model) > MODEL_BYTES_MAX)
        fault_error(&l->log, place_of(model), "\"model\" is longer than 256 bytes");
    for (size_t i = 0; model != NULL && r->model[0] != '\0' && i < r->index; i++) {
        if (strcmp(l->config->routes[i].model, r->model) != 0)
            continue;
        fault_error(&l->log, place_of(model), "the model \"%s\" has a route already", fault_quote(&l->log, model->raw));
        return;
    }
}

static void read_route(struct loader *l, struct route_conf *r, const struct layer *below, const struct node *at)
{
    struct layer layer = *below;
    if (at->kind != NODE_MAP) {
        settings_read(&l->reader, SECTION_ROUTE, at, &layer.v); /* tells it */
        r->model = "";
        return;
    }
    lay_over(l, &layer, at);
    const struct route_values *v = &layer.v;
    if (layer.v.model == NULL)
        layer.v.model = "";
    r->model = v->model;
    check_model(l, r, at);
    r->deadline_ms = v->deadline_ms;
    r->upstream_stream = (enum upstream_stream)v->upstream_stream;
    r->max_attempts = v->max_attempts;
    r->wait_retry_after_ms = v->wait_retry_after_ms;
    r->failover_on = layer.failover_on;
    r->on_bad_event = (enum bad_event)v->on_bad_event;
    r->resume = v->resume != 0;
    r->breaker = layer.breaker;
    r->hedge = layer.hedge;
    r->cache = layer.cache;
    r->ttft_auto = layer.ttft_auto;
    r->ttft_auto.is_shadow = v->ttft_budget_mode != 0;
    r->keepalive_sec = v->keepalive_sec;
    r->keepalive_idle_stop_sec = v->keepalive_idle_stop_sec;
    r->keepalive_max_nusd_per_day = v->keepalive_max_usd_per_day;
    r->heartbeat_ms = v->heartbeat_ms;
    r->client_routing = layer.client_routing;
    read_links(l, r, v, at);
}

void route_load(struct loader *l)
{
    struct config *c = l->config;
    const struct node *list = l->file.routes;
    struct layer below;
    begin_layer(l, &below);
    if (l->file.defaults != NULL) {
        const struct node *model = node_get(l->file.defaults, "model");
        if (model != NULL)
            fault_error(&l->log, place_of_key(model), "\"model\" belongs to a route, not to \"defaults\"");
        lay_over(l, &below, l->file.defaults);
        below.v.model = NULL;
    }
    if (list == NULL || list->n == 0) {
        fault_error(&l->log, list == NULL ? (struct place){0} : place_of(list),
                    "no routes; expected `routes: [{model, order}]`");
        return;
    }
    if (list->n > ROUTES_MAX) {
        fault_error(&l->log, place_of(list), "more than 10000 routes");
        return;
    }
    c->routes = ARENA_ARRAY(&c->arena, struct route_conf, list->n);
    NODE_EACH(list, item)
    {
        struct route_conf *r = &c->routes[c->n_routes];
        r->index = (uint16_t)c->n_routes++;
        read_route(l, r, &below, item);
    }
}

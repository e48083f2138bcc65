/* Each draw is a statement of its own: the order in which an initialiser's parts are evaluated is the compiler's.
 *
 * Who is in the story: providers, two routes over the same targets, and the guests with their manners. Times are mostly
 * multiples of 50 ms, so that events meet budgets, deadlines and each other exactly. */
#include "sim/inside.h"

static const char *const provider_names[WORLD_PROVIDERS] = {"alpha", "beta", "gamma", "delta"};
static const char *const host_names[WORLD_PROVIDERS] = {"a.test", "b.test", "c.test", "d.test"};
static const char *const model_names[] = {"large", "small"};

static bool chance(struct rng *rng, unsigned percent)
{
    return rng_below(rng, 100) < percent;
}

static uint32_t one_of(struct rng *rng, const uint32_t *v, size_t n)
{
    return v[rng_below(rng, n)];
}
#define ONE_OF(rng, ...) one_of(rng, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

uint64_t cast_span(struct rng *rng, uint64_t max_ms)
{
    uint64_t us = rng_below(rng, max_ms / 50 + 1) * 50000;
    switch (rng_below(rng, 10)) {
    case 0:
        return us + 1;
    case 1:
        return us > 0 ? us - 1 : 0;
    case 2:
        return us + rng_below(rng, 50000);
    default:
        return us;
    }
}

static void cast_providers(struct world *w)
{
    for (size_t i = 0; i < WORLD_PROVIDERS; i++) {
        w->providers[i] = (struct provider_conf){.name = provider_names[i],
                                                 .dialect = "openai",
                                                 .vendor = "",
                                                 .url = {.host = host_names[i], .authority = host_names[i]},
                                                 .index = (uint16_t)i};
        w->providers[i].is_off = chance(&w->rng, 6);

        w->prices[i] = (struct price){
            .cache_read = -1, .cache_write_5m = -1, .cache_write_1h = -1, .version = "sim", .source = ""};
        w->prices[i].input = (int64_t)rng_below(&w->rng, 5000000);
        w->prices[i].output = (int64_t)rng_below(&w->rng, 30000000);
    }
}

/* What each provider bills of what is broken off. By a chance of its own, so that the stories stay what they were. */
static void cast_billing(struct world *w)
{
    struct rng rng = {.state = w->conf->seed ^ UINT64_C(0x62696c6c)};
    for (size_t i = 0; i < WORLD_PROVIDERS; i++)
        for (unsigned when = 0; when < ABORT_N_WHENS; when++)
            w->providers[i].aborts[when] =
                (struct abort_billing){(enum abort_rule)rng_below(&rng, ABORT_N_RULES), ABORT_CONFIGURED};
    for (size_t i = 0; i < w->n_guests; i++)
        if (chance(&rng, 50))
            w->guests[i].call.max_tokens = 1 + (int64_t)rng_below(&rng, 4000);
}

static void cast_link(struct world *w, struct link_conf *l, size_t at)
{
    struct rng *rng = &w->rng;
    size_t p = rng_below(rng, WORLD_PROVIDERS);
    *l = (struct link_conf){.provider = &w->providers[p], .connect_timeout_ms = 400, .index = (uint16_t)at};
    l->model = model_names[rng_below(rng, 2)];
    l->ttft_budget_ms = ONE_OF(rng, 200, 500, 1000, 2000);
    l->idle_timeout_ms = ONE_OF(rng, 300, 1000);
    l->total_budget_ms = ONE_OF(rng, 800, 3000);
    l->retries = (uint32_t)rng_below(rng, 3);
    l->context_window = (int64_t)ONE_OF(rng, 0, 0, 0, 1000, 8000, 128000);
    l->price = chance(rng, 80) ? &w->prices[p] : NULL;

    l->supports.tools = chance(rng, 10) ? NO : UNSET;
    l->supports.stream_usage = chance(rng, 10) ? NO : UNSET;
    l->supports.prefill = (enum tristate)rng_below(rng, 3);
}

static void cast_route(struct world *w, size_t at)
{
    struct rng *rng = &w->rng;
    struct route_conf *r = &w->routes[at];
    *r = (struct route_conf){.model = at == 0 ? "main" : "side", .links = w->links[at], .index = (uint16_t)at};
    r->n_links = at == 0 ? 1 + rng_below(rng, WORLD_LINKS) : 1 + rng_below(rng, 2);
    if (w->is_choppy && at == 0)
        r->n_links = WORLD_LINKS;
    r->deadline_ms = ONE_OF(rng, 500, 1000, 3000, 8000);
    r->upstream_stream = (enum upstream_stream)rng_below(rng, 3);
    r->max_attempts = ONE_OF(rng, 1, 2, 4, 8, 8);
    r->wait_retry_after_ms = ONE_OF(rng, 0, 500);
    r->heartbeat_ms = ONE_OF(rng, 0, 0, 300);
    r->hedge = (struct hedge_conf){.is_on = chance(rng, 25), .max_extra_permyriad = 5000};
    r->hedge.after_ms = ONE_OF(rng, 50, 100, 200, 500);
    r->hedge.max_per_minute = ONE_OF(rng, 3, 60);
    r->resume = w->is_choppy || chance(rng, 40);

    r->failover_on.has_default = true;
    r->failover_on.outcomes[OUTCOME_AUTH_ERROR] = chance(rng, 20);
    r->breaker =
        (struct breaker_conf){.ratio_permille = 500, .ratio_min = 10, .window_ms = 30000, .cooldown_max_ms = 60000};
    r->breaker.is_off = chance(rng, w->is_choppy ? 60 : 10);
    r->breaker.failures = ONE_OF(rng, 2, 5);
    r->breaker.cooldown_ms = ONE_OF(rng, 500, 5000);

    for (size_t i = 0; i < r->n_links; i++)
        cast_link(w, &r->links[i], i);
}

static void cast_directive(struct world *w, struct guest *g)
{
    struct rng *rng = &w->rng;
    g->directive = (struct directive){0};
    if (chance(rng, 8))
        g->directive.ttft_ms = ONE_OF(rng, 100, 200);
    if (chance(rng, 8))
        g->directive.deadline_ms = ONE_OF(rng, 300, 500);
    g->directive.fallback_off = chance(rng, 5);
    if (chance(rng, 10)) {
        for (size_t i = 0; i < g->route->n_links; i++)
            g->order[i] = &g->route->links[g->route->n_links - 1 - i];
        g->directive.order = g->order;
        g->directive.n_order = (uint16_t)g->route->n_links;
    }
    bool is_ordered = g->directive.order != NULL;
    g->n_chain = g->directive.fallback_off ? 1 : g->route->n_links;
    for (size_t i = 0; i < g->n_chain; i++)
        g->chain[i] = is_ordered ? g->order[i] : &g->route->links[i];
}

static void cast_guest(struct world *w, size_t at, uint64_t arrive_us)
{
    struct rng *rng = &w->rng;
    struct guest *g = &w->guests[at];
    *g = (struct guest){.index = at, .arrive_us = arrive_us};
    g->route = &w->routes[chance(rng, 80) ? 0 : 1];

    g->call = (struct call){.max_tokens = -1};
    g->call.is_stream = chance(rng, 70);
    g->call.has_tools = chance(rng, 15);
    g->call.n = chance(rng, 4) ? 2 : 1;
    g->call.has_json_schema = chance(rng, 5);
    g->call.state = chance(rng, 4) ? BYTES("resp_1") : (struct bytes){NULL, 0};
    g->call.prompt_bytes = ONE_OF(rng, 0, 7, 400, 3640, 20000);

    for (size_t i = 0; i < WORLD_LINKS; i++)
        g->unbuildable |= chance(rng, 2) ? UINT32_C(1) << i : 0;
    cast_directive(w, g);
    uint64_t ms = g->route->deadline_ms;
    if (g->directive.deadline_ms != 0 && g->directive.deadline_ms < ms)
        ms = g->directive.deadline_ms;
    g->deadline_us = arrive_us + ms * 1000;
    g->start = (struct relay_start){.config = &w->config,
                                    .route = g->route,
                                    .directive = &g->directive,
                                    .call = &g->call,
                                    .id = at + 1,
                                    .now_us = arrive_us,
                                    .key = "",
                                    .dialect = "openai",
                                    .trace_id = ""};
    world_queue(w, (struct thing){.at_us = arrive_us, .kind = THING_ARRIVE, .guest = at});
    if (chance(rng, 10))
        world_queue(w, (struct thing){.at_us = arrive_us + cast_span(rng, 3000), .kind = THING_LEAVE, .guest = at});
    if (chance(rng, 3))
        world_queue(w, (struct thing){.at_us = arrive_us + cast_span(rng, 3000), .kind = THING_DRAIN, .guest = at});
    if (chance(rng, 12)) {
        uint64_t at_us = arrive_us + cast_span(rng, 2000);
        world_queue(w, (struct thing){.at_us = at_us, .kind = THING_PAUSE, .guest = at});
        at_us += 1 + cast_span(rng, 2000); /* after the pause, always */
        world_queue(w, (struct thing){.at_us = at_us, .kind = THING_RESUME, .guest = at});
    }
}

void cast_world(struct world *w)
{
    cast_providers(w);
    w->config = (struct config){
        .providers = w->providers, .n_providers = WORLD_PROVIDERS, .routes = w->routes, .n_routes = WORLD_ROUTES};
    w->is_choppy = chance(&w->rng, 20);
    w->config.limits.gate_bytes = ONE_OF(&w->rng, 60, 262144);
    for (size_t i = 0; i < WORLD_ROUTES; i++)
        cast_route(w, i);
    enum err e = plan_bind(w->registry, &w->config);
    RM_ASSERT(e == ERR_OK);
    w->n_guests = 2 + rng_below(&w->rng, WORLD_REQUESTS - 2);
    uint64_t at_us = WORLD_START_US;
    for (size_t i = 0; i < w->n_guests; i++) {
        cast_guest(w, i, at_us);
        at_us += chance(&w->rng, 30) ? 0 : cast_span(&w->rng, 1500);
    }
    cast_billing(w);
}

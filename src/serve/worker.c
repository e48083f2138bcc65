#include "serve/worker.h"

#include "base/log.h"
#include "base/mem.h"
#include "codec/json_write.h"
#include "net/listen.h"
#include "serve/flight.h"
#include "serve/standby.h"

#include <unistd.h>

enum { DRAIN_LOOK_US = 10000 };

/* ---- what the front asks of us ---- */

static void on_call(struct client_call *c, void *arg)
{
    flight_start(arg, c);
}

static void on_gone(struct client_call *c, bool is_stall, void *arg)
{
    (void)arg;
    if (c->owner != NULL)
        flight_client_gone(c->owner, is_stall);
}

static void on_writable(struct client_call *c, void *arg)
{
    (void)arg;
    if (c->owner != NULL)
        flight_writable(c->owner);
}

static struct config *current_config(void *arg)
{
    return ((struct worker *)arg)->config;
}

static uint64_t new_id(void *arg)
{
    struct worker *w = arg;
    return ledger_new_id(loop_turn_wall_ms(w->loop), w->core, &w->id_counter);
}

static void on_refused(const struct request_record *rec, void *arg)
{
    struct worker *w = arg;
    stats_add(&w->stats.refused, 1);
    if (w->ring != NULL)
        (void)ledger_put(w->ring, rec);
}

/* What /readyz tells: draining, the ledger's state, providers that are off for want of a key. */
static void tell_ready(struct front_ready *out, struct arena *a, void *arg)
{
    struct worker *w = arg;
    struct ledger_stats ledger = {0};
    if (w->ledger != NULL)
        ledger_stats(w->ledger, &ledger);
    struct buf text = {0};
    struct json_writer j;
    jw_init(&j, &text);
    jw_object(&j);
    jw_key(&j, "status");
    jw_cstr(&j, w->is_draining ? "draining" : ledger.is_degraded ? "degraded" : "ready");
    jw_key(&j, "ledger");
    jw_cstr(&j, w->config->ledger[0] == '\0' ? "off" : ledger.is_degraded ? "degraded" : "ok");
    jw_key(&j, "providers_off");
    jw_array(&j);
    for (size_t i = 0; i < w->config->n_providers; i++)
        if (w->config->providers[i].is_off)
            jw_cstr(&j, w->config->providers[i].name);
    jw_end(&j);
    jw_end(&j);
    out->is_draining = w->is_draining;
    out->is_degraded = ledger.is_degraded;
    out->text = arena_dup(a, buf_bytes(&text)).p;
    buf_fini(&text);
}

/* ---- accepting ---- */

static void on_stream(struct acceptor *a, struct stream *s)
{
    front_accept(RM_CONTAINER(a, struct worker, acceptor)->front, s);
}

static void on_short(struct acceptor *a, bool is_news)
{
    struct worker *w = RM_CONTAINER(a, struct worker, acceptor);
    if (is_news)
        LOG(LOG_WARN, "serve", "-", "out of descriptors: accepting is paused; raise the limit (ulimit -n)");
    upstream_prune(w->upstream, NULL); /* an idle connection to a provider is worth less than a client */
}

/* ---- life ---- */

/* A request is over for the books when its answer is made; its last bytes may still wait for a slow client. */
static void look_drained(struct timer *t)
{
    struct worker *w = RM_CONTAINER(t, struct worker, drain_look);
    if (list_is_empty(&w->flights) && front_n_conns(w->front) == 0)
        atomic_store_explicit(&w->is_drained, true, memory_order_relaxed);
    else
        timer_arm(w->loop, t, loop_now_us(w->loop) + DRAIN_LOOK_US);
}

/* What the descriptors carry bounds what the configuration wants. */
static uint64_t connections_of(const struct worker *w)
{
    uint64_t wanted = w->config->limits.connections;
    return w->connections_max != 0 && w->connections_max < wanted ? w->connections_max : wanted;
}

static struct server_limits limits_of(const struct worker *w)
{
    const struct config *c = w->config;
    const struct limits_conf *l = &c->limits;
    uint32_t share = c->workers > 0 ? c->workers : 1;
    return (struct server_limits){.head = {.bytes = l->header_bytes, .fields = l->headers},
                                  .body_bytes = l->body_bytes,
                                  .memory_bytes = l->memory / share,
                                  .head_timeout_ms = (uint32_t)l->head_timeout_ms,
                                  .body_timeout_ms = (uint32_t)l->body_timeout_ms,
                                  .client_idle_ms = (uint32_t)l->client_idle_ms,
                                  .client_stall_ms = (uint32_t)l->client_stall_ms,
                                  .requests_per_connection = (uint32_t)l->requests_per_connection,
                                  .connections = (uint32_t)((connections_of(w) + share - 1) / share)};
}

/* When each route was used last. A route that was in use before a reload is in use after it. */
static void fit_routes(struct worker *w, const struct config *old)
{
    uint64_t *used_us = mem_zalloc_lines(w->config->n_routes * sizeof *used_us);
    for (size_t i = 0; old != NULL && i < w->config->n_routes; i++) {
        const struct route_conf *was = config_route(old, bytes_of(w->config->routes[i].model));
        used_us[i] = was != NULL ? w->route_used_us[was->index] : 0;
    }
    mem_free(w->route_used_us);
    w->route_used_us = used_us;
    w->n_route_used = w->config->n_routes;
}

struct worker *worker_new(const struct worker_options *o)
{
    static const struct front_handler handler = {.on_call = on_call,
                                                 .on_gone = on_gone,
                                                 .on_writable = on_writable,
                                                 .ready = tell_ready,
                                                 .config = current_config,
                                                 .new_id = new_id,
                                                 .on_refused = on_refused};
    struct loop *loop = loop_new();
    if (loop == NULL)
        return NULL;
    struct worker *w = mem_zalloc_lines(sizeof *w); /* stats begin a line of their own */
    w->core = o->core;
    w->loop = loop;
    w->connections_max = o->connections_max;
    w->config = config_of_core(o->config);
    w->registry = registry_of_core(o->registry, o->core);
    w->ledger = o->ledger;
    w->ring = o->ledger ? ledger_ring(o->ledger, o->core) : NULL;
    w->rng.state = o->seed;
    w->caches = cache_memory_new();
    w->hedges = hedge_book_new();
    w->env = (struct relay_env){.registry = w->registry, .rng = &w->rng, .hedges = w->hedges};
    if (o->latency != NULL)
        w->env.latency = latency_core(o->latency, o->core);
    if (o->ratios != NULL)
        w->env.ratios = ratio_core(o->ratios, o->core);
    list_init(&w->flights);
    list_init(&w->probes);
    w->resolver = resolver_new(w->loop, o->config->resolver_is_system ? RESOLVER_SYSTEM : RESOLVER_CARES);
    w->upstream = upstream_new(w->loop, w->resolver);
    struct server_limits limits = limits_of(w);
    w->front = front_new(w->loop, &limits, &handler, w);
    w->listen_fd = o->listen_fd;
    w->acceptor = (struct acceptor){.on_stream = on_stream, .on_short = on_short};
    w->drain_look.fn = look_drained;
    fit_routes(w, NULL);
    standby_init(w);
    return w;
}

void worker_run(struct worker *w)
{
    if (acceptor_open(&w->acceptor, w->loop, w->listen_fd) != ERR_OK)
        LOG(LOG_ERROR, "serve", "-", "cannot watch the listener");
    loop_run(w->loop);
}

uint64_t worker_in_flight(const struct worker *w)
{
    return atomic_load_explicit(&w->stats.in_flight, memory_order_relaxed);
}

/* ---- orders from the main thread ---- */

struct order {
    struct mail mail;
    struct worker *worker;
    struct config *config;
    _Atomic unsigned *n_cut;
};

static void send_order(struct worker *w, void (*fn)(struct mail *), struct config *config, _Atomic unsigned *n_cut)
{
    struct order *o = mem_zalloc(sizeof *o);
    o->mail.fn = fn;
    o->worker = w;
    o->config = config;
    o->n_cut = n_cut;
    loop_mail(w->loop, &o->mail);
}

static void do_reload(struct mail *m)
{
    struct order *o = RM_CONTAINER(m, struct order, mail);
    struct worker *w = o->worker;
    struct config *old = w->config;
    w->config = config_of_core(o->config);
    config_unref(o->config);
    struct server_limits limits = limits_of(w);
    front_set_limits(w->front, &limits);
    fit_routes(w, old);
    upstream_prune(w->upstream, w->config);
    if (!w->is_draining)
        standby_reload(w);
    config_unref(old);
    mem_free(o);
}

void worker_reload(struct worker *w, struct config *now)
{
    send_order(w, do_reload, config_ref(now), NULL);
}

static void do_rest(struct mail *m)
{
    struct order *o = RM_CONTAINER(m, struct order, mail);
    if (worker_in_flight(o->worker) == 0) {
        front_rest(o->worker->front);
        upstream_rest(o->worker->upstream);
        mem_shelf_open(); /* empties it first */
        mem_trim();
    }
    mem_free(o);
}

void worker_rest(struct worker *w)
{
    send_order(w, do_rest, NULL, NULL);
}

bool worker_is_drained(const struct worker *w)
{
    return atomic_load_explicit(&w->is_drained, memory_order_relaxed);
}

static void do_drain(struct mail *m)
{
    struct order *o = RM_CONTAINER(m, struct order, mail);
    struct worker *w = o->worker;
    if (!w->is_draining) {
        w->is_draining = true;
        acceptor_close(&w->acceptor);
        front_drain(w->front);
        standby_stop(w);
        look_drained(&w->drain_look);
    }
    mem_free(o);
}

void worker_drain(struct worker *w)
{
    send_order(w, do_drain, NULL, NULL);
}

static void do_cut(struct mail *m)
{
    struct order *o = RM_CONTAINER(m, struct order, mail);
    struct worker *w = o->worker;
    while (!list_is_empty(&w->flights)) {
        struct flight *f = flight_of_node(w->flights.next);
        if (o->n_cut != NULL)
            atomic_fetch_add(o->n_cut, 1);
        flight_drain(f);
    }
    front_close(w->front);
    standby_stop(w);
    timer_cancel(w->loop, &w->drain_look);
    upstream_prune(w->upstream, NULL);
    loop_stop(w->loop);
    mem_free(o);
}

void worker_cut(struct worker *w, _Atomic unsigned *n_cut)
{
    send_order(w, do_cut, NULL, n_cut);
}

void worker_free(struct worker *w)
{
    if (w == NULL)
        return;
    for (int i = 0; i < 4; i++)
        loop_turn(w->loop, 0);
    acceptor_close(&w->acceptor);
    timer_cancel(w->loop, &w->drain_look);
    timer_cancel(w->loop, &w->standby_timer);
    front_free(w->front);
    upstream_free(w->upstream);
    resolver_free(w->resolver);
    loop_turn(w->loop, 0);
    loop_free(w->loop);
    config_unref(w->config);
    registry_free(w->registry);
    cache_memory_free(w->caches);
    mem_free(w->route_used_us);
    hedge_book_free(w->hedges);
    mem_free(w);
}

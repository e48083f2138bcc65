/* A probe is one exchange without a client: its answer is counted and priced, its bytes go nowhere. It ends at the
 * provider's end, at a failure, or at the link's first-token budget. */
#include "serve/standby.h"

#include "base/mem.h"
#include "dialect/dialect.h"
#include "plan/standby.h"
#include "plan/verdict.h"
#include "relay/meter.h"
#include "serve/worker.h"

enum { LOOK_EVERY_US = 1000000, LOOK_SOON_US = 20000, PROBES_PER_LOOK = 16, PROMPT_BYTES = 1 };

struct probe {
    struct worker *worker;
    struct config *config;
    const struct route_conf *route;
    const struct link_conf *link;
    struct exchange *exchange;
    struct buf body;
    struct bytes piece;
    struct timer timer;
    struct reap reap;
    struct list node;
    struct attempt_record record;
    char provider_id[PROVIDER_ID_BYTES], words[METER_WORDS]; /* the record's */
    struct usage usage;
    uint64_t start_us, text_bytes;
    int64_t started_wall_ms;
    uint64_t id;
    struct trial trial; /* a keepalive may be the one trial of an open target */
    struct buf service; /* class of service as the answer told */
};

static void release_probe(struct reap *r)
{
    struct probe *p = RM_CONTAINER(r, struct probe, reap);
    buf_fini(&p->body);
    buf_fini(&p->service);
    config_unref(p->config);
    mem_free(p);
}

static int64_t since(const struct probe *p)
{
    return (int64_t)(loop_now_us(p->worker->loop) - p->start_us);
}

/* Metered as an attempt of a request is: a call for one token of output. */
static void meter(struct probe *p, const struct failure *f)
{
    const struct call call = {.is_stream = true, .max_tokens = 1, .n = 1, .prompt_bytes = PROMPT_BYTES};
    struct attempt_record *rec = &p->record;
    struct attempt a;
    attempt_init(&a, p->link, rec, p->start_us, p->start_us);
    meter_open(&a, &call, false, p->started_wall_ms);
    if (p->service.n > 0)
        meter_hear(&a, buf_bytes(&p->service));
    if (rec->ttft_us >= 0)
        attempt_move(&a, ATTEMPT_FLOWING);
    a.is_stream = true;
    a.is_sent = f == NULL || !f->is_unsent;
    rec->tokens = p->usage;
    a.text_bytes = p->text_bytes;
    meter_close(&a, &call, f, p->worker->env.ratios);
    if (meter_words(rec, p->words))
        rec->decision = p->words;
}

/* A keepalive's 4xx says nothing of the target's health, except where it tells of our account or key. A trial that it
 * held is given back by each way out. */
static void settle(struct probe *p, const struct failure *f)
{
    struct registry *r = p->worker->registry;
    uint16_t target = p->link->target_id, credential = p->link->provider->credential_id;
    uint64_t now = loop_now_us(p->worker->loop);
    struct verdict_ask ask = {.failure = f, .route = p->route, .head_us = -1};
    bool is_4xx = f != NULL && f->status >= 400 && f->status < 500;
    enum effect effect = f != NULL ? verdict_of(&ask).effect : EFFECT_NEUTRAL;
    if (f == NULL)
        registry_good(r, target, credential, now, &p->trial);
    else if (effect == EFFECT_HINT && f->retry_after_ms >= 0)
        registry_hint(r, target, now, f->retry_after_ms, &p->worker->rng, &p->trial);
    else if (effect == EFFECT_QUOTA)
        registry_quota(r, credential, now, f->retry_after_ms, &p->trial);
    else if (effect == EFFECT_AUTH)
        registry_auth(r, credential, now, &p->trial);
    else if ((effect == EFFECT_COUNTS || effect == EFFECT_HINT) && !is_4xx)
        registry_bad(r, target, now, false, &p->route->breaker, &p->worker->rng, &p->trial);
    else
        registry_neutral(r, &p->trial, now);
}

static void end_probe(struct probe *p, const struct failure *f)
{
    struct worker *w = p->worker;
    struct attempt_record *a = &p->record;
    a->outcome = f ? f->outcome : OUTCOME_OK;
    a->in_stream = f != NULL && f->in_stream;
    a->total_us = since(p);
    a->connect_us = exchange_reached(p->exchange).connect_us;
    if (f != NULL)
        a->retry_after_ms = f->retry_after_ms;
    meter(p, f);
    settle(p, f);
    registry_touch(w->registry, p->link->target_id, loop_now_us(w->loop));
    (void)registry_keepalive_spend(w->registry, p->link->target_id, p->started_wall_ms / 86400000, a->cost_nusd,
                                   p->route->keepalive_max_nusd_per_day);
    if (w->ring != NULL)
        (void)ledger_put_keepalive(w->ring, p->id, p->started_wall_ms, a);
    stats_add(&w->stats.keepalives, 1);
    exchange_close(p->exchange);
    p->exchange = NULL;
    timer_cancel(w->loop, &p->timer);
    list_del(&p->node);
    loop_reap(w->loop, &p->reap);
}

static void count_events(struct probe *p, const struct output *x)
{
    for (size_t i = 0; i < x->n; i++) {
        bool tells = x->v[i].kind == EVENT_USAGE || x->v[i].kind == EVENT_START;
        if (x->v[i].kind == EVENT_USAGE)
            usage_merge(&p->usage, &x->v[i].usage);
        if (tells && x->v[i].name.n > 0) {
            p->service.n = 0;
            buf_put(&p->service, x->v[i].name);
        }
        p->text_bytes += x->v[i].text_bytes;
        if (x->v[i].is_token && p->record.ttft_us < 0)
            p->record.ttft_us = since(p);
    }
}

static void note_head(struct probe *p, const struct exchange_event *x)
{
    p->record.status = (uint16_t)x->status;
    p->record.first_byte_us = since(p);
    failure_text(p->provider_id, sizeof p->provider_id, x->provider_request_id);
    p->record.provider_request_id = p->provider_id;
}

static void on_probe_ready(struct exchange *x, void *arg)
{
    struct probe *p = arg;
    struct exchange_event ev;
    while (p->exchange == x) {
        exchange_next(x, &ev);
        switch (ev.kind) {
        case EXCHANGE_NOTHING:
            return;
        case EXCHANGE_HEAD:
            note_head(p, &ev);
            break;
        case EXCHANGE_OUTPUT:
            count_events(p, &ev.out);
            break;
        case EXCHANGE_ENDED:
            end_probe(p, NULL);
            break;
        case EXCHANGE_FAILED: {
            struct failure f = *ev.failure;
            if (p->record.status == 0)
                p->record.status = f.status;
            end_probe(p, &f);
            break;
        }
        case EXCHANGE_REPLAYED:
        case EXCHANGE_FLUSH:
            break;
        }
    }
}

static void on_probe_timer(struct timer *t)
{
    struct probe *p = RM_CONTAINER(t, struct probe, timer);
    struct failure f;
    failure_make(&f, OUTCOME_TTFT_TIMEOUT, "no first token within the budget");
    end_probe(p, &f);
}

static void open_probe(struct probe *p)
{
    struct worker *w = p->worker;
    const struct link_conf *link = p->link;
    const struct dialect *target = dialect_by_name(bytes_of(link->provider->dialect));
    struct profile profile = link->profile;
    profile.is_stream = profile.is_keepalive = true;
    profile.adds_usage = link->supports.stream_usage != NO;
    profile.quirks = registry_quirks(w->registry, link->target_id);
    dialect_build_keepalive(target, &profile, &p->body);
    p->piece = buf_bytes(&p->body);
    struct exchange_spec spec = {.provider = link->provider,
                                 .target = target,
                                 .body = {.v = &p->piece, .n = 1, .n_bytes = p->piece.n},
                                 .is_stream = true,
                                 .connect_timeout_ms = link->connect_timeout_ms,
                                 .max_depth = (unsigned)p->config->limits.json_depth,
                                 .max_event = p->config->limits.event_bytes,
                                 .max_body = p->config->limits.body_bytes,
                                 .ready = on_probe_ready,
                                 .arg = p};
    p->exchange = exchange_open(w->upstream, &spec);
    timer_arm(w->loop, &p->timer, p->start_us + (uint64_t)link->ttft_budget_ms * 1000);
}

static void start_probe(struct worker *w, const struct route_conf *route, const struct link_conf *link)
{
    struct trial trial = {0};
    if (registry_pass(w->registry, link->target_id, link->provider->credential_id, loop_now_us(w->loop), &trial) ==
        PASS_NO)
        return; /* closed for now; asked again after keepalive_sec */
    struct probe *p = mem_zalloc(sizeof *p);
    p->worker = w;
    p->config = config_ref(w->config);
    p->route = route;
    p->link = link;
    p->usage = USAGE_NONE;
    p->trial = trial;
    p->start_us = loop_now_us(w->loop);
    p->started_wall_ms = loop_wall_ms(w->loop);
    p->id = ledger_new_id(p->started_wall_ms, w->core, &w->id_counter);
    p->timer.fn = on_probe_timer;
    p->reap.fn = release_probe;
    p->record = (struct attempt_record){.n = 1,
                                        .link = link->index,
                                        .kind = ATTEMPT_KEEPALIVE,
                                        .is_started = true,
                                        .provider = link->provider->name,
                                        .model = link->model,
                                        .connect_us = -1,
                                        .first_byte_us = -1,
                                        .ttft_us = -1,
                                        .retry_after_ms = -1};
    list_init(&p->node);
    list_put(&w->probes, &p->node);
    open_probe(p);
}

/* A route in use keeps one idle connection per standby on this core. */
static void warm_connections(struct worker *w, const struct route_conf *route, uint64_t used_us, uint64_t now_us)
{
    if (used_us == 0 || now_us - used_us > (uint64_t)route->keepalive_idle_stop_sec * 1000000)
        return;
    for (size_t k = 1; k < route->n_links; k++)
        if (!route->links[k].provider->is_off)
            upstream_warm(w->upstream, route->links[k].provider);
}

static void look(struct timer *t)
{
    struct worker *w = RM_CONTAINER(t, struct worker, standby_timer);
    uint64_t now = loop_now_us(w->loop);
    for (size_t i = 0; i < w->config->n_routes; i++) {
        const struct route_conf *route = &w->config->routes[i];
        if (route->keepalive_sec == 0)
            continue;
        warm_connections(w, route, w->route_used_us[i], now);
        struct standby_ask ask = {
            .route = route, .used_us = w->route_used_us[i], .now_us = now, .day = loop_wall_ms(w->loop) / 86400000};
        const struct link_conf *link;
        for (int n = 0; n < PROBES_PER_LOOK && (link = standby_due(w->registry, &ask)) != NULL; n++)
            start_probe(w, route, link);
    }
    timer_arm(w->loop, t, now + LOOK_EVERY_US);
}

void standby_reload(struct worker *w)
{
    timer_cancel(w->loop, &w->standby_timer);
    for (size_t i = 0; i < w->config->n_routes; i++)
        if (w->config->routes[i].keepalive_sec > 0) {
            timer_arm(w->loop, &w->standby_timer, loop_now_us(w->loop) + LOOK_SOON_US);
            return;
        }
}

void standby_init(struct worker *w)
{
    w->standby_timer.fn = look;
    standby_reload(w);
}

void standby_stop(struct worker *w)
{
    timer_cancel(w->loop, &w->standby_timer);
    LIST_EACH(&w->probes, node)
    {
        struct probe *p = LIST_ITEM(node, struct probe, node);
        registry_neutral(w->registry, &p->trial, loop_now_us(w->loop));
        exchange_close(p->exchange);
        p->exchange = NULL;
        timer_cancel(w->loop, &p->timer);
        list_del(&p->node);
        loop_reap(w->loop, &p->reap);
    }
}

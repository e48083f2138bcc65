/* How events travel: what comes up (client, exchange, timer) is turned into a relay_event and fed; the actions are
 * carried out at once, in order. An action that itself yields an event (a link whose request cannot be written) queues
 * it: it is fed after the actions of the running event, so the engine is never re-entered.
 *
 * Lifetimes: a flight owns its attempts' exchange and draft. The client_call belongs to the front and is gone at the
 * end of the turn in which the answer ended or the client left. The flight ends in the same call, so engine and record
 * borrow from it. */
#include "serve/pilot.h"

#include "base/log.h"
#include "base/mem.h"
#include "dialect/error.h"
#include "plan/affinity.h"

/* ---- actions ---- */

static __attribute__((noinline)) void cancel_attempt(struct flight *f, uint16_t n)
{
    struct pilot *p = pilot_by_n(f, n);
    if (p == NULL)
        return;
    if (f->shown != NULL && p->is_committed && p->draft != NULL)
        draft_leave(p->draft);
    pilot_close(p);
}

static __attribute__((noinline)) void commit(struct flight *f, uint16_t n)
{
    struct pilot *p = pilot_by_n(f, n);
    RM_ASSERT(p != NULL && f->call != NULL);
    p->is_committed = true;
    caching_commit(&f->caching, f->relay, n, loop_now_us(f->worker->loop));
    draft_commit(p->draft, relay_record(f->relay));
    f->status = (uint16_t)draft_status(p->draft);
    if (f->call->is_stream && pilot_is_sent(p))
        pilot_let_go_of_request(p);
}

static __attribute__((noinline)) void end_answer(struct flight *f, uint16_t n)
{
    struct pilot *p = pilot_by_n(f, n);
    RM_ASSERT(p != NULL && f->call != NULL);
    struct draft *draft = p->draft;
    p->draft = NULL;
    f->call->owner = NULL;
    f->status = (uint16_t)draft_status(draft);
    draft_end(draft, relay_record(f->relay));
    draft_free(draft);
    f->call = NULL;
    pilot_close(p);
}

/* What the client is told, in our words; front and dialect write it. */
static struct answer_error answer_of(struct flight *f, const struct relay_answer *a)
{
    struct answer_error e = {.retry_after_ms = -1};
    const struct request_record *rec = relay_record(f->relay);
    if (a->is_all_red) {
        e.openai_type = "upstream_unavailable";
        e.openai_code = "all_providers_unavailable";
        e.anthropic_type = "overloaded_error";
        e.message = arena_printf(&f->arena, "No provider of route '%s' could answer; see attempts.", rec->route);
        e.attempts = rec->attempts;
        e.n_attempts = rec->n_attempts;
    } else {
        error_of_failure(&a->failure, a->provider, &f->arena, &e);
    }
    e.status = a->status;
    e.retry_after_ms = a->retry_after_ms;
    e.request_id = f->call->id_text;
    return e;
}

static __attribute__((noinline)) void answer(struct flight *f, const struct relay_answer *a)
{
    struct answer_error e = answer_of(f, a);
    f->status = (uint16_t)error_status(f->call->dialect, &e);
    f->call->owner = NULL;
    call_answer_error(f->call, &e, relay_record(f->relay), a->no_retry);
    f->call = NULL;
}

static __attribute__((noinline)) void error_in_stream(struct flight *f, const struct relay_answer *a)
{
    struct answer_error e = answer_of(f, a);
    f->status = 200;
    f->call->owner = NULL;
    call_error_in_stream(f->call, &e);
    f->call = NULL;
}

static void release_flight(struct reap *r)
{
    struct flight *f = RM_CONTAINER(r, struct flight, reap);
    config_unref(f->config);
    if (f->shown != NULL)
        shown_fini(f->shown);
    mem_count(MEM_RELAY, -1);
    struct arena own = f->arena; /* the flight lies in it */
    arena_fini(&own);
}

static __attribute__((noinline)) void record(struct flight *f)
{
    struct worker *w = f->worker;
    f->is_over = true;
    relay_set_status(f->relay, f->status);
    relay_set_gateway_us(f->relay, f->gateway_us);
    caching_end(&f->caching, f->relay, loop_now_us(w->loop));
    const struct request_record *rec = relay_record(f->relay);
    if (w->ring != NULL)
        (void)ledger_put(w->ring, rec);
    stats_record(&w->stats, rec);
    while (!list_is_empty(&f->attempts))
        pilot_close(LIST_ITEM(f->attempts.next, struct pilot, node));
    timer_cancel(w->loop, &f->timer);
    list_del(&f->node);
    atomic_store_explicit(&w->stats.in_flight, w->stats.in_flight - 1, memory_order_relaxed);
    f->reap = (struct reap){.fn = release_flight};
    loop_reap(w->loop, &f->reap);
}

static __attribute__((noinline)) void alarm(const struct flight *f, const char *text)
{
    char id[TEXT_ID_BYTES];
    text_id(relay_record(f->relay)->id, id);
    stats_add(&f->worker->stats.alarms, 1);
    LOG(LOG_ERROR, "serve", id, "alarm: %s", text);
}

/* Each action is a function of its own, jumped to: what one needs the others do not pay for. */
static __attribute__((noinline)) void carry_out(struct flight *f, const struct relay_action *a)
{
    switch (a->kind) {
    case ACT_START:
        pilot_start(f, a);
        return;
    case ACT_CANCEL:
        cancel_attempt(f, a->n);
        return;
    case ACT_COMMIT:
        commit(f, a->n);
        return;
    case ACT_HEARTBEAT:
        if (f->call != NULL)
            call_heartbeat(f->call, relay_record(f->relay));
        return;
    case ACT_END:
        end_answer(f, a->n);
        return;
    case ACT_ANSWER:
        answer(f, a->answer);
        return;
    case ACT_ERROR_IN_STREAM:
        error_in_stream(f, a->answer);
        return;
    case ACT_ALARM:
        alarm(f, a->text);
        return;
    case ACT_RECORD:
        record(f);
        return;
    }
    RM_UNREACHABLE();
}

/* Armed lazily: a deadline that moves away is noticed when the old one fires, so a stream does not re-arm at each
 * event. */
static void arm(struct flight *f)
{
    uint64_t wake = relay_wake_us(f->relay);
    if (wake == 0)
        timer_cancel(f->worker->loop, &f->timer);
    else if (!timer_is_armed(&f->timer) || wake < f->timer.at_us)
        timer_arm(f->worker->loop, &f->timer, wake);
}

static void feed(struct flight *f, const struct relay_event *ev)
{
    struct relay_actions actions;
    relay_event(f->relay, ev, &actions);
    for (size_t i = 0; i < actions.n; i++)
        carry_out(f, &actions.v[i]);
}

static __attribute__((noinline)) void feed_unbuildable(struct flight *f)
{
    struct relay_event ev = {.kind = RELAY_UNBUILDABLE,
                             .now_us = loop_now_us(f->worker->loop),
                             .n = f->n_unbuildable,
                             .why = f->why_unbuildable};
    f->why_unbuildable = NULL;
    feed(f, &ev);
}

static bool has_several(const struct flight *f)
{
    return f->attempts.next != f->attempts.prev;
}

/* Before what may end an attempt without an event of its own: how far it has come decides of the word and the bill. */
static void tell_reached(struct flight *f)
{
    LIST_EACH(&f->attempts, node)
    pilot_tell_reached(LIST_ITEM(node, struct pilot, node));
}

void flight_feed(struct flight *f, const struct relay_event *ev)
{
    if (f->is_over)
        return;
    if (has_several(f))
        tell_reached(f);
    feed(f, ev);
    while (f->why_unbuildable != NULL && !f->is_over)
        feed_unbuildable(f);
    if (!f->is_over)
        arm(f);
}

void flight_tell(struct flight *f, const struct relay_event *ev)
{
    if (!relay_tell(f->relay, ev))
        flight_feed(f, ev);
    else if (ev->kind != RELAY_HEAD)
        arm(f);
}

static void feed_plain(struct flight *f, enum relay_event_kind kind, bool is_stall)
{
    uint64_t from = loop_clock_us();
    struct relay_event ev = {.kind = kind, .now_us = loop_now_us(f->worker->loop), .is_stall = is_stall};
    tell_reached(f);
    flight_feed(f, &ev);
    f->gateway_us += (int64_t)(loop_clock_us() - from);
}

/* The attempt whose peer acknowledged nothing; 0 = none. */
static uint16_t unacked(const struct flight *f)
{
    LIST_EACH(&f->attempts, node)
    {
        const struct pilot *p = LIST_ITEM(node, struct pilot, node);
        if (p->exchange != NULL && exchange_is_unacked(p->exchange))
            return p->n;
    }
    return 0;
}

static void on_timer(struct timer *t)
{
    struct flight *f = RM_CONTAINER(t, struct flight, timer);
    uint64_t from = loop_clock_us();
    struct relay_event ev = {.kind = RELAY_TIME, .now_us = loop_now_us(f->worker->loop), .n = unacked(f)};
    ev.is_unacked = ev.n != 0;
    tell_reached(f);
    flight_feed(f, &ev);
    f->gateway_us += (int64_t)(loop_clock_us() - from);
}

/* ---- from the client side ---- */

static void refuse(struct worker *w, struct client_call *c, const char *code, const char *why)
{
    struct answer_error e = {.status = 400,
                             .openai_type = "invalid_request_error",
                             .openai_code = code,
                             .anthropic_type = "invalid_request_error",
                             .message = bytes_of(why),
                             .retry_after_ms = -1,
                             .request_id = c->id_text};
    uint64_t now = loop_now_us(w->loop);
    struct request_record rec = {.id = c->id,
                                 .started_wall_ms = loop_wall_ms(w->loop),
                                 .key = c->key,
                                 .route = c->route->model,
                                 .dialect = c->dialect->name,
                                 .is_stream = c->is_stream,
                                 .status = 400,
                                 .outcome = OUTCOME_CLIENT_ERROR,
                                 .served_link = -1,
                                 .ttft_us = -1,
                                 .total_us = (int64_t)(now - c->inbound->arrived_us),
                                 .prompt_bytes = (int64_t)c->call->prompt_bytes,
                                 .max_tokens = c->call->max_tokens,
                                 .effort = "",
                                 .adjusted = "",
                                 .trace_id = c->trace_id};
    if (w->ring != NULL)
        (void)ledger_put(w->ring, &rec);
    stats_add(&w->stats.refused, 1);
    call_answer_error(c, &e, &rec, false);
}

enum { FLIGHT_BYTES = (sizeof(struct flight) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN };

/* In an arena of its own, with the engine: one block for both. */
static struct flight *new_flight(struct worker *w, struct client_call *c)
{
    struct arena own = {0};
    arena_reserve(&own, FLIGHT_BYTES + RELAY_BYTES);
    struct flight *f = ARENA_NEW(&own, struct flight);
    f->arena = own;
    mem_count(MEM_RELAY, 1);
    f->worker = w;
    f->call = c;
    f->config = config_ref(c->config);
    f->timer.fn = on_timer;
    list_init(&f->attempts);
    list_init(&f->node);
    if (c->route->resume && c->is_stream) {
        f->shown = ARENA_NEW(&f->arena, struct shown);
        shown_init(f->shown, &f->arena, f->config->limits.gate_bytes);
    }
    list_put(&w->flights, &f->node);
    atomic_store_explicit(&w->stats.in_flight, w->stats.in_flight + 1, memory_order_relaxed);
    return f;
}

static void begin_caching(struct flight *f, const struct client_call *c, uint64_t key)
{
    struct worker *w = f->worker;
    struct caching_start start = {.memory = w->caches,
                                  .registry = w->registry,
                                  .route = c->route,
                                  .facts = c->call,
                                  .key = key,
                                  .arena = &f->arena,
                                  .now_us = loop_now_us(w->loop)};
    if (key != 0 && f->directive.cache_ttl_s != 0)
        f->cache_key = arena_printf(&f->arena, "rm-%016llx", (unsigned long long)key);
    caching_begin(&f->caching, &start, &f->directive);
}

void flight_start(struct worker *w, struct client_call *c)
{
    uint64_t from = loop_began_us(w->loop);
    struct directive directive;
    const char *why = "";
    if (directive_parse(&c->inbound->head->fields, c->route, c->arena, &directive, &why) != ERR_OK) {
        refuse(w, c, "invalid_routing", why);
        return;
    }
    if (c->route->index < w->n_route_used)
        w->route_used_us[c->route->index] = loop_now_us(w->loop);
    struct flight *f = new_flight(w, c);
    c->owner = f;
    f->directive = directive;
    const struct fields *fields = &c->inbound->head->fields;
    struct bytes routing = fields_get(fields, "x-routing");
    uint64_t key = affinity_key(c->call, fields_get(fields, "x-session-id"));
    begin_caching(f, c, key);
    struct relay_start start = {.config = f->config,
                                .route = c->route,
                                .directive = &f->directive,
                                .call = c->call,
                                .id = c->id,
                                .started_wall_ms = loop_turn_wall_ms(w->loop),
                                .now_us = c->inbound->arrived_us,
                                .key = c->key,
                                .dialect = c->dialect->name,
                                .trace_id = c->trace_id,
                                .routing = routing.n > 0 ? arena_dup(c->arena, routing).p : "",
                                .affinity_key = key};
    f->relay = relay_new(&f->arena, &w->env, &start);
    struct relay_event ev = {.kind = RELAY_START, .now_us = loop_now_us(w->loop)};
    flight_feed(f, &ev);
    f->gateway_us += (int64_t)(loop_ended_us(w->loop) - from);
}

void flight_client_gone(struct flight *f, bool is_stall)
{
    f->call = NULL;
    feed_plain(f, RELAY_CLIENT_GONE, is_stall);
    RM_ASSERT(f->is_over);
}

void flight_writable(struct flight *f)
{
    LIST_EACH(&f->attempts, node)
    {
        struct pilot *p = LIST_ITEM(node, struct pilot, node);
        if (!p->is_paused)
            continue;
        pilot_writable(p);
        return;
    }
}

void flight_drain(struct flight *f)
{
    feed_plain(f, RELAY_DRAIN, false);
}

struct flight *flight_of_node(struct list *node)
{
    return LIST_ITEM(node, struct flight, node);
}

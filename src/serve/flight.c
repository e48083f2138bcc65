/* How events travel: what comes up (client, exchange, timer) is turned into a relay_event and fed; the actions are
 * carried out at once, in order. An action that itself yields an event (a link whose request cannot be written) queues
 * it: it is fed after the actions of the running event, so the engine is never re-entered.
 *
 * Lifetimes: a flight owns its attempts' exchange and draft. The client_call belongs to the front and is gone after the
 * answer's end; what the record borrows from it is copied into the flight's arena at the start. */
#include "serve/flight.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "dialect/error.h"
#include "dialect/prefill.h"
#include "front/seam.h"
#include "front/shown.h"
#include "model/call.h"
#include "serve/caching.h"

struct flight {
    struct worker *worker;
    struct client_call *call; /* NULL once the answer is whole or the client has gone */
    struct config *config;
    struct relay *relay;
    struct arena arena;
    struct call facts; /* copies: outlive the client's body */
    char id_text[TEXT_ID_BYTES];
    struct directive directive;
    struct caching caching;
    struct list node; /* in worker->flights */
    struct list attempts;
    struct timer timer;
    struct reap reap;
    struct relay_event pending;
    bool has_pending, is_paused, is_over;
    bool is_kept;       /* the route resumes, and the client streams: body and shown text are kept */
    struct shown shown; /* is_kept */
    unsigned status;
    int64_t gateway_us;
};

/* One attempt's two ends: the exchange with the provider, and the draft of what the client gets. */
struct pilot {
    struct flight *flight;
    struct exchange *exchange; /* NULL once closed */
    struct draft *draft;
    struct arena arena; /* the body's pieces */
    struct list node;
    struct reap reap;
    const struct link_conf *link;
    const char *adjusted;
    uint16_t n;
    bool is_closed, is_committed, is_paused;
    bool is_sent;    /* the request was wholly written: its body is not needed any more */
    bool is_joining; /* it is to go on with an answer that broke off, and has not met it yet */
    struct seam seam;
};

static void feed(struct flight *f, struct relay_event *ev);

/* ---- attempts ---- */

static void release_pilot(struct reap *r)
{
    struct pilot *p = RM_CONTAINER(r, struct pilot, reap);
    arena_fini(&p->arena);
    mem_free(p);
}

static void close_exchange(struct pilot *p)
{
    if (p->exchange == NULL)
        return;
    exchange_close(p->exchange);
    p->exchange = NULL;
}

static void close_pilot(struct pilot *p)
{
    if (p->is_closed)
        return;
    p->is_closed = true;
    if (p->is_committed && p->draft != NULL && p->flight->call != NULL)
        draft_flush(p->draft); /* what was told lies in the exchange's read buffer */
    close_exchange(p);
    if (p->draft != NULL)
        draft_free(p->draft);
    p->draft = NULL;
    seam_fini(&p->seam);
    list_del(&p->node);
    loop_reap(p->flight->worker->loop, &p->reap);
}

static struct pilot *pilot_by_n(struct flight *f, uint16_t n)
{
    LIST_EACH(&f->attempts, node)
    {
        struct pilot *p = LIST_ITEM(node, struct pilot, node);
        if (p->n == n)
            return p;
    }
    return NULL;
}

static struct relay_event event_of(const struct pilot *p, enum relay_event_kind kind)
{
    return (struct relay_event){.kind = kind, .now_us = loop_now_us(p->flight->worker->loop), .n = p->n};
}

static void feed_failure(struct pilot *p, const struct failure *failure)
{
    struct relay_event ev = event_of(p, RELAY_FAILED);
    ev.failure = failure;
    feed(p->flight, &ev);
}

/* An event of the answer for the engine, and for the record of what the client has. */
static void feed_event(struct pilot *p, struct relay_event *ev)
{
    struct flight *f = p->flight;
    feed(f, ev);
    if (f->is_kept && p->is_committed && ev->event->kind == EVENT_TEXT)
        shown_text(&f->shown, ev->event->text);
}

/* Bytes that come too late are not to go out any more: the clocks have their say before the draft sees them. */
static void feed_time_if_late(struct pilot *p)
{
    struct flight *f = p->flight;
    uint64_t wake = relay_wake_us(f->relay);
    if (wake == 0 || wake >= loop_now_us(f->worker->loop))
        return;
    struct relay_event ev = {.kind = RELAY_TIME, .now_us = loop_now_us(f->worker->loop)};
    feed(f, &ev);
}

static void feed_output(struct pilot *p, const struct exchange_event *x)
{
    static const struct event ping = {.kind = EVENT_PING};
    if (p->flight->is_kept && p->is_committed)
        feed_time_if_late(p);
    if (p->is_closed)
        return;
    struct draft_input in = {.raw = x->raw,
                             .raw_is_stream = x->raw_is_stream,
                             .is_dropped = x->is_dropped,
                             .strip_at = x->strip_at,
                             .strip_end = x->strip_end,
                             .v = x->v,
                             .n = x->n};
    uint32_t n_bytes = 0;
    if (!draft_put(p->draft, &in, &n_bytes)) {
        struct failure failure;
        failure_make(&failure, OUTCOME_PROTOCOL_ERROR,
                     p->flight->facts.is_stream ? "more was held back before the first token than gate_bytes allows"
                                                : "the answer is larger than body_bytes allows");
        failure.in_stream = true;
        close_exchange(p);
        feed_failure(p, &failure);
        return;
    }
    struct relay_event ev = event_of(p, RELAY_OUTPUT);
    ev.bytes = n_bytes;
    for (size_t i = 0; i < x->n && !p->is_closed; i++) {
        ev.event = &x->v[i];
        feed_event(p, &ev);
        ev.bytes = 0;
    }
    if (x->n == 0) {
        ev.event = &ping;
        feed(p->flight, &ev);
    }
}

/* ---- an attempt that is to go on with an answer that broke off ---- */

static void put_one(struct pilot *p, const struct event *e)
{
    struct draft_input in = {.raw_is_stream = true, .v = e, .n = 1};
    struct relay_event ev = event_of(p, RELAY_OUTPUT);
    if (p->is_closed)
        return;
    (void)draft_put(p->draft, &in, &ev.bytes); /* committed or without text: no gate to run over */
    ev.event = e;
    feed_event(p, &ev);
}

static void join(struct pilot *p, struct bytes rest, size_t n_new)
{
    struct relay_event ev = event_of(p, RELAY_JOINED);
    struct event more = {.kind = EVENT_TEXT, .is_token = true, .text = rest, .text_bytes = (uint32_t)n_new};
    p->is_joining = false;
    feed(p->flight, &ev);
    if (rest.n > 0)
        put_one(p, &more);
}

static void part(struct pilot *p)
{
    struct failure failure;
    failure_make(&failure, OUTCOME_INCOMPATIBLE, "its answer does not repeat what was told");
    close_exchange(p);
    feed_failure(p, &failure);
}

static void join_text(struct pilot *p, const struct event *e)
{
    struct bytes rest;
    enum seam_result r = seam_text(&p->seam, e->text, &rest);
    size_t n_new = r != SEAM_JOINED ? 0 : rest.n < e->text.n ? rest.n : e->text.n;
    struct event repeated = {
        .kind = EVENT_PING, .is_token = e->is_token, .text_bytes = e->text_bytes - (uint32_t)n_new};
    struct relay_event ev = event_of(p, RELAY_OUTPUT);
    ev.event = &repeated;
    feed(p->flight, &ev);
    if (p->is_closed)
        return;
    if (r == SEAM_JOINED)
        join(p, rest, n_new);
    else if (r == SEAM_PARTED)
        part(p);
}

static bool is_content(const struct event *e)
{
    return e->is_token || e->kind == EVENT_FINISH;
}

static void join_event(struct pilot *p, const struct event *e)
{
    struct bytes rest;
    if (e->kind == EVENT_TEXT && e->text.n > 0) {
        join_text(p, e);
        return;
    }
    if (is_content(e)) {
        if (seam_end(&p->seam, &rest) == SEAM_PARTED) {
            part(p);
            return;
        }
        join(p, rest, 0);
    }
    put_one(p, e);
}

static void feed_joining(struct pilot *p, const struct exchange_event *x)
{
    for (size_t i = 0; i < x->n && !p->is_closed; i++) {
        if (x->v[i].kind == EVENT_ERROR) {
            struct relay_event ev = event_of(p, RELAY_OUTPUT);
            ev.event = &x->v[i];
            feed(p->flight, &ev);
        } else if (p->is_joining) {
            join_event(p, &x->v[i]);
        } else {
            put_one(p, &x->v[i]);
        }
    }
}

static void feed_head(struct pilot *p, const struct exchange_event *x)
{
    struct relay_event ev = event_of(p, RELAY_HEAD);
    ev.status = (uint16_t)x->status;
    ev.provider_request_id = x->provider_request_id;
    ev.adjusted = p->adjusted;
    draft_set_fields(p->draft, x->fields);
    feed(p->flight, &ev);
}

static void feed_exchange_event(struct pilot *p, const struct exchange_event *x)
{
    struct relay_event ev;
    struct bytes rest;
    switch (x->kind) {
    case EXCHANGE_NOTHING:
    case EXCHANGE_FLUSH:
        return;
    case EXCHANGE_CONNECTED:
        ev = event_of(p, RELAY_CONNECTED);
        ev.connect_us = x->connect_us;
        break;
    case EXCHANGE_SENT:
        ev = event_of(p, RELAY_SENT);
        p->is_sent = true;
        break;
    case EXCHANGE_REPLAYED:
        p->is_sent = false;
        ev = event_of(p, RELAY_REPLAYED);
        break;
    case EXCHANGE_HEAD:
        feed_head(p, x);
        return;
    case EXCHANGE_OUTPUT:
        if (p->is_joining)
            feed_joining(p, x);
        else
            feed_output(p, x);
        return;
    case EXCHANGE_ENDED:
        close_exchange(p);
        if (p->is_joining && seam_end(&p->seam, &rest) == SEAM_JOINED)
            join(p, rest, 0);
        if (p->is_closed)
            return;
        ev = event_of(p, RELAY_ENDED);
        break;
    case EXCHANGE_FAILED: {
        struct failure failure = *x->failure;
        close_exchange(p);
        feed_failure(p, &failure);
        return;
    }
    default:
        RM_UNREACHABLE();
    }
    feed(p->flight, &ev);
}

/* Backpressure: a client that does not take its bytes stops us reading its provider. */
static void balance(struct pilot *p)
{
    struct flight *f = p->flight;
    if (p->is_closed || p->exchange == NULL || !p->is_committed || f->call == NULL)
        return;
    bool is_full = call_is_full(f->call);
    if (is_full == p->is_paused)
        return;
    p->is_paused = is_full;
    struct relay_event ev = event_of(p, is_full ? RELAY_PAUSED : RELAY_RESUMED);
    if (is_full)
        exchange_pause(p->exchange);
    else
        exchange_resume(p->exchange);
    feed(f, &ev);
}

static void on_exchange_ready(struct exchange *x, void *arg)
{
    struct pilot *p = arg;
    struct flight *f = p->flight;
    uint64_t from = loop_clock_us();
    struct exchange_event ev;
    while (p->exchange == x && !p->is_paused) {
        exchange_next(x, &ev);
        if (ev.kind == EXCHANGE_NOTHING)
            break;
        feed_exchange_event(p, &ev);
        bool must_flush = ev.kind == EXCHANGE_FLUSH || (ev.kind == EXCHANGE_OUTPUT && !ev.raw_is_lasting);
        if (must_flush && !p->is_closed && p->is_committed && f->call != NULL) {
            draft_flush(p->draft);
            balance(p);
        }
    }
    f->gateway_us += (int64_t)(loop_clock_us() - from);
}

/* ---- actions ---- */

static bool adds_usage(const struct link_conf *link)
{
    return link->supports.stream_usage != NO;
}

static struct profile profile_of(const struct flight *f, const struct relay_action *a)
{
    const struct link_conf *link = a->link;
    return (struct profile){.model = bytes_of(link->model),
                            .vendor = bytes_of(link->provider->vendor),
                            .is_stream = a->is_stream,
                            .adds_usage = a->is_stream && adds_usage(link) && !(a->quirks & QUIRK_NO_STREAM_OPTIONS),
                            .quirks = a->quirks,
                            .max_output = link->max_output,
                            .cache_ttl_s = f->directive.cache_ttl_s,
                            .set = link->set,
                            .n_set = link->n_set,
                            .drop = link->drop,
                            .n_drop = link->n_drop};
}

static void open_exchange(struct pilot *p, const struct relay_action *a, const struct pieces *body)
{
    struct flight *f = p->flight;
    const struct client_call *c = f->call;
    const struct dialect *target = dialect_by_name(bytes_of(a->link->provider->dialect));
    struct draft_options draft = {.target = target,
                                  .upstream_is_stream = a->is_stream,
                                  .provider = a->link->provider->name,
                                  .model = a->link->model,
                                  .gate_bytes = f->config->limits.gate_bytes,
                                  .body_bytes = f->config->limits.body_bytes,
                                  .wall_ms = loop_wall_ms(f->worker->loop),
                                  .shown = f->is_kept ? &f->shown : NULL};
    p->draft = draft_new(f->call, &draft);
    struct exchange_spec spec = {.provider = a->link->provider,
                                 .client = c->dialect,
                                 .client_fields = &c->inbound->head.fields,
                                 .body = *body,
                                 .is_stream = a->is_stream,
                                 .is_fresh = a->is_fresh,
                                 .strips_usage = c->dialect == target && c->call.is_stream && !c->call.wants_usage,
                                 .skip_bad_events = c->route->on_bad_event == BAD_EVENT_SKIP,
                                 .connect_timeout_ms = a->connect_timeout_ms,
                                 .max_depth = (unsigned)f->config->limits.json_depth,
                                 .max_event = f->config->limits.event_bytes,
                                 .max_body = f->config->limits.body_bytes,
                                 .traceparent = c->traceparent,
                                 .ready = on_exchange_ready,
                                 .arg = p};
    p->exchange = exchange_open(f->worker->upstream, &spec);
}

/* The body that such an attempt is asked with. */
static struct bytes prepare_joining(struct pilot *p, enum resume_way way)
{
    struct flight *f = p->flight;
    struct bytes told = buf_bytes(&f->shown.text), given = seam_prefill(told), body = f->call->body;
    bool is_prefilled =
        way == RESUME_PREFILL && given.n > 0 &&
        prefill_put(f->call->body, given, (unsigned)f->config->limits.json_depth, &p->arena, &body) == ERR_OK;
    seam_init(&p->seam, told, is_prefilled);
    p->is_joining = true;
    return body;
}

static void start_attempt(struct flight *f, const struct relay_action *a)
{
    struct client_call *c = f->call;
    struct pilot *p = mem_zalloc(sizeof *p);
    p->flight = f;
    p->n = a->n;
    p->link = a->link;
    p->reap.fn = release_pilot;
    p->adjusted = "";
    list_init(&p->node);
    list_put(&f->attempts, &p->node);
    struct profile profile = profile_of(f, a);
    caching_profile(&f->caching, a->link, a->n, relay_record(f->relay), f->worker->registry,
                    loop_now_us(f->worker->loop), &profile);
    const struct dialect *target = dialect_by_name(bytes_of(a->link->provider->dialect));
    struct buf adjusted = {0};
    struct pieces body;
    const char *why = "";
    struct bytes asked = a->resume == RESUME_NONE ? c->body : prepare_joining(p, a->resume);
    enum err e = dialect_build_body(c->dialect, target, asked, &c->call, &profile,
                                    (unsigned)f->config->limits.json_depth, &p->arena, &body, &adjusted, &why);
    if (e != ERR_OK) {
        f->pending = event_of(p, RELAY_UNBUILDABLE);
        f->pending.why = arena_dup(&f->arena, bytes_of(why)).p;
        f->has_pending = true;
        close_pilot(p);
    } else {
        if (adjusted.n > 0)
            p->adjusted = arena_dup(&f->arena, buf_bytes(&adjusted)).p;
        open_exchange(p, a, &body);
    }
    buf_fini(&adjusted);
}

static void cancel_attempt(struct flight *f, uint16_t n)
{
    struct pilot *p = pilot_by_n(f, n);
    if (p == NULL)
        return;
    if (f->is_kept && p->is_committed && p->draft != NULL)
        draft_leave(p->draft);
    close_pilot(p);
}

/* A long stream need not hold the prompt it came from, unless somebody else may have to go on with it. */
static void let_go_of_body(struct pilot *p)
{
    struct client_call *c = p->flight->call;
    if (p->flight->is_kept)
        return;
    struct buf body = inbound_take_body(c->inbound);
    c->body = (struct bytes){NULL, 0};
    buf_fini(&body);
    arena_fini(&p->arena);
}

static void commit(struct flight *f, uint16_t n)
{
    struct pilot *p = pilot_by_n(f, n);
    RM_ASSERT(p != NULL && f->call != NULL);
    p->is_committed = true;
    caching_commit(&f->caching, n, loop_now_us(f->worker->loop));
    draft_commit(p->draft, relay_record(f->relay));
    f->status = draft_status(p->draft);
    if (p->is_sent && f->call->call.is_stream)
        let_go_of_body(p);
}

static void end_answer(struct flight *f, uint16_t n)
{
    struct pilot *p = pilot_by_n(f, n);
    RM_ASSERT(p != NULL && f->call != NULL);
    struct draft *draft = p->draft;
    p->draft = NULL;
    f->call->owner = NULL;
    f->status = draft_status(draft);
    draft_end(draft, relay_record(f->relay));
    draft_free(draft);
    f->call = NULL;
    close_pilot(p);
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
    e.request_id = f->id_text;
    return e;
}

static void answer(struct flight *f, const struct relay_answer *a)
{
    struct answer_error e = answer_of(f, a);
    f->status = error_status(f->call->dialect, &e);
    f->call->owner = NULL;
    call_answer_error(f->call, &e, relay_record(f->relay), a->no_retry);
    f->call = NULL;
}

static void error_in_stream(struct flight *f, const struct relay_answer *a)
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
    shown_fini(&f->shown);
    arena_fini(&f->arena);
    mem_count(MEM_RELAY, -1);
    mem_free(f);
}

static void record(struct flight *f)
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
        close_pilot(LIST_ITEM(f->attempts.next, struct pilot, node));
    timer_cancel(w->loop, &f->timer);
    list_del(&f->node);
    atomic_store_explicit(&w->stats.in_flight, w->stats.in_flight - 1, memory_order_relaxed);
    loop_reap(w->loop, &f->reap);
}

static void carry_out(struct flight *f, const struct relay_action *a)
{
    switch (a->kind) {
    case ACT_START:
        start_attempt(f, a);
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
        stats_add(&f->worker->stats.alarms, 1);
        LOG(LOG_ERROR, "serve", f->id_text, "alarm: %s", a->text);
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

static void feed(struct flight *f, struct relay_event *ev)
{
    struct relay_actions actions;
    struct relay_event next = *ev;
    for (;;) {
        if (f->is_over)
            return;
        relay_event(f->relay, &next, &actions);
        for (size_t i = 0; i < actions.n; i++)
            carry_out(f, &actions.v[i]);
        if (!f->has_pending)
            break;
        next = f->pending;
        f->has_pending = false;
    }
    if (!f->is_over)
        arm(f);
}

static void feed_plain(struct flight *f, enum relay_event_kind kind, bool is_stall)
{
    uint64_t from = loop_clock_us();
    struct relay_event ev = {.kind = kind, .now_us = loop_now_us(f->worker->loop), .is_stall = is_stall};
    feed(f, &ev);
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
    feed(f, &ev);
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
                                 .is_stream = c->call.is_stream,
                                 .status = 400,
                                 .outcome = OUTCOME_CLIENT_ERROR,
                                 .served_link = -1,
                                 .ttft_us = -1,
                                 .total_us = (int64_t)(now - c->inbound->arrived_us),
                                 .prompt_bytes = (int64_t)c->call.prompt_bytes,
                                 .max_tokens = c->call.max_tokens,
                                 .effort = "",
                                 .adjusted = "",
                                 .trace_id = c->trace_id};
    if (w->ring != NULL)
        (void)ledger_put(w->ring, &rec);
    stats_add(&w->stats.refused, 1);
    call_answer_error(c, &e, &rec, false);
}

static const char *copied(struct flight *f, const char *s)
{
    return arena_dup(&f->arena, bytes_of(s)).p;
}

static struct flight *new_flight(struct worker *w, struct client_call *c)
{
    struct flight *f = mem_zalloc(sizeof *f);
    mem_count(MEM_RELAY, 1);
    f->worker = w;
    f->call = c;
    f->config = config_ref(c->config);
    f->reap.fn = release_flight;
    f->timer.fn = on_timer;
    list_init(&f->attempts);
    list_init(&f->node);
    memcpy(f->id_text, c->id_text, sizeof f->id_text);
    f->facts = c->call;
    f->facts.model = arena_dup(&f->arena, c->call.model);
    f->facts.effort = arena_dup(&f->arena, c->call.effort);
    f->facts.state = arena_dup(&f->arena, c->call.state);
    f->facts.cache_key = (struct bytes){NULL, 0};
    f->is_kept = c->route->resume && c->call.is_stream;
    shown_init(&f->shown, &f->arena, f->config->limits.gate_bytes);
    list_put(&w->flights, &f->node);
    atomic_store_explicit(&w->stats.in_flight, w->stats.in_flight + 1, memory_order_relaxed);
    return f;
}

void flight_start(struct worker *w, struct client_call *c)
{
    uint64_t from = loop_clock_us();
    struct directive directive;
    const char *why = "";
    if (directive_parse(&c->inbound->head.fields, c->route, c->arena, &directive, &why) != ERR_OK) {
        refuse(w, c, "invalid_routing", why);
        return;
    }
    if (c->route->index < w->n_route_used)
        w->route_used_us[c->route->index] = loop_now_us(w->loop);
    struct flight *f = new_flight(w, c);
    c->owner = f;
    f->directive = directive;
    struct caching_start caching = {.memory = w->caches,
                                    .registry = w->registry,
                                    .call = c,
                                    .facts = &f->facts,
                                    .arena = &f->arena,
                                    .now_us = loop_now_us(w->loop)};
    caching_begin(&f->caching, &caching, &f->directive);
    struct relay_start start = {.config = f->config,
                                .route = c->route,
                                .directive = &f->directive,
                                .call = &f->facts,
                                .id = c->id,
                                .started_wall_ms = loop_wall_ms(w->loop),
                                .now_us = c->inbound->arrived_us,
                                .key = copied(f, c->key),
                                .dialect = c->dialect->name,
                                .trace_id = copied(f, c->trace_id)};
    for (size_t i = 0; i < c->route->n_links && i < RM_COUNTOF(start.is_same_dialect); i++)
        start.is_same_dialect[i] = bytes_is(bytes_of(c->dialect->name), c->route->links[i].provider->dialect);
    f->relay = relay_new(&f->arena, &w->env, &start);
    struct relay_event ev = {.kind = RELAY_START, .now_us = loop_now_us(w->loop)};
    feed(f, &ev);
    f->gateway_us += (int64_t)(loop_clock_us() - from);
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
        struct exchange *x = p->exchange;
        balance(p);
        if (!p->is_paused && x != NULL && p->exchange == x)
            on_exchange_ready(x, p);
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

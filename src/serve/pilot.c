/* An attempt's two ends, the exchange with the provider and the draft of what the client gets, and what goes between
 * them: each event of the exchange is put into the draft and fed to the engine. An attempt that is to go on with an
 * answer that broke off passes through a seam first: what the client has already is fed as time and tokens, and not
 * put. */
#include "serve/pilot.h"

#include "base/mem.h"
#include "dialect/prefill.h"

static void release_pilot(struct reap *r)
{
    struct pilot *p = RM_CONTAINER(r, struct pilot, reap);
    arena_fini(&p->arena);
    if (p != &p->flight->first)
        mem_put(p, sizeof *p);
}

static struct pilot *new_pilot(struct flight *f, uint16_t n)
{
    struct pilot *p = f->first.flight == NULL ? &f->first : mem_take_zero(sizeof *p);
    p->flight = f;
    p->n = n;
    p->reap.fn = release_pilot;
    p->adjusted = "";
    list_init(&p->node);
    list_put(&f->attempts, &p->node);
    return p;
}

static void close_exchange(struct pilot *p)
{
    if (p->exchange == NULL)
        return;
    exchange_close(p->exchange);
    p->exchange = NULL;
}

void pilot_close(struct pilot *p)
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
    if (p->seam != NULL)
        seam_fini(p->seam);
    list_del(&p->node);
    if (p != &p->flight->first || p->arena.last != NULL)
        loop_reap(p->flight->worker->loop, &p->reap);
}

struct pilot *pilot_by_n(struct flight *f, uint16_t n)
{
    LIST_EACH(&f->attempts, node)
    {
        struct pilot *p = LIST_ITEM(node, struct pilot, node);
        if (p->n == n)
            return p;
    }
    return NULL;
}

static void event_init(struct relay_event *ev, const struct pilot *p, enum relay_event_kind kind)
{
    *ev = (struct relay_event){.kind = kind, .now_us = loop_now_us(p->flight->worker->loop), .n = p->n};
}

static void feed_plain(struct pilot *p, enum relay_event_kind kind)
{
    struct relay_event ev;
    event_init(&ev, p, kind);
    flight_feed(p->flight, &ev);
}

static void feed_failure(struct pilot *p, const struct failure *failure)
{
    struct relay_event ev;
    event_init(&ev, p, RELAY_FAILED);
    ev.failure = failure;
    flight_feed(p->flight, &ev);
}

/* Events of the answer for the engine, and for the record of what the client has: where that is kept, one at a time. */
static void feed_event(struct pilot *p, struct relay_event *ev)
{
    struct flight *f = p->flight;
    flight_tell(f, ev);
    if (f->shown != NULL && p->is_committed && ev->event->kind == EVENT_TEXT)
        shown_text(f->shown, ev->event->text);
}

/* Bytes that come too late are not to go out any more: the clocks have their say before the draft sees them. */
static void feed_time_if_late(struct pilot *p)
{
    struct flight *f = p->flight;
    uint64_t wake = relay_wake_us(f->relay);
    if (wake == 0 || wake >= loop_now_us(f->worker->loop))
        return;
    struct relay_event ev = {.kind = RELAY_TIME, .now_us = loop_now_us(f->worker->loop)};
    flight_feed(f, &ev);
}

static void feed_overrun(struct pilot *p)
{
    struct failure failure;
    failure_make(&failure, OUTCOME_PROTOCOL_ERROR,
                 relay_record(p->flight->relay)->is_stream
                     ? "more was held back before the first token than gate_bytes allows"
                     : "the answer is larger than body_bytes allows");
    failure.in_stream = true;
    close_exchange(p);
    feed_failure(p, &failure);
}

enum passed { PASSED_NOT, PASSED_ON, PASSED_OUT };

/* The usual event of an answer that flows: the engine counts it, and nothing follows. OUT: the client has all of it. */
static enum passed pass_on(struct pilot *p, const struct exchange_event *ev)
{
    struct flight *f = p->flight;
    const struct output *x = &ev->out;
    uint32_t n_bytes;
    bool is_put = false;
    if (x->n != 1 || p->is_joining || !relay_flow(f->relay, p->n, x->v, loop_now_us(f->worker->loop)))
        return PASSED_NOT;
    bool is_out = ev->is_last && draft_pass(p->draft, x, &is_put);
    if (!is_put && !draft_put(p->draft, x, &n_bytes))
        feed_overrun(p);
    else if (f->shown != NULL && p->is_committed && x->v->kind == EVENT_TEXT)
        shown_text(f->shown, x->v->text);
    return is_out ? PASSED_OUT : PASSED_ON;
}

/* is_all: the answer ends with it, and it stays until the exchange is closed. */
static void feed_output(struct pilot *p, const struct output *x, bool is_all)
{
    static const struct event ping = {.kind = EVENT_PING};
    if (p->is_committed)
        feed_time_if_late(p);
    if (p->is_closed)
        return;
    uint32_t n_bytes = (uint32_t)x->raw.n; /* of a whole answer nobody asks */
    if (!(is_all && draft_lend(p->draft, x)) && !draft_put(p->draft, x, &n_bytes)) {
        feed_overrun(p);
        return;
    }
    struct relay_event ev;
    event_init(&ev, p, RELAY_OUTPUT);
    ev.bytes = n_bytes;
    size_t n = x->n > 0 ? x->n : 1, step = p->flight->shown != NULL ? 1 : n;
    for (size_t i = 0; i < n && !p->is_closed; i += step) {
        ev.event = x->n > 0 ? &x->v[i] : &ping;
        ev.n_further = (uint32_t)step - 1;
        feed_event(p, &ev);
        ev.bytes = 0;
    }
}

/* ---- an attempt that is to go on with an answer that broke off ---- */

static void put_one(struct pilot *p, const struct event *e)
{
    struct output in = {.raw_is_stream = true, .v = e, .n = 1};
    struct relay_event ev;
    event_init(&ev, p, RELAY_OUTPUT);
    if (p->is_closed)
        return;
    (void)draft_put(p->draft, &in, &ev.bytes); /* committed or without text: no gate to run over */
    ev.event = e;
    feed_event(p, &ev);
}

static void join(struct pilot *p, struct bytes rest, size_t n_new)
{
    struct relay_event ev;
    event_init(&ev, p, RELAY_JOINED);
    struct event more = {.kind = EVENT_TEXT, .is_token = true, .text = rest, .text_bytes = (uint32_t)n_new};
    p->is_joining = false;
    flight_feed(p->flight, &ev);
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
    enum seam_result r = seam_text(p->seam, e->text, &rest);
    size_t n_new = r != SEAM_JOINED ? 0 : rest.n < e->text.n ? rest.n : e->text.n;
    struct event repeated = {
        .kind = EVENT_PING, .is_token = e->is_token, .text_bytes = e->text_bytes - (uint32_t)n_new};
    struct relay_event ev;
    event_init(&ev, p, RELAY_OUTPUT);
    ev.event = &repeated;
    flight_feed(p->flight, &ev);
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
        if (seam_end(p->seam, &rest) == SEAM_PARTED) {
            part(p);
            return;
        }
        join(p, rest, 0);
    }
    put_one(p, e);
}

static void feed_joining(struct pilot *p, const struct output *x)
{
    for (size_t i = 0; i < x->n && !p->is_closed; i++) {
        if (x->v[i].kind == EVENT_ERROR) {
            struct relay_event ev;
            event_init(&ev, p, RELAY_OUTPUT);
            ev.event = &x->v[i];
            flight_feed(p->flight, &ev);
        } else if (p->is_joining) {
            join_event(p, &x->v[i]);
        } else {
            put_one(p, &x->v[i]);
        }
    }
}

void pilot_tell_reached(struct pilot *p)
{
    if (p->is_head_told || p->exchange == NULL)
        return;
    struct exchange_reach reach = exchange_reached(p->exchange);
    if (reach.is_connected)
        relay_reached(p->flight->relay, p->n, reach.connect_us, reach.is_sent);
}

bool pilot_is_sent(const struct pilot *p)
{
    return p->exchange == NULL || exchange_reached(p->exchange).is_sent;
}

static void feed_head(struct pilot *p, const struct exchange_event *x)
{
    pilot_tell_reached(p);
    p->is_head_told = true;
    struct relay_event ev;
    event_init(&ev, p, RELAY_HEAD);
    ev.status = (uint16_t)x->status;
    ev.provider_request_id = x->provider_request_id;
    ev.adjusted = p->adjusted;
    draft_set_fields(p->draft, x->fields);
    flight_tell(p->flight, &ev);
}

/* The exchange is closed last: the draft may have been lent what lies there. */
static void feed_end(struct pilot *p)
{
    struct bytes rest;
    if (p->is_joining && seam_end(p->seam, &rest) == SEAM_JOINED)
        join(p, rest, 0);
    if (!p->is_closed)
        feed_plain(p, RELAY_ENDED);
    close_exchange(p);
}

static __attribute__((noinline)) void feed_exchange_event(struct pilot *p, const struct exchange_event *x)
{
    bool is_all;
    switch (x->kind) {
    case EXCHANGE_NOTHING:
    case EXCHANGE_FLUSH:
        return;
    case EXCHANGE_REPLAYED:
        feed_plain(p, RELAY_REPLAYED);
        return;
    case EXCHANGE_HEAD:
        feed_head(p, x);
        return;
    case EXCHANGE_OUTPUT:
        is_all = !p->is_committed && exchange_is_told(p->exchange); /* then its end need not be asked for */
        if (p->is_joining)
            feed_joining(p, &x->out);
        else
            feed_output(p, &x->out, is_all);
        if (!is_all || p->is_closed || p->exchange == NULL)
            return;
        feed_end(p);
        return;
    case EXCHANGE_ENDED:
        feed_end(p);
        return;
    case EXCHANGE_FAILED: {
        struct failure failure = *x->failure;
        pilot_tell_reached(p);
        close_exchange(p);
        feed_failure(p, &failure);
        return;
    }
    default:
        RM_UNREACHABLE();
    }
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
    struct relay_event ev;
    event_init(&ev, p, is_full ? RELAY_PAUSED : RELAY_RESUMED);
    if (is_full)
        exchange_pause(p->exchange);
    else
        exchange_resume(p->exchange);
    flight_feed(f, &ev);
}

/* True: there may be more. */
static bool step(struct pilot *p, struct exchange *x)
{
    struct exchange_event ev;
    enum passed passed = PASSED_NOT;
    exchange_next(x, &ev);
    if (ev.kind == EXCHANGE_OUTPUT)
        passed = pass_on(p, &ev);
    if (ev.kind == EXCHANGE_NOTHING || passed == PASSED_OUT)
        return false;
    if (passed == PASSED_NOT)
        feed_exchange_event(p, &ev);
    bool must_flush = ev.kind == EXCHANGE_FLUSH || (ev.kind == EXCHANGE_OUTPUT && !ev.out.is_lasting);
    if (must_flush && !p->is_closed && p->is_committed && p->flight->call != NULL) {
        draft_flush(p->draft);
        balance(p);
    }
    return p->exchange == x && !p->is_paused && !(ev.kind == EXCHANGE_OUTPUT && ev.is_last);
}

static void on_exchange_ready(struct exchange *x, void *arg)
{
    struct pilot *p = arg;
    struct flight *f = p->flight;
    struct loop *loop = f->worker->loop;
    uint64_t from = loop_began_us(loop);
    if (p->exchange == x && !p->is_paused)
        while (step(p, x))
            ;
    f->gateway_us += (int64_t)(loop_ended_us(loop) - from);
}

static bool adds_usage(const struct link_conf *link)
{
    return link->supports.stream_usage != NO;
}

/* What an attempt adds to its link's own. */
static void fill_profile(struct profile *p, const struct flight *f, const struct relay_action *a)
{
    p->is_stream = a->is_stream;
    p->adds_usage = a->is_stream && adds_usage(a->link) && !(a->quirks & QUIRK_NO_STREAM_OPTIONS);
    p->quirks = a->quirks;
    p->cache_ttl_s = f->directive.cache_ttl_s;
    p->cache_key = f->cache_key;
}

static void open_exchange(struct pilot *p, const struct relay_action *a, const struct dialect *target,
                          const struct pieces *body)
{
    struct flight *f = p->flight;
    const struct client_call *c = f->call;
    struct draft_options draft = {.target = target,
                                  .provider = a->link->provider->name,
                                  .model = a->link->model,
                                  .served_lines = a->link->served_lines,
                                  .gate_bytes = f->config->limits.gate_bytes,
                                  .body_bytes = f->config->limits.body_bytes,
                                  .wall_ms = loop_turn_wall_ms(f->worker->loop),
                                  .shown = f->shown};
    p->draft = draft_new(f->call, &draft);
    struct exchange_spec spec = {.provider = a->link->provider,
                                 .target = target,
                                 .client = c->dialect,
                                 .client_fields = &c->inbound->head->fields,
                                 .body = *body,
                                 .is_stream = a->is_stream,
                                 .is_fresh = a->is_fresh,
                                 .strips_usage = c->dialect == target && c->is_stream && !c->call->wants_usage,
                                 .skip_bad_events = c->route->on_bad_event == BAD_EVENT_SKIP,
                                 .is_text_unread = c->dialect == target && !c->is_stream,
                                 .connect_timeout_ms = a->connect_timeout_ms,
                                 .max_depth = (unsigned)f->config->limits.json_depth,
                                 .max_event = f->config->limits.event_bytes,
                                 .max_body = f->config->limits.body_bytes,
                                 .traceparent = call_traceparent(c),
                                 .ready = on_exchange_ready,
                                 .arg = p};
    p->exchange = exchange_open(f->worker->upstream, &spec);
}

/* The body that such an attempt is asked with. */
static struct bytes prepare_joining(struct pilot *p, enum resume_way way)
{
    struct flight *f = p->flight;
    struct bytes told = buf_bytes(&f->shown->text), given = seam_prefill(told), body = f->call->inbound->body;
    bool is_prefilled =
        way == RESUME_PREFILL && given.n > 0 &&
        prefill_put(f->call->inbound->body, given, (unsigned)f->config->limits.json_depth, &p->arena, &body) == ERR_OK;
    p->seam = ARENA_NEW(&p->arena, struct seam);
    seam_init(p->seam, told, is_prefilled);
    p->is_joining = true;
    return body;
}

/* Names in a snapshot are the registry's own. */
static const struct dialect *target_of(const struct client_call *c, const struct link_conf *link)
{
    const char *name = link->provider->dialect;
    return name == c->dialect->name ? c->dialect : dialect_by_name(bytes_of(name));
}

__attribute__((noinline)) void pilot_start(struct flight *f, const struct relay_action *a)
{
    struct client_call *c = f->call;
    struct pilot *p = new_pilot(f, a->n);
    struct profile profile = a->link->profile;
    fill_profile(&profile, f, a);
    profile.withholds_cache =
        caching_withholds(&f->caching, f->relay, a->link, a->n, f->worker->registry, loop_now_us(f->worker->loop));
    const struct dialect *target = target_of(c, a->link);
    struct buf adjusted = {0};
    struct pieces body;
    const char *why = "";
    struct bytes asked = a->resume == RESUME_NONE ? c->inbound->body : prepare_joining(p, a->resume);
    bool is_own = a->resume == RESUME_NONE && target == c->dialect; /* the client's bytes, and a few of ours */
    enum err e =
        dialect_build_body(c->dialect, target, asked, c->call, &profile, (unsigned)f->config->limits.json_depth,
                           is_own ? &c->inbound->asked_arena : &p->arena, &body, &adjusted, &why);
    if (e != ERR_OK) {
        f->n_unbuildable = a->n;
        f->why_unbuildable = arena_dup(&f->arena, bytes_of(why)).p;
        pilot_close(p);
    } else {
        if (adjusted.n > 0)
            p->adjusted = arena_dup(&f->arena, buf_bytes(&adjusted)).p;
        open_exchange(p, a, target, &body);
    }
    buf_fini(&adjusted);
}

/* A long stream need not hold the request it came from, unless somebody else may have to go on with it. */
void pilot_let_go_of_request(struct pilot *p)
{
    if (p->flight->shown != NULL)
        return;
    relay_let_go_of_call(p->flight->relay);
    call_let_go_of_request(p->flight->call);
    if (p->exchange != NULL)
        exchange_drop_heads(p->exchange);
    arena_fini(&p->arena);
}

void pilot_writable(struct pilot *p)
{
    struct exchange *x = p->exchange;
    balance(p);
    if (!p->is_paused && x != NULL && p->exchange == x)
        on_exchange_ready(x, p);
}

/* The turn of the world: take the earliest thing from the queue (equal times in seeded disorder), feed it to the real
 * engine, carry out its actions, let the laws judge both. */
#include "sim/world.h"

#include "base/mem.h"
#include "sim/inside.h"

#include <stdarg.h>
#include <stdio.h>

enum { EVENTS_MAX = 200000 };

const char *sabotage_name(enum sabotage s)
{
    static const char *const names[SABOTAGE_N] = {
        "none",          "give_up_early", "forget_link",   "double_commit", "early_commit", "no_cancel",
        "double_record", "lose_record",   "retry_timeout", "late_cut",      "no_time",      "ignore_health",
        "wrong_sum",     "hide_waste",    "answer_after",  "join_early",    "wrong_error",  "no_resume",
        "two_winners",   "early_hedge",   "wrong_rule"};
    RM_ASSERT((unsigned)s < SABOTAGE_N);
    return names[s];
}

void world_hash(struct world *w, uint64_t v)
{
    struct rng mix = {w->result->hash ^ v};
    w->result->hash = rng_next(&mix);
}

void world_tell(struct world *w, const char *fmt, ...)
{
    if (!w->conf->story)
        return;
    char line[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    uint64_t us = w->now_us - WORLD_START_US;
    buf_printf(w->conf->story, "%6llu.%06llu  %s\n", (unsigned long long)(us / 1000000),
               (unsigned long long)(us % 1000000), line);
}

void world_break(struct world *w, const struct guest *g, const char *law)
{
    if (w->result->broken[0] != '\0')
        return;
    snprintf(w->result->broken, sizeof w->result->broken, "seed %llu, request %zu, at %llu us: %s",
             (unsigned long long)w->conf->seed, g ? g->index : 0, (unsigned long long)(w->now_us - WORLD_START_US),
             law);
    world_tell(w, "LAW BROKEN: %s", law);
}

/* ---- the queue: a binary heap by (time, tie) ---- */

static bool is_sooner(const struct thing *a, const struct thing *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->tie < b->tie;
}

static void swap_things(struct thing *a, struct thing *b)
{
    struct thing t = *a;
    *a = *b;
    *b = t;
}

void world_queue(struct world *w, struct thing t)
{
    if (w->n_queue == w->cap_queue) {
        w->cap_queue = w->cap_queue ? 2 * w->cap_queue : 256;
        w->queue = mem_realloc(w->queue, w->cap_queue * sizeof *w->queue);
    }
    if (t.tie == 0)
        t.tie = rng_next(&w->rng);
    size_t i = w->n_queue++;
    w->queue[i] = t;
    for (; i > 0 && is_sooner(&w->queue[i], &w->queue[(i - 1) / 2]); i = (i - 1) / 2)
        swap_things(&w->queue[i], &w->queue[(i - 1) / 2]);
}

static struct thing take_thing(struct world *w)
{
    struct thing first = w->queue[0];
    w->queue[0] = w->queue[--w->n_queue];
    for (size_t i = 0;;) {
        size_t k = 2 * i + 1;
        if (k >= w->n_queue)
            break;
        if (k + 1 < w->n_queue && is_sooner(&w->queue[k + 1], &w->queue[k]))
            k++;
        if (!is_sooner(&w->queue[k], &w->queue[i]))
            break;
        swap_things(&w->queue[i], &w->queue[k]);
        i = k;
    }
    return first;
}

/* ---- scripts of a guest's attempts ---- */

static struct host_script *script_of(struct guest *g, uint16_t n)
{
    for (size_t i = 0; n != 0 && i < RM_COUNTOF(g->script_n); i++)
        if (g->script_n[i] == n)
            return &g->scripts[i];
    return NULL;
}

static void end_script(struct guest *g, uint16_t n)
{
    for (size_t i = 0; i < RM_COUNTOF(g->script_n); i++)
        if (g->script_n[i] == n)
            g->script_n[i] = 0;
}

/* ---- sabotage ---- */

static void add_action(struct relay_actions *acts, struct relay_action a)
{
    if (acts->n < RELAY_ACTIONS_MAX)
        acts->v[acts->n++] = a;
}

static struct relay_action *find_action(struct relay_actions *acts, enum relay_action_kind kind)
{
    for (size_t i = 0; i < acts->n; i++)
        if (acts->v[i].kind == kind)
            return &acts->v[i];
    return NULL;
}

static size_t place_of(const struct guest *g, const struct link_conf *l)
{
    size_t i = 0;
    while (i + 1 < g->n_chain && g->chain[i] != l)
        i++;
    return i;
}

/* The trail tells the same lie, so that a deeper law than "the trail names another link" has to see it. */
static bool relink(struct guest *g, struct relay_action *start, const struct link_conf *link)
{
    struct request_record *rec = (struct request_record *)relay_record(g->relay);
    start->link = link;
    rec->attempts[start->n - 1].link = link->index;
    return true;
}

static bool spoil_start(struct world *w, struct guest *g, const struct relay_event *ev, struct relay_actions *acts)
{
    struct relay_action *start = find_action(acts, ACT_START);
    const struct request_record *rec = relay_record(g->relay);
    if (!start || !g->laws.has_failure)
        return false;
    size_t place = place_of(g, start->link);
    const struct attempt_record *before = &rec->attempts[start->n - 2];
    switch (w->conf->sabotage) {
    case SABOTAGE_GIVE_UP_EARLY:
        *start = (struct relay_action){.kind = g->laws.is_head_sent ? ACT_ERROR_IN_STREAM : ACT_ANSWER};
        add_action(acts, (struct relay_action){.kind = ACT_RECORD});
        return true;
    case SABOTAGE_FORGET_LINK:
        if (place == g->laws.side.place || place + 1 >= g->n_chain)
            return false;
        return relink(g, start, g->chain[place + 1]);
    case SABOTAGE_RETRY_TIMEOUT:
        if (ev->kind != RELAY_TIME || place == g->laws.side.place || g->laws.failure.outcome == OUTCOME_RATE_LIMITED)
            return false;
        return relink(g, start, g->chain[g->laws.side.place]);
    case SABOTAGE_IGNORE_HEALTH:
        if (before->outcome != OUTCOME_SKIPPED_OPEN || g->laws.until[place_of(g, &g->route->links[before->link])] == 0)
            return false;
        return relink(g, start, &g->route->links[before->link]);
    default:
        return false;
    }
}

static bool add_output(struct request_record *rec)
{
    const char *words = abort_words((struct abort_billing){ABORT_INPUT, ABORT_CONFIGURED});
    for (size_t i = 0; i < rec->n_attempts; i++)
        if (rec->attempts[i].abort_words == words) {
            rec->attempts[i].tokens.output = 7;
            return true;
        }
    return false;
}

static bool spoil_record(struct world *w, struct guest *g, struct relay_actions *acts)
{
    struct request_record *rec = (struct request_record *)relay_record(g->relay);
    struct relay_action *end = find_action(acts, ACT_RECORD);
    if (!end)
        return false;
    switch (w->conf->sabotage) {
    case SABOTAGE_DOUBLE_RECORD:
        add_action(acts, *end);
        return true;
    case SABOTAGE_LOSE_RECORD:
        acts->n--;
        return true;
    case SABOTAGE_WRONG_SUM:
        rec->cost_nusd++;
        return true;
    case SABOTAGE_HIDE_WASTE:
        if (rec->waste_nusd <= 0)
            return false;
        for (size_t i = 0; i < rec->n_attempts; i++)
            rec->attempts[i].waste_nusd = 0;
        rec->waste_nusd = 0;
        return true;
    case SABOTAGE_WRONG_RULE:
        return add_output(rec);
    default:
        return false;
    }
}

/* True when the planned fault was planted now. Faults of time are planted elsewhere. */
static bool spoil(struct world *w, struct guest *g, const struct relay_event *ev, struct relay_actions *acts)
{
    struct relay_action *a;
    switch (w->conf->sabotage) {
    case SABOTAGE_DOUBLE_COMMIT:
        if ((a = find_action(acts, ACT_COMMIT)) != NULL)
            add_action(acts, *a);
        return a != NULL;
    case SABOTAGE_EARLY_COMMIT:
        if (ev->kind == RELAY_HEAD && script_of(g, ev->n) != NULL && acts->n == 0)
            add_action(acts, (struct relay_action){.kind = ACT_COMMIT, .n = ev->n});
        return acts->n > 0 && ev->kind == RELAY_HEAD;
    case SABOTAGE_NO_CANCEL:
        if (ev->kind != RELAY_TIME || acts->n < 2 || acts->v[0].kind != ACT_CANCEL)
            return false;
        memmove(acts->v, acts->v + 1, --acts->n * sizeof acts->v[0]);
        return true;
    case SABOTAGE_JOIN_EARLY:
        if (ev->kind == RELAY_OUTPUT && ev->event->is_token && g->laws.is_resuming && acts->n == 0)
            add_action(acts, (struct relay_action){.kind = ACT_COMMIT, .n = ev->n});
        return acts->n > 0 && ev->kind == RELAY_OUTPUT && g->laws.is_resuming;
    case SABOTAGE_WRONG_ERROR:
        a = find_action(acts, ACT_ERROR_IN_STREAM);
        if (a == NULL || !g->laws.is_resuming || g->laws.failure.outcome == a->answer->failure.outcome)
            return false;
        ((struct relay_answer *)a->answer)->failure = g->laws.failure;
        return true;
    case SABOTAGE_NO_RESUME:
        a = find_action(acts, ACT_START);
        if (a == NULL || a->resume == RESUME_NONE || g->laws.is_resuming)
            return false;
        *a = (struct relay_action){.kind = ACT_ERROR_IN_STREAM, .answer = a->answer};
        add_action(acts, (struct relay_action){.kind = ACT_RECORD});
        return true;
    case SABOTAGE_TWO_WINNERS:
        if (ev->kind != RELAY_OUTPUT || acts->n < 1 || acts->v[0].kind != ACT_CANCEL || acts->v[0].n == ev->n)
            return false;
        memmove(acts->v, acts->v + 1, --acts->n * sizeof acts->v[0]);
        return true;
    case SABOTAGE_EARLY_HEDGE:
        if (g->laws.hedge_due_us == 0 || ev->kind != RELAY_TIME || acts->n == 0 || acts->v[0].kind != ACT_START ||
            g->laws.side.open_n == 0)
            return false;
        g->laws.hedge_due_us = w->now_us + 1;
        return true;
    case SABOTAGE_ANSWER_AFTER:
        if (find_action(acts, ACT_END) != NULL)
            acts->v[acts->n - 1] = (struct relay_action){.kind = ACT_ANSWER};
        return find_action(acts, ACT_END) != NULL;
    default:
        return spoil_record(w, g, acts) || spoil_start(w, g, ev, acts);
    }
}

/* ---- feeding ---- */

static const char *event_name(enum relay_event_kind k)
{
    static const char *const names[] = {"start",    "time",    "connected",   "sent",        "head",
                                        "replayed", "output",  "joined",      "ended",       "failed",
                                        "paused",   "resumed", "client gone", "unbuildable", "drain"};
    return names[k];
}

static const char *action_name(enum relay_action_kind k)
{
    static const char *const names[] = {"START",  "CANCEL",          "COMMIT", "HEARTBEAT", "END",
                                        "ANSWER", "ERROR_IN_STREAM", "ALARM",  "RECORD"};
    return names[k];
}

static void start_script(struct world *w, struct guest *g, const struct relay_action *a)
{
    size_t slot = g->script_n[0] != 0;
    struct host_script *script = &g->scripts[slot];
    g->script_n[slot] = a->n;
    script->n = 0;
    g->way = a->resume;
    g->join_in = a->resume == RESUME_NONE ? 0 : (unsigned)rng_below(&w->rng, 4);
    if (g->unbuildable & (UINT32_C(1) << a->link->index))
        return;
    host_play(w, g, a, script);
    uint64_t tie = rng_next(&w->rng) | 0xff; /* one connection keeps its order */
    for (size_t i = 0; i < script->n; i++)
        world_queue(w, (struct thing){.at_us = script->v[i].at_us,
                                      .kind = THING_STEP,
                                      .guest = g->index,
                                      .n = a->n,
                                      .step = i,
                                      .tie = tie - 0xff + i + 1});
}

/* Half of the streams that nobody can go on with are served without the request, as all are in a worker. */
static void let_go_of_call(const struct world *w, struct guest *g)
{
    bool may = g->call.is_stream && !g->route->resume && w->conf->sabotage == SABOTAGE_NONE;
    if (may && g->index % 2 == 1)
        relay_let_go_of_call(g->relay);
}

static void carry_out(struct world *w, struct guest *g, const struct relay_action *a)
{
    world_hash(w, ((uint64_t)a->kind << 32) | a->n);
    if (a->kind == ACT_START)
        world_tell(w, "#%zu   -> START %u on link %u (%s/%s)%s%s", g->index, a->n, a->link->index,
                   a->link->provider->name, a->link->model, a->is_stream ? "" : ", not as a stream",
                   a->resume == RESUME_NONE      ? ""
                   : a->resume == RESUME_PREFILL ? ", prefilled"
                                                 : ", to repeat");
    else
        world_tell(w, "#%zu   -> %s %u", g->index, action_name(a->kind), a->n);
    if (a->kind == ACT_START)
        start_script(w, g, a);
    else if (a->kind == ACT_CANCEL || a->kind == ACT_END)
        end_script(g, a->n);
    else if (a->kind == ACT_COMMIT)
        let_go_of_call(w, g);
}

static void arm(struct world *w, struct guest *g)
{
    uint64_t wake = relay_wake_us(g->relay);
    if (wake == 0 || wake == g->armed_us || w->conf->sabotage == SABOTAGE_NO_TIME)
        return;
    g->armed_us = wake;
    wake = wake < w->now_us ? w->now_us : wake;
    if (w->conf->sabotage == SABOTAGE_LATE_CUT)
        wake++;
    world_queue(w, (struct thing){.at_us = wake, .kind = THING_TIMER, .guest = g->index});
}

static void feed(struct world *w, struct guest *g, struct relay_event ev)
{
    struct relay_actions acts;
    uint16_t unbuildable = 0;
    for (bool again = true; again;) {
        again = false;
        world_tell(w, "#%zu %s %u%s%s", g->index, event_name(ev.kind), ev.n, ev.failure ? ": " : "",
                   ev.failure ? outcome_word(ev.failure->outcome) : "");
        world_hash(w, w->now_us * 64 + ev.kind);
        laws_before(w, g);
        relay_event(g->relay, &ev, &acts);
        if (w->conf->sabotage != SABOTAGE_NONE && !w->is_sabotaged)
            w->is_sabotaged = spoil(w, g, &ev, &acts);
        laws_event(w, g, &ev);
        for (size_t i = 0; i < acts.n; i++) {
            carry_out(w, g, &acts.v[i]);
            laws_action(w, g, &ev, &acts.v[i]);
            if (acts.v[i].kind != ACT_START || !(g->unbuildable & (UINT32_C(1) << acts.v[i].link->index)))
                continue;
            end_script(g, acts.v[i].n);
            again = true;
            unbuildable = acts.v[i].n;
        }
        laws_after(w, g, &ev);
        if (again)
            ev = (struct relay_event){
                .kind = RELAY_UNBUILDABLE, .now_us = w->now_us, .n = unbuildable, .why = "scripted"};
    }
    arm(w, g);
}

/* A resuming attempt gave a token: it meets what the client has, or parts from it, or neither yet. */
static void do_joining(struct world *w, struct guest *g, uint16_t n)
{
    struct event more = {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 3};
    struct relay_event ev = {.kind = RELAY_JOINED, .now_us = w->now_us, .n = n};
    struct failure parted;
    if (g->join_in == 0) {
        failure_make(&parted, OUTCOME_INCOMPATIBLE, "scripted");
        ev.kind = RELAY_FAILED;
        ev.failure = &parted;
        feed(w, g, ev);
    } else if (--g->join_in == 0) {
        g->way = RESUME_NONE;
        feed(w, g, ev);
        ev.kind = RELAY_OUTPUT;
        ev.event = &more;
        feed(w, g, ev);
    }
}

static void do_step(struct world *w, struct guest *g, const struct thing *t)
{
    const struct host_script *script = script_of(g, t->n);
    if (script == NULL)
        return;
    if (g->laws.side.paused_us != 0) { /* nobody reads: it waits in the socket */
        struct thing later = *t;
        later.at_us = w->now_us + 50000;
        world_queue(w, later);
        return;
    }
    const struct host_step *s = &script->v[t->step];
    struct event e = {.kind = s->usage.output >= 0 ? EVENT_USAGE
                              : s->is_thought      ? EVENT_REASONING
                                                   : EVENT_TEXT,
                      .is_token = s->is_token,
                      .text_bytes = s->text_bytes,
                      .usage = s->usage};
    struct relay_event ev = {.kind = s->kind,
                             .now_us = w->now_us,
                             .n = t->n,
                             .connect_us = s->connect_us,
                             .status = s->status,
                             .bytes = s->text_bytes,
                             .adjusted = ""};
    struct failure failure = s->failure;
    if (s->kind == RELAY_OUTPUT)
        ev.event = &e;
    if (s->kind == RELAY_FAILED)
        ev.failure = &failure;
    feed(w, g, ev);
    if (s->is_token && g->way != RESUME_NONE && script_of(g, t->n) != NULL)
        do_joining(w, g, t->n);
}

static void do_arrive(struct world *w, struct guest *g)
{
    arena_init(&g->arena);
    g->is_arrived = true;
    g->relay = relay_new(&g->arena, &w->env, &g->start);
    w->result->n_requests++;
    feed(w, g, (struct relay_event){.kind = RELAY_START, .now_us = w->now_us});
}

static void do_thing(struct world *w, const struct thing *t)
{
    struct guest *g = &w->guests[t->guest];
    struct relay_event ev = {.now_us = w->now_us, .n = g->laws.side.open_n};
    if (t->kind == THING_ARRIVE) {
        do_arrive(w, g);
        return;
    }
    if (!g->is_arrived || g->laws.is_over)
        return;
    switch (t->kind) {
    case THING_STEP:
        do_step(w, g, t);
        return;
    case THING_TIMER:
        ev.kind = RELAY_TIME;
        g->armed_us = 0;
        break;
    case THING_LEAVE:
        ev.kind = RELAY_CLIENT_GONE;
        break;
    case THING_DRAIN:
        ev.kind = RELAY_DRAIN;
        break;
    case THING_PAUSE:
        ev.kind = RELAY_PAUSED;
        if (!g->laws.is_committed || g->laws.side.open_n == 0)
            return;
        break;
    default:
        ev.kind = RELAY_RESUMED;
        if (g->laws.side.paused_us == 0)
            return;
        break;
    }
    feed(w, g, ev);
}

void world_run(const struct world_conf *conf, struct world_result *out)
{
    struct world *w = mem_zalloc(sizeof *w);
    *out = (struct world_result){.hash = conf->seed};
    w->conf = conf;
    w->result = out;
    w->rng.state = conf->seed * 2 + 1;
    w->engine_rng.state = ~conf->seed;
    w->registry = registry_new();
    w->hedges = hedge_book_new();
    w->env = (struct relay_env){.registry = w->registry, .rng = &w->engine_rng, .hedges = w->hedges};
    w->now_us = WORLD_START_US;
    for (size_t i = 0; i < RM_COUNTOF(w->target_holder); i++)
        w->target_holder[i] = -1;
    cast_world(w);
    while (w->n_queue > 0 && w->n_events++ < EVENTS_MAX) {
        struct thing t = take_thing(w);
        w->now_us = t.at_us;
        do_thing(w, &t);
    }
    laws_end(w);
    for (size_t i = 0; i < w->n_guests; i++)
        if (w->guests[i].is_arrived)
            arena_fini(&w->guests[i].arena);
    registry_free(w->registry);
    hedge_book_free(w->hedges);
    mem_free(w->queue);
    mem_free(w);
}

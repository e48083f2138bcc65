/* How a request goes.
 *
 *   NEW -> ADMITTED -> RESERVED -> TRYING <-> WAITING
 *                         |         | ^ '------. |
 *                         |       SERVING      | |      (first token, or the whole answer of a non-streaming call; back
 *                         |          |         | |       when it breaks off and the route resumes)
 *                         '--------->'-> SETTLING -> OVER
 *
 * Six clocks, the first that is due wins, in this order: the deadline (until the commit), the attempt's own (budget,
 * then idle), the pause before the same link again, the heartbeat, the own one of an attempt beside it, the moment to
 * start one. An event that comes later than a clock is judged
 * after it: a token one microsecond past its budget is late, one exactly at it is not. Only the client's leaving and
 * our own stop come before all clocks.
 *
 * Every attempt that does not end well is answered with ACT_CANCEL, also when it failed by itself: what it sent is to
 * be dropped. */
#include "relay/relay.h"

#include "relay/inside.h"
#include "relay/meter.h"

enum { RETRY_PAUSE_US_MIN = 50000, RETRY_PAUSE_US_MAX = 150000, FIRINGS_MAX = 16 };

static const struct sm_row rows[] = {
    [REQUEST_NEW] = {"new", SM_TO(REQUEST_ADMITTED), false},
    [REQUEST_ADMITTED] = {"admitted", SM_TO(REQUEST_RESERVED), false},
    [REQUEST_RESERVED] = {"reserved", SM_TO(REQUEST_TRYING) | SM_TO(REQUEST_SETTLING), false},
    [REQUEST_TRYING] = {"trying", SM_TO(REQUEST_WAITING) | SM_TO(REQUEST_SERVING) | SM_TO(REQUEST_SETTLING), false},
    [REQUEST_WAITING] = {"waiting", SM_TO(REQUEST_TRYING) | SM_TO(REQUEST_SETTLING), false},
    [REQUEST_SERVING] = {"serving", SM_TO(REQUEST_TRYING) /* resumed */ | SM_TO(REQUEST_SETTLING), false},
    [REQUEST_SETTLING] = {"settling", SM_TO(REQUEST_OVER), false},
    [REQUEST_OVER] = {"over", 0, true},
};

struct relay_action *relay_act(struct relay *r, enum relay_action_kind kind)
{
    RM_ASSERT(r->out->n < RELAY_ACTIONS_MAX);
    struct relay_action *a = &r->out->v[r->out->n++];
    *a = (struct relay_action){.kind = kind};
    return a;
}

void relay_move(struct relay *r, enum request_state to)
{
    sm_move(&r->sm, rows, to, "relay", r->route->model);
}

static bool is_before_commit(const struct relay *r)
{
    return r->sm.state == REQUEST_TRYING || r->sm.state == REQUEST_WAITING;
}

/* ---- the end ---- */

static void finish(struct relay *r, enum outcome o, uint64_t now)
{
    RM_ASSERT(!attempt_is_open(&r->now) && r->trial.word == 0 && !hedge_is_out(r));
    r->record.outcome = o;
    r->record.total_us = (int64_t)(now - r->zero_us);
    meter_sum(&r->record);
    trail_tell_billing(r);
    budget_settle(r);
    if (r->route->hedge.is_on && r->env->hedges != NULL)
        hedge_settle(r->env->hedges, r->route, &r->record, now);
    relay_move(r, REQUEST_SETTLING);
    relay_move(r, REQUEST_OVER);
    relay_act(r, ACT_RECORD);
}

/* r->answer is told, where the client can still see it. */
static void finish_failed(struct relay *r, enum outcome o, uint64_t now)
{
    relay_act(r, r->is_head_sent ? ACT_ERROR_IN_STREAM : ACT_ANSWER)->answer = r->answer;
    finish(r, o, now);
}

void relay_cancel(struct relay *r, enum outcome o, const struct failure *f, uint64_t now_us)
{
    relay_act(r, ACT_CANCEL)->n = r->now.n;
    trail_close(r, o, f, now_us);
}

/* ---- failures ---- */

static void go_on(struct relay *r, const struct pick *p, const struct failure *f, uint64_t now)
{
    const char *none = now >= r->deadline_us ? "deadline" : p->is_spent ? "max_attempts reached" : "no link left";
    trail_decide(r, p->is_found ? "next link" : none, f);
    if (!next_go(r, p, now))
        finish_failed(r, answer_exhausted(r, now), now);
}

static void wait_for(struct relay *r, uint64_t until, bool is_hint)
{
    struct trouble *t = relay_trouble(r);
    t->wait_until_us = until;
    t->wait_place = r->now.place;
    t->is_wait_forced = is_hint;
    if (is_hint) {
        r->was_waited = true;
        r->link_start_us = 0; /* the link starts anew */
    } else {
        r->n_retries++;
    }
    relay_move(r, REQUEST_WAITING);
}

static struct verdict judge(struct relay *r, const struct failure *f, uint64_t pause, uint64_t now)
{
    const struct attempt *a = &r->now;
    struct verdict_ask ask = {
        .failure = f,
        .route = r->route,
        .is_later = r->is_later || a->record->kind == ATTEMPT_HEDGE,
        .may_again = r->record.n_started < r->route->max_attempts && now < r->deadline_us,
        .may_retry = r->n_retries < a->link->retries && !r->was_waited && now + pause < a->budget_end_us &&
                     now + pause < r->deadline_us,
        .may_wait = !r->was_waited && r->n_retries == 0,
        .quirks = a->quirks,
        .left_us = r->deadline_us > now ? r->deadline_us - now : 0,
        .head_us = a->head_us == 0 ? -1 : (int64_t)(a->head_us - a->start_us),
        .budget_us = a->budget_us,
    };
    struct verdict v = verdict_of(&ask);
    if (r->sm.state == REQUEST_SERVING)
        v.step = resume_can(r, &v) ? STEP_NEXT : STEP_RETURN;
    else if (resume_is_going_on(r) && v.step == STEP_RETURN)
        v.step = STEP_NEXT; /* its own refusal is no answer to what the client has already */
    return v;
}

struct trouble *relay_trouble(struct relay *r)
{
    if (!r->trouble)
        r->trouble = ARENA_NEW(r->arena, struct trouble);
    return r->trouble;
}

static void remember(struct relay *r, const struct verdict *v, const struct failure *f)
{
    struct trouble *t = relay_trouble(r);
    if (f != &t->last)
        t->last = *f;
    t->last_link = r->now.link;
    r->has_link_failed |= v->is_own_fault;
    if (f->outcome == OUTCOME_CONTEXT_LENGTH && v->step == STEP_NEXT) {
        t->context_failed = r->now.link;
        t->is_larger_known = v->is_larger_only;
    }
}

static void return_failure(struct relay *r, const struct failure *f, uint64_t now)
{
    hedge_close(r, OUTCOME_HEDGE_LOST, now);
    trail_decide(r, r->record.served_link >= 0 ? "told in the stream" : "answered", f);
    finish_failed(r, answer_failure(r, f, r->now.link, now), now);
}

static void move_on(struct relay *r, const struct failure *f, uint64_t now)
{
    r->is_later |= r->has_link_failed;
    r->has_link_failed = false;
    struct pick p = next_pick(r, now);
    go_on(r, &p, f, now);
}

/* It failed, and the one beside it goes on. A repair or a retry of it would only be a third. */
static void fall_behind(struct relay *r, const struct verdict *v, const struct failure *f, uint64_t now)
{
    if (v->step == STEP_REPAIR)
        (void)registry_learn_quirk(r->env->registry, r->now.link->target_id, f->quirk);
    trail_decide(r, "the attempt beside it goes on", f);
    health_fail(r, v, f, now);
    r->is_later |= r->has_link_failed;
    r->has_link_failed = false;
    hedge_swap(r);
}

/* The attempt that is out has failed; `is_neutral`: by no fault that its health should know of. */
static void fail(struct relay *r, const struct failure *f, bool is_neutral, uint64_t now)
{
    uint64_t pause = rng_between(r->env->rng, RETRY_PAUSE_US_MIN, RETRY_PAUSE_US_MAX);
    struct verdict v = judge(r, f, pause, now);
    if (is_neutral)
        v.effect = EFFECT_NEUTRAL;
    bool is_beside = hedge_is_out(r) && v.step != STEP_RETURN;
    relay_cancel(r, v.step == STEP_REPAIR && !is_beside ? OUTCOME_REPAIRED : f->outcome, f, now);
    if (is_beside) {
        remember(r, &v, f);
        fall_behind(r, &v, f, now);
        return;
    }
    if (v.step == STEP_REPAIR) {
        (void)registry_learn_quirk(r->env->registry, r->now.link->target_id, f->quirk);
        trail_decide(r, "repaired, the same target again", f);
        bool is_overtime = r->now.is_overtime;
        next_same(r, r->now.place, false, now);
        r->now.is_overtime = is_overtime && r->now.is_stream; /* it shares the budget that is over */
        return;
    }
    remember(r, &v, f);
    if (resume_is_refusal(r, f)) {
        trail_decide(r, "the same target without the prefilled answer", f);
        r->resume->is_refused = true;
        next_same(r, r->now.place, false, now);
        return;
    }
    if (v.step == STEP_RETRY) {
        health_owe(r, f);
        trail_decide(r, "retry on the same target", f);
        wait_for(r, now + pause, false);
        return;
    }
    health_fail(r, &v, f, now);
    if (v.step == STEP_WAIT) {
        trail_decide(r, "wait for the provider's hint", f);
        wait_for(r, now + (uint64_t)f->retry_after_ms * 1000, true);
    } else if (v.step == STEP_NEXT) {
        if (r->sm.state == REQUEST_SERVING)
            resume_begin(r, f, now);
        move_on(r, f, now);
    } else {
        return_failure(r, f, now);
    }
}

/* ---- clocks ---- */

static void on_deadline(struct relay *r, uint64_t now)
{
    struct failure f;
    failure_make(&f, OUTCOME_DEADLINE, "no answer within the deadline");
    hedge_close(r, OUTCOME_DEADLINE, now);
    if (attempt_is_open(&r->now)) {
        /* Its health knows of it only if it had its whole budget: a short deadline is not the provider's fault. */
        struct verdict v = {.effect = r->now.is_overtime ? EFFECT_COUNTS : EFFECT_NEUTRAL};
        relay_cancel(r, OUTCOME_DEADLINE, &f, now);
        trail_decide(r, "deadline", NULL);
        remember(r, &v, &f);
        health_fail(r, &v, &f, now);
    } else if (r->trouble) {
        health_pay(r, now);
    } else {
        relay_trouble(r)->last = f;
    }
    finish_failed(r, answer_exhausted(r, now), now);
}

/* Budget or idle time is over. Past the budget the attempt goes on where nobody else could be asked now. */
static void on_late(struct relay *r, uint64_t now)
{
    struct attempt *a = &r->now;
    struct failure f;
    failure_make(&f, attempt_late_word(a), "too slow");
    if (attempt_has_token(a)) {
        fail(r, &f, false, now);
        return;
    }
    struct pick p = {0};
    struct verdict v = judge(r, &f, 0, now);
    bool is_beside = hedge_is_out(r);
    if (v.step == STEP_NEXT && !is_beside)
        p = next_pick(r, now);
    if (v.step != STEP_NEXT || (!p.is_found && !is_beside)) {
        a->is_overtime = true;
        return;
    }
    if (!a->is_own_budget && now - r->link_start_us < a->own_budget_us)
        v.effect = EFFECT_NEUTRAL; /* a client's own short budget says nothing about the target */
    relay_cancel(r, f.outcome, &f, now);
    remember(r, &v, &f);
    if (is_beside) {
        fall_behind(r, &v, &f, now);
        return;
    }
    health_fail(r, &v, &f, now);
    r->is_later = true;
    r->has_link_failed = false;
    go_on(r, &p, &f, now);
}

static void on_wait_over(struct relay *r, uint64_t now)
{
    if (next_after_wait(r, now))
        return;
    health_pay(r, now);
    move_on(r, &r->trouble->last, now);
}

static void on_late_beside(struct relay *r, uint64_t now)
{
    hedge_swap(r);
    on_late(r, now);
}

static void on_heartbeat(struct relay *r, uint64_t now)
{
    relay_act(r, ACT_HEARTBEAT);
    r->is_head_sent = true;
    r->heartbeat_due_us = now + (uint64_t)r->route->heartbeat_ms * 1000;
}

/* In the order in which they are asked. */
static void (*const fire[])(struct relay *r, uint64_t now) = {on_deadline,  on_late,        on_wait_over,
                                                              on_heartbeat, on_late_beside, hedge_start};
enum { N_CLOCKS = RM_COUNTOF(fire), OWN_CLOCK = 1 };

/* When the clock of this place fires; 0 = it does not run. */
static inline uint64_t clock_us(const struct relay *r, unsigned clock)
{
    switch (clock) {
    case 0:
        return is_before_commit(r) ? r->deadline_us : 0;
    case OWN_CLOCK:
        return attempt_due_us(&r->now);
    case 2:
        return r->sm.state == REQUEST_WAITING ? r->trouble->wait_until_us : 0;
    case 3:
        return is_before_commit(r) ? r->heartbeat_due_us : 0;
    case 4:
        return hedge_is_out(r) ? attempt_due_us(&r->beside->now) : 0;
    default:
        return is_before_commit(r) ? r->hedge_due_us : 0;
    }
}

/* Kept, for it is asked for with each event and changes with few. */
static void set_quiet(struct relay *r)
{
    r->quiet_us = UINT64_MAX;
#pragma GCC unroll 6
    for (unsigned i = 0; i < N_CLOCKS; i++) {
        uint64_t us = i != OWN_CLOCK ? clock_us(r, i) : 0;
        if (us != 0 && us < r->quiet_us)
            r->quiet_us = us;
    }
}

static inline bool is_due(const struct relay *r, uint64_t limit)
{
    uint64_t wake = relay_wake_us(r);
    return wake != 0 && wake <= limit;
}

/* Fires what is due at or before `limit`, one after the other, and tells it that it is `now`. */
static void fire_clocks(struct relay *r, uint64_t limit, uint64_t now)
{
    for (int i = 0; i < FIRINGS_MAX && is_due(r, limit); i++) {
        unsigned k = 0;
        while (clock_us(r, k) == 0 || clock_us(r, k) > limit)
            k++;
        RM_ASSERT(k < N_CLOCKS);
        fire[k](r, now);
        set_quiet(r);
    }
}

/* ---- events of the attempt that is out ---- */

static void commit(struct relay *r, uint64_t now)
{
    struct attempt *a = &r->now;
    attempt_move(a, ATTEMPT_SERVING);
    relay_move(r, REQUEST_SERVING);
    a->record->outcome = OUTCOME_OK; /* so far; the head's trail says so */
    a->record->is_served = true;
    r->record.adjusted = a->adjusted ? a->adjusted : "";
    r->record.provider = a->record->provider;
    r->record.model = a->record->model;
    r->record.served_link = (int16_t)a->link->index;
    bool is_same = a->link->provider->dialect == r->record.dialect; /* of a snapshot: interned */
    r->record.names = is_same && a->link->names.text.n > 0 ? &a->link->names : NULL;
    if (r->record.ttft_us < 0)
        r->record.ttft_us = a->record->ttft_us;
    r->is_head_sent = true;
    relay_act(r, ACT_COMMIT)->n = a->n;
}

static void on_head(struct relay *r, const struct relay_event *ev)
{
    struct attempt *a = &r->now;
    attempt_move(a, ATTEMPT_ANSWERING);
    if (a->head_us != 0)
        return;
    a->head_us = ev->now_us;
    a->record->first_byte_us = (int64_t)(ev->now_us - r->zero_us);
    a->record->status = ev->status;
    struct bytes told = ev->provider_request_id;
    if (told.n > 0) {
        size_t room = told.n < PROVIDER_ID_BYTES ? told.n + 1 : PROVIDER_ID_BYTES;
        char *id = arena_alloc_raw(r->arena, room);
        failure_text(id, room, told);
        a->record->provider_request_id = id;
    }
    if (ev->adjusted && ev->adjusted[0] != '\0')
        r->record.adjusted = a->adjusted = arena_dup(r->arena, bytes_of(ev->adjusted)).p;
}

static void on_first_token(struct relay *r, uint64_t now)
{
    struct attempt *a = &r->now;
    a->record->ttft_us = (int64_t)(now - r->zero_us);
    attempt_move(a, ATTEMPT_FLOWING);
    hedge_settle_race(r, now);
    budget_token(r, now);
    health_token(r, now);
    if (r->call->is_stream && !resume_is_going_on(r))
        commit(r, now);
}

static void on_joined(struct relay *r, uint64_t now)
{
    RM_ASSERT(resume_is_going_on(r) && r->sm.state == REQUEST_TRYING);
    trail_decide(r, r->resume->way == RESUME_PREFILL ? "went on with the answer" : "repeated the answer and went on",
                 NULL);
    r->resume->is_going_on = false;
    commit(r, now);
}

static void on_answer_event(struct relay *r, const struct event *e, uint64_t now)
{
    struct attempt *a = &r->now;
    a->text_bytes += e->text_bytes;
    if (e->kind == EVENT_USAGE)
        usage_merge(&a->record->tokens, &e->usage);
    if ((e->kind == EVENT_USAGE || e->kind == EVENT_START) && e->name.n > 0)
        meter_hear(a, e->name);
    if (e->is_token && !attempt_has_token(a))
        on_first_token(r, now);
    if (r->sm.state == REQUEST_SERVING)
        resume_see(r, e);
}

/* The first of an output's events that tells an error; NULL = none does. */
static const struct event *error_of(const struct relay_event *ev)
{
    const struct event *e = ev->event;
    if (e == NULL)
        return NULL;
    for (const struct event *end = e + 1 + ev->n_further; e < end; e++)
        if (e->kind == EVENT_ERROR && e->failure)
            return e;
    return NULL;
}

/* Up to the one that tells an error, if there is one. */
static void note_events(struct relay *r, const struct relay_event *ev, const struct event *error)
{
    const struct event *e = ev->event, *end = error != NULL ? error : e != NULL ? e + 1 + ev->n_further : NULL;
    attempt_move(&r->now, ATTEMPT_ANSWERING);
    for (; e < end; e++)
        on_answer_event(r, e, ev->now_us);
}

static void on_output(struct relay *r, const struct relay_event *ev)
{
    const struct event *error = error_of(ev);
    note_events(r, ev, error);
    if (error == NULL) {
        attempt_feed(&r->now, ev->now_us);
        return;
    }
    struct failure f = *error->failure;
    f.in_stream = true;
    fail(r, &f, false, ev->now_us);
}

static void on_ended(struct relay *r, uint64_t now)
{
    struct attempt *a = &r->now;
    if (resume_is_going_on(r)) {
        struct failure f;
        failure_make(&f, OUTCOME_INCOMPATIBLE, "its answer ended before it met what was told");
        fail(r, &f, true, now);
        return;
    }
    if (a->record->ttft_us < 0)
        a->record->ttft_us = (int64_t)(now - r->zero_us);
    hedge_settle_race(r, now);
    if (r->sm.state != REQUEST_SERVING)
        commit(r, now);
    relay_act(r, ACT_END)->n = a->n;
    health_good(r, now);
    trail_close(r, OUTCOME_OK, NULL, now);
    finish(r, OUTCOME_OK, now);
}

static void on_unbuildable(struct relay *r, const struct relay_event *ev)
{
    size_t place = r->now.place;
    trail_unstart(r, ev->why);
    r->marks[place] |= PLACE_UNBUILDABLE;
    health_neutral(r, ev->now_us);
    if (hedge_is_out(r)) {
        hedge_swap(r);
        r->hedge_due_us = ev->now_us; /* another one, perhaps */
        return;
    }
    struct pick p = next_pick(r, ev->now_us);
    if (!next_go(r, &p, ev->now_us))
        finish_failed(r, answer_exhausted(r, ev->now_us), ev->now_us);
}

static void on_connected(struct attempt *a, int64_t connect_us)
{
    attempt_move(a, ATTEMPT_CONNECTED);
    a->record->connect_us = connect_us;
}

static void on_attempt_event(struct relay *r, const struct relay_event *ev)
{
    struct attempt *a = &r->now;
    switch (ev->kind) {
    case RELAY_CONNECTED:
        on_connected(a, ev->connect_us);
        return;
    case RELAY_SENT:
        a->is_sent = true;
        return;
    case RELAY_HEAD:
        on_head(r, ev);
        return;
    case RELAY_REPLAYED:
        attempt_replay(a);
        return;
    case RELAY_OUTPUT:
        on_output(r, ev);
        return;
    case RELAY_JOINED:
        on_joined(r, ev->now_us);
        return;
    case RELAY_ENDED:
        on_ended(r, ev->now_us);
        return;
    case RELAY_FAILED:
        fail(r, ev->failure, false, ev->now_us);
        return;
    case RELAY_PAUSED:
        attempt_pause(a, ev->now_us);
        return;
    case RELAY_RESUMED:
        attempt_resume(a, ev->now_us);
        return;
    case RELAY_UNBUILDABLE:
        on_unbuildable(r, ev);
        return;
    default:
        RM_UNREACHABLE();
    }
}

/* ---- events of the request ---- */

static void on_start(struct relay *r, uint64_t now)
{
    RM_ASSERT(r->sm.state == REQUEST_NEW);
    relay_move(r, REQUEST_ADMITTED);
    relay_move(r, REQUEST_RESERVED);
    if (now >= r->deadline_us) {
        on_deadline(r, now);
        return;
    }
    struct pick p = next_pick(r, now);
    if (!next_go(r, &p, now))
        finish_failed(r, answer_exhausted(r, now), now);
}

static void on_client_gone(struct relay *r, uint64_t now)
{
    hedge_close(r, OUTCOME_CLIENT_CANCELLED, now);
    if (attempt_is_open(&r->now)) {
        relay_cancel(r, OUTCOME_CLIENT_CANCELLED, NULL, now);
        trail_decide(r, "the client left", NULL);
    }
    health_pay(r, now);
    finish(r, OUTCOME_CLIENT_CANCELLED, now);
}

static void on_drain(struct relay *r, uint64_t now)
{
    hedge_close(r, OUTCOME_DRAINED, now);
    if (attempt_is_open(&r->now)) {
        relay_cancel(r, OUTCOME_DRAINED, NULL, now);
        trail_decide(r, "cut by our own stop", NULL);
    }
    health_pay(r, now);
    finish_failed(r, answer_drained(r), now);
}

void relay_reached(struct relay *r, uint16_t n, int64_t connect_us, bool is_sent)
{
    struct attempt *a = hedge_is_out(r) && r->beside->now.n == n ? &r->beside->now : &r->now;
    if (a->n != n || !attempt_is_open(a))
        return;
    on_connected(a, connect_us);
    a->is_sent |= is_sent;
}

bool relay_flow(struct relay *r, uint16_t n, const struct event *e, uint64_t now_us)
{
    struct attempt *a = &r->now;
    if (a->n != n || !attempt_is_flowing(a, now_us) || now_us > r->quiet_us || e->kind == EVENT_ERROR ||
        e->kind == EVENT_USAGE)
        return false;
    a->text_bytes += e->text_bytes;
    if (r->sm.state == REQUEST_SERVING)
        resume_see(r, e);
    attempt_feed(a, now_us);
    return true;
}

bool relay_tell(struct relay *r, const struct relay_event *ev)
{
    bool is_output = ev->kind == RELAY_OUTPUT && !r->record.is_stream && r->hedge_due_us == 0;
    if ((ev->kind != RELAY_HEAD && !is_output) || r->beside != NULL || r->now.n != ev->n || !attempt_is_open(&r->now) ||
        is_due(r, ev->now_us - 1) || (is_output && error_of(ev) != NULL))
        return false;
    if (!is_output) {
        on_head(r, ev);
        return true;
    }
    note_events(r, ev, NULL);
    attempt_feed(&r->now, ev->now_us);
    return true;
}

void relay_event(struct relay *r, const struct relay_event *ev, struct relay_actions *out)
{
    out->n = 0;
    if (sm_is_final(&r->sm, rows) || relay_tell(r, ev))
        return;
    r->out = out;
    switch (ev->kind) {
    case RELAY_START:
        on_start(r, ev->now_us);
        break;
    case RELAY_TIME:
        r->now.is_unacked = ev->is_unacked && ev->n == r->now.n;
        if (r->beside != NULL)
            r->beside->now.is_unacked = ev->is_unacked && ev->n == r->beside->now.n;
        fire_clocks(r, ev->now_us, ev->now_us);
        break;
    case RELAY_CLIENT_GONE:
        on_client_gone(r, ev->now_us);
        break;
    case RELAY_DRAIN:
        on_drain(r, ev->now_us);
        break;
    default:
        if (is_due(r, ev->now_us - 1))
            fire_clocks(r, ev->now_us - 1, ev->now_us);
        if (hedge_is_out(r) && r->beside->now.n == ev->n)
            hedge_swap(r);
        if (attempt_is_open(&r->now) && r->now.n == ev->n)
            on_attempt_event(r, ev);
        break;
    }
    if (sm_is_final(&r->sm, rows))
        r->quiet_us = UINT64_MAX;
    else
        set_quiet(r);
    r->out = NULL;
}

/* ---- the rest of the contract ---- */

bool relay_speaks(const struct relay *r, const struct link_conf *link)
{
    const char *theirs = link->provider->dialect, *ours = r->record.dialect;
    return theirs == ours /* of a snapshot: interned */ || strcmp(theirs, ours) == 0;
}

struct candidate relay_candidate(const struct relay *r, size_t place)
{
    const struct link_conf *link = relay_link(r, place);
    struct call room;
    if (r->marks[place] & PLACE_UNBUILDABLE)
        return (struct candidate){.skip = OUTCOME_SKIPPED_INCAPABLE, .why = "the request cannot be expressed there"};
    return candidate_of(relay_call(r, &room), link, relay_link(r, 0), relay_speaks(r, link));
}

static size_t length_of_chain(const struct relay_start *s)
{
    const struct directive *d = s->directive;
    size_t n = d != NULL && d->order != NULL ? d->n_order : s->route->n_links;
    RM_ASSERT(n > 0 && n <= UINT16_MAX);
    return d != NULL && d->fallback_off ? 1 : n;
}

_Static_assert(sizeof(struct relay) + 4 <= RELAY_BYTES, "an undisturbed request takes one block");

struct relay *relay_new(struct arena *a, const struct relay_env *env, const struct relay_start *start)
{
    const struct directive *d = start->directive;
    size_t n_chain = length_of_chain(start);
    struct relay *r = arena_alloc(a, sizeof *r + n_chain);
    r->env = env;
    r->config = start->config;
    r->route = start->route;
    r->directive = d;
    r->order = d != NULL ? d->order : NULL;
    r->call = start->call;
    r->zero_us = start->now_us;
    r->arena = a;
    r->n_chain = (uint16_t)n_chain;
    sm_init(&r->sm, REQUEST_NEW);
    trail_init(r, start);
    uint32_t ms = start->route->deadline_ms;
    if (d != NULL && d->deadline_ms != 0 && d->deadline_ms < ms)
        ms = d->deadline_ms;
    r->deadline_us = start->now_us + (uint64_t)ms * 1000;
    resume_init(r);
    if (start->route->heartbeat_ms != 0 && start->call->is_stream)
        r->heartbeat_due_us = start->now_us + (uint64_t)start->route->heartbeat_ms * 1000;
    return r;
}

uint64_t relay_wake_us(const struct relay *r)
{
    uint64_t own = attempt_due_us(&r->now);
    if (own != 0 && own < r->quiet_us)
        return own;
    return r->quiet_us == UINT64_MAX ? 0 : r->quiet_us;
}

bool relay_is_over(const struct relay *r)
{
    return sm_is_final(&r->sm, rows);
}

bool relay_is_committed(const struct relay *r)
{
    return r->record.served_link >= 0;
}

const struct request_record *relay_record(const struct relay *r)
{
    return &r->record;
}

void relay_let_go_of_call(struct relay *r)
{
    RM_ASSERT(r->out == NULL && relay_is_committed(r) && r->resume == NULL);
    if (r->call != NULL)
        r->n_choices = r->call->n;
    r->call = NULL;
}

const struct call *relay_call(const struct relay *r, struct call *room)
{
    const struct request_record *rec = &r->record;
    if (r->call != NULL)
        return r->call;
    *room = (struct call){.is_stream = rec->is_stream,
                          .max_tokens = rec->max_tokens,
                          .effort = bytes_of(rec->effort),
                          .prompt_bytes = (uint64_t)rec->prompt_bytes,
                          .prefix_hash = rec->prefix_hash};
    prompt_to_call(&rec->prompt, room);
    room->n = r->n_choices;
    return room;
}

void relay_set_status(struct relay *r, unsigned status)
{
    r->record.status = (uint16_t)status;
}

void relay_set_gateway_us(struct relay *r, int64_t us)
{
    r->record.gateway_us = us;
}

void relay_mark_cache(struct relay *r, uint16_t n, enum cache_mark mark)
{
    trail_entry(r, n)->cache_mark = mark;
}

void relay_note(struct relay *r, uint16_t n, const char *words)
{
    trail_note(r, n, words);
}

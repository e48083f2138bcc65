/* The laws, written a second time and differently from the engine: from what was fed and what came out alone. The judge
 * asks the health registry what a target's word was before the event and after it, and believes the engine nothing
 * else.
 *
 * Safety: an action is legal where it stands. Liveness: a failure needs an excuse. */
#include "plan/candidate.h"
#include "sim/inside.h"

#define LAW(cond, text)              \
    do {                             \
        if (!(cond))                 \
            world_break(w, g, text); \
    } while (0)

static size_t place_of(const struct guest *g, const struct link_conf *l)
{
    for (size_t i = 0; i < g->n_chain; i++)
        if (g->chain[i] == l)
            return i;
    return SIZE_MAX;
}

/* ---- what the world knows of a link ---- */

static bool is_window_too_small(const struct guest *g, const struct link_conf *l)
{
    uint64_t tokens = (g->call.prompt_bytes + 3) / 4;
    return l->context_window != 0 && tokens + tokens / 10 > (uint64_t)l->context_window;
}

static enum outcome skip_of(const struct guest *g, size_t place)
{
    const struct link_conf *l = g->chain[place];
    if (l->provider->is_off)
        return OUTCOME_SKIPPED_OFF;
    if (g->call.state.n > 0 && l->provider != g->chain[0]->provider)
        return OUTCOME_SKIPPED_STATE;
    if ((g->call.has_tools && l->supports.tools == NO) || is_window_too_small(g, l) ||
        (g->laws.unbuildable & (UINT32_C(1) << place)))
        return OUTCOME_SKIPPED_INCAPABLE;
    return OUTCOME_OK;
}

static bool is_window_refused(const struct guest *g, size_t place)
{
    const struct link_conf *failed = g->laws.context_failed, *l = g->chain[place];
    if (!failed)
        return false;
    bool is_known_larger = failed->context_window > 0 && l->context_window > failed->context_window;
    bool is_known_not = l->context_window > 0 && l->context_window <= failed->context_window;
    return g->laws.is_larger_known ? !is_known_larger : is_known_not;
}

static bool is_sole(const struct guest *g)
{
    unsigned n = 0;
    for (size_t i = 0; i < g->n_chain; i++)
        n += skip_of(g, i) == OUTCOME_OK;
    return n == 1;
}

static uint64_t until_now(const struct world *w, const struct link_conf *l)
{
    return registry_until(w->registry, l->target_id, l->provider->credential_id, w->now_us);
}

/* Some other link could have been started just before this event. */
static bool is_other_startable(const struct guest *g)
{
    if (g->laws.n_started >= g->route->max_attempts || is_sole(g))
        return false;
    size_t from = g->laws.side.place + 1; /* what a hedge passed over is behind us */
    for (size_t i = from; i < g->n_chain; i++)
        from = g->laws.tried[i] ? i + 1 : from;
    for (size_t i = from; i < g->n_chain; i++)
        if (skip_of(g, i) == OUTCOME_OK && !g->laws.tried[i] && !is_window_refused(g, i) &&
            (g->laws.until[i] == 0 || g->route->breaker.is_off))
            return true;
    return false;
}

/* ---- before and at the event ---- */

void laws_before(struct world *w, struct guest *g)
{
    for (size_t i = 0; i < g->n_chain; i++) {
        const struct link_conf *l = g->chain[i];
        g->laws.until[i] = until_now(w, l);
        g->laws.state[i] = registry_state(w->registry, l->target_id, w->now_us);
        g->laws.credential_state[i] = registry_credential_state(w->registry, l->provider->credential_id, w->now_us);
    }
}

static void note_failure(struct laws *l, const struct failure *f, uint64_t now)
{
    l->has_failure = true;
    l->failure = *f;
    l->failure_us = now;
    l->is_of_hedge = l->side.is_hedge;
    l->failure_head_us = l->side.head_us;
    l->is_cut = false;
}

static bool is_stop_class(const struct failure *f)
{
    return f->class == FAILURE_CLIENT || f->class == FAILURE_POLICY || f->class == FAILURE_COMPAT ||
           f->class == FAILURE_AUTH || f->class == FAILURE_NOTFOUND;
}

static bool is_own_fault(const struct failure *f)
{
    return f->class == FAILURE_AUTH || f->class == FAILURE_NOTFOUND ||
           (!is_stop_class(f) && f->class != FAILURE_CONTEXT);
}

static bool is_opted_in(const struct guest *g, const struct failure *f)
{
    return f->class == FAILURE_AUTH && g->route->failover_on.outcomes[OUTCOME_AUTH_ERROR];
}

/* The last failure must go back to the client at once. */
static bool must_return(const struct guest *g)
{
    const struct laws *l = &g->laws;
    return l->has_failure && !l->is_later && !l->is_of_hedge && is_stop_class(&l->failure) &&
           !is_opted_in(g, &l->failure);
}

/* What the client has of the answer. */
static void see_told(const struct world *w, struct laws *l, const struct event *e)
{
    l->n_told += e->text_bytes;
    l->is_untellable |= e->kind == EVENT_REASONING || l->n_told > w->config.limits.gate_bytes;
}

static bool can_resume(const struct guest *g)
{
    return g->route->resume && g->call.is_stream && g->call.n == 1 && !g->laws.is_untellable;
}

static bool is_shown(const struct laws *l)
{
    return l->is_committed && !l->is_resuming;
}

static void see_output(struct laws *l, const struct guest *g, const struct relay_event *ev)
{
    if (ev->event && ev->event->is_token)
        l->side.has_token = true;
    if (l->side.has_token)
        l->side.idle_due_us = ev->now_us + (uint64_t)g->chain[l->side.place]->idle_timeout_ms * 1000;
}

static void swap_sides(struct laws *l)
{
    struct law_side was = l->side;
    l->side = l->beside;
    l->beside = was;
}

/* What is judged is over; if one is beside it, that one goes on. */
static void close_side(struct laws *l)
{
    l->side.open_n = 0;
    if (l->beside.open_n != 0)
        swap_sides(l);
}

void laws_event(struct world *w, struct guest *g, const struct relay_event *ev)
{
    struct laws *l = &g->laws;
    if (ev->n != 0 && ev->n == l->beside.open_n)
        swap_sides(l);
    if (ev->n == 0 || ev->n != l->side.open_n)
        return;
    switch (ev->kind) {
    case RELAY_HEAD:
        l->side.head_us = l->side.head_us ? l->side.head_us : ev->now_us;
        return;
    case RELAY_OUTPUT:
        see_output(l, g, ev);
        if (is_shown(l))
            see_told(w, l, ev->event);
        return;
    case RELAY_FAILED:
        note_failure(l, ev->failure, ev->now_us);
        return;
    case RELAY_UNBUILDABLE:
        l->unbuildable |= UINT32_C(1) << l->side.place;
        l->n_started--;
        l->hedge_due_us = l->beside.open_n != 0 ? w->now_us : 0;
        close_side(l);
        return;
    case RELAY_PAUSED:
        l->side.paused_us = ev->now_us;
        return;
    case RELAY_RESUMED:
        if (l->side.idle_due_us)
            l->side.idle_due_us += ev->now_us - l->side.paused_us;
        l->side.paused_us = 0;
        return;
    default:
        return;
    }
}

/* ---- actions ---- */

static bool is_retry_lawful(const struct guest *g, uint64_t now)
{
    const struct laws *l = &g->laws;
    const struct failure *f = &l->failure;
    const struct link_conf *link = g->chain[l->side.place];
    if (l->is_cut || l->side.n_retries >= link->retries || now >= l->side.link_start_us + l->side.budget_us)
        return false;
    if (now - l->failure_us < 50000 || now - l->failure_us > 150000)
        return false;
    if (f->outcome == OUTCOME_CONNECT_ERROR)
        return f->is_established;
    uint64_t limit = l->side.budget_us / 4 < 500000 ? l->side.budget_us / 4 : 500000;
    return f->outcome == OUTCOME_SERVER_ERROR && (f->status == 500 || f->status == 502) && !f->in_stream &&
           l->failure_head_us != 0 && l->failure_head_us - l->side.start_us <= limit;
}

static bool is_wait_lawful(const struct guest *g, uint64_t now)
{
    const struct laws *l = &g->laws;
    const struct failure *f = &l->failure;
    return !l->is_cut && !l->side.was_waited && f->outcome == OUTCOME_RATE_LIMITED && f->retry_after_ms >= 0 &&
           f->retry_after_ms <= (int64_t)g->route->wait_retry_after_ms &&
           now == l->failure_us + (uint64_t)f->retry_after_ms * 1000;
}

static bool is_repair_lawful(const struct guest *g, uint64_t now)
{
    const struct laws *l = &g->laws;
    return !l->is_cut && l->failure.class == FAILURE_COMPAT && l->failure.quirk != 0 &&
           !(l->side.quirks & l->failure.quirk) && now == l->failure_us;
}

/* The link refused the prefilled answer, and is asked without. */
static bool is_refusal_lawful(const struct guest *g, uint64_t now)
{
    const struct laws *l = &g->laws;
    return l->is_resuming && l->way == RESUME_PREFILL && !l->is_cut && now == l->failure_us &&
           l->failure.status == 400 && (l->failure.class == FAILURE_CLIENT || l->failure.class == FAILURE_COMPAT);
}

/* The attempt before it was let in, and it corrects that one. */
static bool is_correction(const struct guest *g, uint64_t now)
{
    return is_repair_lawful(g, now) || is_refusal_lawful(g, now);
}

static void judge_same_link(struct world *w, struct guest *g)
{
    struct laws *l = &g->laws;
    if (is_repair_lawful(g, w->now_us)) {
        w->result->n_repairs++;
    } else if (is_refusal_lawful(g, w->now_us)) {
        l->is_refused = true;
    } else if (is_wait_lawful(g, w->now_us)) {
        l->side.was_waited = true;
        l->side.is_overtime = false; /* the link starts anew */
        l->side.link_start_us = 0;
        w->result->n_waits++;
    } else if (is_retry_lawful(g, w->now_us)) {
        l->side.n_retries++;
        w->result->n_retries++;
    } else {
        world_break(w, g, "the same target again without a lawful reason");
    }
}

static void judge_other_link(struct world *w, struct guest *g, size_t place)
{
    struct laws *l = &g->laws;
    LAW(!l->tried[place], "a link was started twice");
    LAW(l->n_started == 0 || place > l->side.place || is_sole(g), "the chain was walked backwards");
    LAW(l->is_resuming || l->side.is_hedge || !must_return(g),
        "a failure of the client's kind moved on to another provider");
    LAW(!is_window_refused(g, place), "a link whose window is not known to be larger was asked");
    l->is_later |= l->side.is_link_fault; /* a hedge's own side begins without one */
    l->side.is_link_fault = false;
    l->side.link_start_us = 0;
    l->side.n_retries = 0;
    l->side.was_waited = l->is_refused = false;
}

static size_t holder_slot(const struct link_conf *l)
{
    return l->target_id;
}

/* An open target may be passed only by its one trial, or by a request that has nobody else. (A repair corrects an
 * attempt that was let in.) */
static void judge_health(struct world *w, struct guest *g, size_t place, bool is_same)
{
    struct laws *l = &g->laws;
    if (g->route->breaker.is_off || is_sole(g))
        return;
    const struct link_conf *link = g->chain[place];
    bool is_holder = w->target_holder[holder_slot(link)] == (int)g->index;
    LAW(l->until[place] == 0 || is_holder || (is_same && (l->side.was_waited || is_correction(g, w->now_us))),
        "a request started on an open target");
    if (l->state[place] == HEALTH_OPEN && !is_holder && !is_correction(g, w->now_us))
        LAW(registry_state(w->registry, link->target_id, w->now_us) == HEALTH_TRIAL ||
                registry_credential_state(w->registry, link->provider->credential_id, w->now_us) == HEALTH_TRIAL,
            "an open target was passed without taking the trial");
}

static void set_budget(const struct guest *g, struct laws *l, const struct relay_action *a)
{
    uint32_t ms = a->link->ttft_budget_ms;
    if (g->directive.ttft_ms && g->directive.ttft_ms < ms)
        ms = g->directive.ttft_ms;
    l->side.budget_us = (uint64_t)(a->is_stream ? ms : a->link->total_budget_ms) * 1000;
    if (!a->is_stream)
        l->side.link_start_us = l->side.start_us;
}

static void judge_way(struct world *w, struct guest *g, const struct relay_action *a)
{
    struct laws *l = &g->laws;
    bool takes_prefill =
        a->link->supports.prefill == YES && !l->is_refused && !g->call.has_json_schema && l->n_told > 0;
    enum resume_way way = takes_prefill ? RESUME_PREFILL : RESUME_RESTART;
    LAW(a->resume == (l->is_resuming ? way : RESUME_NONE), "an attempt was asked in the wrong way to go on");
    l->way = a->resume;
}

/* Another one is out: this one must be a hedge that is due. */
static void judge_hedge(struct world *w, struct guest *g, const struct relay_event *ev, const struct relay_action *a)
{
    struct laws *l = &g->laws;
    size_t place = l->side.place;
    LAW(g->route->hedge.is_on && ev->kind == RELAY_TIME && l->hedge_due_us != 0 && w->now_us >= l->hedge_due_us &&
            !l->side.has_token && !l->is_committed && l->beside.open_n == 0,
        "an attempt was started while another was out");
    LAW(relay_record(g->relay)->attempts[a->n - 1].kind == ATTEMPT_HEDGE, "a hedge is not recorded as one");
    l->beside = l->side;
    l->side = (struct law_side){.place = place, .is_hedge = true};
    w->result->n_hedges++;
}

static void judge_start(struct world *w, struct guest *g, const struct relay_event *ev, const struct relay_action *a)
{
    struct laws *l = &g->laws;
    size_t place = place_of(g, a->link);
    LAW(place != SIZE_MAX, "a link outside the chain was started");
    if (l->side.open_n != 0)
        judge_hedge(w, g, ev, a);
    else
        l->side.is_hedge = false;
    LAW(!is_shown(l), "an attempt was started after the commit");
    LAW(l->n_started < g->route->max_attempts, "more than max_attempts");
    LAW(w->now_us < g->deadline_us, "an attempt was started past the deadline");
    if (place == SIZE_MAX)
        return;
    LAW(skip_of(g, place) == OUTCOME_OK, "a link that cannot serve was started");
    const struct request_record *rec = relay_record(g->relay);
    LAW(a->n >= 1 && a->n <= rec->n_attempts && rec->attempts[a->n - 1].link == a->link->index,
        "the trail names another link than was started");
    LAW(!g->call.is_stream || a->is_stream, "a streaming client's attempt was not asked for as a stream");
    bool is_same = l->tried[place] && place == l->side.place;
    if (is_same)
        judge_same_link(w, g);
    else
        judge_other_link(w, g, place);
    judge_health(w, g, place, is_same);
    judge_way(w, g, a);
    l->tried[place] = true;
    l->side.place = place;
    l->side.open_n = a->n;
    l->n_started++;
    l->side.start_us = w->now_us;
    l->side.link_start_us = l->side.link_start_us ? l->side.link_start_us : w->now_us;
    l->side.has_token = false;
    l->side.is_overtime = is_same && l->side.is_overtime && a->is_stream; /* a repair shares the budget that is over */
    l->side.head_us = l->side.idle_due_us = l->side.paused_us = 0;
    l->side.is_stream = a->is_stream;
    l->side.quirks = a->quirks;
    set_budget(g, l, a);
    if (!is_same)
        l->hedge_due_us = l->beside.open_n == 0 && a->is_stream && !l->is_resuming && g->route->hedge.is_on
                              ? w->now_us + (uint64_t)g->route->hedge.after_ms * 1000
                              : 0;
    w->result->n_attempts++;
}

static void judge_cut(struct world *w, struct guest *g)
{
    struct laws *l = &g->laws;
    uint64_t now = w->now_us;
    bool is_deadline = !is_shown(l) && now == g->deadline_us;
    bool is_idle = l->side.has_token && l->side.paused_us == 0 && now == l->side.idle_due_us;
    bool is_budget = !l->side.has_token && !l->side.is_overtime && now == l->side.link_start_us + l->side.budget_us;
    LAW(is_deadline || is_idle || is_budget, "an attempt was cut at a time that is none of its limits");
    LAW(is_deadline || is_idle || l->beside.open_n != 0 || is_other_startable(g),
        "an attempt was cut by its budget with nobody to follow it");
    struct failure f;
    failure_make(&f, is_deadline ? OUTCOME_DEADLINE : is_idle ? OUTCOME_IDLE_TIMEOUT : OUTCOME_TTFT_TIMEOUT, "");
    note_failure(l, &f, now);
    l->is_cut = true;
}

/* The other one of two: its race is lost, or what it raced for is decided. */
static void judge_cancel_beside(struct world *w, struct guest *g, const struct relay_event *ev)
{
    struct laws *l = &g->laws;
    bool is_won =
        ev->n == l->side.open_n && ((ev->kind == RELAY_OUTPUT && ev->event->is_token) || ev->kind == RELAY_ENDED);
    bool is_end = ev->kind == RELAY_CLIENT_GONE || ev->kind == RELAY_DRAIN ||
                  (ev->kind == RELAY_TIME && w->now_us == g->deadline_us);
    const struct attempt_record *rec = &relay_record(g->relay)->attempts[l->beside.open_n - 1];
    LAW(is_won || is_end, "a hedge was cancelled for no reason");
    LAW((rec->outcome == OUTCOME_HEDGE_LOST) == is_won, "a hedge that lost is not recorded as one");
    l->beside.open_n = 0;
}

static void judge_cancel(struct world *w, struct guest *g, const struct relay_event *ev, const struct relay_action *a)
{
    struct laws *l = &g->laws;
    if (a->n != 0 && a->n == l->beside.open_n) {
        const struct attempt_record *rec = &relay_record(g->relay)->attempts[a->n - 1];
        if (ev->kind != RELAY_TIME || rec->outcome == OUTCOME_DEADLINE) {
            judge_cancel_beside(w, g, ev);
            return;
        }
        swap_sides(l); /* its own budget is over */
    } else if (ev->kind == RELAY_FAILED && ev->n != a->n && l->side.open_n == a->n) {
        LAW(must_return(g), "a hedge was cancelled for no reason");
        l->side.open_n = 0;
        return;
    }
    LAW(l->side.open_n == a->n && a->n != 0, "an attempt was cancelled that was not out");
    if (ev->kind == RELAY_TIME)
        judge_cut(w, g);
    else
        LAW((ev->kind == RELAY_FAILED && ev->n == a->n) || ev->kind == RELAY_CLIENT_GONE || ev->kind == RELAY_DRAIN ||
                (ev->kind == RELAY_ENDED && ev->n == a->n && l->is_resuming),
            "an attempt was cancelled for no reason");
    if (l->has_failure && ev->kind != RELAY_CLIENT_GONE && ev->kind != RELAY_DRAIN) {
        /* An end that meets nothing, while a broken answer is gone on with, has no failure of its own. */
        if (ev->kind != RELAY_ENDED && l->failure.class == FAILURE_CONTEXT && !is_shown(l)) {
            l->context_failed = g->chain[l->side.place];
            l->is_larger_known = !l->is_later && !l->is_of_hedge;
        }
        l->side.is_link_fault |= is_own_fault(&l->failure);
        if (is_shown(l) && can_resume(g)) {
            l->is_resuming = true;
            l->broke = l->failure.outcome;
            g->deadline_us = w->now_us + (uint64_t)g->route->deadline_ms * 1000;
        }
    }
    if (l->beside.open_n != 0 && !must_return(g)) {
        l->is_later |= l->side.is_link_fault;
        l->side.is_link_fault = false;
    }
    close_side(l);
}

static void judge_commit(struct world *w, struct guest *g, const struct relay_event *ev, const struct relay_action *a)
{
    struct laws *l = &g->laws;
    if (l->is_resuming && ev->kind == RELAY_JOINED) {
        LAW(l->side.open_n == a->n && ev->n == a->n, "the commit is not of the attempt that is out");
        l->is_resuming = false;
        l->n_joins++;
        w->result->n_joins++;
        return;
    }
    LAW(!l->is_committed, "committed twice");
    LAW(l->beside.open_n == 0, "committed while the other attempt was out");
    LAW(l->side.open_n == a->n && ev->n == a->n, "the commit is not of the attempt that is out");
    bool is_token = ev->kind == RELAY_OUTPUT && ev->event && ev->event->is_token && g->call.is_stream;
    LAW(is_token || ev->kind == RELAY_ENDED, "committed without a first token or a whole answer");
    LAW(w->now_us <= g->deadline_us, "committed past the deadline");
    l->is_committed = l->is_head_sent = true;
    if (ev->kind == RELAY_OUTPUT)
        see_told(w, l, ev->event);
}

/* ---- the end of a request ---- */

static bool is_excused(const struct world *w, const struct guest *g, size_t place)
{
    const struct laws *l = &g->laws;
    if (l->tried[place] || skip_of(g, place) != OUTCOME_OK || is_window_refused(g, place))
        return true;
    const struct request_record *rec = relay_record(g->relay);
    for (size_t i = 0; i < rec->n_attempts; i++) /* its skip was judged when it was made */
        if (rec->attempts[i].link == g->chain[place]->index && outcome_is_skip(rec->attempts[i].outcome))
            return !is_sole(g);
    return false;
}

/* A failure needs an excuse. */
static void judge_failure(struct world *w, struct guest *g, const struct relay_event *ev, const struct relay_answer *a)
{
    struct laws *l = &g->laws;
    if (is_shown(l) || ev->kind == RELAY_DRAIN || ev->kind == RELAY_CLIENT_GONE)
        return;
    LAW(!l->is_resuming || (a != NULL && a->failure.outcome == l->broke),
        "the client is not told why its answer broke off");
    if (w->now_us >= g->deadline_us || l->n_started >= g->route->max_attempts || (!l->is_resuming && must_return(g)))
        return;
    for (size_t i = 0; i < g->n_chain; i++)
        LAW(is_excused(w, g, i), "a failure without an excuse: a link was neither tried nor rightly skipped");
}

static int64_t plus(int64_t a, int64_t b)
{
    return a == NUSD_UNKNOWN || b == NUSD_UNKNOWN ? NUSD_UNKNOWN : a + b;
}

static bool is_cut_by_us(const struct attempt_record *a)
{
    static const enum outcome ours[] = {OUTCOME_TTFT_TIMEOUT,    OUTCOME_TOTAL_TIMEOUT, OUTCOME_IDLE_TIMEOUT,
                                        OUTCOME_DEADLINE,        OUTCOME_HEDGE_LOST,    OUTCOME_DRAINED,
                                        OUTCOME_CLIENT_CANCELLED};
    for (size_t i = 0; i < RM_COUNTOF(ours); i++)
        if (a->outcome == ours[i])
            return true;
    return false;
}

/* What we cut is billed by the provider's own rule, and the record says which. */
static void judge_rule(struct world *w, struct guest *g, const struct attempt_record *a)
{
    const struct link_conf *link = &g->route->links[a->link];
    enum abort_when when = candidate_is_stream(&g->call, g->route, link) ? ABORT_STREAM : ABORT_WHOLE;
    struct abort_billing b = link->provider->aborts[when];
    bool is_unbilled = a->tokens_from == TOKENS_UNBILLED;
    LAW(a->abort_words == NULL || (a->decision != NULL && strstr(a->decision, a->abort_words) != NULL),
        "the record does not say how what was broken off is billed");
    LAW(a->abort_words == NULL || a->outcome != OUTCOME_OK, "a whole answer is billed as one that was broken off");
    if (!is_cut_by_us(a))
        return;
    LAW(b.rule != ABORT_NOTHING || is_unbilled, "a cut attempt is billed where its provider bills nothing");
    LAW(is_unbilled || a->abort_words == abort_words(b), "a cut attempt is not billed by its provider's rule");
    LAW(is_unbilled || b.rule != ABORT_INPUT || a->tokens.output == 0, "output is billed where only input is");
    LAW(is_unbilled || b.rule != ABORT_RUNS_ON || a->tokens.output >= g->call.max_tokens,
        "a generation that runs on is billed for less than it may be");
}

static void judge_entry_cost(struct world *w, struct guest *g, const struct attempt_record *a)
{
    const struct link_conf *link = &g->route->links[a->link];
    bool is_unbilled = a->tokens_from == TOKENS_UNBILLED;
    LAW(!is_unbilled || a->cost_nusd == 0, "an unbilled attempt has a cost");
    LAW(is_unbilled || (a->cost_nusd == NUSD_UNKNOWN) == (link->price == NULL),
        "a cost is unknown although it is priced");
    LAW(a->waste_nusd == (a->is_served ? 0 : a->cost_nusd), "waste is not the cost of what the client never saw");
    const struct usage *u = &a->tokens;
    LAW(u->input >= 0 && u->output >= 0 && u->cache_read >= 0 && u->cache_write_5m >= 0 && u->cache_write_1h >= 0,
        "tokens are left unknown");
    LAW(!is_unbilled || usage_prompt(u) + u->output == 0, "an unbilled attempt has tokens");
    LAW(a->tokens_from != TOKENS_REPORTED || a->outcome == OUTCOME_OK, "what was broken off passes as reported");
    judge_rule(w, g, a);
}

static void judge_record(struct world *w, struct guest *g)
{
    struct laws *l = &g->laws;
    const struct request_record *rec = relay_record(g->relay);
    unsigned n_started = 0, n_served = 0;
    int64_t cost = 0, waste = 0;
    for (size_t i = 0; i < rec->n_attempts; i++) {
        const struct attempt_record *a = &rec->attempts[i];
        LAW(a->n == i + 1, "the trail's numbers have a hole");
        LAW(a->outcome != OUTCOME_NONE, "an attempt was recorded without an outcome");
        LAW(a->is_started == !outcome_is_skip(a->outcome), "a skip was started, or a start skipped");
        LAW(!a->is_started || (a->start_us >= 0 && a->total_us >= a->start_us), "an attempt ended before it began");
        n_started += a->is_started;
        n_served += a->is_served;
        judge_entry_cost(w, g, a);
        cost = plus(cost, a->cost_nusd);
        waste = plus(waste, a->waste_nusd);
    }
    LAW(rec->cost_nusd == cost && rec->waste_nusd == waste, "the request's cost is not the sum of its attempts'");
    for (size_t i = 0; i < rec->n_attempts; i++) {
        w->result->attempts_nusd += cost != NUSD_UNKNOWN ? rec->attempts[i].cost_nusd : 0;
        w->result->attempts_waste_nusd += waste != NUSD_UNKNOWN ? rec->attempts[i].waste_nusd : 0;
    }
    w->result->requests_nusd += rec->cost_nusd != NUSD_UNKNOWN ? rec->cost_nusd : 0;
    w->result->requests_waste_nusd += rec->waste_nusd != NUSD_UNKNOWN ? rec->waste_nusd : 0;
    LAW(rec->n_started == n_started && n_started == l->n_started, "started attempts are miscounted");
    LAW(n_served == l->is_committed + l->n_joins && (rec->served_link >= 0) == l->is_committed,
        "the client's bytes are not from one attempt, or from those that met");
    LAW(rec->outcome != OUTCOME_NONE, "a request was recorded without an outcome");
    w->result->n_ok += rec->outcome == OUTCOME_OK;
    w->result->n_cancelled += rec->outcome == OUTCOME_CLIENT_CANCELLED;
    w->result->n_failed += rec->outcome != OUTCOME_OK && rec->outcome != OUTCOME_CLIENT_CANCELLED;
    world_hash(w, ((uint64_t)rec->outcome << 48) ^ (uint64_t)rec->cost_nusd ^ (uint64_t)rec->waste_nusd << 1);
}

void laws_action(struct world *w, struct guest *g, const struct relay_event *ev, const struct relay_action *a)
{
    struct laws *l = &g->laws;
    LAW(!l->is_recorded, "an action after the record");
    LAW(!l->is_over || a->kind == ACT_RECORD, "an action after the end");
    switch (a->kind) {
    case ACT_START:
        judge_start(w, g, ev, a);
        return;
    case ACT_CANCEL:
        judge_cancel(w, g, ev, a);
        return;
    case ACT_COMMIT:
        judge_commit(w, g, ev, a);
        return;
    case ACT_HEARTBEAT:
        LAW(!is_shown(l) && g->route->heartbeat_ms != 0 && g->call.is_stream, "a heartbeat out of place");
        l->is_head_sent = true;
        return;
    case ACT_END:
        LAW(is_shown(l) && ev->kind == RELAY_ENDED && ev->n == l->side.open_n, "an end without a whole answer");
        l->side.open_n = 0;
        l->is_over = true;
        return;
    case ACT_ANSWER:
    case ACT_ERROR_IN_STREAM:
        LAW(l->is_head_sent == (a->kind == ACT_ERROR_IN_STREAM), "an error told in the wrong place");
        judge_failure(w, g, ev, a->answer);
        w->result->n_in_stream += a->kind == ACT_ERROR_IN_STREAM;
        l->is_over = true;
        return;
    case ACT_RECORD:
        LAW(l->side.open_n == 0 && l->beside.open_n == 0, "something outlived the request");
        LAW(l->is_over || ev->kind == RELAY_CLIENT_GONE, "recorded before the client had an answer");
        l->is_over = l->is_recorded = true;
        judge_record(w, g);
        return;
    case ACT_ALARM:
        return;
    }
}

/* ---- after the event ---- */

static void judge_new_skips(struct world *w, struct guest *g)
{
    struct laws *l = &g->laws;
    const struct request_record *rec = relay_record(g->relay);
    for (; l->n_seen < rec->n_attempts; l->n_seen++) {
        const struct attempt_record *a = &rec->attempts[l->n_seen];
        size_t place = place_of(g, &g->route->links[a->link]);
        if (!outcome_is_skip(a->outcome) || place == SIZE_MAX)
            continue;
        w->result->n_skips++;
        if (a->outcome == OUTCOME_SKIPPED_OPEN)
            LAW((l->until[place] != 0 || until_now(w, g->chain[place]) != 0) && !g->route->breaker.is_off &&
                    !is_sole(g),
                "a healthy or sole target was skipped as open");
        else if (!is_window_refused(g, place))
            LAW(skip_of(g, place) == a->outcome, "a link was skipped for a reason the world does not know");
    }
}

/* Watches the words: who holds which trial. */
static void judge_trials(struct world *w, struct guest *g)
{
    for (size_t i = 0; i < g->n_chain; i++) {
        const struct link_conf *link = g->chain[i];
        int *holder = &w->target_holder[holder_slot(link)];
        enum health_state now = registry_state(w->registry, link->target_id, w->now_us);
        if (now != HEALTH_TRIAL) {
            *holder = -1;
        } else if (*holder == -1) {
            *holder = (int)g->index;
            w->result->n_trials++;
        }
        if (now == HEALTH_TRIAL && *holder == (int)g->index)
            LAW(!g->laws.is_over, "a trial outlived its request");
    }
}

/* An attempt that is out keeps its limits. */
static void judge_limits(struct world *w, struct guest *g, const struct relay_event *ev, struct law_side *s)
{
    uint64_t now = w->now_us, budget_end = s->link_start_us + s->budget_us;
    if (!s->has_token && !s->is_overtime && now >= budget_end && ev->kind == RELAY_TIME) {
        LAW(now == budget_end, "a budget was overrun");
        LAW(g->laws.beside.open_n == 0 && !is_other_startable(g),
            "an attempt outlived its budget although another link could have been started");
        s->is_overtime = true;
        w->result->n_overtimes++;
    }
    LAW(s->has_token || s->is_overtime || now <= budget_end, "a budget was overrun");
    LAW(!s->has_token || s->paused_us != 0 || now < s->idle_due_us || (now == s->idle_due_us && ev->kind != RELAY_TIME),
        "an idle time was overrun");
}

void laws_after(struct world *w, struct guest *g, const struct relay_event *ev)
{
    struct laws *l = &g->laws;
    uint64_t now = w->now_us;
    judge_new_skips(w, g);
    judge_trials(w, g);
    LAW(l->is_over == l->is_recorded, "the end and the record came apart");
    if (l->is_over)
        return;
    LAW(is_shown(l) || now < g->deadline_us || (now == g->deadline_us && ev->kind != RELAY_TIME),
        "a request outlived its deadline");
    if (l->side.open_n != 0)
        judge_limits(w, g, ev, &l->side);
    if (l->beside.open_n != 0)
        judge_limits(w, g, ev, &l->beside);
    LAW(l->beside.open_n == 0 || (l->side.open_n != 0 && !l->side.has_token && !l->beside.has_token),
        "two attempts went on after a first token");
}

void laws_end(struct world *w)
{
    for (size_t i = 0; i < w->n_guests; i++) {
        const struct guest *g = &w->guests[i];
        LAW(g->is_arrived && g->laws.is_recorded, "a request never ended");
        for (size_t k = 0; k < g->n_chain; k++) {
            const struct link_conf *l = g->chain[k];
            LAW(registry_state(w->registry, l->target_id, w->now_us) != HEALTH_TRIAL &&
                    registry_credential_state(w->registry, l->provider->credential_id, w->now_us) != HEALTH_TRIAL,
                "a trial was never given back");
        }
    }
}

/* Which link now. Picking takes the trial where one is needed, before anything else is given up for it: so a cut
 * attempt always has somebody to follow it. The chain is walked forward once; only a sole candidate is gone back to. */
#include "relay/inside.h"
#include "relay/meter.h"

size_t next_n_candidates(const struct relay *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_chain; i++)
        n += relay_candidate(r, i).skip == OUTCOME_OK;
    return n;
}

static bool is_window_refused(const struct relay *r, size_t place)
{
    const struct trouble *t = r->trouble;
    if (t == NULL || t->context_failed == NULL)
        return false;
    return t->is_larger_known ? !candidate_is_larger(t->context_failed, relay_link(r, place))
                              : candidate_is_not_larger(t->context_failed, relay_link(r, place));
}

/* A sole candidate is never refused, but it takes the trial if it can. */
static bool is_let_in(struct relay *r, size_t place, uint64_t now, struct trial *t)
{
    const struct link_conf *l = relay_link(r, place);
    *t = (struct trial){0};
    if (r->route->breaker.is_off)
        return true;
    if (registry_pass(r->env->registry, l->target_id, l->provider->credential_id, now, t) != PASS_NO)
        return true;
    if (next_n_candidates(r) != 1)
        return false;
    (void)registry_force(r->env->registry, l->target_id, l->provider->credential_id, now, t);
    return true;
}

struct pick next_pick(struct relay *r, uint64_t now_us)
{
    struct pick p = {.is_spent = r->record.n_started >= r->route->max_attempts || now_us >= r->deadline_us};
    bool is_sole = r->next > 0 && next_n_candidates(r) == 1;
    for (size_t i = is_sole ? 0 : r->next; i < r->n_chain && !p.is_spent; i++) {
        if (r->marks[i] != 0 || relay_candidate(r, i).skip != OUTCOME_OK || is_window_refused(r, i))
            continue;
        if (is_let_in(r, i, now_us, &p.trial)) {
            p.is_found = true;
            p.place = i;
            return p;
        }
    }
    return p;
}

static void skip(struct relay *r, size_t place)
{
    struct candidate c = relay_candidate(r, place);
    if (c.skip != OUTCOME_OK)
        trail_skip(r, place, c.skip, c.why);
    else if (is_window_refused(r, place))
        trail_skip(r, place, OUTCOME_SKIPPED_INCAPABLE, "window not known to be larger");
    else
        trail_skip(r, place, OUTCOME_SKIPPED_OPEN, "closed by its health");
}

static void open_meter(const struct relay *r, struct attempt *a, uint64_t now_us)
{
    bool is_same = r->call->service.n > 0 && relay_speaks(r, a->link);
    meter_open(a, r->call, is_same, r->record.started_wall_ms + (int64_t)((now_us - r->zero_us) / 1000));
}

void next_same(struct relay *r, size_t place, bool is_fresh, uint64_t now_us)
{
    const struct link_conf *l = relay_link(r, place);
    struct attempt *a = &r->now;
    struct latency_grant of_link;
    bool is_again = r->link_start_us != 0;
    if (is_again)
        of_link = a->grant;
    else
        r->link_start_us = now_us;
    attempt_init(a, l, trail_add(r, place), now_us, r->zero_us);
    open_meter(r, a, now_us);
    a->place = (uint16_t)place;
    a->quirks = registry_quirks(r->env->registry, l->target_id);
    budget_set(r, a, is_again ? &of_link : NULL);
    r->marks[place] |= PLACE_TRIED;
    r->record.n_started++;
    r->record.adjusted = "";
    registry_touch(r->env->registry, l->target_id, now_us);
    struct relay_action *act = relay_act(r, ACT_START);
    act->n = a->n;
    act->link = l;
    act->is_fresh = is_fresh;
    act->is_stream = a->is_stream;
    act->quirks = a->quirks;
    act->resume = resume_ask(r, place);
    act->connect_timeout_ms = l->connect_timeout_ms;
    if (r->sm.state != REQUEST_TRYING)
        relay_move(r, REQUEST_TRYING);
}

bool next_go(struct relay *r, const struct pick *p, uint64_t now_us)
{
    size_t end = p->is_found ? p->place : r->n_chain;
    for (; r->next < end && !p->is_spent; r->next++)
        skip(r, r->next);
    if (!p->is_found)
        return false;
    if (r->next <= p->place)
        r->next = (uint16_t)(p->place + 1);
    r->trial = p->trial;
    r->link_start_us = 0;
    r->n_retries = 0;
    r->was_waited = false;
    if (r->resume != NULL)
        r->resume->is_refused = false;
    next_same(r, p->place, false, now_us);
    hedge_plan(r, now_us);
    return true;
}

bool next_after_wait(struct relay *r, uint64_t now_us)
{
    struct trouble *t = r->trouble;
    const struct link_conf *l = relay_link(r, t->wait_place);
    bool is_in = r->trial.word != 0;
    if (!is_in && t->is_wait_forced && !r->route->breaker.is_off)
        is_in = registry_force(r->env->registry, l->target_id, l->provider->credential_id, now_us, &r->trial);
    if (!is_in && !is_let_in(r, t->wait_place, now_us, &r->trial))
        return false;
    t->is_count_owed = false;
    next_same(r, t->wait_place, !t->is_wait_forced, now_us);
    return true;
}

/* A second attempt beside a slow one (DESIGN 3.1: off by default, and it shows its price). Both are on the same
 * footing: the first token of either closes the other as hedge_lost, a failure of either leaves the other alone, and
 * each keeps its own budget. So what an event is about always stands in the relay's own members, and the other one in
 * `beside`. */
#include "relay/inside.h"

bool hedge_is_out(const struct relay *r)
{
    return r->beside != NULL && attempt_is_open(&r->beside->now);
}

void hedge_swap(struct relay *r)
{
    struct beside was = {r->now, r->link_start_us, r->n_retries, r->was_waited, r->has_link_failed, r->trial};
    r->now = r->beside->now;
    r->link_start_us = r->beside->link_start_us;
    r->n_retries = r->beside->n_retries;
    r->was_waited = r->beside->was_waited;
    r->has_link_failed = r->beside->has_link_failed;
    r->trial = r->beside->trial;
    *r->beside = was;
}

enum { P95 = 950, SAMPLES_MIN = 40 };

/* 0 = not known: then there is no hedge. */
static uint64_t late_us(struct relay *r, uint64_t now_us)
{
    const struct hedge_conf *h = &r->route->hedge;
    if (h->after_ms != 0)
        return (uint64_t)h->after_ms * 1000;
    if (r->env->latency == NULL)
        return 0;
    struct latency_key key = latency_key_of(r->now.link->target_id, r->call);
    return latency_quantile_us(r->env->latency, key, P95, SAMPLES_MIN, now_us);
}

void hedge_plan(struct relay *r, uint64_t now_us)
{
    r->hedge_due_us = 0;
    if (!r->route->hedge.is_on || r->env->hedges == NULL || !r->now.is_stream || resume_is_going_on(r))
        return;
    uint64_t us = late_us(r, now_us);
    if (us != 0)
        r->hedge_due_us = now_us + us;
}

void hedge_start(struct relay *r, uint64_t now_us)
{
    r->hedge_due_us = 0;
    if (r->sm.state != REQUEST_TRYING || !attempt_is_open(&r->now) || attempt_has_token(&r->now) || hedge_is_out(r))
        return;
    if (next_n_candidates(r) < 2)
        return;
    struct pick p = next_pick(r, now_us);
    if (!p.is_found)
        return;
    if (!hedge_may(r->env->hedges, r->env->registry, r->route, r->now.link, now_us)) {
        registry_neutral(r->env->registry, &p.trial, now_us);
        return;
    }
    uint64_t late_ms = (now_us - r->now.start_us) / 1000;
    if (r->beside == NULL)
        r->beside = ARENA_NEW(r->arena, struct beside);
    hedge_swap(r);
    r->now = (struct attempt){0};
    r->trial = (struct trial){0};
    r->has_link_failed = false;
    (void)next_go(r, &p, now_us);
    r->hedge_due_us = 0;
    r->now.record->kind = ATTEMPT_HEDGE;
    trail_printf(r, r->now.record, "beside attempt %u, without a token after %llu ms", r->beside->now.n,
                 (unsigned long long)late_ms);
}

void hedge_settle_race(struct relay *r, uint64_t now_us)
{
    r->hedge_due_us = 0;
    if (hedge_is_out(r))
        hedge_close(r, OUTCOME_HEDGE_LOST, now_us);
}

void hedge_close(struct relay *r, enum outcome o, uint64_t now_us)
{
    if (!hedge_is_out(r))
        return;
    uint16_t winner = r->now.n;
    hedge_swap(r);
    relay_cancel(r, o, NULL, now_us);
    if (o == OUTCOME_HEDGE_LOST)
        trail_printf(r, r->now.record, "attempt %u had the first token", winner);
    health_neutral(r, now_us);
    hedge_swap(r);
}

/* How long an attempt may take to its first token, and what the latency history is told of it. The history is kept for
 * every streamed attempt, also where the budget is a number: then it only watches. */
#include "base/buf.h"
#include "base/text.h"
#include "relay/inside.h"
#include "relay/meter.h"

/* A number in the config is ruled by itself, so the history is in its shadow. */
static void ask(struct relay *r, struct attempt *a)
{
    struct auto_conf conf = r->route->ttft_auto;
    conf.is_shadow |= !a->link->is_auto_budget;
    latency_grant(r->env->latency, latency_key_of(a->link->target_id, r->call), &conf, r->trial.word != 0,
                  (uint64_t)a->link->connect_timeout_ms * 1000, a->start_us, &a->grant);
}

void budget_set(struct relay *r, struct attempt *a, const struct latency_grant *of_link)
{
    const struct link_conf *l = a->link;
    const struct directive *d = r->directive;
    a->is_stream = candidate_is_stream(r->call, r->route, l);
    a->is_own_budget = true;
    if (!a->is_stream) { /* per attempt */
        a->budget_us = a->own_budget_us = (uint64_t)l->total_budget_ms * 1000;
        a->budget_end_us = a->start_us + a->budget_us;
        return;
    }
    a->budget_us = (uint64_t)l->ttft_budget_ms * 1000;
    if (of_link != NULL)
        a->grant = *of_link;
    else if (r->env->latency != NULL)
        ask(r, a);
    if (a->grant.us != 0 && !a->grant.is_shadow)
        a->budget_us = a->grant.us;
    a->own_budget_us = a->budget_us;
    if (d && d->ttft_ms != 0 && (uint64_t)d->ttft_ms * 1000 < a->budget_us) {
        a->budget_us = (uint64_t)d->ttft_ms * 1000;
        a->is_own_budget = false;
    }
    a->budget_end_us = r->link_start_us + a->budget_us;
}

/* 0 = not known. */
static int64_t cut_nusd(const struct relay *r, const struct attempt *a)
{
    int64_t nusd = meter_cut_nusd(a, r->call, r->env->ratios);
    return nusd != NUSD_UNKNOWN ? nusd : 0;
}

static void note_late(struct relay *r, const struct attempt *a, int64_t would_nusd)
{
    struct buf words = {0};
    buf_printf(&words, "%sbudget %llu ms " BUDGET_LATE_WORDS, a->grant.is_watch ? BUDGET_WATCHED_WORD : "",
               (unsigned long long)(a->grant.base_us / 1000));
    if (would_nusd > 0) {
        buf_puts(&words, ", for $");
        text_usd(&words, would_nusd);
    }
    trail_note(r, a->n, buf_cstr(&words));
    buf_fini(&words);
}

void budget_token(struct relay *r, uint64_t now_us)
{
    const struct attempt *a = &r->now;
    uint64_t us = now_us - a->start_us;
    if (a->grant.us == 0)
        return;
    int64_t would_nusd = us > a->grant.base_us ? cut_nusd(r, a) : 0;
    bool is_late = latency_answered(&r->route->ttft_auto, &a->grant, us, a->record->connect_us, would_nusd, now_us);
    if (is_late && (a->link->is_auto_budget || r->route->ttft_auto.is_shadow))
        note_late(r, a, would_nusd);
}

void budget_close(struct relay *r, uint64_t now_us)
{
    const struct attempt *a = &r->now;
    const struct attempt_record *rec = a->record;
    uint64_t us = now_us - a->start_us;
    if (a->grant.us == 0 || attempt_has_token(a))
        return;
    bool is_late = rec->outcome == OUTCOME_TTFT_TIMEOUT || rec->outcome == OUTCOME_DEADLINE;
    bool is_ours = rec->outcome == OUTCOME_HEDGE_LOST || rec->outcome == OUTCOME_CLIENT_CANCELLED ||
                   rec->outcome == OUTCOME_DRAINED || (is_late && !a->is_own_budget && us < a->own_budget_us);
    if (is_ours)
        latency_left(&a->grant, us, rec->connect_us, now_us);
    else if (is_late)
        latency_cut(&r->route->ttft_auto, &a->grant, us, rec->connect_us, rec->cost_nusd, now_us);
}

void budget_settle(struct relay *r)
{
    const struct request_record *rec = &r->record;
    struct call room;
    if (r->env->latency == NULL || rec->served_link < 0 || rec->n_attempts < 2)
        return;
    const struct call *call = relay_call(r, &room);
    for (uint16_t i = 0; i < rec->n_attempts; i++) {
        const struct attempt_record *a = &rec->attempts[i];
        if (a->outcome == OUTCOME_TTFT_TIMEOUT && !a->is_served && a->link != rec->served_link)
            latency_moved(r->env->latency, latency_key_of(r->route->links[a->link].target_id, call));
    }
}

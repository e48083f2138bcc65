/* An attempt has one clock at a time: the budget until its first token, then the idle time between events. (The
 * deadline is the request's.) States only go forward; some may be passed over, because a head can come before the
 * request is written. */
#include "relay/attempt.h"

#include "base/check.h"

static const struct sm_row rows[] = {
    [ATTEMPT_STARTED] = {"started",
                         SM_TO(ATTEMPT_CONNECTED) | SM_TO(ATTEMPT_ANSWERING) | SM_TO(ATTEMPT_FLOWING) |
                             SM_TO(ATTEMPT_SERVING) | SM_TO(ATTEMPT_CLOSED),
                         false},
    [ATTEMPT_CONNECTED] = {"connected",
                           SM_TO(ATTEMPT_STARTED) /* replayed on a fresh connection */ | SM_TO(ATTEMPT_ANSWERING) |
                               SM_TO(ATTEMPT_FLOWING) | SM_TO(ATTEMPT_SERVING) | SM_TO(ATTEMPT_CLOSED),
                           false},
    [ATTEMPT_ANSWERING] = {"answering", SM_TO(ATTEMPT_FLOWING) | SM_TO(ATTEMPT_SERVING) | SM_TO(ATTEMPT_CLOSED), false},
    [ATTEMPT_FLOWING] = {"flowing", SM_TO(ATTEMPT_SERVING) | SM_TO(ATTEMPT_CLOSED), false},
    [ATTEMPT_SERVING] = {"serving", SM_TO(ATTEMPT_CLOSED), false},
    [ATTEMPT_CLOSED] = {"closed", 0, true},
};

void attempt_init(struct attempt *a, const struct link_conf *link, struct attempt_record *record, uint64_t now_us,
                  uint64_t zero_us)
{
    *a = (struct attempt){.record = record, .link = link, .n = record->n, .start_us = now_us};
    sm_init(&a->sm, ATTEMPT_STARTED);
    record->is_started = true;
    record->tokens = USAGE_NONE;
    record->start_us = (int64_t)(now_us - zero_us);
}

bool attempt_is_open(const struct attempt *a)
{
    return a->link != NULL && a->sm.state != ATTEMPT_CLOSED;
}

bool attempt_has_token(const struct attempt *a)
{
    return a->sm.state == ATTEMPT_FLOWING || a->sm.state == ATTEMPT_SERVING;
}

void attempt_move(struct attempt *a, enum attempt_state to)
{
    if (to == ATTEMPT_CLOSED || a->sm.state < to)
        sm_move(&a->sm, rows, to, "relay", a->record->provider);
}

void attempt_replay(struct attempt *a)
{
    if (a->sm.state != ATTEMPT_CONNECTED)
        return;
    sm_move(&a->sm, rows, ATTEMPT_STARTED, "relay", a->record->provider);
    a->is_sent = false;
}

void attempt_feed(struct attempt *a, uint64_t now_us)
{
    if (!attempt_has_token(a))
        return;
    a->idle_due_us = now_us + (uint64_t)a->link->idle_timeout_ms * 1000;
    if (a->paused_us != 0)
        a->paused_us = now_us;
}

void attempt_pause(struct attempt *a, uint64_t now_us)
{
    if (a->paused_us == 0)
        a->paused_us = now_us;
}

void attempt_resume(struct attempt *a, uint64_t now_us)
{
    if (a->paused_us != 0 && a->idle_due_us != 0)
        a->idle_due_us += now_us - a->paused_us;
    a->paused_us = 0;
}

uint64_t attempt_due_us(const struct attempt *a)
{
    if (!attempt_is_open(a))
        return 0;
    if (attempt_has_token(a))
        return a->paused_us == 0 ? a->idle_due_us : 0;
    return a->is_overtime ? 0 : a->budget_end_us;
}

enum outcome attempt_late_word(const struct attempt *a)
{
    if (attempt_has_token(a))
        return OUTCOME_IDLE_TIMEOUT;
    if (a->sm.state == ATTEMPT_STARTED || (a->sm.state == ATTEMPT_CONNECTED && a->is_unacked))
        return OUTCOME_CONNECT_TIMEOUT;
    return a->is_stream ? OUTCOME_TTFT_TIMEOUT : OUTCOME_TOTAL_TIMEOUT;
}

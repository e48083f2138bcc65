/* One row per outcome word, then the three ways back to the same target, which are not mixed (DESIGN 3.6). A number
 * does not decide, the class does: a 400 that says "credit balance too low" came here as quota_exhausted. */
#include "plan/verdict.h"

#define RETRY_HEAD_US UINT64_C(500000)

enum next { NEXT_NO, NEXT_YES, NEXT_LATER /* only from a later link */, NEXT_LARGER };
struct row {
    enum next next;
    enum effect effect;
    bool is_alarm;
};

static const struct row rows[OUTCOME_N] = {
    [OUTCOME_RATE_LIMITED] = {NEXT_YES, EFFECT_HINT, false},
    [OUTCOME_OVERLOADED] = {NEXT_YES, EFFECT_HINT, false},
    [OUTCOME_QUOTA_EXHAUSTED] = {NEXT_YES, EFFECT_QUOTA, true},
    [OUTCOME_AUTH_ERROR] = {NEXT_LATER, EFFECT_AUTH, true},
    [OUTCOME_NOT_FOUND] = {NEXT_LATER, EFFECT_NOT_FOUND, true},
    [OUTCOME_SERVER_ERROR] = {NEXT_YES, EFFECT_HINT, false},
    [OUTCOME_CONNECT_ERROR] = {NEXT_YES, EFFECT_COUNTS, false},
    [OUTCOME_CONNECT_TIMEOUT] = {NEXT_YES, EFFECT_COUNTS, false},
    [OUTCOME_TTFT_TIMEOUT] = {NEXT_YES, EFFECT_COUNTS, false},
    [OUTCOME_TOTAL_TIMEOUT] = {NEXT_YES, EFFECT_COUNTS, false},
    [OUTCOME_IDLE_TIMEOUT] = {NEXT_YES, EFFECT_COUNTS, false},
    [OUTCOME_DEADLINE] = {NEXT_NO, EFFECT_COUNTS, false},
    [OUTCOME_STREAM_ERROR] = {NEXT_YES, EFFECT_COUNTS, false},
    [OUTCOME_PROTOCOL_ERROR] = {NEXT_YES, EFFECT_COUNTS, false},
    [OUTCOME_CLIENT_ERROR] = {NEXT_LATER, EFFECT_NEUTRAL, false},
    [OUTCOME_CONTEXT_LENGTH] = {NEXT_LARGER, EFFECT_NEUTRAL, false},
    [OUTCOME_CONTENT_POLICY] = {NEXT_LATER, EFFECT_NEUTRAL, false},
    [OUTCOME_INCOMPATIBLE] = {NEXT_LATER, EFFECT_NEUTRAL, false},
};

static bool is_listed(const struct failover_on *on, const struct failure *f)
{
    if (on->outcomes[f->outcome] || (on->has_default && rows[f->outcome].next == NEXT_YES))
        return true;
    for (size_t i = 0; i < on->n_statuses && f->status != 0; i++)
        if (on->statuses[i] == f->status)
            return true;
    return false;
}

static bool is_retryable(const struct verdict_ask *ask)
{
    const struct failure *f = ask->failure;
    if (f->outcome == OUTCOME_CONNECT_ERROR)
        return f->is_established && !f->is_reused;
    if (f->outcome != OUTCOME_SERVER_ERROR || f->in_stream || (f->status != 500 && f->status != 502))
        return false;
    uint64_t limit = ask->budget_us / 4 < RETRY_HEAD_US ? ask->budget_us / 4 : RETRY_HEAD_US;
    return ask->head_us >= 0 && (uint64_t)ask->head_us <= limit;
}

static bool is_waitable(const struct verdict_ask *ask)
{
    const struct failure *f = ask->failure;
    return f->outcome == OUTCOME_RATE_LIMITED && f->retry_after_ms >= 0 && ask->may_wait &&
           f->retry_after_ms <= (int64_t)ask->route->wait_retry_after_ms && ask->route->wait_retry_after_ms > 0 &&
           (uint64_t)f->retry_after_ms * 1000 < ask->left_us;
}

static bool is_repairable(const struct verdict_ask *ask)
{
    const struct failure *f = ask->failure;
    return f->class == FAILURE_COMPAT && f->quirk != 0 && (ask->quirks & f->quirk) == 0;
}

static enum step other_link(const struct verdict_ask *ask, const struct row *row, struct verdict *v)
{
    if (is_listed(&ask->route->failover_on, ask->failure))
        return STEP_NEXT;
    if (row->next == NEXT_LARGER && !ask->is_later) {
        v->is_larger_only = true;
        return STEP_NEXT;
    }
    return ask->is_later && (row->next == NEXT_LATER || row->next == NEXT_LARGER) ? STEP_NEXT : STEP_RETURN;
}

struct verdict verdict_of(const struct verdict_ask *ask)
{
    const struct failure *f = ask->failure;
    RM_ASSERT((unsigned)f->outcome < OUTCOME_N);
    const struct row *row = &rows[f->outcome];
    struct verdict v = {
        .effect = row->effect, .is_alarm = row->is_alarm, .is_own_fault = row->effect != EFFECT_NEUTRAL};
    if (v.effect == EFFECT_HINT && f->retry_after_ms < 0)
        v.effect = EFFECT_COUNTS;
    v.step = other_link(ask, row, &v);
    if (!ask->may_again)
        return v;
    if (is_repairable(ask)) {
        v.step = STEP_REPAIR;
        v.effect = EFFECT_NEUTRAL;
    } else if (is_waitable(ask)) {
        v.step = STEP_WAIT;
    } else if (ask->may_retry && is_retryable(ask)) {
        v.step = STEP_RETRY;
    }
    return v;
}

static bool is_timeout(enum outcome o)
{
    return o == OUTCOME_CONNECT_TIMEOUT || o == OUTCOME_TTFT_TIMEOUT || o == OUTCOME_TOTAL_TIMEOUT ||
           o == OUTCOME_IDLE_TIMEOUT || o == OUTCOME_DEADLINE;
}

unsigned verdict_status(const struct failure *f)
{
    switch (f->class) {
    case FAILURE_OVERLOAD:
        return 503;
    case FAILURE_RATE:
    case FAILURE_QUOTA:
        return 429;
    case FAILURE_AUTH:
        return 502;
    case FAILURE_NOTFOUND:
        return 404;
    case FAILURE_CONTEXT:
    case FAILURE_POLICY:
        return 400;
    case FAILURE_COMPAT:
    case FAILURE_CLIENT: /* its own number, but none that speaks of the gateway's key or place */
        return f->status >= 400 && f->status < 500 && f->status != 401 && f->status != 403 && f->status != 407
                   ? f->status
                   : 400;
    case FAILURE_NONE:
    case FAILURE_FAULT:
        break;
    }
    return is_timeout(f->outcome) ? 504 : 502;
}

bool verdict_is_hopeless(const struct failure *f)
{
    return f->class == FAILURE_AUTH || f->class == FAILURE_NOTFOUND || f->class == FAILURE_QUOTA;
}

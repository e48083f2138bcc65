/* What the client is told when nobody served. One candidate: its own failure, by class. Several: all red. None: why. */
#include "relay/inside.h"

#define SOON_US UINT64_C(60000000)

/* Microseconds until some candidate may be tried; 0 = now. UINT64_MAX = there is no candidate. */
static uint64_t soonest_us(const struct relay *r, uint64_t now_us)
{
    uint64_t soonest = UINT64_MAX;
    for (size_t i = 0; i < r->n_chain; i++) {
        if (relay_candidate(r, i).skip != OUTCOME_OK)
            continue;
        const struct link_conf *l = relay_link(r, i);
        uint64_t until = registry_until(r->env->registry, l->target_id, l->provider->credential_id, now_us);
        uint64_t us = until > now_us ? until - now_us : 0;
        soonest = us < soonest ? us : soonest;
    }
    return soonest;
}

/* Whole seconds, at least one, upward. */
static int64_t seconds_ms(uint64_t us)
{
    uint64_t s = (us + 999999) / 1000000;
    return (int64_t)(s < 1 ? 1 : s) * 1000;
}

static bool is_retry_told(const struct failure *f)
{
    return f->class == FAILURE_FAULT || f->class == FAILURE_OVERLOAD || f->class == FAILURE_RATE;
}

static struct relay_answer *new_answer(struct relay *r)
{
    if (!r->answer)
        r->answer = ARENA_NEW(r->arena, struct relay_answer);
    return r->answer;
}

enum outcome answer_failure(struct relay *r, const struct failure *f, const struct link_conf *link, uint64_t now_us)
{
    struct relay_answer *a = new_answer(r);
    *a = (struct relay_answer){.status = verdict_status(f),
                               .failure = *f,
                               .provider = link ? link->provider->name : NULL,
                               .retry_after_ms = -1,
                               .no_retry = verdict_is_hopeless(f)};
    if (is_retry_told(f)) {
        uint64_t us = soonest_us(r, now_us);
        if (f->retry_after_ms >= 0)
            us = (uint64_t)f->retry_after_ms * 1000;
        a->retry_after_ms = us == UINT64_MAX ? -1 : seconds_ms(us);
        a->no_retry = us > SOON_US;
    }
    return f->outcome;
}

static enum outcome answer_all_red(struct relay *r, uint64_t now_us)
{
    uint64_t us = soonest_us(r, now_us);
    struct relay_answer *a = new_answer(r);
    *a = (struct relay_answer){.status = 503, .is_all_red = true, .retry_after_ms = -1, .no_retry = us > SOON_US};
    failure_make(&a->failure, OUTCOME_ALL_UNAVAILABLE, "no provider of this route could answer");
    a->failure.class = FAILURE_OVERLOAD;
    if (us != UINT64_MAX)
        a->retry_after_ms = seconds_ms(us);
    return OUTCOME_ALL_UNAVAILABLE;
}

/* No link could ever be asked. */
static enum outcome answer_nobody(struct relay *r, uint64_t now_us)
{
    struct failure f;
    struct candidate found = {.skip = OUTCOME_OK};
    for (size_t i = 0; i < r->n_chain; i++) {
        struct candidate c = relay_candidate(r, i);
        if (c.skip == OUTCOME_SKIPPED_INCAPABLE && (found.skip == OUTCOME_OK || c.is_window))
            found = c;
    }
    if (found.skip == OUTCOME_OK)
        return answer_all_red(r, now_us);
    failure_make(&f, found.is_window ? OUTCOME_CONTEXT_LENGTH : OUTCOME_INCOMPATIBLE, found.why);
    f.class = found.is_window ? FAILURE_CONTEXT : FAILURE_COMPAT;
    return answer_failure(r, &f, NULL, now_us);
}

enum outcome answer_exhausted(struct relay *r, uint64_t now_us)
{
    const struct trouble *t = r->trouble;
    if (resume_is_going_on(r)) /* never what somebody said who was to go on */
        return answer_failure(r, r->resume->broke, r->resume->broke_link, now_us);
    size_t n = next_n_candidates(r);
    if (n == 0)
        return t ? answer_failure(r, &t->last, t->last_link, now_us) : answer_nobody(r, now_us);
    if (t && (n == 1 || (t->context_failed == t->last_link && t->is_larger_known)))
        return answer_failure(r, &t->last, t->last_link, now_us);
    return answer_all_red(r, now_us);
}

enum outcome answer_drained(struct relay *r)
{
    struct failure f;
    failure_make(&f, OUTCOME_DRAINED, "the gateway is stopping");
    f.class = FAILURE_OVERLOAD;
    *new_answer(r) = (struct relay_answer){.status = 503, .failure = f, .retry_after_ms = 1000};
    return OUTCOME_DRAINED;
}

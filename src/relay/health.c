/* What the health registry is told of an attempt. The request holds at most one trial; whatever is said here settles
 * it, so a trial cannot be lost.
 *
 * One request counts at most one failure per link: the failure before a retry is owed, and paid only if the retry does
 * not come; else the retry's own end is what counts. */
#include "base/buf.h"
#include "relay/inside.h"

static const struct breaker_conf *breaker(const struct relay *r)
{
    return &r->route->breaker;
}

static void tell(struct relay *r, enum effect effect, const struct failure *f, uint64_t now)
{
    struct registry *reg = r->env->registry;
    uint16_t target = r->now.link->target_id, credential = r->now.link->provider->credential_id;
    switch (effect) {
    case EFFECT_NEUTRAL:
        registry_neutral(reg, &r->trial, now);
        return;
    case EFFECT_COUNTS:
        registry_bad(reg, target, now, f->outcome == OUTCOME_RATE_LIMITED, breaker(r), r->env->rng, &r->trial);
        return;
    case EFFECT_HINT:
        if (breaker(r)->is_off)
            registry_neutral(reg, &r->trial, now);
        else
            registry_hint(reg, target, now, f->retry_after_ms, r->env->rng, &r->trial);
        return;
    case EFFECT_QUOTA:
        registry_quota(reg, credential, now, f->retry_after_ms, &r->trial);
        return;
    case EFFECT_AUTH:
        registry_auth(reg, credential, now, &r->trial);
        return;
    case EFFECT_NOT_FOUND:
        registry_not_found(reg, target, now, &r->trial);
        return;
    }
    RM_UNREACHABLE();
}

/* Once per discovery, not once per request that meets it. */
static void alarm_once(struct relay *r, const struct verdict *v, const struct failure *f, uint64_t now)
{
    const struct link_conf *l = r->now.link;
    enum health_state s = v->effect == EFFECT_NOT_FOUND
                              ? registry_state(r->env->registry, l->target_id, now)
                              : registry_credential_state(r->env->registry, l->provider->credential_id, now);
    if (s != HEALTH_OPEN)
        relay_act(r, ACT_ALARM)->text = arena_printf(r->arena, "provider %s, model %s: %s (%s)", l->provider->name,
                                                     l->model, outcome_word(f->outcome), f->message)
                                            .p;
}

void health_fail(struct relay *r, const struct verdict *v, const struct failure *f, uint64_t now_us)
{
    if (v->is_alarm)
        alarm_once(r, v, f, now_us);
    tell(r, v->effect, f, now_us);
}

void health_owe(struct relay *r, const struct failure *f)
{
    struct trouble *t = relay_trouble(r);
    t->is_count_owed = true;
    t->is_429_owed = f->outcome == OUTCOME_RATE_LIMITED;
}

void health_pay(struct relay *r, uint64_t now_us)
{
    struct trouble *t = r->trouble;
    if (t != NULL && t->is_count_owed) {
        registry_bad(r->env->registry, r->now.link->target_id, now_us, t->is_429_owed, breaker(r), r->env->rng,
                     &r->trial);
        t->is_count_owed = false;
    }
    registry_neutral(r->env->registry, &r->trial, now_us);
}

void health_neutral(struct relay *r, uint64_t now_us)
{
    registry_neutral(r->env->registry, &r->trial, now_us);
}

/* A token within the budget is what a target is for: its trial need not last as long as the answer. */
void health_token(struct relay *r, uint64_t now_us)
{
    if (r->now.is_overtime)
        registry_neutral(r->env->registry, &r->trial, now_us);
    else
        registry_first_token(r->env->registry, r->now.link->target_id, now_us, &r->trial);
}

void health_good(struct relay *r, uint64_t now_us)
{
    const struct link_conf *l = r->now.link;
    if (r->now.is_overtime)
        registry_neutral(r->env->registry, &r->trial, now_us);
    else
        registry_good(r->env->registry, l->target_id, l->provider->credential_id, now_us, &r->trial);
    registry_touch(r->env->registry, l->target_id, now_us);
}

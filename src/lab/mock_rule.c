#include "lab/mock_rule.h"

#include "base/check.h"
#include "lab/mock_chance.h"

void rule_init(struct rule *r, const struct fault *f)
{
    *r = (struct rule){.fault = *f, .ppm = RULE_ALWAYS_PPM, .from_ms = -1, .to_ms = -1};
}

static bool holds_at(const struct rule *r, uint64_t ms)
{
    return (r->from_ms < 0 || ms >= (uint64_t)r->from_ms) && (r->to_ms < 0 || ms < (uint64_t)r->to_ms);
}

static bool holds_for_number(const struct rule *r, uint64_t n)
{
    for (size_t i = 0; i < r->n_requests; i++)
        if (n >= r->requests[i].from && n <= r->requests[i].to)
            return true;
    return r->n_requests == 0;
}

static bool is_by_time_alone(const struct rule *r)
{
    return r->ppm >= RULE_ALWAYS_PPM && r->n_requests == 0 && r->model[0] == '\0' && r->fault.times != 0;
}

const struct rule *rules_pick(struct rule *v, size_t n, const struct rule_facts *facts, struct rng *rng)
{
    for (size_t i = 0; i < n; i++) {
        struct rule *r = &v[i];
        if (r->fault.times == 0 || !holds_at(r, facts->since_reset_ms) || !holds_for_number(r, facts->n))
            continue;
        if (r->model[0] != '\0' && !bytes_is(facts->model, r->model))
            continue;
        if (!chance_hits(rng, r->ppm))
            continue;
        if (r->fault.times > 0)
            r->fault.times--;
        return r;
    }
    return NULL;
}

enum fault_kind rules_door(const struct rule *v, size_t n, uint64_t since_reset_ms)
{
    for (size_t i = 0; i < n; i++)
        if (is_by_time_alone(&v[i]) && holds_at(&v[i], since_reset_ms))
            return v[i].fault.kind == FAULT_REFUSE || v[i].fault.kind == FAULT_DEAF ? v[i].fault.kind : FAULT_NONE;
    return FAULT_NONE;
}

uint64_t rules_next_change(const struct rule *v, size_t n, uint64_t since_reset_ms)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const int64_t edges[] = {v[i].from_ms, v[i].to_ms};
        for (size_t k = 0; k < RM_COUNTOF(edges); k++)
            if (edges[k] > (int64_t)since_reset_ms && (uint64_t)edges[k] < next)
                next = (uint64_t)edges[k];
    }
    return next;
}

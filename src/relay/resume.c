/* Going on with a stream that broke off after its commit (DESIGN 3.4, `resume`). Only an answer of plain text can be
 * gone on with: a tool call or a thought that was cut in the middle cannot be told from a new one. What the client has
 * is kept by the caller; here only whether it may be gone on from, and who is asked in which way.
 *
 * Everything else is as before the first commit: links in order, retries, repairs, budgets, health. The deadline is
 * counted anew from the break, for somebody is looking at half a sentence. */
#include "relay/inside.h"

void resume_init(struct relay *r)
{
    if (!r->route->resume || !r->call->is_stream || r->call->n > 1)
        return;
    r->resume = ARENA_NEW(r->arena, struct resume);
    r->resume->is_possible = true;
}

static bool is_plain(const struct event *ev)
{
    switch (ev->kind) {
    case EVENT_START:
    case EVENT_TEXT:
    case EVENT_USAGE:
    case EVENT_PING:
    case EVENT_OTHER:
        return ev->choice == 0;
    default:
        return false; /* with a finish the text is whole: what is missing is not text */
    }
}

void resume_see(struct relay *r, const struct event *ev)
{
    struct resume *x = r->resume;
    if (x == NULL || !x->is_possible)
        return;
    x->n_told += ev->text_bytes;
    x->is_possible = is_plain(ev) && x->n_told <= r->config->limits.gate_bytes;
}

bool resume_can(const struct relay *r, const struct verdict *v)
{
    return r->resume != NULL && r->resume->is_possible && v->step != STEP_RETURN;
}

void resume_begin(struct relay *r, const struct failure *f, uint64_t now_us)
{
    r->resume->is_going_on = true;
    r->resume->broke = ARENA_NEW(r->arena, struct failure);
    *r->resume->broke = *f;
    r->resume->broke_link = r->now.link;
    r->deadline_us = now_us + (uint64_t)r->route->deadline_ms * 1000;
    if (r->route->heartbeat_ms != 0)
        r->heartbeat_due_us = now_us + (uint64_t)r->route->heartbeat_ms * 1000;
    relay_move(r, REQUEST_TRYING);
}

enum resume_way resume_ask(struct relay *r, size_t place)
{
    const struct call *call = r->call;
    struct resume *x = r->resume;
    if (!resume_is_going_on(r))
        return RESUME_NONE;
    bool is_taken = relay_link(r, place)->supports.prefill == YES && !x->is_refused;
    x->way =
        is_taken && x->n_told > 0 && !call->has_prefill && !call->has_json_schema ? RESUME_PREFILL : RESUME_RESTART;
    return x->way;
}

bool resume_is_refusal(const struct relay *r, const struct failure *f)
{
    return resume_is_going_on(r) && r->resume->way == RESUME_PREFILL && !f->in_stream && f->status >= 400 &&
           f->status < 500 && (f->class == FAILURE_CLIENT || f->class == FAILURE_COMPAT) &&
           r->record.n_started < r->route->max_attempts && r->sm.state == REQUEST_TRYING;
}

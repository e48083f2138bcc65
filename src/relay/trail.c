/* The trail: one entry a try and one a skip, in the order they happened. An entry's n is the attempt's number in
 * actions and events, so skips have numbers too. */
#include "base/buf.h"
#include "plan/cache.h"
#include "relay/inside.h"
#include "relay/meter.h"

#include <stdarg.h>
#include <stdio.h>

static struct prompt_record prompt_of(const struct relay_start *s)
{
    uint32_t hint_s = s->directive != NULL ? s->directive->cache_ttl_s : 0;
    struct prompt_record p = prompt_of_call(s->call, cache_wanted_s(s->call, hint_s), s->affinity_key);
    p.routing = s->routing != NULL ? s->routing : "";
    return p;
}

void trail_init(struct relay *r, const struct relay_start *s)
{
    struct request_record *rec = &r->record;
    rec->id = s->id;
    rec->started_wall_ms = s->started_wall_ms;
    rec->key = s->key ? s->key : "";
    rec->route = s->route->model;
    rec->dialect = s->dialect ? s->dialect : "";
    rec->is_stream = s->call->is_stream;
    rec->outcome = OUTCOME_NONE;
    rec->served_link = -1;
    rec->ttft_us = rec->total_us = -1;
    rec->prompt_bytes = (int64_t)s->call->prompt_bytes;
    rec->max_tokens = s->call->max_tokens;
    rec->effort = s->call->effort.n > 0 ? arena_dup(r->arena, s->call->effort).p : "";
    rec->prefix_hash = s->call->prefix_hash;
    rec->prompt = prompt_of(s);
    rec->adjusted = "";
    rec->trace_id = s->trace_id ? s->trace_id : "";
    rec->attempts = &r->first;
    r->cap_attempts = 1;
}

struct attempt_record *trail_entry(const struct relay *r, uint16_t n)
{
    RM_ASSERT(n > 0 && n <= r->record.n_attempts);
    return &r->record.attempts[n - 1];
}

/* Most trails are short, and a long stream holds its own: so it grows, and who points into it follows. */
static void grow(struct relay *r)
{
    struct attempt_record *from = r->record.attempts;
    RM_ASSERT(r->cap_attempts < (size_t)2 * (2 * r->n_chain + r->route->max_attempts + 1));
    r->record.attempts = ARENA_ARRAY(r->arena, struct attempt_record, 2 * r->cap_attempts);
    memcpy(r->record.attempts, from, r->cap_attempts * sizeof *from);
    r->cap_attempts *= 2;
    if (r->now.record)
        r->now.record = &r->record.attempts[r->now.record - from];
    if (r->beside != NULL && r->beside->now.record)
        r->beside->now.record = &r->record.attempts[r->beside->now.record - from];
}

struct attempt_record *trail_add(struct relay *r, size_t place)
{
    if (r->record.n_attempts == r->cap_attempts)
        grow(r);
    const struct link_conf *link = relay_link(r, place);
    struct attempt_record *rec = &r->record.attempts[r->record.n_attempts++]; /* zero: of the arena, used once */
    rec->n = r->record.n_attempts;
    rec->link = link->index;
    rec->kind = ATTEMPT_CLIENT;
    rec->outcome = OUTCOME_NONE;
    rec->provider = link->provider->name;
    rec->model = link->model;
    rec->start_us = rec->connect_us = rec->first_byte_us = rec->ttft_us = rec->total_us = -1;
    rec->decision = "";
    rec->retry_after_ms = -1;
    return rec;
}

void trail_skip(struct relay *r, size_t place, enum outcome why, const char *text)
{
    struct attempt_record *rec = trail_add(r, place);
    rec->outcome = why;
    rec->decision = text;
}

void trail_close(struct relay *r, enum outcome o, const struct failure *failure, uint64_t now_us)
{
    struct attempt *a = &r->now;
    struct attempt_record *rec = a->record;
    RM_ASSERT(attempt_is_open(a));
    rec->outcome = o;
    rec->is_served = a->sm.state == ATTEMPT_SERVING;
    rec->total_us = (int64_t)(now_us - r->zero_us);
    if (failure) {
        rec->status = failure->status != 0 ? failure->status : rec->status;
        rec->in_stream = failure->in_stream || rec->is_served;
        rec->retry_after_ms = failure->retry_after_ms;
    }
    struct call room;
    meter_close(a, relay_call(r, &room), failure, r->env->ratios);
    budget_close(r, now_us);
    attempt_move(a, ATTEMPT_CLOSED);
}

void trail_printf(struct relay *r, struct attempt_record *rec, const char *fmt, ...)
{
    char words[DECISION_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    rec->decision = arena_dup(r->arena, bytes_of(words)).p;
}

void trail_decide(struct relay *r, const char *step, const struct failure *f)
{
    struct attempt_record *rec = r->now.record;
    const char *word = f ? outcome_word(f->outcome) : "";
    if (f && f->status != 0)
        trail_printf(r, rec, "%s: %u %s", step, f->status, word);
    else
        trail_printf(r, rec, "%s%s%s", step, f ? ": " : "", word);
}

void trail_note(struct relay *r, uint16_t n, const char *words)
{
    struct attempt_record *rec = trail_entry(r, n);
    trail_printf(r, rec, "%s%s%s", rec->decision, rec->decision[0] != '\0' ? "; " : "", words);
}

void trail_tell_billing(struct relay *r)
{
    char words[METER_WORDS];
    for (uint16_t i = 0; i < r->record.n_attempts; i++)
        if (meter_words(&r->record.attempts[i], words))
            trail_note(r, r->record.attempts[i].n, words);
}

void trail_unstart(struct relay *r, const char *why)
{
    struct attempt_record *rec = r->now.record;
    attempt_move(&r->now, ATTEMPT_CLOSED);
    rec->is_started = false;
    rec->tokens = (struct usage){0};
    rec->service[0] = '\0';
    rec->outcome = OUTCOME_SKIPPED_INCAPABLE;
    rec->start_us = rec->connect_us = rec->first_byte_us = rec->ttft_us = rec->total_us = -1;
    char words[DECISION_BYTES];
    failure_text(words, sizeof words, bytes_of(why ? why : "cannot be expressed there"));
    rec->decision = arena_dup(r->arena, bytes_of(words)).p;
    r->record.n_started--;
}

#include "sim/replay.h"

#include "base/mem.h"
#include "plan/affinity.h"

#include <stdlib.h>

enum { TICK_EVERY = 2048 };

/* ---- figures ---- */

struct seen { /* of a request, wherever it comes from */
    enum outcome outcome;
    int64_t ttft_us, cost_nusd, waste_nusd;
    unsigned n_started;
    int64_t n_read, n_written;
};

static void put_time(struct replay_tally *t, int64_t us)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 1024;
        t->ttft_us = mem_realloc(t->ttft_us, t->cap * sizeof *t->ttft_us);
    }
    t->ttft_us[t->n++] = us;
}

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN + 1) : sum;
}

static void see_tokens(struct seen *s, const struct usage *u)
{
    s->n_read = plus(s->n_read, u->cache_read > 0 ? u->cache_read : 0);
    s->n_written = plus(s->n_written, u->cache_write_5m > 0 ? u->cache_write_5m : 0);
    s->n_written = plus(s->n_written, u->cache_write_1h > 0 ? u->cache_write_1h : 0);
}

static void put_seen(struct replay_tally *t, const struct seen *s)
{
    struct replay_figures *f = &t->figures;
    f->n_requests++;
    f->n_attempts += s->n_started;
    f->n_read = plus(f->n_read, s->n_read);
    f->n_written = plus(f->n_written, s->n_written);
    if (s->outcome == OUTCOME_OK) {
        f->n_answered++;
        f->n_later += s->n_started > 1;
        if (s->ttft_us >= 0)
            put_time(t, s->ttft_us);
    } else if (!past_is_given_up(s->outcome) && !past_is_own_mistake(s->outcome)) {
        f->n_failed++;
    }
    if (s->cost_nusd == NUSD_UNKNOWN) {
        f->n_unpriced++;
        return;
    }
    f->cost_nusd = plus(f->cost_nusd, s->cost_nusd);
    f->waste_nusd = plus(f->waste_nusd, s->waste_nusd == NUSD_UNKNOWN ? 0 : s->waste_nusd);
}

void tally_add(struct replay_tally *t, const struct request_record *rec)
{
    struct seen s = {rec->outcome, rec->ttft_us, rec->cost_nusd, rec->waste_nusd, 0, 0, 0};
    for (uint16_t i = 0; i < rec->n_attempts; i++) {
        s.n_started += rec->attempts[i].is_started;
        see_tokens(&s, &rec->attempts[i].tokens);
    }
    put_seen(t, &s);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The smallest value that so many per cent do not exceed. */
static int64_t percentile(const struct replay_tally *t, size_t percent)
{
    return t->n == 0 ? -1 : t->ttft_us[(t->n * percent + 99) / 100 - 1];
}

void tally_end(struct replay_tally *t, struct replay_figures *out)
{
    if (t->n > 0)
        qsort(t->ttft_us, t->n, sizeof *t->ttft_us, by_value);
    *out = t->figures;
    out->p50_us = percentile(t, 50);
    out->p95_us = percentile(t, 95);
    out->p99_us = percentile(t, 99);
    mem_free(t->ttft_us);
    *t = (struct replay_tally){0};
}

void replay_recorded(const struct past *p, struct replay_figures *out)
{
    struct replay_tally t = {0};
    for (size_t i = 0; i < past_n(p); i++) {
        const struct past_request *r = past_request(p, i);
        struct seen s = {r->outcome, r->ttft_us, r->cost_nusd, r->waste_nusd, r->n_started, 0, 0};
        for (uint16_t k = 0; k < r->n_attempts; k++)
            see_tokens(&s, &past_attempts(p, r)[k].tokens);
        put_seen(&t, &s);
    }
    tally_end(&t, out);
}

/* ---- the replay ---- */

struct replay {
    const struct replay_ask *ask;
    struct replay_tally tally;
    size_t n_asked, n_done;
};

static bool next_request(void *arg, struct stage_request *out)
{
    struct replay *r = arg;
    if (r->n_asked == past_n(r->ask->past))
        return false;
    const struct past_request *p = past_request(r->ask->past, r->n_asked++);
    *out = (struct stage_request){.at_us = p->at_us, .dialect = p->dialect, .leave_us = -1, .id = p->id};
    out->wall_ms = p->wall_ms;
    out->call = (struct call){.is_stream = p->is_stream,
                              .max_tokens = p->max_tokens,
                              .effort = bytes_of(p->effort),
                              .prompt_bytes = p->prompt_bytes > 0 ? (uint64_t)p->prompt_bytes : 0,
                              .prefix_hash = p->prefix_hash};
    prompt_to_call(&p->prompt, &out->call);
    out->cache_ttl_s = (uint32_t)p->prompt.cache_ttl_s;
    out->routing = p->prompt.routing;
    out->affinity_key = p->prompt.affinity_key;
    if (out->affinity_key == 0)
        out->affinity_key = affinity_key(&out->call, (struct bytes){NULL, 0});
    if (past_is_given_up(p->outcome) && p->total_us >= 0)
        out->leave_us = p->total_us;
    return true;
}

static void take_record(void *arg, size_t request, const struct request_record *rec)
{
    struct replay *r = arg;
    (void)request;
    tally_add(&r->tally, rec);
    if (++r->n_done % TICK_EVERY == 0 && r->ask->tick != NULL)
        r->ask->tick(r->ask->arg, r->n_done, past_n(r->ask->past));
}

enum err replay_run(const struct replay_ask *ask, struct replay_result *out)
{
    struct replay r = {.ask = ask};
    struct drawer *d = drawer_new(ask->past, ask->route, ask->seed);
    struct stage_conf conf = {.config = ask->config,
                              .route = ask->route,
                              .source = {next_request, &r},
                              .host = {drawer_play, drawer_begun, d},
                              .sink = {take_record, &r},
                              .seed = ~ask->seed};
    enum err e = stage_run(&conf);
    tally_end(&r.tally, &out->figures);
    out->draws = *drawer_counts(d);
    drawer_free(d);
    return e;
}

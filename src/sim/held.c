/* The past's own larder is filled once, by start and first token of all its attempts in the order of time; what each of
 * them should have read and written stays with it. Played again, an attempt's tokens are
 *
 *     recorded now = recorded then + (larder now - larder then)
 *
 * so where nothing changed, nothing changes, whatever the larder gets wrong. Where the attempt is not on record, or its
 * cache was not asked for then, the larder's word is all there is.
 *
 * How much of a prompt a cache holds is what a provider said of it, where it was asked for; else the share of its text
 * up to the last marker, by the ratio of what was said to such shares wherever it was, and nothing of less than 1,024
 * tokens. */
#include "sim/held.h"

#include "base/mem.h"
#include "sim/larder.h"

#include <stdlib.h>

enum { BYTES_A_TOKEN = 4, LEAST_TOKENS = 1024, SHORT_S = 300, SECOND_US = 1000000 };

struct held {
    const struct past *past;
    enum larder_way ways[PAST_TARGETS_MAX];
    struct larder *now;
    struct larder_use *then; /* by attempt */
    double told_share;       /* what providers hold, against the shares of text up to the marker */
};

/* ---- of a request ---- */

static bool is_reported(const struct past_attempt *a)
{
    return a->outcome == OUTCOME_OK && a->tokens_from == TOKENS_REPORTED;
}

static int64_t cached_of(const struct usage *u)
{
    return u->cache_read + u->cache_write_5m + u->cache_write_1h;
}

static int64_t share_of(int64_t n, int64_t part, int64_t whole)
{
    return whole <= 0 || part >= whole ? n : (int64_t)((double)n * (double)part / (double)whole + 0.5);
}

struct sizes {
    int64_t n_prompt;
    int64_t n_told;  /* of it, what a provider held that was asked to; -1 = none was */
    int64_t n_share; /* of it, what stands up to the last marker */
};

static struct sizes sizes_of(const struct held *h, const struct past_request *r)
{
    const struct past_attempt *all = past_attempts(h->past, r);
    struct sizes s = {.n_prompt = (r->prompt_bytes + BYTES_A_TOKEN - 1) / BYTES_A_TOKEN, .n_told = -1};
    for (uint16_t i = 0; i < r->n_attempts; i++) {
        if (!is_reported(&all[i]))
            continue;
        s.n_prompt = usage_prompt(&all[i].tokens);
        if (all[i].cache_mark == CACHE_ASKED && all[i].target != PAST_NO_TARGET &&
            h->ways[all[i].target] == LARDER_ASKED)
            s.n_told = cached_of(&all[i].tokens);
    }
    s.n_share = r->prompt.cache_ttl_s > 0 ? share_of(s.n_prompt, r->prompt.cache_bytes, r->prompt_bytes) : 0;
    return s;
}

/* What a provider that is asked would hold. */
static int64_t held_of(const struct held *h, const struct sizes *s)
{
    int64_t n = (int64_t)((double)s->n_share * h->told_share + 0.5);
    return s->n_told >= 0 ? s->n_told : n < LEAST_TOKENS ? 0 : n < s->n_prompt ? n : s->n_prompt;
}

static struct larder_prompt prompt_of(const struct held *h, const struct past_request *r, uint16_t target,
                                      enum cache_mark mark)
{
    const struct prompt_record *p = &r->prompt;
    enum larder_way way = target != PAST_NO_TARGET && p->is_known ? h->ways[target] : LARDER_NONE;
    struct larder_prompt out = {.target = target,
                                .way = way,
                                .is_marked = mark == CACHE_ASKED,
                                .talk_hash = p->talk_hash,
                                .head_hash = p->head_hash,
                                .cache_hash = p->cache_hash,
                                .ttl_us = (uint64_t)(p->cache_ttl_s > 0 ? p->cache_ttl_s : SHORT_S) * SECOND_US};
    if (way == LARDER_NONE)
        return out;
    struct sizes s = sizes_of(h, r);
    bool is_head_held = way == LARDER_AUTOMATIC || (p->needs & NEED_HEAD_CACHED) != 0;
    int64_t n_head = is_head_held ? share_of(s.n_prompt, p->head_bytes, r->prompt_bytes) : 0;
    out.n_held = way == LARDER_AUTOMATIC ? s.n_prompt : held_of(h, &s);
    if (way == LARDER_ASKED)
        n_head = (int64_t)((double)n_head * h->told_share + 0.5);
    out.n_head = n_head < LEAST_TOKENS ? 0 : n_head;
    return out;
}

/* ---- the past ---- */

struct moment {
    uint64_t at_us;
    size_t attempt;
    bool is_token;
};

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? -1 : 1;
    if (x->is_token != y->is_token)
        return x->is_token ? -1 : 1;
    return x->attempt < y->attempt ? -1 : x->attempt > y->attempt;
}

static size_t n_attempts(const struct past *p)
{
    size_t n = 0;
    for (size_t i = 0; i < past_n(p); i++) {
        const struct past_request *r = past_request(p, i);
        n = r->first_attempt + r->n_attempts > n ? r->first_attempt + r->n_attempts : n;
    }
    return n;
}

static size_t list_moments(const struct past *p, struct moment *out)
{
    size_t n = 0;
    for (size_t i = 0; i < past_n(p); i++) {
        const struct past_request *r = past_request(p, i);
        const struct past_attempt *all = past_attempts(p, r);
        for (uint16_t k = 0; k < r->n_attempts && r->prompt.is_known; k++) {
            if (!all[k].is_started)
                continue;
            out[n++] = (struct moment){all[k].at_us, r->first_attempt + k, false};
            if (all[k].token_us >= 0)
                out[n++] = (struct moment){all[k].at_us + (uint64_t)all[k].token_us, r->first_attempt + k, true};
        }
    }
    return n;
}

static void look_back(struct held *h)
{
    size_t n_all = n_attempts(h->past);
    struct moment *moments = mem_alloc((2 * n_all + 1) * sizeof *moments);
    struct larder *larder = larder_new();
    h->then = mem_zalloc((n_all + 1) * sizeof *h->then);
    size_t n = list_moments(h->past, moments);
    if (n > 0)
        qsort(moments, n, sizeof *moments, by_time);
    for (size_t i = 0; i < n; i++) {
        const struct past_attempt *a = past_attempt_at(h->past, moments[i].attempt);
        const struct past_request *r = past_request(h->past, a->request);
        struct larder_prompt p = prompt_of(h, r, a->target, (enum cache_mark)a->cache_mark);
        if (moments[i].is_token)
            larder_keep(larder, &p, moments[i].at_us);
        else
            h->then[moments[i].attempt] = larder_look(larder, &p, moments[i].at_us);
    }
    larder_free(larder);
    mem_free(moments);
}

static bool caches_by_itself(const struct past *p, uint16_t target)
{
    size_t n;
    const struct past_attempt *const *v = past_of_target(p, target, &n);
    for (size_t i = 0; i < n; i++)
        if (is_reported(v[i]) && v[i]->tokens.cache_read > 0)
            return true;
    return false;
}

static void learn_ways(struct held *h, const struct route_conf *route)
{
    for (size_t i = 0; i < route->n_links; i++) {
        const struct link_conf *l = &route->links[i];
        uint16_t target = past_target(h->past, l->provider->name, l->model);
        if (target == PAST_NO_TARGET)
            continue;
        if (bytes_is(BYTES("anthropic"), l->provider->dialect))
            h->ways[target] = LARDER_ASKED;
        else if (caches_by_itself(h->past, target))
            h->ways[target] = LARDER_AUTOMATIC;
    }
}

/* Prompts too short to be held tell nothing of it. */
static void learn_share(struct held *h)
{
    double told = 0, share = 0;
    for (size_t i = 0; i < past_n(h->past); i++) {
        struct sizes s = sizes_of(h, past_request(h->past, i));
        if (s.n_told < LEAST_TOKENS || s.n_share <= 0)
            continue;
        told += (double)s.n_told;
        share += (double)s.n_share;
    }
    h->told_share = share > 0 ? told / share : 1;
}

struct held *held_new(const struct past *p, const struct route_conf *route)
{
    struct held *h = mem_zalloc(sizeof *h);
    h->past = p;
    h->now = larder_new();
    learn_ways(h, route);
    learn_share(h);
    look_back(h);
    return h;
}

void held_free(struct held *h)
{
    if (h == NULL)
        return;
    larder_free(h->now);
    mem_free(h->then);
    mem_free(h);
}

/* ---- now ---- */

static int64_t within(int64_t v, int64_t max)
{
    return v < 0 ? 0 : v > max ? max : v;
}

static void set_cached(struct usage *u, int64_t n_read, int64_t n_written, bool is_long)
{
    int64_t n_prompt = usage_prompt(u);
    u->cache_read = within(n_read, n_prompt);
    n_written = within(n_written, n_prompt - u->cache_read);
    u->cache_write_5m = is_long ? 0 : n_written;
    u->cache_write_1h = is_long ? n_written : 0;
    u->input = n_prompt - u->cache_read - n_written;
}

static struct larder_prompt prompt_now(const struct held *h, const struct part_ask *ask)
{
    const struct past_request *r = past_request(h->past, ask->request);
    uint16_t target = past_target(h->past, ask->link->provider->name, ask->link->model);
    return prompt_of(h, r, target, ask->mark);
}

void held_start(struct held *h, const struct part_ask *ask, size_t recorded, struct usage *u)
{
    const struct past_request *r = past_request(h->past, ask->request);
    struct larder_prompt p = prompt_now(h, ask);
    if (p.way == LARDER_NONE)
        return;
    struct larder_use now = larder_look(h->now, &p, ask->now_us), then = {0, 0};
    int64_t n_read = now.n_read, n_written = now.n_written;
    if (u->input < 0)
        return;
    if (recorded != HELD_NOT_RECORDED) {
        enum cache_mark was = (enum cache_mark)past_attempts(h->past, r)[recorded].cache_mark;
        bool is_same = p.way == LARDER_AUTOMATIC || was == ask->mark;
        then = h->then[r->first_attempt + recorded];
        if (is_same && now.n_read == then.n_read && now.n_written == then.n_written)
            return;
        if (is_same) {
            n_read += u->cache_read - then.n_read;
            n_written += u->cache_write_5m + u->cache_write_1h - then.n_written;
        }
    }
    set_cached(u, n_read, n_written, r->prompt.cache_ttl_s > SHORT_S);
}

void held_begun(struct held *h, const struct part_ask *ask)
{
    struct larder_prompt p = prompt_now(h, ask);
    larder_keep(h->now, &p, ask->now_us);
}

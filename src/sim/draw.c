#include "sim/draw.h"

#include "base/mem.h"
#include "sim/held.h"

#include <math.h>
#include <stdlib.h>

#define SECOND_US UINT64_C(1000000)
#define SCALED_MAX 2.16e10       /* six hours; tokens are fewer */
#define ALONE_US (5 * SECOND_US) /* so far reaches a failure that stands alone */
enum { ENOUGH = 8, PICKS = 24, CUTS_MAX = 8, SIZES = 5, SAMPLES_MIN = 20, BYTES_A_TOKEN = 4 };

/* Half of the span around a moment. */
static const uint64_t spans_us[] = {10 * SECOND_US, 60 * SECOND_US, 450 * SECOND_US, 1800 * SECOND_US, UINT64_MAX};
enum { SPANS = sizeof spans_us / sizeof spans_us[0] };

/* Times to the first token: lognormal, and how much of the cuts it explains. */
struct tail {
    bool is_known;
    double mu, sigma;
    double cut_share;
};

struct drawer {
    const struct past *past;
    struct rng rng;
    struct tail tails[PAST_TARGETS_MAX];
    struct draw_counts counts;
    struct held *held;
};

/* ---- the tail ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static double chance(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

static double above(double z)
{
    return 0.5 * erfc(z / sqrt(2));
}

/* The z that a share p of all lies above. */
static double z_of(double p)
{
    double lo = -9, hi = 9;
    for (int i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2;
        if (above(mid) > p)
            lo = mid;
        else
            hi = mid;
    }
    return (lo + hi) / 2;
}

/* Longer than was ever seen: -1 = it hangs. */
static int64_t guess(struct drawer *d, uint16_t target, int64_t cut_us)
{
    const struct tail *t = &d->tails[target];
    double dice = chance(&d->rng), more = chance(&d->rng);
    if (!t->is_known || cut_us <= 0)
        return -1;
    double p = above((log((double)cut_us) - t->mu) / t->sigma);
    if (dice * t->cut_share > p)
        return -1;
    double us = exp(t->mu + t->sigma * z_of(p * more));
    return us > (double)cut_us && us < 3.6e9 ? (int64_t)us : cut_us + 1;
}

/* ---- near a moment ---- */

struct range {
    const struct past_attempt *const *v;
    size_t n;
};

static size_t first_at(const struct past_attempt *const *v, size_t n, uint64_t at_us)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (v[mid]->at_us < at_us)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct range around(const struct drawer *d, uint16_t target, uint64_t at_us, uint64_t span_us)
{
    size_t n;
    const struct past_attempt *const *v = past_of_target(d->past, target, &n);
    size_t from = first_at(v, n, at_us > span_us ? at_us - span_us : 0);
    size_t to = first_at(v, n, span_us < UINT64_MAX - at_us ? at_us + span_us : UINT64_MAX);
    return (struct range){v + from, to - from};
}

static const struct past_attempt *any(struct drawer *d, struct range r)
{
    return r.v[rng_below(&d->rng, r.n)];
}

static unsigned size_of(int64_t prompt_bytes)
{
    unsigned size = 0;
    for (int64_t bytes = 1024 * BYTES_A_TOKEN; size + 1 < SIZES && prompt_bytes > bytes; bytes *= 4)
        size++;
    return size;
}

static unsigned size_of_attempt(const struct drawer *d, const struct past_attempt *a)
{
    return size_of(past_request(d->past, a->request)->prompt_bytes);
}

static bool is_bad(const struct past_attempt *a)
{
    return a->token_us < 0 && a->outcome != OUTCOME_HEDGE_LOST && !past_is_given_up(a->outcome) &&
           a->outcome != OUTCOME_OK;
}

static bool has_bad_neighbour(struct range all, size_t i)
{
    return (i > 0 && is_bad(all.v[i - 1])) || (i + 1 < all.n && is_bad(all.v[i + 1]));
}

static struct range all_of(const struct drawer *d, uint16_t target)
{
    struct range r;
    r.v = past_of_target(d->past, target, &r.n);
    return r;
}

#define NEVER_US (UINT64_MAX / 4)
struct nearest {
    size_t i;                     /* the attempt */
    const struct past_sign *sign; /* a keepalive was nearer, on that side; NULL = none */
    uint64_t distance_us;
};

/* The keepalives around the moment; NULL = none. */
static void signs_around(const struct drawer *d, uint16_t target, uint64_t at_us, const struct past_sign *out[2])
{
    size_t n, lo = 0;
    const struct past_sign *v = past_signs(d->past, target, &n);
    for (size_t hi = n; lo < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        if (v[mid].at_us < at_us)
            lo = mid + 1;
        else
            hi = mid;
    }
    out[0] = lo > 0 ? &v[lo - 1] : NULL;
    out[1] = lo < n ? &v[lo] : NULL;
}

/* The last attempt or keepalive before the moment, or the first one after it: the nearer, the likelier. The range is
 * not empty. */
static struct nearest draw_nearest(struct drawer *d, struct range all, uint64_t at_us)
{
    const struct past_sign *signs[2];
    size_t next = first_at(all.v, all.n, at_us), prev = next - 1;
    uint64_t before_us = next > 0 ? at_us - all.v[prev]->at_us : NEVER_US;
    uint64_t after_us = next < all.n ? all.v[next]->at_us - at_us : NEVER_US;
    signs_around(d, all.v[0]->target, at_us, signs);
    if (signs[0] != NULL && at_us - signs[0]->at_us < before_us)
        before_us = at_us - signs[0]->at_us;
    else
        signs[0] = NULL;
    if (signs[1] != NULL && signs[1]->at_us - at_us < after_us)
        after_us = signs[1]->at_us - at_us;
    else
        signs[1] = NULL;
    bool is_prev =
        before_us != NEVER_US && (after_us == NEVER_US || rng_below(&d->rng, before_us + after_us + 1) <= after_us);
    size_t i = is_prev ? (next > 0 ? prev : 0) : next < all.n ? next : all.n - 1;
    return (struct nearest){i, signs[!is_prev], is_prev ? before_us : after_us};
}

/* The nearest one that failed; NULL = none did. */
static const struct past_attempt *nearest_bad(struct range all, size_t i)
{
    for (size_t away = 0; away < all.n; away++) {
        if (away <= i && is_bad(all.v[i - away]))
            return all.v[i - away];
        if (i + away < all.n && is_bad(all.v[i + away]))
            return all.v[i + away];
    }
    return NULL;
}

/* One of about that moment, at which the target was well. is_close: the nearest one is so near that nothing lies in
 * between; else failures that stand alone may lie there, as often as they do. */
static const struct past_attempt *draw_well(struct drawer *d, struct range all, uint64_t at_us, unsigned size,
                                            bool is_close)
{
    const struct past_attempt *best = NULL;
    struct range r = {NULL, 0};
    for (size_t k = 0; k < SPANS && r.n < ENOUGH; k++)
        r = around(d, all.v[0]->target, at_us, spans_us[k]);
    size_t from = (size_t)(r.v - all.v);
    for (int k = 0; k < PICKS; k++) {
        size_t i = from + rng_below(&d->rng, r.n);
        if (is_bad(all.v[i]) && (is_close || has_bad_neighbour(all, i)))
            continue;
        best = all.v[i];
        if (is_bad(best) || size_of_attempt(d, best) == size)
            break;
    }
    return best;
}

/* The nearest one says whether the target was well then. */
static const struct past_attempt *draw_near(struct drawer *d, uint16_t target, uint64_t at_us, unsigned size)
{
    struct range all = all_of(d, target);
    if (all.n == 0)
        return NULL;
    struct nearest near = draw_nearest(d, all, at_us);
    bool is_close = near.distance_us <= ALONE_US;
    const struct past_attempt *bad = NULL, *a = NULL;
    if (near.sign != NULL)
        bad = near.sign->is_well ? NULL : nearest_bad(all, near.i);
    else if (is_bad(all.v[near.i]) && (is_close || has_bad_neighbour(all, near.i)))
        bad = all.v[near.i];
    if (bad != NULL)
        return bad;
    a = draw_well(d, all, at_us, size, is_close);
    return a != NULL ? a : all.v[near.i];
}

/* A cut attempt is longer than what was seen of it: it counts at the long end. Cuts within an outage tell nothing of
 * the target's pace. */
static void fit(const struct drawer *d, uint16_t target, struct tail *t)
{
    struct range all = all_of(d, target);
    size_t n = 0, n_cut = 0;
    int64_t *us = mem_alloc((all.n + 1) * sizeof *us);
    *t = (struct tail){0};
    for (size_t i = 0; i < all.n; i++) {
        if (all.v[i]->token_us > 0)
            us[n++] = all.v[i]->token_us;
        else
            n_cut += past_is_cut(all.v[i]) && !has_bad_neighbour(all, i);
    }
    t->cut_share = (double)n_cut / (double)(n + n_cut > 0 ? n + n_cut : 1);
    size_t median = (n + n_cut) / 2, high = (n + n_cut) * 9 / 10;
    if (n >= SAMPLES_MIN && high < n) {
        qsort(us, n, sizeof *us, by_value);
        t->mu = log((double)us[median]);
        t->sigma = (log((double)us[high]) - t->mu) / 1.2816; /* of the normal distribution's 90th percentile */
        t->is_known = t->sigma > 0;
    }
    mem_free(us);
}

/* The cut attempt does not stand alone. */
static bool is_outage(const struct drawer *d, const struct past_attempt *cut)
{
    struct range all = all_of(d, cut->target);
    size_t i = first_at(all.v, all.n, cut->at_us);
    while (i < all.n && all.v[i] != cut)
        i++;
    return i < all.n && is_bad(cut) && has_bad_neighbour(all, i);
}

/* When it went on at least so long: its first token, or its own failure. */
static bool lasted(const struct past_attempt *a, int64_t us)
{
    return a->token_us >= 0 ? a->token_us > us : a->end_us > us;
}

/* An attempt of the target that lasted longer than the cut, NULL = it hangs or *guess_us was made. */
static const struct past_attempt *draw_beyond(struct drawer *d, const struct past_attempt *cut, uint64_t at_us,
                                              int64_t *guess_us)
{
    const struct past_attempt *best = cut;
    *guess_us = -1;
    if (is_outage(d, cut))
        return NULL;
    for (size_t i = 0, n_cuts = 0; i < SPANS; i++) {
        struct range r = around(d, cut->target, at_us, spans_us[i]);
        if (r.n < ENOUGH)
            continue;
        for (int k = 0; k < PICKS; k++) {
            const struct past_attempt *a = any(d, r);
            if (!lasted(a, best->end_us))
                continue;
            if (a->token_us >= 0 || !past_is_cut(a))
                return a;
            if (n_cuts++ < CUTS_MAX)
                best = a; /* it was cut too, later: on from there */
        }
    }
    *guess_us = guess(d, cut->target, best->end_us);
    return NULL;
}

/* ---- a part from a recorded attempt ---- */

static enum failure_class class_of(enum outcome o)
{
    for (int c = FAILURE_OVERLOAD; c <= FAILURE_CLIENT; c++)
        if (failure_outcome((enum failure_class)c) == o)
            return (enum failure_class)c;
    return o == OUTCOME_REPAIRED ? FAILURE_COMPAT : FAILURE_FAULT;
}

static void set_failure(struct part *p, const struct past_attempt *a, uint8_t quirks)
{
    enum outcome o = a->outcome == OUTCOME_REPAIRED ? OUTCOME_INCOMPATIBLE : (enum outcome)a->outcome;
    bool is_connect = o == OUTCOME_CONNECT_ERROR;
    failure_make(&p->failure, o, "as it was recorded");
    p->has_failed = true;
    p->failure.class = class_of(a->outcome);
    p->failure.status = a->status != 200 ? a->status : 0;
    p->failure.in_stream = a->status == 200 || a->token_us >= 0;
    p->failure.retry_after_ms = a->retry_after_ms;
    p->failure.is_reused = p->is_reused;
    p->failure.is_established = is_connect && (a->is_again || a->connect_us >= 0);
    p->failure.is_unsent = p->is_unsent = is_connect && !p->failure.is_established && a->tokens_from == TOKENS_UNBILLED;
    if (a->outcome == OUTCOME_REPAIRED)
        p->failure.quirk = (uint8_t)(~quirks & (quirks + 1)); /* the lowest that is not yet known */
}

static void set_answer(struct part *p, const struct past_attempt *a)
{
    p->usage = a->tokens_from == TOKENS_UNBILLED ? USAGE_NONE : a->tokens;
    p->service = a->service;
    p->text_bytes =
        (uint32_t)(a->tokens.output > 0 && a->tokens.output < 100000000 ? a->tokens.output : 0) * BYTES_A_TOKEN;
}

/* Cut while it answered: so it would have gone on, as long again. */
static void go_on_answering(struct part *p)
{
    p->end_us += p->end_us - p->token_us;
    p->text_bytes *= 2;
    p->usage = USAGE_NONE;
}

static void part_of(const struct past_attempt *a, uint8_t quirks, struct part *p)
{
    *p = (struct part){.connect_us = a->connect_us > 0 ? a->connect_us : 0,
                       .is_reused = a->connect_us < 0,
                       .head_us = a->head_us,
                       .token_us = a->token_us,
                       .quiet_us = -1,
                       .end_us = a->end_us,
                       .status = a->status != 0 ? a->status : 200,
                       .usage = USAGE_NONE};
    set_answer(p, a);
    if (a->outcome == OUTCOME_OK)
        return;
    if (a->outcome == OUTCOME_CONNECT_TIMEOUT) {
        p->connect_us = -1;
        p->head_us = p->end_us = -1;
        p->usage = USAGE_NONE;
    } else if (a->outcome == OUTCOME_IDLE_TIMEOUT) {
        p->quiet_us = a->token_us;
        p->end_us = -1;
        p->usage = USAGE_NONE;
    } else if (past_is_cut(a) && a->token_us >= 0) {
        go_on_answering(p);
    } else if (past_is_cut(a)) {
        p->end_us = -1;
        p->usage = USAGE_NONE;
        p->text_bytes = 0;
        if (p->head_us > a->end_us)
            p->head_us = -1;
    } else {
        set_failure(p, a, quirks);
    }
}

/* ---- an answer as long as this request's own ---- */

struct own {
    int64_t prompt, output; /* tokens that were reported; 0 = none were */
    const char *service;    /* its class of service; "" = the standard one */
    const struct past_attempt *mistake;
};

static struct own own_of(const struct past *p, const struct past_request *r)
{
    const struct past_attempt *all = past_attempts(p, r);
    struct own own = {.service = ""};
    for (uint16_t i = 0; i < r->n_attempts; i++) {
        const struct past_attempt *a = &all[i];
        if (a->outcome == OUTCOME_OK && a->tokens_from == TOKENS_REPORTED) {
            own.prompt = usage_prompt(&a->tokens);
            own.output = a->tokens.output;
            own.service = a->service;
        }
        if (past_is_own_mistake(a->outcome))
            own.mistake = a;
    }
    return own;
}

static int64_t scaled(int64_t v, int64_t to, int64_t from)
{
    double out = from > 0 ? (double)v * (double)to / (double)from + 0.5 : (double)v;
    return out < SCALED_MAX ? (int64_t)out : (int64_t)SCALED_MAX;
}

static void fit_prompt(struct usage *u, int64_t prompt)
{
    int64_t was = usage_prompt(u);
    if (prompt <= 0 || was <= 0)
        return;
    u->cache_read = scaled(u->cache_read, prompt, was);
    u->cache_write_5m = scaled(u->cache_write_5m, prompt, was);
    u->cache_write_1h = scaled(u->cache_write_1h, prompt, was);
    int64_t cached = u->cache_read + u->cache_write_5m + u->cache_write_1h;
    u->input = prompt > cached ? prompt - cached : 0;
}

/* The shares that the other's cache had, the length that this one had, at the other's pace. */
static void fit_length(struct part *p, const struct own *own)
{
    struct usage *u = &p->usage;
    p->service = own->service;
    if (u->output < 0 && u->input < 0)
        return;
    fit_prompt(u, own->prompt);
    if (own->output <= 0 || u->output <= 0 || p->has_failed || p->token_us < 0 || p->end_us < p->token_us)
        return;
    p->end_us = p->token_us + scaled(p->end_us - p->token_us, own->output, u->output);
    p->text_bytes = (uint32_t)scaled(p->text_bytes, own->output, u->output);
    u->reasoning = scaled(u->reasoning, own->output, u->output);
    u->output = own->output;
}

/* ---- playing ---- */

/* Goes on where we cut it. */
static void go_beyond(struct drawer *d, const struct past_attempt *cut, const struct own *own, uint64_t now_us,
                      struct part *p)
{
    int64_t guess_us;
    const struct past_attempt *a = draw_beyond(d, cut, now_us, &guess_us);
    if (a != NULL) {
        d->counts.n_beyond++;
        int64_t head_us = p->head_us;
        part_of(a, 0, p);
        p->head_us = head_us >= 0 && !p->has_failed ? head_us : p->head_us;
        fit_length(p, own);
    } else if (guess_us >= 0) {
        struct usage u = {own->prompt, 0, 0, 0, own->output, 0};
        d->counts.n_guessed++;
        p->token_us = guess_us;
        p->end_us = guess_us * 2;
        p->usage = own->prompt > 0 ? u : USAGE_NONE;
        p->text_bytes = (uint32_t)(own->output < 100000000 ? own->output : 0) * BYTES_A_TOKEN;
    }
}

/* The attempt that this request did make there, by its place: HELD_NOT_RECORDED = it made none, or not so many.
 * *is_unable: it could not. */
static size_t recorded(const struct past *p, const struct past_request *r, uint16_t target, unsigned nth,
                       bool *is_unable)
{
    const struct past_attempt *all = past_attempts(p, r);
    *is_unable = false;
    for (uint16_t i = 0; i < r->n_attempts; i++) {
        if (all[i].target != target)
            continue;
        if (all[i].is_started && nth-- == 0)
            return i;
        *is_unable |= all[i].outcome == OUTCOME_SKIPPED_INCAPABLE || all[i].outcome == OUTCOME_SKIPPED_STATE ||
                      all[i].outcome == OUTCOME_SKIPPED_OFF;
    }
    return HELD_NOT_RECORDED;
}

void drawer_play(void *drawer, const struct part_ask *ask, struct part *out)
{
    struct drawer *d = drawer;
    const struct past_request *r = past_request(d->past, ask->request);
    struct own own = own_of(d->past, r);
    bool is_unable = false;
    uint16_t target = past_target(d->past, ask->link->provider->name, ask->link->model);
    *out = (struct part){.is_unable = true};
    size_t at = recorded(d->past, r, target, ask->nth, &is_unable);
    bool is_own = at != HELD_NOT_RECORDED;
    const struct past_attempt *a = is_own ? past_attempts(d->past, r) + at : NULL;
    if (is_unable && !is_own)
        return;
    if (!is_own)
        a = own.mistake;
    if (a == NULL && target != PAST_NO_TARGET)
        a = draw_near(d, target, ask->now_us, size_of(r->prompt_bytes));
    if (a == NULL) {
        d->counts.n_unknown++;
        return;
    }
    d->counts.n_recorded += is_own;
    d->counts.n_drawn += !is_own;
    part_of(a, ask->quirks, out);
    if (!is_own)
        fit_length(out, &own);
    bool is_beyond = past_is_cut(a) && a->token_us < 0;
    if (is_beyond)
        go_beyond(d, a, &own, ask->now_us, out);
    held_start(d->held, ask, is_beyond ? HELD_NOT_RECORDED : at, &out->usage);
}

void drawer_begun(void *drawer, const struct part_ask *ask)
{
    struct drawer *d = drawer;
    held_begun(d->held, ask);
}

struct drawer *drawer_new(const struct past *p, const struct route_conf *route, uint64_t seed)
{
    struct drawer *d = mem_zalloc(sizeof *d);
    d->past = p;
    d->rng.state = seed;
    d->held = held_new(p, route);
    for (uint16_t t = 0; t < past_n_targets(p); t++)
        fit(d, t, &d->tails[t]);
    return d;
}

void drawer_free(struct drawer *d)
{
    if (d != NULL)
        held_free(d->held);
    mem_free(d);
}

const struct draw_counts *drawer_counts(const struct drawer *d)
{
    return &d->counts;
}

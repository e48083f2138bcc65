/* One target on a virtual clock: lognormal latencies that drift and step, outages in which a share of the calls never
 * answers, the real breaker, and a budget policy. Nothing but the seed decides. */
#ifndef RM_TESTS_LATENCY_WORLD_H
#define RM_TESTS_LATENCY_WORLD_H

#include "base/mem.h"
#include "plan/latency.h"

#include <math.h>
#include <stdlib.h>

#define SECOND UINT64_C(1000000)
#define HOUR (3600 * SECOND)

struct outage {
    double at_h, minutes, share;
};
struct step {
    double at_h, factor;
};
struct story {
    double hours, per_second, median_ms, sigma, swing; /* swing: ln of the daily drift, up and down */
    const struct outage *outages;
    size_t n_outages;
    const struct step *steps;
    size_t n_steps;
    unsigned n_cores;
    uint32_t fixed_ms; /* 0 = auto */
    bool has_no_breaker;
    struct auto_conf conf;
};
struct told {
    uint64_t n, n_false, n_hung,
        n_slow_to_tell; /* attempts that would answer; of them cut; never; cut past 1.3 x p99 */
    double false_percent, detect_mean, detect_p95; /* in multiples of the p99 that was true */
    uint64_t n_trials;                             /* of the breaker's, that stayed silent */
    uint64_t last_budget_us;
    double last_ratio; /* budget against the true p99 at the end */
    struct latency_report report;
};

enum { WORLD_OUT_MAX = 4096 };

struct flight_out {
    uint64_t end_us, start_us, took_us;
    double p99_us;
    bool is_hung, is_cut, is_trial;
    unsigned core;
    struct trial trial;
    struct latency_grant grant;
};

struct scene {
    const struct story *story;
    struct rng rng;
    struct registry *registry;
    struct latency *latency;
    struct flight_out out[WORLD_OUT_MAX]; /* unordered; few at a time */
    size_t n_out;
    double *detections;
    size_t n_detections, cap;
    struct told told;
};

static const struct auto_conf conf_default = {AUTO_P99, 300, 30000, 15000, 200, false};
static const struct breaker_conf breaker_default = {.failures = 5,
                                                    .ratio_permille = 500,
                                                    .ratio_min = 10,
                                                    .window_ms = 30000,
                                                    .cooldown_ms = 5000,
                                                    .cooldown_max_ms = 60000};

static inline double scene_uniform(struct rng *r)
{
    return ((double)(rng_next(r) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double scene_normal(struct rng *r)
{
    double u = scene_uniform(r), v = scene_uniform(r);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static inline double scene_median_us(const struct story *s, uint64_t now)
{
    double h = (double)now / (double)HOUR, m = s->median_ms * 1000 * exp(s->swing * sin(h / 24 * 6.283185307179586));
    for (size_t i = 0; i < s->n_steps; i++)
        m *= h >= s->steps[i].at_h ? s->steps[i].factor : 1;
    return m;
}

static inline double scene_p99_us(const struct story *s, uint64_t now)
{
    return scene_median_us(s, now) * exp(2.3263 * s->sigma);
}

static inline double scene_hang_share(const struct story *s, uint64_t now)
{
    double h = (double)now / (double)HOUR;
    for (size_t i = 0; i < s->n_outages; i++)
        if (h >= s->outages[i].at_h && h < s->outages[i].at_h + s->outages[i].minutes / 60)
            return s->outages[i].share;
    return 0;
}

static inline void scene_detected(struct scene *w, double ratio)
{
    if (w->n_detections == w->cap) {
        w->cap = w->cap > 0 ? 2 * w->cap : 1024;
        w->detections = mem_realloc(w->detections, w->cap * sizeof *w->detections);
    }
    w->detections[w->n_detections++] = ratio;
}

static inline void scene_end(struct scene *w, struct flight_out *f)
{
    const struct story *s = w->story;
    uint64_t now = f->end_us;
    if (f->is_cut) {
        if (s->fixed_ms == 0)
            latency_cut(&s->conf, &f->grant, now - f->start_us, -1, 1000, now);
        registry_bad(w->registry, 0, now, false,
                     s->has_no_breaker ? &(struct breaker_conf){.is_off = true} : &breaker_default, &w->rng, &f->trial);
    } else {
        if (s->fixed_ms == 0)
            (void)latency_answered(&s->conf, &f->grant, now - f->start_us, -1, 1000, now);
        registry_first_token(w->registry, 0, now, &f->trial);
        registry_good(w->registry, 0, 0, now, &f->trial);
    }
    if (f->is_hung && f->is_trial) {
        w->told.n_trials++;
    } else if (f->is_hung) {
        w->told.n_hung++;
        scene_detected(w, (double)(now - f->start_us) / f->p99_us);
    } else {
        w->told.n++;
        w->told.n_false += f->is_cut;
    }
}

static inline void scene_end_until(struct scene *w, uint64_t now)
{
    for (;;) {
        size_t first = w->n_out;
        for (size_t i = 0; i < w->n_out; i++)
            if (w->out[i].end_us <= now && (first == w->n_out || w->out[i].end_us < w->out[first].end_us))
                first = i;
        if (first == w->n_out)
            return;
        struct flight_out f = w->out[first];
        w->out[first] = w->out[--w->n_out];
        scene_end(w, &f);
    }
}

static inline void scene_arrive(struct scene *w, uint64_t now)
{
    const struct story *s = w->story;
    struct flight_out *f = &w->out[w->n_out];
    *f = (struct flight_out){.start_us = now, .p99_us = scene_p99_us(s, now)};
    f->core = (unsigned)rng_below(&w->rng, s->n_cores);
    f->is_hung = scene_uniform(&w->rng) < scene_hang_share(s, now);
    uint64_t us = (uint64_t)(scene_median_us(s, now) * exp(s->sigma * scene_normal(&w->rng)));
    enum pass pass = s->has_no_breaker ? PASS_YES : registry_pass(w->registry, 0, 0, now, &f->trial);
    if (pass == PASS_NO || w->n_out + 1 == WORLD_OUT_MAX)
        return;
    f->is_trial = pass == PASS_TRIAL;
    uint64_t budget = (uint64_t)s->fixed_ms * 1000;
    if (s->fixed_ms == 0) {
        struct latency_key key = {0};
        latency_grant(latency_core(w->latency, f->core), key, &s->conf, pass == PASS_TRIAL, 0, now, &f->grant);
        budget = s->conf.is_shadow ? 15000000 : f->grant.us;
        w->told.last_budget_us = f->grant.base_us;
        w->told.last_ratio = (double)f->grant.base_us / f->p99_us;
    }
    f->is_cut = f->is_hung || us > budget;
    f->end_us = now + (f->is_cut ? budget : us);
    w->n_out++;
}

static inline int scene_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static inline void scene_sum(struct scene *w)
{
    struct told *t = &w->told;
    double sum = 0;
    t->false_percent = t->n > 0 ? 100.0 * (double)t->n_false / (double)t->n : 0;
    for (size_t i = 0; i < w->n_detections; i++) {
        sum += w->detections[i];
        t->n_slow_to_tell += w->detections[i] > 1.3;
    }
    if (w->n_detections == 0)
        return;
    qsort(w->detections, w->n_detections, sizeof *w->detections, scene_by_size);
    t->detect_mean = sum / (double)w->n_detections;
    t->detect_p95 = w->detections[w->n_detections * 95 / 100];
}

/* Plays it. The first `skip_h` hours are not counted: there are no samples yet. */
static inline struct told scene_play(const struct story *s, uint64_t seed, double skip_h)
{
    struct scene *w = mem_zalloc(sizeof *w);
    uint16_t id;
    *w = (struct scene){.story = s, .rng = {seed}, .registry = registry_new(), .latency = latency_new(s->n_cores)};
    if (registry_intern_target(w->registry, "p", "h", "m", &id) != ERR_OK)
        abort();
    bool is_counted = false;
    uint64_t now = SECOND, end = (uint64_t)(s->hours * (double)HOUR);
    while (now < end) {
        double h = (double)now / (double)HOUR, rate = s->per_second * (1 + 0.7 * sin((h - 6) / 24 * 6.283185307179586));
        now += 1 + (uint64_t)(-log(scene_uniform(&w->rng)) * 1e6 / rate);
        scene_end_until(w, now);
        if (!is_counted && h >= skip_h) {
            w->told = (struct told){0};
            w->n_detections = 0;
            is_counted = true;
        }
        scene_arrive(w, now);
    }
    scene_end_until(w, UINT64_MAX);
    scene_sum(w);
    (void)latency_report(w->latency, (struct latency_key){0}, &s->conf, now, &w->told.report);
    struct told t = w->told;
    latency_free(w->latency);
    registry_free(w->registry);
    mem_free(w->detections);
    mem_free(w);
    return t;
}

#endif

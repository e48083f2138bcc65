/* One timer starts what is due; the shots do the rest. In the closed loop a worker's first request is due on the ramp
 * and every other one when its last has ended. In the open loop the due times are fixed from the start, and a request
 * that finds no free shot waits: it is sent late, and its latency still counts from its due time. */
#include "lab/load.h"

#include "base/mem.h"
#include "lab/shot.h"

struct load {
    struct shot_world world;
    struct load_plan plan;
    struct sample *samples;
    struct shot *shots;
    unsigned *free; /* stack of idle shots' indices */
    unsigned n_free;
    struct timer timer;
    struct task done_task;
    void (*done)(void *arg);
    void *arg;
    struct load_progress progress;
    bool is_running, is_stopping;
};

static void start_due(struct load *l);

static void on_timer(struct timer *t)
{
    start_due(RM_CONTAINER(t, struct load, timer));
}

static void on_done(struct task *t)
{
    struct load *l = RM_CONTAINER(t, struct load, done_task);
    l->is_running = false;
    l->done(l->arg);
}

struct load *load_new(struct loop *loop, struct resolver *r)
{
    struct load *l = mem_zalloc(sizeof *l);
    l->world = (struct shot_world){.loop = loop, .resolver = r, .wires = wires_new(), .plan = &l->plan};
    l->timer.fn = on_timer;
    l->done_task.fn = on_done;
    list_init(&l->done_task.node);
    return l;
}

void load_free(struct load *l)
{
    if (l == NULL)
        return;
    if (l->is_running)
        load_stop(l);
    loop_turn(l->world.loop, 0);
    wires_free(l->world.wires);
    loop_turn(l->world.loop, 0);
    mem_free(l->shots);
    mem_free(l->free);
    mem_free(l);
}

static uint64_t clock_of(const struct load *l)
{
    return loop_clock_us() - l->world.began_us;
}

static bool is_open(const struct load *l)
{
    return l->plan.rate > 0;
}

/* When request i should be sent; closed loop: of a worker's first one. */
static uint64_t due_us(const struct load *l, uint64_t i)
{
    if (is_open(l))
        return (uint64_t)((double)i * 1e6 / l->plan.rate);
    return i < l->plan.concurrency ? l->plan.ramp_us * i / l->plan.concurrency : 0;
}

static bool has_more(const struct load *l)
{
    return !l->is_stopping && !l->progress.was_refused && l->progress.n_started < l->plan.n;
}

static void end_if_over(struct load *l)
{
    if (has_more(l) || l->progress.n_done < l->progress.n_started)
        return;
    timer_cancel(l->world.loop, &l->timer);
    loop_post(l->world.loop, &l->done_task);
}

static void start_one(struct load *l, uint64_t due)
{
    uint64_t i = l->progress.n_started++, now = clock_of(l);
    struct sample *m = &l->samples[i];
    *m = sample_none(l->plan.round);
    m->due_us = is_open(l) ? due : now;
    if (is_open(l) && now > due && now - due > l->progress.behind_max_us)
        l->progress.behind_max_us = now - due;
    struct shot *s = &l->shots[l->free[--l->n_free]];
    shot_start(s, m, l->plan.is_chain ? 0 : i % l->plan.n_targets);
}

static void start_due(struct load *l)
{
    while (has_more(l) && l->n_free > 0) {
        uint64_t due = due_us(l, l->progress.n_started);
        if (due > clock_of(l)) {
            timer_arm(l->world.loop, &l->timer, l->world.began_us + due);
            return;
        }
        if (l->plan.may_start != NULL && !l->plan.may_start(l->plan.arg)) {
            if (l->progress.n_done < l->progress.n_started)
                return; /* asked again when one has ended */
            l->progress.was_refused = true;
            break;
        }
        start_one(l, due);
    }
    end_if_over(l);
}

static void on_end(struct shot *s)
{
    struct load *l = RM_CONTAINER(s->world, struct load, world);
    l->progress.n_done++;
    l->progress.n_failed += !s->sample->is_ok;
    if (l->plan.on_end != NULL)
        l->plan.on_end(s->sample, l->plan.arg);
    l->free[l->n_free++] = (unsigned)(s - l->shots);
    start_due(l);
}

static void make_shots(struct load *l)
{
    unsigned n = l->plan.concurrency;
    l->shots = mem_realloc(l->shots, n * sizeof *l->shots);
    l->free = mem_realloc(l->free, n * sizeof *l->free);
    l->n_free = 0;
    for (unsigned i = n; i-- > 0;) {
        shot_init(&l->shots[i], &l->world, on_end);
        l->free[l->n_free++] = i;
    }
}

void load_start(struct load *l, const struct load_plan *plan, struct sample *samples, void (*done)(void *arg),
                void *arg)
{
    RM_ASSERT(!l->is_running && plan->n_targets > 0 && plan->concurrency > 0 && plan->timeout_us > 0);
    l->plan = *plan;
    l->samples = samples;
    l->done = done;
    l->arg = arg;
    l->progress = (struct load_progress){.n = plan->n};
    l->is_running = true;
    l->is_stopping = false;
    make_shots(l);
    l->world.began_us = loop_clock_us();
    timer_arm(l->world.loop, &l->timer, l->world.began_us);
}

void load_stop(struct load *l)
{
    if (!l->is_running || l->is_stopping)
        return;
    l->is_stopping = true;
    for (unsigned i = 0; i < l->plan.concurrency; i++)
        shot_stop(&l->shots[i]);
    end_if_over(l);
}

const struct load_progress *load_progress(const struct load *l)
{
    return &l->progress;
}

uint64_t load_began_us(const struct load *l)
{
    return l->world.began_us;
}

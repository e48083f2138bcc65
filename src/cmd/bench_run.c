/* The scenario. In each round every phase is run once; the order is turned by one from round to round, so that a slow
 * drift of the machine falls on all phases alike. All phases of a round meet the same pretend chances (the providers
 * count their requests anew in each), so a difference of two phases is not blurred by luck. */
#include "cmd/bench.h"

#include "base/mem.h"
#include "cmd/tool.h"
#include "lab/prompt.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    TICK_US = 200000,
    BASELINE_FAILED_PCT = 5, /* of a baseline phase's requests: then nothing else is worth measuring */
    OPEN_LOOP_MAX = 2000,    /* requests at once */
    WATCH_EVERY_MS = 100,
    PRICE_INPUT_NUSD = 1000, /* of the pretend providers: 1 and 4 dollars per million tokens */
    PRICE_OUTPUT_NUSD = 4000,
    NAIVE_HOPS = 3
};

struct run {
    const struct bench_options *o;
    struct result *r;
    struct bench_world world;
    struct loop *loop;
    struct resolver *resolver;
    struct load *load;
    struct arena arena; /* heads and bodies of the requests */
    struct load_target a, b, gateway, fault, doubled, outage, naive[NAIVE_HOPS];
    struct load_target cold[BENCH_STANDBYS_MAX], warm[BENCH_STANDBYS_MAX];
    struct watch signals;
    struct timer tick, alarm;
    struct bench_cap cap;
    struct bench_worst worst;
    unsigned n_pretend; /* real providers: attempts of the running phase that pretend links take */
    struct bench_progress progress;
    bool is_loading, is_interrupted;
    unsigned round;
    uint64_t standby_us; /* when the standbys were last asked */
};

/* ---- the loop ---- */

static void on_signal(struct watch *w, unsigned ready)
{
    struct run *x = RM_CONTAINER(w, struct run, signals);
    struct signalfd_siginfo info;
    if (read(w->fd, &info, sizeof info) <= 0)
        return;
    x->is_interrupted = true;
    load_stop(x->load);
    if (!x->is_loading)
        loop_stop(x->loop);
}

static void on_tick(struct timer *t)
{
    struct run *x = RM_CONTAINER(t, struct run, tick);
    bench_progress_tick(&x->progress, x->is_loading ? load_progress(x->load) : NULL);
    timer_arm(x->loop, t, loop_now_us(x->loop) + TICK_US);
}

static void on_done(void *arg)
{
    struct run *x = arg;
    x->is_loading = false;
    loop_stop(x->loop);
}

static void on_alarm(struct timer *t)
{
    loop_stop(RM_CONTAINER(t, struct run, alarm)->loop);
}

/* False: interrupted. */
static bool drive(struct run *x, const struct load_plan *plan, struct sample *samples)
{
    loop_turn(x->loop, 0);
    if (x->is_interrupted)
        return false;
    x->is_loading = true;
    load_start(x->load, plan, samples, on_done, x);
    loop_run(x->loop);
    double behind = (double)load_progress(x->load)->behind_max_us / 1000;
    if (behind > x->r->behind_max_ms)
        x->r->behind_max_ms = behind;
    return !x->is_interrupted;
}

/* False: interrupted. */
static bool wait_until(struct run *x, uint64_t at_us)
{
    loop_turn(x->loop, 0);
    if (!x->is_interrupted && at_us > loop_now_us(x->loop)) {
        timer_arm(x->loop, &x->alarm, at_us);
        loop_run(x->loop);
        timer_cancel(x->loop, &x->alarm);
    }
    return !x->is_interrupted;
}

/* ---- requests ---- */

static struct load_target target(struct run *x, const char *name, const char *model, uint16_t port)
{
    const struct bench_options *o = x->o;
    struct buf body = {0}, head = {0};
    struct prompt p = {model, o->system_tokens, o->user_tokens, o->max_tokens};
    char host[32];
    snprintf(host, sizeof host, "127.0.0.1:%u", port);
    prompt_body(&p, &body);
    prompt_head(&head, BYTES("/v1/chat/completions"), bytes_of(host), "bench", body.n);
    struct load_target t = {.name = arena_dup(&x->arena, bytes_of(name)).p,
                            .host = "127.0.0.1",
                            .port = port,
                            .head = arena_dup(&x->arena, buf_bytes(&head)),
                            .body = arena_dup(&x->arena, buf_bytes(&body))};
    buf_fini(&body);
    buf_fini(&head);
    return t;
}

/* Real providers: what fails is a pretend link before the chain, and what serves then is the chain's first. */
static void make_real_targets(struct run *x)
{
    const struct bench_world *w = &x->world;
    bench_real_target(x->o->real, x->o, &x->arena, &x->a);
    x->gateway = target(x, "", "bench", w->port);
    x->fault = target(x, "", "bench-fault", w->port);
    x->doubled = target(x, "", "bench-double", w->port);
    x->naive[0] = x->naive[1] = target(x, "bench-fault-1", "bench", w->port_a);
    x->naive[2] = x->a;
}

static void make_targets(struct run *x)
{
    const struct bench_world *w = &x->world;
    char name[32];
    if (x->o->real != NULL) {
        make_real_targets(x);
        return;
    }
    x->a = target(x, "A", "bench", w->port_a);
    x->b = target(x, "B", "bench", w->port_b);
    x->gateway = x->fault = x->doubled = target(x, "", "bench", w->port);
    x->outage = target(x, "", "outage", w->port);
    x->naive[0] = x->naive[1] = x->a;
    x->naive[2] = x->b;
    for (unsigned i = 0; i < x->o->n_standbys; i++) {
        snprintf(name, sizeof name, "cold-%u", i + 1);
        x->cold[i] = target(x, "", name, w->port);
        snprintf(name, sizeof name, "warm-%u", i + 1);
        x->warm[i] = target(x, "", name, w->port);
    }
}

static bool may_start(void *arg)
{
    return bench_cap_may_start(&((struct run *)arg)->cap);
}

static void on_end(const struct sample *s, void *arg)
{
    struct run *x = arg;
    if (x->o->real != NULL)
        bench_cap_ended(&x->cap, bench_real_cost(x->o->real, s, x->n_pretend));
}

/* What the phase puts at risk with each request. */
static void set_stake(struct run *x, enum phase_id id)
{
    const struct phase_spec *spec = phase_spec(id);
    bool is_chain = spec->path == PATH_GATEWAY;
    x->cap.worst_nusd = is_chain ? x->worst.chain_nusd : x->worst.direct_nusd;
    x->n_pretend = spec->path == PATH_NAIVE ? NAIVE_HOPS - 1 : (spec->fault_a != NULL) + (spec->fault_b != NULL);
}

static struct load_plan plan_of(struct run *x, enum phase_id id)
{
    const struct bench_options *o = x->o;
    struct load_plan p = {.n_targets = 1,
                          .n = o->n,
                          .timeout_us = o->timeout_ms * 1000,
                          .concurrency = o->rate > 0 ? OPEN_LOOP_MAX : o->concurrency,
                          .ramp_us = (uint64_t)o->ramp_ms * 1000,
                          .rate = o->rate,
                          .round = x->round,
                          .may_start = may_start,
                          .on_end = on_end,
                          .arg = x};
    switch (phase_spec(id)->path) {
    case PATH_DIRECT_A:
        p.targets = &x->a;
        break;
    case PATH_DIRECT_B:
        p.targets = &x->b;
        break;
    case PATH_GATEWAY:
        p.targets = phase_spec(id)->fault_b != NULL   ? &x->doubled
                    : phase_spec(id)->fault_a != NULL ? &x->fault
                                                      : &x->gateway;
        break;
    case PATH_STANDBY:
        p.targets = id == PHASE_COLD ? x->cold : x->warm;
        p.n = p.n_targets = p.concurrency = o->n_standbys;
        p.rate = 0;
        break;
    case PATH_NAIVE:
        p.targets = x->naive;
        p.n_targets = NAIVE_HOPS;
        p.is_chain = true;
        p.first_token_us = (uint64_t)o->budget_ms * 1000;
        break;
    }
    return p;
}

/* ---- money ---- */

/* Without a gateway nobody keeps books; the same rule by hand: what was told, and for each attempt given up its prompt,
 * which the provider has read. */
static void price_by_hand(const struct run *x, struct sample *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (x->o->real != NULL) {
            v[i].cost_nusd = bench_real_cost(x->o->real, &v[i], x->n_pretend);
            continue;
        }
        if (v[i].input < 0 || v[i].output < 0 || v[i].attempts == 0)
            continue;
        v[i].waste_nusd = v[i].input * PRICE_INPUT_NUSD * (v[i].attempts - 1);
        v[i].cost_nusd = v[i].input * PRICE_INPUT_NUSD + v[i].output * PRICE_OUTPUT_NUSD + v[i].waste_nusd;
    }
}

static void read_back(struct run *x, enum phase_path path, struct sample *v, size_t n)
{
    if (path != PATH_GATEWAY && path != PATH_STANDBY) {
        price_by_hand(x, v, n);
        return;
    }
    size_t missing = bench_ledger_read(x->world.caller, x->world.admin_port, v, n);
    if (missing > 0)
        fprintf(stderr, "ringmain bench: %zu of %zu requests are not on the gateway's ledger; their cost is unknown\n",
                missing, n);
}

/* ---- phases ---- */

static void tell_failures(const struct sample *v, size_t n, const char *title, size_t n_failed)
{
    struct phase p = {0};
    for (size_t i = 0; i < n; i++)
        phase_put(&p, &v[i]);
    phase_close(&p);
    fprintf(stderr, "ringmain bench: %zu of %zu requests failed in the baseline (%s):", n_failed, n, title);
    for (size_t i = 0; i < p.n_errors; i++)
        fprintf(stderr, "%s %llu %s", i > 0 ? "," : "", (unsigned long long)p.errors[i].n, p.errors[i].word);
    fputs(". Nothing beyond it can be measured.\n", stderr);
    phase_fini(&p);
}

static bool is_good_baseline(const struct sample *v, size_t n, const char *title)
{
    size_t n_failed = 0;
    for (size_t i = 0; i < n; i++)
        n_failed += !v[i].is_ok;
    if (n_failed * 100 <= n * BASELINE_FAILED_PCT)
        return true;
    tell_failures(v, n, title, n_failed);
    return false;
}

static bool is_alive(struct run *x)
{
    const char *dead = bench_world_dead(&x->world);
    if (dead != NULL)
        fprintf(stderr, "ringmain bench: %s ended; see the logs in %s\n", dead, x->world.dir);
    return dead == NULL;
}

static int cap_reached(struct run *x)
{
    fprintf(stderr, "ringmain bench: stopped at the spend cap: $%.6f are spent, and $%.2f may be\n",
            (double)x->cap.spent_nusd / 1e9, (double)x->cap.max_nusd / 1e9);
    x->r->partial_reason = "the spend cap was reached";
    return BENCH_RUN_FAILED;
}

/* Keeps what was begun; requests that were never sent are nobody's. */
static void keep(struct phase *p, const struct sample *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        phase_put(p, &v[i]);
}

/* Standbys must have been idle for long enough to be cold. False: interrupted. */
static bool wait_for_cold(struct run *x)
{
    return wait_until(x, x->standby_us + (uint64_t)x->o->cold_after_ms * 1250);
}

/* Twenty standbys are one to the reader. */
static void name_standbys(struct sample *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (v[i].provider[0] != '\0')
            snprintf(v[i].provider, sizeof v[i].provider, "standby");
}

static int run_phase(struct run *x, enum phase_id id)
{
    const struct phase_spec *spec = phase_spec(id);
    struct load_plan plan = plan_of(x, id);
    bool is_standby = spec->path == PATH_STANDBY;
    bench_progress_step(&x->progress, x->round, spec->title);
    set_stake(x, id);
    if (!is_alive(x) || !bench_world_faults(&x->world, spec->fault_a, spec->fault_b, 0, 0))
        return BENCH_RUN_FAILED;
    if (is_standby && !wait_for_cold(x))
        return BENCH_RUN_STOPPED;
    struct sample *v = mem_zalloc(plan.n * sizeof *v);
    int code = drive(x, &plan, v) ? BENCH_RUN_OK : BENCH_RUN_STOPPED;
    size_t n = load_progress(x->load)->n_started;
    if (!is_alive(x)) /* its failures are ours */
        code = BENCH_RUN_FAILED;
    bool is_whole = code == BENCH_RUN_OK;
    if (is_whole && (id == PHASE_DIRECT || id == PHASE_HEALTHY) && !is_good_baseline(v, n, spec->title))
        code = BENCH_RUN_FAILED;
    if (is_whole) {
        read_back(x, spec->path, v, n);
        bench_cap_settle(&x->cap, v, n);
        if (is_standby)
            name_standbys(v, n);
        keep(&x->r->phases[id], v, n);
        if (id == PHASE_DIRECT && x->o->real != NULL) /* what a failover leads to is the same provider */
            keep(&x->r->phases[PHASE_DIRECT_B], v, n);
        bench_progress_end(&x->progress, v, n);
    }
    mem_free(v);
    return code == BENCH_RUN_OK && load_progress(x->load)->was_refused ? cap_reached(x) : code;
}

/* Real requests cost money: one is enough. */
static int warm_up_one(struct run *x, enum phase_id id)
{
    struct load_plan plan = plan_of(x, id);
    unsigned most = x->o->real != NULL ? 1 : x->o->concurrency;
    int code = BENCH_RUN_OK;
    set_stake(x, id);
    plan.n = plan.n > most ? most : plan.n;
    struct sample *v = mem_zalloc(plan.n * sizeof *v);
    bool is_whole = drive(x, &plan, v);
    if (!is_alive(x)) {
        mem_free(v);
        return BENCH_RUN_FAILED;
    }
    if (!is_whole)
        code = BENCH_RUN_STOPPED;
    else if (load_progress(x->load)->was_refused)
        code = cap_reached(x);
    else if (!is_good_baseline(v, plan.n, phase_spec(id)->title))
        code = BENCH_RUN_FAILED;
    if (code != BENCH_RUN_STOPPED) {
        read_back(x, phase_spec(id)->path, v, load_progress(x->load)->n_started);
        bench_cap_settle(&x->cap, v, load_progress(x->load)->n_started);
    }
    mem_free(v);
    return code;
}

/* Opens connections and meets what is broken before anything counts. */
static int warm_up(struct run *x)
{
    static const enum phase_id ids[] = {PHASE_DIRECT, PHASE_DIRECT_B, PHASE_HEALTHY};
    int code = BENCH_RUN_OK;
    if (!bench_world_faults(&x->world, NULL, NULL, 0, 0))
        return BENCH_RUN_FAILED;
    for (size_t i = 0; i < RM_COUNTOF(ids) && code == BENCH_RUN_OK; i++) {
        if (x->o->real != NULL && !x->o->phases[ids[i]])
            continue;
        code = warm_up_one(x, ids[i]);
    }
    return code;
}

static bool has_standbys(const struct bench_options *o)
{
    return o->phases[PHASE_COLD] || o->phases[PHASE_WARM];
}

/* A route's keepalives begin with its first use. */
static int touch_standbys(struct run *x)
{
    static const enum phase_id ids[] = {PHASE_COLD, PHASE_WARM};
    for (size_t i = 0; has_standbys(x->o) && i < RM_COUNTOF(ids); i++) {
        struct load_plan plan = plan_of(x, ids[i]);
        struct sample *v = mem_zalloc(plan.n * sizeof *v);
        bool is_whole = drive(x, &plan, v);
        mem_free(v);
        if (!is_whole)
            return BENCH_RUN_STOPPED;
    }
    x->standby_us = loop_clock_us();
    return BENCH_RUN_OK;
}

/* The idle time of both kinds of standbys counts from the last round: they are different ones. */
static int run_round(struct run *x)
{
    enum phase_id ids[PHASE_N];
    unsigned n = 0;
    for (int i = 0; i < PHASE_N; i++)
        if (x->o->phases[i])
            ids[n++] = (enum phase_id)i;
    int code = bench_world_restart(&x->world, x->o, x->round) ? warm_up(x) : BENCH_RUN_FAILED;
    uint64_t touched_us = x->standby_us;
    for (unsigned i = 0; i < n && code == BENCH_RUN_OK; i++) {
        enum phase_id id = ids[(i + x->round) % n];
        code = run_phase(x, id);
        if (phase_spec(id)->path == PATH_STANDBY)
            touched_us = loop_clock_us();
    }
    x->standby_us = touched_us;
    return code;
}

/* ---- the outage ---- */

static int run_outage(struct run *x)
{
    const struct bench_options *o = x->o;
    struct outage *out = &x->r->outage;
    *out = (struct outage){.bucket_ms = o->bucket_ms,
                           .length_ms = o->outage_length_ms,
                           .from_ms = o->outage_from_ms,
                           .to_ms = o->outage_to_ms,
                           .providers = {"A", "B", "C"},
                           .n_providers = 3};
    struct load_plan plan = {.targets = &x->outage,
                             .n_targets = 1,
                             .n = (uint64_t)o->outage_rate * o->outage_length_ms / 1000,
                             .timeout_us = o->timeout_ms * 1000,
                             .concurrency = OPEN_LOOP_MAX,
                             .rate = o->outage_rate};
    bench_progress_step(&x->progress, x->round, "An outage of A");
    if (!is_alive(x) || !bench_world_faults(&x->world, "hang", NULL, o->outage_from_ms, o->outage_to_ms))
        return BENCH_RUN_FAILED;
    struct sample *v = mem_zalloc(plan.n * sizeof *v);
    struct bench_watch *watch = bench_watch_start(x->world.admin_port, "outage", WATCH_EVERY_MS, loop_clock_us(), out);
    bool is_whole = drive(x, &plan, v);
    bench_watch_stop(watch);
    if (is_whole) {
        read_back(x, PATH_GATEWAY, v, plan.n);
        keep(&out->phase, v, plan.n);
        bench_progress_end(&x->progress, v, plan.n);
    } else {
        *out = (struct outage){0};
    }
    mem_free(v);
    return is_whole ? BENCH_RUN_OK : BENCH_RUN_STOPPED;
}

/* ---- the whole ---- */

static int open_run(struct run *x)
{
    if (!bench_world_open(&x->world, x->o))
        return BENCH_RUN_FAILED;
    make_targets(x);
    return touch_standbys(x);
}

static void close_run(struct run *x, bool keeps_files)
{
    if (keeps_files && x->world.dir[0] != '\0')
        fprintf(stderr, "ringmain bench: configs and logs are in %s\n", x->world.dir);
    bench_world_close(&x->world, keeps_files);
    arena_fini(&x->arena);
}

/* Rounds that are spread over time have the world to themselves each. */
static int run_rounds(struct run *x, unsigned first)
{
    const struct bench_options *o = x->o;
    uint64_t began_us = loop_clock_us();
    int code = open_run(x);
    for (unsigned i = 0; i < o->rounds && code == BENCH_RUN_OK; i++) {
        x->round = first + i;
        if (i > 0 && o->every_s > 0) {
            close_run(x, false);
            bench_progress_tick(&x->progress, NULL);
            if (!wait_until(x, began_us + i * o->every_s * 1000000))
                return BENCH_RUN_STOPPED;
            code = open_run(x);
        }
        if (code == BENCH_RUN_OK)
            code = run_round(x);
        if (code == BENCH_RUN_OK) {
            x->r->settings.rounds = x->round + 1;
            if (!bench_rounds_save(o, x->r, x->round + 1))
                code = BENCH_RUN_FAILED;
        }
    }
    if (code == BENCH_RUN_OK && o->has_outage)
        code = run_outage(x);
    return code;
}

/* Both ends of every connection are ours; the children inherit the limit. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool start_loop(struct run *x)
{
    allow_descriptors();
    sigset_t set;
    child_stop_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    x->loop = tool_loop("bench");
    x->resolver = resolver_new(x->loop, RESOLVER_SYSTEM);
    x->load = load_new(x->loop, x->resolver);
    x->signals =
        (struct watch){.fn = on_signal, .fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), .is_level = true};
    x->tick.fn = on_tick;
    x->alarm.fn = on_alarm;
    timer_arm(x->loop, &x->tick, loop_now_us(x->loop) + TICK_US);
    return x->signals.fd >= 0 && watch_add(x->loop, &x->signals) == ERR_OK;
}

static void end_loop(struct run *x)
{
    timer_cancel(x->loop, &x->tick);
    load_free(x->load);
    if (x->signals.fd >= 0) {
        watch_del(x->loop, &x->signals);
        close(x->signals.fd);
    }
    resolver_free(x->resolver);
    loop_turn(x->loop, 0);
    loop_free(x->loop);
}

static unsigned count_steps(const struct bench_options *o)
{
    unsigned n = 0;
    for (int i = 0; i < PHASE_N; i++)
        n += o->phases[i];
    return n * o->rounds + o->has_outage;
}

/* False: told, or refused. */
static bool agree_on_money(struct run *x)
{
    const struct bench_options *o = x->o;
    char nameless[160];
    if (o->real == NULL)
        return true;
    struct load_target t = target(x, "", "bench", 1);
    if (!bench_real_worst(o->real, t.body.n, o->max_tokens, &x->worst, nameless)) {
        fprintf(stderr, "ringmain bench: the price of %s is not known, so no cap can be kept; write it into `prices`\n",
                nameless);
        return false;
    }
    x->cap = (struct bench_cap){.is_on = true, .max_nusd = o->max_nusd, .worst_nusd = x->worst.chain_nusd};
    uint64_t n = 0;
    for (int i = 0; i < PHASE_N; i++)
        n += o->phases[i] ? o->n : 0;
    return bench_cap_agree(o, &x->cap, (n + 2) * o->rounds);
}

int bench_run(const struct bench_options *o, struct result *r)
{
    struct run x = {.o = o, .r = r};
    unsigned first;
    r->seed = o->seed;
    r->is_real = o->real != NULL;
    bench_options_tell(o, &r->settings);
    if (!agree_on_money(&x)) {
        arena_fini(&x.arena);
        return BENCH_RUN_USAGE;
    }
    if (!bench_rounds_load(o, r, &first))
        return BENCH_RUN_FAILED;
    r->settings.rounds = first;
    bench_progress_init(&x.progress, count_steps(o), first + o->rounds);
    int code = start_loop(&x) ? BENCH_RUN_OK : BENCH_RUN_FAILED;
    r->started_wall_ms = loop_wall_ms(x.loop);
    if (code == BENCH_RUN_OK)
        code = run_rounds(&x, first);
    r->ended_wall_ms = loop_wall_ms(x.loop);
    bench_progress_fini(&x.progress);
    close_run(&x, o->keeps || (code == BENCH_RUN_FAILED && r->partial_reason == NULL));
    end_loop(&x);
    if (code != BENCH_RUN_OK && r->partial_reason == NULL)
        r->partial_reason = code == BENCH_RUN_STOPPED ? "interrupted" : "a phase failed";
    result_close(r);
    return code;
}

/* A replay is held against the truth: providers that are known (lognormal times, faults by chance, two outages) make a
 * past through the real engine; then the same requests are played against that past alone. */
#include "unit.h"

#include "base/mem.h"
#include "sim/replay.h"

#include <math.h>
#include <stdlib.h>

enum { N = 12000, TARGETS = 3, MINUTE_US = 60000000 };
#define WALL_MS INT64_C(1790000000000)

/* ---- the providers that are known ---- */

struct known {
    const uint64_t *at_us;
    uint64_t seed;
    bool has_outages;
};

static double unit(struct rng *rng)
{
    return ((double)(rng_next(rng) >> 11) + 0.5) * 0x1p-53;
}

static double normal(struct rng *rng)
{
    double a = unit(rng), b = unit(rng);
    return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}

static int64_t prompt_of(size_t request)
{
    struct rng rng = {request * 77 + 5};
    return 200 + (int64_t)rng_below(&rng, 3000);
}

static void refuse(struct part *p, enum failure_class class, uint16_t status, int64_t at_us)
{
    p->head_us = p->end_us = at_us;
    p->token_us = -1;
    p->status = status;
    p->usage = USAGE_NONE;
    p->has_failed = true;
    failure_make(&p->failure, failure_outcome(class), "known");
    p->failure.class = class;
    p->failure.status = status;
}

static void hang(struct part *p)
{
    p->head_us = p->token_us = p->end_us = -1;
    p->usage = USAGE_NONE;
}

/* The same request meets the same at the same target, under whatever policy: as long as its hour is the same. */
static void known_play(void *arg, const struct part_ask *ask, struct part *out)
{
    const struct known *k = arg;
    unsigned t = ask->link->provider->index;
    struct rng rng = {k->seed + ask->request * 1000 + t * 10 + ask->nth};
    static const double median_us[TARGETS] = {500000, 800000, 400000}, sigma[TARGETS] = {0.5, 0.4, 0.5};
    int64_t token_us = 30000 + (int64_t)(median_us[t] * exp(sigma[t] * normal(&rng)));
    struct rng length = {k->seed ^ (ask->request * 31)};
    int64_t output = 20 + (int64_t)rng_below(&length, 400);
    *out = (struct part){.is_reused = true,
                         .head_us = token_us - 20000,
                         .token_us = token_us,
                         .quiet_us = -1,
                         .end_us = token_us + output * 15000,
                         .status = 200,
                         .usage = {prompt_of(ask->request), 0, 0, 0, output, 0},
                         .text_bytes = (uint32_t)output * 4};
    uint64_t minute = ask->now_us / MINUTE_US, dice = rng_below(&rng, 1000);
    if (k->has_outages && t == 0 && minute >= 40 && minute < 50)
        hang(out);
    else if (k->has_outages && t == 0 && minute >= 90 && minute < 97)
        refuse(out, FAILURE_OVERLOAD, 503, 40000);
    else if (dice < 5)
        refuse(out, FAILURE_FAULT, 500, 60000);
    else if (dice < 8)
        hang(out);
}

/* ---- the gateway ---- */

struct setup {
    struct config config;
    struct provider_conf providers[TARGETS];
    struct link_conf links[TARGETS];
    struct route_conf route;
    struct price prices[TARGETS];
};

static void set_up(struct setup *s, uint32_t budget_ms)
{
    static const char *const names[TARGETS] = {"alpha", "beta", "gamma"};
    *s = (struct setup){0};
    for (uint16_t i = 0; i < TARGETS; i++) {
        s->providers[i] = (struct provider_conf){.name = names[i], .dialect = "openai", .vendor = "", .index = i};
        s->providers[i].url = (struct url){.host = names[i], .authority = names[i]};
        s->prices[i] = (struct price){.input = 2000000 + i * 500000,
                                      .output = 10000000 + i * 1000000,
                                      .cache_read = -1,
                                      .cache_write_5m = -1,
                                      .cache_write_1h = -1,
                                      .version = "known",
                                      .source = ""};
        s->links[i] = (struct link_conf){.provider = &s->providers[i],
                                         .model = "m",
                                         .ttft_budget_ms = budget_ms,
                                         .connect_timeout_ms = 2000,
                                         .idle_timeout_ms = 60000,
                                         .total_budget_ms = 90000,
                                         .retries = 1,
                                         .price = &s->prices[i],
                                         .index = i};
    }
    s->route =
        (struct route_conf){.model = "r", .links = s->links, .n_links = 2, .deadline_ms = 30000, .max_attempts = 8};
    s->route.failover_on.has_default = true;
    s->route.breaker = (struct breaker_conf){.failures = 5,
                                             .ratio_permille = 500,
                                             .ratio_min = 10,
                                             .window_ms = 30000,
                                             .cooldown_ms = 5000,
                                             .cooldown_max_ms = 60000};
    s->route.ttft_auto = (struct auto_conf){
        .percentile = AUTO_P99, .min_ms = 1000, .max_ms = 30000, .fallback_ms = 15000, .min_samples = 200};
    s->config = (struct config){.providers = s->providers, .n_providers = TARGETS, .routes = &s->route, .n_routes = 1};
    s->config.limits.gate_bytes = 262144;
}

/* ---- the world that happened ---- */

struct happening {
    uint64_t at_us[N];
    size_t n, n_asked;
    struct past *past; /* NULL = only counted */
    struct replay_tally tally;
};

static bool next_request(void *arg, struct stage_request *out)
{
    struct happening *h = arg;
    if (h->n_asked == h->n)
        return false;
    size_t i = h->n_asked++;
    *out = (struct stage_request){.at_us = h->at_us[i], .dialect = "openai", .leave_us = -1, .id = i + 1};
    out->wall_ms = WALL_MS + (int64_t)(h->at_us[i] - PAST_START_US) / 1000;
    out->call =
        (struct call){.is_stream = i % 3 != 0, .max_tokens = -1, .n = 1, .prompt_bytes = (uint64_t)prompt_of(i) * 4};
    if (i % 97 == 5)
        out->leave_us = 700000;
    return true;
}

static void take_record(void *arg, size_t request, const struct request_record *rec)
{
    struct happening *h = arg;
    assert_true(request < N);
    tally_add(&h->tally, rec);
    if (h->past != NULL)
        past_add(h->past, rec);
}

/* Plays the truth; *past (may be NULL) is what was recorded of it. */
static void happen(struct setup *s, uint64_t seed, bool has_outages, struct replay_figures *out, struct past **past)
{
    struct happening *h = mem_zalloc(sizeof *h);
    struct known known = {.seed = seed, .has_outages = has_outages};
    struct rng rng = {seed};
    uint64_t at_us = PAST_START_US;
    for (h->n = 0; h->n < N; h->n++) {
        h->at_us[h->n] = at_us;
        at_us += rng_below(&rng, 1200) * 1000; /* whole milliseconds: so the ledger keeps them */
    }
    h->past = past != NULL ? past_new(N, seed) : NULL;
    struct stage_conf conf = {.config = &s->config,
                              .route = &s->route,
                              .source = {next_request, h},
                              .host = {known_play, &known},
                              .sink = {take_record, h},
                              .seed = seed};
    assert_int_equal(stage_run(&conf), ERR_OK);
    tally_end(&h->tally, out);
    if (past != NULL) {
        past_seal(h->past);
        *past = h->past;
    }
    mem_free(h);
}

static struct replay_result again(const struct past *past, struct setup *s, uint64_t seed)
{
    struct replay_ask ask = {.past = past, .config = &s->config, .route = &s->route, .seed = seed};
    struct replay_result r;
    assert_int_equal(replay_run(&ask, &r), ERR_OK);
    return r;
}

/* ---- comparing ---- */

static double availability(const struct replay_figures *f)
{
    return 100.0 * (double)f->n_answered / (double)(f->n_answered + f->n_failed);
}

static void show(const char *name, const struct replay_figures *f)
{
    print_message("%-10s %8.3f %%  p50 %lld  p95 %lld  p99 %lld us  $%.4f  waste $%.4f  %lld attempts\n", name,
                  availability(f), (long long)f->p50_us, (long long)f->p95_us, (long long)f->p99_us,
                  (double)f->cost_nusd / 1e9, (double)f->waste_nusd / 1e9, (long long)f->n_attempts);
}

static void assert_near(const char *what, int64_t a, int64_t b, double percent)
{
    double off = 100 * fabs((double)a - (double)b) / (double)b;
    if (off > percent)
        fail_msg("%s: %lld is %.2f %% off %lld", what, (long long)a, off, (long long)b);
}

static void assert_close(const struct replay_figures *a, const struct replay_figures *truth)
{
    show("truth", truth);
    show("replay", a);
    assert_int_equal(a->n_requests, truth->n_requests);
    assert_true(fabs(availability(a) - availability(truth)) <= 0.5);
    assert_near("p50", a->p50_us, truth->p50_us, 5);
    assert_near("p99", a->p99_us, truth->p99_us, 15);
    assert_near("dollars", a->cost_nusd, truth->cost_nusd, 3);
}

static void test_the_actual_policy_comes_out_as_recorded(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct setup s;
        struct replay_figures truth, recorded;
        struct past *past;
        set_up(&s, 3000);
        happen(&s, seed, true, &truth, &past);
        replay_recorded(past, &recorded);
        assert_memory_equal(&recorded, &truth, sizeof truth);
        struct replay_result r = again(past, &s, seed + 100);
        past_free(past);
        assert_close(&r.figures, &truth);
        assert_true(r.draws.n_recorded * 10 > r.figures.n_attempts * 9);
    }
}

static void assert_within(const struct replay_figures *a, const struct replay_figures *truth, double percent)
{
    show("truth", truth);
    show("replay", a);
    assert_true(fabs(availability(a) - availability(truth)) <= 0.5);
    assert_near("p50", a->p50_us, truth->p50_us, percent);
    assert_near("p95", a->p95_us, truth->p95_us, percent);
    assert_near("p99", a->p99_us, truth->p99_us, percent);
    assert_near("dollars", a->cost_nusd, truth->cost_nusd, percent);
    assert_near("attempts", a->n_attempts, truth->n_attempts, percent);
}

/* What was recorded under one policy tells what another one would have done: `what` is held against its own truth. */
static void hold(struct setup *was, struct setup *what, double percent)
{
    for (uint64_t seed = 11; seed <= 13; seed++) {
        struct replay_figures recorded, truth;
        struct past *past;
        happen(was, seed, true, &recorded, &past);
        happen(what, seed, true, &truth, NULL);
        struct replay_result r = again(past, what, seed);
        past_free(past);
        show("recorded", &recorded);
        assert_within(&r.figures, &truth, percent);
    }
}

static void test_a_tighter_budget_agrees_with_a_world_that_has_it(void **state)
{
    (void)state;
    struct setup was, what;
    set_up(&was, 3000);
    set_up(&what, 1200);
    hold(&was, &what, 10);
}

static void test_a_looser_budget_goes_beyond_what_was_cut(void **state)
{
    (void)state;
    struct setup was, what;
    set_up(&was, 1500);
    set_up(&what, 4000);
    hold(&was, &what, 10);
}

static void turn_round(struct setup *s)
{
    struct link_conf first = s->links[0];
    s->links[0] = s->links[1];
    s->links[1] = first;
    s->links[0].index = 0;
    s->links[1].index = 1;
}

static void test_another_order(void **state)
{
    (void)state;
    struct setup was, what;
    set_up(&was, 1200);
    set_up(&what, 3000);
    turn_round(&what);
    hold(&was, &what, 10);
}

static void test_a_hedge(void **state)
{
    (void)state;
    struct setup was, what;
    set_up(&was, 3000);
    set_up(&what, 3000);
    what.route.hedge =
        (struct hedge_conf){.is_on = true, .after_ms = 1000, .max_extra_permyriad = 10000, .max_per_minute = 1000};
    hold(&was, &what, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_actual_policy_comes_out_as_recorded),
        cmocka_unit_test(test_a_tighter_budget_agrees_with_a_world_that_has_it),
        cmocka_unit_test(test_a_looser_budget_goes_beyond_what_was_cut),
        cmocka_unit_test(test_another_order),
        cmocka_unit_test(test_a_hedge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

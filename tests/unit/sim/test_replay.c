/* A replay is held against the truth: providers that are known (lognormal times, faults by chance, two outages) make a
 * past through the real engine; then the same requests are played against that past alone. */
#include "unit.h"

#include "base/mem.h"
#include "sim/replay.h"

#include <math.h>
#include <stdlib.h>

enum { N = 12000, TARGETS = 3, MINUTE_US = 60000000, BYTES_A_TOKEN = 2 };
#define WALL_MS INT64_C(1790000000000)

/* ---- the providers that are known ---- */

struct known {
    const uint64_t *at_us;
    uint64_t seed;
    bool has_outages;
    unsigned beta_permille; /* of its attempts fail, besides */
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
    else if (dice < 5 || (t == 1 && dice >= 1000 - k->beta_permille))
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
    unsigned beta_permille;       /* not the gateway's: of the world it stands in */
    int64_t n_estimated, n_meant; /* tokens of the prompts that nobody reported: as written down, and as they were */
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
    int64_t n_estimated, n_meant;
};

static bool next_request(void *arg, struct stage_request *out)
{
    struct happening *h = arg;
    if (h->n_asked == h->n)
        return false;
    size_t i = h->n_asked++;
    *out = (struct stage_request){.at_us = h->at_us[i], .dialect = "openai", .leave_us = -1, .id = i + 1};
    out->wall_ms = WALL_MS + (int64_t)(h->at_us[i] - PAST_START_US) / 1000;
    out->call = (struct call){
        .is_stream = i % 3 != 0, .max_tokens = -1, .n = 1, .prompt_bytes = (uint64_t)prompt_of(i) * BYTES_A_TOKEN};
    if (i % 97 == 5)
        out->leave_us = 700000;
    return true;
}

static void take_record(void *arg, size_t request, const struct request_record *rec)
{
    struct happening *h = arg;
    assert_true(request < N);
    tally_add(&h->tally, rec);
    for (uint16_t i = 0; i < rec->n_attempts; i++) {
        if (rec->attempts[i].tokens_from != TOKENS_ESTIMATED)
            continue;
        h->n_estimated += rec->attempts[i].tokens.input;
        h->n_meant += prompt_of(request);
    }
    if (h->past != NULL)
        past_add(h->past, rec);
}

/* Plays the truth; *past (may be NULL) is what was recorded of it. */
static void happen(struct setup *s, uint64_t seed, bool has_outages, struct replay_figures *out, struct past **past)
{
    struct happening *h = mem_zalloc(sizeof *h);
    struct known known = {.seed = seed, .has_outages = has_outages, .beta_permille = s->beta_permille};
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
                              .host = {.play = known_play, .arg = &known},
                              .sink = {take_record, h},
                              .seed = seed};
    assert_int_equal(stage_run(&conf), ERR_OK);
    tally_end(&h->tally, out);
    s->n_estimated = h->n_estimated;
    s->n_meant = h->n_meant;
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
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct setup s;
        struct replay_figures truth, recorded;
        struct past *past;
        set_up(&s, 3000);
        happen(&s, seed, true, &truth, &past);
        replay_recorded(past, &recorded);
        assert_memory_equal(&recorded, &truth, sizeof truth);
        assert_near("estimated prompts", s.n_estimated, s.n_meant,
                    2); /* by what was learned: 4 bytes a token is half */
        struct replay_result r = again(past, &s, seed + 100);
        past_free(past);
        assert_close(&r.figures, &truth);
        assert_near("waste", r.figures.waste_nusd, truth.waste_nusd, 5);
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
    assert_near("waste", a->waste_nusd, truth->waste_nusd, 25);
}

/* What was recorded under one policy tells what another one would have done: `what` is held against its own truth. */
static void hold(struct setup *was, struct setup *what, double percent)
{
    for (uint64_t seed = 11; seed <= 12; seed++) {
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

/* A standby that is seldom asked and often fails fails as often when it is asked always. */
static void test_a_flaky_standby_first(void **state)
{
    (void)state;
    struct setup was, what;
    set_up(&was, 1200);
    set_up(&what, 3000);
    turn_round(&what);
    was.beta_permille = what.beta_permille = 150;
    for (size_t i = 0; i < 2; i++)
        was.links[i].retries = what.links[i].retries = 0;
    was.route.breaker.is_off = what.route.breaker.is_off = true;
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

/* The present policy may be any: its own replay comes out close. */
static void hold_present(struct setup *s, double percent)
{
    struct replay_figures truth;
    struct past *past;
    happen(s, 21, true, &truth, &past);
    struct replay_result r = again(past, s, 22);
    past_free(past);
    assert_within(&r.figures, &truth, percent);
}

static void test_a_past_with_hedges(void **state)
{
    (void)state;
    struct setup s;
    set_up(&s, 3000);
    s.route.hedge =
        (struct hedge_conf){.is_on = true, .after_ms = 900, .max_extra_permyriad = 10000, .max_per_minute = 1000};
    hold_present(&s, 5);
}

static void test_a_past_with_budgets_that_set_themselves(void **state)
{
    (void)state;
    struct setup s;
    set_up(&s, 3000);
    for (size_t i = 0; i < s.route.n_links; i++)
        s.links[i].is_auto_budget = true;
    hold_present(&s, 10);
}

static void test_a_past_without_a_breaker(void **state)
{
    (void)state;
    struct setup s;
    set_up(&s, 2000);
    s.route.breaker.is_off = true;
    s.route.max_attempts = 2;
    s.links[0].retries = 0;
    hold_present(&s, 2);
}

/* ---- single questions ---- */

static void test_the_same_seed_plays_the_same(void **state)
{
    (void)state;
    struct setup was, what;
    struct replay_figures recorded;
    struct past *past;
    set_up(&was, 3000);
    set_up(&what, 900);
    turn_round(&what);
    happen(&was, 5, true, &recorded, &past);
    struct replay_result one = again(past, &what, 9), two = again(past, &what, 9), other = again(past, &what, 10);
    past_free(past);
    assert_memory_equal(&one, &two, sizeof one);
    assert_memory_not_equal(&one, &other, sizeof one);
    assert_int_equal(one.figures.n_requests, N);
}

static void test_a_target_without_a_past_is_left_out(void **state)
{
    (void)state;
    struct setup was, what;
    struct replay_figures recorded;
    struct past *past;
    set_up(&was, 3000);
    happen(&was, 6, false, &recorded, &past);
    set_up(&what, 3000);
    what.route.n_links = 3; /* gamma, first of all */
    struct link_conf gamma = what.links[2];
    what.links[2] = what.links[0];
    what.links[0] = gamma;
    what.links[0].index = 0;
    what.links[2].index = 2;
    assert_int_equal(past_target(past, "gamma", "m"), PAST_NO_TARGET);
    struct replay_result r = again(past, &what, 1);
    past_free(past);
    assert_int_equal(r.draws.n_unknown, N);
    assert_true(availability(&r.figures) > 99.9);
    assert_int_equal(r.draws.n_recorded + r.draws.n_drawn, r.figures.n_attempts);
}

static struct attempt_record attempt(uint16_t n, const char *provider, enum outcome o, int64_t start_us, int64_t end_us)
{
    struct attempt_record a = {.n = n, .provider = provider, .model = "m", .outcome = o, .is_started = true};
    a.start_us = start_us;
    a.connect_us = a.first_byte_us = a.ttft_us = a.retry_after_ms = -1;
    a.total_us = end_us;
    return a;
}

static struct request_record record(size_t i, enum outcome o, struct attempt_record *v, uint16_t n)
{
    return (struct request_record){.id = i + 1,
                                   .started_wall_ms = WALL_MS + (int64_t)i * 1000,
                                   .route = "r",
                                   .dialect = "openai",
                                   .effort = "",
                                   .is_stream = true,
                                   .outcome = o,
                                   .ttft_us = -1,
                                   .total_us = v[n - 1].total_us,
                                   .prompt_bytes = 400,
                                   .max_tokens = -1,
                                   .attempts = v,
                                   .n_attempts = n,
                                   .n_started = n};
}

/* Its own mistake it makes everywhere; a link that could not serve it still cannot; who left, leaves again. */
static void test_what_belongs_to_the_request_stays_with_it(void **state)
{
    (void)state;
    struct past *past = past_new(100, 1);
    for (size_t i = 0; i < 10; i++) {
        struct attempt_record good = attempt(1, "alpha", OUTCOME_OK, 0, 900000);
        good.first_byte_us = good.ttft_us = 300000;
        good.tokens = (struct usage){100, 0, 0, 0, 40, 0};
        good.tokens_from = TOKENS_REPORTED;
        struct attempt_record other = good;
        other.provider = "beta";
        struct attempt_record wrong = attempt(1, "alpha", OUTCOME_CLIENT_ERROR, 0, 50000);
        wrong.status = 400;
        struct attempt_record gone = attempt(1, "alpha", OUTCOME_CLIENT_CANCELLED, 0, 200000);
        struct attempt_record unable[2] = {attempt(1, "beta", OUTCOME_SKIPPED_INCAPABLE, -1, -1), good};
        unable[0].is_started = false;
        struct request_record kinds[] = {
            record(10 * i, OUTCOME_OK, &good, 1), record(10 * i + 1, OUTCOME_OK, &other, 1),
            record(10 * i + 2, OUTCOME_CLIENT_ERROR, &wrong, 1), record(10 * i + 3, OUTCOME_CLIENT_CANCELLED, &gone, 1),
            record(10 * i + 4, OUTCOME_OK, unable, 2)};
        kinds[4].attempts[1].n = 2;
        for (size_t k = 0; k < RM_COUNTOF(kinds); k++)
            past_add(past, &kinds[k]);
    }
    past_seal(past);
    struct setup s;
    set_up(&s, 3000);
    turn_round(&s); /* beta first */
    struct replay_result r = again(past, &s, 3);
    past_free(past);
    assert_int_equal(r.figures.n_requests, 50);
    assert_int_equal(r.figures.n_answered, 30);
    assert_int_equal(r.figures.n_failed, 0);
    assert_int_equal(r.figures.n_later, 0);
    assert_int_equal(r.figures.n_attempts, 50);
}

static void test_no_more_than_so_many_are_kept(void **state)
{
    (void)state;
    for (int is_dense = 0; is_dense < 2; is_dense++) {
        struct past *past = past_new(1000, 4);
        for (size_t i = 0; i < 20000; i++) {
            struct attempt_record a[2] = {attempt(1, "alpha", OUTCOME_SERVER_ERROR, 0, 1000),
                                          attempt(2, "beta", OUTCOME_OK, 1000, (int64_t)i + 2000)};
            struct request_record rec = record(i, OUTCOME_OK, a, 2);
            if (is_dense)
                rec.started_wall_ms = WALL_MS + 7;
            past_add(past, &rec);
        }
        past_seal(past);
        assert_int_equal(past_n_seen(past), 20000);
        assert_in_range(past_n(past), 100, 1000);
        assert_true(past_one_in(past) >= 16);
        for (size_t i = 0; i < past_n(past); i++) {
            const struct past_request *r = past_request(past, i);
            const struct past_attempt *a = past_attempts(past, r);
            assert_int_equal(a[1].end_us, r->id - 1 + 1000); /* its own attempts, after all that moving */
            assert_int_equal(a[1].request, i);
            if (i > 0)
                assert_true(r->at_us >= past_request(past, i - 1)->at_us);
        }
        past_free(past);
    }
}

/* A ledger is a file: anything may stand in it. */
static void test_nonsense_is_played_to_its_end(void **state)
{
    (void)state;
    static const int64_t odd[] = {INT64_MIN, -1000000, -1, 0, 1, 999, 250000, 5000000, INT64_C(86400000000), INT64_MAX};
    struct rng rng = {99};
#define ODD() odd[rng_below(&rng, RM_COUNTOF(odd))]
    static const char *const names[] = {"alpha", "beta", "gamma", "", NULL};
    static const char *const routings[] = {NULL, "", "order: gamma, alpha", "order:", "fallback: off; ttft: 0", ";"};
    struct past *past = past_new(500, 2);
    for (size_t i = 0; i < 3000; i++) {
        struct attempt_record a[4];
        uint16_t n = (uint16_t)(1 + rng_below(&rng, 4));
        for (uint16_t k = 0; k < n; k++) {
            a[k] = attempt(k, names[rng_below(&rng, 5)], (enum outcome)rng_below(&rng, OUTCOME_N + 1), ODD(), ODD());
            a[k].connect_us = ODD();
            a[k].first_byte_us = ODD();
            a[k].ttft_us = ODD();
            a[k].retry_after_ms = ODD();
            a[k].status = (uint16_t)rng_below(&rng, 600);
            a[k].tokens = (struct usage){ODD(), ODD(), ODD(), ODD(), ODD(), ODD()};
            a[k].tokens_from = (enum tokens_from)rng_below(&rng, 3);
            a[k].is_started = rng_below(&rng, 4) != 0;
            a[k].cache_mark = (enum cache_mark)rng_below(&rng, 3);
        }
        struct request_record rec = record(i, (enum outcome)rng_below(&rng, OUTCOME_N), a, n);
        rec.started_wall_ms = rng_below(&rng, 20) == 0 ? ODD() : rec.started_wall_ms;
        rec.prompt_bytes = ODD();
        rec.ttft_us = ODD();
        rec.total_us = ODD();
        rec.cost_nusd = ODD();
        rec.waste_nusd = ODD();
        rec.dialect = rng_below(&rng, 2) ? NULL : "openai";
        rec.prompt = (struct prompt_record){.is_known = rng_below(&rng, 2) != 0,
                                            .talk_hash = rng_below(&rng, 8),
                                            .head_hash = rng_below(&rng, 3),
                                            .cache_hash = rng_below(&rng, 5),
                                            .head_bytes = ODD(),
                                            .cache_bytes = ODD(),
                                            .cache_ttl_s = ODD(),
                                            .affinity_key = rng_next(&rng),
                                            .needs = (unsigned)rng_next(&rng),
                                            .routing = routings[rng_below(&rng, RM_COUNTOF(routings))]};
        past_add(past, &rec);
    }
    past_seal(past);
    struct setup s;
    set_up(&s, 500);
    s.route.n_links = 3;
    s.route.resume = true;
    s.route.client_routing = CLIENT_ORDER | CLIENT_FALLBACK;
    s.route.cache = (struct cache_conf){.standby = STANDBY_ALWAYS, .goes_back = RETURN_BY_VALUE, .affinity = 1};
    s.providers[1].dialect = "anthropic";
    s.links[1].equals = s.links[2].equals = 1;
    s.route.hedge =
        (struct hedge_conf){.is_on = true, .after_ms = 200, .max_extra_permyriad = 10000, .max_per_minute = 1000};
    struct replay_figures recorded;
    replay_recorded(past, &recorded);
    struct replay_result r = again(past, &s, 1);
    assert_int_equal(recorded.n_requests, past_n(past));
    assert_int_equal(r.figures.n_requests, past_n(past));
    assert_true(past_n(past) > 50);
    past_free(past);
}

static void test_nothing_is_no_request(void **state)
{
    (void)state;
    struct past *past = past_new(10, 1);
    struct setup s;
    past_seal(past);
    set_up(&s, 500);
    struct replay_result r = again(past, &s, 1);
    past_free(past);
    assert_int_equal(r.figures.n_requests, 0);
    assert_int_equal(r.figures.p50_us, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_actual_policy_comes_out_as_recorded),
        cmocka_unit_test(test_a_tighter_budget_agrees_with_a_world_that_has_it),
        cmocka_unit_test(test_a_looser_budget_goes_beyond_what_was_cut),
        cmocka_unit_test(test_another_order),
        cmocka_unit_test(test_a_flaky_standby_first),
        cmocka_unit_test(test_a_hedge),
        cmocka_unit_test(test_a_past_with_hedges),
        cmocka_unit_test(test_a_past_with_budgets_that_set_themselves),
        cmocka_unit_test(test_a_past_without_a_breaker),
        cmocka_unit_test(test_the_same_seed_plays_the_same),
        cmocka_unit_test(test_a_target_without_a_past_is_left_out),
        cmocka_unit_test(test_what_belongs_to_the_request_stays_with_it),
        cmocka_unit_test(test_no_more_than_so_many_are_kept),
        cmocka_unit_test(test_nonsense_is_played_to_its_end),
        cmocka_unit_test(test_nothing_is_no_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

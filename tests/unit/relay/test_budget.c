/* First-token budgets that set themselves, as the engine uses them: one request after the other on a moving clock. */
#include "unit.h"

#include "relay/relay.h"

#include <string.h>

#define MS UINT64_C(1000)
#define S UINT64_C(1000000)

static struct registry *reg;
static struct latency *lat;
static struct rng rng;
static struct relay_env env;
static struct arena arena;
static struct provider_conf providers[2];
static struct link_conf links[2];
static struct route_conf route;
static struct config config;
static struct call call;
static struct directive directive;
static struct price price;
static struct relay *r;
static uint64_t now; /* of the last event */

static int setup(void **state)
{
    reg = registry_new();
    lat = latency_new(1);
    rng.state = 3;
    env = (struct relay_env){.registry = reg, .rng = &rng, .latency = latency_core(lat, 0)};
    price = (struct price){1000000, 2000000, -1, -1, -1, "v1", "", NULL};
    for (uint16_t i = 0; i < 2; i++) {
        providers[i] =
            (struct provider_conf){.name = i ? "b" : "a", .dialect = "openai", .vendor = "", .url = {.authority = "h"}};
        links[i] = (struct link_conf){.provider = &providers[i],
                                      .model = "m",
                                      .ttft_budget_ms = 9000,
                                      .is_auto_budget = true,
                                      .connect_timeout_ms = 2000,
                                      .idle_timeout_ms = 60000,
                                      .total_budget_ms = 20000,
                                      .retries = 1,
                                      .price = &price,
                                      .index = i};
    }
    route = (struct route_conf){.model = "r", .links = links, .n_links = 2, .deadline_ms = 60000, .max_attempts = 8};
    route.failover_on.has_default = true;
    route.ttft_auto = (struct auto_conf){AUTO_P99, 300, 30000, 9000, 50, false};
    route.breaker = (struct breaker_conf){.failures = 50,
                                          .ratio_permille = 1000,
                                          .ratio_min = 1000,
                                          .window_ms = 1000,
                                          .cooldown_ms = 5000,
                                          .cooldown_max_ms = 60000};
    config = (struct config){.providers = providers, .n_providers = 2, .routes = &route, .n_routes = 1};
    call = (struct call){.is_stream = true, .max_tokens = -1, .n = 1, .prompt_bytes = 4000};
    directive = (struct directive){0};
    now = 3600 * S;
    return 0;
}

static int teardown(void **state)
{
    arena_fini(&arena);
    latency_free(lat);
    registry_free(reg);
    return 0;
}

/* Feeds one event `us` after the last; the action that came first, or -1. */
static int feed(uint64_t us, struct relay_event ev)
{
    struct relay_actions out;
    now += us;
    ev.now_us = now;
    ev.status = 200;
    relay_event(r, &ev, &out);
    return out.n > 0 ? (int)out.v[0].kind : -1;
}

static void begin(void)
{
    assert_int_equal(plan_bind(reg, &config), ERR_OK);
    struct relay_start s = {.config = &config,
                            .route = &route,
                            .directive = &directive,
                            .call = &call,
                            .id = 1,
                            .now_us = now,
                            .key = "",
                            .dialect = "openai",
                            .trace_id = ""};
    arena_fini(&arena);
    r = relay_new(&arena, &env, &s);
    assert_int_equal(feed(0, (struct relay_event){.kind = RELAY_START}), ACT_START);
}

static void token(uint64_t us, uint16_t n)
{
    struct event e = {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 9};
    assert_int_equal(feed(us, (struct relay_event){.kind = RELAY_OUTPUT, .n = n, .event = &e}), ACT_COMMIT);
}

static void end(uint16_t n)
{
    assert_int_equal(feed(10 * MS, (struct relay_event){.kind = RELAY_ENDED, .n = n}), ACT_END);
}

static void connected(uint16_t n)
{
    (void)feed(0, (struct relay_event){.kind = RELAY_CONNECTED, .n = n, .connect_us = -1});
    (void)feed(0, (struct relay_event){.kind = RELAY_SENT, .n = n});
}

/* 80 calls that take 500 to 590 ms; the last one's merge sees all of them. */
static void learn(void)
{
    for (unsigned i = 0; i < 80; i++) {
        begin();
        connected(1);
        token(500 * MS + i % 10 * 10 * MS, 1);
        end(1);
        now += S;
    }
}

static uint64_t budget(void)
{
    return relay_wake_us(r) - now;
}

static const struct attempt_record *attempt(size_t i)
{
    return &relay_record(r)->attempts[i];
}

static struct latency_report report(uint16_t target)
{
    struct latency_report told;
    struct latency_key key = latency_key_of(target, &call);
    assert_true(latency_report(lat, key, &route.ttft_auto, now, &told));
    return told;
}

/* Past the watched ones: every eighth attempt is given more. */
static void begin_plain(void)
{
    begin();
    if (budget() < 700 * MS)
        return;
    connected(1);
    token(500 * MS, 1);
    end(1);
    begin();
}

static void test_the_fallback_then_the_history(void **state)
{
    begin();
    assert_int_equal(budget(), 9000 * MS + 2000 * MS); /* and it is a cold start */
    connected(1);
    token(500 * MS, 1);
    end(1);
    begin();
    assert_int_equal(budget(), 9000 * MS);
    connected(1);
    token(500 * MS, 1);
    end(1);
    learn();
    begin_plain();
    assert_in_range(budget(), 580 * MS, 640 * MS);
}

static void test_it_cuts_and_counts(void **state)
{
    learn();
    begin_plain();
    uint64_t b = budget();
    connected(1);
    assert_int_equal(feed(b, (struct relay_event){.kind = RELAY_TIME, .n = 1}), ACT_CANCEL);
    assert_int_equal(attempt(0)->outcome, OUTCOME_TTFT_TIMEOUT);
    connected(2);
    token(400 * MS, 2);
    end(2);
    struct latency_report told = report(links[0].target_id);
    assert_int_equal(told.counts.n_cut, 1);
    assert_int_equal(told.counts.n_moved, 1);
    assert_int_equal(told.counts.cut_nusd, attempt(0)->cost_nusd);
    assert_true(attempt(0)->cost_nusd > 0);
    assert_int_equal(report(links[1].target_id).counts.n_answered, 1);
}

static void test_a_watched_one_says_so(void **state)
{
    learn();
    begin();
    while (budget() < 700 * MS) {
        connected(1);
        token(500 * MS, 1);
        end(1);
        begin();
    }
    connected(1);
    token(800 * MS, 1);
    static const char words[] = "watched, budget ";
    assert_memory_equal(attempt(0)->decision, words, sizeof words - 1);
    assert_non_null(strstr(attempt(0)->decision, " ms would have cut here, for $0.001000000"));
    assert_int_equal(report(links[0].target_id).counts.n_watched, 1);
}

static void test_retries_share_it(void **state)
{
    struct failure f;
    learn();
    begin_plain();
    uint64_t all = budget();
    connected(1);
    failure_make(&f, OUTCOME_SERVER_ERROR, "told");
    f.class = FAILURE_FAULT;
    f.status = 500;
    (void)feed(20 * MS, (struct relay_event){.kind = RELAY_HEAD, .n = 1});
    assert_int_equal(feed(0, (struct relay_event){.kind = RELAY_FAILED, .n = 1, .failure = &f}), ACT_CANCEL);
    uint64_t pause = budget();
    assert_int_equal(feed(pause, (struct relay_event){.kind = RELAY_TIME}), ACT_START);
    assert_int_equal(budget(), all - 20 * MS - pause);
}

static void test_the_shadow_leaves_the_number_in_force(void **state)
{
    learn();
    route.ttft_auto.is_shadow = true;
    for (int i = 0; i < 10; i++) {
        begin();
        assert_int_equal(budget(), 9000 * MS);
        connected(1);
        token(i == 9 ? 2000 * MS : 500 * MS, 1);
        if (i < 9)
            end(1);
    }
    assert_memory_equal(attempt(0)->decision, "budget ", 7);
    assert_int_equal(report(links[0].target_id).counts.n_late, 1);
}

static void test_a_number_is_not_spoken_of(void **state)
{
    learn();
    links[0].is_auto_budget = false;
    begin();
    assert_int_equal(budget(), 9000 * MS);
    connected(1);
    token(2000 * MS, 1);
    assert_string_equal(attempt(0)->decision, "");
    assert_int_equal(report(links[0].target_id).counts.n_late, 1); /* but known */
}

static void test_a_client_with_less_time_counts_for_nothing(void **state)
{
    learn();
    directive.ttft_ms = 400;
    begin();
    assert_int_equal(budget(), 400 * MS);
    connected(1);
    assert_int_equal(feed(400 * MS, (struct relay_event){.kind = RELAY_TIME, .n = 1}), ACT_CANCEL);
    assert_int_equal(report(links[0].target_id).counts.n_cut, 0);
    assert_int_equal(feed(0, (struct relay_event){.kind = RELAY_CLIENT_GONE}), ACT_CANCEL);
    assert_int_equal(report(links[1].target_id).counts.n_cut, 0);
}

static void test_no_stream_no_history(void **state)
{
    route.upstream_stream = UPSTREAM_OFF;
    call.is_stream = false;
    begin();
    assert_int_equal(budget(), 20000 * MS);
    struct latency_report told;
    assert_false(latency_report(lat, latency_key_of(links[0].target_id, &call), &route.ttft_auto, now, &told));
    assert_int_equal(feed(0, (struct relay_event){.kind = RELAY_CLIENT_GONE}), ACT_CANCEL);
}

static void test_without_a_history(void **state)
{
    env.latency = NULL;
    begin();
    assert_int_equal(budget(), 9000 * MS);
    connected(1);
    token(500 * MS, 1);
    end(1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_the_fallback_then_the_history),
        T(test_it_cuts_and_counts),
        T(test_a_watched_one_says_so),
        T(test_retries_share_it),
        T(test_the_shadow_leaves_the_number_in_force),
        T(test_a_number_is_not_spoken_of),
        T(test_a_client_with_less_time_counts_for_nothing),
        T(test_no_stream_no_history),
        T(test_without_a_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Prompt caches in a past that is played again: made-up ledgers, small enough that every bill is computed by hand. */
#include "unit.h"

#include "sim/replay.h"

#include <stdio.h>

enum { TARGETS = 2, TURNS_MAX = 16, PROMPT = 17000, HELD = 15000, OUTPUT = 500, S = 1000 };
#define WALL_MS INT64_C(1790000000000)
#define MILLI INT64_C(1000000) /* nano-dollars in a thousandth of a dollar */

struct setup {
    struct config config;
    struct provider_conf providers[TARGETS];
    struct link_conf links[TARGETS];
    struct route_conf route;
    struct price prices[TARGETS];
};

/* Pico-dollars a token: alpha $3 in, $15 out, beta $2 and $10 a million; reads a tenth, writes 1.25 and 2 times. */
static void set_up(struct setup *s, const char *dialect)
{
    static const char *const names[TARGETS] = {"alpha", "beta"};
    *s = (struct setup){0};
    for (uint16_t i = 0; i < TARGETS; i++) {
        int64_t in = (3 - i) * 1000000;
        s->providers[i] = (struct provider_conf){.name = names[i], .dialect = dialect, .vendor = "", .index = i};
        s->providers[i].url = (struct url){.host = names[i], .authority = names[i]};
        s->prices[i] = (struct price){.input = in,
                                      .output = 5 * in,
                                      .cache_read = in / 10,
                                      .cache_write_5m = in * 5 / 4,
                                      .cache_write_1h = in * 2,
                                      .version = "known",
                                      .source = ""};
        s->links[i] = (struct link_conf){.provider = &s->providers[i],
                                         .model = "m",
                                         .ttft_budget_ms = 3000,
                                         .connect_timeout_ms = 2000,
                                         .idle_timeout_ms = 60000,
                                         .total_budget_ms = 90000,
                                         .price = &s->prices[i],
                                         .index = i,
                                         .equals = i};
    }
    s->route =
        (struct route_conf){.model = "r", .links = s->links, .n_links = 2, .deadline_ms = 30000, .max_attempts = 8};
    s->route.failover_on.has_default = true;
    s->route.breaker.is_off = true;
    s->route.client_routing = CLIENT_ORDER;
    s->config = (struct config){.providers = s->providers, .n_providers = TARGETS, .routes = &s->route, .n_routes = 1};
    s->config.limits.gate_bytes = 262144;
}

/* ---- a ledger ---- */

struct turn {
    int64_t at_ms;
    bool is_alpha_away;
    enum cache_mark mark; /* of the attempt that served */
    struct usage tokens;
    const char *by; /* NULL: alpha, beta where alpha was away */
    uint64_t talk;
    const char *routing;
    const char *service; /* NULL = the standard one */
};

static struct attempt_record attempt(uint16_t n, const char *provider, enum outcome o, int64_t start_us)
{
    struct attempt_record a = {.n = n, .link = provider[0] == 'b', .provider = provider, .model = "m", .outcome = o};
    bool is_good = o == OUTCOME_OK;
    a.is_started = true;
    a.start_us = start_us;
    a.connect_us = a.retry_after_ms = -1;
    a.first_byte_us = start_us + (is_good ? 300000 : 50000);
    a.ttft_us = is_good ? start_us + 300000 : -1;
    a.total_us = start_us + (is_good ? 900000 : 50000);
    a.status = is_good ? 200 : 529;
    a.tokens_from = is_good ? TOKENS_REPORTED : TOKENS_UNBILLED;
    return a;
}

struct ledger {
    int64_t ttl_s, prompt_bytes, cache_bytes;
    unsigned needs;
    bool is_old; /* nothing is known of its prompts */
};

static void add(struct past *past, const struct ledger *l, size_t i, const struct turn *t)
{
    struct attempt_record a[2];
    uint16_t n = 0;
    if (t->is_alpha_away)
        a[n++] = attempt(1, "alpha", OUTCOME_OVERLOADED, 0);
    a[0].cache_mark = CACHE_ASKED;
    const char *by = t->by != NULL ? t->by : t->is_alpha_away ? "beta" : "alpha";
    a[n] = attempt((uint16_t)(n + 1), by, OUTCOME_OK, n * 50000);
    a[n].cache_mark = t->mark;
    a[n].tokens = t->tokens;
    snprintf(a[n].service, sizeof a[n].service, "%s", t->service != NULL ? t->service : "");
    struct prompt_record prompt = {.is_known = true,
                                   .talk_hash = t->talk != 0 ? t->talk : 7,
                                   .cache_bytes = l->cache_bytes,
                                   .cache_ttl_s = l->ttl_s,
                                   .needs = l->needs,
                                   .routing = t->routing};
    struct request_record rec = {.id = i + 1,
                                 .started_wall_ms = WALL_MS + t->at_ms,
                                 .route = "r",
                                 .dialect = "anthropic",
                                 .effort = "",
                                 .is_stream = true,
                                 .outcome = OUTCOME_OK,
                                 .ttft_us = a[n].ttft_us,
                                 .total_us = a[n].total_us,
                                 .prompt_bytes = l->prompt_bytes,
                                 .max_tokens = -1,
                                 .prefix_hash = 9,
                                 .attempts = a,
                                 .n_attempts = (uint16_t)(n + 1),
                                 .n_started = (uint16_t)(n + 1)};
    if (!l->is_old)
        rec.prompt = prompt;
    past_add(past, &rec);
}

static struct past *past_of(const struct ledger *l, const struct turn *turns, size_t n)
{
    struct past *past = past_new(100, 1);
    for (size_t i = 0; i < n; i++)
        add(past, l, i, &turns[i]);
    past_seal(past);
    return past;
}

static struct replay_figures played(const struct past *past, struct setup *s)
{
    struct replay_ask ask = {.past = past, .config = &s->config, .route = &s->route, .seed = 5};
    struct replay_result r;
    assert_int_equal(replay_run(&ask, &r), ERR_OK);
    assert_int_equal(r.figures.n_answered, past_n(past));
    assert_int_equal(r.figures.n_unpriced, 0);
    return r.figures;
}

static int64_t bill(const struct past *past, struct setup *s, enum cache_standby standby)
{
    s->route.cache.standby = standby;
    return played(past, s).cost_nusd;
}

/* ---- a standby ---- */

/* $0.034 for the prompt and $0.005 for the answer: withheld. */
static const struct usage cold = {PROMPT, 0, 0, 0, OUTPUT, 0};
static const struct usage written = {PROMPT - HELD, 0, HELD, 0, OUTPUT, 0},
                          read_all = {PROMPT - HELD, HELD, 0, 0, OUTPUT, 0};
static const struct ledger marked = {.ttl_s = 300, .prompt_bytes = 4 * PROMPT, .cache_bytes = 4 * HELD};

/* One conversation every 20 seconds, while alpha is away; beta's cache was withheld. */
static void list_outage(struct turn *turns, size_t n, enum cache_mark mark)
{
    for (size_t i = 0; i < n; i++)
        turns[i] = (struct turn){.at_ms = (int64_t)i * 20 * S, .is_alpha_away = true, .mark = mark, .tokens = cold};
}

static void test_two_policies_by_hand(void **state)
{
    (void)state;
    struct setup s;
    struct turn turns[4];
    set_up(&s, "anthropic");
    list_outage(turns, 4, CACHE_WITHHELD);
    struct past *past = past_of(&marked, turns, 4);
    assert_int_equal(bill(past, &s, STANDBY_NEVER), 4 * 39 * MILLI);
    /* 15,000 x $2.5 + 2,000 x $2 + 500 x $10 = $0.0465 once; then 15,000 x $0.2 + $0.004 + $0.005 = $0.012. */
    assert_int_equal(bill(past, &s, STANDBY_ALWAYS), 46500000 + 3 * 12 * MILLI);
    struct replay_figures f = played(past, &s);
    assert_int_equal(f.n_written, HELD);
    assert_int_equal(f.n_read, 3 * HELD);
    assert_int_equal(f.waste_nusd, 0);
    /* Away since the first one: 20 seconds are not enough, 40 are. */
    s.route.cache.sustained_after_ms = 30 * S;
    assert_int_equal(bill(past, &s, STANDBY_SUSTAINED), 2 * 39 * MILLI + 46500000 + 12 * MILLI);
    past_free(past);
}

/* The rule of the service decides, with its memory empty: a prefix that came once is not written; once it is, it is. */
static void test_expected_value_is_one_of_these(void **state)
{
    (void)state;
    struct setup s;
    struct turn turns[TURNS_MAX];
    set_up(&s, "anthropic");
    list_outage(turns, TURNS_MAX, CACHE_WITHHELD);
    struct past *past = past_of(&marked, turns, TURNS_MAX);
    int64_t cost = bill(past, &s, STANDBY_EXPECTED_VALUE), n_cold = 1;
    while (n_cold < TURNS_MAX && cost != n_cold * 39 * MILLI + 46500000 + (TURNS_MAX - 1 - n_cold) * 12 * MILLI)
        n_cold++;
    assert_in_range(n_cold, 1, 4);
    past_free(past);
}

static void test_a_cache_ends_with_its_time(void **state)
{
    (void)state;
    struct setup s;
    struct turn turns[2];
    struct ledger hour = marked;
    set_up(&s, "anthropic");
    list_outage(turns, 2, CACHE_WITHHELD);
    turns[1].at_ms = 400 * S;
    struct past *past = past_of(&marked, turns, 2);
    assert_int_equal(bill(past, &s, STANDBY_ALWAYS), 2 * 46500000);
    past_free(past);
    hour.ttl_s = 3600;
    past = past_of(&hour, turns, 2);
    assert_int_equal(bill(past, &s, STANDBY_ALWAYS), 69 * MILLI + 12 * MILLI); /* 15,000 x $4 */
    past_free(past);
}

/* What the ledger says stands, also where the provider did otherwise than is thought here. */
static void test_the_recorded_policy_costs_what_it_did(void **state)
{
    (void)state;
    struct setup s;
    struct turn turns[4];
    set_up(&s, "anthropic");
    list_outage(turns, 4, CACHE_ASKED);
    turns[0].tokens =
        (struct usage){PROMPT - HELD, 5000, HELD - 5000, 0, OUTPUT, 0}; /* another process had been there */
    turns[1].tokens = (struct usage){PROMPT - HELD, HELD - 100, 100, 0, OUTPUT, 0};
    turns[2].tokens = written; /* it was thrown out early */
    turns[3].tokens = read_all;
    struct past *past = past_of(&marked, turns, 4);
    int64_t was = 1000 + 25000 + 9000 + 2980 + 250 + 9000;
    assert_int_equal(bill(past, &s, STANDBY_ALWAYS), was * 1000 + 46500000 + 12 * MILLI);
    assert_int_equal(bill(past, &s, STANDBY_NEVER), 4 * 39 * MILLI);
    past_free(past);
}

/* Where providers held four fifths of what was marked, so will another: 12,000 of 15,000. */
static void test_sizes_are_learned_from_what_was_reported(void **state)
{
    (void)state;
    struct setup s;
    struct turn turns[4];
    set_up(&s, "anthropic");
    list_outage(turns, 4, CACHE_WITHHELD);
    turns[0].mark = CACHE_ASKED;
    turns[0].talk = 101;
    turns[0].tokens = (struct usage){5000, 0, 12000, 0, OUTPUT, 0};
    struct past *past = past_of(&marked, turns, 4);
    /* 12,000 x $2.5 + 5,000 x $2 + $0.005 = $0.045 for each conversation; then 12,000 x $0.2 + $0.015 = $0.0174. */
    assert_int_equal(bill(past, &s, STANDBY_ALWAYS), 2 * 45 * MILLI + 2 * 17400000);
    past_free(past);
}

/* Alpha takes no tools under the policy that is tried, and is passed over for what needs some. */
static void test_needs_are_on_record(void **state)
{
    (void)state;
    struct setup s;
    struct turn turns[4];
    struct ledger tools = {.prompt_bytes = 4 * PROMPT, .needs = NEED_TOOLS};
    set_up(&s, "anthropic");
    for (size_t i = 0; i < 4; i++)
        turns[i] = (struct turn){.at_ms = (int64_t)i * S, .tokens = cold, .by = i == 0 ? "beta" : "alpha"};
    struct past *past = past_of(&tools, turns, 4);
    assert_int_equal(played(past, &s).cost_nusd, 4 * 58500000); /* 17,000 x $3 + 500 x $15 */
    s.links[0].supports.tools = NO;
    struct replay_figures f = played(past, &s);
    assert_int_equal(f.cost_nusd, 4 * 39 * MILLI);
    assert_int_equal(f.n_attempts, 4);
    past_free(past);
}

static void test_old_rows_stay_as_they_were(void **state)
{
    (void)state;
    struct setup s;
    struct turn turns[4];
    struct ledger old = marked;
    set_up(&s, "anthropic");
    list_outage(turns, 4, CACHE_NOT_ASKED);
    old.is_old = true;
    struct past *past = past_of(&old, turns, 4);
    assert_int_equal(bill(past, &s, STANDBY_ALWAYS), 4 * 39 * MILLI);
    assert_int_equal(past_n_unknown(past), 4);
    past_free(past);
    past = past_of(&marked, turns, 4);
    assert_int_equal(past_n_unknown(past), 0);
    past_free(past);
}

/* ---- going back ---- */

/* Alpha is back for the last two, which paid the prefix there once more. */
static void test_going_back_by_hand(void **state)
{
    (void)state;
    struct setup s;
    struct turn turns[4];
    set_up(&s, "anthropic");
    list_outage(turns, 4, CACHE_ASKED);
    turns[0].tokens = turns[2].tokens = written;
    turns[1].tokens = turns[3].tokens = read_all;
    turns[2].is_alpha_away = turns[3].is_alpha_away = false;
    struct past *past = past_of(&marked, turns, 4);
    /* At alpha: 15,000 x $3.75 + 2,000 x $3 + 500 x $15 = $0.06975, then 15,000 x $0.3 + $0.0135 = $0.018. */
    assert_int_equal(bill(past, &s, STANDBY_ALWAYS), 46500000 + 12 * MILLI + 69750000 + 18 * MILLI);
    s.route.cache.goes_back = RETURN_BY_VALUE;
    assert_int_equal(bill(past, &s, STANDBY_ALWAYS), 46500000 + 3 * 12 * MILLI);
    past_free(past);
}

/* Who stayed at beta never asked alpha again: that it is back, a keepalive alone can tell. */
static void test_a_keepalive_tells_that_a_target_is_back(void **state)
{
    (void)state;
    for (int n_told = 0; n_told < 2; n_told++) {
        struct setup s;
        struct turn turns[6];
        set_up(&s, "anthropic");
        list_outage(turns, 6, CACHE_ASKED);
        for (size_t i = 0; i < 6; i++)
            turns[i].tokens = i == 1 ? written : read_all;
        turns[0] = (struct turn){.mark = CACHE_ASKED, .tokens = written};
        turns[4].is_alpha_away = turns[5].is_alpha_away = false;
        turns[4].by = turns[5].by = "beta";
        struct past *past = past_new(100, 1);
        for (size_t i = 0; i < 6; i++)
            add(past, &marked, i, &turns[i]);
        if (n_told > 0)
            past_add_sign(past, "alpha", "m", WALL_MS + turns[4].at_ms - 10, OUTCOME_OK);
        past_add_sign(past, "gamma", "m", WALL_MS + 5, OUTCOME_OK);                            /* nobody's */
        past_add_sign(past, "alpha", "m", WALL_MS + turns[4].at_ms - 5, OUTCOME_CLIENT_ERROR); /* says nothing */
        past_seal(past);
        int64_t until_then = 69750000 + 46500000 + 2 * 12 * MILLI;
        /* It wrote alpha's cache at the start, which is warm still: 15,000 x $0.3 + $0.0135. */
        assert_int_equal(bill(past, &s, STANDBY_ALWAYS), until_then + (n_told > 0 ? 2 * 18 * MILLI : 2 * 12 * MILLI));
        past_free(past);
    }
}

/* ---- classes of service ---- */

/* What was answered at half the price is priced so again, wherever it goes. */
static void test_a_class_of_service_stays(void **state)
{
    (void)state;
    struct ledger plain = {.prompt_bytes = 4 * PROMPT};
    struct setup s;
    struct turn turns[2] = {{.tokens = cold, .by = "alpha", .service = "flex"},
                            {.at_ms = S, .tokens = cold, .by = "beta", .service = "flex"}};
    set_up(&s, "openai");
    struct price half = {
        .input = 1000000, .output = 5000000, .cache_read = -1, .cache_write_5m = -1, .cache_write_1h = -1};
    half.version = "known";
    half.source = "";
    struct arena arena = {0};
    struct fare fares[TARGETS] = {{0}};
    for (size_t i = 0; i < TARGETS; i++) {
        fare_put(&fares[i], &arena, &(struct fare_span){"", INT64_MIN, INT64_MAX, 0, &s.prices[i]});
        fare_put(&fares[i], &arena, &(struct fare_span){"flex", INT64_MIN, INT64_MAX, 0, &half});
        s.links[i].fare = &fares[i];
    }
    struct past *past = past_of(&plain, turns, 2);
    assert_int_equal(played(past, &s).cost_nusd, 2 * 19500000); /* 17,000 x $1 + 500 x $5 */
    past_free(past);
    arena_fini(&arena);
}

/* ---- affinity ---- */

/* Two equal targets that cache by themselves; turns went to the one and the other. A conversation that keeps to one
 * pays its 2,000 tokens once: 2,000 x $2 + 100 x $10 = $0.005; then 80 x $2 + 1,920 x $0.2 + $0.001 = $0.001544. */
static void test_affinity_by_hand(void **state)
{
    (void)state;
    static const struct usage new = {2000, 0, 0, 0, 100, 0}, again = {80, 1920, 0, 0, 100, 0};
    struct ledger plain = {.prompt_bytes = 8000};
    struct setup s;
    struct turn turns[8];
    set_up(&s, "openai");
    s.prices[0] = s.prices[1];
    for (size_t i = 0; i < 8; i++)
        turns[i] = (struct turn){.at_ms = (int64_t)i * 10 * S,
                                 .tokens = i < 4 ? new : again,
                                 .by = i / 2 % 2 == 0 ? "alpha" : "beta",
                                 .routing = i / 2 % 2 == 0 ? NULL : "order: beta",
                                 .talk = 100 + i % 2};
    struct past *past = past_of(&plain, turns, 8);
    assert_int_equal(played(past, &s).cost_nusd, 4 * 5000000 + 4 * 1544000); /* clients' orders are obeyed */
    past_free(past);
    for (size_t i = 0; i < 8; i++)
        turns[i].routing = NULL;
    past = past_of(&plain, turns, 8);
    s.links[1].equals = 0;
    s.route.cache.affinity = 1;
    struct replay_figures f = played(past, &s);
    assert_int_equal(f.cost_nusd, 2 * 5000000 + 6 * 1544000);
    assert_int_equal(f.n_read, 6 * 1920);
    past_free(past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_policies_by_hand),
        cmocka_unit_test(test_expected_value_is_one_of_these),
        cmocka_unit_test(test_a_cache_ends_with_its_time),
        cmocka_unit_test(test_the_recorded_policy_costs_what_it_did),
        cmocka_unit_test(test_sizes_are_learned_from_what_was_reported),
        cmocka_unit_test(test_needs_are_on_record),
        cmocka_unit_test(test_old_rows_stay_as_they_were),
        cmocka_unit_test(test_going_back_by_hand),
        cmocka_unit_test(test_a_keepalive_tells_that_a_target_is_back),
        cmocka_unit_test(test_a_class_of_service_stays),
        cmocka_unit_test(test_affinity_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

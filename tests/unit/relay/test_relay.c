/* The rules of failover, one request at a time, at exact times. Events are fed by hand; the actions of each are written
 * as a text and compared: "CANCEL 1, START 2>1" = attempt 2 starts on link 1. */
#include "unit.h"

#include "base/buf.h"
#include "relay/relay.h"

#define MS UINT64_C(1000)
#define T0 UINT64_C(1000000)

static struct registry *reg;
static struct rng rng;
static struct relay_env env;
static struct hedge_book *hedges;
static struct arena arena;
static struct provider_conf providers[3];
static struct link_conf links[3];
static struct route_conf route;
static struct config config;
static struct call call;
static struct directive directive;
static struct price price;
static struct relay *r;
static struct buf got;
static struct relay_answer answer;
static struct relay_action start; /* the last START */

static void set_links(size_t n)
{
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        providers[i] =
            (struct provider_conf){.name = names[i], .dialect = "openai", .vendor = "", .url = {.authority = names[i]}};
        links[i] = (struct link_conf){.provider = &providers[i],
                                      .model = "m",
                                      .ttft_budget_ms = 2000,
                                      .connect_timeout_ms = 2000,
                                      .idle_timeout_ms = 1000,
                                      .total_budget_ms = 5000,
                                      .retries = 1,
                                      .price = &price,
                                      .index = (uint16_t)i};
    }
    route = (struct route_conf){.model = "r", .links = links, .n_links = n, .deadline_ms = 10000, .max_attempts = 8};
    route.failover_on.has_default = true;
    route.breaker = (struct breaker_conf){.failures = 5,
                                          .ratio_permille = 500,
                                          .ratio_min = 10,
                                          .window_ms = 30000,
                                          .cooldown_ms = 5000,
                                          .cooldown_max_ms = 60000};
    config = (struct config){.providers = providers, .n_providers = 3, .routes = &route, .n_routes = 1};
}

static int setup(void **state)
{
    reg = registry_new();
    rng.state = 3;
    hedges = hedge_book_new();
    env = (struct relay_env){.registry = reg, .rng = &rng, .hedges = hedges};
    price = (struct price){1000000, 2000000, -1, -1, -1, "v1", "", NULL};
    set_links(2);
    call = (struct call){.is_stream = true, .max_tokens = -1, .n = 1, .prompt_bytes = 400};
    directive = (struct directive){0};
    r = NULL;
    return 0;
}

static int teardown(void **state)
{
    arena_fini(&arena);
    buf_fini(&got);
    registry_free(reg);
    hedge_book_free(hedges);
    return 0;
}

/* ---- feeding ---- */

static void tell(const struct relay_action *a)
{
    static const char *const names[] = {"START",  "CANCEL",   "COMMIT", "HEARTBEAT", "END",
                                        "ANSWER", "INSTREAM", "ALARM",  "RECORD"};
    if (got.n > 0)
        buf_puts(&got, ", ");
    buf_puts(&got, names[a->kind]);
    if (a->kind == ACT_START)
        buf_printf(&got, " %u>%u", a->n, a->link->index);
    else if (a->kind == ACT_CANCEL || a->kind == ACT_COMMIT || a->kind == ACT_END)
        buf_printf(&got, " %u", a->n);
    if (a->kind == ACT_START)
        start = *a;
    if (a->answer)
        answer = *a->answer;
}

static void feed(struct relay_event ev, const char *expected)
{
    struct relay_actions out;
    relay_event(r, &ev, &out);
    buf_clear(&got);
    for (size_t i = 0; i < out.n; i++)
        tell(&out.v[i]);
    assert_string_equal(buf_cstr(&got), expected);
}

static void begin(const char *expected)
{
    assert_int_equal(plan_bind(reg, &config), ERR_OK);
    struct relay_start s = {.config = &config,
                            .route = &route,
                            .directive = &directive,
                            .call = &call,
                            .id = 1,
                            .now_us = T0,
                            .key = "",
                            .dialect = "openai",
                            .trace_id = ""};
    r = relay_new(&arena, &env, &s);
    feed((struct relay_event){.kind = RELAY_START, .now_us = T0}, expected);
}

static void at(uint64_t us, enum relay_event_kind kind, uint16_t n, const char *expected)
{
    feed((struct relay_event){.kind = kind, .now_us = T0 + us, .n = n, .status = 200}, expected);
}

static void sent(uint64_t us, uint16_t n)
{
    at(us, RELAY_CONNECTED, n, "");
    at(us, RELAY_SENT, n, "");
}

static void token(uint64_t us, uint16_t n, const char *expected)
{
    struct event e = {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 9};
    feed((struct relay_event){.kind = RELAY_OUTPUT, .now_us = T0 + us, .n = n, .event = &e}, expected);
}

static void quiet(uint64_t us, uint16_t n, const char *expected)
{
    struct event e = {.kind = EVENT_PING};
    feed((struct relay_event){.kind = RELAY_OUTPUT, .now_us = T0 + us, .n = n, .event = &e}, expected);
}

static void usage(uint64_t us, uint16_t n, int64_t input, int64_t output)
{
    struct event e = {.kind = EVENT_USAGE, .usage = {input, -1, -1, -1, output, -1}};
    feed((struct relay_event){.kind = RELAY_OUTPUT, .now_us = T0 + us, .n = n, .event = &e}, "");
}

static struct failure failure_of(enum failure_class class, uint16_t status)
{
    struct failure f;
    failure_make(&f, failure_outcome(class), "told");
    f.class = class;
    f.status = status;
    return f;
}

static void failed_as(uint64_t us, uint16_t n, struct failure f, const char *expected)
{
    feed((struct relay_event){.kind = RELAY_FAILED, .now_us = T0 + us, .n = n, .failure = &f}, expected);
}

static void failed(uint64_t us, uint16_t n, enum failure_class class, uint16_t status, const char *expected)
{
    failed_as(us, n, failure_of(class, status), expected);
}

static void time_is(uint64_t us, const char *expected)
{
    at(us, RELAY_TIME, 0, expected);
}

static void wakes_at(uint64_t us)
{
    assert_int_equal(relay_wake_us(r), T0 + us);
}

static void outcome_is(enum outcome o)
{
    assert_true(relay_is_over(r));
    assert_string_equal(outcome_word(relay_record(r)->outcome), outcome_word(o));
}

static const struct attempt_record *entry(size_t i)
{
    assert_true(i < relay_record(r)->n_attempts);
    return &relay_record(r)->attempts[i];
}

static void entry_is(size_t i, enum outcome o)
{
    assert_string_equal(outcome_word(entry(i)->outcome), outcome_word(o));
}

/* ---- serving ---- */

static void test_serves(void **state)
{
    begin("START 1>0");
    assert_true(start.is_stream);
    wakes_at(2000 * MS);
    sent(5 * MS, 1);
    at(100 * MS, RELAY_HEAD, 1, "");
    quiet(150 * MS, 1, ""); /* a ping is no token */
    wakes_at(2000 * MS);
    token(200 * MS, 1, "COMMIT 1");
    assert_true(relay_is_committed(r));
    wakes_at(1200 * MS); /* idle */
    token(900 * MS, 1, "");
    usage(950 * MS, 1, 90, 7);
    at(960 * MS, RELAY_ENDED, 1, "END 1, RECORD");
    outcome_is(OUTCOME_OK);
    const struct request_record *rec = relay_record(r);
    assert_int_equal(rec->ttft_us, 200 * MS);
    assert_int_equal(rec->total_us, 960 * MS);
    assert_int_equal(rec->served_link, 0);
    assert_int_equal(entry(0)->tokens_from, TOKENS_REPORTED);
    assert_int_equal(rec->cost_nusd, 90 * 1000 + 7 * 2000);
    assert_int_equal(rec->waste_nusd, 0);
    assert_int_equal(relay_wake_us(r), 0);
}

static void test_budget_exact(void **state)
{
    begin("START 1>0");
    sent(0, 1);
    time_is(2000 * MS - 1, "");
    token(2000 * MS, 1, "COMMIT 1"); /* exactly at it: in time */
}

static void test_budget_cut(void **state)
{
    begin("START 1>0");
    sent(0, 1);
    time_is(2000 * MS, "CANCEL 1, START 2>1");
    token(2000 * MS, 1, ""); /* the late reply reaches nobody */
    wakes_at(4000 * MS);
    sent(2000 * MS, 2);
    token(2100 * MS, 2, "COMMIT 2");
    at(2200 * MS, RELAY_ENDED, 2, "END 2, RECORD");
    entry_is(0, OUTCOME_TTFT_TIMEOUT);
    assert_int_equal(entry(0)->tokens_from, TOKENS_ESTIMATED);
    assert_int_equal(entry(0)->tokens.input, 100);
    assert_int_equal(relay_record(r)->waste_nusd, 100 * 1000);
    assert_true(relay_record(r)->cost_nusd > relay_record(r)->waste_nusd);
}

/* Each attempt has the price of the moment at which it began, and of the class of service that its answer told. */
static void test_prices_of_their_moment(void **state)
{
    static const struct price old = {1000000, 1000000, -1, -1, -1, "old", "", NULL},
                              now = {3000000, 3000000, -1, -1, -1, "now", "", NULL},
                              flex = {500000, 500000, -1, -1, -1, "flex", "", NULL};
    static struct fare_span spans[] = {
        {"", INT64_MIN, 2000, 0, &old}, {"", 2000, INT64_MAX, 0, &now}, {"flex", 2000, INT64_MAX, 0, &flex}};
    const struct fare fare = {spans, RM_COUNTOF(spans), RM_COUNTOF(spans)};
    set_links(3);
    for (int i = 0; i < 3; i++)
        links[i].fare = &fare;
    begin("START 1>0");
    sent(0, 1);
    time_is(2000 * MS, "CANCEL 1, START 2>1");
    sent(2000 * MS, 2);
    struct event told = {.kind = EVENT_START, .name = BYTES("flex")};
    feed((struct relay_event){.kind = RELAY_OUTPUT, .now_us = T0 + 2001 * MS, .n = 2, .event = &told}, "");
    time_is(4000 * MS, "CANCEL 2, START 3>2");
    sent(4000 * MS, 3);
    token(4100 * MS, 3, "COMMIT 3");
    struct event usage = {.kind = EVENT_USAGE, .name = BYTES("priority"), .usage = {90, -1, -1, -1, 7, -1}};
    feed((struct relay_event){.kind = RELAY_OUTPUT, .now_us = T0 + 4150 * MS, .n = 3, .event = &usage}, "");
    at(4200 * MS, RELAY_ENDED, 3, "END 3, RECORD");
    assert_string_equal(entry(0)->price_version, "old");
    assert_int_equal(entry(0)->cost_nusd, 100 * 1000);
    assert_string_equal(entry(1)->price_version, "flex");
    assert_string_equal(entry(1)->service, "flex");
    assert_true(entry(1)->is_service_told && !entry(1)->is_price_standin);
    assert_int_equal(entry(1)->cost_nusd, 100 * 500);
    assert_string_equal(entry(2)->price_version, "now");
    assert_true(entry(2)->is_price_standin);
    assert_int_equal(entry(2)->cost_nusd, 97 * 3000);
    assert_non_null(strstr(entry(2)->decision, "priority has no rates of its own, priced as standard"));
    assert_int_equal(relay_record(r)->cost_nusd, 100 * 1000 + 100 * 500 + 97 * 3000);
}

/* What the client asked for holds where it gets there and nobody says otherwise. */
static void test_service_that_was_asked_for(void **state)
{
    call.service = BYTES("flex");
    links[1].service = "batches";
    begin("START 1>0");
    sent(0, 1);
    time_is(2000 * MS, "CANCEL 1, START 2>1");
    sent(2000 * MS, 2);
    token(2100 * MS, 2, "COMMIT 2");
    at(2200 * MS, RELAY_ENDED, 2, "END 2, RECORD");
    assert_string_equal(entry(0)->service, "flex");
    assert_string_equal(entry(1)->service, "batches");
    assert_false(entry(0)->is_service_told || entry(1)->is_service_told);
}

static void test_token_after_budget_is_late(void **state)
{
    begin("START 1>0");
    sent(0, 1);
    token(2000 * MS + 1, 1, "CANCEL 1, START 2>1");
}

static void test_not_connected_is_connect_timeout(void **state)
{
    begin("START 1>0");
    time_is(2000 * MS, "CANCEL 1, START 2>1");
    entry_is(0, OUTCOME_CONNECT_TIMEOUT);
    assert_int_equal(entry(0)->tokens_from, TOKENS_UNBILLED);
    assert_int_equal(entry(0)->cost_nusd, 0);
}

/* Nothing that was written to a pooled connection was acknowledged: it is dead, whatever the pool thought. */
static void test_unacked_reused_is_connect_timeout(void **state)
{
    begin("START 1>0");
    feed((struct relay_event){.kind = RELAY_CONNECTED, .now_us = T0, .n = 1, .connect_us = -1}, "");
    at(0, RELAY_SENT, 1, "");
    feed((struct relay_event){.kind = RELAY_TIME, .now_us = T0 + 2000 * MS, .n = 1, .is_unacked = true},
         "CANCEL 1, START 2>1");
    entry_is(0, OUTCOME_CONNECT_TIMEOUT);
    assert_int_equal(entry(0)->connect_us, -1);
}

/* Told when its time is over already: the word is what it would be, and no clock fires by the telling. */
static void test_reach_may_be_told_late(void **state)
{
    begin("START 1>0");
    relay_reached(r, 1, 700, true);
    wakes_at(2000 * MS);
    time_is(2000 * MS, "CANCEL 1, START 2>1");
    entry_is(0, OUTCOME_TTFT_TIMEOUT);
    assert_int_equal(entry(0)->connect_us, 700);
    assert_int_not_equal(entry(0)->tokens_from, TOKENS_UNBILLED);
    relay_reached(r, 1, 900, true); /* closed: nothing is told of it any more */
    assert_int_equal(entry(0)->connect_us, 700);
    relay_reached(r, 2, -1, false);
    at(2500 * MS, RELAY_CLIENT_GONE, 0, "CANCEL 2, RECORD");
    assert_int_equal(entry(1)->connect_us, -1);
    assert_int_equal(entry(1)->tokens_from, TOKENS_UNBILLED);
}

static void test_last_link_goes_on_to_the_deadline(void **state)
{
    begin("START 1>0");
    time_is(2000 * MS, "CANCEL 1, START 2>1");
    sent(2000 * MS, 2);
    time_is(4000 * MS, "");
    wakes_at(10000 * MS);
    time_is(10000 * MS - 1, "");
    time_is(10000 * MS, "CANCEL 2, ANSWER, RECORD");
    entry_is(1, OUTCOME_DEADLINE);
    outcome_is(OUTCOME_ALL_UNAVAILABLE);
    assert_true(answer.is_all_red);
    assert_int_equal(answer.status, 503);
}

static void test_last_link_late_answer(void **state)
{
    route.n_links = 1;
    begin("START 1>0");
    sent(0, 1);
    time_is(2000 * MS, "");
    token(9999 * MS, 1, "COMMIT 1");
    at(10001 * MS, RELAY_ENDED, 1, "END 1, RECORD"); /* the deadline ended at the commit */
    outcome_is(OUTCOME_OK);
}

static void test_open_link_does_not_cut_the_running_one(void **state)
{
    begin("START 1>0");
    registry_hint(reg, links[1].target_id, T0, 5000, &rng, &(struct trial){0});
    time_is(2000 * MS, "");
    wakes_at(10000 * MS);
}

static void test_non_stream_commits_whole(void **state)
{
    call.is_stream = false;
    begin("START 1>0");
    assert_true(start.is_stream);
    sent(0, 1);
    token(1999 * MS, 1, "");
    wakes_at(2999 * MS); /* idle */
    token(2900 * MS, 1, "");
    at(3000 * MS, RELAY_ENDED, 1, "COMMIT 1, END 1, RECORD");
    assert_int_equal(relay_record(r)->ttft_us, 1999 * MS);
}

static void test_non_stream_idle_before_commit(void **state)
{
    call.is_stream = false;
    begin("START 1>0");
    sent(0, 1);
    token(500 * MS, 1, "");
    time_is(1500 * MS, "CANCEL 1, START 2>1");
    entry_is(0, OUTCOME_IDLE_TIMEOUT);
    assert_int_equal(entry(0)->tokens.output, 3); /* 9 bytes */
}

static void test_total_budget(void **state)
{
    call.is_stream = false;
    call.n = 2;
    begin("START 1>0");
    assert_false(start.is_stream);
    sent(0, 1);
    wakes_at(5000 * MS);
    time_is(5000 * MS, "CANCEL 1, START 2>1");
    entry_is(0, OUTCOME_TOTAL_TIMEOUT);
}

static void test_empty_answer(void **state)
{
    begin("START 1>0");
    sent(0, 1);
    at(100 * MS, RELAY_ENDED, 1, "COMMIT 1, END 1, RECORD");
    outcome_is(OUTCOME_OK);
}

/* ---- after the commit ---- */

static void test_sticky(void **state)
{
    begin("START 1>0");
    sent(0, 1);
    token(100 * MS, 1, "COMMIT 1");
    failed(200 * MS, 1, FAILURE_OVERLOAD, 0, "CANCEL 1, INSTREAM, RECORD");
    outcome_is(OUTCOME_OVERLOADED);
    assert_true(entry(0)->in_stream);
    assert_true(entry(0)->is_served);
    assert_int_equal(relay_record(r)->waste_nusd, 0);
}

static void test_idle_and_pause(void **state)
{
    begin("START 1>0");
    sent(0, 1);
    token(100 * MS, 1, "COMMIT 1");
    at(600 * MS, RELAY_PAUSED, 1, "");
    assert_int_equal(relay_wake_us(r), 0);
    time_is(5000 * MS, "");
    at(9000 * MS, RELAY_RESUMED, 1, "");
    wakes_at(9500 * MS); /* 500 ms were left */
    time_is(9500 * MS - 1, "");
    time_is(9500 * MS, "CANCEL 1, INSTREAM, RECORD");
    outcome_is(OUTCOME_IDLE_TIMEOUT);
}

/* The short way takes what only counts, in time; it does nothing to all else. */
static void test_short_way(void **state)
{
    struct event word = {.kind = EVENT_TEXT, .is_token = true, .text = BYTES("four"), .text_bytes = 4};
    struct event usage = {.kind = EVENT_USAGE, .usage = USAGE_NONE};
    begin("START 1>0");
    sent(0, 1);
    assert_false(relay_flow(r, 1, &word, T0 + 50 * MS)); /* a first token is more than a count */
    token(100 * MS, 1, "COMMIT 1");
    assert_true(relay_flow(r, 1, &word, T0 + 1100 * MS)); /* exactly at its idle time: not late */
    wakes_at(2100 * MS);
    assert_false(relay_flow(r, 1, &word, T0 + 2100 * MS + 1));
    assert_false(relay_flow(r, 2, &word, T0 + 1200 * MS));
    assert_false(relay_flow(r, 1, &usage, T0 + 1200 * MS));
    wakes_at(2100 * MS);
    at(1300 * MS, RELAY_PAUSED, 1, "");
    assert_false(relay_flow(r, 1, &word, T0 + 1400 * MS));
    at(1500 * MS, RELAY_RESUMED, 1, "");
    assert_true(relay_flow(r, 1, &word, T0 + 1600 * MS));
    time_is(2600 * MS, "CANCEL 1, INSTREAM, RECORD");
    assert_false(relay_flow(r, 1, &word, T0 + 2600 * MS));
}

static void test_error_event_inside_200(void **state)
{
    struct failure f = failure_of(FAILURE_OVERLOAD, 0);
    struct event e = {.kind = EVENT_ERROR, .failure = &f};
    begin("START 1>0");
    sent(0, 1);
    at(10 * MS, RELAY_HEAD, 1, "");
    feed((struct relay_event){.kind = RELAY_OUTPUT, .now_us = T0 + 20 * MS, .n = 1, .event = &e},
         "CANCEL 1, START 2>1");
    entry_is(0, OUTCOME_OVERLOADED);
    assert_true(entry(0)->in_stream);
    assert_int_equal(entry(0)->tokens_from, TOKENS_ESTIMATED); /* its input was probably read */
}

/* Events that came together are fed together: the same comes of them as one by one. */
static void together(uint64_t us, const struct event *e, size_t n, const char *expected)
{
    feed((struct relay_event){.kind = RELAY_OUTPUT, .now_us = T0 + us, .n = 1, .event = e, .n_further = n - 1},
         expected);
}

static void test_events_together(void **state)
{
    struct event e[] = {{.kind = EVENT_START, .name = BYTES("flex")},
                        {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 9},
                        {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 11},
                        {.kind = EVENT_USAGE, .usage = {90, -1, -1, -1, 7, -1}}};
    struct attempt_record was = {0};
    for (size_t step = 1; step <= 4; step *= 4) {
        begin("START 1>0");
        sent(0, 1);
        for (size_t i = 0; i < 4; i += step)
            together(20 * MS, &e[i], step, step == 4 || i == 1 ? "COMMIT 1" : "");
        wakes_at(1020 * MS); /* idle */
        at(30 * MS, RELAY_ENDED, 1, "END 1, RECORD");
        assert_string_equal(entry(0)->service, "flex");
        assert_int_equal(entry(0)->tokens.output, 7);
        assert_int_equal(entry(0)->cost_nusd, 90 * 1000 + 7 * 2000);
        if (step == 4) {
            assert_int_equal(entry(0)->ttft_us, was.ttft_us);
            assert_int_equal(entry(0)->tokens_from, was.tokens_from);
        }
        was = *entry(0);
    }
}

/* What stands behind an error is nobody's: not the failed attempt's, and not that of the next. */
static void test_events_behind_an_error(void **state)
{
    struct failure f = failure_of(FAILURE_OVERLOAD, 0);
    struct event e[] = {{.kind = EVENT_PING},
                        {.kind = EVENT_ERROR, .failure = &f},
                        {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 9}};
    begin("START 1>0");
    sent(0, 1);
    together(20 * MS, e, 3, "CANCEL 1, START 2>1");
    entry_is(0, OUTCOME_OVERLOADED);
    assert_false(relay_is_committed(r));
    wakes_at(2020 * MS); /* the second has its whole budget before it, and no token */
}

/* ---- the same target again ---- */

static void test_retry_quick_500(void **state)
{
    begin("START 1>0");
    sent(0, 1);
    at(500 * MS, RELAY_HEAD, 1, "");
    failed(500 * MS, 1, FAILURE_FAULT, 500, "CANCEL 1");
    uint64_t wake = relay_wake_us(r) - T0;
    assert_in_range(wake, 550 * MS, 650 * MS);
    time_is(wake - 1, "");
    time_is(wake, "START 2>0");
    assert_true(start.is_fresh);
    wakes_at(2000 * MS); /* the budget is the link's */
    sent(wake, 2);
    at(700 * MS, RELAY_HEAD, 2, "");
    failed(700 * MS, 2, FAILURE_FAULT, 500, "CANCEL 2, START 3>1"); /* one retry */
}

static void test_no_retry(void **state)
{
    static const struct {
        uint64_t head_ms;
        uint16_t status;
        enum failure_class class;
    } t[] = {{501, 500, FAILURE_FAULT},
             {10, 503, FAILURE_OVERLOAD},
             {10, 529, FAILURE_OVERLOAD},
             {10, 504, FAILURE_FAULT},
             {10, 429, FAILURE_RATE}};
    for (size_t i = 0; i < RM_COUNTOF(t); i++) {
        begin("START 1>0");
        sent(0, 1);
        at(t[i].head_ms * MS, RELAY_HEAD, 1, "");
        failed(t[i].head_ms * MS, 1, t[i].class, t[i].status, "CANCEL 1, START 2>1");
        at(600 * MS, RELAY_CLIENT_GONE, 0, "CANCEL 2, RECORD");
        registry_good(reg, links[0].target_id, providers[0].credential_id, T0, &(struct trial){0});
    }
}

static void test_retry_broken_connection(void **state)
{
    struct failure f = failure_of(FAILURE_FAULT, 0);
    f.outcome = OUTCOME_CONNECT_ERROR;
    f.is_established = true;
    begin("START 1>0");
    sent(0, 1);
    failed_as(1840 * MS, 1, f, "CANCEL 1"); /* the longest pause just fits */
    at(1841 * MS, RELAY_CLIENT_GONE, 0, "RECORD");
    begin("START 1>0");
    failed_as(1951 * MS, 1, f, "CANCEL 1, START 2>1"); /* the shortest does not */
}

static void test_refused_is_not_retried(void **state)
{
    struct failure f = failure_of(FAILURE_FAULT, 0);
    f.outcome = OUTCOME_CONNECT_ERROR;
    f.is_unsent = true;
    begin("START 1>0");
    failed_as(1 * MS, 1, f, "CANCEL 1, START 2>1");
}

static void test_wait_for_hint(void **state)
{
    struct failure f = failure_of(FAILURE_RATE, 429);
    f.retry_after_ms = 1000;
    route.wait_retry_after_ms = 1000;
    begin("START 1>0");
    sent(0, 1);
    failed_as(100 * MS, 1, f, "CANCEL 1");
    wakes_at(1100 * MS);
    time_is(1100 * MS, "START 2>0");
    wakes_at(3100 * MS);                               /* a budget of its own */
    failed_as(1200 * MS, 2, f, "CANCEL 2, START 3>1"); /* once */
}

static void test_hint_too_long(void **state)
{
    struct failure f = failure_of(FAILURE_RATE, 429);
    f.retry_after_ms = 1001;
    route.wait_retry_after_ms = 1000;
    begin("START 1>0");
    failed_as(100 * MS, 1, f, "CANCEL 1, START 2>1");
    assert_true(registry_until(reg, links[0].target_id, 0, T0 + 100 * MS) >= T0 + 1101 * MS);
}

static void test_repair(void **state)
{
    struct failure f = failure_of(FAILURE_COMPAT, 400);
    f.quirk = QUIRK_NO_STREAM_OPTIONS;
    begin("START 1>0");
    failed_as(100 * MS, 1, f, "CANCEL 1, START 2>0");
    assert_int_equal(start.quirks, QUIRK_NO_STREAM_OPTIONS);
    entry_is(0, OUTCOME_REPAIRED);
    failed_as(200 * MS, 2, f, "CANCEL 2, ANSWER, RECORD"); /* once */
    assert_int_equal(answer.status, 400);
    begin("START 1>0");
    assert_int_equal(start.quirks, QUIRK_NO_STREAM_OPTIONS); /* remembered */
}

static void test_max_attempts(void **state)
{
    route.max_attempts = 2;
    route.n_links = 3;
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_OVERLOAD, 503, "CANCEL 1, START 2>1");
    failed(20 * MS, 2, FAILURE_OVERLOAD, 503, "CANCEL 2, ANSWER, RECORD");
    assert_int_equal(relay_record(r)->n_started, 2);
}

static void test_replay_counts_nowhere(void **state)
{
    begin("START 1>0");
    feed((struct relay_event){.kind = RELAY_CONNECTED, .now_us = T0, .n = 1, .connect_us = -1}, "");
    at(10 * MS, RELAY_REPLAYED, 1, "");
    sent(20 * MS, 1);
    token(30 * MS, 1, "COMMIT 1");
    assert_int_equal(relay_record(r)->n_started, 1);
    assert_int_equal(relay_record(r)->n_attempts, 1);
}

/* ---- whose fault ---- */

static void test_client_error_goes_back(void **state)
{
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_CLIENT, 422, "CANCEL 1, ANSWER, RECORD");
    assert_int_equal(answer.status, 422);
    assert_false(answer.is_all_red);
    assert_int_equal(answer.retry_after_ms, -1);
    outcome_is(OUTCOME_CLIENT_ERROR);
    assert_int_equal(relay_record(r)->cost_nusd, 0);
}

static void test_client_error_of_a_later_link(void **state)
{
    route.n_links = 3;
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_OVERLOAD, 503, "CANCEL 1, START 2>1");
    failed(20 * MS, 2, FAILURE_CLIENT, 400, "CANCEL 2, START 3>2");
    failed(30 * MS, 3, FAILURE_CLIENT, 400, "CANCEL 3, ANSWER, RECORD");
    assert_true(answer.is_all_red);
}

static void test_auth(void **state)
{
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_AUTH, 401, "CANCEL 1, ALARM, ANSWER, RECORD");
    assert_int_equal(answer.status, 502);
    assert_string_equal(answer.provider, "a");
    assert_true(answer.no_retry);
    begin("START 2>1"); /* the key is closed: the next link at once */
    entry_is(0, OUTCOME_SKIPPED_OPEN);
    assert_false(entry(0)->is_started);
}

static void test_auth_opted_in(void **state)
{
    route.failover_on.outcomes[OUTCOME_AUTH_ERROR] = true;
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_AUTH, 401, "CANCEL 1, ALARM, START 2>1");
}

static void test_not_found(void **state)
{
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_NOTFOUND, 404, "CANCEL 1, ALARM, ANSWER, RECORD");
    assert_int_equal(answer.status, 404);
    assert_true(answer.no_retry);
}

static void test_context_length(void **state)
{
    route.n_links = 3;
    links[0].context_window = links[1].context_window = 8000;
    links[2].context_window = 128000;
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_CONTEXT, 400, "CANCEL 1, START 3>2");
    entry_is(1, OUTCOME_SKIPPED_INCAPABLE);
    route.n_links = 2;
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_CONTEXT, 400, "CANCEL 1, ANSWER, RECORD");
    assert_int_equal(answer.status, 400);
    assert_int_equal(answer.failure.class, FAILURE_CONTEXT);
    links[1].context_window = 0; /* unknown is not known to be larger */
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_CONTEXT, 400, "CANCEL 1, ANSWER, RECORD");
}

/* ---- who is a candidate ---- */

static void test_skips(void **state)
{
    route.n_links = 3;
    providers[0].is_off = true;
    links[1].supports.tools = NO;
    call.has_tools = true;
    begin("START 3>2");
    entry_is(0, OUTCOME_SKIPPED_OFF);
    entry_is(1, OUTCOME_SKIPPED_INCAPABLE);
    failed(10 * MS, 3, FAILURE_OVERLOAD, 503, "CANCEL 3, ANSWER, RECORD");
    assert_false(answer.is_all_red); /* one candidate: its own failure */
    assert_int_equal(answer.status, 503);
}

static void test_nobody_is_capable(void **state)
{
    links[0].context_window = links[1].context_window = 50;
    begin("ANSWER, RECORD");
    assert_int_equal(answer.status, 400);
    assert_int_equal(answer.failure.class, FAILURE_CONTEXT);
}

static void test_all_off(void **state)
{
    providers[0].is_off = providers[1].is_off = true;
    begin("ANSWER, RECORD");
    assert_int_equal(answer.status, 503);
    assert_true(answer.no_retry);
    outcome_is(OUTCOME_ALL_UNAVAILABLE);
}

static void test_state_stays(void **state)
{
    call.state = BYTES("resp_1");
    begin("START 1>0");
    failed(10 * MS, 1, FAILURE_OVERLOAD, 503, "CANCEL 1, ANSWER, RECORD");
    entry_is(1, OUTCOME_SKIPPED_STATE);
}

static void test_single_is_never_skipped(void **state)
{
    route.n_links = 1;
    assert_int_equal(plan_bind(reg, &config), ERR_OK);
    registry_hint(reg, links[0].target_id, T0, 3600000, &rng, &(struct trial){0});
    begin("START 1>0");
    sent(0, 1);
    token(10 * MS, 1, "COMMIT 1");
    at(20 * MS, RELAY_ENDED, 1, "END 1, RECORD");
    assert_int_equal(registry_state(reg, links[0].target_id, T0), HEALTH_CLOSED);
}

static void test_single_by_routing(void **state)
{
    assert_int_equal(plan_bind(reg, &config), ERR_OK);
    registry_hint(reg, links[0].target_id, T0, 60000, &rng, &(struct trial){0});
    directive.fallback_off = true;
    begin("START 1>0");
    struct failure f = failure_of(FAILURE_RATE, 429);
    f.retry_after_ms = 4236000;
    failed_as(10 * MS, 1, f, "CANCEL 1, ANSWER, RECORD");
    assert_int_equal(answer.status, 429);
    assert_int_equal(answer.retry_after_ms, 4236000);
    assert_true(answer.no_retry);
}

static void test_order_ttft_deadline(void **state)
{
    const struct link_conf *order[] = {&links[1], &links[0]};
    directive = (struct directive){.order = order, .n_order = 2, .ttft_ms = 100, .deadline_ms = 300};
    begin("START 1>1");
    sent(0, 1);
    wakes_at(100 * MS);
    time_is(100 * MS, "CANCEL 1, START 2>0");
    time_is(200 * MS, "");
    wakes_at(300 * MS);
    time_is(300 * MS, "CANCEL 2, ANSWER, RECORD");
}

static void test_unbuildable(void **state)
{
    begin("START 1>0");
    feed((struct relay_event){.kind = RELAY_UNBUILDABLE, .now_us = T0, .n = 1, .why = "n > 1"}, "START 2>1");
    entry_is(0, OUTCOME_SKIPPED_INCAPABLE);
    assert_int_equal(relay_record(r)->n_started, 1);
    feed((struct relay_event){.kind = RELAY_UNBUILDABLE, .now_us = T0, .n = 2, .why = "n > 1"}, "ANSWER, RECORD");
    assert_int_equal(answer.status, 400);
    assert_int_equal(relay_record(r)->n_started, 0);
}

static void test_sole_candidate_is_gone_back_to(void **state)
{
    assert_int_equal(plan_bind(reg, &config), ERR_OK);
    registry_hint(reg, links[0].target_id, T0, 60000, &rng, &(struct trial){0});
    begin("START 2>1");
    feed((struct relay_event){.kind = RELAY_UNBUILDABLE, .now_us = T0, .n = 2, .why = "n > 1"}, "START 3>0");
}

/* ---- health ---- */

static void open_first(void)
{
    assert_int_equal(plan_bind(reg, &config), ERR_OK);
    for (int i = 0; i < 5; i++)
        registry_bad(reg, links[0].target_id, 1, false, &route.breaker, &rng, &(struct trial){0});
    assert_int_equal(registry_state(reg, links[0].target_id, T0), HEALTH_OPEN);
}

static void test_open_is_skipped_and_all_red(void **state)
{
    open_first();
    registry_hint(reg, links[1].target_id, T0, 7000, &rng, &(struct trial){0});
    begin("ANSWER, RECORD");
    assert_true(answer.is_all_red);
    assert_in_range(answer.retry_after_ms, 3000, 6000);
    assert_false(answer.no_retry);
    entry_is(0, OUTCOME_SKIPPED_OPEN);
    entry_is(1, OUTCOME_SKIPPED_OPEN);
    assert_int_equal(relay_record(r)->n_started, 0);
}

static void test_trial_of_a_client_who_leaves(void **state)
{
    open_first();
    struct trial t;
    uint64_t late = registry_until(reg, links[0].target_id, 0, T0) - T0;
    struct relay_start s = {
        .config = &config, .route = &route, .call = &call, .now_us = T0 + late, .key = "", .dialect = ""};
    r = relay_new(&arena, &env, &s);
    feed((struct relay_event){.kind = RELAY_START, .now_us = T0 + late}, "START 1>0");
    assert_int_equal(registry_state(reg, links[0].target_id, T0 + late), HEALTH_TRIAL);
    at(late + MS, RELAY_CLIENT_GONE, 0, "CANCEL 1, RECORD");
    outcome_is(OUTCOME_CLIENT_CANCELLED);
    assert_int_equal(registry_pass(reg, links[0].target_id, 0, T0 + late + MS, &t), PASS_TRIAL);
    registry_neutral(reg, &t, T0 + late);
}

static void test_one_failure_per_request(void **state)
{
    route.breaker.failures = 2; /* a retried 500 counts one, not two */
    begin("START 1>0");
    at(1 * MS, RELAY_HEAD, 1, "");
    failed(1 * MS, 1, FAILURE_FAULT, 500, "CANCEL 1");
    uint64_t wake = relay_wake_us(r) - T0;
    time_is(wake, "START 2>0");
    at(wake, RELAY_HEAD, 2, "");
    failed(wake, 2, FAILURE_FAULT, 500, "CANCEL 2, START 3>1");
    assert_int_equal(registry_state(reg, links[0].target_id, T0), HEALTH_CLOSED);
}

static void test_client_short_budget_is_no_fault(void **state)
{
    route.breaker.failures = 1;
    directive.ttft_ms = 100;
    begin("START 1>0");
    sent(0, 1);
    time_is(100 * MS, "CANCEL 1, START 2>1");
    assert_int_equal(registry_state(reg, links[0].target_id, T0), HEALTH_CLOSED);
}

static void test_breaker_off(void **state)
{
    open_first();
    route.breaker.is_off = true;
    begin("START 1>0");
}

/* ---- heartbeat, leaving, stopping ---- */

static void test_heartbeat(void **state)
{
    route.heartbeat_ms = 500;
    begin("START 1>0");
    sent(0, 1);
    wakes_at(500 * MS);
    time_is(500 * MS, "HEARTBEAT");
    time_is(1000 * MS, "HEARTBEAT");
    failed(1100 * MS, 1, FAILURE_OVERLOAD, 503, "CANCEL 1, START 2>1");
    failed(1200 * MS, 2, FAILURE_OVERLOAD, 503, "CANCEL 2, INSTREAM, RECORD");
    assert_true(answer.is_all_red);
}

static void test_client_gone(void **state)
{
    begin("START 1>0");
    sent(0, 1);
    at(100 * MS, RELAY_CLIENT_GONE, 0, "CANCEL 1, RECORD");
    outcome_is(OUTCOME_CLIENT_CANCELLED);
    assert_int_equal(relay_record(r)->waste_nusd, 100 * 1000); /* nobody saw it */
    token(200 * MS, 1, "");
}

static void test_client_gone_after_commit(void **state)
{
    begin("START 1>0");
    sent(0, 1);
    token(10 * MS, 1, "COMMIT 1");
    at(100 * MS, RELAY_CLIENT_GONE, 0, "CANCEL 1, RECORD");
    assert_int_equal(relay_record(r)->waste_nusd, 0);
    assert_int_equal(relay_record(r)->cost_nusd, 100 * 1000 + 3 * 2000);
}

static void test_client_gone_comes_before_clocks(void **state)
{
    begin("START 1>0");
    at(20000 * MS, RELAY_CLIENT_GONE, 0, "CANCEL 1, RECORD");
}

static void test_drain(void **state)
{
    begin("START 1>0");
    at(10 * MS, RELAY_DRAIN, 0, "CANCEL 1, ANSWER, RECORD");
    outcome_is(OUTCOME_DRAINED);
    begin("START 1>0");
    sent(0, 1);
    token(10 * MS, 1, "COMMIT 1");
    at(20 * MS, RELAY_DRAIN, 0, "CANCEL 1, INSTREAM, RECORD");
    outcome_is(OUTCOME_DRAINED);
}

static void test_deadline_while_waiting(void **state)
{
    struct failure f = failure_of(FAILURE_RATE, 429);
    f.retry_after_ms = 5000;
    route.wait_retry_after_ms = 6000;
    route.deadline_ms = 5001;
    route.n_links = 1;
    begin("START 1>0");
    failed_as(1 * MS, 1, f, "CANCEL 1, ANSWER, RECORD"); /* the hint ends exactly at the deadline: no use */
    assert_int_equal(answer.status, 429);
    assert_int_equal(answer.retry_after_ms, 5000);
    route.deadline_ms = 5002;
    begin("START 1>0");
    failed_as(1 * MS, 1, f, "CANCEL 1");
    time_is(5001 * MS, "START 2>0");
    time_is(5002 * MS, "CANCEL 2, ANSWER, RECORD");
    assert_int_equal(answer.status, 504);
    outcome_is(OUTCOME_DEADLINE);
}

/* Found by the simulator: a failure exactly at the deadline must not start another attempt. */
static void test_failure_at_the_deadline(void **state)
{
    links[0].ttft_budget_ms = 20000;
    begin("START 1>0");
    sent(0, 1);
    failed(10000 * MS, 1, FAILURE_OVERLOAD, 503, "CANCEL 1, ANSWER, RECORD");
    assert_string_equal(entry(0)->decision, "deadline: 503 overloaded");
}

/* Found by the simulator: a repair past the budget shares the budget that is over. */
static void test_repair_past_the_budget(void **state)
{
    struct failure f = failure_of(FAILURE_COMPAT, 400);
    f.quirk = QUIRK_MAX_TOKENS;
    route.n_links = 1;
    begin("START 1>0");
    time_is(2000 * MS, "");
    failed_as(2500 * MS, 1, f, "CANCEL 1, START 2>0");
    wakes_at(10000 * MS);
    token(3000 * MS, 2, "COMMIT 2");
}

static void test_unknown_price(void **state)
{
    links[0].price = NULL;
    begin("START 1>0");
    sent(0, 1);
    time_is(2000 * MS, "CANCEL 1, START 2>1");
    sent(2000 * MS, 2);
    token(2100 * MS, 2, "COMMIT 2");
    at(2200 * MS, RELAY_ENDED, 2, "END 2, RECORD");
    assert_true(relay_record(r)->cost_nusd == NUSD_UNKNOWN);
    assert_true(relay_record(r)->waste_nusd == NUSD_UNKNOWN);
    assert_null(entry(0)->price_version);
    assert_string_equal(entry(1)->price_version, "v1");
}

/* ---- going on with an answer that broke off ---- */

static void begin_resuming(enum tristate prefill)
{
    set_links(3);
    route.resume = true;
    config.limits.gate_bytes = 1000;
    for (size_t i = 0; i < 3; i++)
        links[i].supports.prefill = prefill;
    begin("START 1>0");
    sent(5 * MS, 1);
    at(10 * MS, RELAY_HEAD, 1, "");
    assert_int_equal(start.resume, RESUME_NONE);
    token(20 * MS, 1, "COMMIT 1");
}

static void test_resume_restarts_on_the_next_link(void **state)
{
    begin_resuming(UNSET);
    failed(50 * MS, 1, FAILURE_FAULT, 0, "CANCEL 1, START 2>1");
    assert_int_equal(start.resume, RESUME_RESTART);
    wakes_at((50 + 2000) * MS);
    sent(60 * MS, 2);
    at(70 * MS, RELAY_HEAD, 2, "");
    token(80 * MS, 2, ""); /* may be what the client has */
    at(90 * MS, RELAY_JOINED, 2, "COMMIT 2");
    token(90 * MS, 2, "");
    at(100 * MS, RELAY_ENDED, 2, "END 2, RECORD");
    outcome_is(OUTCOME_OK);
    assert_true(entry(0)->is_served && entry(1)->is_served);
    assert_true(entry(0)->in_stream && entry(0)->cost_nusd > 0);
    assert_int_equal(relay_record(r)->waste_nusd, 0);
    assert_int_equal(relay_record(r)->ttft_us, 20 * MS);
    assert_int_equal(relay_record(r)->served_link, 1);
}

static void test_resume_counts_the_deadline_anew(void **state)
{
    begin_resuming(UNSET);
    route.deadline_ms = 10000;
    for (uint64_t ms = 900; ms < 30000; ms += 900)
        token(ms * MS, 1, "");
    failed(30000 * MS, 1, FAILURE_FAULT, 0, "CANCEL 1, START 2>1");
    time_is(32000 * MS, "CANCEL 2, START 3>2"); /* its budget */
    time_is(34000 * MS, "");                    /* nobody is left: it goes on */
    wakes_at(40000 * MS);
    time_is(40000 * MS, "CANCEL 3, INSTREAM, RECORD");
    outcome_is(OUTCOME_SERVER_ERROR);
    assert_int_equal(answer.failure.outcome, OUTCOME_SERVER_ERROR);
}

static void test_resume_by_prefill_and_its_refusal(void **state)
{
    begin_resuming(YES);
    failed(50 * MS, 1, FAILURE_FAULT, 0, "CANCEL 1, START 2>1");
    assert_int_equal(start.resume, RESUME_PREFILL);
    failed(60 * MS, 2, FAILURE_COMPAT, 400, "CANCEL 2, START 3>1");
    assert_int_equal(start.resume, RESUME_RESTART);
    failed(70 * MS, 3, FAILURE_CLIENT, 400, "CANCEL 3, START 4>2"); /* its own refusal is no answer */
    assert_int_equal(start.resume, RESUME_PREFILL);
    failed(80 * MS, 4, FAILURE_OVERLOAD, 503, "CANCEL 4, INSTREAM, RECORD");
    assert_int_equal(answer.failure.outcome, OUTCOME_SERVER_ERROR);
    outcome_is(OUTCOME_SERVER_ERROR);
    assert_true(relay_record(r)->waste_nusd >= 0 && !entry(1)->is_served);
}

static void test_resume_an_end_that_meets_nothing(void **state)
{
    begin_resuming(UNSET);
    failed(50 * MS, 1, FAILURE_FAULT, 0, "CANCEL 1, START 2>1");
    token(60 * MS, 2, "");
    at(70 * MS, RELAY_ENDED, 2, "CANCEL 2, START 3>2");
    entry_is(1, OUTCOME_INCOMPATIBLE);
    assert_true(entry(1)->waste_nusd > 0);
}

/* Each is told at once, as if the route did not resume. */
static void test_resume_has_its_limits(void **state)
{
    static const struct event untold[] = {{.kind = EVENT_TOOL_START, .is_token = true},
                                          {.kind = EVENT_REASONING, .is_token = true, .text_bytes = 1},
                                          {.kind = EVENT_FINISH},
                                          {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 992}};
    for (size_t i = 0; i < RM_COUNTOF(untold); i++) {
        begin_resuming(YES);
        feed((struct relay_event){.kind = RELAY_OUTPUT, .now_us = T0 + 30 * MS, .n = 1, .event = &untold[i]}, "");
        failed(50 * MS, 1, FAILURE_FAULT, 0, "CANCEL 1, INSTREAM, RECORD");
    }
    call.n = 2;
    begin_resuming(YES);
    failed(50 * MS, 1, FAILURE_FAULT, 0, "CANCEL 1, INSTREAM, RECORD");
}

/* ---- hedging ---- */

static void begin_hedged(size_t n_links)
{
    set_links(n_links);
    route.hedge =
        (struct hedge_conf){.is_on = true, .after_ms = 500, .max_extra_permyriad = 10000, .max_per_minute = 60};
    struct attempt_record paid = {.is_started = true, .outcome = OUTCOME_OK, .cost_nusd = 100000};
    struct request_record earlier = {.attempts = &paid, .n_attempts = 1};
    for (int i = 0; i < 100; i++)
        hedge_settle(hedges, &route, &earlier, T0);
    begin("START 1>0");
    sent(5 * MS, 1);
    wakes_at(500 * MS);
    time_is(500 * MS, "START 2>1");
    assert_int_equal(entry(1)->kind, ATTEMPT_HEDGE);
    sent(505 * MS, 2);
    wakes_at(2000 * MS);
}

static void test_hedge_wins(void **state)
{
    begin_hedged(2);
    at(520 * MS, RELAY_HEAD, 2, "");
    token(600 * MS, 2, "CANCEL 1, COMMIT 2");
    token(610 * MS, 1, ""); /* too late, and nobody hears it */
    usage(650 * MS, 2, 10, 1);
    at(700 * MS, RELAY_ENDED, 2, "END 2, RECORD");
    outcome_is(OUTCOME_OK);
    entry_is(0, OUTCOME_HEDGE_LOST);
    assert_true(!entry(0)->is_served && entry(0)->waste_nusd > 0 && entry(0)->waste_nusd == entry(0)->cost_nusd);
    assert_true(entry(1)->is_served && entry(1)->waste_nusd == 0);
    assert_int_equal(relay_record(r)->served_link, 1);
    assert_int_equal(relay_record(r)->ttft_us, 600 * MS);
    assert_string_equal(entry(0)->decision,
                        "attempt 2 had the first token; billed for input and output so far (assumed)");
    assert_string_equal(entry(1)->decision, "beside attempt 1, without a token after 500 ms");
    assert_int_equal(registry_state(reg, links[0].target_id, T0 + 700 * MS), HEALTH_CLOSED);
}

static void test_hedge_loses(void **state)
{
    begin_hedged(2);
    token(600 * MS, 1, "CANCEL 2, COMMIT 1");
    at(700 * MS, RELAY_ENDED, 1, "END 1, RECORD");
    entry_is(0, OUTCOME_OK);
    entry_is(1, OUTCOME_HEDGE_LOST);
    assert_int_equal(relay_record(r)->served_link, 0);
}

/* Either may fail; the other goes on, and after it the rest of the chain. */
static void test_hedge_and_failures(void **state)
{
    begin_hedged(3);
    failed(600 * MS, 1, FAILURE_FAULT, 500, "CANCEL 1"); /* no retry: the hedge is its retry */
    wakes_at(2500 * MS);
    failed(700 * MS, 2, FAILURE_CLIENT, 400, "CANCEL 2, START 3>2"); /* a later link's 400 */
    token(800 * MS, 3, "COMMIT 3");
    at(900 * MS, RELAY_ENDED, 3, "END 3, RECORD");
    outcome_is(OUTCOME_OK);
    begin_hedged(2);
    failed(600 * MS, 2, FAILURE_CLIENT, 400, "CANCEL 2");
    failed(700 * MS, 1, FAILURE_CLIENT, 400, "CANCEL 1, ANSWER, RECORD"); /* the first link's 400 */
    outcome_is(OUTCOME_CLIENT_ERROR);
    begin_hedged(2);
    failed(600 * MS, 1, FAILURE_CLIENT, 400, "CANCEL 1, CANCEL 2, ANSWER, RECORD");
    entry_is(1, OUTCOME_HEDGE_LOST);
}

static void test_hedge_budgets(void **state)
{
    begin_hedged(2);
    time_is(2000 * MS, "CANCEL 1"); /* its budget; the other one goes on */
    entry_is(0, OUTCOME_TTFT_TIMEOUT);
    wakes_at(2500 * MS);
    time_is(2500 * MS, ""); /* nobody is left */
    wakes_at(10000 * MS);
    time_is(10000 * MS, "CANCEL 2, ANSWER, RECORD");
    entry_is(1, OUTCOME_DEADLINE);
}

static void test_hedge_ends_with_its_request(void **state)
{
    begin_hedged(2);
    at(600 * MS, RELAY_CLIENT_GONE, 0, "CANCEL 1, CANCEL 2, RECORD");
    entry_is(0, OUTCOME_CLIENT_CANCELLED);
    entry_is(1, OUTCOME_CLIENT_CANCELLED);
    begin_hedged(2);
    at(600 * MS, RELAY_DRAIN, 0, "CANCEL 1, CANCEL 2, ANSWER, RECORD");
}

static void test_hedge_that_cannot_be_written(void **state)
{
    begin_hedged(3);
    feed((struct relay_event){.kind = RELAY_UNBUILDABLE, .now_us = T0 + 505 * MS, .n = 2, .why = "no"}, "");
    wakes_at(505 * MS);
    time_is(505 * MS, "START 3>2");
    token(600 * MS, 1, "CANCEL 3, COMMIT 1");
}

/* As late as one in twenty of this target's, once that is known. */
static void test_hedge_after_p95(void **state)
{
    struct latency *history = latency_new(1);
    env.latency = latency_core(history, 0);
    set_links(2);
    route.hedge = (struct hedge_conf){.is_on = true, .max_extra_permyriad = 10000, .max_per_minute = 60};
    route.ttft_auto = (struct auto_conf){.min_ms = 10, .max_ms = 30000, .min_samples = 200};
    for (uint64_t i = 0; i < 30; i++) {
        begin("START 1>0");
        assert_int_equal(relay_wake_us(r), T0 + 2000 * MS); /* not known yet, or not merged */
        token((i + 1) * MS, 1, "COMMIT 1");
        usage((i + 1) * MS, 1, 10, 10);
        at(200 * MS, RELAY_ENDED, 1, "END 1, RECORD");
    }
    for (uint64_t i = 0; i < 70; i++) {
        begin("START 1>0");
        token(100 * MS, 1, "COMMIT 1");
        at(200 * MS, RELAY_ENDED, 1, "END 1, RECORD");
    }
    struct relay_start later = {.config = &config,
                                .route = &route,
                                .directive = &directive,
                                .call = &call,
                                .id = 1,
                                .now_us = T0 + 5000 * MS,
                                .key = "",
                                .dialect = "openai",
                                .trace_id = ""};
    r = relay_new(&arena, &env, &later);
    feed((struct relay_event){.kind = RELAY_START, .now_us = T0 + 5000 * MS}, "START 1>0");
    uint64_t after = relay_wake_us(r) - (T0 + 5000 * MS);
    assert_in_range(after, 97 * MS, 103 * MS);
    feed((struct relay_event){.kind = RELAY_TIME, .now_us = relay_wake_us(r)}, "START 2>1");
    feed((struct relay_event){.kind = RELAY_CLIENT_GONE, .now_us = T0 + 5200 * MS}, "CANCEL 1, CANCEL 2, RECORD");
    latency_free(history);
}

static void test_hedge_keeps_its_caps(void **state)
{
    set_links(2);
    route.hedge = (struct hedge_conf){.is_on = true, .after_ms = 500, .max_extra_permyriad = 200, .max_per_minute = 60};
    begin("START 1>0");
    time_is(500 * MS, ""); /* nothing was spent yet that 2 % of could pay for it */
    token(600 * MS, 1, "COMMIT 1");
    at(700 * MS, RELAY_ENDED, 1, "END 1, RECORD");
    assert_int_equal(relay_record(r)->n_attempts, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
/* Told the short way: a head, and what a whole answer is made of; nothing that an action or a clock hangs on. */
static void test_what_is_only_noted(void **state)
{
    struct event word = {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 9};
    struct failure f = failure_of(FAILURE_OVERLOAD, 0);
    struct event bad[] = {word, {.kind = EVENT_ERROR, .failure = &f}};
    struct relay_event head = {.kind = RELAY_HEAD, .now_us = T0 + 20 * MS, .n = 1, .status = 200};
    struct relay_event output = {.kind = RELAY_OUTPUT, .now_us = T0 + 30 * MS, .n = 1, .event = &word};
    call.is_stream = false;
    links[0].supports.stream_usage = NO; /* asked for whole: 5 s for all of it */
    begin("START 1>0");
    sent(10 * MS, 1);
    assert_true(relay_tell(r, &head));
    assert_int_equal(relay_record(r)->attempts[0].first_byte_us, 20 * MS);
    wakes_at(5000 * MS);
    head.n = 2;
    assert_false(relay_tell(r, &head));
    assert_true(relay_tell(r, &output));
    assert_int_equal(relay_record(r)->attempts[0].ttft_us, 30 * MS);
    wakes_at(1030 * MS); /* idle time runs now */
    output.event = bad;
    output.n_further = 1;
    assert_false(relay_tell(r, &output));
    output.event = &word;
    output.n_further = 0;
    output.now_us = T0 + 1030 * MS; /* exactly at its time */
    assert_true(relay_tell(r, &output));
    output.now_us = T0 + 2030 * MS + 1;
    assert_false(relay_tell(r, &output));
    at(2000 * MS, RELAY_ENDED, 1, "COMMIT 1, END 1, RECORD");
    assert_false(relay_tell(r, &output));
}

static void test_a_token_that_opens_the_gate_is_fed(void **state)
{
    struct event word = {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 9};
    struct relay_event output = {.kind = RELAY_OUTPUT, .now_us = T0 + 30 * MS, .n = 1, .event = &word};
    begin("START 1>0");
    sent(10 * MS, 1);
    assert_false(relay_tell(r, &output));
    token(30 * MS, 1, "COMMIT 1");
}

static void test_beside_a_hedge_all_is_fed(void **state)
{
    struct event word = {.kind = EVENT_TEXT, .is_token = true, .text_bytes = 9};
    struct relay_event head = {.kind = RELAY_HEAD, .now_us = T0 + 900 * MS, .n = 1, .status = 200};
    struct relay_event output = {.kind = RELAY_OUTPUT, .now_us = T0 + 50 * MS, .n = 1, .event = &word};
    call.is_stream = false;
    route.hedge =
        (struct hedge_conf){.is_on = true, .after_ms = 500, .max_extra_permyriad = 10000, .max_per_minute = 60};
    begin("START 1>0");
    sent(10 * MS, 1);
    wakes_at(500 * MS);
    assert_false(relay_tell(r, &output)); /* planned */
    begin_hedged(2);
    assert_false(relay_tell(r, &head)); /* out */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_serves),
        TEST(test_budget_exact),
        TEST(test_budget_cut),
        TEST(test_prices_of_their_moment),
        TEST(test_service_that_was_asked_for),
        TEST(test_token_after_budget_is_late),
        TEST(test_not_connected_is_connect_timeout),
        TEST(test_unacked_reused_is_connect_timeout),
        TEST(test_reach_may_be_told_late),
        TEST(test_last_link_goes_on_to_the_deadline),
        TEST(test_last_link_late_answer),
        TEST(test_open_link_does_not_cut_the_running_one),
        TEST(test_non_stream_commits_whole),
        TEST(test_non_stream_idle_before_commit),
        TEST(test_total_budget),
        TEST(test_empty_answer),
        TEST(test_sticky),
        TEST(test_idle_and_pause),
        TEST(test_short_way),
        TEST(test_error_event_inside_200),
        TEST(test_events_together),
        TEST(test_events_behind_an_error),
        TEST(test_retry_quick_500),
        TEST(test_no_retry),
        TEST(test_retry_broken_connection),
        TEST(test_refused_is_not_retried),
        TEST(test_wait_for_hint),
        TEST(test_hint_too_long),
        TEST(test_repair),
        TEST(test_max_attempts),
        TEST(test_replay_counts_nowhere),
        TEST(test_client_error_goes_back),
        TEST(test_client_error_of_a_later_link),
        TEST(test_auth),
        TEST(test_auth_opted_in),
        TEST(test_not_found),
        TEST(test_context_length),
        TEST(test_skips),
        TEST(test_nobody_is_capable),
        TEST(test_all_off),
        TEST(test_state_stays),
        TEST(test_single_is_never_skipped),
        TEST(test_single_by_routing),
        TEST(test_order_ttft_deadline),
        TEST(test_unbuildable),
        TEST(test_sole_candidate_is_gone_back_to),
        TEST(test_open_is_skipped_and_all_red),
        TEST(test_trial_of_a_client_who_leaves),
        TEST(test_one_failure_per_request),
        TEST(test_client_short_budget_is_no_fault),
        TEST(test_breaker_off),
        TEST(test_heartbeat),
        TEST(test_client_gone),
        TEST(test_client_gone_after_commit),
        TEST(test_client_gone_comes_before_clocks),
        TEST(test_drain),
        TEST(test_deadline_while_waiting),
        TEST(test_failure_at_the_deadline),
        TEST(test_repair_past_the_budget),
        TEST(test_unknown_price),
        TEST(test_what_is_only_noted),
        TEST(test_a_token_that_opens_the_gate_is_fed),
        TEST(test_beside_a_hedge_all_is_fed),
        TEST(test_hedge_wins),
        TEST(test_hedge_loses),
        TEST(test_hedge_and_failures),
        TEST(test_hedge_budgets),
        TEST(test_hedge_ends_with_its_request),
        TEST(test_hedge_that_cannot_be_written),
        TEST(test_hedge_after_p95),
        TEST(test_hedge_keeps_its_caps),
        TEST(test_resume_restarts_on_the_next_link),
        TEST(test_resume_counts_the_deadline_anew),
        TEST(test_resume_by_prefill_and_its_refusal),
        TEST(test_resume_an_end_that_meets_nothing),
        TEST(test_resume_has_its_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

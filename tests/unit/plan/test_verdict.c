/* The table of what follows from a failure, row by row. */
#include "unit.h"

#include "plan/verdict.h"

static struct route_conf route = {.failover_on = {.has_default = true}};

static struct failure failure(enum outcome o, enum failure_class class, uint16_t status)
{
    struct failure f;
    failure_make(&f, o, "x");
    f.class = class;
    f.status = status;
    return f;
}

static struct verdict_ask ask_of(const struct failure *f)
{
    return (struct verdict_ask){.failure = f,
                                .route = &route,
                                .may_again = true,
                                .may_retry = true,
                                .may_wait = true,
                                .left_us = 10000000,
                                .head_us = -1,
                                .budget_us = 2000000};
}

static void test_table(void **state)
{
    static const struct {
        enum outcome o;
        enum failure_class class;
        uint16_t status;
        enum step first, later;
        enum effect effect;
    } t[] = {
        {OUTCOME_RATE_LIMITED, FAILURE_RATE, 429, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_OVERLOADED, FAILURE_OVERLOAD, 503, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_QUOTA_EXHAUSTED, FAILURE_QUOTA, 400, STEP_NEXT, STEP_NEXT, EFFECT_QUOTA},
        {OUTCOME_AUTH_ERROR, FAILURE_AUTH, 401, STEP_RETURN, STEP_NEXT, EFFECT_AUTH},
        {OUTCOME_NOT_FOUND, FAILURE_NOTFOUND, 404, STEP_RETURN, STEP_NEXT, EFFECT_NOT_FOUND},
        {OUTCOME_SERVER_ERROR, FAILURE_FAULT, 504, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_CONNECT_ERROR, FAILURE_FAULT, 0, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_CONNECT_TIMEOUT, FAILURE_FAULT, 0, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_TTFT_TIMEOUT, FAILURE_FAULT, 0, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_TOTAL_TIMEOUT, FAILURE_FAULT, 0, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_IDLE_TIMEOUT, FAILURE_FAULT, 0, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_DEADLINE, FAILURE_FAULT, 0, STEP_RETURN, STEP_RETURN, EFFECT_COUNTS},
        {OUTCOME_STREAM_ERROR, FAILURE_FAULT, 0, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_PROTOCOL_ERROR, FAILURE_FAULT, 200, STEP_NEXT, STEP_NEXT, EFFECT_COUNTS},
        {OUTCOME_CLIENT_ERROR, FAILURE_CLIENT, 400, STEP_RETURN, STEP_NEXT, EFFECT_NEUTRAL},
        {OUTCOME_CONTENT_POLICY, FAILURE_POLICY, 400, STEP_RETURN, STEP_NEXT, EFFECT_NEUTRAL},
        {OUTCOME_INCOMPATIBLE, FAILURE_COMPAT, 422, STEP_RETURN, STEP_NEXT, EFFECT_NEUTRAL},
        {OUTCOME_CONTEXT_LENGTH, FAILURE_CONTEXT, 413, STEP_NEXT, STEP_NEXT, EFFECT_NEUTRAL},
    };
    for (size_t i = 0; i < RM_COUNTOF(t); i++) {
        struct failure f = failure(t[i].o, t[i].class, t[i].status);
        struct verdict_ask ask = ask_of(&f);
        struct verdict v = verdict_of(&ask);
        assert_int_equal(v.step, t[i].first);
        assert_int_equal(v.effect, t[i].effect);
        assert_int_equal(v.is_larger_only, t[i].o == OUTCOME_CONTEXT_LENGTH);
        ask.is_later = true;
        assert_int_equal(verdict_of(&ask).step, t[i].later);
    }
}

static void test_retry(void **state)
{
    struct failure f = failure(OUTCOME_SERVER_ERROR, FAILURE_FAULT, 500);
    struct verdict_ask ask = ask_of(&f);
    ask.head_us = 500000; /* exactly min(500 ms, 2 s / 4) */
    assert_int_equal(verdict_of(&ask).step, STEP_RETRY);
    ask.head_us = 500001;
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT);
    ask.head_us = 100001;
    ask.budget_us = 400000;
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT);
    ask.head_us = 100000;
    assert_int_equal(verdict_of(&ask).step, STEP_RETRY);
    f.status = 504;
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT);
    f.status = 502;
    ask.may_retry = false;
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT);
    f = failure(OUTCOME_CONNECT_ERROR, FAILURE_FAULT, 0);
    ask = ask_of(&f);
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT); /* refused */
    f.is_established = true;
    assert_int_equal(verdict_of(&ask).step, STEP_RETRY);
    ask.may_again = false;
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT);
}

static void test_wait(void **state)
{
    struct failure f = failure(OUTCOME_RATE_LIMITED, FAILURE_RATE, 429);
    struct verdict_ask ask = ask_of(&f);
    f.retry_after_ms = 500;
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT); /* 0 = off */
    assert_int_equal(verdict_of(&ask).effect, EFFECT_HINT);
    route.wait_retry_after_ms = 500;
    assert_int_equal(verdict_of(&ask).step, STEP_WAIT);
    ask.left_us = 500000;
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT);
    ask.left_us = 500001;
    assert_int_equal(verdict_of(&ask).step, STEP_WAIT);
    f.retry_after_ms = 501;
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT);
    route.wait_retry_after_ms = 0;
}

static void test_repair(void **state)
{
    struct failure f = failure(OUTCOME_INCOMPATIBLE, FAILURE_COMPAT, 400);
    struct verdict_ask ask = ask_of(&f);
    assert_int_equal(verdict_of(&ask).step, STEP_RETURN);
    f.quirk = QUIRK_NO_STREAM_OPTIONS;
    assert_int_equal(verdict_of(&ask).step, STEP_REPAIR);
    ask.quirks = QUIRK_NO_STREAM_OPTIONS;
    assert_int_equal(verdict_of(&ask).step, STEP_RETURN);
}

static void test_failover_on(void **state)
{
    struct failure f = failure(OUTCOME_AUTH_ERROR, FAILURE_AUTH, 401);
    struct verdict_ask ask = ask_of(&f);
    route.failover_on.outcomes[OUTCOME_AUTH_ERROR] = true;
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT);
    route.failover_on = (struct failover_on){.statuses = {503}, .n_statuses = 1};
    assert_int_equal(verdict_of(&ask).step, STEP_RETURN);
    f = failure(OUTCOME_OVERLOADED, FAILURE_OVERLOAD, 503);
    assert_int_equal(verdict_of(&ask).step, STEP_NEXT);
    f = failure(OUTCOME_TTFT_TIMEOUT, FAILURE_FAULT, 0);
    assert_int_equal(verdict_of(&ask).step, STEP_RETURN); /* replaced, not added to */
    route.failover_on = (struct failover_on){.has_default = true};
}

static void test_status(void **state)
{
    struct failure f = failure(OUTCOME_TTFT_TIMEOUT, FAILURE_FAULT, 0);
    assert_int_equal(verdict_status(&f), 504);
    f = failure(OUTCOME_SERVER_ERROR, FAILURE_FAULT, 500);
    assert_int_equal(verdict_status(&f), 502);
    f = failure(OUTCOME_AUTH_ERROR, FAILURE_AUTH, 401);
    assert_int_equal(verdict_status(&f), 502);
    f = failure(OUTCOME_CLIENT_ERROR, FAILURE_CLIENT, 422);
    assert_int_equal(verdict_status(&f), 422);
    f = failure(OUTCOME_CLIENT_ERROR, FAILURE_CLIENT, 403);
    assert_int_equal(verdict_status(&f), 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table),       cmocka_unit_test(test_retry),
                                       cmocka_unit_test(test_wait),        cmocka_unit_test(test_repair),
                                       cmocka_unit_test(test_failover_on), cmocka_unit_test(test_status)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

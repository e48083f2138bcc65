#include "unit.h"

#include "plan/candidate.h"

static struct provider_conf pa = {.name = "pa"}, pb = {.name = "pb"};
static struct link_conf a, b;
static struct route_conf route;
static struct call call;

static int setup(void **state)
{
    a = (struct link_conf){.provider = &pa, .model = "m"};
    b = (struct link_conf){.provider = &pb, .model = "m"};
    call = (struct call){.max_tokens = -1, .n = 1};
    route = (struct route_conf){.upstream_stream = UPSTREAM_AUTO};
    pa.is_off = pb.is_off = false;
    return 0;
}

static enum outcome skip_now(void)
{
    return candidate_of(&call, &b, &a, true).skip;
}

static void test_supports(void **state)
{
    assert_int_equal(skip_now(), OUTCOME_OK);
    call.has_tools = true;
    assert_int_equal(skip_now(), OUTCOME_OK); /* unset: asked */
    b.supports.tools = NO;
    assert_int_equal(skip_now(), OUTCOME_SKIPPED_INCAPABLE);
    pb.is_off = true;
    assert_int_equal(skip_now(), OUTCOME_SKIPPED_OFF);
}

static void test_window(void **state)
{
    b.context_window = 1100;
    call.prompt_bytes = 4000;
    assert_int_equal(skip_now(), OUTCOME_OK); /* 1000 + 100 */
    call.prompt_bytes = 4001;
    assert_int_equal(skip_now(), OUTCOME_SKIPPED_INCAPABLE); /* 1001 + 100 */
    b.context_window = 0;
    assert_int_equal(skip_now(), OUTCOME_OK);
}

static void test_output_limit(void **state)
{
    b.max_output = 100;
    call.max_tokens = 101;
    assert_int_equal(skip_now(), OUTCOME_OK); /* clamped */
    b.adjust = ADJUST_SKIP;
    assert_int_equal(skip_now(), OUTCOME_SKIPPED_INCAPABLE);
    call.max_tokens = 100;
    assert_int_equal(skip_now(), OUTCOME_OK);
}

static void test_state(void **state)
{
    call.state = BYTES("resp_1");
    assert_int_equal(skip_now(), OUTCOME_SKIPPED_STATE);
    assert_int_equal(candidate_of(&call, &a, &a, true).skip, OUTCOME_OK);
}

static void test_stream(void **state)
{
    assert_true(candidate_is_stream(&call, &route, &a));
    a.supports.stream_usage = NO;
    assert_false(candidate_is_stream(&call, &route, &a));
    route.upstream_stream = UPSTREAM_ON;
    assert_true(candidate_is_stream(&call, &route, &a));
    call.n = 2;
    assert_false(candidate_is_stream(&call, &route, &a));
    call.is_stream = true;
    assert_true(candidate_is_stream(&call, &route, &a));
    call.is_stream = false;
    call.n = 1;
    assert_true(candidate_is_stream(&call, &route, &a));
    call.needs_whole = true;
    assert_false(candidate_is_stream(&call, &route, &a));
    call.needs_whole = false;
    route.upstream_stream = UPSTREAM_OFF;
    assert_false(candidate_is_stream(&call, &route, &b));
}

#define TEST(f) cmocka_unit_test_setup(f, setup)
int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_supports), TEST(test_window), TEST(test_output_limit),
                                       TEST(test_state), TEST(test_stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

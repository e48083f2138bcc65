#include "unit.h"

#include "plan/directive.h"

static struct provider_conf pa = {.name = "pa"}, pb = {.name = "pb"};
static struct link_conf links[] = {
    {.provider = &pa, .model = "org/big", .ttft_budget_ms = 2000, .index = 0},
    {.provider = &pb, .model = "small", .ttft_budget_ms = 5000, .index = 1},
    {.provider = &pa, .model = "mini", .ttft_budget_ms = 1000, .index = 2},
};
static struct route_conf route = {
    .model = "r", .links = links, .n_links = 3, .deadline_ms = 9000, .client_routing = 15};

static enum err parse(struct arena *a, const char *routing, const char *cache, struct directive *d, const char **why)
{
    struct field f[2];
    struct fields fields = {.v = f, .n = 0};
    if (routing)
        f[fields.n++] = (struct field){BYTES("X-Routing"), bytes_of(routing)};
    if (cache)
        f[fields.n++] = (struct field){BYTES("x-cache"), bytes_of(cache)};
    *why = "";
    return directive_parse(&fields, &route, a, d, why);
}

static void test_all_of_it(void **state)
{
    struct arena a = {0};
    struct directive d;
    const char *why;
    assert_int_equal(parse(&a, "order: pb , pa/mini ;ttft:100;  deadline:9000 ; fallback:off", "ttl=300", &d, &why),
                     ERR_OK);
    assert_int_equal(d.n_order, 2);
    assert_ptr_equal(d.order[0], &links[1]);
    assert_ptr_equal(d.order[1], &links[2]);
    assert_int_equal(d.ttft_ms, 100);
    assert_int_equal(d.deadline_ms, 9000);
    assert_true(d.fallback_off);
    assert_int_equal(d.cache_ttl_s, 300);
    assert_int_equal(parse(&a, NULL, NULL, &d, &why), ERR_OK);
    assert_null(d.order);
    assert_int_equal(parse(&a, "order:pa/org/big", NULL, &d, &why), ERR_OK);
    assert_ptr_equal(d.order[0], &links[0]);
    assert_int_equal(parse(&a, "ttft:5000", NULL, &d, &why), ERR_OK);
    arena_fini(&a);
}

static void test_refusals(void **state)
{
    static const char *const bad[] = {"",
                                      ";",
                                      "order:",
                                      "order:pc",
                                      "order:pa,",
                                      "order:pa,pa",
                                      "ttft:99",
                                      "ttft:5001",
                                      "ttft:1e3",
                                      "ttft:-1",
                                      "deadline:0",
                                      "deadline:9001",
                                      "fallback:maybe",
                                      "fallback",
                                      "speed:9",
                                      "ttft:200;ttft:200",
                                      "order:pa/none",
                                      "ttft:200;"};
    struct arena a = {0};
    struct directive d;
    const char *why;
    for (size_t i = 0; i < RM_COUNTOF(bad); i++) {
        if (parse(&a, bad[i], NULL, &d, &why) == ERR_OK)
            fail_msg("accepted '%s'", bad[i]);
        assert_true(strlen(why) > 0);
    }
    assert_int_equal(parse(&a, "order:pc", NULL, &d, &why), ERR_SYNTAX);
    assert_non_null(strstr(why, "'pc'"));
    assert_non_null(strstr(why, "pb/small"));
    assert_int_not_equal(parse(&a, NULL, "ttl=0", &d, &why), ERR_OK);
    assert_int_not_equal(parse(&a, NULL, "300", &d, &why), ERR_OK);
    route.client_routing = CLIENT_ORDER;
    assert_int_not_equal(parse(&a, "ttft:200", NULL, &d, &why), ERR_OK);
    route.client_routing = 15;
    arena_fini(&a);
}

static void test_second_header(void **state)
{
    struct arena a = {0};
    struct field f[] = {{BYTES("x-routing"), BYTES("ttft:200")}, {BYTES("X-ROUTING"), BYTES("ttft:200")}};
    struct fields fields = {.v = f, .n = 2};
    struct directive d;
    const char *why;
    assert_int_equal(directive_parse(&fields, &route, &a, &d, &why), ERR_SYNTAX);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_of_it), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_second_header)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

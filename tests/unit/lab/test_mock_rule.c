/* Rows of faults, orders, the request limit and the prefill: who gets what, without a socket. */
#include "unit.h"

#include "base/check.h"
#include "lab/mock_order.h"
#include "lab/mock_prefill.h"
#include "lab/mock_quota.h"

static struct mock_order order(const char *json, struct arena *a)
{
    struct mock_order o;
    const char *why = mock_order_read(bytes_of(json), true, a, &o);
    if (why != NULL)
        fail_msg("%s: %s", json, why);
    return o;
}

/* The status of the row that request n gets at that time; 0 = none. */
static unsigned pick(struct mock_order *o, uint64_t n, uint64_t ms, const char *model)
{
    struct rng r = {n};
    struct rule_facts facts = {n, ms, bytes_of(model)};
    const struct rule *row = rules_pick(o->v, o->n, &facts, &r);
    return row != NULL ? row->fault.status : 0;
}

static void first_row_that_applies(void **state)
{
    struct arena a = {0};
    struct mock_order o =
        order("{\"faults\":[{\"fault\":\"501\",\"model\":\"x\"},{\"fault\":\"502\",\"from_s\":1.5,\"to_s\":3},"
              "{\"fault\":\"503\",\"requests\":[2,\"5-6\"]},{\"fault\":\"504\",\"times\":2}]}",
              &a);
    assert_int_equal(pick(&o, 1, 0, "x"), 501);
    assert_int_equal(pick(&o, 1, 1500, "x"), 501);
    assert_int_equal(pick(&o, 1, 1500, "m"), 502);
    assert_int_equal(pick(&o, 1, 2999, "m"), 502);
    assert_int_equal(pick(&o, 2, 1499, "m"), 503);
    assert_int_equal(pick(&o, 5, 3000, "m"), 503);
    assert_int_equal(pick(&o, 6, 3000, "m"), 503);
    assert_int_equal(pick(&o, 7, 3000, "m"), 504);
    assert_int_equal(pick(&o, 4, 3000, "m"), 504);
    assert_int_equal(pick(&o, 8, 3000, "m"), 0); /* two times, then spent */
    arena_fini(&a);
}

static void words_with_commas_are_spent_in_turn(void **state)
{
    struct arena a = {0};
    struct mock_order o = order("{\"fault\":\"503,ok,504\"}", &a);
    assert_int_equal(pick(&o, 1, 0, "m"), 503);
    assert_int_equal(pick(&o, 2, 0, "m"), 0);
    assert_int_equal(pick(&o, 3, 0, "m"), 504);
    assert_int_equal(pick(&o, 4, 0, "m"), 504);
    arena_fini(&a);
}

static void all_conditions_of_a_row_must_hold(void **state)
{
    struct arena a = {0};
    struct mock_order o =
        order("{\"fault\":\"503\",\"model\":\"x\",\"requests\":\"2-3\",\"to_s\":1,\"probability\":1,\"times\":1}", &a);
    assert_int_equal(pick(&o, 2, 0, "m"), 0);
    assert_int_equal(pick(&o, 1, 0, "x"), 0);
    assert_int_equal(pick(&o, 2, 1000, "x"), 0);
    assert_int_equal(pick(&o, 2, 999, "x"), 503);
    assert_int_equal(pick(&o, 3, 999, "x"), 0);
    o = order("{\"fault\":\"503\",\"probability\":0}", &a);
    assert_int_equal(pick(&o, 1, 0, "m"), 0);
    arena_fini(&a);
}

static void the_listener(void **state)
{
    struct arena a = {0};
    struct mock_order o =
        order("{\"faults\":[{\"fault\":\"429\",\"probability\":0.5},{\"fault\":\"refuse\",\"from_s\":10,"
              "\"to_s\":40},{\"fault\":\"503\",\"from_s\":30}]}",
              &a);
    assert_int_equal(rules_door(o.v, o.n, 9999), FAULT_NONE);
    assert_int_equal(rules_next_change(o.v, o.n, 0), 10000);
    assert_int_equal(rules_door(o.v, o.n, 10000), FAULT_REFUSE);
    assert_int_equal(rules_next_change(o.v, o.n, 10000), 30000);
    assert_int_equal(rules_door(o.v, o.n, 39999), FAULT_REFUSE);
    assert_int_equal(rules_door(o.v, o.n, 40000), FAULT_NONE);
    assert_true(rules_next_change(o.v, o.n, 40000) == UINT64_MAX);
    o = order("{\"faults\":[{\"fault\":\"503\",\"to_s\":20},{\"fault\":\"refuse\"}]}", &a);
    assert_int_equal(rules_door(o.v, o.n, 0), FAULT_NONE); /* the first row goes before it */
    assert_int_equal(rules_door(o.v, o.n, 20000), FAULT_REFUSE);
    o = order("{\"faults\":[{\"fault\":\"deaf\",\"to_s\":20},{\"fault\":\"refuse\"}]}", &a);
    assert_int_equal(rules_door(o.v, o.n, 0), FAULT_DEAF);
    assert_int_equal(rules_door(o.v, o.n, 20000), FAULT_REFUSE);
    o = order("{\"fault\":\"deaf\",\"requests\":[1]}", &a);
    assert_int_equal(rules_door(o.v, o.n, 0), FAULT_NONE);
    o = order("{\"fault\":\"refuse\",\"model\":\"x\"}", &a);
    assert_int_equal(rules_door(o.v, o.n, 0), FAULT_NONE);
    arena_fini(&a);
}

static void limits(void **state)
{
    struct quota q = {0};
    struct mock_rate_conf none = {.burst = 1}, c = {.per_s_milli = 2000, .burst = 3};
    for (int i = 0; i < 100; i++)
        assert_true(quota_take(&q, &none, 1000));
    for (int i = 0; i < 3; i++)
        assert_true(quota_take(&q, &c, 1000));
    assert_false(quota_take(&q, &c, 1000));
    assert_false(quota_take(&q, &c, 500999));
    assert_true(quota_take(&q, &c, 501000)); /* two a second */
    assert_false(quota_take(&q, &c, 501000));
    uint64_t later = 501000 + UINT64_C(86400000000);
    for (int i = 0; i < 3; i++)
        assert_true(quota_take(&q, &c, later)); /* no more than the burst */
    assert_false(quota_take(&q, &c, later));
}

struct fit {
    const char *said;
    bool fits;
    int64_t first_word;
    const char *first_text; /* NULL = the word */
};

static void prefills(void **state)
{
    static const struct fit table[] = {{"", true, 0, NULL},
                                       {"  ", true, 0, NULL},
                                       {"one", true, 1, NULL},
                                       {"one ", true, 1, "two"},
                                       {"one t", true, 1, "wo"},
                                       {" one\n\ttwo", true, 2, NULL},
                                       {"one two three", true, 3, NULL},
                                       {"one two three one", true, 4, NULL},
                                       {"one two three one ", true, 4, NULL},
                                       {"one two three one t", false, 0, NULL},
                                       {"two", false, 0, NULL},
                                       {"one tw ", false, 0, NULL},
                                       {"one tw o", false, 0, NULL},
                                       {"onetwo", false, 0, NULL},
                                       {"one two!", false, 0, NULL}};
    struct arena a = {0};
    for (size_t i = 0; i < RM_COUNTOF(table); i++) {
        struct prefill_fit out;
        if (prefill_fits("one two three", 4, bytes_of(table[i].said), &a, &out) != table[i].fits)
            fail_msg("'%s'", table[i].said);
        if (!table[i].fits)
            continue;
        assert_int_equal(out.first_word, table[i].first_word);
        assert_true(table[i].first_text == NULL ? out.first_text.p == NULL
                                                : bytes_is(out.first_text, table[i].first_text));
    }
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_row_that_applies),
        cmocka_unit_test(words_with_commas_are_spent_in_turn),
        cmocka_unit_test(all_conditions_of_a_row_must_hold),
        cmocka_unit_test(the_listener),
        cmocka_unit_test(limits),
        cmocka_unit_test(prefills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* From hand-made samples to figures, deltas, claims and the timeline. */
#include "unit.h"

#include "base/mem.h"
#include "codec/json_tree.h"
#include "lab/result.h"
#include "lab/rounds.h"

#include <math.h>
#include <stdio.h>

static struct sample good(uint64_t due_ms, uint64_t ttft_ms, uint64_t total_ms, const char *provider)
{
    struct sample s = sample_none(0);
    s.due_us = s.start_us = due_ms * 1000;
    s.first_us = s.due_us + ttft_ms * 1000;
    s.end_us = s.due_us + total_ms * 1000;
    s.status = 200;
    s.attempts = 1;
    s.is_ok = true;
    s.input = 1400;
    s.output = 60;
    s.cost_nusd = 1000;
    s.waste_nusd = 0;
    snprintf(s.provider, sizeof s.provider, "%s", provider);
    return s;
}

static struct sample bad(uint64_t due_ms, const char *error)
{
    struct sample s = good(due_ms, 1, 2, "");
    s.first_us = 0;
    s.is_ok = false;
    snprintf(s.error, sizeof s.error, "%s", error);
    return s;
}

static double figure(const struct result *r, const char *name)
{
    const struct figure *f = figures_find(&r->figures, bytes_of(name));
    if (f == NULL)
        fail_msg("no figure %s", name);
    return f->value;
}

/* Every phase has ten requests in each of three rounds, `ms` to the first token. */
static void put(struct result *r, enum phase_id id, uint64_t ms, const char *provider)
{
    for (uint32_t round = 0; round < 3; round++)
        for (uint64_t i = 0; i < 10; i++) {
            struct sample s = good(i, ms + i, ms + i + 100, provider);
            s.round = round;
            phase_put(&r->phases[id], &s);
        }
}

static void deltas(void **state)
{
    struct result r = {.settings.ttft_budget_ms = 2000, .seed = 1};
    put(&r, PHASE_DIRECT, 100, "A");
    put(&r, PHASE_HEALTHY, 102, "A");
    put(&r, PHASE_DIRECT_B, 150, "B");
    put(&r, PHASE_HANG, 2155, "B");
    put(&r, PHASE_NAIVE, 4152, "B");
    put(&r, PHASE_COLD, 900, "B");
    put(&r, PHASE_WARM, 150, "B");
    result_close(&r);
    assert_true(figure(&r, "steady.ttft.p50.delta_ms") == 2);
    assert_true(figure(&r, "steady.total.p99.delta_ms") == 2);
    assert_true(figure(&r, "failover.ttft.p50.delta_ms") == 5);
    assert_true(figure(&r, "warm.ttft.p50.delta_ms") == -750);
    assert_true(figure(&r, "naive.ttft.p50.delta_ms") == 1997);
    assert_true(isnan(figure(&r, "rate_limited.ttft.p50.delta_ms")));
    assert_true(figure(&r, "hang.ttft.max_ms") == 2164);
    assert_true(figure(&r, "hang.n") == 30);
    assert_int_equal(r.claims[CLAIM_STEADY].verdict, CLAIM_FAILS); /* 2 ms in each round are no noise */
    assert_int_equal(r.claims[CLAIM_FAILOVER].verdict, CLAIM_HOLDS);
    assert_int_equal(r.claims[CLAIM_WARM].verdict, CLAIM_HOLDS);
    assert_int_equal(r.claims[CLAIM_NAIVE].verdict, CLAIM_HOLDS);
    assert_int_equal(r.claims[CLAIM_NO_ERRORS].verdict, CLAIM_HOLDS);
    result_fini(&r);
}

static void claims_can_fail(void **state)
{
    struct result r = {.settings.ttft_budget_ms = 2000, .seed = 1};
    struct sample broken = bad(1, "truncated");
    put(&r, PHASE_DIRECT_B, 150, "B");
    put(&r, PHASE_HANG, 2150 + CLAIM_FAILOVER_MS + 1, "B");
    put(&r, PHASE_COLD, 150, "B");
    put(&r, PHASE_WARM, 150, "B");
    put(&r, PHASE_NAIVE, 2000, "B");
    phase_put(&r.phases[PHASE_HANG], &broken);
    result_close(&r);
    assert_int_equal(r.claims[CLAIM_STEADY].verdict, CLAIM_NOT_MEASURED);
    assert_int_equal(r.claims[CLAIM_FAILOVER].verdict, CLAIM_FAILS);
    assert_int_equal(r.claims[CLAIM_WARM].verdict, CLAIM_FAILS);
    assert_int_equal(r.claims[CLAIM_NAIVE].verdict, CLAIM_FAILS);
    assert_int_equal(r.claims[CLAIM_NO_ERRORS].verdict, CLAIM_FAILS);
    result_fini(&r);
}

static void waste(void **state)
{
    struct result r = {.settings.ttft_budget_ms = 2000, .seed = 1};
    put(&r, PHASE_HEALTHY, 100, "A");
    put(&r, PHASE_HANG, 2100, "B");
    put(&r, PHASE_NAIVE, 4000, "B"); /* beside the gateway: not in its spend */
    for (size_t i = 0; i < r.phases[PHASE_HANG].n; i++) {
        r.phases[PHASE_HANG].v[i].cost_nusd = 1500;
        r.phases[PHASE_HANG].v[i].waste_nusd = 500;
    }
    result_close(&r);
    assert_true(fabs(figure(&r, "hang.waste.pct") - 100.0 / 3) < 1e-9);
    assert_true(figure(&r, "waste.pct") == 20);
    assert_true(r.waste_pct.low == 20 && r.waste_pct.high == 20); /* each round wastes as much */
    assert_int_equal(r.spend_nusd, 75000);
    assert_int_equal(r.claims[CLAIM_WASTE].verdict, CLAIM_HOLDS); /* 500 lost where a healthy one costs 1000 */
    assert_true(bytes_find(buf_bytes(&r.claims[CLAIM_WASTE].text), BYTES("wastes 50 %")) != SIZE_MAX);
    assert_true(bytes_find(buf_bytes(&r.claims[CLAIM_WASTE].text), BYTES("one request in 100 ")) != SIZE_MAX);
    r.phases[PHASE_HANG].v[0].waste_nusd += 30 * 501;
    result_close(&r);
    assert_int_equal(r.claims[CLAIM_WASTE].verdict, CLAIM_FAILS);
    r.phases[PHASE_HANG].v[0].waste_nusd -= 30 * 501;
    r.phases[PHASE_HANG].v[3].cost_nusd = NUSD_UNKNOWN;
    result_close(&r);
    assert_true(isnan(figure(&r, "waste.pct")));
    assert_int_equal(r.spend_nusd, NUSD_UNKNOWN);
    result_fini(&r);
}

static void counts(void **state)
{
    struct phase p = {0};
    struct sample v[] = {good(0, 10, 20, "A"), bad(1, "timeout"), bad(2, "timeout"), bad(3, "refused"),
                         good(4, 30, 40, "B")};
    for (size_t i = 0; i < RM_COUNTOF(v); i++)
        phase_put(&p, &v[i]);
    phase_close(&p);
    phase_close(&p); /* again, over the same */
    assert_int_equal(p.n_ok, 2);
    assert_int_equal(p.n_errors, 2);
    assert_string_equal(p.errors[0].word, "timeout");
    assert_int_equal(p.errors[0].n, 2);
    assert_int_equal(p.n_served, 2);
    assert_true(dist_percentile_ms(&p.ttft, 50) == 20);
    assert_int_equal(p.output, 300);
    phase_fini(&p);
}

/* More words than there is room for are still all counted. */
static void many_errors(void **state)
{
    struct phase p = {0};
    for (int i = 0; i < 40; i++) {
        char word[16];
        snprintf(word, sizeof word, "status_%d", 400 + i);
        struct sample s = bad(1, word);
        phase_put(&p, &s);
    }
    phase_close(&p);
    uint64_t sum = 0;
    for (size_t i = 0; i < p.n_errors; i++)
        sum += p.errors[i].n;
    assert_int_equal(sum, 40);
    assert_int_equal(p.n_errors, PHASE_WORDS_MAX);
    assert_string_equal(p.errors[PHASE_WORDS_MAX - 1].word, "other");
    phase_fini(&p);
}

static void timeline(void **state)
{
    struct outage o = {.bucket_ms = 500, .length_ms = 1700, .providers = {"A", "B"}, .n_providers = 2};
    struct sample v[] = {good(0, 100, 200, "A"), good(499, 300, 400, "A"), good(500, 2100, 2200, "B"),
                         bad(1600, "timeout")};
    struct outage_bucket b;
    for (size_t i = 0; i < RM_COUNTOF(v); i++)
        phase_put(&o.phase, &v[i]);
    assert_int_equal(outage_n_buckets(&o), 4);
    outage_read(&o, 0, &b);
    assert_int_equal(b.served[0], 2);
    assert_true(b.ttft_p50_ms == 200 && b.ttft_max_ms == 300);
    outage_read(&o, 1, &b);
    assert_int_equal(b.served[1], 1); /* where it was due, not where it ended */
    assert_true(b.ttft_max_ms == 2100);
    outage_read(&o, 2, &b);
    assert_true(isnan(b.ttft_p50_ms));
    outage_read(&o, 3, &b);
    assert_int_equal(b.errors, 1);
    phase_fini(&o.phase);
}

static void breaker_marks(void **state)
{
    struct outage o = {0};
    outage_mark(&o, 100, BYTES("A"), BYTES("closed"));
    outage_mark(&o, 200, BYTES("A"), BYTES("open"));
    outage_mark(&o, 300, BYTES("B"), BYTES("closed"));
    outage_mark(&o, 300, BYTES("A"), BYTES("open"));
    outage_mark(&o, 400, BYTES("A"), BYTES("trial"));
    outage_mark(&o, 500, BYTES("A"), BYTES("closed"));
    assert_int_equal(o.n_breaker, 3);
    assert_int_equal(o.breaker[0].at_ms, 200);
    assert_string_equal(o.breaker[1].state, "trial");
    assert_string_equal(o.breaker[2].state, "closed");
}

static void nearest(void **state)
{
    struct result r = {0};
    result_close(&r);
    assert_non_null(figures_find(&r.figures, BYTES("hang.ttft.p99_ms")));
    assert_null(figures_find(&r.figures, BYTES("hang.ttft.p98_ms")));
    assert_true(bytes_is(figures_nearest(&r.figures, BYTES("stedy.ttft.p50.delta_ms")), "steady.ttft.p50.delta_ms"));
    assert_string_equal(phase_nearest(BYTES("rate-limited")), "rate_limited");
    for (size_t i = 0; i < r.figures.n; i++)
        assert_true(isnan(r.figures.v[i].value));
    result_fini(&r);
}

static yyjson_val *parse(struct buf *b, struct arena *a)
{
    yyjson_val *root = NULL;
    assert_int_equal(json_tree_parse(buf_bytes(b), 32, a, &root), ERR_OK);
    return root;
}

static void json(void **state)
{
    struct result r = {.settings.ttft_budget_ms = 2000, .seed = 1, .partial_reason = "interrupted"};
    struct buf b = {0};
    struct arena a = {0};
    const char *why;
    put(&r, PHASE_DIRECT, 100, "A");
    put(&r, PHASE_HEALTHY, 102, "A");
    assert_true(expect_parse("steady.ttft.p50.delta_ms<=1", &r.expects[0], &why));
    r.n_expects = 1;
    result_close(&r);
    assert_int_equal(result_n_unmet(&r), 1);
    result_json(&r, &b);
    yyjson_val *root = parse(&b, &a), *phase = yyjson_arr_get_first(yyjson_obj_get(root, "phases"));
    assert_true(bytes_is(json_tree_str(root, "format"), "ringmain-bench/1"));
    assert_true(json_tree_bool(root, "is_partial", false));
    assert_int_equal(yyjson_arr_size(yyjson_obj_get(root, "phases")), 2);
    assert_true(bytes_is(json_tree_str(phase, "name"), "direct"));
    assert_int_equal(yyjson_arr_size(yyjson_obj_get(phase, "ttft_cdf_ms")), 201);
    assert_true(bytes_is(json_tree_str(phase, "cost_usd"), "0.000030000"));
    assert_true(yyjson_is_null(yyjson_obj_get(root, "timeline")));
    yyjson_val *e = yyjson_arr_get_first(yyjson_obj_get(root, "expect"));
    assert_false(json_tree_bool(e, "holds", true));
    assert_true(yyjson_is_null(yyjson_obj_get(yyjson_obj_get(root, "figures"), "hang.ttft.p50_ms")));
    buf_fini(&b);
    arena_fini(&a);
    result_fini(&r);
}

/* Rounds of another day give the same figures as if all had been measured at once. */
static void rounds_merge(void **state)
{
    struct result r = {.settings = {.ttft_budget_ms = 2000, .concurrency = 3}, .seed = 1};
    struct result again = {.settings = {.ttft_budget_ms = 2000, .concurrency = 3}, .seed = 1};
    struct sample broken = bad(5, "timeout");
    struct buf b = {0}, c = {0};
    const char *why;
    unsigned n = 0;
    put(&r, PHASE_DIRECT, 100, "A");
    put(&r, PHASE_HEALTHY, 103, "A");
    phase_put(&r.phases[PHASE_HEALTHY], &broken);
    r.phases[PHASE_DIRECT].v[0].cost_nusd = NUSD_UNKNOWN;
    rounds_json(&r, 3, &b);
    assert_true(rounds_read(buf_bytes(&b), &again, &n, &why));
    assert_int_equal(n, 3);
    result_close(&r);
    result_close(&again);
    for (size_t i = 0; i < r.figures.n; i++) {
        double x = r.figures.v[i].value, y = again.figures.v[i].value;
        if (!(x == y || (isnan(x) && isnan(y))))
            fail_msg("%.*s: %f and %f", (int)r.figures.v[i].name.n, r.figures.v[i].name.p, x, y);
    }
    rounds_json(&again, 3, &c);
    assert_true(bytes_eq(buf_bytes(&b), buf_bytes(&c)));
    buf_fini(&b);
    buf_fini(&c);
    result_fini(&r);
    result_fini(&again);
}

static void refuse(struct result *r, const char *text, const char *part)
{
    const char *why = NULL;
    unsigned n = 77;
    if (rounds_read(bytes_of(text), r, &n, &why))
        fail_msg("was taken: %s", text);
    if (why == NULL || bytes_find(bytes_of(why), bytes_of(part)) == SIZE_MAX)
        fail_msg("%s: said %s", text, why ? why : "nothing");
    assert_int_equal(n, 77);
    for (int i = 0; i < PHASE_N; i++)
        assert_int_equal(r->phases[i].n, 0);
}

static void bad_rounds(void **state)
{
    struct result r = {.settings = {.concurrency = 3}}, other = {.settings = {.concurrency = 4}};
    struct buf b = {0};
    refuse(&r, "", "no file of rounds");
    refuse(&r, "[]", "no file of rounds");
    refuse(&r, "{\"format\":\"ringmain-bench/1\"}", "no file of rounds");
    rounds_json(&other, 1, &b);
    refuse(&r, buf_cstr(&b), "other settings");
    buf_clear(&b);
    put(&r, PHASE_DIRECT, 100, "A");
    rounds_json(&r, 2, &b); /* it holds samples of a third round */
    phase_fini(&r.phases[PHASE_DIRECT]);
    refuse(&r, buf_cstr(&b), "damaged");
    b.n -= 20;
    refuse(&r, buf_cstr(&b), "no file of rounds");
    buf_fini(&b);
    result_fini(&r);
    result_fini(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deltas),        cmocka_unit_test(claims_can_fail), cmocka_unit_test(waste),
        cmocka_unit_test(counts),        cmocka_unit_test(many_errors),     cmocka_unit_test(timeline),
        cmocka_unit_test(breaker_marks), cmocka_unit_test(nearest),         cmocka_unit_test(json),
        cmocka_unit_test(rounds_merge),  cmocka_unit_test(bad_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

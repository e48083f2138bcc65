/* The file: every setting arrives where it belongs. What is refused, and how it is told, is in tests/e2e/test_mock.py.
 */
#include "unit.h"

#include "lab/mock_yaml.h"

static struct mock_file parse(const char *text, struct arena *a)
{
    struct mock_file f;
    struct buf told = {0};
    if (!mock_yaml_parse(bytes_of(text), "etc/mock.yaml", a, &f, &told))
        fail_msg("%s", buf_cstr(&told));
    assert_int_equal(told.n, 0);
    buf_fini(&told);
    return f;
}

static void every_setting(void **state)
{
    static const char text[] =
        "seed: 7\nfb_speed: 4\nproviders:\n"
        "  - name: A\n    listen: 127.0.0.2:9101\n    dialect: anthropic\n    models: [m1, m2]\n"
        "    model: told\n    key: k\n    ttft: { p50: 150, p99: 400 }\n    tokens_per_s: 80\n"
        "    tokens: { uniform: [20, 90] }\n    words: \"a b\"\n    usage: false\n"
        "    cache: { ttl_s: 1.5, min_tokens: 9 }\n"
        "    cold: { after_ms: 1000, connect_ms: 150, first_token_ms: 800 }\n"
        "    tls: { cert: c.pem, key: /k.pem }\n"
        "    rate_limit: { per_s: 0.5, burst: 100, retry_after_s: 2 }\n    prefill: reject\n"
        "    faults:\n      - { retry_after: 2, fault: \"429:9\", probability: 0.05 }\n"
        "      - { fault: cut, after: 7, from_s: 10.25, to_s: 40, requests: [1, 5-9], model: x, times: 2 }\n"
        "      - { fault: stall, for_ms: 300 }\n      - { fault: huge, bytes: 77 }\n"
        "      - { fault: slow, ttft_ms: 5, requests: 4 }\n";
    struct arena a = {0};
    struct mock_file f = parse(text, &a);
    assert_int_equal(f.n, 1);
    const struct mock_conf *c = &f.v[0];
    assert_true(c->seed == 7 && c->fb_speed == 4);
    assert_string_equal(c->name, "A");
    assert_string_equal(c->listen, "127.0.0.2:9101");
    assert_int_equal(c->dialect, SHAPE_ANTHROPIC);
    assert_int_equal(c->n_models, 2);
    assert_string_equal(c->models[1], "m2");
    assert_string_equal(c->model, "told");
    assert_string_equal(c->key, "k");
    assert_string_equal(c->words, "a b");
    assert_true(c->ttft_ms.kind == SPREAD_LOGNORMAL && c->ttft_ms.a == 150 && c->ttft_ms.b == 400);
    assert_true(c->tokens.kind == SPREAD_UNIFORM && c->tokens.a == 20 && c->tokens.b == 90);
    assert_int_equal(c->gap_us, 12500);
    assert_true(c->no_usage && c->prefill == PREFILL_REJECT);
    assert_true(c->cache.ttl_ms == 1500 && c->cache.min_tokens == 9);
    assert_true(c->cold.after_ms == 1000 && c->cold.connect_ms == 150 && c->cold.first_token_ms == 800);
    assert_true(c->rate.per_s_milli == 500 && c->rate.burst == 100 && c->rate.retry_after_ms == 2000);
    assert_string_equal(c->tls_cert, "etc/c.pem");
    assert_string_equal(c->tls_key, "/k.pem");
    assert_int_equal(c->n_rules, 5);
    assert_true(c->rules[0].ppm == 50000 && c->rules[0].fault.retry_after_ms == 2000 && c->rules[0].fault.times == -1);
    const struct rule *r = &c->rules[1];
    assert_true(r->fault.after == 7 && r->fault.times == 2 && r->from_ms == 10250 && r->to_ms == 40000);
    assert_true(r->n_requests == 2 && r->requests[0].to == 1 && r->requests[1].from == 5 && r->requests[1].to == 9);
    assert_string_equal(r->model, "x");
    assert_int_equal(c->rules[2].fault.for_ms, 300);
    assert_int_equal(c->rules[3].fault.bytes, 77);
    assert_true(c->rules[4].fault.ttft_ms == 5 && c->rules[4].requests[0].from == 4);
    arena_fini(&a);
}

static void what_is_left_out(void **state)
{
    struct arena a = {0};
    struct mock_file f =
        parse("{\"providers\": [{\"port\": 9101}, {\"port\": 0, \"gap_ms\": 0.5, \"faults\": null}]}", &a);
    struct mock_conf standard;
    mock_conf_init(&standard);
    assert_int_equal(f.n, 2);
    assert_string_equal(f.v[0].name, "p1");
    assert_string_equal(f.v[1].name, "p2");
    assert_string_equal(f.v[0].listen, "127.0.0.1:9101");
    assert_string_equal(f.v[0].words, standard.words);
    assert_true(f.v[0].gap_us == 10000 && f.v[1].gap_us == 500);
    assert_true(f.v[0].cache.ttl_ms == 0 && f.v[0].rate.per_s_milli == 0 && f.v[0].cold.after_ms == 0);
    assert_true(f.v[0].tls_cert == NULL && f.v[0].prefill == PREFILL_IGNORE && f.v[0].n_rules == 0);
    assert_true(f.v[0].seed == 1 && f.v[0].fb_speed == 1);
    arena_fini(&a);
}

/* Cut anywhere, the file is refused or taken, and nothing is read outside of it (the sanitizers see to that). */
static void cut_anywhere(void **state)
{
    static const char text[] =
        "providers: [ { port: 0, ttft: { uniform: [1, 2] }, faults: [ { fault: \"cut:5\", requests: [1, 2-3] } ] } ]";
    for (size_t n = 0; n < sizeof text; n++) {
        struct arena a = {0};
        struct mock_file f;
        struct buf told = {0};
        bool ok = mock_yaml_parse(bytes_from(text, n), "f", &a, &f, &told);
        assert_true(ok == (n == sizeof text - 1) && ok == (told.n == 0));
        buf_fini(&told);
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting),
        cmocka_unit_test(what_is_left_out),
        cmocka_unit_test(cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a good file becomes. */
#include "unit.h"

#include "config/loading.h"

static const char seed_json[] =
    "{ \"providers\": {\n"
    "    \"providerA\": { \"dialect\": \"openai\", \"base_url\": \"http://127.0.0.1:9101/v1\" },\n"
    "    \"providerB\": { \"dialect\": \"openai\", \"base_url\": \"http://127.0.0.1:9102/v1\" },\n"
    "\t\"providerC\": { \"dialect\": \"anthropic\", \"base_url\": \"http:\\/\\/127.0.0.1:9103\" } },\n"
    "  \"prices\": { \"meta-llama/llama-3.3-70b-instruct\": { \"input\": \"0.1\", \"output\": \"0.3\" } },\n"
    "  \"routes\": [\n"
    "{ \"model\": \"meta-llama/llama-3.3-70b-instruct\", \"strategy\": \"failover\",\n"
    "  \"order\": [\"providerA\", \"providerB\", \"providerC\"], \"ttft_budget_ms\": 2000, \"keepalive_sec\": 30 }\n"
    "] }\n";

static void seed_route_in_json(void **state)
{
    struct loading l = load_text(seed_json);
    assert_string_equal(l.text.p, "");
    const struct route_conf *r = config_route(l.c, BYTES("meta-llama/llama-3.3-70b-instruct"));
    assert_non_null(r);
    assert_int_equal(r->n_links, 3);
    assert_int_equal(r->keepalive_sec, 30);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(r->links[i].ttft_budget_ms, 2000);
        assert_string_equal(r->links[i].model, "meta-llama/llama-3.3-70b-instruct");
        assert_ptr_equal(r->links[i].provider, &l.c->providers[i]);
        assert_int_equal(r->links[i].index, i);
        assert_int_equal(r->links[i].price->output, 300000);
        assert_string_equal(r->links[i].price->version, "config");
    }
    assert_string_equal(r->links[2].provider->dialect, "anthropic");
    loading_fini(&l);
}

#define THREE                                                                                      \
    "providers: {a: {dialect: openai, base_url: \"http://127.0.0.1:1/v1\"}, b: {dialect: openai, " \
    "base_url: \"http://127.0.0.1:2/v1\"}, c: {dialect: openai, base_url: \"http://127.0.0.1:3/v1\"}}\n"

static void caches(void **state)
{
    struct loading l =
        load_text(THREE "defaults: {cache: {standby: sustained, affinity: on}}\n"
                        "routes:\n"
                        "- {model: m, order: [a, b, c], cache: {return: by_value}}\n"
                        "- {model: n, chain: [{provider: a, model: x, supports: {cache_retention: true}}, "
                        "{provider: b, model: y}, {provider: c, model: y}]}\n"
                        "- {model: o, order: [a, b], cache: {affinity: off, standby: never}}\n");
    const struct route_conf *m = &l.c->routes[0], *n = &l.c->routes[1], *o = &l.c->routes[2];
    assert_int_equal(m->cache.standby, STANDBY_SUSTAINED); /* a route's map is laid over that of `defaults` */
    assert_int_equal(m->cache.sustained_after_ms, 60000);
    assert_int_equal(m->cache.goes_back, RETURN_BY_VALUE);
    assert_int_equal(n->cache.goes_back, RETURN_AT_ONCE);
    assert_int_equal(o->cache.standby, STANDBY_NEVER);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(m->links[i].equals, 0); /* an order is of one model */
    assert_int_equal(n->links[0].equals, 0);
    assert_int_equal(n->links[1].equals, 1);
    assert_int_equal(n->links[2].equals, 1);
    assert_int_equal(o->links[1].equals, 1);
    assert_int_equal(n->links[0].supports.cache_retention, YES);
    assert_int_equal(n->links[1].supports.cache_retention, UNSET);
    assert_non_null(strstr(l.text.p, "\"cache.return: by_value\" of \"m\" cannot weigh a link without a known price"));
    loading_fini(&l);
    l = load_text(THREE "routes: [{model: m, chain: [{provider: a, model: x}, {provider: b, model: y}], "
                        "cache: {affinity: on}}]\n");
    assert_int_equal(l.c->routes[0].cache.standby, STANDBY_EXPECTED_VALUE);
    assert_non_null(strstr(l.text.p, "\"cache.affinity\" of \"m\" does nothing"));
    loading_fini(&l);
}

static void design_yaml(void **state)
{
    struct loading l = load_text(
        "providers:\n"
        "  openai:    { dialect: openai,    base_url: \"https://api.openai.com/v1\", api_key: \"${KEY}\" }\n"
        "  anthropic: { dialect: anthropic, base_url: \"https://api.anthropic.com\", api_key: \"$$x${KEY}\" }\n"
        "routes:\n"
        "  - model: flagship\n"
        "    chain:                              # a link may name its own model and overrides\n"
        "      - { provider: openai,    model: gpt-5.6-sol,     ttft_budget_ms: 15000 }\n"
        "      - { provider: anthropic, model: claude-sonnet-5 }\n");
    assert_string_equal(l.text.p, "");
    const struct provider_conf *p = config_provider(l.c, BYTES("openai"));
    assert_true(p->url.is_tls);
    assert_string_equal(p->url.host, "api.openai.com");
    assert_string_equal(p->url.path, "/v1");
    assert_string_equal(p->url.authority, "api.openai.com");
    assert_int_equal(p->url.port, 443);
    assert_true(bytes_is(p->api_key, "sk-hush-1"));
    assert_true(bytes_is(l.c->providers[1].api_key, "$xsk-hush-1"));
    assert_string_equal(p->vendor, "");
    assert_null(p->ca_file);
    assert_string_equal(l.c->routes[0].links[0].model, "gpt-5.6-sol");
    assert_string_equal(l.c->routes[0].links[1].model, "claude-sonnet-5");
    assert_null(config_route(l.c, BYTES("Flagship")));
    assert_null(config_provider(l.c, BYTES("open")));
    assert_string_equal(l.c->path, "/etc/rm/ringmain.yaml");
    loading_fini(&l);
}

/* DESIGN 5: the defaults are the contract. Written out here on purpose, not taken from the table. */
static void defaults_of_the_file(void **state)
{
    struct loading l = load_text(WITH(ROUTE));
    const struct config *c = l.c;
    assert_string_equal(l.text.p, "");
    assert_string_equal(c->listen, "127.0.0.1:8080");
    assert_string_equal(c->admin_listen, "127.0.0.1:8081");
    assert_false(c->has_admin_secret);
    assert_int_equal(c->workers, 4);
    assert_string_equal(c->ledger, "/etc/rm/ringmain.db");
    assert_int_equal(c->ledger_flush_ms, 100);
    assert_string_equal(c->access_log, "stdout");
    assert_int_equal(c->drain_timeout_ms, 30000);
    assert_false(c->resolver_is_system);
    assert_int_equal(c->n_keys, 0);
    const struct limits_conf want = {.header_bytes = 32768,
                                     .headers = 100,
                                     .body_bytes = 33554432,
                                     .memory = (UINT64_C(8) << 30) / 100 * 25,
                                     .connections = 10000,
                                     .json_depth = 128,
                                     .event_bytes = 8388608,
                                     .gate_bytes = 262144,
                                     .head_timeout_ms = 10000,
                                     .body_timeout_ms = 30000,
                                     .client_idle_ms = 75000,
                                     .client_stall_ms = 30000,
                                     .requests_per_connection = 10000,
                                     .ledger_queue_rows = 65536};
    assert_memory_equal(&c->limits, &want, sizeof want);
    loading_fini(&l);
}

static void defaults_of_a_route(void **state)
{
    struct loading l = load_text(WITH(ROUTE));
    const struct route_conf *r = &l.c->routes[0];
    assert_int_equal(r->deadline_ms, 120000);
    assert_int_equal(r->upstream_stream, UPSTREAM_AUTO);
    assert_int_equal(r->max_attempts, 8);
    assert_int_equal(r->wait_retry_after_ms, 0);
    assert_int_equal(r->on_bad_event, BAD_EVENT_FAIL);
    assert_false(r->breaker.is_off);
    assert_int_equal(r->breaker.failures, 5);
    assert_int_equal(r->breaker.ratio_permille, 500);
    assert_int_equal(r->breaker.ratio_min, 10);
    assert_int_equal(r->breaker.window_ms, 30000);
    assert_int_equal(r->breaker.cooldown_ms, 5000);
    assert_int_equal(r->breaker.cooldown_max_ms, 60000);
    assert_int_equal(r->keepalive_sec, 0);
    assert_int_equal(r->keepalive_idle_stop_sec, 900);
    assert_int_equal(r->keepalive_max_nusd_per_day, 1000000000);
    assert_int_equal(r->heartbeat_ms, 0);
    assert_int_equal(r->client_routing, CLIENT_ORDER | CLIENT_TTFT | CLIENT_DEADLINE | CLIENT_FALLBACK);
    const struct link_conf *link = &r->links[0];
    assert_int_equal(link->ttft_budget_ms, 15000);
    assert_int_equal(link->connect_timeout_ms, 2000);
    assert_int_equal(link->idle_timeout_ms, 60000);
    assert_int_equal(link->total_budget_ms, 90000);
    assert_int_equal(link->retries, 1);
    assert_int_equal(link->context_window, 0);
    assert_int_equal(link->max_output, 0);
    assert_int_equal(link->adjust, ADJUST_CLAMP);
    assert_int_equal(link->supports.tools, UNSET);
    assert_int_equal(link->n_set, 0);
    assert_int_equal(link->n_drop, 0);
    assert_null(link->price);
    loading_fini(&l);
}

static void default_failover_set(void **state)
{
    struct loading l = load_text(WITH(ROUTE));
    const struct failover_on *f = &l.c->routes[0].failover_on;
    static const enum outcome yes[] = {OUTCOME_RATE_LIMITED, OUTCOME_OVERLOADED,    OUTCOME_QUOTA_EXHAUSTED,
                                       OUTCOME_SERVER_ERROR, OUTCOME_CONNECT_ERROR, OUTCOME_CONNECT_TIMEOUT,
                                       OUTCOME_TTFT_TIMEOUT, OUTCOME_TOTAL_TIMEOUT, OUTCOME_IDLE_TIMEOUT,
                                       OUTCOME_STREAM_ERROR, OUTCOME_PROTOCOL_ERROR};
    bool want[OUTCOME_N] = {false};
    for (size_t i = 0; i < RM_COUNTOF(yes); i++)
        want[yes[i]] = true;
    assert_memory_equal(f->outcomes, want, sizeof want);
    assert_true(f->has_default);
    assert_int_equal(f->n_statuses, 0);
    loading_fini(&l);

    l = load_text(IN_ROUTE("failover_on: [rate_limited, 404, \"418\"]"));
    f = &l.c->routes[0].failover_on;
    assert_false(f->has_default);
    assert_true(f->outcomes[OUTCOME_RATE_LIMITED]);
    assert_false(f->outcomes[OUTCOME_SERVER_ERROR]);
    assert_int_equal(f->n_statuses, 2);
    assert_int_equal(f->statuses[0], 404);
    assert_int_equal(f->statuses[1], 418);
    loading_fini(&l);

    l = load_text(IN_ROUTE("failover_on: [default, auth_error, content_policy]"));
    f = &l.c->routes[0].failover_on;
    assert_true(f->has_default && f->outcomes[OUTCOME_SERVER_ERROR] && f->outcomes[OUTCOME_AUTH_ERROR] &&
                f->outcomes[OUTCOME_CONTENT_POLICY]);
    loading_fini(&l);
}

static void precedence(void **state)
{
    struct loading l = load_text(
        "providers:\n"
        "  a: {dialect: openai, base_url: 'http://h:1/v1', models: {m: up-m, n: up-n}}\n"
        "  b: {dialect: openai, base_url: 'http://i:2/v1'}\n"
        "defaults: {ttft_budget_ms: 900, retries: 0, order: [b], breaker: {failures: 3, window_ms: 9000}, "
        "max_attempts: 3}\n"
        "routes:\n"
        "- {model: m, chain: [{provider: a}, {provider: b, ttft_budget_ms: 300, model: own}], ttft_budget_ms: 700}\n"
        "- {model: n, breaker: {failures: 9}}\n"
        "- {model: o, order: [a], breaker: off}\n"
        "- {model: p, order: [a, b]}\n");
    assert_string_equal(l.text.p, "");
    const struct route_conf *m = &l.c->routes[0], *n = &l.c->routes[1], *o = &l.c->routes[2];
    assert_int_equal(m->n_links, 2); /* a route's chain goes before the order of defaults */
    assert_int_equal(m->links[0].ttft_budget_ms, 700);
    assert_int_equal(m->links[1].ttft_budget_ms, 300);
    assert_int_equal(m->links[1].retries, 0);
    assert_int_equal(m->max_attempts, 3);
    assert_string_equal(m->links[0].model, "up-m");
    assert_string_equal(m->links[1].model, "own");
    assert_int_equal(m->breaker.failures, 3);
    assert_int_equal(n->n_links, 1);
    assert_string_equal(n->links[0].provider->name, "b");
    assert_string_equal(n->links[0].model, "n");
    assert_int_equal(n->links[0].ttft_budget_ms, 900);
    assert_int_equal(n->breaker.failures, 9);
    assert_int_equal(n->breaker.window_ms, 9000);
    assert_true(o->breaker.is_off);
    assert_false(l.c->routes[3].breaker.is_off);
    loading_fini(&l);
}

static void scalars_by_the_table(void **state)
{
    struct loading l = load_text(WITH("prices: {\"1.10\": {input: 0.1, output: 0.000001, cache_read: 0}}\n"
                                      "limits: {body_bytes: 64M, memory: 1GiB, gate_bytes: 32KiB, event_bytes: 8192}\n"
                                      "routes:\n"
                                      "- {model: 1.10, order: [a]}\n"
                                      "- {model: on, order: [a], keepalive_max_usd_per_day: 0.25}\n"
                                      "- {model: no, order: [a], heartbeat_ms: \"500\", keepalive_sec: off}\n"
                                      "- {model: \"null\", chain: [{provider: a, model: 0x10}], upstream_stream: off, "
                                      "ttft_budget_ms: '${BUDGET}'}\n"));
    assert_string_equal(l.text.p, "");
    assert_string_equal(l.c->routes[0].model, "1.10");
    assert_int_equal(l.c->routes[0].links[0].price->input, 100000);
    assert_int_equal(l.c->routes[0].links[0].price->output, 1);
    assert_int_equal(l.c->routes[0].links[0].price->cache_read, 0);
    assert_int_equal(l.c->routes[0].links[0].price->cache_write_5m, -1);
    assert_string_equal(l.c->routes[1].model, "on");
    assert_int_equal(l.c->routes[1].keepalive_max_nusd_per_day, 250000000);
    assert_string_equal(l.c->routes[2].model, "no");
    assert_int_equal(l.c->routes[2].heartbeat_ms, 500);
    assert_string_equal(l.c->routes[3].model, "null");
    assert_string_equal(l.c->routes[3].links[0].model, "0x10");
    assert_int_equal(l.c->routes[3].upstream_stream, UPSTREAM_OFF);
    assert_int_equal(l.c->routes[3].links[0].ttft_budget_ms, 777);
    assert_int_equal(l.c->limits.body_bytes, 64 << 20);
    assert_int_equal(l.c->limits.memory, 1 << 30);
    assert_int_equal(l.c->limits.gate_bytes, 32 << 10);
    assert_int_equal(l.c->limits.event_bytes, 8192);
    loading_fini(&l);
}

static void whole_link(void **state)
{
    struct loading l = load_text(IN_LINK(
        "context_window: 128000, max_output: 8192, adjust: skip, supports: {tools: true, vision: false},\n"
        "  set: {temperature: 0.20, user: x, stop: [a, \"1\", 1, null, ~], thinking: {type: enabled, on: true},\n"
        "        quoted: \"true\", big: 9223372036854775807123, octal: 010, exp: -1e2}, drop: [seed, logit_bias]"));
    assert_string_equal(l.text.p, "");
    const struct link_conf *k = &l.c->routes[0].links[0];
    assert_int_equal(k->context_window, 128000);
    assert_int_equal(k->max_output, 8192);
    assert_int_equal(k->adjust, ADJUST_SKIP);
    assert_int_equal(k->supports.tools, YES);
    assert_int_equal(k->supports.vision, NO);
    assert_int_equal(k->supports.prefill, UNSET);
    static const char *const set[][2] = {{"temperature", "0.20"},
                                         {"user", "\"x\""},
                                         {"stop", "[\"a\",\"1\",1,null,null]"},
                                         {"thinking", "{\"type\":\"enabled\",\"on\":true}"},
                                         {"quoted", "\"true\""},
                                         {"big", "9223372036854775807123"},
                                         {"octal", "\"010\""},
                                         {"exp", "-1e2"}};
    assert_int_equal(k->n_set, RM_COUNTOF(set));
    for (size_t i = 0; i < k->n_set; i++) {
        assert_true(bytes_is(k->set[i].name, set[i][0]));
        assert_string_equal(k->set[i].json.p, set[i][1]);
    }
    assert_int_equal(k->n_drop, 2);
    assert_true(bytes_is(k->drop[1], "logit_bias"));
    loading_fini(&l);
}

static void whole_provider(void **state)
{
    struct loading l = load_text(
        "providers:\n"
        "  key-file: {dialect: openai, base_url: 'https://API.Together.xyz:8443/v1/', api_key_file: key.txt,\n"
        "             ca_file: ca.pem, headers: {X-Title: \"a b\", authorization: \"Bearer ${KEY}\"}, vendor: "
        "together}\n"
        "  off: {dialect: openai, base_url: 'https://o/v1', api_key: '${NOT_SET:-}'}\n"
        "  off.too: {dialect: openai, base_url: 'https://p/v1', api_key: \"${EMPTY:-}\"}\n"
        "  no_url: {dialect: openai, base_url: '${NOT_SET:-}'}\n"
        "  other: {dialect: openai, base_url: 'http://[::1]:${PORT:-1}', api_key: '${NOT_SET:-fallback}'}\n"
        "routes: [{model: by-vendor, order: [key-file, off, off.too, no_url, other]}]\n");
    assert_int_equal(l.err, ERR_OK);
    const struct provider_conf *p = l.c->providers;
    assert_true(bytes_is(p[0].api_key, "sk-from-file"));
    assert_string_equal(p[0].ca_file, "/etc/rm/ca.pem");
    assert_string_equal(p[0].url.host, "api.together.xyz");
    assert_string_equal(p[0].url.authority, "api.together.xyz:8443");
    assert_string_equal(p[0].url.path, "/v1");
    assert_string_equal(p[0].vendor, "together");
    assert_int_equal(p[0].n_headers, 2);
    assert_string_equal(p[0].headers[1].value, "Bearer sk-hush-1");
    assert_true(p[1].is_off && p[2].is_off && p[3].is_off && !p[0].is_off && !p[4].is_off);
    assert_string_equal(p[1].off_variable, "NOT_SET");
    assert_string_equal(p[2].off_variable, "EMPTY");
    assert_string_equal(p[4].url.authority, "[::1]:9090");
    assert_string_equal(p[4].url.host, "::1");
    assert_true(bytes_is(p[4].api_key, "fallback"));
    assert_string_equal(l.c->routes[0].links[0].price->version, "book-1");
    assert_ptr_not_equal(l.c->routes[0].links[0].price, &loading_cheap); /* the snapshot's own copy */
    assert_non_null(strstr(l.text.p, "warning: provider off is off: NOT_SET is not set"));
    assert_null(strstr(l.text.p, "hush"));
    loading_fini(&l);
}

/* The vendor as configured, else by the host; the operator's own word goes before both. */
static void abort_billing(void **state)
{
    struct loading l =
        load_text("providers:\n"
                  "  a: {dialect: openai, base_url: 'http://api.together.xyz/v1'}\n"
                  "  b: {dialect: openai, base_url: 'http://b/v1'}\n"
                  "  c: {dialect: openai, base_url: 'http://c/v1', vendor: together}\n"
                  "  d: {dialect: openai, base_url: 'http://api.together.xyz/v1', abort_billing: runs_on}\n"
                  "  e: {dialect: openai, base_url: 'http://e/v1', abort_billing: nothing}\n"
                  "routes: [{model: cheap, order: [a, b, c, d, e]}]\n");
    assert_int_equal(l.err, ERR_OK);
    const struct provider_conf *p = l.c->providers;
    assert_int_equal(p[0].aborts[ABORT_STREAM].certainty, ABORT_OBSERVED);
    assert_int_equal(p[0].aborts[ABORT_WHOLE].rule, ABORT_RUNS_ON);
    assert_int_equal(p[1].aborts[ABORT_STREAM].rule, ABORT_INPUT_AND_GENERATED);
    assert_int_equal(p[1].aborts[ABORT_STREAM].certainty, ABORT_ASSUMED);
    assert_int_equal(p[2].aborts[ABORT_STREAM].certainty, ABORT_OBSERVED);
    for (int when = 0; when < ABORT_N_WHENS; when++) {
        assert_int_equal(p[3].aborts[when].rule, ABORT_RUNS_ON);
        assert_int_equal(p[4].aborts[when].rule, ABORT_NOTHING);
        assert_int_equal(p[4].aborts[when].certainty, ABORT_CONFIGURED);
    }
    loading_fini(&l);
}

/* What a variable holds is a value: not YAML, and not searched again. */
static void variables_are_not_read_again(void **state)
{
    struct loading l = load_text(IN_LINK("model: \"${NESTED}\", set: {a: \"${YAML}\", b: \"cost $5 $$1 $\"}"));
    assert_string_equal(l.text.p, "");
    const struct link_conf *k = &l.c->routes[0].links[0];
    assert_string_equal(k->model, "${KEY}");
    assert_string_equal(k->set[0].json.p, "\"a: [b\"");
    assert_string_equal(k->set[1].json.p, "\"cost $5 $1 $\"");
    loading_fini(&l);
}

static void listeners_and_keys(void **state)
{
    struct loading l = load_text(
        "listen: 0.0.0.0:${PORT}\n"
        "admin: {listen: \"[::]:8081\", secret_sha256: "
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f}\n"
        "workers: 2\nledger: sqlite:/var/x.db\naccess_log: logs/access\nresolver: system\ndrain_timeout_ms: 0\n"
        "client_keys:\n- {name: web, sha256: "
        "FF0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f}\n" WITH(ROUTE));
    assert_string_equal(l.text.p, "");
    assert_string_equal(l.c->listen, "0.0.0.0:9090");
    assert_string_equal(l.c->admin_listen, "[::]:8081");
    assert_true(l.c->has_admin_secret);
    assert_int_equal(l.c->admin_secret_sha256[31], 0x1f);
    assert_int_equal(l.c->n_keys, 1);
    assert_string_equal(l.c->keys[0].name, "web");
    assert_int_equal(l.c->keys[0].sha256[0], 0xff);
    assert_int_equal(l.c->workers, 2);
    assert_string_equal(l.c->ledger, "/var/x.db");
    assert_string_equal(l.c->access_log, "/etc/rm/logs/access");
    assert_true(l.c->resolver_is_system);
    loading_fini(&l);
    l = load_text("admin: off\nledger: off\naccess_log: off\n" WITH(ROUTE));
    assert_string_equal(l.c->admin_listen, "");
    assert_string_equal(l.c->ledger, "");
    assert_string_equal(l.c->access_log, "off");
    loading_fini(&l);
}

/* The file's own prices, then the file's book, then the built-in one. */
static void prices_in_order(void **state)
{
    struct loading l =
        load_text("price_file: mine.json\n"
                  "prices: {own: {input: 1, output: 2}, t/other: {input: 5, output: 6}}\n"
                  "providers: {t: {dialect: openai, base_url: 'https://api.together.xyz/v1', api_key: k}}\n"
                  "routes: [{model: a, chain: [{provider: t, model: own}, {provider: t, model: dear},\n"
                  "  {provider: t, model: cheap}, {provider: t, model: other}, {provider: t, model: no}]}]\n");
    assert_int_equal(l.err, ERR_OK);
    const struct link_conf *links = l.c->routes[0].links;
    assert_string_equal(links[0].price->version, "config");
    assert_string_equal(links[1].price->version, "mine-1");
    assert_int_equal(links[1].price->more->tiers[0].input, 7000000);
    assert_string_equal(links[2].price->version, "book-1");
    assert_int_equal(links[3].price->input, 5000000);
    assert_null(links[4].price);
    assert_string_equal(l.c->price_file, "/etc/rm/mine.json");
    assert_int_equal(l.c->n_prices, 2);
    assert_string_equal(l.c->prices[1].name, "t/other");
    assert_ptr_equal(l.c->prices[1].fare.v[0].price, links[3].price);
    loading_fini(&l);
}

static const struct price *at(const struct link_conf *link, const char *service, const char *day)
{
    int64_t ms;
    bool is_standin;
    assert_true(price_day_parse(bytes_of(day), false, &ms));
    return link_price(link, service, ms, &is_standin);
}

/* All that a book's entry can say; and the span that holds is asked for by the day, not by that of the load. */
static void prices_in_full(void **state)
{
    struct loading l = load_text(
        "prices:\n"
        "  m:\n"
        "    - {input: 2, output: '10', cache_read: 0.2, cache_write_5m: 2.5, cache_write_1h: 4, valid_until: "
        "2026-08-31}\n"
        "    - {input: 3, output: 15, reasoning: 16, request: 0.005, valid_from: 2026-09-01, version: after,\n"
        "       source: a page, date: 2026-11-30, note: told,\n"
        "       tiers: [{above: 200000, input: 6, output: 22.5}, {above: 500000, inclusive: true, cache_read: 1}]}\n"
        "    - {service: batch, input: 1, output: 5}\n"
        "  a/m: {service: flex, input: 1.5, output: 7.5}\n"
        "providers: {a: {dialect: openai, base_url: 'http://h/v1'}, b: {dialect: openai, base_url: 'http://k/v1'}}\n"
        "routes: [{model: m, chain: [{provider: a, set: {service_tier: flex}},\n"
        "  {provider: b, set: {service_tier: fast}, drop: [speed]}]}]\n");
    assert_int_equal(l.err, ERR_OK);
    const struct link_conf *links = l.c->routes[0].links;
    assert_int_equal(links[0].price->input, 2000000); /* of the day of the load */
    assert_int_equal(at(&links[0], "", "2026-08-31")->cache_write_1h, 4000000);
    const struct price *after = at(&links[0], "", "2026-09-01");
    assert_int_equal(after->input, 3000000);
    assert_string_equal(after->version, "after");
    assert_string_equal(after->source, "a page");
    assert_int_equal(after->more->reasoning, 16000000);
    assert_int_equal(after->more->request, INT64_C(5000000000));
    assert_int_equal(after->more->n_tiers, 2);
    assert_int_equal(after->more->tiers[0].above, 200000);
    assert_int_equal(after->more->tiers[0].output, 22500000);
    assert_int_equal(after->more->tiers[0].cache_read, -1);
    assert_false(after->more->tiers[0].is_inclusive);
    assert_true(after->more->tiers[1].is_inclusive);
    assert_int_equal(after->more->tiers[1].cache_read, 1000000);
    assert_int_equal(at(&links[0], "batches", "2026-09-01")->input, 1000000);
    assert_int_equal(at(&links[0], "flex", "2026-09-01")->input, 1500000); /* of a/m alone */
    assert_int_equal(at(&links[1], "flex", "2026-09-01")->input, 3000000);
    assert_string_equal(links[0].service, "flex");
    assert_string_equal(links[1].service, "priority");
    assert_true(links[1].drops_service && !links[0].drops_service);
    loading_fini(&l);
}

static void restart_diff(void **state)
{
    struct loading a = load_text(WITH(ROUTE));
    struct loading b = load_text("listen: 127.0.0.1:1\nworkers: 1\nresolver: system\ndrain_timeout_ms: 5\n"
                                 "limits: {memory: 64M, headers: 50}\n" WITH(ROUTE));
    struct buf diff = {0};
    config_restart_diff(a.c, a.c, &diff);
    assert_int_equal(diff.n, 0);
    config_restart_diff(a.c, b.c, &diff);
    assert_string_equal(buf_cstr(&diff), "listen, workers, resolver, limits.memory");
    assert_true(b.c->version == a.c->version + 1);
    config_restart_keep(b.c, a.c);
    buf_clear(&diff);
    config_restart_diff(a.c, b.c, &diff);
    assert_int_equal(diff.n, 0);
    assert_string_equal(b.c->listen, "127.0.0.1:8080");
    assert_int_equal(b.c->limits.headers, 50);
    assert_int_equal(b.c->drain_timeout_ms, 5);
    buf_fini(&diff);
    config_unref(b.c);
    b.c = NULL;
    config_faults_fini(&b.faults);
    buf_fini(&b.text);
    loading_fini(&a);
}

static unsigned n_freed;
static void count_free(struct config *c)
{
    n_freed++;
}

static void counted(void **state)
{
    struct loading l = load_text(WITH(ROUTE));
    l.c->on_free = count_free;
    assert_ptr_equal(config_ref(l.c), l.c);
    config_unref(l.c);
    assert_int_equal(n_freed, 0);
    loading_fini(&l);
    assert_int_equal(n_freed, 1);
    config_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seed_route_in_json),
        cmocka_unit_test(design_yaml),
        cmocka_unit_test(caches),
        cmocka_unit_test(defaults_of_the_file),
        cmocka_unit_test(defaults_of_a_route),
        cmocka_unit_test(default_failover_set),
        cmocka_unit_test(precedence),
        cmocka_unit_test(scalars_by_the_table),
        cmocka_unit_test(whole_link),
        cmocka_unit_test(whole_provider),
        cmocka_unit_test(abort_billing),
        cmocka_unit_test(variables_are_not_read_again),
        cmocka_unit_test(listeners_and_keys),
        cmocka_unit_test(prices_in_order),
        cmocka_unit_test(prices_in_full),
        cmocka_unit_test(restart_diff),
        cmocka_unit_test(counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

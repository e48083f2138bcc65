/* What a bad file is told. */
#include "unit.h"

#include "config/loading.h"

static void all_at_once(void **state)
{
    struct loading l =
        load_text("listen: 127.0.0.1:8080\n"
                  "worker: 3\n"
                  "providers:\n"
                  "  openai: {dialect: opanai, base_url: \"https://api.openai.com/v1\", api_key: \"${NOPE}\"}\n"
                  "  backup: {dialect: openai, base_url: \"ftp://h\"}\n"
                  "routes:\n"
                  "  - model: m\n"
                  "    order: [openai, bakup]\n"
                  "    ttft_budget_ms: 2s\n"
                  "    idle_timout_ms: 5\n"
                  "    retries: 99\n"
                  "  - model: m\n"
                  "    hedge: on\n");
    assert_int_not_equal(l.err, ERR_OK);
    static const char want[] =
        "/etc/rm/ringmain.yaml:2:1: error: \"worker\" is not a setting of the file; did you mean \"workers\"?\n"
        "/etc/rm/ringmain.yaml:4:21: error: \"dialect\" is \"opanai\"; expected one of openai, anthropic; did you mean "
        "\"openai\"?\n"
        "/etc/rm/ringmain.yaml:4:77: error: the environment variable NOPE is not set; write ${NOPE:-} where it may be "
        "left "
        "out\n"
        "/etc/rm/ringmain.yaml:5:39: error: \"base_url\" of backup does not begin with https:// or http://\n"
        "/etc/rm/ringmain.yaml:8:21: error: there is no provider \"bakup\"; did you mean \"backup\"?\n"
        "/etc/rm/ringmain.yaml:9:21: error: \"ttft_budget_ms\" is \"2s\"; expected a whole number of milliseconds from "
        "10 to "
        "3600000, or auto\n"
        "/etc/rm/ringmain.yaml:10:5: error: \"idle_timout_ms\" is not a setting of a route; did you mean "
        "\"idle_timeout_ms\"?\n"
        "/etc/rm/ringmain.yaml:11:14: error: \"retries\" is \"99\"; expected a whole number from 0 to 10\n"
        "/etc/rm/ringmain.yaml:12:5: error: the route has no links; expected \"order\" (providers) or \"chain\" "
        "(links)\n"
        "/etc/rm/ringmain.yaml:12:12: error: the model \"m\" has a route already\n"
        "/etc/rm/ringmain.yaml:13:12: error: \"hedge\" is \"on\"; expected off, or a map of its settings\n";
    assert_string_equal(l.text.p, want);
    assert_int_equal(l.faults.n_errors, 11);
    loading_fini(&l);
}

static void duplicates(void **state)
{
    expect_fault(WITH(ROUTE "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n"),
                 ":5:1: error: \"listen\" stands twice; the first is on line 4");
    expect_fault("{\"routes\": [], \"rout\\u0065s\": []}",
                 ":1:16: error: \"routes\" stands twice; the first is on line 1");
    expect_fault("providers:\n  a: {dialect: openai, base_url: 'http://h'}\n  a: {dialect: openai, base_url: "
                 "'http://i'}\n" ROUTE,
                 ":3:3: error: \"a\" stands twice; the first is on line 2");
    expect_fault(WITH("routes: [{model: m, order: [a]}, {model: m, order: [a]}]\n"), "\"m\" has a route already");
    expect_fault("client_keys: [{name: k, sha256: 00}, {name: k}]\n" WITH(ROUTE), "is not 64 hexadecimal digits");
    expect_fault(WITH(ROUTE "client_keys:\n"
                            "- {name: k, sha256: 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f}\n"
                            "- {name: l, sha256: 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f}\n"),
                 "\"k\" and \"l\" are one key");
}

static void not_built_yet(void **state)
{
    expect_fault(IN_ROUTE("hedge: {after_ms: 5}"), "\"after_ms\" is not a setting of hedge");
    expect_fault(IN_ROUTE("hedge: true"), "\"hedge\" is \"true\"; expected off, or a map");
    expect_fault(IN_ROUTE("cache: {standby: lazy}"),
                 "\"standby\" is \"lazy\"; expected never or expected_value or sustained or always");
    expect_fault(IN_ROUTE("cache: {return: 1}"), "\"return\" is \"1\"; expected at_once or by_value");
    expect_fault(IN_ROUTE("cache: {stanby: never}"), "\"stanby\" is not a setting of cache; did you mean \"standby\"?");
    expect_fault(IN_ROUTE("cache: {sustained_after_ms: -1}"), "\"sustained_after_ms\" is \"-1\"");
    expect_fault(IN_ROUTE("cache: often"), "\"cache\" is text; expected a map");
    expect_fault(IN_ROUTE("cache.return: 1"), "\"cache.return\" is not a setting of a route");
    expect_fault(IN_ROUTE("ttft_budget_mode: shadow"), "");
    expect_fault(IN_ROUTE("ttft_budget_mode: dark"), "expected enforce or shadow");
    expect_fault(IN_ROUTE("ttft_budget_ms: auto"), "");
    expect_fault(IN_ROUTE("ttft_budget_ms: automatic"), "from 10 to 3600000, or auto");
    expect_fault(IN_LINK("ttft_budget_ms: auto"), "");
    expect_fault(IN_ROUTE("ttft_auto: {percentile: p50}"), "p90 or p95 or p98 or p99 or p995 or p999");
    expect_fault(IN_ROUTE("ttft_auto: {max_ms: 200, fallback_ms: 200}"), "\"max_ms\" 200 is less than \"min_ms\" 300");
    expect_fault(IN_ROUTE("ttft_auto: {max_ms: 10000}"), "\"fallback_ms\" 15000 is not between");
    expect_fault(IN_ROUTE("ttft_auto: {min_samples: 5}"), "from 20 to 2000");
    expect_fault(IN_ROUTE("ttft_auto: auto"), "expected a map");
    expect_fault(IN_ROUTE("resume: on"), "there is no second link to go on");
    expect_fault(IN_ROUTE("resume: maybe"), "resume");
    expect_fault(IN_ROUTE("resume: off"), "");
    expect_fault(PROVIDER("proxy: 'http://p'"), "\"proxy\" is not built yet");
    expect_fault("defaults: {hedge: 1}\n" WITH(ROUTE), "\"hedge\" is \"1\"; expected off, or a map");
    expect_fault(IN_ROUTE("hedge: off"), "");
    expect_fault(IN_ROUTE("hedge: {max_extra_spend: 2}"), "per cent like 2% or 0.5%");
    expect_fault(IN_ROUTE("hedge: {max_extra_spend: 101%}"), "from 0.01% to 100%");
    expect_fault(IN_ROUTE("hedge: {after: p80}"), "p95");
    expect_fault(IN_ROUTE("hedge: {before: 1}"), "before");
}

static void wrong_types_and_ranges(void **state)
{
    expect_fault(IN_ROUTE("retries: [1]"), "\"retries\" is a list; expected a whole number from 0 to 10");
    expect_fault(IN_ROUTE("retries: "), "\"retries\" is nothing");
    expect_fault(IN_ROUTE("retries: null"), "\"retries\" is nothing");
    expect_fault(IN_ROUTE("retries: 1_0"), "\"retries\" is \"1_0\"");
    expect_fault(IN_ROUTE("retries: -1"), "\"retries\" is \"-1\"");
    expect_fault(IN_ROUTE("retries: 1.0"), "\"retries\" is \"1.0\"");
    expect_fault(IN_ROUTE("deadline_ms: 99999999999999999999"), "\"deadline_ms\" is \"99999999999999999999\"");
    expect_fault(IN_ROUTE("ttft_budget_ms: off"), "\"ttft_budget_ms\" is \"off\"");
    expect_fault(IN_ROUTE("keepalive_sec: on"), "seconds from 1 to 86400, or off");
    expect_fault(IN_ROUTE("strategy: hedged"), "\"strategy\" is \"hedged\"; expected failover");
    expect_fault(IN_ROUTE("on_bad_event: drop"), "expected fail or skip");
    expect_fault(IN_ROUTE("keepalive_max_usd_per_day: 1e3"), "US dollars");
    expect_fault(IN_ROUTE("breaker: 5"), "\"breaker\" is \"5\"; expected off, or a map");
    expect_fault(IN_ROUTE("breaker: {ratio: 1.5}"), "\"ratio\" is \"1.5\"; expected a decimal number from 0.001 to 1");
    expect_fault(IN_ROUTE("breaker: {failure: 1}"), "did you mean \"failures\"?");
    expect_fault(IN_ROUTE("breaker: {cooldown_ms: 90000}"), "\"cooldown_max_ms\" 60000 is less than");
    expect_fault(IN_LINK("supports: {tools: yes}"), "\"tools\" is \"yes\"; expected true or false");
    expect_fault(IN_LINK("supports: [tools]"), "\"supports\" is a list; expected a map");
    expect_fault(IN_LINK("deadline_ms: 5"), "\"deadline_ms\" is not a setting of a link; it is one of a route");
    expect_fault("limits: {memory: 95%}\n" WITH(ROUTE), "1% to 90%");
    expect_fault("limits: {body_bytes: 2T}\n" WITH(ROUTE), "\"body_bytes\" is \"2T\"");
    expect_fault("limits: {body_bytes: 2Ki}\n" WITH(ROUTE), "\"body_bytes\" is \"2Ki\"");
    expect_fault("limits: {body_bytes: 99999999999G}\n" WITH(ROUTE), "expected bytes");
    expect_fault("prices: {m: {input: -1, output: 1}}\n" WITH(ROUTE), "\"input\" is \"-1\"");
    expect_fault("prices: {m: {note: free}}\n" WITH(ROUTE), "the price of \"m\" has neither \"input\" nor \"output\"");
    expect_fault("prices: {m: 1}\n" WITH(ROUTE), "a price is text; expected a map");
    expect_fault("price_file: none.json\n" WITH(ROUTE), ":1:13: error: \"price_file\": \"none.json\" cannot be read");
    expect_fault("price_file: bad.json\n" WITH(ROUTE),
                 ":1:13: error: \"price_file\": line 2: price 1: neither an input nor an output rate");
    expect_fault("routes: {}\n" WITH(""), "\"routes\" is a map; expected [route]");
    expect_fault("ledger: postgres:x\n" WITH(ROUTE), "\"ledger\" is not sqlite:PATH or off");
}

#define PRICE(x) "prices: {m: {input: 1, output: 2, " x "}}\n" WITH(ROUTE)

static void odd_prices(void **state)
{
    expect_fault(PRICE("reasoning: -0.1"), "\"reasoning\" is \"-0.1\"; expected US dollars per million tokens");
    expect_fault(PRICE("cache_read: NaN"), "\"cache_read\" is \"NaN\"");
    expect_fault(PRICE("cache_read: .inf"), "\"cache_read\" is \".inf\"");
    expect_fault(PRICE("reasoning: 1e-3"), "\"reasoning\" is \"1e-3\"");
    expect_fault(PRICE("reasoning: 0.1234567"),
                 "\"reasoning\" is \"0.1234567\"; expected US dollars per million tokens "
                 "as a decimal number like 0.28, at most six decimals");
    expect_fault(PRICE("reasoning: 9999999999"), "\"reasoning\" is \"9999999999\"");
    expect_fault(PRICE("request: -1"), "\"request\" is \"-1\"; expected US dollars a request");
    expect_fault(PRICE("request: 0.0000000000001"), "at most twelve decimals");
    expect_fault(PRICE("resoning: 1"),
                 ":1:35: error: \"resoning\" is not a setting of a price; did you mean \"reasoning\"?");
    expect_fault(PRICE("cache_write: 1"), "did you mean \"cache_write_");
    expect_fault(PRICE("above: 1"), "\"above\" is not a setting of a price; it is one of a tier");
    expect_fault(PRICE("tiers: 5"), "\"tiers\" is text; expected [tier]");
    expect_fault(PRICE("tiers: [5]"), "a tier is text; expected a map");
    expect_fault(PRICE("tiers: [{input: 5}]"), "a tier has no \"above\"");
    expect_fault(PRICE("tiers: [{above: -5}]"), "\"above\" is \"-5\"; expected a whole number of tokens");
    expect_fault(PRICE("tiers: [{above: 5, abve: 1}]"), "did you mean \"above\"?");
    expect_fault(PRICE("tiers: [{above: 5}, {above: 5}]"), "the tiers do not rise: \"above\" is 5 after 5");
    expect_fault(PRICE("service: ''"), "\"service\" is empty");
    expect_fault(PRICE("service: 'a b'"), "expected a word of at most 23");
    expect_fault(PRICE("valid_until: 2026-8-31"), "\"valid_until\" is \"2026-8-31\"; expected a day like 2026-08-31");
    expect_fault(PRICE("valid_from: tomorrow"), "\"valid_from\" is \"tomorrow\"");
    expect_fault(PRICE("valid_from: 2026-09-01, valid_until: 2026-08-31"), "\"valid_until\" is before \"valid_from\"");
    expect_fault("prices: {m: []}\n" WITH(ROUTE), "\"m\" has 0 prices");
    expect_fault("prices: {m: [{input: 1}, 5]}\n" WITH(ROUTE), "a price is text; expected a map");
    expect_fault("prices: {m: [{input: 1}, {input: 2}]}\n" WITH(ROUTE),
                 "two prices of \"m\" hold at one time for one class of service");
    expect_fault("prices: {m: [{input: 1, service: batch}, {input: 2, service: batches}]}\n" WITH(ROUTE), "two prices");
    expect_fault("prices: {m: [{input: 1, valid_until: 2026-08-31}, {input: 2, valid_from: 2026-08-31}]}\n" WITH(ROUTE),
                 "two prices");
    expect_fault("prices: {m: {input: 1}}\n" WITH(ROUTE), "warning: the price of \"m\" has no \"output\"");
}

static void routes_and_links(void **state)
{
    expect_fault(WITH("routes: [{model: m, order: [a], chain: [{provider: a}]}]\n"), "exclude each other");
    expect_fault(WITH("routes: [{model: m}]\n"), "the route has no links");
    expect_fault(WITH("routes: [{model: m, order: []}]\n"), "\"order\" is empty");
    expect_fault(WITH("routes: [{model: m, chain: []}]\n"), "\"chain\" is empty");
    expect_fault(WITH("routes: [{order: [a]}]\n"), "the route has no \"model\"");
    expect_fault(WITH("routes: [{model: '', order: [a]}]\n"), "\"model\" is empty");
    expect_fault(WITH("routes: [{model: \"a\\u0007\", order: [a]}]\n"), "\"model\" holds a control character");
    expect_fault(WITH("routes: [m]\n"), "a route is text; expected a map");
    expect_fault(WITH("routes: []\n"), "no routes");
    expect_fault(WITH(""), "no routes");
    expect_fault(ROUTE, "no providers");
    expect_fault(WITH("routes: [{model: m, order: [a/x]}]\n"), "to name a model use `chain");
    expect_fault(WITH("routes: [{model: m, order: [{provider: a}]}]\n"), "\"order\" holds a map");
    expect_fault(WITH("routes: [{model: m, chain: [a]}]\n"), "a link is text; expected a map");
    expect_fault(WITH("routes: [{model: m, chain: [{model: x}]}]\n"), "a link has no \"provider\"");
    expect_fault(IN_ROUTE("failover_on: [rate_limitd]"), "did you mean \"rate_limited\"?");
    expect_fault(IN_ROUTE("failover_on: [399]"), "\"399\"; expected default");
    expect_fault(IN_ROUTE("failover_on: [ok]"), "\"ok\"; expected default");
    expect_fault(IN_ROUTE("failover_on: default"), "\"failover_on\" is text; expected [default");
    expect_fault(IN_ROUTE("client_routing: [ordr]"), "did you mean \"order\"?");
    expect_fault(IN_LINK("set: {model: x}"), "\"set\": \"model\" is the gateway's");
    expect_fault(IN_LINK("drop: [stream]"), "\"drop\": \"stream\" is the gateway's");
    expect_fault(IN_LINK("set: {a: 1}, drop: [a]"), "stands in \"set\" and in \"drop\"");
    expect_fault("defaults: {model: m}\n" WITH(ROUTE), "\"model\" belongs to a route");

    struct buf many = {0};
    buf_puts(&many, WITH("routes: [{model: m, order: [a"));
    for (int i = 0; i < 64; i++)
        buf_puts(&many, ", a");
    buf_puts(&many, "]}]\n");
    expect_fault(buf_cstr(&many), "65 links; a route has at most 64");
    buf_fini(&many);
}

static void providers(void **state)
{
    expect_fault("providers: {a: {}}\n" ROUTE, "provider a has no \"dialect\"");
    expect_fault("providers: {a: {dialect: openai}}\n" ROUTE, "provider a has no \"base_url\"");
    expect_fault("providers: {\"a b\": {dialect: openai, base_url: 'http://h'}}\n" ROUTE, "is not a provider's name");
    expect_fault(PROVIDER("abort_billing: run_on"),
                 "expected vendor or input_and_generated or input or runs_on or nothing");
    expect_fault(PROVIDER("abort_billing: [input]"), "\"abort_billing\"");
    expect_fault(PROVIDER("vendor: togther"), "did you mean \"together\"?");
    expect_fault(PROVIDER("api_key: a, api_key_file: b"), "exclude each other");
    expect_fault(PROVIDER("api_key: ''"), "\"api_key\" of a is empty");
    expect_fault(PROVIDER("api_key: \"${EMPTY}\""), "\"api_key\" of a is empty");
    expect_fault(PROVIDER("api_key: \"${SPACED}\""), "\"api_key\" of a holds a space");
    expect_fault(PROVIDER("api_key: [x]"), "\"api_key\" of a is a list");
    expect_fault(PROVIDER("api_key: \"${KEY\""), "without its \"}\"");
    expect_fault(PROVIDER("api_key: \"${9}\""), "does not hold the name of a variable");
    expect_fault(PROVIDER("api_key_file: none.txt"), "\"none.txt\" cannot be read");
    expect_fault(PROVIDER("api_key_file: empty.txt"), "\"api_key_file\" of a is empty");
    expect_fault(PROVIDER("api_key_file: two.txt"), "holds a space, a line end");
    expect_fault(PROVIDER("api_key_file: open.txt"), "warning: \"api_key_file\" of a: everyone");
    expect_fault(PROVIDER("headers: {Host: x}"), "\"Host\" is the gateway's own");
    expect_fault(PROVIDER("headers: {\"a b\": x}"), "is not the name of a header");
    expect_fault(PROVIDER("headers: {a: \"x\\ny-hush\"}"), "the value of \"a\" holds a control character");
    expect_fault(PROVIDER("models: {a: [b]}"), "\"models\" of a: \"a\" is a list; expected text");
    expect_fault(PROVIDER("ca_file: nope.pem"), "\"nope.pem\" cannot be read");
    expect_fault(PROVIDER("ca_file: ca.pem"), "does nothing: base_url is http://");
    expect_fault("providers: {a: {dialect: openai, base_url: \"https://u:hush@h\"}}\n" ROUTE,
                 "holds a user name or password");
    expect_fault("providers: {a: {dialect: openai, base_url: \"https://h/v1?key=hush\"}}\n" ROUTE, "has a query");
    expect_fault("providers: {a: {dialect: openai, base_url: \"https://h/v1/chat/completions\"}}\n" ROUTE,
                 "names an endpoint");
}

static void listeners(void **state)
{
    expect_fault("listen: 0.0.0.0:80\n" WITH(ROUTE),
                 ":1:9: error: \"listen\" is not a loopback address and there are no");
    expect_fault("listen: 8080\n" WITH(ROUTE), "\"listen\": expected address:port");
    expect_fault("listen: 127.0.0.1:70000\n" WITH(ROUTE), "the port is not from 0 to 65535");
    expect_fault("listen: example.com:80\n" WITH(ROUTE), "\"listen\": expected address:port");
    expect_fault("admin: 0.0.0.0:81\n" WITH(ROUTE), "has no \"secret_sha256\"");
    expect_fault("admin: {listen: '0.0.0.0:81'}\n" WITH(ROUTE), "has no \"secret_sha256\"");
    expect_fault("admin: {secret_sha256: my-hush}\n" WITH(ROUTE), "is not 64 hexadecimal digits");
    expect_fault("admin: 127.0.0.1:8080\n" WITH(ROUTE), "are the same address");
    expect_fault("admin: [x]\n" WITH(ROUTE), "admin is a list; expected a map");
}

static void warnings(void **state)
{
    expect_fault(WITH("routes: [{model: m, chain: [{provider: a}, {provider: a, model: x}]}]\n"),
                 "warning: links 1 and 2 of \"m\" use one account (a)");
    expect_fault("providers:\n  a: {dialect: openai, base_url: 'http://h/v1'}\n  b: {dialect: anthropic, base_url: "
                 "'http://h'}\nroutes: [{model: m, order: [a, b]}]\n",
                 ":4:32: warning: links 1 and 2 of \"m\" use one host (h)");
    expect_fault(
        "providers:\n  a: {dialect: openai, base_url: 'http://h'}\n  b: {dialect: openai, base_url: 'http://i'}\n"
        "routes: [{model: m, chain: [{provider: a, model: cheap}, {provider: b, model: dear}]}]\n",
        "is dearer than the first: 5.000000/30.000000 against 1.000000/2.000000 USD");
    expect_fault(
        "providers:\n  a: {dialect: openai, base_url: 'http://h'}\n  b: {dialect: openai, base_url: 'http://i'}\n"
        "routes: [{model: m, chain: [{provider: a, model: dear}, {provider: b, model: cheap}]}]\n",
        "");
    expect_fault(
        "providers:\n  a: {dialect: openai, base_url: 'http://h'}\n  b: {dialect: openai, base_url: 'http://i'}\n"
        "routes: [{model: m, order: [a, b], keepalive_sec: 30}]\n",
        "b/m has no known price, so its keepalives are bounded by 2,880 calls");
    expect_fault(IN_LINK("model: gpt-5.6-sol, ttft_budget_ms: 900"), "is under a second for \"gpt-5.6-sol\"");
    expect_fault(IN_LINK("model: openai/o3-mini, ttft_budget_ms: 900"), "is under a second");
    expect_fault(IN_LINK("model: llama, ttft_budget_ms: 900"), "");
    expect_fault("prices: {x: {input: 1, output: 2}}\n" WITH(ROUTE), "the price of \"x\" belongs to no link");
    expect_fault("providers: {a: {dialect: openai, base_url: 'https://h'}}\n" ROUTE,
                 "warning: provider a has no \"api_key\"");
    expect_fault("providers: {a: {dialect: openai, base_url: 'http://h'}, b: {dialect: openai, base_url: 'http://i'}}\n"
                 "routes: [{model: m, order: [a, b], deadline_ms: 5000}]\n",
                 "no time is left for the next");
}

/* Whatever is wrong with a file, the values of its secrets are not told. */
static void secrets_stay_secret(void **state)
{
    expect_fault(
        "providers:\n  a: {dialect: \"${KEY}\", base_url: \"${KEY}\", api_key: \"${KEY} x\", vendor: \"${KEY}\",\n"
        "      headers: {\"x-a\": \"${KEY}\\n\"}, models: {\"b\": \"${KEY}\"}}\n"
        "listen: \"${KEY}\"\nadmin: \"${KEY}\"\nworkers: \"${KEY}\"\nledger: \"${KEY}\"\n"
        "client_keys: [{name: \"${KEY} x\", sha256: sk-hush-9}]\n"
        "routes: [{model: \"${KEY}\", order: [\"${KEY}\"], retries: \"${KEY}\", failover_on: [\"${KEY}\"]}]\n",
        "error");
    expect_fault("providers: {a: {dialect: openai, base_url: 'http://h', api_key: \"sk hush\"}}\n" ROUTE,
                 "holds a space");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_at_once),         cmocka_unit_test(duplicates),
        cmocka_unit_test(not_built_yet),       cmocka_unit_test(wrong_types_and_ranges),
        cmocka_unit_test(routes_and_links),    cmocka_unit_test(providers),
        cmocka_unit_test(listeners),           cmocka_unit_test(warnings),
        cmocka_unit_test(secrets_stay_secret), cmocka_unit_test(odd_prices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

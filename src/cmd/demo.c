/* ringmain demo: three pretend providers and the gateway as processes of their own, talked to over the loopback as
 * anyone would. What is printed of a call is what the client saw, and the request read back from the ledger by the
 * admin API. */
#include "base/mem.h"
#include "base/text.h"
#include "cmd/child.h"
#include "cmd/cmd.h"
#include "codec/json_tree.h"
#include "codec/json_write.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_PROVIDERS = 3, TTFT_BUDGET_MS = 400 };

static const char *const provider_names[N_PROVIDERS] = {"alpha", "beta", "gamma"};

struct demo {
    char dir[CHILD_DIR_BYTES], config[CHILD_PATH_BYTES];
    uint16_t provider_ports[N_PROVIDERS], port, admin_port;
    pid_t mock, gateway;
    struct caller *caller;
    unsigned n_failed;
};

static void usage(FILE *to)
{
    fputs("usage: ringmain demo [--once]\n\n"
          "Starts three pretend providers and the gateway, sends streamed chat calls through it, makes the first "
          "provider fail in\n"
          "four ways, and prints what the client saw and what each attempt cost. Without --once it stays up until "
          "Ctrl-C.\n",
          to);
}

static bool start_mock(struct demo *d)
{
    char specs[N_PROVIDERS][160], log[CHILD_PATH_BYTES];
    static const char *const ttft[N_PROVIDERS] = {"60", "90", "140"};
    const char *argv[3 + 2 * N_PROVIDERS + 1] = {"ringmain", "mock"};
    int n = 2;
    for (int i = 0; i < N_PROVIDERS; i++) {
        snprintf(specs[i], sizeof specs[i], "port=%u,dialect=%s,model=demo-%s,ttft-ms=%s,tokens=11,gap-ms=15",
                 d->provider_ports[i], i == 1 ? "anthropic" : "openai", provider_names[i], ttft[i]);
        argv[n++] = "--provider";
        argv[n++] = specs[i];
    }
    argv[n] = NULL;
    snprintf(log, sizeof log, "%s/mock.log", d->dir);
    d->mock = child_start(argv, log);
    return d->mock > 0;
}

static bool write_config(struct demo *d)
{
    snprintf(d->config, sizeof d->config, "%s/ringmain.yaml", d->dir);
    FILE *f = fopen(d->config, "w");
    if (f == NULL)
        return false;
    fprintf(f,
            "listen: 127.0.0.1:%u\nadmin: 127.0.0.1:%u\nledger: sqlite:ringmain.db\nledger_flush_ms: 20\naccess_log: "
            "access.log\n"
            "providers:\n"
            "  alpha: { dialect: openai,    base_url: \"http://127.0.0.1:%u/v1\", api_key: demo-key-alpha }\n"
            "  beta:  { dialect: anthropic, base_url: \"http://127.0.0.1:%u\",    api_key: demo-key-beta }\n"
            "  gamma: { dialect: openai,    base_url: \"http://127.0.0.1:%u/v1\", api_key: demo-key-gamma }\n"
            "routes:\n"
            "  - model: demo\n"
            "    ttft_budget_ms: %d\n"
            "    breaker: off\n"
            "    chain:\n"
            "      - { provider: alpha, model: demo-alpha }\n"
            "      - { provider: beta,  model: demo-beta }\n"
            "      - { provider: gamma, model: demo-gamma }\n",
            d->port, d->admin_port, d->provider_ports[0], d->provider_ports[1], d->provider_ports[2], TTFT_BUDGET_MS);
    return fclose(f) == 0;
}

static bool start_gateway(struct demo *d)
{
    char log[CHILD_PATH_BYTES];
    const char *argv[] = {"ringmain", "serve", "-c", d->config, NULL};
    snprintf(log, sizeof log, "%s/gateway.log", d->dir);
    d->gateway = child_start(argv, log);
    return d->gateway > 0;
}

static bool set_fault(struct demo *d, const char *fault)
{
    struct arena a = {0};
    struct buf body = {0};
    struct json_writer w;
    struct caller_answer answer;
    const char *why;
    jw_init(&w, &body);
    jw_object(&w);
    jw_key(&w, "fault");
    jw_cstr(&w, fault);
    jw_key(&w, "times");
    jw_int(&w, 1);
    jw_end(&w);
    struct caller_ask ask = {.host = "127.0.0.1",
                             .port = d->provider_ports[0],
                             .method = "POST",
                             .path = "/_mock/fault",
                             .body = buf_bytes(&body),
                             .timeout_us = 5000000};
    bool ok = caller_do(d->caller, &ask, &a, &answer, &why) == ERR_OK && answer.status == 200;
    buf_fini(&body);
    arena_fini(&a);
    return ok;
}

/* ---- what the client saw ---- */

struct reading {
    struct buf rest, text;
    uint64_t first_us;
};

static void read_event(struct reading *r, struct bytes data, uint64_t at_us)
{
    struct arena a = {0};
    yyjson_val *root;
    if (json_tree_parse(data, 64, &a, &root) == ERR_OK) {
        yyjson_val *choice = yyjson_arr_get_first(yyjson_obj_get(root, "choices"));
        struct bytes piece = json_tree_str(yyjson_obj_get(choice, "delta"), "content");
        if (piece.n > 0 && r->first_us == 0)
            r->first_us = at_us;
        buf_put(&r->text, piece);
    }
    arena_fini(&a);
}

static void on_part(struct bytes part, uint64_t at_us, void *arg)
{
    struct reading *r = arg;
    buf_put(&r->rest, part);
    for (;;) {
        size_t end = bytes_find(buf_bytes(&r->rest), BYTES("\n\n"));
        if (end == SIZE_MAX)
            return;
        struct bytes event = bytes_slice(buf_bytes(&r->rest), 0, end);
        if (bytes_starts_with(event, BYTES("data: ")))
            read_event(r, bytes_slice(event, 6, event.n), at_us);
        buf_drop(&r->rest, end + 2);
    }
}

static void print_usd(yyjson_val *v)
{
    struct buf usd = {0};
    int64_t nusd;
    if (json_tree_to_int(v, &nusd)) {
        text_usd(&usd, nusd);
        printf("$%-12s", buf_cstr(&usd));
    } else {
        printf("%-13s", "unknown");
    }
    buf_fini(&usd);
}

static void print_attempt(yyjson_val *t)
{
    yyjson_val *tokens = yyjson_obj_get(t, "tokens");
    struct bytes provider = json_tree_str(t, "provider"), model = json_tree_str(t, "model"),
                 outcome = json_tree_str(t, "outcome"), from = json_tree_str(t, "tokens_from");
    int64_t status = json_tree_int(t, "status", 0), ttft = json_tree_int(t, "ttft_us", -1);
    char target[64], first[24] = "-";
    snprintf(target, sizeof target, "%.*s/%.*s", (int)provider.n, provider.p, (int)model.n, model.p);
    if (ttft >= 0)
        snprintf(first, sizeof first, "%.1f", (double)(ttft - json_tree_int(t, "start_us", 0)) / 1000);
    printf("    %lld  %-18s %-13.*s %5s  %8.1f  %8s  %4lld/%-4lld %-10.*s ", (long long)json_tree_int(t, "n", 0),
           target, (int)outcome.n, outcome.p,
           status ? (char[]){(char)('0' + status / 100), (char)('0' + status / 10 % 10), (char)('0' + status % 10), 0}
                  : "-",
           (double)(json_tree_int(t, "total_us", 0) - json_tree_int(t, "start_us", 0)) / 1000, first,
           (long long)json_tree_int(tokens, "input", 0), (long long)json_tree_int(tokens, "output", 0), (int)from.n,
           from.p);
    print_usd(yyjson_obj_get(t, "cost_nusd"));
    printf(" ");
    print_usd(yyjson_obj_get(t, "waste_nusd"));
    printf("\n");
}

static bool print_trail(struct demo *d, struct bytes id, struct arena *a)
{
    char path[64];
    struct caller_answer answer;
    yyjson_val *root;
    snprintf(path, sizeof path, "/api/requests/%.*s", (int)id.n, id.p);
    if (!child_wait_for_ok(d->caller, d->admin_port, path, a, &answer) ||
        json_tree_parse(answer.body, 64, a, &root) != ERR_OK)
        return false;
    puts(
        "    n  target             outcome       status  total ms  first ms  in/out    tokens     cost          waste");
    size_t i, n;
    yyjson_val *t;
    yyjson_arr_foreach(yyjson_obj_get(root, "attempts"), i, n, t) print_attempt(t);
    printf("    the whole request: ");
    print_usd(yyjson_obj_get(root, "cost_nusd"));
    printf(" of which wasted ");
    print_usd(yyjson_obj_get(root, "waste_nusd"));
    printf("\n");
    return true;
}

struct scene {
    const char *title, *fault, *provider; /* provider: who must serve */
};

static const struct scene scenes[] = {
    {"all is well", NULL, "alpha"},
    {"alpha answers 429 (rate limited)", "429", "beta"},
    {"alpha answers 503 (overloaded)", "503", "beta"},
    {"alpha hangs before the first token (budget 400 ms)", "hang", "beta"},
    {"alpha answers 200, then an error inside the stream", "error-in-200", "beta"},
};

static bool play(struct demo *d, const struct scene *s)
{
    struct arena a = {0};
    struct reading r = {0};
    struct caller_answer answer;
    const char *why = "";
    printf("\n* %s\n", s->title);
    struct caller_ask ask = {
        .host = "127.0.0.1",
        .port = d->port,
        .method = "POST",
        .path = "/v1/chat/completions",
        .body = BYTES("{\"model\":\"demo\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Say "
                      "something about a street that stays lit.\"}]}"),
        .timeout_us = 20000000,
        .on_body = on_part,
        .arg = &r};
    bool ok = (s->fault == NULL || set_fault(d, s->fault)) && caller_do(d->caller, &ask, &a, &answer, &why) == ERR_OK;
    if (ok) {
        struct bytes id = fields_get(&answer.fields, "x-ringmain-request-id"),
                     by = fields_get(&answer.fields, "x-ringmain-provider");
        struct bytes trail = fields_get(&answer.fields, "x-ringmain-trail");
        printf("  the client saw: HTTP %u from %.*s, first word after %.1f ms, whole after %.1f ms\n    \"%s\"\n",
               answer.status, (int)by.n, by.p ? by.p : "", (double)r.first_us / 1000, (double)answer.total_us / 1000,
               buf_cstr(&r.text));
        printf("  x-ringmain-trail: %.*s\n", (int)trail.n, trail.p ? trail.p : "");
        ok = print_trail(d, id, &a) && answer.status == 200 && bytes_is(by, s->provider) && r.text.n > 0;
    } else {
        printf("  failed: %s\n", why);
    }
    if (!ok)
        printf("  this is not what should have happened; see %s\n", d->dir);
    buf_fini(&r.rest);
    buf_fini(&r.text);
    arena_fini(&a);
    return ok;
}

static void invite(const struct demo *d)
{
    printf("\nThe gateway stays up. Talk to it:\n\n"
           "  curl -N http://127.0.0.1:%u/v1/chat/completions -H 'content-type: application/json' \\\n"
           "    -d '{\"model\":\"demo\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n\n"
           "  python3 -c 'from openai import OpenAI; c = OpenAI(base_url=\"http://127.0.0.1:%u/v1\", api_key=\"any\")\n"
           "for e in c.chat.completions.create(model=\"demo\", stream=True, messages=[{\"role\": \"user\", "
           "\"content\": \"Hello\"}]):\n"
           "    print(e.choices[0].delta.content or \"\", end=\"\", flush=True)'\n\n"
           "Make alpha fail once:  curl -X POST http://127.0.0.1:%u/_mock/fault -d '{\"fault\":\"503\",\"times\":1}'\n"
           "Read it back:          curl http://127.0.0.1:%u/api/requests?n=5\n"
           "Config and logs:       %s\n\nCtrl-C ends.\n",
           d->port, d->port, d->provider_ports[0], d->admin_port, d->dir);
    fflush(stdout);
}

static bool set_up(struct demo *d)
{
    uint16_t ports[N_PROVIDERS + 2] = {0};
    if (!child_dir("demo", d->dir)) {
        fprintf(stderr, "ringmain: demo: %s: %s\n", d->dir, strerror(errno));
        return false;
    }
    child_free_ports(ports, RM_COUNTOF(ports));
    memcpy(d->provider_ports, ports, sizeof d->provider_ports);
    d->port = ports[N_PROVIDERS];
    d->admin_port = ports[N_PROVIDERS + 1];
    d->caller = caller_new();
    struct arena a = {0};
    struct caller_answer answer;
    bool ok = start_mock(d) && write_config(d) && start_gateway(d) &&
              child_wait_for_ok(d->caller, d->provider_ports[0], "/_mock/log", &a, &answer) &&
              child_wait_for_ok(d->caller, d->port, "/healthz", &a, &answer);
    arena_fini(&a);
    if (!ok)
        fprintf(stderr, "ringmain: demo: the pretend providers or the gateway did not start; see %s\n", d->dir);
    return ok;
}

static void wait_for_signal(const struct demo *d)
{
    sigset_t set;
    int got;
    child_stop_signals(&set);
    invite(d);
    sigwait(&set, &got);
}

static int run(bool is_once)
{
    struct demo d = {0};
    bool ok = set_up(&d);
    if (ok) {
        puts("Three pretend providers: alpha (OpenAI Chat), beta (Anthropic Messages), gamma (OpenAI Chat).\n"
             "One route 'demo': alpha, then beta, then gamma; first-token budget 400 ms. Every call is a streamed chat "
             "call.");
        for (size_t i = 0; i < RM_COUNTOF(scenes); i++)
            ok &= play(&d, &scenes[i]);
        if (!is_once)
            wait_for_signal(&d);
    }
    child_end(d.gateway);
    child_end(d.mock);
    caller_free(d.caller);
    if (ok)
        child_dir_remove(d.dir);
    return ok ? 0 : 1;
}

int cmd_demo(int argc, char **argv)
{
    static const struct option options[] = {
        {"once", no_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool is_once = false;
    int o;
    while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (o == 'h') {
            usage(stdout);
            return 0;
        }
        if (o != 'o') {
            usage(stderr);
            return 2;
        }
        is_once = true;
    }
    /* Taken by sigwait when the time comes; the children get their own way of stopping. */
    sigset_t set;
    child_stop_signals(&set);
    if (!is_once)
        sigprocmask(SIG_BLOCK, &set, NULL);
    return run(is_once);
}

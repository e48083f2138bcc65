/* Two processes of pretend providers and the gateway.
 *
 *     providers   A, B, C: started anew in each round with a seed of its own, so that each round draws other chances
 *     standbys    one that is down, and for each cold and each warm route a standby of its own; they stay, because
 *                 their idle time is what is measured
 *     gateway     `ringmain serve`, for the whole run
 *
 * Both configurations are JSON, which is YAML. */
#include "cmd/bench.h"

#include "base/mem.h"
#include "codec/json_write.h"

#include <errno.h>
#include <unistd.h>

enum { CALL_TIMEOUT_US = 5000000, DEADLINE_MS = 60000 };

/* Pretend prices, US dollars per million tokens. */
static const char price_input[] = "1.00", price_output[] = "4.00";

static void RM_PRINTF(3, 4) putf(struct json_writer *w, const char *name, const char *fmt, ...)
{
    va_list ap;
    char text[160];
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    jw_named_cstr(w, name, text);
}

static bool write_file(const struct bench_world *w, const char *name, struct buf *text)
{
    char path[CHILD_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", w->dir, name);
    FILE *f = fopen(path, "w");
    bool ok = f != NULL && fwrite(text->p, 1, text->n, f) == text->n;
    if (f != NULL && fclose(f) != 0)
        ok = false;
    if (!ok)
        fprintf(stderr, "ringmain bench: %s: %s\n", path, strerror(errno));
    buf_fini(text);
    return ok;
}

/* ---- pretend providers ---- */

static void provider_begin(struct json_writer *j, const char *name, uint16_t port, const struct bench_options *o,
                           const struct bench_pretend *p)
{
    jw_object(j);
    jw_named_cstr(j, "name", name);
    putf(j, "listen", "127.0.0.1:%u", port);
    jw_key(j, "ttft");
    jw_object(j);
    jw_named_uint(j, "p50", p->p50_ms);
    jw_named_uint(j, "p99", p->p99_ms);
    jw_end(j);
    jw_named_uint(j, "tokens_per_s", o->tokens_per_s);
    jw_named_uint(j, "tokens", o->tokens);
}

static void pretend_begin(struct json_writer *j, struct buf *out, uint64_t seed)
{
    jw_init(j, out);
    jw_object(j);
    jw_named_uint(j, "seed", seed);
    jw_key(j, "providers");
    jw_array(j);
}

static bool write_providers(const struct bench_world *w, const struct bench_options *o, unsigned round)
{
    struct buf out = {0};
    struct json_writer j;
    pretend_begin(&j, &out, o->seed + round);
    provider_begin(&j, "A", w->port_a, o, &o->a);
    jw_end(&j);
    provider_begin(&j, "B", w->port_b, o, &o->b);
    jw_end(&j);
    provider_begin(&j, "C", w->port_c, o, &o->c);
    jw_end(&j);
    jw_end(&j);
    jw_end(&j);
    return write_file(w, "providers.yaml", &out);
}

static void put_standby(struct json_writer *j, const char *kind, unsigned i, uint16_t port,
                        const struct bench_options *o)
{
    char name[32];
    snprintf(name, sizeof name, "%s-%u", kind, i + 1);
    provider_begin(j, name, port, o, &o->b);
    jw_key(j, "cold");
    jw_object(j);
    jw_named_uint(j, "after_ms", o->cold_after_ms);
    jw_named_uint(j, "connect_ms", o->cold_connect_ms);
    jw_named_uint(j, "first_token_ms", o->cold_first_ms);
    jw_end(j);
    jw_end(j);
}

static bool write_standbys(const struct bench_world *w, const struct bench_options *o)
{
    struct buf out = {0};
    struct json_writer j;
    pretend_begin(&j, &out, o->seed);
    provider_begin(&j, "down", w->port_down, o, &o->a);
    jw_key(&j, "faults");
    jw_array(&j);
    jw_object(&j);
    jw_named_cstr(&j, "fault", "503");
    jw_end(&j);
    jw_end(&j);
    jw_end(&j);
    for (unsigned i = 0; i < o->n_standbys; i++) {
        put_standby(&j, "cold", i, w->ports_cold[i], o);
        put_standby(&j, "warm", i, w->ports_warm[i], o);
    }
    jw_end(&j);
    jw_end(&j);
    return write_file(w, "standbys.yaml", &out);
}

static pid_t start_mock(const struct bench_world *w, const char *config)
{
    char path[CHILD_PATH_BYTES], log[CHILD_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", w->dir, config);
    snprintf(log, sizeof log, "%s/%s.log", w->dir, config);
    return child_start((const char *const[]){"ringmain", "mock", "-c", path, NULL}, log);
}

/* ---- the gateway ---- */

static void put_provider(struct json_writer *j, const char *name, uint16_t port)
{
    jw_key(j, name);
    jw_object(j);
    jw_named_cstr(j, "dialect", "openai");
    putf(j, "base_url", "http://127.0.0.1:%u/v1", port);
    jw_named_cstr(j, "api_key", "bench");
    jw_end(j);
}

static void put_providers(struct json_writer *j, const struct bench_world *w, const struct bench_options *o)
{
    char name[32];
    jw_key(j, "providers");
    jw_object(j);
    put_provider(j, "A", w->port_a);
    put_provider(j, "B", w->port_b);
    put_provider(j, "C", w->port_c);
    put_provider(j, "down", w->port_down);
    for (unsigned i = 0; i < o->n_standbys; i++) {
        snprintf(name, sizeof name, "cold-%u", i + 1);
        put_provider(j, name, w->ports_cold[i]);
        snprintf(name, sizeof name, "warm-%u", i + 1);
        put_provider(j, name, w->ports_warm[i]);
    }
    jw_end(j);
}

static void put_link(struct json_writer *j, const char *provider, const char *model)
{
    jw_object(j);
    jw_named_cstr(j, "provider", provider);
    jw_named_cstr(j, "model", model);
    jw_end(j);
}

/* The outage's targets have a model name of their own: their health is theirs, whatever the other phases did to A. */
static void put_route(struct json_writer *j, const char *model, const char *upstream_model)
{
    jw_object(j);
    jw_named_cstr(j, "model", model);
    jw_key(j, "chain");
    jw_array(j);
    put_link(j, "A", upstream_model);
    put_link(j, "B", upstream_model);
    put_link(j, "C", upstream_model);
    jw_end(j);
}

static void put_standby_route(struct json_writer *j, const char *kind, unsigned i, unsigned keepalive_s)
{
    char name[32];
    snprintf(name, sizeof name, "%s-%u", kind, i + 1);
    jw_object(j);
    jw_named_cstr(j, "model", name);
    jw_key(j, "chain");
    jw_array(j);
    put_link(j, "down", "bench");
    put_link(j, name, "bench");
    jw_end(j);
    if (keepalive_s > 0)
        jw_named_uint(j, "keepalive_sec", keepalive_s);
    jw_end(j);
}

static void put_routes(struct json_writer *j, const struct bench_options *o)
{
    jw_key(j, "routes");
    jw_array(j);
    put_route(j, "bench", "bench");
    jw_end(j);
    put_route(j, "outage", "bench-outage");
    jw_key(j, "breaker");
    jw_object(j);
    jw_named_uint(j, "cooldown_ms", o->cooldown_ms);
    jw_end(j);
    jw_end(j);
    for (unsigned i = 0; i < o->n_standbys; i++) {
        put_standby_route(j, "cold", i, 0);
        put_standby_route(j, "warm", i, o->keepalive_s);
    }
    jw_end(j);
}

static void put_price(struct json_writer *j, const char *model)
{
    jw_key(j, model);
    jw_object(j);
    jw_named_cstr(j, "input", price_input);
    jw_named_cstr(j, "output", price_output);
    jw_end(j);
}

static void put_config(const struct bench_world *w, const struct bench_options *o, struct buf *out)
{
    struct json_writer j;
    jw_init(&j, out);
    jw_object(&j);
    putf(&j, "listen", "127.0.0.1:%u", w->port);
    putf(&j, "admin", "127.0.0.1:%u", w->admin_port);
    jw_named_cstr(&j, "ledger", "sqlite:ringmain.db");
    jw_named_uint(&j, "ledger_flush_ms", 50);
    jw_named_cstr(&j, "access_log", "off");
    jw_key(&j, "prices");
    jw_object(&j);
    put_price(&j, "bench");
    put_price(&j, "bench-outage");
    jw_end(&j);
    put_providers(&j, w, o);
    jw_key(&j, "defaults");
    jw_object(&j);
    jw_named_uint(&j, "ttft_budget_ms", o->budget_ms);
    jw_named_uint(&j, "deadline_ms", DEADLINE_MS);
    jw_named_cstr(&j, "breaker", "off");
    jw_end(&j);
    put_routes(&j, o);
    jw_end(&j);
}

static bool write_config(const struct bench_world *w, const struct bench_options *o)
{
    struct buf out = {0};
    if (o->real != NULL)
        bench_real_config(o->real, w, o->budget_ms, &out);
    else
        put_config(w, o, &out);
    return write_file(w, "ringmain.yaml", &out);
}

static bool start_gateway(struct bench_world *w)
{
    char path[CHILD_PATH_BYTES], log[CHILD_PATH_BYTES];
    snprintf(path, sizeof path, "%s/ringmain.yaml", w->dir);
    snprintf(log, sizeof log, "%s/gateway.log", w->dir);
    w->gateway = child_start((const char *const[]){"ringmain", "serve", "-c", path, NULL}, log);
    return w->gateway > 0;
}

/* ---- the whole ---- */

static bool take_ports(struct bench_world *w, const struct bench_options *o)
{
    uint16_t v[6 + 2 * BENCH_STANDBYS_MAX];
    size_t n = 6 + 2 * (size_t)o->n_standbys;
    if (!child_free_ports(v, n))
        return false;
    w->port_a = v[0];
    w->port_b = v[1];
    w->port_c = v[2];
    w->port_down = v[3];
    w->port = v[4];
    w->admin_port = v[5];
    for (unsigned i = 0; i < o->n_standbys; i++) {
        w->ports_cold[i] = v[6 + 2 * i];
        w->ports_warm[i] = v[7 + 2 * i];
    }
    return true;
}

static bool wait_for(struct bench_world *w, uint16_t port, const char *path)
{
    struct arena a = {0};
    struct caller_answer answer;
    bool ok = child_wait_for_ok(w->caller, port, path, &a, &answer);
    arena_fini(&a);
    return ok;
}

bool bench_world_restart(struct bench_world *w, const struct bench_options *o, unsigned round)
{
    child_end(w->providers);
    w->providers = -1;
    if (!write_providers(w, o, round))
        return false;
    w->providers = start_mock(w, "providers.yaml");
    if (w->providers > 0 && wait_for(w, w->port_a, "/_mock/log"))
        return true;
    fprintf(stderr, "ringmain bench: the pretend providers did not start; see %s/providers.yaml.log\n", w->dir);
    return false;
}

bool bench_world_open(struct bench_world *w, const struct bench_options *o)
{
    *w = (struct bench_world){.caller = caller_new()};
    if (!child_dir("bench", w->dir)) {
        fprintf(stderr, "ringmain bench: %s: %s\n", w->dir, strerror(errno));
        w->dir[0] = '\0';
        return false;
    }
    if (!take_ports(w, o)) {
        fprintf(stderr, "ringmain bench: no free ports on the loopback\n");
        return false;
    }
    if (!write_standbys(w, o) || !write_config(w, o))
        return false;
    w->standbys = start_mock(w, "standbys.yaml");
    if (w->standbys <= 0 || !wait_for(w, w->port_down, "/_mock/log")) {
        fprintf(stderr, "ringmain bench: the pretend standbys did not start; see %s/standbys.yaml.log\n", w->dir);
        return false;
    }
    if (!start_gateway(w) || !wait_for(w, w->port, "/healthz")) {
        fprintf(stderr, "ringmain bench: the gateway did not start; see %s/gateway.log\n", w->dir);
        return false;
    }
    return true;
}

void bench_world_close(struct bench_world *w, bool keeps_files)
{
    child_end(w->gateway);
    child_end(w->providers);
    child_end(w->standbys);
    caller_free(w->caller);
    if (w->dir[0] != '\0' && !keeps_files)
        child_dir_remove(w->dir);
    *w = (struct bench_world){0};
}

static bool post(struct bench_world *w, uint16_t port, const char *path, struct bytes body)
{
    struct arena a = {0};
    struct caller_answer answer;
    const char *why = "";
    struct caller_ask ask = {
        .host = "127.0.0.1", .port = port, .method = "POST", .path = path, .body = body, .timeout_us = CALL_TIMEOUT_US};
    bool ok = caller_do(w->caller, &ask, &a, &answer, &why) == ERR_OK && answer.status == 200;
    if (!ok)
        fprintf(stderr, "ringmain bench: a pretend provider does not take %s: %s\n", path,
                why != NULL && *why ? why : "refused");
    arena_fini(&a);
    return ok;
}

static bool set_fault(struct bench_world *w, uint16_t port, const char *fault, unsigned from_ms, unsigned to_ms)
{
    struct buf out = {0};
    struct json_writer j;
    jw_init(&j, &out);
    jw_object(&j);
    jw_named_cstr(&j, "fault", fault);
    if (from_ms < to_ms) {
        char text[24];
        snprintf(text, sizeof text, "%u.%03u", from_ms / 1000, from_ms % 1000);
        jw_key(&j, "from_s");
        jw_raw(&j, bytes_of(text));
        snprintf(text, sizeof text, "%u.%03u", to_ms / 1000, to_ms % 1000);
        jw_key(&j, "to_s");
        jw_raw(&j, bytes_of(text));
    }
    jw_end(&j);
    bool ok = post(w, port, "/_mock/fault", buf_bytes(&out));
    buf_fini(&out);
    return ok;
}

bool bench_world_faults(struct bench_world *w, const char *fault_a, const char *fault_b, unsigned from_ms,
                        unsigned to_ms)
{
    return post(w, w->port_b, "/_mock/reset", BYTES("{}")) && post(w, w->port_c, "/_mock/reset", BYTES("{}")) &&
           post(w, w->port_a, "/_mock/reset", BYTES("{}")) &&
           (fault_b == NULL || set_fault(w, w->port_b, fault_b, 0, 0)) &&
           (fault_a == NULL || set_fault(w, w->port_a, fault_a, from_ms, to_ms));
}

const char *bench_world_dead(struct bench_world *w)
{
    return !child_is_alive(&w->gateway)     ? "the gateway"
           : !child_is_alive(&w->providers) ? "the pretend providers"
           : !child_is_alive(&w->standbys)  ? "the pretend standbys"
                                            : NULL;
}

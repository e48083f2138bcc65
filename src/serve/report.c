/* What the admin listener tells of a running gateway: health as JSON, figures as Prometheus text. Reads only atomics
 * and the registry, so any thread may ask. */
#include "serve/report.h"
#include "base/mem.h"
#include "codec/json_write.h"
#include "serve/gateway.h"
#include "serve/serve.h"

static const char *health_word(enum health_state s)
{
    return s == HEALTH_OPEN ? "open" : s == HEALTH_TRIAL ? "trial" : "closed";
}

static void link_json(struct json_writer *j, struct gateway *g, const struct route_conf *route,
                      const struct link_conf *link, uint64_t now_us)
{
    const struct registry *r = gateway_registry(g);
    uint64_t until = registry_until(r, link->target_id, link->provider->credential_id, now_us);
    jw_object(j);
    jw_key(j, "provider");
    jw_cstr(j, link->provider->name);
    jw_key(j, "model");
    jw_cstr(j, link->model);
    jw_key(j, "breaker");
    jw_cstr(j, health_word(registry_state(r, link->target_id, now_us)));
    jw_key(j, "credential");
    jw_cstr(j, health_word(registry_credential_state(r, link->provider->credential_id, now_us)));
    jw_key(j, "retry_in_ms");
    jw_uint(j, until > now_us ? (until - now_us + 999) / 1000 : 0); /* rounded up: 0 means that a call may come now */
    report_latency_json(j, gateway_latency(g), route, link, now_us);
    report_ratio_json(j, gateway_ratios(g), link);
    jw_end(j);
}

void gateway_health_json(struct gateway *g, struct buf *out)
{
    struct config *c = gateway_config(g);
    struct json_writer j;
    uint64_t now_us = loop_clock_us();
    jw_init(&j, out);
    jw_object(&j);
    jw_key(&j, "config_version");
    jw_uint(&j, c->version);
    jw_key(&j, "routes");
    jw_array(&j);
    for (size_t i = 0; i < c->n_routes; i++) {
        jw_object(&j);
        jw_key(&j, "model");
        jw_cstr(&j, c->routes[i].model);
        jw_key(&j, "links");
        jw_array(&j);
        for (size_t k = 0; k < c->routes[i].n_links; k++)
            link_json(&j, g, &c->routes[i], &c->routes[i].links[k], now_us);
        jw_end(&j);
        jw_end(&j);
    }
    jw_end(&j);
    jw_end(&j);
    config_unref(c);
}

static uint64_t sum(struct gateway *g, size_t offset)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < gateway_n_workers(g); i++) {
        const char *stats = (const char *)&gateway_worker(g, i)->stats;
        n += atomic_load_explicit((const _Atomic uint64_t *)(const void *)(stats + offset), memory_order_relaxed);
    }
    return n;
}

static void counter(struct buf *out, const char *name, const char *kind, const char *help, uint64_t value)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, kind, name, (unsigned long long)value);
}

static void by_outcome(struct gateway *g, struct buf *out, const char *name, const char *help, size_t offset)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s counter\n", name, help, name);
    for (int i = 1; i < OUTCOME_N; i++)
        buf_printf(out, "%s{outcome=\"%s\"} %llu\n", name, outcome_word((enum outcome)i),
                   (unsigned long long)sum(g, offset + (size_t)i * sizeof(uint64_t)));
}

static void money(struct gateway *g, struct buf *out, const char *name, const char *help, size_t offset)
{
    uint64_t nusd = sum(g, offset);
    buf_printf(out, "# HELP %s %s\n# TYPE %s counter\n%s %llu.%09llu\n", name, help, name, name,
               (unsigned long long)(nusd / 1000000000), (unsigned long long)(nusd % 1000000000));
}

/* A leak shows here before it shows in memory: at rest each is what it was at the start. */
static void live_objects(struct buf *out)
{
    buf_puts(out, "# HELP ringmain_live_objects Objects alive in the process, by type.\n"
                  "# TYPE ringmain_live_objects gauge\n");
    for (int i = 0; i < MEM_N_TYPES; i++)
        buf_printf(out, "ringmain_live_objects{type=\"%s\"} %lld\n", mem_type_name((enum mem_type)i),
                   (long long)mem_live((enum mem_type)i));
}

void gateway_metrics(struct gateway *g, struct buf *out)
{
    by_outcome(g, out, "ringmain_requests_total", "Requests by outcome.", offsetof(struct stats, requests));
    by_outcome(g, out, "ringmain_attempts_total", "Attempts and skips by outcome.", offsetof(struct stats, attempts));
    counter(out, "ringmain_refused_total", "counter", "Requests answered without a provider.",
            sum(g, offsetof(struct stats, refused)));
    counter(out, "ringmain_keepalives_total", "counter", "Tiny completions to standbys.",
            sum(g, offsetof(struct stats, keepalives)));
    counter(out, "ringmain_alarms_total", "counter", "Faults that need the operator.",
            sum(g, offsetof(struct stats, alarms)));
    counter(out, "ringmain_requests_in_flight", "gauge", "Requests in flight.",
            sum(g, offsetof(struct stats, in_flight)));
    money(g, out, "ringmain_cost_usd_total", "Spend with known prices, waste included.",
          offsetof(struct stats, cost_nusd));
    money(g, out, "ringmain_waste_usd_total", "Spend on attempts that no client saw.",
          offsetof(struct stats, waste_nusd));
    money(g, out, "ringmain_estimated_usd_total", "Part of the spend whose tokens no provider reported.",
          offsetof(struct stats, estimated_nusd));
    struct ledger_stats ledger = {0};
    if (gateway_ledger(g) != NULL)
        ledger_stats(gateway_ledger(g), &ledger);
    counter(out, "ringmain_ledger_rows_written_total", "counter", "Ledger rows written.", ledger.rows_written);
    counter(out, "ringmain_ledger_rows_lost_total", "counter", "Ledger rows lost.", ledger.rows_lost);
    counter(out, "ringmain_ledger_rows_waiting", "gauge", "Ledger rows waiting for the disk.", ledger.rows_waiting);
    counter(out, "ringmain_ledger_degraded", "gauge", "1 while the ledger cannot be written.", ledger.is_degraded);
    live_objects(out);
    struct config *c = gateway_config(g);
    report_latency_metrics(out, gateway_latency(g), c, loop_clock_us());
    report_ratio_metrics(out, gateway_ratios(g), c);
    config_unref(c);
}

/* The latency history for the admin listener: as JSON below a link, and as figures for Prometheus. Estimated ones say
 * so: what was cut would partly have answered, and only the watched attempts tell how much (plan/latency.h). */
#include "base/mem.h"
#include "serve/report.h"

static void named_uint(struct json_writer *j, const char *name, uint64_t v)
{
    jw_key(j, name);
    jw_uint(j, v);
}

/* Milliseconds; null = not known. */
static void named_ms(struct json_writer *j, const char *name, uint64_t us)
{
    jw_key(j, name);
    if (us == 0)
        jw_null(j);
    else
        jw_uint(j, (us + 500) / 1000);
}

static void named_nusd(struct json_writer *j, const char *name, int64_t nusd)
{
    jw_key(j, name);
    jw_int(j, nusd);
}

static void counts_json(struct json_writer *j, const struct latency_report *r)
{
    const struct latency_counts *c = &r->counts;
    struct latency_false f = latency_false(c);
    named_uint(j, "answered", c->n_answered);
    named_uint(j, "cut", c->n_cut);
    named_nusd(j, "cut_nusd", c->cut_nusd);
    named_uint(j, "late", c->n_late);
    named_uint(j, "late_soon", c->n_late_soon);
    named_nusd(j, "late_nusd", c->late_nusd);
    named_uint(j, "moved", c->n_moved);
    named_uint(j, "regimes", c->n_regimes);
    named_uint(j, "false_trips", f.n_trips);
    named_nusd(j, "false_trips_nusd", f.cost_nusd);
    named_uint(j, "downgrades", f.n_downgrades);
    jw_key(j, "tail_permille");
    if (r->tail_permille < 0)
        jw_null(j);
    else
        jw_int(j, r->tail_permille);
}

static void key_json(struct json_writer *j, const struct latency_report *r)
{
    jw_object(j);
    jw_key(j, "size");
    jw_cstr(j, latency_size_word(r->key.size));
    jw_key(j, "effort");
    jw_cstr(j, latency_effort_word(r->key.effort));
    named_uint(j, "samples", (uint64_t)(r->n_samples + 0.5));
    named_ms(j, "p50_ms", r->p50_us);
    named_ms(j, "p95_ms", r->p95_us);
    named_ms(j, "p99_ms", r->p99_us);
    named_ms(j, "budget_ms", r->budget_us);
    jw_key(j, "is_known");
    jw_bool(j, r->is_known);
    jw_key(j, "is_still");
    jw_bool(j, r->is_still);
    counts_json(j, r);
    jw_end(j);
}

typedef void report_fn(const struct latency_report *r, void *arg);

static void each_key(const struct latency *l, uint16_t target_id, const struct auto_conf *conf, uint64_t now_us,
                     report_fn *fn, void *arg)
{
    for (uint8_t size = 0; size < LATENCY_SIZES; size++)
        for (uint8_t effort = 0; effort < LATENCY_EFFORTS; effort++) {
            struct latency_report r;
            struct latency_key key = {.target_id = target_id, .size = size, .effort = effort};
            if (latency_report(l, key, conf, now_us, &r))
                fn(&r, arg);
        }
}

static void write_key(const struct latency_report *r, void *arg)
{
    key_json(arg, r);
}

void report_latency_json(struct json_writer *j, const struct latency *l, const struct route_conf *route,
                         const struct link_conf *link, uint64_t now_us)
{
    jw_key(j, "latency");
    jw_array(j);
    each_key(l, link->target_id, &route->ttft_auto, now_us, write_key, j);
    jw_end(j);
}

/* ---- Prometheus ---- */

static void put_label(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            buf_putc(out, '\\');
        buf_putc(out, *value);
    }
    buf_putc(out, '"');
}

struct figure_line {
    const char *name, *kind, *help;
};
enum { LINE_BUDGET, LINE_CUT, LINE_LATE, LINE_MOVED, LINE_FALSE, LINE_DOWNGRADES, LINE_FALSE_USD, LINES };
static const struct figure_line lines[LINES] = {
    {"ringmain_ttft_budget_seconds", "gauge", "First-token budget that the history gives."},
    {"ringmain_ttft_cut_total", "counter", "Attempts cut before their first token."},
    {"ringmain_ttft_late_total", "counter", "Attempts that answered later than that budget."},
    {"ringmain_ttft_moved_total", "counter", "Calls cut there and answered by a later link."},
    {"ringmain_ttft_false_trips_total", "counter", "Estimate: cut attempts that would have answered soon."},
    {"ringmain_ttft_downgrades_total", "counter", "Estimate: calls moved only because of such a cut."},
    {"ringmain_ttft_false_trips_usd_total", "counter", "Estimate: what such cuts cost, with known prices."},
};

struct printing {
    struct buf *out; /* of LINES */
    const struct link_conf *link;
    struct latency_counts sum;
    bool has_any;
};

void report_target(struct buf *out, const char *name, const struct link_conf *l)
{
    buf_printf(out, "%s{", name);
    put_label(out, "provider", l->provider->name);
    buf_putc(out, ',');
    put_label(out, "model", l->model);
}

static void add_key(const struct latency_report *r, void *arg)
{
    struct printing *p = arg;
    struct buf *out = &p->out[LINE_BUDGET];
    report_target(out, lines[LINE_BUDGET].name, p->link);
    buf_printf(out, ",size=\"%s\",effort=\"%s\"} %llu.%03llu\n", latency_size_word(r->key.size),
               latency_effort_word(r->key.effort), (unsigned long long)(r->budget_us / 1000000),
               (unsigned long long)(r->budget_us / 1000 % 1000));
    p->sum.n_cut += r->counts.n_cut;
    p->sum.n_late += r->counts.n_late;
    p->sum.n_watched += r->counts.n_watched;
    p->sum.n_moved += r->counts.n_moved;
    p->sum.cut_nusd += r->counts.cut_nusd;
    p->has_any = true;
}

static void put_count(struct printing *p, int line, uint64_t v)
{
    report_target(&p->out[line], lines[line].name, p->link);
    buf_printf(&p->out[line], "} %llu\n", (unsigned long long)v);
}

static void put_link(struct printing *p)
{
    struct latency_false f = latency_false(&p->sum);
    put_count(p, LINE_CUT, p->sum.n_cut);
    put_count(p, LINE_LATE, p->sum.n_late);
    put_count(p, LINE_MOVED, p->sum.n_moved);
    put_count(p, LINE_FALSE, f.n_trips);
    put_count(p, LINE_DOWNGRADES, f.n_downgrades);
    report_target(&p->out[LINE_FALSE_USD], lines[LINE_FALSE_USD].name, p->link);
    buf_printf(&p->out[LINE_FALSE_USD], "} %lld.%09lld\n", (long long)(f.cost_nusd / 1000000000),
               (long long)(f.cost_nusd % 1000000000));
}

void report_latency_metrics(struct buf *out, const struct latency *l, const struct config *c, uint64_t now_us)
{
    struct buf texts[LINES] = {0};
    bool *is_told = mem_zalloc(REGISTRY_TARGETS_MAX * sizeof *is_told); /* a target may stand in several routes */
    for (size_t i = 0; i < c->n_routes; i++)
        for (size_t k = 0; k < c->routes[i].n_links; k++) {
            const struct link_conf *link = &c->routes[i].links[k];
            struct printing p = {.out = texts, .link = link};
            if (is_told[link->target_id])
                continue;
            is_told[link->target_id] = true;
            each_key(l, link->target_id, &c->routes[i].ttft_auto, now_us, add_key, &p);
            if (p.has_any)
                put_link(&p);
        }
    mem_free(is_told);
    for (int i = 0; i < LINES; i++) {
        buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", lines[i].name, lines[i].help, lines[i].name, lines[i].kind);
        buf_put(out, buf_bytes(&texts[i]));
        buf_fini(&texts[i]);
    }
}

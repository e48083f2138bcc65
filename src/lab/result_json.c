#include "lab/result.h"

#include "base/text.h"
#include "codec/json_write.h"

#include <math.h>
#include <stdio.h>

enum { CDF_STEPS = 200 };

/* Three decimals: microseconds in milliseconds. */
static void put_number(struct json_writer *w, double v)
{
    char text[48];
    if (!isfinite(v)) {
        jw_null(w);
        return;
    }
    int n = snprintf(text, sizeof text, "%.3f", v);
    while (n > 1 && text[n - 1] == '0')
        n--;
    if (text[n - 1] == '.')
        n--;
    jw_raw(w, bytes_from(text, (size_t)n));
}

static void number(struct json_writer *w, const char *name, double v)
{
    jw_key(w, name);
    put_number(w, v);
}

static void money(struct json_writer *w, const char *name, int64_t nusd)
{
    struct buf b = {0};
    if (nusd != NUSD_UNKNOWN)
        text_usd(&b, nusd);
    jw_named_text(w, name, b.n > 0 ? buf_cstr(&b) : NULL);
    buf_fini(&b);
}

static void time_of(struct json_writer *w, const char *name, int64_t wall_ms)
{
    char t[TEXT_TIME_BYTES];
    text_time(wall_ms, t);
    jw_named_text(w, name, wall_ms > 0 ? t : NULL);
}

/* ---- the setting ---- */

static void machine_json(struct json_writer *w, const struct result_machine *m)
{
    jw_key(w, "machine");
    jw_object(w);
    jw_named_text(w, "kernel", m->kernel);
    jw_named_text(w, "cpu", m->cpu);
    jw_named_uint(w, "cores", m->cores);
    jw_named_uint(w, "memory_mb", m->memory_mb);
    jw_end(w);
}

static void settings_json(struct json_writer *w, const struct result_settings *s)
{
    jw_key(w, "settings");
    jw_object(w);
    jw_named_uint(w, "concurrency", s->concurrency);
    jw_named_uint(w, "requests_per_phase", s->requests_per_phase);
    jw_named_uint(w, "rounds", s->rounds);
    number(w, "rate", s->rate > 0 ? s->rate : NAN);
    jw_named_uint(w, "system_tokens", s->system_tokens);
    jw_named_uint(w, "user_tokens", s->user_tokens);
    jw_named_uint(w, "ttft_budget_ms", s->ttft_budget_ms);
    jw_key(w, "providers");
    jw_array(w);
    for (size_t i = 0; i < s->n_providers; i++) {
        const struct result_provider *p = &s->providers[i];
        jw_object(w);
        jw_named_text(w, "name", p->name);
        jw_named_text(w, "dialect", p->dialect);
        jw_named_text(w, "model", p->model);
        jw_named_text(w, "ttft", p->ttft);
        number(w, "tokens_per_s", p->tokens_per_s);
        jw_named_text(w, "price", p->price);
        jw_end(w);
    }
    jw_end(w);
    jw_end(w);
}

/* ---- phases ---- */

static void points_json(struct json_writer *w, const char *name, const struct dist *d)
{
    jw_key(w, name);
    jw_object(w);
    for (int i = 0; i < PHASE_N_POINTS; i++)
        number(w, phase_point_names[i], dist_percentile_ms(d, phase_points[i]));
    jw_end(w);
}

static void cdf_json(struct json_writer *w, const char *name, const struct dist *d)
{
    jw_key(w, name);
    jw_array(w);
    for (int i = 0; i <= CDF_STEPS && d->n > 0; i++)
        put_number(w, dist_percentile_ms(d, 100.0 * i / CDF_STEPS));
    jw_end(w);
}

static void counts_json(struct json_writer *w, const char *name, const struct phase_count *v, size_t n)
{
    jw_key(w, name);
    jw_object(w);
    for (size_t i = 0; i < n; i++)
        jw_named_uint(w, v[i].word, v[i].n);
    jw_end(w);
}

static void phase_json(struct json_writer *w, enum phase_id id, const struct phase *p)
{
    const struct phase_spec *spec = phase_spec(id);
    jw_object(w);
    jw_named_text(w, "name", spec->name);
    jw_named_text(w, "title", spec->title);
    jw_named_text(w, "what", spec->what);
    jw_named_uint(w, "n", p->n);
    jw_named_uint(w, "ok", p->n_ok);
    counts_json(w, "errors", p->errors, p->n_errors);
    points_json(w, "ttft_ms", &p->ttft);
    points_json(w, "total_ms", &p->total);
    cdf_json(w, "ttft_cdf_ms", &p->ttft);
    cdf_json(w, "total_cdf_ms", &p->total);
    jw_key(w, "tokens");
    jw_object(w);
    jw_named_int(w, "input", p->input);
    jw_named_int(w, "output", p->output);
    jw_end(w);
    money(w, "cost_usd", p->cost_nusd);
    money(w, "waste_usd", p->waste_nusd);
    number(w, "attempts_per_request", p->attempts);
    counts_json(w, "served", p->served, p->n_served);
    jw_end(w);
}

static void phases_json(struct json_writer *w, const struct result *r)
{
    jw_key(w, "phases");
    jw_array(w);
    for (int i = 0; i < PHASE_N; i++)
        if (r->phases[i].n > 0)
            phase_json(w, (enum phase_id)i, &r->phases[i]);
    jw_end(w);
}

/* ---- what follows from them ---- */

static void deltas_json(struct json_writer *w, const struct result *r)
{
    jw_key(w, "deltas");
    jw_array(w);
    for (int i = 0; i < DELTA_N; i++) {
        const struct delta *d = &r->deltas[i];
        jw_object(w);
        jw_named_text(w, "name", d->name);
        jw_named_text(w, "title", d->title);
        jw_named_text(w, "unit", "ms");
        number(w, "value", d->interval.value);
        number(w, "low", d->interval.low);
        number(w, "high", d->interval.high);
        number(w, "confidence", 0.95);
        jw_end(w);
    }
    jw_object(w);
    jw_named_text(w, "name", "waste.pct");
    jw_named_text(w, "title", "Waste, of the spend through the gateway");
    jw_named_text(w, "unit", "%");
    number(w, "value", r->waste_pct.value);
    number(w, "low", r->waste_pct.low);
    number(w, "high", r->waste_pct.high);
    number(w, "confidence", isnan(r->waste_pct.low) ? NAN : 0.95);
    jw_end(w);
    jw_end(w);
}

static void claims_json(struct json_writer *w, const struct result *r)
{
    jw_key(w, "claims");
    jw_array(w);
    for (int i = 0; i < CLAIM_N; i++) {
        jw_object(w);
        jw_named_text(w, "name", r->claims[i].name);
        jw_named_text(w, "verdict", claim_verdict_word(r->claims[i].verdict));
        jw_named_string(w, "text", buf_bytes(&r->claims[i].text));
        jw_end(w);
    }
    jw_end(w);
}

static void expects_json(struct json_writer *w, const struct result *r)
{
    jw_key(w, "expect");
    jw_array(w);
    for (size_t i = 0; i < r->n_expects; i++) {
        const struct figure *f = figures_find(&r->figures, r->expects[i].name);
        jw_object(w);
        jw_named_text(w, "expression", r->expects[i].expression);
        number(w, "value", f != NULL ? f->value : NAN);
        jw_named_bool(w, "holds", f != NULL && expect_holds(&r->expects[i], f->value));
        jw_end(w);
    }
    jw_end(w);
}

static void figures_json(struct json_writer *w, const struct result *r)
{
    jw_key(w, "figures");
    jw_object(w);
    for (size_t i = 0; i < r->figures.n; i++) {
        jw_key_bytes(w, r->figures.v[i].name);
        put_number(w, r->figures.v[i].value);
    }
    jw_end(w);
}

/* ---- the outage ---- */

enum series { SERIES_ERRORS, SERIES_P50, SERIES_MAX };

static void series_json(struct json_writer *w, const char *name, const struct outage *o, enum series which)
{
    jw_key(w, name);
    jw_array(w);
    for (size_t i = 0; i < outage_n_buckets(o); i++) {
        struct outage_bucket b;
        outage_read(o, i, &b);
        if (which == SERIES_ERRORS)
            jw_uint(w, b.errors);
        else
            put_number(w, which == SERIES_P50 ? b.ttft_p50_ms : b.ttft_max_ms);
    }
    jw_end(w);
}

static void served_json(struct json_writer *w, const struct outage *o)
{
    jw_key(w, "providers");
    jw_array(w);
    for (size_t i = 0; i < o->n_providers; i++)
        jw_cstr(w, o->providers[i]);
    jw_end(w);
    jw_key(w, "served");
    jw_array(w);
    for (size_t i = 0; i < o->n_providers; i++) {
        jw_array(w);
        for (size_t k = 0; k < outage_n_buckets(o); k++) {
            struct outage_bucket b;
            outage_read(o, k, &b);
            jw_uint(w, b.served[i]);
        }
        jw_end(w);
    }
    jw_end(w);
}

static void timeline_json(struct json_writer *w, const struct outage *o)
{
    jw_key(w, "timeline");
    if (o->phase.n == 0) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_named_uint(w, "bucket_ms", o->bucket_ms);
    jw_named_uint(w, "outage_from_ms", o->from_ms);
    jw_named_uint(w, "outage_to_ms", o->to_ms);
    served_json(w, o);
    series_json(w, "errors", o, SERIES_ERRORS);
    series_json(w, "ttft_p50_ms", o, SERIES_P50);
    series_json(w, "ttft_max_ms", o, SERIES_MAX);
    jw_key(w, "breaker");
    jw_array(w);
    for (size_t i = 0; i < o->n_breaker; i++) {
        jw_object(w);
        jw_named_uint(w, "at_ms", o->breaker[i].at_ms);
        jw_named_text(w, "provider", o->breaker[i].provider);
        jw_named_text(w, "state", o->breaker[i].state);
        jw_end(w);
    }
    jw_end(w);
    jw_end(w);
}

/* ---- money ---- */

static void row_json(struct json_writer *w, const char *name, const struct phase *p)
{
    if (p->n == 0)
        return;
    jw_object(w);
    jw_named_text(w, "name", name);
    money(w, "spend_usd", p->cost_nusd);
    money(w, "waste_usd", p->waste_nusd);
    jw_end(w);
}

static void cost_json(struct json_writer *w, const struct result *r)
{
    jw_key(w, "cost");
    jw_object(w);
    money(w, "spend_usd", r->spend_nusd);
    money(w, "waste_usd", r->waste_nusd);
    number(w, "waste_pct", r->waste_pct.value);
    jw_key(w, "by_phase");
    jw_array(w);
    for (int i = 0; i < PHASE_N; i++)
        row_json(w, phase_spec((enum phase_id)i)->name, &r->phases[i]);
    row_json(w, "outage", &r->outage.phase);
    jw_end(w);
    jw_end(w);
}

void result_json(const struct result *r, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_named_text(&w, "format", "ringmain-bench/1");
    jw_named_text(&w, "version", RINGMAIN_VERSION);
    jw_named_string(&w, "command", buf_bytes(&r->command));
    time_of(&w, "started", r->started_wall_ms);
    time_of(&w, "ended", r->ended_wall_ms);
    jw_named_uint(&w, "seed", r->seed);
    jw_named_bool(&w, "is_partial", r->partial_reason != NULL);
    jw_named_text(&w, "partial_reason", r->partial_reason);
    machine_json(&w, &r->machine);
    settings_json(&w, &r->settings);
    phases_json(&w, r);
    deltas_json(&w, r);
    claims_json(&w, r);
    expects_json(&w, r);
    timeline_json(&w, &r->outage);
    cost_json(&w, r);
    figures_json(&w, r);
    jw_end(&w);
}

#include "lab/outage.h"

#include <math.h>
#include <stdio.h>

static const char *state_word(struct bytes state)
{
    return bytes_is(state, "open") ? "open" : bytes_is(state, "trial") ? "trial" : "closed";
}

void outage_mark(struct outage *o, uint32_t at_ms, struct bytes provider, struct bytes state)
{
    const char *word = state_word(state), *before = "closed";
    for (size_t i = 0; i < o->n_breaker; i++)
        if (bytes_is(provider, o->breaker[i].provider))
            before = o->breaker[i].state;
    if (word == before || o->n_breaker == OUTAGE_BREAKER_MAX)
        return;
    struct outage_mark *m = &o->breaker[o->n_breaker++];
    *m = (struct outage_mark){.at_ms = at_ms, .state = word};
    snprintf(m->provider, sizeof m->provider, "%.*s", (int)provider.n, provider.p);
}

size_t outage_n_buckets(const struct outage *o)
{
    return o->bucket_ms == 0 ? 0 : (o->length_ms + o->bucket_ms - 1) / o->bucket_ms;
}

static void count_served(const struct outage *o, const char *provider, struct outage_bucket *out)
{
    for (size_t i = 0; i < o->n_providers; i++)
        if (strcmp(o->providers[i], provider) == 0)
            out->served[i]++;
}

void outage_read(const struct outage *o, size_t bucket, struct outage_bucket *out)
{
    uint64_t from_us = (uint64_t)bucket * o->bucket_ms * 1000, to_us = from_us + (uint64_t)o->bucket_ms * 1000;
    struct dist ttft = {0};
    *out = (struct outage_bucket){0};
    for (size_t i = 0; i < o->phase.n; i++) {
        const struct sample *s = &o->phase.v[i];
        if (s->due_us < from_us || s->due_us >= to_us)
            continue;
        if (!s->is_ok)
            out->errors++;
        else
            count_served(o, s->provider, out);
        if (s->first_us > 0)
            dist_put(&ttft, (int64_t)(s->first_us - s->due_us), 0);
    }
    dist_sort(&ttft);
    out->ttft_p50_ms = dist_percentile_ms(&ttft, 50);
    out->ttft_max_ms = dist_percentile_ms(&ttft, 100);
    dist_fini(&ttft);
}

void outage_figures(const struct outage *o, struct figures *f)
{
    bool was_run = o->phase.n > 0;
    for (int i = 0; i < PHASE_N_POINTS; i++)
        figures_put(f, dist_percentile_ms(&o->phase.ttft, phase_points[i]), "outage.ttft.%s_ms", phase_point_names[i]);
    figures_put(f, was_run ? (double)o->phase.n : NAN, "outage.n");
    figures_put(f, was_run ? (double)(o->phase.n - o->phase.n_ok) : NAN, "outage.errors");
    figures_put(f, was_run ? phase_waste_pct(o->phase.cost_nusd, o->phase.waste_nusd) : NAN, "outage.waste.pct");
}

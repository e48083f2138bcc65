/* What the run found, for a terminal. */
#include "cmd/bench.h"

#include <math.h>

static void put_ms(FILE *to, int width, double ms)
{
    if (isnan(ms))
        fprintf(to, " %*s", width, "-");
    else
        fprintf(to, " %*.*f", width, ms < 1000 ? 1 : 0, ms);
}

static void put_usd(FILE *to, int width, int64_t nusd)
{
    if (nusd == NUSD_UNKNOWN)
        fprintf(to, " %*s", width, "-");
    else
        fprintf(to, " %*.4f", width, (double)nusd / 1e9);
}

static void show_row(const char *name, const struct phase *p, FILE *to)
{
    fprintf(to, "%-15s %6zu %6llu ", name, p->n, (unsigned long long)(p->n - p->n_ok));
    for (int i = 0; i < PHASE_N_POINTS; i++)
        put_ms(to, 7, dist_percentile_ms(&p->ttft, phase_points[i]));
    fputs(" ", to);
    for (int i = 0; i < PHASE_N_POINTS; i++)
        put_ms(to, 7, dist_percentile_ms(&p->total, phase_points[i]));
    fprintf(to, "  %5.2f", p->attempts);
    put_usd(to, 9, p->cost_nusd);
    put_usd(to, 9, p->waste_nusd);
    fputc('\n', to);
}

static void show_errors(const char *name, const struct phase *p, FILE *to)
{
    if (p->n_errors == 0)
        return;
    fprintf(to, "  errors in %s:", name);
    for (size_t i = 0; i < p->n_errors; i++)
        fprintf(to, "%s %llu %s", i > 0 ? "," : "", (unsigned long long)p->errors[i].n, p->errors[i].word);
    fputc('\n', to);
}

static void show_phases(const struct result *r, FILE *to)
{
    fputs("                                first token, ms                 whole answer, ms\n"
          "phase                n errors      p50     p95     p99     max      p50     p95     p99     max  tries    "
          "cost $   waste $\n",
          to);
    for (int i = 0; i < PHASE_N; i++)
        if (r->phases[i].n > 0)
            show_row(phase_spec((enum phase_id)i)->name, &r->phases[i], to);
    if (r->outage.phase.n > 0)
        show_row("outage", &r->outage.phase, to);
    for (int i = 0; i < PHASE_N; i++)
        show_errors(phase_spec((enum phase_id)i)->name, &r->phases[i], to);
    show_errors("outage", &r->outage.phase, to);
}

static void show_waste(const struct interval *waste, FILE *to)
{
    if (isnan(waste->value))
        return;
    fprintf(to, "  %-52s %9.2f %%", "Waste, of the spend through the gateway", waste->value);
    if (!isnan(waste->low))
        fprintf(to, " %.2f to %.2f %%", waste->low, waste->high);
    fputc('\n', to);
}

static void show_deltas(const struct result *r, FILE *to)
{
    fputs("\ndifferences, ms                                                     95 % interval\n", to);
    for (int i = 0; i < DELTA_N; i++) {
        const struct delta *d = &r->deltas[i];
        if (isnan(d->interval.value))
            continue;
        /* The width is for a reader's eye: a character beyond ASCII is more than one byte. */
        int wide = 0;
        for (const char *c = d->title; *c != '\0'; c++)
            wide += ((unsigned char)*c & 0xc0) == 0x80;
        fprintf(to, "  %-*s %+9.1f", 52 + wide, d->title, d->interval.value);
        if (!isnan(d->interval.low))
            fprintf(to, "   %+.1f to %+.1f", d->interval.low, d->interval.high);
        fputc('\n', to);
    }
    show_waste(&r->waste_pct, to);
    if (r->settings.rate > 0)
        fprintf(to, "  %-52s %9.1f\n", "Most that the load was behind its due times", r->behind_max_ms);
}

static void show_outage(const struct result *r, FILE *to)
{
    const struct outage *o = &r->outage;
    if (o->phase.n == 0)
        return;
    fprintf(to, "\noutage of A from %.1f to %.1f s\n", o->from_ms / 1000.0, o->to_ms / 1000.0);
    for (size_t i = 0; i < o->n_breaker; i++)
        fprintf(to, "  %6.1f s  breaker of %s: %s\n", o->breaker[i].at_ms / 1000.0, o->breaker[i].provider,
                o->breaker[i].state);
    for (size_t i = 0; i < o->phase.n_served; i++)
        fprintf(to, "  %llu served by %s\n", (unsigned long long)o->phase.served[i].n, o->phase.served[i].word);
}

static void show_claims(const struct result *r, FILE *to)
{
    fputs("\nclaims\n", to);
    for (int i = 0; i < CLAIM_N; i++) {
        struct bytes text = buf_bytes(&r->claims[i].text);
        fprintf(to, "  %-14s %.*s\n", claim_verdict_word(r->claims[i].verdict), (int)text.n, text.p);
    }
    for (size_t i = 0; i < r->n_expects; i++) {
        const struct figure *f = figures_find(&r->figures, r->expects[i].name);
        bool holds = f != NULL && expect_holds(&r->expects[i], f->value);
        if (i == 0)
            fputs("\nexpected\n", to);
        fprintf(to, "  %-14s %s", holds ? "yes" : "no", r->expects[i].expression);
        if (f != NULL && !isnan(f->value))
            fprintf(to, "   (is %.3f)\n", f->value);
        else
            fputs("   (was not measured)\n", to);
    }
}

static bool is_empty(const struct result *r)
{
    size_t n = r->outage.phase.n;
    for (int i = 0; i < PHASE_N; i++)
        n += r->phases[i].n;
    return n == 0;
}

void bench_show(const struct result *r, FILE *to)
{
    if (r->partial_reason != NULL && is_empty(r)) {
        fprintf(to, "PARTIAL: %s. No phase was whole.\n", r->partial_reason);
        fflush(to);
        return;
    }
    if (r->partial_reason != NULL)
        fprintf(to, "PARTIAL: %s. What follows is of the phases that were whole.\n\n", r->partial_reason);
    show_phases(r, to);
    show_deltas(r, to);
    show_outage(r, to);
    show_claims(r, to);
    fflush(to);
}

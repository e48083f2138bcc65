#include "lab/claim.h"

#include <math.h>

const char *claim_verdict_word(enum claim_verdict v)
{
    return v == CLAIM_HOLDS ? "holds" : v == CLAIM_FAILS ? "does not hold" : "not measured";
}

static void say(struct claim *c, bool holds)
{
    c->verdict = holds ? CLAIM_HOLDS : CLAIM_FAILS;
}

static void not_measured(struct claim *c, const char *what)
{
    c->verdict = CLAIM_NOT_MEASURED;
    buf_printf(&c->text, "Not measured: %s.", what);
}

/* " (95 % interval 0.2 to 1.0 ms)" */
static void put_interval(struct buf *out, const struct interval *i)
{
    if (!isnan(i->low))
        buf_printf(out, " (95 %% interval %.1f to %.1f ms)", i->low, i->high);
}

static void steady(const struct claim_facts *f, struct claim *c)
{
    const struct interval *d = &delta_find(f->deltas, "steady.ttft.p50.delta_ms")->interval;
    c->name = "steady";
    if (isnan(d->value)) {
        not_measured(c, "it takes the phases direct and healthy");
        return;
    }
    bool is_noise = !isnan(d->low) && d->low <= 0;
    say(c, is_noise);
    buf_printf(&c->text, "While all is well the gateway changes the median first token by %+.1f ms", d->value);
    put_interval(&c->text, d);
    buf_puts(&c->text, is_noise ? ": no penalty above the noise." : ": a penalty above the noise.");
}

static void failover(const struct claim_facts *f, struct claim *c)
{
    const struct interval *d = &delta_find(f->deltas, "failover.ttft.p50.delta_ms")->interval;
    c->name = "failover";
    if (isnan(d->value)) {
        not_measured(c, "it takes the phases hang and direct_b");
        return;
    }
    say(c, d->value <= CLAIM_FAILOVER_MS);
    buf_printf(&c->text,
               "When A hangs, half of the users have their first token within the %.0f ms budget plus B's own %.0f ms, "
               "%+.1f ms",
               f->budget_ms, dist_percentile_ms(&f->phases[PHASE_DIRECT_B].ttft, 50), d->value);
    put_interval(&c->text, d);
    buf_printf(&c->text, "; claimed: within %d ms.", CLAIM_FAILOVER_MS);
}

static void no_errors(const struct claim_facts *f, struct claim *c)
{
    uint64_t n = 0, n_bad = 0;
    c->name = "no_errors";
    for (int i = 0; i < PHASE_N; i++) {
        enum phase_path path = phase_spec((enum phase_id)i)->path;
        if (path != PATH_GATEWAY && path != PATH_STANDBY)
            continue;
        n += f->phases[i].n;
        n_bad += f->phases[i].n - f->phases[i].n_ok;
    }
    n += f->outage->phase.n;
    n_bad += f->outage->phase.n - f->outage->phase.n_ok;
    if (n == 0) {
        not_measured(c, "no request went through the gateway");
        return;
    }
    say(c, n_bad == 0);
    buf_printf(&c->text, "Of %llu requests through the gateway, whatever A did, %llu ended in an error for the user.",
               (unsigned long long)n, (unsigned long long)n_bad);
}

static void warm(const struct claim_facts *f, struct claim *c)
{
    const struct interval *d = &delta_find(f->deltas, "warm.ttft.p50.delta_ms")->interval;
    c->name = "keepalive";
    if (isnan(d->value)) {
        not_measured(c, "it takes the phases cold and warm");
        return;
    }
    say(c, !isnan(d->high) && d->high < 0);
    buf_printf(&c->text, "Keeping the standby warm changes the median first token after a failover by %+.0f ms",
               d->value);
    put_interval(&c->text, d);
    buf_putc(&c->text, '.');
}

static void waste(const struct claim_facts *f, struct claim *c)
{
    const struct phase *hang = &f->phases[PHASE_HANG], *healthy = &f->phases[PHASE_HEALTHY];
    c->name = "waste";
    if (f->is_real) {
        not_measured(c, "the link that failed was a pretend one and cost nothing");
        return;
    }
    if (hang->n == 0 || healthy->n == 0 || hang->waste_nusd == NUSD_UNKNOWN || healthy->cost_nusd == NUSD_UNKNOWN ||
        healthy->cost_nusd == 0) {
        not_measured(c, "it takes the phases hang and healthy, and known prices");
        return;
    }
    double lost = (double)hang->waste_nusd / (double)hang->n, spent = (double)healthy->cost_nusd / (double)healthy->n;
    say(c, lost <= spent);
    buf_printf(&c->text, "A request that fails over because A hangs wastes %.0f %% of what a healthy one costs",
               100 * lost / spent);
    if (lost > 0)
        buf_printf(&c->text, ": less than half a per cent of the spend while fewer than one request in %.0f does",
                   200 * lost / spent);
    buf_puts(&c->text, "; claimed: at most the price of one request.");
}

static void naive(const struct claim_facts *f, struct claim *c)
{
    const struct interval *d = &delta_find(f->deltas, "naive.ttft.p50.delta_ms")->interval;
    c->name = "naive";
    if (isnan(d->value)) {
        not_measured(c, "it takes the phases naive and hang");
        return;
    }
    say(c, !isnan(d->low) && d->low > 0);
    buf_printf(&c->text,
               "When A hangs, a client that times out and retries by itself has its first token %.0f ms later than "
               "through the gateway (median)",
               d->value);
    put_interval(&c->text, d);
    buf_putc(&c->text, '.');
}

void claim_all(const struct claim_facts *facts, struct claim out[CLAIM_N])
{
    for (int i = 0; i < CLAIM_N; i++)
        out[i] = (struct claim){0};
    steady(facts, &out[CLAIM_STEADY]);
    failover(facts, &out[CLAIM_FAILOVER]);
    no_errors(facts, &out[CLAIM_NO_ERRORS]);
    warm(facts, &out[CLAIM_WARM]);
    waste(facts, &out[CLAIM_WASTE]);
    naive(facts, &out[CLAIM_NAIVE]);
}

void claim_fini(struct claim v[CLAIM_N])
{
    for (int i = 0; i < CLAIM_N; i++)
        buf_fini(&v[i].text);
}

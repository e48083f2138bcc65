#include "lab/result.h"

#include "base/mem.h"

#include <math.h>

static int64_t plus(int64_t a, int64_t b)
{
    return a == NUSD_UNKNOWN || b == NUSD_UNKNOWN ? NUSD_UNKNOWN : a + b;
}

static bool is_through_gateway(int id)
{
    enum phase_path path = phase_spec((enum phase_id)id)->path;
    return path == PATH_GATEWAY || path == PATH_STANDBY;
}

/* What went through the gateway; the controls beside it are nobody's spend. */
static void sum_money(struct result *r)
{
    r->spend_nusd = r->waste_nusd = 0;
    bool any = r->outage.phase.n > 0;
    for (int i = 0; i < PHASE_N; i++) {
        if (r->phases[i].n == 0 || !is_through_gateway(i))
            continue;
        any = true;
        r->spend_nusd = plus(r->spend_nusd, r->phases[i].cost_nusd);
        r->waste_nusd = plus(r->waste_nusd, r->phases[i].waste_nusd);
    }
    if (r->outage.phase.n > 0) {
        r->spend_nusd = plus(r->spend_nusd, r->outage.phase.cost_nusd);
        r->waste_nusd = plus(r->waste_nusd, r->outage.phase.waste_nusd);
    }
    if (!any)
        r->spend_nusd = r->waste_nusd = NUSD_UNKNOWN;
}

static uint32_t n_rounds(const struct result *r)
{
    uint32_t n = 0;
    for (int i = 0; i < PHASE_N; i++)
        for (size_t k = 0; k < r->phases[i].n; k++)
            n = r->phases[i].v[k].round >= n ? r->phases[i].v[k].round + 1 : n;
    return n;
}

/* After sum_money. */
static void draw_waste(struct result *r)
{
    r->waste_pct = (struct interval){NAN, NAN, NAN};
    if (r->spend_nusd == NUSD_UNKNOWN || r->waste_nusd == NUSD_UNKNOWN)
        return;
    uint32_t n = n_rounds(r);
    struct bootstrap_money *v = mem_zalloc((n + 1) * sizeof *v), fixed = {0};
    for (int i = 0; i < PHASE_N; i++)
        for (size_t k = 0; is_through_gateway(i) && k < r->phases[i].n; k++) {
            const struct sample *s = &r->phases[i].v[k];
            v[s->round].part += s->waste_nusd;
            v[s->round].whole += s->cost_nusd;
        }
    if (r->outage.phase.n > 0)
        fixed = (struct bootstrap_money){r->outage.phase.waste_nusd, r->outage.phase.cost_nusd};
    r->waste_pct = bootstrap_share(v, n, fixed, r->seed);
    mem_free(v);
}

void result_close(struct result *r)
{
    for (int i = 0; i < PHASE_N; i++) {
        phase_close(&r->phases[i]);
        phase_figures(&r->phases[i], (enum phase_id)i, &r->figures);
    }
    phase_close(&r->outage.phase);
    outage_figures(&r->outage, &r->figures);
    delta_all(r->phases, r->settings.ttft_budget_ms, r->seed, r->deltas, &r->figures);
    struct claim_facts facts = {r->phases, r->deltas, &r->outage, r->settings.ttft_budget_ms, r->is_real};
    claim_fini(r->claims);
    claim_all(&facts, r->claims);
    sum_money(r);
    draw_waste(r);
    figures_put(&r->figures, r->waste_pct.value, "waste.pct");
    figures_put(&r->figures, r->spend_nusd == NUSD_UNKNOWN ? NAN : (double)r->spend_nusd / 1e9, "spend.usd");
    figures_put(&r->figures, r->settings.rate > 0 ? r->behind_max_ms : NAN, "behind.max_ms");
}

void result_fini(struct result *r)
{
    for (int i = 0; i < PHASE_N; i++)
        phase_fini(&r->phases[i]);
    phase_fini(&r->outage.phase);
    claim_fini(r->claims);
    figures_fini(&r->figures);
    buf_fini(&r->command);
    *r = (struct result){0};
}

size_t result_n_unmet(const struct result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_expects; i++) {
        const struct figure *f = figures_find(&r->figures, r->expects[i].name);
        n += f == NULL || !expect_holds(&r->expects[i], f->value);
    }
    return n;
}

#include "lab/phase.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>

const double phase_points[PHASE_N_POINTS] = {50, 95, 99, 100};
const char *const phase_point_names[PHASE_N_POINTS] = {"p50", "p95", "p99", "max"};

static const struct phase_spec specs[PHASE_N] = {
    [PHASE_DIRECT] = {"direct", "Direct to A", "No gateway: the client speaks to A itself. The control.", PATH_DIRECT_A,
                      NULL, NULL},
    [PHASE_DIRECT_B] = {"direct_b", "Direct to B",
                        "No gateway: the client speaks to B itself. The best that a failover to B can give.",
                        PATH_DIRECT_B, NULL, NULL},
    [PHASE_HEALTHY] = {"healthy", "Through the gateway", "All is well and A serves.", PATH_GATEWAY, NULL, NULL},
    [PHASE_RATE_LIMITED] = {"rate_limited", "A answers 429", "A refuses every request at once.", PATH_GATEWAY, "429",
                            NULL},
    [PHASE_HANG] = {"hang", "A hangs", "A takes the request and never gives a byte; the first-token budget ends it.",
                    PATH_GATEWAY, "hang", NULL},
    [PHASE_ERROR_IN_200] = {"error_in_200", "A fails inside a 200",
                            "A answers 200 and then, before the first token, an error event.", PATH_GATEWAY,
                            "error-in-200", NULL},
    [PHASE_DOUBLE_FAILURE] = {"double_failure", "A and B fail", "A and B answer 503; C is the last one.", PATH_GATEWAY,
                              "503", "503"},
    [PHASE_COLD] = {"cold", "Cold standby", "A is down and the standby was idle: its connection and model are cold.",
                    PATH_STANDBY, NULL, NULL},
    [PHASE_WARM] = {"warm", "Warm standby", "The same with keepalive_sec on: the standby was kept warm.", PATH_STANDBY,
                    NULL, NULL},
    [PHASE_NAIVE] = {"naive", "A client by itself",
                     "No gateway and A hangs: the client gives up after the same budget, tries A again, then B.",
                     PATH_NAIVE, "hang", NULL},
};

const struct phase_spec *phase_spec(enum phase_id id)
{
    RM_ASSERT(id < PHASE_N);
    return &specs[id];
}

enum phase_id phase_find(struct bytes name)
{
    for (int i = 0; i < PHASE_N; i++)
        if (bytes_is(name, specs[i].name))
            return (enum phase_id)i;
    return PHASE_N;
}

const char *phase_nearest(struct bytes name)
{
    unsigned least = 64;
    const char *best = specs[0].name;
    for (int i = 0; i < PHASE_N; i++) {
        unsigned d = bytes_distance(bytes_of(specs[i].name), bytes_slice(name, 0, 64), 64);
        if (d < least) {
            least = d;
            best = specs[i].name;
        }
    }
    return best;
}

void phase_put(struct phase *p, const struct sample *s)
{
    if (p->n == p->cap) {
        p->cap = p->cap == 0 ? 256 : 2 * p->cap;
        p->v = mem_realloc(p->v, p->cap * sizeof *p->v);
    }
    p->v[p->n++] = *s;
}

static void count(struct phase_count *v, size_t *n, const char *word)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(v[i].word, word) == 0) {
            v[i].n++;
            return;
        }
    if (*n + 1 >= PHASE_WORDS_MAX && strcmp(word, "other") != 0) {
        count(v, n, "other");
        return;
    }
    snprintf(v[*n].word, sizeof v[*n].word, "%s", word);
    v[(*n)++].n = 1;
}

static int64_t plus(int64_t a, int64_t b)
{
    return a == NUSD_UNKNOWN || b == NUSD_UNKNOWN ? NUSD_UNKNOWN : a + b;
}

static void add(struct phase *p, const struct sample *s)
{
    if (s->is_ok) {
        p->n_ok++;
        dist_put(&p->ttft, (int64_t)(s->first_us - s->due_us), s->round);
        dist_put(&p->total, (int64_t)(s->end_us - s->due_us), s->round);
    } else {
        count(p->errors, &p->n_errors, s->error[0] != '\0' ? s->error : "not_sent");
    }
    if (s->provider[0] != '\0')
        count(p->served, &p->n_served, s->provider);
    p->input += s->input > 0 ? s->input : 0;
    p->output += s->output > 0 ? s->output : 0;
    p->cost_nusd = plus(p->cost_nusd, s->cost_nusd);
    p->waste_nusd = plus(p->waste_nusd, s->waste_nusd);
    p->attempts += s->attempts;
}

static void forget(struct phase *p)
{
    dist_fini(&p->ttft);
    dist_fini(&p->total);
    p->n_ok = p->n_errors = p->n_served = 0;
    p->input = p->output = 0;
    p->cost_nusd = p->waste_nusd = 0;
    p->attempts = 0;
}

void phase_close(struct phase *p)
{
    forget(p);
    for (size_t i = 0; i < p->n; i++)
        add(p, &p->v[i]);
    dist_sort(&p->ttft);
    dist_sort(&p->total);
    p->attempts = p->n > 0 ? p->attempts / (double)p->n : NAN;
    if (p->n == 0)
        p->cost_nusd = p->waste_nusd = NUSD_UNKNOWN;
}

void phase_fini(struct phase *p)
{
    forget(p);
    mem_free(p->v);
    *p = (struct phase){0};
}

double phase_waste_pct(int64_t cost_nusd, int64_t waste_nusd)
{
    if (cost_nusd == NUSD_UNKNOWN || waste_nusd == NUSD_UNKNOWN || cost_nusd == 0)
        return NAN;
    return 100.0 * (double)waste_nusd / (double)cost_nusd;
}

static double usd(int64_t nusd)
{
    return nusd == NUSD_UNKNOWN ? NAN : (double)nusd / 1e9;
}

void phase_figures(const struct phase *p, enum phase_id id, struct figures *f)
{
    const char *name = specs[id].name;
    bool was_run = p->n > 0;
    for (int i = 0; i < PHASE_N_POINTS; i++) {
        figures_put(f, dist_percentile_ms(&p->ttft, phase_points[i]), "%s.ttft.%s_ms", name, phase_point_names[i]);
        figures_put(f, dist_percentile_ms(&p->total, phase_points[i]), "%s.total.%s_ms", name, phase_point_names[i]);
    }
    figures_put(f, was_run ? (double)p->n : NAN, "%s.n", name);
    figures_put(f, was_run ? (double)p->n_ok : NAN, "%s.ok", name);
    figures_put(f, was_run ? (double)(p->n - p->n_ok) : NAN, "%s.errors", name);
    figures_put(f, was_run ? p->attempts : NAN, "%s.attempts", name);
    figures_put(f, was_run ? usd(p->cost_nusd) : NAN, "%s.cost_usd", name);
    figures_put(f, was_run ? usd(p->waste_nusd) : NAN, "%s.waste_usd", name);
    figures_put(f, was_run ? phase_waste_pct(p->cost_nusd, p->waste_nusd) : NAN, "%s.waste.pct", name);
}

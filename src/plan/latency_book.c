/* The history told to people, and carried over a restart:
 *
 *     latency SIZE EFFORT BUDGETS ANSWERED CUT provider host model
 *
 * BUDGETS: the last known one of each percentile in us, separated by commas. ANSWERED, CUT: the merged sketch's buckets
 * that hold something as BUCKET:WEIGHT, a fresh sample being 1024; "-" = none. The name goes to the end of the line. */
#include "plan/latency_impl.h"

#include <math.h>

enum { TOLD_MIN = 20 /* samples below which a quantile is no figure */ };
#define WEIGHT_ONE 1024.0
#define WEIGHT_MAX (UINT64_C(1) << 31)

/* ---- for people ---- */

static void add_counts(const struct track *t, struct latency_counts *out)
{
    const struct counters *c = &t->counters;
#define ADD(member) out->member += atomic_load_explicit(&c->member, memory_order_relaxed)
    ADD(n_answered);
    ADD(n_cut);
    ADD(n_late);
    ADD(n_late_soon);
    ADD(n_watched);
    ADD(n_moved);
    ADD(n_regimes);
    ADD(cut_nusd);
    ADD(late_nusd);
#undef ADD
}

static int tail_permille(const struct survival *s, uint64_t budget_us)
{
    double late = survival_at(s, budget_us) - survival_at(s, budget_us + budget_us / 2);
    return (int)(late * 1000 + 0.5);
}

bool latency_report(const struct latency *l, struct latency_key key, const struct auto_conf *conf, uint64_t now_us,
                    struct latency_report *out)
{
    const struct key *k = latency_find_key(l, key);
    struct sketch_sum sum;
    struct survival s;
    *out = (struct latency_report){.key = key, .tail_permille = -1};
    if (k == NULL)
        return false;
    (void)latency_merge(l, k, now_us, &sum);
    survival_of(&sum, &s);
    out->n_samples = sum.n_answered;
    if (sum.n_answered >= TOLD_MIN) {
        out->p50_us = survival_quantile(&s, 0.5);
        out->p95_us = survival_quantile(&s, 0.95);
        out->p99_us = survival_quantile(&s, 0.99);
    }
    uint64_t known = latency_known_budget(l, k, NULL, conf->percentile);
    out->budget_us = latency_budget_of(conf, sum.n_answered, known, &out->is_known);
    if (out->is_known)
        out->tail_permille = tail_permille(&s, out->budget_us);
    for (unsigned i = 0; i < l->n_cores; i++) {
        const struct track *t = atomic_load_explicit(&k->tracks[i], memory_order_acquire);
        if (t == NULL)
            continue;
        add_counts(t, &out->counts);
        out->is_still |= atomic_load_explicit(&t->is_bad, memory_order_relaxed);
    }
    return true;
}

struct latency_false latency_false(const struct latency_counts *c)
{
    struct latency_false f = {.n_trips = c->n_watched * (BUDGET_WATCH_EVERY - 1)};
    if (f.n_trips > c->n_cut)
        f.n_trips = c->n_cut;
    if (c->n_cut > 0) {
        double share = (double)f.n_trips / (double)c->n_cut;
        f.n_downgrades = (uint64_t)(share * (double)c->n_moved + 0.5);
        f.cost_nusd = (int64_t)(share * (double)c->cut_nusd + 0.5);
    }
    return f;
}

/* ---- writing ---- */

static void write_buckets(const double *v, struct buf *out)
{
    bool is_first = true;
    for (unsigned i = 0; i < SKETCH_BUCKETS; i++) {
        uint64_t weight = (uint64_t)(v[i] * WEIGHT_ONE + 0.5);
        if (weight == 0)
            continue;
        buf_printf(out, "%s%u:%llu", is_first ? "" : ",", i, (unsigned long long)weight);
        is_first = false;
    }
    buf_puts(out, is_first ? "- " : " ");
}

static void write_key(const struct latency *l, const struct registry *r, const struct key *k, uint64_t now_us,
                      struct buf *out)
{
    struct sketch_sum sum;
    for (int i = 0; i < 100 && !latency_merge(l, k, now_us, &sum); i++)
        ;
    if (sum.n_answered < 1)
        return;
    buf_printf(out, "latency %s %s ", latency_size_word(k->name.size), latency_effort_word(k->name.effort));
    for (unsigned p = 0; p < LATENCY_PERCENTILES; p++) {
        buf_puts(out, p > 0 ? "," : "");
        buf_put_u64(out, latency_known_budget(l, k, NULL, p));
    }
    buf_putc(out, ' ');
    write_buckets(sum.answered, out);
    write_buckets(sum.cut, out);
    buf_puts(out, registry_target_name(r, k->name.target_id));
    buf_putc(out, '\n');
}

void latency_write(const struct latency *l, const struct registry *r, uint64_t now_us, struct buf *out)
{
    for (size_t i = 0; i < RM_COUNTOF(l->keys); i++) {
        const struct key *k = atomic_load_explicit(&l->keys[i], memory_order_acquire);
        if (k != NULL)
            write_key(l, r, k, now_us, out);
    }
}

/* ---- reading ---- */

static bool read_word(struct bytes word, const char *(*words)(unsigned), unsigned n, uint8_t *out)
{
    for (unsigned i = 0; i < n; i++)
        if (bytes_is(word, words(i))) {
            *out = (uint8_t)i;
            return true;
        }
    return false;
}

static bool read_budgets(struct bytes text, uint64_t out[LATENCY_PERCENTILES])
{
    for (unsigned p = 0; p < LATENCY_PERCENTILES; p++)
        if (!bytes_to_u64(bytes_cut(&text, ','), &out[p]) || out[p] > sketch_time(SKETCH_BUCKETS - 1))
            return false;
    return text.p == NULL;
}

static bool read_buckets(struct bytes text, double *v, double *n)
{
    if (bytes_is(text, "-"))
        return true;
    while (text.p != NULL) {
        struct bytes weight = bytes_cut(&text, ','), bucket = bytes_cut(&weight, ':');
        uint64_t i, w;
        if (!bytes_to_u64(bucket, &i) || !bytes_to_u64(weight, &w) || i >= SKETCH_BUCKETS || w > WEIGHT_MAX || v[i] > 0)
            return false;
        v[i] = (double)w / WEIGHT_ONE;
        *n += v[i];
    }
    return true;
}

static void fade(struct sketch_sum *sum, uint64_t away_us)
{
    double left = exp2(-(double)away_us / (double)LATENCY_HALF_LIFE_US);
    for (unsigned i = 0; i < SKETCH_BUCKETS; i++) {
        sum->answered[i] *= left;
        sum->cut[i] *= left;
    }
}

enum err latency_read_line(struct latency *l, struct registry *r, struct bytes line, uint64_t away_us, uint64_t now_us)
{
    struct latency_key name = {0};
    struct key *k = NULL;
    uint64_t budgets[LATENCY_PERCENTILES];
    struct sketch_sum sum = {0};
    bool is_ours = bytes_is(bytes_cut(&line, ' '), "latency") &&
                   read_word(bytes_cut(&line, ' '), latency_size_word, LATENCY_SIZES, &name.size) &&
                   read_word(bytes_cut(&line, ' '), latency_effort_word, LATENCY_EFFORTS, &name.effort) &&
                   read_budgets(bytes_cut(&line, ' '), budgets) &&
                   read_buckets(bytes_cut(&line, ' '), sum.answered, &sum.n_answered) &&
                   read_buckets(bytes_cut(&line, ' '), sum.cut, &sum.n_cut);
    if (!is_ours)
        return ERR_SYNTAX;
    enum err e = registry_intern_name(r, line, &name.target_id);
    if (e != ERR_OK)
        return e;
    struct track *t = latency_track(latency_core(l, 0), name, &k);
    if (t == NULL)
        return ERR_LIMIT;
    fade(&sum, away_us);
    sketch_load(&t->sketch, &sum, now_us);
    for (unsigned p = 0; p < LATENCY_PERCENTILES; p++) {
        t->known_us[p] = (double)budgets[p];
        atomic_store_explicit(&t->budget_us[p], budgets[p], memory_order_relaxed);
    }
    return ERR_OK;
}

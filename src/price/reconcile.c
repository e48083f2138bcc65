/* Rows of both sides are put into one list, sorted by day and name, and equal neighbours are joined. */
#include "price/reconcile.h"

#include "base/check.h"

#include <stdlib.h>

enum { DAY_MS = 86400000, HALF_A_CENT_NUSD = 5000000 };

const char *reconcile_word(enum reconcile_verdict v)
{
    static const char *const words[] = {
        "agrees",      "tokens differ",      "rates differ",     "tokens and rates differ",
        "unexplained", "not on the invoice", "not on the ledger"};
    RM_ASSERT(v < RM_COUNTOF(words));
    return words[v];
}

/* ---- joining ---- */

static int compare_bytes(struct bytes a, struct bytes b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.p, b.p, n) : 0;
    return order != 0 ? order : a.n < b.n ? -1 : a.n > b.n;
}

static int by_day_and_name(const void *x, const void *y)
{
    const struct reconcile_row *a = x, *b = y;
    if (a->day != b->day)
        return a->day < b->day ? -1 : 1;
    int order = compare_bytes(price_dateless(a->model), price_dateless(b->model));
    if (order == 0)
        order = compare_bytes(a->model, b->model);
    return order != 0 ? order : b->has_ours - a->has_ours;
}

static void add_count(int64_t *sum, int64_t v)
{
    if (v < 0)
        return;
    if (*sum < 0)
        *sum = 0;
    if (__builtin_add_overflow(*sum, v, sum))
        *sum = INT64_MAX;
}

static void add_billed(struct reconcile_row *to, const struct reconcile_row *from)
{
    add_count(&to->billed.input, from->billed.input);
    add_count(&to->billed.cache_read, from->billed.cache_read);
    add_count(&to->billed.cache_write_5m, from->billed.cache_write_5m);
    add_count(&to->billed.cache_write_1h, from->billed.cache_write_1h);
    add_count(&to->billed.output, from->billed.output);
    if (from->billed_nusd != NUSD_UNKNOWN)
        to->billed_nusd = (to->billed_nusd == NUSD_UNKNOWN ? 0 : to->billed_nusd) + from->billed_nusd;
    if (from->has_invoice)
        to->billed_model = from->billed_model;
    to->has_invoice |= from->has_invoice;
}

/* Equal names join always; a name with a date joins one without, or with another, only across the two sides: two dated
 * models of the ledger stay two. */
static bool is_same(const struct reconcile_row *a, const struct reconcile_row *b)
{
    if (a->day != b->day)
        return false;
    if (bytes_eq(a->model, b->model) || (b->has_invoice && bytes_eq(a->billed_model, b->model)))
        return true;
    bool is_across = a->has_ours != b->has_ours && !(a->has_invoice && b->has_invoice);
    return is_across && bytes_eq(price_dateless(a->model), price_dateless(b->model));
}

static void join(struct reconcile_row *to, const struct reconcile_row *from)
{
    if (from->has_ours) {
        to->ours = from->ours;
        to->has_ours = true;
        to->model = from->model;
    }
    add_billed(to, from);
}

static void join_rows(struct reconcile *out)
{
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++) {
        size_t at = n;
        for (size_t k = n; k > 0 && out->rows[k - 1].day == out->rows[i].day; k--)
            if (is_same(&out->rows[k - 1], &out->rows[i])) {
                at = k - 1;
                break;
            }
        if (at < n)
            join(&out->rows[at], &out->rows[i]);
        else
            out->rows[n++] = out->rows[i];
    }
    out->n = n;
}

static struct reconcile_row row_of_invoice(const struct invoice_row *r, bool is_input_whole)
{
    struct reconcile_row row = {
        .day = r->day, .model = r->model, .billed_model = r->model, .has_invoice = true, .billed = r->usage};
    struct usage cached = r->usage;
    cached.input = 0;
    row.billed_nusd = r->cost_nusd;
    row.ours.usage = (struct usage){0};
    if (is_input_whole && r->usage.input >= 0) {
        int64_t rest = r->usage.input - usage_prompt(&cached);
        row.billed.input = rest > 0 ? rest : 0;
    }
    return row;
}

/* ---- judging ---- */

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

static bool is_near(int64_t a, int64_t b, int64_t floor, uint32_t ppm)
{
    __int128 room = (__int128)(b < 0 ? -b : b) * ppm / 1000000;
    return distance(a, b) <= floor + room;
}

static int64_t shown(int64_t count)
{
    return count < 0 ? 0 : count;
}

static bool are_tokens_near(const struct reconcile_row *r, uint32_t ppm)
{
    const struct usage *a = &r->ours.usage, *b = &r->billed;
    return (b->input < 0 || is_near(a->input, b->input, 0, ppm)) &&
           (b->cache_read < 0 || is_near(a->cache_read, b->cache_read, 0, ppm)) &&
           (b->cache_write_5m < 0 || is_near(a->cache_write_5m, b->cache_write_5m, 0, ppm)) &&
           (b->cache_write_1h < 0 || is_near(a->cache_write_1h, b->cache_write_1h, 0, ppm)) &&
           (b->output < 0 || is_near(a->output, b->output, 0, ppm));
}

/* Tokens of many requests at the rates of a short one: tiers cannot be told from sums, and count as rates. */
static int64_t plain_cost(const struct price *p, const struct usage *u)
{
    struct price plain = *p;
    plain.more = NULL;
    return price_cost(&plain, u);
}

/* Kinds that the invoice does not tell are taken to be as ours. */
static struct usage filled(const struct reconcile_row *r)
{
    struct usage u = r->ours.usage;
    usage_merge(&u, &r->billed);
    u.reasoning = 0;
    return u;
}

static bool has_tokens(const struct usage *u)
{
    return u->input >= 0 || u->output >= 0;
}

static void explain(struct reconcile_row *r, const struct reconcile_ask *ask)
{
    const char *service = r->ours.service == NULL || r->ours.is_mixed ? "" : r->ours.service;
    const struct price *p = ask->find != NULL ? ask->find(r->model, service, r->day * DAY_MS, ask->arg) : NULL;
    struct usage billed = filled(r), ours = r->ours.usage;
    ours.reasoning = 0;
    r->tokens_nusd = r->rates_nusd = NUSD_UNKNOWN;
    if (p == NULL || !has_tokens(&r->billed))
        return;
    int64_t theirs = plain_cost(p, &billed), mine = plain_cost(p, &ours);
    if (theirs == NUSD_UNKNOWN || mine == NUSD_UNKNOWN)
        return;
    r->tokens_nusd = theirs - mine;
    if (r->difference_nusd != NUSD_UNKNOWN)
        r->rates_nusd = r->difference_nusd - r->tokens_nusd;
}

static enum reconcile_verdict judge_parts(const struct reconcile_row *r, uint32_t ppm)
{
    int64_t whole = r->billed_nusd;
    bool tokens = !is_near(whole - r->tokens_nusd, whole, HALF_A_CENT_NUSD, ppm);
    bool rates = !is_near(whole - r->rates_nusd, whole, HALF_A_CENT_NUSD, ppm);
    return tokens && rates ? RECONCILE_BOTH : tokens ? RECONCILE_TOKENS : rates ? RECONCILE_RATES : RECONCILE_BOTH;
}

static bool has_none(const struct usage *u)
{
    return usage_prompt(u) == 0 && u->output <= 0;
}

/* A side alone that tells of nothing: exports list days without calls. */
static bool is_nothing(const struct reconcile_row *r)
{
    if (r->has_ours)
        return r->ours.cost_nusd == 0 && r->ours.n_unpriced == 0 && has_none(&r->ours.usage);
    return (r->billed_nusd == 0 || r->billed_nusd == NUSD_UNKNOWN) && has_none(&r->billed);
}

static void judge(struct reconcile_row *r, const struct reconcile_ask *ask)
{
    r->difference_nusd = r->billed_nusd == NUSD_UNKNOWN ? NUSD_UNKNOWN : r->billed_nusd - r->ours.cost_nusd;
    explain(r, ask);
    if (!r->has_ours || !r->has_invoice) {
        r->verdict = is_nothing(r) ? RECONCILE_AGREES : r->has_ours ? RECONCILE_ONLY_OURS : RECONCILE_ONLY_INVOICE;
        return;
    }
    if (r->billed_nusd == NUSD_UNKNOWN) {
        r->verdict = are_tokens_near(r, ask->tolerance_ppm) ? RECONCILE_AGREES : RECONCILE_TOKENS;
        return;
    }
    if (is_near(r->ours.cost_nusd, r->billed_nusd, HALF_A_CENT_NUSD, ask->tolerance_ppm))
        r->verdict = RECONCILE_AGREES;
    else if (r->rates_nusd == NUSD_UNKNOWN)
        r->verdict = has_tokens(&r->billed) && !are_tokens_near(r, ask->tolerance_ppm) ? RECONCILE_TOKENS
                                                                                       : RECONCILE_UNEXPLAINED;
    else
        r->verdict = judge_parts(r, ask->tolerance_ppm);
}

void reconcile(const struct reconcile_ask *ask, struct arena *arena, struct reconcile *out)
{
    *out = (struct reconcile){.rows = ARENA_ARRAY(arena, struct reconcile_row, ask->n_ours + ask->invoice->n + 1)};
    for (size_t i = 0; i < ask->n_ours; i++)
        out->rows[out->n++] = (struct reconcile_row){.day = ask->ours[i].day,
                                                     .model = ask->ours[i].model,
                                                     .has_ours = true,
                                                     .ours = ask->ours[i],
                                                     .billed = USAGE_NONE,
                                                     .billed_nusd = NUSD_UNKNOWN};
    for (size_t i = 0; i < ask->invoice->n; i++)
        out->rows[out->n++] = row_of_invoice(&ask->invoice->rows[i], ask->is_input_whole);
    qsort(out->rows, out->n, sizeof out->rows[0], by_day_and_name);
    join_rows(out);
    for (size_t i = 0; i < out->n; i++) {
        struct reconcile_row *r = &out->rows[i];
        judge(r, ask);
        out->ours_nusd += shown(r->ours.cost_nusd);
        out->billed_nusd += r->billed_nusd == NUSD_UNKNOWN ? 0 : r->billed_nusd;
    }
}

#include "unit.h"

#include "base/mem.h"
#include "price/reconcile.h"

/* USD per million: 1 in, 10 out, 0.1 read. */
static const struct price known = {1000000, 10000000, 100000, -1, -1, "t", "t", NULL};

static const struct price flex = {500000, 5000000, 50000, -1, -1, "t", "t", NULL};

static const struct price *find(struct bytes model, const char *service, int64_t wall_ms, void *arg)
{
    if (strcmp(service, "flex") == 0)
        return &flex;
    return bytes_is(model, "unpriced") ? NULL : &known;
}

static struct invoice_row billed(const char *model, int64_t in, int64_t read, int64_t out, int64_t cost_nusd)
{
    return (struct invoice_row){.day = 100,
                                .model = bytes_of(model),
                                .usage = {in, read, -1, -1, out, -1},
                                .requests = -1,
                                .cost_nusd = cost_nusd};
}

static struct day_use ours(const char *model, int64_t in, int64_t read, int64_t out, int64_t cost_nusd)
{
    return (struct day_use){.day = 100,
                            .model = bytes_of(model),
                            .n_attempts = 9,
                            .usage = {in, read, 0, 0, out, 0},
                            .cost_nusd = cost_nusd};
}

/* One row of each side -> the row that comes of them. */
static struct reconcile_row one(struct day_use mine, struct invoice_row theirs, bool is_input_whole)
{
    struct arena a = {0};
    struct invoice in = {.rows = &theirs, .n = 1};
    struct reconcile_ask ask = {&mine, 1, &in, is_input_whole, 1000, find, NULL};
    struct reconcile out;
    reconcile(&ask, &a, &out);
    assert_int_equal(out.n, 1);
    struct reconcile_row row = out.rows[0];
    arena_fini(&a);
    return row;
}

#define MILLION INT64_C(1000000)
#define USD INT64_C(1000000000)

/* What all of a day had of one class is taken at its rates; of several, at the standard ones. */
static void classes_of_service(void **state)
{
    struct day_use mine = ours("m", 2 * MILLION, 0, 0, USD);
    struct invoice_row theirs = billed("m", 3 * MILLION, 0, 0, USD + USD / 2);
    mine.n_classed = 9;
    mine.service = "flex";
    struct reconcile_row r = one(mine, theirs, false);
    assert_int_equal(r.verdict, RECONCILE_TOKENS);
    assert_int_equal(r.tokens_nusd, USD / 2);
    assert_int_equal(r.rates_nusd, 0);
    mine.is_mixed = true;
    r = one(mine, theirs, false);
    assert_int_equal(r.tokens_nusd, USD);
    assert_int_equal(r.rates_nusd, -USD / 2);
}

static void agrees(void **state)
{
    struct reconcile_row r = one(ours("m", 5 * MILLION, 0, MILLION, 15 * USD),
                                 billed("m", 5 * MILLION, 0, MILLION, 15 * USD + 9000000), false); /* 0.06 % */
    assert_int_equal(r.verdict, RECONCILE_AGREES);
    r = one(ours("m", 10, 0, 10, 110000), billed("m", 10, 0, 10, 0), false); /* less than half a cent */
    assert_int_equal(r.verdict, RECONCILE_AGREES);
    /* its input holds what was read: 5 = 2 + 3 */
    r = one(ours("m", 2 * MILLION, 3 * MILLION, 0, 2300 * MILLION),
            billed("m", 5 * MILLION, 3 * MILLION, 0, 2300 * MILLION), true);
    assert_int_equal(r.verdict, RECONCILE_AGREES);
    assert_int_equal(r.billed.input, 2 * MILLION);
    assert_int_equal(r.tokens_nusd, 0);
}

static void where_it_lies(void **state)
{
    /* Two million tokens in more, at the known price: 2 USD. */
    struct reconcile_row r =
        one(ours("m", 5 * MILLION, 0, MILLION, 15 * USD), billed("m", 7 * MILLION, 0, MILLION, 17 * USD), false);
    assert_int_equal(r.verdict, RECONCILE_TOKENS);
    assert_int_equal(r.difference_nusd, 2 * USD);
    assert_int_equal(r.tokens_nusd, 2 * USD);
    assert_int_equal(r.rates_nusd, 0);
    /* The same tokens, 20 % dearer. */
    r = one(ours("m", 5 * MILLION, 0, MILLION, 15 * USD), billed("m", 5 * MILLION, 0, MILLION, 18 * USD), false);
    assert_int_equal(r.verdict, RECONCILE_RATES);
    assert_int_equal(r.tokens_nusd, 0);
    assert_int_equal(r.rates_nusd, 3 * USD);
    /* Both. */
    r = one(ours("m", 5 * MILLION, 0, MILLION, 15 * USD), billed("m", 7 * MILLION, 0, MILLION, 20 * USD), false);
    assert_int_equal(r.verdict, RECONCILE_BOTH);
    assert_int_equal(r.tokens_nusd, 2 * USD);
    assert_int_equal(r.rates_nusd, 3 * USD);
    /* No tokens on the invoice, or no price: the difference is all that can be told. */
    r = one(ours("m", 5, 0, 5, 15 * USD), billed("m", -1, -1, -1, 18 * USD), false);
    assert_int_equal(r.verdict, RECONCILE_UNEXPLAINED);
    assert_int_equal(r.difference_nusd, 3 * USD);
    assert_int_equal(r.rates_nusd, NUSD_UNKNOWN);
    r = one(ours("unpriced", 5, 0, 5, 0), billed("unpriced", 5, 0, 5, 18 * USD), false);
    assert_int_equal(r.verdict, RECONCILE_UNEXPLAINED);
    /* No cost: only tokens can differ. */
    r = one(ours("m", 5000, 0, 5, 0), billed("m", 5005, 0, 5, NUSD_UNKNOWN), false);
    assert_int_equal(r.verdict, RECONCILE_AGREES);
    r = one(ours("m", 5000, 0, 5, 0), billed("m", 5006, 0, 5, NUSD_UNKNOWN), false);
    assert_int_equal(r.verdict, RECONCILE_TOKENS);
    assert_int_equal(r.difference_nusd, NUSD_UNKNOWN);
}

static const struct reconcile_row *row_of(const struct reconcile *r, const char *model)
{
    for (size_t i = 0; i < r->n; i++)
        if (bytes_is(r->rows[i].model, model))
            return &r->rows[i];
    fail_msg("no row %s", model);
    return NULL;
}

static void joined_by_day_and_name(void **state)
{
    struct day_use mine[] = {ours("gpt-x", 100, 0, 10, 1), ours("claude-y-20250929", 100, 0, 10, 1),
                             ours("gone", 100, 0, 10, 5 * USD), ours("m-20250101", 1, 0, 1, 1),
                             ours("m-20250202", 2, 0, 2, 1)};
    struct invoice_row theirs[] = {billed("claude-y", 100, 0, 10, 2),       billed("gpt-x-2026-01-01", 60, 0, 4, 1),
                                   billed("gpt-x-2026-01-01", 40, 0, 6, 1), billed("new", 7, 0, 7, 3 * USD),
                                   billed("m-20250202", 2, 0, 2, 1),        billed("m-20250101", 1, 0, 1, 1)};
    struct invoice in = {.rows = theirs, .n = 6};
    struct reconcile_ask ask = {mine, 5, &in, false, 1000, find, NULL};
    struct reconcile out;
    struct arena a = {0};
    reconcile(&ask, &a, &out);
    assert_int_equal(out.n, 6);
    const struct reconcile_row *x = row_of(&out, "gpt-x");
    assert_true(x->has_ours && x->has_invoice);
    assert_int_equal(x->billed.input, 100); /* two rows of one day */
    assert_int_equal(x->billed.output, 10);
    assert_int_equal(x->billed_nusd, 2);
    assert_int_equal(row_of(&out, "claude-y-20250929")->billed.input, 100);
    assert_int_equal(row_of(&out, "m-20250101")->billed.input, 1); /* two dated ones stay two */
    assert_int_equal(row_of(&out, "m-20250202")->billed.input, 2);
    assert_int_equal(row_of(&out, "gone")->verdict, RECONCILE_ONLY_OURS);
    assert_int_equal(row_of(&out, "new")->verdict, RECONCILE_ONLY_INVOICE);
    assert_int_equal(row_of(&out, "new")->difference_nusd, 3 * USD);
    assert_int_equal(out.ours_nusd, 5 * USD + 4);
    assert_int_equal(out.billed_nusd, 3 * USD + 6);
    arena_fini(&a);
    theirs[0].day = 101; /* another day is another row */
    reconcile(&ask, &a, &out);
    assert_int_equal(out.n, 7);
    arena_fini(&a);
    assert_int_equal(mem_live(MEM_ARENA), 0);
}

/* Days and models without a call stand in exports too. */
static void nothing_agrees_with_nothing(void **state)
{
    struct day_use mine[] = {ours("idle", 0, 0, 0, 0), ours("used", 1, 0, 0, 0)};
    struct invoice_row theirs[] = {billed("zero", 0, 0, 0, 0), billed("untold", -1, -1, -1, 0),
                                   billed("free", 5, 0, 0, 0), billed("paid", 0, 0, 0, 1)};
    struct invoice in = {.rows = theirs, .n = 4};
    struct reconcile_ask ask = {mine, 2, &in, false, 1000, find, NULL};
    struct reconcile out;
    struct arena a = {0};
    reconcile(&ask, &a, &out);
    assert_int_equal(out.n, 6);
    assert_int_equal(row_of(&out, "idle")->verdict, RECONCILE_AGREES);
    assert_int_equal(row_of(&out, "zero")->verdict, RECONCILE_AGREES);
    assert_int_equal(row_of(&out, "untold")->verdict, RECONCILE_AGREES);
    assert_int_equal(row_of(&out, "used")->verdict, RECONCILE_ONLY_OURS);
    assert_int_equal(row_of(&out, "free")->verdict, RECONCILE_ONLY_INVOICE);
    assert_int_equal(row_of(&out, "paid")->verdict, RECONCILE_ONLY_INVOICE);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees),
        cmocka_unit_test(where_it_lies),
        cmocka_unit_test(joined_by_day_and_name),
        cmocka_unit_test(nothing_agrees_with_nothing),
        cmocka_unit_test(classes_of_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "unit.h"

#include "price/article.h"
#include "price/show.h"

static void compute(struct article *a)
{
    struct price_book *b = price_book_builtin();
    assert_true(article_compute(b, a));
    price_book_free(b);
}

/* The printed figure, to the cent and to its last digit; and the three amounts in hundredths of a cent. */
struct row {
    const char *name;
    int cents, change;
    int64_t bill, gross, net; /* -1 = does not apply */
};

static const struct row rows[] = {
    {"gpt-5.6-sol", 2500, 0, 250000, -1, -1},
    {"claude-sonnet-5", 900, 0, 90000, -1, -1},
    {"claude-haiku-4.5", 450, 0, 45000, -1, -1},
    {"deepseek-v4-flash", 42, 0, 4200, -1, -1},
    {"fails at once (503)", 0, 0, -1, 0, -1},
    {"hangs until cut", 1750, 0, -1, 175000, -1},
    {"all of them, at 0.5 %", 9, 0, -1, 875, -1},
    {"primary only", 2500, 0, 250000, -1, -1},
    {"sequential", 2501, 3, 250075, 875, 75},
    {"hedged, take first", 2900, 16, 290000, 40000, 40000},
    {"hedged, no cancel", 3400, 36, 340000, 90000, 90000},
    {"fails at once", 900, 0, 90000, 0, -160000},
    {"hangs until the timeout", 2650, 6, 265000, 175000, 15000},
    {"real outages, 0.5 %", 9, 3, 250075, 875, 75},
    {"too tight, 5 % of healthy calls", 133, 53, 250750, 8750, 750},
    {"primary, warm", 3250, 0, 325000, -1, -1},
    {"1st failover, cold", 3900, 12, 390000, -1, 65000},
    {"1st failover, with cache write", 7650, 24, 465000, -1, 140000},
    {"later failovers, warm", 1200, 4, 120000, -1, -205000},
};

static int64_t amount(int64_t v)
{
    return v == -1 ? NUSD_UNKNOWN : v * 100000;
}

static void every_figure(void **state)
{
    struct article a;
    compute(&a);
    assert_int_equal(a.n, sizeof rows / sizeof rows[0]);
    for (size_t i = 0; i < a.n; i++) {
        const struct article_figure *f = &a.figures[i];
        assert_string_equal(f->name, rows[i].name);
        assert_int_equal(f->published_cents, rows[i].cents);
        assert_int_equal(f->published_change, rows[i].change);
        assert_true(f->agrees);
        assert_int_equal(show_ratio(f->as_published_nusd, 1000000000, 1, 2), rows[i].cents);
        assert_int_equal(f->change, rows[i].change);
        assert_int_equal(f->bill_nusd, amount(rows[i].bill));
        assert_int_equal(f->gross_nusd, amount(rows[i].gross));
        assert_int_equal(f->net_nusd, amount(rows[i].net));
    }
    /* With the failures: 0.995 x 29 + 0.005 x (17.5 + 9), and 0.995 x 34 + the same. */
    assert_int_equal(a.hedged_nusd[0], INT64_C(28987500000));
    assert_int_equal(a.hedged_nusd[1], INT64_C(33962500000));
}

static void three_corrections(void **state)
{
    static const char *const lines[ARTICLE_CORRECTIONS] = {
        "+$0.09 / +0.03 % mixes two accountings, gross dollars and a net per cent: gross +$0.0875 (+0.35 %), net "
        "+$0.0075 "
        "(+0.03 %).",
        "+$1.33 / +5.3 % adds the whole bill of the redone calls and does not take off what they cost anyway: gross "
        "+$0.8750 (+3.50 %), net +$0.0750 (+0.30 %).",
        "$76.50 / 2.4x counts the prefix twice, as input and as cache write; a write takes the place of the input "
        "price: "
        "the bill is $46.50, 1.4x.",
    };
    struct article a;
    compute(&a);
    for (size_t i = 0; i < ARTICLE_CORRECTIONS; i++) {
        struct buf b = {0};
        article_correction(&a, i, &b);
        assert_string_equal(buf_cstr(&b), lines[i]);
        buf_fini(&b);
    }
}

/* None of ours is typed in: another price gives other figures, and they no longer agree. */
static void follows_the_book(void **state)
{
    static const char dearer[] =
        "{\"version\":\"x\",\"prices\":["
        "{\"names\":[\"gpt-5.6-sol\"],\"input\":\"10\",\"output\":\"30\",\"cache_read\":\"0.5\"},"
        "{\"names\":[\"claude-sonnet-5\"],\"input\":\"2\",\"output\":\"10\",\"cache_read\":\"0.2\",\"cache_write_5m\":"
        "\"2.5\"},"
        "{\"names\":[\"claude-haiku-4.5\"],\"input\":\"1\",\"output\":\"5\"},"
        "{\"names\":[\"deepseek-v4-flash\"],\"input\":\"0.14\",\"output\":\"0.28\"}]}";
    struct price_book *b;
    struct buf why = {0};
    struct article a;
    assert_int_equal(price_book_parse(bytes_of(dearer), &b, &why), ERR_OK);
    assert_true(article_compute(b, &a));
    assert_int_equal(a.figures[0].as_published_nusd, INT64_C(35000000000));
    assert_false(a.figures[0].agrees);
    assert_true(a.figures[1].agrees);
    assert_int_equal(a.figures[5].gross_nusd, INT64_C(27500000000));
    price_book_free(b);
    assert_int_equal(price_book_parse(BYTES("{\"version\":\"x\",\"prices\":[]}"), &b, &why), ERR_OK);
    assert_false(article_compute(b, &a));
    price_book_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure),
        cmocka_unit_test(three_corrections),
        cmocka_unit_test(follows_the_book),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

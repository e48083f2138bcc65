#include "unit.h"

#include "base/mem.h"
#include "price/price.h"

static const int64_t july_18 = INT64_C(1784332800000);     /* 2026-07-18T00:00:00Z */
static const int64_t september_1 = INT64_C(1788220800000); /* 2026-09-01T00:00:00Z */

static void builtin_holds_the_published_prices(void **state)
{
    struct price_book *b = price_book_builtin();
    assert_true(price_book_n(b) >= 7);
    const struct price *sol = price_find(b, "main", "openai", "gpt-5.6-sol", july_18);
    assert_non_null(sol);
    assert_int_equal(sol->input, 5000000);
    assert_int_equal(sol->output, 30000000);
    assert_int_equal(sol->cache_read, 500000);
    assert_int_equal(sol->cache_write_5m, 6250000);
    const struct price *haiku = price_find(b, "x", "anthropic", "claude-haiku-4-5", july_18);
    assert_ptr_equal(haiku, price_find(b, "x", "", "claude-haiku-4.5", july_18));
    assert_int_equal(haiku->output, 5000000);
    const struct price *flash = price_find(b, "x", "deepseek", "deepseek-v4-flash", july_18);
    assert_int_equal(flash->input, 140000);
    assert_int_equal(flash->output, 280000);
    assert_int_equal(flash->cache_read, -1);
    static const char *const demo[] = {"demo-alpha", "demo-beta", "demo-gamma"};
    for (size_t i = 0; i < 3; i++) {
        const struct price *p = price_find(b, "x", "generic", demo[i], july_18);
        assert_non_null(p);
        assert_non_null(strstr(p->source, "made up"));
    }
    price_book_free(b);
    assert_int_equal(mem_live(MEM_ARENA), 0);
}

/* 2,000 in and 500 out, a thousand times: the figures of the published comparison. */
static void published_comparison(void **state)
{
    struct price_book *b = price_book_builtin();
    struct usage u = {2000, 0, 0, 0, 500, -1};
    assert_int_equal(price_cost(price_find(b, "", "", "gpt-5.6-sol", july_18), &u), 25000000);
    assert_int_equal(price_cost(price_find(b, "", "", "claude-sonnet-5", july_18), &u), 9000000);
    assert_int_equal(price_cost(price_find(b, "", "", "claude-haiku-4.5", july_18), &u), 4500000);
    assert_int_equal(price_cost(price_find(b, "", "", "deepseek-v4-flash", july_18), &u), 420000);
    price_book_free(b);
}

static void introductory_price_ends(void **state)
{
    struct price_book *b = price_book_builtin();
    assert_non_null(price_find(b, "a", "anthropic", "claude-sonnet-5", september_1 - 1));
    assert_null(price_find(b, "a", "anthropic", "claude-sonnet-5", september_1));
    price_book_free(b);
}

static const char spans[] =
    "{\"version\":\"v9\",\"prices\":["
    "{\"names\":[\"m\"],\"vendor\":\"maker\",\"input\":\"1\",\"output\":\"1\",\"valid_until\":\"2026-07-17\"},"
    "{\"names\":[\"m\"],\"vendor\":\"maker\",\"input\":\"2\",\"output\":\"2\",\"valid_from\":\"2026-07-18\"},"
    "{\"names\":[\"shop/m\"],\"input\":\"3\",\"output\":\"3\"},"
    "{\"names\":[\"mine/m\"],\"input\":\"4\",\"output\":\"4\"}]}";

static void names_and_spans(void **state)
{
    struct price_book *b;
    const char *why;
    assert_int_equal(price_book_parse(bytes_of(spans), &b, &why), ERR_OK);
    assert_int_equal(price_find(b, "p", "", "m", july_18 - 1)->input, 1000000);
    assert_int_equal(price_find(b, "p", "", "m", july_18)->input, 2000000);
    assert_string_equal(price_find(b, "p", "", "m", july_18)->version, "v9");
    assert_int_equal(price_find(b, "p", "maker", "m", july_18)->input, 2000000);
    assert_int_equal(price_find(b, "p", "generic", "m", july_18)->input, 2000000);
    assert_int_equal(price_find(b, "p", "shop", "m", july_18)->input, 3000000);    /* vendor/model */
    assert_int_equal(price_find(b, "mine", "shop", "m", july_18)->input, 4000000); /* provider/model goes first */
    assert_null(price_find(b, "p", "reseller", "m", july_18));                     /* a bare name is the maker's */
    assert_null(price_find(b, "p", "maker", "M", july_18));
    assert_null(price_find(b, "p", "maker", "", july_18));
    price_book_free(b);
}

static void bad_books(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{\"version\":\"1\"}",
        "{\"prices\":[]}",
        "{\"version\":\"1\",\"prices\":[1]}",
        "{\"version\":\"1\",\"prices\":[{\"names\":[],\"input\":\"1\"}]}",
        "{\"version\":\"1\",\"prices\":[{\"names\":[\"m\"]}]}",
        "{\"version\":\"1\",\"prices\":[{\"names\":[\"m\"],\"input\":1}]}",
        "{\"version\":\"1\",\"prices\":[{\"names\":[\"m\"],\"input\":\"-1\"}]}",
        "{\"version\":\"1\",\"prices\":[{\"names\":[\"m\"],\"input\":\"1e3\"}]}",
        "{\"version\":\"1\",\"prices\":[{\"names\":[\"m\"],\"input\":\"1\",\"valid_until\":\"soon\"}]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct price_book *b = (struct price_book *)1;
        const char *why = NULL;
        assert_int_not_equal(price_book_parse(bytes_of(bad[i]), &b, &why), ERR_OK);
        assert_null(b);
        assert_non_null(why);
    }
    assert_int_equal(mem_live(MEM_ARENA), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builtin_holds_the_published_prices),
        cmocka_unit_test(published_comparison),
        cmocka_unit_test(introductory_price_ends),
        cmocka_unit_test(names_and_spans),
        cmocka_unit_test(bad_books),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
    assert_int_equal(price_find(b, "x", "openai", "gpt-5", july_18)->input, 1250000);
    assert_int_equal(price_find_service(b, "x", "openai", "gpt-5", "flex", july_18)->output, 5000000);
    assert_int_equal(price_find(b, "x", "anthropic", "claude-haiku-4-5-20251001", july_18)->cache_write_1h, 2000000);
    assert_int_equal(price_find_service(b, "x", "anthropic", "claude-opus-4-6", "us", july_18)->input, 5500000);
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
    const struct price *before = price_find(b, "a", "anthropic", "claude-sonnet-5", september_1 - 1);
    const struct price *after = price_find(b, "a", "anthropic", "claude-sonnet-5", september_1);
    assert_int_equal(before->input, 2000000);
    assert_int_equal(before->output, 10000000);
    assert_int_equal(after->input, 3000000);
    assert_int_equal(after->output, 15000000);
    assert_int_equal(after->cache_read, 300000);
    assert_int_equal(after->cache_write_5m, 3750000);
    assert_int_equal(after->cache_write_1h, 6000000);
    /* Google's models are found under either name of its house, and at no other's. */
    assert_non_null(price_find(b, "a", "google", "gemini-2.5-pro", september_1));
    assert_null(price_find(b, "a", "novita", "gemini-2.5-pro", september_1));
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
    struct buf why = {0};
    assert_int_equal(price_book_parse(bytes_of(spans), &b, &why), ERR_OK);
    assert_int_equal(why.n, 0);
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

static struct price_book *parse(const char *text)
{
    struct price_book *b;
    struct buf why = {0};
    if (price_book_parse(bytes_of(text), &b, &why) != ERR_OK)
        fail_msg("%s", buf_cstr(&why));
    return b;
}

static void what_few_prices_have(void **state)
{
    struct price_book *b =
        parse("{\"version\":\"v1\",\"source\":\"the shop's page\",\"valid_from\":\"2026-07-18\",\"prices\":["
              "{\"names\":[\"m\"],\"input\":\"1\",\"output\":\"2\",\"reasoning\":\"3\",\"request\":\"0.000000000005\","
              "\"tiers\":[{\"above\":128000,\"input\":\"4\"},{\"above\":200000,\"inclusive\":true,\"output\":\"5\"}]},"
              "{\"names\":[\"m\"],\"service\":\"flex\",\"input\":\"0.5\",\"output\":\"1\",\"version\":\"v1f\","
              "\"source\":\"mail\"},"
              "{\"names\":[\"old\"],\"input\":\"1\",\"output\":\"1\",\"valid_from\":\"2020-01-01\"}]}");
    const struct price *p = price_find(b, "", "", "m", july_18);
    assert_int_equal(p->more->reasoning, 3000000);
    assert_int_equal(p->more->request, 5);
    assert_int_equal(p->more->n_tiers, 2);
    assert_int_equal(p->more->tiers[0].above, 128000);
    assert_int_equal(p->more->tiers[0].input, 4000000);
    assert_int_equal(p->more->tiers[0].output, -1);
    assert_true(p->more->tiers[1].is_inclusive);
    assert_string_equal(p->source, "the shop's page");
    assert_string_equal(price_book_version(b), "v1");
    const struct price *flex = price_find_service(b, "", "", "m", "flex", july_18);
    assert_int_equal(flex->input, 500000);
    assert_null(flex->more);
    assert_string_equal(flex->version, "v1f");
    assert_string_equal(flex->source, "mail");
    assert_ptr_equal(price_find_service(b, "", "", "m", "priority", july_18), p);
    assert_null(price_find(b, "", "", "m", july_18 - 1)); /* the book's head holds for entries that do not say */
    assert_non_null(price_find(b, "", "", "old", july_18 - 1));
    struct arena a = {0};
    const struct price *kept = price_keep(p, &a);
    price_book_free(b);
    assert_int_equal(kept->more->tiers[1].output, 5000000);
    assert_string_equal(kept->version, "v1");
    arena_fini(&a);
}

/* As it is written; without a region; without a date: in this order. */
static void names_that_are_near(void **state)
{
    struct price_book *b =
        parse("{\"version\":\"v\",\"prices\":["
              "{\"names\":[\"bedrock/anthropic.claude-x-v1:0\"],\"input\":\"1\",\"output\":\"1\"},"
              "{\"names\":[\"bedrock/eu.anthropic.claude-x-v1:0\"],\"input\":\"2\",\"output\":\"2\"},"
              "{\"names\":[\"claude-x\"],\"vendor\":\"anthropic\",\"input\":\"3\",\"output\":\"3\"},"
              "{\"names\":[\"claude-x-20250929\"],\"vendor\":\"anthropic\",\"input\":\"4\",\"output\":\"4\"}]}");
    static const struct {
        const char *vendor, *model;
        int64_t input; /* USD per million; 0 = unknown */
    } cases[] = {
        {"bedrock", "eu.anthropic.claude-x-v1:0", 2}, {"bedrock", "us.anthropic.claude-x-v1:0", 1},
        {"bedrock", "anthropic.claude-x-v1:0", 1},    {"anthropic", "claude-x-20250929", 4},
        {"anthropic", "claude-x-20251001", 3},        {"anthropic", "claude-x-2025-10-01", 3},
        {"anthropic", "claude-x@20251001", 3},        {"anthropic", "claude-x-2025", 0},
        {"anthropic", "claude-x-30251001", 0},        {"anthropic", "-20251001", 0},
        {"reseller", "claude-x-20251001", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct price *p = price_find(b, "mine", cases[i].vendor, cases[i].model, july_18);
        assert_int_equal(p == NULL ? 0 : p->input / 1000000, cases[i].input);
    }
    price_book_free(b);
}

#define HEAD "{\"version\":\"1\",\n\"prices\":["
static void bad_books(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "line 1: not well-formed JSON"},
        {"{", "line 1: not well-formed JSON"},
        {"{\"version\":\"1\",\n\"prices\":[}", "line 2: not well-formed JSON"},
        {"[[[[[[[[[]]]]]]]]]", "nested too deeply"},
        {"[]", "no version"},
        {"{\"version\":\"1\"}", "no list of prices"},
        {"{\"prices\":[]}", "no version"},
        {"{\"version\":\"1\",\"prises\":[]}", "unknown member \"prises\""},
        {HEAD "1]}", "not an object"},
        {HEAD "{\"names\":[],\"input\":\"1\"}]}", "line 2: price 1: no names"},
        {HEAD "{\"names\":[\"\"],\"input\":\"1\"}]}", "a name is not a text"},
        {HEAD "\n{\"names\":[\"a\"],\"input\":\"1\"},\n{\"names\":[\"m\"]}]}",
         "line 4: price 2 (m): neither an input nor an output rate"},
        {HEAD "{\"names\":[\"m\"],\"input\":1}]}", "not decimal text"},
        {HEAD "{\"names\":[\"m\"],\"input\":\"-1\"}]}", "not decimal text"},
        {HEAD "{\"names\":[\"m\"],\"input\":\"1e3\"}]}", "not decimal text"},
        {HEAD "{\"names\":[\"m\"],\"input\":\"0.0000001\"}]}", "not decimal text"},
        {HEAD "{\"names\":[\"m\"],\"inptu\":\"1\",\"output\":\"1\"}]}", "unknown member \"inptu\""},
        {HEAD "{\"names\":[\"m\"],\"input\":\"1\",\"valid_until\":\"soon\"}]}", "not written as 2026-08-31"},
        {HEAD "{\"names\":[\"m\"],\"input\":\"1\",\"reasoning\":2}]}", "\"reasoning\""},
        {HEAD "{\"names\":[\"m\"],\"input\":\"1\",\"request\":\"0.0000000000001\"}]}", "\"request\""},
        {HEAD "{\"names\":[\"m\"],\"input\":\"1\",\"tiers\":{}}]}", "not a list"},
        {HEAD "{\"names\":[\"m\"],\"input\":\"1\",\"tiers\":[{\"input\":\"1\"}]}]}", "no \"above\""},
        {HEAD "{\"names\":[\"m\"],\"input\":\"1\",\"tiers\":[{\"above\":1,\"rate\":\"1\"}]}]}", "known members"},
        {HEAD "{\"names\":[\"m\"],\"input\":\"1\",\"tiers\":[{\"above\":2},{\"above\":2}]}]}", "do not rise"},
        {HEAD "{\"names\":[\"m\"],\"input\":\"1\",\"tiers\":[{\"above\":2,\"output\":\"x\"}]}]}", "rate of a tier"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct price_book *b = (struct price_book *)1;
        struct buf why = {0};
        assert_int_not_equal(price_book_parse(bytes_of(bad[i].text), &b, &why), ERR_OK);
        assert_null(b);
        if (strstr(buf_cstr(&why), bad[i].why) == NULL)
            fail_msg("case %zu: \"%s\", not \"%s\"", i, buf_cstr(&why), bad[i].why);
        buf_fini(&why);
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
        cmocka_unit_test(what_few_prices_have),
        cmocka_unit_test(names_that_are_near),
        cmocka_unit_test(bad_books),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

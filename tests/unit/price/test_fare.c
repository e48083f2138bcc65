/* Which price holds: by layer, by class of service, by the hour. */
#include "unit.h"

#include "price/price.h"
#include "price/service_class.h"

static const struct price p1 = {1, 1, -1, -1, -1, "one", "t", NULL}, p2 = {2, 2, -1, -1, -1, "two", "t", NULL},
                          p3 = {3, 3, -1, -1, -1, "three", "t", NULL}, p4 = {4, 4, -1, -1, -1, "four", "t", NULL};

static struct arena arena;
static struct fare fare;

static int setup(void **state)
{
    arena = (struct arena){0};
    fare = (struct fare){0};
    return 0;
}

static int teardown(void **state)
{
    arena_fini(&arena);
    return 0;
}

static void put(const char *service, int64_t from, int64_t until, unsigned layer, const struct price *p)
{
    const struct fare_span s = {service, from, until, layer, p};
    fare_put(&fare, &arena, &s);
}

/* NULL = no price. */
static void expect(const char *service, int64_t at, const char *version, bool is_standin)
{
    bool is;
    const struct price *p = fare_at(&fare, service, at, &is);
    if (version == NULL)
        assert_null(p);
    else
        assert_string_equal(p == NULL ? "(none)" : p->version, version);
    assert_int_equal(is, is_standin);
}

static void nothing_is_unknown(void **state)
{
    bool is = true;
    assert_null(fare_at(NULL, "flex", 0, &is));
    assert_false(is);
    expect("", 0, NULL, false);
    assert_true(fare_end_ms(NULL, 0) == INT64_MAX);
    assert_true(fare_end_ms(&fare, 0) == INT64_MAX);
}

/* The first millisecond of a span is in it, the one at which it ends is not. */
static void spans(void **state)
{
    put("", INT64_MIN, 100, 0, &p1);
    put("", 100, 200, 0, &p2);
    put("", 300, INT64_MAX, 0, &p3);
    expect("", INT64_MIN, "one", false);
    expect("", 99, "one", false);
    expect("", 100, "two", false);
    expect("", 199, "two", false);
    expect("", 200, NULL, false);
    expect("", 299, NULL, false);
    expect("", 300, "three", false);
    assert_int_equal(fare_end_ms(&fare, 50), 200); /* through the span that follows at once */
    assert_int_equal(fare_end_ms(&fare, 150), 200);
    assert_int_equal(fare_end_ms(&fare, 250), 200); /* none holds: when the last one ended */
    assert_true(fare_end_ms(&fare, 300) == INT64_MAX);
}

static void classes(void **state)
{
    put("flex", INT64_MIN, 100, 0, &p1);
    put("", INT64_MIN, INT64_MAX, 0, &p2);
    put("priority", INT64_MIN, INT64_MAX, 0, &p3);
    expect("flex", 0, "one", false);
    expect("priority", 0, "three", false);
    expect(NULL, 0, "two", false);
    expect("standard", 0, "two", false);
    expect("scale", 0, "two", true);
    expect("flex", 100, "two", true); /* its own rates are over */
}

/* The first layer that has anything for the call decides. */
static void layers(void **state)
{
    put("", INT64_MIN, 100, 0, &p1);
    put("flex", INT64_MIN, INT64_MAX, 1, &p2);
    put("", 50, INT64_MAX, 1, &p3);
    put("priority", INT64_MIN, INT64_MAX, 2, &p4);
    expect("", 0, "one", false);
    expect("flex", 0, "one", true); /* what the first layer says goes before a list price of the class */
    expect("flex", 100, "two", false);
    expect("", 100, "three", false);
    expect("priority", 100, "three", true);
    fare = (struct fare){0};
    put("flex", INT64_MIN, INT64_MAX, 0, &p1);
    put("", INT64_MIN, INT64_MAX, 2, &p2);
    expect("flex", 0, "one", false);
    expect("", 0, "two", false);
}

static void many(void **state)
{
    for (int i = 0; i < FARE_SPANS_MAX + 10; i++)
        put("", i, i + 1, 0, i % 2 == 0 ? &p1 : &p2);
    assert_int_equal(fare.n, FARE_SPANS_MAX);
    expect("", 6, "one", false);
    expect("", FARE_SPANS_MAX - 1, "two", false);
    expect("", FARE_SPANS_MAX, NULL, false);
}

/* A book's fare says at every time and for every class what the book itself says. */
static void same_as_the_book(void **state)
{
    static const char *const models[] = {"gpt-5.6-sol",    "claude-sonnet-5",          "gpt-4o",         "us.gpt-4o",
                                         "gpt-4.1",        "claude-opus-4-6-20260205", "gemini-2.5-pro", "none",
                                         "gpt-4o-20990101"};
    static const char *const services[] = {"", "flex", "priority", "batches", "fast", "us"};
    static const char *const vendors[] = {"openai", "anthropic", "generic", "", "groq"};
    struct price_book *b = price_book_builtin();
    size_t n_known = 0;
    for (size_t m = 0; m < RM_COUNTOF(models); m++)
        for (size_t v = 0; v < RM_COUNTOF(vendors); v++) {
            struct fare f = {0};
            price_book_fare(b, "mine", vendors[v], models[m], 2, &arena, &f);
            for (size_t s = 0; s < RM_COUNTOF(services); s++)
                for (int64_t day = 20600; day < 20800; day += 5) {
                    bool is_standin;
                    int64_t at = day * 86400000;
                    const struct price *p = fare_at(&f, services[s], at, &is_standin);
                    const struct price *q = price_find_service(b, "mine", vendors[v], models[m], services[s], at);
                    assert_int_equal(p == NULL, q == NULL);
                    n_known += p != NULL;
                    if (p == NULL)
                        continue;
                    assert_int_equal(p->input, q->input);
                    assert_int_equal(p->output, q->output);
                    assert_string_equal(p->version, q->version);
                }
        }
    assert_true(n_known > 1000);
    price_book_free(b);
}

static void words(void **state)
{
    static const char *const cases[][2] = {{"default", "standard"},
                                           {"standard", "standard"},
                                           {"standard_only", "standard"},
                                           {"on_demand", "standard"},
                                           {"batch", "batches"},
                                           {"batches", "batches"},
                                           {"flex", "flex"},
                                           {"priority", "priority"},
                                           {"auto", ""},
                                           {"", ""},
                                           {"scale", "scale"},
                                           {"a b", "other"},
                                           {"caf\xc3\xa9", "other"},
                                           {"x23456789012345678901234", "other"},
                                           {"x2345678901234567890123", "x2345678901234567890123"}};
    for (size_t i = 0; i < RM_COUNTOF(cases); i++) {
        char out[SERVICE_BYTES];
        service_class_read(bytes_of(cases[i][0]), out);
        assert_string_equal(out, cases[i][1]);
    }
}

/* A book may write a class in a provider's word. */
static void words_of_books(void **state)
{
    static const char text[] =
        "{\"version\":\"v\",\"prices\":[{\"names\":[\"m\"],\"service\":\"default\",\"input\":\"1\"},"
        "{\"names\":[\"m\"],\"service\":\"batch\",\"input\":\"2\"}]}";
    struct price_book *b;
    struct buf why = {0};
    struct fare f = {0};
    bool is_standin;
    assert_int_equal(price_book_parse(bytes_of(text), &b, &why), ERR_OK);
    price_book_fare(b, "", "", "m", 0, &arena, &f);
    assert_int_equal(fare_at(&f, "", 0, &is_standin)->input, 1000000);
    assert_int_equal(fare_at(&f, "batches", 0, &is_standin)->input, 2000000);
    assert_false(is_standin);
    price_book_free(b);
    buf_fini(&why);
}

static void days_and_requests(void **state)
{
    int64_t v;
    assert_true(price_day_parse(BYTES("2026-08-31"), false, &v));
    assert_int_equal(v, INT64_C(1788134400000));
    assert_true(price_day_parse(BYTES("2026-08-31"), true, &v));
    assert_int_equal(v, INT64_C(1788220800000));
    assert_false(price_day_parse(BYTES("2026-8-31"), false, &v));
    assert_false(price_day_parse(BYTES("2026-13-01"), false, &v));
    assert_false(price_day_parse(BYTES("2026-08-31T"), false, &v));
    assert_true(price_request_parse(BYTES("0.005"), &v));
    assert_int_equal(v, INT64_C(5000000000));
    assert_true(price_request_parse(BYTES("0.000000000001"), &v));
    assert_int_equal(v, 1);
    assert_false(price_request_parse(BYTES("0.0000000000001"), &v));
    assert_false(price_request_parse(BYTES("-1"), &v));
    assert_false(price_request_parse(BYTES("NaN"), &v));
    assert_false(price_request_parse(BYTES("1e3"), &v));
    assert_false(price_request_parse(BYTES("1."), &v));
    assert_false(price_request_parse(BYTES(""), &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(spans, setup, teardown),
        cmocka_unit_test_setup_teardown(classes, setup, teardown),
        cmocka_unit_test_setup_teardown(layers, setup, teardown),
        cmocka_unit_test_setup_teardown(many, setup, teardown),
        cmocka_unit_test_setup_teardown(same_as_the_book, setup, teardown),
        cmocka_unit_test_setup_teardown(words, setup, teardown),
        cmocka_unit_test_setup_teardown(words_of_books, setup, teardown),
        cmocka_unit_test_setup_teardown(days_and_requests, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

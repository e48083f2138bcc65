#include "unit.h"

#include "price/show.h"

static void check(const char *want, void (*put)(struct buf *, int64_t, unsigned), int64_t nusd, unsigned places)
{
    struct buf b = {0};
    put(&b, nusd, places);
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

static void amounts(void **state)
{
    check("$25.01", show_usd, INT64_C(25007500000), 2);
    check("$1.33", show_usd, INT64_C(1325000000), 2); /* half up */
    check("-$1.33", show_usd, INT64_C(-1325000000), 2);
    check("$1.324999999", show_usd, INT64_C(1324999999), 9);
    check("$1.32", show_usd, INT64_C(1324999999), 2);
    check("$0", show_usd, 499999999, 0);
    check("+$0.09", show_change, 87500000, 2);
    check("-$16.00", show_change, INT64_C(-16000000000), 2);
    check("unknown", show_change, NUSD_UNKNOWN, 2);
    check("$9223372036.854775807", show_usd, INT64_MAX, 9);
}

static void ratios(void **state)
{
    assert_int_equal(show_ratio(7500000, INT64_C(25000000000), 100, 2), 3); /* 0.03 % */
    assert_int_equal(show_ratio(-1, 2, 1, 0), -1);
    assert_int_equal(show_ratio(1, -2, 1, 0), -1);
    assert_int_equal(show_ratio(1, 0, 100, 2), 0);
    assert_int_equal(show_ratio(INT64_MAX, 1, 100, 9), INT64_MAX);
}

static void shares(void **state)
{
    static const struct {
        const char *text;
        int64_t ppm; /* -1 = refused */
    } cases[] = {
        {"0.5%", 5000},        {"0.5 %", 5000},  {"0.005", 5000},   {"40%", 400000}, {"1", 1000000},
        {"100%", 1000000},     {"0", 0},         {"0.0001%", 1},    {"0.000001", 1}, {"100.0%", 1000000},
        {"0.50000000%", 5000}, {"0.00001%", -1}, {"0.0000001", -1}, {"100.1%", -1},  {"1.1", -1},
        {"-1%", -1},           {"", -1},         {"%", -1},         {".5", -1},      {"5.", -1},
        {"1e-3", -1},          {"half", -1},     {"0,5%", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t ppm = 77;
        bool ok = show_ppm_parse(bytes_of(cases[i].text), &ppm);
        assert_int_equal(ok ? (int64_t)ppm : -1, cases[i].ppm);
    }
    static const struct {
        uint32_t ppm;
        const char *text;
    } shown[] = {{5000, "0.5 %"}, {0, "0 %"}, {1000000, "100 %"}, {1, "0.0001 %"}, {123456, "12.3456 %"}};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        struct buf b = {0};
        show_ppm(&b, shown[i].ppm);
        assert_string_equal(buf_cstr(&b), shown[i].text);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts),
        cmocka_unit_test(ratios),
        cmocka_unit_test(shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "unit.h"

#include "base/text.h"

static void ids(void **state)
{
    (void)state;
    uint64_t samples[] = {0, 1, 31, 32, UINT64_MAX, 0x0123456789abcdefULL};
    char before[TEXT_ID_BYTES] = "";
    for (size_t i = 0; i < RM_COUNTOF(samples); i++) {
        char text[TEXT_ID_BYTES];
        uint64_t back = 7;
        text_id(samples[i], text);
        assert_int_equal(strlen(text), 17);
        assert_true(text_id_parse(bytes_of(text), &back));
        assert_true(back == samples[i]);
    }
    for (uint64_t v = 1000; v < 1100; v++) {
        char text[TEXT_ID_BYTES];
        text_id(v, text);
        assert_true(strcmp(before, text) < 0);
        memcpy(before, text, sizeof before);
    }
    uint64_t none;
    assert_false(text_id_parse(BYTES("req_"), &none));
    assert_false(text_id_parse(BYTES("req_zzzzzzzzzzzzz"), &none)); /* over 64 bits */
    assert_false(text_id_parse(BYTES("req_000000000000u"), &none)); /* no such digit */
    assert_false(text_id_parse(BYTES("req_0000'; DROP --"), &none));
}

static void times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {{"Sun, 06 Nov 1994 08:49:37 GMT", 784111777000},
                 {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777000},
                 {"Sun Nov  6 08:49:37 1994", 784111777000},
                 {"1970-01-01T00:00:00Z", 0},
                 {"2026-11-30T07:00:00.123Z", 1796022000123},
                 {"2026-11-30T09:00:00+02:00", 1796022000000},
                 {"2024-02-29T23:59:59Z", 1709251199000},
                 {"nonsense", -1},
                 {"2026-13-30T07:00:00Z", -1},
                 {"2026-02-29T07:00:00Z", -1},
                 {"2026-06-31T07:00:00Z", -1},
                 {"", -1},
                 {"2026-11-30T07:00:00", -1},
                 {"Sun, 06 Xxx 1994 08:49:37 GMT", -1}};
    for (size_t i = 0; i < RM_COUNTOF(cases); i++) {
        int64_t got = -1;
        bool ok = text_time_parse(bytes_of(cases[i].text), &got);
        assert_int_equal(ok, cases[i].ms >= 0);
        assert_int_equal(got, cases[i].ms);
    }
    for (int64_t ms = 0; ms < 4000000000000; ms += 86399999123) {
        char text[TEXT_TIME_BYTES];
        int64_t back;
        text_time(ms, text);
        assert_true(text_time_parse(bytes_of(text), &back));
        assert_int_equal(back, ms);
    }
}

static void money(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t pusd;
    } prices[] = {{"5", 5000000}, {"0.14", 140000},    {"0.000001", 1}, {"30.00", 30000000}, {"0", 0},
                  {"", -1},       {"-1", -1},          {"1e2", -1},     {"0.0000001", -1},   {"1.", -1},
                  {".5", -1},     {"99999999999", -1}, {"1,5", -1}};
    for (size_t i = 0; i < RM_COUNTOF(prices); i++) {
        int64_t got = -1;
        assert_int_equal(text_price(bytes_of(prices[i].text), &got), prices[i].pusd >= 0);
        assert_int_equal(got, prices[i].pusd);
    }
    struct buf b = {0};
    text_usd(&b, 25010000000);
    buf_putc(&b, ' ');
    text_usd(&b, 1);
    buf_putc(&b, ' ');
    text_usd(&b, -1500000000);
    assert_string_equal(buf_cstr(&b), "25.010000000 0.000000001 -1.500000000");
    buf_fini(&b);
}

static void percent(void **state)
{
    (void)state;
    struct buf b = {0};
    text_percent(&b, BYTES("a/b;c, d%\r\n\xc3\xa9"), ";,");
    assert_string_equal(buf_cstr(&b), "a/b%3Bc%2C%20d%25%0D%0A%C3%A9");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ids), cmocka_unit_test(times), cmocka_unit_test(money),
                                       cmocka_unit_test(percent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

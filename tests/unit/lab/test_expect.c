#include "unit.h"

#include "lab/expect.h"

#include <math.h>

static bool holds(const char *text, double value)
{
    struct expect e;
    const char *why = NULL;
    if (!expect_parse(text, &e, &why))
        fail_msg("%s: %s", text, why);
    return expect_holds(&e, value);
}

static void operators(void **state)
{
    assert_true(holds("a.b<=2", 2));
    assert_false(holds("a.b<=2", 2.001));
    assert_true(holds("a.b<2", 1.999));
    assert_false(holds("a.b<2", 2));
    assert_true(holds("a.b>=-1.5", -1.5));
    assert_false(holds("a.b>=-1.5", -1.6));
    assert_true(holds("a.b>0", 0.001));
    assert_false(holds("a.b>0", 0));
}

static void name_and_blanks(void **state)
{
    struct expect e;
    const char *why;
    assert_true(expect_parse(" hang.ttft.p99_ms  <=  2300.5 ", &e, &why));
    assert_true(bytes_is(e.name, "hang.ttft.p99_ms"));
    assert_int_equal(e.op, EXPECT_AT_MOST);
    assert_true(e.number == 2300.5);
}

/* What was not measured is no success. */
static void not_measured_fulfils_nothing(void **state)
{
    assert_false(holds("a<1", NAN));
    assert_false(holds("a>=0", NAN));
}

static void bad_ones(void **state)
{
    static const char *const bad[] = {"",
                                      "a",
                                      "a=2",
                                      "a==2",
                                      "<=2",
                                      "a<=",
                                      "a<=x",
                                      "a<=2x",
                                      "a<=1e3",
                                      "a<=0x10",
                                      "a<=--2",
                                      "a<=1.2.3",
                                      "a<=nan",
                                      "a<=-",
                                      "a<=inf",
                                      "a<=.",
                                      "a<=99999999999999999999999999999999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct expect e;
        const char *why = NULL;
        if (expect_parse(bad[i], &e, &why))
            fail_msg("'%s' was taken", bad[i]);
        assert_non_null(why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators),
        cmocka_unit_test(name_and_blanks),
        cmocka_unit_test(not_measured_fulfils_nothing),
        cmocka_unit_test(bad_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

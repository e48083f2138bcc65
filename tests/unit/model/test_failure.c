#include "unit.h"

#include "model/failure.h"

static void check(const char *src, size_t cap, const char *want)
{
    char got[64];
    assert_true(cap <= sizeof got);
    failure_text(got, cap, bytes_of(src));
    assert_string_equal(got, want);
}

/* Whatever a provider sent, the text is UTF-8 that fits, without control characters. */
static void text_is_utf8(void **state)
{
    (void)state;
    check("plain", 64, "plain");
    check("", 64, "");
    check("a\nb\tc\x7f", 64, "a b c ");
    check("na\xc3\xafve \xf0\x9f\x9a\x8b", 64, "na\xc3\xafve \xf0\x9f\x9a\x8b");
    check("bad \xb3 byte", 64, "bad ? byte");
    check("overlong \xc0\x80.", 64, "overlong ??.");
    check("surrogate \xed\xa0\x80", 64, "surrogate ???");
    check("cut \xe2\x82", 64, "cut ??");
}

static void text_is_cut_at_a_character(void **state)
{
    (void)state;
    check("12345", 6, "12345");
    check("123456", 6, "12345");
    check("1234\xc3\xa9", 7, "1234\xc3\xa9");
    check("1234\xc3\xa9", 6, "1234");
    check("123\xf0\x9f\x9a\x8b", 7, "123");
    check("abc", 1, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_utf8),
        cmocka_unit_test(text_is_cut_at_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

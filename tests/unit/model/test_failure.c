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

/* Plain text goes a way of its own: the same comes of it as next to a byte that is not. */
static void plain_text_is_as_any_other(void **state)
{
    (void)state;
    static const char plain[] = " !0123456789:AZaz{|}~";
    enum { N = sizeof plain - 1 };
    for (size_t odd = 0; odd <= N; odd++)
        for (size_t cap = 1; cap <= N + 2; cap++) {
            char text[N + 1], want[N + 1], got[N + 2];
            memcpy(text, plain, sizeof plain);
            memcpy(want, plain, sizeof plain);
            if (odd < N) {
                text[odd] = '\x01';
                want[odd] = ' ';
            }
            want[cap - 1 < N ? cap - 1 : N] = '\0';
            failure_text(got, cap, bytes_of(text));
            assert_string_equal(got, want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_utf8),
        cmocka_unit_test(text_is_cut_at_a_character),
        cmocka_unit_test(plain_text_is_as_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

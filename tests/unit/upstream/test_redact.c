/* Keys never leave in a provider's words. */
#include "unit.h"

#include "upstream/redact.h"

static void assert_redacted(const char *in, const char *want)
{
    char text[512];
    failure_text(text, sizeof text, bytes_of(in));
    redact_text(text, BYTES("my-secret-key-0001"));
    assert_string_equal(text, want);
}

static void test_keys(void **state)
{
    assert_redacted("plain words, a task-force and a desk-bound risk-averse man",
                    "plain words, a task-force and a desk-bound risk-averse man");
    assert_redacted("bad key my-secret-key-0001, my-secret-key-0001!", "bad key [key], [key]!");
    assert_redacted("Incorrect API key provided: sk-proj-********abcd.", "Incorrect API key provided: [key].");
    assert_redacted("sk-abcdefghijkl and gsk_0123456789 and AIzaSyA-bcdefghij", "[key] and [key] and [key]");
    assert_redacted("cut in the middle of my-secret-key", "cut in the middle of [key]");
    assert_redacted("sk-", "sk-");
    assert_redacted("", "");
}

static void test_no_key(void **state)
{
    char text[64] = "nothing to hide";
    redact_text(text, (struct bytes){0});
    assert_string_equal(text, "nothing to hide");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys), cmocka_unit_test(test_no_key)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

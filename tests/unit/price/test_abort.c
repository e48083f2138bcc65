#include "unit.h"

#include "price/abort.h"

static struct arena arena;

static int teardown(void **state)
{
    arena_fini(&arena);
    return 0;
}

static struct abort_billing of(const char *vendor, const char *dialect, enum abort_when when)
{
    return abort_find(abort_table_builtin(&arena), vendor, dialect, when);
}

static void is(struct abort_billing b, enum abort_rule rule, enum abort_certainty certainty)
{
    assert_string_equal(abort_rule_word(b.rule), abort_rule_word(rule));
    assert_string_equal(abort_certainty_word(b.certainty), abort_certainty_word(certainty));
}

static void shipped(void **state)
{
    is(of("openai", "openai", ABORT_STREAM), ABORT_INPUT_AND_GENERATED, ABORT_OBSERVED);
    is(of("anthropic", "anthropic", ABORT_STREAM), ABORT_INPUT_AND_GENERATED, ABORT_OBSERVED);
    is(of("groq", "openai", ABORT_STREAM), ABORT_RUNS_ON, ABORT_OBSERVED);
    is(of("openrouter", "openai", ABORT_FAILED), ABORT_NOTHING, ABORT_DOCUMENTED);
    is(of("openrouter", "openai", ABORT_STREAM), ABORT_INPUT_AND_GENERATED, ABORT_ASSUMED);
    is(of("openai", "openai", ABORT_WHOLE), ABORT_RUNS_ON, ABORT_OBSERVED);
}

static void unknown_vendor_is_assumed(void **state)
{
    is(of("generic", "openai", ABORT_STREAM), ABORT_INPUT_AND_GENERATED, ABORT_ASSUMED);
    is(of("", "", ABORT_FAILED), ABORT_INPUT_AND_GENERATED, ABORT_ASSUMED);
    is(of("*", "nonsense", ABORT_WHOLE), ABORT_RUNS_ON, ABORT_OBSERVED);
}

#define ROW(vendor, more, when, rule)                                                               \
    "{\"vendor\":\"" vendor "\"," more "\"when\":\"" when "\",\"rule\":\"" rule "\",\"certainty\":" \
    "\"documented\",\"source\":\"s\",\"date\":\"2026-11-30\"}"
#define ALL ROW("*", "", "stream", "input") "," ROW("*", "", "whole", "input") "," ROW("*", "", "failed", "input")

static void a_dialect_goes_before_its_vendor(void **state)
{
    const struct abort_table *t = NULL;
    struct buf why = {0};
    assert_int_equal(abort_table_parse(BYTES("{\"rows\":[" ALL "," ROW("v", "", "stream", "nothing") "," ROW(
                                           "v", "\"dialect\":\"anthropic\",", "stream", "runs_on") "]}"),
                                       &arena, &t, &why),
                     ERR_OK);
    assert_int_equal(abort_find(t, "v", "anthropic", ABORT_STREAM).rule, ABORT_RUNS_ON);
    assert_int_equal(abort_find(t, "v", "openai", ABORT_STREAM).rule, ABORT_NOTHING);
    assert_int_equal(abort_find(t, "v", "anthropic", ABORT_WHOLE).rule, ABORT_INPUT);
    assert_int_equal(abort_find(t, "w", "anthropic", ABORT_STREAM).rule, ABORT_INPUT);
    buf_fini(&why);
}

static void refused(const char *text, const char *told)
{
    const struct abort_table *t = NULL;
    struct buf why = {0};
    assert_int_equal(abort_table_parse(bytes_of(text), &arena, &t, &why), ERR_SYNTAX);
    assert_null(t);
    assert_string_equal(buf_cstr(&why), told);
    buf_fini(&why);
}

static void faults(void **state)
{
    refused("{", "it is not JSON");
    refused("{\"rows\":{}}", "\"rows\" is not a list, or too long");
    refused("[]", "\"rows\" is not a list, or too long");
    refused("{\"rows\":[7]}", "row 1: it is not an object");
    refused("{\"rows\":[" ALL "," ROW("v", "\"model\":\"m\",", "stream", "input") "]}",
            "row 4: it has a member that is not known");
    refused("{\"rows\":[" ROW("", "", "stream", "input") "]}", "row 1: a member is empty or not text");
    refused("{\"rows\":[{\"vendor\":\"v\"}]}", "row 1: it has no \"source\" or no \"date\"");
    refused("{\"rows\":[" ROW("v", "", "later", "input") "]}", "row 1: \"when\" is none of stream, whole, failed");
    refused("{\"rows\":[" ROW("v", "", "stream", "all") "]}",
            "row 1: \"rule\" is none of input_and_generated, input, runs_on, nothing");
    refused("{\"rows\":[{\"vendor\":\"v\",\"when\":\"stream\",\"rule\":\"input\",\"certainty\":\"configured\","
            "\"source\":\"s\",\"date\":\"d\"}]}",
            "row 1: \"certainty\" is none of assumed, observed, documented");
    refused("{\"rows\":[" ALL "," ROW("*", "", "whole", "nothing") "]}", "row 4: it is there twice");
    refused("{\"rows\":[" ROW("*", "", "stream", "input") "]}", "no row of \"*\" says what holds for whole");
}

static void in_words(void **state)
{
    assert_string_equal(abort_words((struct abort_billing){ABORT_RUNS_ON, ABORT_OBSERVED}),
                        "billed as if it ran on to its end (observed)");
    assert_string_equal(abort_words((struct abort_billing){ABORT_NOTHING, ABORT_CONFIGURED}),
                        "not billed, being broken off (configured)");
    assert_string_equal(abort_words((struct abort_billing){0}), "billed for input and output so far (assumed)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(shipped, teardown),
        cmocka_unit_test_teardown(unknown_vendor_is_assumed, teardown),
        cmocka_unit_test_teardown(a_dialect_goes_before_its_vendor, teardown),
        cmocka_unit_test_teardown(faults, teardown),
        cmocka_unit_test(in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

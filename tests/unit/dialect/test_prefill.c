/* One more message at the end of a body, every other byte as it was. */
#include "unit.h"

#include "dialect/prefill.h"

static void puts_(const char *body, const char *text, const char *expected)
{
    struct arena a;
    struct bytes out;
    arena_init(&a);
    enum err e = prefill_put(bytes_of(body), bytes_of(text), 16, &a, &out);
    assert_int_equal(e, expected ? ERR_OK : ERR_UNSUPPORTED);
    if (expected) {
        assert_int_equal(out.n, bytes_of(expected).n);
        assert_memory_equal(out.p, expected, out.n);
    }
    arena_fini(&a);
}

static void after_the_last_message(void **state)
{
    puts_("{\"model\":\"m\", \"messages\" : [ {\"role\":\"user\",\"content\":\"a ] b\"} ] ,\"n\":1e0}", "x",
          "{\"model\":\"m\", \"messages\" : [ {\"role\":\"user\",\"content\":\"a ] b\"} "
          ",{\"role\":\"assistant\",\"content\":\"x\"}] ,\"n\":1e0}");
    puts_("{\"messages\":[{\"role\":\"user\",\"content\":[]}]}", "\"\\\n\xe2\x82\xac",
          "{\"messages\":[{\"role\":\"user\",\"content\":[]},{\"role\":\"assistant\",\"content\":"
          "\"\\\"\\\\\\n\xe2\x82\xac\"}]}");
}

static void only_where_there_are_messages(void **state)
{
    puts_("{\"messages\":[]}", "x", NULL);
    puts_("{\"messages\":[ \n]}", "x", NULL);
    puts_("{\"messages\":{}}", "x", NULL);
    puts_("{\"messages\":\"[a]\"}", "x", NULL);
    puts_("{\"prompt\":\"a\"}", "x", NULL);
    puts_("{\"messages\":[{\"role\":\"user\"}", "x", NULL);
    puts_("", "x", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_the_last_message),
        cmocka_unit_test(only_where_there_are_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

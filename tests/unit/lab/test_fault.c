/* The words of faults, and what the scripts of the later ones look like. */
#include "unit.h"

#include "base/check.h"
#include "lab/script.h"

static struct fault parse(const char *word)
{
    struct fault f;
    if (!fault_parse(bytes_of(word), &f))
        fail_msg("%s is no fault", word);
    return f;
}

static void numbers_of_words(void **state)
{
    assert_int_equal(parse("429:2").retry_after_ms, 2000);
    assert_int_equal(parse("quota:5").retry_after_ms, 5000);
    assert_int_equal(parse("cut:7").after, 7);
    assert_int_equal(parse("stall:20").for_ms, -1);
    struct fault f = parse("stall:20:30000");
    assert_true(f.after == 20 && f.for_ms == 30000);
    assert_int_equal(parse("hang").for_ms, -1);
    assert_int_equal(parse("hang:500").for_ms, 500);
    assert_int_equal(parse("slow").ttft_ms, 5000);
    assert_int_equal(parse("slow-after-head:9").ttft_ms, 9);
    assert_int_equal(parse("html").status, 0);
    assert_int_equal(parse("html:502").status, 502);
    assert_int_equal(parse("huge").bytes, 1 << 20);
    assert_int_equal(parse("huge:70").bytes, 70);
    assert_int_equal(parse("split").bytes, 1);
    assert_int_equal(parse("drip").for_ms, 10);
    assert_int_equal(parse(" 503 ").status, 503);
}

static void words_that_are_none(void **state)
{
    static const char *const bad[] = {"",
                                      "200",
                                      "600",
                                      "cut:",
                                      "cut:-1",
                                      "cut:1:2",
                                      "stall:1:x",
                                      "stall:1:2:3",
                                      "reset:1",
                                      "split:0",
                                      "huge:0",
                                      "ok:1",
                                      "html:99",
                                      "html:700",
                                      "huge:67108865",
                                      "policy:1",
                                      "empty:3",
                                      "status",
                                      "slow:9999999999",
                                      "hang:1:2"};
    struct fault f;
    for (size_t i = 0; i < RM_COUNTOF(bad); i++)
        if (fault_parse(bytes_of(bad[i]), &f))
            fail_msg("'%s' was taken", bad[i]);
}

static void every_kind_has_a_word(void **state)
{
    const char *const *names = fault_names();
    struct fault f;
    for (int kind = 0; kind < FAULT_N_KINDS; kind++) {
        assert_non_null(names[kind]);
        if (kind == FAULT_STATUS)
            continue;
        assert_true(fault_parse(bytes_of(names[kind]), &f));
        assert_int_equal(f.kind, kind);
        assert_string_equal(fault_word(&f), names[kind]);
        assert_non_null(strstr(fault_words(), names[kind]));
    }
    assert_null(names[FAULT_N_KINDS]);
}

/* ---- scripts ---- */

struct told {
    struct arena arena;
    struct script script;
    struct buf bytes;
    uint64_t total_us;
};

static void tell(struct told *t, enum shape_dialect d, bool is_stream, const struct fault *f)
{
    struct shape_request r = {.dialect = d,
                              .n = 7,
                              .created_s = 1796000000,
                              .model = "m",
                              .is_stream = is_stream,
                              .has_usage = true,
                              .prompt_tokens = 9,
                              .n_words = 4,
                              .words = "one two three"};
    struct script_pace pace = {40000, 5000};
    memset(t, 0, sizeof *t);
    script_chat(&r, &pace, f, &t->arena, &t->script);
    for (size_t i = 0; i < t->script.n; i++) {
        buf_put(&t->bytes, t->script.steps[i].data);
        t->total_us += t->script.steps[i].delay_us;
    }
    buf_cstr(&t->bytes);
}

static void untell(struct told *t)
{
    buf_fini(&t->bytes);
    arena_fini(&t->arena);
}

/* Pause before the step whose bytes hold `part`, from the start. */
static uint64_t due_us(const struct told *t, const char *part)
{
    uint64_t at = 0;
    for (size_t i = 0; i < t->script.n; i++) {
        at += t->script.steps[i].delay_us;
        if (bytes_find(t->script.steps[i].data, bytes_of(part)) != SIZE_MAX)
            return at;
    }
    fail_msg("%s is not there", part);
    return 0;
}

static void slow_ones(void **state)
{
    struct told t;
    for (int d = SHAPE_OPENAI; d <= SHAPE_ANTHROPIC; d++) {
        const char *role = d == SHAPE_OPENAI ? "\"role\"" : "message_start";
        struct fault f = parse("slow-after-head:900");
        tell(&t, (enum shape_dialect)d, true, &f);
        assert_int_equal(due_us(&t, "HTTP/1.1 200"), 0);
        assert_int_equal(due_us(&t, role), 900000);
        assert_int_equal(due_us(&t, "\"one\""), 900000);
        assert_int_equal(due_us(&t, "\" two\""), 905000);
        untell(&t);
        f = parse("comments");
        tell(&t, (enum shape_dialect)d, true, &f);
        assert_int_equal(due_us(&t, ": still here"), 10000);
        assert_int_equal(due_us(&t, "\"one\""), 40000);
        assert_int_equal(t.total_us, 55000);
        untell(&t);
        tell(&t, (enum shape_dialect)d, false, &f);
        assert_int_equal(t.total_us, 55000);
        assert_non_null(strstr(t.bytes.p, "\r\n\r\n\n\n\n{"));
        untell(&t);
    }
}

static void silences(void **state)
{
    static const char *const words[] = {"hang", "hang-after-head", "hang-after-role", "stall:2"};
    struct told t;
    for (int stream = 0; stream < 2; stream++)
        for (size_t i = 0; i < RM_COUNTOF(words); i++) {
            struct fault f = parse(words[i]);
            tell(&t, SHAPE_OPENAI, stream, &f);
            assert_int_equal(t.script.end, SCRIPT_HANG);
            uint64_t before_us = t.total_us;
            untell(&t);
            f.for_ms = 700;
            tell(&t, SHAPE_OPENAI, stream, &f);
            assert_int_equal(t.script.end, SCRIPT_FIN);
            assert_int_equal(t.total_us, before_us + 700000);
            assert_int_equal(t.script.steps[t.script.n - 1].data.n, 0);
            untell(&t);
        }
}

static void sizes(void **state)
{
    struct told good, t;
    struct fault f = parse("ok");
    tell(&good, SHAPE_OPENAI, true, &f);
    assert_int_equal(good.script.piece_bytes, 0);
    f = parse("split:3");
    tell(&t, SHAPE_OPENAI, true, &f);
    assert_true(bytes_eq(buf_bytes(&t.bytes), buf_bytes(&good.bytes)));
    assert_int_equal(t.script.piece_bytes, 3);
    assert_int_equal(t.script.piece_ms, 0);
    untell(&t);
    f = parse("drip:4");
    tell(&t, SHAPE_OPENAI, true, &f);
    assert_true(bytes_eq(buf_bytes(&t.bytes), buf_bytes(&good.bytes)));
    assert_true(t.script.piece_bytes == 1 && t.script.piece_ms == 4);
    untell(&t);
    f = parse("huge:5000");
    tell(&t, SHAPE_OPENAI, true, &f);
    assert_true(t.bytes.n > good.bytes.n + 5000 && t.bytes.n < good.bytes.n + 5400);
    untell(&t);
    untell(&good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_words),
        cmocka_unit_test(words_that_are_none),
        cmocka_unit_test(every_kind_has_a_word),
        cmocka_unit_test(slow_ones),
        cmocka_unit_test(silences),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

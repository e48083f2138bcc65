#include "unit.h"

#include "base/check.h"
#include "lab/fb.h"

#include <stdio.h>

static struct fb_answer ask(const char *model, uint64_t attempt, uint64_t since_ms, unsigned speed)
{
    struct fb_answer a;
    assert_true(fb_is_model(bytes_of(model)));
    fb_answer(bytes_of(model), attempt, since_ms, speed, &a);
    return a;
}

static void sixty_words(void **state)
{
    int n = 1;
    for (const char *p = fb_words; *p != '\0'; p++) {
        n += *p == ' ';
        assert_false(p[0] == ' ' && p[1] == ' ');
        assert_true(*p >= ' ' && *p <= '~');
    }
    assert_int_equal(n, FB_N_WORDS);
    assert_int_not_equal(fb_words[0], ' ');
}

static void names(void **state)
{
    static const char *const good[] = {
        "fb-ok",        "fb-ok-noprefill",      "fb-s01-429-retry-after", "fb-s16-503-persistent",
        "openai/fb-ok", "a/b/fb-s08-stream-cut"};
    static const char *const bad[] = {
        "",  "fb-",   "fb-ok-",   "FB-OK",   "fb-s01",    "fb-s17-new",        "xfb-ok", "fb-ok/", "fb-s08-stream-cu",
        "/", "gpt-x", "fb-s00-x", "fb-ok/x", "fb-s1-429", "fb-s08-stream-cut2"};
    for (size_t i = 0; i < RM_COUNTOF(good); i++)
        assert_true(fb_is_model(bytes_of(good[i])));
    for (size_t i = 0; i < RM_COUNTOF(bad); i++)
        assert_false(fb_is_model(bytes_of(bad[i])));
}

static void healthy(void **state)
{
    struct fb_answer a = ask("fb-ok", 1, 0, 1);
    assert_int_equal(a.fault.kind, FAULT_NONE);
    assert_false(a.rejects_prefill);
    a = ask("fb-ok-noprefill", 1, 0, 1);
    assert_int_equal(a.fault.kind, FAULT_NONE);
    assert_true(a.rejects_prefill);
}

/* Once: the first attempt has it, no later one. */
static void once(void **state)
{
    static const struct {
        const char *model;
        enum fault_kind kind;
        unsigned status;
    } rows[] = {{"fb-s01-429-retry-after", FAULT_STATUS, 429},
                {"fb-s03-500-then-200", FAULT_STATUS, 500},
                {"fb-s05-reset", FAULT_RESET, 0}};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct fb_answer a = ask(rows[i].model, 1, 90000, 1);
        assert_int_equal(a.fault.kind, rows[i].kind);
        assert_int_equal(a.fault.status, rows[i].status);
        assert_int_equal(ask(rows[i].model, 2, 0, 1).fault.kind, FAULT_NONE);
        assert_int_equal(ask(rows[i].model, 3, 0, 1).fault.kind, FAULT_NONE);
    }
    assert_int_equal(ask("fb-s01-429-retry-after", 1, 0, 1).fault.retry_after_ms, 2000);
    assert_int_equal(ask("fb-s01-429-retry-after", 1, 0, 4).fault.retry_after_ms, 500);
    assert_int_equal(ask("fb-s03-500-then-200", 1, 0, 1).fault.retry_after_ms, -1);
}

/* Always: every attempt, at any time, has the same one. */
static void always(void **state)
{
    static const struct {
        const char *model;
        struct fault f;
    } rows[] = {
        {"fb-s02-429-persistent", {FAULT_STATUS, .status = 429, .after = -1, .ttft_ms = -1, .for_ms = -1}},
        {"fb-s04-503-persistent", {FAULT_STATUS, .status = 503, .after = -1, .ttft_ms = -1, .for_ms = -1}},
        {"fb-s06-no-response", {FAULT_HANG, .after = -1, .ttft_ms = -1, .for_ms = 120000}},
        {"fb-s07-slow-ttft", {FAULT_SLOW_AFTER_HEAD, .after = -1, .ttft_ms = 20000, .for_ms = -1}},
        {"fb-s08-stream-cut", {FAULT_CUT, .after = 40, .ttft_ms = -1, .for_ms = -1}},
        {"fb-s09-stream-stall", {FAULT_STALL, .after = 20, .ttft_ms = -1, .for_ms = 30000}},
        {"fb-s10-malformed-chunk", {FAULT_MALFORMED, .after = 8, .ttft_ms = -1, .for_ms = -1}},
        {"fb-s11-no-done", {FAULT_NO_DONE, .after = -1, .ttft_ms = -1, .for_ms = -1}},
        {"fb-s12-context-length", {FAULT_CONTEXT, .after = -1, .ttft_ms = -1, .for_ms = -1}},
        {"fb-s13-content-filter", {FAULT_POLICY, .after = -1, .ttft_ms = -1, .for_ms = -1}},
        {"fb-s14-stream-cut", {FAULT_CUT, .after = 40, .ttft_ms = -1, .for_ms = -1}},
        {"fb-s16-503-persistent", {FAULT_STATUS, .status = 503, .after = -1, .ttft_ms = -1, .for_ms = -1}},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        for (uint64_t attempt = 1; attempt <= 3; attempt++) {
            struct fb_answer a = ask(rows[i].model, attempt, attempt * 50000, 1);
            assert_int_equal(a.fault.kind, rows[i].f.kind);
            assert_int_equal(a.fault.status, rows[i].f.status);
            assert_int_equal(a.fault.after, rows[i].f.after);
            assert_int_equal(a.fault.ttft_ms, rows[i].f.ttft_ms);
            assert_int_equal(a.fault.for_ms, rows[i].f.for_ms);
            assert_int_equal(a.fault.retry_after_ms, -1);
            assert_false(a.rejects_prefill);
        }
}

static void flap(void **state)
{
    assert_int_equal(ask("fb-s15-flap", 1, 0, 1).fault.status, 503);
    assert_int_equal(ask("fb-s15-flap", 9, 59999, 1).fault.status, 503);
    assert_int_equal(ask("fb-s15-flap", 10, 60000, 1).fault.kind, FAULT_NONE);
    assert_int_equal(ask("fb-s15-flap", 1, 60001, 1).fault.kind, FAULT_NONE);
    assert_int_equal(ask("fb-s15-flap", 1, 14999, 4).fault.status, 503);
    assert_int_equal(ask("fb-s15-flap", 1, 15000, 4).fault.kind, FAULT_NONE);
}

static void speed(void **state)
{
    assert_int_equal(ask("fb-s06-no-response", 1, 0, 4).fault.for_ms, 30000);
    assert_int_equal(ask("fb-s07-slow-ttft", 1, 0, 10).fault.ttft_ms, 2000);
    assert_int_equal(ask("fb-s09-stream-stall", 1, 0, 3).fault.for_ms, 10000);
    assert_int_equal(ask("fb-s09-stream-stall", 1, 0, 3).fault.after, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_words), cmocka_unit_test(names), cmocka_unit_test(healthy), cmocka_unit_test(once),
        cmocka_unit_test(always),      cmocka_unit_test(flap),  cmocka_unit_test(speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

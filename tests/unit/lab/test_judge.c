/* Verdicts from hand-made observations: each verdict, each check good and bad, each limit from both sides. */
#include "unit.h"

#include "base/check.h"
#include "lab/judge.h"

#include <stdio.h>

/* What was seen, to be spoilt by a test. Begins as a rescue by the fallback after one attempt. */
struct scene {
    struct judge_call calls[20];
    struct judge_attempt primary[60];
    struct judge_seen seen;
    struct judge_result result;
};

static struct judge_call whole(void)
{
    return (struct judge_call){.status = 200,
                               .has_finish = true,
                               .has_done = true,
                               .n_words = 60,
                               .is_text_right = true,
                               .model = "fb-ok",
                               .has_usage = true,
                               .wall_us = 1000000,
                               .ttft_us = 100000};
}

static struct judge_call refused(unsigned status)
{
    struct judge_call c = {.status = status, .has_error = true, .wall_us = 1000000};
    snprintf(c.error, sizeof c.error, "HTTP %u", status);
    return c;
}

static struct judge_call truncated(unsigned n_words)
{
    struct judge_call c = whole();
    c.n_words = n_words;
    c.is_text_right = false;
    return c;
}

static void init(struct scene *s, unsigned n_primary)
{
    memset(s, 0, sizeof *s);
    s->calls[0] = whole();
    for (unsigned i = 0; i < n_primary; i++)
        s->primary[i] = (struct judge_attempt){.at_ms = 5000 + i * 3000, .status = 503};
    s->seen = (struct judge_seen){.calls = s->calls,
                                  .n_calls = 1,
                                  .primary = s->primary,
                                  .n_primary = n_primary,
                                  .n_fallback = 1,
                                  .is_alive = true,
                                  .has_fallback = true,
                                  .speed = 1};
}

static enum judge_verdict verdict(struct scene *s, const char *id)
{
    judge(judge_find(bytes_of(id)), &s->seen, &s->result);
    assert_true(strlen(s->result.reason) > 0);
    return s->result.verdict;
}

static enum judge_status status_of(const struct scene *s, const char *check)
{
    for (size_t i = 0; i < s->result.n_checks; i++)
        if (strcmp(s->result.checks[i].check->id, check) == 0) {
            assert_true(strlen(s->result.checks[i].detail) > 0);
            return s->result.checks[i].status;
        }
    fail_msg("no check %s", check);
    return JUDGE_BAD;
}

/* ---- the table ---- */

static void sixteen(void **state)
{
    for (unsigned i = 0; i < JUDGE_SCENARIOS; i++) {
        char id[4];
        snprintf(id, sizeof id, "S%02u", i + 1);
        const struct judge_scenario *s = judge_find(bytes_of(id));
        assert_ptr_equal(s, &judge_scenarios[i]);
        assert_memory_equal(s->model, "fb-s", 4);
        assert_memory_equal(s->model + 4, id + 1, 2);
        assert_true(s->max_wall_ms >= 20000 && s->n_calls >= 1 && s->checks[0].id != NULL);
        assert_string_equal(s->fallback, i == 13 ? "fb-ok-noprefill" : "fb-ok");
        assert_int_equal(s->wants_error, i == 12);
        assert_int_equal(s->n_calls, i == 14 ? 20 : 1);
    }
    assert_non_null(judge_find(BYTES("s07")));
    assert_null(judge_find(BYTES("S00")));
    assert_null(judge_find(BYTES("S17")));
    assert_null(judge_find(BYTES("")));
    assert_null(judge_find(BYTES("S1")));
}

/* ---- one call ---- */

static void outcomes(void **state)
{
    struct judge_call c = whole();
    assert_int_equal(judge_outcome(&c), JUDGE_ANSWERED);
    c.has_done = false; /* S11: the text is whole, the body ended well */
    assert_int_equal(judge_outcome(&c), JUDGE_ANSWERED);
    c.n_bad_events = 1; /* a client passes over it */
    assert_int_equal(judge_outcome(&c), JUDGE_ANSWERED);
    c.is_broken = true; /* but not over a broken connection, whatever came */
    assert_int_equal(judge_outcome(&c), JUDGE_ERROR);
    c.is_hang = true;
    assert_int_equal(judge_outcome(&c), JUDGE_HANG);

    c = truncated(40);
    assert_int_equal(judge_outcome(&c), JUDGE_TRUNCATED);
    c.has_finish = c.has_done = false; /* a stream that just ends */
    assert_int_equal(judge_outcome(&c), JUDGE_TRUNCATED);
    c.has_done = true; /* [DONE] early */
    assert_int_equal(judge_outcome(&c), JUDGE_TRUNCATED);
    c.has_done = false;
    c.is_broken = true; /* no last chunk: the client sees it */
    assert_int_equal(judge_outcome(&c), JUDGE_ERROR);
    c = truncated(61);
    assert_int_equal(judge_outcome(&c), JUDGE_TRUNCATED);

    c = truncated(40);
    c.has_error = true;
    assert_int_equal(judge_outcome(&c), JUDGE_MASKED);
    c.has_finish = false;
    assert_int_equal(judge_outcome(&c), JUDGE_MASKED);
    c.has_done = false;
    assert_int_equal(judge_outcome(&c), JUDGE_ERROR);

    c = refused(503);
    assert_int_equal(judge_outcome(&c), JUDGE_ERROR);
    c = refused(302);
    assert_int_equal(judge_outcome(&c), JUDGE_ERROR);
    c = (struct judge_call){.is_broken = true}; /* no connection */
    assert_int_equal(judge_outcome(&c), JUDGE_ERROR);
    c = (struct judge_call){.status = 200}; /* an empty answer */
    assert_int_equal(judge_outcome(&c), JUDGE_TRUNCATED);
}

/* ---- the rule ---- */

static void verdicts(void **state)
{
    struct scene s;
    init(&s, 1);
    assert_int_equal(verdict(&s, "S04"), JUDGE_PASS);
    s.calls[0] = refused(503);
    assert_int_equal(verdict(&s, "S04"), JUDGE_SAFE);
    assert_non_null(strstr(s.result.reason, "HTTP 503"));
    s.calls[0] = truncated(12);
    assert_int_equal(verdict(&s, "S04"), JUDGE_FAIL);
    assert_non_null(strstr(s.result.reason, "12 words of 60"));
    s.calls[0] = (struct judge_call){.is_hang = true};
    assert_int_equal(verdict(&s, "S04"), JUDGE_FAIL);
    assert_non_null(strstr(s.result.reason, "40.0 s"));
    s.calls[0] = truncated(12);
    s.calls[0].has_error = true;
    assert_int_equal(verdict(&s, "S04"), JUDGE_FAIL);
    assert_non_null(strstr(s.result.reason, "[DONE]"));
    /* a clean error does not excuse a required check */
    init(&s, 7);
    s.calls[0] = refused(503);
    assert_int_equal(verdict(&s, "S04"), JUDGE_FAIL);
    assert_non_null(strstr(s.result.reason, "7 attempts"));
    /* an error that is clean stays safe when only advice was not taken */
    init(&s, 1);
    s.calls[0] = refused(429);
    assert_int_equal(verdict(&s, "S01"), JUDGE_SAFE);
}

/* Every scenario, rescued in the best way: a pass. Not rescued: safe, whatever the scenario. */
static void pass_and_safe(void **state)
{
    struct scene s;
    for (size_t i = 0; i < JUDGE_SCENARIOS; i++) {
        const struct judge_scenario *sc = &judge_scenarios[i];
        if (sc->n_calls > 1)
            continue;
        bool is_retried = i == 0 || i == 2; /* S01, S03 ask for a second attempt on the primary */
        init(&s, is_retried ? 2 : 1);
        snprintf(s.calls[0].model, sizeof s.calls[0].model, "%s", sc->fallback);
        if (sc->wants_error)
            s.calls[0] = refused(400);
        assert_int_equal(verdict(&s, sc->id), JUDGE_PASS);
        if (!sc->wants_error) {
            s.calls[0] = refused(502);
            assert_int_equal(verdict(&s, sc->id), JUDGE_SAFE);
        }
        s.calls[0] = (struct judge_call){.is_hang = true};
        assert_int_equal(verdict(&s, sc->id), JUDGE_FAIL);
        s.calls[0] = truncated(40);
        assert_int_equal(verdict(&s, sc->id), JUDGE_FAIL);
    }
}

static void wanted_error(void **state)
{
    struct scene s;
    init(&s, 1);
    s.calls[0] = refused(400);
    s.seen.n_fallback = 0;
    assert_int_equal(verdict(&s, "S13"), JUDGE_PASS);
    assert_int_equal(status_of(&s, "fallback_used"), JUDGE_NOTED);
    s.seen.n_fallback = 1; /* informational: it changes nothing */
    assert_int_equal(verdict(&s, "S13"), JUDGE_PASS);
    assert_int_equal(status_of(&s, "fallback_used"), JUDGE_GOOD);
    s.calls[0] = whole();
    assert_int_equal(verdict(&s, "S13"), JUDGE_PARTIAL);
    assert_non_null(strstr(s.result.reason, "around"));
    s.seen.n_primary = 2; /* the same model asked twice */
    assert_int_equal(verdict(&s, "S13"), JUDGE_FAIL);
    s.calls[0] = refused(400);
    assert_int_equal(verdict(&s, "S13"), JUDGE_FAIL);
}

/* ---- the checks ---- */

static void attempts(void **state)
{
    struct scene s;
    init(&s, 6);
    assert_int_equal(verdict(&s, "S02"), JUDGE_PASS);
    init(&s, 7);
    assert_int_equal(verdict(&s, "S02"), JUDGE_FAIL);
    assert_int_equal(status_of(&s, "bounded_attempts"), JUDGE_BAD);
    init(&s, 7);
    assert_int_equal(verdict(&s, "S16"), JUDGE_FAIL);
    init(&s, 1);
    assert_int_equal(verdict(&s, "S12"), JUDGE_PASS);
    init(&s, 2);
    assert_int_equal(verdict(&s, "S12"), JUDGE_FAIL);
    init(&s, 0); /* it was never asked */
    assert_int_equal(verdict(&s, "S12"), JUDGE_FAIL);
    init(&s, 1);
    assert_int_equal(verdict(&s, "S03"), JUDGE_PARTIAL);
    assert_int_equal(status_of(&s, "same_provider_retry"), JUDGE_BAD);
    init(&s, 1);
    assert_int_equal(verdict(&s, "S06"), JUDGE_PASS);
    init(&s, 2);
    assert_int_equal(verdict(&s, "S06"), JUDGE_PARTIAL);
    assert_int_equal(status_of(&s, "silent_route_not_retried"), JUDGE_BAD);
}

/* Four in the first three seconds are allowed; the first moment after the window does not count. */
static void hammering(void **state)
{
    struct scene s;
    init(&s, 5);
    for (unsigned i = 0; i < 5; i++)
        s.primary[i].at_ms = 7000 + i * 750;
    assert_int_equal(verdict(&s, "S02"), JUDGE_PASS);
    s.primary[4].at_ms = 9999;
    assert_int_equal(verdict(&s, "S02"), JUDGE_FAIL);
    assert_int_equal(status_of(&s, "no_hammer"), JUDGE_BAD);
    s.primary[4].at_ms = 10000;
    assert_int_equal(verdict(&s, "S02"), JUDGE_PASS);
    /* four times as fast: the window is 750 ms */
    s.seen.speed = 4;
    for (unsigned i = 0; i < 5; i++)
        s.primary[i].at_ms = 7000 + i * 187;
    assert_int_equal(verdict(&s, "S02"), JUDGE_FAIL);
    s.primary[4].at_ms = 7750;
    assert_int_equal(verdict(&s, "S02"), JUDGE_PASS);
    init(&s, 0);
    assert_int_equal(verdict(&s, "S02"), JUDGE_PASS);
}

static void retry_after(void **state)
{
    struct scene s;
    init(&s, 2);
    s.primary[1].at_ms = s.primary[0].at_ms + 1800;
    assert_int_equal(verdict(&s, "S01"), JUDGE_PASS);
    s.primary[1].at_ms--;
    assert_int_equal(verdict(&s, "S01"), JUDGE_PARTIAL);
    assert_int_equal(status_of(&s, "retry_after_kept"), JUDGE_BAD);
    s.seen.speed = 2;
    assert_int_equal(verdict(&s, "S01"), JUDGE_PASS);
    init(&s, 1); /* straight to the fallback */
    assert_int_equal(verdict(&s, "S01"), JUDGE_PARTIAL);
    assert_int_equal(status_of(&s, "retried"), JUDGE_BAD);
    assert_int_equal(status_of(&s, "retry_after_kept"), JUDGE_BAD);
    init(&s, 3);
    for (unsigned i = 0; i < 3; i++)
        s.primary[i].at_ms = 100 + i * 749; /* a third within 1.5 s */
    assert_int_equal(verdict(&s, "S01"), JUDGE_FAIL);
}

static void wall_times(void **state)
{
    static const struct {
        const char *id, *check;
        unsigned ms;
        enum judge_verdict over;
    } rows[] = {{"S06", "within_budget", 100000, JUDGE_FAIL},
                {"S07", "ttft_limit", 15000, JUDGE_PARTIAL},
                {"S09", "bounded", 45000, JUDGE_FAIL},
                {"S11", "prompt_end", 8000, JUDGE_FAIL}};
    struct scene s;
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        for (unsigned speed = 1; speed <= 4; speed *= 4) {
            init(&s, 1);
            s.seen.speed = speed;
            s.calls[0].wall_us = rows[i].ms * UINT64_C(1000) / speed;
            assert_int_equal(verdict(&s, rows[i].id), JUDGE_PASS);
            s.calls[0].wall_us += 1;
            assert_int_equal(verdict(&s, rows[i].id), rows[i].over);
            assert_int_equal(status_of(&s, rows[i].check), JUDGE_BAD);
        }
}

static void no_fallback(void **state)
{
    struct scene s;
    init(&s, 1);
    s.seen.has_fallback = false;
    s.seen.n_fallback = 0;
    s.calls[0].wall_us = 21000000;
    assert_int_equal(verdict(&s, "S07"), JUDGE_PASS);
    assert_int_equal(status_of(&s, "ttft_limit"), JUDGE_NOT_APPLICABLE);
}

static void alive(void **state)
{
    struct scene s;
    init(&s, 1);
    s.seen.is_alive = false;
    assert_int_equal(verdict(&s, "S09"), JUDGE_FAIL);
    assert_int_equal(verdict(&s, "S10"), JUDGE_FAIL);
    assert_int_equal(status_of(&s, "alive_after"), JUDGE_BAD);
    assert_int_equal(verdict(&s, "S08"), JUDGE_PASS); /* not asked there */
}

static void accounts(void **state)
{
    struct scene s;
    init(&s, 1);
    assert_int_equal(verdict(&s, "S16"), JUDGE_PASS);
    snprintf(s.calls[0].model, sizeof s.calls[0].model, "openai/fb-ok");
    assert_int_equal(verdict(&s, "S16"), JUDGE_PASS);
    static const char *const wrong[] = {"fb-s16-503-persistent", "", "xfb-ok", "fb-ok-noprefill"};
    for (size_t i = 0; i < RM_COUNTOF(wrong); i++) {
        snprintf(s.calls[0].model, sizeof s.calls[0].model, "%s", wrong[i]);
        assert_int_equal(verdict(&s, "S16"), JUDGE_FAIL);
        assert_int_equal(status_of(&s, "names_the_fallback"), JUDGE_BAD);
    }
    init(&s, 1);
    s.calls[0].has_usage = false;
    assert_int_equal(verdict(&s, "S16"), JUDGE_PARTIAL);
    assert_int_equal(verdict(&s, "S11"), JUDGE_PARTIAL);
    s.calls[0] = refused(503); /* nothing to account for */
    assert_int_equal(verdict(&s, "S16"), JUDGE_SAFE);
    assert_int_equal(status_of(&s, "usage_told"), JUDGE_NOT_APPLICABLE);
    assert_int_equal(status_of(&s, "names_the_fallback"), JUDGE_NOT_APPLICABLE);
}

static void prefill(void **state)
{
    struct scene s;
    init(&s, 1);
    s.seen.n_prefill_refused = 1; /* refused, and then answered all the same */
    assert_int_equal(verdict(&s, "S14"), JUDGE_PASS);
    s.calls[0] = refused(400);
    assert_int_equal(verdict(&s, "S14"), JUDGE_FAIL);
    assert_int_equal(status_of(&s, "no_prefill_masking"), JUDGE_BAD);
    s.seen.n_prefill_refused = 0;
    assert_int_equal(verdict(&s, "S14"), JUDGE_SAFE);
}

static void complete(void **state)
{
    struct scene s;
    init(&s, 1);
    assert_int_equal(verdict(&s, "S10"), JUDGE_PASS);
    assert_int_equal(status_of(&s, "recovered_in_place"), JUDGE_GOOD);
    s.calls[0] = refused(502);
    assert_int_equal(verdict(&s, "S10"), JUDGE_SAFE);
    assert_int_equal(status_of(&s, "recovered_in_place"), JUDGE_BAD);
    assert_int_equal(status_of(&s, "no_truncated_success"), JUDGE_GOOD);
}

/* ---- the sequence ---- */

/* Twenty calls, one every 4 s; the primary is tried every eight, down for 60 s. */
static void flap_init(struct scene *s, unsigned speed)
{
    init(s, 0);
    s->seen.n_calls = 20;
    s->seen.speed = speed;
    for (unsigned i = 0; i < 20; i++) {
        s->calls[i] = whole();
        s->calls[i].sent_us = i * UINT64_C(4000000) / speed;
    }
    for (unsigned i = 0; i < 10; i++)
        s->primary[s->seen.n_primary++] =
            (struct judge_attempt){.at_ms = 1000 + i * 8000 / speed, .status = i * 8 < 60 ? 503 : 200};
}

static void flap(void **state)
{
    struct scene s;
    for (unsigned speed = 1; speed <= 4; speed *= 4) {
        flap_init(&s, speed);
        assert_int_equal(verdict(&s, "S15"), JUDGE_PASS);
        assert_int_equal(status_of(&s, "probe_discipline"), JUDGE_GOOD);
        s.calls[3] = refused(503); /* at 12 s: in the outage */
        assert_int_equal(verdict(&s, "S15"), JUDGE_FAIL);
        assert_int_equal(status_of(&s, "served_during_outage"), JUDGE_BAD);
        flap_init(&s, speed);
        s.calls[15] = refused(503); /* at 60 s: after it */
        s.calls[15].sent_us = UINT64_C(60000000) / speed;
        assert_int_equal(verdict(&s, "S15"), JUDGE_SAFE);
        flap_init(&s, speed);
        s.calls[19] = (struct judge_call){.is_hang = true, .sent_us = UINT64_C(76000000) / speed};
        assert_int_equal(verdict(&s, "S15"), JUDGE_FAIL);
        flap_init(&s, speed);
        s.calls[18] = truncated(3);
        s.calls[18].sent_us = UINT64_C(72000000) / speed;
        assert_int_equal(verdict(&s, "S15"), JUDGE_FAIL);
    }
}

static void flap_return(void **state)
{
    struct scene s;
    flap_init(&s, 1);
    s.seen.n_primary = 8; /* the last one is at 56 s */
    assert_int_equal(verdict(&s, "S15"), JUDGE_FAIL);
    assert_int_equal(status_of(&s, "recovered"), JUDGE_BAD);
    s.primary[8] = (struct judge_attempt){.at_ms = 1000 + 90000, .status = 200};
    s.seen.n_primary = 9;
    assert_int_equal(verdict(&s, "S15"), JUDGE_PASS);
    s.primary[8].at_ms++;
    assert_int_equal(verdict(&s, "S15"), JUDGE_FAIL);
    s.seen.has_fallback = false;
    assert_int_equal(verdict(&s, "S15"), JUDGE_PASS);
    assert_int_equal(status_of(&s, "recovered"), JUDGE_NOT_APPLICABLE);
    assert_int_equal(status_of(&s, "served_during_outage"), JUDGE_NOT_APPLICABLE);
    /* many probes are noted, no more */
    flap_init(&s, 1);
    for (unsigned i = 0; i < 40; i++)
        s.primary[i] = (struct judge_attempt){.at_ms = 1000 + i * 1000, .status = 503};
    s.primary[40] = (struct judge_attempt){.at_ms = 70000, .status = 200};
    s.seen.n_primary = 41;
    assert_int_equal(verdict(&s, "S15"), JUDGE_PASS);
    assert_int_equal(status_of(&s, "probe_discipline"), JUDGE_NOTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen),       cmocka_unit_test(outcomes),     cmocka_unit_test(verdicts),
        cmocka_unit_test(pass_and_safe), cmocka_unit_test(wanted_error), cmocka_unit_test(attempts),
        cmocka_unit_test(hammering),     cmocka_unit_test(retry_after),  cmocka_unit_test(wall_times),
        cmocka_unit_test(no_fallback),   cmocka_unit_test(alive),        cmocka_unit_test(accounts),
        cmocka_unit_test(prefill),       cmocka_unit_test(complete),     cmocka_unit_test(flap),
        cmocka_unit_test(flap_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

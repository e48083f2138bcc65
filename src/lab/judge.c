/* A verdict is made in three steps: what became of each call (judge_outcome), what each check of the scenario says, and
 * the rule that puts both together. The rule is the test's own:
 *
 *     hang, truncated or masked answer, required check failed    fail
 *     not rescued, but a clean error                             safe
 *     rescued, an advisory check failed                          partial
 *     rescued                                                    pass
 *
 * Rescued means the whole answer; where an error is wanted (S13), the error, and an answer by a way round is partial.
 */
#include "lab/judge.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>

/* Checks that many scenarios share. */
#define NO_HANG .id = "no_hang", .kind = JUDGE_NO_HANG
#define NOT_TRUNCATED .id = "no_truncated_success", .kind = JUDGE_NOT_TRUNCATED
#define ALIVE .id = "alive_after", .kind = JUDGE_ALIVE
#define AT_MOST_6 .id = "bounded_attempts", .kind = JUDGE_ATTEMPTS_MAX, .value = 6
#define USAGE .id = "usage_told", .kind = JUDGE_USAGE, .is_advisory = true
#define ONE_ATTEMPT .id = "no_same_model_retry", .kind = JUDGE_ATTEMPTS_ARE, .value = 1

const struct judge_scenario judge_scenarios[JUDGE_SCENARIOS] = {
    {.id = "S01",
     .title = "429 with Retry-After",
     .model = "fb-s01-429-retry-after",
     .fallback = "fb-ok",
     .fault = "the first attempt gets 429 with Retry-After: 2, later ones an answer",
     .max_wall_ms = 20000,
     .n_calls = 1,
     .checks = {{.id = "retried", .kind = JUDGE_ATTEMPTS_MIN, .value = 2, .is_advisory = true},
                {.id = "retry_after_kept", .kind = JUDGE_GAP_MIN, .ms = 1800, .is_advisory = true},
                {.id = "no_hammer", .kind = JUDGE_ATTEMPTS_WITHIN, .value = 2, .ms = 1500}}},
    {.id = "S02",
     .title = "429 for ever, without Retry-After",
     .model = "fb-s02-429-persistent",
     .fallback = "fb-ok",
     .fault = "every attempt gets 429",
     .max_wall_ms = 40000,
     .n_calls = 1,
     .checks = {{.id = "no_hammer", .kind = JUDGE_ATTEMPTS_WITHIN, .value = 4, .ms = 3000}, {AT_MOST_6}, {NO_HANG}}},
    {.id = "S03",
     .title = "500 once, then healthy",
     .model = "fb-s03-500-then-200",
     .fallback = "fb-ok",
     .fault = "the first attempt gets 500, later ones an answer",
     .max_wall_ms = 20000,
     .n_calls = 1,
     .checks = {{NO_HANG}, {.id = "same_provider_retry", .kind = JUDGE_ATTEMPTS_MIN, .value = 2, .is_advisory = true}}},
    {.id = "S04",
     .title = "503 for ever",
     .model = "fb-s04-503-persistent",
     .fallback = "fb-ok",
     .fault = "every attempt gets 503",
     .max_wall_ms = 40000,
     .n_calls = 1,
     .checks = {{AT_MOST_6}, {NO_HANG}}},
    {.id = "S05",
     .title = "Reset before the response",
     .model = "fb-s05-reset",
     .fallback = "fb-ok",
     .fault = "the first attempt's connection is reset before any byte, later ones get an answer",
     .max_wall_ms = 20000,
     .n_calls = 1,
     .checks = {{NO_HANG}}},
    {.id = "S06",
     .title = "No response at all",
     .model = "fb-s06-no-response",
     .fallback = "fb-ok",
     .fault = "takes the request and says nothing for 120 s",
     .max_wall_ms = 130000,
     .n_calls = 1,
     .checks = {{.id = "within_budget", .kind = JUDGE_WALL_MAX, .ms = 100000},
                {NO_HANG},
                {.id = "silent_route_not_retried", .kind = JUDGE_ATTEMPTS_MAX, .value = 1, .is_advisory = true}}},
    {.id = "S07",
     .title = "Slow first token",
     .model = "fb-s07-slow-ttft",
     .fallback = "fb-ok",
     .fault = "the head at once, the first token after 20 s",
     .max_wall_ms = 60000,
     .n_calls = 1,
     .checks =
         {{NO_HANG},
          {.id = "ttft_limit", .kind = JUDGE_WALL_MAX, .ms = 15000, .is_advisory = true, .needs_fallback = true}}},
    {.id = "S08",
     .title = "Stream cut in the middle",
     .model = "fb-s08-stream-cut",
     .fallback = "fb-ok",
     .fault = "the connection ends after 40 of 60 words, without the last chunk",
     .max_wall_ms = 40000,
     .n_calls = 1,
     .checks = {{NOT_TRUNCATED}, {NO_HANG}}},
    {.id = "S09",
     .title = "Stream stalls",
     .model = "fb-s09-stream-stall",
     .fallback = "fb-ok",
     .fault = "after 20 words silence for 30 s, then the end",
     .max_wall_ms = 70000,
     .n_calls = 1,
     .checks = {{.id = "bounded", .kind = JUDGE_WALL_MAX, .ms = 45000}, {NOT_TRUNCATED}, {ALIVE}, {NO_HANG}}},
    {.id = "S10",
     .title = "Malformed event in the stream",
     .model = "fb-s10-malformed-chunk",
     .fallback = "fb-ok",
     .fault = "the tenth event is no JSON, the rest is right",
     .max_wall_ms = 30000,
     .n_calls = 1,
     .checks = {{ALIVE},
                {NOT_TRUNCATED},
                {NO_HANG},
                {.id = "recovered_in_place", .kind = JUDGE_COMPLETE, .is_advisory = true}}},
    {.id = "S11",
     .title = "Stream ends without [DONE]",
     .model = "fb-s11-no-done",
     .fallback = "fb-ok",
     .fault = "a whole stream whose [DONE] is missing",
     .max_wall_ms = 30000,
     .n_calls = 1,
     .checks = {{.id = "prompt_end", .kind = JUDGE_WALL_MAX, .ms = 8000}, {USAGE}}},
    {.id = "S12",
     .title = "Prompt too long",
     .model = "fb-s12-context-length",
     .fallback = "fb-ok",
     .fault = "every attempt gets 400 context_length_exceeded",
     .max_wall_ms = 20000,
     .n_calls = 1,
     .checks = {{ONE_ATTEMPT}, {NO_HANG}}},
    {.id = "S13",
     .title = "Refused by the content filter",
     .model = "fb-s13-content-filter",
     .fallback = "fb-ok",
     .fault = "every attempt gets 400 content_policy_violation",
     .max_wall_ms = 20000,
     .wants_error = true,
     .n_calls = 1,
     .checks = {{ONE_ATTEMPT},
                {NO_HANG},
                {.id = "fallback_used", .kind = JUDGE_FALLBACK_USED, .is_informational = true}}},
    {.id = "S14",
     .title = "Cut, and the fallback takes no prefill",
     .model = "fb-s14-stream-cut",
     .fallback = "fb-ok-noprefill",
     .fault = "cut after 40 words; the fallback refuses a last message of the assistant's",
     .max_wall_ms = 40000,
     .n_calls = 1,
     .checks = {{.id = "no_prefill_masking", .kind = JUDGE_NO_PREFILL_MASKING}, {NOT_TRUNCATED}}},
    {.id = "S15",
     .title = "Down for a minute, then healthy",
     .model = "fb-s15-flap",
     .fallback = "fb-ok",
     .fault = "503 for 60 s, then healthy; twenty calls, one every 4 s",
     .max_wall_ms = 30000,
     .n_calls = 20,
     .every_ms = 4000,
     .outage_ms = 60000,
     .checks = {{NO_HANG},
                {.id = "served_during_outage", .kind = JUDGE_SEQ_ANSWERED, .needs_fallback = true},
                {.id = "recovered", .kind = JUDGE_SEQ_RECOVERED, .ms = 30000, .needs_fallback = true},
                {.id = "probe_discipline", .kind = JUDGE_SEQ_PROBES, .is_informational = true}}},
    {.id = "S16",
     .title = "Who served, and for how much",
     .model = "fb-s16-503-persistent",
     .fallback = "fb-ok",
     .fault = "every attempt gets 503, the fallback answers",
     .max_wall_ms = 40000,
     .n_calls = 1,
     .checks = {{.id = "names_the_fallback", .kind = JUDGE_MODEL_IS_FALLBACK, .needs_fallback = true},
                {USAGE, .needs_fallback = true},
                {AT_MOST_6}}},
};

const struct judge_scenario *judge_find(struct bytes id)
{
    for (size_t i = 0; i < JUDGE_SCENARIOS; i++)
        if (bytes_eq_nocase(id, bytes_of(judge_scenarios[i].id)))
            return &judge_scenarios[i];
    return NULL;
}

/* ---- one call ---- */

enum judge_outcome judge_outcome(const struct judge_call *c)
{
    bool looks_ended = c->has_finish || c->has_done;
    if (c->is_hang)
        return JUDGE_HANG;
    /* A client library raises on a status and on a broken connection, whatever came before. */
    if (c->is_broken || c->status < 200 || c->status > 299)
        return JUDGE_ERROR;
    if (c->has_error)
        return looks_ended ? JUDGE_MASKED : JUDGE_ERROR;
    return c->is_text_right ? JUDGE_ANSWERED : JUDGE_TRUNCATED;
}

const char *judge_outcome_word(enum judge_outcome o)
{
    static const char *const words[] = {[JUDGE_ANSWERED] = "answered",
                                        [JUDGE_ERROR] = "error",
                                        [JUDGE_TRUNCATED] = "truncated",
                                        [JUDGE_MASKED] = "masked_error",
                                        [JUDGE_HANG] = "hang"};
    return words[o];
}

const char *judge_verdict_word(enum judge_verdict v)
{
    static const char *const words[JUDGE_VERDICTS] = {"pass", "partial", "safe", "fail"};
    return words[v];
}

/* The call that decides: the first one of the worst outcome. */
static const struct judge_call *worst(const struct judge_seen *seen, enum judge_outcome *outcome)
{
    const struct judge_call *found = &seen->calls[0];
    *outcome = judge_outcome(found);
    for (size_t i = 1; i < seen->n_calls; i++)
        if (judge_outcome(&seen->calls[i]) > *outcome) {
            found = &seen->calls[i];
            *outcome = judge_outcome(found);
        }
    return found;
}

/* ---- the checks ---- */

struct bench {
    const struct judge_scenario *scenario;
    const struct judge_seen *seen;
    const struct judge_call *call; /* the one that decides */
    enum judge_outcome outcome;
};

static void say(struct judge_checked *to, const char *fmt, ...) RM_PRINTF(2, 3);
static void say(struct judge_checked *to, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(to->detail, sizeof to->detail, fmt, args);
    va_end(args);
}

static double limit_s(const struct bench *b, unsigned ms)
{
    return (double)ms / 1000 / b->seen->speed;
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static bool attempts(const struct bench *b, const struct judge_check *c, struct judge_checked *out)
{
    size_t n = b->seen->n_primary;
    const char *how = c->kind == JUDGE_ATTEMPTS_MIN   ? "at least"
                      : c->kind == JUDGE_ATTEMPTS_MAX ? "at most"
                                                      : "exactly";
    say(out, "%zu attempt%s on the primary, %s %u wanted", n, plural(n), how, c->value);
    if (c->kind == JUDGE_ATTEMPTS_MIN)
        return n >= c->value;
    return c->kind == JUDGE_ATTEMPTS_MAX ? n <= c->value : n == c->value;
}

static bool attempts_within(const struct bench *b, const struct judge_check *c, struct judge_checked *out)
{
    const struct judge_attempt *v = b->seen->primary;
    size_t n = 0;
    while (n < b->seen->n_primary && (v[n].at_ms - v[0].at_ms) * b->seen->speed < c->ms)
        n++;
    say(out, "%zu attempt%s on the primary in the first %.2f s, at most %u wanted", n, plural(n), limit_s(b, c->ms),
        c->value);
    return n <= c->value;
}

static bool gap(const struct bench *b, const struct judge_check *c, struct judge_checked *out)
{
    const struct judge_attempt *v = b->seen->primary;
    if (b->seen->n_primary < 2) {
        say(out, "no second attempt on the primary");
        return false;
    }
    int64_t ms = v[1].at_ms - v[0].at_ms;
    say(out, "%.2f s from the first attempt to the second, at least %.2f s wanted", (double)ms / 1000,
        limit_s(b, c->ms));
    return ms * b->seen->speed >= c->ms;
}

static bool wall(const struct bench *b, const struct judge_check *c, struct judge_checked *out)
{
    say(out, "took %.1f s, at most %.1f s wanted", (double)b->call->wall_us / 1e6, limit_s(b, c->ms));
    return b->outcome != JUDGE_HANG && b->call->wall_us * b->seen->speed <= c->ms * UINT64_C(1000);
}

static bool not_truncated(const struct bench *b, struct judge_checked *out)
{
    if (b->outcome == JUDGE_TRUNCATED)
        say(out, "%u words presented as a whole answer", b->call->n_words);
    else if (b->outcome == JUDGE_MASKED)
        say(out, "an error beside a finish reason or [DONE]");
    else
        say(out, "%s", b->outcome == JUDGE_ANSWERED ? "a whole answer" : "no success was claimed");
    return b->outcome != JUDGE_TRUNCATED && b->outcome != JUDGE_MASKED;
}

static bool names_fallback(const struct bench *b, struct judge_checked *out)
{
    struct bytes told = bytes_of(b->call->model), wanted = bytes_of(b->scenario->fallback);
    /* Some gateways put the vendor's name before it. */
    bool is_it = bytes_ends_with(told, wanted) && (told.n == wanted.n || told.p[told.n - wanted.n - 1] == '/');
    say(out, "the answer names '%s', '%s' gave it", b->call->model, b->scenario->fallback);
    return is_it;
}

/* ---- the checks of the sequence ---- */

static bool seq_answered(const struct bench *b, struct judge_checked *out)
{
    size_t n = 0, good = 0;
    for (size_t i = 0; i < b->seen->n_calls; i++) {
        const struct judge_call *c = &b->seen->calls[i];
        if (c->sent_us * b->seen->speed >= b->scenario->outage_ms * UINT64_C(1000))
            continue;
        n++;
        good += judge_outcome(c) == JUDGE_ANSWERED;
    }
    say(out, "%zu of %zu calls answered while the primary was down", good, n);
    return n > 0 && good == n;
}

/* The provider's clock is not ours: its outage begins, to within a call's way, with the first attempt that it saw. */
static int64_t since_down_ms(const struct bench *b, size_t i)
{
    return (b->seen->primary[i].at_ms - b->seen->primary[0].at_ms) * b->seen->speed - b->scenario->outage_ms;
}

static bool seq_recovered(const struct bench *b, const struct judge_check *c, struct judge_checked *out)
{
    for (size_t i = 0; i < b->seen->n_primary; i++) {
        if (b->seen->primary[i].status != 200)
            continue;
        int64_t ms = since_down_ms(b, i) > 0 ? since_down_ms(b, i) : 0;
        say(out, "the primary answered again %.1f s after its recovery, at most %.1f s wanted",
            (double)ms / 1000 / b->seen->speed, limit_s(b, c->ms));
        return ms <= c->ms;
    }
    say(out, "the primary was not used again after its recovery");
    return false;
}

static bool seq_probes(const struct bench *b, struct judge_checked *out)
{
    size_t n_calls = 0, n = 0;
    for (size_t i = 0; i < b->seen->n_calls; i++)
        n_calls += b->seen->calls[i].sent_us * b->seen->speed < b->scenario->outage_ms * UINT64_C(1000);
    for (size_t i = 0; i < b->seen->n_primary; i++)
        n += b->seen->primary[i].status != 200;
    say(out, "%zu attempt%s on the primary for %zu calls while it was down", n, plural(n), n_calls);
    return n <= n_calls;
}

static bool is_applicable(const struct bench *b, const struct judge_check *c, struct judge_checked *out)
{
    bool is_answered = b->outcome == JUDGE_ANSWERED;
    if (c->needs_fallback && !b->seen->has_fallback)
        say(out, "the system declares no fallback");
    else if (c->kind == JUDGE_MODEL_IS_FALLBACK && b->seen->n_fallback == 0)
        say(out, "the fallback was not used");
    else if ((c->kind == JUDGE_MODEL_IS_FALLBACK || c->kind == JUDGE_USAGE) && !is_answered)
        say(out, "there was no answer");
    else
        return true;
    return false;
}

static bool holds(const struct bench *b, const struct judge_check *c, struct judge_checked *out)
{
    switch (c->kind) {
    case JUDGE_ATTEMPTS_MIN:
    case JUDGE_ATTEMPTS_MAX:
    case JUDGE_ATTEMPTS_ARE:
        return attempts(b, c, out);
    case JUDGE_ATTEMPTS_WITHIN:
        return attempts_within(b, c, out);
    case JUDGE_GAP_MIN:
        return gap(b, c, out);
    case JUDGE_WALL_MAX:
        return wall(b, c, out);
    case JUDGE_NOT_TRUNCATED:
        return not_truncated(b, out);
    case JUDGE_COMPLETE:
        say(out, b->outcome == JUDGE_ANSWERED ? "a whole answer" : "no whole answer");
        return b->outcome == JUDGE_ANSWERED;
    case JUDGE_ALIVE:
        say(out, b->seen->is_alive ? "a healthy call succeeded afterwards" : "a healthy call failed afterwards");
        return b->seen->is_alive;
    case JUDGE_USAGE:
        say(out, b->call->has_usage ? "the tokens are told" : "the answer does not tell its tokens");
        return b->call->has_usage;
    case JUDGE_MODEL_IS_FALLBACK:
        return names_fallback(b, out);
    case JUDGE_FALLBACK_USED:
        say(out, "%zu attempt%s on the fallback", b->seen->n_fallback, plural(b->seen->n_fallback));
        return b->seen->n_fallback > 0;
    case JUDGE_NO_PREFILL_MASKING:
        say(out, "the fallback refused a prefill %zu time%s%s", b->seen->n_prefill_refused,
            plural(b->seen->n_prefill_refused), b->outcome == JUDGE_ERROR ? " and the call ended in an error" : "");
        return b->outcome != JUDGE_ERROR || b->seen->n_prefill_refused == 0;
    case JUDGE_SEQ_ANSWERED:
        return seq_answered(b, out);
    case JUDGE_SEQ_RECOVERED:
        return seq_recovered(b, c, out);
    case JUDGE_SEQ_PROBES:
        return seq_probes(b, out);
    case JUDGE_NO_HANG:
    case JUDGE_NO_CHECK:
        break;
    }
    say(out, b->outcome == JUDGE_HANG ? "no end within %.1f s" : "ended within %.1f s",
        limit_s(b, b->scenario->max_wall_ms));
    return b->outcome != JUDGE_HANG;
}

/* ---- the verdict ---- */

static void check_all(const struct bench *b, struct judge_result *out)
{
    for (size_t i = 0; i < JUDGE_CHECKS_MAX && b->scenario->checks[i].id != NULL; i++) {
        struct judge_checked *to = &out->checks[out->n_checks++];
        to->check = &b->scenario->checks[i];
        if (!is_applicable(b, to->check, to))
            to->status = JUDGE_NOT_APPLICABLE;
        else if (holds(b, to->check, to))
            to->status = JUDGE_GOOD;
        else
            to->status = to->check->is_informational ? JUDGE_NOTED : JUDGE_BAD;
    }
}

/* Appends the failures of one weight to the reason; how many there were. */
static size_t failures(struct judge_result *r, bool is_advisory)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_checks; i++) {
        const struct judge_checked *c = &r->checks[i];
        if (c->status != JUDGE_BAD || c->check->is_advisory != is_advisory)
            continue;
        size_t at = strlen(r->reason);
        snprintf(r->reason + at, sizeof r->reason - at, "%s%s", at > 0 ? "; " : "", c->detail);
        n++;
    }
    return n;
}

static bool failed_outright(const struct bench *b, struct judge_result *out)
{
    if (b->outcome == JUDGE_HANG)
        snprintf(out->reason, sizeof out->reason, "no end within %.1f s", limit_s(b, b->scenario->max_wall_ms));
    else if (b->outcome == JUDGE_TRUNCATED)
        snprintf(out->reason, sizeof out->reason, "%u words%s presented as a whole answer", b->call->n_words,
                 b->call->n_words < 60 ? " of 60" : ", not the right ones,");
    else if (b->outcome == JUDGE_MASKED)
        snprintf(out->reason, sizeof out->reason, "an error beside a finish reason or [DONE]: %s", b->call->error);
    else
        return failures(out, false) > 0;
    return true;
}

static enum judge_verdict verdict(const struct bench *b, struct judge_result *out)
{
    bool is_answered = b->outcome == JUDGE_ANSWERED;
    if (failed_outright(b, out))
        return JUDGE_FAIL;
    if (b->scenario->wants_error && is_answered) {
        snprintf(out->reason, sizeof out->reason, "answered by going around the refusal");
        return JUDGE_PARTIAL;
    }
    if (!is_answered && !b->scenario->wants_error) {
        snprintf(out->reason, sizeof out->reason, "no answer, but a clean error: %s", b->call->error);
        return JUDGE_SAFE;
    }
    if (failures(out, true) > 0)
        return JUDGE_PARTIAL;
    if (b->scenario->wants_error)
        snprintf(out->reason, sizeof out->reason, "a clean error: %s", b->call->error);
    else if (b->seen->n_calls > 1)
        snprintf(out->reason, sizeof out->reason, "%zu whole answers", b->seen->n_calls);
    else
        snprintf(out->reason, sizeof out->reason, "a whole answer");
    return JUDGE_PASS;
}

void judge(const struct judge_scenario *s, const struct judge_seen *seen, struct judge_result *out)
{
    RM_ASSERT(seen->n_calls > 0 && seen->speed > 0);
    *out = (struct judge_result){0};
    struct bench b = {.scenario = s, .seen = seen};
    b.call = worst(seen, &b.outcome);
    out->outcome = b.outcome;
    check_all(&b, out);
    out->verdict = verdict(&b, out);
}

#include "lab/fb.h"

#include "base/check.h"

/* A row for each model. What varies is when the fault is there: on the first attempt, on every one, or for a while. */
enum when { WHEN_NEVER, WHEN_FIRST, WHEN_ALWAYS, WHEN_DOWN };

enum {
    RETRY_AFTER_MS = 2000,
    SILENCE_MS = 120000,
    SLOW_TTFT_MS = 20000,
    STALL_MS = 30000,
    DOWN_MS = 60000,
    CUT_AFTER = 40,
    STALL_AFTER = 20,
    MALFORMED_AFTER = 8 /* the role's event and eight words: the bad one is the tenth */
};

struct row {
    const char *model;
    enum when when;
    enum fault_kind kind;
    unsigned status;
    int retry_after_ms, after, ttft_ms, for_ms; /* 0 = none */
    bool rejects_prefill;
};

static const struct row rows[] = {
    {.model = "fb-ok", .when = WHEN_NEVER},
    {.model = "fb-ok-noprefill", .when = WHEN_NEVER, .rejects_prefill = true},
    {.model = "fb-s01-429-retry-after", WHEN_FIRST, FAULT_STATUS, 429, .retry_after_ms = RETRY_AFTER_MS},
    {.model = "fb-s02-429-persistent", WHEN_ALWAYS, FAULT_STATUS, 429},
    {.model = "fb-s03-500-then-200", WHEN_FIRST, FAULT_STATUS, 500},
    {.model = "fb-s04-503-persistent", WHEN_ALWAYS, FAULT_STATUS, 503},
    {.model = "fb-s05-reset", WHEN_FIRST, FAULT_RESET},
    {.model = "fb-s06-no-response", WHEN_ALWAYS, FAULT_HANG, .for_ms = SILENCE_MS},
    {.model = "fb-s07-slow-ttft", WHEN_ALWAYS, FAULT_SLOW_AFTER_HEAD, .ttft_ms = SLOW_TTFT_MS},
    {.model = "fb-s08-stream-cut", WHEN_ALWAYS, FAULT_CUT, .after = CUT_AFTER},
    {.model = "fb-s09-stream-stall", WHEN_ALWAYS, FAULT_STALL, .after = STALL_AFTER, .for_ms = STALL_MS},
    {.model = "fb-s10-malformed-chunk", WHEN_ALWAYS, FAULT_MALFORMED, .after = MALFORMED_AFTER},
    {.model = "fb-s11-no-done", WHEN_ALWAYS, FAULT_NO_DONE},
    {.model = "fb-s12-context-length", WHEN_ALWAYS, FAULT_CONTEXT},
    {.model = "fb-s13-content-filter", WHEN_ALWAYS, FAULT_POLICY},
    {.model = "fb-s14-stream-cut", WHEN_ALWAYS, FAULT_CUT, .after = CUT_AFTER},
    {.model = "fb-s15-flap", WHEN_DOWN, FAULT_STATUS, 503},
    {.model = "fb-s16-503-persistent", WHEN_ALWAYS, FAULT_STATUS, 503},
};

const char fb_words[] =
    "A ring of copper keeps a street lit when one feeder fails, because the current takes the other way round. A "
    "gateway earns the same trust only on a bad day: it notices the silence, moves the call, finishes the sentence, "
    "counts what the detour cost, and says so plainly, while the reader never learns that anything broke late tonight.";

static const struct row *find(struct bytes model)
{
    for (size_t i = model.n; i > 0; i--)
        if (model.p[i - 1] == '/') {
            model = bytes_slice(model, i, model.n);
            break;
        }
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (bytes_is(model, rows[i].model))
            return &rows[i];
    return NULL;
}

bool fb_is_model(struct bytes model)
{
    return find(model) != NULL;
}

static int64_t at_speed(int ms, unsigned speed)
{
    return ms > 0 ? ms / (int64_t)speed : -1;
}

void fb_answer(struct bytes model, uint64_t attempt, uint64_t since_reset_ms, unsigned speed, struct fb_answer *out)
{
    const struct row *r = find(model);
    RM_ASSERT(r != NULL && attempt > 0 && speed > 0);
    bool is_ok = fault_parse(BYTES("ok"), &out->fault);
    RM_ASSERT(is_ok);
    out->rejects_prefill = r->rejects_prefill;
    if (r->when == WHEN_NEVER || (r->when == WHEN_FIRST && attempt > 1) ||
        (r->when == WHEN_DOWN && since_reset_ms >= (uint64_t)at_speed(DOWN_MS, speed)))
        return;
    out->fault.kind = r->kind;
    out->fault.status = r->status;
    out->fault.retry_after_ms = at_speed(r->retry_after_ms, speed);
    out->fault.after = r->after > 0 ? r->after : -1;
    out->fault.ttft_ms = at_speed(r->ttft_ms, speed);
    out->fault.for_ms = at_speed(r->for_ms, speed);
}

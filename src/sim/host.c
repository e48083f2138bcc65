/* A provider's side of one attempt, written as a script when it starts. A provider has a mood that lasts two seconds,
 * so that failures come in rows, breakers open, and trials meet both ends. */
#include "sim/inside.h"

enum mood { MOOD_WELL, MOOD_SLOW, MOOD_DOWN, MOOD_LIMITED, MOOD_FLAKY, MOOD_ODD, MOOD_N };
#define MOOD_US UINT64_C(2000000)

struct play {
    struct world *w;
    struct host_script *out;
    uint64_t at_us;
};

static struct host_step *step(struct play *p, enum relay_event_kind kind, uint64_t after_us)
{
    RM_ASSERT(p->out->n < WORLD_STEPS);
    struct host_step *s = &p->out->v[p->out->n++];
    p->at_us += after_us;
    *s = (struct host_step){.at_us = p->at_us, .kind = kind, .usage = USAGE_NONE};
    return s;
}

static uint64_t span(struct play *p, uint64_t max_ms)
{
    return cast_span(&p->w->rng, max_ms);
}

static unsigned dice(struct play *p, unsigned n)
{
    return (unsigned)rng_below(&p->w->rng, n);
}

static void connect_and_send(struct play *p)
{
    uint64_t us = span(p, 100);
    bool is_reused = dice(p, 2) == 0;
    step(p, RELAY_CONNECTED, is_reused ? 0 : us)->connect_us = is_reused ? -1 : (int64_t)us;
    if (is_reused && dice(p, 10) == 0) {
        step(p, RELAY_REPLAYED, 0);
        step(p, RELAY_CONNECTED, us)->connect_us = (int64_t)us;
    }
    step(p, RELAY_SENT, 0);
}

static void head(struct play *p, uint16_t status, uint64_t after_us)
{
    step(p, RELAY_HEAD, after_us)->status = status;
}

static struct failure *fail(struct play *p, uint64_t after_us, enum failure_class class, uint16_t status)
{
    struct failure *f = &step(p, RELAY_FAILED, after_us)->failure;
    failure_make(f, failure_outcome(class), "scripted");
    f->class = class;
    f->status = status;
    return f;
}

static void tokens(struct play *p, unsigned n, uint64_t first_us, uint64_t gap_ms)
{
    step(p, RELAY_OUTPUT, 0); /* the role: not a token */
    for (unsigned i = 0; i < n; i++) {
        struct host_step *s = step(p, RELAY_OUTPUT, i == 0 ? first_us : span(p, gap_ms));
        s->is_token = true;
        s->text_bytes = 1 + dice(p, 40);
        s->is_thought = dice(p, 12) == 0;
    }
}

static void answer(struct play *p, uint64_t first_us, uint64_t gap_ms)
{
    connect_and_send(p);
    head(p, 200, span(p, 100));
    tokens(p, dice(p, 6), first_us, gap_ms);
    if (dice(p, 4) != 0) {
        struct usage *u = &step(p, RELAY_OUTPUT, 0)->usage;
        u->input = dice(p, 500);
        u->output = dice(p, 500);
    }
    step(p, RELAY_ENDED, 0);
}

/* Answers 200 and then fails: before the first token, after it, by error event, cut, silence. */
static void break_inside(struct play *p)
{
    connect_and_send(p);
    head(p, 200, span(p, 100));
    unsigned n = dice(p, 4); /* a draw a statement: arguments have no order */
    tokens(p, n, span(p, 300), 200);
    switch (dice(p, 4)) {
    case 0:
        fail(p, 0, FAILURE_OVERLOAD, 0)->in_stream = true;
        return;
    case 1:
        fail(p, span(p, 200), FAILURE_FAULT, 0)->outcome = OUTCOME_STREAM_ERROR;
        return;
    case 2:
        fail(p, 0, FAILURE_FAULT, 0)->outcome = OUTCOME_PROTOCOL_ERROR;
        return;
    default:
        return; /* silence */
    }
}

static void be_down(struct play *p)
{
    switch (dice(p, 5)) {
    case 0: {
        struct failure *f = fail(p, span(p, 100), FAILURE_FAULT, 0);
        f->outcome = OUTCOME_CONNECT_ERROR;
        f->is_unsent = true;
        return;
    }
    case 1:
        fail(p, 400000, FAILURE_FAULT, 0)->outcome = OUTCOME_CONNECT_TIMEOUT;
        return;
    case 2:
        connect_and_send(p);
        head(p, 500, span(p, 600));
        fail(p, 0, FAILURE_FAULT, dice(p, 2) ? 500 : 504);
        return;
    case 3: {
        connect_and_send(p);
        struct failure *f = fail(p, span(p, 100), FAILURE_FAULT, 0);
        f->outcome = OUTCOME_CONNECT_ERROR;
        f->is_established = true;
        return;
    }
    default:
        connect_and_send(p); /* and silence */
        return;
    }
}

static void be_limited(struct play *p)
{
    connect_and_send(p);
    bool is_rate = dice(p, 3) != 0;
    head(p, is_rate ? 429 : 503, span(p, 100));
    struct failure *f = fail(p, 0, is_rate ? FAILURE_RATE : FAILURE_OVERLOAD, is_rate ? 429 : 503);
    if (dice(p, 2))
        f->retry_after_ms = (int64_t)(dice(p, 20) * 100);
}

/* Everything that is not a provider's bad hour. */
static void be_odd(struct play *p)
{
    static const struct {
        enum failure_class class;
        uint16_t status;
        uint8_t quirk;
    } odd[] = {{FAILURE_CLIENT, 400, 0},
               {FAILURE_CONTEXT, 400, 0},
               {FAILURE_POLICY, 400, 0},
               {FAILURE_COMPAT, 400, 0},
               {FAILURE_COMPAT, 400, QUIRK_NO_STREAM_OPTIONS},
               {FAILURE_COMPAT, 400, QUIRK_MAX_COMPLETION_TOKENS},
               {FAILURE_AUTH, 401, 0},
               {FAILURE_NOTFOUND, 404, 0},
               {FAILURE_QUOTA, 429, 0}};
    unsigned i = dice(p, RM_COUNTOF(odd));
    connect_and_send(p);
    head(p, odd[i].status, span(p, 100));
    fail(p, 0, odd[i].class, odd[i].status)->quirk = odd[i].quirk;
}

static enum mood mood_of(const struct world *w, const struct link_conf *l)
{
    struct rng rng = {w->conf->seed * 31 + l->target_id * 1009 + w->now_us / MOOD_US};
    static const unsigned char moods[] = {MOOD_WELL, MOOD_WELL, MOOD_WELL,    MOOD_SLOW,
                                          MOOD_DOWN, MOOD_DOWN, MOOD_LIMITED, MOOD_FLAKY};
    uint64_t i = rng_below(&rng, 9);
    return i == 8 ? MOOD_ODD : (enum mood)moods[i];
}

void host_play(struct world *w, const struct guest *g, const struct relay_action *a, struct host_script *out)
{
    struct play p = {.w = w, .out = out, .at_us = w->now_us};
    out->n = 0;
    enum mood mood = mood_of(w, a->link);
    if (mood == MOOD_FLAKY)
        mood = (enum mood)dice(&p, MOOD_N);
    if (w->is_choppy && dice(&p, 3) == 0) {
        break_inside(&p);
        return;
    }
    switch (mood) {
    case MOOD_WELL:
        answer(&p, span(&p, 150), 100);
        return;
    case MOOD_SLOW: /* around the budget, often exactly on it */
        answer(&p, dice(&p, 3) ? span(&p, 2500) : (uint64_t)a->link->ttft_budget_ms * 1000, 400);
        return;
    case MOOD_DOWN:
        be_down(&p);
        return;
    case MOOD_LIMITED:
        be_limited(&p);
        return;
    case MOOD_ODD:
        be_odd(&p);
        return;
    default:
        break_inside(&p);
        return;
    }
}

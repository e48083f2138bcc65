#include "lab/fb_run.h"

#include "base/mem.h"
#include "base/text.h"
#include "codec/json_tree.h"
#include "codec/json_write.h"
#include "lab/fb_reading.h"

#include <stdio.h>

enum {
    CALLS_MAX = 20,
    ALIVE_MS = 10000,
    ALIVE_MS_MIN = 2500, /* however fast the clock runs */
    CONTROL_US = 10000000,
    AFTER_ERROR_US = 1000000, /* a client that was told an error waits no longer for the end of the stream */
    LOG_DEPTH_MAX = 32
};

static const char prompt[] = "In sixty words: how does a gateway earn trust when the provider behind it fails?";
static const char chat_path[] = "/chat/completions";

enum step { STEP_IDLE, STEP_RESET, STEP_BASELINE, STEP_RESET_AGAIN, STEP_CALL, STEP_LOG, STEP_ALIVE };

struct lane {
    struct fb_run *run;
    enum step step;
    struct fb_row *row;
    size_t next; /* the scenario that comes after this one */
    struct fb_ask ask;
    struct fb_reading reading;
    struct judge_call calls[CALLS_MAX], alive;
    size_t n_calls;
    uint64_t began_us, ended_us;
    int64_t began_wall_ms, ended_wall_ms;
    uint64_t told_error_us; /* since the call was sent; 0 = not yet */
    struct timer pause;     /* before the next call of a sequence */
    struct buf body, log;
    struct judge_attempt *primary; /* owned */
};

struct fb_run {
    struct fb_run_conf conf;
    struct loop *loop;
    struct resolver *resolver;
    struct lane lanes[2]; /* the single calls; the sequence */
    struct fb_row rows[JUDGE_SCENARIOS];
    bool is_failed;
    char why[400];
};

static void start_scenario(struct lane *lane);
static void next_scenario(struct lane *lane);

static void fail(struct fb_run *r, const char *fmt, ...) RM_PRINTF(2, 3);
static void fail(struct fb_run *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, args);
    va_end(args);
    r->is_failed = true;
    loop_stop(r->loop);
}

/* ---- asking ---- */

static void write_body(struct lane *lane, const char *model, const char *user, bool is_stream)
{
    struct json_writer w;
    buf_clear(&lane->body);
    jw_init(&w, &lane->body);
    jw_object(&w);
    jw_key(&w, "model");
    jw_cstr(&w, model);
    jw_key(&w, "stream");
    jw_bool(&w, is_stream);
    if (is_stream) {
        jw_key(&w, "stream_options");
        jw_object(&w);
        jw_key(&w, "include_usage");
        jw_bool(&w, true);
        jw_end(&w);
    }
    /* So that the provider's log can tell whose attempt on the shared fallback it was. */
    jw_key(&w, "user");
    jw_cstr(&w, user);
    jw_key(&w, "messages");
    jw_array(&w);
    jw_object(&w);
    jw_key(&w, "role");
    jw_cstr(&w, "user");
    jw_key(&w, "content");
    jw_cstr(&w, prompt);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
}

static void call(struct lane *lane, enum step step, struct judge_call *into, uint64_t timeout_us)
{
    lane->step = step;
    lane->told_error_us = 0;
    fb_reading_fini(&lane->reading);
    fb_reading_init(&lane->reading, into);
    into->sent_us = loop_now_us(lane->run->loop) - lane->began_us;
    fb_ask_start(&lane->ask, &lane->run->conf.gateway, "POST", chat_path, buf_bytes(&lane->body), timeout_us);
}

static void ask_alive(struct lane *lane, enum step step)
{
    unsigned ms = ALIVE_MS / lane->run->conf.speed;
    write_body(lane, "fb-ok", "alive", false);
    call(lane, step, &lane->alive, (ms > ALIVE_MS_MIN ? ms : ALIVE_MS_MIN) * UINT64_C(1000));
}

static void ask_wall(struct lane *lane, enum step step, const char *method, const char *path)
{
    lane->step = step;
    buf_clear(&lane->log);
    fb_ask_start(&lane->ask, &lane->run->conf.wall, method, path, (struct bytes){0}, CONTROL_US);
}

static void next_call(struct lane *lane)
{
    const struct judge_scenario *s = lane->row->scenario;
    write_body(lane, s->model, s->id, true);
    call(lane, STEP_CALL, &lane->calls[lane->n_calls], s->max_wall_ms * UINT64_C(1000) / lane->run->conf.speed);
}

static void on_pause(struct timer *t)
{
    next_call(RM_CONTAINER(t, struct lane, pause));
}

/* ---- the provider's log ---- */

static bool is_model(yyjson_val *entry, const char *model)
{
    struct bytes told = json_tree_str(entry, "model"), wanted = bytes_of(model);
    return bytes_ends_with(told, wanted) && (told.n == wanted.n || told.p[told.n - wanted.n - 1] == '/');
}

/* An attempt on the fallback that others use too: by its mark, else (a gateway may drop it) by its time. */
static bool is_ours(const struct lane *lane, yyjson_val *entry, int64_t at_ms)
{
    struct bytes user = json_tree_str(entry, "user");
    if (user.n > 0)
        return bytes_is(user, lane->row->scenario->id);
    return at_ms >= lane->began_wall_ms && at_ms <= lane->ended_wall_ms;
}

static void keep_attempt(struct fb_row *row, yyjson_val *entry, int64_t at_ms, bool is_primary, int64_t *first_ms)
{
    struct bytes fault = json_tree_str(entry, "fault");
    if (*first_ms < 0)
        *first_ms = at_ms;
    if (row->n_attempts == FB_ATTEMPTS_MAX)
        return;
    struct fb_attempt *a = &row->attempts[row->n_attempts++];
    *a = (struct fb_attempt){
        .ms = at_ms - *first_ms, .status = (unsigned)json_tree_int(entry, "status", 0), .is_primary = is_primary};
    snprintf(a->fault, sizeof a->fault, "%.*s", (int)(fault.n < 23 ? fault.n : 23), fault.n > 0 ? fault.p : "");
}

static void read_log(struct lane *lane, yyjson_val *entries)
{
    struct fb_row *row = lane->row;
    yyjson_val *entry;
    size_t i, n;
    int64_t first_ms = -1;
    lane->primary = mem_realloc(lane->primary, (yyjson_arr_size(entries) + 1) * sizeof *lane->primary);
    row->is_log_short = json_tree_int(yyjson_arr_get_first(entries), "n", 1) > 1;
    yyjson_arr_foreach(entries, i, n, entry)
    {
        int64_t at_ms = 0;
        unsigned status = (unsigned)json_tree_int(entry, "status", 0);
        if (!text_time_parse(json_tree_str(entry, "time"), &at_ms))
            continue;
        bool is_primary = is_model(entry, row->scenario->model);
        if (is_primary)
            lane->primary[row->n_primary++] = (struct judge_attempt){at_ms, status};
        else if (!is_model(entry, row->scenario->fallback) || !is_ours(lane, entry, at_ms))
            continue;
        row->n_fallback += !is_primary;
        row->n_prefill_refused += !is_primary && status == 400;
        keep_attempt(row, entry, at_ms, is_primary, &first_ms);
    }
}

/* The log is an array, or an object that holds it beside other figures. */
static bool take_log(struct lane *lane)
{
    struct arena a = {0};
    yyjson_val *root = NULL;
    bool ok = json_tree_parse(buf_bytes(&lane->log), LOG_DEPTH_MAX, &a, &root) == ERR_OK;
    if (ok && yyjson_is_obj(root))
        root = yyjson_obj_get(root, "requests");
    ok = ok && yyjson_is_arr(root);
    if (ok)
        read_log(lane, root);
    arena_fini(&a);
    return ok;
}

/* ---- what follows ---- */

static void on_call(struct lane *lane)
{
    const struct judge_scenario *s = lane->row->scenario;
    struct loop *l = lane->run->loop;
    lane->n_calls++;
    lane->ended_us = loop_now_us(l);
    lane->ended_wall_ms = loop_wall_ms(l);
    if (lane->n_calls == s->n_calls) {
        ask_wall(lane, STEP_LOG, "GET", "/_mock/log");
        return;
    }
    /* Due at fixed times; a call that took longer delays the next. */
    timer_arm(l, &lane->pause, lane->began_us + lane->n_calls * s->every_ms * UINT64_C(1000) / lane->run->conf.speed);
}

static void on_alive(struct lane *lane)
{
    struct fb_row *row = lane->row;
    const struct fb_run_conf *conf = &lane->run->conf;
    row->is_alive = judge_outcome(&lane->alive) == JUDGE_ANSWERED;
    snprintf(row->alive_why, sizeof row->alive_why, "%s", lane->alive.error);
    struct judge_seen seen = {.calls = lane->calls,
                              .n_calls = lane->n_calls,
                              .primary = lane->primary,
                              .n_primary = row->n_primary,
                              .n_fallback = row->n_fallback,
                              .n_prefill_refused = row->n_prefill_refused,
                              .is_alive = row->is_alive,
                              .has_fallback = conf->has_fallback,
                              .speed = conf->speed};
    judge(row->scenario, &seen, &row->result);
    row->call = lane->calls[lane->n_calls - 1];
    row->wall_us = lane->n_calls == 1 ? row->call.wall_us : lane->ended_us - lane->began_us;
    row->is_done = true;
    if (conf->on_row != NULL)
        conf->on_row(row, conf->arg);
    next_scenario(lane);
}

static void on_baseline(struct lane *lane)
{
    const struct judge_call *c = &lane->alive;
    const struct fb_target *to = &lane->run->conf.gateway;
    switch (judge_outcome(c)) {
    case JUDGE_ANSWERED:
        ask_wall(lane, STEP_RESET_AGAIN, "POST", "/_mock/reset");
        return;
    case JUDGE_TRUNCATED:
        fail(lane->run,
             "%s:%u answers the healthy model fb-ok with other words than the pretend provider's: does it lead there?",
             to->host, to->port);
        return;
    default:
        fail(lane->run, "%s:%u does not answer the healthy model fb-ok: %s", to->host, to->port, c->error);
    }
}

static void on_wall(struct lane *lane, const char *why, unsigned status)
{
    struct fb_run *r = lane->run;
    const struct fb_target *to = &r->conf.wall;
    if (why != NULL) {
        fail(r, "the pretend provider at %s:%u does not answer: %s", to->host, to->port, why);
    } else if (status != 200) {
        fail(r, "what listens at %s:%u is not `ringmain mock`: it answered %u", to->host, to->port, status);
    } else if (lane->step == STEP_RESET) {
        ask_alive(lane, STEP_BASELINE);
    } else if (lane->step == STEP_RESET_AGAIN) {
        next_scenario(&r->lanes[1]);
        next_scenario(&r->lanes[0]);
    } else if (take_log(lane)) {
        ask_alive(lane, STEP_ALIVE);
    } else {
        fail(r, "the log of the pretend provider at %s:%u cannot be read", to->host, to->port);
    }
}

/* ---- the ask's events ---- */

static bool is_call(const struct lane *lane)
{
    return lane->step == STEP_CALL || lane->step == STEP_ALIVE || lane->step == STEP_BASELINE;
}

static void on_head(struct fb_ask *a, unsigned status, struct bytes content_type)
{
    struct lane *lane = RM_CONTAINER(a, struct lane, ask);
    if (is_call(lane))
        fb_reading_head(&lane->reading, status, content_type);
    else
        lane->alive.status = status;
}

static bool on_body(struct fb_ask *a, struct bytes part, uint64_t at_us)
{
    struct lane *lane = RM_CONTAINER(a, struct lane, ask);
    if (!is_call(lane)) {
        buf_put(&lane->log, part);
        return true;
    }
    fb_reading_body(&lane->reading, part, at_us);
    if (lane->reading.call->has_error && lane->told_error_us == 0) {
        lane->told_error_us = at_us;
        fb_ask_shorten(a, AFTER_ERROR_US);
    }
    return !fb_reading_is_through(&lane->reading);
}

static void on_end(struct fb_ask *a, const char *why, bool is_timeout)
{
    struct lane *lane = RM_CONTAINER(a, struct lane, ask);
    if (!is_call(lane)) {
        on_wall(lane, why, lane->alive.status);
        return;
    }
    struct judge_call *c = lane->reading.call;
    bool has_left = is_timeout && lane->told_error_us > 0;
    fb_reading_end(&lane->reading, has_left ? NULL : why);
    c->is_hang = is_timeout && !has_left;
    c->wall_us = lane->told_error_us > 0 ? lane->told_error_us : loop_now_us(lane->run->loop) - a->start_us;
    if (lane->step == STEP_CALL)
        on_call(lane);
    else if (lane->step == STEP_ALIVE)
        on_alive(lane);
    else
        on_baseline(lane);
}

/* ---- the whole ---- */

static void start_scenario(struct lane *lane)
{
    lane->n_calls = 0;
    lane->began_us = loop_now_us(lane->run->loop);
    lane->began_wall_ms = loop_wall_ms(lane->run->loop);
    next_call(lane);
}

static bool is_over(const struct fb_run *r)
{
    return r->lanes[0].step == STEP_IDLE && r->lanes[1].step == STEP_IDLE;
}

/* The next wanted scenario of this lane: the second one has the sequences. */
static void next_scenario(struct lane *lane)
{
    struct fb_run *r = lane->run;
    bool has_sequences = lane == &r->lanes[1];
    while (lane->next < JUDGE_SCENARIOS) {
        lane->row = &r->rows[lane->next++];
        if (lane->row->is_wanted && (lane->row->scenario->n_calls > 1) == has_sequences) {
            start_scenario(lane);
            return;
        }
    }
    lane->step = STEP_IDLE;
    if (is_over(r))
        loop_stop(r->loop);
}

struct fb_run *fb_run_new(struct loop *l, const struct fb_run_conf *conf)
{
    static const struct fb_ask_handlers handlers = {on_head, on_body, on_end};
    struct fb_run *r = mem_zalloc(sizeof *r);
    r->conf = *conf;
    r->loop = l;
    r->resolver = resolver_new(l, RESOLVER_SYSTEM);
    for (size_t i = 0; i < RM_COUNTOF(r->lanes); i++) {
        r->lanes[i].run = r;
        r->lanes[i].pause.fn = on_pause;
        fb_ask_init(&r->lanes[i].ask, l, r->resolver, &handlers);
    }
    for (size_t i = 0; i < JUDGE_SCENARIOS; i++) {
        RM_ASSERT(judge_scenarios[i].n_calls <= CALLS_MAX);
        r->rows[i].scenario = &judge_scenarios[i];
        r->rows[i].is_wanted = conf->is_wanted[i];
    }
    return r;
}

bool fb_run_play(struct fb_run *r, const char **why)
{
    loop_turn(r->loop, 0);
    ask_wall(&r->lanes[0], STEP_RESET, "POST", "/_mock/reset");
    loop_run(r->loop);
    *why = r->is_failed ? r->why : NULL;
    return !r->is_failed && is_over(r);
}

const struct fb_row *fb_run_rows(const struct fb_run *r)
{
    return r->rows;
}

void fb_run_free(struct fb_run *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < RM_COUNTOF(r->lanes); i++) {
        struct lane *lane = &r->lanes[i];
        timer_cancel(r->loop, &lane->pause);
        fb_ask_fini(&lane->ask);
        fb_reading_fini(&lane->reading);
        buf_fini(&lane->body);
        buf_fini(&lane->log);
        mem_free(lane->primary);
    }
    loop_turn(r->loop, 0);
    resolver_free(r->resolver);
    loop_turn(r->loop, 0);
    mem_free(r);
}

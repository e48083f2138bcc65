#include "lab/fb_report.h"

#include "codec/json_write.h"

void fb_report_line(const struct fb_row *row, struct buf *out)
{
    buf_printf(out, "%s  %-7s  %6.1f s  %s\n", row->scenario->id, judge_verdict_word(row->result.verdict),
               (double)row->wall_us / 1e6, row->result.reason);
}

unsigned fb_report_count(const struct fb_row *rows, enum judge_verdict v)
{
    unsigned n = 0;
    for (size_t i = 0; i < JUDGE_SCENARIOS; i++)
        n += rows[i].is_done && rows[i].result.verdict == v;
    return n;
}

static void table_row(const struct fb_row *row, struct buf *out)
{
    if (!row->is_done) {
        buf_printf(out, "%-4s %-40s %-8s\n", row->scenario->id, row->scenario->title, "not run");
        return;
    }
    buf_printf(out, "%-4s %-40s %-8s %7zu %9zu %8.1f  %s", row->scenario->id, row->scenario->title,
               judge_verdict_word(row->result.verdict), row->n_primary, row->n_fallback, (double)row->wall_us / 1e6,
               row->result.reason);
    if (!row->is_alive)
        buf_printf(out, " (and a healthy call afterwards failed: %s)", row->alive_why);
    if (row->is_log_short)
        buf_puts(out, " (the provider's log has overflowed: attempts may be missing)");
    buf_putc(out, '\n');
}

void fb_report_table(const struct fb_row *rows, struct buf *out)
{
    buf_printf(out, "%-4s %-40s %-8s %7s %9s %8s  %s\n", "", "scenario", "verdict", "primary", "fallback", "seconds",
               "why");
    for (size_t i = 0; i < JUDGE_SCENARIOS; i++)
        if (rows[i].is_wanted)
            table_row(&rows[i], out);
    buf_puts(out, "\nprimary, fallback: attempts that the provider saw\n");
    for (int v = 0; v < JUDGE_VERDICTS; v++)
        buf_printf(out, "%s%u %s", v > 0 ? ", " : "", fb_report_count(rows, (enum judge_verdict)v),
                   judge_verdict_word((enum judge_verdict)v));
    buf_putc(out, '\n');
}

/* ---- JSON ---- */

static void text(struct json_writer *w, const char *name, const char *value)
{
    jw_key(w, name);
    if (value != NULL && *value != '\0')
        jw_cstr(w, value);
    else
        jw_null(w);
}

static void number(struct json_writer *w, const char *name, uint64_t value)
{
    jw_key(w, name);
    jw_uint(w, value);
}

static void flag(struct json_writer *w, const char *name, bool value)
{
    jw_key(w, name);
    jw_bool(w, value);
}

static void checks(struct json_writer *w, const struct judge_result *r)
{
    static const char *const words[] = {
        [JUDGE_GOOD] = "good", [JUDGE_BAD] = "bad", [JUDGE_NOTED] = "noted", [JUDGE_NOT_APPLICABLE] = "not_applicable"};
    jw_key(w, "checks");
    jw_array(w);
    for (size_t i = 0; i < r->n_checks; i++) {
        const struct judge_check *c = r->checks[i].check;
        jw_object(w);
        text(w, "id", c->id);
        text(w, "weight", c->is_informational ? "informational" : c->is_advisory ? "advisory" : "required");
        text(w, "status", words[r->checks[i].status]);
        text(w, "detail", r->checks[i].detail);
        jw_end(w);
    }
    jw_end(w);
}

static void attempts(struct json_writer *w, const struct fb_row *row)
{
    jw_key(w, "attempts");
    jw_array(w);
    for (size_t i = 0; i < row->n_attempts; i++) {
        const struct fb_attempt *a = &row->attempts[i];
        jw_object(w);
        jw_key(w, "ms");
        jw_int(w, a->ms);
        text(w, "model", a->is_primary ? row->scenario->model : row->scenario->fallback);
        number(w, "status", a->status);
        text(w, "fault", a->fault);
        jw_end(w);
    }
    jw_end(w);
}

/* What the client saw; of a sequence its last call. */
static void seen(struct json_writer *w, const struct fb_row *row)
{
    const struct judge_call *c = &row->call;
    text(w, "outcome", judge_outcome_word(row->result.outcome));
    number(w, "wall_ms", row->wall_us / 1000);
    jw_key(w, "ttft_ms");
    if (c->ttft_us > 0)
        jw_uint(w, c->ttft_us / 1000);
    else
        jw_null(w);
    number(w, "http_status", c->status);
    text(w, "error", c->error);
    number(w, "words", c->n_words);
    text(w, "model_told", c->model);
    flag(w, "usage_told", c->has_usage);
    number(w, "malformed_events", c->n_bad_events);
    flag(w, "alive_after", row->is_alive);
    text(w, "alive_error", row->alive_why);
}

static void row_json(struct json_writer *w, const struct fb_row *row)
{
    jw_object(w);
    text(w, "id", row->scenario->id);
    text(w, "title", row->scenario->title);
    text(w, "model", row->scenario->model);
    text(w, "fallback", row->scenario->fallback);
    text(w, "fault", row->scenario->fault);
    text(w, "verdict", row->is_done ? judge_verdict_word(row->result.verdict) : NULL);
    if (row->is_done) {
        text(w, "reason", row->result.reason);
        seen(w, row);
        number(w, "attempts_primary", row->n_primary);
        number(w, "attempts_fallback", row->n_fallback);
        number(w, "prefills_refused", row->n_prefill_refused);
        flag(w, "log_is_short", row->is_log_short);
        attempts(w, row);
        checks(w, &row->result);
    }
    jw_end(w);
}

void fb_report_json(const struct fb_row *rows, const struct fb_report_frame *frame, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    text(&w, "format", "ringmain-bench-faults/1");
    text(&w, "version", RINGMAIN_VERSION);
    text(&w, "methodology", "Failover Bench 0.1");
    text(&w, "gateway", frame->gateway);
    text(&w, "wall", frame->wall);
    number(&w, "speed", frame->speed);
    number(&w, "took_ms", frame->took_us / 1000);
    flag(&w, "is_partial", frame->is_partial);
    text(&w, "partial_reason", frame->why);
    jw_key(&w, "summary");
    jw_object(&w);
    for (int v = 0; v < JUDGE_VERDICTS; v++)
        number(&w, judge_verdict_word((enum judge_verdict)v), fb_report_count(rows, (enum judge_verdict)v));
    jw_end(&w);
    jw_key(&w, "scenarios");
    jw_array(&w);
    for (size_t i = 0; i < JUDGE_SCENARIOS; i++)
        if (rows[i].is_wanted)
            row_json(&w, &rows[i]);
    jw_end(&w);
    jw_end(&w);
    buf_putc(out, '\n');
}

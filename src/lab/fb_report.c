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

static void checks(struct json_writer *w, const struct judge_result *r)
{
    static const char *const words[] = {
        [JUDGE_GOOD] = "good", [JUDGE_BAD] = "bad", [JUDGE_NOTED] = "noted", [JUDGE_NOT_APPLICABLE] = "not_applicable"};
    jw_key(w, "checks");
    jw_array(w);
    for (size_t i = 0; i < r->n_checks; i++) {
        const struct judge_check *c = r->checks[i].check;
        jw_object(w);
        jw_named_text(w, "id", c->id);
        jw_named_text(w, "weight", c->is_informational ? "informational" : c->is_advisory ? "advisory" : "required");
        jw_named_text(w, "status", words[r->checks[i].status]);
        jw_named_text(w, "detail", r->checks[i].detail);
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
        jw_named_int(w, "ms", a->ms);
        jw_named_text(w, "model", a->is_primary ? row->scenario->model : row->scenario->fallback);
        jw_named_uint(w, "status", a->status);
        jw_named_text(w, "fault", a->fault);
        jw_end(w);
    }
    jw_end(w);
}

/* What the client saw; of a sequence its last call. */
static void seen(struct json_writer *w, const struct fb_row *row)
{
    const struct judge_call *c = &row->call;
    jw_named_text(w, "outcome", judge_outcome_word(row->result.outcome));
    jw_named_uint(w, "wall_ms", row->wall_us / 1000);
    jw_key(w, "ttft_ms");
    if (c->ttft_us > 0)
        jw_uint(w, c->ttft_us / 1000);
    else
        jw_null(w);
    jw_named_uint(w, "http_status", c->status);
    jw_named_text(w, "error", c->error);
    jw_named_uint(w, "words", c->n_words);
    jw_named_text(w, "model_told", c->model);
    jw_named_bool(w, "usage_told", c->has_usage);
    jw_named_uint(w, "malformed_events", c->n_bad_events);
    jw_named_bool(w, "alive_after", row->is_alive);
    jw_named_text(w, "alive_error", row->alive_why);
}

static void row_json(struct json_writer *w, const struct fb_row *row)
{
    jw_object(w);
    jw_named_text(w, "id", row->scenario->id);
    jw_named_text(w, "title", row->scenario->title);
    jw_named_text(w, "model", row->scenario->model);
    jw_named_text(w, "fallback", row->scenario->fallback);
    jw_named_text(w, "fault", row->scenario->fault);
    jw_named_text(w, "verdict", row->is_done ? judge_verdict_word(row->result.verdict) : NULL);
    if (row->is_done) {
        jw_named_text(w, "reason", row->result.reason);
        seen(w, row);
        jw_named_uint(w, "attempts_primary", row->n_primary);
        jw_named_uint(w, "attempts_fallback", row->n_fallback);
        jw_named_uint(w, "prefills_refused", row->n_prefill_refused);
        jw_named_bool(w, "log_is_short", row->is_log_short);
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
    jw_named_text(&w, "format", "ringmain-bench-faults/1");
    jw_named_text(&w, "version", RINGMAIN_VERSION);
    jw_named_text(&w, "methodology", "Failover Bench 0.1");
    jw_named_text(&w, "gateway", frame->gateway);
    jw_named_text(&w, "wall", frame->wall);
    jw_named_uint(&w, "speed", frame->speed);
    jw_named_uint(&w, "took_ms", frame->took_us / 1000);
    jw_named_bool(&w, "is_partial", frame->is_partial);
    jw_named_text(&w, "partial_reason", frame->why);
    jw_key(&w, "summary");
    jw_object(&w);
    for (int v = 0; v < JUDGE_VERDICTS; v++)
        jw_named_uint(&w, judge_verdict_word((enum judge_verdict)v), fb_report_count(rows, (enum judge_verdict)v));
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

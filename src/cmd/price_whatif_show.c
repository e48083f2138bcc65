/* What a replay found, for people and for programs. Each figure of the replayed present stands with its error; where
 * what-if and present differ by less than that, the difference says nothing. */
#include "cmd/price_whatif.h"

#include "base/text.h"
#include "codec/json_write.h"
#include "price/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COL_NAME = 26, COL = 16, FEW = 30, PLACES_USD = 4 };
enum { THOUSANDS_FROM = 1000000 };
enum { PPM_OFF = 5000, P99_OFF_PERCENT = 15, USD_OFF_PERCENT = 3 };

static const char *const assumptions[] = {
    "Requests come as they came; who left or was cut off then leaves after the same time.",
    "A target that a request asked then does the same again. Else an attempt of that target near that time is drawn: "
    "an "
    "outage stays one.",
    "What we cut goes on as attempts that were seen to take longer; within an outage it never answers; beyond all that "
    "was seen it is a guess.",
    "An answer is as long as the request's own was, and takes no longer where its prompt is not cached.",
    "A prompt is read from and written to a provider's cache by what went there before, as far as hashes of prompts "
    "tell; where a row does not say what a cache could hold, the cached shares stay.",
    "A client's x-routing is obeyed where the policy lets it. Prices and billing of cut attempts are today's.",
    "Keepalives say whether a target was well, but are not played; nor is other routes' traffic at the same targets. "
    "One core; its health, latency history and memory of prompts begin empty.",
};

/* ---- warnings ---- */

struct notes {
    struct buf text; /* one after the other, each with its NUL */
    size_t n;
};

static void end_note(struct notes *n)
{
    buf_putc(&n->text, '\0');
    n->n++;
}

static void note_targets(const struct whatif *w, const struct policy *p, struct notes *notes)
{
    for (size_t i = 0; i < p->route.n_links; i++) {
        const struct link_conf *l = &p->links[i];
        uint16_t target = past_target(w->past, l->provider->name, l->model);
        size_t n = 0;
        bool is_again = false;
        for (size_t k = 0; k < i; k++)
            is_again |= p->links[k].provider == l->provider && strcmp(p->links[k].model, l->model) == 0;
        if (target != PAST_NO_TARGET)
            (void)past_of_target(w->past, target, &n);
        if (is_again || n >= FEW)
            continue;
        if (n == 0)
            buf_printf(&notes->text, "%s/%s has no history in that time: it is left out, as if it could not be asked",
                       l->provider->name, l->model);
        else
            buf_printf(&notes->text, "only %zu attempts of %s/%s are on record: what is drawn from them repeats them",
                       n, l->provider->name, l->model);
        end_note(notes);
    }
}

static bool has_target(const struct whatif *w, uint16_t target)
{
    const struct policy *p = &w->present;
    for (size_t i = 0; i < p->route.n_links; i++)
        if (past_target(w->past, p->links[i].provider->name, p->links[i].model) == target)
            return true;
    return false;
}

/* Then the present policy is not the one that made this past. */
static void note_strangers(const struct whatif *w, struct notes *notes)
{
    size_t n_all = 0, n_strange = 0;
    for (uint16_t t = 0; t < past_n_targets(w->past); t++) {
        size_t n;
        (void)past_of_target(w->past, t, &n);
        n_all += n;
        n_strange += has_target(w, t) ? 0 : n;
    }
    if (n_strange == 0)
        return;
    buf_printf(&notes->text, "%zu of %zu recorded attempts were at targets that the present policy does not have",
               n_strange, n_all);
    end_note(notes);
}

static bool is_off_by(int64_t a, int64_t b, int64_t percent)
{
    return b > 0 && llabs(a - b) * 100 > b * percent;
}

static int64_t availability_ppm(const struct replay_figures *f)
{
    return show_ratio(f->n_answered, f->n_answered + f->n_failed, 1, 6);
}

static void make_notes(const struct whatif *w, struct notes *notes)
{
    const struct replay_figures *a = &w->recorded, *b = &w->replayed.figures;
    note_targets(w, w->has_other ? &w->other : &w->present, notes);
    note_strangers(w, notes);
    if (past_n(w->past) < past_n_seen(w->past)) {
        buf_printf(&notes->text, "%zu requests are on record; every figure is of %zu of them: one minute in %u",
                   past_n_seen(w->past), past_n(w->past), past_one_in(w->past));
        end_note(notes);
    }
    if (past_n_unknown(w->past) > 0) {
        buf_printf(&notes->text,
                   "%zu of %zu requests could not be judged by a cache rule: an older version wrote them, and their "
                   "cached shares stay as they were",
                   past_n_unknown(w->past), past_n(w->past));
        end_note(notes);
    }
    if (a->n_unpriced > 0 || b->n_unpriced > 0) {
        buf_printf(&notes->text,
                   "the cost of %lld requests as recorded and of %lld as replayed is not known: not in the dollars",
                   (long long)a->n_unpriced, (long long)b->n_unpriced);
        end_note(notes);
    }
    if (llabs(availability_ppm(b) - availability_ppm(a)) > PPM_OFF ||
        is_off_by(b->p99_us, a->p99_us, P99_OFF_PERCENT) || is_off_by(b->cost_nusd, a->cost_nusd, USD_OFF_PERCENT)) {
        buf_puts(&notes->text,
                 "the replay of the present policy is far from what was recorded: perhaps policy or prices were "
                 "others then, or there is too little to draw from");
        end_note(notes);
    }
}

/* ---- for people ---- */

enum row_kind { ROW_SHARE, ROW_TIME, ROW_USD, ROW_EACH, ROW_TOKENS };
struct row {
    const char *name;
    enum row_kind kind;
    int64_t v[3]; /* recorded, replayed, tried */
};

static void pad(struct buf *b, size_t from, size_t width)
{
    do
        buf_putc(b, ' ');
    while (b->n - from < width);
}

static void put_value(struct buf *b, enum row_kind kind, int64_t v, bool sign)
{
    if (kind == ROW_SHARE) {
        show_fixed(b, (v >= 0 ? v + 5 : v - 5) / 10, 3, sign);
        buf_puts(b, sign ? " points" : " %");
    } else if (kind == ROW_TIME) {
        show_fixed(b, (v >= 0 ? v + 500 : v - 500) / 1000, 0, sign);
        buf_puts(b, " ms");
    } else if (kind == ROW_TOKENS) {
        bool is_large = v >= THOUSANDS_FROM;
        show_fixed(b, is_large ? (v + 500) / 1000 : v, 0, sign);
        buf_puts(b, is_large ? " k tokens" : " tokens");
    } else if (kind == ROW_EACH) {
        show_fixed(b, v, 4, sign);
    } else if (sign) {
        show_change(b, v, PLACES_USD);
    } else {
        show_usd(b, v, PLACES_USD);
    }
}

static void put_cell(struct buf *b, enum row_kind kind, int64_t v)
{
    size_t from = b->n;
    if (kind == ROW_TIME && v < 0)
        buf_putc(b, '-');
    else
        put_value(b, kind, v, false);
    pad(b, from, COL);
}

/* Of times and dollars in per cent, of shares in points. */
static void put_change(struct buf *b, enum row_kind kind, int64_t v, int64_t base)
{
    size_t from = b->n;
    if (kind == ROW_SHARE) {
        put_value(b, kind, v - base, true);
    } else if (base > 0 && v >= 0) {
        show_fixed(b, show_ratio(v - base, base, 100, 1), 1, true);
        buf_puts(b, " %");
    } else {
        buf_putc(b, '-');
    }
    pad(b, from, COL);
}

static void put_row(struct buf *b, const struct whatif *w, const struct row *r)
{
    size_t from = b->n;
    buf_puts(b, r->name);
    pad(b, from, COL_NAME);
    put_cell(b, r->kind, r->v[0]);
    put_cell(b, r->kind, r->v[1]);
    put_change(b, r->kind, r->v[1], r->v[0]);
    if (w->has_other) {
        put_cell(b, r->kind, r->v[2]);
        put_change(b, r->kind, r->v[2], r->v[1]);
    }
    while (b->n > 0 && b->p[b->n - 1] == ' ')
        b->n--;
    buf_putc(b, '\n');
}

static void put_rows(struct buf *b, const struct whatif *w)
{
    const struct replay_figures *f[3] = {&w->recorded, &w->replayed.figures, &w->tried.figures};
    struct row rows[] = {{"answered", ROW_SHARE, {0}},
                         {"first token, p50", ROW_TIME, {0}},
                         {"first token, p95", ROW_TIME, {0}},
                         {"first token, p99", ROW_TIME, {0}},
                         {"dollars", ROW_USD, {0}},
                         {"of it waste", ROW_USD, {0}},
                         {"attempts a request", ROW_EACH, {0}},
                         {"answered by a later one", ROW_SHARE, {0}},
                         {"read from caches", ROW_TOKENS, {0}},
                         {"written to caches", ROW_TOKENS, {0}}};
    bool is_cached = false;
    for (int i = 0; i < 3; i++) {
        const int64_t v[] = {availability_ppm(f[i]),
                             f[i]->p50_us,
                             f[i]->p95_us,
                             f[i]->p99_us,
                             f[i]->cost_nusd,
                             f[i]->waste_nusd,
                             show_ratio(f[i]->n_attempts, f[i]->n_requests, 1, 4),
                             show_ratio(f[i]->n_later, f[i]->n_answered, 1, 6),
                             f[i]->n_read,
                             f[i]->n_written};
        is_cached |= f[i]->n_read > 0 || f[i]->n_written > 0;
        for (size_t k = 0; k < RM_COUNTOF(rows); k++)
            rows[k].v[i] = v[k];
    }
    for (size_t k = 0; k < RM_COUNTOF(rows); k++)
        if (is_cached || rows[k].kind != ROW_TOKENS)
            put_row(b, w, &rows[k]);
}

static void put_draws(struct buf *b, const char *name, const struct replay_result *r)
{
    const struct draw_counts *d = &r->draws;
    int64_t n = d->n_recorded + d->n_drawn;
    buf_printf(b, "%s: of %lld attempts ", name, (long long)n);
    show_fixed(b, show_ratio(d->n_recorded, n, 100, 1), 1, false);
    buf_printf(b, " %% did as recorded, %lld were drawn; %lld went on beyond a cut as seen, %lld by a guess\n",
               (long long)d->n_drawn, (long long)d->n_beyond, (long long)d->n_guessed);
}

static void put_head(struct buf *b, const struct whatif *w)
{
    char from[TEXT_TIME_BYTES], to[TEXT_TIME_BYTES];
    text_time(past_request(w->past, 0)->wall_ms, from);
    text_time(past_request(w->past, past_n(w->past) - 1)->wall_ms, to);
    const struct replay_figures *f = &w->recorded;
    buf_printf(b, "route %s, %zu requests, %s to %s\n", w->present.route.model, past_n(w->past), from, to);
    buf_printf(b, "%lld of them were given up by their clients or their own mistakes, and are not in \"answered\"\n",
               (long long)(f->n_requests - f->n_answered - f->n_failed));
    if (w->n_keepalives > 0) {
        buf_printf(b, "%lld keepalives at its targets, for ", (long long)w->n_keepalives);
        show_usd(b, w->keepalive_nusd, PLACES_USD);
        buf_puts(b, ", are in none of the columns\n");
    }
    if (w->policy_file != NULL)
        buf_printf(b, "what if: the policy of %s\n", w->policy_file);
    for (size_t i = 0; i < w->n_sets; i++)
        buf_printf(b, "what if: %s\n", w->sets[i]);
    buf_putc(b, '\n');
}

static void print_text(const struct whatif *w, const struct notes *notes)
{
    struct buf b = {0};
    put_head(&b, w);
    buf_printf(&b, "%-*s%-*s%-*s%s", COL_NAME, "", COL, "as recorded", COL, "replayed", w->has_other ? "" : "error\n");
    if (w->has_other)
        buf_printf(&b, "%-*s%-*s%s\n", COL, "error", COL, "what if", "against replayed");
    put_rows(&b, w);
    buf_putc(&b, '\n');
    put_draws(&b, "replayed", &w->replayed);
    if (w->has_other)
        put_draws(&b, "what if", &w->tried);
    const char *note = notes->text.p;
    for (size_t i = 0; i < notes->n; i++, note += strlen(note) + 1)
        buf_printf(&b, "warning: %s\n", note);
    buf_puts(&b, "\nAssumed:\n");
    for (size_t i = 0; i < RM_COUNTOF(assumptions); i++)
        buf_printf(&b, "- %s\n", assumptions[i]);
    fputs(buf_cstr(&b), stdout);
    buf_fini(&b);
}

/* ---- for programs ---- */

static void put_int(struct json_writer *j, const char *key, int64_t v, int64_t none)
{
    jw_key(j, key);
    if (v == none)
        jw_null(j);
    else
        jw_int(j, v);
}

static void put_figures(struct json_writer *j, const struct replay_figures *f)
{
    const int64_t none = INT64_MIN;
    put_int(j, "requests", f->n_requests, none);
    put_int(j, "answered", f->n_answered, none);
    put_int(j, "failed", f->n_failed, none);
    put_int(j, "availability_ppm", f->n_answered + f->n_failed > 0 ? availability_ppm(f) : -1, -1);
    put_int(j, "ttft_p50_us", f->p50_us, -1);
    put_int(j, "ttft_p95_us", f->p95_us, -1);
    put_int(j, "ttft_p99_us", f->p99_us, -1);
    put_int(j, "cost_nusd", f->cost_nusd, none);
    put_int(j, "waste_nusd", f->waste_nusd, none);
    put_int(j, "unpriced", f->n_unpriced, none);
    put_int(j, "attempts", f->n_attempts, none);
    put_int(j, "answered_later", f->n_later, none);
    put_int(j, "cache_read_tokens", f->n_read, none);
    put_int(j, "cache_written_tokens", f->n_written, none);
}

static void put_result(struct json_writer *j, const struct replay_result *r)
{
    const struct draw_counts *d = &r->draws;
    jw_object(j);
    put_figures(j, &r->figures);
    jw_key(j, "draws");
    jw_object(j);
    put_int(j, "recorded", d->n_recorded, -1);
    put_int(j, "drawn", d->n_drawn, -1);
    put_int(j, "beyond", d->n_beyond, -1);
    put_int(j, "guessed", d->n_guessed, -1);
    put_int(j, "unknown", d->n_unknown, -1);
    jw_end(j);
    jw_end(j);
}

static void put_error(struct json_writer *j, const struct replay_figures *a, const struct replay_figures *b)
{
    jw_object(j);
    put_int(j, "availability_ppm", availability_ppm(b) - availability_ppm(a), INT64_MIN);
    put_int(j, "ttft_p50_us", b->p50_us - a->p50_us, INT64_MIN);
    put_int(j, "ttft_p95_us", b->p95_us - a->p95_us, INT64_MIN);
    put_int(j, "ttft_p99_us", b->p99_us - a->p99_us, INT64_MIN);
    put_int(j, "cost_nusd", b->cost_nusd - a->cost_nusd, INT64_MIN);
    put_int(j, "waste_nusd", b->waste_nusd - a->waste_nusd, INT64_MIN);
    put_int(j, "attempts", b->n_attempts - a->n_attempts, INT64_MIN);
    put_int(j, "cache_read_tokens", b->n_read - a->n_read, INT64_MIN);
    put_int(j, "cache_written_tokens", b->n_written - a->n_written, INT64_MIN);
    jw_end(j);
}

static void put_about(struct json_writer *j, const struct whatif *w)
{
    char time[TEXT_TIME_BYTES];
    jw_key(j, "route");
    jw_cstr(j, w->present.route.model);
    jw_key(j, "ledger");
    jw_cstr(j, w->ledger);
    text_time(past_request(w->past, 0)->wall_ms, time);
    jw_key(j, "from");
    jw_cstr(j, time);
    text_time(past_request(w->past, past_n(w->past) - 1)->wall_ms, time);
    jw_key(j, "to");
    jw_cstr(j, time);
    put_int(j, "on_record", (int64_t)past_n_seen(w->past), -1);
    put_int(j, "one_in", past_one_in(w->past), -1);
    put_int(j, "keepalives", w->n_keepalives, -1);
    put_int(j, "keepalive_nusd", w->keepalive_nusd, -1);
    put_int(j, "not_judged", (int64_t)past_n_unknown(w->past), -1);
    jw_key(j, "seed");
    jw_uint(j, w->seed);
    jw_key(j, "policy");
    if (w->policy_file != NULL)
        jw_cstr(j, w->policy_file);
    else
        jw_null(j);
    jw_key(j, "set");
    jw_array(j);
    for (size_t i = 0; i < w->n_sets; i++)
        jw_cstr(j, w->sets[i]);
    jw_end(j);
}

static void print_json(const struct whatif *w, const struct notes *notes)
{
    struct buf b = {0};
    struct json_writer j;
    jw_init(&j, &b);
    jw_object(&j);
    put_about(&j, w);
    jw_key(&j, "recorded");
    jw_object(&j);
    put_figures(&j, &w->recorded);
    jw_end(&j);
    jw_key(&j, "replayed");
    put_result(&j, &w->replayed);
    jw_key(&j, "error");
    put_error(&j, &w->recorded, &w->replayed.figures);
    jw_key(&j, "what_if");
    if (w->has_other)
        put_result(&j, &w->tried);
    else
        jw_null(&j);
    jw_key(&j, "warnings");
    jw_array(&j);
    const char *note = notes->text.p;
    for (size_t i = 0; i < notes->n; i++, note += strlen(note) + 1)
        jw_cstr(&j, note);
    jw_end(&j);
    jw_key(&j, "assumptions");
    jw_array(&j);
    for (size_t i = 0; i < RM_COUNTOF(assumptions); i++)
        jw_cstr(&j, assumptions[i]);
    jw_end(&j);
    jw_end(&j);
    puts(buf_cstr(&b));
    buf_fini(&b);
}

void whatif_print(const struct whatif *w, bool is_json)
{
    struct notes notes = {0};
    make_notes(w, &notes);
    if (is_json)
        print_json(w, &notes);
    else
        print_text(w, &notes);
    buf_fini(&notes.text);
}

/* Plain aggregates over the two tables; started times are inside the ids, so that `since` is a range of the primary
 * key.
 */
#include "ledger/summary.h"

#include "base/text.h"
#include "codec/json_write.h"
#include "ledger/columns.h"

#include <stdio.h>

enum { GROUPS_MAX = 512 };

typedef void row_fn(sqlite3_stmt *s, struct arena *arena, struct summary *out);

/* Steps through at most GROUPS_MAX rows of a query whose parameter 1 is the smallest id. */
static enum err each_row(struct ledger_reader *r, const char *sql, struct arena *arena, struct summary *out, row_fn *fn)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(reader_db(r), sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, out->since_ms > 0 ? (int64_t)reader_id_at(out->since_ms) : 0);
    int rc = SQLITE_DONE;
    for (int i = 0; i < GROUPS_MAX && (rc = sqlite3_step(s)) == SQLITE_ROW; i++)
        fn(s, arena, out);
    sqlite3_finalize(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? ERR_OK : ERR_IO;
}

static const char *text_of(sqlite3_stmt *s, int at, struct arena *arena)
{
    const char *t = (const char *)sqlite3_column_text(s, at);
    return arena_dup(arena, bytes_of(t != NULL ? t : "")).p;
}

static void totals_row(sqlite3_stmt *s, struct arena *arena, struct summary *out)
{
    out->n_requests = sqlite3_column_int64(s, 0);
    out->n_attempts = sqlite3_column_int64(s, 1);
    out->n_failed_over = sqlite3_column_int64(s, 2);
    out->n_unpriced = sqlite3_column_int64(s, 3);
    out->cost_nusd = sqlite3_column_int64(s, 4);
    out->waste_nusd = sqlite3_column_int64(s, 5);
}

static void keepalives_row(sqlite3_stmt *s, struct arena *arena, struct summary *out)
{
    out->n_keepalives = sqlite3_column_int64(s, 0);
    out->keepalive_nusd = sqlite3_column_int64(s, 1);
    out->n_keepalives_unpriced = sqlite3_column_int64(s, 2);
}

static void runs_row(sqlite3_stmt *s, struct arena *arena, struct summary *out)
{
    out->n_runs_unclean = sqlite3_column_int64(s, 0);
}

static void outcome_row(sqlite3_stmt *s, struct arena *arena, struct summary *out)
{
    struct summary_count *c = &out->outcomes[out->n_outcomes++];
    c->word = text_of(s, 0, arena);
    c->n = sqlite3_column_int64(s, 1);
}

static void target_row(sqlite3_stmt *s, struct arena *arena, struct summary *out)
{
    struct summary_target *t = &out->targets[out->n_targets++];
    t->provider = text_of(s, 0, arena);
    t->model = text_of(s, 1, arena);
    t->n_attempts = sqlite3_column_int64(s, 2);
    t->n_served = sqlite3_column_int64(s, 3);
    t->n_failed = sqlite3_column_int64(s, 4);
    t->output_tokens = sqlite3_column_int64(s, 5);
    t->cost_nusd = sqlite3_column_int64(s, 6);
    t->waste_nusd = sqlite3_column_int64(s, 7);
    t->n_unpriced = sqlite3_column_int64(s, 8);
}

/* A name column is an id of `name`, or the text itself. */
#define NAME_OF(column)                                                                                        \
    "coalesce(CASE typeof(" column ") WHEN 'integer' THEN (SELECT text FROM name WHERE name.id = " column ") " \
    "ELSE " column " END, '')"

static const char totals_sql[] =
    "SELECT count(*), coalesce(sum(n_started), 0), coalesce(sum(served_link IS NOT NULL AND n_attempts > 1), 0),"
    " coalesce(sum(cost_nusd IS NULL AND n_started > 0), 0), coalesce(sum(cost_nusd), 0), coalesce(sum(waste_nusd), 0)"
    " FROM request WHERE id >= ?";
static const char keepalives_sql[] = "SELECT count(*), coalesce(sum(cost_nusd), 0), coalesce(sum(cost_nusd IS NULL), 0)"
                                     " FROM attempt WHERE kind = 1 AND request_id >= ?";
static const char runs_sql[] = "SELECT coalesce(sum(is_unclean), 0) FROM run WHERE ? >= 0";
static const char outcomes_sql[] = "SELECT " NAME_OF("outcome") " AS word, count(*) FROM request WHERE id >= ?"
                                                                " GROUP BY word ORDER BY 2 DESC, 1";
static const char targets_sql[] =
    "SELECT p, m, count(*), sum((flags & 4) != 0), sum(o NOT IN ('ok', 'client_cancelled', 'hedge_lost', 'repaired')),"
    " coalesce(sum(output), 0), coalesce(sum(cost), 0), coalesce(sum(waste), 0), sum(cost IS NULL) FROM ("
    " SELECT " NAME_OF("a_provider") " AS p, " NAME_OF("a_model") " AS m, " NAME_OF(
        "a_outcome") " AS o,"
                     " a_flags AS flags, a_output AS output, a_cost_nusd AS cost, a_waste_nusd AS waste"
                     " FROM request WHERE id >= ?1 AND a_n IS NOT NULL"
                     " UNION ALL SELECT " NAME_OF("provider") ", " NAME_OF("model") ", " NAME_OF(
                         "outcome") ","
                                    " flags, output, cost_nusd, waste_nusd FROM attempt WHERE request_id >= ?1"
                                    ") WHERE (flags & 2) != 0 GROUP BY p, m ORDER BY 7 DESC, p, m";

enum err summary_read(struct ledger_reader *r, int64_t since_ms, struct arena *arena, struct summary *out)
{
    *out = (struct summary){.since_ms = since_ms};
    out->outcomes = ARENA_ARRAY(arena, struct summary_count, GROUPS_MAX);
    out->targets = ARENA_ARRAY(arena, struct summary_target, GROUPS_MAX);
    sqlite3_exec(reader_db(r), "BEGIN", NULL, NULL, NULL);
    enum err e = each_row(r, totals_sql, arena, out, totals_row);
    if (e == ERR_OK)
        e = each_row(r, keepalives_sql, arena, out, keepalives_row);
    if (e == ERR_OK)
        e = each_row(r, runs_sql, arena, out, runs_row);
    if (e == ERR_OK)
        e = each_row(r, outcomes_sql, arena, out, outcome_row);
    if (e == ERR_OK)
        e = each_row(r, targets_sql, arena, out, target_row);
    if (e == ERR_OK)
        e = hedging_read(r, since_ms > 0 ? reader_id_at(since_ms) : 0, &out->hedging);
    if (e == ERR_OK)
        e = budgets_read(r, since_ms > 0 ? reader_id_at(since_ms) : 0, &out->budgets);
    if (e == ERR_OK)
        e = counting_read(r, since_ms > 0 ? reader_id_at(since_ms) : 0, &out->counting);
    sqlite3_exec(reader_db(r), "COMMIT", NULL, NULL, NULL);
    return e;
}

int64_t summary_waste_milli(const struct summary *s)
{
    if (s->cost_nusd <= 0)
        return -1;
    return (int64_t)(((__int128)s->waste_nusd * 100000 + s->cost_nusd / 2) / s->cost_nusd);
}

static void targets_json(struct json_writer *w, const struct summary *s)
{
    jw_key(w, "targets");
    jw_array(w);
    for (size_t i = 0; i < s->n_targets; i++) {
        const struct summary_target *t = &s->targets[i];
        jw_object(w);
        jw_named_cstr(w, "provider", t->provider);
        jw_named_cstr(w, "model", t->model);
        jw_named_int(w, "attempts", t->n_attempts);
        jw_named_int(w, "served", t->n_served);
        jw_named_int(w, "failed", t->n_failed);
        jw_named_int(w, "output_tokens", t->output_tokens);
        jw_named_int(w, "cost_nusd", t->cost_nusd);
        jw_named_int(w, "waste_nusd", t->waste_nusd);
        jw_named_int(w, "unpriced", t->n_unpriced);
        jw_end(w);
    }
    jw_end(w);
}

static void hedging_json(struct json_writer *w, const struct hedging *h)
{
    jw_key(w, "hedges");
    jw_object(w);
    jw_named_int(w, "started", h->n_started);
    jw_named_int(w, "won", h->n_won);
    jw_named_int(w, "lost_nusd", h->cost_nusd);
    jw_named_int(w, "unpriced", h->n_unpriced);
    jw_named_count(w, "p99_us", h->p99_us);
    jw_named_count(w, "p99_without_us", h->p99_without_us);
    jw_named_bool(w, "is_at_least", h->is_at_least);
    jw_end(w);
}

static void budgets_json(struct json_writer *w, const struct budgets *b)
{
    jw_key(w, "budgets");
    jw_object(w);
    jw_named_int(w, "cut", b->n_cut);
    jw_named_int(w, "cut_nusd", b->cut_nusd);
    jw_named_int(w, "cut_unpriced", b->n_cut_unpriced);
    jw_named_int(w, "moved", b->n_moved);
    jw_named_int(w, "watched_late", b->n_watched);
    jw_named_int(w, "late", b->n_late);
    jw_named_int(w, "late_nusd", b->late_nusd);
    jw_named_int(w, "false_trips", b->n_false);
    jw_named_int(w, "false_trips_nusd", b->false_nusd);
    jw_named_int(w, "downgrades", b->n_downgrades);
    jw_end(w);
}

void summary_json(const struct summary *s, struct buf *out)
{
    struct json_writer w;
    char since[TEXT_TIME_BYTES];
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "since");
    text_time(s->since_ms, since);
    if (s->since_ms > 0)
        jw_cstr(&w, since);
    else
        jw_null(&w);
    jw_named_int(&w, "requests", s->n_requests);
    jw_named_int(&w, "attempts", s->n_attempts);
    jw_named_int(&w, "failed_over", s->n_failed_over);
    jw_named_int(&w, "cost_nusd", s->cost_nusd);
    jw_named_int(&w, "waste_nusd", s->waste_nusd);
    int64_t milli = summary_waste_milli(s);
    char percent[40];
    snprintf(percent, sizeof percent, "%lld.%03lld", (long long)(milli / 1000), (long long)(milli % 1000));
    jw_key(&w, "waste_percent");
    if (milli >= 0)
        jw_raw(&w, bytes_of(percent));
    else
        jw_null(&w);
    jw_named_int(&w, "unpriced_requests", s->n_unpriced);
    jw_named_int(&w, "keepalives", s->n_keepalives);
    jw_named_int(&w, "keepalive_nusd", s->keepalive_nusd);
    jw_named_int(&w, "keepalives_unpriced", s->n_keepalives_unpriced);
    jw_named_int(&w, "unclean_ends", s->n_runs_unclean);
    hedging_json(&w, &s->hedging);
    budgets_json(&w, &s->budgets);
    jw_key(&w, "tokens_from");
    counting_json(&s->counting, &w);
    jw_key(&w, "estimates");
    estimates_json(&s->estimates, &w);
    jw_key(&w, "outcomes");
    jw_object(&w);
    for (size_t i = 0; i < s->n_outcomes; i++)
        jw_named_int(&w, s->outcomes[i].word, s->outcomes[i].n);
    jw_end(&w);
    targets_json(&w, s);
    jw_end(&w);
}

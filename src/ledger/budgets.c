/* A late answer tells so in its attempt's decision, with what a cut would have cost (BUDGET_LATE_WORDS in
 * model/record.h): "watched, budget 2140 ms would have cut here, for $0.000004280". */
#include "ledger/budgets.h"

#include "base/text.h"
#include "model/outcome.h"

#define NAME_OF(column)                                                                                        \
    "coalesce(CASE typeof(" column ") WHEN 'integer' THEN (SELECT text FROM name WHERE name.id = " column ") " \
    "ELSE " column " END, '')"

static const char cuts_sql[] =
    "SELECT count(*), coalesce(sum(a.cost_nusd), 0), coalesce(sum(a.cost_nusd IS NULL), 0),"
    " coalesce(sum(r.served_link IS NOT NULL AND r.served_link != a.link), 0)"
    " FROM attempt a JOIN request r ON r.id = a.request_id WHERE a.request_id >= ?1"
    " AND (a.outcome = 'ttft_timeout' OR a.outcome = (SELECT id FROM name WHERE text = 'ttft_timeout'))";
static const char late_sql[] =
    "SELECT a_decision FROM request WHERE id >= ?1 AND a_decision LIKE '%" BUDGET_LATE_WORDS "%'"
    " UNION ALL SELECT decision FROM attempt WHERE request_id >= ?1 AND decision LIKE '%" BUDGET_LATE_WORDS "%'";

/* "…, for $0.000004280" -> nano-dollars; 0 = not told. */
static int64_t price_in(struct bytes decision)
{
    struct bytes mark = BYTES(BUDGET_LATE_WORDS ", for $");
    size_t at = bytes_find(decision, mark);
    if (at == SIZE_MAX)
        return 0;
    struct bytes fraction = bytes_slice(decision, at + mark.n, decision.n), whole = bytes_cut(&fraction, '.');
    uint64_t dollars, nano;
    fraction = bytes_slice(fraction, 0, 9);
    if (!bytes_to_u64(whole, &dollars) || fraction.n != 9 || !bytes_to_u64(fraction, &nano) || dollars > 1000000)
        return 0;
    return (int64_t)(dollars * 1000000000 + nano);
}

static void add_late(struct bytes decision, struct budgets *out)
{
    if (bytes_starts_with(decision, BYTES(BUDGET_WATCHED_WORD))) {
        out->n_watched++;
        return;
    }
    out->n_late++;
    out->late_nusd += price_in(decision);
}

static void estimate(struct budgets *b)
{
    b->n_false = b->n_watched * (BUDGET_WATCH_EVERY - 1);
    if (b->n_false > b->n_cut)
        b->n_false = b->n_cut;
    if (b->n_cut == 0)
        return;
    b->n_downgrades = (b->n_moved * b->n_false + b->n_cut / 2) / b->n_cut;
    b->false_nusd = (int64_t)(((__int128)b->cut_nusd * b->n_false + b->n_cut / 2) / b->n_cut);
}

enum err budgets_read(struct ledger_reader *r, uint64_t since_id, struct budgets *out)
{
    sqlite3_stmt *s = NULL;
    *out = (struct budgets){0};
    if (sqlite3_prepare_v2(reader_db(r), cuts_sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, (int64_t)since_id);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        out->n_cut = sqlite3_column_int64(s, 0);
        out->cut_nusd = sqlite3_column_int64(s, 1);
        out->n_cut_unpriced = sqlite3_column_int64(s, 2);
        out->n_moved = sqlite3_column_int64(s, 3);
    }
    sqlite3_finalize(s);
    if (rc != SQLITE_ROW || sqlite3_prepare_v2(reader_db(r), late_sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, (int64_t)since_id);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        add_late(bytes_of((const char *)sqlite3_column_text(s, 0)), out);
    sqlite3_finalize(s);
    estimate(out);
    return rc == SQLITE_DONE ? ERR_OK : ERR_IO;
}

void budgets_text(const struct budgets *b, struct buf *out)
{
    if (b->n_cut > 0) {
        buf_printf(out, "\nbudgets    %lld attempts cut before their first token, for $", (long long)b->n_cut);
        text_usd(out, b->cut_nusd);
        if (b->n_cut_unpriced > 0)
            buf_printf(out, " and %lld of unknown price", (long long)b->n_cut_unpriced);
        buf_printf(out, "; a later link answered %lld of the calls", (long long)b->n_moved);
    }
    if (b->n_false > 0) {
        buf_printf(out, "\n           about %lld of them would have answered soon: $", (long long)b->n_false);
        text_usd(out, b->false_nusd);
        buf_printf(out, ", %lld calls moved for nothing", (long long)b->n_downgrades);
    }
    if (b->n_late > 0) {
        buf_printf(out, "\nshadow     %lld answers came past a budget that did not cut; cuts would have cost $",
                   (long long)b->n_late);
        text_usd(out, b->late_nusd);
    }
}

/* ---- samples ---- */

#define SAMPLE_COLUMNS(p, q)                        \
    q "ttft_us - " q "start_us, " q "total_us - " q \
      "start_us, " NAME_OF(q "outcome") ", " p "prompt_bytes, " q "input, " q "cost_nusd, " NAME_OF(p "effort")
#define SAMPLE_IS(q) \
    q "kind != 1 AND (" q "flags & 2) != 0 AND " NAME_OF(q "provider") " = ?2 AND " NAME_OF(q "model") " = ?3"

static const char samples_sql[] =
    "SELECT " SAMPLE_COLUMNS("", "a_") " FROM request WHERE id >= ?1 AND a_n IS NOT NULL AND " SAMPLE_IS(
        "a_") " UNION ALL SELECT " SAMPLE_COLUMNS("r.", "a.") " FROM attempt a JOIN request r ON r.id = a.request_id "
                                                              "WHERE a.request_id >= ?1 AND " SAMPLE_IS("a.");

static int64_t number_or(sqlite3_stmt *s, int at, int64_t none)
{
    return sqlite3_column_type(s, at) == SQLITE_NULL ? none : sqlite3_column_int64(s, at);
}

/* False = it says nothing of latency: it failed by an error, or was not timed. */
static bool read_sample(sqlite3_stmt *s, struct budget_sample *out)
{
    enum outcome o = OUTCOME_NONE;
    const char *effort = (const char *)sqlite3_column_text(s, 6);
    int64_t ttft_us = number_or(s, 0, -1), total_us = number_or(s, 1, -1);
    (void)outcome_parse(bytes_of((const char *)sqlite3_column_text(s, 2)), &o);
    *out = (struct budget_sample){.us = ttft_us >= 0 ? ttft_us : total_us,
                                  .is_answered = ttft_us >= 0,
                                  .is_cut = o == OUTCOME_TTFT_TIMEOUT || o == OUTCOME_DEADLINE,
                                  .prompt_bytes = number_or(s, 3, 0),
                                  .input_tokens = number_or(s, 4, 0),
                                  .cost_nusd = number_or(s, 5, NUSD_UNKNOWN),
                                  .effort = effort != NULL ? effort : ""};
    bool is_left = o == OUTCOME_CLIENT_CANCELLED || o == OUTCOME_HEDGE_LOST || o == OUTCOME_DRAINED;
    return out->us >= 0 && (out->is_answered || out->is_cut || is_left);
}

enum err budgets_samples(struct ledger_reader *r, const char *provider, const char *model, uint64_t since_id,
                         budget_sample_fn *fn, void *arg)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(reader_db(r), samples_sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, (int64_t)since_id);
    sqlite3_bind_text(s, 2, provider, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 3, model, -1, SQLITE_STATIC);
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct budget_sample sample;
        if (read_sample(s, &sample))
            fn(&sample, arg);
    }
    sqlite3_finalize(s);
    return rc == SQLITE_DONE ? ERR_OK : ERR_IO;
}

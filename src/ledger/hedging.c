/* Where a hedge won, nobody knows when the first attempt would have answered: only that it had not until then. Such a
 * time is censored, and the quantile is Kaplan and Meier's: walking up the times, each answer takes its share of those
 * still waiting; a censored one only leaves the waiting room. */
#include "ledger/hedging.h"

#include "base/text.h"

#include <sqlite3.h>

/* kind 2 is ATTEMPT_HEDGE; a request's served attempt stands in its own row. */
static const char counts_sql[] =
    "SELECT (SELECT count(*) FROM attempt WHERE kind = 2 AND request_id >= ?1)"
    " + (SELECT count(*) FROM request WHERE a_kind = 2 AND id >= ?1),"
    " (SELECT count(*) FROM request WHERE a_kind = 2 AND id >= ?1),"
    " coalesce(sum(cost_nusd), 0), coalesce(sum(cost_nusd IS NULL), 0) FROM attempt"
    " WHERE request_id >= ?1 AND (outcome = 'hedge_lost' OR outcome = (SELECT id FROM name WHERE text = 'hedge_lost'))";
static const char times_sql[] =
    "WITH hedged AS (SELECT DISTINCT route FROM request WHERE id >= ?1 AND (a_kind = 2 OR id IN"
    " (SELECT request_id FROM attempt WHERE kind = 2 AND request_id >= ?1)))"
    " SELECT ttft_us, coalesce(a_kind, 0) = 2, count(*) OVER () FROM request"
    " WHERE id >= ?1 AND ttft_us IS NOT NULL AND route IN hedged ORDER BY 1, 2";

static void walk(sqlite3_stmt *s, struct hedging *out)
{
    int64_t at = 0, n = 0, t = -1;
    double waiting = 1; /* share that has not answered yet */
    while (sqlite3_step(s) == SQLITE_ROW) {
        t = sqlite3_column_int64(s, 0);
        bool is_censored = sqlite3_column_int64(s, 1) != 0;
        n = sqlite3_column_int64(s, 2);
        if (!is_censored)
            waiting *= 1 - 1.0 / (double)(n - at);
        at++;
        if (out->p99_us < 0 && at * 100 >= n * 99)
            out->p99_us = t;
        if (out->p99_without_us < 0 && waiting <= 0.01)
            out->p99_without_us = t;
    }
    out->is_at_least = out->p99_without_us < 0;
    if (out->is_at_least)
        out->p99_without_us = t;
}

enum err hedging_read(struct ledger_reader *r, uint64_t since_id, struct hedging *out)
{
    sqlite3_stmt *s = NULL;
    *out = (struct hedging){.p99_us = -1, .p99_without_us = -1};
    if (sqlite3_prepare_v2(reader_db(r), counts_sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, (int64_t)since_id);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        out->n_started = sqlite3_column_int64(s, 0);
        out->n_won = sqlite3_column_int64(s, 1);
        out->cost_nusd = sqlite3_column_int64(s, 2);
        out->n_unpriced = sqlite3_column_int64(s, 3);
    }
    sqlite3_finalize(s);
    if (rc != SQLITE_ROW || sqlite3_prepare_v2(reader_db(r), times_sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, (int64_t)since_id);
    walk(s, out);
    return sqlite3_finalize(s) == SQLITE_OK ? ERR_OK : ERR_IO;
}

void hedging_text(const struct hedging *h, struct buf *out)
{
    if (h->n_started == 0)
        return;
    buf_printf(out, "hedges     %lld started, %lld won", (long long)h->n_started, (long long)h->n_won);
    if (h->p99_us >= 0) {
        int64_t bought = h->p99_without_us > h->p99_us ? (h->p99_without_us - h->p99_us) / 1000 : 0;
        buf_printf(out, ": bought %s%lld ms of p99 (%lld instead of %lld ms to the first token)",
                   h->is_at_least ? "at least " : "", (long long)bought, (long long)(h->p99_us / 1000),
                   (long long)(h->p99_without_us / 1000));
    }
    buf_puts(out, " for $");
    text_usd(out, h->cost_nusd);
    if (h->n_unpriced > 0)
        buf_printf(out, " and %lld attempts of unknown price", (long long)h->n_unpriced);
}

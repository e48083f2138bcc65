#include "ledger/keepalives.h"

/* A name column holds a number of `name`, or the text itself. kind 1 is ATTEMPT_KEEPALIVE. */
#define NAME(column)                                                                                               \
    "CASE typeof(a." column ") WHEN 'integer' THEN (SELECT text FROM name WHERE id = a." column ") ELSE a." column \
    " END"

static const char sql[] = "SELECT started_ms, " NAME("provider") ", " NAME("model") ", " NAME(
    "outcome") ", cost_nusd FROM attempt a WHERE kind = 1 AND started_ms IS NOT NULL AND request_id >= ?1 ORDER BY "
               "request_id";

static const char *text_at(sqlite3_stmt *s, int at)
{
    const char *t = (const char *)sqlite3_column_text(s, at);
    return t != NULL ? t : "";
}

enum err keepalives_read(struct ledger_reader *r, uint64_t since_id, keepalive_fn *fn, void *arg)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(reader_db(r), sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, since_id > INT64_MAX ? INT64_MAX : (int64_t)since_id);
    while (sqlite3_step(s) == SQLITE_ROW) {
        struct keepalive k = {.started_wall_ms = sqlite3_column_int64(s, 0),
                              .provider = text_at(s, 1),
                              .model = text_at(s, 2),
                              .outcome = OUTCOME_NONE,
                              .cost_nusd = NUSD_UNKNOWN};
        if (sqlite3_column_type(s, 4) != SQLITE_NULL)
            k.cost_nusd = sqlite3_column_int64(s, 4);
        (void)outcome_parse(bytes_of(text_at(s, 3)), &k.outcome);
        fn(arg, &k);
    }
    return sqlite3_finalize(s) == SQLITE_OK ? ERR_OK : ERR_IO;
}

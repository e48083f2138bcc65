/* The day is that of the id, which holds the time at which a request, or a keepalive, began. */
#include "ledger/daily.h"

#include "ledger/schema.h"

#define NAME_OF(column)                                                                                        \
    "coalesce(CASE typeof(" column ") WHEN 'integer' THEN (SELECT text FROM name WHERE name.id = " column ") " \
    "ELSE " column " END, '')"
#define ID_EPOCH_MS "1577836800000" /* 2020-01-01, as ledger_new_id counts */
#define DAY_OF(id) "(((" id ") >> 22) + " ID_EPOCH_MS ") / 86400000"

enum { DAY_MS = 86400000, ROWS_MAX = 100000 };

/* The standard class has no word here, as in price books. `served` and `other`: the columns of the class. */
#define CLASS_OF(column) "coalesce(nullif(" NAME_OF(column) ", 'standard'), '')"
#define SERVED(served)                                                                                                 \
    "SELECT " DAY_OF("id") " AS d, " NAME_OF("a_provider") " AS p, " NAME_OF(                                          \
        "a_model") " AS m, a_flags AS g,"                                                                              \
                   " a_tokens_from AS f, a_input AS u1, a_cache_read AS u2, a_cache_write_5m AS u3, a_cache_write_1h " \
                   "AS u4,"                                                                                            \
                   " a_output AS u5, a_reasoning AS u6, a_cost_nusd AS c, " CLASS_OF(                                  \
                       served) " AS s"                                                                                 \
                               " FROM request WHERE id >= ?1 AND id < ?2 AND a_n IS NOT NULL"
#define OTHERS(other)                                                                                    \
    "SELECT " DAY_OF("request_id") ", " NAME_OF("provider") ", " NAME_OF(                                \
        "model") ", flags, tokens_from, input,"                                                          \
                 " cache_read, cache_write_5m, cache_write_1h, output, reasoning, cost_nusd, " CLASS_OF( \
                     other) " FROM attempt WHERE request_id >= ?1 AND request_id < ?2"
#define DAILY(served, other)                                                                                        \
    "SELECT d, m, count(*), sum(f = 1), sum(c IS NULL), coalesce(sum(u1), 0), coalesce(sum(u2), 0),"                \
    " coalesce(sum(u3), 0), coalesce(sum(u4), 0), coalesce(sum(u5), 0), coalesce(sum(u6), 0), coalesce(sum(c), 0)," \
    " coalesce(sum(CASE WHEN f = 1 THEN c END), 0), sum(s <> ''), min(s), max(s)"                                   \
    " FROM (" SERVED(served) " UNION ALL " OTHERS(                                                                  \
        other) ")"                                                                                                  \
               " WHERE p = ?3 AND (g & 2) != 0 AND f != 0 GROUP BY d, m ORDER BY d, m LIMIT ?4"

static const char sql[] = DAILY("a_service", "service");
static const char old_sql[] = DAILY("NULL", "NULL"); /* of a file without classes of service */

static void read_row(sqlite3_stmt *s, struct arena *arena, struct day_use *u)
{
    const char *model = (const char *)sqlite3_column_text(s, 1);
    u->day = sqlite3_column_int64(s, 0);
    u->model = arena_dup(arena, bytes_of(model != NULL ? model : ""));
    u->n_attempts = sqlite3_column_int64(s, 2);
    u->n_estimated = sqlite3_column_int64(s, 3);
    u->n_unpriced = sqlite3_column_int64(s, 4);
    int64_t *const tokens[] = {&u->usage.input,          &u->usage.cache_read, &u->usage.cache_write_5m,
                               &u->usage.cache_write_1h, &u->usage.output,     &u->usage.reasoning};
    for (int i = 0; i < (int)RM_COUNTOF(tokens); i++)
        *tokens[i] = sqlite3_column_int64(s, 5 + i);
    u->cost_nusd = sqlite3_column_int64(s, 11);
    u->estimated_nusd = sqlite3_column_int64(s, 12);
    u->n_classed = sqlite3_column_int64(s, 13);
    const char *least = (const char *)sqlite3_column_text(s, 14), *most = (const char *)sqlite3_column_text(s, 15);
    u->is_mixed = least != NULL && most != NULL && strcmp(least, most) != 0;
    u->service = arena_dup(arena, bytes_of(most != NULL ? most : "")).p;
}

enum err daily_read(struct ledger_reader *r, const char *provider, int64_t first_day, int64_t last_day,
                    struct arena *arena, struct day_use **out, size_t *n)
{
    sqlite3_stmt *s = NULL;
    size_t cap = 0;
    *out = NULL;
    *n = 0;
    bool is_old = schema_version(reader_db(r)) < SCHEMA_VERSION_SERVICE;
    if (sqlite3_prepare_v2(reader_db(r), is_old ? old_sql : sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, (int64_t)reader_id_at(first_day * DAY_MS));
    sqlite3_bind_int64(s, 2, (int64_t)reader_id_at((last_day + 1) * DAY_MS));
    sqlite3_bind_text(s, 3, provider, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 4, ROWS_MAX);
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        if (*n == cap) {
            struct day_use *more = ARENA_ARRAY(arena, struct day_use, cap = cap > 0 ? 2 * cap : 64);
            for (size_t i = 0; i < *n; i++)
                more[i] = (*out)[i];
            *out = more;
        }
        read_row(s, arena, &(*out)[(*n)++]);
    }
    sqlite3_finalize(s);
    return rc == SQLITE_DONE ? ERR_OK : ERR_IO;
}

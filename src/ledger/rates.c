/* One query over a request's served attempt (inline) and the others, which know their route through their request. */
#include "ledger/rates.h"

#include "ledger/columns.h"

#define NAME_OF(column)                                                                                        \
    "coalesce(CASE typeof(" column ") WHEN 'integer' THEN (SELECT text FROM name WHERE name.id = " column ") " \
    "ELSE " column " END, '')"

#define FAULTS                                                                                              \
    "('rate_limited', 'overloaded', 'quota_exhausted', 'server_error', 'connect_error', 'connect_timeout'," \
    " 'ttft_timeout', 'total_timeout', 'idle_timeout', 'deadline', 'stream_error', 'protocol_error')"

static const char sql[] =
    "SELECT p, m, count(*), sum(o IN " FAULTS "), sum(o IN " FAULTS " AND f != 0),"
    " coalesce(sum(CASE WHEN o IN " FAULTS " AND f != 0 THEN t END), 0),"
    " coalesce(sum(CASE WHEN o IN " FAULTS " AND f != 0 THEN u6 END), 0),"
    " sum(o = 'ok'), coalesce(sum(CASE WHEN o = 'ok' THEN u1 END), 0), coalesce(sum(CASE WHEN o = 'ok' THEN u2 END), "
    "0),"
    " coalesce(sum(CASE WHEN o = 'ok' THEN u3 END), 0), coalesce(sum(CASE WHEN o = 'ok' THEN u4 END), 0),"
    " coalesce(sum(CASE WHEN o = 'ok' THEN u6 END), 0), coalesce(sum(CASE WHEN o = 'ok' THEN u7 END), 0) FROM ("
    " SELECT " NAME_OF("a_provider") " AS p, " NAME_OF("a_model") " AS m, " NAME_OF(
        "a_outcome") " AS o,"
                     " a_kind AS k, a_flags AS g, a_tokens_from AS f, a_total_us - a_start_us AS t, a_input AS u1, "
                     "a_cache_read AS u2,"
                     " a_cache_write_5m AS u3, a_cache_write_1h AS u4, a_output AS u6, a_reasoning AS u7"
                     " FROM request WHERE id >= ?1 AND a_n IS NOT NULL AND " NAME_OF(
                         "route") " = ?2"
                                  " UNION ALL SELECT " NAME_OF("a.provider") ", " NAME_OF("a.model") ", " NAME_OF(
                                      "a.outcome") ", a.kind, a.flags,"
                                                   " a.tokens_from, a.total_us - a.start_us, a.input, a.cache_read, "
                                                   "a.cache_write_5m, a.cache_write_1h, a.output,"
                                                   " a.reasoning FROM attempt a JOIN request r ON r.id = a.request_id"
                                                   " WHERE a.request_id >= ?1 AND " NAME_OF(
                                                       "r.route") " = ?2"
                                                                  ") WHERE k = 0 AND (g & 2) != 0 GROUP BY p, m ORDER "
                                                                  "BY 3 DESC, p, m";

static const char *text_of(sqlite3_stmt *s, int at, struct arena *arena)
{
    const char *t = (const char *)sqlite3_column_text(s, at);
    return arena_dup(arena, bytes_of(t != NULL ? t : "")).p;
}

static void read_row(sqlite3_stmt *s, struct arena *arena, struct route_rates *out)
{
    struct target_rate *t = &out->targets[out->n++];
    t->provider = text_of(s, 0, arena);
    t->model = text_of(s, 1, arena);
    t->n_attempts = sqlite3_column_int64(s, 2);
    t->n_failed = sqlite3_column_int64(s, 3);
    t->n_billed = sqlite3_column_int64(s, 4);
    t->billed_us = sqlite3_column_int64(s, 5);
    t->billed_output = sqlite3_column_int64(s, 6);
    out->n_answered += sqlite3_column_int64(s, 7);
    int64_t *const sums[] = {&out->answered.input,          &out->answered.cache_read, &out->answered.cache_write_5m,
                             &out->answered.cache_write_1h, &out->answered.output,     &out->answered.reasoning};
    for (int i = 0; i < (int)RM_COUNTOF(sums); i++)
        *sums[i] += sqlite3_column_int64(s, 8 + i);
}

enum err rates_read(struct ledger_reader *r, const char *route, int64_t since_ms, struct arena *arena,
                    struct route_rates *out)
{
    sqlite3_stmt *s = NULL;
    *out = (struct route_rates){.targets = ARENA_ARRAY(arena, struct target_rate, RATES_TARGETS_MAX)};
    if (sqlite3_prepare_v2(reader_db(r), sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, since_ms > 0 ? (int64_t)reader_id_at(since_ms) : 0);
    sqlite3_bind_text(s, 2, route, -1, SQLITE_STATIC);
    int rc = SQLITE_DONE;
    while (out->n < RATES_TARGETS_MAX && (rc = sqlite3_step(s)) == SQLITE_ROW)
        read_row(s, arena, out);
    sqlite3_finalize(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? ERR_OK : ERR_IO;
}

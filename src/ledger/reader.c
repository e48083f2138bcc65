/* A record is rebuilt from its rows and shown by record_json, so that what is read back cannot differ in form from what
 * was recorded. Each call reads inside one transaction: a request is seen with all of its attempts or not at all. */
#include "ledger/reader.h"

#include "base/mem.h"
#include "ledger/columns.h"
#include "ledger/schema.h"

#include <stdio.h>

struct ledger_reader {
    sqlite3 *db;
    sqlite3_stmt *one, *newest, *ids, *attempts, *name;
};

static bool prepare(struct ledger_reader *r, const char *sql, sqlite3_stmt **out)
{
    return sqlite3_prepare_v3(r->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK;
}

#define SELECT_REQUEST(served, prompt, rest) "SELECT id, " REQUEST_COLUMNS ", " served ", " prompt " FROM request " rest
#define SELECT_ATTEMPTS(columns) "SELECT started_ms, " columns " FROM attempt WHERE request_id = ? ORDER BY n"
#define NO_PROMPT "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"
#define ONE "WHERE id = ?"
#define NEWEST "WHERE id > ? AND id < ? ORDER BY id DESC LIMIT ?"

/* A file that nobody has written since is not changed by reading. */
static bool prepare_all(struct ledger_reader *r)
{
    static const char *const one[] = {SELECT_REQUEST(SERVED_COLUMNS_OLD, NO_PROMPT, ONE),
                                      SELECT_REQUEST(SERVED_COLUMNS_OLD, PROMPT_COLUMNS, ONE),
                                      SELECT_REQUEST(SERVED_COLUMNS, PROMPT_COLUMNS, ONE)};
    static const char *const newest[] = {SELECT_REQUEST(SERVED_COLUMNS_OLD, NO_PROMPT, NEWEST),
                                         SELECT_REQUEST(SERVED_COLUMNS_OLD, PROMPT_COLUMNS, NEWEST),
                                         SELECT_REQUEST(SERVED_COLUMNS, PROMPT_COLUMNS, NEWEST)};
    static const char *const attempts[] = {SELECT_ATTEMPTS(ATTEMPT_COLUMNS_OLD), SELECT_ATTEMPTS(ATTEMPT_COLUMNS_OLD),
                                           SELECT_ATTEMPTS(ATTEMPT_COLUMNS)};
    int version = schema_version(r->db);
    size_t form = version < SCHEMA_VERSION_PROMPT ? 0 : version < SCHEMA_VERSION_SERVICE ? 1 : 2;
    return prepare(r, one[form], &r->one) && prepare(r, newest[form], &r->newest) &&
           prepare(r, "SELECT id FROM request ORDER BY id DESC LIMIT ?", &r->ids) &&
           prepare(r, attempts[form], &r->attempts) && prepare(r, "SELECT text FROM name WHERE id = ?", &r->name);
}

enum err ledger_reader_open(const char *path, struct ledger_reader **out, char *message, size_t message_cap)
{
    *out = NULL;
    sqlite3 *db;
    enum err e = schema_open_reader(path, &db, message, message_cap);
    if (e != ERR_OK)
        return e;
    struct ledger_reader *r = mem_zalloc(sizeof *r);
    r->db = db;
    if (!prepare_all(r)) {
        snprintf(message, message_cap, "%s: %s", path, sqlite3_errmsg(db));
        ledger_reader_close(r);
        return ERR_IO;
    }
    *out = r;
    return ERR_OK;
}

void ledger_reader_close(struct ledger_reader *r)
{
    if (r == NULL)
        return;
    sqlite3_stmt *all[] = {r->one, r->newest, r->ids, r->attempts, r->name};
    for (size_t i = 0; i < RM_COUNTOF(all); i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(r->db);
    mem_free(r);
}

sqlite3 *reader_db(struct ledger_reader *r)
{
    return r->db;
}

const char *reader_error(const struct ledger_reader *r)
{
    return sqlite3_errmsg(r->db);
}

static void begin(struct ledger_reader *r)
{
    sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL);
}

static void end(struct ledger_reader *r)
{
    sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL);
}

static const char *dup_text(sqlite3_stmt *s, int at, struct arena *arena)
{
    const char *t = (const char *)sqlite3_column_text(s, at);
    return t == NULL ? NULL : arena_dup(arena, bytes_from(t, (size_t)sqlite3_column_bytes(s, at))).p;
}

static const char *read_name(sqlite3_stmt *s, int at, struct arena *arena, void *arg)
{
    struct ledger_reader *r = arg;
    if (sqlite3_column_type(s, at) != SQLITE_INTEGER)
        return dup_text(s, at, arena);
    sqlite3_bind_int64(r->name, 1, sqlite3_column_int64(s, at));
    const char *t = sqlite3_step(r->name) == SQLITE_ROW ? dup_text(r->name, 0, arena) : NULL;
    sqlite3_reset(r->name);
    return t;
}

/* All attempts in the order of n: the inline one (may be NULL) is merged in. */
static enum err read_attempts(struct ledger_reader *r, struct arena *arena, const struct attempt_record *served,
                              struct request_record *out)
{
    unsigned max = out->n_attempts > 0 ? out->n_attempts : 1, n = 0;
    bool is_merged = served == NULL;
    out->attempts = ARENA_ARRAY(arena, struct attempt_record, max);
    sqlite3_bind_int64(r->attempts, 1, (int64_t)out->id);
    int rc;
    while ((rc = sqlite3_step(r->attempts)) == SQLITE_ROW && n < max) {
        if (!is_merged && served->n < sqlite3_column_int(r->attempts, 1)) {
            out->attempts[n++] = *served;
            is_merged = true;
        }
        if (n == max)
            break;
        if (out->started_wall_ms == 0)
            out->started_wall_ms = sqlite3_column_int64(r->attempts, 0);
        columns_read_attempt(r->attempts, 1, arena, read_name, r, &out->attempts[n++]);
    }
    sqlite3_reset(r->attempts);
    if (!is_merged && n < max)
        out->attempts[n++] = *served;
    out->n_attempts = (uint16_t)n;
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? ERR_OK : ERR_IO;
}

static enum err read_request(struct ledger_reader *r, sqlite3_stmt *s, struct arena *arena, struct request_record *out)
{
    memset(out, 0, sizeof *out);
    out->id = (uint64_t)sqlite3_column_int64(s, 0);
    columns_read_request(s, 1, arena, read_name, r, out);
    columns_read_prompt(s, 1 + REQUEST_N_COLUMNS + ATTEMPT_N_COLUMNS, arena, &out->prompt);
    struct attempt_record served;
    int at = 1 + REQUEST_N_COLUMNS;
    bool has_served = sqlite3_column_type(s, at) != SQLITE_NULL;
    if (has_served)
        columns_read_attempt(s, at, arena, read_name, r, &served);
    return read_attempts(r, arena, has_served ? &served : NULL, out);
}

/* A keepalive has no request: what can be told of one comes from its attempt. */
static enum err read_keepalive(struct ledger_reader *r, uint64_t id, struct arena *arena, struct request_record *out)
{
    *out = (struct request_record){.id = id,
                                   .key = "",
                                   .route = "",
                                   .dialect = "",
                                   .effort = "",
                                   .adjusted = "",
                                   .trace_id = "",
                                   .prompt = {.routing = ""},
                                   .is_stream = true,
                                   .served_link = -1,
                                   .gateway_us = -1,
                                   .prompt_bytes = -1,
                                   .max_tokens = 1};
    enum err e = read_attempts(r, arena, NULL, out);
    if (e != ERR_OK || out->n_attempts == 0)
        return e != ERR_OK ? e : ERR_NOT_FOUND;
    const struct attempt_record *a = &out->attempts[0];
    if (a->kind != ATTEMPT_KEEPALIVE)
        return ERR_NOT_FOUND;
    out->provider = a->provider;
    out->model = a->model;
    out->outcome = a->outcome;
    out->ttft_us = a->ttft_us;
    out->total_us = a->total_us;
    out->cost_nusd = a->cost_nusd;
    out->waste_nusd = a->waste_nusd;
    out->n_started = 1;
    return ERR_OK;
}

enum err reader_record(struct ledger_reader *r, uint64_t id, struct arena *arena, struct request_record *out)
{
    begin(r);
    sqlite3_bind_int64(r->one, 1, (int64_t)id);
    int rc = sqlite3_step(r->one);
    enum err e = rc == SQLITE_ROW ? read_request(r, r->one, arena, out) : rc == SQLITE_DONE ? ERR_NOT_FOUND : ERR_IO;
    sqlite3_reset(r->one);
    if (e == ERR_NOT_FOUND)
        e = read_keepalive(r, id, arena, out);
    end(r);
    return e;
}

static enum err read_rows(struct ledger_reader *r, sqlite3_stmt *s, unsigned n, struct arena *arena,
                          struct request_record *out, unsigned *n_out)
{
    int rc = SQLITE_DONE;
    enum err e = ERR_OK;
    *n_out = 0;
    begin(r);
    while (e == ERR_OK && *n_out < n && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        e = read_request(r, s, arena, &out[*n_out]);
        (*n_out)++;
    }
    sqlite3_reset(s);
    end(r);
    return e == ERR_OK && rc != SQLITE_ROW && rc != SQLITE_DONE ? ERR_IO : e;
}

enum err reader_list(struct ledger_reader *r, unsigned n, uint64_t after, uint64_t before, struct arena *arena,
                     struct request_record *out, unsigned *n_out)
{
    uint64_t top = before == 0 || before > INT64_MAX ? INT64_MAX : before;
    sqlite3_bind_int64(r->newest, 1, after > INT64_MAX ? INT64_MAX : (int64_t)after);
    sqlite3_bind_int64(r->newest, 2, (int64_t)top);
    sqlite3_bind_int64(r->newest, 3, n);
    return read_rows(r, r->newest, n, arena, out, n_out);
}

enum err reader_ids(struct ledger_reader *r, uint64_t *ids, size_t cap, size_t *n_out)
{
    int rc = SQLITE_DONE;
    *n_out = 0;
    sqlite3_bind_int64(r->ids, 1, (int64_t)cap);
    while (*n_out < cap && (rc = sqlite3_step(r->ids)) == SQLITE_ROW)
        ids[(*n_out)++] = (uint64_t)sqlite3_column_int64(r->ids, 0);
    sqlite3_reset(r->ids);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? ERR_OK : ERR_IO;
}

int64_t reader_now_ms(struct ledger_reader *r)
{
    sqlite3_stmt *s = NULL;
    int64_t ms = 0;
    static const char sql[] = "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
    if (sqlite3_prepare_v2(r->db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        ms = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return ms;
}

uint64_t reader_id_at(int64_t wall_ms)
{
    uint32_t counter = 0;
    return ledger_new_id(wall_ms, 0, &counter);
}

enum err ledger_read_json(struct ledger_reader *r, uint64_t id, struct buf *out)
{
    struct arena arena = {0};
    struct request_record rec;
    enum err e = reader_record(r, id, &arena, &rec);
    if (e == ERR_OK)
        record_json(&rec, out);
    arena_fini(&arena);
    return e;
}

enum err ledger_list_json(struct ledger_reader *r, unsigned n, uint64_t before_id, struct buf *out)
{
    struct arena arena = {0};
    unsigned n_recs = 0;
    n = n > READER_LIST_MAX ? READER_LIST_MAX : n;
    struct request_record *recs = ARENA_ARRAY(&arena, struct request_record, n > 0 ? n : 1);
    enum err e = reader_list(r, n, 0, before_id, &arena, recs, &n_recs);
    if (e == ERR_OK) {
        buf_putc(out, '[');
        for (unsigned i = 0; i < n_recs; i++) {
            if (i > 0)
                buf_putc(out, ',');
            record_json(&recs[i], out);
        }
        buf_putc(out, ']');
    }
    arena_fini(&arena);
    return e;
}

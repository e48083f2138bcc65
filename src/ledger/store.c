/* Names are interned inside the same transaction as the rows that use them; after a rollback, or when another process
 * has written in between (PRAGMA data_version), the table in memory is read again, so ids never disagree with the file.
 */
#include "ledger/store.h"

#include "base/mem.h"
#include "ledger/columns.h"
#include "ledger/names.h"
#include "ledger/schema.h"

#include <stdio.h>

enum { WRITE_WAIT_MS = 20 };
enum { ROW_PARAMETERS = 1 + REQUEST_N_COLUMNS + ATTEMPT_N_COLUMNS + PROMPT_N_COLUMNS };

#define NOW_MS "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
/* As many parameters as columns. */
#define MARKS_23 "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?"
#define MARKS_9 "?,?,?,?,?,?,?,?,?"
#define MARKS_27 MARKS_23 ",?,?,?,?"

struct store {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *name, *data_version;
    struct bindings request, attempt;
    struct bindings group; /* STORE_GROUP requests; prepared when there are so many for the first time */
    struct names *names;
    int64_t run_id;       /* of store_start_run */
    int64_t seen_version; /* data_version at which `names` was right */
    bool names_are_stale;
    bool failed; /* a name could not be written in this transaction */
    char error[160];
};

static enum err fail(struct store *s)
{
    snprintf(s->error, sizeof s->error, "%s", sqlite3_errmsg(s->db));
    int code = sqlite3_errcode(s->db) & 0xff;
    return code == SQLITE_BUSY || code == SQLITE_LOCKED ? ERR_BUSY : ERR_IO;
}

static enum err run(struct store *s, sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);
    enum err e = rc == SQLITE_DONE || rc == SQLITE_ROW ? ERR_OK : fail(s);
    sqlite3_reset(stmt);
    return e;
}

static bool prepare(struct store *s, const char *sql, sqlite3_stmt **out)
{
    return sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK;
}

static bool prepare_binding(struct store *s, const char *sql, struct bindings *out)
{
    bool ok = prepare(s, sql, &out->s);
    if (ok)
        bindings_init(out);
    return ok;
}

static bool prepare_all(struct store *s)
{
    return prepare(s, "BEGIN IMMEDIATE", &s->begin) && prepare(s, "COMMIT", &s->commit) &&
           prepare(s, "PRAGMA data_version", &s->data_version) &&
           prepare(s, "INSERT INTO name (id, text) VALUES (?, ?)", &s->name) &&
           prepare_binding(s,
                           "INSERT OR IGNORE INTO request (id, " REQUEST_COLUMNS ", " SERVED_COLUMNS ", " PROMPT_COLUMNS
                           ") VALUES (?," MARKS_23 "," MARKS_27 "," MARKS_9 ")",
                           &s->request) &&
           prepare_binding(s,
                           "INSERT OR IGNORE INTO attempt (request_id, started_ms, " ATTEMPT_COLUMNS
                           ") VALUES (?,?," MARKS_27 ")",
                           &s->attempt);
}

enum err store_open(const char *path, struct store **out, char *message, size_t message_cap)
{
    *out = NULL;
    sqlite3 *db;
    enum err e = schema_open(path, &db, message, message_cap);
    if (e != ERR_OK)
        return e;
    sqlite3_busy_timeout(db, WRITE_WAIT_MS);
    struct store *s = mem_zalloc(sizeof *s);
    s->db = db;
    s->names = names_new();
    s->names_are_stale = true;
    if (!prepare_all(s)) {
        snprintf(message, message_cap, "%s: %s", path, sqlite3_errmsg(db));
        store_close(s);
        return ERR_IO;
    }
    *out = s;
    return ERR_OK;
}

void store_close(struct store *s)
{
    if (s == NULL)
        return;
    sqlite3_stmt *all[] = {s->begin, s->commit, s->name, s->data_version};
    bindings_fini(&s->request);
    bindings_fini(&s->attempt);
    bindings_fini(&s->group);
    for (size_t i = 0; i < RM_COUNTOF(all); i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(s->db);
    names_free(s->names);
    mem_free(s);
}

static enum err load_names(struct store *s)
{
    sqlite3_stmt *q = NULL;
    bindings_clear(&s->request);
    bindings_clear(&s->attempt);
    bindings_clear(&s->group);
    names_clear(s->names);
    if (sqlite3_prepare_v2(s->db, "SELECT id, text FROM name ORDER BY id", -1, &q, NULL) != SQLITE_OK)
        return fail(s);
    int rc;
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        const char *t = (const char *)sqlite3_column_text(q, 1);
        names_put(s->names, bytes_of(t != NULL ? t : ""), sqlite3_column_int64(q, 0));
    }
    enum err e = rc == SQLITE_DONE ? ERR_OK : fail(s);
    sqlite3_finalize(q);
    return e;
}

static enum err refresh_names(struct store *s)
{
    if (sqlite3_step(s->data_version) != SQLITE_ROW) {
        enum err e = fail(s);
        sqlite3_reset(s->data_version);
        return e;
    }
    int64_t version = sqlite3_column_int64(s->data_version, 0);
    sqlite3_reset(s->data_version);
    if (!s->names_are_stale && version == s->seen_version)
        return ERR_OK;
    enum err e = load_names(s);
    if (e == ERR_OK) {
        s->seen_version = version;
        s->names_are_stale = false;
    }
    return e;
}

static enum err exec(struct store *s, const char *sql)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ERR_OK : fail(s);
}

enum err store_begin(struct store *s)
{
    s->failed = false;
    enum err e = run(s, s->begin);
    if (e == ERR_OK)
        e = refresh_names(s);
    if (e != ERR_OK)
        store_rollback(s);
    return e;
}

enum err store_start_run(struct store *s, unsigned *n_unclean)
{
    *n_unclean = 0;
    enum err e = store_begin(s);
    if (e != ERR_OK)
        return e;
    e = exec(s, "UPDATE run SET is_unclean = 1 WHERE ended_ms IS NULL AND is_unclean = 0");
    if (e == ERR_OK)
        *n_unclean = (unsigned)sqlite3_changes(s->db);
    if (e == ERR_OK)
        e = exec(s, "INSERT INTO run (started_ms, version) VALUES (" NOW_MS ", '" RINGMAIN_VERSION "')");
    if (e == ERR_OK) {
        s->run_id = sqlite3_last_insert_rowid(s->db);
        e = store_commit(s);
    }
    if (e != ERR_OK)
        store_rollback(s);
    return e;
}

static const struct name *intern(const char *text, void *arg)
{
    struct store *s = arg;
    struct bytes t = bytes_of(text);
    const struct name *known = names_find(s->names, t);
    if (known != NULL || s->names->n >= NAMES_MAX)
        return known;
    int64_t id = s->names->last_id + 1;
    sqlite3_bind_int64(s->name, 1, id);
    sqlite3_bind_text(s->name, 2, text, -1, SQLITE_STATIC);
    if (run(s, s->name) != ERR_OK) {
        s->failed = true;
        return NULL;
    }
    names_put(s->names, t, id);
    return names_find(s->names, t);
}

static enum err put_attempt(struct store *s, const struct request_record *r, const struct attempt_record *a,
                            bool is_keepalive)
{
    struct bindings *b = &s->attempt;
    columns_bind_int(b, 1, (int64_t)r->id);
    if (is_keepalive)
        columns_bind_int(b, 2, r->started_wall_ms);
    else
        columns_bind_null(b, 2, 1);
    columns_bind_attempt(b, 3, a, intern, s);
    return s->failed ? ERR_IO : run(s, b->s);
}

static const struct attempt_record *served_of(const struct request_record *r)
{
    for (unsigned i = 0; i < r->n_attempts; i++)
        if (r->attempts[i].is_served)
            return &r->attempts[i];
    return NULL;
}

static void bind_request(struct store *s, struct bindings *b, int at, const struct request_record *r)
{
    const struct attempt_record *served = served_of(r);
    columns_bind_int(b, at, (int64_t)r->id);
    at++;
    columns_bind_request(b, at, r, intern, s);
    at += REQUEST_N_COLUMNS;
    if (served != NULL)
        columns_bind_attempt(b, at, served, intern, s);
    else
        columns_bind_null(b, at, ATTEMPT_N_COLUMNS);
    columns_bind_prompt(b, at + ATTEMPT_N_COLUMNS, &r->prompt);
}

/* The columns stand as in the table, where the class of service came last; only then SQLite builds the rows where they
 * are written from. The parameters of a row are those of the statement for one. */
static bool prepare_group(struct store *s)
{
    static const char head[] = "INSERT OR IGNORE INTO request (id, " REQUEST_COLUMNS ", " SERVED_COLUMNS_1
                               ", " PROMPT_COLUMNS ", a_service) VALUES";
    const int service = 1 + REQUEST_N_COLUMNS + ATTEMPT_N_COLUMNS;
    struct buf sql = {0};
    buf_puts(&sql, head);
    for (int row = 0; row < STORE_GROUP; row++) {
        int base = row * ROW_PARAMETERS;
        buf_puts(&sql, row > 0 ? ",(" : "(");
        for (int i = 1; i <= ROW_PARAMETERS; i++)
            if (i != service)
                buf_printf(&sql, "?%d,", base + i);
        buf_printf(&sql, "?%d)", base + service);
    }
    bool ok = prepare_binding(s, buf_cstr(&sql), &s->group);
    buf_fini(&sql);
    return ok;
}

static enum err put_requests(struct store *s, const struct packed *p, unsigned n)
{
    struct bindings *b = n == STORE_GROUP ? &s->group : &s->request;
    if (b->s == NULL && !prepare_group(s))
        return fail(s);
    for (unsigned i = 0; i < n; i++)
        bind_request(s, b, 1 + (int)i * ROW_PARAMETERS, &p[i].record);
    return s->failed ? ERR_IO : run(s, b->s);
}

/* The attempts that do not stand in their request's row. */
static enum err put_attempts(struct store *s, const struct packed *p)
{
    const struct request_record *r = &p->record;
    const struct attempt_record *served = p->is_keepalive ? NULL : served_of(r);
    enum err e = ERR_OK;
    for (unsigned i = 0; e == ERR_OK && i < r->n_attempts; i++)
        if (&r->attempts[i] != served)
            e = put_attempt(s, r, &r->attempts[i], p->is_keepalive);
    return e;
}

static bool is_group(const struct packed *p, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (p[i].is_keepalive)
            return false;
    return n == STORE_GROUP;
}

enum err store_put(struct store *s, const struct packed *p, unsigned n)
{
    enum err e = ERR_OK;
    bool at_once = is_group(p, n);
    if (at_once)
        e = put_requests(s, p, n);
    for (unsigned i = 0; e == ERR_OK && i < n; i++) {
        if (!at_once && !p[i].is_keepalive)
            e = put_requests(s, &p[i], 1);
        if (e == ERR_OK)
            e = put_attempts(s, &p[i]);
    }
    return e;
}

enum err store_commit(struct store *s)
{
    return run(s, s->commit);
}

void store_rollback(struct store *s)
{
    if (sqlite3_get_autocommit(s->db) == 0)
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    s->names_are_stale = true;
}

enum err store_end_run(struct store *s, uint64_t rows_written, uint64_t rows_lost)
{
    enum err e = store_begin(s);
    if (e != ERR_OK)
        return e;
    char sql[200];
    snprintf(sql, sizeof sql,
             "UPDATE run SET ended_ms = " NOW_MS
             ", is_unclean = 0, rows_written = %llu, rows_lost = %llu WHERE id = %lld",
             (unsigned long long)rows_written, (unsigned long long)rows_lost, (long long)s->run_id);
    e = exec(s, sql);
    if (e == ERR_OK)
        e = store_commit(s);
    if (e != ERR_OK)
        store_rollback(s);
    return e;
}

const char *store_error(const struct store *s)
{
    return s->error;
}

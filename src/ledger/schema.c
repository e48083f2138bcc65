#include "ledger/schema.h"

#include "ledger/columns.h"

#include <stdio.h>
#include <unistd.h>

enum { OPEN_WAIT_MS = 5000, READ_WAIT_MS = 2000 };

/* Milliseconds since 1970 as SQLite tells them: this room asks no clock of the machine. */
#define NOW_MS "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

#define ADD(column) "ALTER TABLE request ADD COLUMN " #column ";"

/* migrations[v] leads from version v to v + 1. Never edit one that was released: add another. */
static const char *const migrations[SCHEMA_VERSION] = {
    "CREATE TABLE schema (version INTEGER NOT NULL, applied_ms INTEGER NOT NULL);"
    "CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL);"
    "CREATE TABLE request (id INTEGER PRIMARY KEY, " REQUEST_COLUMNS ", " SERVED_COLUMNS_1 ");"
    "CREATE TABLE attempt (request_id INTEGER NOT NULL, started_ms INTEGER, " ATTEMPT_COLUMNS_1
    ", PRIMARY KEY (request_id, n)) WITHOUT ROWID;",
    "CREATE TABLE run (id INTEGER PRIMARY KEY, started_ms INTEGER NOT NULL, ended_ms INTEGER,"
    " is_unclean INTEGER NOT NULL DEFAULT 0, version TEXT, rows_written INTEGER, rows_lost INTEGER);",
    "CREATE TABLE repriced (request_id INTEGER NOT NULL, n INTEGER NOT NULL, at_ms INTEGER NOT NULL, price_version,"
    " cost_nusd INTEGER, waste_nusd INTEGER, PRIMARY KEY (request_id, n, at_ms)) WITHOUT ROWID;",
    ADD(talk_hash) ADD(head_hash) ADD(cache_hash) ADD(head_bytes) ADD(cache_bytes) ADD(cache_ttl_s) ADD(affinity_key)
        ADD(needs) ADD(routing),
    ADD(a_service) "ALTER TABLE attempt ADD COLUMN service;",
};

static int first_int(sqlite3 *db, const char *sql, int none)
{
    sqlite3_stmt *s = NULL;
    int v = none;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        v = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    return v;
}

int schema_version(sqlite3 *db)
{
    int there = first_int(db, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema'", -1);
    if (there <= 0)
        return there;
    return first_int(db, "SELECT max(version) FROM schema", -1);
}

static enum err migrate(sqlite3 *db)
{
    if (schema_version(db) == SCHEMA_VERSION)
        return ERR_OK;
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return ERR_IO;
    int v = schema_version(db); /* again: another process may have been first */
    enum err e = v < 0 ? ERR_IO : v > SCHEMA_VERSION ? ERR_UNSUPPORTED : ERR_OK;
    for (; e == ERR_OK && v < SCHEMA_VERSION; v++) {
        char note[128];
        snprintf(note, sizeof note, "INSERT INTO schema VALUES (%d, " NOW_MS ")", v + 1);
        if (sqlite3_exec(db, migrations[v], NULL, NULL, NULL) != SQLITE_OK ||
            sqlite3_exec(db, note, NULL, NULL, NULL) != SQLITE_OK)
            e = ERR_IO;
    }
    if (e == ERR_OK && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        e = ERR_IO;
    return e;
}

static enum err give_up(sqlite3 *db, enum err e, const char *path, char *message, size_t cap)
{
    if (e == ERR_UNSUPPORTED)
        snprintf(message, cap, "%s was written by a newer version of this program", path);
    else
        snprintf(message, cap, "%s: %s", path, db != NULL ? sqlite3_errmsg(db) : "out of memory");
    if (db != NULL && sqlite3_get_autocommit(db) == 0)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
    return e;
}

enum err schema_open(const char *path, sqlite3 **out, char *message, size_t message_cap)
{
    sqlite3 *db = NULL;
    *out = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    /* SQLite's count of its memory takes a lock at each allocation, and nobody here reads it. And a cache makes its
     * pages one by one: twenty at once, and all touched, are 85 KB, of which a quiet ledger needs a few. Refused,
     * harmlessly, when the process has used the library before. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite3_config(SQLITE_CONFIG_PAGECACHE, NULL, 0, 0);
    if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK)
        return give_up(db, ERR_IO, path, message, message_cap);
    sqlite3_busy_timeout(db, OPEN_WAIT_MS);
    if (sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL", NULL, NULL, NULL) != SQLITE_OK)
        return give_up(db, ERR_IO, path, message, message_cap);
    enum err e = migrate(db);
    if (e != ERR_OK)
        return give_up(db, e, path, message, message_cap);
    *out = db;
    return ERR_OK;
}

enum err schema_open_reader(const char *path, sqlite3 **out, char *message, size_t message_cap)
{
    sqlite3 *db = NULL;
    *out = NULL;
    if (access(path, F_OK) != 0) {
        snprintf(message, message_cap, "%s: no such ledger", path);
        return ERR_NOT_FOUND;
    }
    /* Writable where allowed: the first reader of a file whose writer is gone has to rebuild the -shm file. */
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        sqlite3_close(db);
        if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
            return give_up(db, ERR_IO, path, message, message_cap);
    }
    sqlite3_busy_timeout(db, READ_WAIT_MS);
    sqlite3_exec(db, "PRAGMA query_only=1", NULL, NULL, NULL);
    int v = schema_version(db);
    if (v < 0)
        return give_up(db, ERR_IO, path, message, message_cap);
    if (v > SCHEMA_VERSION)
        return give_up(db, ERR_UNSUPPORTED, path, message, message_cap);
    if (v < SCHEMA_VERSION_READABLE) {
        snprintf(message, message_cap, "%s holds no ledger of this version yet (found %d, expected %d)", path, v,
                 SCHEMA_VERSION_READABLE);
        sqlite3_close(db);
        return ERR_UNSUPPORTED;
    }
    *out = db;
    return ERR_OK;
}

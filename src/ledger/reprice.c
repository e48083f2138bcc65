/* Both passes walk the same records, newest first, in pages: the first one sums, the second one writes each page in a
 * transaction of its own. Keepalives have no request, so their ids come from the table of attempts. */
#include "ledger/reprice.h"

#include "base/mem.h"
#include "ledger/columns.h"
#include "ledger/schema.h"
#include "price/price.h"

#include <stdio.h>

enum { PAGE = 200, WRITE_WAIT_MS = 5000 };
_Static_assert(ATTEMPT_FLAG_STANDIN == 64, "the statements below name it");

/* What an attempt becomes. */
struct change {
    const struct price *price; /* NULL = it stays */
    int64_t cost_nusd, waste_nusd;
    bool is_standin; /* as of the record */
    bool is_other;   /* than it was */
};

static bool is_meant(const struct reprice_ask *ask, const struct attempt_record *a)
{
    if (!a->is_started || a->tokens_from == TOKENS_UNBILLED)
        return false;
    return ask->provider == NULL || strcmp(ask->provider, a->provider) == 0;
}

static struct change change_of(const struct reprice_ask *ask, const struct request_record *r,
                               const struct attempt_record *a)
{
    struct change c = {.cost_nusd = a->cost_nusd, .waste_nusd = a->waste_nusd, .is_standin = a->is_price_standin};
    int64_t wall_ms = r->started_wall_ms + (a->start_us > 0 ? a->start_us / 1000 : 0);
    c.price = ask->find(a, wall_ms, &c.is_standin, ask->arg);
    int64_t cost = price_cost(c.price, &a->tokens);
    if (c.price == NULL || cost == NUSD_UNKNOWN) {
        c.price = NULL;
        c.is_standin = a->is_price_standin;
        return c;
    }
    c.cost_nusd = cost;
    c.waste_nusd = a->is_served || a->kind == ATTEMPT_KEEPALIVE ? 0 : cost;
    c.is_other = c.cost_nusd != a->cost_nusd || c.waste_nusd != a->waste_nusd || a->price_version == NULL ||
                 c.is_standin != a->is_price_standin || strcmp(c.price->version, a->price_version) != 0;
    return c;
}

/* ---- walking ---- */

typedef enum err visit_fn(struct request_record *rec, void *arg);

struct walk {
    struct ledger_reader *r;
    const struct reprice_ask *ask;
    visit_fn *visit;
    enum err (*page_end)(void *arg); /* after each page; may be NULL */
    void *arg;
};

static enum err end_page(const struct walk *w)
{
    return w->page_end != NULL ? w->page_end(w->arg) : ERR_OK;
}

static uint64_t first_id(const struct reprice_ask *ask)
{
    return ask->since_ms > 0 ? reader_id_at(ask->since_ms) : 1;
}

static uint64_t end_id(const struct reprice_ask *ask)
{
    return ask->until_ms > 0 ? reader_id_at(ask->until_ms) : INT64_MAX;
}

static enum err walk_requests(const struct walk *w)
{
    uint64_t before = end_id(w->ask);
    enum err e = ERR_OK;
    for (unsigned n = PAGE; e == ERR_OK && n == PAGE;) {
        struct arena arena = {0};
        struct request_record *v = ARENA_ARRAY(&arena, struct request_record, PAGE);
        e = reader_list(w->r, PAGE, first_id(w->ask) - 1, before, &arena, v, &n);
        for (unsigned i = 0; e == ERR_OK && i < n; i++) {
            before = v[i].id;
            e = w->visit(&v[i], w->arg);
        }
        arena_fini(&arena);
        if (e == ERR_OK)
            e = end_page(w);
    }
    return e;
}

/* A page of the ids of keepalives, rising. */
static enum err keepalive_ids(const struct walk *w, uint64_t after, uint64_t *ids, size_t *n)
{
    static const char sql[] = "SELECT request_id FROM attempt WHERE kind = 1 AND request_id > ? AND request_id < ?"
                              " ORDER BY request_id LIMIT ?";
    sqlite3_stmt *s = NULL;
    *n = 0;
    if (sqlite3_prepare_v2(reader_db(w->r), sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, (int64_t)after);
    sqlite3_bind_int64(s, 2, (int64_t)end_id(w->ask));
    sqlite3_bind_int64(s, 3, PAGE);
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW && *n < PAGE)
        ids[(*n)++] = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? ERR_OK : ERR_IO;
}

static enum err walk_keepalives(const struct walk *w)
{
    uint64_t ids[PAGE], after = first_id(w->ask) - 1;
    enum err e = ERR_OK;
    for (size_t n = PAGE; e == ERR_OK && n == PAGE;) {
        e = keepalive_ids(w, after, ids, &n);
        for (size_t i = 0; e == ERR_OK && i < n; i++) {
            struct arena arena = {0};
            struct request_record rec;
            after = ids[i];
            e = reader_record(w->r, ids[i], &arena, &rec);
            if (e == ERR_OK)
                e = w->visit(&rec, w->arg);
            arena_fini(&arena);
        }
        if (e == ERR_OK)
            e = end_page(w);
    }
    return e;
}

static enum err walk(const struct walk *w)
{
    enum err e = walk_requests(w);
    return e == ERR_OK ? walk_keepalives(w) : e;
}

/* ---- what would change ---- */

struct reading {
    const struct reprice_ask *ask;
    struct arena *arena;
    struct reprice_report *out;
};

static struct reprice_group *group_of(struct reading *g, const struct attempt_record *a, const char *now)
{
    struct reprice_report *out = g->out;
    const char *was = a->price_version != NULL ? a->price_version : "";
    for (size_t i = 0; i < out->n; i++) {
        struct reprice_group *x = &out->groups[i];
        if (strcmp(x->provider, a->provider) == 0 && strcmp(x->model, a->model) == 0 &&
            strcmp(x->was_version, was) == 0 && strcmp(x->now_version, now) == 0)
            return x;
    }
    if (out->n == REPRICE_GROUPS_MAX)
        return &out->groups[out->n - 1];
    struct reprice_group *x = &out->groups[out->n++];
    *x = (struct reprice_group){.provider = arena_dup(g->arena, bytes_of(a->provider)).p,
                                .model = arena_dup(g->arena, bytes_of(a->model)).p,
                                .was_version = arena_dup(g->arena, bytes_of(was)).p,
                                .now_version = arena_dup(g->arena, bytes_of(now)).p};
    return x;
}

static int64_t known(int64_t nusd)
{
    return nusd == NUSD_UNKNOWN ? 0 : nusd;
}

static enum err sum_record(struct request_record *rec, void *arg)
{
    struct reading *g = arg;
    g->out->n_requests++;
    for (unsigned i = 0; i < rec->n_attempts; i++) {
        const struct attempt_record *a = &rec->attempts[i];
        if (!is_meant(g->ask, a))
            continue;
        struct change c = change_of(g->ask, rec, a);
        struct reprice_group *x = group_of(g, a, c.price != NULL ? c.price->version : "");
        x->n_attempts++;
        x->n_changed += c.is_other;
        x->n_was_unknown += a->cost_nusd == NUSD_UNKNOWN;
        x->n_no_price += c.price == NULL;
        x->was_nusd += known(a->cost_nusd);
        x->now_nusd += known(c.cost_nusd);
        g->out->n_attempts++;
        g->out->n_changed += c.is_other;
        g->out->was_nusd += known(a->cost_nusd);
        g->out->now_nusd += known(c.cost_nusd);
    }
    return ERR_OK;
}

enum err reprice_read(struct ledger_reader *r, const struct reprice_ask *ask, struct arena *arena,
                      struct reprice_report *out)
{
    memset(out, 0, sizeof *out);
    struct reading g = {ask, arena, out};
    struct walk w = {.r = r, .ask = ask, .visit = sum_record, .arg = &g};
    return walk(&w);
}

/* ---- changing it ---- */

struct writing {
    const struct reprice_ask *ask;
    sqlite3 *db;
    sqlite3_stmt *keep, *inline_one, *other, *request;
    bool is_open; /* a transaction */
    int64_t at_ms, n_written;
};

static enum err run(struct writing *w, sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    sqlite3_reset(s);
    return rc == SQLITE_DONE ? ERR_OK : ERR_IO;
}

static enum err exec(struct writing *w, const char *sql)
{
    return sqlite3_exec(w->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ERR_OK : ERR_IO;
}

static void bind_nusd(sqlite3_stmt *s, int at, int64_t nusd)
{
    if (nusd == NUSD_UNKNOWN)
        sqlite3_bind_null(s, at);
    else
        sqlite3_bind_int64(s, at, nusd);
}

/* The served attempt stands in the request's row, the others in their own: what the first statement does not find, the
 * second one does. Versions are written as text, which every reader understands. */
static enum err put_change(struct writing *w, uint64_t id, const struct attempt_record *a, const struct change *c)
{
    sqlite3_stmt *const both[] = {w->inline_one, w->other};
    sqlite3_bind_int64(w->keep, 1, (int64_t)id);
    sqlite3_bind_int64(w->keep, 2, a->n);
    sqlite3_bind_int64(w->keep, 3, w->at_ms);
    sqlite3_bind_text(w->keep, 4, a->price_version, -1, SQLITE_STATIC);
    bind_nusd(w->keep, 5, a->cost_nusd);
    bind_nusd(w->keep, 6, a->waste_nusd);
    enum err e = run(w, w->keep);
    for (size_t i = 0; e == ERR_OK && i < RM_COUNTOF(both); i++) {
        sqlite3_bind_text(both[i], 1, c->price->version, -1, SQLITE_STATIC);
        sqlite3_bind_int64(both[i], 2, c->cost_nusd);
        sqlite3_bind_int64(both[i], 3, c->waste_nusd);
        sqlite3_bind_int64(both[i], 4, c->is_standin ? ATTEMPT_FLAG_STANDIN : 0);
        sqlite3_bind_int64(both[i], 5, (int64_t)id);
        sqlite3_bind_int64(both[i], 6, a->n);
        e = run(w, both[i]);
        if (sqlite3_changes(w->db) > 0)
            break;
    }
    w->n_written++;
    return e;
}

static int64_t plus(int64_t a, int64_t b)
{
    return a == NUSD_UNKNOWN || b == NUSD_UNKNOWN ? NUSD_UNKNOWN : a + b;
}

static enum err write_record(struct request_record *rec, void *arg)
{
    struct writing *w = arg;
    int64_t cost = 0, waste = 0;
    bool is_other = false;
    enum err e = ERR_OK;
    for (unsigned i = 0; e == ERR_OK && i < rec->n_attempts; i++) {
        const struct attempt_record *a = &rec->attempts[i];
        struct change c = {.cost_nusd = a->cost_nusd, .waste_nusd = a->waste_nusd};
        if (is_meant(w->ask, a))
            c = change_of(w->ask, rec, a);
        cost = plus(cost, c.cost_nusd);
        waste = plus(waste, c.waste_nusd);
        if (!c.is_other)
            continue;
        is_other = true;
        if (!w->is_open)
            e = exec(w, "BEGIN IMMEDIATE");
        w->is_open = e == ERR_OK;
        if (e == ERR_OK)
            e = put_change(w, rec->id, a, &c);
    }
    if (e != ERR_OK || !is_other)
        return e;
    bind_nusd(w->request, 1, cost);
    bind_nusd(w->request, 2, waste);
    sqlite3_bind_int64(w->request, 3, (int64_t)rec->id);
    return run(w, w->request);
}

static enum err commit(void *arg)
{
    struct writing *w = arg;
    if (!w->is_open)
        return ERR_OK;
    w->is_open = false;
    return exec(w, "COMMIT");
}

static bool prepare(struct writing *w)
{
    static const char keep[] = "INSERT OR REPLACE INTO repriced (request_id, n, at_ms, price_version, cost_nusd, "
                               "waste_nusd) VALUES (?,?,?,?,?,?)";
    static const char *const sql[] = {
        keep,
        "UPDATE request SET a_price_version = ?, a_cost_nusd = ?, a_waste_nusd = ?, a_flags = a_flags & ~64 | ? "
        "WHERE id = ? AND a_n = ?",
        "UPDATE attempt SET price_version = ?, cost_nusd = ?, waste_nusd = ?, flags = flags & ~64 | ? "
        "WHERE request_id = ? AND n = ?",
        "UPDATE request SET cost_nusd = ?, waste_nusd = ? WHERE id = ?"};
    sqlite3_stmt **const to[] = {&w->keep, &w->inline_one, &w->other, &w->request};
    for (size_t i = 0; i < RM_COUNTOF(sql); i++)
        if (sqlite3_prepare_v2(w->db, sql[i], -1, to[i], NULL) != SQLITE_OK)
            return false;
    return true;
}

enum err reprice_write(struct ledger_reader *r, const char *path, const struct reprice_ask *ask, int64_t *n_written,
                       char *message, size_t message_cap)
{
    struct writing w = {.ask = ask, .at_ms = reader_now_ms(r)};
    struct walk walking = {r, ask, write_record, commit, &w};
    *n_written = 0;
    enum err e = schema_open(path, &w.db, message, message_cap);
    if (e != ERR_OK)
        return e;
    sqlite3_busy_timeout(w.db, WRITE_WAIT_MS);
    e = prepare(&w) ? walk(&walking) : ERR_IO;
    if (e != ERR_OK) {
        bool is_readers = sqlite3_errcode(w.db) == SQLITE_OK;
        snprintf(message, message_cap, "%s: %s", path, is_readers ? reader_error(r) : sqlite3_errmsg(w.db));
        if (w.is_open)
            sqlite3_exec(w.db, "ROLLBACK", NULL, NULL, NULL);
    }
    sqlite3_stmt *const all[] = {w.keep, w.inline_one, w.other, w.request};
    for (size_t i = 0; i < RM_COUNTOF(all); i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(w.db);
    *n_written = w.n_written;
    return e;
}

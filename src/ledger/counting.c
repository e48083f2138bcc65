#include "ledger/counting.h"

#include "base/text.h"
#include "ledger/columns.h"

#include <stdio.h>

static const char parts_sql[] = "SELECT t, count(*), sum(cost IS NULL), coalesce(sum(cost), 0), coalesce(sum(waste), 0)"
                                " FROM (SELECT a_tokens_from AS t, a_cost_nusd AS cost, a_waste_nusd AS waste,"
                                " a_flags AS flags FROM request WHERE id >= ?1 AND a_n IS NOT NULL"
                                " UNION ALL SELECT tokens_from, cost_nusd, waste_nusd, flags FROM attempt"
                                " WHERE request_id >= ?1) WHERE (flags & 2) != 0 GROUP BY t";

enum err counting_read(struct ledger_reader *r, uint64_t since_id, struct counting *out)
{
    sqlite3_stmt *s = NULL;
    int rc;
    *out = (struct counting){0};
    if (sqlite3_prepare_v2(reader_db(r), parts_sql, -1, &s, NULL) != SQLITE_OK)
        return ERR_IO;
    sqlite3_bind_int64(s, 1, (int64_t)since_id);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        int64_t from = sqlite3_column_int64(s, 0);
        if (from >= 0 && from < (int64_t)RM_COUNTOF(out->parts))
            out->parts[from] = (struct counting_part){sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 2),
                                                      sqlite3_column_int64(s, 3), sqlite3_column_int64(s, 4)};
    }
    sqlite3_finalize(s);
    return rc == SQLITE_DONE ? ERR_OK : ERR_IO;
}

static const enum tokens_from order[] = {TOKENS_REPORTED, TOKENS_ESTIMATED, TOKENS_UNBILLED};

void counting_text(const struct counting *c, struct buf *out)
{
    buf_puts(out, "tokens     ");
    for (size_t i = 0; i < RM_COUNTOF(order); i++) {
        const struct counting_part *p = &c->parts[order[i]];
        buf_printf(out, "%s%lld %s", i > 0 ? ", " : "", (long long)p->n, tokens_from_word(order[i]));
        if (order[i] == TOKENS_UNBILLED)
            continue;
        buf_puts(out, " $");
        text_usd(out, p->cost_nusd);
        if (p->n_unpriced > 0)
            buf_printf(out, " (%lld of unknown price)", (long long)p->n_unpriced);
    }
}

void counting_json(const struct counting *c, struct json_writer *w)
{
    jw_object(w);
    for (size_t i = 0; i < RM_COUNTOF(order); i++) {
        const struct counting_part *p = &c->parts[order[i]];
        jw_key(w, tokens_from_word(order[i]));
        jw_object(w);
        jw_named_int(w, "attempts", p->n);
        jw_named_int(w, "cost_nusd", p->cost_nusd);
        jw_named_int(w, "waste_nusd", p->waste_nusd);
        jw_named_int(w, "unpriced", p->n_unpriced);
        jw_end(w);
    }
    jw_end(w);
}

/* ---- estimates ---- */

void estimates_text(const struct estimates *e, struct buf *out)
{
    for (size_t i = 0; i < e->n; i++) {
        const struct estimate *one = &e->v[i];
        buf_printf(out, "\n%-10s %s/%s %s: %lld.%03lld bytes a token", i == 0 ? "estimates" : "", one->provider,
                   one->model, one->side, (long long)(one->milli_bytes / 1000), (long long)(one->milli_bytes % 1000));
        if (!one->is_known)
            buf_puts(out, " until more is known");
        if (one->error_permille >= 0)
            buf_printf(out, ", off by %lld.%lld %%", (long long)(one->error_permille / 10),
                       (long long)(one->error_permille % 10));
        buf_printf(out, " (%lld calls)", (long long)one->n_samples);
    }
}

/* A number of thousandths; negative = null. */
static void member_milli(struct json_writer *w, const char *name, int64_t v)
{
    char text[40];
    snprintf(text, sizeof text, "%lld.%03lld", (long long)(v / 1000), (long long)(v % 1000));
    jw_key(w, name);
    if (v >= 0)
        jw_raw(w, bytes_of(text));
    else
        jw_null(w);
}

static void estimate_json(const struct estimate *e, struct json_writer *w)
{
    jw_object(w);
    jw_named_cstr(w, "provider", e->provider);
    jw_named_cstr(w, "model", e->model);
    jw_named_cstr(w, "side", e->side);
    jw_named_int(w, "samples", e->n_samples);
    jw_named_bool(w, "is_known", e->is_known);
    member_milli(w, "bytes_per_token", e->milli_bytes);
    member_milli(w, "error", e->error_permille);
    jw_end(w);
}

void estimates_json(const struct estimates *e, struct json_writer *w)
{
    char when[TEXT_TIME_BYTES];
    if (e->as_of_ms == 0) {
        jw_null(w);
        return;
    }
    text_time(e->as_of_ms, when);
    jw_object(w);
    jw_named_cstr(w, "as_of", when);
    jw_key(w, "targets");
    jw_array(w);
    for (size_t i = 0; i < e->n; i++)
        estimate_json(&e->v[i], w);
    jw_end(w);
    jw_end(w);
}

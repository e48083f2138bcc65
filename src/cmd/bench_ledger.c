/* After a phase the gateway's ledger is read page by page, newest first, until every request of the phase was seen or a
 * page is older than all of them. */
#include "cmd/bench.h"

#include "base/mem.h"
#include "base/text.h"
#include "codec/json_tree.h"

#include <stdlib.h>

enum { TRIES = 300, PAGE_MAX = 500, PAGE_SPARE = 20, CALL_TIMEOUT_US = 10000000 };

struct entry {
    uint64_t id;
    struct sample *sample;
    bool is_found;
};

struct reading {
    struct caller *caller;
    uint16_t port;
    struct entry *v;
    size_t n, n_found;
};

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct entry *)a)->id, y = ((const struct entry *)b)->id;
    return x < y ? -1 : x > y;
}

static int64_t money(yyjson_val *record, const char *name)
{
    int64_t v;
    return json_tree_to_int(yyjson_obj_get(record, name), &v) ? v : NUSD_UNKNOWN;
}

/* Started attempts: skips have no start. */
static uint16_t count_attempts(yyjson_val *record)
{
    size_t i, n;
    yyjson_val *t;
    uint16_t started = 0;
    yyjson_arr_foreach(yyjson_obj_get(record, "attempts"), i, n, t)
    {
        int64_t at;
        started += json_tree_to_int(yyjson_obj_get(t, "start_us"), &at);
    }
    return started;
}

static uint64_t take_record(struct reading *r, yyjson_val *record)
{
    struct entry key = {0};
    if (!text_id_parse(json_tree_str(record, "id"), &key.id))
        return 0;
    struct entry *e = bsearch(&key, r->v, r->n, sizeof *r->v, by_id);
    if (e != NULL && !e->is_found) {
        e->is_found = true;
        r->n_found++;
        e->sample->cost_nusd = money(record, "cost_nusd");
        e->sample->waste_nusd = money(record, "waste_nusd");
        e->sample->attempts = count_attempts(record);
    }
    return key.id;
}

/* One page; *before becomes its oldest id, 0 when there are no more. */
static bool read_page(struct reading *r, uint64_t *before)
{
    struct arena a = {0};
    struct caller_answer answer;
    const char *why;
    char path[96], id[TEXT_ID_BYTES] = "";
    text_id(*before, id);
    size_t want = r->n - r->n_found + PAGE_SPARE;
    snprintf(path, sizeof path, *before != 0 ? "/api/requests?n=%zu&before=%s" : "/api/requests?n=%zu",
             want < PAGE_MAX ? want : PAGE_MAX, id);
    struct caller_ask ask = {
        .host = "127.0.0.1", .port = r->port, .method = "GET", .path = path, .timeout_us = CALL_TIMEOUT_US};
    yyjson_val *root = NULL, *record;
    size_t i, n;
    bool ok = caller_do(r->caller, &ask, &a, &answer, &why) == ERR_OK && answer.status == 200 &&
              json_tree_parse(answer.body, 64, &a, &root) == ERR_OK;
    *before = 0;
    yyjson_arr_foreach(root, i, n, record) *before = take_record(r, record);
    arena_fini(&a);
    return ok;
}

static void read_all(struct reading *r)
{
    uint64_t before = 0;
    do {
        if (!read_page(r, &before))
            return;
    } while (r->n_found < r->n && before != 0 && before > r->v[0].id);
}

size_t bench_ledger_read(struct caller *c, uint16_t admin_port, struct sample *v, size_t n)
{
    struct reading r = {.caller = c, .port = admin_port, .v = mem_zalloc((n + 1) * sizeof *r.v)};
    for (size_t i = 0; i < n; i++)
        if (v[i].request_id != 0)
            r.v[r.n++] = (struct entry){.id = v[i].request_id, .sample = &v[i]};
    qsort(r.v, r.n, sizeof *r.v, by_id);
    for (int i = 0; i < TRIES && r.n_found < r.n; i++) {
        if (i > 0)
            child_nap();
        read_all(&r);
    }
    size_t missing = r.n - r.n_found;
    mem_free(r.v);
    return missing;
}

#include "unit.h"

#include "fixture.h"

#include "base/mem.h"
#include "base/text.h"
#include "ledger/access_log.h"
#include "ledger/keepalives.h"
#include "ledger/schema.h"
#include "ledger/store.h"
#include "ledger/summary.h"

#include <signal.h>
#include <sys/resource.h>

static struct ledger_reader *open_reader(const char *db)
{
    struct ledger_reader *r = NULL;
    char message[256] = "";
    if (ledger_reader_open(db, &r, message, sizeof message) != ERR_OK)
        fail_msg("ledger_reader_open: %s", message);
    return r;
}

static void assert_reads_back(const char *db, const struct request_record *rec)
{
    struct buf want = {0}, got = {0};
    struct ledger_reader *r = open_reader(db);
    record_json(rec, &want);
    assert_int_equal(ledger_read_json(r, rec->id, &got), ERR_OK);
    assert_string_equal(buf_cstr(&got), buf_cstr(&want));
    ledger_reader_close(r);
    buf_fini(&want);
    buf_fini(&got);
}

/* A record's way through the ring. */
static struct packed packed_of(const struct request_record *rec, struct arena *arena, struct buf *bytes)
{
    struct packed p;
    buf_clear(bytes);
    pack_request(bytes, rec);
    pack_read(buf_bytes(bytes), arena, &p);
    return p;
}

static void assert_named_alike(struct request_record *rec, struct arena *arena)
{
    struct buf plain = {0}, named = {0};
    struct record_names names;
    pack_names(arena, rec->route, rec->dialect, rec->provider, rec->model, &names);
    size_t n_head = pack_request(&plain, rec);
    rec->names = &names;
    assert_int_equal(pack_request(&named, rec), n_head);
    rec->names = NULL;
    assert_true(bytes_eq(buf_bytes(&plain), buf_bytes(&named)));
    buf_fini(&plain);
    buf_fini(&named);
}

/* With the names that its link has ready a record is packed as it is without. */
static void names_that_are_ready(void **state)
{
    struct fixture f;
    struct arena arena = {0};
    char longer[PACK_TEXT_MAX + 10];
    fixture_init(&f);
    struct request_record *rec = record_fixture(&f, 5);
    assert_named_alike(rec, &arena);
    rec->model = ""; /* no attempt's: not told by reference */
    assert_named_alike(rec, &arena);
    memset(longer, 'm', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    rec->route = longer;
    assert_named_alike(rec, &arena);
    rec->provider = rec->model = NULL;
    assert_named_alike(rec, &arena);
    arena_fini(&arena);
    fixture_fini(&f);
}

static struct request_record *nth_record(struct fixture *f, uint64_t i)
{
    struct request_record *r = record_fixture(f, i + 1);
    r->key = i % 3 == 0 ? "" : i % 3 == 1 ? "team" : "other";
    r->model = i % 4 == 0 ? NULL : i % 4 == 1 ? "team" : "claude-x";
    r->max_tokens = i % 2 == 0 ? -1 : 256;
    r->cost_nusd = i % 5 == 0 ? NUSD_UNKNOWN : i % 5 == 1 ? 0 : (int64_t)i;
    r->adjusted = i % 7 < 3 ? "" : i % 7 < 5 ? "max_tokens=256" : "stop";
    f->attempts[1].is_served = i % 6 < 4;
    f->attempts[1].price_version = i % 6 == 2 ? NULL : "2026-11-01";
    f->attempts[1].retry_after_ms = i % 6 == 3 ? 5 : -1;
    f->attempts[2].decision = i % 2 == 0 ? "" : "xext link: skipped_open";
    r->n_attempts = (uint16_t)(i % 8 == 7 ? 0 : 3);
    return r;
}

static uint64_t n_written(struct ledger *l)
{
    struct ledger_stats s;
    ledger_stats(l, &s);
    return s.rows_written;
}

static bool is_degraded(struct ledger *l)
{
    struct ledger_stats s;
    ledger_stats(l, &s);
    return s.is_degraded;
}

static void round_trip(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 100);
    struct request_record *rec = record_fixture(&f, 77);
    assert_true(ledger_put(ledger_ring(l, 0), rec));
    ledger_close(l);
    assert_reads_back(f.db, rec);
    fixture_fini(&f);
}

/* Names of an attempt that are the head's own texts are packed once; equal texts elsewhere, and none, are told alike.
 */
static void names_as_in_the_head(void **state)
{
    static const char name[] = "one", same[] = "one", other[] = "two";
    struct attempt_record attempts[] = {{.provider = name, .model = other}, {.provider = same, .model = name}, {0}};
    struct request_record rec = {.provider = name, .model = other, .attempts = attempts, .n_attempts = 3};
    struct arena arena = {0};
    struct buf bytes = {0};
    struct packed p = packed_of(&rec, &arena, &bytes);
    const struct attempt_record *a = p.record.attempts;
    assert_ptr_equal(a[0].provider, p.record.provider);
    assert_ptr_equal(a[0].model, p.record.model);
    assert_string_equal(a[0].provider, "one");
    assert_string_equal(a[0].model, "two");
    assert_string_equal(a[1].provider, "one");
    assert_string_equal(a[1].model, "one");
    assert_null(a[2].provider);
    assert_null(a[2].model);
    rec.provider = rec.model = NULL;
    p = packed_of(&rec, &arena, &bytes);
    assert_string_equal(p.record.attempts[0].model, "two");
    assert_null(p.record.attempts[2].model);
    buf_fini(&bytes);
    arena_fini(&arena);
}

/* What a replay needs of a prompt is in no JSON: the columns are looked at. */
static void what_a_prompt_is_known_by(void **state)
{
    struct fixture f;
    struct arena arena = {0};
    struct request_record got;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 100);
    struct request_record *rec = record_fixture(&f, 71);
    const struct prompt_record p = {.is_known = true,
                                    .talk_hash = UINT64_MAX,
                                    .head_hash = 1,
                                    .cache_hash = UINT64_C(1) << 63,
                                    .head_bytes = 700,
                                    .cache_bytes = 3000,
                                    .cache_ttl_s = 3600,
                                    .affinity_key = 5,
                                    .needs = NEED_TOOLS | NEED_HEAD_CACHED,
                                    .routing = "order: a, b"};
    rec->prompt = p;
    f.attempts[0].cache_mark = CACHE_ASKED;
    f.attempts[1].cache_mark = CACHE_WITHHELD;
    assert_true(ledger_put(ledger_ring(l, 0), rec));
    rec = record_fixture(&f, 72);
    rec->prompt = (struct prompt_record){.is_known = true, .routing = ""};
    assert_true(ledger_put(ledger_ring(l, 0), rec));
    ledger_close(l);
    struct ledger_reader *r = open_reader(f.db);
    assert_int_equal(reader_record(r, 71, &arena, &got), ERR_OK);
    assert_true(got.prompt.is_known && got.prompt.talk_hash == p.talk_hash && got.prompt.head_hash == p.head_hash);
    assert_true(got.prompt.cache_hash == p.cache_hash && got.prompt.head_bytes == 700 &&
                got.prompt.cache_bytes == 3000);
    assert_true(got.prompt.cache_ttl_s == 3600 && got.prompt.affinity_key == 5 && got.prompt.needs == p.needs);
    assert_string_equal(got.prompt.routing, p.routing);
    assert_int_equal(got.attempts[0].cache_mark, CACHE_ASKED);
    assert_int_equal(got.attempts[1].cache_mark, CACHE_WITHHELD);
    assert_int_equal(got.attempts[2].cache_mark, CACHE_NOT_ASKED);
    assert_int_equal(reader_record(r, 72, &arena, &got), ERR_OK);
    assert_true(got.prompt.is_known && got.prompt.talk_hash == 0 && got.prompt.cache_ttl_s == 0);
    assert_string_equal(got.prompt.routing, "");
    ledger_reader_close(r);
    arena_fini(&arena);
    fixture_fini(&f);
}

static bool is_prompt_known(const char *db, uint64_t id)
{
    struct arena arena = {0};
    struct request_record rec;
    struct ledger_reader *r = open_reader(db);
    assert_int_equal(reader_record(r, id, &arena, &rec), ERR_OK);
    bool is_known = rec.prompt.is_known;
    ledger_reader_close(r);
    arena_fini(&arena);
    return is_known;
}

/* A row is written over what the one before it left bound: each member changes alone, goes away, and comes back. */
static void rows_after_each_other(void **state)
{
    struct fixture f;
    fixture_init(&f);
    enum { N = 40 };
    for (int way = 0; way < 2; way++) { /* in one batch, and each in its own */
        struct ledger *l = ledger_fixture(f.db, "off", 100);
        for (uint64_t i = 0; i < N; i++) {
            uint64_t before = n_written(l);
            assert_true(ledger_put(ledger_ring(l, 0), nth_record(&f, 1000 * (uint64_t)way + i)));
            if (way == 1)
                WAIT_FOR(n_written(l) > before);
        }
        ledger_close(l);
        for (uint64_t i = 0; i < N; i++)
            assert_reads_back(f.db, nth_record(&f, 1000 * (uint64_t)way + i));
    }
    fixture_fini(&f);
}

static void none_is_null(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 100);
    struct request_record *rec = record_fixture(&f, 78);
    rec->cost_nusd = rec->waste_nusd = NUSD_UNKNOWN;
    rec->provider = rec->model = NULL;
    rec->key = rec->effort = rec->adjusted = rec->trace_id = "";
    rec->served_link = -1;
    rec->status = 0;
    rec->outcome = OUTCOME_ALL_UNAVAILABLE;
    f.attempts[1].is_served = false;
    f.attempts[1].cost_nusd = f.attempts[1].waste_nusd = NUSD_UNKNOWN;
    f.attempts[1].price_version = NULL;
    assert_true(ledger_put(ledger_ring(l, 0), rec));
    ledger_close(l);
    assert_reads_back(f.db, rec);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM request WHERE cost_nusd IS NULL AND waste_nusd IS NULL"), 1);
    struct buf out = {0};
    record_json(rec, &out);
    assert_non_null(strstr(buf_cstr(&out), "\"cost_nusd\":null,\"waste_nusd\":null,\"adjusted\":null"));
    assert_non_null(strstr(buf_cstr(&out), "\"status\":null,\"outcome\":\"all_unavailable\",\"provider\":null"));
    buf_fini(&out);
    fixture_fini(&f);
}

static void names_are_data(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 100);
    struct request_record *rec = record_fixture(&f, 79);
    rec->route = "x'); DROP TABLE request; --";
    rec->key = "123";
    rec->model = "m\xc3\xa4rz \"quoted\" \xe2\x80\xa8";
    assert_true(ledger_put(ledger_ring(l, 0), rec));
    ledger_close(l);
    assert_reads_back(f.db, rec);
    fixture_fini(&f);
}

static void visible_while_writing(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 100);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(ledger_put(ledger_ring(l, 0), record_fixture(&f, id)));
        WAIT_FOR(n_written(l) == id);
        assert_reads_back(f.db, &f.rec);
    }
    struct ledger_reader *r = open_reader(f.db);
    struct buf list = {0};
    assert_int_equal(ledger_list_json(r, 2, 0, &list), ERR_OK);
    char three[TEXT_ID_BYTES], one[TEXT_ID_BYTES];
    text_id(3, three);
    text_id(1, one);
    assert_memory_equal(buf_cstr(&list), "[{\"id\":\"", 8);
    assert_memory_equal(list.p + 8, three, 17);
    assert_null(strstr(list.p, one));
    buf_clear(&list);
    assert_int_equal(ledger_list_json(r, 9, 2, &list), ERR_OK);
    assert_memory_equal(buf_cstr(&list) + 8, one, 17);
    uint64_t ids[2];
    size_t n_ids;
    assert_int_equal(reader_ids(r, ids, 2, &n_ids), ERR_OK);
    assert_true(n_ids == 2 && ids[0] == 3 && ids[1] == 2);
    struct buf none = {0};
    assert_int_equal(ledger_read_json(r, 4, &none), ERR_NOT_FOUND);
    buf_fini(&list);
    ledger_reader_close(r);
    ledger_close(l);
    fixture_fini(&f);
}

static void locked_rows_wait(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 100);
    assert_true(ledger_put(ledger_ring(l, 0), record_fixture(&f, 1)));
    WAIT_FOR(n_written(l) == 1);
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(f.db, &other), SQLITE_OK);
    sqlite3_busy_timeout(other, 5000);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (uint64_t id = 2; id <= 41; id++)
        assert_true(ledger_put(ledger_ring(l, 0), record_fixture(&f, id)));
    WAIT_FOR(is_degraded(l));
    struct ledger_stats s;
    ledger_stats(l, &s);
    assert_int_equal(s.rows_written, 1);
    assert_int_equal(s.rows_waiting, 40);
    assert_non_null(strstr(s.last_error, "locked"));
    /* Someone else's name takes the next id meanwhile: ours must not collide with it. */
    assert_int_equal(
        sqlite3_exec(other, "INSERT INTO name VALUES ((SELECT max(id) + 1 FROM name), 'foreign')", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    WAIT_FOR(n_written(l) == 41);
    WAIT_FOR(!is_degraded(l));
    struct request_record *rec = record_fixture(&f, 99);
    rec->route = "new-route";
    assert_true(ledger_put(ledger_ring(l, 0), rec));
    ledger_close(l);
    assert_reads_back(f.db, rec);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM request"), 42);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM attempt"), 84);
    fixture_fini(&f);
}

static void losses_are_counted(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 10);
    assert_true(ledger_put(ledger_ring(l, 0), record_fixture(&f, 1)));
    WAIT_FOR(n_written(l) == 1);
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(f.db, &other), SQLITE_OK);
    sqlite3_busy_timeout(other, 5000);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (uint64_t id = 2; id <= 11; id++)
        assert_true(ledger_put(ledger_ring(l, 0), record_fixture(&f, id)));
    for (uint64_t id = 12; id <= 14; id++)
        assert_false(ledger_put(ledger_ring(l, 0), record_fixture(&f, id)));
    struct ledger_stats s;
    ledger_stats(l, &s);
    assert_int_equal(s.rows_lost, 3);
    assert_true(s.is_degraded);
    sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(other);
    ledger_close(l);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM request"), 11);
    assert_int_equal(sql_int(f.db, "SELECT rows_lost FROM run ORDER BY id DESC LIMIT 1"), 3);
    fixture_fini(&f);
}

static void migrates(void **state)
{
    struct fixture f;
    fixture_init(&f);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f.db, &db), SQLITE_OK); /* version 0: a file without tables */
    assert_int_equal(sqlite3_exec(db, "VACUUM", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    struct ledger *l = ledger_fixture(f.db, "off", 10);
    assert_true(ledger_put(ledger_ring(l, 0), record_fixture(&f, 5)));
    ledger_close(l);
    assert_int_equal(sql_int(f.db, "SELECT max(version) FROM schema"), SCHEMA_VERSION);
    /* Version 3 kept less of a prompt: it can be read as it is, and says so. */
    assert_int_equal(sqlite3_open(f.db, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "ALTER TABLE request DROP COLUMN talk_hash; ALTER TABLE request DROP COLUMN head_hash;"
                     "ALTER TABLE request DROP COLUMN cache_hash; ALTER TABLE request DROP COLUMN head_bytes;"
                     "ALTER TABLE request DROP COLUMN cache_bytes;"
                     "ALTER TABLE request DROP COLUMN cache_ttl_s;"
                     "ALTER TABLE request DROP COLUMN affinity_key; ALTER TABLE request DROP COLUMN needs;"
                     "ALTER TABLE request DROP COLUMN routing; ALTER TABLE request DROP COLUMN a_service;"
                     "ALTER TABLE attempt DROP COLUMN service; DELETE FROM schema WHERE version > 3",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    assert_reads_back(f.db, &f.rec);
    assert_false(is_prompt_known(f.db, 5));
    /* Version 2 had no table of former prices. */
    assert_int_equal(sqlite3_open(f.db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DROP TABLE repriced; DELETE FROM schema WHERE version > 2", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_reads_back(f.db, &f.rec);
    /* Version 1 had no table of runs. */
    assert_int_equal(sqlite3_open(f.db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DROP TABLE run; DELETE FROM schema WHERE version > 1", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    ledger_close(ledger_fixture(f.db, "off", 10));
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM schema"), SCHEMA_VERSION);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM run WHERE ended_ms IS NOT NULL"), 1);
    assert_reads_back(f.db, &f.rec);
    assert_false(is_prompt_known(f.db, 5)); /* a row that was written before stays as it is */
    l = ledger_fixture(f.db, "off", 10);
    record_fixture(&f, 6)->prompt = (struct prompt_record){.is_known = true, .routing = ""};
    assert_true(ledger_put(ledger_ring(l, 0), &f.rec));
    ledger_close(l);
    assert_true(is_prompt_known(f.db, 6));
    fixture_fini(&f);
}

static void newer_and_foreign_files_are_refused(void **state)
{
    struct fixture f;
    fixture_init(&f);
    ledger_close(ledger_fixture(f.db, "off", 10));
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f.db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "INSERT INTO schema VALUES (99, 0)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    struct ledger_options o = {.path = f.db, .access_log = "off", .flush_ms = 5, .queue_rows = 10, .n_rings = 1};
    struct ledger *l = NULL;
    char message[256] = "";
    assert_int_equal(ledger_open(&o, &l, message, sizeof message), ERR_UNSUPPORTED);
    assert_non_null(strstr(message, "newer version"));
    o.path = "/nonexistent/folder/x.db";
    message[0] = '\0';
    assert_int_equal(ledger_open(&o, &l, message, sizeof message), ERR_IO);
    assert_non_null(strstr(message, "/nonexistent/folder/x.db"));
    struct ledger_reader *r = NULL;
    assert_int_equal(ledger_reader_open("/nonexistent/x.db", &r, message, sizeof message), ERR_NOT_FOUND);
    fixture_fini(&f);
}

static void unclean_end_is_marked(void **state)
{
    struct fixture f;
    fixture_init(&f);
    ledger_close(ledger_fixture(f.db, "off", 10));
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM run WHERE is_unclean OR ended_ms IS NULL"), 0);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f.db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE run SET ended_ms = NULL", NULL, NULL, NULL), SQLITE_OK); /* a crash */
    sqlite3_close(db);
    ledger_close(ledger_fixture(f.db, "off", 10));
    assert_int_equal(sql_int(f.db, "SELECT is_unclean FROM run WHERE id = 1"), 1);
    assert_int_equal(sql_int(f.db, "SELECT is_unclean = 0 AND ended_ms >= started_ms FROM run WHERE id = 2"), 1);
    fixture_fini(&f);
}

static void keep_last(void *arg, const struct keepalive *k)
{
    assert_string_equal(k->provider, "openai");
    assert_string_equal(k->model, "gpt-x");
    *(struct keepalive *)arg = *k;
}

static void keepalives(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, f.log, 10);
    struct attempt_record a = attempt_fixture(1, OUTCOME_OK, false);
    assert_true(ledger_put_keepalive(ledger_ring(l, 0), 7, INT64_C(1796022000123), &a));
    assert_true(ledger_put(ledger_ring(l, 0), record_fixture(&f, 8)));
    ledger_close(l);
    struct ledger_reader *r = open_reader(f.db);
    struct buf out = {0};
    assert_int_equal(ledger_read_json(r, 7, &out), ERR_OK);
    assert_non_null(strstr(buf_cstr(&out), "\"kind\":\"keepalive\""));
    assert_non_null(strstr(out.p, "\"started\":\"2026-11-30T"));
    struct arena arena = {0};
    struct summary s;
    assert_int_equal(summary_read(r, 0, &arena, &s), ERR_OK);
    assert_int_equal(s.n_requests, 1);
    assert_int_equal(s.n_keepalives, 1);
    assert_int_equal(s.keepalive_nusd, 1234567);
    struct keepalive got = {0};
    assert_int_equal(keepalives_read(r, 7, keep_last, &got), ERR_OK);
    assert_int_equal(got.started_wall_ms, INT64_C(1796022000123));
    assert_true(got.outcome == OUTCOME_OK && got.cost_nusd == 1234567);
    got.cost_nusd = 5;
    assert_int_equal(keepalives_read(r, 8, keep_last, &got), ERR_OK);
    assert_int_equal(got.cost_nusd, 5); /* there is none from 8 on: a request's attempts are not keepalives */
    ledger_reader_close(r);
    arena_fini(&arena);
    buf_fini(&out);
    fixture_fini(&f);
}

static void sums(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 100);
    uint32_t counter = 0;
    int64_t t0 = INT64_C(1796022000000);
    for (int i = 0; i < 4; i++) {
        struct request_record *rec = record_fixture(&f, ledger_new_id(t0 + i * 1000, 0, &counter));
        if (i == 3) {
            rec->outcome = OUTCOME_CLIENT_CANCELLED;
            rec->cost_nusd = rec->waste_nusd = NUSD_UNKNOWN;
        }
        assert_true(ledger_put(ledger_ring(l, 0), rec));
    }
    ledger_close(l);
    struct ledger_reader *r = open_reader(f.db);
    struct arena arena = {0};
    struct summary s;
    assert_int_equal(summary_read(r, 0, &arena, &s), ERR_OK);
    assert_int_equal(s.n_requests, 4);
    assert_int_equal(s.n_attempts, 8);
    assert_int_equal(s.n_unpriced, 1);
    assert_int_equal(s.cost_nusd, 3 * 2469134);
    assert_int_equal(s.waste_nusd, 3 * 1234567);
    assert_int_equal(summary_waste_milli(&s), 50000);
    assert_int_equal(s.n_outcomes, 2);
    assert_string_equal(s.outcomes[0].word, "ok");
    assert_int_equal(s.outcomes[0].n, 3);
    assert_int_equal(s.n_targets, 2); /* the skipped attempts are not started ones */
    assert_string_equal(s.targets[0].provider, "anthropic");
    assert_int_equal(s.targets[0].n_served, 4);
    assert_int_equal(s.targets[1].n_failed, 4);
    assert_int_equal(s.counting.parts[TOKENS_REPORTED].n, 4);
    assert_int_equal(s.counting.parts[TOKENS_ESTIMATED].n, 4);
    assert_int_equal(s.counting.parts[TOKENS_UNBILLED].n, 0);
    assert_null(s.estimates.v);
    struct buf out = {0};
    summary_json(&s, &out);
    assert_non_null(strstr(buf_cstr(&out), "\"waste_percent\":50.000,\"unpriced_requests\":1"));
    assert_non_null(strstr(buf_cstr(&out), "\"tokens_from\":{\"reported\":{\"attempts\":4,"));
    assert_int_equal(summary_read(r, t0 + 2000, &arena, &s), ERR_OK);
    assert_int_equal(s.n_requests, 2);
    assert_true(reader_now_ms(r) > INT64_C(1700000000000));
    buf_fini(&out);
    ledger_reader_close(r);
    arena_fini(&arena);
    fixture_fini(&f);
}

static void put_raced(struct fixture *f, struct ledger *l, uint64_t id, int64_t ttft_us, int winner)
{
    struct request_record *rec = record_fixture(f, id);
    rec->ttft_us = ttft_us;
    rec->n_attempts = winner < 0 ? 1 : 2;
    f->attempts[0] = attempt_fixture(1, winner == 1 ? OUTCOME_HEDGE_LOST : OUTCOME_OK, winner != 1);
    f->attempts[1] = attempt_fixture(2, winner == 0 ? OUTCOME_HEDGE_LOST : OUTCOME_OK, winner == 1);
    f->attempts[1].kind = ATTEMPT_HEDGE;
    assert_true(ledger_put(ledger_ring(l, 0), rec));
}

/* Ninety are quick, two are won by their hedge at 300 ms, eight are slow and won against theirs: the slowest of a
 * hundred would have been at 1,100 ms (a tenth waits, the two leave, and of eight the last is 1 % and a quarter), and
 * was at 1,000. */
static void what_hedges_bought(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 200);
    uint64_t id = 1;
    for (int i = 0; i < 90; i++)
        put_raced(&f, l, id++, 100000, -1);
    for (int i = 0; i < 2; i++)
        put_raced(&f, l, id++, 300000, 1);
    for (int i = 0; i < 8; i++)
        put_raced(&f, l, id++, 400000 + i * 100000, 0);
    ledger_close(l);
    struct ledger_reader *r = open_reader(f.db);
    struct hedging h;
    assert_int_equal(hedging_read(r, 0, &h), ERR_OK);
    assert_int_equal(h.n_started, 10);
    assert_int_equal(h.n_won, 2);
    assert_int_equal(h.cost_nusd, 10 * 1234567);
    assert_int_equal(h.p99_us, 1000000);
    assert_int_equal(h.p99_without_us, 1100000);
    assert_false(h.is_at_least);
    struct buf text = {0};
    hedging_text(&h, &text);
    assert_string_equal(buf_cstr(&text),
                        "hedges     10 started, 2 won: bought 100 ms of p99 (1000 instead of 1100 ms to "
                        "the first token) for $0.012345670");
    assert_int_equal(hedging_read(r, 93, &h), ERR_OK);
    assert_int_equal(h.n_won, 0);
    assert_int_equal(hedging_read(r, 1000, &h), ERR_OK);
    buf_clear(&text);
    hedging_text(&h, &text);
    assert_int_equal(text.n, 0);
    buf_fini(&text);
    ledger_reader_close(r);
    fixture_fini(&f);
}

static size_t read_file(const char *path, char *out, size_t cap)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t n = fread(out, 1, cap - 1, file);
    out[n] = '\0';
    fclose(file);
    return n;
}

static void access_lines(void **state)
{
    struct fixture f;
    fixture_init(&f);
    struct ledger *l = ledger_fixture("", f.log, 100);
    record_fixture(&f, 42)->waste_nusd = NUSD_UNKNOWN;
    assert_true(ledger_put(ledger_ring(l, 0), &f.rec));
    ledger_close(l);
    char text[4096], id[TEXT_ID_BYTES], want[1024];
    read_file(f.log, text, sizeof text);
    text_id(42, id);
    snprintf(want, sizeof want,
             "{\"id\":\"%s\",\"time\":\"2026-11-30T07:00:00.123Z\",\"key\":\"team\",\"route\":\"flagship\",\"dialect\":"
             "\"openai\",\"stream\":true,\"status\":200,\"outcome\":\"ok\",\"provider\":\"anthropic\",\"model\":"
             "\"claude-x\",\"attempts\":2,\"ttft_ms\":352,\"total_ms\":1200,\"input\":12,\"output\":40,\"cost_usd\":"
             "0.002469134,\"waste_usd\":null}\n",
             id);
    assert_string_equal(text, want);
    fixture_fini(&f);
}

static void reopens_after_rotation(void **state)
{
    struct fixture f;
    fixture_init(&f);
    char message[128] = "", text[4096], moved[128];
    struct access_log *log = NULL;
    assert_int_equal(access_log_open(f.log, &log, message, sizeof message), ERR_OK);
    struct arena arena = {0};
    struct buf bytes = {0};
    struct packed p = packed_of(record_fixture(&f, 1), &arena, &bytes);
    access_log_add(log, &p);
    assert_true(access_log_flush(log));
    snprintf(moved, sizeof moved, "%s.1", f.log);
    assert_int_equal(rename(f.log, moved), 0);
    access_log_add(log, &p);
    assert_true(access_log_flush(log));
    assert_int_equal(access_log_reopen(log), ERR_OK);
    access_log_add(log, &p);
    access_log_close(log);
    size_t n_old = read_file(moved, text, sizeof text), n_new = read_file(f.log, text, sizeof text);
    assert_int_equal(n_old, 2 * n_new);
    unlink(moved);
    buf_fini(&bytes);
    arena_fini(&arena);
    fixture_fini(&f);
}

static void put_eight(struct store *s, struct fixture *f, uint64_t first, bool at_once)
{
    struct arena arena = {0};
    struct buf bytes[STORE_GROUP] = {0};
    struct packed p[STORE_GROUP];
    for (uint64_t i = 0; i < STORE_GROUP; i++)
        p[i] = packed_of(nth_record(f, first + i), &arena, &bytes[i]);
    assert_int_equal(store_begin(s), ERR_OK);
    if (at_once)
        assert_int_equal(store_put(s, p, STORE_GROUP), ERR_OK);
    for (unsigned i = 0; !at_once && i < STORE_GROUP; i++)
        assert_int_equal(store_put(s, &p[i], 1), ERR_OK);
    assert_int_equal(store_commit(s), ERR_OK);
    for (unsigned i = 0; i < STORE_GROUP; i++)
        buf_fini(&bytes[i]);
    arena_fini(&arena);
}

/* Rows of one statement and rows of eight are the same rows; ids that are there already change nothing in either. */
static void a_group_is_as_its_rows(void **state)
{
    static const uint64_t firsts[] = {0, 8, 4, 40, 61, 16, 16};
    struct fixture f[2];
    char message[128] = "";
    for (int way = 0; way < 2; way++) {
        struct store *s = NULL;
        fixture_init(&f[way]);
        assert_int_equal(store_open(f[way].db, &s, message, sizeof message), ERR_OK);
        for (size_t i = 0; i < RM_COUNTOF(firsts); i++)
            put_eight(s, &f[way], firsts[i], way == 0);
        store_close(s);
    }
    assert_int_equal(sql_int(f[0].db, "SELECT count(*) FROM request"), 40);
    for (uint64_t i = 0; i < 72; i++) {
        struct buf texts[2] = {0};
        enum err found[2];
        for (int way = 0; way < 2; way++) {
            struct ledger_reader *r = open_reader(f[way].db);
            found[way] = ledger_read_json(r, i + 1, &texts[way]);
            ledger_reader_close(r);
        }
        assert_int_equal(found[0], found[1]);
        assert_string_equal(buf_cstr(&texts[0]), buf_cstr(&texts[1]));
        buf_fini(&texts[0]);
        buf_fini(&texts[1]);
    }
    fixture_fini(&f[0]);
    fixture_fini(&f[1]);
}

/* A pipe that is full takes a part of a line: the rest follows, nothing is doubled and nothing is missing. */
static void short_writes_are_finished(void **state)
{
    struct fixture f;
    fixture_init(&f);
    char message[128] = "";
    int ends[2], saved = dup(STDOUT_FILENO);
    fflush(stdout);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_int_equal(dup2(ends[1], STDOUT_FILENO), STDOUT_FILENO);
    struct access_log *log = NULL;
    enum err e = access_log_open("stdout", &log, message, sizeof message);
    enum { N = 400 };
    struct arena arena = {0};
    struct buf line = {0}, got = {0}, bytes = {0};
    struct packed p = packed_of(record_fixture(&f, 7), &arena, &bytes);
    for (int i = 0; i < N; i++)
        access_log_add(log, &p);
    access_log_line(&p, &line);
    size_t want = N * (line.n + 1);
    int pipe_bytes = fcntl(ends[1], F_SETPIPE_SZ, 4096);
    for (int turn = 0; turn < 10000 && got.n < want; turn++) {
        access_log_flush(log);
        char *to = buf_reserve(&got, 1000);
        ssize_t n = read(ends[0], to, 1000);
        if (n > 0)
            buf_grew(&got, (size_t)n);
    }
    dup2(saved, STDOUT_FILENO);
    close(saved);
    assert_int_equal(e, ERR_OK);
    assert_int_equal(pipe_bytes, 4096);
    assert_int_equal(got.n, want);
    for (size_t i = 0; i < N; i++) {
        assert_memory_equal(got.p + i * (line.n + 1), "{\"id\":\"req_", 11);
        assert_int_equal(got.p[(i + 1) * (line.n + 1) - 1], '\n');
    }
    access_log_close(log);
    close(ends[0]);
    close(ends[1]);
    buf_fini(&line);
    buf_fini(&got);
    buf_fini(&bytes);
    arena_fini(&arena);
    fixture_fini(&f);
}

/* No file may grow: what a full disk does, without filling one. */
static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void full_disk_rows_wait(void **state)
{
    struct fixture f;
    fixture_init(&f);
    signal(SIGXFSZ, SIG_IGN);
    struct ledger *l = ledger_fixture(f.db, f.log, 1000);
    assert_true(ledger_put(ledger_ring(l, 0), record_fixture(&f, 1)));
    WAIT_FOR(n_written(l) == 1);
    set_file_limit(700); /* ends inside the second line of the access log */
    for (uint64_t id = 2; id <= 301; id++)
        assert_true(ledger_put(ledger_ring(l, 0), record_fixture(&f, id)));
    WAIT_FOR(is_degraded(l));
    set_file_limit(RLIM_INFINITY);
    WAIT_FOR(n_written(l) == 301);
    WAIT_FOR(!is_degraded(l));
    ledger_close(l);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM request"), 301);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
    FILE *file = fopen(f.log, "r");
    char line[1024];
    int n = 0;
    for (; fgets(line, sizeof line, file) != NULL; n++) {
        assert_memory_equal(line, "{\"id\":\"req_", 11);
        assert_string_equal(line + strlen(line) - 2, "}\n");
    }
    fclose(file);
    assert_int_equal(n, 301);
    fixture_fini(&f);
}

static void ids_are_in_time_order(void **state)
{
    uint32_t counter = 0xfffe;
    uint64_t a = ledger_new_id(INT64_C(1796022000123), 3, &counter);
    uint64_t b = ledger_new_id(INT64_C(1796022000124), 0, &counter);
    uint64_t c = ledger_new_id(INT64_C(1796022000124), 0, &counter);
    assert_true(a < b && b != c);
    assert_int_equal(a >> 22, INT64_C(1796022000123) - INT64_C(1577836800000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(names_as_in_the_head),
        cmocka_unit_test(what_a_prompt_is_known_by),
        cmocka_unit_test(names_that_are_ready),
        cmocka_unit_test(rows_after_each_other),
        cmocka_unit_test(none_is_null),
        cmocka_unit_test(names_are_data),
        cmocka_unit_test(visible_while_writing),
        cmocka_unit_test(locked_rows_wait),
        cmocka_unit_test(losses_are_counted),
        cmocka_unit_test(migrates),
        cmocka_unit_test(newer_and_foreign_files_are_refused),
        cmocka_unit_test(unclean_end_is_marked),
        cmocka_unit_test(keepalives),
        cmocka_unit_test(sums),
        cmocka_unit_test(what_hedges_bought),
        cmocka_unit_test(access_lines),
        cmocka_unit_test(reopens_after_rotation),
        cmocka_unit_test(a_group_is_as_its_rows),
        cmocka_unit_test(short_writes_are_finished),
        cmocka_unit_test(full_disk_rows_wait),
        cmocka_unit_test(ids_are_in_time_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

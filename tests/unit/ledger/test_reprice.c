#include "unit.h"

#include "fixture.h"

#include "base/mem.h"
#include "ledger/rates.h"
#include "ledger/reprice.h"

static const struct price cheap = {1000000, 2000000, 500000, -1, -1, "new-1", "t", NULL};
static const struct price dear = {3000000, 15000000, 300000, 3750000, 6000000, "new-2", "t", NULL};

static const struct price flex = {1500000, 7500000, 150000, 1875000, 3000000, "new-flex", "t", NULL};

/* openai's and anthropic's; nobody else has a price, and none before 2026. Anthropic's flex has rates of its own. */
static const struct price *find(const struct attempt_record *a, int64_t wall_ms, bool *is_standin, void *arg)
{
    bool is_anthropic = strcmp(a->provider, "anthropic") == 0, is_flex = strcmp(a->service, "flex") == 0;
    *is_standin = a->service[0] != '\0' && !(is_anthropic && is_flex);
    if (wall_ms < INT64_C(1767225600000))
        return NULL;
    if (is_anthropic)
        return is_flex ? &flex : &dear;
    return strcmp(a->provider, "openai") == 0 ? &cheap : NULL;
}

/*        tokens 12 in, 3 read, 2 and 1 written, 40 out
 * cheap  12 + 3 x 0.5 + 3 (written as input) + 80                    =  96.5 micro-dollars
 * dear   12 x 3 + 3 x 0.3 + 2 x 3.75 + 1 x 6 + 40 x 15              = 650.4 */
enum { CHEAP_NUSD = 96500, DEAR_NUSD = 650400, OLD_NUSD = 1234567 };

static struct ledger_reader *open_reader(const char *db)
{
    struct ledger_reader *r = NULL;
    char message[256] = "";
    if (ledger_reader_open(db, &r, message, sizeof message) != ERR_OK)
        fail_msg("ledger_reader_open: %s", message);
    return r;
}

static uint64_t id_at(int64_t wall_ms, uint32_t n)
{
    return ledger_new_id(wall_ms, 0, &n);
}

static const int64_t july_18 = INT64_C(1784332800000);

/* Three requests an hour apart from July 18 on, of three attempts each, and a keepalive. */
static void fill(struct fixture *f)
{
    struct ledger *l = ledger_fixture(f->db, "off", 100);
    for (int i = 0; i < 3; i++) {
        struct request_record *r = record_fixture(f, id_at(july_18 + i * 3600000, 1));
        r->started_wall_ms = july_18 + i * 3600000;
        r->attempts[2].cost_nusd = r->attempts[2].waste_nusd = 0;
        assert_true(ledger_put(ledger_ring(l, 0), r));
    }
    struct attempt_record keepalive = attempt_fixture(1, OUTCOME_OK, false);
    keepalive.provider = "anthropic";
    keepalive.price_version = NULL;
    keepalive.cost_nusd = NUSD_UNKNOWN;
    keepalive.waste_nusd = 0;
    assert_true(ledger_put_keepalive(ledger_ring(l, 0), id_at(july_18, 9), july_18, &keepalive));
    ledger_close(l);
}

static void read_report(const char *db, const struct reprice_ask *ask, struct arena *a, struct reprice_report *out)
{
    struct ledger_reader *r = open_reader(db);
    assert_int_equal(reprice_read(r, ask, a, out), ERR_OK);
    ledger_reader_close(r);
}

static int64_t write_all(const char *db, const struct reprice_ask *ask)
{
    struct ledger_reader *r = open_reader(db);
    char message[256] = "";
    int64_t n = -1;
    if (reprice_write(r, db, ask, &n, message, sizeof message) != ERR_OK)
        fail_msg("reprice_write: %s", message);
    ledger_reader_close(r);
    return n;
}

static const struct reprice_group *group(const struct reprice_report *r, const char *provider, const char *was)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->groups[i].provider, provider) == 0 && strcmp(r->groups[i].was_version, was) == 0)
            return &r->groups[i];
    fail_msg("no group %s %s", provider, was);
    return NULL;
}

/* The class of service that a row keeps chooses the rates, and one without rates of its own is marked as such. */
static void by_class_of_service(void **state)
{
    struct fixture f;
    struct arena a = {0};
    struct reprice_ask ask = {.find = find};
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 100);
    struct request_record *r = record_fixture(&f, id_at(july_18, 1)), rec;
    r->started_wall_ms = july_18;
    snprintf(r->attempts[0].service, SERVICE_BYTES, "priority");
    snprintf(r->attempts[1].service, SERVICE_BYTES, "flex");
    r->attempts[1].is_service_told = true;
    assert_true(ledger_put(ledger_ring(l, 0), r));
    ledger_close(l);
    assert_int_equal(write_all(f.db, &ask), 2);
    struct ledger_reader *reader = open_reader(f.db);
    assert_int_equal(reader_record(reader, r->id, &a, &rec), ERR_OK);
    assert_string_equal(rec.attempts[0].service, "priority");
    assert_false(rec.attempts[0].is_service_told);
    assert_true(rec.attempts[0].is_price_standin);
    assert_int_equal(rec.attempts[0].cost_nusd, CHEAP_NUSD);
    assert_string_equal(rec.attempts[1].service, "flex");
    assert_true(rec.attempts[1].is_service_told);
    assert_false(rec.attempts[1].is_price_standin);
    assert_int_equal(rec.attempts[1].cost_nusd, DEAR_NUSD / 2);
    assert_string_equal(rec.attempts[1].price_version, "new-flex");
    assert_string_equal(rec.attempts[2].service, "");
    assert_true(rec.attempts[1].is_served && rec.attempts[1].is_started);
    ledger_reader_close(reader);
    assert_int_equal(write_all(f.db, &ask), 0); /* a second run changes nothing */
    arena_fini(&a);
    fixture_fini(&f);
}

static void the_difference_first(void **state)
{
    struct fixture f;
    struct arena a = {0};
    struct reprice_report report;
    struct reprice_ask ask = {.find = find};
    fixture_init(&f);
    fill(&f);
    read_report(f.db, &ask, &a, &report);
    assert_int_equal(report.n_requests, 4);
    assert_int_equal(report.n_attempts, 7); /* a skip is no attempt */
    assert_int_equal(report.n_changed, 7);
    assert_int_equal(report.was_nusd, 6 * OLD_NUSD);
    assert_int_equal(report.now_nusd, 3 * CHEAP_NUSD + 4 * DEAR_NUSD);
    const struct reprice_group *g = group(&report, "openai", "2026-11-01");
    assert_string_equal(g->now_version, "new-1");
    assert_int_equal(g->n_attempts, 3);
    assert_int_equal(g->now_nusd, 3 * CHEAP_NUSD);
    g = group(&report, "anthropic", "");
    assert_int_equal(g->n_was_unknown, 1);
    assert_int_equal(g->now_nusd, DEAR_NUSD);
    /* nothing was written */
    assert_int_equal(sql_int(f.db, "SELECT sum(cost_nusd) FROM request"), 3 * INT64_C(2469134));
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM repriced"), 0);
    arena_fini(&a);
    fixture_fini(&f);
}

static void written_and_kept(void **state)
{
    struct fixture f;
    struct arena a = {0};
    struct reprice_report report;
    struct reprice_ask ask = {.find = find};
    fixture_init(&f);
    fill(&f);
    assert_int_equal(write_all(f.db, &ask), 7);
    struct ledger_reader *r = open_reader(f.db);
    struct request_record rec;
    assert_int_equal(reader_record(r, id_at(july_18, 1), &a, &rec), ERR_OK);
    assert_int_equal(rec.cost_nusd, CHEAP_NUSD + DEAR_NUSD);
    assert_int_equal(rec.waste_nusd, CHEAP_NUSD);
    assert_int_equal(rec.attempts[0].cost_nusd, CHEAP_NUSD);
    assert_int_equal(rec.attempts[0].waste_nusd, CHEAP_NUSD);
    assert_string_equal(rec.attempts[0].price_version, "new-1");
    assert_int_equal(rec.attempts[1].cost_nusd, DEAR_NUSD);
    assert_int_equal(rec.attempts[1].waste_nusd, 0);
    assert_string_equal(rec.attempts[1].price_version, "new-2");
    assert_int_equal(rec.attempts[1].tokens.cache_write_1h, 1); /* tokens stay */
    assert_int_equal(rec.attempts[1].tokens.output, 40);
    assert_int_equal(reader_record(r, id_at(july_18, 9), &a, &rec), ERR_OK);
    assert_int_equal(rec.cost_nusd, DEAR_NUSD);
    assert_int_equal(rec.waste_nusd, 0);
    ledger_reader_close(r);
    /* what it was before is kept */
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM repriced"), 7);
    assert_int_equal(sql_int(f.db, "SELECT sum(cost_nusd) FROM repriced"), 6 * OLD_NUSD);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM repriced WHERE price_version IS NULL AND cost_nusd IS NULL"),
                     1);
    /* a second run finds nothing to do */
    read_report(f.db, &ask, &a, &report);
    assert_int_equal(report.n_changed, 0);
    assert_int_equal(report.was_nusd, report.now_nusd);
    assert_int_equal(write_all(f.db, &ask), 0);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM repriced"), 7);
    arena_fini(&a);
    fixture_fini(&f);
}

static void within_bounds(void **state)
{
    struct fixture f;
    struct arena a = {0};
    struct reprice_report report;
    struct reprice_ask ask = {.find = find, .since_ms = july_18 + 3600000, .until_ms = july_18 + 7200000};
    fixture_init(&f);
    fill(&f);
    read_report(f.db, &ask, &a, &report);
    assert_int_equal(report.n_requests, 1);
    assert_int_equal(report.n_attempts, 2);
    ask.provider = "openai";
    assert_int_equal(write_all(f.db, &ask), 1);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM request WHERE cost_nusd = 96500 + 1234567"), 1);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM request WHERE cost_nusd = 2469134"), 2);
    arena_fini(&a);
    fixture_fini(&f);
}

/* A price that is not known takes nothing away. */
static void unknown_stays(void **state)
{
    struct fixture f;
    struct arena a = {0};
    struct reprice_report report;
    struct reprice_ask ask = {.find = find};
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 100);
    struct request_record *rec = record_fixture(&f, id_at(july_18, 1));
    rec->attempts[0].provider = rec->attempts[1].provider = "elsewhere";
    assert_true(ledger_put(ledger_ring(l, 0), rec));
    ledger_close(l);
    read_report(f.db, &ask, &a, &report);
    assert_int_equal(report.n_changed, 0);
    assert_int_equal(report.groups[0].n_no_price, 1);
    assert_int_equal(report.now_nusd, 2 * OLD_NUSD);
    assert_int_equal(write_all(f.db, &ask), 0);
    assert_int_equal(sql_int(f.db, "SELECT cost_nusd FROM request"), 2469134);
    arena_fini(&a);
    fixture_fini(&f);
}

/* More than one page, both of requests and of keepalives. */
static void many_pages(void **state)
{
    enum { N = 450 };
    struct fixture f;
    struct reprice_ask ask = {.find = find};
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 4 * N);
    for (int i = 0; i < N; i++) {
        struct request_record *rec = record_fixture(&f, id_at(july_18 + i, 1));
        struct attempt_record keepalive = attempt_fixture(1, OUTCOME_OK, false);
        assert_true(ledger_put(ledger_ring(l, 0), rec));
        keepalive.provider = "anthropic";
        assert_true(ledger_put_keepalive(ledger_ring(l, 0), id_at(july_18 + i, 9), july_18 + i, &keepalive));
    }
    ledger_close(l);
    assert_int_equal(write_all(f.db, &ask), 3 * N);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM attempt WHERE kind = 1 AND cost_nusd = 650400"), N);
    assert_int_equal(sql_int(f.db, "SELECT count(*) FROM request WHERE a_cost_nusd = 650400"), N);
    assert_int_equal(write_all(f.db, &ask), 0);
    fixture_fini(&f);
}

static void rates_of_a_route(void **state)
{
    struct fixture f;
    struct arena a = {0};
    struct route_rates rates;
    fixture_init(&f);
    fill(&f);
    struct ledger_reader *r = open_reader(f.db);
    assert_int_equal(rates_read(r, "flagship", 0, &a, &rates), ERR_OK);
    assert_int_equal(rates.n, 2); /* a keepalive is no client's */
    const struct target_rate *t = &rates.targets[1];
    assert_string_equal(t->provider, "openai");
    assert_int_equal(t->n_attempts, 3);
    assert_int_equal(t->n_failed, 3);
    assert_int_equal(t->n_billed, 3);
    assert_int_equal(t->billed_us, 3 * (900000 - 100));
    assert_int_equal(t->billed_output, 120);
    assert_int_equal(rates.targets[0].n_failed, 0);
    assert_int_equal(rates.n_answered, 3);
    assert_int_equal(rates.answered.input, 36);
    assert_int_equal(rates.answered.cache_write_1h, 3);
    assert_int_equal(rates.answered.reasoning, 21);
    assert_int_equal(rates_read(r, "flagship", july_18 + 3600000, &a, &rates), ERR_OK);
    assert_int_equal(rates.n_answered, 2);
    assert_int_equal(rates_read(r, "another", 0, &a, &rates), ERR_OK);
    assert_int_equal(rates.n, 0);
    ledger_reader_close(r);
    arena_fini(&a);
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_difference_first), cmocka_unit_test(written_and_kept), cmocka_unit_test(within_bounds),
        cmocka_unit_test(unknown_stays),        cmocka_unit_test(many_pages),       cmocka_unit_test(rates_of_a_route),
        cmocka_unit_test(by_class_of_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

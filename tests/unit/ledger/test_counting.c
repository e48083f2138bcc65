/* Where tokens come from, and how estimates are told. */
#include "unit.h"

#include "fixture.h"
#include "ledger/counting.h"

static struct buf text;

static int teardown(void **state)
{
    buf_fini(&text);
    text = (struct buf){0};
    return 0;
}

static void read_of(uint64_t since_id, struct counting *out, const struct fixture *f)
{
    struct ledger_reader *r = NULL;
    char message[200];
    assert_int_equal(ledger_reader_open(f->db, &r, message, sizeof message), ERR_OK);
    assert_int_equal(counting_read(r, since_id, out), ERR_OK);
    ledger_reader_close(r);
}

static void test_parts(void **state)
{
    struct fixture f;
    struct counting c;
    fixture_init(&f);
    struct ledger *l = ledger_fixture(f.db, "off", 2000);
    for (uint64_t id = 1; id <= 3; id++) {
        struct request_record *rec = record_fixture(&f, id);
        rec->n_attempts = 3;
        f.attempts[0] = attempt_fixture(1, OUTCOME_TTFT_TIMEOUT, false); /* estimated */
        f.attempts[1] = attempt_fixture(2, OUTCOME_OVERLOADED, false);
        f.attempts[1].tokens_from = TOKENS_UNBILLED;
        f.attempts[1].cost_nusd = f.attempts[1].waste_nusd = 0;
        f.attempts[2] = attempt_fixture(3, OUTCOME_OK, true); /* reported, and the one inline */
        f.attempts[2].cost_nusd = id == 3 ? NUSD_UNKNOWN : 500;
        assert_true(ledger_put(ledger_ring(l, 0), rec));
    }
    ledger_close(l);
    read_of(0, &c, &f);
    assert_int_equal(c.parts[TOKENS_REPORTED].n, 3);
    assert_int_equal(c.parts[TOKENS_REPORTED].n_unpriced, 1);
    assert_int_equal(c.parts[TOKENS_REPORTED].cost_nusd, 1000);
    assert_int_equal(c.parts[TOKENS_REPORTED].waste_nusd, 0);
    assert_int_equal(c.parts[TOKENS_ESTIMATED].n, 3);
    assert_int_equal(c.parts[TOKENS_ESTIMATED].cost_nusd, 3 * 1234567);
    assert_int_equal(c.parts[TOKENS_ESTIMATED].waste_nusd, 3 * 1234567);
    assert_int_equal(c.parts[TOKENS_UNBILLED].n, 3);
    assert_int_equal(c.parts[TOKENS_UNBILLED].cost_nusd, 0);
    counting_text(&c, &text);
    assert_string_equal(buf_cstr(&text),
                        "tokens     3 reported $0.000001000 (1 of unknown price), 3 estimated $0.003703701,"
                        " 3 unbilled");
    read_of(3, &c, &f);
    assert_int_equal(c.parts[TOKENS_ESTIMATED].n, 1);
    fixture_fini(&f);
}

static void told(const struct estimates *e, const char *want)
{
    struct json_writer w;
    buf_clear(&text);
    jw_init(&w, &text);
    estimates_json(e, &w);
    assert_string_equal(buf_cstr(&text), want);
}

static void test_estimates(void **state)
{
    static const struct estimate v[] = {{"p", "m", "prompt", 200, true, 3120, 41},
                                        {"p", "m", "output", 3, false, 4000, -1}};
    const struct estimates two = {1796022000000, v, 2}, none = {0};
    told(&none, "null");
    told(&two, "{\"as_of\":\"2026-11-30T07:00:00.000Z\",\"targets\":["
               "{\"provider\":\"p\",\"model\":\"m\",\"side\":\"prompt\",\"samples\":200,\"is_known\":true,"
               "\"bytes_per_token\":3.120,\"error\":0.041},"
               "{\"provider\":\"p\",\"model\":\"m\",\"side\":\"output\",\"samples\":3,\"is_known\":false,"
               "\"bytes_per_token\":4.000,\"error\":null}]}");
    buf_clear(&text);
    estimates_text(&none, &text);
    assert_int_equal(text.n, 0);
    estimates_text(&two, &text);
    assert_string_equal(buf_cstr(&text), "\nestimates  p/m prompt: 3.120 bytes a token, off by 4.1 % (200 calls)"
                                         "\n           p/m output: 4.000 bytes a token until more is known (3 calls)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_parts, teardown),
        cmocka_unit_test_teardown(test_estimates, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What budgets cut and what that cost, from a ledger that is known. */
#include "unit.h"

#include "fixture.h"
#include "ledger/budgets.h"

static struct fixture f;
static struct ledger *led;
static struct ledger_reader *reader;
static uint64_t next_id;

static int setup(void **state)
{
    fixture_init(&f);
    led = ledger_fixture(f.db, "off", 2000);
    next_id = 1;
    return 0;
}

static int teardown(void **state)
{
    ledger_reader_close(reader);
    reader = NULL;
    fixture_fini(&f);
    return 0;
}

/* Attempt 1 ends as told; where it was not served, attempt 2 (link 1) serves, unless is_lost. */
static void put(enum outcome o, const char *decision, int64_t cost_nusd, bool is_lost)
{
    struct request_record *rec = record_fixture(&f, next_id++);
    bool is_served = o == OUTCOME_OK;
    f.attempts[0] = attempt_fixture(1, o, is_served);
    f.attempts[0].cost_nusd = cost_nusd;
    f.attempts[0].decision = decision;
    f.attempts[1] = attempt_fixture(2, is_lost ? OUTCOME_SERVER_ERROR : OUTCOME_OK, !is_lost);
    rec->n_attempts = rec->n_started = is_served ? 1 : 2;
    rec->served_link = is_served ? 0 : is_lost ? -1 : 1;
    assert_true(ledger_put(ledger_ring(led, 0), rec));
}

static void open_reader(void)
{
    char message[200];
    ledger_close(led);
    assert_int_equal(ledger_reader_open(f.db, &reader, message, sizeof message), ERR_OK);
}

static void expect_text(const struct budgets *b, const char *want)
{
    struct buf text = {0};
    budgets_text(b, &text);
    assert_string_equal(buf_cstr(&text), want);
    buf_fini(&text);
}

static void test_nothing(void **state)
{
    struct budgets b;
    put(OUTCOME_OK, "", 5, false);
    open_reader();
    assert_int_equal(budgets_read(reader, 0, &b), ERR_OK);
    assert_int_equal(b.n_cut + b.n_late + b.n_watched + b.n_false, 0);
    expect_text(&b, "");
}

static void test_cuts_and_what_was_false(void **state)
{
    struct budgets b;
    for (int i = 0; i < 20; i++)
        put(OUTCOME_TTFT_TIMEOUT, "next link: ttft_timeout", 1000, i >= 16);
    put(OUTCOME_TTFT_TIMEOUT, "next link: ttft_timeout", NUSD_UNKNOWN, false);
    put(OUTCOME_RATE_LIMITED, "next link: 429 rate_limited", 1000, false);
    put(OUTCOME_OK, "watched, budget 2140 ms would have cut here, for $0.000004280", 7, false);
    put(OUTCOME_OK, "watched, budget 2140 ms would have cut here", 7, false);
    open_reader();
    assert_int_equal(budgets_read(reader, 0, &b), ERR_OK);
    assert_int_equal(b.n_cut, 21);
    assert_int_equal(b.cut_nusd, 20000);
    assert_int_equal(b.n_cut_unpriced, 1);
    assert_int_equal(b.n_moved, 17);
    assert_int_equal(b.n_watched, 2);
    assert_int_equal(b.n_false, 14); /* each stands for seven */
    assert_int_equal(b.n_downgrades, 11);
    assert_int_equal(b.false_nusd, 13333);
    assert_int_equal(b.n_late, 0);
    expect_text(&b, "\nbudgets    21 attempts cut before their first token, for $0.000020000 and 1 of unknown price; a "
                    "later link answered 17 of the calls"
                    "\n           about 14 of them would have answered soon: $0.000013333, 11 calls moved for nothing");
    assert_int_equal(budgets_read(reader, 21, &b), ERR_OK); /* since then */
    assert_int_equal(b.n_cut, 1);
}

static void test_the_shadow(void **state)
{
    struct budgets b;
    put(OUTCOME_OK, "budget 2140 ms would have cut here, for $0.000004280", 7, false);
    put(OUTCOME_OK, "attempt 2 lost; budget 90 ms would have cut here, for $1.5", 7, false);
    put(OUTCOME_STREAM_ERROR, "budget 80 ms would have cut here, for $1.000000001; told in the stream", 7, false);
    open_reader();
    assert_int_equal(budgets_read(reader, 0, &b), ERR_OK);
    assert_int_equal(b.n_late, 3);
    assert_int_equal(b.late_nusd, 1000004281);
    expect_text(&b, "\nshadow     3 answers came past a budget that did not cut; cuts would have cost $1.000004281");
}

struct seen {
    unsigned n_answered, n_cut, n_left;
    int64_t us, input;
};

static void see(const struct budget_sample *s, void *arg)
{
    struct seen *seen = arg;
    seen->n_answered += s->is_answered;
    seen->n_cut += !s->is_answered && s->is_cut;
    seen->n_left += !s->is_answered && !s->is_cut;
    seen->us += s->us;
    seen->input += s->input_tokens;
    assert_string_equal(s->effort, "low");
    assert_int_equal(s->prompt_bytes, 4000);
}

static void test_samples(void **state)
{
    struct seen openai = {0}, anthropic = {0}, none = {0};
    put(OUTCOME_TTFT_TIMEOUT, "", 1, false); /* openai/gpt-x cut after 900000 - 100, then anthropic/claude-x answers */
    put(OUTCOME_CLIENT_CANCELLED, "", 1, true);
    put(OUTCOME_SERVER_ERROR, "", 1, true); /* no sample */
    put(OUTCOME_OK, "", 1, false);          /* anthropic/claude-x at once: 340000 - 100 */
    open_reader();
    assert_int_equal(budgets_samples(reader, "openai", "gpt-x", 0, see, &openai), ERR_OK);
    assert_int_equal(budgets_samples(reader, "anthropic", "claude-x", 0, see, &anthropic), ERR_OK);
    assert_int_equal(budgets_samples(reader, "openai", "claude-x", 0, see, &none), ERR_OK);
    assert_int_equal(openai.n_cut, 1);
    assert_int_equal(openai.n_left, 1);
    assert_int_equal(openai.n_answered, 0);
    assert_int_equal(openai.us, 2 * 899900);
    assert_int_equal(anthropic.n_answered, 2);
    assert_int_equal(anthropic.us, 340000 - 100 + 340000 - 200);
    assert_int_equal(anthropic.input, 24);
    assert_int_equal(none.n_answered + none.n_cut + none.n_left, 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_nothing), T(test_cuts_and_what_was_false), T(test_the_shadow),
                                       T(test_samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

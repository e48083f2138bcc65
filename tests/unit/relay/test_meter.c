/* What an attempt consumed, by how it ended: each rule of a provider, each outcome. */
#include "unit.h"

#include "relay/meter.h"

static struct provider_conf provider;
static struct link_conf link;
static struct price price;
static struct call call;
static struct attempt_record record;
static struct attempt a;
static struct ratio_book *ratios;

static int setup(void **state)
{
    provider = (struct provider_conf){.name = "p"};
    price = (struct price){1000, 10000, -1, -1, -1, "v1", "", NULL};
    link = (struct link_conf){.provider = &provider, .model = "m", .price = &price};
    call = (struct call){.is_stream = true, .max_tokens = 500, .n = 1, .prompt_bytes = 400};
    ratios = ratio_book_new(1);
    return 0;
}

static int teardown(void **state)
{
    ratio_book_free(ratios);
    return 0;
}

static void all_rules(enum abort_rule rule)
{
    for (int when = 0; when < ABORT_N_WHENS; when++)
        provider.aborts[when] = (struct abort_billing){rule, ABORT_CONFIGURED};
}

/* An attempt that was sent; text_bytes > 0: its first token came, too. */
static void begin(uint64_t text_bytes)
{
    record = (struct attempt_record){.n = 1, .provider = "p", .model = "m"};
    attempt_init(&a, &link, &record, 1000, 0);
    attempt_move(&a, ATTEMPT_CONNECTED);
    a.is_stream = true;
    a.is_sent = true;
    if (text_bytes > 0)
        attempt_move(&a, ATTEMPT_FLOWING);
    a.text_bytes = text_bytes;
}

static void ends(enum outcome o, const struct failure *f)
{
    record.outcome = o;
    meter_close(&a, &call, f, ratio_core(ratios, 0));
}

static void told(enum tokens_from from, int64_t input, int64_t output)
{
    assert_string_equal(tokens_from_word(record.tokens_from), tokens_from_word(from));
    assert_int_equal(record.tokens.input, input);
    assert_int_equal(record.tokens.output, output);
    assert_int_equal(record.cost_nusd, input + 10 * output);
    assert_int_equal(record.waste_nusd, record.cost_nusd);
}

static const enum outcome ours[] = {OUTCOME_TTFT_TIMEOUT,    OUTCOME_TOTAL_TIMEOUT, OUTCOME_IDLE_TIMEOUT,
                                    OUTCOME_DEADLINE,        OUTCOME_HEDGE_LOST,    OUTCOME_DRAINED,
                                    OUTCOME_CLIENT_CANCELLED};

/* Whoever of us cut it, the rule is the same: before a token, and after some. */
static void cut_by_us(void **state)
{
    static const struct {
        enum abort_rule rule;
        enum tokens_from from;
        int64_t input, output_before, output_after;
        const char *words;
    } cases[] = {
        {ABORT_INPUT, TOKENS_ESTIMATED, 100, 0, 0, "billed for input alone (configured)"},
        {ABORT_INPUT_AND_GENERATED, TOKENS_ESTIMATED, 100, 0, 10, "billed for input and output so far (configured)"},
        {ABORT_RUNS_ON, TOKENS_ESTIMATED, 100, 500, 500, "billed as if it ran on to its end (configured)"},
        {ABORT_NOTHING, TOKENS_UNBILLED, 0, 0, 0, "not billed, being broken off (configured)"},
    };
    for (size_t i = 0; i < RM_COUNTOF(cases); i++) {
        all_rules(cases[i].rule);
        for (size_t k = 0; k < RM_COUNTOF(ours); k++) {
            begin(0);
            ends(ours[k], NULL);
            told(cases[i].from, cases[i].input, cases[i].output_before);
            assert_string_equal(record.abort_words, cases[i].words);
            begin(40);
            ends(ours[k], NULL);
            told(cases[i].from, cases[i].input, cases[i].output_after);
        }
    }
}

/* A stream, an answer that was to come whole, and one that the provider broke off have a rule each. */
static void by_how_it_ended(void **state)
{
    struct failure f;
    provider.aborts[ABORT_STREAM] = (struct abort_billing){ABORT_INPUT, ABORT_OBSERVED};
    provider.aborts[ABORT_WHOLE] = (struct abort_billing){ABORT_RUNS_ON, ABORT_OBSERVED};
    provider.aborts[ABORT_FAILED] = (struct abort_billing){ABORT_NOTHING, ABORT_DOCUMENTED};
    begin(0);
    a.is_stream = false;
    ends(OUTCOME_TOTAL_TIMEOUT, NULL);
    told(TOKENS_ESTIMATED, 100, 500);
    begin(0);
    ends(OUTCOME_TTFT_TIMEOUT, NULL);
    told(TOKENS_ESTIMATED, 100, 0);
    begin(0);
    failure_make(&f, OUTCOME_SERVER_ERROR, "told");
    f.in_stream = true;
    ends(OUTCOME_SERVER_ERROR, &f);
    told(TOKENS_UNBILLED, 0, 0);
    assert_string_equal(record.abort_words, "not billed, being broken off (documented)");
    begin(0);
    ends(OUTCOME_STREAM_ERROR, NULL);
    told(TOKENS_UNBILLED, 0, 0);
}

/* What the provider broke off after tokens came is billed as far as it came; what we cannot read we cut. */
static void broken_off_later(void **state)
{
    all_rules(ABORT_NOTHING);
    begin(40);
    ends(OUTCOME_STREAM_ERROR, NULL);
    told(TOKENS_ESTIMATED, 100, 10);
    assert_null(record.abort_words);
    begin(40);
    ends(OUTCOME_PROTOCOL_ERROR, NULL);
    told(TOKENS_UNBILLED, 0, 0);
    assert_non_null(record.abort_words);
}

/* No rule is asked where there is nothing to decide. */
static void nothing_to_decide(void **state)
{
    struct failure f;
    all_rules(ABORT_RUNS_ON);
    begin(0);
    failure_make(&f, OUTCOME_OVERLOADED, "told");
    f.status = 503;
    ends(OUTCOME_OVERLOADED, &f);
    told(TOKENS_UNBILLED, 0, 0);
    assert_null(record.abort_words);
    begin(0);
    a.is_sent = false;
    ends(OUTCOME_CLIENT_CANCELLED, NULL);
    told(TOKENS_UNBILLED, 0, 0);
    assert_null(record.abort_words);
    begin(40);
    record.tokens = (struct usage){90, -1, -1, -1, 12, -1};
    ends(OUTCOME_OK, NULL);
    told(TOKENS_REPORTED, 90, 12);
    assert_null(record.abort_words);
    begin(41); /* well ended, and no report: not broken off, as far as it came */
    ends(OUTCOME_OK, NULL);
    told(TOKENS_ESTIMATED, 100, 11);
    assert_null(record.abort_words);
}

/* What was reported before the end is kept, and is the least. */
static void reported_so_far(void **state)
{
    all_rules(ABORT_INPUT_AND_GENERATED);
    begin(40);
    record.tokens = (struct usage){7, 3, 2, 1, 25, 5};
    ends(OUTCOME_CLIENT_CANCELLED, NULL);
    assert_int_equal(record.tokens_from, TOKENS_ESTIMATED);
    assert_int_equal(record.tokens.input, 7);
    assert_int_equal(record.tokens.cache_read, 3);
    assert_int_equal(record.tokens.output, 25);
    assert_int_equal(record.tokens.reasoning, 5);
    all_rules(ABORT_INPUT);
    begin(40);
    record.tokens = (struct usage){7, 3, -1, -1, 25, 5};
    ends(OUTCOME_CLIENT_CANCELLED, NULL);
    assert_int_equal(record.tokens.input, 7);
    assert_int_equal(record.tokens.output, 0);
    assert_int_equal(record.tokens.reasoning, 0);
    all_rules(ABORT_NOTHING);
    begin(0);
    record.tokens = (struct usage){7, -1, -1, -1, 1, -1};
    ends(OUTCOME_TTFT_TIMEOUT, NULL);
    told(TOKENS_UNBILLED, 0, 0);
}

/* How far a generation runs on: as far as the call and the model allow, for each choice, and never less than came. */
static void how_far_it_runs_on(void **state)
{
    all_rules(ABORT_RUNS_ON);
    begin(0);
    link.max_output = 200;
    ends(OUTCOME_TTFT_TIMEOUT, NULL);
    told(TOKENS_ESTIMATED, 100, 200);
    begin(0);
    call.n = 3;
    ends(OUTCOME_TTFT_TIMEOUT, NULL);
    told(TOKENS_ESTIMATED, 100, 600);
    begin(4000);
    ends(OUTCOME_CLIENT_CANCELLED, NULL);
    told(TOKENS_ESTIMATED, 100, 1000);
    begin(40);
    call.max_tokens = -1; /* nobody says */
    ends(OUTCOME_CLIENT_CANCELLED, NULL);
    told(TOKENS_ESTIMATED, 100, 10);
    begin(0);
    call.max_tokens = call.n = INT64_MAX;
    link.max_output = 0;
    link.price = NULL;
    ends(OUTCOME_DEADLINE, NULL);
    assert_int_equal(record.tokens.output, INT64_MAX);
    assert_int_equal(record.cost_nusd, NUSD_UNKNOWN);
}

/* Without a price an unbilled attempt is known to cost nothing, a billed one is not known. */
static void without_a_price(void **state)
{
    link.price = NULL;
    all_rules(ABORT_NOTHING);
    begin(0);
    ends(OUTCOME_TTFT_TIMEOUT, NULL);
    assert_int_equal(record.cost_nusd, 0);
    all_rules(ABORT_INPUT);
    begin(0);
    ends(OUTCOME_TTFT_TIMEOUT, NULL);
    assert_int_equal(record.cost_nusd, NUSD_UNKNOWN);
    assert_int_equal(record.waste_nusd, NUSD_UNKNOWN);
}

/* ---- what reports teach ---- */

static void well(uint64_t text_bytes, struct usage usage)
{
    begin(text_bytes);
    record.tokens = usage;
    ends(OUTCOME_OK, NULL);
    assert_int_equal(record.tokens_from, TOKENS_REPORTED);
}

static void cancelled(uint64_t text_bytes)
{
    begin(text_bytes);
    ends(OUTCOME_CLIENT_CANCELLED, NULL);
}

/* Two bytes a token in the prompt, cached ones among them, and five in the output. */
static void estimates_learn_from_reports(void **state)
{
    for (int i = 1; i < RATIO_SAMPLES_MIN; i++)
        well(50, (struct usage){150, 40, 10, -1, 10, -1});
    cancelled(50);
    told(TOKENS_ESTIMATED, 100, 13);
    well(50, (struct usage){150, 40, 10, -1, 10, -1});
    cancelled(50);
    told(TOKENS_ESTIMATED, 200, 10);
    link.target_id = 1; /* another target: nothing is known of it */
    cancelled(50);
    told(TOKENS_ESTIMATED, 100, 13);
}

/* Nothing is learned from what is not reported whole, and not from the text of a prompt that is more than text. */
static void nothing_else_teaches(void **state)
{
    struct ratio_report r;
    for (int i = 0; i < 2 * RATIO_SAMPLES_MIN; i++) {
        cancelled(50);
        begin(50);
        record.tokens = (struct usage){200, -1, -1, -1, 10, -1};
        ends(OUTCOME_STREAM_ERROR, NULL);
        begin(50);
        record.tokens = (struct usage){200, -1, -1, -1, -1, -1};
        ends(OUTCOME_OK, NULL);
    }
    assert_false(ratio_report(ratios, 0, RATIO_PROMPT, &r));
    assert_false(ratio_report(ratios, 0, RATIO_OUTPUT, &r));
    call.has_vision = true;
    well(50, (struct usage){200, -1, -1, -1, 10, -1});
    assert_false(ratio_report(ratios, 0, RATIO_PROMPT, &r));
    assert_true(ratio_report(ratios, 0, RATIO_OUTPUT, &r));
}

/* Without a limit in the call a generation is taken to run on as far as answers go there. */
static void runs_on_to_the_mean(void **state)
{
    all_rules(ABORT_RUNS_ON);
    call.max_tokens = -1;
    for (int i = 0; i < RATIO_SAMPLES_MIN; i++)
        well(400, (struct usage){100, -1, -1, -1, i % 2 == 0 ? 60 : 140, -1});
    cancelled(40);
    told(TOKENS_ESTIMATED, 100, 100);
    cancelled(800);
    told(TOKENS_ESTIMATED, 100, 200);
    call.max_tokens = 30;
    cancelled(40);
    told(TOKENS_ESTIMATED, 100, 30);
}

/* ---- classes of service, and the hour ---- */

enum { OVER_MS = 5000 }; /* when the first price is over */

static const struct price old_price = {1000, 10000, -1, -1, -1, "old", "", NULL},
                          new_price = {2000, 20000, -1, -1, -1, "new", "", NULL},
                          flex_price = {500, 5000, -1, -1, -1, "flex", "", NULL};
static struct fare_span spans[] = {{"", INT64_MIN, OVER_MS, 0, &old_price},
                                   {"", OVER_MS, INT64_MAX, 0, &new_price},
                                   {"flex", INT64_MIN, INT64_MAX, 0, &flex_price}};
static struct fare fare = {spans, RM_COUNTOF(spans), RM_COUNTOF(spans)};

static void opens(const char *wish, bool is_same_dialect, int64_t wall_ms)
{
    link.fare = &fare;
    begin(40);
    call.service = bytes_of(wish);
    meter_open(&a, &call, is_same_dialect, wall_ms);
    record.tokens = (struct usage){90, -1, -1, -1, 10, -1};
}

static void priced(const char *version, int64_t cost, const char *service, bool is_told, bool is_standin)
{
    char words[METER_WORDS];
    ends(OUTCOME_OK, NULL);
    assert_string_equal(record.price_version, version);
    assert_int_equal(record.cost_nusd, cost);
    assert_string_equal(record.service, service);
    assert_int_equal(record.is_service_told, is_told);
    assert_int_equal(record.is_price_standin, is_standin);
    assert_int_equal(meter_words(&record, words), is_standin);
    if (is_standin)
        assert_non_null(strstr(words, " has no rates of its own, priced as standard"));
}

/* The answer's word goes before the wish, the wish before nothing. */
static void class_of_service(void **state)
{
    opens("", true, 0);
    priced("old", 190, "", false, false);
    opens("flex", true, 0);
    priced("flex", 95, "flex", false, false);
    opens("flex", true, 0);
    meter_hear(&a, BYTES("default")); /* asked for, and not given */
    priced("old", 190, "standard", true, false);
    opens("", true, 0);
    meter_hear(&a, BYTES("flex"));
    priced("flex", 95, "flex", true, false);
    opens("flex", true, 0);
    meter_hear(&a, BYTES("auto")); /* says nothing */
    priced("flex", 95, "flex", false, false);
    opens("", true, 0);
    meter_hear(&a, BYTES("priority"));
    priced("old", 190, "priority", true, true);
    opens("", true, 0);
    meter_hear(&a, BYTES("a class of a long and odd name"));
    priced("old", 190, "other", true, true);
}

/* A wish that does not get there is none; a link's own goes before the client's. */
static void wishes(void **state)
{
    opens("flex", false, 0); /* translated */
    priced("old", 190, "", false, false);
    link.drops_service = true;
    opens("flex", true, 0);
    priced("old", 190, "", false, false);
    link.drops_service = false;
    link.service = "flex";
    opens("priority", true, 0);
    priced("flex", 95, "flex", false, false);
}

/* The price of the moment at which it began, whenever it was loaded. */
static void a_price_ends(void **state)
{
    opens("", true, OVER_MS - 1);
    priced("old", 190, "", false, false);
    opens("", true, OVER_MS);
    priced("new", 380, "", false, false);
    spans[1].until_ms = 2 * OVER_MS;
    opens("", true, 2 * OVER_MS);
    ends(OUTCOME_OK, NULL);
    assert_null(record.price_version); /* over, and none after it */
    assert_int_equal(record.cost_nusd, NUSD_UNKNOWN);
    spans[1].until_ms = INT64_MAX;
}

/* An answer that never came tells nothing: the wish decides what its estimate costs. */
static void cut_in_a_class(void **state)
{
    char words[METER_WORDS];
    all_rules(ABORT_INPUT);
    opens("flex", true, 0);
    record.tokens = USAGE_NONE;
    ends(OUTCOME_TTFT_TIMEOUT, NULL);
    assert_int_equal(record.cost_nusd, 50);
    opens("priority", true, 0);
    record.tokens = USAGE_NONE;
    ends(OUTCOME_CLIENT_CANCELLED, NULL);
    assert_int_equal(record.cost_nusd, 100);
    assert_true(meter_words(&record, words));
    assert_string_equal(words,
                        "billed for input alone (configured); priority has no rates of its own, priced as standard");
    all_rules(ABORT_NOTHING);
    opens("priority", true, 0);
    ends(OUTCOME_CLIENT_CANCELLED, NULL);
    assert_true(meter_words(&record, words));
    assert_string_equal(words, "not billed, being broken off (configured)"); /* no price was asked */
}

/* ---- what a cut would cost ---- */

static void cut_costs(enum abort_rule rule, int64_t nusd)
{
    all_rules(rule);
    begin(40);
    assert_int_equal(meter_cut_nusd(&a, &call, ratio_core(ratios, 0)), nusd);
}

static void what_a_cut_would_cost(void **state)
{
    cut_costs(ABORT_INPUT, 100);
    cut_costs(ABORT_INPUT_AND_GENERATED, 100); /* nothing was generated yet */
    cut_costs(ABORT_RUNS_ON, 100 + 10 * 500);
    cut_costs(ABORT_NOTHING, 0);
    for (int i = 0; i < RATIO_SAMPLES_MIN; i++)
        well(50, (struct usage){200, -1, -1, -1, 10, -1});
    cut_costs(ABORT_INPUT, 200); /* as reports have taught */
    all_rules(ABORT_INPUT_AND_GENERATED);
    begin(40);
    record.tokens = (struct usage){70, 20, 10, -1, 3, -1}; /* told with the first event */
    assert_int_equal(meter_cut_nusd(&a, &call, ratio_core(ratios, 0)), 100);
    link.fare = &fare;
    meter_open(&a, &call, true, OVER_MS);
    assert_int_equal(meter_cut_nusd(&a, &call, ratio_core(ratios, 0)), 200);
    link.fare = NULL;
    link.price = NULL;
    assert_int_equal(meter_cut_nusd(&a, &call, ratio_core(ratios, 0)), NUSD_UNKNOWN);
}

/* A tiny prompt and a single token say nothing about calls of clients. */
static void keepalives_do_not_teach(void **state)
{
    struct ratio_report r;
    for (int i = 0; i < 2 * RATIO_SAMPLES_MIN; i++) {
        begin(50);
        record.kind = ATTEMPT_KEEPALIVE;
        record.tokens = (struct usage){200, -1, -1, -1, 10, -1};
        ends(OUTCOME_OK, NULL);
        assert_int_equal(record.cost_nusd, 300);
        assert_int_equal(record.waste_nusd, 0);
    }
    assert_false(ratio_report(ratios, link.target_id, RATIO_PROMPT, &r));
    assert_int_equal(ratio_mean_output(ratio_core(ratios, 0), link.target_id), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cut_by_us),
        TEST(by_how_it_ended),
        TEST(broken_off_later),
        TEST(nothing_to_decide),
        TEST(reported_so_far),
        TEST(how_far_it_runs_on),
        TEST(without_a_price),
        TEST(estimates_learn_from_reports),
        TEST(nothing_else_teaches),
        TEST(runs_on_to_the_mean),
        TEST(class_of_service),
        TEST(wishes),
        TEST(a_price_ends),
        TEST(cut_in_a_class),
        TEST(what_a_cut_would_cost),
        TEST(keepalives_do_not_teach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

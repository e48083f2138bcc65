#include "unit.h"

#include "base/mem.h"
#include "price/decimal.h"
#include "price/litellm.h"
#include "price/price.h"

#include <stdio.h>
#include <stdlib.h>

static const int64_t july_18 = INT64_C(1784332800000); /* 2026-07-18T00:00:00Z */

struct imported {
    struct buf out;
    struct litellm_report report;
    struct price_book *book;
};

static void import_text(struct imported *im, struct bytes text)
{
    struct buf why = {0};
    memset(im, 0, sizeof *im);
    struct litellm_ask ask = {text, "a test", ""};
    if (litellm_import(&ask, &im->out, &im->report, &why) != ERR_OK)
        fail_msg("import: %s", buf_cstr(&why));
    if (price_book_parse(buf_bytes(&im->out), &im->book, &why) != ERR_OK)
        fail_msg("what was written is no book: %s\n%s", buf_cstr(&why), buf_cstr(&im->out));
}

static void release(struct imported *im)
{
    price_book_free(im->book);
    buf_fini(&im->out);
    litellm_report_fini(&im->report);
    assert_int_equal(mem_live(MEM_ARENA), 0);
}

static const struct price *find(const struct imported *im, const char *vendor, const char *model, const char *service)
{
    return price_find_service(im->book, "", vendor, model, service, july_18);
}

static size_t count_of(const struct litellm_tallies *t, const char *word)
{
    for (size_t i = 0; i < t->n; i++)
        if (bytes_is(t->v[i].word, word))
            return t->v[i].n;
    return 0;
}

static bool has_note(const struct imported *im, const char *model, const char *member, const char *why)
{
    for (size_t i = 0; i < im->report.n_notes; i++) {
        const struct litellm_note *n = &im->report.notes[i];
        if (bytes_is(n->model, model) && bytes_is(n->member, member) && strstr(n->why, why) != NULL)
            return true;
    }
    return false;
}

/* ---- numbers ---- */

static void decimals(void **state)
{
    static const struct {
        const char *text;
        int64_t pusd; /* -1 = refused */
        bool is_rounded;
    } cases[] = {
        {"1.25e-06", 1250000, false},
        {"0.00000125", 1250000, false},
        {"1E-6", 1000000, false},
        {"+3e-7", 300000, false},
        {"2.9999999999999997e-07", 300000, false}, /* what a float made of it */
        {"6.25e-13", 1, true},
        {"4.9e-13", 0, true},
        {"0", 0, false},
        {"0.0", 0, false},
        {"-0.0", 0, false},
        {"0e99", 0, false},
        {"1", INT64_C(1000000000000), false},
        {"1.000000000001", -1, false},
        {"2", -1, false},
        {"1e30", -1, false},
        {"1e400", -1, false},
        {"1e-400", 0, true},
        {"1e401", -1, false},
        {"123456789012345678901234567890e-36", 123457, true},
        {"-1e-6", -1, false},
        {"NaN", -1, false},
        {"Infinity", -1, false},
        {"", -1, false},
        {".", -1, false},
        {"1e", -1, false},
        {"1.2.3", -1, false},
        {"1,5", -1, false},
        {"$1", -1, false},
        {" 1e-6 ", 1000000, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t v = -2;
        bool is_rounded;
        const char *why = decimal_units(bytes_of(cases[i].text), 12, INT64_C(1000000000000), &v, &is_rounded);
        if ((why == NULL ? v : -1) != cases[i].pusd || is_rounded != cases[i].is_rounded)
            fail_msg("\"%s\": %lld %d (%s)", cases[i].text, (long long)v, is_rounded, why ? why : "");
    }
}

/* ---- the catalogue ---- */

static struct bytes fixture(struct buf *b)
{
    const char *folder = getenv("RINGMAIN_FIXTURES");
    char path[512];
    FILE *f = NULL;
    if (folder != NULL) {
        snprintf(path, sizeof path, "%s/prices/litellm-excerpt.json", folder);
        f = fopen(path, "rb");
    }
    if (f == NULL)
        skip();
    buf_grew(b, fread(buf_reserve(b, 1 << 20), 1, 1 << 20, f));
    fclose(f);
    return buf_bytes(b);
}

static void the_excerpt_whole(void **state)
{
    struct buf text = {0};
    struct imported im;
    import_text(&im, fixture(&text));
    buf_fini(&text);
    assert_int_equal(im.report.n_models, 31);
    assert_int_equal(im.report.n_written, 31);
    assert_int_equal(im.report.n_unpriced, 0);
    assert_int_equal(im.report.n_notes, 0);
    assert_int_equal(im.report.strange.n, 0);
    assert_int_equal(count_of(&im.report.unused, "search_context_cost_per_query"), 12);
    /* 5 flex, 10 priority, 4 batches, and fast and us of three models */
    assert_int_equal(im.report.n_services, 5 + 10 + 4 + 6);
    const struct price *p = find(&im, "openai", "gpt-5", "");
    assert_int_equal(p->input, 1250000);
    assert_int_equal(p->output, 10000000);
    assert_int_equal(p->cache_read, 125000);
    p = find(&im, "openai", "gpt-5", "flex");
    assert_int_equal(p->input, 625000);
    assert_int_equal(p->output, 5000000);
    assert_int_equal(p->cache_read, 62500);
    p = find(&im, "openai", "gpt-4.1", "priority");
    assert_int_equal(p->input, 3500000);
    assert_int_equal(p->output, 14000000);
    p = find(&im, "anthropic", "claude-opus-4-6-20260205", "fast");
    assert_int_equal(p->input, 30000000);
    assert_int_equal(p->output, 150000000);
    assert_int_equal(p->more->tiers[0].cache_read, 3000000);
    p = find(&im, "anthropic", "claude-opus-4-6", "us");
    assert_int_equal(p->input, 5500000);
    assert_int_equal(p->cache_write_1h, 11000000);
    p = find(&im, "anthropic", "claude-haiku-4-5", "");
    assert_int_equal(p->cache_write_5m, 1250000);
    assert_int_equal(p->cache_write_1h, 2000000);
    assert_non_null(find(&im, "bedrock", "us.claude-sonnet-4-5-20250929-v1:0", ""));
    release(&im);
}

#define RATES "\"input_cost_per_token\":2e-06,\"output_cost_per_token\":1e-05"
static const char odd[] =
    "{\"sample_spec\":{\"mode\":\"one of: chat, embedding\",\"input_cost_per_token\":\"a number\"},"
    "\"fallback_generalizations\":[1],"
    "\"example/model-a\":{\"litellm_provider\":\"example\",\"mode\":\"chat\"," RATES
    ",\"cache_read_input_token_cost\":\"2e-07\",\"cache_creation_input_token_cost\":2.5e-06,"
    "\"cache_creation_input_token_cost_above_1hr\":4e-06,\"input_cost_per_token_above_200k_tokens\":4e-06,"
    "\"output_cost_per_token_above_200k_tokens\":1.5e-05,\"input_cost_per_token_above_272k_tokens_priority\":9e-06,"
    "\"cache_creation_input_token_cost_above_1hr_above_200k_tokens\":8e-06,\"input_cost_per_token_priority\":7e-06,"
    "\"aliases\":[\"model-a-20260101\",\"model-b\",7]},"
    "\"model-b\":{\"litellm_provider\":\"example\"," RATES ",\"output_cost_per_reasoning_token\":3e-05,"
    "\"input_cost_per_request\":0.005,\"input_cost_per_audio_token\":1e-4,\"input_cost_per_wish\":1},"
    "\"deepseek/deepseek-x\":{\"litellm_provider\":\"deepseek\",\"mode\":\"chat\"," RATES
    ",\"input_cost_per_token_cache_hit\":1.4e-07},"
    "\"xai/grok-x\":{\"litellm_provider\":\"xai\",\"mode\":\"chat\"," RATES
    ",\"input_cost_per_token_above_128k_tokens\":4e-06},"
    "\"dashscope/qwen-x\":{\"litellm_provider\":\"dashscope\",\"mode\":\"chat\",\"tiered_pricing\":["
    "{\"range\":[128000,null],\"input_cost_per_token\":5e-06,\"output_cost_per_token\":9e-06},"
    "{\"range\":[0,32000],\"input_cost_per_token\":1e-06,\"output_cost_per_token\":2e-06,"
    "\"cache_read_input_token_cost\":1e-07},"
    "{\"range\":[32000.0,128e3],\"input_cost_per_token\":3e-06,\"output_cost_per_token\":6e-06}]},"
    "\"free\":{\"litellm_provider\":\"example\",\"mode\":\"chat\",\"input_cost_per_token\":0,\"output_cost_per_token\":"
    "0.0},"
    "\"unknown\":{\"litellm_provider\":\"example\",\"mode\":\"chat\",\"max_tokens\":5},"
    "\"nulls\":{\"litellm_provider\":\"example\",\"mode\":\"chat\",\"input_cost_per_token\":null},"
    "\"bad\":{\"litellm_provider\":\"example\",\"mode\":\"chat\",\"input_cost_per_token\":-1e-6,"
    "\"output_cost_per_token\":NaN,\"cache_read_input_token_cost\":Infinity,\"cache_creation_input_token_cost\":2.5,"
    "\"output_cost_per_reasoning_token\":[1]},"
    "\"drawing\":{\"litellm_provider\":\"example\",\"mode\":\"image_generation\",\"input_cost_per_image\":0.04},"
    "\"night\":{\"litellm_provider\":\"example\",\"mode\":\"chat\"," RATES
    ",\"off_peak_pricing\":{\"hours_utc\":\"16:30-00:30\",\"input_cost_per_token\":5e-07}},"
    "\"here\":{\"litellm_provider\":\"example\",\"mode\":\"chat\"," RATES
    ",\"regional_processing_uplift_multiplier_eu\":1.1,\"provider_specific_entry\":{\"fast\":\"2.5\",\"same\":1,"
    "\"mad\":-3}},"
    "\"list\":[],"
    "\"model-b\":{\"litellm_provider\":\"example\",\"mode\":\"chat\",\"input_cost_per_token\":9e-06}}";

static void every_form(void **state)
{
    struct imported im;
    import_text(&im, bytes_of(odd));
    /* rates, numbers in quotes, times to live against sizes */
    const struct price *p = find(&im, "example", "model-a", "");
    assert_int_equal(p->cache_read, 200000);
    assert_int_equal(p->cache_write_5m, 2500000);
    assert_int_equal(p->cache_write_1h, 4000000);
    assert_int_equal(p->more->n_tiers, 1);
    assert_int_equal(p->more->tiers[0].above, 200000);
    assert_int_equal(p->more->tiers[0].input, 4000000);
    assert_int_equal(p->more->tiers[0].output, 15000000);
    assert_int_equal(p->more->tiers[0].cache_write_1h, 8000000);
    assert_int_equal(p->more->tiers[0].cache_write_5m, -1);
    /* a service: its own rates, else the standard ones, tier by tier */
    const struct price *fast = find(&im, "example", "model-a", "priority");
    assert_int_equal(fast->input, 7000000);
    assert_int_equal(fast->output, 10000000);
    assert_int_equal(fast->more->n_tiers, 2);
    assert_int_equal(fast->more->tiers[0].input, 4000000);
    assert_int_equal(fast->more->tiers[1].above, 272000);
    assert_int_equal(fast->more->tiers[1].input, 9000000);
    /* aliases; one that is an entry of its own is that entry */
    assert_ptr_equal(find(&im, "example", "model-a-20260101", ""), p);
    const struct price *b = find(&im, "example", "model-b", "");
    assert_ptr_not_equal(b, p);
    assert_int_equal(b->more->reasoning, 30000000);
    assert_int_equal(b->more->request, INT64_C(5000000000));
    assert_int_equal(find(&im, "deepseek", "deepseek-x", "")->cache_read, 140000);
    assert_true(find(&im, "xai", "grok-x", "")->more->tiers[0].is_inclusive);
    assert_int_equal(find(&im, "example", "night", "off_peak")->input, 500000);
    assert_int_equal(find(&im, "example", "night", "off_peak")->output, 10000000);
    assert_int_equal(find(&im, "example", "here", "eu")->input, 2200000);
    assert_int_equal(find(&im, "example", "here", "fast")->output, 25000000);
    release(&im);
}

/* Ranges in any order, the first from 0; whole requests by their prompt. In micro-dollars. */
static void ranges_by_hand(void **state)
{
    struct imported im;
    import_text(&im, bytes_of(odd));
    const struct price *p = find(&im, "alibaba", "qwen-x", "");
    static const struct {
        int64_t input, read, out, micro;
    } cases[] = {
        {1, 0, 1, 1 + 2},
        {32000, 0, 1, 32000 + 2},
        {32001, 0, 1, 32001 * 3 + 6},
        {1, 32000, 0, 3 + 32000 * 3}, /* no rate for reading in that range: its input */
        {128000, 0, 1, 128000 * 3 + 6},
        {128001, 0, 1, 128001 * 5 + 9},
        {100, 31900, 0, 100 + 3190},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct usage u = {cases[i].input, cases[i].read, 0, 0, cases[i].out, 0};
        assert_int_equal(price_cost(p, &u), cases[i].micro * 1000);
    }
    release(&im);
}

static void what_is_told(void **state)
{
    struct imported im;
    import_text(&im, bytes_of(odd));
    assert_int_equal(im.report.n_models, 14);
    assert_int_equal(im.report.n_written, 8);
    assert_int_equal(im.report.n_unpriced, 3);
    assert_null(find(&im, "example", "unknown", "")); /* not free */
    assert_null(find(&im, "example", "nulls", ""));
    assert_null(find(&im, "example", "bad", ""));
    struct usage u = {1000, 0, 0, 0, 1000, 0};
    assert_int_equal(price_cost(find(&im, "example", "free", ""), &u), 0);
    assert_int_equal(count_of(&im.report.modes, "image_generation"), 1);
    assert_int_equal(count_of(&im.report.unused, "input_cost_per_audio_token"), 1);
    assert_int_equal(count_of(&im.report.strange, "input_cost_per_wish"), 1);
    assert_int_equal(im.report.strange.n, 1);
    assert_true(has_note(&im, "bad", "input_cost_per_token", "negative"));
    assert_true(has_note(&im, "bad", "output_cost_per_token", "not a number"));
    assert_true(has_note(&im, "bad", "cache_read_input_token_cost", "not a number"));
    assert_true(has_note(&im, "bad", "cache_creation_input_token_cost", "too large"));
    assert_true(has_note(&im, "bad", "output_cost_per_reasoning_token", "not a number"));
    assert_true(has_note(&im, "here", "mad", "negative"));
    assert_true(has_note(&im, "example/model-a", "aliases", "not a text"));
    assert_true(has_note(&im, "list", "", "not an object"));
    assert_true(has_note(&im, "model-b", "", "twice"));
    assert_int_equal(im.report.n_notes, 9);
    release(&im);
}

static void no_catalogue(void **state)
{
    static const char *const bad[] = {"", "[]", "{", "3", "{\"a\":{\"mode\":\"chat\",}}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct buf out = {0}, why = {0};
        struct litellm_report report;
        struct litellm_ask ask = {bytes_of(bad[i]), "a test", ""};
        assert_int_not_equal(litellm_import(&ask, &out, &report, &why), ERR_OK);
        assert_int_not_equal(why.n, 0);
        assert_int_equal(out.n, 0);
        buf_fini(&why);
        litellm_report_fini(&report);
    }
    assert_int_equal(mem_live(MEM_ARENA), 0);
}

static void dated(void **state)
{
    static const char text[] = "{\"m\":{" RATES "}}";
    struct buf out = {0}, why = {0};
    struct litellm_report report;
    struct litellm_ask ask = {bytes_of(text), "a test", "2026-07-18"};
    struct price_book *b;
    assert_int_equal(litellm_import(&ask, &out, &report, &why), ERR_OK);
    assert_int_equal(price_book_parse(buf_bytes(&out), &b, &why), ERR_OK);
    assert_null(price_find(b, "", "", "m", july_18 - 1));
    const struct price *p = price_find(b, "", "", "m", july_18);
    assert_string_equal(p->source, "a test");
    assert_int_equal(strncmp(p->version, "litellm-", 8), 0);
    price_book_free(b);
    buf_fini(&out);
    litellm_report_fini(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimals),       cmocka_unit_test(the_excerpt_whole), cmocka_unit_test(every_form),
        cmocka_unit_test(ranges_by_hand), cmocka_unit_test(what_is_told),      cmocka_unit_test(no_catalogue),
        cmocka_unit_test(dated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Bytes a token, learned from calls that reported; how far the estimates are off; kept as a line. */
#include "unit.h"

#include "base/mem.h"
#include "plan/ratio.h"

#include <pthread.h>

static struct ratio_book *book;
static struct ratio_core *core;
static struct registry *registry;

static int setup(void **state)
{
    book = ratio_book_new(3);
    core = ratio_core(book, 0);
    registry = registry_new();
    return 0;
}

static int teardown(void **state)
{
    ratio_book_free(book);
    registry_free(registry);
    return 0;
}

static void learn_one(struct ratio_core *c, uint16_t id, enum ratio_side side, uint64_t bytes, int64_t tokens)
{
    struct ratio_sample s = {.tokens = {-1, -1}};
    s.bytes[side] = bytes;
    s.tokens[side] = tokens;
    ratio_learn(c, id, &s);
}

static void learn(struct ratio_core *c, enum ratio_side side, unsigned n, uint64_t bytes, int64_t tokens)
{
    for (unsigned i = 0; i < n; i++)
        learn_one(c, 7, side, bytes, tokens);
}

/* Without text: no sample of a ratio. */
static void learn_whole(struct ratio_core *c, uint16_t id, int64_t tokens)
{
    ratio_learn(c, id, &(struct ratio_sample){.tokens = {-1, tokens}, .is_whole = true});
}

static struct ratio_report report(enum ratio_side side)
{
    struct ratio_report r;
    (void)ratio_report(book, 7, side, &r);
    return r;
}

static void four_bytes_until_it_is_known(void **state)
{
    struct ratio_report r;
    assert_false(ratio_report(book, 7, RATIO_PROMPT, &r));
    assert_int_equal(ratio_tokens(core, 7, RATIO_PROMPT, 300), 75);
    learn(core, RATIO_PROMPT, RATIO_SAMPLES_MIN - 1, 300, 100);
    assert_int_equal(ratio_tokens(core, 7, RATIO_PROMPT, 300), 75);
    assert_false(report(RATIO_PROMPT).is_known);
    assert_int_equal(report(RATIO_PROMPT).milli_bytes, 4000);
    assert_int_equal(report(RATIO_PROMPT).error_permille, 250); /* 75 for 100 */
    learn(core, RATIO_PROMPT, 1, 300, 100);
    assert_int_equal(ratio_tokens(core, 7, RATIO_PROMPT, 300), 100);
    assert_int_equal(ratio_tokens(core, 7, RATIO_PROMPT, 301), 101); /* rounded up, like the four bytes */
    assert_int_equal(ratio_tokens(core, 7, RATIO_PROMPT, 0), 0);
    assert_true(report(RATIO_PROMPT).is_known);
    assert_int_equal(report(RATIO_PROMPT).milli_bytes, 3000);
}

/* Sides and targets do not mix, and all cores know what one has learned. */
static void by_side_and_target_for_all_cores(void **state)
{
    learn(ratio_core(book, 0), RATIO_OUTPUT, 12, 500, 100);
    learn(ratio_core(book, 2), RATIO_OUTPUT, 12, 700, 100);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ratio_tokens(ratio_core(book, i), 7, RATIO_OUTPUT, 600), 100);
    assert_int_equal(ratio_tokens(core, 7, RATIO_PROMPT, 600), 150);
    assert_int_equal(ratio_tokens(core, 8, RATIO_OUTPUT, 600), 150);
    assert_int_equal(ratio_tokens(NULL, 7, RATIO_OUTPUT, 600), 150);
    assert_int_equal(report(RATIO_OUTPUT).n_samples, 24);
}

/* The error is that of calls not yet learned from, by the ratio once it is known: 5 bytes a token, and every second
 * call has 10 % more or less. */
static void the_error_is_measured(void **state)
{
    learn(core, RATIO_OUTPUT, RATIO_SAMPLES_MIN, 500, 100);
    for (int i = 0; i < 200; i++)
        learn(core, RATIO_OUTPUT, 1, 500, i % 2 == 0 ? 90 : 110);
    struct ratio_report r = report(RATIO_OUTPUT);
    assert_true(r.is_known);
    assert_in_range(r.milli_bytes, 4950, 5050);
    assert_in_range(r.error_permille, 95, 105);
}

/* What the fallback got wrong is not held against the ratio. */
static void the_fallback_is_not_held_against_it(void **state)
{
    learn(core, RATIO_OUTPUT, RATIO_SAMPLES_MIN, 500, 500);
    assert_int_equal(report(RATIO_OUTPUT).error_permille, 750);
    learn(core, RATIO_OUTPUT, 1, 500, 500);
    assert_int_equal(report(RATIO_OUTPUT).error_permille, 0);
}

/* A tokenizer changes: the old one fades. */
static void it_follows_a_change(void **state)
{
    learn(core, RATIO_PROMPT, 3 * RATIO_SAMPLES_MAX, 400, 100);
    assert_int_equal(report(RATIO_PROMPT).milli_bytes, 4000);
    assert_true(report(RATIO_PROMPT).n_samples < RATIO_SAMPLES_MAX);
    learn(core, RATIO_PROMPT, 4 * RATIO_SAMPLES_MAX, 200, 100);
    assert_in_range(report(RATIO_PROMPT).milli_bytes, 2000, 2200);
}

/* Whatever a provider reports, it moves nothing that it cannot have meant. */
static void odd_reports_are_no_samples(void **state)
{
    struct ratio_report r;
    learn(core, RATIO_OUTPUT, 100, 0, 5);
    learn(core, RATIO_OUTPUT, 100, 5, 0);
    learn(core, RATIO_OUTPUT, 100, 5, -1);
    learn(core, RATIO_OUTPUT, 100, 5, INT64_MAX);
    learn(core, RATIO_OUTPUT, 100, UINT64_MAX, INT64_MAX);
    learn(core, RATIO_OUTPUT, 100, 3, 1000);
    learn(core, RATIO_OUTPUT, 100, 1000, 3);
    assert_false(ratio_report(book, 7, RATIO_OUTPUT, &r));
    learn(core, RATIO_OUTPUT, RATIO_SAMPLES_MIN, 1000, 8000);
    assert_int_equal(ratio_tokens(core, 7, RATIO_OUTPUT, UINT64_MAX), INT64_MAX);
    learn(core, RATIO_OUTPUT, 10 * RATIO_SAMPLES_MAX, (UINT64_C(1) << 40) - 1, (INT64_C(1) << 40) - 1);
    assert_in_range(report(RATIO_OUTPUT).milli_bytes, 999, 1001);
}

static void mean_output(void **state)
{
    for (unsigned i = 0; i + 1 < RATIO_SAMPLES_MIN; i++)
        learn_whole(ratio_core(book, 1), 7, 100 + (i % 2) * 50);
    assert_int_equal(ratio_mean_output(core, 7), 0);
    learn_whole(core, 7, 150);
    assert_int_equal(ratio_mean_output(core, 7), 125);
    assert_int_equal(ratio_mean_output(core, 8), 0);
    assert_int_equal(ratio_mean_output(NULL, 7), 0);
    learn_whole(core, 7, -1);
    learn_whole(core, 7, INT64_MAX);
    assert_int_equal(ratio_mean_output(core, 7), 125);
    for (unsigned i = 0; i < 5 * RATIO_SAMPLES_MAX; i++)
        learn_whole(core, 7, 900);
    assert_in_range(ratio_mean_output(core, 7), 850, 900);
}

/* A call's two sides and its answer at once are what they are one by one. */
static void a_whole_call_at_once(void **state)
{
    struct buf at_once = {0}, one_by_one = {0};
    uint16_t id;
    assert_int_equal(registry_intern_target(registry, "p", "h:1", "m", &id), ERR_OK);
    struct ratio_book *other = ratio_book_new(1);
    for (int64_t i = 0; i < 3 * RATIO_SAMPLES_MAX; i++) {
        struct ratio_sample s = {{400, 90 + (uint64_t)i % 7}, {i % 5 == 0 ? -1 : 100, 30 + i % 3}, true};
        ratio_learn(core, id, &s);
        learn_one(ratio_core(other, 0), id, RATIO_PROMPT, s.bytes[0], s.tokens[0]);
        learn_one(ratio_core(other, 0), id, RATIO_OUTPUT, s.bytes[1], s.tokens[1]);
        learn_whole(ratio_core(other, 0), id, s.tokens[1]);
    }
    ratio_write(book, registry, &at_once);
    ratio_write(other, registry, &one_by_one);
    assert_true(at_once.n > 0);
    assert_string_equal(buf_cstr(&at_once), buf_cstr(&one_by_one));
    ratio_book_free(other);
    buf_fini(&at_once);
    buf_fini(&one_by_one);
}

static void *learn_much(void *done)
{
    learn(ratio_core(book, 1), RATIO_PROMPT, 40 * RATIO_SAMPLES_MAX, 300, 100);
    atomic_store((_Atomic bool *)done, true);
    return NULL;
}

/* Another core reads while samples come and are halved: never a sum of one moment against the other's of a later one.
 */
static void read_while_it_is_written(void **state)
{
    _Atomic bool is_done = false;
    pthread_t writer;
    learn(ratio_core(book, 1), RATIO_PROMPT, 200, 300, 100);
    assert_int_equal(pthread_create(&writer, NULL, learn_much, (void *)&is_done), 0);
    do {
        int64_t n = ratio_tokens(core, 7, RATIO_PROMPT, 300);
        if (n != 75) /* the writer was stopped in the middle of a change: as if nothing were known */
            assert_int_equal(n, 100);
    } while (!atomic_load(&is_done));
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(ratio_tokens(core, 7, RATIO_PROMPT, 300), 100);
}

/* ---- kept ---- */

static void outlives_a_restart(void **state)
{
    uint16_t id;
    struct buf line = {0};
    assert_int_equal(registry_intern_target(registry, "p", "h:1", "a model", &id), ERR_OK);
    for (unsigned i = 0; i < 30; i++) {
        learn_one(ratio_core(book, i % 3), id, RATIO_PROMPT, 300, 100);
        learn_one(ratio_core(book, i % 3), id, RATIO_OUTPUT, 500, 100);
        learn_whole(ratio_core(book, i % 3), id, 40);
    }
    ratio_write(book, registry, &line);
    assert_true(bytes_starts_with(buf_bytes(&line), BYTES("ratio 30 9000 3000 ")));
    struct ratio_book *later = ratio_book_new(1);
    struct registry *other = registry_new();
    struct bytes text = buf_bytes(&line), one = bytes_cut(&text, '\n');
    assert_int_equal(registry_intern_target(other, "p", "h:1", "before it", &id), ERR_OK);
    assert_int_equal(ratio_read_line(later, other, one), ERR_OK);
    assert_int_equal(registry_intern_target(other, "p", "h:1", "a model", &id), ERR_OK);
    assert_int_equal(ratio_tokens(ratio_core(later, 0), id, RATIO_PROMPT, 300), 100);
    assert_int_equal(ratio_tokens(ratio_core(later, 0), id, RATIO_OUTPUT, 500), 100);
    assert_int_equal(ratio_mean_output(ratio_core(later, 0), id), 40);
    struct buf again = {0};
    ratio_write(later, other, &again);
    assert_string_equal(buf_cstr(&again), buf_cstr(&line));
    struct bytes name;
    struct ratio_report r;
    assert_true(ratio_line_report(one, RATIO_OUTPUT, &name, &r));
    assert_true(bytes_is(name, "p h:1 a model"));
    assert_int_equal(r.milli_bytes, 5000);
    buf_fini(&line);
    buf_fini(&again);
    ratio_book_free(later);
    registry_free(other);
}

static void other_lines_are_refused(void **state)
{
    static const char *const lines[] = {
        "",
        "ratio",
        "ratio 1 2 3",
        "latency 30 90 30 0 0 0 0 0 0 0 1 1 p h m",
        "ratio 30 90 -30 0 0 0 0 0 0 0 1 1 p h m",
        "ratio 30 90 x 0 0 0 0 0 0 0 1 1 p h m",
        "ratio 30 0 30 0 0 0 0 0 0 0 1 1 p h m",    /* samples without bytes */
        "ratio 30 9000 30 0 0 0 0 0 0 0 1 1 p h m", /* 300 bytes a token */
        "ratio 30 30 9000 0 0 0 0 0 0 0 1 1 p h m", /* 300 tokens a byte */
        "ratio 30 90 30 18446744073709551615 0 0 0 0 0 0 1 1 p h m",
        "ratio 18446744073709551615 90 30 0 0 0 0 0 0 0 1 1 p h m",
        "ratio 1099511627776 90 30 0 0 0 0 0 0 0 1 1 p h m",
        "ratio 30 90 30 0 0 0 0 0 0 0 1 1 p h",
    };
    for (size_t i = 0; i < RM_COUNTOF(lines); i++) {
        if (ratio_read_line(book, registry, bytes_of(lines[i])) == ERR_SYNTAX)
            continue;
        print_error("taken: %s\n", lines[i]);
        fail();
    }
    assert_int_equal(ratio_read_line(book, registry, BYTES("ratio 400000 1200000 400000 0 0 0 0 0 0 0 0 9 p h m")),
                     ERR_OK);
    assert_int_equal(ratio_read_line(book, registry, BYTES("ratio 0 7 7 0 0 0 0 0 0 0 1 1 p h m")), ERR_OK);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(four_bytes_until_it_is_known),
        TEST(by_side_and_target_for_all_cores),
        TEST(the_error_is_measured),
        TEST(the_fallback_is_not_held_against_it),
        TEST(it_follows_a_change),
        TEST(odd_reports_are_no_samples),
        TEST(mean_output),
        TEST(a_whole_call_at_once),
        TEST(read_while_it_is_written),
        TEST(outlives_a_restart),
        TEST(other_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Answers read by the form of one before, against the same answers read from their scan's notes. */
#include "unit.h"

#include "answer_kit.h"
#include "base/mem.h"
#include "codec/json_tree.h"
#include "dialect/openai_form.h"

static const char first[] =
    "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1764460800,\"model\":\"m-1\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"One\\n\\u00e9\\\"two\\\" \xc3\xa9\","
    "\"reasoning\":\"more\",\"refusal\":null,\"annotations\":[]},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
    "\"usage\":{\"prompt_tokens\":512,\"completion_tokens\":256, \"total_tokens\":768,"
    "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},"
    "\"completion_tokens_details\":{\"reasoning_tokens\":7}},\"service_tier\":\"default\","
    "\"system_fingerprint\":\"fp_0123456789\"}";

static bool read_notes(struct bytes text, struct answer_form **form, struct openai_noted *out)
{
    struct arena a = {0};
    struct json_notes notes;
    bool is = json_notes_of(text, KIT_DEPTH, &a, &notes) && openai_noted_read(&notes.index, out);
    if (is)
        openai_form_make(form, text, KIT_DEPTH, &notes.index, out);
    arena_fini(&a);
    return is;
}

static void skip_without_scan(void)
{
    struct openai_noted noted;
    if (read_notes(bytes_of(first), NULL, &noted))
        return;
    print_message("skipped: no scan in blocks\n");
    skip();
}

static bool is_same_text(const struct noted_text *a, const struct noted_text *b)
{
    return a->less == b->less && bytes_eq(a->inside, b->inside) && (a->inside.n == 0 || a->inside.p == b->inside.p);
}

static bool is_same(const struct openai_noted *a, const struct openai_noted *b)
{
    return is_same_text(&a->id, &b->id) && is_same_text(&a->model, &b->model) &&
           is_same_text(&a->service_tier, &b->service_tier) && is_same_text(&a->content, &b->content) &&
           is_same_text(&a->reasoning_content, &b->reasoning_content) && is_same_text(&a->reasoning, &b->reasoning) &&
           is_same_text(&a->refusal, &b->refusal) && is_same_text(&a->finish, &b->finish) &&
           is_same_text(&a->sequence, &b->sequence) && a->has_usage == b->has_usage && a->choice == b->choice &&
           memcmp(&a->usage, &b->usage, sizeof a->usage) == 0;
}

/* True: it is of the form. Then its notes must say the same. */
static bool check(struct answer_form **form, struct bytes text)
{
    struct openai_noted by_form, by_notes;
    char *copy = mem_dup(text.p, text.n); /* with its end where a sanitizer sees it */
    struct bytes in = bytes_from(copy, text.n);
    bool is = openai_form_match(form, in, KIT_DEPTH, &by_form);
    if (is && (!read_notes(in, NULL, &by_notes) || !is_same(&by_form, &by_notes)))
        fail_msg("read otherwise: %.*s", (int)text.n, text.p);
    mem_free(copy);
    return is;
}

static struct answer_form *form_of(const char *text)
{
    struct answer_form *form = NULL;
    struct openai_noted noted;
    assert_true(read_notes(bytes_of(text), &form, &noted));
    return form;
}

/* first, with what stands there instead of the only `from` in it. */
static void put_other(struct buf *out, const char *from, const char *to)
{
    size_t at = bytes_find(bytes_of(first), bytes_of(from));
    assert_int_not_equal(at, SIZE_MAX);
    buf_clear(out);
    buf_put(out, bytes_slice(bytes_of(first), 0, at));
    buf_puts(out, to);
    buf_put(out, bytes_slice(bytes_of(first), at + strlen(from), sizeof first - 1));
}

static void values_may_be_others(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        bool is_match;
    } rows[] = {
        {"chatcmpl-1", "chatcmpl-1", true},
        {"chatcmpl-1", "chatcmpl-a-longer-name-than-one-vector-has-bytes", true},
        {"chatcmpl-1", "", true},
        {"chatcmpl-1", "a\\u0062", false}, /* a word has no escapes */
        {"1764460800", "1796000001", true},
        {"1764460800", "999999999999999999", true},
        {"1764460800", "1000000000000000000", false},
        {"One\\n", "Another\\t\\u00e9\\ud7ff", true},
        {"One\\n\\u00e9\\\"two\\\" \xc3\xa9", "", true},
        {"One\\n", "\\ud83d\\ude00", false}, /* pairs are the tree's */
        {"One\\n", "\\ud83d", false},
        {"One\\n", "\x01", false},
        {"One\\n", "\xff", false},
        {"One\\n", "\\x", false},
        {"more", "less \xe2\x82\xac", true},
        {"\"more\"", "null", false},
        {"\"refusal\":null", "\"refusal\":\"no\"", false},
        {"stop", "length", true},
        {"512", "1", true},
        {"512", "0", true},
        {"512", "999999999", true},
        {"512", "1000000000", false},
        {"512", "012", false},
        {"512", "-1", false},
        {"512", "5.0", false},
        {"512", "5e2", false},
        {"512", "", false},
        {"\"cached_tokens\":0", "\"cached_tokens\":384", true},
        {"\"audio_tokens\":0", "\"audio_tokens\":12", true},
        {"fp_0123456789", "fp_9", true},
        {"chat.completion", "error", false},
        {"[]", "[1]", false},
        {"\"index\":0", "\"index\":1", false},
        {"assistant", "user", false},
        {"fp_0123456789\"}", "fp\"} ", false},
    };
    struct buf other = {0};
    skip_without_scan();
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct answer_form *form = form_of(first);
        put_other(&other, rows[i].from, rows[i].to);
        if (check(&form, buf_bytes(&other)) != rows[i].is_match)
            fail_msg("%s for %s", rows[i].to, rows[i].from);
        answer_form_free(form);
    }
    buf_fini(&other);
}

/* Each byte in turn is another, is not there, or has another before it. */
static void every_byte_may_be_another(void **state)
{
    (void)state;
    static const char others[] = {'"', '\\', '{', '}', '[', ']',  ',',  ':',    '0',   '9',
                                  '-', '.',  'e', 'u', ' ', '\n', '\0', '\xc3', '\xa9'};
    struct bytes text = bytes_of(first);
    struct buf other = {0};
    size_t n_match = 0;
    skip_without_scan();
    struct answer_form *form = form_of(first);
    for (size_t i = 0; i < text.n; i++)
        for (size_t k = 0; k < 2 * sizeof others + 1; k++) {
            size_t next = i + (k % 2 == 0);
            buf_clear(&other);
            buf_put(&other, bytes_slice(text, 0, i));
            if (k < 2 * sizeof others)
                buf_put(&other, bytes_from(&others[k / 2], 1));
            buf_put(&other, bytes_slice(text, next, text.n));
            n_match += check(&form, buf_bytes(&other));
        }
    assert_true(n_match > 100);
    answer_form_free(form);
    buf_fini(&other);
}

static void an_answer_cut_short_is_not_of_it(void **state)
{
    (void)state;
    skip_without_scan();
    struct answer_form *form = form_of(first);
    for (size_t n = 0; n < sizeof first - 1; n++)
        assert_false(check(&form, bytes_from(first, n)));
    assert_true(check(&form, bytes_of(first)));
    answer_form_free(form);
}

static void a_long_text_is_read_on(void **state)
{
    (void)state;
    struct buf text = {0}, other = {0};
    skip_without_scan();
    struct answer_form *form = form_of(first);
    for (size_t n = 0; n < 400; n++) {
        buf_puts(&text, n % 7 == 0 ? "\\n" : n % 11 == 0 ? "\xc3\xa9" : "plain ");
        put_other(&other, "One", buf_cstr(&text));
        assert_true(check(&form, buf_bytes(&other)));
    }
    answer_form_free(form);
    buf_fini(&text);
    buf_fini(&other);
}

static void another_depth_asks_the_scan(void **state)
{
    (void)state;
    struct openai_noted noted;
    skip_without_scan();
    struct answer_form *form = form_of(first), *none = NULL;
    assert_false(openai_form_match(&form, bytes_of(first), KIT_DEPTH - 1, &noted));
    assert_true(openai_form_match(&form, bytes_of(first), KIT_DEPTH, &noted));
    assert_false(openai_form_match(&none, bytes_of(first), KIT_DEPTH, &noted));
    assert_false(openai_form_match(NULL, bytes_of(first), KIT_DEPTH, &noted));
    answer_form_free(form);
}

static void what_has_no_room_leaves_no_form(void **state)
{
    (void)state;
    struct answer_form *form = NULL;
    struct openai_noted noted;
    struct buf other = {0}, many = {0};
    skip_without_scan();
    buf_puts(&many, "\"logprobs\":\"");
    for (int i = 0; i < 100; i++)
        buf_puts(&many, "a long part ");
    buf_puts(&many, "\"");
    put_other(&other, "\"logprobs\":null", buf_cstr(&many));
    assert_true(read_notes(buf_bytes(&other), &form, &noted));
    assert_false(check(&form, buf_bytes(&other)));
    buf_clear(&many);
    for (int i = 0; i < NOTED_PLACES_MAX; i++)
        buf_printf(&many, "\"x%d\":%d,", i, i);
    buf_puts(&many, "\"system_fingerprint\"");
    put_other(&other, "\"system_fingerprint\"", buf_cstr(&many));
    assert_true(read_notes(buf_bytes(&other), &form, &noted));
    assert_false(check(&form, buf_bytes(&other)));
    answer_form_free(form);
    buf_fini(&other);
    buf_fini(&many);
}

/* Two forms in turn: never the one before. */
static void a_target_without_a_form_is_left_alone(void **state)
{
    (void)state;
    struct answer_form *form = NULL;
    struct openai_noted noted;
    struct buf other = {0};
    size_t n = 0;
    skip_without_scan();
    put_other(&other, "assistant", "user");
    for (size_t i = 0; i < 4; i++) {
        struct bytes text = i % 2 == 0 ? bytes_of(first) : buf_bytes(&other);
        assert_false(check(&form, text));
        assert_true(read_notes(text, &form, &noted));
    }
    assert_false(check(&form, bytes_of(first)));
    assert_true(read_notes(bytes_of(first), &form, &noted)); /* once too often */
    while (!check(&form, bytes_of(first))) {
        assert_true(read_notes(bytes_of(first), &form, &noted));
        n++;
    }
    assert_int_equal(n, 64);
    answer_form_free(form);
    buf_fini(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_may_be_others),
        cmocka_unit_test(every_byte_may_be_another),
        cmocka_unit_test(an_answer_cut_short_is_not_of_it),
        cmocka_unit_test(a_long_text_is_read_on),
        cmocka_unit_test(another_depth_asks_the_scan),
        cmocka_unit_test(what_has_no_room_leaves_no_form),
        cmocka_unit_test(a_target_without_a_form_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

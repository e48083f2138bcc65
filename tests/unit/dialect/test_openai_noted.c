/* Whole answers read from the scan's notes against the same answers read from a tree: a member whose name is written
 * with an escape says nothing, but sends any body to the tree. */
#include "unit.h"

#include "answer_kit.h"
#include "codec/json_tree.h"
#include "dialect/openai_noted.h"

#include <dirent.h>
#include <sys/stat.h>

static const char usual[] =
    "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1764460800,\"model\":\"m-1\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"One\\n\\u00e9\\\"two\\\" \xc3\xa9\","
    "\"reasoning_content\":\"thought\",\"reasoning\":\"more\",\"refusal\":null,\"annotations\":[],\"tool_calls\":[],"
    "\"function_call\":null,\"audio\":null,\"reasoning_details\":[]},\"logprobs\":null,\"finish_reason\":\"stop\","
    "\"stop_reason\":\"END\",\"error\":null}],\"usage\":{\"prompt_tokens\":512,\"completion_tokens\":256,"
    "\"total_tokens\":768,\"prompt_tokens_details\":{\"cached_tokens\":128,\"cache_write_tokens\":3},"
    "\"completion_tokens_details\":{\"reasoning_tokens\":7}},\"service_tier\":\"default\",\"error\":null,"
    "\"system_fingerprint\":\"fp\"}";

static bool is_by_notes(struct bytes body)
{
    struct arena a = {0};
    struct json_notes notes;
    struct openai_noted noted;
    bool is = json_notes_of(bytes_trim(body), KIT_DEPTH, &a, &notes) && openai_noted_read(&notes.index, &noted);
    arena_fini(&a);
    return is;
}

/* Everything that the events say, but for the texts where they are not asked for. */
static void hear(struct bytes body, bool is_text_unread, struct answer_form **form, struct buf *lines)
{
    struct decoder d;
    struct decoded out;
    buf_clear(lines);
    decoder_init(&d, &kit_openai, BYTES("openai"), KIT_DEPTH, false);
    d.is_text_unread = is_text_unread;
    d.form = form;
    decoder_whole(&d, body, &out);
    for (size_t i = 0; i < out.n; i++) {
        struct event e = out.v[i];
        buf_printf(lines, "%u ", e.text_bytes);
        if (is_text_unread && e.text_bytes > 0)
            e.text.n = 0;
        kit_event(lines, &e);
    }
    buf_printf(lines, "malformed=%d %s complete=%d\n", out.is_malformed, out.why ? out.why : "",
               decoder_is_complete(&d));
    decoder_fini(&d);
}

static void put_for_tree(struct bytes body, struct buf *out)
{
    size_t open = bytes_find_byte(body, '{');
    buf_clear(out);
    buf_put(out, bytes_slice(body, 0, open + 1));
    buf_puts(out, "\"\\u007a\":0,");
    buf_put(out, bytes_slice(body, open + 1, body.n));
}

/* Once by its notes, once by the form of the usual one, once by its own. */
static void check(struct bytes body)
{
    static struct buf other, got, want;
    put_for_tree(body, &other);
    assert_false(is_by_notes(buf_bytes(&other)));
    for (int unread = 0; unread < 2; unread++) {
        struct answer_form *form = NULL;
        hear(bytes_of(usual), unread, &form, &got);
        hear(buf_bytes(&other), unread, NULL, &want);
        for (int by_form = 0; by_form < 3; by_form++) {
            hear(body, unread, by_form > 0 ? &form : NULL, &got);
            if (!bytes_eq(buf_bytes(&got), buf_bytes(&want)))
                fail_msg("%.*s\ngives\n%.*s\nnot\n%.*s", (int)body.n, body.p, (int)got.n, got.p, (int)want.n, want.p);
        }
        answer_form_free(form);
    }
    buf_fini(&other);
    buf_fini(&got);
    buf_fini(&want);
}

static void the_usual_is_read_from_notes(void **state)
{
    (void)state;
    struct buf lines = {0};
#ifndef RM_SCAN_SCALAR
    assert_true(is_by_notes(bytes_of(usual)));
#endif
    check(bytes_of(usual));
    hear(bytes_of(usual), false, NULL, &lines);
    assert_non_null(strstr(buf_cstr(&lines), "text=\"One\\x0a\xc3\xa9\"two\" \xc3\xa9\""));
    assert_non_null(strstr(buf_cstr(&lines), "name=\"END\""));
    buf_fini(&lines);
}

/* Each value in turn is each of these. */
static const char *const values[] = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "7.0",
    "1e2",
    "65536",
    "999999999",
    "1000000001",
    "99999999999999999999",
    "\"\"",
    "\"x\"",
    "\"error\"",
    "\"length\"",
    "\"insufficient_system_resource\"",
    "\"a\\u0062\\n\"",
    "\"\\ud83d\\ude00\"",
    "\"\xf0\x9f\x98\x80\"",
    "[]",
    "{}",
    "[1]",
    "[{\"type\":\"text\",\"text\":\"part\"}]",
    "[{\"id\":\"c1\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]",
    "{\"message\":\"bad\",\"code\":\"server_error\"}",
    "{\"content\":\"delta\"}",
    "[{\"message\":{\"content\":\"a\"}},{\"message\":{\"content\":\"b\"},\"index\":1}]",
};

static void replace(struct bytes body, const struct json_note *n, const char *value)
{
    struct buf out = {0};
    buf_put(&out, bytes_slice(body, 0, n->at));
    buf_puts(&out, value);
    buf_put(&out, bytes_slice(body, n->end, body.n));
    check(buf_bytes(&out));
    buf_fini(&out);
}

/* A second member of that name, before it or after it. */
static void repeat(struct bytes body, const struct json_note *name, const struct json_note *value, const char *other)
{
    struct bytes quoted = bytes_slice(body, name->at, name->end), is = bytes_slice(body, value->at, value->end);
    for (int is_first = 0; is_first < 2; is_first++) {
        struct buf out = {0};
        buf_put(&out, bytes_slice(body, 0, value->at));
        buf_put(&out, is_first ? is : bytes_of(other));
        buf_puts(&out, ",");
        buf_put(&out, quoted);
        buf_puts(&out, ":");
        buf_put(&out, is_first ? bytes_of(other) : is);
        buf_put(&out, bytes_slice(body, value->end, body.n));
        check(buf_bytes(&out));
        buf_fini(&out);
    }
}

static void rename_to(struct bytes body, const struct json_note *name, const char *other)
{
    struct buf out = {0};
    buf_put(&out, bytes_slice(body, 0, name->at));
    buf_printf(&out, "\"%s\"", other);
    buf_put(&out, bytes_slice(body, name->end, body.n));
    check(buf_bytes(&out));
    buf_fini(&out);
}

static const char *const names[] = {"id",
                                    "object",
                                    "model",
                                    "choices",
                                    "usage",
                                    "error",
                                    "type",
                                    "service_tier",
                                    "x_groq",
                                    "detail",
                                    "message",
                                    "delta",
                                    "content",
                                    "refusal",
                                    "reasoning",
                                    "reasoning_content",
                                    "tool_calls",
                                    "finish_reason",
                                    "stop_reason",
                                    "index",
                                    "audio",
                                    "input_tokens",
                                    "output_tokens",
                                    "input_tokens_details",
                                    "code",
                                    "cached_tokens",
                                    "num_cached_tokens"};

static bool is_name(struct bytes body, const struct json_note *n)
{
    return n->end < body.n && body.p[n->at] == '"' && body.p[n->end] == ':';
}

static void every_value_and_name_is_read_alike(void **state)
{
    (void)state;
    struct bytes body = bytes_of(usual);
    struct arena a = {0};
    struct json_notes notes;
    if (!json_notes_of(body, KIT_DEPTH, &a, &notes)) {
        print_message("skipped: no scan in blocks\n");
        skip();
    }
    for (uint32_t i = 1; i < notes.index.n; i++) {
        const struct json_note *n = &notes.index.v[i];
        bool is_a_name = is_name(body, n);
        for (size_t k = 0; is_a_name && k < RM_COUNTOF(names); k++)
            rename_to(body, n, names[k]);
        for (size_t k = 0; k < RM_COUNTOF(values); k++) {
            if (is_a_name)
                repeat(body, n, n + 1, values[k]);
            else
                replace(body, n, values[k]);
        }
    }
    arena_fini(&a);
}

static size_t check_file(const char *path)
{
    struct buf body = {0};
    size_t is_short = 0;
    assert_true(kit_read(path, &body));
    struct bytes text = bytes_trim(buf_bytes(&body));
    if (bytes_starts_with(text, BYTES("{")) &&
        bytes_starts_with(bytes_trim(bytes_slice(text, 1, text.n)), BYTES("\""))) {
        check(buf_bytes(&body));
        is_short = is_by_notes(buf_bytes(&body));
    }
    buf_fini(&body);
    return is_short;
}

/* All JSON files under `folder`; returns how many were read from notes. */
static size_t check_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    size_t n = 0;
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[1024];
        struct stat st;
        if (e->d_name[0] == '.')
            continue;
        assert_true(snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path);
        assert_int_equal(stat(path, &st), 0);
        if (S_ISDIR(st.st_mode))
            n += check_folder(path);
        else if (bytes_ends_with(bytes_of(path), BYTES(".json")) && st.st_size < 1 << 20)
            n += check_file(path);
    }
    closedir(dir);
    return n;
}

static void golden_answers_are_read_alike(void **state)
{
    (void)state;
    char folder[1024];
    snprintf(folder, sizeof folder, "%s/tests/golden/answer", getenv("RINGMAIN_SOURCE"));
    size_t n = check_folder(folder);
#ifndef RM_SCAN_SCALAR
    assert_true(n > 5);
#endif
    (void)n;
}

static void recorded_answers_are_read_alike(void **state)
{
    (void)state;
    const char *folder = getenv("RINGMAIN_FIXTURES");
    struct stat st;
    if (folder == NULL || stat(folder, &st) != 0) {
        print_message("skipped: no recorded fixtures\n");
        skip();
    }
    size_t n = check_folder(folder);
#ifndef RM_SCAN_SCALAR
    assert_true(n > 5);
#endif
    (void)n;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_is_read_from_notes),
        cmocka_unit_test(every_value_and_name_is_read_alike),
        cmocka_unit_test(golden_answers_are_read_alike),
        cmocka_unit_test(recorded_answers_are_read_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

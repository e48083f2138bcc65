/* What is read from a client's body, and what is refused. */
#include "unit.h"

#include "dialect/members.h"
#include "request_case.h"

static enum err reads(const struct dialect *d, struct bytes body, struct arena *a, struct call *c, const char **why)
{
    *why = "";
    return dialect_read_call(d, body, DEPTH_MAX, a, c, why);
}

static void check_refused(const struct dialect *d, const char *body, enum err want, const char *word)
{
    struct arena a = {0};
    struct call c;
    const char *why;
    enum err e = reads(d, bytes_of(body), &a, &c, &why);
    if (e != want || strstr(why, word) == NULL)
        fail_msg("%s: %s \"%s\", not %s \"%s\"", body, err_text(e), why, err_text(want), word);
    arena_fini(&a);
}

static void refusals(void **state)
{
    (void)state;
    check_refused(&chat, "", ERR_SYNTAX, "empty");
    check_refused(&chat, "[]", ERR_SYNTAX, "not a JSON object");
    check_refused(&chat, "{\"model\":\"m\"", ERR_SYNTAX, "too early");
    check_refused(&chat, "{\"model\":\"m\"} x", ERR_SYNTAX, "after the object");
    check_refused(&chat, "{\"model\":\"m\",\"a\":\"\xff\"}", ERR_SYNTAX, "UTF-8");
    check_refused(&chat, "{\"model\":\"cheap\",\"model\":\"dear\"}", ERR_DUPLICATE, "twice");
    check_refused(&chat, "{\"model\":\"cheap\",\"mod\\u0065l\":\"dear\"}", ERR_DUPLICATE, "twice");
    check_refused(&chat, "{\"model\":\"m\",\"stream\":false,\"stream\":true}", ERR_DUPLICATE, "twice");
    check_refused(&chat, "{\"model\":\"m\",\"max_tokens\":5,\"max_tokens\":6}", ERR_DUPLICATE, "twice");
    check_refused(&messages, "{\"model\":\"m\",\"system\":\"a\",\"system\":\"b\"}", ERR_DUPLICATE, "twice");
    check_refused(&chat, "{}", ERR_MISSING, "model is missing");
    check_refused(&chat, "{\"model\":null}", ERR_MISSING, "model is missing");
    check_refused(&chat, "{\"model\":\"\"}", ERR_MISSING, "model is empty");
    check_refused(&chat, "{\"model\":5}", ERR_TYPE, "model must be a string");
    check_refused(&chat, "{\"model\":\"a\\r\\nx: y\"}", ERR_TYPE, "control character");
    check_refused(&chat, "{\"model\":\"m\",\"stream\":\"true\"}", ERR_TYPE, "stream");
    check_refused(&chat, "{\"model\":\"m\",\"n\":0}", ERR_TYPE, "n must be");
    check_refused(&chat, "{\"model\":\"m\",\"n\":1.5}", ERR_TYPE, "n must be");
    check_refused(&chat, "{\"model\":\"m\",\"max_tokens\":\"9\"}", ERR_TYPE, "max_tokens");
    check_refused(&chat, "{\"model\":\"m\",\"max_completion_tokens\":0.5}", ERR_TYPE, "max_completion_tokens");
    check_refused(&messages, "{\"model\":\"m\",\"max_tokens\":-1}", ERR_TYPE, "max_tokens");
}

static void depth_is_bounded(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_puts(&b, "{\"model\":\"m\",\"x\":");
    for (int i = 0; i < 100000; i++)
        buf_putc(&b, '[');
    struct arena a = {0};
    struct call c;
    const char *why;
    assert_int_equal(reads(&chat, buf_bytes(&b), &a, &c, &why), ERR_LIMIT);
    assert_non_null(strstr(why, "deep"));
    buf_fini(&b);
    arena_fini(&a);
}

static bool is_whole_only(const struct dialect *d, const char *body)
{
    struct arena a = {0};
    struct call c;
    const char *why;
    assert_int_equal(reads(d, bytes_of(body), &a, &c, &why), ERR_OK);
    arena_fini(&a);
    return c.needs_whole;
}

static void answers_that_cannot_be_collected(void **state)
{
    (void)state;
    assert_false(is_whole_only(&chat, "{\"model\":\"m\"}"));
    assert_false(is_whole_only(&chat, "{\"model\":\"m\",\"logprobs\":false,\"moderation\":null,\"functions\":null}"));
    assert_false(is_whole_only(&chat, "{\"model\":\"m\",\"tools\":[{\"type\":\"function\",\"function\":{}}]}"));
    assert_true(is_whole_only(&chat, "{\"model\":\"m\",\"logprobs\":true}"));
    assert_true(is_whole_only(&chat, "{\"model\":\"m\",\"functions\":[{\"name\":\"f\"}]}"));
    assert_true(is_whole_only(&chat, "{\"model\":\"m\",\"tools\":[{\"type\":\"function\"},{\"type\":\"custom\"}]}"));
    assert_false(is_whole_only(&messages, "{\"model\":\"m\",\"tools\":[{\"name\":\"f\"},{\"type\":\"custom\"}]}"));
    assert_true(is_whole_only(&messages, "{\"model\":\"m\",\"tools\":[{\"type\":\"web_search_20250305\"}]}"));
    assert_true(is_whole_only(&messages, "{\"model\":\"m\",\"mcp_servers\":[{}]}"));
    assert_true(is_whole_only(&messages,
                              "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"document\","
                              "\"citations\":{\"enabled\":true}}]}]}"));
    assert_false(is_whole_only(&messages,
                               "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"document\","
                               "\"citations\":{\"enabled\":false}},{\"type\":\"text\",\"citations\":[]}]}]}"));
    assert_true(is_whole_only(&messages, "{\"model\":\"m\",\"container\":\"c_1\"}"));
}

static void facts_of_chat(void **state)
{
    (void)state;
    struct arena a = {0};
    struct call c;
    const char *why;
    struct bytes body =
        BYTES("{\"model\":\"caf\\u00e9\",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"n\":2,"
              "\"max_tokens\":5,\"max_completion_tokens\":1e2,\"reasoning_effort\":\"high\","
              "\"response_format\":{\"type\":\"json_schema\"},\"modalities\":[\"text\",\"audio\"],\"messages\":["
              "{\"role\":\"system\",\"content\":\"1234\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
              "\"\\n\\u00e9\\ud83d\\ude00\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,xxxxxxxx\"}}]},"
              "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"ab\",\"arguments\":"
              "\"{}\"}}]}]}");
    assert_int_equal(reads(&chat, body, &a, &c, &why), ERR_OK);
    assert_true(bytes_is(c.model, "caf\xc3\xa9"));
    assert_true(c.is_stream && c.wants_usage && c.has_vision && c.has_json_schema && c.has_audio && c.has_prefill);
    assert_false(c.has_tools || c.has_cache_markers);
    assert_int_equal(c.max_tokens, 100);
    assert_int_equal(c.n, 2);
    assert_true(bytes_is(c.effort, "high"));
    assert_int_equal(c.state.n, 0);
    assert_int_equal(c.prompt_bytes, 4 + (1 + 2 + 4) + 2 + 2);
    assert_true(c.prefix_hash != 0);
    arena_fini(&a);
}

static void absent_and_null_are_alike(void **state)
{
    (void)state;
    struct arena a = {0};
    struct call c;
    const char *why;
    struct bytes body =
        BYTES("{\"model\":\"m\",\"stream\":null,\"n\":null,\"max_tokens\":null,\"tools\":null,"
              "\"conversation\":null,\"store\":true,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}");
    assert_int_equal(reads(&chat, body, &a, &c, &why), ERR_OK);
    assert_false(c.is_stream || c.wants_usage || c.has_tools || c.has_prefill);
    assert_int_equal(c.max_tokens, -1);
    assert_int_equal(c.n, 1);
    assert_int_equal(c.state.n, 0);
    assert_int_equal(c.prompt_bytes, 1);
    assert_int_equal(c.prefix_hash, 0);
    arena_fini(&a);
}

static void read_made(const char *members, const char *rest, struct arena *a, struct call *c)
{
    struct buf body = {0};
    const char *why;
    buf_printf(&body, "{%s%s}", members, rest);
    assert_int_equal(reads(&chat, arena_dup(a, buf_bytes(&body)), a, c, &why), ERR_OK);
    buf_fini(&body);
}

static void check_same_facts(const struct call *c, const struct call *d)
{
    assert_true(bytes_eq(c->model, d->model) && bytes_eq(c->effort, d->effort) && bytes_eq(c->service, d->service));
    assert_true(bytes_eq(c->state, d->state) && bytes_eq(c->cache_key, d->cache_key));
    assert_true(c->is_stream == d->is_stream && c->wants_usage == d->wants_usage && c->has_tools == d->has_tools);
    assert_true(c->has_vision == d->has_vision && c->has_json_schema == d->has_json_schema);
    assert_true(c->has_audio == d->has_audio && c->needs_whole == d->needs_whole && c->has_prefill == d->has_prefill);
    assert_true(c->has_cache_markers == d->has_cache_markers && c->has_long_marker == d->has_long_marker);
    assert_true(c->has_head_marker == d->has_head_marker);
    assert_true(c->max_tokens == d->max_tokens && c->n == d->n && c->prompt_bytes == d->prompt_bytes);
    assert_true(c->prefix_hash == d->prefix_hash && c->talk_hash == d->talk_hash && c->head_hash == d->head_hash);
    assert_true(c->cache_hash == d->cache_hash && c->cache_bytes == d->cache_bytes && c->head_bytes == d->head_bytes);
}

/* Where none of the rare members is there, nobody asks for each; where one is, if only as null, all are asked for. */
static void rare_members_that_are_null_change_no_fact(void **state)
{
    (void)state;
    static const char *const rests[] = {
        "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]",
        "\"stream\":true,\"max_tokens\":7,\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
        "{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"y\"}]",
        "\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"s\",\"cache_control\":{\"ttl\":"
        "\"1h\"}}]},{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"file_id\":\"f\"}]}]",
        "\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"prompt_cache_breakpoint\":{}},{\"role\":\"tool\"}]",
        "\"max_tokens\":null,\"messages\":null",
        "\"x\":[{\"tools\":[1]}]"};
    for (size_t i = 0; i < RM_COUNTOF(rests); i++)
        for (size_t m = IN_MESSAGES + 1; m < CHAT_MEMBERS; m++) {
            struct arena a = {0};
            struct call without, with, with_escapes;
            const char *rare = arena_printf(&a, "\"model\":\"m\",\"%s\":null,", chat_members[m].name).p;
            const char *escaped = arena_printf(&a, "\"\\u006dodel\":\"m\",\"%s\":null,", chat_members[m].name).p;
            read_made("\"model\":\"m\",", rests[i], &a, &without);
            read_made(rare, rests[i], &a, &with);
            read_made(escaped, rests[i], &a, &with_escapes);
            check_same_facts(&without, &with);
            check_same_facts(&without, &with_escapes);
            arena_fini(&a);
        }
}

static void check_state(const struct dialect *d, const char *body, const char *want)
{
    struct arena a = {0};
    struct call c;
    const char *why;
    assert_int_equal(reads(d, bytes_of(body), &a, &c, &why), ERR_OK);
    if (!bytes_is(c.state, want))
        fail_msg("%s: state \"%.*s\"", body, (int)c.state.n, c.state.p);
    arena_fini(&a);
}

static void stored_state(void **state)
{
    (void)state;
    check_state(&chat, "{\"model\":\"m\",\"previous_response_id\":\"r\"}", "previous_response_id");
    check_state(&chat,
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"file\":{\"file_id\":\"f\"}}]}]}",
                "file_id");
    check_state(&chat, "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"audio\":{\"id\":\"a\"}}]}", "audio");
    check_state(&messages, "{\"model\":\"m\",\"container\":\"c\"}", "container");
    check_state(&messages,
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"content\":"
                "[{\"type\":\"image\",\"source\":{\"type\":\"file\",\"file_id\":\"f\"}}]}]}]}",
                "file_id");
    check_state(&messages, "{\"model\":\"m\",\"container\":null,\"messages\":[]}", "");
}

static void facts_of_messages(void **state)
{
    (void)state;
    struct arena a = {0};
    struct call c;
    const char *why;
    struct bytes body = BYTES(
        "{\"model\":\"m\",\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":\"abc\"}],\"output_config\":{"
        "\"effort\":"
        "\"low\",\"format\":{\"type\":\"json_schema\"}},\"tools\":[{\"name\":\"t\",\"cache_control\":{\"type\":"
        "\"ephemeral\"}}],"
        "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"content\":[{\"type\":\"image\"},"
        "{\"type\":\"text\",\"text\":\"de\"}]}]}]}");
    assert_int_equal(reads(&messages, body, &a, &c, &why), ERR_OK);
    assert_true(c.wants_usage && c.has_tools && c.has_vision && c.has_json_schema && c.has_cache_markers);
    assert_false(c.has_prefill || c.is_stream);
    assert_true(bytes_is(c.effort, "low"));
    assert_int_equal(c.prompt_bytes, 5 + strlen("[{\"name\":\"t\",\"cache_control\":{\"type\":\"ephemeral\"}}]"));
    assert_true(c.prefix_hash != 0);
    arena_fini(&a);
}

static uint64_t prefix_of(const char *body)
{
    struct arena a = {0};
    struct call c;
    const char *why;
    assert_int_equal(reads(&chat, bytes_of(body), &a, &c, &why), ERR_OK);
    arena_fini(&a);
    return c.prefix_hash;
}

static struct call call_of(const struct dialect *d, const char *body)
{
    struct arena a = {0};
    struct call c;
    const char *why = "";
    assert_int_equal(reads(d, bytes_of(body), &a, &c, &why), ERR_OK);
    arena_fini(&a);
    return c; /* only its numbers are looked at */
}

#define TURN1 "{\"model\":\"m\",\"max_tokens\":9,\"system\":\"s\",\"messages\":["
#define ASKED "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}"
#define MARKED \
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"}}]}"
#define REST ",{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"}"

/* A conversation keeps its hash while it grows and its marker moves on; another first question is another one. */
static void turns_of_a_conversation_are_known_by_their_start(void **state)
{
    struct call first = call_of(&messages, TURN1 MARKED "]}"), second = call_of(&messages, TURN1 ASKED REST "]}");
    assert_true(first.talk_hash != 0 && first.talk_hash == second.talk_hash);
    assert_true(first.prefix_hash != second.prefix_hash);
    struct call other =
        call_of(&messages, TURN1 "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}" REST "]}");
    assert_true(other.talk_hash != first.talk_hash);
    struct call chat1 =
        call_of(&chat, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"}," ASKED "]}");
    struct call chat2 =
        call_of(&chat, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"}," ASKED REST "]}");
    assert_true(chat1.talk_hash != 0 && chat1.talk_hash == chat2.talk_hash);
    /* Blanks between members are no matter. */
    struct call wide =
        call_of(&messages, TURN1 "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\", "
                                 "\"cache_control\": {\"type\": \"ephemeral\"}}]}]}");
    struct call moved = call_of(&messages, TURN1
                                "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}" REST "]}");
    struct call first_of_all =
        call_of(&messages, TURN1
                "{\"role\": \"user\", \"content\": [{\"cache_control\": {}, \"type\": \"text\", \"text\": \"a\"}]}]}");
    assert_true(wide.talk_hash == moved.talk_hash && first_of_all.talk_hash == moved.talk_hash);
    struct call mute = call_of(&chat, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"}]}");
    assert_int_equal(mute.talk_hash, 0);
}

static void check_service(const struct dialect *d, struct bytes body, const char *want)
{
    struct arena a = {0};
    struct call c;
    const char *why;
    assert_int_equal(reads(d, body, &a, &c, &why), ERR_OK);
    assert_true(bytes_is(c.service, want));
    arena_fini(&a);
}

/* The class of service that is asked for, in the dialect's own word. */
static void service_wishes(void **state)
{
    check_service(&chat, BYTES("{\"model\":\"m\",\"messages\":[]}"), "");
    check_service(&chat, BYTES("{\"model\":\"m\",\"service_tier\":\"flex\",\"messages\":[]}"), "flex");
    check_service(&chat, BYTES("{\"model\":\"m\",\"service_tier\":\"fl\\u0065x\",\"messages\":[]}"), "flex");
    check_service(&chat, BYTES("{\"model\":\"m\",\"service_tier\":\"fast\",\"messages\":[]}"), "priority");
    check_service(&chat, BYTES("{\"model\":\"m\",\"service_tier\":null,\"messages\":[]}"), "");
    check_service(&chat, BYTES("{\"model\":\"m\",\"service_tier\":7,\"messages\":[]}"), "");
    check_service(&chat, BYTES("{\"model\":\"m\",\"speed\":\"fast\",\"messages\":[]}"), "");
    check_service(&messages, BYTES("{\"model\":\"m\",\"messages\":[]}"), "");
    check_service(&messages, BYTES("{\"model\":\"m\",\"service_tier\":\"auto\",\"messages\":[]}"), "auto");
    check_service(&messages, BYTES("{\"model\":\"m\",\"service_tier\":\"auto\",\"speed\":\"fast\",\"messages\":[]}"),
                  "fast");
    check_service(&messages, BYTES("{\"model\":\"m\",\"speed\":\"standard\",\"messages\":[]}"), "");
}

static void cache_wishes(void **state)
{
    struct call none = call_of(&messages, TURN1 ASKED "]}"), five = call_of(&messages, TURN1 MARKED "]}");
    assert_true(!none.has_cache_markers && !none.has_long_marker);
    assert_true(five.has_cache_markers && !five.has_long_marker);
    struct call hour = call_of(&messages, "{\"model\":\"m\",\"max_tokens\":9,\"cache_control\":{\"type\":\"ephemeral\","
                                          "\"ttl\":\"1h\"},\"messages\":[" ASKED "]}");
    assert_true(hour.has_cache_markers && hour.has_long_marker);
    struct arena a = {0};
    struct call c;
    const char *why;
    struct bytes body = BYTES("{\"model\":\"m\",\"prompt_cache_key\":\"k\\u0031\",\"messages\":[]}");
    assert_int_equal(reads(&chat, body, &a, &c, &why), ERR_OK);
    assert_true(bytes_is(c.cache_key, "k1"));
    body = BYTES("{\"model\":\"m\",\"prompt_cache_key\":7,\"messages\":[]}");
    assert_int_equal(reads(&chat, body, &a, &c, &why), ERR_OK);
    assert_int_equal(c.cache_key.n, 0);
    arena_fini(&a);
}

#define EPHEMERAL "\"cache_control\":{\"type\":\"ephemeral\"}"
#define DOC(text) "{\"type\":\"text\",\"text\":\"" text "\"," EPHEMERAL "}"
#define PART(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define USER(parts) "{\"role\":\"user\",\"content\":[" parts "]}"

/* How much of the prompt stands before the last marker, and by what it is known. */
static void what_a_cache_could_hold(void **state)
{
    (void)state;
    struct call one = call_of(&messages, TURN1 USER(DOC("abc") "," PART("why")) "]}");
    struct call two = call_of(&messages, TURN1 USER(DOC("abc") "," PART("how so")) "]}");
    struct call other = call_of(&messages, TURN1 USER(DOC("abd") "," PART("why")) "]}");
    assert_int_equal(one.cache_bytes, 4);
    assert_int_equal(one.head_bytes, 1);
    assert_true(one.cache_hash != 0 && one.cache_hash == two.cache_hash && one.cache_hash != other.cache_hash);
    assert_true(one.head_hash != 0 && one.head_hash == other.head_hash && one.talk_hash != two.talk_hash);
    assert_false(one.has_head_marker);
    /* The same in an earlier message; a marker before its text; one in a tool's result ends with its own block. */
    struct call turn3 = call_of(&messages, TURN1 USER(DOC("abc") "," PART("why")) REST "]}");
    assert_int_equal(turn3.cache_bytes, 4);
    assert_true(turn3.cache_hash != 0 && turn3.head_hash == one.head_hash);
    struct call before =
        call_of(&messages, TURN1 USER("{" EPHEMERAL ",\"type\":\"text\",\"text\":\"abcd\"}," PART("e")) "]}");
    assert_int_equal(before.cache_bytes, 5);
    struct call result =
        call_of(&messages, TURN1 USER("{\"type\":\"tool_result\",\"content\":[" DOC("ab") "," PART("cd") "]}") "]}");
    assert_int_equal(result.cache_bytes, 3);
    struct call system = call_of(&messages, "{\"model\":\"m\",\"system\":[" DOC("12345") "],\"messages\":[" ASKED "]}");
    assert_true(system.has_head_marker && system.cache_bytes == 5 && system.head_bytes == 5);
    assert_true(system.cache_hash == system.head_hash);
    struct call whole = call_of(&messages, TURN1 ASKED REST "]," EPHEMERAL "}");
    assert_true(whole.cache_bytes == whole.prompt_bytes && whole.cache_hash == 0);
    struct call none = call_of(&messages, "{\"model\":\"m\",\"messages\":[" ASKED REST "]}");
    assert_true(none.cache_bytes == 0 && none.cache_hash == 0 && none.head_bytes == 0 && none.head_hash == 0);
    struct call chat1 =
        call_of(&chat, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"sys\"}," ASKED "]}");
    struct call chat2 = call_of(&chat, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"sys\"},"
                                       "{\"role\":\"user\",\"content\":\"b\"}" REST "]}");
    assert_true(chat1.head_bytes == 3 && chat1.head_hash != 0 && chat1.head_hash == chat2.head_hash);
}

static void prefix_is_all_but_the_last_message(void **state)
{
    (void)state;
    uint64_t one =
        prefix_of("{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"content\":\"a\"}]}");
    uint64_t two =
        prefix_of("{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"content\":\"b\"}],\"model\":\"q\"}");
    uint64_t other =
        prefix_of("{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"t\"},{\"content\":\"a\"}]}");
    uint64_t tools =
        prefix_of("{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"content\":\"a\"}],"
                  "\"tools\":[{}]}");
    assert_true(one == two);
    assert_true(one != other && one != tools);
}

/* Whatever the bytes are: an answer, and no read outside them. The arena and the sanitizer watch. */
/* The values stand in ledgers. */
static void the_hash_of_a_prefix_stays(void **state)
{
    (void)state;
    static const char fox[] = "The quick brown fox jumps over the lazy dog. ";
    struct buf body = {0};
    struct arena a = {0};
    struct call c;
    const char *why;
    buf_puts(&body, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"");
    for (int i = 0; i < 5; i++)
        buf_puts(&body, fox);
    buf_puts(&body, "\"},{\"role\":\"user\",\"content\":\"Hello\"}]}");
    assert_int_equal(reads(&chat, buf_bytes(&body), &a, &c, &why), ERR_OK);
    assert_true(c.prefix_hash == UINT64_C(0xaecd684099aa79ba));
    assert_true(c.talk_hash == UINT64_C(0x2c15e9504027ef5b));
    assert_int_equal(c.prompt_bytes, 5 * (sizeof fox - 1) + 5);
    arena_fini(&a);
    buf_fini(&body);
}

/* One body twice: as it is, and with a name that sends it to the scan byte by byte, which notes nothing. */
static void check_notes(const struct dialect *d, const char *rest, uint64_t prompt_bytes)
{
    static const char *const models[] = {"{\"model\":\"m\"", "{\"\\u006dodel\":\"m\""};
    struct arena a = {0};
    struct call c[2];
    for (int i = 0; i < 2; i++) {
        struct buf body = {0};
        const char *why;
        buf_puts(&body, models[i]);
        for (const char *p = rest; *p != '\0'; p++) /* @: a long string's inside */
            if (*p == '@')
                buf_puts(
                    &body,
                    "0123456789 0123456789 \\\"\\n\\\\\\u00e9\\ud83d\\ude8b\xc3\xa9\xf0\x9f\x9a\x8b {[,:]} 0123456789 "
                    "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789");
            else
                buf_putc(&body, *p);
        assert_int_equal(reads(d, buf_bytes(&body), &a, &c[i], &why), ERR_OK);
        buf_fini(&body);
    }
    assert_int_equal(c[0].prompt_bytes, prompt_bytes);
    assert_int_equal(c[0].prompt_bytes, c[1].prompt_bytes);
    assert_true(c[0].prefix_hash == c[1].prefix_hash && c[0].talk_hash == c[1].talk_hash);
    assert_true(c[0].has_prefill == c[1].has_prefill && c[0].has_vision == c[1].has_vision);
    assert_true(c[0].has_cache_markers == c[1].has_cache_markers && c[0].needs_whole == c[1].needs_whole);
    assert_true(bytes_eq(c[0].state, c[1].state) && bytes_eq(c[0].effort, c[1].effort));
    assert_true(c[0].head_hash == c[1].head_hash && c[0].head_bytes == c[1].head_bytes);
    arena_fini(&a);
}

static void notes_change_no_fact(void **state)
{
    (void)state;
    enum { LONG = 21 + 1 + 3 + 2 + 4 + 2 + 4 + 8 + 76 };
    check_notes(&chat,
                ",\"messages\":[{\"role\":\"system\",\"content\":\"@\"},{\"@\":\"@\",\"content\":[{\"type\":\"text\","
                "\"@\":[\"@\"],"
                "\"text\":\"@\"},{\"type\":\"image_url\",\"x\":\"@\"}],\"role\":\"user\"},{\"role\":\"assistant\","
                "\"tool_calls\":[{\"@\":1,"
                "\"function\":{\"arguments\":\"@\",\"name\":\"f\"}}]}],\"user\":\"@\"}",
                3 * LONG + 1);
    check_notes(&messages,
                ",\"x\":\"@\",\"system\":[{\"type\":\"text\",\"text\":\"@\",\"cache_control\":{\"type\":\"ephemeral\"}}"
                "],\"messages\":[{"
                "\"role\":\"user\",\"content\":[{\"type\":\"document\",\"source\":{\"type\":\"text\",\"y\":\"@\","
                "\"data\":\"@\"}},{\"type\":"
                "\"tool_result\",\"content\":[{\"type\":\"text\",\"text\":\"@\"}]}]},{\"role\":\"assistant\","
                "\"content\":\"@\"}]}",
                4 * LONG);
}

/* A message of a role and a text is told from its notes; what only looks like one is not. */
static void plain_messages(void **state)
{
    (void)state;
    static const struct {
        const char *message;
        uint64_t bytes;
    } rows[] = {{"{\"role\":\"user\",\"content\":\"\\u00e9t\\u00e9\"}", 5},
                {"{ \"role\" : \"assistant\" , \"content\" : \"four\" }", 4},
                {"{\"content\":\"four\",\"role\":\"assistant\"}", 4},
                {"{\"role\":\"\\u0075ser\",\"content\":\"four\"}", 4},
                {"{\"role\":\"user\",\"role\":\"four\"}", 0},
                {"{\"role\":\"user\",\"contents\":\"four\"}", 0},
                {"{\"role\":\"user\",\"content\":null}", 0},
                {"{\"role\":null,\"content\":\"four\"}", 4},
                {"{\"role\":\"user\",\"content\":[]}", 0},
                {"{\"role\":\"user\",\"content\":\"four\",\"name\":\"n\"}", 4},
                {"[\"role\",\"user\",\"content\",\"four\"]", 0},
                {"{\"role\":\"user\"}", 0},
                {"\"role\"", 0}};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        for (size_t k = 0; k < RM_COUNTOF(rows); k++) {
            struct buf rest = {0};
            buf_printf(&rest, ",\"messages\":[%s,%s]}", rows[i].message, rows[k].message);
            check_notes(&chat, buf_cstr(&rest), rows[i].bytes + rows[k].bytes);
            buf_fini(&rest);
        }
}

/* Each of them is found by the length of its name: standing twice, it is refused. */
static void every_member_is_looked_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHAT_MEMBERS + MESSAGES_MEMBERS; i++) {
        bool is_chat = i < CHAT_MEMBERS;
        const char *name = is_chat ? chat_members[i].name : messages_members[i - CHAT_MEMBERS].name;
        struct buf body = {0};
        buf_printf(&body, "{\"%s\":null,\"x\":1,\"%s\":null}", name, name);
        check_refused(is_chat ? &chat : &messages, buf_cstr(&body), ERR_DUPLICATE, name);
        buf_fini(&body);
    }
}

static void mangled_bodies(void **state)
{
    (void)state;
    static const char seed[] =
        "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
        "\"text\":\"a\\\\\\\"b\\u00e9\"}]}],\"tools\":[{\"a\":1}],\"stream_options\":{}}";
    char text[sizeof seed];
    uint64_t x = 1;
    for (int round = 0; round < 20000; round++) {
        memcpy(text, seed, sizeof seed);
        for (int k = 0; k < 2; k++) {
            x = x * 6364136223846793005ULL + 1442695040888963407ULL;
            text[(x >> 33) % (sizeof seed - 1)] = "\"\\{}[],:u0a"[(x >> 20) % 11];
        }
        struct arena a = {0};
        struct call c;
        const char *why;
        size_t n = (x >> 8) % 5 == 0 ? (x >> 40) % sizeof seed : sizeof seed - 1;
        struct bytes body = arena_dup(&a, bytes_from(text, n));
        enum err e = reads(round % 2 ? &chat : &messages, body, &a, &c, &why);
        assert_true(e == ERR_OK || why[0] != '\0');
        struct profile p = {.model = BYTES("x"), .vendor = BYTES("generic"), .is_stream = true, .adds_usage = true};
        struct built b;
        built_init(&b, &chat, round % 4 < 2 ? &chat : &messages, body, &p);
        assert_true(b.err == ERR_OK || b.why[0] != '\0');
        struct json_scan scan;
        assert_true(b.err != ERR_OK || json_scan(b.body, DEPTH_MAX, NULL, 0, &scan) == ERR_OK);
        built_fini(&b);
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(answers_that_cannot_be_collected),
        cmocka_unit_test(facts_of_chat),
        cmocka_unit_test(absent_and_null_are_alike),
        cmocka_unit_test(rare_members_that_are_null_change_no_fact),
        cmocka_unit_test(stored_state),
        cmocka_unit_test(facts_of_messages),
        cmocka_unit_test(prefix_is_all_but_the_last_message),
        cmocka_unit_test(turns_of_a_conversation_are_known_by_their_start),
        cmocka_unit_test(cache_wishes),
        cmocka_unit_test(service_wishes),
        cmocka_unit_test(what_a_cache_could_hold),
        cmocka_unit_test(the_hash_of_a_prefix_stays),
        cmocka_unit_test(notes_change_no_fact),
        cmocka_unit_test(plain_messages),
        cmocka_unit_test(every_member_is_looked_for),
        cmocka_unit_test(mangled_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

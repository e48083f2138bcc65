/* What golden cases do not show: memory, cutting usage out, in-stream classes, and odd pieces of tool calls. */
#include "unit.h"

#include "answer_kit.h"
#include "base/mem.h"
#include "codec/json_tree.h"

static void feed(struct decoder *d, const char *name, const char *data, struct decoded *out)
{
    const struct sse_event ev = {.name = bytes_of(name), .data = bytes_of(data), .has_data = true, .is_verbatim = true};
    decoder_event(d, &ev, out);
}

static void a_long_stream_does_not_grow(void **state)
{
    (void)state;
    static const char *const chat =
        "{\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\",\"tool_"
        "calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"1\"}}]}}]}";
    static const char *const messages =
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}";
    const struct dialect *both[] = {&kit_openai, &kit_anthropic};
    for (size_t i = 0; i < 2; i++) {
        struct decoder d;
        struct decoded out;
        decoder_init(&d, both[i], BYTES("generic"), KIT_DEPTH, false);
        for (size_t n = 0; n < 10; n++)
            feed(&d, "", i ? messages : chat, &out);
        size_t kept = d.keep.n_bytes, scratch = d.scratch.n_bytes;
        int64_t blocks = mem_live(MEM_ARENA);
        for (size_t n = 0; n < 10000; n++)
            feed(&d, "", i ? messages : chat, &out);
        assert_int_equal(d.keep.n_bytes, kept);
        assert_int_equal(d.scratch.n_bytes, scratch);
        assert_int_equal(mem_live(MEM_ARENA), blocks);
        decoder_fini(&d);
    }
    assert_int_equal(mem_live(MEM_ARENA), 0);
}

/* Cuts the range out and checks that what is left is JSON without a usage member. */
static void check_cut(const char *data)
{
    struct decoder d;
    struct decoded out;
    struct arena a = {0};
    struct buf left = {0};
    yyjson_val *root;
    decoder_init(&d, &kit_openai, BYTES("generic"), KIT_DEPTH, true);
    feed(&d, "", data, &out);
    assert_false(out.is_dropped);
    assert_true(out.strip_end > out.strip_at);
    buf_put(&left, bytes_slice(bytes_of(data), 0, out.strip_at));
    buf_put(&left, bytes_slice(bytes_of(data), out.strip_end, strlen(data)));
    if (json_tree_parse(buf_bytes(&left), KIT_DEPTH, &a, &root) != ERR_OK)
        fail_msg("no JSON: %s", buf_cstr(&left));
    assert_null(yyjson_obj_get(root, "usage"));
    assert_non_null(yyjson_obj_get(root, "choices"));
    decoder_fini(&d);
    arena_fini(&a);
    buf_fini(&left);
}

static void usage_is_cut_wherever_it_stands(void **state)
{
    (void)state;
#define CHOICES "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\\"usage\\\":null,\"}}]"
    check_cut("{\"usage\":null," CHOICES "}");
    check_cut("{" CHOICES ",\"usage\":null}");
    check_cut("{" CHOICES " , \"usage\" : null }");
    check_cut("{\"a\":1,\"usage\":{\"prompt_tokens\":1,\"x\":[1,2]}," CHOICES "}");
    check_cut(" { \"us\\u0061ge\":null\n,\n" CHOICES "}");
    check_cut("{\"choices\":[],\"moderation\":{},\"usage\":{\"prompt_tokens\":1}}");
    check_cut("{\"choices\":[],\"usage\":null}");
}

static void what_is_only_usage_is_dropped(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        bool strips, is_dropped;
    } rows[] = {
        {"{\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":1}}", true, true},
        {"{\"id\":\"c\",\"usage\":{\"prompt_tokens\":1}}", true, true},
        {"{\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":1}}", false, false},
        {"{\"id\":\"\",\"choices\":[],\"prompt_filter_results\":[]}", true, false},
        {"{\"choices\":[]}", true, false},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct decoder d;
        struct decoded out;
        decoder_init(&d, &kit_openai, BYTES("azure"), KIT_DEPTH, rows[i].strips);
        feed(&d, "", rows[i].data, &out);
        assert_int_equal(out.is_dropped, rows[i].is_dropped);
        assert_int_equal(out.strip_end, out.strip_at);
        decoder_fini(&d);
    }
}

static void errors_inside_a_200(void **state)
{
    (void)state;
    static const struct {
        const struct dialect *dialect;
        const char *name, *data;
        enum failure_class class;
        unsigned status;
    } rows[] = {
        {&kit_openai, "", "{\"error\":{\"message\":\"m\",\"code\":\"insufficient_quota\"}}", FAILURE_QUOTA, 0},
        {&kit_openai, "", "{\"error\":{\"message\":\"m\",\"code\":\"rate_limit_exceeded\"}}", FAILURE_RATE, 0},
        {&kit_openai, "", "{\"error\":{\"message\":\"m\",\"type\":\"server_error\"}}", FAILURE_FAULT, 0},
        {&kit_openai, "", "{\"error\":{\"message\":\"Upstream error\",\"code\":502}}", FAILURE_FAULT, 502},
        {&kit_openai, "", "{\"error\":{\"message\":\"limited\",\"code\":\"429\"}}", FAILURE_RATE, 429},
        {&kit_openai, "", "{\"error\":{\"message\":\"unknown\"}}", FAILURE_FAULT, 0},
        {&kit_openai, "", "{\"error\":{}}", FAILURE_FAULT, 0},
        {&kit_openai, "", "{\"error\":\"overwhelmed\"}", FAILURE_FAULT, 0},
        {&kit_openai, "", "{\"error\":{\"message\":\"m\"},\"status_code\":503}", FAILURE_OVERLOAD, 503},
        {&kit_openai, "", "{\"object\":\"error\",\"message\":\"m\",\"code\":400}", FAILURE_CLIENT, 400},
        {&kit_openai, "error", "not json at all", FAILURE_FAULT, 0},
        {&kit_openai, "error", "", FAILURE_FAULT, 0},
        {&kit_openai, "error", "{\"message\":\"m\"}", FAILURE_FAULT, 0},
        {&kit_anthropic, "error", "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}",
         FAILURE_OVERLOAD, 0},
        {&kit_anthropic, "", "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"m\"}}",
         FAILURE_RATE, 0},
        {&kit_anthropic, "", "{\"type\":\"error\",\"error\":{\"type\":\"timeout_error\",\"message\":\"m\"}}",
         FAILURE_FAULT, 0},
        {&kit_anthropic, "", "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"m\"}}",
         FAILURE_CLIENT, 0},
        {&kit_anthropic, "error", "oops", FAILURE_FAULT, 0},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct decoder d;
        struct decoded out;
        decoder_init(&d, rows[i].dialect, BYTES("generic"), KIT_DEPTH, true);
        feed(&d, rows[i].name, rows[i].data, &out);
        assert_int_equal(out.n, 1);
        assert_int_equal(out.v[0].kind, EVENT_ERROR);
        assert_int_equal(out.v[0].failure->class, rows[i].class);
        assert_int_equal(out.v[0].failure->status, rows[i].status);
        assert_true(out.v[0].failure->in_stream);
        assert_true(strlen(out.v[0].failure->message) > 0);
        feed(&d, "", "[DONE]", &out);
        assert_int_equal(out.n, 0); /* nothing comes after an error */
        assert_true(out.is_dropped);
        assert_false(decoder_is_complete(&d));
        decoder_fini(&d);
    }
}

static void null_errors_are_none(void **state)
{
    (void)state;
    struct decoder d;
    struct decoded out;
    decoder_init(&d, &kit_openai, BYTES("generic"), KIT_DEPTH, false);
    feed(&d, "", "{\"error\":null,\"choices\":[{\"delta\":{\"content\":\"x\"}}]}", &out);
    assert_false(d.has_error);
    assert_true(d.has_token);
    decoder_fini(&d);
}

static size_t count(const struct decoded *out, enum event_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++)
        n += out->v[i].kind == kind;
    return n;
}

#define CALL(members) "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{" members "}]}}]}"

static void a_call_starts_once(void **state)
{
    (void)state;
    struct decoder d;
    struct decoded out;
    decoder_init(&d, &kit_openai, BYTES("generic"), KIT_DEPTH, false);
    feed(&d, "", CALL("\"index\":0,\"id\":\"a\""), &out);
    assert_int_equal(count(&out, EVENT_TOOL_START), 0); /* no name yet: no token */
    assert_false(d.has_token);
    feed(&d, "", CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}"), &out);
    assert_int_equal(count(&out, EVENT_TOOL_START), 1);
    assert_true(d.has_token);
    feed(&d, "", CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}"), &out);
    assert_int_equal(count(&out, EVENT_TOOL_START), 0);
    assert_int_equal(count(&out, EVENT_TOOL_ARGS), 1);
    /* no index, no id: the last one */
    feed(&d, "", CALL("\"function\":{\"arguments\":\"}\"}"), &out);
    assert_int_equal(count(&out, EVENT_TOOL_START), 0);
    assert_int_equal(out.v[out.n - 1].tool, 0);
    /* the same index, another id and name after arguments: another call */
    feed(&d, "", CALL("\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":{\"x\":1.50}}"), &out);
    assert_int_equal(count(&out, EVENT_TOOL_START), 1);
    assert_int_equal(out.v[out.n - 1].tool, 1);
    assert_true(bytes_is(out.v[out.n - 1].text, "{\"x\":1.50}"));
    /* another id without a name: no other call */
    feed(&d, "", CALL("\"index\":0,\"id\":\"z\",\"function\":{\"arguments\":\" \"}"), &out);
    assert_int_equal(count(&out, EVENT_TOOL_START), 0);
    assert_int_equal(out.v[out.n - 1].tool, 1);
    decoder_fini(&d);
}

static void hostile_pieces_do_no_harm(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "{}",
        "{\"choices\":null}",
        "{\"choices\":{}}",
        "{\"choices\":[null,1,\"x\",[]]}",
        "{\"choices\":[{\"index\":-5,\"delta\":[]}]}",
        "{\"choices\":[{\"index\":99999999999999999999,\"delta\":{\"content\":\"x\"}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":{}}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[null,{}]}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1,\"function\":[]}]}}]}",
        "{\"usage\":{\"prompt_tokens\":-5,\"completion_tokens\":1e300,\"total_tokens\":\"x\"}}",
        ("{\"usage\":{\"prompt_tokens\":9223372036854775807,\"completion_tokens\":9223372036854775807,"
         "\"total_tokens\":9223372036854775807,\"completion_tokens_details\":{\"reasoning_tokens\":9223372036854775807}"
         "}"
         "}"),
        "{\"type\":\"content_block_start\",\"index\":99999999,\"content_block\":{\"type\":\"tool_use\"}}",
        "{\"type\":\"content_block_start\",\"index\":4095,\"content_block\":null}",
        ("{\"type\":\"content_block_delta\",\"index\":-1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":"
         "\"x\"}}"),
        "{\"type\":\"message_start\"}",
        "{\"type\":\"message_delta\",\"delta\":null,\"usage\":{\"iterations\":[null,1,{}]}}",
    };
    const struct dialect *both[] = {&kit_openai, &kit_anthropic};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < RM_COUNTOF(pieces); i++) {
            struct decoder d;
            struct decoded out;
            decoder_init(&d, both[k], BYTES("generic"), KIT_DEPTH, true);
            feed(&d, "", pieces[i], &out);
            assert_false(out.is_malformed);
            assert_false(d.has_error);
            decoder_fini(&d);
        }
}

static void what_is_no_object_is_malformed(void **state)
{
    (void)state;
    static const char *const pieces[] = {"[1]", "\"x\"", "{\"a\":", "nonsense", "1"};
    const struct dialect *both[] = {&kit_openai, &kit_anthropic};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < RM_COUNTOF(pieces); i++) {
            struct decoder d;
            struct decoded out;
            decoder_init(&d, both[k], BYTES("generic"), KIT_DEPTH, false);
            feed(&d, "", pieces[i], &out);
            assert_true(out.is_malformed);
            assert_non_null(out.why);
            decoder_whole(&d, bytes_of(pieces[i]), &out);
            assert_true(out.is_malformed);
            decoder_whole(&d, BYTES(""), &out);
            assert_true(out.is_malformed);
            decoder_fini(&d);
        }
}

static void counts_are_disjoint_and_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        struct usage want;
    } rows[] = {
        {"{\"usage\":{\"prompt_tokens\":20000,\"completion_tokens\":900,\"prompt_tokens_details\":{\"cached_tokens\":"
         "16000}}}",
         {4000, 16000, -1, -1, 900, -1}},
        {"{\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":1000,\"total_tokens\":1100,"
         "\"completion_tokens_details\":{\"reasoning_tokens\":800}}}",
         {100, -1, -1, -1, 1000, 800}},
        {"{\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":1,\"cached_tokens\":50}}", {0, 10, -1, -1, 1, -1}},
        {"{\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2,\"completion_tokens_details\":{\"reasoning_tokens\":"
         "5}}}",
         {10, -1, -1, -1, 2, 2}},
        {"{\"choices\":[{\"index\":0,\"delta\":{},\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}]}",
         {3, -1, -1, -1, 4, -1}},
        {"{\"usage\":{\"prompt_tokens\":1000000001,\"completion_tokens\":5}}", {-1, -1, -1, -1, 5, -1}},
        {"{\"usage\":{\"prompt_tokens\":1000000000,\"completion_tokens\":5}}", {1000000000, -1, -1, -1, 5, -1}},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct decoder d;
        struct decoded out;
        decoder_init(&d, &kit_openai, BYTES("generic"), KIT_DEPTH, false);
        feed(&d, "", rows[i].data, &out);
        assert_int_equal(count(&out, EVENT_USAGE), 1);
        for (size_t k = 0; k < out.n; k++)
            if (out.v[k].kind == EVENT_USAGE)
                assert_memory_equal(&out.v[k].usage, &rows[i].want, sizeof rows[i].want);
        decoder_fini(&d);
    }
}

/* The class of service that an answer tells: with its start and with its usage. */
static void classes_of_service(void **state)
{
    static const struct {
        const struct dialect *dialect;
        const char *event, *data;
        enum event_kind kind;
        const char *want;
    } rows[] = {
        {&kit_openai, "", "{\"id\":\"c\",\"service_tier\":\"flex\",\"choices\":[]}", EVENT_START, "flex"},
        {&kit_openai, "", "{\"id\":\"c\",\"service_tier\":null,\"choices\":[]}", EVENT_START, ""},
        {&kit_openai, "", "{\"service_tier\":\"priority\",\"usage\":{\"prompt_tokens\":3}}", EVENT_USAGE, "priority"},
        {&kit_anthropic, "message_start",
         "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"service_tier\":\"priority\"}}}",
         EVENT_USAGE, "priority"},
        {&kit_anthropic, "message_start",
         "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"service_tier\":\"standard\","
         "\"speed\":\"fast\",\"inference_geo\":\"us\"}}}",
         EVENT_USAGE, "fast"},
        {&kit_anthropic, "message_start",
         "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"service_tier\":\"standard\","
         "\"speed\":null,\"inference_geo\":\"us\"}}}",
         EVENT_USAGE, "us"},
        {&kit_anthropic, "message_start",
         "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"service_tier\":\"batch\","
         "\"inference_geo\":\"us\"}}}",
         EVENT_USAGE, "batch"},
        {&kit_anthropic, "message_start",
         "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"inference_geo\":\"global\"}}}",
         EVENT_USAGE, ""},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct decoder d;
        struct decoded out;
        decoder_init(&d, rows[i].dialect, BYTES("generic"), KIT_DEPTH, false);
        feed(&d, rows[i].event, rows[i].data, &out);
        assert_int_equal(count(&out, rows[i].kind), 1);
        for (size_t k = 0; k < out.n; k++)
            if (out.v[k].kind == rows[i].kind)
                assert_true(bytes_is(out.v[k].name, rows[i].want));
        decoder_fini(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_stream_does_not_grow),
        cmocka_unit_test(usage_is_cut_wherever_it_stands),
        cmocka_unit_test(what_is_only_usage_is_dropped),
        cmocka_unit_test(errors_inside_a_200),
        cmocka_unit_test(null_errors_are_none),
        cmocka_unit_test(a_call_starts_once),
        cmocka_unit_test(hostile_pieces_do_no_harm),
        cmocka_unit_test(what_is_no_object_is_malformed),
        cmocka_unit_test(counts_are_disjoint_and_bounded),
        cmocka_unit_test(classes_of_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

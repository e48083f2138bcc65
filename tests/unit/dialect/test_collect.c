/* What golden cases cannot show of collecting: bounds, hostile shapes, and that nothing grows without need. */
#include "unit.h"

#include "answer_kit.h"

struct stage {
    struct collector c;
    struct buf out;
};

static void begin(struct stage *s, const struct dialect *d)
{
    struct encoder_options o = {.model = BYTES("m"), .created_wall_s = 1, .id_seed = 2};
    *s = (struct stage){0};
    collector_init(&s->c, d, &o);
}

static void feed(struct stage *s, const char *data)
{
    collector_event(&s->c, (struct bytes){0}, bytes_of(data));
}

static yyjson_val *ended(struct stage *s, struct arena *a)
{
    yyjson_val *root = NULL;
    collector_end(&s->c, &s->out);
    assert_int_equal(json_tree_parse(buf_bytes(&s->out), KIT_DEPTH, a, &root), ERR_OK);
    return root;
}

static void finish(struct stage *s, struct arena *a)
{
    collector_fini(&s->c);
    buf_fini(&s->out);
    arena_fini(a);
}

static void members_are_bounded_and_ours_are_kept(void **state)
{
    struct stage s;
    struct arena a = {0};
    struct buf chunk = {0};
    begin(&s, &kit_openai);
    buf_puts(&chunk, "{\"object\":\"chat.completion.chunk\"");
    for (int i = 0; i < 2000; i++)
        buf_printf(&chunk, ",\"x%d\":%d", i, i);
    buf_puts(&chunk, ",\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}");
    collector_event(&s.c, (struct bytes){0}, buf_bytes(&chunk));
    yyjson_val *root = ended(&s, &a);
    assert_in_range(yyjson_obj_size(root), MOSAIC_MEMBERS_MAX, MOSAIC_MEMBERS_MAX + 4);
    yyjson_val *choice = yyjson_arr_get_first(yyjson_obj_get(root, "choices"));
    assert_true(bytes_is(json_tree_str(yyjson_obj_get(choice, "message"), "content"), "Hi"));
    assert_true(bytes_is(json_tree_str(root, "model"), "m"));
    buf_fini(&chunk);
    finish(&s, &a);
}

static void what_is_repeated_takes_no_memory(void **state)
{
    struct stage s;
    struct arena a = {0};
    const char *chunk =
        "{\"object\":\"chat.completion.chunk\",\"id\":\"c\",\"citations\":[\"https://a.example/long/enough\"],"
        "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null}]}";
    begin(&s, &kit_openai);
    feed(&s, chunk);
    size_t before = collector_bytes(&s.c);
    for (int i = 0; i < 1000; i++)
        feed(&s, chunk);
    assert_int_equal(collector_bytes(&s.c), before);
    ended(&s, &a);
    finish(&s, &a);
}

static void deep_values_are_kept_as_they_are(void **state)
{
    struct stage s;
    struct arena a = {0};
    struct buf chunk = {0};
    begin(&s, &kit_openai);
    buf_puts(&chunk, "{\"choices\":[{\"delta\":{\"deep\":");
    for (int i = 0; i < 100; i++)
        buf_puts(&chunk, "{\"o\":");
    buf_puts(&chunk, "1");
    for (int i = 0; i < 100; i++)
        buf_puts(&chunk, "}");
    buf_puts(&chunk, "}}]}");
    collector_event(&s.c, (struct bytes){0}, buf_bytes(&chunk));
    collector_event(&s.c, (struct bytes){0}, buf_bytes(&chunk));
    ended(&s, &a);
    size_t n = 0;
    for (struct bytes rest = buf_bytes(&s.out); bytes_find(rest, BYTES("{\"o\":")) != SIZE_MAX; n++)
        rest = bytes_slice(rest, bytes_find(rest, BYTES("{\"o\":")) + 1, rest.n);
    assert_int_equal(n, 100);
    buf_fini(&chunk);
    finish(&s, &a);
}

/* Shapes that change from piece to piece, wrong types, doubled and escaped names: valid JSON all the same. */
static void odd_shapes_give_valid_json(void **state)
{
    static const char *const chat[] = {
        "{\"choices\":7}",
        "{\"choices\":[7,null,{\"index\":-3,\"delta\":{\"content\":\"a\"}},{\"index\":70000,\"delta\":null}]}",
        "{\"choices\":[{\"delta\":{\"content\":{\"o\":1}}},{\"delta\":{\"content\":\"b\"}}]}",
        "{\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"c\"},3,\"d\"]}}]}",
        "{\"choices\":[{\"delta\":{\"content\":\"e\",\"tool_calls\":{\"id\":1}}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":5,\"index\":0},{\"function\":\"f\"},{\"index\":1,"
        "\"function\":"
        "{\"name\":\"g\",\"arguments\":{\"x\":1}}}]}}]}",
        "{\"choices\":[{\"message\":\"no\",\"delta\":[]}],\"id\":{\"a\":1},\"id\":\"late\",\"i\\u0064\":\"later\"}",
        "{\"choices\":[{\"index\":63},{\"index\":2},{\"index\":1},{\"index\":99}],\"usage\":3,\"x_groq\":{\"usage\":[]}"
        "}",
        "[]",
        "\"text\"",
        "{\"choices\":[{\"delta\":{\"role\":[],\"a\":\"\\ud83d\\ude8b\\u0000\"},\"finish_reason\":{}}],\"created\":"
        "null}",
    };
    static const char *const messages[] = {
        "{\"type\":\"message_start\",\"message\":null}",
        "{\"type\":\"content_block_delta\",\"index\":4,\"delta\":{\"type\":\"text_delta\",\"text\":\"lost\"}}",
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"input\":3,"
        "\"citations\":[1]}}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":"
        "\"nul\"}}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"new_delta\",\"text\":[],\"odd\":\"x\"}}",
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":[]}",
        "{\"type\":\"message_delta\",\"delta\":7,\"usage\":\"none\",\"content\":3}",
        "{\"type\":\"message_delta\",\"delta\":{\"usage\":{\"output_tokens\":3},\"content\":3,\"type\":\"d\"},\"id\":["
        "1]}",
    };
    for (size_t first = 0; first < RM_COUNTOF(chat); first++) {
        struct stage s;
        struct arena a = {0};
        begin(&s, &kit_openai);
        for (size_t i = 0; i < 2 * RM_COUNTOF(chat); i++)
            feed(&s, chat[(first + i) % RM_COUNTOF(chat)]);
        yyjson_val *root = ended(&s, &a);
        int64_t before = -1;
        size_t i, n;
        yyjson_val *choice;
        yyjson_arr_foreach(yyjson_obj_get(root, "choices"), i, n, choice)
        {
            assert_true(json_tree_int(choice, "index", -1) > before);
            before = json_tree_int(choice, "index", -1);
            assert_true(yyjson_is_obj(yyjson_obj_get(choice, "message")));
        }
        assert_int_equal(before, 99);
        finish(&s, &a);
    }
    for (size_t first = 0; first < RM_COUNTOF(messages); first++) {
        struct stage s;
        struct arena a = {0};
        begin(&s, &kit_anthropic);
        for (size_t i = 0; i < 2 * RM_COUNTOF(messages); i++)
            feed(&s, messages[(first + i) % RM_COUNTOF(messages)]);
        yyjson_val *root = ended(&s, &a);
        assert_true(bytes_is(json_tree_str(root, "type"), "message"));
        assert_true(yyjson_arr_size(yyjson_obj_get(root, "content")) > 0);
        assert_int_equal(json_tree_int(yyjson_obj_get(root, "usage"), "output_tokens", -1), 3);
        finish(&s, &a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_bounded_and_ours_are_kept),
        cmocka_unit_test(what_is_repeated_takes_no_memory),
        cmocka_unit_test(deep_values_are_kept_as_they_are),
        cmocka_unit_test(odd_shapes_give_valid_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

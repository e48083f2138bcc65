#include "lab/mock_ask.h"

#include "codec/json_tree.h"

enum { DEPTH_MAX = 128 };

static struct bytes text_of_content(yyjson_val *content)
{
    if (yyjson_is_str(content))
        return json_tree_bytes(content);
    struct bytes last = {0};
    size_t i, n;
    yyjson_val *part;
    yyjson_arr_foreach(content, i, n, part)
    {
        struct bytes text = json_tree_str(part, "text");
        if (text.p != NULL)
            last = text;
    }
    return last;
}

static struct bytes last_user_text(yyjson_val *messages)
{
    struct bytes last = {0};
    size_t i, n;
    yyjson_val *m;
    yyjson_arr_foreach(messages, i, n, m)
    {
        if (bytes_is(json_tree_str(m, "role"), "user"))
            last = text_of_content(yyjson_obj_get(m, "content"));
    }
    return last;
}

/* The texts of a last message of the assistant's, one after the other; false when the last one is someone else's. */
static bool read_prefill(yyjson_val *messages, struct arena *arena, struct bytes *out)
{
    yyjson_val *last = yyjson_arr_get_last(messages), *content = yyjson_obj_get(last, "content"), *part;
    struct buf text = {0};
    size_t i, n;
    if (!bytes_is(json_tree_str(last, "role"), "assistant"))
        return false;
    if (yyjson_is_str(content))
        buf_put(&text, json_tree_bytes(content));
    yyjson_arr_foreach(content, i, n, part) buf_put(&text, json_tree_str(part, "text"));
    *out = arena_dup(arena, buf_bytes(&text));
    buf_fini(&text);
    return true;
}

static void set_number(struct fault *f, struct bytes name, int64_t v)
{
    if (bytes_is(name, "retry_after"))
        f->retry_after_ms = v * 1000;
    else if (bytes_is(name, "after"))
        f->after = v;
    else if (bytes_is(name, "ttft_ms"))
        f->ttft_ms = v;
    else if (bytes_is(name, "for_ms"))
        f->for_ms = v;
    else if (bytes_is(name, "times"))
        f->times = v;
}

/* "fault=429 retry_after=2" */
static bool read_marker(struct bytes text, struct fault *out)
{
    static const struct bytes begin = {"[[mock ", 7};
    size_t at = bytes_find(text, begin);
    if (at == SIZE_MAX)
        return false;
    struct bytes rest = bytes_slice(text, at + begin.n, text.n);
    size_t end = bytes_find(rest, BYTES("]]"));
    if (end == SIZE_MAX)
        return false;
    struct bytes words = bytes_slice(rest, 0, end), all = words;
    bool has_fault = false;
    while (words.n > 0) {
        struct bytes value = bytes_cut(&words, ' '), name = bytes_cut(&value, '=');
        if (bytes_is(name, "fault"))
            has_fault = fault_parse(value, out);
    }
    while (has_fault && all.n > 0) {
        uint64_t v;
        struct bytes value = bytes_cut(&all, ' '), name = bytes_cut(&value, '=');
        if (bytes_to_u64(value, &v) && v < 1000000000)
            set_number(out, name, (int64_t)v);
    }
    return has_fault;
}

static const char *refused_by_vendor(yyjson_val *root, enum shape_dialect dialect, const struct mock_ask *a)
{
    if (a->model.n == 0)
        return "you must provide a model parameter";
    if (!yyjson_is_arr(yyjson_obj_get(root, "messages")) || yyjson_arr_size(yyjson_obj_get(root, "messages")) == 0)
        return "messages: at least one message is required";
    if (dialect == SHAPE_ANTHROPIC && a->max_tokens < 0)
        return "max_tokens: Field required";
    if (dialect == SHAPE_ANTHROPIC && yyjson_obj_get(root, "stream_options") != NULL)
        return "stream_options: Extra inputs are not permitted";
    if (dialect == SHAPE_OPENAI && !a->is_stream && yyjson_is_obj(yyjson_obj_get(root, "stream_options")))
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
    return NULL;
}

const char *mock_ask_read(struct bytes body, enum shape_dialect dialect, struct arena *arena, struct mock_ask *out)
{
    yyjson_val *root;
    *out = (struct mock_ask){.max_tokens = -1, .prompt_tokens = (int64_t)(body.n + 3) / 4};
    if (json_tree_parse(body, DEPTH_MAX, arena, &root) != ERR_OK || !yyjson_is_obj(root))
        return "We could not parse the JSON body of your request.";
    out->root = root;
    out->model = json_tree_str(root, "model");
    out->user = json_tree_str(root, "user");
    out->is_stream = json_tree_bool(root, "stream", false);
    out->wants_usage = json_tree_bool(yyjson_obj_get(root, "stream_options"), "include_usage", false);
    out->max_tokens = json_tree_int(root, "max_completion_tokens", json_tree_int(root, "max_tokens", -1));
    out->has_prefill = read_prefill(yyjson_obj_get(root, "messages"), arena, &out->prefill);
    out->has_marker = read_marker(last_user_text(yyjson_obj_get(root, "messages")), &out->marker);
    return refused_by_vendor(root, dialect, out);
}

#include "lab/heard.h"

#include "codec/json_tree.h"

enum { EVENT_MAX = 1 << 20, DEPTH_MAX = 64 };

void heard_init(struct heard *h)
{
    *h = (struct heard){.input = -1, .cache = -1, .output = -1};
    sse_init(&h->sse, EVENT_MAX);
}

void heard_fini(struct heard *h)
{
    sse_fini(&h->sse);
    arena_fini(&h->scratch);
}

static bool is_text(yyjson_val *delta)
{
    static const char *const names[] = {"content", "reasoning_content", "reasoning", "refusal"};
    for (size_t i = 0; i < RM_COUNTOF(names); i++)
        if (json_tree_str(delta, names[i]).n > 0)
            return true;
    return yyjson_arr_size(yyjson_obj_get(delta, "tool_calls")) > 0;
}

static void read_usage(struct heard *h, yyjson_val *usage)
{
    if (!yyjson_is_obj(usage))
        return;
    h->input = json_tree_int(usage, "prompt_tokens", -1);
    h->output = json_tree_int(usage, "completion_tokens", -1);
    h->cache = json_tree_int(yyjson_obj_get(usage, "prompt_tokens_details"), "cached_tokens", -1);
}

static void read_event(struct heard *h, struct bytes data, uint64_t at_us)
{
    yyjson_val *root;
    if (json_tree_parse(data, DEPTH_MAX, &h->scratch, &root) != ERR_OK || !yyjson_is_obj(root)) {
        h->is_malformed = true;
        return;
    }
    yyjson_val *error = yyjson_obj_get(root, "error");
    if (error != NULL && !yyjson_is_null(error)) {
        h->has_error = true;
        return;
    }
    yyjson_val *choice = yyjson_arr_get_first(yyjson_obj_get(root, "choices"));
    if (h->first_us == 0 && is_text(yyjson_obj_get(choice, "delta")))
        h->first_us = at_us;
    if (json_tree_str(choice, "finish_reason").n > 0)
        h->has_finish = true;
    read_usage(h, yyjson_obj_get(root, "usage"));
}

void heard_feed(struct heard *h, struct bytes part, uint64_t at_us)
{
    struct sse_event ev;
    enum sse_result r;
    RM_ASSERT(at_us != 0);
    if (h->is_malformed)
        return;
    sse_feed(&h->sse, part);
    while ((r = sse_next(&h->sse, &ev)) != SSE_MORE) {
        if (r == SSE_TOO_LARGE) {
            h->is_malformed = true;
            return;
        }
        if (r != SSE_EVENT || !ev.has_data)
            continue;
        if (bytes_is(ev.data, "[DONE]")) {
            h->is_done = true;
            continue;
        }
        struct arena_mark m = arena_mark(&h->scratch);
        read_event(h, ev.data, at_us);
        arena_reset(&h->scratch, m);
    }
}

const char *heard_fault(const struct heard *h, bool is_whole)
{
    if (h->has_error)
        return "error_event";
    if (h->is_malformed)
        return "malformed";
    if (!is_whole || !h->has_finish || !h->is_done)
        return "truncated";
    return h->first_us == 0 ? "no_text" : NULL;
}

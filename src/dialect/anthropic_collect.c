/* Events of a message -> the message. message_start holds all but the content; a block is what its start says, and its
 * deltas go on with it; message_delta adds to the message and to its usage. */
#include "dialect/answer_impl.h"

#include "dialect/collect.h"
#include "dialect/transcript.h"

enum { BLOCKS_MAX = 4096 };

/* Strings of a block that deltas continue. */
static bool runs_on(struct bytes name)
{
    return bytes_is(name, "text") || bytes_is(name, "thinking") || bytes_is(name, "signature") ||
           bytes_is(name, "content") || bytes_is(name, "data");
}

/* ---- blocks ---- */

/* The newest one of that index: an index that comes again begins again. */
static struct mosaic *block_at(const struct mosaic *content, int64_t index)
{
    struct mosaic *found = NULL;
    if (content == NULL || content->kind != MOSAIC_ARRAY)
        return NULL;
    if (content->last != NULL && content->last->at == index)
        return content->last;
    for (struct mosaic *m = content->first; m != NULL; m = m->next)
        if (m->at == index)
            found = m;
    return found;
}

static void add_to_list(struct collector *c, struct mosaic *list, yyjson_val *item)
{
    mosaic_become(list, MOSAIC_ARRAY, &c->keep);
    mosaic_set_raw(mosaic_item(list, &c->keep), json_tree_text(item, &c->scratch), &c->keep);
}

static void put_in_block(struct collector *c, struct mosaic *block, yyjson_val *key, yyjson_val *v)
{
    struct bytes name = json_tree_bytes(key);
    struct mosaic *m = mosaic_member(block, name, &c->keep);
    yyjson_val *item;
    size_t i, n;
    if (m == NULL)
        return;
    if (yyjson_is_str(v) && runs_on(name))
        mosaic_run_on(m, json_tree_bytes(v), &c->keep);
    else if (bytes_is(name, "citations") && yyjson_arr_size(v) > 0)
        yyjson_arr_foreach(v, i, n, item) add_to_list(c, m, item);
    else
        collector_put(c, block, name, v);
}

static void start_block(struct collector *c, struct mosaic *content, int64_t index, yyjson_val *from)
{
    yyjson_val *key, *v;
    size_t i, n;
    if (content->n >= BLOCKS_MAX || !yyjson_is_obj(from))
        return;
    struct mosaic *block = mosaic_item(content, &c->keep);
    mosaic_become(block, MOSAIC_OBJECT, &c->keep);
    block->at = index;
    yyjson_obj_foreach(from, i, n, key, v) put_in_block(c, block, key, v);
}

/* The pieces of a block's input wait in its `text`. */
static void read_delta(struct collector *c, struct mosaic *block, yyjson_val *delta)
{
    struct bytes type = json_tree_str(delta, "type");
    yyjson_val *key, *v;
    size_t i, n;
    if (bytes_is(type, "input_json_delta")) {
        if (mosaic_is_empty(mosaic_get(block, "input")))
            mosaic_gather(block, json_tree_str(delta, "partial_json"), &c->keep);
    } else if (bytes_is(type, "citations_delta")) {
        if (yyjson_obj_get(delta, "citation") != NULL)
            add_to_list(c, mosaic_need(block, "citations", &c->keep), yyjson_obj_get(delta, "citation"));
    } else {
        yyjson_obj_foreach(delta, i, n, key, v)
        {
            if (!bytes_is(json_tree_bytes(key), "type"))
                put_in_block(c, block, key, v);
        }
    }
}

/* ---- the message ---- */

/* Reports are cumulative and may be partial: each count that is told replaces the one before. */
static void put_usage(struct collector *c, yyjson_val *told)
{
    struct mosaic *usage = mosaic_need(&c->answer, "usage", &c->keep);
    yyjson_val *key, *v;
    size_t i, n;
    mosaic_become(usage, MOSAIC_OBJECT, &c->keep);
    yyjson_obj_foreach(told, i, n, key, v) collector_put(c, usage, json_tree_bytes(key), v);
}

/* The members of `from` but for those that have a place of their own. */
static void put_members(struct collector *c, yyjson_val *from)
{
    yyjson_val *key, *v;
    size_t i, n;
    yyjson_obj_foreach(from, i, n, key, v)
    {
        struct bytes name = json_tree_bytes(key);
        if (bytes_is(name, "usage"))
            put_usage(c, v);
        else if (bytes_is(name, "content"))
            mosaic_become(mosaic_need(&c->answer, "content", &c->keep), MOSAIC_ARRAY, &c->keep);
        else
            collector_put(c, &c->answer, name, v);
    }
}

static void read_end(struct collector *c, yyjson_val *root)
{
    yyjson_val *key, *v;
    size_t i, n;
    yyjson_obj_foreach(root, i, n, key, v)
    {
        struct bytes name = json_tree_bytes(key);
        if (bytes_is(name, "delta"))
            put_members(c, v);
        else if (bytes_is(name, "usage"))
            put_usage(c, v);
        else if (!bytes_is(name, "type") && !bytes_is(name, "content"))
            collector_put(c, &c->answer, name, v);
    }
}

static void one_event(struct collector *c, struct bytes name, yyjson_val *root)
{
    struct bytes type = json_tree_str(root, "type");
    int64_t index = json_tree_int(root, "index", -1);
    type = type.n > 0 ? type : name;
    if (bytes_is(type, "message_start")) {
        if (!c->is_started) /* only the first counts, as for the decoder */
            put_members(c, yyjson_obj_get(root, "message"));
        c->is_started = true;
    } else if (bytes_is(type, "content_block_start") && index >= 0) {
        struct mosaic *content = mosaic_need(&c->answer, "content", &c->keep);
        mosaic_become(content, MOSAIC_ARRAY, &c->keep);
        start_block(c, content, index, yyjson_obj_get(root, "content_block"));
    } else if (bytes_is(type, "content_block_delta")) {
        struct mosaic *block = block_at(mosaic_get(&c->answer, "content"), index);
        if (block != NULL)
            read_delta(c, block, yyjson_obj_get(root, "delta"));
    } else if (bytes_is(type, "message_delta")) {
        read_end(c, root);
    }
}

/* ---- the end ---- */

/* An object, numbers as written; what is none is kept where it can be seen. */
static void complete_input(struct collector *c, struct mosaic *block)
{
    struct mosaic *input = mosaic_need(block, "input", &c->keep);
    struct bytes text = bytes_trim(rope_text(&block->text, &c->keep.arena));
    yyjson_val *root;
    if (text.n == 0) {
        if (mosaic_is_empty(input))
            mosaic_set_raw(input, BYTES("{}"), &c->keep);
    } else if (json_tree_parse(text, 1000, &c->keep.arena, &root) == ERR_OK && yyjson_is_obj(root)) {
        mosaic_set_raw(input, text, &c->keep);
    } else {
        mosaic_become(input, MOSAIC_OBJECT, &c->keep);
        mosaic_set_text(mosaic_need(input, "_raw", &c->keep), text, &c->keep);
    }
}

/* True when the model called a tool of the client's. */
static bool complete_blocks(struct collector *c, struct mosaic *content)
{
    uint16_t n_tools = 0;
    for (struct mosaic *m = content->first; m != NULL; m = m->next) {
        bool is_tool = mosaic_is(mosaic_get(m, "type"), "tool_use");
        if (is_tool)
            collector_default(c, m, "id",
                              transcript_tool_id((struct bytes){0}, &c->o, n_tools++, "toolu_", &c->keep.arena));
        if (is_tool || m->text.n > 0)
            complete_input(c, m);
    }
    return n_tools > 0;
}

static void end(struct collector *c)
{
    struct mosaic *answer = &c->answer;
    collector_default(c, answer, "id", arena_printf(&c->keep.arena, "msg_%016llx", (unsigned long long)c->o.id_seed));
    mosaic_set_text(mosaic_need(answer, "type", &c->keep), BYTES("message"), &c->keep);
    collector_default(c, answer, "role", BYTES("assistant"));
    collector_default(c, answer, "model", c->o.model);
    struct mosaic *content = mosaic_need(answer, "content", &c->keep);
    mosaic_become(content, MOSAIC_ARRAY, &c->keep);
    bool has_tools = complete_blocks(c, content);
    struct mosaic *stop = mosaic_need(answer, "stop_reason", &c->keep);
    if (mosaic_is_empty(stop) || (has_tools && mosaic_is(stop, "end_turn")))
        mosaic_set_text(stop, has_tools ? BYTES("tool_use") : BYTES("end_turn"), &c->keep);
    mosaic_need(answer, "stop_sequence", &c->keep); /* null where it was not told */
    struct mosaic *usage = mosaic_need(answer, "usage", &c->keep);
    if (mosaic_is_empty(usage))
        mosaic_set_raw(usage, BYTES("{\"input_tokens\":0,\"output_tokens\":0}"), &c->keep);
}

const struct collector_ops anthropic_collector = {.event = one_event, .end = end};

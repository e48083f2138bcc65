/* Chunks -> one chat.completion. Members of a chunk describe the answer: the last word stands, but for those that name
 * it. A choice grows: `delta` becomes `message`, texts run on, lists get longer, items with an index (or the parts of a
 * text) continue the item before. Which tool call a piece belongs to is told as in openai_decode.c. */
#include "dialect/answer_impl.h"

#include "dialect/collect.h"
#include "dialect/transcript.h"

enum { CHOICES_MAX = TRANSCRIPT_CHOICES_MAX, INDEXED_MAX = 1024, GROWTH_DEPTH_MAX = 8 };

static bool is_one_of(struct bytes name, const char *const *names)
{
    for (; *names != NULL; names++)
        if (bytes_is(name, *names))
            return true;
    return false;
}

/* Strings that come in pieces. */
static bool runs_on(struct bytes name)
{
    static const char *const names[] = {"content",  "reasoning", "reasoning_content", "refusal", "text",
                                        "thinking", "summary",   "arguments",         "input",   "transcript",
                                        "data",     NULL};
    return is_one_of(name, names);
}

/* Members that name a thing: some hosts repeat them, some make up new ones for each piece. */
static bool is_name(struct bytes name)
{
    static const char *const names[] = {"id",      "name",   "type",          "role", "model",
                                        "created", "object", "finish_reason", NULL};
    return is_one_of(name, names);
}

static void put(struct collector *c, struct mosaic *object, struct bytes name, yyjson_val *v)
{
    struct mosaic *m = is_name(name) ? mosaic_member(object, name, &c->keep) : NULL;
    if (mosaic_is_empty(m) || mosaic_is_raw(m, BYTES("0")))
        collector_put(c, object, name, v);
}

/* ---- what grows ---- */

static void grow_object(struct collector *c, struct mosaic *m, yyjson_val *from, unsigned depth);
static void grow_list(struct collector *c, struct mosaic *m, yyjson_val *from, unsigned depth);

static struct mosaic *new_object(struct collector *c, struct mosaic *list, int64_t at)
{
    struct mosaic *m = mosaic_item(list, &c->keep);
    mosaic_become(m, MOSAIC_OBJECT, &c->keep);
    m->at = at;
    return m;
}

/* Content in parts and as plain text, in one stream: the text is a part as well. */
static void add_text_part(struct collector *c, struct mosaic *list, struct bytes text)
{
    struct mosaic *part = list->last;
    if (part == NULL || !mosaic_is(mosaic_get(part, "type"), "text")) {
        part = new_object(c, list, -1);
        mosaic_set_raw(mosaic_need(part, "type", &c->keep), BYTES("\"text\""), &c->keep);
    }
    mosaic_run_on(mosaic_need(part, "text", &c->keep), text, &c->keep);
}

static void become_list(struct collector *c, struct mosaic *m)
{
    struct bytes text = m->kind == MOSAIC_TEXT ? rope_text(&m->text, &c->keep.arena) : (struct bytes){0};
    mosaic_become(m, MOSAIC_ARRAY, &c->keep);
    if (text.n > 0)
        add_text_part(c, m, text);
}

static void grow_text(struct collector *c, struct mosaic *m, yyjson_val *v)
{
    struct bytes text = json_tree_bytes(v);
    if (m->kind == MOSAIC_ARRAY && m->first != NULL) {
        if (text.n > 0)
            add_text_part(c, m, text);
    } else {
        mosaic_run_on(m, text, &c->keep);
    }
}

static bool has_part_type(yyjson_val *item)
{
    struct bytes type = json_tree_str(item, "type");
    return bytes_is(type, "text") || bytes_is(type, "thinking");
}

static bool is_same(struct collector *c, const struct mosaic *m, yyjson_val *v)
{
    return mosaic_is_raw(m, json_tree_text(v, &c->scratch));
}

/* The item that this one continues. */
static struct mosaic *item_before(struct collector *c, const struct mosaic *list, yyjson_val *item, int64_t at)
{
    struct mosaic *found = NULL;
    yyjson_val *type = yyjson_obj_get(item, "type");
    for (struct mosaic *m = list->first; m != NULL; m = m->next)
        if (m->kind == MOSAIC_OBJECT && m->at == at && (at >= 0 || m == list->last))
            found = m;
    const struct mosaic *known = mosaic_get(found, "type");
    return type == NULL || known == NULL || is_same(c, known, type) ? found : NULL;
}

static void grow_list(struct collector *c, struct mosaic *m, yyjson_val *from, unsigned depth)
{
    yyjson_val *item;
    size_t i, n;
    if (yyjson_arr_size(from) == 0 && !mosaic_is_empty(m))
        return;
    become_list(c, m);
    yyjson_arr_foreach(from, i, n, item)
    {
        int64_t at = json_tree_int(item, "index", -1);
        bool grows = yyjson_is_obj(item) && depth < GROWTH_DEPTH_MAX && (at >= 0 || has_part_type(item));
        if (!grows || m->n >= INDEXED_MAX) {
            mosaic_set_raw(mosaic_item(m, &c->keep), json_tree_text(item, &c->scratch), &c->keep);
            continue;
        }
        struct mosaic *before = item_before(c, m, item, at);
        grow_object(c, before ? before : new_object(c, m, at), item, depth + 1);
    }
}

/* ---- tool calls ---- */

static struct mosaic *function_of(const struct mosaic *call)
{
    struct mosaic *m = mosaic_get(call, "function");
    return m != NULL ? m : mosaic_get(call, "custom");
}

static bool has_args(const struct mosaic *call)
{
    const struct mosaic *f = function_of(call);
    return !mosaic_is_empty(mosaic_get(f, "arguments")) || !mosaic_is_empty(mosaic_get(f, "input"));
}

/* The newest call that the piece can mean. Without an index: the one of that id, or the last. */
static struct mosaic *call_of(struct collector *c, const struct mosaic *list, int64_t at, yyjson_val *id)
{
    struct mosaic *found = NULL;
    for (struct mosaic *m = list->first; m != NULL; m = m->next)
        if (at < 0 ? yyjson_get_len(id) == 0 || is_same(c, mosaic_get(m, "id"), id) : m->at == at)
            found = m;
    return found;
}

/* Some hosts give every parallel call the index 0. A new id with a new name after arguments is a new call. */
static bool is_other_call(struct collector *c, const struct mosaic *call, yyjson_val *piece)
{
    yyjson_val *id = yyjson_obj_get(piece, "id"), *f = yyjson_obj_get(piece, "function");
    const struct mosaic *known = mosaic_get(call, "id");
    f = f != NULL ? f : yyjson_obj_get(piece, "custom");
    return has_args(call) && yyjson_is_str(id) && yyjson_get_len(id) > 0 && json_tree_str(f, "name").n > 0 &&
           !mosaic_is_empty(known) && !is_same(c, known, id);
}

static void grow_calls(struct collector *c, struct mosaic *list, yyjson_val *from, bool is_message)
{
    yyjson_val *piece;
    size_t i, n;
    mosaic_become(list, MOSAIC_ARRAY, &c->keep);
    yyjson_arr_foreach(from, i, n, piece)
    {
        if (!yyjson_is_obj(piece))
            continue;
        yyjson_val *id = yyjson_obj_get(piece, "id");
        int64_t at = json_tree_int(piece, "index", is_message ? (int64_t)i : -1);
        struct mosaic *call = call_of(c, list, at < 0 ? -1 : at, yyjson_is_str(id) ? id : NULL);
        if (call == NULL || is_other_call(c, call, piece))
            call = list->n < INDEXED_MAX ? new_object(c, list, at < 0 ? -1 : at) : NULL;
        if (call != NULL)
            grow_object(c, call, piece, 1);
    }
}

/* ---- members ---- */

static void grow_member(struct collector *c, struct mosaic *object, struct bytes name, yyjson_val *v, unsigned depth)
{
    struct mosaic *m = mosaic_member(object, name, &c->keep);
    bool is_args = bytes_is(name, "arguments") || bytes_is(name, "input");
    if (m == NULL)
        return;
    if (is_args && yyjson_is_ctn(v))
        mosaic_run_on(m, json_tree_text(v, &c->scratch), &c->keep);
    else if (yyjson_is_str(v) && runs_on(name))
        grow_text(c, m, v);
    else if (yyjson_is_arr(v) && depth < GROWTH_DEPTH_MAX)
        grow_list(c, m, v, depth);
    else if (yyjson_is_obj(v) && depth < GROWTH_DEPTH_MAX)
        grow_object(c, m, v, depth + 1);
    else
        put(c, object, name, v);
}

static void grow_object(struct collector *c, struct mosaic *m, yyjson_val *from, unsigned depth)
{
    yyjson_val *key, *v;
    size_t i, n;
    mosaic_become(m, MOSAIC_OBJECT, &c->keep);
    yyjson_obj_foreach(from, i, n, key, v) grow_member(c, m, json_tree_bytes(key), v, depth);
}

static void grow_message(struct collector *c, struct mosaic *choice, yyjson_val *delta, bool is_message)
{
    yyjson_val *key, *v;
    size_t i, n;
    struct mosaic *m = mosaic_need(choice, "message", &c->keep);
    mosaic_become(m, MOSAIC_OBJECT, &c->keep);
    yyjson_obj_foreach(delta, i, n, key, v)
    {
        struct bytes name = json_tree_bytes(key);
        struct mosaic *calls = bytes_is(name, "tool_calls") ? mosaic_need(m, "tool_calls", &c->keep) : NULL;
        if (calls == NULL)
            grow_member(c, m, name, v, 1);
        else if (yyjson_is_arr(v))
            grow_calls(c, calls, v, is_message);
    }
}

/* In the order of their indexes, which is nearly always the order of their coming. */
static struct mosaic *choice_of(struct collector *c, struct mosaic *choices, int64_t index)
{
    struct mosaic **link = &choices->first;
    while (*link != NULL && (*link)->at < index)
        link = &(*link)->next;
    if (*link != NULL && (*link)->at == index)
        return *link;
    struct mosaic *after = *link, *last = choices->last;
    if (choices->n >= CHOICES_MAX)
        return NULL;
    struct mosaic *m = new_object(c, choices, index);
    if (after != NULL) { /* it was put at the end */
        last->next = NULL;
        choices->last = last;
        *link = m;
        m->next = after;
    }
    mosaic_set_raw(mosaic_need(m, "index", &c->keep), arena_printf(&c->scratch, "%lld", (long long)index), &c->keep);
    return m;
}

static void read_choice(struct collector *c, struct mosaic *choices, yyjson_val *from)
{
    /* text: what some hosts say beside the delta, in the old way, once more */
    static const char *const own[] = {"index", "delta", "message", "text", NULL};
    yyjson_val *key, *v, *delta = yyjson_obj_get(from, "delta");
    size_t i, n;
    int64_t index = json_tree_int(from, "index", 0);
    struct mosaic *choice = choice_of(c, choices, index < 0 || index > UINT16_MAX ? 0 : index);
    bool is_message = !yyjson_is_obj(delta);
    if (choice == NULL)
        return;
    yyjson_obj_foreach(from, i, n, key, v)
    {
        struct bytes name = json_tree_bytes(key);
        if (bytes_is(name, is_message ? "message" : "delta") && yyjson_is_obj(v))
            grow_message(c, choice, v, is_message);
        else if (bytes_is(name, "usage"))
            collector_put(c, &c->answer, name, v);
        else if (!is_one_of(name, own))
            grow_member(c, choice, name, v, 1);
    }
}

/* ---- chunks ---- */

static void read_choices(struct collector *c, yyjson_val *from)
{
    struct mosaic *choices = mosaic_need(&c->answer, "choices", &c->keep);
    yyjson_val *choice;
    size_t i, n;
    mosaic_become(choices, MOSAIC_ARRAY, &c->keep);
    yyjson_arr_foreach(from, i, n, choice)
    {
        if (yyjson_is_obj(choice))
            read_choice(c, choices, choice);
    }
}

static void one_chunk(struct collector *c, struct bytes event_name, yyjson_val *root)
{
    (void)event_name;
    yyjson_val *key, *v;
    size_t i, n;
    if (yyjson_obj_get(root, "choices") == NULL && yyjson_obj_get(root, "usage") == NULL &&
        yyjson_obj_get(root, "object") == NULL)
        return; /* some event of its own */
    yyjson_obj_foreach(root, i, n, key, v)
    {
        struct bytes name = json_tree_bytes(key);
        if (bytes_is(name, "choices"))
            read_choices(c, v);
        else if (!bytes_is(name, "obfuscation") && !(bytes_is(name, "usage") && yyjson_is_null(v)))
            put(c, &c->answer, name, v);
    }
}

/* ---- the end ---- */

static void complete_call(struct collector *c, struct mosaic *call, uint16_t tool)
{
    struct mosaic *f = function_of(call);
    bool is_custom = mosaic_get(call, "custom") != NULL;
    collector_default(c, call, "id", transcript_tool_id((struct bytes){0}, &c->o, tool, "call_", &c->keep.arena));
    collector_default(c, call, "type", is_custom ? BYTES("custom") : BYTES("function"));
    if (f == NULL || f->kind != MOSAIC_OBJECT)
        return;
    collector_default(c, f, "name", BYTES(""));
    collector_default(c, f, is_custom ? "input" : "arguments", is_custom ? BYTES("") : BYTES("{}"));
}

/* Calls that never got a name or arguments are none. True when any is left. */
static bool complete_calls(struct collector *c, struct mosaic *message)
{
    struct mosaic *list = mosaic_get(message, "tool_calls");
    uint16_t n = 0;
    for (struct mosaic **link = list ? &list->first : NULL; link != NULL && *link != NULL;) {
        if (!has_args(*link) && mosaic_is_empty(mosaic_get(function_of(*link), "name"))) {
            *link = (*link)->next;
            continue;
        }
        mosaic_drop(*link, "index");
        complete_call(c, *link, n++);
        link = &(*link)->next;
    }
    if (n == 0)
        mosaic_drop(message, "tool_calls");
    return n > 0;
}

static void complete_choice(struct collector *c, struct mosaic *choice)
{
    struct mosaic *message = mosaic_need(choice, "message", &c->keep);
    mosaic_become(message, MOSAIC_OBJECT, &c->keep);
    bool has_tools = complete_calls(c, message);
    bool has_more = has_tools || !mosaic_is_empty(mosaic_get(message, "refusal")) ||
                    !mosaic_is_empty(mosaic_get(message, "function_call"));
    struct mosaic *content = mosaic_need(message, "content", &c->keep);
    collector_default(c, message, "role", BYTES("assistant"));
    if (mosaic_is_empty(content))
        mosaic_set_raw(content, has_more ? BYTES("null") : BYTES("\"\""), &c->keep);
    struct mosaic *finish = mosaic_need(choice, "finish_reason", &c->keep);
    if (mosaic_is_empty(finish) || (has_tools && mosaic_is(finish, "stop")))
        mosaic_set_text(finish, has_tools ? BYTES("tool_calls") : BYTES("stop"), &c->keep);
}

/* Groq of old told usage in its own member only. */
static void find_usage(struct collector *c)
{
    yyjson_val *root;
    const struct mosaic *groq = mosaic_get(&c->answer, "x_groq");
    if (mosaic_get(&c->answer, "usage") == NULL && groq != NULL && groq->kind == MOSAIC_RAW &&
        json_tree_parse(groq->raw, GROWTH_DEPTH_MAX, &c->scratch, &root) == ERR_OK &&
        yyjson_obj_get(root, "usage") != NULL)
        collector_put(c, &c->answer, BYTES("usage"), yyjson_obj_get(root, "usage"));
}

static void end(struct collector *c)
{
    struct mosaic *choices = mosaic_need(&c->answer, "choices", &c->keep);
    struct mosaic *created = mosaic_need(&c->answer, "created", &c->keep);
    mosaic_set_text(mosaic_need(&c->answer, "object", &c->keep), BYTES("chat.completion"), &c->keep);
    collector_default(c, &c->answer, "id",
                      arena_printf(&c->keep.arena, "chatcmpl-%016llx", (unsigned long long)c->o.id_seed));
    collector_default(c, &c->answer, "model", c->o.model);
    if (mosaic_is_empty(created) || mosaic_is_raw(created, BYTES("0")))
        mosaic_set_raw(created, arena_printf(&c->keep.arena, "%lld", (long long)c->o.created_wall_s), &c->keep);
    mosaic_become(choices, MOSAIC_ARRAY, &c->keep);
    if (choices->first == NULL)
        choice_of(c, choices, 0);
    for (struct mosaic *m = choices->first; m != NULL; m = m->next)
        complete_choice(c, m);
    find_usage(c);
}

const struct collector_ops openai_collector = {.event = one_chunk, .end = end};

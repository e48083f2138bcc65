/* A Messages body -> our own words. Thinking, redacted thinking and the blocks of tools that ran at Anthropic are left
 * out: they mean nothing elsewhere. A server tool is left out by name; a typed client tool, whose schema only
 * Anthropic's models know, cannot be expressed. */
#include "dialect/request_impl.h"

enum { NESTED_MAX = 4 };

struct parsing {
    struct arena *arena;
    struct request *r;
    const char **why;
    enum err err; /* the first that was met */
    bool has_server_tool;
};

static void refuse(struct parsing *p, enum err e, const char *why)
{
    if (p->err != ERR_OK)
        return;
    p->err = e;
    *p->why = why;
}

static struct bytes type_of(yyjson_val *v)
{
    return json_tree_str(v, "type");
}

static bool is_member(yyjson_val *v, const char *name)
{
    yyjson_val *m = yyjson_obj_get(v, name);
    return m != NULL && !yyjson_is_null(m);
}

/* ---- blocks ---- */

static struct part *parse_content(struct parsing *p, yyjson_val *content, unsigned depth, size_t *n);

static void parse_source(struct parsing *p, yyjson_val *v, struct part *out)
{
    yyjson_val *source = yyjson_obj_get(v, "source");
    struct bytes type = type_of(source);
    if (bytes_is(type, "base64")) {
        out->media_type = json_tree_str(source, "media_type");
        out->data = json_tree_str(source, "data");
    } else if (bytes_is(type, "url")) {
        out->url = json_tree_str(source, "url");
    } else if (bytes_is(type, "file")) {
        out->file_id = json_tree_str(source, "file_id");
    } else {
        refuse(p, ERR_UNSUPPORTED, "a source of unknown type cannot be expressed in another dialect");
    }
}

/* Title and text, one under the other. */
static void titled_text(struct parsing *p, struct bytes title, struct bytes text, struct part *out)
{
    struct part lines[] = {{.text = title}, {.text = text}};
    out->kind = PART_TEXT;
    out->text = parts_text(lines, 2, "\n", p->arena);
}

static void parse_document(struct parsing *p, yyjson_val *v, unsigned depth, struct part *out)
{
    yyjson_val *source = yyjson_obj_get(v, "source");
    struct bytes title = json_tree_str(v, "title");
    if (bytes_is(type_of(source), "text")) {
        titled_text(p, title, json_tree_str(source, "data"), out);
        return;
    }
    if (bytes_is(type_of(source), "content")) {
        size_t n;
        struct part *parts = parse_content(p, yyjson_obj_get(source, "content"), depth + 1, &n);
        titled_text(p, title, parts_text(parts, n, "\n", p->arena), out);
        return;
    }
    out->kind = PART_DOCUMENT;
    out->title = title;
    parse_source(p, v, out);
}

static void parse_search_result(struct parsing *p, yyjson_val *v, unsigned depth, struct part *out)
{
    size_t n;
    struct part *parts = parse_content(p, yyjson_obj_get(v, "content"), depth + 1, &n);
    struct part head[] = {{.text = json_tree_str(v, "title")}, {.text = json_tree_str(v, "source")}};
    titled_text(p, parts_text(head, 2, "\n", p->arena), parts_text(parts, n, "\n", p->arena), out);
}

static void parse_tool_use(struct parsing *p, yyjson_val *v, struct part *out)
{
    yyjson_val *input = yyjson_obj_get(v, "input");
    out->kind = PART_TOOL_USE;
    out->id = json_tree_str(v, "id");
    out->name = json_tree_str(v, "name");
    out->input_json = yyjson_is_obj(input) ? json_tree_text(input, p->arena) : BYTES("{}");
}

/* False when the block has no place elsewhere. */
static bool parse_block(struct parsing *p, yyjson_val *v, unsigned depth, struct part *out)
{
    struct bytes type = type_of(v);
    out->is_breakpoint = is_member(v, "cache_control");
    if (bytes_is(type, "text")) {
        out->text = json_tree_str(v, "text");
    } else if (bytes_is(type, "image")) {
        out->kind = PART_IMAGE;
        parse_source(p, v, out);
    } else if (bytes_is(type, "document")) {
        parse_document(p, v, depth, out);
    } else if (bytes_is(type, "search_result")) {
        parse_search_result(p, v, depth, out);
    } else if (bytes_is(type, "tool_use")) {
        parse_tool_use(p, v, out);
    } else if (bytes_is(type, "tool_result")) {
        out->kind = PART_TOOL_RESULT;
        out->id = json_tree_str(v, "tool_use_id");
        out->is_error = json_tree_bool(v, "is_error", false);
        out->parts = parse_content(p, yyjson_obj_get(v, "content"), depth + 1, &out->n_parts);
    } else {
        return false;
    }
    return true;
}

static struct part *parse_content(struct parsing *p, yyjson_val *content, unsigned depth, size_t *n)
{
    size_t n_blocks = yyjson_is_arr(content) ? yyjson_arr_size(content) : 1;
    struct part *parts = ARENA_ARRAY(p->arena, struct part, n_blocks + 1);
    *n = 0;
    if (depth > NESTED_MAX) {
        refuse(p, ERR_UNSUPPORTED, "content blocks are nested too deep for another dialect");
    } else if (yyjson_is_str(content)) {
        parts[(*n)++].text = json_tree_bytes(content);
    } else if (yyjson_is_arr(content)) {
        size_t at, end;
        yyjson_val *v;
        yyjson_arr_foreach(content, at, end, v)
        {
            parts[*n] = (struct part){0};
            *n += parse_block(p, v, depth, &parts[*n]);
        }
    } else if (content != NULL && !yyjson_is_null(content)) {
        refuse(p, ERR_TYPE, "content must be a string or a list of blocks");
    }
    return parts;
}

static void parse_messages(struct parsing *p, yyjson_val *list)
{
    struct request *r = p->r;
    if (!yyjson_is_arr(list)) {
        refuse(p, ERR_TYPE, "messages must be a list");
        return;
    }
    r->messages = ARENA_ARRAY(p->arena, struct message, yyjson_arr_size(list) + 1);
    size_t at, end;
    yyjson_val *v;
    yyjson_arr_foreach(list, at, end, v)
    {
        struct message *m = &r->messages[r->n_messages++];
        struct bytes role = json_tree_str(v, "role");
        m->role = bytes_is(role, "assistant") ? ROLE_ASSISTANT : bytes_is(role, "user") ? ROLE_USER : ROLE_SYSTEM;
        if (m->role == ROLE_SYSTEM && !bytes_is(role, "system"))
            refuse(p, ERR_TYPE, "a message has an unknown role");
        m->parts = parse_content(p, yyjson_obj_get(v, "content"), 0, &m->n_parts);
    }
}

/* ---- tools ---- */

static bool is_server_tool(struct bytes type)
{
    static const char *const prefixes[] = {"web_search_", "web_fetch_", "code_execution_", "tool_search_",
                                           "mcp_toolset"};
    for (size_t i = 0; i < RM_COUNTOF(prefixes); i++)
        if (bytes_starts_with(type, bytes_of(prefixes[i])))
            return true;
    return false;
}

static void parse_tool(struct parsing *p, yyjson_val *v)
{
    struct bytes type = type_of(v);
    if (is_server_tool(type)) {
        p->has_server_tool = true;
        return;
    }
    if (type.n > 0 && !bytes_is(type, "custom")) {
        refuse(p, ERR_UNSUPPORTED, "a tool whose schema only Anthropic knows cannot be expressed in another dialect");
        return;
    }
    yyjson_val *schema = yyjson_obj_get(v, "input_schema"), *strict = yyjson_obj_get(v, "strict");
    struct tool *out = &p->r->tools[p->r->n_tools++];
    out->name = json_tree_str(v, "name");
    out->description = json_tree_str(v, "description");
    if (yyjson_is_obj(schema))
        out->schema_json = json_tree_text(schema, p->arena);
    out->strict = yyjson_is_bool(strict) ? (yyjson_get_bool(strict) ? YES : NO) : UNSET;
    out->is_breakpoint = is_member(v, "cache_control");
}

static void parse_tools(struct parsing *p, yyjson_val *list)
{
    if (!yyjson_is_arr(list))
        return;
    p->r->tools = ARENA_ARRAY(p->arena, struct tool, yyjson_arr_size(list) + 1);
    size_t at, end;
    yyjson_val *v;
    yyjson_arr_foreach(list, at, end, v) parse_tool(p, v);
}

static void parse_choice(struct request *r, yyjson_val *v)
{
    struct bytes type = type_of(v);
    if (bytes_is(type, "auto"))
        r->choice = CHOICE_AUTO;
    else if (bytes_is(type, "none"))
        r->choice = CHOICE_NONE;
    else if (bytes_is(type, "any"))
        r->choice = CHOICE_REQUIRED;
    else if (bytes_is(type, "tool"))
        r->choice = CHOICE_NAMED;
    r->choice_name = json_tree_str(v, "name");
    if (json_tree_bool(v, "disable_parallel_tool_use", false))
        r->parallel_tools = NO;
}

/* ---- parameters ---- */

static void parse_stop(struct parsing *p, yyjson_val *v)
{
    if (!yyjson_is_arr(v))
        return;
    p->r->stop = ARENA_ARRAY(p->arena, struct bytes, yyjson_arr_size(v) + 1);
    size_t at, end;
    yyjson_val *item;
    yyjson_arr_foreach(v, at, end, item) if (yyjson_is_str(item)) p->r->stop[p->r->n_stop++] = json_tree_bytes(item);
}

static void parse_thinking(struct request *r, yyjson_val *v)
{
    struct bytes type = type_of(v);
    r->thinking_budget = -1;
    if (bytes_is(type, "disabled"))
        r->thinking = THINKING_OFF;
    else if (type.n > 0)
        r->thinking = THINKING_ON;
    if (bytes_is(type, "enabled"))
        r->thinking_budget = json_tree_int(v, "budget_tokens", -1);
}

static void parse_format(struct parsing *p, yyjson_val *v)
{
    if (!bytes_is(type_of(v), "json_schema"))
        return;
    yyjson_val *schema = yyjson_obj_get(v, "schema");
    p->r->form = FORM_JSON_SCHEMA;
    if (yyjson_is_obj(schema))
        p->r->schema_json = json_tree_text(schema, p->arena);
    else
        refuse(p, ERR_TYPE, "output_config.format has no schema");
}

static void parse_parameters(struct parsing *p, yyjson_val *root)
{
    struct request *r = p->r;
    yyjson_val *config = yyjson_obj_get(root, "output_config");
    r->max_tokens = json_tree_int(root, "max_tokens", -1);
    r->temperature_json = number_text(yyjson_obj_get(root, "temperature"));
    r->top_p_json = number_text(yyjson_obj_get(root, "top_p"));
    r->effort = json_tree_str(config, "effort");
    r->user = json_tree_str(yyjson_obj_get(root, "metadata"), "user_id");
    r->service_tier = json_tree_str(root, "service_tier");
    parse_stop(p, yyjson_obj_get(root, "stop_sequences"));
    parse_thinking(r, yyjson_obj_get(root, "thinking"));
    parse_format(p, is_member(config, "format") ? yyjson_obj_get(config, "format")
                                                : yyjson_obj_get(root, "output_format"));
}

enum err anthropic_parse(struct bytes body, unsigned max_depth, struct arena *a, struct request *out, const char **why)
{
    static const char *const known[] = {"model",          "messages", "system",        "max_tokens",   "tools",
                                        "tool_choice",    "thinking", "output_config", "temperature",  "top_p",
                                        "stop_sequences", "stream",   "metadata",      "service_tier", "cache_control",
                                        "output_format",  NULL};
    struct parsing p = {.arena = a, .r = out, .why = why};
    yyjson_val *root;
    *out = (struct request){.max_tokens = -1};
    enum err e = body_tree(body, max_depth, a, &root, why);
    if (e != ERR_OK)
        return e;
    out->system = parse_content(&p, yyjson_obj_get(root, "system"), 0, &out->n_system);
    parse_messages(&p, yyjson_obj_get(root, "messages"));
    parse_tools(&p, yyjson_obj_get(root, "tools"));
    parse_choice(out, yyjson_obj_get(root, "tool_choice"));
    parse_parameters(&p, root);
    note_dropped(root, known, a, out);
    if (p.has_server_tool)
        note_more_dropped(out, BYTES("server_tools"), a);
    return p.err;
}

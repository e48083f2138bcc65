/* A Chat Completions body -> our own words. The leading system and developer messages become system text; every tool
 * message becomes a user's message with one tool result; neighbours of one role stay apart (whoever renders joins them
 * as its dialect demands). What no other dialect can say is noted by name, or refused where leaving it out would change
 * what the client gets back. */
#include "dialect/request_impl.h"

/* ---- parse: parts ---- */

struct parsing {
    struct arena *arena;
    struct request *r;
    const char **why;
    enum err err; /* the first that was met */
    unsigned n_calls_unnamed, n_results_unnamed;
    struct bytes old_call; /* id given to the latest function_call of the old form */
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

static void parse_image(struct parsing *p, yyjson_val *v, struct part *out)
{
    yyjson_val *image = yyjson_obj_get(v, "image_url");
    struct bytes url = yyjson_is_str(image) ? json_tree_bytes(image) : json_tree_str(image, "url");
    out->kind = PART_IMAGE;
    if (!data_url_split(url, &out->media_type, &out->data))
        out->url = url;
    if (url.n == 0)
        refuse(p, ERR_TYPE, "an image part has no url");
}

static void parse_file(yyjson_val *v, struct part *out)
{
    yyjson_val *file = yyjson_obj_get(v, "file");
    struct bytes data = json_tree_str(file, "file_data");
    out->kind = PART_DOCUMENT;
    out->title = json_tree_str(file, "filename");
    out->file_id = json_tree_str(file, "file_id");
    if (data_url_split(data, &out->media_type, &out->data))
        return;
    out->data = data;
    out->media_type = BYTES("application/pdf");
}

static void parse_part(struct parsing *p, yyjson_val *v, struct part *out)
{
    struct bytes type = type_of(v);
    out->is_breakpoint = yyjson_is_obj(yyjson_obj_get(v, "prompt_cache_breakpoint")) ||
                         yyjson_is_obj(yyjson_obj_get(v, "cache_control"));
    if (bytes_is(type, "text")) {
        out->text = json_tree_str(v, "text");
    } else if (bytes_is(type, "refusal")) {
        out->kind = PART_REFUSAL;
        out->text = json_tree_str(v, "refusal");
    } else if (bytes_is(type, "image_url")) {
        parse_image(p, v, out);
    } else if (bytes_is(type, "file")) {
        parse_file(v, out);
    } else if (bytes_is(type, "input_audio")) {
        out->kind = PART_AUDIO;
    } else if (!bytes_is(type, "thinking") && !bytes_is(type, "reasoning")) {
        refuse(p, ERR_UNSUPPORTED, "a content part of unknown type cannot be expressed in another dialect");
    }
}

/* String, null or parts; room for `extra` parts more behind them. */
static struct part *parse_content(struct parsing *p, yyjson_val *content, size_t extra, size_t *n)
{
    size_t n_parts = yyjson_is_arr(content) ? yyjson_arr_size(content) : 1;
    struct part *parts = ARENA_ARRAY(p->arena, struct part, n_parts + extra + 1);
    *n = 0;
    if (yyjson_is_str(content)) {
        parts[(*n)++].text = json_tree_bytes(content);
    } else if (yyjson_is_arr(content)) {
        size_t at, end;
        yyjson_val *v;
        yyjson_arr_foreach(content, at, end, v) parse_part(p, v, &parts[(*n)++]);
    } else if (content != NULL && !yyjson_is_null(content)) {
        refuse(p, ERR_TYPE, "a message's content must be a string or a list of parts");
    }
    return parts;
}

/* ---- parse: messages ---- */

/* Some hosts leave ids empty. Calls and results then pair up in their order. */
static struct bytes id_or_made(struct parsing *p, struct bytes id, unsigned *n_unnamed)
{
    return id.n > 0 ? id : arena_printf(p->arena, "call_unnamed_%u", (*n_unnamed)++);
}

static void parse_tool_call(struct parsing *p, yyjson_val *v, struct part *out)
{
    yyjson_val *function = yyjson_obj_get(v, "function");
    if (function == NULL) {
        refuse(p, ERR_UNSUPPORTED, "a custom tool's call cannot be expressed in another dialect");
        return;
    }
    out->kind = PART_TOOL_USE;
    out->id = id_or_made(p, json_tree_str(v, "id"), &p->n_calls_unnamed);
    out->name = json_tree_str(function, "name");
    out->input_text = json_tree_str(function, "arguments");
}

static void parse_assistant(struct parsing *p, yyjson_val *v, struct message *m)
{
    yyjson_val *calls = yyjson_obj_get(v, "tool_calls"), *old = yyjson_obj_get(v, "function_call");
    size_t n_calls = yyjson_is_arr(calls) ? yyjson_arr_size(calls) : 0;
    m->role = ROLE_ASSISTANT;
    m->parts = parse_content(p, yyjson_obj_get(v, "content"), n_calls + 2, &m->n_parts);
    struct bytes refusal = json_tree_str(v, "refusal");
    if (refusal.n > 0)
        m->parts[m->n_parts++] = (struct part){.kind = PART_REFUSAL, .text = refusal};
    for (size_t i = 0; i < n_calls; i++)
        parse_tool_call(p, yyjson_arr_get(calls, i), &m->parts[m->n_parts++]);
    if (!yyjson_is_obj(old))
        return;
    p->old_call = arena_printf(p->arena, "call_function_%u", p->n_calls_unnamed++);
    m->parts[m->n_parts++] = (struct part){.kind = PART_TOOL_USE,
                                           .id = p->old_call,
                                           .name = json_tree_str(old, "name"),
                                           .input_text = json_tree_str(old, "arguments")};
}

static void parse_tool_result(struct parsing *p, yyjson_val *v, bool is_old, struct message *m)
{
    struct part *result = ARENA_NEW(p->arena, struct part);
    result->kind = PART_TOOL_RESULT;
    result->id = is_old ? p->old_call : id_or_made(p, json_tree_str(v, "tool_call_id"), &p->n_results_unnamed);
    result->parts = parse_content(p, yyjson_obj_get(v, "content"), 0, &result->n_parts);
    result->is_breakpoint = yyjson_is_obj(yyjson_obj_get(v, "prompt_cache_breakpoint"));
    for (size_t i = 0; i < result->n_parts; i++)
        result->is_breakpoint = result->is_breakpoint || result->parts[i].is_breakpoint;
    m->role = ROLE_USER;
    m->parts = result;
    m->n_parts = 1;
}

static void parse_message(struct parsing *p, yyjson_val *v, struct message *m)
{
    struct bytes role = json_tree_str(v, "role");
    if (bytes_is(role, "assistant")) {
        parse_assistant(p, v, m);
    } else if (bytes_is(role, "tool") || bytes_is(role, "function")) {
        parse_tool_result(p, v, bytes_is(role, "function"), m);
    } else if (bytes_is(role, "user") || bytes_is(role, "system") || bytes_is(role, "developer")) {
        m->role = bytes_is(role, "user") ? ROLE_USER : ROLE_SYSTEM;
        m->parts = parse_content(p, yyjson_obj_get(v, "content"), 0, &m->n_parts);
    } else {
        refuse(p, ERR_TYPE, "a message has an unknown role");
    }
}

/* The leading system messages leave the list. */
static void split_system(struct parsing *p)
{
    struct request *r = p->r;
    size_t n_leading = 0, n_parts = 0;
    while (n_leading < r->n_messages && r->messages[n_leading].role == ROLE_SYSTEM)
        n_parts += r->messages[n_leading++].n_parts;
    r->system = ARENA_ARRAY(p->arena, struct part, n_parts + 1);
    for (size_t i = 0; i < n_leading; i++)
        for (size_t k = 0; k < r->messages[i].n_parts; k++)
            r->system[r->n_system++] = r->messages[i].parts[k];
    r->messages += n_leading;
    r->n_messages -= n_leading;
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
    yyjson_arr_foreach(list, at, end, v) parse_message(p, v, &r->messages[r->n_messages++]);
    split_system(p);
}

/* ---- parse: tools and parameters ---- */

static void parse_tool(struct parsing *p, yyjson_val *v, struct tool *out)
{
    yyjson_val *function = yyjson_obj_get(v, "function");
    if (function == NULL) {
        refuse(p, ERR_UNSUPPORTED, "a custom tool cannot be expressed in another dialect");
        return;
    }
    yyjson_val *schema = yyjson_obj_get(function, "parameters"), *strict = yyjson_obj_get(function, "strict");
    out->name = json_tree_str(function, "name");
    out->description = json_tree_str(function, "description");
    if (yyjson_is_obj(schema))
        out->schema_json = json_tree_text(schema, p->arena);
    out->strict = yyjson_is_bool(strict) ? (yyjson_get_bool(strict) ? YES : NO) : UNSET;
    out->is_breakpoint = yyjson_is_obj(yyjson_obj_get(v, "cache_control"));
}

static void parse_tools(struct parsing *p, yyjson_val *list)
{
    if (!yyjson_is_arr(list))
        return;
    p->r->tools = ARENA_ARRAY(p->arena, struct tool, yyjson_arr_size(list) + 1);
    size_t at, end;
    yyjson_val *v;
    yyjson_arr_foreach(list, at, end, v) parse_tool(p, v, &p->r->tools[p->r->n_tools++]);
}

static bool is_allowed(yyjson_val *allowed, struct bytes name)
{
    size_t at, end;
    yyjson_val *v;
    yyjson_arr_foreach(allowed, at, end,
                       v) if (bytes_eq(json_tree_str(yyjson_obj_get(v, "function"), "name"), name)) return true;
    return false;
}

/* Elsewhere the way to allow some tools only is to offer no others. */
static void keep_allowed_tools(struct request *r, yyjson_val *allowed)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_tools; i++)
        if (is_allowed(allowed, r->tools[i].name))
            r->tools[n++] = r->tools[i];
    r->n_tools = n;
}

static enum tool_choice choice_of(struct bytes word)
{
    if (bytes_is(word, "auto"))
        return CHOICE_AUTO;
    if (bytes_is(word, "none"))
        return CHOICE_NONE;
    return bytes_is(word, "required") || bytes_is(word, "any") ? CHOICE_REQUIRED : CHOICE_UNSET;
}

static void parse_choice(struct parsing *p, yyjson_val *v)
{
    struct request *r = p->r;
    if (yyjson_is_str(v)) {
        r->choice = choice_of(json_tree_bytes(v));
    } else if (bytes_is(type_of(v), "function")) {
        r->choice = CHOICE_NAMED;
        r->choice_name = json_tree_str(yyjson_obj_get(v, "function"), "name");
    } else if (bytes_is(type_of(v), "allowed_tools")) {
        yyjson_val *allowed = yyjson_obj_get(v, "allowed_tools");
        r->choice = choice_of(json_tree_str(allowed, "mode"));
        keep_allowed_tools(r, yyjson_obj_get(allowed, "tools"));
    } else if (yyjson_is_obj(v)) {
        refuse(p, ERR_UNSUPPORTED, "this tool_choice cannot be expressed in another dialect");
    }
}

static void parse_stop(struct parsing *p, yyjson_val *v)
{
    size_t n = yyjson_is_arr(v) ? yyjson_arr_size(v) : 1;
    p->r->stop = ARENA_ARRAY(p->arena, struct bytes, n + 1);
    if (yyjson_is_str(v))
        p->r->stop[p->r->n_stop++] = json_tree_bytes(v);
    size_t at, end;
    yyjson_val *item;
    yyjson_arr_foreach(v, at, end, item) if (yyjson_is_str(item)) p->r->stop[p->r->n_stop++] = json_tree_bytes(item);
}

static void parse_format(struct parsing *p, yyjson_val *v)
{
    struct request *r = p->r;
    struct bytes type = type_of(v);
    if (bytes_is(type, "json_object"))
        r->form = FORM_JSON_OBJECT;
    if (!bytes_is(type, "json_schema"))
        return;
    yyjson_val *spec = yyjson_obj_get(v, "json_schema"), *schema = yyjson_obj_get(spec, "schema");
    yyjson_val *strict = yyjson_obj_get(spec, "strict");
    r->form = FORM_JSON_SCHEMA;
    r->schema_name = json_tree_str(spec, "name");
    r->schema_strict = yyjson_is_bool(strict) ? (yyjson_get_bool(strict) ? YES : NO) : UNSET;
    if (yyjson_is_obj(schema))
        r->schema_json = json_tree_text(schema, p->arena);
    else
        refuse(p, ERR_TYPE, "response_format has no schema");
}

static void parse_parameters(struct parsing *p, yyjson_val *root)
{
    struct request *r = p->r;
    yyjson_val *parallel = yyjson_obj_get(root, "parallel_tool_calls");
    r->max_tokens = json_tree_int(root, "max_completion_tokens", json_tree_int(root, "max_tokens", -1));
    r->temperature_json = number_text(yyjson_obj_get(root, "temperature"));
    r->top_p_json = number_text(yyjson_obj_get(root, "top_p"));
    r->parallel_tools = yyjson_is_bool(parallel) ? (yyjson_get_bool(parallel) ? YES : NO) : UNSET;
    r->effort = json_tree_str(root, "reasoning_effort");
    r->thinking_budget = -1;
    r->user = json_tree_str(root, "safety_identifier");
    if (r->user.n == 0)
        r->user = json_tree_str(root, "user");
    r->service_tier = json_tree_str(root, "service_tier");
    parse_stop(p, yyjson_obj_get(root, "stop"));
    parse_format(p, yyjson_obj_get(root, "response_format"));
}

enum err openai_parse(struct bytes body, unsigned max_depth, struct arena *a, struct request *out, const char **why)
{
    static const char *const known[] = {"model",
                                        "messages",
                                        "stream",
                                        "stream_options",
                                        "max_tokens",
                                        "max_completion_tokens",
                                        "n",
                                        "tools",
                                        "tool_choice",
                                        "parallel_tool_calls",
                                        "stop",
                                        "response_format",
                                        "temperature",
                                        "top_p",
                                        "reasoning_effort",
                                        "user",
                                        "modalities",
                                        "safety_identifier",
                                        "audio",
                                        "service_tier",
                                        NULL};
    struct parsing p = {.arena = a, .r = out, .why = why};
    yyjson_val *root;
    *out = (struct request){.max_tokens = -1};
    enum err e = body_tree(body, max_depth, a, &root, why);
    if (e != ERR_OK)
        return e;
    if (yyjson_arr_size(yyjson_obj_get(root, "functions")) > 0)
        refuse(&p, ERR_UNSUPPORTED, "functions in the old form cannot be answered from another dialect");
    parse_messages(&p, yyjson_obj_get(root, "messages"));
    parse_tools(&p, yyjson_obj_get(root, "tools"));
    parse_choice(&p, yyjson_obj_get(root, "tool_choice"));
    parse_parameters(&p, root);
    note_dropped(root, known, a, out);
    return p.err;
}

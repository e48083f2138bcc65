/* Our own words -> a Chat Completions body. One system message; a user's tool results become tool messages before his
 * text, and their images a part of that text's message, since tool messages take text only. Which names and values a
 * compatible host knows is decided by its vendor. */
#include "dialect/request_impl.h"

struct rendering {
    const struct request *r;
    const struct profile *p;
    struct arena *arena;
    struct buf *adjusted;
    struct json_writer w;
    const char **why;
    enum err err;
    enum id_rule id_rule;
};

enum { STOP_MAX = 4, USER_MAX = 64, BUDGET_LOW = 2048, BUDGET_MEDIUM = 12288 };

static void refuse(struct rendering *g, const char *why)
{
    if (g->err != ERR_OK)
        return;
    g->err = ERR_UNSUPPORTED;
    *g->why = why;
}

static void put_string(struct rendering *g, const char *key, struct bytes value)
{
    jw_key(&g->w, key);
    jw_string(&g->w, value);
}

static void put_raw(struct rendering *g, const char *key, struct bytes json)
{
    jw_key(&g->w, key);
    jw_raw(&g->w, json);
}

static bool is_openai_itself(const struct profile *p)
{
    return bytes_is(p->vendor, "openai") || bytes_is(p->vendor, "azure");
}

/* o1, o3, o4-mini, gpt-5 …: they take neither sampling nor stop (Chat notes, section 2). */
static bool is_reasoning_model(const struct profile *p)
{
    struct bytes m = p->model;
    if (!is_openai_itself(p))
        return false;
    bool is_o = m.n >= 2 && m.p[0] == 'o' && m.p[1] >= '1' && m.p[1] <= '9';
    return is_o || (bytes_starts_with(m, BYTES("gpt-")) && m.n > 4 && m.p[4] >= '5' && m.p[4] <= '9');
}

/* ---- content ---- */

static void put_text_part(struct rendering *g, struct bytes text)
{
    jw_object(&g->w);
    put_string(g, "type", BYTES("text"));
    put_string(g, "text", text);
    jw_end(&g->w);
}

static struct bytes data_url(struct rendering *g, const struct part *p)
{
    struct buf b = {0};
    buf_puts(&b, "data:");
    buf_put(&b, p->media_type);
    buf_puts(&b, ";base64,");
    buf_put(&b, p->data);
    struct bytes url = arena_dup(g->arena, buf_bytes(&b));
    buf_fini(&b);
    return url;
}

static void put_image(struct rendering *g, const struct part *p)
{
    if (p->file_id.n > 0)
        refuse(g, "an image stored at another provider cannot be sent here");
    jw_object(&g->w);
    put_string(g, "type", BYTES("image_url"));
    jw_key(&g->w, "image_url");
    jw_object(&g->w);
    put_string(g, "url", p->data.p != NULL ? data_url(g, p) : p->url);
    jw_end(&g->w);
    jw_end(&g->w);
}

static void put_document(struct rendering *g, const struct part *p)
{
    if (p->data.p == NULL) {
        refuse(g, "a document by url or file id cannot be expressed in the Chat form");
        return;
    }
    jw_object(&g->w);
    put_string(g, "type", BYTES("file"));
    jw_key(&g->w, "file");
    jw_object(&g->w);
    put_string(g, "filename", p->title.n > 0 ? p->title : BYTES("document.pdf"));
    put_string(g, "file_data", data_url(g, p));
    jw_end(&g->w);
    jw_end(&g->w);
}

static bool is_text(const struct part *p)
{
    return p->kind == PART_TEXT || p->kind == PART_REFUSAL;
}

/* What a user's message may hold: text that is not empty, images, documents. */
static bool is_user_part(const struct part *p)
{
    return is_text(p) ? p->text.n > 0 : p->kind == PART_IMAGE || p->kind == PART_DOCUMENT;
}

static void put_user_part(struct rendering *g, const struct part *p)
{
    if (is_text(p))
        put_text_part(g, p->text);
    else if (p->kind == PART_IMAGE)
        put_image(g, p);
    else
        put_document(g, p);
}

static void open_message(struct rendering *g, const char *role)
{
    jw_object(&g->w);
    put_string(g, "role", bytes_of(role));
}

static void put_plain_message(struct rendering *g, const char *role, struct bytes text)
{
    open_message(g, role);
    put_string(g, "content", text);
    jw_end(&g->w);
}

/* ---- messages ---- */

static void put_tool_message(struct rendering *g, const struct part *result)
{
    struct bytes text = parts_text(result->parts, result->n_parts, "\n", g->arena);
    if (result->is_error) {
        struct part parts[] = {{.text = BYTES("Error: ")}, {.text = text}};
        text = parts_text(parts, 2, "", g->arena);
    }
    open_message(g, "tool");
    put_string(g, "tool_call_id", tool_id_fit(result->id, g->id_rule, g->arena));
    put_string(g, "content", text);
    jw_end(&g->w);
}

/* The parts that a user's message shows, those of tool results which tool messages cannot hold among them. Counts them,
 * and puts them when `puts` is set. */
static size_t each_user_part(struct rendering *g, const struct message *m, bool puts)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_parts; i++) {
        const struct part *p = &m->parts[i];
        for (size_t k = 0; k < p->n_parts; k++) {
            if (is_text(&p->parts[k]) || !is_user_part(&p->parts[k]))
                continue;
            n++;
            if (puts)
                put_user_part(g, &p->parts[k]);
        }
    }
    for (size_t i = 0; i < m->n_parts; i++) {
        if (!is_user_part(&m->parts[i]))
            continue;
        n++;
        if (puts)
            put_user_part(g, &m->parts[i]);
    }
    return n;
}

static const struct part *only_part(const struct message *m)
{
    const struct part *only = NULL;
    for (size_t i = 0; i < m->n_parts; i++)
        if (is_user_part(&m->parts[i]))
            only = &m->parts[i];
    return only;
}

static void put_user(struct rendering *g, const struct message *m)
{
    size_t n_results = 0;
    for (size_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i].kind != PART_TOOL_RESULT)
            continue;
        put_tool_message(g, &m->parts[i]);
        n_results++;
    }
    size_t n = each_user_part(g, m, false);
    const struct part *only = only_part(m);
    if (n == 1 && only != NULL && is_text(only)) {
        put_plain_message(g, "user", only->text);
    } else if (n > 0) {
        open_message(g, "user");
        jw_key(&g->w, "content");
        jw_array(&g->w);
        each_user_part(g, m, true);
        jw_end(&g->w);
        jw_end(&g->w);
    } else if (n_results == 0) {
        put_plain_message(g, "user", BYTES(""));
    }
}

static void put_tool_call(struct rendering *g, const struct part *use)
{
    jw_object(&g->w);
    put_string(g, "id", tool_id_fit(use->id, g->id_rule, g->arena));
    put_string(g, "type", BYTES("function"));
    jw_key(&g->w, "function");
    jw_object(&g->w);
    put_string(g, "name", use->name);
    put_string(g, "arguments", use->input_json.p != NULL ? use->input_json : BYTES("{}"));
    jw_end(&g->w);
    jw_end(&g->w);
}

static void put_assistant(struct rendering *g, const struct message *m)
{
    struct bytes text = parts_text(m->parts, m->n_parts, "", g->arena);
    size_t n_calls = 0;
    for (size_t i = 0; i < m->n_parts; i++)
        n_calls += m->parts[i].kind == PART_TOOL_USE;
    if (text.n == 0 && n_calls == 0)
        return; /* thinking only: nothing of it can be said here */
    open_message(g, "assistant");
    jw_key(&g->w, "content");
    if (text.n > 0)
        jw_string(&g->w, text);
    else
        jw_null(&g->w);
    if (n_calls > 0) {
        jw_key(&g->w, "tool_calls");
        jw_array(&g->w);
        for (size_t i = 0; i < m->n_parts; i++)
            if (m->parts[i].kind == PART_TOOL_USE)
                put_tool_call(g, &m->parts[i]);
        jw_end(&g->w);
    }
    jw_end(&g->w);
}

static void put_messages(struct rendering *g)
{
    const struct request *r = g->r;
    struct bytes system = parts_text(r->system, r->n_system, "\n\n", g->arena);
    jw_key(&g->w, "messages");
    jw_array(&g->w);
    if (system.n > 0)
        put_plain_message(g, "system", system);
    for (size_t i = 0; i < r->n_messages; i++) {
        const struct message *m = &r->messages[i];
        if (m->role == ROLE_ASSISTANT)
            put_assistant(g, m);
        else if (m->role == ROLE_USER)
            put_user(g, m);
        else
            put_plain_message(g, "system", parts_text(m->parts, m->n_parts, "\n\n", g->arena));
    }
    jw_end(&g->w);
}

/* ---- tools ---- */

static void put_tool(struct rendering *g, const struct tool *t)
{
    jw_object(&g->w);
    put_string(g, "type", BYTES("function"));
    jw_key(&g->w, "function");
    jw_object(&g->w);
    put_string(g, "name", t->name);
    if (t->description.p != NULL)
        put_string(g, "description", t->description);
    put_raw(g, "parameters",
            t->schema_json.p != NULL ? t->schema_json : BYTES("{\"type\":\"object\",\"properties\":{}}"));
    if (t->strict != UNSET) {
        jw_key(&g->w, "strict");
        jw_bool(&g->w, t->strict == YES);
    }
    jw_end(&g->w);
    jw_end(&g->w);
}

static void put_choice(struct rendering *g)
{
    static const char *const words[] = {[CHOICE_AUTO] = "auto", [CHOICE_NONE] = "none", [CHOICE_REQUIRED] = "required"};
    const struct request *r = g->r;
    if (r->choice == CHOICE_UNSET)
        return;
    jw_key(&g->w, "tool_choice");
    if (r->choice != CHOICE_NAMED) {
        jw_cstr(&g->w, words[r->choice]);
        return;
    }
    jw_object(&g->w);
    put_string(g, "type", BYTES("function"));
    jw_key(&g->w, "function");
    jw_object(&g->w);
    put_string(g, "name", r->choice_name);
    jw_end(&g->w);
    jw_end(&g->w);
}

static void put_tools(struct rendering *g)
{
    const struct request *r = g->r;
    if (r->n_tools == 0)
        return;
    jw_key(&g->w, "tools");
    jw_array(&g->w);
    for (size_t i = 0; i < r->n_tools; i++)
        put_tool(g, &r->tools[i]);
    jw_end(&g->w);
    put_choice(g);
    if (r->parallel_tools == NO) {
        jw_key(&g->w, "parallel_tool_calls");
        jw_bool(&g->w, false);
    }
}

/* ---- parameters ---- */

static void put_max_tokens(struct rendering *g)
{
    const struct profile *p = g->p;
    int64_t n = g->r->max_tokens;
    if (n < 0)
        return;
    bool is_new_name =
        p->quirks & QUIRK_MAX_COMPLETION_TOKENS || (is_openai_itself(p) && !(p->quirks & QUIRK_MAX_TOKENS));
    const char *name = is_new_name ? "max_completion_tokens" : "max_tokens";
    if (p->max_output > 0 && n > p->max_output) {
        n = p->max_output;
        adjusted_put_int(g->adjusted, name, n);
    }
    jw_key(&g->w, name);
    jw_int(&g->w, n);
}

static void put_sampling(struct rendering *g)
{
    const struct request *r = g->r;
    bool is_kept = !(g->p->quirks & QUIRK_NO_SAMPLING) && !is_reasoning_model(g->p);
    if (r->temperature_json.p != NULL && is_kept)
        put_raw(g, "temperature", r->temperature_json);
    if (r->top_p_json.p != NULL && is_kept)
        put_raw(g, "top_p", r->top_p_json);
    if (r->temperature_json.p != NULL && !is_kept)
        adjusted_put(g->adjusted, "temperature", "dropped");
    if (r->top_p_json.p != NULL && !is_kept)
        adjusted_put(g->adjusted, "top_p", "dropped");
}

static void put_stop(struct rendering *g)
{
    const struct request *r = g->r;
    if (r->n_stop == 0)
        return;
    if (is_reasoning_model(g->p)) {
        adjusted_put(g->adjusted, "stop", "dropped");
        return;
    }
    if (r->n_stop > STOP_MAX)
        adjusted_put(g->adjusted, "stop", "cut");
    jw_key(&g->w, "stop");
    jw_array(&g->w);
    for (size_t i = 0; i < r->n_stop && i < STOP_MAX; i++)
        jw_string(&g->w, r->stop[i]);
    jw_end(&g->w);
}

static void put_format(struct rendering *g)
{
    const struct request *r = g->r;
    if (r->form == FORM_JSON_OBJECT)
        put_raw(g, "response_format", BYTES("{\"type\":\"json_object\"}"));
    if (r->form != FORM_JSON_SCHEMA)
        return;
    jw_key(&g->w, "response_format");
    jw_object(&g->w);
    put_string(g, "type", BYTES("json_schema"));
    jw_key(&g->w, "json_schema");
    jw_object(&g->w);
    put_string(g, "name", r->schema_name.n > 0 ? r->schema_name : BYTES("response"));
    put_raw(g, "schema", r->schema_json);
    jw_key(&g->w, "strict");
    jw_bool(&g->w, r->schema_strict != NO);
    jw_end(&g->w);
    jw_end(&g->w);
}

static struct bytes effort_of(const struct request *r)
{
    if (r->thinking == THINKING_OFF)
        return BYTES("");
    if (r->effort.n > 0 || r->thinking_budget < 0)
        return r->effort;
    if (r->thinking_budget <= BUDGET_LOW)
        return BYTES("low");
    return r->thinking_budget <= BUDGET_MEDIUM ? BYTES("medium") : BYTES("high");
}

/* Models before reasoning, and hosts that answer 422 to what they do not know. */
static bool takes_effort(const struct profile *p)
{
    if (bytes_is(p->vendor, "mistral"))
        return false;
    return !is_openai_itself(p) || is_reasoning_model(p);
}

static void put_effort(struct rendering *g)
{
    struct bytes effort = effort_of(g->r);
    if (effort.n == 0)
        return;
    if (takes_effort(g->p))
        put_string(g, "reasoning_effort", effort);
    else
        adjusted_put(g->adjusted, "reasoning_effort", "dropped");
}

static void put_account(struct rendering *g)
{
    const struct request *r = g->r;
    if (r->user.n > 0 && r->user.n <= USER_MAX && !bytes_is(g->p->vendor, "mistral"))
        put_string(g, "user", r->user);
    if (is_openai_itself(g->p) && bytes_is(r->service_tier, "auto"))
        put_string(g, "service_tier", BYTES("auto"));
    if (is_openai_itself(g->p) && bytes_is(r->service_tier, "standard_only"))
        put_string(g, "service_tier", BYTES("default"));
}

static void put_delivery(struct rendering *g)
{
    const struct profile *p = g->p;
    if (p->is_stream) {
        jw_key(&g->w, "stream");
        jw_bool(&g->w, true);
        if (p->adds_usage && !(p->quirks & QUIRK_NO_STREAM_OPTIONS))
            put_raw(g, "stream_options", BYTES("{\"include_usage\":true}"));
    }
    if (p->cache_ttl_s > 0 && p->takes_retention) {
        put_string(g, "prompt_cache_retention", BYTES("24h"));
        adjusted_put(g->adjusted, "prompt_cache_retention", "24h");
    }
    if (p->cache_ttl_s > 0 && p->takes_retention && p->cache_key.n > 0) {
        put_string(g, "prompt_cache_key", p->cache_key);
        adjusted_put(g->adjusted, "prompt_cache_key", "set");
    }
}

enum err openai_render(const struct request *r, const struct profile *p, struct arena *a, struct buf *out,
                       struct buf *adjusted, const char **why)
{
    struct rendering g = {.r = r, .p = p, .arena = a, .adjusted = adjusted, .why = why};
    g.id_rule = bytes_is(p->vendor, "mistral") ? ID_NINE : ID_CHAT;
    jw_init(&g.w, out);
    jw_object(&g.w);
    put_string(&g, "model", p->model);
    put_messages(&g);
    put_max_tokens(&g);
    put_sampling(&g);
    put_stop(&g);
    put_tools(&g);
    put_format(&g);
    put_effort(&g);
    put_account(&g);
    put_delivery(&g);
    jw_end(&g.w);
    for (size_t i = 0; i < r->n_dropped; i++)
        adjusted_put_dropped(adjusted, r->dropped[i]);
    return g.err;
}

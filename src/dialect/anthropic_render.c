/* Our own words -> a Messages body. Messages are gathered into turns first, because the form demands that user and
 * assistant alternate, that no block is empty, and that a user's tool results stand before his text:
 *
 *     messages:  user | tool result | tool result | user | (empty) assistant | user
 *     turns:     user: result, result, text, text, text
 *
 * A turn is a run of pointers into one array of parts. What a model takes besides is asked of claude_of(). */
#include "dialect/request_impl.h"

#include <stdlib.h>

enum {
    TOKENS_DEFAULT = 4096,
    BREAKPOINTS_MAX = 4,
    BUDGET_LEAST = 1024,
    BUDGET_MEDIUM = 8192,
    BUDGET_HIGH = 24576,
    USER_MAX = 256
};

struct turn {
    bool is_assistant;
    size_t from, to; /* of parts */
};

struct rendering {
    const struct request *r;
    const struct profile *p;
    struct arena *arena;
    struct buf *adjusted;
    struct json_writer w;
    const char **why;
    enum err err;
    struct claude claude;
    unsigned n_breakpoints;
    bool is_withheld; /* a breakpoint or the hint was left out by the profile */
    int64_t max_tokens;
    const struct part **parts;
    struct turn *turns;
    size_t n_turns;
};

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

static void put_breakpoint(struct rendering *g, bool is_breakpoint)
{
    if (!is_breakpoint || g->n_breakpoints >= BREAKPOINTS_MAX)
        return;
    if (g->p->withholds_cache) {
        g->is_withheld = true;
        return;
    }
    g->n_breakpoints++;
    put_raw(g, "cache_control", BYTES("{\"type\":\"ephemeral\"}"));
}

/* ---- blocks ---- */

static bool is_blank_text(struct bytes t)
{
    return bytes_trim(t).n == 0;
}

static bool is_sendable(const struct part *p)
{
    return (p->kind != PART_TEXT && p->kind != PART_REFUSAL) || !is_blank_text(p->text);
}

static void put_text(struct rendering *g, struct bytes text, bool is_breakpoint)
{
    jw_object(&g->w);
    put_string(g, "type", BYTES("text"));
    put_string(g, "text", text);
    put_breakpoint(g, is_breakpoint);
    jw_end(&g->w);
}

static void put_source(struct rendering *g, const struct part *p)
{
    jw_key(&g->w, "source");
    jw_object(&g->w);
    if (p->file_id.n > 0) {
        refuse(g, "a file stored at another provider cannot be sent here");
    } else if (p->data.p != NULL) {
        put_string(g, "type", BYTES("base64"));
        put_string(g, "media_type", p->media_type);
        put_string(g, "data", p->data);
    } else {
        put_string(g, "type", BYTES("url"));
        put_string(g, "url", p->url);
        if (!bytes_starts_with(p->url, BYTES("https://")) && !bytes_starts_with(p->url, BYTES("http://")))
            refuse(g, "an image URL is neither http nor base64 data");
    }
    jw_end(&g->w);
}

static void put_media(struct rendering *g, const struct part *p)
{
    bool is_image = p->kind == PART_IMAGE;
    jw_object(&g->w);
    put_string(g, "type", is_image ? BYTES("image") : BYTES("document"));
    put_source(g, p);
    if (!is_image && p->title.n > 0)
        put_string(g, "title", p->title);
    put_breakpoint(g, p->is_breakpoint);
    jw_end(&g->w);
}

/* Arguments as an object: {} for none; text that is no object is kept where nobody mistakes it for one. */
static void put_input(struct rendering *g, const struct part *p)
{
    struct bytes text = p->input_json.p != NULL ? p->input_json : p->input_text;
    yyjson_val *v;
    jw_key(&g->w, "input");
    if (is_blank_text(text)) {
        jw_raw(&g->w, BYTES("{}"));
    } else if (json_tree_parse(text, 64, g->arena, &v) == ERR_OK && yyjson_is_obj(v)) {
        jw_raw(&g->w, bytes_trim(text));
    } else {
        jw_object(&g->w);
        put_string(g, "_raw", text);
        jw_end(&g->w);
    }
}

static void put_tool_use(struct rendering *g, const struct part *p)
{
    jw_object(&g->w);
    put_string(g, "type", BYTES("tool_use"));
    put_string(g, "id", tool_id_fit(p->id, ID_WORD, g->arena));
    put_string(g, "name", p->name);
    put_input(g, p);
    put_breakpoint(g, p->is_breakpoint);
    jw_end(&g->w);
}

static void put_result_content(struct rendering *g, const struct part *p)
{
    size_t n_media = 0;
    for (size_t i = 0; i < p->n_parts; i++)
        n_media += p->parts[i].kind == PART_IMAGE || p->parts[i].kind == PART_DOCUMENT;
    jw_key(&g->w, "content");
    if (n_media == 0) {
        jw_string(&g->w, parts_text(p->parts, p->n_parts, "\n", g->arena));
        return;
    }
    jw_array(&g->w);
    for (size_t i = 0; i < p->n_parts; i++) {
        const struct part *q = &p->parts[i];
        if (q->kind == PART_IMAGE || q->kind == PART_DOCUMENT)
            put_media(g, q);
        else if (is_sendable(q))
            put_text(g, q->text, false);
    }
    jw_end(&g->w);
}

static void put_tool_result(struct rendering *g, const struct part *p)
{
    jw_object(&g->w);
    put_string(g, "type", BYTES("tool_result"));
    put_string(g, "tool_use_id", tool_id_fit(p->id, ID_WORD, g->arena));
    put_result_content(g, p);
    if (p->is_error) {
        jw_key(&g->w, "is_error");
        jw_bool(&g->w, true);
    }
    put_breakpoint(g, p->is_breakpoint);
    jw_end(&g->w);
}

static void put_part(struct rendering *g, const struct part *p)
{
    switch (p->kind) {
    case PART_TEXT:
    case PART_REFUSAL:
        put_text(g, p->text, p->is_breakpoint);
        break;
    case PART_IMAGE:
    case PART_DOCUMENT:
        put_media(g, p);
        break;
    case PART_TOOL_USE:
        put_tool_use(g, p);
        break;
    case PART_TOOL_RESULT:
        put_tool_result(g, p);
        break;
    case PART_AUDIO:
        refuse(g, "spoken input cannot be expressed in the Messages form");
        break;
    }
}

/* ---- turns ---- */

static void gather_turns(struct rendering *g)
{
    const struct request *r = g->r;
    size_t n_parts = 0, n = 0;
    for (size_t i = 0; i < r->n_messages; i++)
        n_parts += r->messages[i].n_parts;
    g->parts = ARENA_ARRAY(g->arena, const struct part *, n_parts + 1);
    g->turns = ARENA_ARRAY(g->arena, struct turn, r->n_messages + 1);
    for (size_t i = 0; i < r->n_messages; i++) {
        const struct message *m = &r->messages[i];
        bool is_assistant = m->role == ROLE_ASSISTANT;
        for (size_t k = 0; k < m->n_parts; k++) {
            if (!is_sendable(&m->parts[k]))
                continue;
            if (g->n_turns == 0 || g->turns[g->n_turns - 1].is_assistant != is_assistant)
                g->turns[g->n_turns++] = (struct turn){is_assistant, n, n};
            g->parts[n++] = &m->parts[k];
            g->turns[g->n_turns - 1].to = n;
        }
    }
}

/* The assistant's last words before an answer must not end with blanks. */
static void trim_prefill(struct rendering *g)
{
    if (g->n_turns == 0 || !g->turns[g->n_turns - 1].is_assistant)
        return;
    const struct part **last = &g->parts[g->turns[g->n_turns - 1].to - 1];
    if ((*last)->kind != PART_TEXT && (*last)->kind != PART_REFUSAL)
        return;
    struct part *trimmed = ARENA_NEW(g->arena, struct part);
    *trimmed = **last;
    while (trimmed->text.n > 0 && strchr(" \t\r\n", trimmed->text.p[trimmed->text.n - 1]) != NULL &&
           trimmed->text.p[trimmed->text.n - 1] != '\0')
        trimmed->text.n--;
    *last = trimmed;
}

static bool is_single_text(const struct rendering *g, const struct turn *t)
{
    const struct part *p = g->parts[t->from];
    return t->to - t->from == 1 && (p->kind == PART_TEXT || p->kind == PART_REFUSAL) && !p->is_breakpoint;
}

static void put_turn(struct rendering *g, const struct turn *t)
{
    jw_object(&g->w);
    put_string(g, "role", t->is_assistant ? BYTES("assistant") : BYTES("user"));
    jw_key(&g->w, "content");
    if (is_single_text(g, t)) {
        jw_string(&g->w, g->parts[t->from]->text);
        jw_end(&g->w);
        return;
    }
    jw_array(&g->w);
    for (size_t i = t->from; i < t->to; i++)
        if (g->parts[i]->kind == PART_TOOL_RESULT)
            put_part(g, g->parts[i]);
    for (size_t i = t->from; i < t->to; i++)
        if (g->parts[i]->kind != PART_TOOL_RESULT)
            put_part(g, g->parts[i]);
    jw_end(&g->w);
    jw_end(&g->w);
}

static void put_messages(struct rendering *g)
{
    jw_key(&g->w, "messages");
    jw_array(&g->w);
    if (g->n_turns == 0 || g->turns[0].is_assistant)
        jw_raw(&g->w, BYTES("{\"role\":\"user\",\"content\":\".\"}")); /* the first must be the user's */
    for (size_t i = 0; i < g->n_turns; i++)
        put_turn(g, &g->turns[i]);
    jw_end(&g->w);
}

/* ---- system ---- */

static void put_system(struct rendering *g)
{
    const struct request *r = g->r;
    bool wants_json = r->form == FORM_JSON_OBJECT;
    size_t n = 0;
    for (size_t i = 0; i < r->n_system; i++)
        n += is_sendable(&r->system[i]) && r->system[i].kind == PART_TEXT;
    if (n == 0 && !wants_json)
        return;
    jw_key(&g->w, "system");
    jw_array(&g->w);
    for (size_t i = 0; i < r->n_system; i++)
        if (is_sendable(&r->system[i]) && r->system[i].kind == PART_TEXT)
            put_text(g, r->system[i].text, r->system[i].is_breakpoint);
    if (wants_json)
        put_text(g, BYTES("Answer with exactly one JSON object and nothing else: no other text, no code fence."),
                 false);
    jw_end(&g->w);
}

/* ---- tools ---- */

static void put_tool(struct rendering *g, const struct tool *t)
{
    jw_object(&g->w);
    put_string(g, "name", t->name);
    if (t->description.p != NULL)
        put_string(g, "description", t->description);
    put_raw(g, "input_schema",
            t->schema_json.p != NULL ? t->schema_json : BYTES("{\"type\":\"object\",\"properties\":{}}"));
    if (t->strict == YES) {
        jw_key(&g->w, "strict");
        jw_bool(&g->w, true);
    }
    put_breakpoint(g, t->is_breakpoint);
    jw_end(&g->w);
}

static bool has_tool_history(const struct request *r)
{
    for (size_t i = 0; i < r->n_messages; i++)
        for (size_t k = 0; k < r->messages[i].n_parts; k++)
            if (r->messages[i].parts[k].kind == PART_TOOL_USE)
                return true;
    return false;
}

static bool is_first_use(const struct request *r, size_t message, size_t part)
{
    struct bytes name = r->messages[message].parts[part].name;
    for (size_t i = 0; i <= message; i++)
        for (size_t k = 0; k < (i == message ? part : r->messages[i].n_parts); k++)
            if (r->messages[i].parts[k].kind == PART_TOOL_USE && bytes_eq(r->messages[i].parts[k].name, name))
                return false;
    return true;
}

/* A history with tool uses demands tools: those that were used, without a schema to call them by. */
static void put_tools_of_history(struct rendering *g)
{
    enum { TOOLS_MAX = 64 };
    const struct request *r = g->r;
    size_t n = 0;
    for (size_t i = 0; i < r->n_messages; i++)
        for (size_t k = 0; k < r->messages[i].n_parts && n < TOOLS_MAX; k++) {
            if (r->messages[i].parts[k].kind != PART_TOOL_USE || !is_first_use(r, i, k))
                continue;
            struct tool t = {.name = r->messages[i].parts[k].name};
            put_tool(g, &t);
            n++;
        }
}

static void put_choice(struct rendering *g, bool is_history_only)
{
    static const char *const words[] = {[CHOICE_UNSET] = "auto",
                                        [CHOICE_AUTO] = "auto",
                                        [CHOICE_NONE] = "none",
                                        [CHOICE_REQUIRED] = "any",
                                        [CHOICE_NAMED] = "tool"};
    const struct request *r = g->r;
    enum tool_choice choice = is_history_only ? CHOICE_NONE : r->choice;
    bool is_serial = r->parallel_tools == NO && choice != CHOICE_NONE;
    if (choice == CHOICE_UNSET && !is_serial)
        return;
    jw_key(&g->w, "tool_choice");
    jw_object(&g->w);
    put_string(g, "type", bytes_of(words[choice]));
    if (choice == CHOICE_NAMED)
        put_string(g, "name", r->choice_name);
    if (is_serial) {
        jw_key(&g->w, "disable_parallel_tool_use");
        jw_bool(&g->w, true);
    }
    jw_end(&g->w);
}

static void put_tools(struct rendering *g)
{
    const struct request *r = g->r;
    bool is_history_only = r->n_tools == 0;
    if (is_history_only && !has_tool_history(r))
        return;
    jw_key(&g->w, "tools");
    jw_array(&g->w);
    for (size_t i = 0; i < r->n_tools; i++)
        put_tool(g, &r->tools[i]);
    if (is_history_only)
        put_tools_of_history(g);
    jw_end(&g->w);
    put_choice(g, is_history_only);
}

/* ---- thinking ---- */

static int64_t budget_of(struct bytes effort)
{
    if (bytes_is(effort, "low") || bytes_is(effort, "minimal"))
        return BUDGET_LEAST;
    return bytes_is(effort, "medium") ? BUDGET_MEDIUM : BUDGET_HIGH;
}

/* The conversation waits for what comes after tool results: a budgeted model would demand the thinking that led to the
 * tool's use, which came from someone else or is gone. */
static bool is_in_tool_loop(const struct rendering *g)
{
    if (g->n_turns == 0 || g->turns[g->n_turns - 1].is_assistant)
        return false;
    const struct turn *t = &g->turns[g->n_turns - 1];
    for (size_t i = t->from; i < t->to; i++)
        if (g->parts[i]->kind == PART_TOOL_RESULT)
            return true;
    return false;
}

static bool has_effort(const struct request *r)
{
    return r->effort.n > 0 && !bytes_is(r->effort, "none");
}

/* Thinking goes neither with a forced tool nor with a prefilled answer. */
static bool may_think(const struct rendering *g)
{
    const struct request *r = g->r;
    bool is_forced = r->n_tools > 0 && (r->choice == CHOICE_REQUIRED || r->choice == CHOICE_NAMED);
    bool is_prefilled = g->n_turns > 0 && g->turns[g->n_turns - 1].is_assistant;
    bool is_refused = g->p->quirks & QUIRK_NO_THINKING_HISTORY;
    return has_effort(r) && g->claude.takes_thinking && !is_forced && !is_prefilled && !is_refused;
}

/* The budget that goes with the effort; 0 = the model is better left without. */
static int64_t thinking_budget(const struct rendering *g)
{
    if (!may_think(g) || g->claude.is_adaptive || is_in_tool_loop(g) || g->max_tokens <= BUDGET_LEAST)
        return 0;
    int64_t budget = budget_of(g->r->effort), half = g->max_tokens / 2;
    int64_t most = half > BUDGET_LEAST ? half : BUDGET_LEAST;
    return budget < most ? budget : most;
}

/* True when the model will think, which rules out sampling. */
static bool put_thinking(struct rendering *g)
{
    const struct request *r = g->r;
    int64_t budget = thinking_budget(g);
    if (bytes_is(r->effort, "none") && g->claude.takes_thinking) {
        put_raw(g, "thinking", BYTES("{\"type\":\"disabled\"}"));
    } else if (may_think(g) && g->claude.is_adaptive) {
        put_raw(g, "thinking", BYTES("{\"type\":\"adaptive\"}"));
        return true;
    } else if (budget > 0) {
        jw_key(&g->w, "thinking");
        jw_object(&g->w);
        put_string(g, "type", BYTES("enabled"));
        jw_key(&g->w, "budget_tokens");
        jw_int(&g->w, budget);
        jw_end(&g->w);
        return true;
    } else if (has_effort(r) && !g->claude.is_adaptive) {
        adjusted_put(g->adjusted, "reasoning_effort", "dropped");
    }
    return false;
}

static struct bytes effort_word(const struct rendering *g)
{
    struct bytes effort = g->r->effort;
    if (bytes_is(effort, "minimal"))
        return BYTES("low");
    return bytes_is(effort, "xhigh") && !g->claude.takes_xhigh ? BYTES("high") : effort;
}

static void put_output_config(struct rendering *g)
{
    const struct request *r = g->r;
    bool has_word = has_effort(r) && g->claude.is_adaptive, has_schema = r->form == FORM_JSON_SCHEMA;
    if (has_schema && !g->claude.takes_schema)
        refuse(g, "a JSON schema for the answer is not known to this model");
    if (!has_word && !has_schema)
        return;
    jw_key(&g->w, "output_config");
    jw_object(&g->w);
    if (has_word)
        put_string(g, "effort", effort_word(g));
    if (has_schema) {
        jw_key(&g->w, "format");
        jw_object(&g->w);
        put_string(g, "type", BYTES("json_schema"));
        put_raw(g, "schema", r->schema_json);
        jw_end(&g->w);
    }
    jw_end(&g->w);
}

/* ---- parameters ---- */

static void put_max_tokens(struct rendering *g)
{
    int64_t most = g->p->max_output, n = g->r->max_tokens;
    bool is_changed = n < 0 || (most > 0 && n > most);
    if (n < 0)
        n = most > 0 ? most : TOKENS_DEFAULT;
    if (most > 0 && n > most)
        n = most;
    if (is_changed)
        adjusted_put_int(g->adjusted, "max_tokens", n);
    g->max_tokens = n;
    jw_key(&g->w, "max_tokens");
    jw_int(&g->w, n);
}

static bool is_over_one(struct bytes number, struct arena *a)
{
    return strtod(arena_dup(a, number).p, NULL) > 1.0;
}

static void put_sampling(struct rendering *g, bool is_thinking)
{
    const struct request *r = g->r;
    bool is_kept = g->claude.takes_sampling && !is_thinking && !(g->p->quirks & QUIRK_NO_SAMPLING);
    bool has_temperature = r->temperature_json.p != NULL, has_top_p = r->top_p_json.p != NULL;
    if (has_temperature && is_kept && is_over_one(r->temperature_json, g->arena)) {
        put_raw(g, "temperature", BYTES("1"));
        adjusted_put(g->adjusted, "temperature", "1");
    } else if (has_temperature && is_kept) {
        put_raw(g, "temperature", r->temperature_json);
    } else if (has_temperature) {
        adjusted_put(g->adjusted, "temperature", "dropped");
    }
    if (has_top_p && is_kept && (g->claude.takes_both || !has_temperature))
        put_raw(g, "top_p", r->top_p_json);
    else if (has_top_p)
        adjusted_put(g->adjusted, "top_p", "dropped");
}

static void put_stop(struct rendering *g)
{
    const struct request *r = g->r;
    size_t n = 0;
    for (size_t i = 0; i < r->n_stop; i++)
        n += !is_blank_text(r->stop[i]);
    if (n < r->n_stop)
        adjusted_put(g->adjusted, "stop", "cut");
    if (n == 0)
        return;
    jw_key(&g->w, "stop_sequences");
    jw_array(&g->w);
    for (size_t i = 0; i < r->n_stop; i++)
        if (!is_blank_text(r->stop[i]))
            jw_string(&g->w, r->stop[i]);
    jw_end(&g->w);
}

static void put_account(struct rendering *g)
{
    const struct request *r = g->r;
    if (r->user.n > 0 && r->user.n <= USER_MAX) {
        jw_key(&g->w, "metadata");
        jw_object(&g->w);
        put_string(g, "user_id", r->user);
        jw_end(&g->w);
    }
    if (bytes_is(r->service_tier, "auto"))
        put_string(g, "service_tier", BYTES("auto"));
    else if (bytes_is(r->service_tier, "default"))
        put_string(g, "service_tier", BYTES("standard_only"));
    else if (r->service_tier.n > 0)
        adjusted_put(g->adjusted, "service_tier", "dropped");
}

static void put_delivery(struct rendering *g)
{
    const struct profile *p = g->p;
    if (p->is_stream) {
        jw_key(&g->w, "stream");
        jw_bool(&g->w, true);
    }
    if (p->withholds_cache) {
        if (g->is_withheld || p->cache_ttl_s > 0)
            adjusted_put(g->adjusted, "cache_control", "withheld");
        return;
    }
    if (p->cache_ttl_s <= 0 || g->n_breakpoints > 0)
        return;
    bool is_short = p->cache_ttl_s <= 300;
    put_raw(g, "cache_control",
            is_short ? BYTES("{\"type\":\"ephemeral\"}") : BYTES("{\"type\":\"ephemeral\",\"ttl\":\"1h\"}"));
    adjusted_put(g->adjusted, "cache_control", is_short ? "5m" : "1h");
}

enum err anthropic_render(const struct request *r, const struct profile *p, struct arena *a, struct buf *out,
                          struct buf *adjusted, const char **why)
{
    struct rendering g = {.r = r, .p = p, .arena = a, .adjusted = adjusted, .why = why};
    g.claude = claude_of(p->model, p->vendor);
    gather_turns(&g);
    trim_prefill(&g);
    jw_init(&g.w, out);
    jw_object(&g.w);
    put_string(&g, "model", p->model);
    put_max_tokens(&g);
    put_system(&g);
    put_messages(&g);
    put_tools(&g);
    bool is_thinking = put_thinking(&g);
    put_output_config(&g);
    put_sampling(&g, is_thinking);
    put_stop(&g);
    put_account(&g);
    put_delivery(&g);
    jw_end(&g.w);
    for (size_t i = 0; i < r->n_dropped; i++)
        adjusted_put_dropped(adjusted, r->dropped[i]);
    return g.err;
}

/* Reads the facts of a client's request (struct call) from its body. One scan finds and checks the top-level members
 * and notes where the values are; what lies deeper (images, markers, prompt text, the last message) is walked through
 * from note to note, never parsed into a tree: this runs for every request, and a tree is needed for a translation
 * only. What the scan has found is kept for the building of bodies. */
#include "base/mem.h"
#include "codec/json_hash.h"
#include "dialect/markers.h"
#include "dialect/members.h"
#include "dialect/request_impl.h"
#include "dialect/walk.h"

/* Notes: room for one for each so many bytes of the body, within these bounds; where they do not suffice, the text is
 * looked at again. */
enum { NESTED_MAX = 6, BYTES_A_NOTE = 32, FEW_NOTES = 128, NOTES_MAX = 16384, LEVELS = 6 };

/* A body, its wanted members, and what is being found out. */
struct reading {
    struct bytes body;
    unsigned max_depth;
    struct arena *arena;
    struct json_member *members;      /* those that are there */
    const struct json_member *absent; /* all n of them, as they are not */
    size_t n;
    struct json_index index;
    struct json_note *few; /* FEW_NOTES of them, on the stack */
    struct call *call;
    const char **why;
};

static enum err refuse(struct reading *r, enum err e, const char *why)
{
    *r->why = why;
    return e;
}

/* One of these is there, if only as null. */
#define BIT(number) (UINT32_C(1) << (number))
static bool has_any(const struct reading *r, uint32_t bits)
{
    return (r->index.found & bits) != 0;
}

static const struct json_member *member(const struct reading *r, enum body_member m)
{
    return has_any(r, BIT(m)) ? &r->members[m] : &r->absent[m];
}

static bool is_given(const struct json_member *m)
{
    return m->type != JSON_ABSENT && m->type != JSON_NULL;
}

static struct bytes raw(const struct reading *r, enum body_member number)
{
    const struct json_member *m = member(r, number);
    return is_given(m) ? json_member_raw(r->body, m) : (struct bytes){NULL, 0};
}

/* Stands on the member's value. */
static struct walk walk_of_member(const struct reading *r, enum body_member number)
{
    return walk_on(raw(r, number), member(r, number)->note, &r->index);
}

/* ---- single members ---- */

static enum err small_tree(struct reading *r, struct bytes text, yyjson_val **v)
{
    return json_tree_parse(text, r->max_depth, r->arena, v);
}

/* A string that stands for itself; the scan has seen to the rest. What is kept of it is copied: the body goes before
 * the arena does. */
static bool raw_is_plain(struct bytes text)
{
    return raw_is_string(text) && bytes_find_byte(text, '\\') == SIZE_MAX;
}

static enum err read_text_of_model(struct reading *r, struct bytes text)
{
    yyjson_val *v;
    if (raw_is_plain(text)) {
        r->call->model = arena_dup(r->arena, bytes_slice(text, 1, text.n - 1));
        return ERR_OK;
    }
    if (small_tree(r, text, &v) != ERR_OK)
        return refuse(r, ERR_SYNTAX, "model is not a well-formed string");
    r->call->model = json_tree_bytes(v);
    return ERR_OK;
}

static enum err read_model(struct reading *r)
{
    const struct json_member *m = member(r, IN_MODEL);
    if (!is_given(m))
        return refuse(r, ERR_MISSING, "model is missing");
    if (m->type != JSON_STRING)
        return refuse(r, ERR_TYPE, "model must be a string");
    enum err e = read_text_of_model(r, json_member_raw(r->body, m));
    if (e != ERR_OK)
        return e;
    if (r->call->model.n == 0)
        return refuse(r, ERR_MISSING, "model is empty");
    if (r->call->model.n > 256)
        return refuse(r, ERR_LIMIT, "model is longer than 256 bytes");
    for (size_t i = 0; i < r->call->model.n; i++)
        if ((unsigned char)r->call->model.p[i] < 0x20 || r->call->model.p[i] == 0x7f)
            return refuse(r, ERR_TYPE, "model holds a control character");
    return ERR_OK;
}

static enum err read_stream(struct reading *r)
{
    const struct json_member *m = member(r, IN_STREAM);
    if (is_given(m) && m->type != JSON_TRUE && m->type != JSON_FALSE)
        return refuse(r, ERR_TYPE, "stream must be true or false");
    r->call->is_stream = m->type == JSON_TRUE;
    return ERR_OK;
}

/* The value of a number of a few figures, as most are. */
static bool is_few_figures(struct bytes number, int64_t *out)
{
    int64_t n = 0;
    if (number.n == 0 || number.n > 9 || (number.p[0] == '0' && number.n > 1))
        return false;
    for (size_t i = 0; i < number.n; i++) {
        if (number.p[i] < '0' || number.p[i] > '9')
            return false;
        n = n * 10 + (number.p[i] - '0');
    }
    *out = n;
    return true;
}

static bool whole_value(struct reading *r, struct bytes number, int64_t *out)
{
    yyjson_val *v;
    return is_few_figures(number, out) || (small_tree(r, number, &v) == ERR_OK && json_tree_to_int(v, out));
}

/* A whole number of at least `least`; leaves *out alone when the member is not given. */
static enum err read_whole(struct reading *r, enum body_member number, int64_t least, int64_t *out)
{
    const struct json_member *m = member(r, number);
    int64_t n;
    if (!is_given(m))
        return ERR_OK;
    if (m->type != JSON_NUMBER || !whole_value(r, json_member_raw(r->body, m), &n) || n < least)
        return refuse(r, ERR_TYPE,
                      arena_printf(r->arena, "%s must be a whole number of at least %d", m->name, (int)least).p);
    *out = n;
    return ERR_OK;
}

static struct bytes read_string(struct reading *r, struct bytes text)
{
    yyjson_val *v;
    if (raw_is_plain(text))
        return arena_dup(r->arena, bytes_slice(text, 1, text.n - 1));
    if (!raw_is_string(text) || small_tree(r, text, &v) != ERR_OK)
        return BYTES("");
    return json_tree_bytes(v);
}

/* ---- prompt ---- */

/* What these take is the walk that stands on the value. */
static void count_content(struct call *c, const struct walk *content, unsigned depth);

/* What is marked ends with the block that the marker stands in: end_marked is told of it there. */
#define MARK_IS_OPEN UINT64_MAX
static void count_marker(struct call *c, struct bytes value)
{
    if (raw_is_nothing(value))
        return;
    c->has_cache_markers = true;
    c->has_long_marker = c->has_long_marker || raw_is(walk_get(value, "ttl"), "1h");
    c->cache_bytes = MARK_IS_OPEN;
}

/* `block` is counted. */
static void end_marked(struct call *c, struct bytes block)
{
    if (c->cache_bytes != MARK_IS_OPEN)
        return;
    c->cache_bytes = c->prompt_bytes;
    c->cache_end = block.p + block.n;
}

/* Of the body: all of the prompt is marked. */
static void count_whole_marker(struct call *c, struct bytes value)
{
    uint64_t marked = c->cache_bytes;
    count_marker(c, value);
    c->cache_bytes = c->cache_bytes == MARK_IS_OPEN ? c->prompt_bytes : marked;
}

static bool is_text_member(struct bytes name)
{
    return bytes_is(name, "text") || bytes_is(name, "thinking") || bytes_is(name, "refusal");
}

/* A document or a file: stored at the provider, or text of its own. */
static void count_source(struct call *c, const struct walk *source)
{
    if (!raw_is_nothing(walk_get(source->value, "file_id")))
        c->state = BYTES("file_id");
    struct walk data = walk_into(source);
    if (raw_is(walk_get(source->value, "type"), "text") && walk_find(&data, "data"))
        c->prompt_bytes += walk_string_bytes(&data);
}

static void count_part_member(struct call *c, const struct walk *m, unsigned depth)
{
    if (bytes_is(m->name, "type")) {
        c->has_vision = c->has_vision || raw_is(m->value, "image") || raw_is(m->value, "image_url");
    } else if (is_text_member(m->name)) {
        c->prompt_bytes += walk_string_bytes(m);
    } else if (bytes_is(m->name, "content")) {
        count_content(c, m, depth + 1);
    } else if (bytes_is(m->name, "input")) {
        c->prompt_bytes += m->value.n;
    } else if (bytes_is(m->name, "file_id")) {
        c->state = raw_is_nothing(m->value) ? c->state : BYTES("file_id");
    } else if (bytes_is(m->name, "source") || bytes_is(m->name, "file")) {
        count_source(c, m);
    } else if (bytes_is(m->name, "citations")) { /* the blocks that they stand in cannot be told apart when collected */
        c->needs_whole = c->needs_whole || bytes_is(walk_get(m->value, "enabled"), "true");
    } else if (is_marker(m->name)) {
        count_marker(c, m->value);
    }
}

/* A text or a list of parts, which may hold lists again (tool results). */
static void count_content(struct call *c, const struct walk *content, unsigned depth)
{
    if (depth > NESTED_MAX)
        return;
    if (raw_is_string(content->value)) {
        c->prompt_bytes += walk_string_bytes(content);
        return;
    }
    struct walk parts = walk_into(content);
    while (walk_next(&parts)) {
        struct walk members = walk_into(&parts);
        while (members.is_object && walk_next(&members))
            count_part_member(c, &members, depth);
        end_marked(c, parts.value);
    }
}

static void count_tool_calls(struct call *c, const struct walk *calls)
{
    struct walk w = walk_into(calls);
    while (walk_next(&w)) {
        struct walk function = walk_into(&w);
        if (!walk_find(&function, "function"))
            continue;
        struct walk arguments = walk_into(&function);
        c->prompt_bytes += raw_string_bytes(walk_get(function.value, "name"));
        if (walk_find(&arguments, "arguments"))
            c->prompt_bytes += walk_string_bytes(&arguments);
    }
}

static bool note_is(const struct json_index *index, const struct json_note *n, const char *text, size_t size)
{
    return n->end - n->at == size && memcmp(index->text + n->at, text, size) == 0;
}
#define NOTE_IS(index, note, text) note_is(index, note, text, sizeof(text) - 1)

/* Most messages are a role and a text, and five notes tell all of one. False: it is not known to be such. */
static bool count_plain_message(struct call *c, const struct walk *message, bool *is_users)
{
    const struct json_index *index = message->index;
    if (index == NULL)
        return false;
    const struct json_note *n = &index->v[message->here], *role = n + 2, *content = n + 4;
    if (index->text[n->at] != '{' || n->next != message->here + 5 || !NOTE_IS(index, role - 1, "\"role\"") ||
        index->text[role->at] != '"' || !NOTE_IS(index, content - 1, "\"content\"") || index->text[content->at] != '"')
        return false;
    c->has_prefill = NOTE_IS(index, role, "\"assistant\"");
    *is_users = NOTE_IS(index, role, "\"user\"");
    c->prompt_bytes += content->end - content->at - 2 - content->less;
    return true;
}

/* True: it is the user's. */
static bool count_message(struct call *c, const struct walk *message)
{
    bool is_users = false;
    struct walk w = walk_into(message);
    c->has_prefill = false;
    while (walk_next(&w)) {
        if (bytes_is(w.name, "role")) {
            c->has_prefill = raw_is(w.value, "assistant");
            is_users = raw_is(w.value, "user");
        } else if (bytes_is(w.name, "content"))
            count_content(c, &w, 0);
        else if (bytes_is(w.name, "tool_calls"))
            count_tool_calls(c, &w);
        else if (bytes_is(w.name, "audio") && !raw_is_nothing(walk_get(w.value, "id")))
            c->state = BYTES("audio");
        else if (is_marker(w.name))
            count_marker(c, w.value);
    }
    end_marked(c, message->value);
    return is_users;
}

/* Where messages begin; NULL = there is none. */
struct talk {
    const char *first_users, *last;
    size_t n;
    bool is_plain; /* up to the first of the user's, all are plain: no marker is in them */
};

/* What stands before the first of the user's messages is the head. */
static struct talk count_messages(struct call *c, const struct walk *messages)
{
    struct walk w = walk_into(messages);
    struct talk t = {NULL, NULL, 0, true};
    while (!w.is_object && walk_next(&w)) {
        uint64_t bytes = c->prompt_bytes;
        bool is_marked = c->has_cache_markers;
        bool is_users = false, is_plain = count_plain_message(c, &w, &is_users);
        if (!is_plain)
            is_users = count_message(c, &w);
        t.is_plain &= is_plain || t.first_users != NULL;
        if (is_users && t.first_users == NULL) {
            t.first_users = w.value.p;
            c->head_bytes = bytes;
            c->has_head_marker = is_marked;
        }
        t.last = w.value.p;
        t.n++;
    }
    return t;
}

static void count_tools(const struct reading *r)
{
    struct call *c = r->call;
    struct walk tools = walk_of_member(r, IN_TOOLS), w = walk_into(&tools);
    while (walk_next(&w)) {
        c->has_tools = true;
        struct walk marker = walk_into(&w);
        if (walk_find(&marker, "cache_control"))
            count_marker(c, marker.value);
    }
    c->prompt_bytes += c->has_tools ? tools.value.n : 0;
    end_marked(c, tools.value);
}

static bool may_have_marker(const struct walk *message)
{
    return walk_may_name(message, BYTES("cache_control"), BYTES("prompt_cache_breakpoint"));
}

/* A marker moves on as a conversation grows: the message is the same without it. */
static uint64_t mix_message(uint64_t h, const struct walk *message, bool is_plain)
{
    if (is_plain)
        return json_mix(h, message->value);
    struct buf plain = {0};
    bool is_cut = may_have_marker(message) && markers_cut(message->value, &plain);
    h = json_mix(h, is_cut ? buf_bytes(&plain) : message->value);
    buf_fini(&plain);
    return h;
}

static uint64_t hash_end(uint64_t h)
{
    h ^= h >> 32;
    return h != 0 ? h : 1;
}

/* The messages up to the first of the user's: before it, the head. */
static void hash_talk(struct call *c, uint64_t head, const struct walk *messages, const struct talk *talk)
{
    struct walk w = walk_into(messages);
    while (talk->first_users != NULL && walk_next(&w)) {
        uint64_t before = head;
        head = mix_message(head, &w, talk->is_plain);
        if (w.value.p == talk->first_users) {
            c->talk_hash = hash_end(head);
            c->head_hash = c->head_bytes > 0 ? hash_end(before) : 0;
            return;
        }
    }
}

/* `text`: the messages. What is marked in tools or system is known by the head alone. `before`: of the prompt without
 * its last message, at last_at. */
static uint64_t hash_marked(const char *end, uint64_t head, struct bytes text, uint64_t before, size_t last_at)
{
    if (end == NULL)
        return 0;
    if (text.n == 0 || end < text.p || end > text.p + text.n)
        return hash_end(head);
    size_t n = (size_t)(end - text.p);
    return hash_end(n >= last_at ? json_mix(before, bytes_slice(text, last_at, n))
                                 : json_mix(head, bytes_slice(text, 0, n)));
}

/* Of tools and system. Most requests have none: their hash is what mixing nothing twice gives. */
#define HASH_START UINT64_C(0x52494e47)
#define HASH_OF_NOTHING UINT64_C(0x091a909394929e62)
static uint64_t hash_head(struct bytes tools, struct bytes system)
{
    if (tools.n + system.n == 0)
        return HASH_OF_NOTHING;
    return json_mix(json_mix(HASH_START, tools), system);
}

/* Facts of the prompt, and the hash of what a provider's cache could hold of it: all but the last message. */
static void read_prompt(struct reading *r, const struct walk *instructions)
{
    struct call *c = r->call;
    struct bytes text = raw(r, IN_MESSAGES);
    struct walk messages = walk_of_member(r, IN_MESSAGES);
    struct bytes tools = raw(r, IN_TOOLS), system = instructions->value;
    if (tools.n > 0)
        count_tools(r);
    if (system.n > 0)
        count_content(c, instructions, 0);
    struct talk talk = count_messages(c, &messages);
    size_t last_at = talk.n > 0 ? (size_t)(talk.last - text.p) : 0;
    uint64_t head = hash_head(tools, system), before = json_mix(head, bytes_slice(text, 0, last_at));
    hash_talk(c, head, &messages, &talk);
    c->cache_hash = hash_marked(c->cache_end, head, text, before, last_at);
    if (talk.n < 2 && !c->has_tools && system.n == 0)
        return; /* nothing stands before the last message */
    c->prefix_hash = hash_end(before);
}

/* ---- whole bodies ---- */

static enum err refuse_body(struct reading *r, enum err e, const struct json_scan *scan)
{
    const char *what = scan->error != NULL ? scan->error : err_text(e);
    if (e == ERR_DUPLICATE)
        return refuse(r, e, arena_printf(r->arena, "'%s' stands twice in the body", scan->duplicate).p);
    return refuse(r, e,
                  arena_printf(r->arena, "the body is not acceptable JSON: %s, at byte %zu", what, scan->error_at).p);
}

static enum err scan_body(struct reading *r)
{
    if (r->body.n == 0)
        return refuse(r, ERR_SYNTAX, "the body is empty"); /* index.v is NULL */
    struct call_members *kept = ARENA_NEW(r->arena, struct call_members);
    size_t notes = r->body.n / BYTES_A_NOTE;
    r->index.levels = LEVELS;
    r->index.forms = message_forms;
    r->index.n_forms = MESSAGE_FORMS;
    r->index.max = (uint32_t)(notes < FEW_NOTES ? FEW_NOTES : notes < NOTES_MAX ? notes : NOTES_MAX);
    r->index.v = notes < FEW_NOTES ? r->few : mem_alloc(r->index.max * sizeof *r->index.v);
    enum err e = json_scan_indexed(r->body, r->max_depth, r->members, r->n, &kept->scan, &r->index);
    if (e != ERR_OK)
        return refuse_body(r, e, &kept->scan);
    kept->body = r->body;
    kept->max_depth = r->max_depth;
    kept->v = r->members;
    kept->n = r->n;
    kept->found = r->index.found;
    r->call->members = kept;
    return ERR_OK;
}

static enum err read_common(struct reading *r)
{
    *r->call = (struct call){.n = 1,
                             .max_tokens = -1,
                             .effort = BYTES(""),
                             .state = BYTES(""),
                             .cache_key = BYTES(""),
                             .service = BYTES("")};
    enum err e = scan_body(r);
    if (e == ERR_OK)
        e = read_model(r);
    if (e == ERR_OK)
        e = read_stream(r);
    if (e == ERR_OK)
        e = read_whole(r, IN_MAX_TOKENS, 0, &r->call->max_tokens);
    return e;
}

/* What all dialects have, then `rest`. The notes go when all is read. */
static enum err read_body(struct reading *r, const struct json_member *members, size_t n, const uint32_t *lengths,
                          enum err (*rest)(struct reading *r))
{
    struct json_note few[FEW_NOTES];
    r->few = few;
    r->n = n;
    r->members = arena_alloc_raw(r->arena, n * sizeof *members);
    r->absent = r->index.names = members;
    r->index.wanted = lengths;
    enum err e = read_common(r);
    if (e == ERR_OK)
        e = rest(r);
    if (r->index.v != few)
        mem_free(r->index.v);
    return e;
}

/* The last of these n that is given. */
static void read_state(struct reading *r, const unsigned char *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_given(member(r, numbers[i])))
            r->call->state = bytes_of(member(r, numbers[i])->name);
}

/* A tool of another type than the plain one. */
static bool has_special_tool(const struct reading *r, const char *plain)
{
    struct walk tools = walk_of_member(r, IN_TOOLS), w = walk_into(&tools);
    while (walk_next(&w)) {
        struct bytes type = walk_get(w.value, "type");
        if (!raw_is_nothing(type) && !raw_is(type, plain))
            return true;
    }
    return false;
}

/* What an answer to this would hold beyond text, reasoning, calls of functions and usage. */
static bool needs_whole(const struct reading *r, const char *plain_tool, const unsigned char *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!raw_is_nothing(raw(r, numbers[i])) && !bytes_is(raw(r, numbers[i]), "false"))
            return true;
    return has_special_tool(r, plain_tool);
}

static void read_openai_output(struct reading *r)
{
    struct call *c = r->call;
    c->wants_usage = bytes_is(walk_get(raw(r, CHAT_STREAM_OPTIONS), "include_usage"), "true");
    c->has_json_schema = raw_is(walk_get(raw(r, CHAT_RESPONSE_FORMAT), "type"), "json_schema");
    c->effort = read_string(r, raw(r, CHAT_REASONING_EFFORT));
    struct walk w = walk_of(raw(r, CHAT_MODALITIES));
    while (walk_next(&w))
        c->has_audio = c->has_audio || raw_is(w.value, "audio");
    c->has_audio = c->has_audio || is_given(member(r, CHAT_AUDIO));
}

static enum err read_openai_numbers(struct reading *r)
{
    enum err e = read_whole(r, CHAT_MAX_COMPLETION_TOKENS, 0, &r->call->max_tokens);
    return e == ERR_OK ? read_whole(r, CHAT_N, 1, &r->call->n) : e;
}

/* What is not of the prompt. */
static void read_openai_others(struct reading *r)
{
    static const unsigned char state[] = {CHAT_PREVIOUS_RESPONSE_ID, CHAT_CONVERSATION, IN_CONTAINER, IN_THREAD};
    static const unsigned char whole[] = {CHAT_LOGPROBS, CHAT_MODERATION, CHAT_FUNCTIONS};
    struct call *out = r->call;
    read_state(r, state, sizeof state);
    read_openai_output(r);
    out->needs_whole = needs_whole(r, "function", whole, sizeof whole);
    out->cache_key = read_string(r, raw(r, CHAT_PROMPT_CACHE_KEY));
    out->service = read_string(r, raw(r, IN_SERVICE_TIER));
    if (bytes_is(out->service, "fast")) /* another name of it (openai-chat.md, service_tier) */
        out->service = BYTES("priority");
}

/* Most requests have none of the members but these few. */
enum { CHAT_USUAL = BIT(IN_MODEL) | BIT(IN_STREAM) | BIT(IN_MAX_TOKENS) | BIT(IN_MESSAGES) };

static enum err read_openai(struct reading *r)
{
    static const struct walk none;
    bool has_others = has_any(r, ~(uint32_t)CHAT_USUAL);
    enum err e = has_others ? read_openai_numbers(r) : ERR_OK;
    if (e != ERR_OK)
        return e;
    if (has_others)
        read_openai_others(r);
    read_prompt(r, &none);
    if (has_others) {
        r->call->has_tools = r->call->has_tools || raw(r, CHAT_FUNCTIONS).n > 2;
        count_whole_marker(r->call, raw(r, IN_CACHE_CONTROL));
    }
    return ERR_OK;
}

enum err openai_read_call(struct bytes body, unsigned max_depth, struct arena *a, struct call *out, const char **why)
{
    struct reading r = {.body = body, .max_depth = max_depth, .arena = a, .call = out, .why = why};
    return read_body(&r, chat_members, CHAT_MEMBERS, chat_lengths, read_openai);
}

static enum err read_anthropic(struct reading *r)
{
    static const unsigned char state[] = {IN_CONTAINER, IN_THREAD};
    static const unsigned char whole[] = {IN_CONTAINER, MESSAGES_MCP_SERVERS, MESSAGES_CONTEXT_MANAGEMENT};
    struct call *out = r->call;
    out->wants_usage = true;
    read_state(r, state, sizeof state);
    out->needs_whole = needs_whole(r, "custom", whole, sizeof whole);
    struct bytes config = raw(r, MESSAGES_OUTPUT_CONFIG);
    out->effort = read_string(r, walk_get(config, "effort"));
    out->has_json_schema = !raw_is_nothing(walk_get(config, "format")) || is_given(member(r, MESSAGES_OUTPUT_FORMAT));
    bool is_fast = raw_is(raw(r, MESSAGES_SPEED), "fast");
    out->service = is_fast ? BYTES("fast") : read_string(r, raw(r, IN_SERVICE_TIER));
    struct walk system = walk_of_member(r, MESSAGES_SYSTEM);
    read_prompt(r, &system);
    count_whole_marker(out, raw(r, IN_CACHE_CONTROL));
    return ERR_OK;
}

enum err anthropic_read_call(struct bytes body, unsigned max_depth, struct arena *a, struct call *out, const char **why)
{
    struct reading r = {.body = body, .max_depth = max_depth, .arena = a, .call = out, .why = why};
    return read_body(&r, messages_members, MESSAGES_MEMBERS, messages_lengths, read_anthropic);
}

enum err dialect_read_call(const struct dialect *d, struct bytes body, unsigned max_depth, struct arena *a,
                           struct call *out, const char **why)
{
    return d->read_call(body, max_depth, a, out, why);
}

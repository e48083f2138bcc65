/* Chat Completions answers (openai-chat.md 3, 4, 7): chunks and whole bodies, from OpenAI and from the hosts that speak
 * its dialect with habits of their own. Every habit is told by the shape of the bytes, not by the host's name, so that
 * an unknown host gets the same care.
 *
 * Tool calls are told apart by their index; they are numbered 0, 1, … in the order in which they begin, because some
 * gateways number by content block. Id and name count once: what later deltas repeat is ignored. */
#include "dialect/answer_impl.h"

#include "codec/json_scan.h"
#include "codec/json_string.h"
#include "codec/json_tree.h"
#include "dialect/batch.h"
#include "dialect/classify.h"
#include "dialect/openai_form.h"
#include "dialect/openai_noted.h"
#include "dialect/openai_usage.h"

enum { CALLS_MAX = 1024, AT_NONE = -1, AT_FUNCTION = -2 };

struct tool_call {
    int64_t at; /* index on the wire, AT_NONE, or AT_FUNCTION for the old function_call */
    uint16_t choice, tool;
    bool is_started, has_args;
    struct bytes id;
};

struct openai_state {
    bool has_start, has_id, has_model;
    bool is_changed; /* by the running event: it would be read otherwise if it came again */
    struct tool_call *calls;
    size_t n_calls, cap_calls;
    uint64_t finished; /* bit per choice: its finish was told */
};

struct reading {
    struct decoder *d;
    struct openai_state *s;
    struct batch batch;
    uint16_t choice;
    bool is_message; /* a whole message: tool calls stand by position */
};

static void init(struct decoder *d)
{
    _Static_assert(sizeof(struct openai_state) <= sizeof d->room, "it lies there");
    d->state = memset(d->room, 0, sizeof(struct openai_state));
}

static void malformed(struct decoded *out, const char *why)
{
    out->is_malformed = true;
    out->why = why;
}

/* ---- errors ---- */

static void add_failure(struct reading *r)
{
    batch_add(&r->batch, EVENT_ERROR)->failure = r->d->failure;
}

/* The tree complains: as a member `error`, flat, or by the event's name. */
static bool is_complaint(yyjson_val *root, struct bytes name)
{
    yyjson_val *e = yyjson_obj_get(root, "error");
    bool is_empty =
        e == NULL || yyjson_is_null(e) || yyjson_is_false(e) || (yyjson_is_str(e) && yyjson_get_len(e) == 0);
    if (!is_empty || bytes_is(name, "error"))
        return true;
    if (bytes_is(json_tree_str(root, "object"), "error") || bytes_is(json_tree_str(root, "type"), "error"))
        return true;
    if (yyjson_obj_get(root, "choices") != NULL || yyjson_obj_get(root, "usage") != NULL)
        return false;
    bool has_class = yyjson_obj_get(root, "type") != NULL || yyjson_obj_get(root, "code") != NULL;
    return yyjson_obj_get(root, "detail") != NULL || (has_class && yyjson_is_str(yyjson_obj_get(root, "message")));
}

static void add_complaint(struct reading *r, yyjson_val *root)
{
    struct complaint c;
    complaint_of_tree(root, &r->d->scratch, &c);
    classify_in_stream(&c, openai_class_of, r->d->vendor, decoder_failure(r->d));
    add_failure(r);
}

static void add_fault(struct reading *r, struct bytes code)
{
    struct complaint c = {.is_json = true, .code = code, .message = code, .text = code};
    classify_fill(&c, FAILURE_FAULT, 0, decoder_failure(r->d));
    r->d->failure->in_stream = true;
    add_failure(r);
}

/* ---- parts of a choice ---- */

static void add_output(struct reading *r, enum event_kind kind, struct bytes text)
{
    if (text.n > 0)
        batch_add_output(&r->batch, kind, text)->choice = r->choice;
}

static struct bytes first_text(yyjson_val *delta)
{
    struct bytes text = json_tree_str(delta, "reasoning_content");
    return text.n > 0 ? text : json_tree_str(delta, "reasoning");
}

/* OpenRouter says the same twice, as text and as details; the details alone count only where the text is missing. */
static void read_reasoning(struct reading *r, yyjson_val *delta)
{
    struct bytes text = first_text(delta);
    if (text.n > 0) {
        add_output(r, EVENT_REASONING, text);
        return;
    }
    yyjson_val *details = yyjson_obj_get(delta, "reasoning_details"), *detail;
    size_t i, n;
    yyjson_arr_foreach(details, i, n, detail)
    {
        text = json_tree_str(detail, "text");
        add_output(r, EVENT_REASONING, text.n > 0 ? text : json_tree_str(detail, "summary"));
    }
}

/* Mistral: {"type":"thinking","thinking":[{"type":"text","text":…}]} */
static void read_part(struct reading *r, yyjson_val *part)
{
    struct bytes type = json_tree_str(part, "type");
    yyjson_val *thinking = yyjson_obj_get(part, "thinking"), *piece;
    size_t i, n;
    if (bytes_is(type, "thinking")) {
        add_output(r, EVENT_REASONING, json_tree_bytes(thinking));
        yyjson_arr_foreach(thinking, i, n, piece) add_output(r, EVENT_REASONING, json_tree_str(piece, "text"));
    } else if (bytes_is(type, "refusal")) {
        add_output(r, EVENT_REFUSAL, json_tree_str(part, "refusal"));
    } else {
        add_output(r, EVENT_TEXT, json_tree_str(part, "text"));
    }
}

static void read_content(struct reading *r, yyjson_val *content)
{
    yyjson_val *part;
    size_t i, n;
    add_output(r, EVENT_TEXT, json_tree_bytes(content));
    yyjson_arr_foreach(content, i, n, part) read_part(r, part);
}

static void read_extras(struct reading *r, yyjson_val *delta)
{
    yyjson_val *list = yyjson_obj_get(delta, "annotations"), *item;
    size_t i, n;
    yyjson_arr_foreach(list, i, n, item)
    {
        struct event *e = batch_add(&r->batch, EVENT_CITATION);
        e->text = json_tree_text(item, &r->d->scratch);
        e->choice = r->choice;
    }
    yyjson_val *audio = yyjson_obj_get(delta, "audio");
    if (!yyjson_is_obj(audio))
        return;
    struct bytes transcript = json_tree_str(audio, "transcript");
    struct event *e = batch_add_output(&r->batch, EVENT_AUDIO, transcript);
    e->is_token = transcript.n > 0 || json_tree_str(audio, "data").n > 0;
    e->choice = r->choice;
}

/* ---- tool calls ---- */

static uint16_t tools_of(const struct openai_state *s, uint16_t choice)
{
    uint16_t n = 0;
    for (size_t i = 0; i < s->n_calls; i++)
        n += s->calls[i].choice == choice;
    return n;
}

static struct tool_call *new_call(struct reading *r, int64_t at)
{
    struct openai_state *s = r->s;
    if (s->n_calls == CALLS_MAX)
        return NULL;
    if (s->n_calls == s->cap_calls) {
        size_t cap = s->cap_calls ? s->cap_calls * 2 : 4;
        struct tool_call *v = ARENA_ARRAY(&r->d->keep, struct tool_call, cap);
        if (s->n_calls > 0)
            memcpy(v, s->calls, s->n_calls * sizeof *v);
        s->calls = v;
        s->cap_calls = cap;
    }
    s->is_changed = true;
    uint16_t tool = tools_of(s, r->choice);
    struct tool_call *c = &s->calls[s->n_calls++];
    *c = (struct tool_call){.at = at, .choice = r->choice, .tool = tool};
    return c;
}

/* The newest call that this delta can mean. Without an index: the one of that id, or the last. */
static struct tool_call *find_call(struct reading *r, int64_t at, struct bytes id)
{
    for (size_t i = r->s->n_calls; i > 0; i--) {
        struct tool_call *c = &r->s->calls[i - 1];
        if (c->choice != r->choice || c->at == AT_FUNCTION)
            continue;
        if (at == AT_NONE ? id.n == 0 || bytes_eq(c->id, id) : c->at == at)
            return c;
    }
    return NULL;
}

static void start_call(struct reading *r, struct tool_call *c, struct bytes name)
{
    struct event *e = batch_add(&r->batch, EVENT_TOOL_START);
    e->choice = c->choice;
    e->tool = c->tool;
    e->id = c->id;
    e->name = name;
    e->text_bytes = (uint32_t)(name.n > UINT32_MAX ? UINT32_MAX : name.n);
    e->is_token = name.n > 0;
    c->is_started = true;
}

static void feed_call(struct reading *r, struct tool_call *c, struct bytes name, struct bytes args)
{
    if (!c->is_started && (name.n > 0 || args.n > 0))
        start_call(r, c, name);
    if (args.n == 0)
        return;
    struct event *e = batch_add_output(&r->batch, EVENT_TOOL_ARGS, args);
    e->choice = c->choice;
    e->tool = c->tool;
    r->s->is_changed |= !c->has_args;
    c->has_args = true;
}

/* Arguments are a string; some hosts send the object itself; null is nothing. */
static struct bytes args_text(struct reading *r, yyjson_val *v)
{
    if (yyjson_is_obj(v) || yyjson_is_arr(v))
        return json_tree_text(v, &r->d->scratch);
    return json_tree_bytes(v);
}

static void read_call(struct reading *r, yyjson_val *call, size_t position)
{
    struct bytes id = json_tree_str(call, "id");
    int64_t at = json_tree_int(call, "index", r->is_message ? (int64_t)position : AT_NONE);
    yyjson_val *function = yyjson_obj_get(call, "function"), *custom = yyjson_obj_get(call, "custom");
    struct bytes name = json_tree_str(function ? function : custom, "name");
    struct bytes args =
        args_text(r, function ? yyjson_obj_get(function, "arguments") : yyjson_obj_get(custom, "input"));
    struct tool_call *c = find_call(r, at < 0 ? AT_NONE : at, id);
    /* Some hosts give every parallel call the index 0. A new id with a new name after arguments is a new call. */
    bool is_other = c != NULL && c->has_args && id.n > 0 && name.n > 0 && c->id.n > 0 && !bytes_eq(c->id, id);
    if (c == NULL || is_other)
        c = new_call(r, at < 0 ? AT_NONE : at);
    if (c == NULL)
        return;
    if (c->id.n == 0 && id.n > 0) {
        c->id = arena_dup(&r->d->keep, id);
        r->s->is_changed = true;
    }
    feed_call(r, c, name, args);
}

static void read_function(struct reading *r, yyjson_val *call)
{
    struct tool_call *c = NULL;
    for (size_t i = 0; i < r->s->n_calls && c == NULL; i++)
        if (r->s->calls[i].choice == r->choice && r->s->calls[i].at == AT_FUNCTION)
            c = &r->s->calls[i];
    if (c == NULL)
        c = new_call(r, AT_FUNCTION);
    if (c != NULL)
        feed_call(r, c, json_tree_str(call, "name"), args_text(r, yyjson_obj_get(call, "arguments")));
}

static void read_calls(struct reading *r, yyjson_val *delta)
{
    yyjson_val *calls = yyjson_obj_get(delta, "tool_calls"), *call;
    size_t i, n;
    yyjson_arr_foreach(calls, i, n, call)
    {
        if (yyjson_is_obj(call))
            read_call(r, call, i);
    }
    yyjson_val *function = yyjson_obj_get(delta, "function_call");
    if (yyjson_is_obj(function))
        read_function(r, function);
}

/* ---- finish ---- */

static enum finish_reason finish_of(struct bytes word)
{
    static const struct {
        const char *word;
        enum finish_reason reason;
    } rows[] = {
        {"length", FINISH_LENGTH},
        {"max_tokens", FINISH_LENGTH},
        {"tool_calls", FINISH_TOOL_CALLS},
        {"function_call", FINISH_TOOL_CALLS},
        {"tool_use", FINISH_TOOL_CALLS},
        {"content_filter", FINISH_CONTENT_FILTER},
        {"safety", FINISH_CONTENT_FILTER},
        {"refusal", FINISH_CONTENT_FILTER},
        {"model_length", FINISH_CONTEXT_WINDOW},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (bytes_is(word, rows[i].word))
            return rows[i].reason;
    return FINISH_STOP;
}

static void add_finish(struct reading *r, struct bytes word, struct bytes sequence)
{
    uint64_t bit = UINT64_C(1) << (r->choice & 63);
    if (r->s->finished & bit)
        return;
    r->s->finished |= bit;
    struct event *e = batch_add(&r->batch, EVENT_FINISH);
    e->choice = r->choice;
    e->reason = finish_of(word);
    if (e->reason == FINISH_STOP && sequence.n > 0) {
        e->reason = FINISH_STOP_SEQUENCE;
        e->name = sequence;
    }
}

/* A finish reason that tells of a broken provider is an error, never an end. */
static bool is_fault(struct bytes word)
{
    return bytes_is(word, "error") || bytes_is(word, "insufficient_system_resource");
}

static void read_finish(struct reading *r, yyjson_val *choice)
{
    struct bytes word = json_tree_str(choice, "finish_reason");
    yyjson_val *error = yyjson_obj_get(choice, "error");
    if (yyjson_is_obj(error) || (yyjson_is_str(error) && yyjson_get_len(error) > 0))
        add_complaint(r, choice);
    else if (is_fault(word))
        add_fault(r, word);
    else if (word.n > 0)
        add_finish(r, word, json_tree_str(choice, "stop_reason"));
    else if (r->is_message)
        add_finish(r, tools_of(r->s, r->choice) > 0 ? BYTES("tool_calls") : BYTES("stop"), (struct bytes){0});
}

static void read_choice(struct reading *r, yyjson_val *choice)
{
    int64_t index = json_tree_int(choice, "index", 0);
    r->choice = (uint16_t)(index < 0 || index > UINT16_MAX ? 0 : index);
    yyjson_val *delta = yyjson_obj_get(choice, "delta");
    bool was_message = r->is_message;
    if (!yyjson_is_obj(delta)) {
        delta = yyjson_obj_get(choice, "message");
        r->is_message = r->is_message || yyjson_is_obj(delta);
    }
    read_reasoning(r, delta);
    read_content(r, yyjson_obj_get(delta, "content"));
    add_output(r, EVENT_REFUSAL, json_tree_str(delta, "refusal"));
    read_extras(r, delta);
    read_calls(r, delta);
    read_finish(r, choice);
    r->is_message = was_message;
}

/* ---- usage ---- */

static void add_usage(struct reading *r, const struct usage *u, struct bytes tier)
{
    struct event *e = batch_add(&r->batch, EVENT_USAGE);
    e->usage = *u;
    e->name = tier;
}

static void read_usage(struct reading *r, yyjson_val *root)
{
    yyjson_val *told = yyjson_obj_get(root, "usage");
    if (!yyjson_is_obj(told))
        told = yyjson_obj_get(yyjson_obj_get(root, "x_groq"), "usage");
    if (!yyjson_is_obj(told))
        told = yyjson_obj_get(yyjson_arr_get_first(yyjson_obj_get(root, "choices")), "usage");
    struct usage u;
    if (yyjson_is_obj(told) && openai_usage_read(told, &u))
        add_usage(r, &u, json_tree_str(root, "service_tier"));
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The range of the member with the one comma that goes with it. */
static void strip_member(const struct decoder *d, struct bytes data, struct decoded *out)
{
    struct json_member m = {.name = "usage"};
    struct json_scan scan;
    if (json_scan(data, d->max_depth, &m, 1, &scan) != ERR_OK || m.type == JSON_ABSENT)
        return;
    size_t from = m.name_at, to = m.value_end, next = to;
    while (next < data.n && is_blank(data.p[next]))
        next++;
    if (next < data.n && data.p[next] == ',') {
        to = next + 1;
    } else {
        while (from > 0 && is_blank(data.p[from - 1]))
            from--;
        if (from > 0 && data.p[from - 1] == ',')
            from--;
    }
    out->strip_at = from;
    out->strip_end = to;
}

/* The client did not ask for usage: a chunk that is nothing else goes, elsewhere the member goes. */
static void strip_usage(const struct decoder *d, yyjson_val *root, struct bytes data, struct decoded *out)
{
    yyjson_val *usage = yyjson_obj_get(root, "usage");
    if (usage == NULL)
        return;
    bool has_more = yyjson_arr_size(yyjson_obj_get(root, "choices")) > 0 ||
                    yyjson_obj_get(root, "moderation") != NULL || yyjson_obj_get(root, "prompt_filter_results") != NULL;
    if (!has_more && !yyjson_is_null(usage))
        out->is_dropped = true;
    else
        strip_member(d, data, out);
}

/* ---- chunks and bodies ---- */

static void add_start(struct reading *r, struct bytes id, struct bytes model, struct bytes tier)
{
    struct openai_state *s = r->s;
    if (s->has_start && (s->has_id || id.n == 0) && (s->has_model || model.n == 0))
        return;
    struct event *e = batch_add(&r->batch, EVENT_START);
    e->id = id;
    e->text = model;
    e->name = tier;
    s->has_start = true;
    s->has_id |= id.n > 0;
    s->has_model |= model.n > 0;
}

static void read_start(struct reading *r, yyjson_val *root)
{
    add_start(r, json_tree_str(root, "id"), json_tree_str(root, "model"), json_tree_str(root, "service_tier"));
}

static bool has_error(const struct batch *b)
{
    return b->n > 0 && b->v[b->n - 1].kind == EVENT_ERROR;
}

static void read_choices(struct reading *r, yyjson_val *root)
{
    yyjson_val *choices = yyjson_obj_get(root, "choices"), *choice;
    size_t i, n;
    yyjson_arr_foreach(choices, i, n, choice)
    {
        if (yyjson_is_obj(choice) && !has_error(&r->batch))
            read_choice(r, choice);
    }
}

static struct reading reading_of(struct decoder *d, bool is_message)
{
    return (struct reading){.d = d, .s = d->state, .batch = {.arena = &d->scratch}, .is_message = is_message};
}

/* Usage comes before the choices, so that it is kept where an error stands among them. */
static void read_answer(struct reading *r, yyjson_val *root, struct bytes name)
{
    bool is_bad = is_complaint(root, name);
    if (!is_bad)
        read_start(r, root);
    read_usage(r, root);
    if (is_bad)
        add_complaint(r, root);
    else
        read_choices(r, root);
}

/* Strings that only hide how long the text is: OpenAI's, Mistral's. The latter is not known to be that and no more, so
 * that a collected answer keeps its last one. */
static void tell_source(struct decoded *out, yyjson_val *root, struct bytes data, const char *copy)
{
    struct bytes padding = json_tree_str(root, "obfuscation"), p = json_tree_str(root, "p");
    out->source = (struct mould_source){.data = data,
                                        .copy = copy,
                                        .padding = padding.p != NULL ? padding : p,
                                        .is_padding_kept = padding.p == NULL && p.p != NULL};
}

static void read_tree(struct reading *r, yyjson_val *root, const struct sse_event *ev, struct decoded *out)
{
    r->s->is_changed = false;
    read_answer(r, root, ev->name);
    if (r->d->strips_usage && !has_error(&r->batch))
        strip_usage(r->d, root, ev->data, out);
}

static void one_event(struct decoder *d, const struct sse_event *ev, struct decoded *out)
{
    struct reading r = reading_of(d, false);
    struct bytes data = bytes_trim(ev->data);
    yyjson_val *root;
    const char *copy;
    if (bytes_is(data, "[DONE]")) {
        batch_add(&r.batch, EVENT_DONE);
    } else if (data.n == 0 && !bytes_is(ev->name, "error")) {
        batch_add(&r.batch, EVENT_OTHER);
    } else if (json_tree_parse_placed(data, d->max_depth, &d->scratch, &root, &copy) == ERR_OK && yyjson_is_obj(root)) {
        read_tree(&r, root, ev, out);
        if (!r.s->is_changed)
            tell_source(out, root, data, copy);
    } else if (bytes_is(ev->name, "error")) {
        struct complaint c;
        complaint_read(data, &d->scratch, &c);
        classify_in_stream(&c, openai_class_of, d->vendor, decoder_failure(d));
        add_failure(&r);
    } else {
        malformed(out, "an event that is no JSON object");
    }
    batch_close(&r.batch, d, out);
}

/* ---- whole answers ---- */

static void whole_of_tree(struct reading *r, yyjson_val *root, struct decoded *out)
{
    bool has_choices = yyjson_arr_size(yyjson_obj_get(root, "choices")) > 0;
    if (!has_choices && !is_complaint(root, (struct bytes){0})) {
        malformed(out, "an answer without choices");
        return;
    }
    read_answer(r, root, (struct bytes){0});
    if (!has_error(&r->batch))
        batch_add(&r->batch, EVENT_DONE);
}

static void add_noted(struct reading *r, enum event_kind kind, const struct noted_text *t)
{
    bool is_plain = t->less == 0 || r->d->is_text_unread;
    if (t->inside.n == 0)
        return;
    struct event *e =
        batch_add_output(&r->batch, kind, is_plain ? t->inside : json_string_value(t->inside, true, &r->d->scratch));
    e->choice = r->choice;
    if (is_plain)
        e->text_bytes -= t->less;
}

/* In the order of read_answer. */
static void whole_of_notes(struct reading *r, const struct openai_noted *n)
{
    struct usage u;
    batch_reserve(&r->batch, 8);
    add_start(r, n->id.inside, n->model.inside, n->service_tier.inside);
    if (openai_usage_of(&n->usage, &u))
        add_usage(r, &u, n->service_tier.inside);
    r->choice = n->choice;
    add_noted(r, EVENT_REASONING, n->reasoning_content.inside.n > 0 ? &n->reasoning_content : &n->reasoning);
    add_noted(r, EVENT_TEXT, &n->content);
    add_noted(r, EVENT_REFUSAL, &n->refusal);
    if (n->finish.inside.n > 0)
        add_finish(r, n->finish.inside, n->sequence.inside);
    else
        add_finish(r, BYTES("stop"), (struct bytes){0});
    batch_add(&r->batch, EVENT_DONE);
}

/* An answer that is put otherwise than the one before. */
static __attribute__((noinline)) void whole_text(struct reading *r, struct bytes text, struct decoded *out)
{
    struct decoder *d = r->d;
    struct json_notes notes;
    struct openai_noted noted;
    yyjson_val *root = NULL;
    bool has_notes = json_notes_of(text, d->max_depth, &d->scratch, &notes);
    if (has_notes && openai_noted_read(&notes.index, &noted) && !is_fault(noted.finish.inside)) {
        openai_form_make(d->form, text, d->max_depth, &notes.index, &noted);
        whole_of_notes(r, &noted);
    } else if (has_notes && (root = json_tree_of_notes(&notes, &d->scratch)) != NULL) {
        whole_of_tree(r, root, out);
    } else if (json_tree_parse(text, d->max_depth, &d->scratch, &root) == ERR_OK && yyjson_is_obj(root)) {
        whole_of_tree(r, root, out);
    } else {
        malformed(out, "a body that is no JSON object");
    }
}

static void whole_body(struct decoder *d, struct bytes body, struct decoded *out)
{
    struct reading r = reading_of(d, true);
    struct bytes text = bytes_trim(body);
    struct openai_noted noted;
    if (openai_form_match(d->form, text, d->max_depth, &noted) && !is_fault(noted.finish.inside))
        whole_of_notes(&r, &noted);
    else
        whole_text(&r, text, out);
    batch_close(&r.batch, d, out);
}

const struct decoder_ops openai_decoder = {.init = init, .event = one_event, .whole = whole_body};

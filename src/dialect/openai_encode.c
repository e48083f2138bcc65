/* Events -> Chat Completions (openai-chat.md 9; anthropic-messages.md 9 "Stream").
 *
 * A stream: nothing until the first content (the provider may name itself late), then the role chunk of that choice,
 * content chunks, and at the end, once: "{}" for tool calls that never got arguments (they may interleave, so not
 * before), a finish chunk per choice, the usage chunk if asked, [DONE]. The finish chunk waits for the end because a
 * provider can fail after it named a finish reason, and a failed answer must not look finished. */
#include "dialect/answer_impl.h"

#include "codec/json_tree.h"
#include "codec/json_write.h"
#include "dialect/openai_usage.h"
#include "dialect/transcript.h"

struct openai_tool {
    uint16_t choice, tool;
    bool has_args;
    struct openai_tool *next;
};

struct openai_out {
    struct transcript transcript;
    uint64_t with_role; /* bit per choice that got its role chunk */
    struct openai_tool *tools;
    struct bytes id; /* as told; fixed with the first chunk */
    struct bytes model;
    bool has_head, is_ended;
};

static void init(struct encoder *e)
{
    struct openai_out *s = ARENA_NEW(&e->keep, struct openai_out);
    transcript_init(&s->transcript);
    e->state = s;
    if (!e->o.begun.is_on)
        return;
    s->with_role = 1;
    s->transcript.n_choices = 1;
    s->has_head = e->o.begun.id.n > 0;
    s->id = e->o.begun.id;
    s->model = e->o.begun.model.n > 0 ? e->o.begun.model : e->o.model;
}

static void begun(const struct encoder *e, struct encoder_begun *out)
{
    const struct openai_out *s = e->state;
    out->id = s->id;
    out->model = s->model;
}

static const char *finish_word(enum finish_reason r)
{
    switch (r) {
    case FINISH_LENGTH:
    case FINISH_CONTEXT_WINDOW:
        return "length";
    case FINISH_TOOL_CALLS:
        return "tool_calls";
    case FINISH_CONTENT_FILTER:
        return "content_filter";
    default:
        return "stop";
    }
}

static void fix_head(struct encoder *e, struct openai_out *s)
{
    if (s->has_head)
        return;
    s->has_head = true;
    s->id = transcript_id(&s->transcript, &e->o, "chatcmpl-", &e->keep);
    s->model = transcript_model(&s->transcript, &e->o);
}

static void write_head(struct json_writer *w, struct encoder *e, const char *object)
{
    struct openai_out *s = e->state;
    fix_head(e, s);
    jw_named_string(w, "id", s->id);
    jw_key(w, "object");
    jw_cstr(w, object);
    jw_key(w, "created");
    jw_int(w, e->o.created_wall_s);
    jw_named_string(w, "model", s->model);
}

/* ---- stream ---- */

/* Opens `data: {…"choices":[{"index":c,"delta":{` */
static void open_chunk(struct json_writer *w, struct encoder *e, uint16_t choice, struct buf *out)
{
    buf_puts(out, "data: ");
    jw_init(w, out);
    jw_object(w);
    write_head(w, e, "chat.completion.chunk");
    jw_key(w, "choices");
    jw_array(w);
    jw_object(w);
    jw_key(w, "index");
    jw_int(w, choice);
    jw_key(w, "delta");
    jw_object(w);
}

static void close_chunk(struct json_writer *w, const char *finish)
{
    jw_end(w);
    jw_key(w, "finish_reason");
    if (finish != NULL)
        jw_cstr(w, finish);
    else
        jw_null(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    buf_puts(w->out, "\n\n");
}

static void send_role(struct encoder *e, uint16_t choice, struct buf *out)
{
    struct openai_out *s = e->state;
    struct json_writer w;
    uint64_t bit = UINT64_C(1) << (choice % TRANSCRIPT_CHOICES_MAX);
    if (s->with_role & bit)
        return;
    s->with_role |= bit;
    if (choice >= s->transcript.n_choices && choice < TRANSCRIPT_CHOICES_MAX)
        s->transcript.n_choices = (uint16_t)(choice + 1);
    open_chunk(&w, e, choice, out);
    jw_named_string(&w, "role", BYTES("assistant"));
    jw_named_string(&w, "content", BYTES(""));
    close_chunk(&w, NULL);
}

static void send_text(struct encoder *e, const struct event *ev, const char *member, struct buf *out)
{
    struct json_writer w;
    if (ev->text.n == 0)
        return;
    send_role(e, ev->choice, out);
    size_t from = out->n;
    open_chunk(&w, e, ev->choice, out);
    jw_key(&w, member);
    size_t text = out->n;
    jw_string(&w, ev->text);
    size_t end = out->n;
    close_chunk(&w, NULL);
    if (ev->choice == 0)
        encoder_keep_frame(e, ev->kind, out, from, text, end);
}

static struct openai_tool *tool_of(struct openai_out *s, uint16_t choice, uint16_t tool)
{
    struct openai_tool *t = s->tools;
    while (t != NULL && (t->choice != choice || t->tool != tool))
        t = t->next;
    return t;
}

static void send_tool_start(struct encoder *e, const struct event *ev, struct buf *out)
{
    struct openai_out *s = e->state;
    struct json_writer w;
    if (tool_of(s, ev->choice, ev->tool) != NULL)
        return;
    struct openai_tool *t = ARENA_NEW(&e->keep, struct openai_tool);
    *t = (struct openai_tool){.choice = ev->choice, .tool = ev->tool, .next = s->tools};
    s->tools = t;
    s->transcript.with_tools |= UINT64_C(1) << (ev->choice % TRANSCRIPT_CHOICES_MAX);
    send_role(e, ev->choice, out);
    open_chunk(&w, e, ev->choice, out);
    jw_key(&w, "tool_calls");
    jw_array(&w);
    jw_object(&w);
    jw_key(&w, "index");
    jw_int(&w, ev->tool);
    jw_named_string(&w, "id", transcript_tool_id(ev->id, &e->o, ev->tool, "call_", &e->keep));
    jw_named_string(&w, "type", BYTES("function"));
    jw_key(&w, "function");
    jw_object(&w);
    jw_named_string(&w, "name", ev->name);
    jw_named_string(&w, "arguments", BYTES(""));
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    close_chunk(&w, NULL);
}

static void send_tool_args(struct encoder *e, struct openai_tool *t, struct bytes args, struct buf *out)
{
    struct json_writer w;
    if (t == NULL || args.n == 0)
        return;
    t->has_args = true;
    open_chunk(&w, e, t->choice, out);
    jw_key(&w, "tool_calls");
    jw_array(&w);
    jw_object(&w);
    jw_key(&w, "index");
    jw_int(&w, t->tool);
    jw_key(&w, "function");
    jw_object(&w);
    jw_named_string(&w, "arguments", args);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    close_chunk(&w, NULL);
}

/* A citation of the web as Chat has it; others cannot be said there. False = none. */
static bool write_annotation(struct json_writer *w, struct bytes raw, size_t at, struct arena *a)
{
    yyjson_val *root;
    if (json_tree_parse(raw, 32, a, &root) != ERR_OK)
        return false;
    struct bytes url = json_tree_str(root, "url");
    if (bytes_is(json_tree_str(root, "type"), "url_citation")) {
        jw_raw(w, raw);
        return true;
    }
    if (url.n == 0)
        return false;
    jw_object(w);
    jw_named_string(w, "type", BYTES("url_citation"));
    jw_key(w, "url_citation");
    jw_object(w);
    jw_key(w, "start_index");
    jw_uint(w, at);
    jw_key(w, "end_index");
    jw_uint(w, at);
    jw_named_string(w, "title", json_tree_str(root, "title"));
    jw_named_string(w, "url", url);
    jw_end(w);
    jw_end(w);
    return true;
}

static void send_citation(struct encoder *e, const struct event *ev, struct buf *out)
{
    struct arena a;
    struct buf one = {0};
    struct json_writer w;
    arena_init(&a);
    jw_init(&w, &one);
    if (write_annotation(&w, ev->text, e->n_characters, &a)) /* it stands behind the text so far */ {
        send_role(e, ev->choice, out);
        open_chunk(&w, e, ev->choice, out);
        jw_key(&w, "annotations");
        jw_array(&w);
        jw_raw(&w, buf_bytes(&one));
        jw_end(&w);
        close_chunk(&w, NULL);
    }
    buf_fini(&one);
    arena_fini(&a);
}

static void stream_event(struct encoder *e, const struct event *ev, struct buf *out)
{
    struct openai_out *s = e->state;
    switch (ev->kind) {
    case EVENT_TEXT:
        send_text(e, ev, "content", out);
        break;
    case EVENT_REASONING:
        send_text(e, ev, "reasoning_content", out);
        break;
    case EVENT_REFUSAL:
        send_text(e, ev, "refusal", out);
        break;
    case EVENT_TOOL_START:
        send_tool_start(e, ev, out);
        break;
    case EVENT_TOOL_ARGS:
        send_tool_args(e, tool_of(s, ev->choice, ev->tool), ev->text, out);
        break;
    case EVENT_CITATION:
        send_citation(e, ev, out);
        break;
    default:
        break;
    }
}

/* In the order in which they began; the list is the other way round. */
static void send_empty_args(struct encoder *e, struct openai_tool *t, struct buf *out)
{
    size_t n = 0;
    for (struct openai_tool *i = t; i != NULL; i = i->next)
        n++;
    struct openai_tool **v = ARENA_ARRAY(&e->keep, struct openai_tool *, n + 1);
    for (size_t i = n; i > 0; i--, t = t->next)
        v[i - 1] = t;
    for (size_t i = 0; i < n; i++)
        if (!v[i]->has_args)
            send_tool_args(e, v[i], BYTES("{}"), out);
}

static void send_usage(struct encoder *e, struct buf *out)
{
    struct openai_out *s = e->state;
    struct json_writer w;
    buf_puts(out, "data: ");
    jw_init(&w, out);
    jw_object(&w);
    write_head(&w, e, "chat.completion.chunk");
    jw_key(&w, "choices");
    jw_array(&w);
    jw_end(&w);
    jw_key(&w, "usage");
    openai_usage_write(&w, &s->transcript.usage);
    jw_end(&w);
    buf_puts(out, "\n\n");
}

static void stream_end(struct encoder *e, struct buf *out)
{
    struct openai_out *s = e->state;
    struct json_writer w;
    send_empty_args(e, s->tools, out);
    for (uint16_t c = 0; c < s->transcript.n_choices; c++) {
        send_role(e, c, out);
        open_chunk(&w, e, c, out);
        close_chunk(&w, finish_word(transcript_reason(&s->transcript, c)));
    }
    if (e->o.wants_usage && usage_is_known(&s->transcript.usage))
        send_usage(e, out);
    buf_puts(out, "data: [DONE]\n\n");
}

/* ---- whole ---- */

static struct bytes joined(const struct transcript *d, enum event_kind kind, uint16_t choice, bool *found,
                           struct arena *a)
{
    struct rope all = {0};
    *found = false;
    for (const struct transcript_block *b = d->first; b != NULL; b = b->next) {
        if (b->kind != kind || b->choice != choice)
            continue;
        *found = true;
        rope_put(&all, a, rope_text(&b->text, a));
    }
    return rope_text(&all, a);
}

static void write_tools(struct json_writer *w, struct encoder *e, uint16_t choice)
{
    struct openai_out *s = e->state;
    jw_key(w, "tool_calls");
    jw_array(w);
    for (const struct transcript_block *b = s->transcript.first; b != NULL; b = b->next) {
        if (b->kind != EVENT_TOOL_START || b->choice != choice)
            continue;
        jw_object(w);
        jw_named_string(w, "id", transcript_tool_id(b->id, &e->o, b->tool, "call_", &e->keep));
        jw_named_string(w, "type", BYTES("function"));
        jw_key(w, "function");
        jw_object(w);
        jw_named_string(w, "name", b->name);
        jw_named_string(w, "arguments", b->text.n > 0 ? rope_text(&b->text, &e->keep) : BYTES("{}"));
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
}

static void write_annotations(struct json_writer *w, struct encoder *e, uint16_t choice)
{
    struct openai_out *s = e->state;
    struct buf list = {0};
    struct json_writer l;
    jw_init(&l, &list);
    jw_array(&l);
    for (const struct transcript_block *b = s->transcript.first; b != NULL; b = b->next)
        if (b->kind == EVENT_CITATION && b->choice == choice)
            write_annotation(&l, rope_text(&b->text, &e->keep), 0, &e->keep);
    bool is_empty = list.n == 1;
    jw_end(&l);
    if (!is_empty) {
        jw_key(w, "annotations");
        jw_raw(w, buf_bytes(&list));
    }
    buf_fini(&list);
}

static void write_message(struct json_writer *w, struct encoder *e, uint16_t choice)
{
    const struct transcript *d = &((struct openai_out *)e->state)->transcript;
    bool has_text, has_reasoning, has_refusal, has_tools = (d->with_tools >> choice) & 1;
    struct bytes text = joined(d, EVENT_TEXT, choice, &has_text, &e->keep);
    struct bytes reasoning = joined(d, EVENT_REASONING, choice, &has_reasoning, &e->keep);
    struct bytes refusal = joined(d, EVENT_REFUSAL, choice, &has_refusal, &e->keep);
    jw_object(w);
    jw_named_string(w, "role", BYTES("assistant"));
    jw_key(w, "content");
    if (has_text || !(has_tools || has_refusal))
        jw_string(w, text);
    else
        jw_null(w);
    if (has_reasoning && reasoning.n > 0)
        jw_named_string(w, "reasoning_content", reasoning);
    jw_key(w, "refusal");
    if (has_refusal)
        jw_string(w, refusal);
    else
        jw_null(w);
    write_annotations(w, e, choice);
    if (has_tools)
        write_tools(w, e, choice);
    jw_end(w);
}

static void whole_end(struct encoder *e, struct buf *out)
{
    struct openai_out *s = e->state;
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    write_head(&w, e, "chat.completion");
    jw_key(&w, "choices");
    jw_array(&w);
    for (uint16_t c = 0; c < s->transcript.n_choices; c++) {
        jw_object(&w);
        jw_key(&w, "index");
        jw_int(&w, c);
        jw_key(&w, "message");
        write_message(&w, e, c);
        jw_key(&w, "logprobs");
        jw_null(&w);
        jw_key(&w, "finish_reason");
        jw_cstr(&w, finish_word(transcript_reason(&s->transcript, c)));
        jw_end(&w);
    }
    jw_end(&w);
    if (usage_is_known(&s->transcript.usage)) {
        jw_key(&w, "usage");
        openai_usage_write(&w, &s->transcript.usage);
    }
    jw_end(&w);
}

static void end(struct encoder *e, struct buf *out)
{
    struct openai_out *s = e->state;
    if (s->is_ended)
        return;
    s->is_ended = true;
    encoder_drop_frame(e);
    if (e->o.is_stream)
        stream_end(e, out);
    else
        whole_end(e, out);
}

static void one_event(struct encoder *e, const struct event *ev, struct buf *out)
{
    struct openai_out *s = e->state;
    if (s->is_ended || transcript_note(&s->transcript, ev, &e->keep))
        return;
    if (!e->o.is_stream)
        transcript_put(&s->transcript, ev, &e->keep);
    else if (ev->kind == EVENT_DONE)
        end(e, out);
    else
        stream_event(e, ev, out);
}

const struct encoder_ops openai_encoder = {.init = init, .event = one_event, .end = end, .begun = begun};

/* Events -> Messages (anthropic-messages.md 5 and 9 "OpenAI stream -> Anthropic").
 *
 * A stream is a row of blocks, one open at a time. Chat may interleave the pieces of several tool calls, so a block
 * that comes while a tool call is unfinished waits:
 *
 *     [sent and closed] [open: tool 0, not whole yet] | waiting: tool 1, text, …
 *
 * A tool call is whole when its arguments are a balanced JSON object; then it is closed and what waited follows. The
 * end of the answer closes all. Input tokens are not known at the start: 0 there, all counts in message_delta. */
#include "dialect/answer_impl.h"

#include "codec/json_tree.h"
#include "codec/json_write.h"
#include "dialect/anthropic_usage.h"
#include "dialect/transcript.h"

enum { INPUT_DEPTH = 128 };

/* Follows JSON text piece by piece, to know when its outermost value has ended. */
struct balance {
    unsigned depth;
    bool in_string, is_escaped, is_whole;
};

struct anthropic_out {
    struct transcript transcript; /* whole: everything; stream: head and end, and what waits */
    bool is_started, is_ended;
    unsigned n_blocks;    /* begun so far: the index of the next one */
    enum event_kind open; /* kind of the open block; EVENT_OTHER = none */
    uint16_t open_tool;
    bool is_signed;
    struct balance balance; /* of the open tool call */
    uint64_t n_closed_tools;
};

static void init(struct encoder *e)
{
    struct anthropic_out *s = ARENA_NEW(&e->keep, struct anthropic_out);
    transcript_init(&s->transcript);
    s->open = EVENT_OTHER;
    e->state = s;
    if (!e->o.begun.is_on)
        return;
    s->is_started = true;
    s->n_blocks = e->o.begun.n_blocks;
    if (e->o.begun.is_text_open)
        s->open = EVENT_TEXT;
}

static void begun(const struct encoder *e, struct encoder_begun *out)
{
    const struct anthropic_out *s = e->state;
    out->n_blocks = s->n_blocks;
    out->is_text_open = s->open == EVENT_TEXT;
}

static const char *stop_word(enum finish_reason r)
{
    switch (r) {
    case FINISH_LENGTH:
        return "max_tokens";
    case FINISH_TOOL_CALLS:
        return "tool_use";
    case FINISH_CONTENT_FILTER:
        return "refusal";
    case FINISH_STOP_SEQUENCE:
        return "stop_sequence";
    case FINISH_PAUSE:
        return "pause_turn";
    case FINISH_CONTEXT_WINDOW:
        return "model_context_window_exceeded";
    default:
        return "end_turn";
    }
}

/* Thinking of a foreign model, signed with a mark of ours: the request side knows it by "rm1:" and takes it out. */
static struct bytes own_mark(struct encoder *e)
{
    return arena_printf(&e->keep, "rm1:%016llx", (unsigned long long)e->o.id_seed);
}

/* Ids may hold only these characters here; others come from other dialects. */
static struct bytes tool_id(struct encoder *e, struct bytes id, uint16_t tool)
{
    struct bytes made = arena_dup(&e->keep, transcript_tool_id(id, &e->o, tool, "toolu_", &e->keep));
    char *p = (char *)(uintptr_t)made.p;
    for (size_t i = 0; i < made.n; i++)
        if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= '0' && p[i] <= '9') ||
              p[i] == '_' || p[i] == '-'))
            p[i] = '_';
    return made;
}

static void write_stop(struct json_writer *w, const struct transcript *d)
{
    enum finish_reason r = transcript_reason(d, 0);
    jw_key(w, "stop_reason");
    jw_cstr(w, stop_word(r));
    jw_key(w, "stop_sequence");
    if (r == FINISH_STOP_SEQUENCE && d->sequence.n > 0)
        jw_string(w, d->sequence);
    else
        jw_null(w);
    if (d->details.n > 0) {
        jw_key(w, "stop_details");
        jw_raw(w, d->details);
    }
}

/* ---- stream: events ---- */

/* Opens `event: T\ndata: {"type":"T"` */
static void open_event(struct json_writer *w, const char *type, struct buf *out)
{
    buf_puts(out, "event: ");
    buf_puts(out, type);
    buf_puts(out, "\ndata: ");
    jw_init(w, out);
    jw_object(w);
    jw_key(w, "type");
    jw_cstr(w, type);
}

static void close_event(struct json_writer *w)
{
    jw_end(w);
    buf_puts(w->out, "\n\n");
}

static void start_message(struct encoder *e, struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct json_writer w;
    if (s->is_started)
        return;
    s->is_started = true;
    open_event(&w, "message_start", out);
    jw_key(&w, "message");
    jw_object(&w);
    jw_named_string(&w, "id", transcript_id(&s->transcript, &e->o, "msg_", &e->keep));
    jw_named_string(&w, "type", BYTES("message"));
    jw_named_string(&w, "role", BYTES("assistant"));
    jw_named_string(&w, "model", transcript_model(&s->transcript, &e->o));
    jw_key(&w, "content");
    jw_array(&w);
    jw_end(&w);
    jw_key(&w, "stop_reason");
    jw_null(&w);
    jw_key(&w, "stop_sequence");
    jw_null(&w);
    jw_key(&w, "usage");
    jw_object(&w);
    jw_key(&w, "input_tokens");
    jw_int(&w, 0);
    jw_key(&w, "output_tokens");
    jw_int(&w, 0);
    jw_end(&w);
    jw_end(&w);
    close_event(&w);
}

/* Opens `content_block_start` up to the inside of its block. */
static void open_block(struct json_writer *w, struct encoder *e, enum event_kind kind, const char *type,
                       struct buf *out)
{
    struct anthropic_out *s = e->state;
    start_message(e, out);
    s->open = kind;
    open_event(w, "content_block_start", out);
    jw_key(w, "index");
    jw_uint(w, s->n_blocks);
    jw_key(w, "content_block");
    jw_object(w);
    jw_key(w, "type");
    jw_cstr(w, type);
}

static void close_start(struct json_writer *w)
{
    jw_end(w);
    close_event(w);
}

/* kind: of the event that may come again with other text; EVENT_OTHER = it will not. */
static void send_delta(struct encoder *e, enum event_kind kind, const char *type, const char *member, struct bytes text,
                       struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct json_writer w;
    size_t from = out->n;
    if (text.n == 0)
        return;
    open_event(&w, "content_block_delta", out);
    jw_key(&w, "index");
    jw_uint(&w, s->n_blocks);
    jw_key(&w, "delta");
    jw_object(&w);
    jw_key(&w, "type");
    jw_cstr(&w, type);
    jw_key(&w, member);
    size_t at = out->n;
    jw_string(&w, text);
    size_t end = out->n;
    jw_end(&w);
    close_event(&w);
    if (kind != EVENT_OTHER)
        encoder_keep_frame(e, kind, out, from, at, end);
}

static void close_block(struct encoder *e, struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct json_writer w;
    if (s->open == EVENT_OTHER)
        return;
    encoder_drop_frame(e);
    if (s->open == EVENT_REASONING && !s->is_signed)
        send_delta(e, EVENT_OTHER, "signature_delta", "signature", own_mark(e), out);
    open_event(&w, "content_block_stop", out);
    jw_key(&w, "index");
    jw_uint(&w, s->n_blocks);
    close_event(&w);
    s->n_blocks++;
    s->open = EVENT_OTHER;
}

/* ---- stream: blocks ---- */

static void feed_balance(struct balance *b, struct bytes text)
{
    for (size_t i = 0; i < text.n && !b->is_whole; i++) {
        char c = text.p[i];
        if (b->in_string) {
            bool ends = c == '"' && !b->is_escaped;
            b->is_escaped = c == '\\' && !b->is_escaped;
            b->in_string = !ends;
        } else if (c == '"') {
            b->in_string = true;
        } else if (c == '{' || c == '[') {
            b->depth++;
        } else if ((c == '}' || c == ']') && b->depth > 0) {
            b->is_whole = --b->depth == 0;
        }
    }
}

static void ensure_text(struct encoder *e, struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct json_writer w;
    if (s->open == EVENT_TEXT)
        return;
    close_block(e, out);
    open_block(&w, e, EVENT_TEXT, "text", out);
    jw_named_string(&w, "text", BYTES(""));
    close_start(&w);
}

static void ensure_thinking(struct encoder *e, struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct json_writer w;
    if (s->open == EVENT_REASONING && !s->is_signed)
        return;
    close_block(e, out);
    s->is_signed = false;
    open_block(&w, e, EVENT_REASONING, "thinking", out);
    jw_named_string(&w, "thinking", BYTES(""));
    jw_named_string(&w, "signature", BYTES(""));
    close_start(&w);
}

static void send_redacted(struct encoder *e, struct bytes data, struct buf *out)
{
    struct json_writer w;
    close_block(e, out);
    open_block(&w, e, EVENT_REDACTED, "redacted_thinking", out);
    jw_named_string(&w, "data", data);
    close_start(&w);
    close_block(e, out);
}

static void start_tool(struct encoder *e, uint16_t tool, struct bytes id, struct bytes name, struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct json_writer w;
    close_block(e, out);
    s->open_tool = tool;
    s->balance = (struct balance){0};
    open_block(&w, e, EVENT_TOOL_START, "tool_use", out);
    jw_named_string(&w, "id", tool_id(e, id, tool));
    jw_named_string(&w, "name", name);
    jw_key(&w, "input");
    jw_object(&w);
    jw_end(&w);
    close_start(&w);
}

static void send_args(struct encoder *e, struct bytes args, struct buf *out)
{
    struct anthropic_out *s = e->state;
    send_delta(e, EVENT_OTHER, "input_json_delta", "partial_json", args, out);
    feed_balance(&s->balance, args);
}

/* Citations of our own dialect only: their text is in the block already. */
static void send_citation(struct encoder *e, struct bytes raw, struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct json_writer w;
    if (s->open != EVENT_TEXT || bytes_find(raw, BYTES("_location\"")) == SIZE_MAX)
        return;
    open_event(&w, "content_block_delta", out);
    jw_key(&w, "index");
    jw_uint(&w, s->n_blocks);
    jw_key(&w, "delta");
    jw_object(&w);
    jw_named_string(&w, "type", BYTES("citations_delta"));
    jw_key(&w, "citation");
    jw_raw(&w, raw);
    jw_end(&w);
    close_event(&w);
}

static void send_now(struct encoder *e, const struct event *ev, struct buf *out)
{
    struct anthropic_out *s = e->state;
    switch (ev->kind) {
    case EVENT_TEXT:
    case EVENT_REFUSAL:
        ensure_text(e, out);
        send_delta(e, ev->kind, "text_delta", "text", ev->text, out);
        break;
    case EVENT_REASONING:
        ensure_thinking(e, out);
        send_delta(e, ev->kind, "thinking_delta", "thinking", ev->text, out);
        break;
    case EVENT_SIGNATURE:
        ensure_thinking(e, out);
        send_delta(e, EVENT_OTHER, "signature_delta", "signature", ev->text, out);
        s->is_signed = true;
        encoder_drop_frame(e);
        break;
    case EVENT_REDACTED:
        send_redacted(e, ev->text, out);
        break;
    case EVENT_TOOL_START:
        start_tool(e, ev->tool, ev->id, ev->name, out);
        break;
    case EVENT_TOOL_ARGS:
        send_args(e, ev->text, out);
        break;
    case EVENT_CITATION:
        send_citation(e, ev->text, out);
        break;
    default:
        break;
    }
}

/* ---- stream: what waits for an unfinished tool call ---- */

static void send_waiting(struct encoder *e, const struct transcript_block *b, struct buf *out)
{
    struct event ev = {.kind = b->kind, .tool = b->tool, .id = b->id, .name = b->name};
    struct bytes text = rope_text(&b->text, &e->keep);
    ev.text = text;
    if (text.n > 0 || b->kind == EVENT_TOOL_START)
        send_now(e, &ev, out);
    if (b->kind == EVENT_TOOL_START && text.n > 0) {
        ev.kind = EVENT_TOOL_ARGS;
        send_now(e, &ev, out);
    }
    if (b->signature.n > 0) {
        ev.kind = EVENT_SIGNATURE;
        ev.text = rope_text(&b->signature, &e->keep);
        send_now(e, &ev, out);
    }
}

static bool is_tool_running(const struct anthropic_out *s)
{
    return s->open == EVENT_TOOL_START && !s->balance.is_whole;
}

/* Sends what waits, up to the next tool call that is not whole; all of it at the end. */
static void drain(struct encoder *e, bool is_end, struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct transcript *d = &s->transcript;
    while (d->first != NULL && (is_end || !is_tool_running(s))) {
        struct transcript_block *b = d->first;
        d->first = b->next;
        if (d->first == NULL)
            d->last = NULL;
        send_waiting(e, b, out);
    }
}

static bool is_content(enum event_kind k)
{
    return k == EVENT_TEXT || k == EVENT_REASONING || k == EVENT_SIGNATURE || k == EVENT_REDACTED ||
           k == EVENT_REFUSAL || k == EVENT_TOOL_START || k == EVENT_TOOL_ARGS || k == EVENT_CITATION;
}

static bool has_waiting_tool(const struct transcript *d, uint16_t tool)
{
    for (const struct transcript_block *b = d->first; b != NULL; b = b->next)
        if (b->kind == EVENT_TOOL_START && b->tool == tool)
            return true;
    return false;
}

static void stream_event(struct encoder *e, const struct event *ev, struct buf *out)
{
    struct anthropic_out *s = e->state;
    bool is_text = ev->kind == EVENT_TEXT || ev->kind == EVENT_REASONING || ev->kind == EVENT_REFUSAL;
    if (!is_content(ev->kind) || ev->choice != 0 || (is_text && ev->text.n == 0))
        return;
    if (ev->kind == EVENT_TOOL_START)
        s->transcript.with_tools |= 1;
    bool is_of_open = ev->kind == EVENT_TOOL_ARGS && s->open == EVENT_TOOL_START && s->open_tool == ev->tool;
    if (is_of_open) {
        send_now(e, ev, out);
        drain(e, false, out);
    } else if (ev->kind == EVENT_TOOL_ARGS) {
        if (has_waiting_tool(&s->transcript, ev->tool)) /* pieces of a call that was closed come too late */
            transcript_put(&s->transcript, ev, &e->keep);
    } else if (is_tool_running(s) || s->transcript.first != NULL) {
        transcript_put(&s->transcript, ev, &e->keep);
    } else {
        send_now(e, ev, out);
    }
}

static void stream_end(struct encoder *e, struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct json_writer w;
    start_message(e, out);
    drain(e, true, out);
    close_block(e, out);
    open_event(&w, "message_delta", out);
    jw_key(&w, "delta");
    jw_object(&w);
    write_stop(&w, &s->transcript);
    jw_end(&w);
    jw_key(&w, "usage");
    anthropic_usage_write(&w, &s->transcript.usage);
    close_event(&w);
    open_event(&w, "message_stop", out);
    close_event(&w);
}

/* ---- whole ---- */

/* Arguments become an object, numbers as written; what is none is kept where it can be seen. */
static void write_input(struct json_writer *w, struct bytes args, struct arena *a)
{
    yyjson_val *root;
    args = bytes_trim(args);
    bool is_object = json_tree_parse(args, INPUT_DEPTH, a, &root) == ERR_OK && yyjson_is_obj(root);
    if (is_object) {
        jw_raw(w, args);
        return;
    }
    jw_object(w);
    if (args.n > 0)
        jw_named_string(w, "_raw", args);
    jw_end(w);
}

/* The citations that follow a text block belong to it. */
static const struct transcript_block *write_citations(struct json_writer *w, const struct transcript_block *b,
                                                      struct arena *a)
{
    bool is_open = false;
    for (; b->next != NULL && b->next->kind == EVENT_CITATION; b = b->next) {
        struct bytes raw = rope_text(&b->next->text, a);
        if (bytes_find(raw, BYTES("_location\"")) == SIZE_MAX)
            continue;
        if (!is_open) {
            jw_key(w, "citations");
            jw_array(w);
            is_open = true;
        }
        jw_raw(w, raw);
    }
    if (is_open)
        jw_end(w);
    return b;
}

/* Returns the last block that was written. */
static const struct transcript_block *write_block(struct json_writer *w, struct encoder *e,
                                                  const struct transcript_block *b)
{
    struct bytes text = rope_text(&b->text, &e->keep);
    jw_object(w);
    if (b->kind == EVENT_REASONING) {
        jw_named_string(w, "type", BYTES("thinking"));
        jw_named_string(w, "thinking", text);
        jw_named_string(w, "signature", b->signature.n > 0 ? rope_text(&b->signature, &e->keep) : own_mark(e));
    } else if (b->kind == EVENT_REDACTED) {
        jw_named_string(w, "type", BYTES("redacted_thinking"));
        jw_named_string(w, "data", text);
    } else if (b->kind == EVENT_TOOL_START) {
        jw_named_string(w, "type", BYTES("tool_use"));
        jw_named_string(w, "id", tool_id(e, b->id, b->tool));
        jw_named_string(w, "name", b->name);
        jw_key(w, "input");
        write_input(w, text, &e->keep);
    } else {
        jw_named_string(w, "type", BYTES("text"));
        jw_named_string(w, "text", text);
        b = write_citations(w, b, &e->keep);
    }
    jw_end(w);
    return b;
}

static void whole_end(struct encoder *e, struct buf *out)
{
    struct anthropic_out *s = e->state;
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_named_string(&w, "id", transcript_id(&s->transcript, &e->o, "msg_", &e->keep));
    jw_named_string(&w, "type", BYTES("message"));
    jw_named_string(&w, "role", BYTES("assistant"));
    jw_named_string(&w, "model", transcript_model(&s->transcript, &e->o));
    jw_key(&w, "content");
    jw_array(&w);
    for (const struct transcript_block *b = s->transcript.first; b != NULL; b = b->next)
        if (b->choice == 0 && b->kind != EVENT_CITATION)
            b = write_block(&w, e, b);
    jw_end(&w);
    write_stop(&w, &s->transcript);
    jw_key(&w, "usage");
    anthropic_usage_write(&w, &s->transcript.usage);
    jw_end(&w);
}

static void end(struct encoder *e, struct buf *out)
{
    struct anthropic_out *s = e->state;
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
    struct anthropic_out *s = e->state;
    if (s->is_ended || transcript_note(&s->transcript, ev, &e->keep))
        return;
    if (!e->o.is_stream)
        transcript_put(&s->transcript, ev, &e->keep);
    else if (ev->kind == EVENT_DONE)
        end(e, out);
    else
        stream_event(e, ev, out);
}

const struct encoder_ops anthropic_encoder = {.init = init, .event = one_event, .end = end, .begun = begun};

/* Messages answers (anthropic-messages.md 3, 5). Deltas name a block by its index; what the block is was told at its
 * start, so the running blocks are remembered. Tool blocks are numbered apart, 0, 1, … , as our events count them. */
#include "dialect/answer_impl.h"

#include "codec/json_tree.h"
#include "dialect/anthropic_usage.h"
#include "dialect/batch.h"
#include "dialect/classify.h"

enum block_kind { BLOCK_NONE, BLOCK_PLAIN, BLOCK_TOOL, BLOCK_SERVER_TOOL };
enum { BLOCKS_MAX = 4096 };

struct block {
    enum block_kind kind;
    bool has_input; /* TOOL: its start carried the whole input */
    uint16_t tool;
};

struct anthropic_state {
    bool has_start;
    struct block *blocks; /* by index on the wire */
    size_t n_blocks;
    uint16_t n_tools;
    struct usage usage;
};

struct reading {
    struct decoder *d;
    struct anthropic_state *s;
    struct batch batch;
};

static void init(struct decoder *d)
{
    _Static_assert(sizeof(struct anthropic_state) <= sizeof d->room, "it lies there");
    struct anthropic_state *s = memset(d->room, 0, sizeof *s);
    s->usage = USAGE_NONE;
    d->state = s;
}

static struct reading reading_of(struct decoder *d)
{
    return (struct reading){.d = d, .s = d->state, .batch = {.arena = &d->scratch}};
}

static void add_output(struct reading *r, enum event_kind kind, struct bytes text)
{
    if (text.n > 0)
        batch_add_output(&r->batch, kind, text);
}

static void add_other(struct reading *r, bool is_token)
{
    batch_add(&r->batch, EVENT_OTHER)->is_token = is_token;
}

static void add_complaint(struct reading *r, const struct complaint *c)
{
    classify_in_stream(c, anthropic_class_of, r->d->vendor, decoder_failure(r->d));
    batch_add(&r->batch, EVENT_ERROR)->failure = r->d->failure;
}

static void add_tree_complaint(struct reading *r, yyjson_val *root)
{
    struct complaint c;
    complaint_of_tree(root, &r->d->scratch, &c);
    add_complaint(r, &c);
}

/* ---- blocks ---- */

static struct block *block_at(struct reading *r, int64_t index)
{
    struct anthropic_state *s = r->s;
    if (index < 0 || index >= BLOCKS_MAX)
        return NULL;
    if ((size_t)index >= s->n_blocks) {
        size_t n = s->n_blocks ? s->n_blocks : 8;
        while (n <= (size_t)index)
            n *= 2;
        struct block *v = ARENA_ARRAY(&r->d->keep, struct block, n);
        if (s->n_blocks > 0)
            memcpy(v, s->blocks, s->n_blocks * sizeof *v);
        s->blocks = v;
        s->n_blocks = n;
    }
    return &s->blocks[index];
}

static void add_args(struct reading *r, const struct block *b, struct bytes text)
{
    if (text.n > 0)
        batch_add_output(&r->batch, EVENT_TOOL_ARGS, text)->tool = b->tool;
}

static void start_tool(struct reading *r, struct block *b, yyjson_val *cb)
{
    yyjson_val *input = yyjson_obj_get(cb, "input");
    b->kind = BLOCK_TOOL;
    b->tool = r->s->n_tools++;
    b->has_input = yyjson_obj_size(input) > 0;
    struct event *e = batch_add(&r->batch, EVENT_TOOL_START);
    e->tool = b->tool;
    e->id = json_tree_str(cb, "id");
    e->name = json_tree_str(cb, "name");
    e->text_bytes = (uint32_t)(e->name.n > UINT32_MAX ? UINT32_MAX : e->name.n);
    e->is_token = true;
    if (b->has_input)
        add_args(r, b, json_tree_text(input, &r->d->scratch));
}

static void add_citations(struct reading *r, yyjson_val *list)
{
    yyjson_val *one;
    size_t i, n;
    yyjson_arr_foreach(list, i, n, one) batch_add(&r->batch, EVENT_CITATION)->text =
        json_tree_text(one, &r->d->scratch);
}

/* A block at its start, or a whole one: the members that are there say the same either way. */
static void read_block(struct reading *r, struct block *b, yyjson_val *cb)
{
    struct bytes type = json_tree_str(cb, "type");
    *b = (struct block){.kind = BLOCK_PLAIN};
    if (bytes_is(type, "text")) {
        add_output(r, EVENT_TEXT, json_tree_str(cb, "text"));
        add_citations(r, yyjson_obj_get(cb, "citations"));
    } else if (bytes_is(type, "thinking")) {
        add_output(r, EVENT_REASONING, json_tree_str(cb, "thinking"));
        struct bytes signature = json_tree_str(cb, "signature");
        if (signature.n > 0)
            batch_add(&r->batch, EVENT_SIGNATURE)->text = signature;
    } else if (bytes_is(type, "redacted_thinking")) {
        struct event *e = batch_add(&r->batch, EVENT_REDACTED);
        e->text = json_tree_str(cb, "data");
        e->is_token = true;
    } else if (bytes_is(type, "tool_use")) {
        start_tool(r, b, cb);
    } else {
        bool is_server = bytes_is(type, "server_tool_use") || bytes_is(type, "mcp_tool_use");
        b->kind = is_server ? BLOCK_SERVER_TOOL : BLOCK_PLAIN;
        add_other(r, is_server);
    }
}

static void read_delta(struct reading *r, const struct block *b, yyjson_val *delta)
{
    struct bytes type = json_tree_str(delta, "type");
    if (bytes_is(type, "text_delta")) {
        add_output(r, EVENT_TEXT, json_tree_str(delta, "text"));
    } else if (bytes_is(type, "thinking_delta")) {
        add_output(r, EVENT_REASONING, json_tree_str(delta, "thinking"));
    } else if (bytes_is(type, "signature_delta")) {
        struct event *e = batch_add(&r->batch, EVENT_SIGNATURE);
        e->text = json_tree_str(delta, "signature");
        e->is_token = e->text.n > 0;
    } else if (bytes_is(type, "input_json_delta")) {
        struct bytes piece = json_tree_str(delta, "partial_json");
        if (b != NULL && b->kind == BLOCK_TOOL && !b->has_input)
            add_args(r, b, piece);
        else
            add_other(r, b != NULL && b->kind == BLOCK_SERVER_TOOL && piece.n > 0);
    } else if (bytes_is(type, "citations_delta")) {
        batch_add(&r->batch, EVENT_CITATION)->text = json_tree_text(yyjson_obj_get(delta, "citation"), &r->d->scratch);
    } else {
        add_other(r, false);
    }
}

/* ---- the message ---- */

static void add_usage(struct reading *r, yyjson_val *told)
{
    if (!yyjson_is_obj(told) || !anthropic_usage_merge(told, &r->s->usage))
        return;
    struct event *e = batch_add(&r->batch, EVENT_USAGE);
    e->usage = r->s->usage;
    e->name = anthropic_usage_service(told);
}

/* Only the first counts: recorded streams have a second one, also in their middle. */
static void read_start(struct reading *r, yyjson_val *message)
{
    if (r->s->has_start) {
        add_other(r, false);
        return;
    }
    r->s->has_start = true;
    struct event *e = batch_add(&r->batch, EVENT_START);
    e->id = json_tree_str(message, "id");
    e->text = json_tree_str(message, "model");
    add_usage(r, yyjson_obj_get(message, "usage"));
}

static enum finish_reason finish_of(struct bytes word)
{
    static const struct {
        const char *word;
        enum finish_reason reason;
    } rows[] = {
        {"max_tokens", FINISH_LENGTH},      {"stop_sequence", FINISH_STOP_SEQUENCE},
        {"tool_use", FINISH_TOOL_CALLS},    {"pause_turn", FINISH_PAUSE},
        {"refusal", FINISH_CONTENT_FILTER}, {"model_context_window_exceeded", FINISH_CONTEXT_WINDOW},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (bytes_is(word, rows[i].word))
            return rows[i].reason;
    return FINISH_STOP;
}

/* `from` has stop_reason and stop_sequence: the message, or the delta of message_delta. */
static void read_finish(struct reading *r, yyjson_val *from, bool is_whole)
{
    struct bytes word = json_tree_str(from, "stop_reason");
    if (r->d->has_finish || (word.n == 0 && !is_whole))
        return;
    struct event *e = batch_add(&r->batch, EVENT_FINISH);
    e->reason = word.n > 0 ? finish_of(word) : r->s->n_tools > 0 ? FINISH_TOOL_CALLS : FINISH_STOP;
    e->name = json_tree_str(from, "stop_sequence");
    if (yyjson_is_obj(yyjson_obj_get(from, "stop_details")))
        e->text = json_tree_text(yyjson_obj_get(from, "stop_details"), &r->d->scratch);
}

static void read_named(struct reading *r, struct bytes type, yyjson_val *root)
{
    if (bytes_is(type, "message_start")) {
        read_start(r, yyjson_obj_get(root, "message"));
    } else if (bytes_is(type, "content_block_start")) {
        struct block *b = block_at(r, json_tree_int(root, "index", -1));
        if (b != NULL)
            read_block(r, b, yyjson_obj_get(root, "content_block"));
    } else if (bytes_is(type, "content_block_delta")) {
        read_delta(r, block_at(r, json_tree_int(root, "index", -1)), yyjson_obj_get(root, "delta"));
    } else if (bytes_is(type, "message_delta")) {
        add_usage(r, yyjson_obj_get(root, "usage"));
        read_finish(r, yyjson_obj_get(root, "delta"), false);
    } else if (bytes_is(type, "message_stop")) {
        batch_add(&r->batch, EVENT_DONE);
    } else if (bytes_is(type, "ping")) {
        batch_add(&r->batch, EVENT_PING);
    } else if (!bytes_is(type, "content_block_stop")) {
        add_other(r, false);
    }
}

static bool is_complaint(yyjson_val *root, struct bytes type, struct bytes name)
{
    yyjson_val *e = yyjson_obj_get(root, "error");
    bool is_empty =
        e == NULL || yyjson_is_null(e) || yyjson_is_false(e) || (yyjson_is_str(e) && yyjson_get_len(e) == 0);
    return bytes_is(type, "error") || bytes_is(name, "error") || !is_empty;
}

/* Data that is no JSON object. */
static void read_text(struct reading *r, const struct sse_event *ev, struct bytes data, struct decoded *out)
{
    if (bytes_is(ev->name, "error")) {
        struct complaint c;
        complaint_read(data, &r->d->scratch, &c);
        add_complaint(r, &c);
    } else if (data.n == 0 || bytes_is(data, "[DONE]")) {
        if (bytes_is(ev->name, "ping"))
            batch_add(&r->batch, EVENT_PING);
        else
            add_other(r, false);
    } else {
        out->is_malformed = true;
        out->why = "an event that is no JSON object";
    }
}

static void one_event(struct decoder *d, const struct sse_event *ev, struct decoded *out)
{
    struct reading r = reading_of(d);
    struct bytes data = bytes_trim(ev->data);
    yyjson_val *root;
    const char *copy;
    if (json_tree_parse_placed(data, d->max_depth, &d->scratch, &root, &copy) != ERR_OK || !yyjson_is_obj(root)) {
        read_text(&r, ev, data, out);
    } else {
        struct bytes type = json_tree_str(root, "type");
        if (is_complaint(root, type, ev->name))
            add_tree_complaint(&r, root);
        else
            read_named(&r, type.n > 0 ? type : ev->name, root);
        out->source = (struct mould_source){.data = data, .copy = copy}; /* deltas leave the blocks as they are */
    }
    batch_close(&r.batch, d, out);
}

static void read_message(struct reading *r, yyjson_val *root)
{
    yyjson_val *content = yyjson_obj_get(root, "content"), *cb;
    size_t i, n;
    read_start(r, root);
    yyjson_arr_foreach(content, i, n, cb)
    {
        struct block whole;
        if (yyjson_is_obj(cb))
            read_block(r, &whole, cb);
    }
    read_finish(r, root, true);
    batch_add(&r->batch, EVENT_DONE);
}

static void whole_body(struct decoder *d, struct bytes body, struct decoded *out)
{
    struct reading r = reading_of(d);
    yyjson_val *root;
    bool is_object =
        json_tree_borrow(bytes_trim(body), d->max_depth, &d->scratch, &root) == ERR_OK && yyjson_is_obj(root);
    if (is_object && is_complaint(root, json_tree_str(root, "type"), (struct bytes){0})) {
        add_tree_complaint(&r, root);
    } else if (is_object && yyjson_is_arr(yyjson_obj_get(root, "content"))) {
        read_message(&r, root);
    } else {
        out->is_malformed = true;
        out->why = is_object ? "an answer without content" : "a body that is no JSON object";
        return;
    }
    batch_close(&r.batch, d, out);
}

const struct decoder_ops anthropic_decoder = {.init = init, .event = one_event, .whole = whole_body};

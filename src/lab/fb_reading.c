#include "lab/fb_reading.h"

#include "codec/json_tree.h"
#include "lab/fb.h"

#include <stdio.h>

enum { EVENT_BYTES_MAX = 1 << 20, TEXT_BYTES_MAX = 1 << 20, BODY_BYTES_MAX = 1 << 20, DEPTH_MAX = 64 };

void fb_reading_init(struct fb_reading *r, struct judge_call *call)
{
    *r = (struct fb_reading){.call = call, .text.max = TEXT_BYTES_MAX, .body.max = BODY_BYTES_MAX};
    *call = (struct judge_call){0};
    sse_init(&r->sse, EVENT_BYTES_MAX);
}

void fb_reading_fini(struct fb_reading *r)
{
    if (r->call != NULL)
        sse_fini(&r->sse);
    buf_fini(&r->text);
    buf_fini(&r->body);
    arena_fini(&r->scratch);
    r->call = NULL;
}

void fb_reading_head(struct fb_reading *r, unsigned status, struct bytes content_type)
{
    r->call->status = status;
    /* What says nothing or something else is still tried as a stream: that is what was asked for. */
    r->is_stream = status >= 200 && status <= 299 && bytes_find_nocase(content_type, BYTES("json")) == SIZE_MAX;
}

static void keep_error(struct fb_reading *r, yyjson_val *error, const char *where)
{
    struct bytes text = yyjson_is_obj(error) ? json_tree_str(error, "message") : json_tree_bytes(error);
    struct bytes code = yyjson_is_obj(error) ? json_tree_str(error, "code") : (struct bytes){0};
    if (code.n == 0 && yyjson_is_obj(error))
        code = json_tree_str(error, "type");
    snprintf(r->call->error, sizeof r->call->error, "%s%s%.*s%s%.*s", where, *where != '\0' ? " " : "",
             (int)(code.n < 64 ? code.n : 64), code.n > 0 ? code.p : "", code.n > 0 && text.n > 0 ? ": " : "",
             (int)(text.n < 120 ? text.n : 120), text.n > 0 ? text.p : "");
}

/* What chunks and whole answers have in common. */
static void keep_facts(struct fb_reading *r, yyjson_val *root)
{
    struct bytes model = json_tree_str(root, "model");
    if (model.n > 0)
        snprintf(r->call->model, sizeof r->call->model, "%.*s", (int)(model.n < 63 ? model.n : 63), model.p);
    if (yyjson_obj_size(yyjson_obj_get(root, "usage")) > 0)
        r->call->has_usage = true;
}

static void keep_choice(struct fb_reading *r, yyjson_val *choice, const char *part, uint64_t at_us)
{
    struct bytes text = json_tree_str(yyjson_obj_get(choice, part), "content");
    struct bytes finish = json_tree_str(choice, "finish_reason");
    if (text.n > 0 && r->call->ttft_us == 0)
        r->call->ttft_us = at_us;
    buf_put(&r->text, text);
    if (finish.n > 0 && !bytes_is(finish, "error"))
        r->call->has_finish = true;
}

static bool is_error(yyjson_val *root, struct bytes name)
{
    yyjson_val *error = yyjson_obj_get(root, "error");
    return (error != NULL && !yyjson_is_null(error)) || bytes_is(name, "error");
}

static void on_event(struct fb_reading *r, const struct sse_event *ev, uint64_t at_us)
{
    yyjson_val *root, *choice;
    size_t i, n;
    if (!ev->has_data)
        return;
    if (bytes_is(bytes_trim(ev->data), "[DONE]")) {
        r->call->has_done = true;
        return;
    }
    struct arena_mark mark = arena_mark(&r->scratch);
    if (json_tree_parse(ev->data, DEPTH_MAX, &r->scratch, &root) != ERR_OK || !yyjson_is_obj(root)) {
        r->call->n_bad_events++;
    } else if (is_error(root, ev->name)) {
        if (!r->call->has_error)
            keep_error(r, yyjson_obj_get(root, "error") != NULL ? yyjson_obj_get(root, "error") : root,
                       "in the stream:");
        r->call->has_error = true;
    } else {
        keep_facts(r, root);
        yyjson_arr_foreach(yyjson_obj_get(root, "choices"), i, n, choice) keep_choice(r, choice, "delta", at_us);
    }
    arena_reset(&r->scratch, mark);
}

bool fb_reading_is_through(const struct fb_reading *r)
{
    return r->call->has_done || r->is_lost;
}

void fb_reading_body(struct fb_reading *r, struct bytes part, uint64_t at_us)
{
    struct sse_event ev;
    enum sse_result result;
    if (!r->is_stream) {
        buf_put(&r->body, part);
        return;
    }
    if (fb_reading_is_through(r))
        return;
    sse_feed(&r->sse, part);
    while (!fb_reading_is_through(r) && (result = sse_next(&r->sse, &ev)) != SSE_MORE) {
        if (result == SSE_EVENT)
            on_event(r, &ev, at_us);
        else if (result == SSE_TOO_LARGE)
            r->is_lost = true;
    }
}

static void read_whole(struct fb_reading *r)
{
    struct judge_call *c = r->call;
    yyjson_val *root = NULL;
    bool is_json = json_tree_parse(buf_bytes(&r->body), DEPTH_MAX, &r->scratch, &root) == ERR_OK && yyjson_is_obj(root);
    char where[24] = "";
    if (c->status < 200 || c->status > 299)
        snprintf(where, sizeof where, "HTTP %u", c->status);
    if (is_json && is_error(root, BYTES(""))) {
        keep_error(r, yyjson_obj_get(root, "error"), where);
        c->has_error = true;
    } else if (*where != '\0') {
        snprintf(c->error, sizeof c->error, "%s", where);
    } else if (is_json) {
        keep_facts(r, root);
        keep_choice(r, yyjson_arr_get_first(yyjson_obj_get(root, "choices")), "message", 0);
    } else {
        /* Any client library raises on it. */
        c->is_broken = true;
        snprintf(c->error, sizeof c->error, "the body of a 200 is no JSON");
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Counts the words and compares them, one blank between two, with the sixty. */
static void compare_text(struct fb_reading *r)
{
    struct bytes text = buf_bytes(&r->text), wanted = bytes_of(fb_words);
    bool is_right = !r->text.overflow;
    unsigned n = 0;
    for (size_t at = 0; at < text.n;) {
        size_t end = at;
        while (end < text.n && !is_blank(text.p[end]))
            end++;
        if (end > at) {
            n++;
            is_right = is_right && wanted.p != NULL && bytes_eq(bytes_slice(text, at, end), bytes_cut(&wanted, ' '));
        }
        at = end + 1;
    }
    r->call->n_words = n;
    r->call->is_text_right = is_right && n == FB_N_WORDS;
}

void fb_reading_end(struct fb_reading *r, const char *broken)
{
    struct judge_call *c = r->call;
    struct sse_event ev;
    if (r->is_lost && broken == NULL)
        broken = "an event of the stream is larger than 1 MB";
    if (r->is_stream && !fb_reading_is_through(r) && sse_end(&r->sse, &ev))
        on_event(r, &ev, 0);
    if (broken != NULL && !c->has_done) {
        c->is_broken = true;
        if (c->error[0] == '\0')
            snprintf(c->error, sizeof c->error, "%s", broken);
    } else if (!r->is_stream && c->status != 0) {
        read_whole(r);
    }
    compare_text(r);
}

#include "dialect/complaint.h"

#include "model/failure.h"

enum { DEPTH_MAX = 64, EXCERPT_BYTES = 200 };

/* A string, or a number as it is written. */
static struct bytes word_of(yyjson_val *v, struct arena *a)
{
    if (yyjson_is_str(v))
        return json_tree_bytes(v);
    return yyjson_is_raw(v) || yyjson_is_num(v) ? json_tree_text(v, a) : (struct bytes){0};
}

static struct bytes word(yyjson_val *object, const char *name, struct arena *a)
{
    return word_of(yyjson_obj_get(object, name), a);
}

static struct bytes first(struct bytes a, struct bytes b)
{
    return a.n > 0 ? a : b;
}

static unsigned status_of(struct bytes number)
{
    uint64_t v;
    return bytes_to_u64(number, &v) && v >= 400 && v <= 599 ? (unsigned)v : 0;
}

static unsigned told_status(const struct complaint *c, struct arena *a)
{
    const struct bytes words[] = {
        word(c->error, "status_code", a), word(c->root, "status_code", a), c->code,
        word(c->error, "status", a),      word(c->root, "status", a),      word(c->root, "code", a),
    };
    for (size_t i = 0; i < RM_COUNTOF(words); i++)
        if (status_of(words[i]) != 0)
            return status_of(words[i]);
    return 0;
}

/* FastAPI: {"detail":[{"loc":["body","temperature"],"msg":"…","type":"…"}]} */
static void read_detail_list(yyjson_val *list, struct arena *a, struct complaint *out)
{
    yyjson_val *first_item = yyjson_arr_get_first(list);
    yyjson_val *loc = yyjson_obj_get(first_item, "loc");
    out->message = first(word(first_item, "msg", a), word_of(first_item, a));
    out->type = word(first_item, "type", a);
    out->param = json_tree_bytes(yyjson_arr_get_last(loc));
}

static void read_detail(yyjson_val *detail, struct arena *a, struct complaint *out)
{
    if (yyjson_is_arr(detail))
        read_detail_list(detail, a, out);
    else if (yyjson_is_obj(detail))
        out->message = word(detail, "message", a);
    else
        out->message = json_tree_bytes(detail);
}

/* error is an object, a string, or absent: then the flat forms. */
static void read_message(yyjson_val *root, struct arena *a, struct complaint *out)
{
    yyjson_val *e = yyjson_obj_get(root, "error"), *detail = yyjson_obj_get(root, "detail");
    if (yyjson_is_obj(e)) {
        out->error = e;
        out->message = first(word(e, "message", a), word(e, "error", a));
        return;
    }
    out->error = root;
    if (yyjson_is_str(e) && yyjson_get_len(e) > 0)
        out->message = json_tree_bytes(e);
    else if (yyjson_is_str(yyjson_obj_get(root, "message")))
        out->message = word(root, "message", a);
    else if (yyjson_is_obj(yyjson_obj_get(root, "message")))
        read_detail(yyjson_obj_get(yyjson_obj_get(root, "message"), "detail"), a, out);
    else if (detail != NULL)
        read_detail(detail, a, out);
    else
        out->message = word(yyjson_arr_get_first(yyjson_obj_get(root, "errors")), "message", a);
}

static void read_words(struct arena *a, struct complaint *out)
{
    yyjson_val *e = out->error;
    struct bytes type = first(word(e, "type", a), word(e, "error_type", a));
    struct bytes status = json_tree_str(e, "status");
    if (bytes_is(type, "error"))
        type = (struct bytes){0};
    out->type = first(out->type, first(type, status));
    out->code = first(word(e, "code", a), word(out->root, "code", a));
    out->param = first(out->param, word(e, "param", a));
    out->detail = first(
        word(yyjson_obj_get(e, "details"), "error_code", a),
        first(word(yyjson_obj_get(e, "metadata"), "error_type", a), word(yyjson_obj_get(e, "innererror"), "code", a)));
}

/* OpenRouter keeps what the host behind it said in metadata.raw: it says more than "Provider returned error". */
static struct bytes text_of(const struct complaint *c, struct arena *a)
{
    struct bytes raw = word(yyjson_obj_get(c->error, "metadata"), "raw", a);
    if (raw.n == 0)
        return c->message;
    return arena_printf(a, "%.*s %.*s", (int)(c->message.n > 1000 ? 1000 : c->message.n),
                        c->message.n ? c->message.p : "", (int)(raw.n > 1000 ? 1000 : raw.n), raw.p);
}

static bool has_markup(struct bytes text)
{
    static const char *const tags[] = {"<!doctype", "<html", "<head", "<body", "<script", "<title", "<center", "<h1"};
    for (size_t i = 0; i < RM_COUNTOF(tags); i++)
        if (bytes_find_nocase(text, bytes_of(tags[i])) != SIZE_MAX)
            return true;
    return false;
}

void complaint_of_tree(yyjson_val *root, struct arena *a, struct complaint *out)
{
    *out = (struct complaint){.is_json = true};
    if (yyjson_is_arr(root))
        root = yyjson_arr_get_first(root);
    out->root = root;
    read_message(root, a, out);
    read_words(a, out);
    out->told = told_status(out, a);
    if (has_markup(out->message))
        out->message = (struct bytes){0};
    out->text = text_of(out, a);
}

void complaint_read(struct bytes body, struct arena *a, struct complaint *out)
{
    yyjson_val *root;
    body = bytes_trim(body);
    if (json_tree_parse(body, DEPTH_MAX, a, &root) == ERR_OK && (yyjson_is_obj(root) || yyjson_is_arr(root))) {
        complaint_of_tree(root, a, out);
        return;
    }
    *out = (struct complaint){.is_html = bytes_find_byte(body, '<') != SIZE_MAX};
    if (out->is_html)
        return;
    out->text = bytes_slice(body, 0, 512);
    char excerpt[EXCERPT_BYTES + 1];
    failure_text(excerpt, sizeof excerpt, body);
    out->message = arena_dup(a, bytes_of(excerpt));
}

bool complaint_says(const struct complaint *c, const char *pattern)
{
    return bytes_find_nocase(c->text, bytes_of(pattern)) != SIZE_MAX;
}

bool complaint_is(const struct complaint *c, const char *w)
{
    struct bytes b = bytes_of(w);
    return bytes_eq_nocase(c->code, b) || bytes_eq_nocase(c->type, b) || bytes_eq_nocase(c->detail, b);
}

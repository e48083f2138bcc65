/* Small things that the parsers and renderers of requests share. */
#include "dialect/request_impl.h"

enum { DROPPED_MAX = 16 };

struct bytes number_text(yyjson_val *v)
{
    if (!yyjson_is_raw(v))
        return (struct bytes){NULL, 0};
    return bytes_from(yyjson_get_raw(v), yyjson_get_len(v));
}

static bool is_texty(const struct part *p)
{
    return (p->kind == PART_TEXT || p->kind == PART_REFUSAL) && p->text.n > 0;
}

struct bytes parts_text(const struct part *parts, size_t n, const char *glue, struct arena *a)
{
    size_t n_bytes = 0, n_glue = strlen(glue), at = 0;
    for (size_t i = 0; i < n; i++)
        n_bytes += is_texty(&parts[i]) ? parts[i].text.n + n_glue : 0;
    char *text = arena_alloc(a, n_bytes + 1);
    for (size_t i = 0; i < n; i++) {
        if (!is_texty(&parts[i]))
            continue;
        if (at > 0) {
            memcpy(text + at, glue, n_glue);
            at += n_glue;
        }
        memcpy(text + at, parts[i].text.p, parts[i].text.n);
        at += parts[i].text.n;
    }
    return bytes_from(text, at);
}

enum err body_tree(struct bytes body, unsigned max_depth, struct arena *a, yyjson_val **root, const char **why)
{
    enum err e = json_tree_parse(body, max_depth, a, root);
    if (e == ERR_OK && yyjson_is_obj(*root))
        return ERR_OK;
    *why = e == ERR_LIMIT ? "the body is nested too deep" : "the body is not one well-formed JSON object";
    return e == ERR_OK ? ERR_TYPE : e;
}

static bool is_among(struct bytes name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (bytes_is(name, *list))
            return true;
    return false;
}

/* Safe to stand in a header, and short. */
static bool is_printable_name(struct bytes name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        if (!is_word && c != '-' && c != '.')
            return false;
    }
    return name.n > 0 && name.n <= 48;
}

void note_dropped(yyjson_val *root, const char *const *known, struct arena *a, struct request *r)
{
    struct bytes *list = ARENA_ARRAY(a, struct bytes, DROPPED_MAX);
    size_t n = 0, at, end;
    yyjson_val *key, *value;
    yyjson_obj_foreach(root, at, end, key, value)
    {
        struct bytes name = json_tree_bytes(key);
        if (n < DROPPED_MAX && !yyjson_is_null(value) && !is_among(name, known) && is_printable_name(name))
            list[n++] = name;
    }
    r->dropped = list;
    r->n_dropped = n;
}

void note_more_dropped(struct request *r, struct bytes name, struct arena *a)
{
    struct bytes *list = ARENA_ARRAY(a, struct bytes, r->n_dropped + 1);
    for (size_t i = 0; i < r->n_dropped; i++)
        list[i] = r->dropped[i];
    list[r->n_dropped++] = name;
    r->dropped = list;
}

bool data_url_split(struct bytes url, struct bytes *media_type, struct bytes *data)
{
    if (url.n < 5 || !bytes_eq_nocase(bytes_slice(url, 0, 5), BYTES("data:")))
        return false;
    size_t comma = bytes_find_byte(url, ',');
    if (comma == SIZE_MAX)
        return false;
    struct bytes head = bytes_slice(url, 5, comma);
    if (!bytes_ends_with(head, BYTES(";base64")))
        return false;
    *media_type = bytes_cut(&head, ';');
    *data = bytes_slice(url, comma + 1, url.n);
    return true;
}

/* ---- tool ids ---- */

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool id_fits(struct bytes id, enum id_rule rule)
{
    size_t longest = rule == ID_NINE ? 9 : rule == ID_CHAT ? 40 : 128;
    if (id.n == 0 || id.n > longest || (rule == ID_NINE && id.n != 9))
        return false;
    for (size_t i = 0; i < id.n; i++) {
        bool is_good = is_alnum(id.p[i]) || (rule != ID_NINE && (id.p[i] == '_' || id.p[i] == '-')) ||
                       (rule == ID_CHAT && id.p[i] > 0x20 && id.p[i] < 0x7f);
        if (!is_good)
            return false;
    }
    return true;
}

struct bytes tool_id_fit(struct bytes id, enum id_rule rule, struct arena *a)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if (id_fits(id, rule))
        return id;
    uint64_t h = bytes_hash(id, 0);
    if (rule != ID_NINE)
        return arena_printf(a, "%s_%016llx", rule == ID_WORD ? "toolu" : "call", (unsigned long long)h);
    char *text = arena_alloc(a, 10);
    for (int i = 0; i < 9; i++, h /= 62)
        text[i] = digits[h % 62];
    return bytes_from(text, 9);
}

#include "codec/json_tree.h"

#include "codec/json_run.h"

static void *take(void *ctx, size_t size)
{
    return arena_alloc_raw(ctx, size);
}

static void *grow(void *ctx, void *p, size_t old_size, size_t size)
{
    if (size <= old_size)
        return p;
    void *q = arena_alloc_raw(ctx, size);
    memcpy(q, p, old_size);
    return q;
}

static void give_back(void *ctx, void *p)
{
    (void)ctx;
    (void)p; /* the arena takes it all at once */
}

static yyjson_alc allocator(struct arena *a)
{
    return (yyjson_alc){.malloc = take, .realloc = grow, .free = give_back, .ctx = a};
}

/* Brackets outside strings, deep enough to matter: the parser itself does not recurse, but our readers might. */
static bool is_deeper_than(struct bytes text, unsigned max_depth)
{
    unsigned depth = 0;
    bool in_string = false;
    if (json_count_openings(text, max_depth) <= max_depth)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > max_depth)
                return true;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

/* yyjson puts the strings where they stand in its input, when that may be written to. */
enum err json_tree_parse_placed(struct bytes text, unsigned max_depth, struct arena *arena, yyjson_val **root,
                                const char **copy)
{
    if (text.n == 0)
        return ERR_SYNTAX;
    if (is_deeper_than(text, max_depth))
        return ERR_LIMIT;
    yyjson_alc alc = allocator(arena);
    char *input = arena_alloc_raw(arena, text.n + YYJSON_PADDING_SIZE);
    memcpy(input, text.p, text.n);
    memset(input + text.n, 0, YYJSON_PADDING_SIZE);
    yyjson_doc *doc = yyjson_read_opts(input, text.n, YYJSON_READ_INSITU | YYJSON_READ_NUMBER_AS_RAW, &alc, NULL);
    if (doc == NULL)
        return ERR_SYNTAX;
    *root = yyjson_doc_get_root(doc);
    *copy = input;
    return ERR_OK;
}

enum err json_tree_parse(struct bytes text, unsigned max_depth, struct arena *arena, yyjson_val **root)
{
    const char *copy;
    return json_tree_parse_placed(text, max_depth, arena, root, &copy);
}

size_t json_tree_fault(struct bytes text, const char **what)
{
    struct arena scratch = {0};
    yyjson_alc alc = allocator(&scratch);
    yyjson_read_err fault = {0};
    *what = "it is well-formed";
    yyjson_read_opts((char *)(uintptr_t)text.p, text.n, YYJSON_READ_NUMBER_AS_RAW, &alc, &fault);
    arena_fini(&scratch);
    if (fault.code != YYJSON_READ_SUCCESS)
        *what = fault.msg;
    return fault.pos;
}

struct bytes json_tree_text(const yyjson_val *v, struct arena *arena)
{
    yyjson_alc alc = allocator(arena);
    size_t n = 0;
    char *p = yyjson_val_write_opts(v, YYJSON_WRITE_NOFLAG, &alc, &n, NULL);
    if (p == NULL)
        return BYTES("null");
    return bytes_from(p, n);
}

struct bytes json_tree_bytes(yyjson_val *v)
{
    if (!yyjson_is_str(v))
        return (struct bytes){NULL, 0};
    return bytes_from(yyjson_get_str(v), yyjson_get_len(v));
}

yyjson_val *json_tree_member(yyjson_val *object, struct bytes name)
{
    return yyjson_obj_getn(object, name.p, name.n);
}

/* Text of a JSON number -> whole number; "1e2" and "5.0" are whole. */
static bool whole_number(struct bytes t, int64_t *out)
{
    if (bytes_to_i64(t, out))
        return true;
    bool minus = t.n > 0 && t.p[0] == '-';
    size_t i = minus ? 1 : 0;
    uint64_t mantissa = 0;
    int64_t exponent = 0;
    bool in_fraction = false;
    for (; i < t.n && t.p[i] != 'e' && t.p[i] != 'E'; i++) {
        if (t.p[i] == '.') {
            in_fraction = true;
            continue;
        }
        if (t.p[i] < '0' || t.p[i] > '9' || mantissa > UINT64_MAX / 100)
            return false;
        mantissa = mantissa * 10 + (uint64_t)(t.p[i] - '0');
        exponent -= in_fraction;
    }
    if (i < t.n) {
        struct bytes e = bytes_slice(t, i + 1, t.n);
        int64_t told;
        if (e.n > 0 && e.p[0] == '+')
            e = bytes_slice(e, 1, e.n);
        if (!bytes_to_i64(e, &told) || told > 400 || told < -400)
            return false;
        exponent += told;
    }
    for (; exponent > 0 && mantissa != 0; exponent--) {
        if (mantissa > (uint64_t)INT64_MAX / 10)
            return false;
        mantissa *= 10;
    }
    for (; exponent < 0 && mantissa != 0; exponent++) {
        if (mantissa % 10 != 0)
            return false;
        mantissa /= 10;
    }
    if (mantissa > (uint64_t)INT64_MAX)
        return false;
    *out = minus ? -(int64_t)mantissa : (int64_t)mantissa;
    return true;
}

bool json_tree_to_int(yyjson_val *v, int64_t *out)
{
    if (yyjson_is_raw(v))
        return whole_number(bytes_from(yyjson_get_raw(v), yyjson_get_len(v)), out);
    if (yyjson_is_int(v)) {
        *out = yyjson_get_sint(v);
        return true;
    }
    return false;
}

int64_t json_tree_number(yyjson_val *v, int64_t none)
{
    int64_t n;
    return json_tree_to_int(v, &n) ? n : none;
}

bool json_tree_bool(yyjson_val *object, const char *name, bool none)
{
    yyjson_val *v = yyjson_obj_get(object, name);
    return yyjson_is_bool(v) ? yyjson_get_bool(v) : none;
}

/* The price book: a flat list of (name, span of days, rates), searched in order. Some dozens of rows read at config
 * load only, so a list is enough.
 *
 * A name is "vendor/model" or a bare "model". A bare name stands for the maker's own service: an entry that names its
 * vendor is not found by it for another known vendor, because a reseller's price is his own and a wrong price is worse
 * than none. */
#include "base/arena.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/text.h"
#include "codec/json_tree.h"
#include "price/builtin.h"
#include "price/price.h"

enum { DEPTH_MAX = 8, ENTRIES_MAX = 100000, NAMES_MAX = 64 };

struct entry {
    struct bytes *names;
    size_t n_names;
    struct bytes vendor; /* the maker; n 0 = any */
    int64_t from_ms;     /* first moment at which it holds */
    int64_t until_ms;    /* first moment at which it no longer holds */
    struct price price;
};

struct price_book {
    struct arena arena;
    struct entry *entries;
    size_t n;
};

static const char *member_text(struct arena *a, yyjson_val *o, const char *name, const char *none)
{
    struct bytes text = json_tree_str(o, name);
    return text.p == NULL ? none : arena_dup(a, text).p;
}

/* A rate as decimal text; absent = -1. */
static bool read_rate(yyjson_val *o, const char *name, int64_t *out)
{
    *out = -1;
    if (yyjson_obj_get(o, name) == NULL)
        return true;
    struct bytes text = json_tree_str(o, name);
    return text.p != NULL && text_price(text, out);
}

/* "2026-08-31" -> the moment that day begins, or with `after` the moment it is over; absent = none. */
static bool read_day(struct arena *a, yyjson_val *o, const char *name, bool after, int64_t none, int64_t *out)
{
    *out = none;
    struct bytes day = json_tree_str(o, name);
    if (day.p == NULL)
        return yyjson_obj_get(o, name) == NULL;
    if (day.n != 10 || !text_time_parse(arena_printf(a, "%sT00:00:00Z", arena_dup(a, day).p), out))
        return false;
    if (after)
        *out += INT64_C(24) * 3600 * 1000;
    return true;
}

static bool read_names(struct arena *a, yyjson_val *list, struct entry *e)
{
    size_t n = yyjson_arr_size(list);
    if (n == 0 || n > NAMES_MAX)
        return false;
    e->names = ARENA_ARRAY(a, struct bytes, n);
    for (size_t i = 0; i < n; i++) {
        yyjson_val *name = yyjson_arr_get(list, i);
        if (!yyjson_is_str(name) || yyjson_get_len(name) == 0)
            return false;
        e->names[e->n_names++] = arena_dup(a, json_tree_bytes(name));
    }
    return true;
}

static const char *read_entry(struct arena *a, yyjson_val *o, const char *version, struct entry *e)
{
    if (!yyjson_is_obj(o))
        return "an entry is not an object";
    if (!read_names(a, yyjson_obj_get(o, "names"), e))
        return "an entry has no names";
    struct price *p = &e->price;
    if (!read_rate(o, "input", &p->input) || !read_rate(o, "output", &p->output) ||
        !read_rate(o, "cache_read", &p->cache_read) || !read_rate(o, "cache_write_5m", &p->cache_write_5m) ||
        !read_rate(o, "cache_write_1h", &p->cache_write_1h))
        return "a rate is not decimal text of USD per million tokens";
    if (p->input < 0 && p->output < 0)
        return "an entry has neither an input nor an output rate";
    if (!read_day(a, o, "valid_from", false, INT64_MIN, &e->from_ms) ||
        !read_day(a, o, "valid_until", true, INT64_MAX, &e->until_ms))
        return "a day is not written as 2026-08-31";
    e->vendor = arena_dup(a, json_tree_str(o, "vendor"));
    p->version = version;
    p->source = member_text(a, o, "source", "");
    return NULL;
}

static const char *read_book(struct price_book *b, yyjson_val *root)
{
    yyjson_val *list = yyjson_obj_get(root, "prices");
    const char *version = member_text(&b->arena, root, "version", NULL);
    if (version == NULL)
        return "the book has no version";
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) > ENTRIES_MAX)
        return "the book has no list of prices";
    b->entries = ARENA_ARRAY(&b->arena, struct entry, yyjson_arr_size(list));
    size_t i, n;
    yyjson_val *o;
    yyjson_arr_foreach(list, i, n, o)
    {
        const char *why = read_entry(&b->arena, o, version, &b->entries[b->n++]);
        if (why != NULL)
            return why;
    }
    return NULL;
}

enum err price_book_parse(struct bytes text, struct price_book **out, const char **why)
{
    RM_ASSERT(out != NULL && why != NULL);
    *out = NULL;
    *why = "not well-formed JSON";
    struct arena scratch = {0};
    struct price_book *b = mem_zalloc(sizeof *b);
    yyjson_val *root;
    enum err err = json_tree_parse(text, DEPTH_MAX, &scratch, &root);
    if (err == ERR_OK && (*why = read_book(b, root)) != NULL)
        err = ERR_TYPE;
    arena_fini(&scratch);
    if (err == ERR_OK)
        *out = b;
    else
        price_book_free(b);
    return err;
}

void price_book_free(struct price_book *b)
{
    if (b == NULL)
        return;
    arena_fini(&b->arena);
    mem_free(b);
}

struct price_book *price_book_builtin(void)
{
    struct price_book *b;
    const char *why;
    enum err err = price_book_parse(bytes_from(price_data, price_data_n), &b, &why);
    RM_ASSERT(err == ERR_OK);
    return b;
}

static bool has_name(const struct entry *e, struct bytes prefix, struct bytes model)
{
    for (size_t i = 0; i < e->n_names; i++) {
        struct bytes name = e->names[i];
        if (prefix.n == 0 && bytes_eq(name, model))
            return true;
        if (prefix.n > 0 && name.n == prefix.n + 1 + model.n && bytes_starts_with(name, prefix) &&
            name.p[prefix.n] == '/' && bytes_ends_with(name, model))
            return true;
    }
    return false;
}

static const struct price *find_named(const struct price_book *b, struct bytes prefix, struct bytes vendor,
                                      struct bytes model, int64_t wall_ms)
{
    bool is_other = vendor.n > 0 && !bytes_is(vendor, "generic");
    for (size_t i = 0; i < b->n; i++) {
        const struct entry *e = &b->entries[i];
        if (wall_ms < e->from_ms || wall_ms >= e->until_ms || !has_name(e, prefix, model))
            continue;
        if (prefix.n == 0 && is_other && e->vendor.n > 0 && !bytes_eq(e->vendor, vendor))
            continue;
        return &e->price;
    }
    return NULL;
}

const struct price *price_find(const struct price_book *b, const char *provider, const char *vendor, const char *model,
                               int64_t wall_ms)
{
    struct bytes by_provider = bytes_of(provider), by_vendor = bytes_of(vendor), name = bytes_of(model);
    const struct price *p = NULL;
    if (name.n == 0)
        return NULL;
    if (by_provider.n > 0)
        p = find_named(b, by_provider, by_vendor, name, wall_ms);
    if (p == NULL && by_vendor.n > 0)
        p = find_named(b, by_vendor, by_vendor, name, wall_ms);
    return p != NULL ? p : find_named(b, (struct bytes){0}, by_vendor, name, wall_ms);
}

size_t price_book_n(const struct price_book *b)
{
    return b->n;
}

/* The price book: a list of (names, service, span of days, rates), and a table from each name to the entries that have
 * it, in the order of the file: the first one that holds on the day is meant.
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
#include "price/service_class.h"

#include <stdio.h>

enum { DEPTH_MAX = 8, ENTRIES_MAX = 100000, NAMES_MAX = 64, TIERS_MAX = 32, NAME_BYTES_MAX = 512 };

struct entry {
    struct bytes vendor;  /* the maker; n 0 = any */
    struct bytes service; /* n 0 = the standard one */
    int64_t from_ms;      /* first moment at which it holds */
    int64_t until_ms;     /* first moment at which it no longer holds */
    struct price price;
};

/* One name of one entry. Open addressing; equal names follow each other in the order of the file. */
struct slot {
    struct bytes name; /* p NULL = free */
    const struct entry *entry;
};

struct price_book {
    struct arena arena;
    struct entry *entries;
    size_t n;
    struct slot *slots;
    size_t n_slots; /* a power of two, at least twice the names */
    const char *version;
};

/* ---- reading ---- */

struct reading {
    struct price_book *book;
    struct arena *a; /* the book's */
    struct bytes text;
    yyjson_val *root;
    struct buf *why;
};

static bool is_member_of(yyjson_val *o, const char *const *names, struct bytes *odd)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(o, i, n, key, value)
    {
        const char *const *at = names;
        while (*at != NULL && !bytes_is(json_tree_bytes(key), *at))
            at++;
        *odd = json_tree_bytes(key);
        if (*at == NULL)
            return false;
    }
    return true;
}

static const char *member_text(struct reading *r, yyjson_val *o, const char *name, const char *none)
{
    struct bytes text = json_tree_str(o, name);
    return text.p == NULL ? none : arena_dup(r->a, text).p;
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

bool price_day_parse(struct bytes day, bool after, int64_t *wall_ms)
{
    char whole[32];
    if (day.n != 10)
        return false;
    snprintf(whole, sizeof whole, "%.10sT00:00:00Z", day.p);
    if (!text_time_parse(bytes_of(whole), wall_ms))
        return false;
    *wall_ms += after ? INT64_C(24) * 3600 * 1000 : 0;
    return true;
}

/* A day of the entry; absent = as in the book's head. */
static bool read_day(struct reading *r, yyjson_val *o, const char *name, bool after, int64_t none, int64_t *out)
{
    *out = none;
    yyjson_val *v = yyjson_obj_get(o, name);
    v = v != NULL ? v : yyjson_obj_get(r->root, name);
    struct bytes day = json_tree_bytes(v);
    if (day.p == NULL)
        return v == NULL;
    return price_day_parse(day, after, out);
}

static const char *read_tier(yyjson_val *o, struct price_tier *t)
{
    static const char *const names[] = {"above",          "inclusive",      "input",     "output", "cache_read",
                                        "cache_write_5m", "cache_write_1h", "reasoning", NULL};
    struct bytes odd;
    if (!yyjson_is_obj(o) || !is_member_of(o, names, &odd))
        return "a tier is not an object of known members";
    t->above = json_tree_int(o, "above", -1);
    t->is_inclusive = json_tree_bool(o, "inclusive", false);
    if (t->above < 0)
        return "a tier has no \"above\"";
    if (!read_rate(o, "input", &t->input) || !read_rate(o, "output", &t->output) ||
        !read_rate(o, "cache_read", &t->cache_read) || !read_rate(o, "cache_write_5m", &t->cache_write_5m) ||
        !read_rate(o, "cache_write_1h", &t->cache_write_1h) || !read_rate(o, "reasoning", &t->reasoning))
        return "a rate of a tier is not decimal text of USD per million tokens";
    return NULL;
}

static const char *read_tiers(struct reading *r, yyjson_val *list, struct price_more *m)
{
    size_t n = yyjson_arr_size(list);
    if (!yyjson_is_arr(list) || n > TIERS_MAX)
        return "\"tiers\" is not a list, or too long";
    struct price_tier *tiers = ARENA_ARRAY(r->a, struct price_tier, n > 0 ? n : 1);
    for (size_t i = 0; i < n; i++) {
        const char *why = read_tier(yyjson_arr_get(list, i), &tiers[i]);
        if (why != NULL)
            return why;
        if (i > 0 && tiers[i].above <= tiers[i - 1].above)
            return "the tiers do not rise";
    }
    m->tiers = tiers;
    m->n_tiers = n;
    return NULL;
}

bool price_request_parse(struct bytes text, int64_t *pusd)
{
    struct bytes fraction = text, whole = bytes_cut(&fraction, '.');
    uint64_t usd, rest = 0;
    if (whole.p == NULL || !bytes_to_u64(whole, &usd) || usd > 1000000)
        return false;
    if (fraction.p != NULL && (fraction.n == 0 || fraction.n > 12 || !bytes_to_u64(fraction, &rest)))
        return false;
    for (size_t i = fraction.n; i < 12; i++)
        rest *= 10;
    *pusd = (int64_t)(usd * UINT64_C(1000000000000) + rest);
    return true;
}

static const char *read_more(struct reading *r, yyjson_val *o, struct price *p)
{
    yyjson_val *tiers = yyjson_obj_get(o, "tiers"), *request = yyjson_obj_get(o, "request");
    struct price_more m = {.reasoning = -1};
    if (!read_rate(o, "reasoning", &m.reasoning))
        return "\"reasoning\" is not decimal text of USD per million tokens";
    if (request != NULL && !price_request_parse(json_tree_bytes(request), &m.request))
        return "\"request\" is not decimal text of USD a request";
    const char *why = tiers != NULL ? read_tiers(r, tiers, &m) : NULL;
    if (why != NULL || (m.reasoning < 0 && m.request == 0 && m.n_tiers == 0))
        return why;
    struct price_more *more = ARENA_NEW(r->a, struct price_more);
    *more = m;
    p->more = more;
    return NULL;
}

static const char *read_rates(struct reading *r, yyjson_val *o, struct price *p)
{
    if (!read_rate(o, "input", &p->input) || !read_rate(o, "output", &p->output) ||
        !read_rate(o, "cache_read", &p->cache_read) || !read_rate(o, "cache_write_5m", &p->cache_write_5m) ||
        !read_rate(o, "cache_write_1h", &p->cache_write_1h))
        return "a rate is not decimal text of USD per million tokens";
    if (p->input < 0 && p->output < 0)
        return "neither an input nor an output rate";
    return read_more(r, o, p);
}

static const char *read_entry(struct reading *r, yyjson_val *o, struct entry *e)
{
    static const char *const names[] = {
        "names",          "vendor",         "service",    "input",       "output", "cache_read",
        "cache_write_5m", "cache_write_1h", "request",    "reasoning",   "tiers",  "version",
        "source",         "date",           "valid_from", "valid_until", "note",   NULL};
    struct bytes odd;
    if (!yyjson_is_obj(o))
        return "not an object";
    if (!is_member_of(o, names, &odd))
        return arena_printf(r->a, "unknown member \"%.40s\"", arena_dup(r->a, odd).p).p;
    struct price *p = &e->price;
    const char *why = read_rates(r, o, p);
    if (why != NULL)
        return why;
    if (!read_day(r, o, "valid_from", false, INT64_MIN, &e->from_ms) ||
        !read_day(r, o, "valid_until", true, INT64_MAX, &e->until_ms))
        return "a day is not written as 2026-08-31";
    e->vendor = arena_dup(r->a, json_tree_str(o, "vendor"));
    e->service = service_class_of(json_tree_str(o, "service"));
    e->service = bytes_is(e->service, "standard") ? (struct bytes){0} : arena_dup(r->a, e->service);
    p->version = member_text(r, o, "version", r->book->version);
    p->source = member_text(r, o, "source", member_text(r, r->root, "source", ""));
    return NULL;
}

/* ---- names ---- */

static size_t slot_of(const struct price_book *b, struct bytes name)
{
    return (size_t)bytes_hash(name, 0) & (b->n_slots - 1);
}

static void put_name(struct price_book *b, struct bytes name, const struct entry *e)
{
    size_t i = slot_of(b, name);
    while (b->slots[i].name.p != NULL)
        i = (i + 1) & (b->n_slots - 1);
    b->slots[i] = (struct slot){arena_dup(&b->arena, name), e};
}

static const char *read_names(struct reading *r, yyjson_val *o, const struct entry *e)
{
    yyjson_val *list = yyjson_obj_get(o, "names"), *name;
    size_t i, n = yyjson_is_arr(list) ? yyjson_arr_size(list) : 0;
    if (n == 0 || n > NAMES_MAX)
        return "no names";
    yyjson_arr_foreach(list, i, n, name)
    {
        struct bytes text = json_tree_bytes(name);
        if (text.n == 0 || text.n > NAME_BYTES_MAX)
            return "a name is not a text";
        put_name(r->book, text, e);
    }
    return NULL;
}

/* ---- the whole ---- */

/* The line on which entry i begins: the (i + 1)-th object at the third depth. */
static unsigned line_of(struct bytes text, size_t entry)
{
    unsigned line = 1, depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        line += c == '\n';
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
            if (depth == 3 && c == '{' && entry-- == 0)
                return line;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return line;
}

static void tell_entry(struct reading *r, size_t i, yyjson_val *o, const char *why)
{
    struct bytes name = json_tree_bytes(yyjson_arr_get_first(yyjson_obj_get(o, "names")));
    buf_printf(r->why, "line %u: price %zu", line_of(r->text, i), i + 1);
    if (name.n > 0)
        buf_printf(r->why, " (%.*s)", (int)(name.n > 40 ? 40 : name.n), name.p);
    buf_printf(r->why, ": %s", why);
}

static size_t count_names(yyjson_val *list)
{
    size_t i, n, sum = 0;
    yyjson_val *o;
    yyjson_arr_foreach(list, i, n, o) sum += yyjson_arr_size(yyjson_obj_get(o, "names"));
    return sum;
}

static void make_table(struct price_book *b, size_t n_names)
{
    b->n_slots = 16;
    while (b->n_slots < 2 * n_names)
        b->n_slots *= 2;
    b->slots = ARENA_ARRAY(&b->arena, struct slot, b->n_slots);
}

static bool read_book(struct reading *r)
{
    static const char *const names[] = {"version",    "source",      "date",   "note",
                                        "valid_from", "valid_until", "prices", NULL};
    struct price_book *b = r->book;
    yyjson_val *list = yyjson_obj_get(r->root, "prices"), *o;
    struct bytes odd = {0};
    b->version = member_text(r, r->root, "version", NULL);
    if (!is_member_of(r->root, names, &odd))
        buf_printf(r->why, "unknown member \"%.*s\"", (int)(odd.n > 40 ? 40 : odd.n), odd.p);
    else if (b->version == NULL)
        buf_puts(r->why, "the book has no version");
    else if (!yyjson_is_arr(list) || yyjson_arr_size(list) > ENTRIES_MAX)
        buf_puts(r->why, "the book has no list of prices, or a list that is too long");
    if (r->why->n > 0)
        return false;
    make_table(b, count_names(list));
    b->entries = ARENA_ARRAY(&b->arena, struct entry, yyjson_arr_size(list) + 1);
    size_t i, n;
    yyjson_arr_foreach(list, i, n, o)
    {
        struct entry *e = &b->entries[b->n++];
        const char *why = read_entry(r, o, e);
        why = why != NULL ? why : read_names(r, o, e);
        if (why != NULL) {
            tell_entry(r, i, o, why);
            return false;
        }
    }
    return true;
}

static void tell_syntax(struct bytes text, struct buf *why)
{
    const char *what;
    size_t at = json_tree_fault(text, &what);
    unsigned line = 1;
    for (size_t i = 0; i < at && i < text.n; i++)
        line += text.p[i] == '\n';
    buf_printf(why, "line %u: not well-formed JSON: %s", line, what);
}

enum err price_book_parse(struct bytes text, struct price_book **out, struct buf *why)
{
    RM_ASSERT(out != NULL && why != NULL);
    *out = NULL;
    struct arena scratch = {0};
    struct price_book *b = mem_zalloc(sizeof *b);
    struct buf told = {0};
    struct reading r = {.book = b, .a = &b->arena, .text = text, .why = &told};
    enum err err = json_tree_parse(text, DEPTH_MAX, &scratch, &r.root);
    if (err == ERR_LIMIT)
        buf_puts(&told, "nested too deeply");
    else if (err != ERR_OK)
        tell_syntax(text, &told);
    else if (!read_book(&r))
        err = ERR_TYPE;
    arena_fini(&scratch);
    if (err == ERR_OK)
        *out = b;
    else
        price_book_free(b);
    buf_put(why, buf_bytes(&told));
    buf_fini(&told);
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
    struct buf why = {0};
    enum err err = price_book_parse(bytes_from(price_data, price_data_n), &b, &why);
    RM_ASSERT(err == ERR_OK);
    return b;
}

size_t price_book_n(const struct price_book *b)
{
    return b->n;
}

const char *price_book_version(const struct price_book *b)
{
    return b->version;
}

const struct price *price_keep(const struct price *p, struct arena *a)
{
    struct price *kept = ARENA_NEW(a, struct price);
    *kept = *p;
    kept->version = arena_dup(a, bytes_of(p->version)).p;
    kept->source = arena_dup(a, bytes_of(p->source)).p;
    if (p->more == NULL)
        return kept;
    struct price_more *more = ARENA_NEW(a, struct price_more);
    *more = *p->more;
    struct price_tier *tiers = ARENA_ARRAY(a, struct price_tier, more->n_tiers > 0 ? more->n_tiers : 1);
    for (size_t i = 0; i < more->n_tiers; i++)
        tiers[i] = p->more->tiers[i];
    more->tiers = tiers;
    kept->more = more;
    return kept;
}

/* ---- finding ---- */

/* What is looked for. With `fare` nothing is ever found, and so all that there is gets there, whatever its class and
 * its time. */
struct quest {
    struct bytes provider, vendor, model, service;
    int64_t wall_ms;
    struct fare *fare; /* NULL = one price is looked for */
    struct arena *arena;
    unsigned layer;
};

static void take(const struct quest *q, const struct entry *e)
{
    const struct fare_span span = {.service = arena_dup(q->arena, e->service).p,
                                   .from_ms = e->from_ms,
                                   .until_ms = e->until_ms,
                                   .layer = q->layer,
                                   .price = price_keep(&e->price, q->arena)};
    fare_put(q->fare, q->arena, &span);
}

/* Catalogues have Google's models by its two doors. */
static bool is_same_house(struct bytes maker, struct bytes vendor)
{
    bool is_google = bytes_is(maker, "vertex") || bytes_is(maker, "gemini");
    return bytes_eq(maker, vendor) || (is_google && bytes_is(vendor, "google"));
}

static const struct price *find_name(const struct price_book *b, const struct quest *q, struct bytes name, bool is_bare)
{
    bool is_other = q->vendor.n > 0 && !bytes_is(q->vendor, "generic");
    for (size_t i = slot_of(b, name); b->slots[i].name.p != NULL; i = (i + 1) & (b->n_slots - 1)) {
        const struct entry *e = b->slots[i].entry;
        if (!bytes_eq(b->slots[i].name, name))
            continue;
        if (is_bare && is_other && e->vendor.n > 0 && !is_same_house(e->vendor, q->vendor))
            continue;
        if (q->fare != NULL)
            take(q, e);
        else if (bytes_eq(e->service, q->service) && q->wall_ms >= e->from_ms && q->wall_ms < e->until_ms)
            return &e->price;
    }
    return NULL;
}

static const struct price *find_prefixed(const struct price_book *b, const struct quest *q, struct bytes prefix)
{
    char name[2 * NAME_BYTES_MAX + 2];
    if (prefix.n == 0 || prefix.n > NAME_BYTES_MAX || q->model.n > NAME_BYTES_MAX)
        return NULL;
    memcpy(name, prefix.p, prefix.n);
    name[prefix.n] = '/';
    memcpy(name + prefix.n + 1, q->model.p, q->model.n);
    return find_name(b, q, bytes_from(name, prefix.n + 1 + q->model.n), false);
}

static const struct price *find_as_written(const struct price_book *b, const struct quest *q)
{
    const struct price *p = find_prefixed(b, q, q->provider);
    if (p == NULL)
        p = find_prefixed(b, q, q->vendor);
    return p != NULL ? p : find_name(b, q, q->model, true);
}

static struct bytes without_region(struct bytes model)
{
    static const char *const regions[] = {"us.", "eu.", "apac.", "jp.", "au.", "global.", "us-gov.", NULL};
    for (const char *const *r = regions; *r != NULL; r++)
        if (bytes_starts_with(model, bytes_of(*r)))
            return bytes_slice(model, strlen(*r), model.n);
    return model;
}

/* "-20250929", "-2025-09-29", "@20250929" at the end. */
struct bytes price_dateless(struct bytes model)
{
    static const char *const forms[] = {"-20dddddd", "@20dddddd", "-20dd-dd-dd", NULL};
    for (const char *const *f = forms; *f != NULL; f++) {
        size_t n = strlen(*f), i = 0;
        if (model.n <= n)
            continue;
        const char *end = model.p + model.n - n;
        while (i < n && ((*f)[i] == 'd' ? end[i] >= '0' && end[i] <= '9' : end[i] == (*f)[i]))
            i++;
        if (i == n)
            return bytes_slice(model, 0, model.n - n);
    }
    return model;
}

static const struct price *find_near(const struct price_book *b, struct quest q)
{
    const struct price *p = find_as_written(b, &q);
    struct bytes home = without_region(q.model), dateless = price_dateless(home);
    if (p == NULL && home.n != q.model.n) {
        q.model = home;
        p = find_as_written(b, &q);
    }
    if (p == NULL && dateless.n != home.n) {
        q.model = dateless;
        p = find_as_written(b, &q);
    }
    return p;
}

const struct price *price_find_service(const struct price_book *b, const char *provider, const char *vendor,
                                       const char *model, const char *service, int64_t wall_ms)
{
    struct quest q = {.provider = bytes_of(provider),
                      .vendor = bytes_of(vendor),
                      .model = bytes_of(model),
                      .service = bytes_of(service),
                      .wall_ms = wall_ms};
    if (q.model.n == 0)
        return NULL;
    const struct price *p = find_near(b, q);
    if (p != NULL || q.service.n == 0)
        return p;
    q.service = (struct bytes){0};
    return find_near(b, q);
}

const struct price *price_find(const struct price_book *b, const char *provider, const char *vendor, const char *model,
                               int64_t wall_ms)
{
    return price_find_service(b, provider, vendor, model, "", wall_ms);
}

void price_book_fare(const struct price_book *b, const char *provider, const char *vendor, const char *model,
                     unsigned layer, struct arena *a, struct fare *out)
{
    struct quest q = {.provider = bytes_of(provider),
                      .vendor = bytes_of(vendor),
                      .model = bytes_of(model),
                      .fare = out,
                      .arena = a,
                      .layer = layer};
    if (q.model.n > 0)
        (void)find_near(b, q);
}

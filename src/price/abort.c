/* The table is small and read once a load of the configuration, so that a walk over its rows finds fast enough. It is
 * strict: a row with an unknown member or word, or two for the same, is a fault. */
#include "price/abort.h"

#include "base/check.h"
#include "codec/json_tree.h"
#include "price/builtin.h"

enum { DEPTH_MAX = 4, ROWS_MAX = 1000 };

struct row {
    struct bytes vendor;  /* "*" = all */
    struct bytes dialect; /* n 0 = all */
    enum abort_when when;
    struct abort_billing billing;
};

struct abort_table {
    struct row *rows;
    size_t n;
};

static const char *const rule_words[] = {"input_and_generated", "input", "runs_on", "nothing", NULL};
static const char *const certainty_words[] = {"assumed", "observed", "documented", "configured", NULL};
static const char *const when_words[] = {"stream", "whole", "failed", NULL};

const char *abort_rule_word(enum abort_rule r)
{
    return rule_words[r];
}

const char *abort_certainty_word(enum abort_certainty c)
{
    return certainty_words[c];
}

const char *abort_words(struct abort_billing b)
{
#define EACH(text)                                                                        \
    {                                                                                     \
        text " (assumed)", text " (observed)", text " (documented)", text " (configured)" \
    }
    static const char *const words[ABORT_N_RULES][ABORT_N_CERTAINTIES] = {
        EACH("billed for input and output so far"), EACH("billed for input alone"),
        EACH("billed as if it ran on to its end"), EACH("not billed, being broken off")};
#undef EACH
    return words[b.rule][b.certainty];
}

/* ---- reading ---- */

static bool read_word(yyjson_val *o, const char *name, const char *const *words, unsigned *out)
{
    struct bytes text = json_tree_str(o, name);
    for (*out = 0; words[*out] != NULL; (*out)++)
        if (text.p != NULL && bytes_is(text, words[*out]))
            return true;
    return false;
}

static bool is_known_member(struct bytes name)
{
    static const char *const names[] = {"vendor", "dialect", "when", "rule", "certainty", "source", "date"};
    for (size_t i = 0; i < RM_COUNTOF(names); i++)
        if (bytes_is(name, names[i]))
            return true;
    return false;
}

static const char *check_members(yyjson_val *o)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(o))
        return "it is not an object";
    yyjson_obj_foreach(o, i, n, key, value)
    {
        if (!is_known_member(json_tree_bytes(key)))
            return "it has a member that is not known";
        if (json_tree_bytes(value).n == 0)
            return "a member is empty or not text";
    }
    if (json_tree_str(o, "source").p == NULL || json_tree_str(o, "date").p == NULL)
        return "it has no \"source\" or no \"date\"";
    return NULL;
}

static const char *read_row(yyjson_val *o, struct arena *a, struct row *out)
{
    unsigned when, rule, certainty;
    const char *why = check_members(o);
    if (why != NULL)
        return why;
    out->vendor = arena_dup(a, json_tree_str(o, "vendor"));
    out->dialect = arena_dup(a, json_tree_str(o, "dialect"));
    if (out->vendor.n == 0)
        return "it has no \"vendor\"";
    if (!read_word(o, "when", when_words, &when))
        return "\"when\" is none of stream, whole, failed";
    if (!read_word(o, "rule", rule_words, &rule))
        return "\"rule\" is none of input_and_generated, input, runs_on, nothing";
    if (!read_word(o, "certainty", certainty_words, &certainty) || certainty == ABORT_CONFIGURED)
        return "\"certainty\" is none of assumed, observed, documented";
    out->when = (enum abort_when)when;
    out->billing = (struct abort_billing){(enum abort_rule)rule, (enum abort_certainty)certainty};
    return NULL;
}

static const struct row *find_exact(const struct abort_table *t, struct bytes vendor, struct bytes dialect,
                                    enum abort_when when)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        if (r->when == when && bytes_eq(r->vendor, vendor) && bytes_eq(r->dialect, dialect))
            return r;
    }
    return NULL;
}

static const char *read_rows(yyjson_val *list, struct arena *a, struct abort_table *t, size_t *at)
{
    for (*at = 0; *at < yyjson_arr_size(list); (*at)++) {
        struct row row = {0};
        const char *why = read_row(yyjson_arr_get(list, *at), a, &row);
        if (why != NULL)
            return why;
        if (find_exact(t, row.vendor, row.dialect, row.when) != NULL)
            return "it is there twice";
        t->rows[t->n++] = row;
    }
    return NULL;
}

enum err abort_table_parse(struct bytes text, struct arena *arena, const struct abort_table **out, struct buf *why)
{
    yyjson_val *root;
    struct abort_table *t = ARENA_NEW(arena, struct abort_table);
    size_t at;
    if (json_tree_parse(text, DEPTH_MAX, arena, &root) != ERR_OK) {
        buf_puts(why, "it is not JSON");
        return ERR_SYNTAX;
    }
    yyjson_val *list = yyjson_obj_get(root, "rows");
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) > ROWS_MAX) {
        buf_puts(why, "\"rows\" is not a list, or too long");
        return yyjson_is_arr(list) ? ERR_LIMIT : ERR_SYNTAX;
    }
    t->rows = ARENA_ARRAY(arena, struct row, yyjson_arr_size(list) + 1);
    const char *odd = read_rows(list, arena, t, &at);
    if (odd != NULL) {
        buf_printf(why, "row %zu: %s", at + 1, odd);
        return ERR_SYNTAX;
    }
    for (unsigned when = 0; when < ABORT_N_WHENS; when++) {
        if (find_exact(t, BYTES("*"), (struct bytes){0}, (enum abort_when)when) != NULL)
            continue;
        buf_printf(why, "no row of \"*\" says what holds for %s", when_words[when]);
        return ERR_SYNTAX;
    }
    *out = t;
    return ERR_OK;
}

const struct abort_table *abort_table_builtin(struct arena *arena)
{
    const struct abort_table *t = NULL;
    struct buf why = {0};
    enum err err = abort_table_parse(bytes_from(abort_data, abort_data_n), arena, &t, &why);
    RM_ASSERT(err == ERR_OK);
    buf_fini(&why);
    return t;
}

struct abort_billing abort_find(const struct abort_table *t, const char *vendor, const char *dialect,
                                enum abort_when when)
{
    const struct row *r = find_exact(t, bytes_of(vendor), bytes_of(dialect), when);
    if (r == NULL)
        r = find_exact(t, bytes_of(vendor), (struct bytes){0}, when);
    if (r == NULL)
        r = find_exact(t, BYTES("*"), (struct bytes){0}, when);
    RM_ASSERT(r != NULL);
    return r->billing;
}

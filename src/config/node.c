/* libfyaml gives events; we keep a stack of open maps and lists. An alias is refused rather than followed: a file of
 * settings needs none (`defaults` is what they would be for), and so no small file can grow into a large tree. */
#include "config/node.h"

#include "codec/json_write.h"
#include "config/fault.h"
#include "config/yaml.h"

#include <limits.h>

struct builder {
    const struct yaml *yaml;
    struct arena *arena;
    struct fault_log *log;
    struct node *root;
    struct node *open[NODE_DEPTH_MAX];
    unsigned depth;
    struct node *key; /* read, its value not yet */
    bool failed;      /* over a bound: stop */
};

static void stop(struct builder *b, struct place at, const char *message)
{
    fault_error(b->log, at, "%s", message);
    b->failed = true;
}

static struct node *new_node(struct builder *b, enum node_kind kind, struct fy_token *token)
{
    struct node *n = ARENA_NEW(b->arena, struct node);
    n->kind = kind;
    const struct fy_mark *mark = token == NULL ? NULL : b->yaml->token_start_mark(token);
    if (mark != NULL) {
        n->line = (unsigned)mark->line + 1;
        n->column = (unsigned)mark->column + 1;
    }
    return n;
}

static void note_duplicate(struct builder *b, const struct node *map, const struct node *key)
{
    NODE_EACH(map, item)
    {
        if (!bytes_eq(item->key, key->raw))
            continue;
        fault_error(b->log, place_of(key), "\"%s\" stands twice; the first is on line %u",
                    fault_quote(b->log, key->raw), item->key_line);
        return;
    }
}

static void add_item(struct builder *b, struct node *n)
{
    if (b->depth == 0) {
        b->root = n;
        return;
    }
    struct node *parent = b->open[b->depth - 1];
    if (++parent->n > NODE_ITEMS_MAX) {
        stop(b, place_of(n), "more than 10000 items in one map or list");
        return;
    }
    if (parent->kind == NODE_MAP) {
        note_duplicate(b, parent, b->key);
        n->key = b->key->raw;
        n->key_line = b->key->line;
        n->key_column = b->key->column;
        if (n->line == 0) { /* nothing stands there: point to the key */
            n->line = n->key_line;
            n->column = n->key_column;
        }
        b->key = NULL;
    }
    if (parent->last != NULL)
        parent->last->next = n;
    else
        parent->first = n;
    parent->last = n;
}

static bool awaits_key(const struct builder *b)
{
    return b->depth > 0 && b->open[b->depth - 1]->kind == NODE_MAP && b->key == NULL;
}

static void open_collection(struct builder *b, enum node_kind kind, struct fy_token *token)
{
    struct node *n = new_node(b, kind, token);
    if (awaits_key(b)) {
        stop(b, place_of(n), "a key is text, not a map or a list");
        return;
    }
    if (b->depth == NODE_DEPTH_MAX) {
        stop(b, place_of(n), "nested too deep");
        return;
    }
    add_item(b, n);
    b->open[b->depth++] = n;
}

static void add_scalar(struct builder *b, struct fy_token *token)
{
    struct node *n = new_node(b, NODE_SCALAR, token);
    size_t length = 0;
    const char *text = token == NULL ? NULL : b->yaml->token_get_text(token, &length);
    n->raw = arena_dup(b->arena, bytes_from(text, text == NULL ? 0 : length));
    n->text = n->raw;
    enum fy_scalar_style style = token == NULL ? FYSS_PLAIN : b->yaml->token_scalar_style(token);
    n->is_plain = style == FYSS_PLAIN;
    if ((style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) && n->column > 1)
        n->column--; /* the mark stands behind the quote */
    if (!awaits_key(b)) {
        add_item(b, n);
        return;
    }
    if (n->raw.n > NODE_KEY_MAX)
        stop(b, place_of(n), "a key of more than 512 bytes");
    b->key = n;
}

static void refuse_token(struct builder *b, struct fy_token *token, const char *what)
{
    if (token == NULL)
        return;
    struct node at = *new_node(b, NODE_SCALAR, token);
    fault_error(b->log, place_of(&at), "%s", what);
}

static void refuse_marks(struct builder *b, struct fy_token *anchor, struct fy_token *tag)
{
    refuse_token(b, anchor,
                 "anchors (&name) and aliases (*name) are not read here; use `defaults` for what routes share");
    refuse_token(b, tag, "tags (!name) are not read here");
}

static void on_event(struct builder *b, struct fy_event *e)
{
    switch (e->type) {
    case FYET_DOCUMENT_START:
        if (b->root != NULL) {
            struct node at = *new_node(b, NODE_SCALAR, e->document_start.document_start);
            stop(b, place_of(&at), "a second document; one file holds one");
        }
        break;
    case FYET_MAPPING_START:
        refuse_marks(b, e->mapping_start.anchor, e->mapping_start.tag);
        open_collection(b, NODE_MAP, e->mapping_start.mapping_start);
        break;
    case FYET_SEQUENCE_START:
        refuse_marks(b, e->sequence_start.anchor, e->sequence_start.tag);
        open_collection(b, NODE_LIST, e->sequence_start.sequence_start);
        break;
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        RM_ASSERT(b->depth > 0);
        b->depth--;
        break;
    case FYET_SCALAR:
        refuse_marks(b, e->scalar.anchor, e->scalar.tag);
        add_scalar(b, e->scalar.value);
        break;
    case FYET_ALIAS:
        refuse_marks(b, e->alias.anchor, NULL);
        add_scalar(b, NULL);
        break;
    default:
        break;
    }
}

/* libfyaml's own report quotes the line of the file, which may hold a key: only its first line's message is kept, and
 * nothing goes to stderr. */
static void drop_report(struct fy_diag *diag, void *user, const char *text, size_t n)
{
}

static struct fy_diag *new_diag(const struct yaml *y)
{
    const struct fy_diag_cfg cfg = {.output_fn = drop_report, .level = FYET_ERROR, .module_mask = UINT_MAX};
    struct fy_diag *diag = y->diag_create(&cfg);
    RM_ASSERT(diag != NULL);
    y->diag_set_collect_errors(diag, true);
    return diag;
}

static void tell_syntax(struct builder *b, struct fy_diag *diag)
{
    void *at = NULL;
    struct fy_diag_error *e = b->yaml->diag_errors_iterate(diag, &at);
    if (e == NULL)
        fault_error(b->log, (struct place){0}, "not well-formed YAML");
    else
        fault_error(b->log, (struct place){(unsigned)e->line, (unsigned)e->column}, "not well-formed YAML: %s", e->msg);
}

static void build(struct builder *b, struct bytes text)
{
    struct fy_diag *diag = new_diag(b->yaml);
    struct fy_parse_cfg cfg = {.diag = diag,
                               .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DISABLE_RECYCLING | FYPCF_JSON_NONE |
                                        FYPCF_SLOPPY_FLOW_INDENTATION};
    struct fy_parser *parser = b->yaml->parser_create(&cfg);
    RM_ASSERT(parser != NULL);
    bool is_over = b->yaml->parser_set_string(parser, text.p, text.n) != 0;
    while (!is_over && !b->failed) {
        struct fy_event *e = b->yaml->parser_parse(parser);
        is_over = e == NULL || e->type == FYET_STREAM_END;
        if (e == NULL) {
            tell_syntax(b, diag);
            b->failed = true;
        } else {
            on_event(b, e);
        }
        b->yaml->parser_event_free(parser, e);
    }
    b->yaml->parser_destroy(parser);
    b->yaml->diag_destroy(diag);
}

/* Line and column of an offset, for faults that are found before the parser runs. */
static struct place place_at(struct bytes text, size_t offset)
{
    struct place at = {1, 1};
    for (size_t i = 0; i < offset; i++) {
        at.column = text.p[i] == '\n' ? 1 : at.column + 1;
        at.line += text.p[i] == '\n';
    }
    return at;
}

static bool is_readable(struct bytes text, struct fault_log *log)
{
    if (text.n > NODE_TEXT_MAX) {
        fault_error(log, (struct place){0}, "larger than 4 MiB");
        return false;
    }
    size_t nul = bytes_find_byte(text, '\0');
    if (nul != SIZE_MAX) {
        fault_error(log, place_at(text, nul), "a NUL byte; the file must be text");
        return false;
    }
    for (size_t at = 0; at < text.n;) {
        size_t n = bytes_find_byte(bytes_slice(text, at, text.n), '\n');
        size_t end = n == SIZE_MAX ? text.n : at + n + 1;
        if (!bytes_is_utf8(bytes_slice(text, at, end))) {
            fault_error(log, place_at(text, at), "not UTF-8");
            return false;
        }
        at = end;
    }
    return true;
}

struct node *node_parse(struct bytes text, struct arena *a, struct fault_log *log)
{
    if (bytes_starts_with(text, BYTES("\xef\xbb\xbf")))
        text = bytes_slice(text, 3, text.n);
    if (!is_readable(text, log))
        return NULL;
    struct yaml yaml;
    const char *why = yaml_open(&yaml);
    if (why != NULL) {
        fault_error(log, (struct place){0}, "cannot be read without libfyaml: %s", why);
        return NULL;
    }
    struct builder b = {.yaml = &yaml, .arena = a, .log = log};
    if (text.n > 0)
        build(&b, text);
    yaml_close(&yaml);
    if (b.failed)
        return NULL;
    if (b.root == NULL || node_is_empty(b.root)) {
        fault_error(log, (struct place){0}, "the file is empty; expected a map of settings");
        return NULL;
    }
    return b.root;
}

const struct node *node_get(const struct node *map, const char *key)
{
    if (map == NULL || map->kind != NODE_MAP)
        return NULL;
    NODE_EACH(map, item)
    if (bytes_is(item->key, key))
        return item;
    return NULL;
}

bool node_is_empty(const struct node *n)
{
    return n->kind == NODE_SCALAR && n->is_plain &&
           (n->raw.n == 0 || bytes_is(n->raw, "~") || bytes_is(n->raw, "null"));
}

const char *node_kind_text(const struct node *n)
{
    static const char *const words[] = {"text", "a map", "a list"};
    return node_is_empty(n) ? "nothing" : words[n->kind];
}

static size_t n_digits(struct bytes s, size_t at)
{
    size_t n = 0;
    while (at + n < s.n && s.p[at + n] >= '0' && s.p[at + n] <= '9')
        n++;
    return n;
}

/* RFC 8259, section 6. */
static bool is_json_number(struct bytes s)
{
    size_t at = s.n > 0 && s.p[0] == '-' ? 1 : 0;
    size_t n = n_digits(s, at);
    if (n == 0 || (n > 1 && s.p[at] == '0'))
        return false;
    at += n;
    if (at < s.n && s.p[at] == '.') {
        n = n_digits(s, at + 1);
        if (n == 0)
            return false;
        at += 1 + n;
    }
    if (at < s.n && (s.p[at] == 'e' || s.p[at] == 'E')) {
        at++;
        at += at < s.n && (s.p[at] == '+' || s.p[at] == '-') ? 1 : 0;
        n = n_digits(s, at);
        if (n == 0)
            return false;
        at += n;
    }
    return at == s.n;
}

static void write_scalar(const struct node *n, struct json_writer *w)
{
    bool is_word = bytes_is(n->text, "true") || bytes_is(n->text, "false") || is_json_number(n->text);
    if (node_is_empty(n))
        jw_null(w);
    else if (n->is_plain && is_word)
        jw_raw(w, n->text);
    else
        jw_string(w, n->text);
}

static void write_node(const struct node *n, struct json_writer *w)
{
    if (n->kind == NODE_SCALAR) {
        write_scalar(n, w);
        return;
    }
    if (n->kind == NODE_MAP)
        jw_object(w);
    else
        jw_array(w);
    NODE_EACH(n, item)
    {
        if (n->kind == NODE_MAP)
            jw_key_bytes(w, item->key);
        write_node(item, w); /* depth is bounded by NODE_DEPTH_MAX */
    }
    jw_end(w);
}

void node_json(const struct node *n, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    write_node(n, &w);
}

/* The bytes are ours, in an arena that is about to go. */
static void scrub_bytes(struct bytes b)
{
    if (b.n > 0)
        explicit_bzero((void *)(uintptr_t)b.p, b.n);
}

void node_scrub(struct node *n)
{
    scrub_bytes(n->raw);
    scrub_bytes(n->text);
    NODE_EACH(n, item)
    node_scrub(item);
}

/* Where the scan has noted the values, a step is a look at the next note. Else, and below the levels that are noted,
 * strings are skipped by memchr for the closing quote and a look back at the backslashes before it: the texts of a
 * prompt cost next to nothing, however often an outer level steps over them. */
#include "dialect/walk.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static size_t skip_blanks(struct bytes t, size_t at)
{
    while (at < t.n && is_blank(t.p[at]))
        at++;
    return at;
}

/* `at` is the opening quote; returns the offset after the closing one. */
static size_t string_end(struct bytes t, size_t at)
{
    size_t from = at + 1;
    while (from < t.n) {
        const char *quote = memchr(t.p + from, '"', t.n - from);
        if (quote == NULL)
            return t.n;
        size_t end = (size_t)(quote - t.p), slashes = 0;
        while (end - slashes > at + 1 && t.p[end - slashes - 1] == '\\')
            slashes++;
        if (slashes % 2 == 0)
            return end + 1;
        from = end + 1;
    }
    return t.n;
}

static size_t container_end(struct bytes t, size_t at)
{
    size_t depth = 0;
    while (at < t.n) {
        char c = t.p[at];
        if (c == '"') {
            at = string_end(t, at);
            continue;
        }
        at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return at;
    }
    return t.n;
}

static size_t value_end(struct bytes t, size_t at)
{
    if (at >= t.n)
        return t.n;
    if (t.p[at] == '"')
        return string_end(t, at);
    if (t.p[at] == '{' || t.p[at] == '[')
        return container_end(t, at);
    while (at < t.n && t.p[at] != ',' && t.p[at] != '}' && t.p[at] != ']' && !is_blank(t.p[at]))
        at++;
    return at;
}

struct walk walk_of(struct bytes value)
{
    struct walk w = {.text = value};
    w.is_object = value.n > 0 && value.p[0] == '{';
    w.at = w.is_object || (value.n > 0 && value.p[0] == '[') ? 1 : value.n;
    return w;
}

bool walk_next_raw(struct walk *w)
{
    struct bytes t = w->text;
    size_t at = skip_blanks(t, w->at);
    if (at < t.n && t.p[at] == ',')
        at = skip_blanks(t, at + 1);
    if (at >= t.n || t.p[at] == '}' || t.p[at] == ']')
        return false;
    if (w->is_object) {
        size_t end = string_end(t, at);
        if (end - at < 2)
            return false;
        w->name = bytes_slice(t, at + 1, end - 1);
        at = skip_blanks(t, end);
        at = skip_blanks(t, at < t.n && t.p[at] == ':' ? at + 1 : at);
    }
    size_t end = value_end(t, at);
    if (end == at)
        return false;
    w->value = bytes_slice(t, at, end);
    w->at = end;
    return true;
}

static bool is_container(struct bytes value)
{
    return value.n > 0 && (value.p[0] == '{' || value.p[0] == '[');
}

struct walk walk_into(const struct walk *w)
{
    if (w->index == NULL || !is_container(w->value))
        return walk_of(w->value);
    const struct json_note *n = &w->index->v[w->here];
    if (n->less != 0)
        return walk_of(w->value);
    struct walk inside;
    inside.is_object = w->value.p[0] == '{';
    inside.index = w->index;
    inside.next = w->here + 1;
    inside.end = n->next;
    return inside; /* the rest is set by the first step */
}

struct walk walk_on(struct bytes value, uint32_t note, const struct json_index *index)
{
    return (struct walk){.value = value, .index = value.p != NULL && index->n > 0 ? index : NULL, .here = note};
}

bool walk_may_name(const struct walk *w, struct bytes one, struct bytes other)
{
    if (w->index == NULL)
        return true;
    if (!is_container(w->value))
        return false;
    const struct json_note *n = &w->index->v[w->here], *end = &w->index->v[n->next];
    for (; n < end; n++) {
        const char *p = w->index->text + n->at;
        if (n->less != 0 && *p != '"')
            return true; /* too deep for notes */
        size_t inside = (size_t)(n->end - n->at) - 2;
        if ((inside == one.n && memcmp(p + 1, one.p, inside) == 0) ||
            (inside == other.n && memcmp(p + 1, other.p, inside) == 0))
            return true;
    }
    return false;
}

bool walk_find(struct walk *w, const char *name)
{
    while (w->is_object && walk_next(w))
        if (bytes_is(w->name, name))
            return true;
    return false;
}

struct bytes walk_get(struct bytes object, const char *name)
{
    struct walk w = walk_of(object);
    return walk_find(&w, name) ? w.value : (struct bytes){NULL, 0};
}

bool raw_is_string(struct bytes raw)
{
    return raw.n >= 2 && raw.p[0] == '"';
}

bool raw_is(struct bytes raw, const char *text)
{
    return raw_is_string(raw) && bytes_is(bytes_slice(raw, 1, raw.n - 1), text);
}

bool raw_is_nothing(struct bytes raw)
{
    return raw.p == NULL || bytes_is(raw, "null");
}

/* What one escape sequence stands for, in UTF-8 bytes; *step is its length in the text. A surrogate pair counts its
 * four bytes as two and two. */
static uint64_t escape_bytes(const char *p, size_t left, size_t *step)
{
    if (left < 6 || p[1] != 'u') {
        *step = 2;
        return 1;
    }
    *step = 6;
    char high = p[2], next = p[3];
    if (high == '0' && next == '0')
        return p[4] < '8' ? 1 : 2;
    if (high == '0' && next < '8')
        return 2;
    bool is_surrogate = (high == 'd' || high == 'D') && (next == '8' || next == '9' || (next | 32) >= 'a');
    return is_surrogate ? 2 : 3;
}

uint64_t raw_string_bytes(struct bytes raw)
{
    if (!raw_is_string(raw))
        return 0;
    const char *p = raw.p + 1, *end = raw.p + raw.n - 1;
    uint64_t n = 0;
    while (p < end) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        if (slash == NULL)
            return n + (uint64_t)(end - p);
        size_t step;
        n += (uint64_t)(slash - p) + escape_bytes(slash, (size_t)(end - slash), &step);
        p = step <= (size_t)(end - slash) ? slash + step : end;
    }
    return n;
}

uint64_t walk_string_bytes(const struct walk *w)
{
    if (w->index != NULL)
        return raw_is_string(w->value) ? w->value.n - 2 - w->index->v[w->here].less : 0;
    return raw_string_bytes(w->value);
}

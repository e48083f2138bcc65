/* Strings are skipped by memchr for the closing quote and a look back at the backslashes before it, long ones by what
 * the scan has noted, where that is at hand: the texts of a prompt cost next to nothing, however often an outer level
 * steps over them. Places only grow in a walk, so the note to look at is the next one that is not behind. */
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

/* The first long string that does not begin before p. */
static const struct json_long *longs_from(const struct json_long *l, const char *p)
{
    while (l != NULL && l->p < p)
        l++;
    return l;
}

/* `at` is the opening quote; returns the offset after the closing one. */
static size_t string_end(struct walk *w, size_t at)
{
    struct bytes t = w->text;
    size_t from = at + 1;
    w->longs = longs_from(w->longs, t.p + at);
    if (w->longs != NULL && w->longs->p == t.p + at)
        return at + w->longs->n;
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

static size_t container_end(struct walk *w, size_t at)
{
    struct bytes t = w->text;
    size_t depth = 0;
    while (at < t.n) {
        char c = t.p[at];
        if (c == '"') {
            at = string_end(w, at);
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

static size_t value_end(struct walk *w, size_t at)
{
    struct bytes t = w->text;
    if (at >= t.n)
        return t.n;
    if (t.p[at] == '"')
        return string_end(w, at);
    if (t.p[at] == '{' || t.p[at] == '[')
        return container_end(w, at);
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

bool walk_next(struct walk *w)
{
    struct bytes t = w->text;
    size_t at = skip_blanks(t, w->at);
    if (at < t.n && t.p[at] == ',')
        at = skip_blanks(t, at + 1);
    if (at >= t.n || t.p[at] == '}' || t.p[at] == ']')
        return false;
    if (w->is_object) {
        size_t end = string_end(w, at);
        if (end - at < 2)
            return false;
        w->name = bytes_slice(t, at + 1, end - 1);
        at = skip_blanks(t, end);
        at = skip_blanks(t, at < t.n && t.p[at] == ':' ? at + 1 : at);
    }
    w->longs = longs_from(w->longs, t.p + at);
    w->inner = w->longs;
    size_t end = value_end(w, at);
    if (end == at)
        return false;
    w->value = bytes_slice(t, at, end);
    w->at = end;
    return true;
}

struct walk walk_into(const struct walk *w)
{
    struct walk inside = walk_of(w->value);
    inside.longs = w->inner;
    return inside;
}

struct walk walk_on(struct bytes value, const struct json_index *index)
{
    const struct json_long *longs = value.p != NULL ? longs_from(index->v, value.p) : NULL;
    return (struct walk){.value = value, .inner = longs};
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
    if (w->inner != NULL && w->inner->p == w->value.p && raw_is_string(w->value))
        return w->inner->n_means;
    return raw_string_bytes(w->value);
}

/* The scan byte by byte. One pass, no recursion: the nesting is a bit per level (object or array), so that a million
 * brackets cost a million steps and no stack. Only the outermost object's names are looked at. */
#include "codec/json_run.h"
#include "codec/json_scan_impl.h"

struct scanner {
    const unsigned char *p, *end, *start;
    const char *error;
    uint64_t is_object[JSON_DEPTH_CAP / 64];
    unsigned depth, max_depth;
    bool is_too_deep;
    const char *duplicate;
};

/* Always false, so that a step can fail in one line. */
static bool fail(struct scanner *s, const char *why)
{
    if (s->error == NULL)
        s->error = why;
    return false;
}

static enum err syntax(struct scanner *s, const char *why)
{
    fail(s, why);
    return ERR_SYNTAX;
}

static void skip_blanks(struct scanner *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
        s->p++;
}

static bool hex4(const unsigned char *p)
{
    for (int i = 0; i < 4; i++)
        if (!((p[i] >= '0' && p[i] <= '9') || ((p[i] | 32) >= 'a' && (p[i] | 32) <= 'f')))
            return false;
    return true;
}

static bool escape_in_string(struct scanner *s)
{
    if (s->end - s->p < 2)
        return fail(s, "a string does not end");
    unsigned char c = s->p[1];
    if (c == 'u') {
        if (s->end - s->p < 6 || !hex4(s->p + 2))
            return fail(s, "a bad escape in a string");
        s->p += 6;
        return true;
    }
    switch (c) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        s->p += 2;
        return true;
    default:
        return fail(s, "a bad escape in a string");
    }
}

static bool multibyte(struct scanner *s)
{
    size_t n = *s->p >= 0xf0 ? 4 : *s->p >= 0xe0 ? 3 : 2;
    if ((size_t)(s->end - s->p) < n || !bytes_is_utf8(bytes_from(s->p, n)))
        return fail(s, "a string is not UTF-8");
    s->p += n;
    return true;
}

/* At the opening quote; leaves p after the closing one. */
static bool skip_string(struct scanner *s, bool *has_escape)
{
    s->p++;
    for (;;) {
        s->p = json_plain_end(s->p, s->end);
        if (s->p == s->end)
            return fail(s, "a string does not end");
        if (*s->p == '"') {
            s->p++;
            return true;
        }
        if (*s->p == '\\') {
            *has_escape = true;
            if (!escape_in_string(s))
                return false;
        } else if (*s->p < 0x20) {
            return fail(s, "a control character in a string");
        } else if (!multibyte(s)) {
            return false;
        }
    }
}

static bool skip_word(struct scanner *s, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return fail(s, "a value is malformed");
    s->p += n;
    return true;
}

static bool skip_number(struct scanner *s)
{
    while (s->p < s->end && ((*s->p >= '0' && *s->p <= '9') || (*s->p != 0 && strchr("+-.eE", *s->p) != NULL)))
        s->p++;
    return true;
}

/* A string, number or literal; p is at its first byte. */
static bool skip_scalar(struct scanner *s)
{
    bool ignored = false;
    switch (*s->p) {
    case '"':
        return skip_string(s, &ignored);
    case 't':
        return skip_word(s, "true");
    case 'f':
        return skip_word(s, "false");
    case 'n':
        return skip_word(s, "null");
    default:
        if (*s->p == '-' || (*s->p >= '0' && *s->p <= '9'))
            return skip_number(s);
        return fail(s, "a value is malformed");
    }
}

static bool top_is_object(const struct scanner *s)
{
    unsigned d = s->depth - 1;
    return (s->is_object[d / 64] >> d % 64) & 1;
}

static bool open_level(struct scanner *s)
{
    if (s->depth >= s->max_depth) {
        s->is_too_deep = true;
        return fail(s, "nested too deep");
    }
    uint64_t mask = UINT64_C(1) << s->depth % 64;
    if (*s->p == '{')
        s->is_object[s->depth / 64] |= mask;
    else
        s->is_object[s->depth / 64] &= ~mask;
    s->depth++;
    s->p++;
    return true;
}

/* A member's name and its colon, inside a nested object. */
static bool skip_name(struct scanner *s)
{
    bool ignored = false;
    if (s->p == s->end || *s->p != '"')
        return fail(s, "a member's name is missing");
    if (!skip_string(s, &ignored))
        return false;
    skip_blanks(s);
    if (s->p == s->end || *s->p != ':')
        return fail(s, "a colon is missing");
    s->p++;
    skip_blanks(s);
    return true;
}

/* Closes what ends here and steps over the comma that follows, until the next value or until `base` is reached. */
static bool after_value(struct scanner *s, unsigned base)
{
    while (s->depth > base) {
        skip_blanks(s);
        if (s->p == s->end)
            return fail(s, "the text ends too early");
        if (*s->p == ',') {
            s->p++;
            skip_blanks(s);
            return !top_is_object(s) || skip_name(s);
        }
        if (*s->p != (top_is_object(s) ? '}' : ']'))
            return fail(s, "a comma or a closing bracket is missing");
        s->p++;
        s->depth--;
    }
    return true;
}

/* A whole value, however deep; p is at its first byte. */
static bool skip_value(struct scanner *s)
{
    unsigned base = s->depth;
    do {
        if (s->p == s->end)
            return fail(s, "the text ends too early");
        if (*s->p != '{' && *s->p != '[') {
            if (!skip_scalar(s) || !after_value(s, base))
                return false;
            continue;
        }
        unsigned char close = *s->p == '{' ? '}' : ']';
        if (!open_level(s))
            return false;
        skip_blanks(s);
        if (s->p < s->end && *s->p == close) {
            s->p++;
            s->depth--;
            if (!after_value(s, base))
                return false;
        } else if (close == '}' && !skip_name(s)) {
            return false;
        }
    } while (s->depth > base);
    return true;
}

static unsigned hex_value(const unsigned char *p)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++)
        v = v << 4 | ((p[i] <= '9' ? (unsigned)p[i] - '0' : (unsigned)(p[i] | 32) - 'a' + 10));
    return v;
}

/* Compares an escaped name with a plain one. Wanted names are plain ASCII, so any other character differs. */
static bool escaped_name_is(struct bytes raw, const char *name)
{
    const unsigned char *p = (const unsigned char *)raw.p, *end = p + raw.n;
    for (; *name != '\0'; name++) {
        unsigned c;
        if (p >= end)
            return false;
        if (*p != '\\') {
            c = *p++;
        } else if (p[1] == 'u') {
            c = hex_value(p + 2);
            p += 6;
        } else {
            c = p[1] == '/' || p[1] == '"' || p[1] == '\\' ? p[1] : 1;
            p += 2;
        }
        if (c != (unsigned char)*name)
            return false;
    }
    return p == end;
}

static struct json_member *wanted(struct json_member *members, size_t n, struct bytes name, bool has_escape)
{
    if (!has_escape)
        return json_member_named(members, n, name);
    for (size_t i = 0; i < n; i++)
        if (escaped_name_is(name, members[i].name))
            return &members[i];
    return NULL;
}

/* One `"name": value` of the outermost object. */
static enum err scan_member(struct scanner *s, struct json_member *members, size_t n)
{
    bool has_escape = false;
    size_t name_at = (size_t)(s->p - s->start);
    if (s->p == s->end || *s->p != '"')
        return syntax(s, "a member's name is missing");
    if (!skip_string(s, &has_escape))
        return ERR_SYNTAX;
    struct bytes name = bytes_from(s->start + name_at + 1, (size_t)(s->p - s->start) - name_at - 2);
    skip_blanks(s);
    if (s->p == s->end || *s->p != ':')
        return syntax(s, "a colon is missing");
    s->p++;
    skip_blanks(s);
    if (s->p == s->end)
        return syntax(s, "the text ends too early");
    struct json_member *m = wanted(members, n, name, has_escape);
    if (m != NULL && m->type != JSON_ABSENT) {
        s->duplicate = m->name;
        fail(s, "a member stands twice");
        return ERR_DUPLICATE;
    }
    size_t value_at = (size_t)(s->p - s->start);
    if (!skip_value(s))
        return s->is_too_deep ? ERR_LIMIT : ERR_SYNTAX;
    if (m != NULL) {
        m->type = json_type_of(s->start[value_at]);
        m->name_at = name_at;
        m->value_at = value_at;
        m->value_end = (size_t)(s->p - s->start);
    }
    return ERR_OK;
}

static enum err scan_object(struct scanner *s, struct json_member *members, size_t n, struct json_scan *scan)
{
    skip_blanks(s);
    scan->open_at = (size_t)(s->p - s->start);
    if (s->p == s->end || *s->p != '{')
        return syntax(s, "not a JSON object");
    s->p++;
    s->depth = 1;
    skip_blanks(s);
    if (s->p < s->end && *s->p == '}') {
        scan->is_empty = true;
        s->p++;
    } else {
        for (;;) {
            enum err e = scan_member(s, members, n);
            if (e != ERR_OK)
                return e;
            skip_blanks(s);
            if (s->p < s->end && *s->p == ',') {
                s->p++;
                skip_blanks(s);
                continue;
            }
            if (s->p == s->end || *s->p != '}')
                return syntax(s,
                              s->p == s->end ? "the text ends too early" : "a comma or a closing bracket is missing");
            s->p++;
            break;
        }
    }
    skip_blanks(s);
    return s->p == s->end ? ERR_OK : syntax(s, "bytes after the object");
}

enum err json_scan_scalar(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                          struct json_scan *scan)
{
    const unsigned char *start = (const unsigned char *)text.p;
    struct scanner s = {.p = start, .start = start, .end = start + text.n};
    s.max_depth = max_depth < JSON_DEPTH_CAP ? max_depth : JSON_DEPTH_CAP;
    *scan = (struct json_scan){0};
    for (size_t i = 0; i < n; i++)
        members[i].type = JSON_ABSENT;
    enum err e = scan_object(&s, members, n, scan);
    scan->error_at = (size_t)(s.p - s.start);
    scan->error = s.error;
    scan->duplicate = s.duplicate;
    return e;
}

static bool scan_blocks(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                        struct json_scan *scan, struct json_index *index)
{
#ifdef RM_SCAN_SCALAR
    return false;
#else
    return json_scan_block(text, max_depth, members, n, scan, index);
#endif
}

bool json_scan_string(struct bytes text, size_t at, size_t *n, uint32_t *less)
{
#ifdef RM_SCAN_SCALAR
    (void)text, (void)at, (void)n, (void)less;
    return false;
#else
    return json_block_string(text, at, n, less);
#endif
}

enum err json_scan_indexed(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                           struct json_scan *scan, struct json_index *index)
{
    if (scan_blocks(text, max_depth, members, n, scan, index))
        return ERR_OK;
    if (index->names != NULL)
        memcpy(members, index->names, n * sizeof *members);
    enum err e = json_scan_scalar(text, max_depth, members, n, scan);
    index->n = index->found = 0;
    for (size_t i = 0; i < n; i++)
        index->found |= members[i].type != JSON_ABSENT ? json_bit_of(&members[i], members) : 0;
    return e;
}

enum err json_scan(struct bytes text, unsigned max_depth, struct json_member *members, size_t n, struct json_scan *scan)
{
    for (size_t i = 0; i < n; i++)
        members[i].type = JSON_ABSENT;
    if (scan_blocks(text, max_depth, members, n, scan, NULL))
        return ERR_OK;
    return json_scan_scalar(text, max_depth, members, n, scan);
}

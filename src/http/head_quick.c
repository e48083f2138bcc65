/* A head in one pass, sixteen bytes at a time. It takes only what leaves no question: POST, GET or HEAD of a path with
 * plain characters, or a status line with all its parts; names of letters, digits and hyphens, directly followed by
 * their colon; values without a control character, a tab included; CRLF. At anything else it gives up, and the strict
 * passes begin from the start, so whatever is written here cannot let in what they refuse (the tests and the fuzzer
 * hold the two against each other). */
#include "http/head_quick.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { QUICK_FIELDS_MAX = 48 };

struct quick {
    const char *p, *end; /* where it stands, and the end of what may be looked at */
    struct field fields[QUICK_FIELDS_MAX];
    size_t n;
    uint64_t marks;
};

/* ---- runs of bytes ---- */

typedef unsigned char vec __attribute__((vector_size(16)));

static vec vec_at(const char *p)
{
    vec b;
    memcpy(&b, p, sizeof b);
    return b;
}

/* Index of the first byte that is not zero, where each has all its bits or none; 16 when none has. */
static unsigned vec_first(vec b)
{
#ifdef __SSE2__
    return (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8((__m128i)b) | 1u << 16);
#else
    uint64_t half[2];
    memcpy(half, &b, sizeof half);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (half[0] != 0)
        return (unsigned)__builtin_ctzll(half[0]) / 8;
    return half[1] != 0 ? 8 + (unsigned)__builtin_ctzll(half[1]) / 8 : 16;
#else
    if (half[0] != 0)
        return (unsigned)__builtin_clzll(half[0]) / 8;
    return half[1] != 0 ? 8 + (unsigned)__builtin_clzll(half[1]) / 8 : 16;
#endif
#endif
}

enum { IS_NAME = 1, IS_TARGET = 2 };

static const unsigned char kinds[256] = {
    ['0' ... '9'] = IS_NAME | IS_TARGET,
    ['A' ... 'Z'] = IS_NAME | IS_TARGET,
    ['a' ... 'z'] = IS_NAME | IS_TARGET,
    ['-'] = IS_NAME | IS_TARGET,
    ['/'] = IS_TARGET,
    ['.'] = IS_TARGET,
    ['_'] = IS_TARGET,
    ['~'] = IS_TARGET,
    [':'] = IS_TARGET,
    ['?'] = IS_TARGET,
    ['&'] = IS_TARGET,
    ['='] = IS_TARGET,
    ['%'] = IS_TARGET,
    ['+'] = IS_TARGET,
    [','] = IS_TARGET,
};

static const char *kind_end(const char *p, const char *end, unsigned kind)
{
    while (p < end && (kinds[(unsigned char)*p] & kind) != 0)
        p++;
    return p;
}

/* The first byte that is not of a name. */
static const char *name_end(const char *p, const char *end)
{
    while (end - p >= 16) {
        vec b = vec_at(p);
        vec is_name = (vec)((vec)((b | 0x20) - 'a') < 26) | (vec)((vec)(b - '0') < 10) | (vec)(b == '-');
        unsigned n = vec_first(~is_name);
        p += n;
        if (n < 16)
            return p;
    }
    return kind_end(p, end, IS_NAME);
}

/* The first control character. */
static const char *text_end(const char *p, const char *end)
{
    while (end - p >= 16) {
        vec b = vec_at(p);
        unsigned n = vec_first((vec)(b < 0x20) | (vec)(b == 0x7f));
        p += n;
        if (n < 16)
            return p;
    }
    while (p < end && (unsigned char)*p >= 0x20 && *p != 0x7f)
        p++;
    return p;
}

static bool take_crlf(struct quick *q)
{
    if (q->end - q->p < 2 || memcmp(q->p, "\r\n", 2) != 0)
        return false;
    q->p += 2;
    return true;
}

/* ---- lines ---- */

static bool take_word(struct quick *q, struct bytes word)
{
    if ((size_t)(q->end - q->p) < word.n || memcmp(q->p, word.p, word.n) != 0)
        return false;
    q->p += word.n;
    return true;
}

static bool take_version(struct quick *q, struct head *out)
{
    if (!take_word(q, BYTES("HTTP/1.")) || q->p == q->end || (*q->p != '0' && *q->p != '1'))
        return false;
    out->minor = (unsigned)(*q->p++ - '0');
    return true;
}

static bool take_request_line(struct quick *q, struct head *out)
{
    const char *start = q->p;
    if (!take_word(q, BYTES("POST ")) && !take_word(q, BYTES("GET ")) && !take_word(q, BYTES("HEAD ")))
        return false;
    out->method = bytes_from(start, (size_t)(q->p - 1 - start));
    const char *target = q->p;
    q->p = kind_end(target, q->end, IS_TARGET);
    if (q->p == target || *target != '/')
        return false;
    out->target = bytes_from(target, (size_t)(q->p - target));
    return take_word(q, BYTES(" ")) && take_version(q, out) && take_crlf(q);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool take_status_line(struct quick *q, struct head *out)
{
    if (!take_version(q, out) || q->end - q->p < 5)
        return false;
    const char *s = q->p;
    if (s[0] != ' ' || s[1] < '1' || s[1] > '9' || !is_digit(s[2]) || !is_digit(s[3]) || s[4] != ' ')
        return false;
    out->status = (uint16_t)((s[1] - '0') * 100 + (s[2] - '0') * 10 + (s[3] - '0'));
    q->p = text_end(s + 5, q->end);
    return take_crlf(q);
}

static bool take_field(struct quick *q)
{
    const char *name = q->p, *colon = name_end(name, q->end);
    if (colon == name || colon == q->end || *colon != ':' || q->n == QUICK_FIELDS_MAX)
        return false;
    const char *value = colon + 1, *stop = text_end(value, q->end);
    q->p = stop;
    if (!take_crlf(q))
        return false;
    while (value < stop && *value == ' ')
        value++;
    while (value < stop && stop[-1] == ' ')
        stop--;
    struct field *f = &q->fields[q->n++];
    f->name = bytes_from(name, (size_t)(colon - name));
    f->value = bytes_from(value, (size_t)(stop - value));
    q->marks |= field_mark(f->name);
    return true;
}

bool head_quick(struct bytes in, enum head_kind kind, const struct head_limits *limits, struct arena *arena,
                struct head *out, size_t *used)
{
    struct quick q;
    q.p = in.p;
    q.end = in.p + (in.n < limits->bytes ? in.n : limits->bytes);
    q.n = 0;
    q.marks = 0;
    if (kind == HEAD_REQUEST ? !take_request_line(&q, out) : !take_status_line(&q, out))
        return false;
    while (!take_crlf(&q))
        if (q.n == limits->fields || !take_field(&q))
            return false;
    out->fields.n = q.n;
    out->fields.marks = q.marks;
    out->fields.v = arena_alloc_raw(arena, q.n * sizeof(struct field));
    memcpy(out->fields.v, q.fields, q.n * sizeof(struct field));
    *used = (size_t)(q.p - in.p);
    return true;
}

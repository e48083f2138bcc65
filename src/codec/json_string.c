/* Plain ASCII goes by in blocks; only quotes, escapes and longer characters are looked at. */
#include "codec/json_string.h"

static int hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits after \u; -1: they are none. */
static int32_t unit_at(const unsigned char *p, const unsigned char *end)
{
    int32_t unit = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* What stands behind a backslash, for the escapes of one sign. */
static const char meant[256] = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};

/* The character at p, behind the backslash, and the bytes that it takes there (0: it is none). */
static uint32_t escaped(const unsigned char *p, const unsigned char *end, size_t *n)
{
    *n = 0;
    if (p == end)
        return 0;
    if (meant[*p] != '\0') {
        *n = 1;
        return (unsigned char)meant[*p];
    }
    int32_t high = *p == 'u' ? unit_at(p + 1, end) : -1;
    if (high < 0)
        return 0;
    *n = 5;
    if (high < 0xd800 || high > 0xdfff)
        return (uint32_t)high;
    int32_t low = high < 0xdc00 && end - p >= 11 && p[5] == '\\' && p[6] == 'u' ? unit_at(p + 7, end) : -1;
    *n = low >= 0xdc00 && low <= 0xdfff ? 11 : 0;
    return 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
}

static const unsigned char *wide_end(const unsigned char *p, const unsigned char *end)
{
    while (p < end && *p >= 0x80)
        p++;
    return p;
}

/* p: what is not plain, and no closing quote. Apart, so that a plain string needs no room on the stack. */
static __attribute__((noinline)) bool read_on(const unsigned char *start, const unsigned char *p,
                                              const unsigned char *end, struct json_string *out)
{
    for (; p < end && *p != '"'; p = json_plain_end(p, end)) {
        if (*p == '\\') {
            size_t n;
            (void)escaped(p + 1, end, &n);
            if (n == 0)
                return false;
            out->has_escapes = true;
            p += 1 + n;
        } else {
            const unsigned char *wide = p;
            p = wide_end(p, end);
            if (p == wide || !bytes_is_utf8(bytes_from(wide, (size_t)(p - wide))))
                return false;
        }
    }
    out->n = (size_t)(p - start);
    return p < end;
}

bool json_string_read_any(struct bytes from, struct json_string *out)
{
    const unsigned char *start = (const unsigned char *)from.p, *end = start + from.n;
    const unsigned char *p = json_plain_end(start, end);
    out->has_escapes = false;
    out->n = (size_t)(p - start);
    return p < end && (*p == '"' || read_on(start, p, end, out));
}

static size_t put_utf8(char *to, uint32_t c)
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(n == 1 ? c : first[n] | c);
    return n;
}

/* Sixteen bytes are copied before they are looked at: what comes after a backslash among them is written over. `to` has
 * room for as many bytes as p has, and for 16 more. */
static const unsigned char *copy_plain(const unsigned char *p, const unsigned char *end, char **to)
{
    while (end - p >= 16) {
        json_vec b = json_vec_at(p);
        memcpy(*to, &b, sizeof b);
        unsigned n = json_vec_first(b == '\\');
        *to += n;
        p += n;
        if (n < 16)
            return p;
    }
    while (p < end && *p != '\\')
        *(*to)++ = (char)*p++;
    return p;
}

struct bytes json_string_value(struct bytes inside, bool has_escapes, struct arena *a)
{
    if (!has_escapes)
        return inside;
    const unsigned char *p = (const unsigned char *)inside.p, *end = p + inside.n;
    char *out = arena_alloc_raw(a, inside.n + 16), *to = out; /* what is meant is never longer than what stands there */
    while ((p = copy_plain(p, end, &to)) < end) {
        char sign = meant[p[1]];
        size_t n = 1;
        if (sign != '\0')
            *to++ = sign;
        else
            to += put_utf8(to, escaped(p + 1, end, &n));
        p += 1 + n;
    }
    return bytes_from(out, (size_t)(to - out));
}

#include "base/bytes.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool bytes_eq_nocase(struct bytes a, struct bytes b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.p[i]) != lower(b.p[i]))
            return false;
    return true;
}

bool bytes_starts_with(struct bytes a, struct bytes prefix)
{
    return a.n >= prefix.n && (prefix.n == 0 || memcmp(a.p, prefix.p, prefix.n) == 0);
}

bool bytes_ends_with(struct bytes a, struct bytes suffix)
{
    return a.n >= suffix.n && (suffix.n == 0 || memcmp(a.p + a.n - suffix.n, suffix.p, suffix.n) == 0);
}

size_t bytes_find(struct bytes hay, struct bytes needle)
{
    if (needle.n == 0)
        return 0;
    if (hay.n < needle.n)
        return SIZE_MAX;
    const char *end = hay.p + hay.n - needle.n + 1;
    for (const char *at = hay.p; at < end; at++) {
        at = memchr(at, needle.p[0], (size_t)(end - at));
        if (at == NULL)
            return SIZE_MAX;
        if (memcmp(at, needle.p, needle.n) == 0)
            return (size_t)(at - hay.p);
    }
    return SIZE_MAX;
}

size_t bytes_find_nocase(struct bytes hay, struct bytes needle)
{
    for (size_t i = 0; i + needle.n <= hay.n; i++)
        if (bytes_eq_nocase((struct bytes){hay.p + i, needle.n}, needle))
            return i;
    return SIZE_MAX;
}

size_t bytes_find_byte(struct bytes hay, char c)
{
    const char *at = hay.n ? memchr(hay.p, c, hay.n) : NULL;
    return at ? (size_t)(at - hay.p) : SIZE_MAX;
}

struct bytes bytes_slice(struct bytes a, size_t from, size_t to)
{
    if (to > a.n)
        to = a.n;
    if (from > to)
        from = to;
    return (struct bytes){a.p ? a.p + from : NULL, to - from}; /* NULL + 0 is not defined */
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct bytes bytes_trim(struct bytes a)
{
    while (a.n > 0 && is_blank(a.p[0])) {
        a.p++;
        a.n--;
    }
    while (a.n > 0 && is_blank(a.p[a.n - 1]))
        a.n--;
    return a;
}

struct bytes bytes_cut(struct bytes *rest, char c)
{
    struct bytes all = *rest;
    size_t at = bytes_find_byte(all, c);
    if (at == SIZE_MAX) {
        *rest = (struct bytes){NULL, 0};
        return all;
    }
    *rest = (struct bytes){all.p + at + 1, all.n - at - 1};
    return (struct bytes){all.p, at};
}

bool bytes_to_u64(struct bytes a, uint64_t *out)
{
    uint64_t v = 0;
    if (a.n == 0)
        return false;
    for (size_t i = 0; i < a.n; i++) {
        if (a.p[i] < '0' || a.p[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(a.p[i] - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *out = v;
    return true;
}

bool bytes_to_i64(struct bytes a, int64_t *out)
{
    bool minus = a.n > 0 && a.p[0] == '-';
    uint64_t v;
    if (!bytes_to_u64(minus ? bytes_slice(a, 1, a.n) : a, &v))
        return false;
    if (v > (uint64_t)INT64_MAX + (minus ? 1 : 0))
        return false;
    *out = minus ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool bytes_is_utf8(struct bytes a)
{
    const unsigned char *p = (const unsigned char *)a.p, *end = p + a.n;
    while (p < end) {
        unsigned char c = *p;
        if (c < 0x80) {
            p++;
            continue;
        }
        size_t more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c < 0xc2 || c > 0xf4 || (size_t)(end - p) <= more)
            return false;
        if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f) || (c == 0xf0 && p[1] < 0x90) ||
            (c == 0xf4 && p[1] > 0x8f))
            return false;
        for (size_t i = 1; i <= more; i++)
            if ((p[i] & 0xc0) != 0x80)
                return false;
        p += more + 1;
    }
    return true;
}

uint64_t bytes_hash(struct bytes a, uint64_t seed)
{
    /* FNV-1a, then a finaliser so that the low bits are as good as the high ones. */
    uint64_t h = 0xcbf29ce484222325ULL ^ seed;
    for (size_t i = 0; i < a.n; i++) {
        h ^= (unsigned char)a.p[i];
        h *= 0x100000001b3ULL;
    }
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33;
    return h;
}

unsigned bytes_distance(struct bytes a, struct bytes b, unsigned limit)
{
    enum { MAX = 64 };
    if (a.n > MAX || b.n > MAX)
        return limit + 1;
    unsigned row[MAX + 1];
    for (size_t j = 0; j <= b.n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= a.n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b.n; j++) {
            unsigned change = diagonal + (lower(a.p[i - 1]) != lower(b.p[j - 1]));
            unsigned best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < best ? change : best;
        }
    }
    return row[b.n] > limit ? limit + 1 : row[b.n];
}

bool bytes_eq_fixed_time(struct bytes a, struct bytes b)
{
    unsigned char differ = a.n != b.n;
    size_t n = a.n < b.n ? a.n : b.n;
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned char)(a.p[i] ^ b.p[i]);
    return differ == 0;
}

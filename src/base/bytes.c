#include "base/bytes.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Eight bytes at a time. */
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static uint64_t eight_at(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Up to eight bytes; the others are as `pad`. */
static uint64_t few_at(const char *p, size_t n, uint64_t pad)
{
    memcpy(&pad, p, n);
    return pad;
}

/* The first four and the last four of four to eight bytes. */
static uint64_t four_ends(const char *p, size_t n)
{
    uint32_t first, last;
    memcpy(&first, p, sizeof first);
    memcpy(&last, p + n - sizeof last, sizeof last);
    return (uint64_t)last << 32 | first;
}

/* ASCII capitals to small letters, everything else as it is. */
static uint64_t lower_eight(uint64_t v)
{
    uint64_t low = v & EACH(0x7f);
    uint64_t from_a = low + EACH(0x80 - 'A'), beyond_z = low + EACH(0x7f - 'Z');
    return v | ((from_a & ~beyond_z & ~v & EACH(0x80)) >> 2);
}

bool bytes_same_nocase(const char *a, const char *b, size_t n)
{
    size_t at = 0;
    for (; n - at >= 8; at += 8) {
        uint64_t x = eight_at(a + at), y = eight_at(b + at);
        if (x != y && lower_eight(x) != lower_eight(y))
            return false;
    }
    if (at == n)
        return true;
    if (n >= 8)
        return lower_eight(eight_at(a + n - 8)) == lower_eight(eight_at(b + n - 8));
    if (n >= 4)
        return lower_eight(four_ends(a, n)) == lower_eight(four_ends(b, n));
    for (; at < n; at++)
        if (lower(a[at]) != lower(b[at]))
            return false;
    return true;
}

static bool eight_are_plain(uint64_t v)
{
    uint64_t del = v ^ EACH(0x7f);
    return ((((v - EACH(0x20)) & ~v) | ((del - EACH(1)) & ~del)) & EACH(0x80)) == 0;
}

bool bytes_is_plain(struct bytes a)
{
    size_t at = 0;
    for (; a.n - at >= 8; at += 8)
        if (!eight_are_plain(eight_at(a.p + at)))
            return false;
    if (at == a.n)
        return true;
    if (a.n >= 4)
        return eight_are_plain(a.n >= 8 ? eight_at(a.p + a.n - 8) : four_ends(a.p, a.n));
    return eight_are_plain(few_at(a.p, a.n, EACH(' ')));
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

/* The next digit; false at anything else. */
static bool add_digit(uint64_t *v, char c)
{
    unsigned digit = (unsigned)(unsigned char)c - '0';
    bool is_digit = digit <= 9;
    if (is_digit)
        *v = *v * 10 + digit;
    return is_digit;
}

bool bytes_to_u64(struct bytes a, uint64_t *out)
{
    enum { SURE_DIGITS = 19 /* of any value */ };
    uint64_t v = 0;
    size_t i = 0;
    for (; i < a.n && i < SURE_DIGITS; i++)
        if (!add_digit(&v, a.p[i]))
            return false;
    for (; i < a.n; i++) {
        uint64_t before = v;
        if (!add_digit(&v, a.p[i]) || v / 10 != before)
            return false;
    }
    *out = v;
    return a.n > 0;
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

size_t bytes_n_digits(uint64_t v)
{
    size_t n = 1;
    for (; v >= 10000; v /= 10000)
        n += 4;
    return n + (v >= 10) + (v >= 100) + (v >= 1000);
}

char *bytes_digits_before(char *end, uint64_t v)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    for (; v > UINT32_MAX; v /= 100)
        memcpy(end -= 2, &pairs[v % 100 * 2], 2);
    uint32_t few = (uint32_t)v; /* half as long to divide */
    for (; few >= 100; few /= 100)
        memcpy(end -= 2, &pairs[few % 100 * 2], 2);
    if (few >= 10)
        memcpy(end -= 2, &pairs[few * 2], 2);
    else
        *--end = (char)('0' + few);
    return end;
}

struct bytes bytes_digits(uint64_t v, char room[BYTES_DIGITS_MAX])
{
    char *end = room + BYTES_DIGITS_MAX, *start = bytes_digits_before(end, v);
    return (struct bytes){start, (size_t)(end - start)};
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
    uint64_t differ = a.n != b.n;
    size_t n = a.n < b.n ? a.n : b.n, at = 0;
    for (; n - at >= 8; at += 8)
        differ |= eight_at(a.p + at) ^ eight_at(b.p + at);
    for (; at < n; at++)
        differ |= (unsigned char)(a.p[at] ^ b.p[at]);
    return differ == 0;
}

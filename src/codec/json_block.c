/* The scan in blocks. Outside strings it goes by grammar, as the scan byte by byte does. Inside one it has, for the
 * block of 64 bytes that it stands in (at a multiple of 64 from the start of the text), two words of bits: where the
 * next quote, control character or byte beyond ASCII is, and which bytes a backslash escapes. They are found once for a
 * block, when the first string reaches into it, and serve every string in it:
 *
 *     text     {"role":"user","content":"a\"b\nc ... d"}
 *     stops     1    1 1    1 1       1 1            1
 *     escaped                             1 1
 *
 * Blocks of plain text inside a string only take the question whether anything stands in them at all.
 *
 * It never says what is wrong: at anything that is not plainly right it gives up, and the scan byte by byte starts from
 * the beginning, tells a fault and its place, or accepts what was only odd (a member's name with escapes). So whatever
 * is written here, the two cannot disagree on a refusal; that they do not on what is accepted is what the tests hold.
 *
 * The text ends with its last closing brace (blanks after it aside), else it is given up at once. So outside strings no
 * step needs to look for the end: the brace stops every one of them, and only after a closing bracket can it be
 * reached. */
#include "codec/json_block.h"
#include "codec/json_scan_impl.h"

/* By value of a byte. */
enum { IS_NUMBER = 1, IS_ESCAPE = 2 };

static const unsigned char kinds[256] = {
    ['0' ... '9'] = IS_NUMBER, ['+'] = IS_NUMBER, ['-'] = IS_NUMBER,  ['.'] = IS_NUMBER, ['e'] = IS_NUMBER,
    ['E'] = IS_NUMBER,         ['"'] = IS_ESCAPE, ['\\'] = IS_ESCAPE, ['/'] = IS_ESCAPE, ['b'] = IS_ESCAPE,
    ['f'] = IS_ESCAPE,         ['n'] = IS_ESCAPE, ['r'] = IS_ESCAPE,  ['t'] = IS_ESCAPE};

/* A hexadecimal digit's value, marked. */
enum { IS_DIGIT = 16 };

static const unsigned char digits[256] = {
    ['0'] = 16, ['1'] = 17, ['2'] = 18, ['3'] = 19, ['4'] = 20, ['5'] = 21, ['6'] = 22, ['7'] = 23,
    ['8'] = 24, ['9'] = 25, ['a'] = 26, ['b'] = 27, ['c'] = 28, ['d'] = 29, ['e'] = 30, ['f'] = 31,
    ['A'] = 26, ['B'] = 27, ['C'] = 28, ['D'] = 29, ['E'] = 30, ['F'] = 31};

struct cursor {
    const unsigned char *start, *end; /* end: after the last brace */
    const unsigned char *block;       /* the bits are those of the 64 bytes there */
    uint64_t stops, escaped, high;
    uint64_t odd;   /* escaped or high */
    uint64_t carry; /* 1: the byte after the block is escaped */
    bool is_plain;  /* nothing stands in the block: the next one may be so too */
    size_t saved;   /* by escapes in the string: how much shorter is what it stands for */
    struct json_index *index;
    unsigned depth, max_depth;
    uint64_t is_object[JSON_DEPTH_CAP / 64]; /* a bit per level, set as it opens */
};

/* The steps below take the place where they begin and return the one after what they stepped over; NULL: gives up. */

/* ---- blocks ---- */

/* The block before may not be the one that was loaded last: what lies between was plain or not inside a string, and
 * then nothing was carried. */
static void load(struct cursor *c, const unsigned char *block)
{
    struct json_bits bits;
    c->block = block;
    if (c->end - block >= JSON_BLOCK) {
        bits = json_bits_of(block);
    } else {
        unsigned char last[JSON_BLOCK] = {0}; /* zeros stop: beyond the end nothing is plain */
        memcpy(last, block, (size_t)(c->end - block));
        bits = json_bits_of(last);
    }
    c->is_plain = (bits.stops | bits.slashes | c->carry) == 0;
    c->escaped = (bits.slashes | c->carry) != 0 ? json_escaped(bits.slashes, &c->carry) : 0;
    c->high = bits.high;
    c->odd = bits.high | c->escaped;
    c->stops = bits.stops & ~c->odd;
}

/* p, inside a string, is not in the block at hand: to the one that it is in, over those that are plain. */
static const unsigned char *next_block(struct cursor *c, const unsigned char *p)
{
    const unsigned char *block = p - (size_t)(p - c->start) % JSON_BLOCK;
    if (c->is_plain && p == block) {
        while (c->end - block >= JSON_BLOCK && json_block_is_plain(block))
            block += JSON_BLOCK;
        p = block;
    }
    load(c, block);
    return p;
}

/* ---- strings ---- */

/* The second bytes of escapes are where the bits are. */
static bool take_escapes(struct cursor *c, uint64_t bits)
{
    size_t saved = 0;
    for (; bits != 0; bits &= bits - 1) {
        const unsigned char *q = c->block + __builtin_ctzll(bits);
        if (kinds[*q] & IS_ESCAPE) {
            saved++;
            continue;
        }
        if (*q != 'u' || c->end - q < 5)
            return false;
        unsigned a = digits[q[1]], b = digits[q[2]], d = digits[q[3]], e = digits[q[4]];
        if (((a & b & d & e) & IS_DIGIT) == 0)
            return false;
        unsigned unit = (a & 15) << 12 | (b & 15) << 8 | (d & 15) << 4 | (e & 15);
        saved += unit < 0x80 ? 5 : unit < 0x800 || unit - 0xd800 < 0x800 ? 4 : 3;
    }
    c->saved += saved;
    return true;
}

/* The characters of two to four bytes that follow each other from q on; returns where one of one byte stands. Four
 * bytes are read as one number, the first lowest, and held against RFC 3629's table: the marks of lead and following
 * bytes, then what would be overlong, half of a pair or beyond the last character. NULL: not UTF-8. */
static inline const unsigned char *characters(const unsigned char *q, const unsigned char *end)
{
    while (end - q >= 4) {
        uint32_t w;
        memcpy(&w, q, sizeof w);
        w = le32toh(w);
        if ((w & 0xc0c0f0) == 0x8080e0 && (w & 0x200f) != 0 && (w & 0x200f) != 0x200d)
            q += 3;
        else if ((w & 0xc0e0) == 0x80c0 && (w & 0x1e) != 0)
            q += 2;
        else if ((w & 0x80) == 0)
            return q;
        else if ((w & 0xc0c0c0f8) == 0x808080f0 && (w & 0x3007) != 0 && ((w & 4) == 0 || (w & 0x3003) == 0))
            q += 4;
        else
            return NULL;
    }
    return *q < 0x80 ? q : NULL; /* q is not the end: no character ends with the object's brace */
}

/* The characters whose bytes are where the bits are. Returns the end of the block, or of a last character that reaches
 * over it. */
static const unsigned char *take_high(struct cursor *c, uint64_t bits)
{
    const unsigned char *next = c->block + JSON_BLOCK;
    while (bits != 0) {
        const unsigned char *q = characters(c->block + __builtin_ctzll(bits), c->end);
        if (q == NULL || q >= next)
            return q;
        bits &= UINT64_MAX << (q - c->block);
    }
    return next;
}

/* From p on, inside a string whose first bytes may have saved some. */
static __attribute__((noinline)) const unsigned char *string_rest(struct cursor *c, const unsigned char *p)
{
    for (;;) {
        if ((size_t)(p - c->block) >= JSON_BLOCK)
            p = next_block(c, p);
        uint64_t ahead = UINT64_MAX << (p - c->block), stops = c->stops & ahead;
        uint64_t odd = c->odd & ahead & ((stops & (0 - stops)) - 1);
        const unsigned char *next = c->block + JSON_BLOCK;
        if (odd != 0) {
            if (!take_escapes(c, c->escaped & odd))
                return NULL;
            next = take_high(c, c->high & odd);
            if (next == NULL)
                return NULL;
        }
        p = next;
        if (stops != 0) {
            p = c->block + __builtin_ctzll(stops);
            return p < c->end && *p == '"' ? p + 1 : NULL;
        }
    }
}

/* p: at the opening quote. Most strings are names: short, plain and within the block at hand. */
static inline const unsigned char *string(struct cursor *c, const unsigned char *p)
{
    size_t at = (size_t)(p + 1 - c->block);
    c->saved = 0;
    if (at < JSON_BLOCK) {
        uint64_t ahead = UINT64_MAX << at, stops = c->stops & ahead;
        const unsigned char *q = c->block + __builtin_ctzll(stops | UINT64_C(1) << 63);
        if (stops != 0 && (c->odd & ahead & (stops ^ (stops - 1))) == 0 && q < c->end && *q == '"')
            return q + 1;
    }
    const unsigned char *end = string_rest(c, p + 1);
    size_t n = (size_t)(end - p);
    if (end != NULL && n >= JSON_LONG && c->index != NULL && c->index->n + 1 < c->index->max)
        c->index->v[c->index->n++] = (struct json_long){(const char *)p, n, n - 2 - c->saved};
    return end;
}

/* ---- grammar ---- */

static inline const unsigned char *blanks(const unsigned char *p)
{
    while (*p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

static const unsigned char *literal(const unsigned char *p, const char *rest)
{
    for (p++; *rest != '\0'; rest++)
        if (*p++ != (unsigned char)*rest)
            return NULL;
    return p;
}

/* A number or a literal. */
static const unsigned char *word(const unsigned char *p)
{
    switch (*p) {
    case 't':
        return literal(p, "rue");
    case 'f':
        return literal(p, "alse");
    case 'n':
        return literal(p, "ull");
    default:
        if (*p != '-' && (*p < '0' || *p > '9'))
            return NULL;
        while (kinds[*p] & IS_NUMBER)
            p++;
        return p;
    }
}

/* A name, its colon and the blanks around that. */
static const unsigned char *name(struct cursor *c, const unsigned char *p)
{
    if (*p != '"' || (p = string(c, p)) == NULL)
        return NULL;
    p = blanks(p);
    return *p == ':' ? blanks(p + 1) : NULL;
}

static inline bool top_is_object(const struct cursor *c)
{
    unsigned d = c->depth - 1;
    return c->is_object[d / 64] >> d % 64 & 1;
}

/* An opening bracket and the blanks after it. */
static const unsigned char *open_level(struct cursor *c, const unsigned char *p)
{
    if (c->depth >= c->max_depth)
        return NULL;
    uint64_t mask = UINT64_C(1) << c->depth % 64, *level = &c->is_object[c->depth / 64];
    if (mask == 1)
        *level = 0; /* never written before */
    *level = *p == '{' ? *level | mask : *level & ~mask;
    c->depth++;
    return blanks(p + 1);
}

/* What follows a value, or a bracket that has opened: closes what ends here, up to the next value or until `base` is
 * reached. */
static const unsigned char *after_value(struct cursor *c, const unsigned char *p, unsigned base)
{
    while (c->depth > base) {
        p = blanks(p);
        bool is_object = top_is_object(c);
        if (*p == ',') {
            p = blanks(p + 1);
            return is_object ? name(c, p) : p;
        }
        if (*p++ != (is_object ? '}' : ']') || p == c->end)
            return NULL; /* the last brace is the outer object's */
        c->depth--;
    }
    return p;
}

/* A whole value, however deep. */
static const unsigned char *value(struct cursor *c, const unsigned char *p)
{
    unsigned base = c->depth;
    do {
        if (*p == '"') {
            p = string(c, p);
        } else if (*p == '{' || *p == '[') {
            unsigned char close = *p == '{' ? '}' : ']';
            p = open_level(c, p);
            if (p != NULL && *p != close) {
                p = close == '}' ? name(c, p) : p;
                continue;
            }
        } else {
            p = word(p);
        }
        if (p != NULL)
            p = after_value(c, p, base);
    } while (p != NULL && c->depth > base);
    return p;
}

/* One `"name": value` of the outermost object. */
static const unsigned char *member(struct cursor *c, const unsigned char *p, struct json_member *members, size_t n)
{
    const unsigned char *at = p;
    if (*p != '"' || (p = string(c, p)) == NULL || c->saved != 0)
        return NULL; /* a name with escapes may be a wanted one */
    struct json_member *m = json_member_named(members, n, bytes_from(at + 1, (size_t)(p - at) - 2));
    p = blanks(p);
    if (*p != ':' || (m != NULL && m->type != JSON_ABSENT))
        return NULL;
    const unsigned char *from = blanks(p + 1);
    p = value(c, from);
    if (m != NULL && p != NULL) {
        m->type = json_type_of(*from);
        m->name_at = (size_t)(at - c->start);
        m->value_at = (size_t)(from - c->start);
        m->value_end = (size_t)(p - c->start);
    }
    return p;
}

static bool is_object(struct cursor *c, struct json_member *members, size_t n, struct json_scan *scan)
{
    const unsigned char *p = blanks(c->start);
    scan->open_at = (size_t)(p - c->start);
    if (*p++ != '{' || p == c->end)
        return false;
    p = blanks(p);
    scan->is_empty = *p == '}';
    if (scan->is_empty)
        return p + 1 == c->end;
    for (;;) {
        p = member(c, p, members, n);
        if (p == NULL)
            return false;
        p = blanks(p);
        if (*p != ',')
            return *p == '}' && p + 1 == c->end;
        p = blanks(p + 1);
    }
}

/* ---- whole ---- */

static size_t without_blanks(struct bytes text)
{
    size_t n = text.n;
    while (n > 0 && (text.p[n - 1] == ' ' || text.p[n - 1] == '\n' || text.p[n - 1] == '\r' || text.p[n - 1] == '\t'))
        n--;
    return n;
}

bool json_scan_block(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                     struct json_scan *scan, struct json_index *index)
{
    size_t size = without_blanks(text);
    if (size == 0 || text.p[size - 1] != '}')
        return false;
    struct cursor c;
    c.start = c.block = (const unsigned char *)text.p;
    c.end = c.start + size;
    c.carry = 0;
    c.index = index;
    c.depth = 1;
    c.is_object[0] = 0;
    c.max_depth = max_depth < JSON_DEPTH_CAP ? max_depth : JSON_DEPTH_CAP;
    *scan = (struct json_scan){.error_at = text.n};
    for (size_t i = 0; i < n; i++)
        members[i].type = JSON_ABSENT;
    if (index != NULL)
        index->n = 0;
    load(&c, c.start);
    if (!is_object(&c, members, n, scan))
        return false;
    if (index != NULL)
        index->v[index->n] = JSON_LONG_NONE;
    return true;
}

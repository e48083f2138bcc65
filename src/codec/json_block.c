/* The scan in blocks. Outside strings it goes by grammar, as the scan byte by byte does. Inside one it has, for the
 * block of 64 bytes that it stands in (at a multiple of 64 from the start of the text), two words of bits: where the
 * next quote or control character is, and which bytes a backslash escapes. They are found once for a block, when the
 * first string reaches into it, and serve every string in it:
 *
 *     text     {"role":"user","content":"a\"b\nc ... d"}
 *     stops     1    1 1    1 1       1 1            1
 *     escaped                             1 1
 *
 * What a block holds beyond ASCII and behind backslashes is judged as it is found, whatever string it is in: none of it
 * may stand outside one. Blocks of plain text inside a string only take the question whether anything stands in them
 * at all.
 *
 * It never says what is wrong: at anything that is not plainly right it gives up, and the scan byte by byte starts from
 * the beginning, tells a fault and its place, or accepts what was only odd (a member's name with escapes). So whatever
 * is written here, the two cannot disagree on a refusal; that they do not on what is accepted is what the tests hold.
 *
 * The text ends with its last closing brace (blanks after it aside), else it is given up at once. So outside strings no
 * step needs to look for the end: the brace stops every one of them, and only after a closing bracket can it be
 * reached.
 *
 * This file is compiled twice on x86-64, see json_block_wide.c. */
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
    const struct json_wide *wide;     /* json_wide_constants, or NULL */
    const unsigned char *start, *end; /* end: after the last brace */
    const unsigned char *block;       /* the bits are those of the 64 bytes there */
    uint64_t stops, escaped;
    uint64_t units; /* escaped bytes that are a u; those of what takes two bytes or three, or three */
    uint64_t units_2, units_3;
    uint64_t carry; /* 1: the byte after the block is escaped */
    uint64_t over;  /* characters that began in the block before reach so far into the one at hand; wide: 1 = the block
                       ended with one that was not ASCII */
    bool is_plain;  /* nothing stands in the block: the next one may be so too */
    bool is_bad;    /* somewhere in the blocks so far stands what may not */
    uint32_t less;  /* by escapes in the string: how much shorter is what it stands for */
    struct json_note *notes;
    uint32_t n_notes, max_notes;
    unsigned noted; /* levels that are: 0 = none, no more */
    bool is_strict;
    uint32_t open[JSON_LEVELS_MAX + 1]; /* the notes of the open levels */
    bool in_object;                     /* the innermost level is one */
    unsigned depth, max_depth;
    uint64_t is_object[JSON_DEPTH_CAP / 64]; /* a bit per level, set as it opens */
};

/* The steps below take the place where they begin and return the one after what they stepped over; NULL: gives up. */

/* ---- escapes ---- */

/* The u at q, whose bit is that one: what it stands for takes two bytes, or three, where the masks say so. */
static inline bool judge_unit(struct cursor *c, const unsigned char *q, uint64_t bit)
{
    if (c->end - q < 5)
        return false;
    unsigned a = digits[q[1]], b = digits[q[2]], d = digits[q[3]], e = digits[q[4]];
    bool is_half = (a & 15) == 13 && (b & 15) >= 8; /* of a pair: two bytes and two */
    bool is_ascii = a == IS_DIGIT && b == IS_DIGIT && (d & 15) < 8;
    c->units |= bit;
    c->units_2 |= is_ascii ? 0 : bit;
    c->units_3 |= (a == IS_DIGIT && (b & 15) < 8) || is_half ? 0 : bit;
    c->is_strict &= !is_half; /* pairs are left to the tree */
    return (a & b & d & e & IS_DIGIT) != 0;
}

/* The second bytes of escapes are where the bits are. */
static __attribute__((noinline)) void judge_each(struct cursor *c, uint64_t bits)
{
    c->units_2 = c->units_3 = 0;
    for (; bits != 0; bits &= bits - 1) {
        const unsigned char *q = c->block + __builtin_ctzll(bits);
        if (kinds[*q] & IS_ESCAPE)
            continue;
        if (*q != 'u' || !judge_unit(c, q, bits & (0 - bits))) {
            c->is_bad = true;
            return;
        }
    }
}

static inline void judge_escapes(struct cursor *c, uint64_t bits, bool is_full)
{
    c->units = 0;
#if defined(RM_BLOCK_WIDE)
    if (is_full)
        bits &= ~json_escapes_wide(c->wide, c->block);
#endif
    if (bits != 0)
        judge_each(c, bits);
}

static inline uint32_t n_bits(uint64_t bits)
{
    return (uint32_t)__builtin_popcountll(bits);
}

/* What the escapes save of which the second bytes are where the bits are. */
static inline void count_escapes(struct cursor *c, uint64_t bits)
{
    c->less += n_bits(bits);
    if ((bits & c->units) != 0)
        c->less += 4 * n_bits(bits & c->units) - n_bits(bits & c->units_2) - n_bits(bits & c->units_3);
}

/* ---- characters beyond ASCII ---- */

#if defined(RM_BLOCK_WIDE)
/* The first block and the last: three bytes before and 64 of it do not lie in the text. */
static __attribute__((noinline)) void judge_edge(struct cursor *c)
{
    unsigned char around[32 + JSON_BLOCK] = {0};
    const unsigned char *p = c->block;
    size_t n = c->end - p < JSON_BLOCK ? (size_t)(c->end - p) : JSON_BLOCK, before = p == c->start ? 0 : 3;
    memcpy(around + 32 - before, p - before, before + n);
    c->is_bad |= !json_is_utf8_wide(c->wide, around + 32);
}

static inline void judge_high(struct cursor *c, uint64_t high, bool is_full)
{
    if ((high | c->over) == 0)
        return;
    c->over = high >> 63;
    if (is_full && c->block != c->start)
        c->is_bad |= !json_is_utf8_wide(c->wide, c->block);
    else
        judge_edge(c);
}
#else
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

/* The characters whose bytes are where the bits are; the last one may reach over the block. */
static inline void judge_high(struct cursor *c, uint64_t high, bool is_full)
{
    (void)is_full;
    const unsigned char *next = c->block + JSON_BLOCK;
    uint64_t over = c->over;
    c->over = 0;
    for (high &= UINT64_MAX << over; high != 0;) {
        const unsigned char *q = characters(c->block + __builtin_ctzll(high), c->end);
        if (q == NULL)
            c->is_bad = true;
        if (q == NULL || q >= next) {
            c->over = q != NULL ? (uint64_t)(q - next) : 0;
            return;
        }
        high &= UINT64_MAX << (q - c->block);
    }
}
#endif

/* ---- blocks ---- */

/* Fewer than 64 bytes are left. */
static __attribute__((noinline)) struct json_bits last_bits(const struct cursor *c, const unsigned char *block)
{
    unsigned char last[JSON_BLOCK] = {0}; /* zeros stop: beyond the end nothing is plain */
    memcpy(last, block, (size_t)(c->end - block));
    return json_bits_of(c->wide, last);
}

/* The block before may not be the one that was loaded last: what lies between was plain or not inside a string, and
 * then nothing was carried. */
static inline __attribute__((always_inline)) void load(struct cursor *c, const unsigned char *block)
{
    bool is_full = c->end - block >= JSON_BLOCK;
    struct json_bits bits = is_full ? json_bits_of(c->wide, block) : last_bits(c, block);
    uint64_t escaped = 0;
    c->block = block;
    c->is_plain = bits.stops == 0;
    if ((bits.slashes | c->carry) != 0) {
        c->is_plain = false;
        escaped = json_escaped(bits.slashes, &c->carry);
        judge_escapes(c, escaped, is_full);
    }
    judge_high(c, bits.high, is_full);
    c->escaped = escaped;
    c->stops = bits.stops & ~(bits.high | escaped);
}

/* From where the next block of 64 begins, over those that are plain, if the one before was so. */
static inline const unsigned char *next_block(const struct cursor *c)
{
    const unsigned char *block = c->block + JSON_BLOCK;
    while (c->is_plain && c->end - block >= JSON_PLAIN && json_block_is_plain(c->wide, block))
        block += JSON_PLAIN;
    return block;
}

/* ---- notes ---- */

/* A value, or a name, of the levels that are noted; without room for it there are none. */
static inline void note(struct cursor *c, const unsigned char *from, const unsigned char *to, uint32_t less)
{
    if (c->depth > c->noted)
        return;
    if (c->n_notes == c->max_notes) {
        c->noted = 0;
        c->max_notes = 0;
        c->n_notes = 0;
        return;
    }
    struct json_note *n = &c->notes[c->n_notes++];
    n->at = (uint32_t)(from - c->start);
    n->end = (uint32_t)(to - c->start);
    n->next = c->n_notes;
    n->less = less;
}

/* ---- strings ---- */

/* From p on, inside a string. */
static __attribute__((noinline)) const unsigned char *string_rest(struct cursor *c, const unsigned char *p)
{
    if ((size_t)(p - c->block) >= JSON_BLOCK)
        load(c, p - (size_t)(p - c->start) % JSON_BLOCK);
    uint64_t ahead = UINT64_MAX << (p - c->block);
    for (;;) {
        uint64_t stops = c->stops & ahead, escaped = c->escaped & ahead & (stops ^ (stops - 1));
        if (escaped != 0)
            count_escapes(c, escaped);
        if (stops != 0) {
            p = c->block + __builtin_ctzll(stops);
            return p < c->end && *p == '"' ? p + 1 : NULL;
        }
        load(c, next_block(c));
        ahead = UINT64_MAX;
    }
}

/* p: at the opening quote. Most strings are names: short, plain and within the block at hand. */
static inline const unsigned char *string(struct cursor *c, const unsigned char *p)
{
    size_t at = (size_t)(p + 1 - c->block);
    c->less = 0;
    if (at < JSON_BLOCK) {
        uint64_t ahead = UINT64_MAX << at, stops = c->stops & ahead;
        const unsigned char *q = c->block + __builtin_ctzll(stops | UINT64_C(1) << 63);
        if (stops != 0 && (c->escaped & ahead & (stops ^ (stops - 1))) == 0 && q < c->end && *q == '"')
            return q + 1;
    }
    return string_rest(c, p + 1);
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

static inline bool is_figure(unsigned char b)
{
    return (unsigned)b - '0' < 10;
}

/* JSON's own grammar of numbers, for what follows its first figures. */
static bool is_strict_rest(const unsigned char *p, const unsigned char *end)
{
    if (p < end && *p == '.') {
        const unsigned char *from = ++p;
        while (p < end && is_figure(*p))
            p++;
        if (p == from)
            return false;
    }
    if (p < end && (*p | 32) == 'e') {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        const unsigned char *from = p;
        while (p < end && is_figure(*p))
            p++;
        if (p == from)
            return false;
    }
    return p == end;
}

/* Anything that could be one is stepped over; most are plain figures. */
static const unsigned char *number(struct cursor *c, const unsigned char *p)
{
    const unsigned char *first = p + (*p == '-'), *end = first;
    while (is_figure(*end))
        end++;
    c->is_strict &= end != first && (*first != '0' || end == first + 1);
    if ((kinds[*end] & IS_NUMBER) == 0)
        return end;
    const unsigned char *rest = end;
    while (kinds[*end] & IS_NUMBER)
        end++;
    c->is_strict &= is_strict_rest(rest, end);
    return end;
}

/* A number or a literal. */
static const unsigned char *word(struct cursor *c, const unsigned char *p)
{
    switch (*p) {
    case 't':
        return literal(p, "rue");
    case 'f':
        return literal(p, "alse");
    case 'n':
        return literal(p, "ull");
    default:
        return *p == '-' || is_figure(*p) ? number(c, p) : NULL;
    }
}

/* A name, its colon and the blanks around that. */
static const unsigned char *name(struct cursor *c, const unsigned char *p)
{
    const unsigned char *from = p;
    if (*p != '"' || (p = string(c, p)) == NULL)
        return NULL;
    note(c, from, p, c->less);
    c->is_strict &= c->less == 0;
    p = blanks(p);
    return *p == ':' ? blanks(p + 1) : NULL;
}

/* An opening bracket and the blanks after it. */
static const unsigned char *open_level(struct cursor *c, const unsigned char *p)
{
    if (c->depth >= c->max_depth)
        return NULL;
    uint64_t mask = UINT64_C(1) << c->depth % 64, *level = &c->is_object[c->depth / 64];
    if (mask == 1)
        *level = 0; /* never written before */
    c->in_object = *p == '{';
    *level = c->in_object ? *level | mask : *level & ~mask;
    if (c->depth <= c->noted) {
        c->open[c->depth] = c->n_notes;
        note(c, p, p, c->depth == c->noted);
    }
    c->depth++;
    return blanks(p + 1);
}

/* The innermost level closes before p. */
static inline void close_level(struct cursor *c, const unsigned char *p)
{
    unsigned outer = --c->depth - 1;
    c->in_object = c->is_object[outer / 64] >> outer % 64 & 1;
    if (c->depth > c->noted)
        return;
    struct json_note *n = &c->notes[c->open[c->depth]];
    n->end = (uint32_t)(p - c->start);
    n->next = c->n_notes;
}

/* What follows a value, or a bracket that has opened: closes what ends here, up to the next value or until `base` is
 * reached. */
static const unsigned char *after_value(struct cursor *c, const unsigned char *p, unsigned base)
{
    while (c->depth > base) {
        p = blanks(p);
        bool is_object = c->in_object;
        if (*p == ',') {
            p = blanks(p + 1);
            return is_object ? name(c, p) : p;
        }
        if (*p++ != (is_object ? '}' : ']') || p == c->end)
            return NULL; /* the last brace is the outer object's */
        close_level(c, p);
    }
    return p;
}

/* A whole value, however deep. */
static const unsigned char *value(struct cursor *c, const unsigned char *p)
{
    unsigned base = c->depth;
    do {
        const unsigned char *from = p;
        if (*p == '"') {
            p = string(c, p);
            if (p != NULL)
                note(c, from, p, c->less);
        } else if (*p == '{' || *p == '[') {
            unsigned char close = *p == '{' ? '}' : ']';
            p = open_level(c, p);
            if (p != NULL && *p != close) {
                p = close == '}' ? name(c, p) : p;
                continue;
            }
        } else {
            p = word(c, p);
            if (p != NULL)
                note(c, from, p, 0);
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
    if (*p != '"' || (p = string(c, p)) == NULL || c->less != 0)
        return NULL; /* a name with escapes may be a wanted one */
    note(c, at, p, 0);
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

static void prepare(struct cursor *c, struct bytes text, unsigned max_depth, struct json_index *index)
{
#if defined(RM_BLOCK_WIDE)
    c->wide = &json_wide_constants;
#else
    c->wide = NULL;
#endif
    c->start = c->block = (const unsigned char *)text.p;
    c->end = c->start + text.n;
    c->carry = c->over = c->units = c->units_2 = c->units_3 = 0;
    c->is_bad = false;
    c->is_strict = true;
    c->depth = 1;
    c->is_object[0] = 1;
    c->in_object = true;
    c->max_depth = max_depth < JSON_DEPTH_CAP ? max_depth : JSON_DEPTH_CAP;
    bool is_noted = index != NULL && index->max > 0 && text.n <= UINT32_MAX;
    c->notes = is_noted ? index->v : NULL;
    c->max_notes = is_noted ? index->max : 0;
    c->noted = !is_noted ? 0 : index->levels < JSON_LEVELS_MAX ? index->levels : JSON_LEVELS_MAX;
    c->n_notes = is_noted; /* the outer object's */
}

static void end_notes(const struct cursor *c, const struct json_scan *scan, struct json_index *index)
{
    index->text = (const char *)c->start;
    index->n = c->n_notes;
    index->is_strict = c->is_strict;
    if (c->n_notes > 0)
        index->v[0] = (struct json_note){(uint32_t)scan->open_at, (uint32_t)(c->end - c->start), c->n_notes, 0};
}

static bool scan_text(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                      struct json_scan *scan, struct json_index *index)
{
    size_t size = without_blanks(text);
    if (size == 0 || text.p[size - 1] != '}')
        return false;
    struct cursor c;
    prepare(&c, bytes_from(text.p, size), max_depth, index);
    *scan = (struct json_scan){.error_at = text.n};
    for (size_t i = 0; i < n; i++)
        members[i].type = JSON_ABSENT;
    load(&c, c.start);
    if (!is_object(&c, members, n, scan) || c.is_bad)
        return false;
    if (index != NULL)
        end_notes(&c, scan, index);
    return true;
}

#if defined(RM_BLOCK_WIDE)
bool json_scan_wide(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                    struct json_scan *scan, struct json_index *index)
{
    return scan_text(text, max_depth, members, n, scan, index);
}
#else
bool json_scan_block(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                     struct json_scan *scan, struct json_index *index)
{
#if defined(RM_HAS_WIDE)
    if (json_can_wide())
        return json_scan_wide(text, max_depth, members, n, scan, index);
#endif
    return scan_text(text, max_depth, members, n, scan, index);
}
#endif

/* The scan in blocks. Outside strings it goes by grammar, as the scan byte by byte does. A string is looked at in
 * vectors: most are names, short and plain, and end within the first of them. A longer one is gone through 64 bytes at
 * a time from its own beginning, with words of bits: where quotes and control characters are, and which bytes a
 * backslash escapes.
 *
 *     text     "a\"b\nc ... d"}
 *     stops       1           1
 *     escaped     1  1
 *
 * What stands beyond ASCII and behind backslashes is judged on the way. Plain text inside a string only takes the
 * question whether anything stands in it at all.
 *
 * It never says what is wrong: at anything that is not plainly right it gives up, and the scan byte by byte starts from
 * the beginning, tells a fault and its place, or accepts what was only odd (a member's name with escapes). So whatever
 * is written here, the two cannot disagree on a refusal; that they do not on what is accepted is what the tests hold.
 *
 * The text ends with its last closing brace (blanks after it aside), else it is given up at once. So outside strings no
 * step needs to look for the end: the brace stops every one of them, and only after a closing bracket can it be
 * reached. Inside one, the last bytes of the text are looked at in the last 64 of it, and what lies before is shifted
 * away; a text with less than that is copied to where there is room behind it.
 *
 * This file is compiled twice on x86-64, see json_block_wide.c. */
#include "codec/json_block.h"
#include "codec/json_scan_impl.h"

#define STEP static inline __attribute__((always_inline))

/* By value of a byte. */
enum { IS_NUMBER = 1, IS_ESCAPE = 2 };

static const unsigned char kinds[256] = {
    ['0' ... '9'] = IS_NUMBER, ['+'] = IS_NUMBER, ['-'] = IS_NUMBER,  ['.'] = IS_NUMBER, ['e'] = IS_NUMBER,
    ['E'] = IS_NUMBER,         ['"'] = IS_ESCAPE, ['\\'] = IS_ESCAPE, ['/'] = IS_ESCAPE, ['b'] = IS_ESCAPE,
    ['f'] = IS_ESCAPE,         ['n'] = IS_ESCAPE, ['r'] = IS_ESCAPE,  ['t'] = IS_ESCAPE};

/* A hexadecimal digit's value; -1: it is none. */
static const signed char digits[256] = {[0 ... '0' - 1] = -1,
                                        ['0'] = 0,
                                        ['1'] = 1,
                                        ['2'] = 2,
                                        ['3'] = 3,
                                        ['4'] = 4,
                                        ['5'] = 5,
                                        ['6'] = 6,
                                        ['7'] = 7,
                                        ['8'] = 8,
                                        ['9'] = 9,
                                        ['9' + 1 ... 'A' - 1] = -1,
                                        ['A'] = 10,
                                        ['B'] = 11,
                                        ['C'] = 12,
                                        ['D'] = 13,
                                        ['E'] = 14,
                                        ['F'] = 15,
                                        ['F' + 1 ... 'a' - 1] = -1,
                                        ['a'] = 10,
                                        ['b'] = 11,
                                        ['c'] = 12,
                                        ['d'] = 13,
                                        ['e'] = 14,
                                        ['f'] = 15,
                                        ['f' + 1 ... 255] = -1};

/* A text shorter than this is copied. */
enum { JSON_TINY = 2 * JSON_BLOCK };

/* What is scanned. */
struct text {
    const struct json_wide *wide;     /* json_wide_constants, or NULL */
    const unsigned char *start, *end; /* end: after the last brace */
    const unsigned char *final;       /* up to there a block can be read */
    const unsigned char *last, *near; /* the same with four bytes more; JSON_SHORT bytes and one */
    bool has_pairs;                   /* some string holds half of a surrogate pair */
};

/* What of a string reaches from a block into the next. */
struct reach {
    uint64_t carry; /* 1: its first byte is escaped */
    uint64_t over;  /* bytes of a character; wide: 1 = the block ended with one that was not ASCII */
    uint64_t less;  /* by escapes so far: how much shorter is what the string stands for */
    bool has_pairs; /* half of a surrogate pair was among them */
};

/* A string's end. */
struct ending {
    const unsigned char *p; /* after the closing quote; NULL: gives up */
    uint64_t less;
};

/* ---- escapes ---- */

/* The u at q and the four bytes behind it: how much its escape saves beside the byte that every one does; 0 = they are
 * none. */
STEP uint64_t unit_saves(const unsigned char *q, struct reach *r)
{
    int low = digits[q[3]] * 16 | digits[q[4]]; /* below 0: one is no digit */
    if (memcmp(q + 1, "00", 2) == 0)
        return low < 0 ? 0 : low < 0x80 ? 4 : 3;
    int v = digits[q[1]] * 4096 | digits[q[2]] * 256 | low;
    if (v < 0x800)
        return v < 0 ? 0 : 3;
    bool is_half = (v & 0xf800) == 0xd800; /* of a pair: two bytes and two */
    r->has_pairs |= is_half;
    return is_half ? 3 : 2;
}

/* The second bytes of escapes are where the bits are, from p on. What stands behind a backslash most often has been
 * taken out of `odd` where vectors do that. */
STEP bool judge_escapes(const unsigned char *p, const unsigned char *end, uint64_t escaped, uint64_t odd,
                        struct reach *r)
{
    r->less += (unsigned)__builtin_popcountll(escaped);
    for (; odd != 0; odd &= odd - 1) {
        const unsigned char *q = p + __builtin_ctzll(odd);
        if (*q == 'u') {
            uint64_t saves = end == NULL || end - q >= 5 ? unit_saves(q, r) : 0;
            if (saves == 0)
                return false;
            r->less += saves;
        } else if (!(kinds[*q] & IS_ESCAPE)) {
            return false;
        }
    }
    return true;
}

/* ---- characters beyond ASCII ---- */

#if defined(RM_BLOCK_WIDE)
/* A block at the start of the text: the three bytes before it do not lie in it, and no character reaches over them. */
static __attribute__((noinline, pure)) bool is_utf8_at_start(const struct text *t, const unsigned char *block)
{
    unsigned char behind[3 + JSON_BLOCK] = {0};
    memcpy(behind + 3, block, JSON_BLOCK);
    return json_is_utf8_wide(t->wide, behind + 3) && json_is_utf8_wide(t->wide, behind + 3 + 32);
}

/* The bits are those of the block, from p on; false: some of what ends there is not UTF-8. What stands before p in it
 * has been judged, or will be refused for standing outside a string. */
static inline bool judge_high(const struct text *t, const unsigned char *block, const unsigned char *p, uint64_t high,
                              struct reach *r)
{
    if ((high | r->over) == 0)
        return true;
    uint64_t there = (high | r->over) << (p - block);
    r->over = high >> 63;
    if (block - t->start < 3)
        return is_utf8_at_start(t, block);
    /* what stands in one half of the block, or reaches into it, is judged there */
    return ((uint32_t)there == 0 || json_is_utf8_wide(t->wide, block)) &&
           (there >> 31 == 0 || json_is_utf8_wide(t->wide, block + 32));
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

/* The characters whose bytes are where the bits are, from p on; the last one may reach over the block. */
static inline bool judge_high(const struct text *t, const unsigned char *block, const unsigned char *p, uint64_t high,
                              struct reach *r)
{
    (void)block;
    uint64_t over = r->over;
    r->over = 0;
    for (high &= UINT64_MAX << over; high != 0;) {
        const unsigned char *q = characters(p + __builtin_ctzll(high), t->end);
        if (q == NULL)
            return false;
        if (q - p >= JSON_BLOCK) {
            r->over = (uint64_t)(q - p) - JSON_BLOCK;
            return true;
        }
        high &= UINT64_MAX << (q - p);
    }
    return true;
}
#endif

/* ---- strings ---- */

/* What a look at a block says. */
enum look { PLAIN, GOES_ON, ENDS, BAD };

/* At the block that begins `shift` bytes before p; *end: where the string does. is_final: fewer than four bytes may be
 * behind the block. */
STEP enum look look(const struct text *t, const unsigned char *p, unsigned shift, bool is_final, struct reach *r,
                    const unsigned char **end)
{
    const struct json_wide *wide = t->wide;
    const unsigned char *block = p - shift;
    struct json_bits bits = json_bits_of(wide, block);
    uint64_t slashes = bits.slashes >> shift, stops = bits.stops >> shift, escaped = 0, ends = 0;
    bool has_slashes = (slashes | r->carry) != 0;
    if (has_slashes) {
        escaped = json_escaped(slashes, &r->carry);
        stops &= ~escaped;
    }
    if ((stops | r->over) != 0) {
        uint64_t high = json_high_of(block) >> shift;
        ends = stops & ~high;
        uint64_t inside = ends ^ (ends - 1);
        escaped &= inside;
        if (!judge_high(t, block, p, high & inside, r))
            return BAD;
    } else if (!has_slashes) {
        return PLAIN;
    }
    if (has_slashes &&
        !judge_escapes(p, is_final ? t->end : NULL, escaped, escaped & ~(json_escapes_of(wide, block) >> shift), r))
        return BAD;
    if (ends == 0)
        return GOES_ON;
    *end = p + __builtin_ctzll(ends);
    return *end < t->end && **end == '"' ? ENDS : BAD;
}

/* From p on, inside a string. */
static __attribute__((noinline)) struct ending string_rest(struct text *t, const unsigned char *p)
{
    struct reach r = {0, 0, 0, false};
    const unsigned char *end = p;
    enum look before = GOES_ON, now = GOES_ON;
    for (; p <= t->last; p += JSON_BLOCK, before = now) {
        now = look(t, p, 0, false, &r, &end);
        if (now == PLAIN && before == PLAIN)
            while (t->last - p >= JSON_PLAIN && json_block_is_plain(t->wide, p + JSON_BLOCK))
                p += JSON_PLAIN;
        else if (now >= ENDS)
            break;
    }
    for (; now < ENDS && p < t->end; p += JSON_BLOCK)
        now = look(t, p, p < t->final ? 0 : (unsigned)(p - t->final), true, &r, &end);
    t->has_pairs |= r.has_pairs;
    return (struct ending){now == ENDS ? end + 1 : NULL, r.less};
}

/* ---- where the scan stands ---- */

struct spot {
    struct text *text;
    const unsigned char *p; /* what follows from here on */
    uint64_t less;          /* of the string before it, see struct json_note */
    struct json_note *notes;
    uint32_t n_notes, max_notes;
    uint32_t step;  /* 1: the level is noted; 0: its notes are written where the next one will be */
    unsigned noted; /* levels that are */
    unsigned depth, max_depth;
    bool in_object; /* the innermost level is one */
    bool is_strict;
    struct levels *levels;
};

struct levels {
    struct json_note none;              /* where there are no notes */
    uint32_t note[JSON_LEVELS_MAX + 1]; /* of the open levels that are noted */
    unsigned char is_object[JSON_DEPTH_CAP];
};

/* The steps below move on over what they take; false: the scan gives up. All of them become one function, in which most
 * of the above lies in registers. */

/* ---- notes ---- */

/* Without room for all there are none. */
STEP void take_no_notes(struct spot *s)
{
    s->notes = &s->levels->none;
    s->n_notes = 0;
    s->max_notes = 1;
    s->step = 0;
    s->noted = 0;
}

/* What stands before s->p, from there on. */
STEP void note(struct spot *s, const unsigned char *from, uint32_t less)
{
    if (s->n_notes == s->max_notes) {
        if (s->step == 0)
            return;
        take_no_notes(s);
    }
    struct json_note *n = &s->notes[s->n_notes];
    s->n_notes += s->step;
    n->at = (uint32_t)(from - s->text->start);
    n->end = (uint32_t)(s->p - s->text->start);
    n->next = s->n_notes;
    n->less = less;
}

/* ---- grammar ---- */

static __attribute__((noinline)) const unsigned char *solid_from(const unsigned char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
}

STEP void blanks(struct spot *s)
{
    if (*s->p <= ' ')
        s->p = solid_from(s->p);
}

/* What follows, blanks aside, is that byte; blanks are passed over. */
STEP bool is_next(struct spot *s, unsigned char byte)
{
    if (*s->p == byte)
        return true;
    blanks(s);
    return *s->p == byte;
}

/* At the opening quote. Most strings are names: short and plain. */
STEP bool string(struct spot *s)
{
    const unsigned char *p = s->p + 1;
    if (p <= s->text->near) {
        uint64_t odd = json_odd_of(s->text->wide, p) | UINT64_C(1) << JSON_SHORT;
        const unsigned char *q = p + __builtin_ctzll(odd);
        if (*q == '"') {
            s->p = q + 1;
            s->less = 0;
            return true;
        }
    }
    struct ending e = string_rest(s->text, p);
    s->p = e.p;
    s->less = e.less;
    return e.p != NULL;
}

/* The same letters; the first of them that differs ends the look. */
STEP bool literal(struct spot *s, const char *word, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        if (s->p[i] != (unsigned char)word[i])
            return false;
    s->p += n;
    return true;
}

static inline bool is_figure(unsigned char b)
{
    return (unsigned)b - '0' < 10;
}

/* JSON's own grammar of numbers, for what follows its first figures. */
static __attribute__((noinline)) bool is_strict_rest(const unsigned char *p, const unsigned char *end)
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
STEP bool number(struct spot *s)
{
    const unsigned char *first = s->p + (*s->p == '-'), *end = first;
    while (is_figure(*end))
        end++;
    s->is_strict &= end != first && (*first != '0' || end == first + 1);
    const unsigned char *rest = end;
    while (kinds[*end] & IS_NUMBER)
        end++;
    if (end != rest)
        s->is_strict &= is_strict_rest(rest, end);
    s->p = end;
    return true;
}

/* A number or a literal. */
STEP bool word(struct spot *s)
{
    switch (*s->p) {
    case 't':
        return literal(s, "true", 4);
    case 'f':
        return literal(s, "false", 5);
    case 'n':
        return literal(s, "null", 4);
    default:
        return (*s->p == '-' || is_figure(*s->p)) && number(s);
    }
}

/* The colon after a name. */
STEP bool colon(struct spot *s)
{
    if (!is_next(s, ':'))
        return false;
    s->p++;
    return true;
}

/* A name and its colon. */
STEP bool name(struct spot *s)
{
    if (!is_next(s, '"'))
        return false;
    const unsigned char *from = s->p;
    if (!string(s))
        return false;
    note(s, from, (uint32_t)s->less);
    s->is_strict &= s->less == 0;
    return colon(s);
}

/* An opening bracket. */
STEP bool open_level(struct spot *s)
{
    if (s->depth >= s->max_depth)
        return false;
    const unsigned char *from = s->p++;
    s->in_object = *from == '{';
    s->levels->is_object[s->depth] = s->in_object;
    if (s->step != 0) {
        s->levels->note[s->depth] = s->n_notes;
        note(s, from, s->depth == s->noted);
    }
    s->step = ++s->depth <= s->noted;
    return true;
}

/* The innermost level closes before s->p. */
STEP void close_level(struct spot *s)
{
    s->depth--;
    s->in_object = s->levels->is_object[s->depth - 1];
    s->step = s->depth <= s->noted;
    if (s->step == 0)
        return;
    struct json_note *n = &s->notes[s->levels->note[s->depth]];
    n->end = (uint32_t)(s->p - s->text->start);
    n->next = s->n_notes;
}

/* What follows a value, or a bracket that has opened: closes what ends here, up to the next value or until only the
 * outermost object is open. */
STEP bool after_value(struct spot *s)
{
    while (s->depth > 1) {
        if (is_next(s, ',')) {
            s->p++;
            return !s->in_object || name(s);
        }
        if (*s->p++ != (s->in_object ? '}' : ']') || s->p == s->text->end)
            return false; /* the last brace is the outer object's */
        close_level(s);
    }
    return true;
}

/* A string, number or literal. */
STEP bool scalar(struct spot *s)
{
    const unsigned char *from = s->p;
    s->less = 0;
    if (*from == '"' ? !string(s) : !word(s))
        return false;
    note(s, from, (uint32_t)s->less);
    return true;
}

/* A whole value of the outermost object, however deep. */
STEP bool value(struct spot *s)
{
    do {
        if (is_next(s, '"') || (*s->p != '{' && *s->p != '[')) {
            if (!scalar(s))
                return false;
        } else {
            unsigned char close = (unsigned char)(*s->p + 2);
            if (!open_level(s))
                return false;
            if (!is_next(s, close)) {
                if (s->in_object && !name(s))
                    return false;
                continue;
            }
        }
        if (!after_value(s))
            return false;
    } while (s->depth > 1);
    return true;
}

/* The member of that name; NULL: it is not wanted. */
STEP struct json_member *find_wanted(struct json_member *members, size_t n, const uint32_t *wanted, struct bytes name)
{
    if (wanted == NULL)
        return json_member_named(members, n, name);
    uint32_t some = name.n <= JSON_NAME_MAX ? wanted[name.n] : 0;
    for (; some != 0; some &= some - 1) {
        struct json_member *m = &members[__builtin_ctz(some)];
        if (memcmp(m->name, name.p, name.n) == 0)
            return m;
    }
    return NULL;
}

/* One `"name": value` of the outermost object. */
STEP bool member(struct spot *s, struct json_member *members, size_t n, const uint32_t *wanted)
{
    if (!is_next(s, '"'))
        return false;
    const unsigned char *at = s->p;
    if (!string(s) || s->less != 0)
        return false; /* a name with escapes may be a wanted one */
    note(s, at, 0);
    struct json_member *m = find_wanted(members, n, wanted, bytes_from(at + 1, (size_t)(s->p - at) - 2));
    if (!colon(s) || (m != NULL && m->type != JSON_ABSENT))
        return false;
    blanks(s);
    const unsigned char *from = s->p;
    uint32_t number = s->n_notes;
    if (!value(s))
        return false;
    if (m != NULL) {
        const unsigned char *start = s->text->start;
        m->note = number;
        m->type = json_type_of(*from);
        m->name_at = (size_t)(at - start);
        m->value_at = (size_t)(from - start);
        m->value_end = (size_t)(s->p - start);
    }
    return true;
}

STEP bool is_object(struct spot *s, struct json_member *members, size_t n, const uint32_t *wanted,
                    struct json_scan *scan)
{
    const unsigned char *end = s->text->end;
    bool is_fine = is_next(s, '{');
    scan->open_at = (size_t)(s->p++ - s->text->start);
    if (!is_fine || s->p == end)
        return false;
    scan->is_empty = is_next(s, '}');
    if (scan->is_empty)
        return s->p + 1 == end;
    while (member(s, members, n, wanted)) {
        if (!is_next(s, ','))
            return *s->p == '}' && s->p + 1 == end;
        s->p++;
    }
    return false;
}

/* ---- whole ---- */

static size_t without_blanks(struct bytes text)
{
    size_t n = text.n;
    while (n > 0 && (text.p[n - 1] == ' ' || text.p[n - 1] == '\n' || text.p[n - 1] == '\r' || text.p[n - 1] == '\t'))
        n--;
    return n;
}

static inline struct spot begin(struct text *text, struct levels *levels, unsigned max_depth,
                                const struct json_index *index)
{
    struct spot s = {.text = text, .p = text->start, .levels = levels};
    levels->is_object[0] = 1;
    s.depth = 1;
    s.max_depth = max_depth < JSON_DEPTH_CAP ? max_depth : JSON_DEPTH_CAP;
    s.in_object = true;
    s.is_strict = true;
    if (index == NULL || index->max == 0 || (size_t)(text->end - text->start) > UINT32_MAX) {
        take_no_notes(&s);
        return s;
    }
    s.notes = index->v;
    s.max_notes = index->max;
    s.n_notes = 1; /* the first is the outer object's */
    s.noted = index->levels < JSON_LEVELS_MAX ? index->levels : JSON_LEVELS_MAX;
    s.step = s.noted > 0;
    return s;
}

static void end_notes(const struct spot *s, const char *text, const struct json_scan *scan, struct json_index *index)
{
    index->text = text;
    index->n = s->n_notes;
    index->is_strict = s->is_strict && !s->text->has_pairs;
    if (index->n > 0)
        index->v[0] =
            (struct json_note){(uint32_t)scan->open_at, (uint32_t)(s->text->end - s->text->start), index->n, 0};
}

static bool scan_text(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                      struct json_scan *scan, struct json_index *index)
{
    unsigned char room[3 + JSON_TINY + JSON_BLOCK + 4]; /* a short text with room around it */
    struct levels levels;
    size_t size = without_blanks(text);
    if (size == 0 || text.p[size - 1] != '}')
        return false;
    struct text t = {.start = (const unsigned char *)text.p};
#if defined(RM_BLOCK_WIDE)
    t.wide = json_wide_hidden();
#endif
    if (size < JSON_TINY) {
        t.start = memcpy(room + 3, text.p, size);
        memset(room + 3 + size, 0, JSON_BLOCK + 4);
    }
    t.end = t.start + size;
    t.final = t.end - (size < JSON_TINY ? 0 : JSON_BLOCK);
    t.last = t.end - (size < JSON_TINY ? 0 : JSON_BLOCK + 4);
    t.near = t.end - (size < JSON_TINY ? 0 : JSON_SHORT + 1);
    *scan = (struct json_scan){.error_at = text.n};
    struct spot s = begin(&t, &levels, max_depth, index);
    if (!is_object(&s, members, n, index != NULL ? index->wanted : NULL, scan))
        return false;
    if (index != NULL)
        end_notes(&s, text.p, scan, index);
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

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
 * reached. Inside one, vectors would reach over the end of the text. So its last bytes are scanned in a copy with room
 * behind it: who comes near the end moves over (come_near), and offsets are told from where the text would begin there.
 *
 *     text  {"a":"b", ............ "y":"z"}          copy  "y":"z"}0000000000
 *                                  ^ near the end    ->    ^
 *
 * This file is compiled twice on x86-64, see json_block_wide.c. */
#if !defined(__clang__)
/* Four numbers that stand side by side in a note are not worth gathering in a vector first. */
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

#include "codec/json_block.h"
#include "codec/json_scan_impl.h"

#define STEP static inline __attribute__((always_inline))
#define UNLIKELY(x) __builtin_expect((x), 0)

/* By value of a byte. */
enum { IS_NUMBER = 1, IS_ESCAPE = 2 };

static const unsigned char kinds[256] = {
    ['0' ... '9'] = IS_NUMBER, ['+'] = IS_NUMBER, ['-'] = IS_NUMBER,  ['.'] = IS_NUMBER, ['e'] = IS_NUMBER,
    ['E'] = IS_NUMBER,         ['"'] = IS_ESCAPE, ['\\'] = IS_ESCAPE, ['/'] = IS_ESCAPE, ['b'] = IS_ESCAPE,
    ['f'] = IS_ESCAPE,         ['n'] = IS_ESCAPE, ['r'] = IS_ESCAPE,  ['t'] = IS_ESCAPE};

/* What \u00xx saves by its third digit, then by its fourth, beside the byte that every escape does: ASCII is one byte,
 * what is beyond it two. Added to what a string saves, NONE leaves a mark that no text can reach otherwise. */
#define NONE (UINT64_C(1) << 40)
#define BY_DIGIT(some, rest)                                                                                  \
    {                                                                                                         \
        [0 ... '0' - 1] = NONE, ['0' ... '7'] = (some), ['8' ... '9'] = (rest), ['9' + 1 ... 'A' - 1] = NONE, \
                     ['A' ... 'F'] = (rest), ['F' + 1 ... 'a' - 1] = NONE, ['a' ... 'f'] = (rest),            \
                     ['f' + 1 ... 255] = NONE                                                                 \
    }
static const uint64_t saves_by_digit[2][256] = {BY_DIGIT(4, 3), BY_DIGIT(0, 0)};

/* So much of the end is copied. A look at a block reads up to BEFORE bytes before it and BEHIND after it. */
enum { TAIL = 2 * JSON_BLOCK, BEFORE = 3, BEHIND = 4 };

/* What is scanned: the text where it lies, then the copy of its end. */
struct text {
    const struct json_wide *wide;     /* json_wide_constants, or NULL */
    const unsigned char *start;       /* where it lies */
    uintptr_t zero;                   /* where it begins, or would */
    const unsigned char *end;         /* after the last brace */
    const unsigned char *last, *near; /* up to there a block and BEHIND can be read; JSON_SHORT bytes and one */
    const unsigned char *inner;       /* from there on, BEFORE bytes */
    bool has_pairs;                   /* some string holds half of a surrogate pair */
    bool is_near;                     /* it is the copy */
    unsigned char room[BEFORE + TAIL + JSON_BLOCK + BEHIND];
};

/* What of a string reaches from a block into the next; and what is left to do of a block. */
struct reach {
    uint64_t carry; /* 1: its first byte is escaped */
    uint64_t over;  /* bytes of a character; wide vectors look for themselves */
    uint64_t less;  /* by escapes so far: how much shorter is what the string stands for; NONE and more: one was none */
    uint64_t odd;   /* the second bytes of the block's other escapes */
    uint64_t ends;  /* the lowest: where the string does */
};

/* A string's end. */
struct ending {
    const unsigned char *p; /* after the closing quote; NULL: gives up */
    uint64_t less;
};

/* ---- the end of the text ---- */

/* Its last n bytes move to the room. */
static void move_over(struct text *t, size_t n)
{
    unsigned char *to = t->room + BEFORE;
    memcpy(to, t->end - n, n);
    memset(to + n, 0, sizeof t->room - BEFORE - n);
    t->zero += (uintptr_t)to - (uintptr_t)(t->end - n);
    t->end = to + n;
    t->last = t->near = t->end - 1;
    t->inner = t->room;
    t->is_near = true;
}

/* At p, which is near the end; the same place in the copy. NULL: it is the end. */
static __attribute__((noinline)) const unsigned char *come_near(struct text *t, const unsigned char *p)
{
    if (t->is_near)
        return NULL;
    size_t left = (size_t)(t->end - p);
    move_over(t, TAIL);
    return t->end - left;
}

/* ---- escapes ---- */

/* A hexadecimal digit's value; more than 15: it is none. */
static inline unsigned digit(unsigned char b)
{
    unsigned figure = (unsigned)b - '0', letter = (b | 0x20U) - 'a';
    return figure < 10 ? figure : letter < 6 ? letter + 10 : 16;
}

/* What escapes save. */
struct saving {
    uint64_t less;  /* NONE and more: one was none */
    bool has_pairs; /* half of a surrogate pair was among them */
};

/* The u at q and the four bytes behind it. */
static struct saving unit_saves(const unsigned char *q)
{
    unsigned a = digit(q[1]), b = digit(q[2]), c = digit(q[3]);
    if ((a | b | c | digit(q[4])) > 15)
        return (struct saving){NONE, false};
    if (a == 0 && b < 8)
        return (struct saving){b == 0 && c < 8 ? 4 : 3, false};
    bool is_half = a == 13 && b >= 8; /* of a pair: two bytes and two */
    return (struct saving){is_half ? 3 : 2, is_half};
}

/* The second bytes of escapes are where the bits are, from p on. */
static __attribute__((noinline)) struct saving any_escapes(const unsigned char *p, uint64_t odd)
{
    struct saving all = {0, false};
    for (; odd != 0; odd &= odd - 1) {
        const unsigned char *q = p + __builtin_ctzll(odd);
        struct saving one = {kinds[*q] & IS_ESCAPE ? 0 : NONE, false};
        if (*q == 'u')
            one = unit_saves(q);
        all.less += one.less;
        all.has_pairs |= one.has_pairs;
    }
    return all;
}

/* Most escapes that vectors do not tell are \u00xx. True: there are others as well. Behind the end of the text are
 * zeros. */
STEP bool has_others(const unsigned char *p, struct reach *r)
{
    for (; r->odd != 0; r->odd &= r->odd - 1) {
        const unsigned char *q = p + __builtin_ctzll(r->odd);
        if (memcmp(q, "u00", 3) != 0)
            return true;
        r->less += saves_by_digit[0][q[3]] + saves_by_digit[1][q[4]];
    }
    return false;
}

/* ---- characters beyond ASCII ---- */

#if defined(RM_BLOCK_WIDE)
/* The block before ended with a byte that is not ASCII. */
STEP bool reaches_over(const unsigned char *p, const struct reach *r)
{
    (void)r;
    return p[-1] >= 0x80;
}

/* The bits are those of the block at p; false: some of what ends there is not UTF-8. From the first such byte on 32 are
 * judged at once, which is all there is of most blocks; what ends behind them, or may end too early there, lies in the
 * block's second half. */
STEP bool judge_high(const struct text *t, const struct json_wide *wide, const unsigned char *p, uint64_t high,
                     struct reach *r)
{
    uint64_t there = high | reaches_over(p, r);
    if (there == 0)
        return true;
    unsigned first = (unsigned)__builtin_ctzll(there);
    const unsigned char *from = p + (first < 32 ? first : 32);
    return json_is_utf8_wide(wide, from < t->inner ? t->inner : from) &&
           ((high | high << 1) >> first >> 32 == 0 || json_is_utf8_wide(wide, p + 32));
}

/* At a string's first byte, where not enough of the text stands before it for the above to look at. */
STEP bool begins_well(const struct text *t, const unsigned char *p)
{
    return p >= t->inner || (*p & 0xc0) != 0x80;
}
#else
/* The characters of two to four bytes that follow each other from q on and begin before `end`; returns where they end.
 * Four bytes are read as one number, the first lowest, and held against RFC 3629's table: the marks of lead and
 * following bytes, then what would be overlong, half of a pair or beyond the last character. NULL: not UTF-8. */
static inline const unsigned char *characters(const unsigned char *q, const unsigned char *end)
{
    while (q < end) {
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
    return q;
}

STEP bool reaches_over(const unsigned char *p, const struct reach *r)
{
    (void)p;
    return r->over != 0;
}

/* The characters whose bytes are where the bits are, from p on; the last one may reach over the block. */
static inline bool judge_high(const struct text *t, const struct json_wide *wide, const unsigned char *p, uint64_t high,
                              struct reach *r)
{
    (void)t, (void)wide;
    uint64_t over = r->over;
    r->over = 0;
    for (high &= UINT64_MAX << over; high != 0;) {
        const unsigned char *q = characters(p + __builtin_ctzll(high), p + JSON_BLOCK);
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

STEP bool begins_well(const struct text *t, const unsigned char *p)
{
    (void)t, (void)p;
    return true;
}
#endif

/* ---- strings ---- */

/* What a look at a block says. LEFT: it holds the string's end, or escapes that are still to be looked at. */
enum look { PLAIN, GOES_ON, LEFT, BAD };

/* At the block at p. */
STEP enum look look(const struct text *t, const struct json_wide *wide, const unsigned char *p, struct reach *r)
{
    struct json_bits bits = json_bits_of(wide, p);
    uint64_t stops = bits.stops, escaped = 0, ends = 0;
    bool has_slashes = (bits.slashes | r->carry) != 0;
    if (has_slashes) {
        escaped = json_escaped(bits.slashes, &r->carry);
        stops &= ~escaped;
    }
    if (stops != 0 || reaches_over(p, r)) {
        uint64_t high = json_high_of(p);
        ends = stops & ~high;
        uint64_t inside = ends ^ (ends - 1);
        escaped &= inside;
        if (!judge_high(t, wide, p, high & inside, r))
            return BAD;
    } else if (UNLIKELY(!has_slashes)) {
        return PLAIN;
    }
    r->ends = ends;
    if (escaped != 0) {
        r->less += (unsigned)__builtin_popcountll(escaped);
        r->odd = escaped & ~json_escapes_of(wide, p);
        if (has_others(p, r))
            return LEFT;
    }
    return ends == 0 ? GOES_ON : LEFT;
}

/* From *at on, inside a string, up to a block that is not only gone over. GOES_ON: near the end of the text. Nothing is
 * called from here, so that what vectors compare with stays in registers. */
STEP enum look blocks(const struct text *t, const unsigned char **at, struct reach *r)
{
    const struct json_wide *wide = t->wide;
    const unsigned char *p = *at, *last = t->last, *plain = NULL; /* behind the last block that was */
    enum look now = GOES_ON;
    for (; p <= last; p += JSON_BLOCK) {
        now = look(t, wide, p, r);
        if (now >= LEFT)
            break;
        if (now != PLAIN)
            continue;
        if (plain == p)
            while (last - p >= JSON_PLAIN && json_block_is_plain(wide, p + JSON_BLOCK))
                p += JSON_PLAIN;
        plain = p + JSON_BLOCK;
    }
    *at = p;
    return now >= LEFT ? now : GOES_ON;
}

/* From p on, inside a string. */
static __attribute__((noinline)) struct ending string_rest(struct text *t, const unsigned char *p)
{
    const struct ending none = {NULL, 0};
    struct reach r = {0};
    if (!begins_well(t, p))
        return none;
    for (;; p += JSON_BLOCK) {
        enum look now;
        while ((now = blocks(t, &p, &r)) == GOES_ON)
            if ((p = come_near(t, p)) == NULL)
                return none;
        if (now == BAD)
            return none;
        if (r.odd != 0) {
            struct saving more = any_escapes(p, r.odd);
            r.odd = 0;
            r.less += more.less;
            t->has_pairs |= more.has_pairs;
        }
        if (r.ends != 0)
            break;
    }
    p += __builtin_ctzll(r.ends);
    return *p == '"' && r.less < NONE ? (struct ending){p + 1, r.less} : none;
}

/* ---- where the scan stands ---- */

/* The members that are wanted. */
struct wanted {
    struct json_member *v;
    size_t n;
    const uint32_t *by_length; /* see struct json_index, wanted */
    const struct json_member *names;
};

struct spot {
    struct text *text;
    const unsigned char *p;  /* what follows from here on */
    uint64_t less;           /* of the string before it, see struct json_note */
    struct json_note *notes; /* all of them */
    struct json_note *note;  /* the next one */
    uint32_t n_notes;        /* its number */
    uint32_t limit;          /* the first number that there is no room for; 0: the level is not noted */
    uint32_t max_notes;      /* the same where it is noted */
    unsigned noted;          /* levels that are */
    unsigned depth, max_depth;
    unsigned char close; /* of the innermost level: its bracket */
    bool is_strict;
    uint32_t found; /* see struct json_index */
    const struct wanted *wanted;
    struct json_member *member; /* the wanted one whose value this is, in the outermost object; NULL = it is none */
    struct levels *levels;
    const struct json_form *forms, *forms_end;
};

struct levels {
    struct json_note *note[JSON_LEVELS_MAX + 1]; /* of the open levels that are noted */
    unsigned char close[JSON_DEPTH_CAP];
};

/* The steps below move on over what they take; false: the scan gives up. All of them become one function, in which most
 * of the above lies in registers. */

STEP size_t here(const struct spot *s)
{
    return (uintptr_t)s->p - s->text->zero;
}

/* ---- notes ---- */

/* Without room for all there are none. */
static void take_no_notes(struct spot *s)
{
    s->n_notes = s->limit = s->max_notes = 0;
    s->noted = 0;
}

/* There is room for it. */
STEP void put_note(struct spot *s, size_t from, size_t end, uint32_t less)
{
    struct json_note *n = s->note++;
    n->at = (uint32_t)from;
    n->end = (uint32_t)end;
    n->next = ++s->n_notes;
    n->less = less;
}

/* What stands before s->p, from that offset on. */
STEP void note(struct spot *s, size_t from, uint32_t less)
{
    if (s->n_notes < s->limit)
        put_note(s, from, here(s), less);
    else if (s->limit != 0)
        take_no_notes(s);
}

/* ---- grammar ---- */

static __attribute__((noinline)) const unsigned char *solid_from(const unsigned char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
}

/* Mostly there is none, or it is one. */
STEP void blanks(struct spot *s)
{
    if (*s->p > ' ')
        return;
    if (*s->p == ' ' && s->p[1] > ' ')
        s->p++;
    else
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
    if (p > s->text->near && !s->text->is_near)
        p = come_near(s->text, p);
    uint64_t odd = json_odd_of(s->text->wide, p) | UINT64_C(1) << JSON_SHORT;
    const unsigned char *q = p + __builtin_ctzll(odd);
    if (*q == '"') {
        s->p = q + 1;
        s->less = 0;
        return true;
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
    if (is_figure(*s->p))
        return number(s);
    switch (*s->p) {
    case 't':
        return literal(s, "true", 4);
    case 'f':
        return literal(s, "false", 5);
    case 'n':
        return literal(s, "null", 4);
    default:
        return *s->p == '-' && number(s);
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

/* The member of that name; NULL: it is not wanted. */
STEP struct json_member *find_wanted(const struct spot *s, const unsigned char *name, size_t n)
{
    const struct wanted *w = s->wanted;
    if (w->by_length == NULL)
        return json_member_named(w->v, w->n, bytes_from(name, n));
    uint32_t some = n <= JSON_NAME_MAX ? w->by_length[n] : 0;
    for (; some != 0; some &= some - 1) {
        unsigned i = (unsigned)__builtin_ctz(some);
        if (memcmp(w->names[i].name, name, n) != 0)
            continue;
        if ((s->found >> i & 1) == 0)
            w->v[i] = w->names[i];
        return &w->v[i];
    }
    return NULL;
}

/* Behind a name of the outermost object that begins at that offset: its colon, and where the value of a member that is
 * wanted begins. */
STEP bool outer_colon(struct spot *s, size_t at)
{
    if (s->less != 0)
        return false; /* a name with escapes may be a wanted one */
    const unsigned char *name = s->text->start + at + 1;
    struct json_member *m = s->wanted->n > 0 ? find_wanted(s, name, here(s) - at - 2) : NULL;
    s->member = m;
    if (!colon(s))
        return false;
    if (m == NULL)
        return true;
    if (m->type != JSON_ABSENT)
        return false;
    blanks(s);
    s->found |= json_bit_of(m, s->wanted->v);
    m->note = s->n_notes;
    m->type = json_type_of(*s->p);
    m->name_at = at;
    m->value_at = here(s);
    return true;
}

/* A name and its colon. */
STEP bool name(struct spot *s)
{
    if (!is_next(s, '"'))
        return false;
    size_t from = here(s);
    if (!string(s))
        return false;
    note(s, from, (uint32_t)s->less);
    s->is_strict &= s->less == 0;
    return s->depth == 1 ? outer_colon(s, from) : colon(s);
}

/* An opening bracket. */
STEP bool open_level(struct spot *s)
{
    if (s->depth >= s->max_depth)
        return false;
    size_t from = here(s);
    s->close = (unsigned char)(*s->p++ + 2);
    s->levels->close[s->depth] = s->close;
    if (s->depth <= s->noted) {
        s->levels->note[s->depth] = s->note;
        note(s, from, s->depth == s->noted);
    }
    if (++s->depth > s->noted)
        s->limit = 0;
    return true;
}

/* The innermost level closes before s->p. */
STEP void close_level(struct spot *s)
{
    s->depth--;
    s->close = s->levels->close[s->depth - 1];
    if (s->depth > s->noted)
        return;
    s->limit = s->max_notes;
    struct json_note *n = s->levels->note[s->depth];
    n->end = (uint32_t)here(s);
    n->next = s->n_notes;
}

/* A string, number or literal. */
STEP bool scalar(struct spot *s)
{
    size_t from = here(s);
    s->less = 0;
    if (*s->p == '"' ? !string(s) : !word(s))
        return false;
    note(s, from, (uint32_t)s->less);
    return true;
}

/* At p stands that text of JSON_FORM_MIN bytes or more. */
STEP bool stands(const unsigned char *p, const char *text, size_t n)
{
    return memcmp(p, text, JSON_FORM_MIN) == 0 &&
           memcmp(p + n - JSON_FORM_MIN, text + n - JSON_FORM_MIN, JSON_FORM_MIN) == 0;
}

/* An object that begins as that form says: moves on to the value of its second member. A block and more can be read. */
STEP bool is_formed(struct spot *s, const struct json_form *f)
{
    const unsigned char *value = s->p + f->n_first;
    if (!stands(s->p, f->first, f->n_first) || *value != '"')
        return false;
    uint64_t odd = json_odd_of(s->text->wide, value + 1) | UINT64_C(1) << JSON_SHORT;
    const unsigned char *end = value + 1 + __builtin_ctzll(odd);
    if (*end++ != '"' || !stands(end, f->second, f->n_second))
        return false;
    size_t at = here(s), end_at = at + (size_t)(end - s->p);
    s->levels->note[s->depth] = s->note;
    put_note(s, at, at + 1, 0);
    put_note(s, at + f->first_at, at + f->first_end, 0);
    put_note(s, at + f->n_first, end_at, 0);
    put_note(s, end_at + f->second_at, end_at + f->second_end, 0);
    s->close = s->levels->close[s->depth++] = '}';
    s->p = end + f->n_second;
    return true;
}

/* The same for any of the forms, where all that the object holds is noted. */
STEP void step_into_form(struct spot *s)
{
    if (s->p > s->text->last || s->depth >= s->noted || s->depth >= s->max_depth || s->n_notes + 4 > s->limit)
        return;
    for (const struct json_form *f = s->forms; f != s->forms_end; f++)
        if (is_formed(s, f)) {
            blanks(s);
            return;
        }
}

/* What follows a value: closes what ends here, up to the next value (or name) or the end of the text. */
STEP bool after_value(struct spot *s)
{
    for (; s->depth > 1; close_level(s)) {
        if (is_next(s, ',')) {
            s->p++;
            return true;
        }
        if (*s->p++ != s->close || s->p == s->text->end)
            return false; /* the last brace is the outer object's */
    }
    if (s->member != NULL)
        s->member->value_end = here(s);
    if (is_next(s, ',')) {
        s->p++;
        return true;
    }
    return *s->p++ == '}' && s->p == s->text->end;
}

/* A value, and what follows it; of an object or array that is not empty, its bracket. */
STEP bool value(struct spot *s)
{
    blanks(s);
    if (*s->p == '{')
        step_into_form(s);
    if (*s->p == '"' || (*s->p != '{' && *s->p != '['))
        return scalar(s) && after_value(s);
    return open_level(s) && (!is_next(s, s->close) || after_value(s));
}

/* All of the outermost object: its members and theirs, one after the other. */
STEP bool is_object(struct spot *s, struct json_scan *scan)
{
    bool is_fine = is_next(s, '{');
    scan->open_at = here(s);
    s->p++;
    if (!is_fine || s->p == s->text->end)
        return false;
    scan->is_empty = is_next(s, '}');
    if (scan->is_empty)
        return s->p + 1 == s->text->end;
    do {
        if (s->close == '}' && !name(s))
            return false;
        if (!value(s))
            return false;
    } while (s->p != s->text->end);
    return true;
}

/* ---- whole ---- */

static size_t without_blanks(struct bytes text)
{
    size_t n = text.n;
    while (n > 0 && (text.p[n - 1] == ' ' || text.p[n - 1] == '\n' || text.p[n - 1] == '\r' || text.p[n - 1] == '\t'))
        n--;
    return n;
}

/* The text; all of it moves over when it is short. */
static void begin_text(struct text *t, struct bytes text)
{
#if defined(RM_BLOCK_WIDE)
    t->wide = json_wide_hidden();
#else
    t->wide = NULL;
#endif
    const unsigned char *start = (const unsigned char *)text.p;
    t->start = start;
    t->zero = (uintptr_t)start;
    t->end = start + text.n;
    t->has_pairs = t->is_near = false;
    if (text.n <= TAIL) {
        memset(t->room, 0, BEFORE);
        move_over(t, text.n);
        return;
    }
    t->last = t->end - JSON_BLOCK - BEHIND;
    t->near = t->end - JSON_SHORT - 1;
    t->inner = start + BEFORE;
}

STEP struct spot begin(struct text *text, size_t size, struct levels *levels, unsigned max_depth,
                       const struct wanted *wanted, const struct json_index *index)
{
    struct spot s = {.text = text, .p = text->end - size, .wanted = wanted, .levels = levels};
    levels->close[0] = s.close = '}';
    s.depth = 1;
    s.max_depth = max_depth < JSON_DEPTH_CAP ? max_depth : JSON_DEPTH_CAP;
    s.is_strict = true;
    if (index == NULL || index->max == 0 || size > UINT32_MAX)
        return s; /* no notes */
    s.notes = index->v;
    s.note = index->v + 1; /* the first is the outer object's */
    s.n_notes = 1;
    s.max_notes = index->max;
    s.noted = index->levels < JSON_LEVELS_MAX ? index->levels : JSON_LEVELS_MAX;
    s.limit = s.noted > 0 ? s.max_notes : 0;
    s.forms = index->forms;
    s.forms_end = index->forms + index->n_forms;
    return s;
}

STEP void end_notes(const struct spot *s, struct bytes text, const struct json_scan *scan, struct json_index *index)
{
    index->text = text.p;
    index->n = s->n_notes;
    index->is_strict = s->is_strict && !s->text->has_pairs;
    index->found = s->found;
    if (index->n > 0)
        index->v[0] = (struct json_note){(uint32_t)scan->open_at, (uint32_t)text.n, index->n, 0};
}

static bool scan_text(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                      struct json_scan *scan, struct json_index *index)
{
    struct text t;
    struct levels levels;
    *scan = (struct json_scan){.error_at = text.n};
    text.n = without_blanks(text);
    if (text.n == 0 || text.p[text.n - 1] != '}')
        return false;
    begin_text(&t, text);
    struct wanted wanted = {members, n, NULL, NULL};
    if (index != NULL && index->names != NULL) {
        wanted.by_length = index->wanted;
        wanted.names = index->names;
    }
    struct spot s = begin(&t, text.n, &levels, max_depth, &wanted, index);
    if (!is_object(&s, scan))
        return false;
    if (index != NULL)
        end_notes(&s, text, scan, index);
    return true;
}

static bool string_in(struct bytes text, size_t at, size_t *n, uint32_t *less)
{
    struct text t;
    begin_text(&t, text);
    struct ending e = string_rest(&t, t.end - (text.n - at));
    if (e.p == NULL || t.has_pairs)
        return false;
    *n = (uintptr_t)e.p - 1 - t.zero - at;
    *less = (uint32_t)e.less;
    return true;
}

#if defined(RM_BLOCK_WIDE)
bool json_wide_string(struct bytes text, size_t at, size_t *n, uint32_t *less)
{
    return string_in(text, at, n, less);
}

bool json_scan_wide(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                    struct json_scan *scan, struct json_index *index)
{
    return scan_text(text, max_depth, members, n, scan, index);
}
#else
bool json_block_string(struct bytes text, size_t at, size_t *n, uint32_t *less)
{
#if defined(RM_HAS_WIDE)
    if (json_can_wide())
        return json_wide_string(text, at, n, less);
#endif
    return string_in(text, at, n, less);
}

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

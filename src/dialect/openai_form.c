/* The parts lie one after the other, without what stood in the slots between them. Every name is in a part, so that no
 * member can come twice, and whatever the reader looks at and is in no slot as well.
 *
 * A target whose answers never look like the one before would pay for a form each time: it is left alone for a while.
 */
#include "dialect/openai_form.h"

#include "base/mem.h"
#include "codec/json_string.h"

enum { PARTS_BYTES_MAX = 1024, TEXT_BYTES_MAX = 1 << 24, MISSES_MAX = 4, ANSWERS_LEFT_ALONE = 64 };

struct slot {
    uint16_t n_part; /* bytes of the part before it */
    uint16_t field;  /* as of its place */
    uint16_t kind;
};

struct answer_form {
    unsigned max_depth;
    uint8_t n_misses;          /* made anew so often since an answer was of the form it had */
    uint8_t n_alone;           /* so many answers are not looked at */
    uint16_t n_slots;          /* 0 = no form is known */
    uint16_t n_tail;           /* bytes of the last part */
    struct openai_noted noted; /* what is in no slot; its texts are empty */
    struct slot slots[NOTED_PLACES_MAX];
    char parts[PARTS_BYTES_MAX];
};

/* ---- making ---- */

static bool is_due(struct answer_form *f)
{
    if (f->n_alone > 0 || ++f->n_misses <= MISSES_MAX)
        return f->n_alone == 0;
    f->n_alone = ANSWERS_LEFT_ALONE;
    f->n_misses = 0;
    f->n_slots = 0;
    return false;
}

static void set_noted(struct answer_form *f, const struct openai_noted *n)
{
    f->noted = (struct openai_noted){.has_usage = n->has_usage,
                                     .has_choice = n->has_choice,
                                     .has_message = n->has_message,
                                     .has_index = n->has_index,
                                     .usage = n->usage,
                                     .choice = n->choice};
}

/* Puts the text from `at` to `end` behind the parts that are there. False: there is no room. */
static bool put_part(struct answer_form *f, size_t *n_parts, const char *at, const char *end)
{
    size_t n = (size_t)(end - at);
    if (n > sizeof f->parts - *n_parts)
        return false;
    memcpy(f->parts + *n_parts, at, n);
    *n_parts += n;
    return true;
}

static bool cut(struct answer_form *f, struct bytes text, const struct json_index *index,
                const struct openai_noted *noted)
{
    const char *at = text.p;
    size_t n_parts = 0;
    for (uint32_t i = 0; i < noted->n_places; i++) {
        const struct noted_place *place = &noted->places[i];
        const struct json_note *n = &index->v[place->note];
        size_t quote = place->kind != NOTED_FIGURE;
        const char *hole = index->text + n->at + quote;
        f->slots[i] = (struct slot){(uint16_t)(hole - at), place->field, place->kind};
        if (!put_part(f, &n_parts, at, hole))
            return false;
        at = index->text + n->end - quote;
    }
    f->n_tail = (uint16_t)(text.p + text.n - at);
    return put_part(f, &n_parts, at, text.p + text.n);
}

void openai_form_make(struct answer_form **form, struct bytes text, unsigned max_depth, const struct json_index *index,
                      const struct openai_noted *noted)
{
    if (form == NULL || noted->n_places > NOTED_PLACES_MAX || noted->n_places == 0)
        return;
    if (*form == NULL)
        *form = mem_zalloc(sizeof **form);
    struct answer_form *f = *form;
    if (!is_due(f))
        return;
    f->max_depth = max_depth;
    set_noted(f, noted);
    f->n_slots = cut(f, text, index, noted) ? (uint16_t)noted->n_places : 0;
}

/* ---- matching ---- */

/* These three: where the slot ends that begins at `at`, or NULL. The inside of a string … */
static const char *pass_text(struct bytes text, const char *at, struct noted_text *out)
{
    size_t n;
    if (!json_scan_string(text, (size_t)(at - text.p), &n, &out->less))
        return NULL;
    out->inside = bytes_from(at, n);
    return at + n;
}

/* … which is mostly short … */
static const char *pass_word(const char *at, const char *end, struct noted_text *out)
{
    struct json_string s;
    if (!json_string_read(bytes_from(at, (size_t)(end - at)), &s) || s.has_escapes)
        return NULL;
    out->inside = bytes_from(at, s.n);
    return at + s.n;
}

/* … and digits, with no 0 before others. More of them than n_max: what follows them is not the next part. */
static const char *pass_figure(const char *at, const char *end, ptrdiff_t n_max, int64_t *out)
{
    const char *p = at, *stop = end - at > n_max ? at + n_max : end;
    int64_t n = 0;
    for (unsigned digit; p < stop && (digit = (unsigned)(unsigned char)*p - '0') <= 9; p++)
        n = n * 10 + digit;
    *out = n;
    return p == at || (*at == '0' && p - at > 1) ? NULL : p;
}

static const char *pass_slot(const struct slot *s, struct bytes text, const char *at, struct openai_noted *out)
{
    union {
        struct noted_text text;
        int64_t figure;
    } nowhere;
    void *field = s->field != NOTED_NOWHERE ? (char *)out + s->field : (char *)&nowhere;
    if (s->kind == NOTED_TEXT)
        return pass_text(text, at, field);
    if (s->kind == NOTED_WORD)
        return pass_word(at, text.p + text.n, field);
    return pass_figure(at, text.p + text.n, s->field != NOTED_NOWHERE ? NOTED_DIGITS_MAX : NOTED_UNREAD_MAX, field);
}

static bool is_part(const char *part, size_t n, const char *at, const char *end)
{
    return (size_t)(end - at) >= n && memcmp(part, at, n) == 0;
}

static bool match(const struct answer_form *f, struct bytes text, struct openai_noted *out)
{
    const char *at = text.p, *end = at + text.n, *part = f->parts;
    memcpy(out, &f->noted, offsetof(struct openai_noted, places));
    for (const struct slot *s = f->slots, *s_end = s + f->n_slots; s < s_end; s++) {
        if (!is_part(part, s->n_part, at, end))
            return false;
        at = pass_slot(s, text, at + s->n_part, out);
        if (at == NULL)
            return false;
        part += s->n_part;
    }
    return (size_t)(end - at) == f->n_tail && is_part(part, f->n_tail, at, end);
}

bool openai_form_match(struct answer_form **form, struct bytes text, unsigned max_depth, struct openai_noted *out)
{
    struct answer_form *f = form != NULL ? *form : NULL;
    if (f == NULL)
        return false;
    if (f->n_slots == 0 || f->max_depth != max_depth || text.n > TEXT_BYTES_MAX || !match(f, text, out)) {
        f->n_alone -= f->n_alone > 0;
        return false;
    }
    f->n_misses = 0;
    return true;
}

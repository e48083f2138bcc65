/* Walks through JSON text that json_scan has already found well-formed: members of an object, items of an array, one
 * level at a time, without a tree. Values come as raw text. Never reads outside the text, whatever it holds. Pure.
 *
 *     struct walk w = walk_of(raw);
 *     while (walk_next(&w))
 *         … w.name, w.value … */
#ifndef RM_DIALECT_WALK_H
#define RM_DIALECT_WALK_H

#include "codec/json_scan.h"

struct walk {
    struct bytes text;
    size_t at;
    bool is_object;
    struct bytes name;              /* objects: raw, without its quotes */
    struct bytes value;             /* raw: strings with their quotes */
    const struct json_index *index; /* notes of the text that all of this lies in; NULL = the bytes are looked at */
    uint32_t next, end;             /* index given: the note to come; the first that is not in what is walked over */
    uint32_t here;                  /* index given: the value's note */
};

/* Over the object or array in `value`; over nothing when it is neither. */
struct walk walk_of(struct bytes value);
static inline bool walk_next(struct walk *w);
static inline struct walk walk_notes(const struct json_index *index);
/* Over what is in the value that w stands on. */
struct walk walk_into(const struct walk *w);
/* Stands on a value of a text that has notes, by its number among them (without any, or p NULL: simply on a value):
 * walk_into, walk_string_bytes and walk_may_name may follow. They, and what they lead to, go from note to note. The
 * index outlives the walk. */
struct walk walk_on(struct bytes value, uint32_t note, const struct json_index *index);
/* False only where no object in the value that w stands on has a member of one of these names, written without escapes.
 */
bool walk_may_name(const struct walk *w, struct bytes one, struct bytes other);
/* The next member of that name; its value is in w->value. */
bool walk_find(struct walk *w, const char *name);
/* raw_string_bytes of the value that w stands on. */
uint64_t walk_string_bytes(const struct walk *w);

/* The raw member of that name, p NULL when there is none or the value is no object. */
struct bytes walk_get(struct bytes object, const char *name);
/* The raw value is a string and stands exactly so, escapes aside. */
bool raw_is(struct bytes raw, const char *text);
bool raw_is_string(struct bytes raw);
/* Absent or null. */
bool raw_is_nothing(struct bytes raw);
/* UTF-8 bytes that a raw string stands for. */
uint64_t raw_string_bytes(struct bytes raw);

/* ---- parts of the above ---- */

bool walk_next_raw(struct walk *w);

static inline struct bytes walk_noted(const struct json_index *index, uint32_t i)
{
    return (struct bytes){index->text + index->v[i].at, index->v[i].end - index->v[i].at};
}

static inline bool walk_next_noted(struct walk *w)
{
    if (w->next >= w->end)
        return false;
    if (w->is_object) {
        struct bytes name = walk_noted(w->index, w->next++);
        w->name = (struct bytes){name.p + 1, name.n - 2};
    }
    w->here = w->next;
    w->value = walk_noted(w->index, w->here);
    w->next = w->index->v[w->here].next;
    return true;
}

/* Over the outer object of a text that has notes. */
static inline struct walk walk_notes(const struct json_index *index)
{
    return (struct walk){.is_object = true, .index = index, .next = 1, .end = index->n > 0 ? index->v[0].next : 0};
}

static inline bool walk_next(struct walk *w)
{
    return w->index != NULL ? walk_next_noted(w) : walk_next_raw(w);
}

#endif

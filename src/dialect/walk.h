/* Walks through JSON text that json_scan has already found well-formed: members of an object, items of an array, one
 * level at a time, without a tree. Values come as raw text. Never reads outside the text, whatever it holds. Pure.
 *
 *     struct walk w = walk_of(raw);
 *     while (walk_next(&w))
 *         … w.name, w.value … */
#ifndef RM_DIALECT_WALK_H
#define RM_DIALECT_WALK_H

#include "base/bytes.h"

struct walk {
    struct bytes text;
    size_t at;
    bool is_object;
    struct bytes name;  /* objects: raw, without its quotes */
    struct bytes value; /* raw: strings with their quotes */
};

/* Over the object or array in `value`; over nothing when it is neither. */
struct walk walk_of(struct bytes value);
bool walk_next(struct walk *w);

/* The raw member of that name, p NULL when there is none or the value is no object. */
struct bytes walk_get(struct bytes object, const char *name);
/* The raw value is a string and stands exactly so, escapes aside. */
bool raw_is(struct bytes raw, const char *text);
bool raw_is_string(struct bytes raw);
/* Absent or null. */
bool raw_is_nothing(struct bytes raw);
/* UTF-8 bytes that a raw string stands for. */
uint64_t raw_string_bytes(struct bytes raw);

#endif

/* A JSON value put together from the pieces in which a stream tells it: objects gain members, arrays items, texts grow
 * at their end, everything else is JSON text that a later piece may replace. Names are told once per object. Pure.
 *
 * Each call is given the mosaic's store, which also notes what was changed: a piece that changed nothing but a text
 * that was there already would do the same if it came again with other text. */
#ifndef RM_DIALECT_MOSAIC_H
#define RM_DIALECT_MOSAIC_H

#include "base/arena.h"
#include "codec/json_tree.h"
#include "codec/json_write.h"
#include "dialect/rope.h"

enum mosaic_kind { MOSAIC_RAW, MOSAIC_TEXT, MOSAIC_ARRAY, MOSAIC_OBJECT };

struct mosaic_store {
    struct arena arena; /* all memory of the mosaic */
    unsigned n_changes; /* since the owner cleared it */
    struct rope *grown; /* the text that was last run on, if it was not empty before; else NULL */
};

struct mosaic {
    enum mosaic_kind kind;
    struct bytes name;           /* of a member of an object */
    struct bytes raw;            /* RAW: JSON text; p NULL = nothing was told yet */
    size_t cap;                  /* RAW: bytes that may be written at raw.p */
    struct rope text;            /* TEXT: the string; OBJECT: the owner's */
    int64_t at;                  /* items: the owner's mark, an index on the wire */
    struct mosaic *first, *last; /* ARRAY, OBJECT */
    size_t n;                    /* of these */
    struct mosaic *next;
};

/* An object takes no more members than this: what comes after them is left out. */
enum { MOSAIC_MEMBERS_MAX = 256 };

/* NULL when there is none, or `object` is none. */
struct mosaic *mosaic_get(const struct mosaic *object, const char *name);
/* The member of that name, a new one if need be; NULL at the maximum. The object must be one (mosaic_become). */
struct mosaic *mosaic_member(struct mosaic *object, struct bytes name, struct mosaic_store *s);
/* The same for the names of the dialect, without a maximum. Never NULL. */
struct mosaic *mosaic_need(struct mosaic *object, const char *name, struct mosaic_store *s);
/* Takes a member out, if it is there. */
void mosaic_drop(struct mosaic *object, const char *name);
/* A new item at the end of an array. */
struct mosaic *mosaic_item(struct mosaic *array, struct mosaic_store *s);
/* Makes it an empty value of that kind, unless it is of that kind already. */
void mosaic_become(struct mosaic *m, enum mosaic_kind kind, struct mosaic_store *s);
/* Replaces the value by JSON text (copied). */
void mosaic_set_raw(struct mosaic *m, struct bytes json, struct mosaic_store *s);
void mosaic_set_text(struct mosaic *m, struct bytes text, struct mosaic_store *s);
/* Appends to a text; a value of another kind is replaced. */
void mosaic_run_on(struct mosaic *m, struct bytes text, struct mosaic_store *s);
/* Appends to what the owner of an object gathers in its `text`. */
void mosaic_gather(struct mosaic *m, struct bytes text, struct mosaic_store *s);
/* Absent (NULL), null, "", [] or {}: says nothing. */
bool mosaic_is_empty(const struct mosaic *m);
/* It is this string, or this JSON text. */
bool mosaic_is(const struct mosaic *m, const char *text);
bool mosaic_is_raw(const struct mosaic *m, struct bytes json);
void mosaic_write(struct json_writer *w, const struct mosaic *m, struct mosaic_store *s);

#endif

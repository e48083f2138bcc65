/* One JSON object whose names are known when it is compiled and whose texts are mostly short and plain: what is written
 * with every request. Where json_write.h counts commas and looks for room at each piece, here the caller writes the
 * constant pieces himself, commas and all, and each piece goes to where it will stand. Pure.
 *
 *     jl_begin(&l, &out); jl_put(&l, BYTES("{\"id\":")); jl_text(&l, id); jl_put(&l, BYTES("}")); jl_end(&l); */
#ifndef RM_CODEC_JSON_LINE_H
#define RM_CODEC_JSON_LINE_H

#include "base/buf.h"

#include <string.h>

struct json_line {
    struct buf *out; /* has no maximum; its n is brought up to date by jl_end */
    char *at, *end;  /* where the next piece goes; end of the room */
};

void jl_begin(struct json_line *l, struct buf *out);
void jl_end(struct json_line *l);
/* The long ways of those below. */
void jl_grow(struct json_line *l, size_t n);
void jl_put_quoted(struct json_line *l, struct bytes text);
void jl_put_int(struct json_line *l, int64_t v);

/* Where n bytes can be written; follow with `at` moved on by what was. */
static inline char *jl_room(struct json_line *l, size_t n)
{
    if ((size_t)(l->end - l->at) < n)
        jl_grow(l, n);
    return l->at;
}
/* Inlined always: the length of a literal is known then. */
static inline __attribute__((always_inline)) void jl_put(struct json_line *l, struct bytes json)
{
    memcpy(jl_room(l, json.n), json.p, json.n);
    l->at += json.n;
}
/* A text in quotes; null for NULL and for an empty one. */
static inline void jl_text(struct json_line *l, const char *v)
{
    if (v == NULL || *v == '\0')
        jl_put(l, BYTES("null"));
    else
        jl_put_quoted(l, bytes_of(v));
}
/* A number; null where it is not known. */
static inline void jl_known(struct json_line *l, int64_t v, bool is_known)
{
    if (is_known)
        jl_put_int(l, v);
    else
        jl_put(l, BYTES("null"));
}

#endif

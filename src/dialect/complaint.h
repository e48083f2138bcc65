/* What a provider says went wrong, read from the many shapes of error bodies (openai-chat.md 7 "Sniffing order",
 * anthropic-messages.md 6) before anyone judges it. */
#ifndef RM_DIALECT_COMPLAINT_H
#define RM_DIALECT_COMPLAINT_H

#include "base/arena.h"
#include "codec/json_tree.h"

/* Texts are borrowed from the body or the arena; p NULL = not told. */
struct complaint {
    bool is_json;
    bool is_html;         /* not JSON, with markup in it */
    unsigned told;        /* status that the body itself names, 400 … 599; 0 = none */
    struct bytes message; /* for people; empty when only markup came */
    struct bytes text;    /* what patterns are looked for in; never markup */
    struct bytes type;    /* numbers as text */
    struct bytes code;    /* numbers as text */
    struct bytes param;
    struct bytes detail; /* details.error_code, innererror.code, metadata.error_type */
    yyjson_val *root;    /* NULL when not JSON */
    yyjson_val *error;   /* the error object, or the root of a flat form; NULL when not JSON */
};

/* Body of an error answer; may be empty, HTML or cut. */
void complaint_read(struct bytes body, struct arena *a, struct complaint *out);
/* The same of a tree that was parsed already. */
void complaint_of_tree(yyjson_val *root, struct arena *a, struct complaint *out);
/* The text holds the pattern, without regard to case. */
bool complaint_says(const struct complaint *c, const char *pattern);
/* Type, code or detail is that word, without regard to case. */
bool complaint_is(const struct complaint *c, const char *word);

#endif

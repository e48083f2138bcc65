/* Finds the byte ranges of a few top-level members of a JSON object without building a tree, and says whether the text
 * may be spliced at all. Scalar here; a vector scan may replace it behind the same contract. Pure.
 *
 * What it refuses (and how): not one object, unbalanced, trailing bytes -> ERR_SYNTAX; a control character or invalid
 * UTF-8 inside a string, a bad escape -> ERR_SYNTAX; deeper than max_depth -> ERR_LIMIT; a duplicate of a *wanted*
 * name, also when one of them is written with escapes -> ERR_DUPLICATE. A wanted name written with escapes once is
 * found. Grammar inside values that nobody here reads (e.g. a malformed number) is not checked: it goes to the
 * provider. */
#ifndef RM_CODEC_JSON_SCAN_H
#define RM_CODEC_JSON_SCAN_H

#include "base/bytes.h"
#include "base/err.h"

enum json_type { JSON_ABSENT, JSON_STRING, JSON_NUMBER, JSON_OBJECT, JSON_ARRAY, JSON_TRUE, JSON_FALSE, JSON_NULL };

struct json_member {
    const char *name;           /* in: wanted, plain ASCII without escapes */
    enum json_type type;        /* out: JSON_ABSENT = not there */
    size_t name_at;             /* out: offset of the name's opening quote */
    size_t value_at, value_end; /* out: [value_at, value_end) of the value; strings with their quotes */
};

struct json_scan {
    size_t open_at;        /* offset of the object's { */
    bool is_empty;         /* {} */
    size_t error_at;       /* offset where a fault was seen */
    const char *error;     /* short text, static */
    const char *duplicate; /* ERR_DUPLICATE: the wanted name that stands twice, else NULL */
};

/* Scans `text`; fills the n members and *scan. max_depth counts nested objects and arrays, the outer one is 1. */
enum err json_scan(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                   struct json_scan *scan) RM_MUST_USE;
/* The raw value of a member, as in the text (strings with quotes). */
static inline struct bytes json_member_raw(struct bytes text, const struct json_member *m)
{
    return (struct bytes){text.p + m->value_at, m->value_end - m->value_at};
}

#endif

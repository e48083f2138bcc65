/* Finds the byte ranges of a few top-level members of a JSON object without building a tree, and says whether the text
 * may be spliced at all. In blocks of 64 bytes (json_block.c); whatever that does not accept is scanned once more byte
 * by byte (json_scan.c), which tells the fault. -Dscan=scalar leaves the first out. Pure.
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
    uint32_t note;              /* out, with notes: the value's number among them */
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

/* Where the values are, so that who walks through the text later need not look at its bytes again: a note for each
 * name and value of the outermost levels, in the order of the text, the outer object first.
 *
 *     text    {"a":[1,{"b":2}],"c":"x\n"}
 *     v       0 1  2 3 4 5  6   7   8          next of 2 is 7, of 4 as well, of 0 is 9 */
enum { JSON_LEVELS_MAX = 15, JSON_NAME_MAX = 31 };

struct json_note {
    uint32_t at, end; /* [at, end) of the text: strings with their quotes */
    uint32_t next;    /* number of the note after this value and what is in it */
    uint32_t less;    /* strings: by so many bytes what it stands for, in UTF-8, is shorter than what is between its
                         quotes (a surrogate pair counts its four bytes as two and two); objects and arrays: 1 = what
                         is in it was not noted, it is too deep */
};

/* How objects begin of which a text has many, so that the scan need not find out each time: with a member that is a
 * short string, and the name of the next one.
 *
 *     {"role":"user","content":        first  {"role":        second  ,"content":
 *
 * Each has JSON_FORM_MIN to JSON_FORM_MAX bytes; names are plain. What is noted is the same as without. */
enum { JSON_FORM_MIN = 8, JSON_FORM_MAX = 16 };
struct json_form {
    const char *first, *second;
    unsigned char n_first, first_at, first_end;    /* bytes; where in it the name is, with its quotes */
    unsigned char n_second, second_at, second_end; /* the same */
};

struct json_index {
    struct json_note *v; /* in: the caller's, room for max */
    uint32_t max;
    const uint32_t *wanted; /* in: the members by the length of their names up to JSON_NAME_MAX, a bit each for the
                               first 32; NULL = all are compared. With names */
    const struct json_member *names; /* in, with wanted: the members as they are not there. Those of the scan need not
                                        be filled then: it writes the ones that it finds, whole, and no other */
    const struct json_form *forms;   /* in: how many objects begin; NULL = nobody knows */
    size_t n_forms;
    uint32_t levels; /* in: so many levels of objects and arrays within the outer object are noted, up to the maximum */
    uint32_t found;  /* out: of the first 32 members, a bit for each that is there */
    uint32_t n;      /* out; 0 = nothing is noted: there was no room for all, or nobody looked */
    const char *text; /* out: where the text begins that the notes count from */
    bool is_strict;   /* out, n > 0: json_tree_parse would take it (numbers and surrogate pairs are right as well), and
                         no name in it has escapes */
};

/* Scans `text`; fills the n members and *scan. max_depth counts nested objects and arrays, the outer one is 1. */
enum err json_scan(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                   struct json_scan *scan) RM_MUST_USE;
/* The same, with the notes when it is ERR_OK. The members come as JSON_ABSENT, unless index->names says what is looked
 * for. */
enum err json_scan_indexed(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                           struct json_scan *scan, struct json_index *index) RM_MUST_USE;
/* One string alone: its inside begins `at`, behind its opening quote (text.n is at most UINT32_MAX). *n: bytes of it
 * before the closing quote; *less: as in its note. False: it has none, or something that json_scan or is_strict would
 * refuse; or nobody looked (-Dscan=scalar). */
bool json_scan_string(struct bytes text, size_t at, size_t *n, uint32_t *less) RM_MUST_USE;
/* The raw value of a member, as in the text (strings with quotes). */
static inline struct bytes json_member_raw(struct bytes text, const struct json_member *m)
{
    return (struct bytes){text.p + m->value_at, m->value_end - m->value_at};
}

#endif

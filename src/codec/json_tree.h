/* Trees where a tree is needed: yyjson with its memory from an arena, and a depth limit in front of it. Numbers are
 * kept as written (raw), so that 9223372036854775807123 and 1e2 survive a translation. Pure. */
#ifndef RM_CODEC_JSON_TREE_H
#define RM_CODEC_JSON_TREE_H

#include "base/arena.h"
#include "base/err.h"
#include "codec/json_scan.h"

#include <yyjson.h>

/* Parses text (not modified). The tree lives in the arena; strings are NUL-terminated copies that may hold NULs (use
 * yyjson_get_len). Duplicate names are allowed here: the last one is not special, yyjson_obj_get finds the first.
 * ERR_SYNTAX, ERR_LIMIT (deeper than max_depth). *root is set on ERR_OK only. */
enum err json_tree_parse(struct bytes text, unsigned max_depth, struct arena *arena, yyjson_val **root) RM_MUST_USE;
/* The same; besides, where its strings stand: *copy is a copy of the text in the arena, and the bytes of each string of
 * the tree begin there as far in as they begin in the text. */
enum err json_tree_parse_placed(struct bytes text, unsigned max_depth, struct arena *arena, yyjson_val **root,
                                const char **copy) RM_MUST_USE;
/* The same, cheaper for most texts, for trees that are read at once: strings without escapes and numbers are borrowed
 * from the text (strings are not NUL-terminated then). */
enum err json_tree_borrow(struct bytes text, unsigned max_depth, struct arena *arena, yyjson_val **root) RM_MUST_USE;
/* The scan's notes of a text, for readers who go from note to note: is_strict, and JSON_LEVELS_MAX levels
 * are noted. False: the
 * scan does not take the text, and json_tree_parse is to be asked. Memory beyond `few`: the arena's. */
enum { JSON_FEW_NOTES = 160 };
struct json_notes {
    struct json_index index;
    struct json_note few[JSON_FEW_NOTES];
};
bool json_notes_of(struct bytes text, unsigned max_depth, struct arena *arena, struct json_notes *out);
/* The tree of a text that has notes, as of json_tree_borrow; NULL: it has more levels than are noted. */
yyjson_val *json_tree_of_notes(const struct json_notes *notes, struct arena *arena);
/* Where a text that is not well-formed stops being JSON: its offset; *what: in words, static. For messages. */
size_t json_tree_fault(struct bytes text, const char **what);
/* Serialises a value as JSON text in the arena: member order, raw numbers and string content kept. */
struct bytes json_tree_text(const yyjson_val *v, struct arena *arena);
/* Convenience readers, tolerant: wrong type or absent gives the zero value. */
yyjson_val *json_tree_member(yyjson_val *object, struct bytes name); /* the first of that name */
struct bytes json_tree_bytes(yyjson_val *v);                         /* of a string value */
int64_t json_tree_number(yyjson_val *v, int64_t none);               /* raw numbers that are whole */
/* Of the member of that name; most names are known as this is compiled, and so their lengths. */
static inline struct bytes json_tree_str(yyjson_val *object, const char *name)
{
    return json_tree_bytes(json_tree_member(object, bytes_of(name))); /* p NULL when absent or not a string */
}
static inline int64_t json_tree_int(yyjson_val *object, const char *name, int64_t none)
{
    return json_tree_number(json_tree_member(object, bytes_of(name)), none);
}
bool json_tree_bool(yyjson_val *object, const char *name, bool none);
/* Whole number of a raw or typed number value; false when it is none. "1e2" and "5.0" count as whole. */
bool json_tree_to_int(yyjson_val *v, int64_t *out);

#endif

/* Writes JSON text into a buf, piece by piece; commas and colons are its business. The one way JSON is produced here.
 * Nesting at most 64 (asserted). Pure.
 *
 *     jw_object(&w); jw_key(&w, "id"); jw_string(&w, id); jw_end(&w);   ->   {"id":"…"} */
#ifndef RM_CODEC_JSON_WRITE_H
#define RM_CODEC_JSON_WRITE_H

#include "base/buf.h"

struct json_writer {
    struct buf *out;
    uint64_t has_item; /* bit d: something stands at depth d already */
    uint64_t is_array; /* bit d: depth d is an array */
    unsigned depth;
    bool after_key;
};

void jw_init(struct json_writer *w, struct buf *out);
void jw_object(struct json_writer *w);
void jw_array(struct json_writer *w);
/* Closes the innermost object or array. */
void jw_end(struct json_writer *w);
void jw_key(struct json_writer *w, const char *name);
void jw_key_bytes(struct json_writer *w, struct bytes name);
/* Escapes what JSON demands; bytes that are not UTF-8 become U+FFFD. U+2028 and U+2029 stay as they are. */
void jw_string(struct json_writer *w, struct bytes s);
void jw_cstr(struct json_writer *w, const char *s);
void jw_int(struct json_writer *w, int64_t v);
void jw_uint(struct json_writer *w, uint64_t v);
void jw_bool(struct json_writer *w, bool v);
void jw_null(struct json_writer *w);
/* A value that is JSON text already. */
void jw_raw(struct json_writer *w, struct bytes json);
/* No byte needs an escape, and all are ASCII. */
bool json_is_plain(struct bytes s);

/* ---- a member: its name and its value at once ---- */

void jw_named_int(struct json_writer *w, const char *name, int64_t v);
void jw_named_uint(struct json_writer *w, const char *name, uint64_t v);
void jw_named_bool(struct json_writer *w, const char *name, bool v);
void jw_named_string(struct json_writer *w, const char *name, struct bytes v);
void jw_named_cstr(struct json_writer *w, const char *name, const char *v);
/* Null where there is none: NULL or "" of a text, below 0 of a count, or as is_known says. */
void jw_named_text(struct json_writer *w, const char *name, const char *v);
void jw_named_count(struct json_writer *w, const char *name, int64_t v);
void jw_named_known(struct json_writer *w, const char *name, int64_t v, bool is_known);

#endif

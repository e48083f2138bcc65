/* Edits of a JSON object's top-level members that leave every other byte as it was (DESIGN 3.13). The result is a list
 * of pieces that borrow from the text and from the edits: nothing is copied until it is sent. Pure. */
#ifndef RM_CODEC_JSON_SPLICE_H
#define RM_CODEC_JSON_SPLICE_H

#include "base/arena.h"
#include "codec/json_scan.h"

struct json_edit {
    const char *name;                /* member; plain ASCII */
    const struct json_member *found; /* from json_scan; type JSON_ABSENT = insert after the first { */
    struct bytes value;              /* new value as JSON text; ignored when remove is set */
    bool remove;                     /* take the member out, with the one comma that goes with it */
    struct bytes member;             /* all of it as it is inserted: "name":value, and a comma; p NULL = made here */
};

struct pieces {
    struct bytes *v;
    size_t n;
    size_t n_bytes; /* sum */
};

/* Edits whose member is absent and whose remove is set do nothing. Inserted members come in the order of `edits`.
 * Pieces and their array live in the arena; they borrow text and edit values. Removing and inserting together keep the
 * object well-formed whatever the order and number of members. */
void json_splice(struct bytes text, const struct json_scan *scan, const struct json_edit *edits, size_t n,
                 struct arena *arena, struct pieces *out);

#endif

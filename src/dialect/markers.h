/* Cache markers in raw JSON: cache_control of Messages, prompt_cache_breakpoint of Chat, on messages, on parts of a
 * content (and of the contents within), on system parts and on tools. What stands deeper (a tool's schema, its input)
 * is the user's own and never looked at. Pure. */
#ifndef RM_DIALECT_MARKERS_H
#define RM_DIALECT_MARKERS_H

#include "base/buf.h"

/* `name` (raw) marks what it stands in. */
bool is_marker(struct bytes name);
/* Puts `value`, an object or an array of objects, to *out without its markers. What holds none keeps its bytes. False =
 * there were none, and *out is as it was. `value` must be well-formed. */
bool markers_cut(struct bytes value, struct buf *out);

#endif

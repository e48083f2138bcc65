/* W3C Trace Context, level 1 (2021-11-23), 3.2: the traceparent header. Pure. */
#ifndef RM_FRONT_TRACEPARENT_H
#define RM_FRONT_TRACEPARENT_H

#include "base/bytes.h"

enum { TRACE_ID_CHARS = 32 };

/* "00-<32 hex>-<16 hex>-<2 hex>", lower case, ids not all zero; a later version may have more behind it. On true,
 * *trace_id is the 32 characters inside `value`. */
bool traceparent_parse(struct bytes value, struct bytes *trace_id);

#endif

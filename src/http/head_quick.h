/* Private to the room: the pass over a head that is plainly right, which nearly all are. */
#ifndef RM_HTTP_HEAD_QUICK_H
#define RM_HTTP_HEAD_QUICK_H

#include "http/head.h"

/* True: in[0, *used) is a head that the strict passes take as well, and its start line (method and target, or status;
 * minor) and fields are in *out, as they would say them; what they mean is not decided. False: it is not whole, or odd
 * in any way, which is for the strict passes to say; *out is to be written anew then. */
bool head_quick(struct bytes in, enum head_kind kind, const struct head_limits *limits, struct arena *arena,
                struct head *out, size_t *used);

#endif

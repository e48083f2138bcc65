/* One piece of a provider's answer on its way to the client: its bytes as they came, and what they mean. It goes as it
 * is from who reads the body (upstream/) to who writes the client's (front/). All in it is borrowed, for as long as the
 * giver says. */
#ifndef RM_MODEL_OUTPUT_H
#define RM_MODEL_OUTPUT_H

#include "base/buf.h"
#include "model/event.h"

struct output {
    struct bytes raw;           /* of a stream: the whole SSE event as it came; else the JSON body */
    struct bytes framed;        /* the same as a whole chunk of HTTP's, where it came as one alone; else empty */
    size_t strip_at, strip_end; /* bytes of raw to cut out; equal = none */
    struct buf *body;           /* not of a stream: what raw lies in, all of it. Who keeps raw takes it (buf_take); raw
                                   and the events' views stay as long as it does */
    const struct event *v;      /* n events; n may be 0 (comment, unknown event) */
    size_t n;
    bool raw_is_stream; /* raw is SSE bytes */
    bool is_dropped;    /* nothing of raw goes to the client (usage event that we asked for) */
    bool is_lasting;    /* raw stays beyond the giver's next call: see there */
};

#endif

/* What a pretend provider reads out of a request, and the control words it obeys. Pure. */
#ifndef RM_LAB_MOCK_ASK_H
#define RM_LAB_MOCK_ASK_H

#include "base/arena.h"
#include "lab/fault.h"
#include "lab/shape.h"

struct mock_ask {
    struct bytes model;
    bool is_stream, wants_usage;
    int64_t max_tokens;    /* -1 = none */
    int64_t prompt_tokens; /* a guess: a token per four bytes */
    bool has_marker;
    struct fault marker; /* [[mock fault=429 after=2]] in the last user message */
};

/* NULL = a request that this provider answers; else why not (400). */
const char *mock_ask_read(struct bytes body, enum shape_dialect dialect, struct arena *arena, struct mock_ask *out);

/* {"fault":"429","times":1,"retry_after":2,"after":3,"ttft_ms":800} -> faults for the next requests. NULL or why not.
 */
const char *mock_ask_control(struct bytes body, struct arena *arena, struct fault *out, size_t *n);

#endif

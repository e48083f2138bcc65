/* What a pretend provider reads out of a chat request. Pure. */
#ifndef RM_LAB_MOCK_ASK_H
#define RM_LAB_MOCK_ASK_H

#include "codec/json_tree.h"
#include "lab/fault.h"
#include "lab/shape.h"

struct mock_ask {
    yyjson_val *root; /* the body; NULL when it is no JSON object */
    struct bytes model;
    struct bytes user; /* the body's "user"; n 0 = none */
    bool is_stream, wants_usage;
    int64_t max_tokens;    /* -1 = none */
    int64_t prompt_tokens; /* a guess: a token per four bytes */
    bool has_prefill;      /* the last message is the assistant's */
    struct bytes prefill;  /* its text */
    bool has_marker;
    struct fault marker; /* [[mock fault=429 after=2]] in the last user message */
};

/* NULL = a request that this provider answers; else why not (400). Everything lives in the arena. */
const char *mock_ask_read(struct bytes body, enum shape_dialect dialect, struct arena *arena, struct mock_ask *out);

#endif

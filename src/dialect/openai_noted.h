/* A whole Chat Completions answer of the usual form, read from the notes of its scan: no tree, and no byte of its texts
 * is looked at again. The tree's reader (openai_decode.c) is the truth: whatever it might read otherwise is left to it.
 * Pure. */
#ifndef RM_DIALECT_OPENAI_NOTED_H
#define RM_DIALECT_OPENAI_NOTED_H

#include "codec/json_scan.h"
#include "dialect/openai_usage.h"

/* A string where it stands. */
struct noted_text {
    struct bytes inside; /* between its quotes; empty: null, or (p NULL) not there */
    uint32_t less;       /* what it says is shorter by so many bytes; 0 = inside is what it says */
};

struct openai_noted {
    struct noted_text id, object, model, service_tier; /* of these, of finish and sequence, less is 0 */
    bool has_usage, has_choice, has_message, has_index;
    struct openai_told usage;
    uint16_t choice;
    struct noted_text content, reasoning_content, reasoning, refusal;
    struct noted_text finish, sequence; /* finish_reason, stop_reason */
};

/* index: is_strict, of an object. False: there is more in it than *out has room for (several choices, tool calls, an
 * error, …), or a member twice; *out says nothing. */
bool openai_noted_read(const struct json_index *index, struct openai_noted *out);

#endif

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

/* Where in the text something stood that another answer of the same form may tell otherwise. */
enum noted_kind {
    NOTED_WORD,  /* a string without escapes */
    NOTED_TEXT,  /* a string */
    NOTED_FIGURE /* digits: no more than NOTED_DIGITS_MAX, NOTED_UNREAD_MAX where nobody asks for them */
};
enum { NOTED_DIGITS_MAX = 9, NOTED_UNREAD_MAX = 18, NOTED_PLACES_MAX = 32, NOTED_NOWHERE = UINT16_MAX };
struct noted_place {
    uint32_t note;  /* the value's number among the notes */
    uint16_t field; /* offset of what it says in struct openai_noted: a noted_text or an int64_t; NOTED_NOWHERE =
                       nobody asks for it */
    uint16_t kind;  /* enum noted_kind */
};

struct openai_noted {
    struct noted_text id, object, model, service_tier; /* of these, of finish and sequence, less is 0 */
    bool has_usage, has_choice, has_message, has_index;
    struct openai_told usage;
    uint16_t choice;
    struct noted_text content, reasoning_content, reasoning, refusal;
    struct noted_text finish, sequence; /* finish_reason, stop_reason */
    uint32_t n_places; /* in the order of the text; may be more than there is room for: then they are not all told */
    struct noted_place places[NOTED_PLACES_MAX];
};

/* index: is_strict, of an object. False: there is more in it than *out has room for (several choices, tool calls, an
 * error, …), or a member twice; *out says nothing. */
bool openai_noted_read(const struct json_index *index, struct openai_noted *out);

#endif

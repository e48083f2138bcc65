/* struct request: a whole request in our own words, for translation between dialects. A dialect's parser makes it from
 * a client's body, another dialect's renderer makes a provider's body from it.
 *
 * The form is the stricter of the wire forms: system text apart, tool results as parts of a user's message. All memory
 * is borrowed from the arena that the parser was given. Members named `json` hold JSON text as it was written (numbers
 * and member order kept); all other texts are unescaped and may hold NULs. An empty struct bytes with p NULL = absent.
 */
#ifndef RM_MODEL_REQUEST_H
#define RM_MODEL_REQUEST_H

#include "model/profile.h"

enum part_kind {
    PART_TEXT,
    PART_REFUSAL, /* text: the model declined */
    PART_IMAGE,   /* media_type + data (base64), or url, or file_id */
    PART_DOCUMENT,
    PART_AUDIO,      /* spoken input */
    PART_TOOL_USE,   /* id, name, input_json or input_text */
    PART_TOOL_RESULT /* id, parts, is_error */
};

struct part {
    enum part_kind kind;
    bool is_breakpoint; /* the client asked for a cache breakpoint after this part */
    bool is_error;
    struct bytes text;
    struct bytes media_type, data; /* base64 as written */
    struct bytes url, file_id;
    struct bytes title;
    struct bytes id, name;
    struct bytes input_json; /* arguments as an object's JSON text, or … */
    struct bytes input_text; /* … what the model wrote as arguments, which may be no JSON at all */
    const struct part *parts;
    size_t n_parts;
};

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT };

struct message {
    enum role role; /* SYSTEM only in mid-conversation */
    struct part *parts;
    size_t n_parts;
};

struct tool {
    struct bytes name, description;
    struct bytes schema_json; /* p NULL = none given */
    enum tristate strict;
    bool is_breakpoint;
};

enum tool_choice { CHOICE_UNSET, CHOICE_AUTO, CHOICE_NONE, CHOICE_REQUIRED, CHOICE_NAMED };
enum response_form { FORM_FREE, FORM_JSON_OBJECT, FORM_JSON_SCHEMA };
enum thinking { THINKING_UNSET, THINKING_OFF, THINKING_ON };

struct request {
    struct part *system; /* the leading system text, TEXT parts */
    size_t n_system;
    struct message *messages;
    size_t n_messages;
    struct tool *tools;
    size_t n_tools;
    enum tool_choice choice;
    struct bytes choice_name;
    enum tristate parallel_tools;
    int64_t max_tokens;                        /* -1 = not given */
    struct bytes temperature_json, top_p_json; /* numbers as written */
    struct bytes *stop;
    size_t n_stop;
    enum thinking thinking;
    int64_t thinking_budget; /* tokens; -1 = not given */
    struct bytes effort;     /* none, minimal, low, medium, high, xhigh, max; p NULL = not given */
    enum response_form form;
    struct bytes schema_name, schema_json;
    enum tristate schema_strict;
    struct bytes user; /* who asks, as the client names him */
    struct bytes service_tier;
    const struct bytes *dropped; /* top-level members that no other dialect can say; names are safe to print */
    size_t n_dropped;
};

#endif

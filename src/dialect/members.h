/* The members of a request's body that the gateway reads or splices, by number: a scan finds them all, and whoever
 * wants one asks by its number, not by its name. Not for other rooms. */
#ifndef RM_DIALECT_MEMBERS_H
#define RM_DIALECT_MEMBERS_H

#include "codec/json_scan.h"

/* In the order of the names below; the first ones are both dialects'. */
enum body_member {
    IN_MODEL,
    IN_STREAM,
    IN_MAX_TOKENS,
    IN_MESSAGES,
    IN_TOOLS,
    IN_CACHE_CONTROL,
    IN_CONTAINER,
    IN_THREAD,
    IN_SERVICE_TIER,
    IN_BOTH,

    CHAT_STREAM_OPTIONS = IN_BOTH,
    CHAT_MAX_COMPLETION_TOKENS,
    CHAT_N,
    CHAT_RESPONSE_FORMAT,
    CHAT_MODALITIES,
    CHAT_AUDIO,
    CHAT_REASONING_EFFORT,
    CHAT_FUNCTIONS,
    CHAT_CONVERSATION,
    CHAT_PREVIOUS_RESPONSE_ID,
    CHAT_LOGPROBS,
    CHAT_MODERATION,
    CHAT_PROMPT_CACHE_KEY,
    CHAT_PROMPT_CACHE_RETENTION,
    CHAT_PROMPT_CACHE_OPTIONS,
    CHAT_MEMBERS,

    MESSAGES_SYSTEM = IN_BOTH,
    MESSAGES_THINKING,
    MESSAGES_OUTPUT_CONFIG,
    MESSAGES_OUTPUT_FORMAT,
    MESSAGES_MCP_SERVERS,
    MESSAGES_CONTEXT_MANAGEMENT,
    MESSAGES_SPEED,
    MESSAGES_MEMBERS
};

/* As a scan looks for them: not found yet, and by the length of their names (struct json_index, wanted). */
extern const struct json_member chat_members[CHAT_MEMBERS], messages_members[MESSAGES_MEMBERS];
extern const uint32_t chat_lengths[JSON_NAME_MAX + 1], messages_lengths[JSON_NAME_MAX + 1];

/* How most messages begin. */
enum { MESSAGE_FORMS = 2 };
extern const struct json_form message_forms[MESSAGE_FORMS];

#endif

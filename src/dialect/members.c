/* The names stand once, in lists; what is asked of them is made from those as this is compiled. */
#include "dialect/members.h"

/* clang-format off */
#define BOTH(X, n)                          \
    X(n, IN_MODEL, "model")                 \
    X(n, IN_STREAM, "stream")               \
    X(n, IN_MAX_TOKENS, "max_tokens")       \
    X(n, IN_MESSAGES, "messages")           \
    X(n, IN_TOOLS, "tools")                 \
    X(n, IN_CACHE_CONTROL, "cache_control") \
    X(n, IN_CONTAINER, "container")         \
    X(n, IN_THREAD, "thread")               \
    X(n, IN_SERVICE_TIER, "service_tier")

#define CHAT(X, n)                                              \
    X(n, CHAT_STREAM_OPTIONS, "stream_options")                 \
    X(n, CHAT_MAX_COMPLETION_TOKENS, "max_completion_tokens")   \
    X(n, CHAT_N, "n")                                           \
    X(n, CHAT_RESPONSE_FORMAT, "response_format")               \
    X(n, CHAT_MODALITIES, "modalities")                         \
    X(n, CHAT_AUDIO, "audio")                                   \
    X(n, CHAT_REASONING_EFFORT, "reasoning_effort")             \
    X(n, CHAT_FUNCTIONS, "functions")                           \
    X(n, CHAT_CONVERSATION, "conversation")                     \
    X(n, CHAT_PREVIOUS_RESPONSE_ID, "previous_response_id")     \
    X(n, CHAT_LOGPROBS, "logprobs")                             \
    X(n, CHAT_MODERATION, "moderation")                         \
    X(n, CHAT_PROMPT_CACHE_KEY, "prompt_cache_key")             \
    X(n, CHAT_PROMPT_CACHE_RETENTION, "prompt_cache_retention") \
    X(n, CHAT_PROMPT_CACHE_OPTIONS, "prompt_cache_options")

#define MESSAGES(X, n)                                      \
    X(n, MESSAGES_SYSTEM, "system")                         \
    X(n, MESSAGES_THINKING, "thinking")                     \
    X(n, MESSAGES_OUTPUT_CONFIG, "output_config")           \
    X(n, MESSAGES_OUTPUT_FORMAT, "output_format")           \
    X(n, MESSAGES_MCP_SERVERS, "mcp_servers")               \
    X(n, MESSAGES_CONTEXT_MANAGEMENT, "context_management") \
    X(n, MESSAGES_SPEED, "speed")

#define MEMBER(n, number, text) [number] = {.name = (text)},
#define BIT(n, number, text) | (sizeof(text) - 1 == (n) ? 1U << (number) : 0U)
#define CHAT_OF(n) [n] = 0U BOTH(BIT, n) CHAT(BIT, n),
#define MESSAGES_OF(n) [n] = 0U BOTH(BIT, n) MESSAGES(BIT, n),
#define EACH_LENGTH(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
    X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)

const struct json_member chat_members[CHAT_MEMBERS] = {BOTH(MEMBER, ) CHAT(MEMBER, )};
const struct json_member messages_members[MESSAGES_MEMBERS] = {BOTH(MEMBER, ) MESSAGES(MEMBER, )};
const uint32_t chat_lengths[JSON_NAME_MAX + 1] = {EACH_LENGTH(CHAT_OF)};
const uint32_t messages_lengths[JSON_NAME_MAX + 1] = {EACH_LENGTH(MESSAGES_OF)};

/* As programs write it without blanks, and with those that Python puts there. */
#define FORM(first, second, blanks) \
    {(first), (second), sizeof(first) - 1, 1, sizeof(first) - 2 - (blanks), sizeof(second) - 1, 1 + (blanks), sizeof(second) - 2 - (blanks)}
const struct json_form message_forms[MESSAGE_FORMS] = {FORM("{\"role\":", ",\"content\":", 0),
                                                       FORM("{\"role\": ", ", \"content\": ", 1)};
/* clang-format on */

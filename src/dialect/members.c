#include "dialect/members.h"

/* clang-format off */
#define BOTH                             \
    [IN_MODEL] = "model",                \
    [IN_STREAM] = "stream",              \
    [IN_MAX_TOKENS] = "max_tokens",      \
    [IN_MESSAGES] = "messages",          \
    [IN_TOOLS] = "tools",                \
    [IN_CACHE_CONTROL] = "cache_control",\
    [IN_CONTAINER] = "container",        \
    [IN_THREAD] = "thread",              \
    [IN_SERVICE_TIER] = "service_tier"
/* clang-format on */

const char *const chat_names[CHAT_MEMBERS] = {
    BOTH,
    [CHAT_STREAM_OPTIONS] = "stream_options",
    [CHAT_MAX_COMPLETION_TOKENS] = "max_completion_tokens",
    [CHAT_N] = "n",
    [CHAT_RESPONSE_FORMAT] = "response_format",
    [CHAT_MODALITIES] = "modalities",
    [CHAT_AUDIO] = "audio",
    [CHAT_REASONING_EFFORT] = "reasoning_effort",
    [CHAT_FUNCTIONS] = "functions",
    [CHAT_CONVERSATION] = "conversation",
    [CHAT_PREVIOUS_RESPONSE_ID] = "previous_response_id",
    [CHAT_LOGPROBS] = "logprobs",
    [CHAT_MODERATION] = "moderation",
    [CHAT_PROMPT_CACHE_KEY] = "prompt_cache_key",
    [CHAT_PROMPT_CACHE_RETENTION] = "prompt_cache_retention",
    [CHAT_PROMPT_CACHE_OPTIONS] = "prompt_cache_options",
};

const char *const messages_names[MESSAGES_MEMBERS] = {
    BOTH,
    [MESSAGES_SYSTEM] = "system",
    [MESSAGES_THINKING] = "thinking",
    [MESSAGES_OUTPUT_CONFIG] = "output_config",
    [MESSAGES_OUTPUT_FORMAT] = "output_format",
    [MESSAGES_MCP_SERVERS] = "mcp_servers",
    [MESSAGES_CONTEXT_MANAGEMENT] = "context_management",
    [MESSAGES_SPEED] = "speed",
};

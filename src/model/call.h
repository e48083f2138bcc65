/* struct call: what the gateway needs to know of a client's request, whatever its dialect. Read once from the body
 * (dialect/); the body itself stays as it came. */
#ifndef RM_MODEL_CALL_H
#define RM_MODEL_CALL_H

#include "base/bytes.h"

struct call_members; /* the room dialect's own */

struct call {
    struct bytes model; /* unescaped; the route's name */
    bool is_stream;
    bool wants_usage; /* stream_options.include_usage: true (Chat); always true for Messages */
    bool has_tools;
    bool has_vision;        /* an image part anywhere */
    bool has_json_schema;   /* response_format json_schema / output_config.format */
    bool has_audio;         /* audio output asked: modalities or audio */
    bool needs_whole;       /* its answer holds what our words do not have: it is not collected from a stream */
    bool has_prefill;       /* the last message is the assistant's */
    bool has_cache_markers; /* the client set cache_control itself */
    bool has_long_marker;   /* one of them asks for an hour */
    int64_t max_tokens;     /* max_completion_tokens, else max_tokens; -1 = not given */
    int64_t n;              /* choices asked; 1 by default */
    struct bytes effort;    /* reasoning effort, "" = not given */
    struct bytes service;   /* class of service asked for, in the dialect's word; "" = not given */
    struct bytes state;     /* the member that leans on a provider's stored state (DESIGN 3.16), "" = none */
    uint64_t prompt_bytes;  /* UTF-8 bytes of text in the prompt (system, messages, tools): estimates use ceil(n / 4) */
    uint64_t prefix_hash;   /* of the prompt without its last message; 0 = none */
    uint64_t talk_hash;     /* of what all turns of a conversation have in common: tools, system, and the messages up to
                               the first of the user's; 0 = none */
    uint64_t head_hash;     /* of what stands before the first of the user's messages: tools, system; 0 = nothing does.
                               Its text: head_bytes */
    uint64_t cache_hash;    /* of the prompt up to the block with the last marker; equal hashes are equal prefixes, not
                               the other way round. 0 = no marker within the prompt. Its text: cache_bytes */
    uint64_t head_bytes, cache_bytes;
    const char *cache_end;  /* in the body: where the marked part ends; NULL = nowhere. For who reads the body */
    bool has_head_marker;   /* a marker stands before the first of the user's messages */
    struct bytes cache_key; /* prompt_cache_key, unescaped; "" = not given */
    const struct call_members *members; /* where the members stand in the body, so that it need not be scanned again;
                                           NULL = not kept. Lives as long as the arena that the call was read with */
};

#endif

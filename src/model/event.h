/* struct event: one step of a provider's answer, in our own words. A decoder (dialect/) makes them from a provider's
 * bytes, an encoder makes a client's bytes from them. Texts are borrowed: valid until the decoder's next call. */
#ifndef RM_MODEL_EVENT_H
#define RM_MODEL_EVENT_H

#include "model/failure.h"
#include "model/usage.h"

enum event_kind {
    EVENT_START,      /* lifecycle: id, text = model as the provider wrote it, name = its class of service in the
                         provider's word, if told. May come with empty id. Not a token */
    EVENT_TEXT,       /* text */
    EVENT_REASONING,  /* text: the model's visible thinking */
    EVENT_SIGNATURE,  /* text: signature that closes the running thinking block */
    EVENT_REDACTED,   /* text: opaque data of a redacted thinking block */
    EVENT_REFUSAL,    /* text: the model declines in words (Chat `refusal`) */
    EVENT_TOOL_START, /* tool (0, 1, …: counts tool calls only), id, name */
    EVENT_TOOL_ARGS,  /* tool, text: a piece of the arguments' JSON text */
    EVENT_CITATION,   /* text: raw JSON of the provider's citation */
    EVENT_AUDIO,      /* same dialect only */
    EVENT_FINISH,     /* reason; name = stop sequence that was hit, if told; text = raw JSON of a refusal's details */
    EVENT_USAGE,      /* usage: cumulative; name = its class of service in the provider's word, if told */
    EVENT_ERROR,      /* failure: an error inside a 200 */
    EVENT_DONE,       /* the terminal marker: [DONE], message_stop */
    EVENT_PING,       /* keep-alive */
    EVENT_OTHER       /* known to be harmless, or unknown: relayed in the same dialect, dropped in translation */
};

enum finish_reason {
    FINISH_STOP,
    FINISH_LENGTH,
    FINISH_TOOL_CALLS,
    FINISH_CONTENT_FILTER,
    FINISH_STOP_SEQUENCE,
    FINISH_PAUSE,
    FINISH_CONTEXT_WINDOW /* the window was full while generating */
};

struct event {
    enum event_kind kind;
    bool is_token;             /* carries generated output: it stops the first-token timer (DESIGN 2, first token) */
    bool is_more;              /* the provider's bytes are those of its event before but for this text (and padding) */
    bool is_plain;             /* text stands in a JSON string as it is: no escapes. False = not known */
    uint16_t choice;           /* index with n > 1; 0 else */
    uint16_t tool;             /* TOOL_* */
    enum finish_reason reason; /* FINISH */
    uint32_t text_bytes;       /* bytes of generated text (UTF-8) that this event carries, for estimates */
    struct bytes text;
    struct bytes id;
    struct bytes name;
    struct usage usage;            /* USAGE; of others not set */
    const struct failure *failure; /* ERROR */
};

const char *event_kind_name(enum event_kind k);

#endif

/* An answer as it is collected: blocks in the order in which they began. What both encoders share: the whole answer of
 * a non-streaming client, and the head and end of a stream. */
#ifndef RM_DIALECT_TRANSCRIPT_H
#define RM_DIALECT_TRANSCRIPT_H

#include "dialect/encode.h"
#include "dialect/rope.h"

struct transcript_block {
    enum event_kind kind; /* TEXT, REASONING, REDACTED, REFUSAL, TOOL_START, CITATION */
    uint16_t choice, tool;
    struct bytes id, name; /* TOOL_START */
    struct rope text;      /* TOOL_START: the arguments */
    struct rope signature; /* REASONING */
    bool is_closed;        /* REASONING: signed, the next one is another block */
    struct transcript_block *next;
};

enum { TRANSCRIPT_CHOICES_MAX = 64 };

struct transcript {
    struct bytes id, model; /* "" = the provider told none */
    struct transcript_block *first, *last;
    uint64_t finished; /* bit per choice below 64 */
    uint8_t reasons[TRANSCRIPT_CHOICES_MAX];
    struct bytes sequence; /* stop sequence that was hit, "" = none */
    struct bytes details;  /* raw JSON of a refusal's details, "" = none */
    uint64_t with_tools;   /* bit per choice that has a tool call */
    uint16_t n_choices;    /* highest index seen + 1, at least 1 */
    struct usage usage;
};

void transcript_init(struct transcript *d);
/* Start, finish and usage are noted. True when the event was one of these. */
bool transcript_note(struct transcript *d, const struct event *ev, struct arena *a);
/* Adds content; events without content are ignored. Returns the block that took it, or NULL. */
struct transcript_block *transcript_put(struct transcript *d, const struct event *ev, struct arena *a);
/* A stop without a word that it was for the tools, where tools were called, is tool_calls; no finish is a stop. */
enum finish_reason transcript_reason(const struct transcript *d, uint16_t choice);
/* The provider's id or model, else one made from the options. prefix: "chatcmpl-". Lives as long as the arena. */
struct bytes transcript_id(const struct transcript *d, const struct encoder_options *o, const char *prefix,
                           struct arena *a);
struct bytes transcript_model(const struct transcript *d, const struct encoder_options *o);
/* A tool call's id, made where the provider gave none. */
struct bytes transcript_tool_id(struct bytes id, const struct encoder_options *o, uint16_t tool, const char *prefix,
                                struct arena *a);

#endif

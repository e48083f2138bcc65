/* struct failure: how a provider failed us, in our own words. It is data, not an error of ours; plan/verdict.c is the
 * only place that says what follows from it. Classes: protocols, failover semantics 1; DESIGN 6 has the words. */
#ifndef RM_MODEL_FAILURE_H
#define RM_MODEL_FAILURE_H

#include "model/outcome.h"

enum failure_class {
    FAILURE_NONE,
    FAILURE_FAULT,    /* the provider broke: 5xx, connection, timeout, protocol */
    FAILURE_OVERLOAD, /* 503, 529: too busy for everyone */
    FAILURE_RATE,     /* 429: our rate is spent there */
    FAILURE_QUOTA,    /* our account there is out of money */
    FAILURE_AUTH,     /* our key there is refused */
    FAILURE_NOTFOUND, /* the model is not there */
    FAILURE_CONTEXT,  /* the prompt is too long for that model */
    FAILURE_POLICY,   /* content refused */
    FAILURE_COMPAT,   /* a parameter that this model does not know */
    FAILURE_CLIENT    /* the client's own mistake */
};

/* Which parameter a COMPAT failure names, when the gateway added it or may drop or rename it (DESIGN 3.6b).
 * The bits are also the memory of what a target wants ("quirks"). */
enum quirk {
    QUIRK_NO_STREAM_OPTIONS = 1 << 0,     /* do not add stream_options */
    QUIRK_MAX_COMPLETION_TOKENS = 1 << 1, /* only max_completion_tokens is known there */
    QUIRK_MAX_TOKENS = 1 << 2,            /* only max_tokens is known there */
    QUIRK_NO_THINKING_HISTORY = 1 << 3,   /* a translated history's thinking blocks were refused: strip them */
    QUIRK_NO_SAMPLING = 1 << 4,           /* a translated temperature, top_p or top_k was refused: leave them out */
    QUIRK_SYSTEM_FOR_DEVELOPER = 1 << 5   /* translated only: the role developer was refused */
};

struct failure {
    enum failure_class class;
    enum outcome outcome;   /* the word for the trail */
    uint16_t status;        /* provider's HTTP status; 0 = none came */
    bool in_stream;         /* came inside a 200 */
    bool is_established;    /* connect_error only: the connection stood, and broke before any response byte */
    bool is_reused;         /* happened on a pooled connection */
    bool is_unsent;         /* nothing of the request was written: certainly not billed */
    uint8_t quirk;          /* enum quirk that would cure it, or 0 */
    int64_t retry_after_ms; /* the provider's own hint; -1 = none */
    char type[64];          /* provider's words, "" = none; NUL-terminated, no control characters */
    char code[64];
    char param[96];
    char message[512]; /* never holds a key of ours, HTML or control characters; at most 511 bytes of UTF-8 */
};

const char *failure_class_name(enum failure_class c);
/* The outcome word of a class that came with a status or an error event: FAULT -> server_error, RATE -> rate_limited…
 */
enum outcome failure_outcome(enum failure_class c);
/* Copies src into dst[cap] as UTF-8, cut at a character boundary: control characters as spaces, a byte that belongs to
 * no character as '?'. */
void failure_text(char *dst, size_t cap, struct bytes src);
/* A failure of class FAULT that is not told by the provider: timeouts, connection, protocol. message is a short text.
 */
void failure_make(struct failure *f, enum outcome o, const char *message);

#endif

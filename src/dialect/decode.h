/* Answers of a provider -> model events. One decoder per attempt. Pure: bytes in, events out.
 *
 * One SSE event (or one whole JSON body) gives a batch of 0…n model events. In watch mode (same dialect in and out) the
 * same events come, and besides: what must be cut out of the bytes before they go to the client. */
#ifndef RM_DIALECT_DECODE_H
#define RM_DIALECT_DECODE_H

#include "base/arena.h"
#include "base/fields.h"
#include "codec/sse.h"
#include "dialect/mould.h"
#include "model/output.h"

struct dialect;
/* How a target's last whole answer was put, to read the next one by: what the dialect keeps from answer to answer. */
struct answer_form;
void answer_form_free(struct answer_form *f);

enum { DECODER_STATE_WORDS = 10 };
/* Not to be copied: it points into itself. */
struct decoder {
    const struct dialect *dialect;
    struct bytes vendor;
    unsigned max_depth;
    bool strips_usage;   /* usage was asked for by the gateway, not by the client: take it out again */
    bool is_text_unread; /* set by the owner: nobody will look at the texts of a whole answer, only at how long they
                            are. They may be told as they stand, with their escapes; text_bytes is right */
    bool has_finish, has_done, has_token, has_error;
    struct answer_form **form; /* set by the owner: what is kept for the target's answers, *form NULL at first, to be
                                  freed by the owner; outlives the decoding. NULL = nothing is kept */
    struct arena scratch;      /* emptied by each call */
    void *state;               /* the dialect's own, in `room` */
    struct arena keep;         /* lives as long as the decoder */
    struct failure *failure;   /* of the last EVENT_ERROR, in `keep`; NULL = there was none */
    struct mould mould;        /* of the last event */
    uint64_t room[DECODER_STATE_WORDS];
};

struct decoded {
    const struct event *v; /* n events in order; borrowed until the next call */
    size_t n;
    bool is_dropped;            /* this event exists only for our accounting: nothing of it goes to the client */
    size_t strip_at, strip_end; /* bytes of ev->data to cut out ("usage":null with its comma); equal = none */
    bool is_malformed;          /* not JSON of this dialect: a protocol_error (on_bad_event decides) */
    const char *why;
    struct mould_source source; /* for decode.c: of the event just read */
};

struct decoder_ops {
    void (*init)(struct decoder *d);
    void (*event)(struct decoder *d, const struct sse_event *ev, struct decoded *out);
    void (*whole)(struct decoder *d, struct bytes body, struct decoded *out);
};

void decoder_init(struct decoder *d, const struct dialect *target, struct bytes vendor, unsigned max_depth,
                  bool strips_usage);
void decoder_fini(struct decoder *d);
/* Lets the last call's memory go; what it gave is not valid any more. For a stream that falls silent. */
void decoder_rest(struct decoder *d);
/* For the dialect's reader: where the failure goes. */
struct failure *decoder_failure(struct decoder *d);
/* One SSE event. */
void decoder_event(struct decoder *d, const struct sse_event *ev, struct decoded *out);
/* The same where the next event is known by its bytes alone. ahead: fed bytes, an event begins there (sse_ahead).
 * Returns how many bytes it has, with its empty line; *out is then all that decoder_event would have told of it. 0 = it
 * is to be read by decoder_event, *out says nothing. */
size_t decoder_ahead(struct decoder *d, struct bytes ahead, struct output *out);
/* A whole JSON answer (status 200). Leading blanks are allowed. A body with a non-null `error` gives EVENT_ERROR. Ends
 * with EVENT_DONE. SSE bytes labelled as JSON: the caller tells by the first bytes ("data:", "event:", ":") and feeds
 * an sse. */
void decoder_whole(struct decoder *d, struct bytes body, struct decoded *out);
/* The byte stream has ended (cleanly): was the answer whole? Chat: [DONE] or a finish_reason; Messages: message_stop,
 * or message_delta with a stop_reason. */
bool decoder_is_complete(const struct decoder *d);

/* HTTP error answer -> failure (failover semantics 2 and 3: provider's row, then code/type, then text, then status).
 * Reads retry hints: retry-after-ms, retry-after (seconds, float or date against the Date header, else wall_ms),
 * RetryInfo, error.availability.retry_after, "try again in …", "regain access on DATE", x-ratelimit-reset of the
 * exhausted dimension. RATE and OVERLOAD hints are clamped to [0.1 s, 1 h]; QUOTA dates are not. The body may be HTML,
 * empty or cut. */
void dialect_classify(const struct dialect *target, struct bytes vendor, unsigned status, const struct fields *fields,
                      struct bytes body, int64_t wall_ms, struct failure *out);

#endif

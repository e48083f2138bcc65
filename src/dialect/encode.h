/* Model events -> a client's bytes, in the client's dialect: as a stream of SSE events, or as one whole JSON answer.
 * One encoder per attempt's draft. Pure. */
#ifndef RM_DIALECT_ENCODE_H
#define RM_DIALECT_ENCODE_H

#include "base/arena.h"
#include "base/buf.h"
#include "model/event.h"
#include "model/failure.h"
#include "model/record.h"

struct dialect;

/* What a client has of a stream that somebody else began: the encoder goes on with it. */
struct encoder_begun {
    bool is_on;
    struct bytes id, model; /* as told at its beginning; "" = unknown */
    unsigned n_blocks;      /* Messages: whole content blocks, the index of the next or the open one */
    bool is_text_open;      /* Messages: a text block is open */
};

struct encoder_options {
    bool is_stream;
    bool wants_usage;   /* the client asked for the usage event (Chat) */
    struct bytes model; /* shown when the provider's answer names none: the target's model. Must outlive the encoder */
    int64_t created_wall_s;
    uint64_t id_seed;           /* makes ids where the provider gave none */
    struct encoder_begun begun; /* streams; borrowed bytes outlive the encoder */
};

struct encoder {
    const struct dialect *dialect;
    struct encoder_options o;
    void *state; /* the dialect's own, from `keep` */
    struct arena keep;
};

struct encoder_ops {
    void (*init)(struct encoder *e);
    void (*event)(struct encoder *e, const struct event *ev, struct buf *out);
    void (*end)(struct encoder *e, struct buf *out);
    void (*begun)(const struct encoder *e, struct encoder_begun *out);
};

void encoder_init(struct encoder *e, const struct dialect *client, const struct encoder_options *o);
void encoder_fini(struct encoder *e);
/* Stream: appends 0…n whole SSE events to *out. Whole: collects, appends nothing. EVENT_ERROR is not for the encoder.
 */
void encoder_event(struct encoder *e, const struct event *ev, struct buf *out);
/* The answer is whole. Stream: what is still owed (finish, usage if asked, [DONE] / message_delta, message_stop) – each
 * exactly once. Whole: the JSON body. */
void encoder_end(struct encoder *e, struct buf *out);
/* What the client has so far, for another encoder to go on with. Borrowed from the encoder. Only text was sent. */
void encoder_begun(const struct encoder *e, struct encoder_begun *out);

/* ---- errors, in the client's dialect ---- */

struct answer_error {
    unsigned status;                       /* of the HTTP answer; also when in-stream, for the words */
    const char *openai_type, *openai_code; /* code NULL = null */
    const char *anthropic_type;
    const char *param;                     /* NULL = null */
    struct bytes message;                  /* no secrets, no HTML */
    int64_t retry_after_ms;                /* -1 = not told */
    const struct attempt_record *attempts; /* told in the body when all red, else NULL */
    size_t n_attempts;
    const char *request_id; /* NULL = none */
};

/* The JSON body of an error answer. */
void error_body(const struct dialect *client, const struct answer_error *e, struct buf *out);
/* The error as an event inside a stream that has begun: SSE bytes. Nothing may follow. */
void error_event(const struct dialect *client, const struct answer_error *e, struct buf *out);
/* Status, types and codes for a failure of a class when it is told to the client (failover semantics 1; openai-chat 5;
 * anthropic 9 "Errors"): CLIENT keeps the provider's status, type, code, param and message; AUTH is 502
 * provider_auth_error and names the provider; QUOTA 429 insufficient_quota, and so on. Message text goes to the arena.
 */
void error_of_failure(const struct failure *f, const char *provider, struct arena *a, struct answer_error *out);

#endif

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

/* What stands around the text of the last event that the client was sent, while the next one may be the same but for
 * its text. */
struct encoder_frame {
    enum event_kind kind; /* EVENT_OTHER = there is none */
    struct bytes head, tail;
};

/* A frame belongs to a run of text; a stream has few. */
enum { ENCODER_FRAMES_MAX = 64 };

struct encoder {
    const struct dialect *dialect;
    struct encoder_options o;
    void *state;                /* the dialect's own, from `keep` */
    struct encoder_frame frame; /* streams; set and cleared by the dialect */
    unsigned n_frames;          /* made so far */
    uint64_t n_characters;      /* streams: of EVENT_TEXT so far */
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
/* A stream's next event where it is the one before with other text: what encoder_event would append, as three pieces
 * that are not copied. They stay valid as long as the encoder, the second as long as the event's text. False: nothing
 * was done, give it to encoder_event. */
bool encoder_more(struct encoder *e, const struct event *ev, struct bytes out[3]);
/* For the dialects: the event of that kind that was just appended begins at `from` of *out, and its text, in quotes,
 * is [text, end). */
void encoder_keep_frame(struct encoder *e, enum event_kind kind, const struct buf *out, size_t from, size_t text,
                        size_t end);
static inline void encoder_drop_frame(struct encoder *e)
{
    e->frame.kind = EVENT_OTHER;
}
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

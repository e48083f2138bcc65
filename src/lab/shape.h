/* The two dialects as a provider writes them: events of a stream, whole answers, errors. Pure. Sources: the vendors'
 * published types; see the dialect rooms for the reading side. */
#ifndef RM_LAB_SHAPE_H
#define RM_LAB_SHAPE_H

#include "base/arena.h"
#include "base/buf.h"

enum shape_dialect { SHAPE_OPENAI, SHAPE_ANTHROPIC };

struct shape_request {
    enum shape_dialect dialect;
    uint64_t n;        /* running number, part of ids */
    int64_t created_s; /* seconds since 1970 */
    const char *model; /* as it will be told */
    bool is_stream;
    bool wants_usage;                       /* stream_options.include_usage */
    bool has_usage;                         /* false: this provider never tells */
    int64_t prompt_tokens;                  /* all, cached ones too */
    int64_t cache_read, cache_5m, cache_1h; /* of them: read, written for 5 minutes, for an hour */
    int64_t n_words;                        /* to be sent */
    int64_t first_word;                     /* of the text: where the answer goes on after a prefill; else 0 */
    struct bytes first_text;                /* what is sent in place of that word; p NULL = the word */
    bool is_cut_short;                      /* by max_tokens: the finish reason is length */
    const char *words;                      /* separated by blanks, repeated as often as needed */
};

struct shape_error {
    unsigned status;
    const char *type, *code, *message; /* code NULL = null */
    int64_t retry_after_ms;            /* -1 = none */
};

/* The i-th word that is sent, with its leading blank (none before the first of the text). */
struct bytes shape_word(const struct shape_request *r, int64_t i, struct arena *arena);
/* What comes before the first word: role chunk; message_start, block start and a ping. */
void shape_open(const struct shape_request *r, struct buf *out);
void shape_delta(const struct shape_request *r, struct bytes text, struct buf *out);
/* Finish and usage, without the terminal event. */
void shape_finish(const struct shape_request *r, struct buf *out);
/* [DONE], message_stop. */
void shape_terminal(const struct shape_request *r, struct buf *out);
void shape_error_event(const struct shape_request *r, const struct shape_error *e, struct buf *out);
/* A comment; where the dialect has pings, one too. */
void shape_comment(const struct shape_request *r, struct buf *out);
/* An event whose data is no JSON. */
void shape_bad_event(const struct shape_request *r, struct buf *out);
/* The whole answer as one JSON body; `more` stands after its words. */
void shape_whole(const struct shape_request *r, struct bytes more, struct arena *arena, struct buf *out);
void shape_error_body(const struct shape_request *r, const struct shape_error *e, struct buf *out);
/* Vendor's words for a status. */
void shape_error_of_status(enum shape_dialect d, unsigned status, struct shape_error *out);
void shape_error_quota(enum shape_dialect d, struct shape_error *out);
void shape_error_context(enum shape_dialect d, struct shape_error *out);
void shape_error_policy(enum shape_dialect d, struct shape_error *out);
/* A last message of the assistant's is not taken. */
void shape_error_prefill(enum shape_dialect d, struct shape_error *out);
/* The model is not one of this provider's; the message is in the arena. */
void shape_error_model(enum shape_dialect d, struct bytes model, struct arena *arena, struct shape_error *out);
/* Header lines that this vendor adds to every answer. */
void shape_fields(const struct shape_request *r, struct buf *out);

#endif

/* What a provider's response body means: payload bytes in, answer events out. No I/O and no time. It undoes the content
 * coding, finds out whether the body is SSE or JSON (labels lie), and feeds the decoder of the provider's dialect.
 * Bodies of error answers are only collected. */
#ifndef RM_UPSTREAM_ANSWER_H
#define RM_UPSTREAM_ANSWER_H

#include "dialect/decode.h"
#include "dialect/dialect.h"
#include "http/head.h"
#include "http/readbuf.h"
#include "model/output.h"
#include "upstream/inflater.h"

struct answer_spec {
    const struct dialect *target;
    struct bytes vendor; /* outlives the answer */
    unsigned max_depth;
    size_t max_event, max_body;
    bool strips_usage, skip_bad_events;
    bool is_text_unread;       /* see struct decoder */
    struct answer_form **form; /* see struct decoder */
    struct arena *arena;       /* outlives the answer; holds its failure */
    struct readbufs *reads;    /* a buffer is borrowed while something is decoded */
};

enum answer_mode { ANSWER_SNIFF, ANSWER_SSE, ANSWER_JSON, ANSWER_REFUSAL };
enum answer_result {
    ANSWER_MORE,   /* feed more */
    ANSWER_OUTPUT, /* *out is set */
    ANSWER_DONE,   /* the answer is whole */
    ANSWER_FAILED  /* failure is set */
};

struct answer {
    struct arena *arena; /* as told, as are these */
    struct readbufs *reads;
    size_t max_body;
    bool skip_bad_events;
    enum answer_mode mode;
    enum coding coding;
    bool label_is_sse, label_is_loose; /* loose: the content type tells neither JSON nor SSE */
    bool is_failed, is_ended;
    bool is_dry;     /* answer_next has said ANSWER_MORE, or would: nothing was fed since, and nothing is owed */
    struct bytes in; /* fed, not used yet; borrowed */
    struct inflater *inflater; /* GZIP, DEFLATE; else NULL */
    char *plain;               /* decoded bytes, borrowed from `reads`; NULL = none */
    struct buf body;           /* SNIFF: the first bytes; JSON, REFUSAL: all of it; SSE: the completed last event.
                                  JSON, and cap 0: it is the fed bytes themselves */
    struct failure *failure;   /* class, words, in_stream; status is the caller's. NULL until it has failed */
    struct sse sse;
    struct decoder decoder;
};

enum { REFUSAL_BYTES_MAX = 65536 };

/* head: of the final response; statuses of 400 and more are collected as a refusal. A body that cannot be an answer
 * (content type, coding) fails at the first answer_next. */
void answer_init(struct answer *a, const struct answer_spec *spec, const struct head *head);
void answer_fini(struct answer *a);
/* More payload; borrowed until answer_next has returned ANSWER_MORE, and of a JSON body until answer_keep or the end.
 */
void answer_feed(struct answer *a, struct bytes in);
/* What was fed is about to go. */
void answer_keep(struct answer *a);
/* Views in *out stay valid until the next call; raw, where it is_lasting, until the next answer_feed: it lies in the
 * fed bytes. */
enum answer_result answer_next(struct answer *a, struct output *out);
/* answer_feed, and at once the first event of it, where it is the one before with other text. False: it was fed only.
 * The answer must be dry. */
bool answer_feed_known(struct answer *a, struct bytes in, struct output *out);
/* It is dry, and nothing is to be done before more is fed. */
bool answer_rests(const struct answer *a);
/* All that was fed is read. */
static inline bool answer_is_used_up(const struct answer *a)
{
    return a->in.n == 0 && sse_is_used_up(&a->sse);
}
/* The body has ended cleanly: call until it does not return ANSWER_OUTPUT. Never returns ANSWER_MORE. */
enum answer_result answer_end(struct answer *a, struct output *out);
/* The body was cut: DONE when the answer was whole all the same, else FAILED. */
enum answer_result answer_cut(struct answer *a, const char *why);
/* A finish came; only the terminal marker, or the usage, may still be owed. */
bool answer_is_finished(const struct answer *a);
/* It was one JSON body, whole and well ended, and answer_end has given it out: asked again that would say DONE. */
bool answer_is_told(const struct answer *a);
/* REFUSAL: the body so far, and whether it is full. */
struct bytes answer_refusal(const struct answer *a);
bool answer_refusal_is_full(const struct answer *a);

#endif

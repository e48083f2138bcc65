/* Server-sent events, read incrementally (WHATWG HTML 9.2; openai-chat.md 4 "SSE parser requirements"). Feed bytes at
 * any boundary; the events are the same. Pull interface: feed, then call next until SSE_MORE.
 *
 * An event that lies whole inside the fed bytes is returned as a view of them: nothing is copied. Only what is left at
 * the end of a feed is kept, in `rest`, at most max_event bytes.
 *
 * Line ends LF, CRLF, CR, mixed; split between CR and LF; BOM at the very start; comments; `data:` without space;
 * several data lines joined with LF; `id:` and `retry:` ignored; a line whose field name is `error` is an event of that
 * name (old llama.cpp). */
#ifndef RM_CODEC_SSE_H
#define RM_CODEC_SSE_H

#include "base/buf.h"

struct sse {
    struct buf rest;    /* what is left of an unfinished event */
    struct buf *joined; /* data of an event with several data lines; NULL = there was none yet */
    struct bytes in;    /* what is left of the fed bytes; borrowed until the next feed */
    size_t max_event;
    size_t line_at;    /* of the running event: where its current line starts */
    bool has_line;     /* of the running event: it has a line that is not empty */
    bool after_cr;     /* a LF that comes first belongs to the last line end */
    bool is_first;     /* no event yet: a BOM may stand before it */
    bool rest_is_done; /* rest was handed out: the next call clears it */
};

enum sse_result {
    SSE_EVENT,    /* *ev is set */
    SSE_COMMENT,  /* a block of comment lines only: a keep-alive. raw is set */
    SSE_MORE,     /* feed more */
    SSE_TOO_LARGE /* an event longer than max_event; the reader is of no more use */
};

struct sse_event {
    struct bytes raw;  /* whole event with its empty line, as it came; view into the fed bytes or into the reader */
    struct bytes name; /* `event:` value, "" = none */
    struct bytes data; /* data lines joined with LF */
    bool has_data;
    bool is_verbatim; /* data is a contiguous part of raw (so offsets into data can be mapped into raw) */
};

void sse_init(struct sse *s, size_t max_event);
void sse_fini(struct sse *s);
/* The bytes must stay valid until the following calls of sse_next have returned SSE_MORE. */
void sse_feed(struct sse *s, struct bytes in);
/* Views in *ev stay valid until the next call of any sse function. */
enum sse_result sse_next(struct sse *s, struct sse_event *ev);
/* For a reader that knows an event by its bytes: what is fed and not read yet, at most max_event bytes of it. n 0 where
 * no event begins there (one is under way, or a line end is). The same views as of sse_next. */
struct bytes sse_ahead(struct sse *s);
/* The first n bytes of sse_ahead were a whole event, with its empty line: on to the next. */
void sse_pass(struct sse *s, size_t n);
/* No event is under way, and all that was fed is read: what is fed next begins one. */
static inline bool sse_is_between(const struct sse *s)
{
    return s->in.n == 0 && s->rest.n == 0 && !s->after_cr && !s->is_first;
}
/* All that was fed is read: sse_next would say SSE_MORE. */
static inline bool sse_is_used_up(const struct sse *s)
{
    return s->in.n == 0;
}
/* The input has ended. True when an unfinished event with data was pending: it is returned in *ev (the caller decides
 * whether it is whole: its data must parse). */
bool sse_end(struct sse *s, struct sse_event *ev);

#endif

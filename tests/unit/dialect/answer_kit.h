/* What the tests of answers share: dialects without the registry, files, and events as lines of text. */
#ifndef RM_TESTS_ANSWER_KIT_H
#define RM_TESTS_ANSWER_KIT_H

#include "dialect/answer_impl.h"
#include "dialect/dialect.h"

#include <stdio.h>
#include <stdlib.h>

static const struct dialect kit_openai = {.kind = DIALECT_OPENAI,
                                          .name = "openai",
                                          .decoder = &openai_decoder,
                                          .encoder = &openai_encoder,
                                          .collector = &openai_collector,
                                          .classify = openai_classify};
static const struct dialect kit_anthropic = {.kind = DIALECT_ANTHROPIC,
                                             .name = "anthropic",
                                             .decoder = &anthropic_decoder,
                                             .encoder = &anthropic_encoder,
                                             .collector = &anthropic_collector,
                                             .classify = anthropic_classify};

enum { KIT_DEPTH = 128, KIT_EVENT_MAX = 8 << 20 };

/* Whole file, appended; false when it cannot be read. */
static inline bool kit_read(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rb");
    char piece[4096];
    size_t n;
    if (f == NULL)
        return false;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        buf_put(out, bytes_from(piece, n));
    fclose(f);
    return true;
}

static inline void kit_quoted(struct buf *out, const char *name, struct bytes text)
{
    if (text.n == 0)
        return;
    buf_printf(out, " %s=\"", name);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == '\n' || c == '\r' || c == '\\' || c < 0x20)
            buf_printf(out, "\\x%02x", c);
        else
            buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

static inline void kit_usage(struct buf *out, const struct usage *u)
{
    buf_printf(out, " input=%lld read=%lld write5m=%lld write1h=%lld output=%lld reasoning=%lld", (long long)u->input,
               (long long)u->cache_read, (long long)u->cache_write_5m, (long long)u->cache_write_1h,
               (long long)u->output, (long long)u->reasoning);
}

static inline void kit_failure(struct buf *out, const struct failure *f)
{
    buf_printf(out, " class=%s status=%u", failure_class_name(f->class), f->status);
    kit_quoted(out, "type", bytes_of(f->type));
    kit_quoted(out, "code", bytes_of(f->code));
    kit_quoted(out, "message", bytes_of(f->message));
}

/* One event as a line: kind, what it says, * for a token. */
static inline void kit_event(struct buf *out, const struct event *e)
{
    static const char *const reasons[] = {"stop",          "length", "tool_calls",    "content_filter",
                                          "stop_sequence", "pause",  "context_window"};
    buf_puts(out, event_kind_name(e->kind));
    if (e->is_token)
        buf_puts(out, "*");
    if (e->choice > 0)
        buf_printf(out, " choice=%u", e->choice);
    if (e->kind == EVENT_TOOL_START || e->kind == EVENT_TOOL_ARGS)
        buf_printf(out, " tool=%u", e->tool);
    if (e->kind == EVENT_FINISH)
        buf_printf(out, " reason=%s", reasons[e->reason]);
    kit_quoted(out, "id", e->id);
    kit_quoted(out, "name", e->name);
    kit_quoted(out, "text", e->text);
    if (e->kind == EVENT_USAGE)
        kit_usage(out, &e->usage);
    if (e->kind == EVENT_ERROR)
        kit_failure(out, e->failure);
    buf_putc(out, '\n');
}

static inline void kit_batch(struct buf *out, const struct decoded *d)
{
    for (size_t i = 0; i < d->n; i++)
        kit_event(out, &d->v[i]);
    if (d->is_malformed)
        buf_printf(out, "malformed: %s\n", d->why);
    if (d->is_dropped)
        buf_puts(out, "-- dropped\n");
    if (d->strip_end > d->strip_at)
        buf_printf(out, "-- cut %zu..%zu\n", d->strip_at, d->strip_end);
}

/* Where events go: lines, encoders, a collector. */
struct kit_sink {
    struct buf *lines;
    struct encoder *encoders[4];
    struct buf *bytes[4];
    size_t n_encoders;
    struct collector *collector; /* NULL = none */
    bool has_failed;
};

static inline void kit_take(struct kit_sink *s, const struct decoded *d)
{
    if (s->lines != NULL)
        kit_batch(s->lines, d);
    for (size_t i = 0; i < d->n; i++) {
        s->has_failed |= d->v[i].kind == EVENT_ERROR;
        for (size_t k = 0; k < s->n_encoders && !s->has_failed; k++)
            encoder_event(s->encoders[k], &d->v[i], s->bytes[k]);
    }
}

/* The collector gets what the decoder found good, as the draft gives it. */
static inline void kit_event_to_all(struct decoder *d, const struct sse_event *ev, struct kit_sink *sink)
{
    struct decoded out;
    decoder_event(d, ev, &out);
    kit_take(sink, &out);
    bool is_over = out.is_dropped && out.n == 0;
    if (sink->collector != NULL && !out.is_malformed && !is_over && !sink->has_failed)
        collector_event(sink->collector, ev->name, ev->data);
}

static inline void kit_pull(struct sse *s, struct decoder *d, struct kit_sink *sink)
{
    struct sse_event ev;
    enum sse_result r;
    while ((r = sse_next(s, &ev)) == SSE_EVENT || r == SSE_COMMENT) {
        if (r == SSE_COMMENT)
            continue;
        kit_event_to_all(d, &ev, sink);
    }
}

/* Feeds `body` as SSE: [0, cut), then the rest; step > 0 instead cuts it in pieces of that size. */
static inline void kit_stream(struct decoder *d, struct bytes body, size_t cut, size_t step, struct kit_sink *sink)
{
    struct sse s;
    struct sse_event ev;
    sse_init(&s, KIT_EVENT_MAX);
    for (size_t at = 0; at < body.n;) {
        size_t end = step > 0 ? at + step : at < cut ? cut : body.n;
        end = end > body.n ? body.n : end;
        sse_feed(&s, bytes_slice(body, at, end));
        kit_pull(&s, d, sink);
        at = end;
    }
    if (sse_end(&s, &ev))
        kit_event_to_all(d, &ev, sink);
    sse_fini(&s);
}

#endif

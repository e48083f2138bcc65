/* An event ends at an empty line. The search for it goes over the fed bytes only once: what is known of the running
 * event (where its current line starts, whether it has a line at all, whether the last byte was a CR) is kept between
 * feeds.
 *
 *     rest | in                        an event that began in `rest` is completed from `in` and handed out from `rest`;
 *          | in: [event][event][ev     an event whole inside `in` is handed out as a view, the tail goes to `rest`
 *
 * Empty lines before the first line of an event belong to that event's raw, so that raws concatenate to the input. */
#include "codec/sse.h"

#include "base/mem.h"

void sse_init(struct sse *s, size_t max_event)
{
    *s = (struct sse){.max_event = max_event, .is_first = true};
}

void sse_fini(struct sse *s)
{
    buf_fini(&s->rest);
    if (s->joined == NULL)
        return;
    buf_fini(s->joined);
    mem_put(s->joined, sizeof *s->joined);
    s->joined = NULL;
}

void sse_feed(struct sse *s, struct bytes in)
{
    RM_ASSERT(s->in.n == 0);
    s->in = in;
}

/* Where the line that holds `at` ends (after its line end), or SIZE_MAX. */
static size_t line_end(struct sse *s, struct bytes in, size_t at)
{
    const char *from = in.p + at;
    const char *lf = memchr(from, '\n', in.n - at);
    size_t span = lf ? (size_t)(lf - from) : in.n - at;
    const char *cr = memchr(from, '\r', span);
    if (cr == NULL)
        return lf ? (size_t)(lf - in.p) + 1 : SIZE_MAX;
    size_t end = (size_t)(cr - in.p) + 1;
    if (end == in.n)
        s->after_cr = true;
    else if (in.p[end] == '\n')
        end++;
    return end;
}

/* Searches s->in for the end of the running event; its offset after the empty line, or SIZE_MAX. */
static size_t event_end(struct sse *s)
{
    struct bytes in = s->in;
    size_t base = s->rest.n, at = 0;
    if (s->after_cr && in.n > 0) {
        s->after_cr = false;
        if (in.p[0] == '\n') {
            at = 1;
            if (s->line_at == base)
                s->line_at = base + 1;
        }
    }
    while (at < in.n) {

        size_t end = line_end(s, in, at);
        bool was_cr_end = s->after_cr;
        if (end == SIZE_MAX)
            return SIZE_MAX;
        char first = in.p[at];
        bool is_empty = s->line_at == base + at && (first == '\n' || first == '\r');
        s->line_at = base + end;
        at = end;
        if (is_empty && s->has_line)
            return end;
        if (!is_empty)
            s->has_line = true;
        if (was_cr_end)
            return SIZE_MAX;
    }
    return SIZE_MAX;
}

static void take_data(struct sse *s, struct sse_event *ev, struct bytes value)
{
    if (!ev->has_data) {
        ev->has_data = true;
        ev->is_verbatim = true;
        ev->data = value;
        return;
    }
    if (ev->is_verbatim) {
        if (s->joined == NULL)
            s->joined = mem_take_zero(sizeof *s->joined);
        buf_clear(s->joined);
        buf_put(s->joined, ev->data);
        ev->is_verbatim = false;
    }
    buf_putc(s->joined, '\n');
    buf_put(s->joined, value);
    ev->data = buf_bytes(s->joined);
}

static void take_line(struct sse *s, struct sse_event *ev, struct bytes line)
{
    struct bytes value = line, name = bytes_cut(&value, ':');
    if (value.n > 0 && value.p[0] == ' ')
        value = bytes_slice(value, 1, value.n);
    if (bytes_eq(name, BYTES("data"))) {
        take_data(s, ev, value);
    } else if (bytes_eq(name, BYTES("event"))) {
        ev->name = value;
    } else if (bytes_eq(name, BYTES("error"))) {
        ev->name = name;
        take_data(s, ev, value);
    }
}

/* Fields of a whole block. */
static void parse_block(struct sse *s, struct bytes raw, struct sse_event *ev)
{
    *ev = (struct sse_event){.raw = raw};
    if (s->is_first && bytes_starts_with(raw, BYTES("\xef\xbb\xbf")))
        raw = bytes_slice(raw, 3, raw.n);
    s->is_first = false;
    while (raw.n > 0) {
        const char *lf = memchr(raw.p, '\n', raw.n);
        size_t n = lf ? (size_t)(lf - raw.p) : raw.n;
        const char *cr = n > 0 ? memchr(raw.p, '\r', n) : NULL;
        if (cr != NULL)
            n = (size_t)(cr - raw.p);
        if (n > 0 && raw.p[0] != ':')
            take_line(s, ev, bytes_slice(raw, 0, n));
        raw = bytes_slice(raw, n + 1, raw.n);
    }
}

static enum sse_result hand_out(struct sse *s, struct bytes raw, struct sse_event *ev)
{
    s->line_at = 0;
    s->has_line = false;
    if (s->max_event != 0 && raw.n > s->max_event)
        return SSE_TOO_LARGE;
    parse_block(s, raw, ev);
    return ev->has_data || ev->name.n > 0 ? SSE_EVENT : SSE_COMMENT;
}

/* What was handed out from `rest` is done with. */
static void clear_done(struct sse *s)
{
    if (!s->rest_is_done)
        return;
    s->rest_is_done = false;
    if (s->rest.cap > 4096)
        buf_fini(&s->rest);
    else
        buf_clear(&s->rest);
}

struct bytes sse_ahead(struct sse *s)
{
    clear_done(s);
    if (s->rest.n > 0 || s->after_cr || s->is_first)
        return (struct bytes){NULL, 0};
    return (struct bytes){s->in.p, s->max_event != 0 && s->in.n > s->max_event ? s->max_event : s->in.n};
}

void sse_pass(struct sse *s, size_t n)
{
    RM_ASSERT(s->rest.n == 0 && !s->after_cr && !s->is_first && n <= s->in.n);
    s->in = (struct bytes){s->in.p + n, s->in.n - n};
}

enum sse_result sse_next(struct sse *s, struct sse_event *ev)
{
    clear_done(s);
    size_t end = event_end(s);
    if (end == SIZE_MAX) {
        if (s->max_event != 0 && s->rest.n + s->in.n > s->max_event)
            return SSE_TOO_LARGE;
        buf_put(&s->rest, s->in);
        s->in = (struct bytes){NULL, 0};
        return SSE_MORE;
    }
    struct bytes raw = bytes_slice(s->in, 0, end);
    s->in = bytes_slice(s->in, end, s->in.n);
    if (s->rest.n > 0) {
        buf_put(&s->rest, raw);
        raw = buf_bytes(&s->rest);
        s->rest_is_done = true;
    }
    return hand_out(s, raw, ev);
}

bool sse_end(struct sse *s, struct sse_event *ev)
{
    if (s->rest_is_done || s->rest.n == 0)
        return false;
    s->rest_is_done = true;
    return hand_out(s, buf_bytes(&s->rest), ev) == SSE_EVENT && ev->has_data;
}

/* Only what is surely the same is taken: one data line that lies in one piece, no CR (a line end whose end is not
 * known before the next byte), at most one thing to cut out, in one part. A hole is never nothing where its text is
 * asked for: "" is no token. */
#include "dialect/mould.h"

#include "base/check.h"
#include "codec/json_string.h"

void mould_clear(struct mould *m)
{
    m->n_holes = 0;
}

static bool is_text(const struct event *e)
{
    bool is_kind =
        e->kind == EVENT_TEXT || e->kind == EVENT_REASONING || e->kind == EVENT_REFUSAL || e->kind == EVENT_TOOL_ARGS;
    return is_kind && e->is_token && e->text.n > 0 && e->id.n == 0 && e->name.n == 0;
}

/* The inside of a string of the tree as it stands in raw, or p NULL. */
static struct bytes place_of(struct bytes raw, const struct mould_source *from, struct bytes s)
{
    uintptr_t copy = (uintptr_t)from->copy, p = (uintptr_t)s.p;
    if (s.p == NULL || p <= copy || p >= copy + from->data.n)
        return (struct bytes){NULL, 0};
    const char *at = from->data.p + (p - copy);
    struct json_string in;
    if (at[-1] != '"' || !json_string_read(bytes_from(at, (size_t)(raw.p + raw.n - at)), &in))
        return (struct bytes){NULL, 0};
    return bytes_from(at, in.n);
}

static bool is_fit(const struct sse_event *ev, const struct event *e, const struct mould_source *from)
{
    return from->copy != NULL && is_text(e) && ev->is_verbatim && ev->raw.n <= MOULD_BYTES_MAX &&
           bytes_ends_with(ev->raw, BYTES("\n\n")) && bytes_find_byte(ev->raw, '\r') == SIZE_MAX;
}

static void keep_bytes(struct mould *m, struct arena *keep, struct bytes raw)
{
    if (m->cap < raw.n) {
        m->cap = raw.n + 64 < 512 ? 512 : MOULD_BYTES_MAX;
        m->room = arena_alloc_raw(keep, m->cap);
    }
    memcpy(m->room, raw.p, raw.n);
    m->bytes = bytes_from(m->room, raw.n);
}

/* Cuts at the holes, which are in order. */
static void cut_parts(struct mould *m, struct bytes raw, const struct bytes *holes, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t hole = (size_t)(holes[i].p - raw.p);
        m->parts[i] = (struct mould_part){at, hole};
        at = hole + holes[i].n;
    }
    m->parts[n] = (struct mould_part){at, raw.n};
    m->n_holes = n;
}

/* What is cut out must lie in one part. */
static bool set_strip(struct mould *m, size_t at, size_t end)
{
    m->strip_part = SIZE_MAX;
    if (at == end)
        return true;
    for (size_t i = 0; i <= m->n_holes; i++) {
        if (m->parts[i].at > at || m->parts[i].end < end)
            continue;
        m->strip_part = i;
        m->strip_at = at - m->parts[i].at;
        m->strip_end = end - m->parts[i].at;
        return true;
    }
    return false;
}

void mould_make(struct mould *m, struct arena *keep, const struct sse_event *ev, const struct event *e,
                const struct mould_source *from, size_t strip_at, size_t strip_end)
{
    mould_clear(m);
    if (!is_fit(ev, e, from))
        return;
    struct bytes holes[MOULD_HOLES_MAX] = {place_of(ev->raw, from, e->text)};
    struct bytes padding = place_of(ev->raw, from, from->padding);
    size_t n = 1, data_at = strip_at == strip_end ? 0 : (size_t)(ev->data.p - ev->raw.p);
    if (holes[0].p == NULL)
        return;
    m->text_hole = 0;
    if (padding.p != NULL && padding.p != holes[0].p) {
        m->text_hole = padding.p < holes[0].p;
        holes[1 - m->text_hole] = padding;
        holes[m->text_hole] = place_of(ev->raw, from, e->text);
        n = 2;
    }
    keep_bytes(m, keep, ev->raw);
    cut_parts(m, ev->raw, holes, n);
    m->event = *e;
    m->event.is_more = !from->is_padding_kept;
    if (!set_strip(m, data_at + strip_at, data_at + strip_end))
        mould_clear(m);
}

/* Steps over part i where it stands `at`; false: something else stands there. */
static bool pass_part(const struct mould *m, size_t i, struct bytes ahead, size_t *at, struct mould_fit *out)
{
    size_t from = m->parts[i].at, n = m->parts[i].end - from;
    if (ahead.n - *at < n || memcmp(ahead.p + *at, m->bytes.p + from, n) != 0)
        return false;
    if (i == m->strip_part) {
        out->strip_at = *at + m->strip_at;
        out->strip_end = *at + m->strip_end;
    }
    *at += n;
    return true;
}

bool mould_match(const struct mould *m, struct bytes ahead, struct mould_fit *out)
{
    size_t at = 0;
    out->strip_at = out->strip_end = 0;
    for (size_t i = 0; i < m->n_holes; i++) {
        struct json_string hole;
        if (!pass_part(m, i, ahead, &at, out) || !json_string_read(bytes_from(ahead.p + at, ahead.n - at), &hole))
            return false;
        if (i == m->text_hole) {
            out->text = bytes_from(ahead.p + at, hole.n);
            out->has_escapes = hole.has_escapes;
            if (hole.n == 0 || hole.n >= MOULD_TEXT_MAX)
                return false;
        }
        at += hole.n;
    }
    if (!pass_part(m, m->n_holes, ahead, &at, out))
        return false;
    out->n = at;
    return true;
}

/* Only what is surely the same is taken: one data line that lies in one piece, no CR (a line end whose end is not
 * known before the next byte), at most one thing to cut out, in one part. A hole is never nothing where its text is
 * asked for: "" is no token. */
#include "dialect/mould.h"

#include "base/check.h"
#include "base/mem.h"
#include "codec/json_string.h"

void mould_init(struct mould *m)
{
    m->n_holes = 0;
    m->cap = 0;
    m->bytes = NULL;
}

void mould_clear(struct mould *m)
{
    m->n_holes = 0;
}

void mould_fini(struct mould *m)
{
    mem_put(m->bytes, m->cap);
    m->bytes = NULL;
    m->cap = 0;
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

/* With some room for a longer text the next time. */
static void keep_bytes(struct mould *m, struct bytes raw)
{
    enum { MORE = 64, STEP = 32 };
    if (m->cap < raw.n) {
        mould_fini(m);
        m->cap = (uint16_t)((raw.n + MORE) / STEP * STEP);
        m->bytes = mem_take(m->cap);
    }
    memcpy(m->bytes, raw.p, raw.n);
}

/* Cuts at the holes, which are in order. */
static void cut_parts(struct mould *m, struct bytes raw, const struct bytes *holes, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t hole = (size_t)(holes[i].p - raw.p);
        m->parts[i] = (struct mould_part){(uint16_t)at, (uint16_t)hole};
        at = hole + holes[i].n;
    }
    m->parts[n] = (struct mould_part){(uint16_t)at, (uint16_t)raw.n};
    m->n_holes = (uint8_t)n;
}

/* What is cut out must lie in one part. */
static bool set_strip(struct mould *m, size_t at, size_t end)
{
    m->strip_part = MOULD_WHOLE;
    if (at == end)
        return true;
    for (uint8_t i = 0; i <= m->n_holes; i++) {
        if (m->parts[i].at > at || m->parts[i].end < end)
            continue;
        m->strip_part = i;
        m->strip_at = (uint16_t)(at - m->parts[i].at);
        m->strip_end = (uint16_t)(end - m->parts[i].at);
        return true;
    }
    return false;
}

void mould_make(struct mould *m, const struct sse_event *ev, const struct event *e, const struct mould_source *from,
                size_t strip_at, size_t strip_end)
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
    keep_bytes(m, ev->raw);
    cut_parts(m, ev->raw, holes, n);
    m->event = *e;
    m->event.is_more = !from->is_padding_kept;
    if (!set_strip(m, data_at + strip_at, data_at + strip_end))
        mould_clear(m);
}

/* What two places of sixteen bytes differ by. */
typedef uint64_t vec __attribute__((vector_size(16)));

static inline vec differ_at(const char *a, const char *b)
{
    vec x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x ^ y;
}

/* For parts that nearly always are the same: all of it is looked at, without a branch where it may end. The last step
 * overlaps the one before. */
static inline bool is_same(const char *a, const char *b, size_t n)
{
    if (n < 16)
        return memcmp(a, b, n) == 0;
    vec differ = differ_at(a + n - 16, b + n - 16);
    size_t at = 0;
    for (; n - at >= 64; at += 64)
        differ |= (differ_at(a + at, b + at) | differ_at(a + at + 16, b + at + 16)) |
                  (differ_at(a + at + 32, b + at + 32) | differ_at(a + at + 48, b + at + 48));
    for (; n - at > 16; at += 16)
        differ |= differ_at(a + at, b + at);
    return (differ[0] | differ[1]) == 0;
}

/* Where part i ends that stands `at`; NULL: something else stands there. */
static inline const char *pass_part(const struct mould *m, size_t i, const char *at, const char *end)
{
    const struct mould_part *part = &m->parts[i];
    size_t n = part->end - part->at;
    return (size_t)(end - at) >= n && is_same(at, m->bytes + part->at, n) ? at + n : NULL;
}

/* Where the text ends that begins `at`; NULL: no string, or nothing in it. */
static inline const char *pass_text(struct mould *m, const char *at, const char *end)
{
    struct json_string hole;
    if (!json_string_read(bytes_from(at, (size_t)(end - at)), &hole) || hole.n == 0 || hole.n >= MOULD_TEXT_MAX)
        return NULL;
    m->event.text = bytes_from(at, hole.n);
    m->event.text_bytes = (uint32_t)hole.n;
    m->text_has_escapes = hole.has_escapes;
    m->event.is_plain = !hole.has_escapes;
    return at + hole.n;
}

static const char *pass_padding(const char *at, const char *end)
{
    struct json_string hole;
    return json_string_read(bytes_from(at, (size_t)(end - at)), &hole) ? at + hole.n : NULL;
}

static void set_output(struct mould *m, const char *from, const char *end, struct output *out)
{
    out->raw = bytes_from(from, (size_t)(end - from));
    out->framed = (struct bytes){NULL, 0};
    out->strip_at = out->strip_end = 0;
    out->v = &m->event;
    out->n = 1;
    out->raw_is_stream = true;
    out->is_dropped = false;
}

/* Where part strip_part stands is known by what came before it. */
static void set_strip_place(const struct mould *m, const size_t *begins, struct output *out)
{
    out->strip_at = begins[m->strip_part] + m->strip_at;
    out->strip_end = begins[m->strip_part] + m->strip_end;
}

static __attribute__((noinline)) bool match_padded(struct mould *m, struct bytes ahead, struct output *out)
{
    const char *at = ahead.p, *end = at + ahead.n;
    size_t begins[MOULD_HOLES_MAX + 1] = {0};
    for (size_t i = 0; i < m->n_holes; i++) {
        if ((at = pass_part(m, i, at, end)) == NULL)
            return false;
        at = i == m->text_hole ? pass_text(m, at, end) : pass_padding(at, end);
        if (at == NULL)
            return false;
        begins[i + 1] = (size_t)(at - ahead.p);
    }
    if ((at = pass_part(m, m->n_holes, at, end)) == NULL)
        return false;
    set_output(m, ahead.p, at, out);
    if (m->strip_part != MOULD_WHOLE)
        set_strip_place(m, begins, out);
    return true;
}

/* The usual: one hole. Kept apart: inlined where it is called, it would cost its callers their registers. */
static __attribute__((noinline)) bool match_plain(struct mould *m, struct bytes ahead, struct output *out)
{
    const char *end = ahead.p + ahead.n, *at = pass_part(m, 0, ahead.p, end);
    if (at == NULL || (at = pass_text(m, at, end)) == NULL)
        return false;
    const char *tail = at;
    if ((at = pass_part(m, 1, at, end)) == NULL)
        return false;
    set_output(m, ahead.p, at, out);
    if (m->strip_part != MOULD_WHOLE)
        set_strip_place(m, (size_t[]){0, (size_t)(tail - ahead.p)}, out);
    return true;
}

bool mould_match(struct mould *m, struct bytes ahead, struct output *out)
{
    return m->n_holes == 1 ? match_plain(m, ahead, out) : match_padded(m, ahead, out);
}

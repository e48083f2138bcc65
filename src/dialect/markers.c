#include "dialect/markers.h"

#include "dialect/walk.h"

enum { NESTED_MAX = 8 }; /* deeper than dialect/call.c looks */

bool is_marker(struct bytes name)
{
    return bytes_is(name, "cache_control") || bytes_is(name, "prompt_cache_breakpoint");
}

/* May be wrong by a text that only speaks of markers; then the walk finds none. */
static bool may_hold(struct bytes value)
{
    return bytes_find(value, BYTES("\"cache_control\"")) != SIZE_MAX ||
           bytes_find(value, BYTES("\"prompt_cache_breakpoint\"")) != SIZE_MAX;
}

static bool cut(struct bytes value, unsigned depth, struct buf *out);

static bool cut_member(const struct walk *w, unsigned depth, struct buf *out)
{
    if (bytes_is(w->name, "content") && depth < NESTED_MAX) {
        buf_puts(out, "\"content\":");
        return cut(w->value, depth + 1, out);
    }
    const char *from = w->name.p - 1;
    buf_put(out, (struct bytes){from, (size_t)(w->value.p + w->value.n - from)});
    return false;
}

static bool cut(struct bytes value, unsigned depth, struct buf *out)
{
    struct walk w = walk_of(value);
    bool is_found = false, is_first = true, is_array = value.n > 0 && value.p[0] == '[';
    if ((!is_array && !w.is_object) || !may_hold(value)) {
        buf_put(out, value);
        return false;
    }
    buf_putc(out, is_array ? '[' : '{');
    while (walk_next(&w)) {
        if (w.is_object && is_marker(w.name)) {
            is_found = true;
            continue;
        }
        if (!is_first)
            buf_putc(out, ',');
        is_first = false;
        is_found |= is_array ? cut(w.value, depth, out) : cut_member(&w, depth, out);
    }
    buf_putc(out, is_array ? ']' : '}');
    return is_found;
}

bool markers_cut(struct bytes value, struct buf *out)
{
    size_t from = out->n;
    if (may_hold(value) && cut(value, 0, out))
        return true;
    out->n = from;
    return false;
}

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

struct cutting {
    struct buf *out;
    const char *from; /* copied up to here */
    const char *kept; /* the end of the last member that stays; NULL = none does so far */
    bool is_after;    /* a marker was the first member: the comma after it goes too */
};

static void copy(struct cutting *c, const char *to)
{
    buf_put(c->out, bytes_from(c->from, (size_t)(to - c->from)));
    c->from = to;
}

/* A marker goes with one comma, and nothing else changes: what stays is as if it had never been marked. */
static void drop(struct cutting *c, const char *start, const char *end)
{
    copy(c, c->kept != NULL ? c->kept : c->is_after ? c->from : start);
    c->is_after = c->kept == NULL;
    c->from = end;
}

static bool cut(struct bytes value, unsigned depth, struct buf *out)
{
    struct walk w = walk_of(value);
    struct cutting c = {.out = out, .from = value.p};
    bool is_found = false, is_array = value.n > 0 && value.p[0] == '[';
    if ((!is_array && !w.is_object) || !may_hold(value)) {
        buf_put(out, value);
        return false;
    }
    while (walk_next(&w)) {
        const char *start = w.is_object ? w.name.p - 1 : w.value.p, *end = w.value.p + w.value.n;
        if (w.is_object && is_marker(w.name)) {
            is_found = true;
            drop(&c, start, end);
            continue;
        }
        c.from = c.is_after ? start : c.from;
        c.is_after = false;
        if (is_array || (bytes_is(w.name, "content") && depth < NESTED_MAX)) {
            copy(&c, w.value.p);
            is_found |= cut(w.value, is_array ? depth : depth + 1, out);
            c.from = end;
        }
        c.kept = end;
    }
    copy(&c, value.p + value.n);
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

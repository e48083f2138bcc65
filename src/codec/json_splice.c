/* The text is cut at every edit; what lies between the cuts is borrowed.
 *
 *     {"model":"a","stream":false,"x":1}
 *      ^ inserts      ^ replaced value      a removed member takes one comma with it
 *
 * Removals are the only delicate part: with its comma before it, unless it is the first member that stays away, then
 * with the comma after it. So first all members' extents are needed: a removed member's comma is found by looking at
 * the bytes around it, and a run of removed members at the start is handled by "nothing was kept yet". */
#include "codec/json_splice.h"

#include "base/check.h"

enum { EDITS_MAX = 64 };

struct cut {
    size_t at, end; /* bytes of the text that go */
    struct bytes instead;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static size_t next_solid(struct bytes text, size_t at)
{
    while (at < text.n && is_blank(text.p[at]))
        at++;
    return at;
}

static size_t comma_before(struct bytes text, size_t at)
{
    while (at > 0 && is_blank(text.p[at - 1]))
        at--;
    return at > 0 && text.p[at - 1] == ',' ? at - 1 : SIZE_MAX;
}

/* Cuts in the order of the text; few, so insertion sort. */
static void put_cut(struct cut *cuts, size_t *n, struct cut c)
{
    size_t i = (*n)++;
    for (; i > 0 && cuts[i - 1].at > c.at; i--)
        cuts[i] = cuts[i - 1];
    cuts[i] = c;
}

/* Gives each removal its comma: the one after it while every member before it is removed as well, else the one before.
 */
static void take_commas(struct bytes text, const struct json_scan *scan, struct cut *cuts, size_t n)
{
    size_t expected = next_solid(text, scan->open_at + 1); /* where the next member starts if all before it are gone */
    for (size_t i = 0; i < n; i++) {
        if (cuts[i].instead.p != NULL)
            continue;
        size_t after = next_solid(text, cuts[i].end);
        if (cuts[i].at == expected && after < text.n && text.p[after] == ',') {
            cuts[i].end = next_solid(text, after + 1);
            expected = cuts[i].end;
            continue;
        }
        size_t before = comma_before(text, cuts[i].at);
        if (before != SIZE_MAX && cuts[i].at != expected)
            cuts[i].at = before;
    }
}

static void put_piece(struct pieces *out, struct bytes b)
{
    if (b.n == 0)
        return;
    out->v[out->n++] = b;
    out->n_bytes += b.n;
}

/* "name":value, */
static struct bytes whole_member(const struct json_edit *e, struct arena *arena)
{
    struct bytes name = bytes_of(e->name);
    if (e->member.p != NULL)
        return e->member;
    char *text = arena_alloc_raw(arena, name.n + e->value.n + 4), *at = text;
    *at++ = '"';
    memcpy(at, name.p, name.n);
    at += name.n;
    *at++ = '"';
    *at++ = ':';
    if (e->value.n > 0)
        memcpy(at, e->value.p, e->value.n);
    at += e->value.n;
    *at++ = ',';
    return bytes_from(text, (size_t)(at - text));
}

/* Each with a comma behind it; the last one without, where nothing follows. */
static void put_inserted(const struct json_edit *edits, size_t n, bool is_bare, struct arena *arena, struct pieces *out)
{
    size_t before = out->n;
    for (size_t i = 0; i < n; i++)
        if (edits[i].found->type == JSON_ABSENT && !edits[i].remove)
            put_piece(out, whole_member(&edits[i], arena));
    if (is_bare && out->n > before) {
        out->v[out->n - 1].n--;
        out->n_bytes--;
    }
}

static bool all_members_go(struct bytes text, const struct json_scan *scan, const struct cut *cuts, size_t n)
{
    size_t at = next_solid(text, scan->open_at + 1);
    for (size_t i = 0; i < n; i++) {
        if (cuts[i].instead.p != NULL || cuts[i].at > at)
            return false;
        at = next_solid(text, cuts[i].end);
    }
    return at < text.n && text.p[at] == '}';
}

void json_splice(struct bytes text, const struct json_scan *scan, const struct json_edit *edits, size_t n,
                 struct arena *arena, struct pieces *out)
{
    RM_ASSERT(n <= EDITS_MAX);
    struct cut cuts[EDITS_MAX];
    size_t n_cuts = 0;
    bool has_removals = false;
    for (size_t i = 0; i < n; i++) {
        const struct json_member *m = edits[i].found;
        if (m->type == JSON_ABSENT)
            continue;
        has_removals |= edits[i].remove;
        if (edits[i].remove)
            put_cut(cuts, &n_cuts, (struct cut){m->name_at, m->value_end, {NULL, 0}});
        else
            put_cut(cuts, &n_cuts, (struct cut){m->value_at, m->value_end, edits[i].value});
    }
    if (has_removals)
        take_commas(text, scan, cuts, n_cuts);
    bool is_bare = scan->is_empty || (has_removals && all_members_go(text, scan, cuts, n_cuts));

    *out = (struct pieces){.v = arena_alloc_raw(arena, (2 * n_cuts + n + 2) * sizeof *out->v)};
    put_piece(out, bytes_slice(text, 0, scan->open_at + 1));
    put_inserted(edits, n, is_bare, arena, out);
    size_t at = scan->open_at + 1;
    for (size_t i = 0; i < n_cuts; i++) {
        put_piece(out, bytes_slice(text, at, cuts[i].at));
        put_piece(out, cuts[i].instead);
        at = cuts[i].end;
    }
    put_piece(out, bytes_slice(text, at, text.n));
}

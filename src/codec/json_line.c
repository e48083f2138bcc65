#include "codec/json_line.h"

#include "codec/json_write.h"

enum { FIRST_ROOM = 1024 }; /* most lines find all of their room at once */

static void settle(struct json_line *l)
{
    buf_grew(l->out, (size_t)(l->at - l->out->p) - l->out->n);
}

void jl_begin(struct json_line *l, struct buf *out)
{
    RM_ASSERT(out->max == 0);
    l->out = out;
    l->at = buf_reserve(out, FIRST_ROOM);
    l->end = out->p + out->cap;
}

void jl_end(struct json_line *l)
{
    settle(l);
}

void jl_grow(struct json_line *l, size_t n)
{
    settle(l);
    l->at = buf_reserve(l->out, n > FIRST_ROOM ? n : FIRST_ROOM);
    l->end = l->out->p + l->out->cap;
}

void jl_put_quoted(struct json_line *l, struct bytes text)
{
    if (!json_is_plain(text)) {
        struct json_writer w;
        settle(l);
        jw_init(&w, l->out);
        jw_string(&w, text);
        jl_begin(l, l->out);
        return;
    }
    char *at = jl_room(l, text.n + 2);
    at[0] = '"';
    memcpy(at + 1, text.p, text.n);
    at[text.n + 1] = '"';
    l->at += text.n + 2;
}

void jl_put_int(struct json_line *l, int64_t v)
{
    char room[BYTES_DIGITS_MAX];
    if (v < 0)
        jl_put(l, BYTES("-"));
    struct bytes digits = bytes_digits(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, room);
    jl_put(l, digits);
}

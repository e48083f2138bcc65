#include "dialect/batch.h"

void batch_reserve(struct batch *b, size_t n)
{
    b->v = arena_alloc_raw(b->arena, n * sizeof *b->v);
    b->cap = n;
}

struct event *batch_add(struct batch *b, enum event_kind kind)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 4;
        struct event *v = arena_alloc_raw(b->arena, cap * sizeof *v);
        if (b->n > 0)
            memcpy(v, b->v, b->n * sizeof *v);
        b->v = v;
        b->cap = cap;
    }
    struct event *e = &b->v[b->n++];
    memset(e, 0, offsetof(struct event, usage)); /* that is read of USAGE alone, which brings it */
    e->failure = NULL;
    e->kind = kind;
    return e;
}

struct event *batch_add_output(struct batch *b, enum event_kind kind, struct bytes text)
{
    struct event *e = batch_add(b, kind);
    e->text = text;
    e->text_bytes = text.n > UINT32_MAX ? UINT32_MAX : (uint32_t)text.n;
    e->is_token = text.n > 0;
    return e;
}

void batch_close(struct batch *b, const struct decoder *d, struct decoded *out)
{
    bool has_token = d->has_token;
    for (size_t i = 0; i < b->n; i++) {
        if (b->v[i].kind == EVENT_FINISH && !has_token)
            b->v[i].is_token = true;
        has_token |= b->v[i].is_token;
    }
    out->v = b->v;
    out->n = b->n;
}

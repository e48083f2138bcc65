#include "dialect/rope.h"

enum { FIRST_PIECE = 128, MOST_PIECE = 16384 };

struct rope_piece {
    struct rope_piece *next;
    size_t n, cap;
    char data[];
};

static struct rope_piece *add_piece(struct rope *r, struct arena *a, size_t need)
{
    size_t cap = r->last ? r->last->cap * 2 : FIRST_PIECE;
    cap = cap > MOST_PIECE ? MOST_PIECE : cap;
    cap = cap < need ? need : cap;
    struct rope_piece *p = arena_alloc(a, sizeof *p + cap);
    p->cap = cap;
    if (r->last != NULL)
        r->last->next = p;
    else
        r->first = p;
    r->last = p;
    return p;
}

void rope_put(struct rope *r, struct arena *a, struct bytes text)
{
    if (text.n == 0)
        return;
    struct rope_piece *p = r->last;
    if (p == NULL || p->cap - p->n < text.n)
        p = add_piece(r, a, text.n);
    memcpy(p->data + p->n, text.p, text.n);
    p->n += text.n;
    r->n += text.n;
}

struct bytes rope_text(const struct rope *r, struct arena *a)
{
    if (r->first == NULL)
        return BYTES("");
    if (r->first == r->last)
        return bytes_from(r->first->data, r->n);
    char *all = arena_alloc(a, r->n + 1);
    size_t at = 0;
    for (const struct rope_piece *p = r->first; p != NULL; p = p->next) {
        memcpy(all + at, p->data, p->n);
        at += p->n;
    }
    return bytes_from(all, r->n);
}

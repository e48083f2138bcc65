#include "base/fields.h"

size_t fields_find(const struct fields *f, struct bytes name, size_t from)
{
    while (from < f->n && (f->v[from].name.n != name.n || !bytes_eq_nocase(f->v[from].name, name)))
        from++;
    return from;
}

size_t fields_count_of(const struct fields *f, struct bytes name, struct bytes *first)
{
    size_t n = 0;
    *first = (struct bytes){NULL, 0};
    for (size_t at = fields_find(f, name, 0); at < f->n; at = fields_find(f, name, at + 1))
        if (n++ == 0)
            *first = f->v[at].value;
    return n;
}

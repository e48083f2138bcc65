#include "base/fields.h"

struct bytes fields_get(const struct fields *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (bytes_eq_nocase(f->v[i].name, bytes_of(name)))
            return f->v[i].value;
    return (struct bytes){NULL, 0};
}

bool fields_has(const struct fields *f, const char *name)
{
    return fields_count(f, name) > 0;
}

size_t fields_count(const struct fields *f, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += bytes_eq_nocase(f->v[i].name, bytes_of(name));
    return n;
}

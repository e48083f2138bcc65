#include "lab/figures.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

enum { NAME_BYTES = 96 };

void figures_fini(struct figures *f)
{
    mem_free(f->v);
    arena_fini(&f->arena);
    *f = (struct figures){0};
}

void figures_put(struct figures *f, double value, const char *name, ...)
{
    char text[NAME_BYTES];
    va_list ap;
    va_start(ap, name);
    int n = vsnprintf(text, sizeof text, name, ap);
    va_end(ap);
    RM_ASSERT(n > 0 && n < NAME_BYTES);
    for (size_t i = 0; i < f->n; i++)
        if (bytes_is(f->v[i].name, text)) {
            f->v[i].value = value;
            return;
        }
    if (f->n == f->cap) {
        f->cap = f->cap == 0 ? 64 : 2 * f->cap;
        f->v = mem_realloc(f->v, f->cap * sizeof *f->v);
    }
    f->v[f->n++] = (struct figure){arena_dup(&f->arena, bytes_of(text)), value};
}

const struct figure *figures_find(const struct figures *f, struct bytes name)
{
    for (size_t i = 0; i < f->n; i++)
        if (bytes_eq(f->v[i].name, name))
            return &f->v[i];
    return NULL;
}

struct bytes figures_nearest(const struct figures *f, struct bytes name)
{
    struct bytes best = {0};
    unsigned least = NAME_BYTES;
    name = bytes_slice(name, 0, NAME_BYTES);
    for (size_t i = 0; i < f->n; i++) {
        unsigned d = bytes_distance(f->v[i].name, name, least);
        if (d < least || best.n == 0) {
            least = d;
            best = f->v[i].name;
        }
    }
    return best;
}

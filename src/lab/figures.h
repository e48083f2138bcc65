/* The result's numbers by flat names ("hang.ttft.p99_ms"), so that any of them can be expected. Kept in the order in
 * which they were put. Pure. */
#ifndef RM_LAB_FIGURES_H
#define RM_LAB_FIGURES_H

#include "base/arena.h"
#include "base/check.h"

struct figure {
    struct bytes name; /* in the arena */
    double value;      /* NAN = was not measured */
};
/* The zero value is empty. */
struct figures {
    struct arena arena;
    struct figure *v;
    size_t n, cap;
};

void figures_fini(struct figures *f);
/* A name that is there already gets the new value. */
void figures_put(struct figures *f, double value, const char *name, ...) RM_PRINTF(3, 4);
/* NULL = no such name. */
const struct figure *figures_find(const struct figures *f, struct bytes name);
/* The name that is most like it; n 0 when there is none at all. */
struct bytes figures_nearest(const struct figures *f, struct bytes name);

#endif

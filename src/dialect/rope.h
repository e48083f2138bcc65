/* Text that grows in an arena, in pieces: an encoder's memory is its arena, and nothing is copied until the text is
 * wanted as one. The zero value is empty. */
#ifndef RM_DIALECT_ROPE_H
#define RM_DIALECT_ROPE_H

#include "base/arena.h"

struct rope_piece;
struct rope {
    struct rope_piece *first, *last;
    size_t n; /* bytes in all */
};

void rope_put(struct rope *r, struct arena *a, struct bytes text);
/* All of it as one text; lives as long as the arena. */
struct bytes rope_text(const struct rope *r, struct arena *a);

#endif

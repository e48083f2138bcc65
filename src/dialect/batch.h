/* The events that one call of a decoder gives: an array in the decoder's scratch. */
#ifndef RM_DIALECT_BATCH_H
#define RM_DIALECT_BATCH_H

#include "dialect/decode.h"

struct batch {
    struct arena *arena;
    struct event *v;
    size_t n, cap;
};

/* Room for so many at once: the batch is empty. */
void batch_reserve(struct batch *b, size_t n);
/* A new event at the end, zeroed but for its kind and an unknown usage. Valid until the next batch_add. */
struct event *batch_add(struct batch *b, enum event_kind kind);
/* The same with text that was generated: a token unless it is empty. */
struct event *batch_add_output(struct batch *b, enum event_kind kind, struct bytes text);
/* Hands the events out. A finish with no token before it is a complete empty answer and counts as one. */
void batch_close(struct batch *b, const struct decoder *d, struct decoded *out);

#endif

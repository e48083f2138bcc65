/* What a streaming client has of its answer, kept where the route resumes: enough for another draft to go on with it.
 */
#ifndef RM_FRONT_SHOWN_H
#define RM_FRONT_SHOWN_H

#include "base/arena.h"
#include "base/buf.h"
#include "dialect/encode.h"

struct shown {
    struct arena *arena; /* for what `begun` borrows */
    struct buf text;     /* generated text, all of it up to text_max */
    size_t text_max;
    struct encoder_begun begun; /* is_on once a draft left it half done */
};

void shown_init(struct shown *s, struct arena *arena, size_t text_max);
void shown_fini(struct shown *s);
/* More text went out. Past text_max nothing is kept any more: the engine goes on from no such answer. */
void shown_text(struct shown *s, struct bytes text);
/* A draft is left half done: copied. What an earlier one told at the beginning stays. */
void shown_begun(struct shown *s, const struct encoder_begun *begun);

#endif

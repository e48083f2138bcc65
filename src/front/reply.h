/* Private to the room: header lines of our own, and the heads of answers to calls. */
#ifndef RM_FRONT_REPLY_H
#define RM_FRONT_REPLY_H

#include "front/front.h"

/* Our x-ringmain-* lines, and those of the provider that go down. provider and model name the serving link, NULL =
 * none; served_lines: what front.h says of both, n 0 = not at hand. rec may be NULL (only the id is known then).
 * with_cost: the answer is whole and not a stream. fields: of the answer of a `target`, NULL = none. */
struct reply_facts {
    const char *id_text, *provider, *model;
    struct bytes served_lines;
    const struct request_record *rec;
    bool with_cost;
    const struct fields *fields;
    const struct dialect *target;
};
void reply_put_fields(struct buf *out, const struct reply_facts *f);
/* Sends the head of a streamed answer. */
void reply_head_of_stream(struct client_call *c, const struct reply_facts *f);
/* Sends a whole JSON answer and finishes the call. further: header lines. */
void reply_whole(struct client_call *c, unsigned status, const struct reply_facts *f, struct bytes further,
                 struct bytes body);

#endif

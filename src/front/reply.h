/* Private to the room: header lines of our own, and the heads of answers to calls. */
#ifndef RM_FRONT_REPLY_H
#define RM_FRONT_REPLY_H

#include "front/front.h"

/* Our x-ringmain-* lines. provider and model name the serving link, NULL = none. rec may be NULL (only the id is known
 * then). with_cost: the answer is whole and not a stream. */
struct reply_facts {
    const char *id_text, *provider, *model;
    const struct request_record *rec;
    bool with_cost;
};
void reply_put_fields(struct buf *out, const struct reply_facts *f);
/* Sends the head of a streamed answer; further: header lines of the provider's. */
void reply_head_of_stream(struct client_call *c, const struct reply_facts *f, struct bytes further);
/* Sends a whole JSON answer and finishes the call. further: header lines. */
void reply_whole(struct client_call *c, unsigned status, const struct reply_facts *f, struct bytes further,
                 struct bytes body);

#endif

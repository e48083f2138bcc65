/* What a client hears of one streamed Chat answer, by its own reading: when the first generated text came, how many
 * tokens were told, and whether it ended as it should. Fed at any boundary. Pure: the time is handed in.
 *
 * First token: the first event whose delta holds text, reasoning, a refusal or a tool call. A role, an empty delta, a
 * comment or a head is none. Well ended: a finish reason and [DONE]. */
#ifndef RM_LAB_HEARD_H
#define RM_LAB_HEARD_H

#include "base/arena.h"
#include "codec/sse.h"

struct heard {
    struct sse sse;
    struct arena scratch;
    uint64_t first_us;            /* time of the first token, in the feeder's clock; 0 = none yet */
    int64_t input, cache, output; /* tokens as told (input with its cached part); -1 = was not told */
    bool has_finish, is_done;
    bool has_error;    /* an error event */
    bool is_malformed; /* an event that is no JSON, or one that is too large */
};

void heard_init(struct heard *h);
void heard_fini(struct heard *h);
/* at_us must not be 0. */
void heard_feed(struct heard *h, struct bytes part, uint64_t at_us);
/* The answer is over; is_whole: the HTTP body ended well. NULL = a good answer, else one word for what was wrong with
 * it: "error_event", "malformed", "no_text", "truncated". Static. */
const char *heard_fault(const struct heard *h, bool is_whole);

#endif

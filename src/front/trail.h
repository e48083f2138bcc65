/* Private to the room: a trail of one attempt, the one that serves, in two parts. The first is the same for all answers
 * of a link. */
#ifndef RM_FRONT_TRAIL_H
#define RM_FRONT_TRAIL_H

#include "front/front.h"

bool trail_is_one_served(const struct request_record *rec);
void trail_put_served(struct buf *out, const char *provider, const char *model);
void trail_put_served_time(struct buf *out, const struct attempt_record *a);

#endif

/* What `ringmain check` tells of a link's price: the rates of today, those of classes of service and of long prompts,
 * and the day on which they end. */
#ifndef RM_CMD_CHECK_PRICE_H
#define RM_CMD_CHECK_PRICE_H

#include "codec/json_write.h"
#include "config/config.h"

/* "2 in, 10 out USD per million tokens until 2026-08-31; flex 1 in, 5 out", or "price unknown, the last one ended with
 * 2026-08-31". */
void check_price_text(struct buf *out, const struct link_conf *link, int64_t wall_ms);
/* The value of a member: an object, or null. */
void check_price_json(struct json_writer *w, const struct link_conf *link, int64_t wall_ms);

#endif

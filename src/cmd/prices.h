/* Prices of any target on any day, as a configuration has them: its own `prices`, its `price_file` (or another book in
 * its place), the built-in book. For commands that look at the past. */
#ifndef RM_CMD_PRICES_H
#define RM_CMD_PRICES_H

#include "config/config.h"
#include "price/price.h"

struct prices;

/* config may be NULL: only the books; it must outlive *out. `file`: a book instead of the configuration's price_file;
 * NULL = that one. message: for people. */
enum err prices_open(const struct config *config, const char *file, struct prices **out, char *message,
                     size_t message_cap) RM_MUST_USE;
void prices_close(struct prices *p);
/* As an attempt would be priced that began then, see fare_at. NULL = unknown. `provider` is a name of the
 * configuration; one that it does not know is taken for no vendor. Not for two threads at once. */
const struct price *prices_find(struct prices *p, const char *provider, const char *model, const char *service,
                                int64_t wall_ms, bool *is_standin);

#endif

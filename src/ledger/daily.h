/* What the ledger has of one provider, by day and model: the side of ours in `ringmain ledger reconcile`. */
#ifndef RM_LEDGER_DAILY_H
#define RM_LEDGER_DAILY_H

#include "ledger/reader.h"
#include "price/reconcile.h"

/* Billed attempts (keepalives too) that began on a day from first_day to last_day (since 1970-01-01, UTC; both
 * included), as rows by day and model. In the arena. */
enum err daily_read(struct ledger_reader *r, const char *provider, int64_t first_day, int64_t last_day,
                    struct arena *arena, struct day_use **out, size_t *n) RM_MUST_USE;

#endif

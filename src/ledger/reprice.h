/* History under other prices: every attempt's tokens stay, its cost is computed again with the price of its own day.
 * What an attempt was charged before is kept (table `repriced`). An attempt for which no price is known stays as it is.
 */
#ifndef RM_LEDGER_REPRICE_H
#define RM_LEDGER_REPRICE_H

#include "ledger/reader.h"

/* The price of an attempt at a target, in its class of service, at the time at which it began. *is_standin: as of
 * fare_at. NULL = unknown. */
typedef const struct price *reprice_find_fn(const struct attempt_record *a, int64_t wall_ms, bool *is_standin,
                                            void *arg);

struct reprice_ask {
    int64_t since_ms, until_ms; /* wall clock; 0 = without a bound */
    const char *provider;       /* only this one; NULL = all */
    reprice_find_fn *find;
    void *arg;
};

enum { REPRICE_GROUPS_MAX = 512 };

/* Attempts of one target that go from one price to another. Sums of known costs. */
struct reprice_group {
    const char *provider, *model;
    const char *was_version, *now_version; /* "" = without a price */
    int64_t n_attempts, n_changed;
    int64_t was_nusd, now_nusd;
    int64_t n_was_unknown; /* had no known cost */
    int64_t n_no_price;    /* stay as they are */
};
struct reprice_report {
    struct reprice_group groups[REPRICE_GROUPS_MAX]; /* the last one stands for all that found no place */
    size_t n;
    int64_t n_requests, n_attempts, n_changed;
    int64_t was_nusd, now_nusd; /* of the attempts */
};

/* What would change. Texts of the report live in the arena. */
enum err reprice_read(struct ledger_reader *r, const struct reprice_ask *ask, struct arena *arena,
                      struct reprice_report *out) RM_MUST_USE;
/* Changes it, in many small transactions, so that a gateway that writes the same file goes on. Opens the file a second
 * time, and brings it to the newest schema. *n_written: attempts. message: for people. A second run changes nothing. */
enum err reprice_write(struct ledger_reader *r, const char *path, const struct reprice_ask *ask, int64_t *n_written,
                       char *message, size_t message_cap) RM_MUST_USE;

#endif

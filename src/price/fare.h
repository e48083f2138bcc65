/* All prices of one target: for each class of service and each span of time. Which of them an attempt has is asked by
 * its class and the time at which it began, so that a price that ends while the gateway runs ends at its hour.
 *
 *     layer 0  prices of the configuration      the first layer that knows the target at that time is meant;
 *     layer 1  the book of price_file           within it the asked class goes before the standard rates,
 *     layer 2  the built-in book                and what stands first goes before what stands later
 *
 * Pure. */
#ifndef RM_PRICE_FARE_H
#define RM_PRICE_FARE_H

#include "base/arena.h"
#include "model/money.h"

enum { FARE_SPANS_MAX = 512 };

struct fare_span {
    const char *service;       /* a word of price books (service_class.h); "" = standard */
    int64_t from_ms, until_ms; /* first moment of it, first moment after it; INT64_MIN, INT64_MAX = no end */
    unsigned layer;            /* rising */
    const struct price *price;
};
struct fare { /* zero = nothing is known */
    struct fare_span *v;
    size_t n, cap;
};

/* Adds a span at the end; what it points to must outlive the fare. Beyond FARE_SPANS_MAX it is left out. */
void fare_put(struct fare *f, struct arena *a, const struct fare_span *span);
/* The price of an attempt. `service`: NULL, "" and "standard" are the standard class. *is_standin: the class has no
 * rates of its own, and these are the standard ones. NULL = unknown. f may be NULL. */
const struct price *fare_at(const struct fare *f, const char *service, int64_t wall_ms, bool *is_standin);
/* When the standard price that holds at wall_ms ends without another one after it; INT64_MAX = it does not end. With
 * none that holds: when the last one ended, INT64_MAX = there was none. */
int64_t fare_end_ms(const struct fare *f, int64_t wall_ms);

#endif

/* Money is integers. Rates: pico-dollars a token (1 USD per million tokens = 1,000,000). Sums: nano-dollars.
 * An attempt is computed in pico with 128 bits and rounded half-up once; everything above is a sum (DESIGN 3.12). */
#ifndef RM_MODEL_MONEY_H
#define RM_MODEL_MONEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUSD_UNKNOWN INT64_MIN /* unknown price: null, never 0 */

struct price {
    int64_t input, output;                  /* pico-dollars a token; -1 = unknown */
    int64_t cache_read;                     /* -1 = as input */
    int64_t cache_write_5m, cache_write_1h; /* -1 = as input */
    const char *version;                    /* names the entry: book's version or "config" */
    const char *source;
    const struct price_more *more; /* what few prices have; NULL = none of it */
};

/* Rates of requests whose prompt (all input, cached or not) is longer than `above` tokens: for all their tokens, output
 * included. -1 = as the price's own. */
struct price_tier {
    int64_t above;
    bool is_inclusive; /* a prompt of exactly `above` tokens belongs to it */
    int64_t input, output, cache_read, cache_write_5m, cache_write_1h, reasoning;
};

struct price_more {
    int64_t reasoning; /* pico-dollars a token of reasoning; -1 = as output */
    int64_t request;   /* pico-dollars a request, besides its tokens */
    const struct price_tier *tiers;
    size_t n_tiers; /* by rising `above` */
};

#endif

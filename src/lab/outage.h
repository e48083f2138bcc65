/* The timeline of an outage: requests at a steady rate while A is down for a while; by buckets of time who served, who
 * failed, and what users felt. A request belongs to the bucket in which it was due. Pure. */
#ifndef RM_LAB_OUTAGE_H
#define RM_LAB_OUTAGE_H

#include "lab/phase.h"

enum { OUTAGE_PROVIDERS_MAX = 8, OUTAGE_BREAKER_MAX = 256 };

struct outage_mark {
    uint32_t at_ms;
    char provider[SAMPLE_WORD_BYTES];
    const char *state; /* "open", "trial", "closed"; static */
};
/* The zero value: was not run. */
struct outage {
    struct phase phase; /* its samples and sums; its times count from the beginning of the timeline */
    uint32_t bucket_ms, length_ms, from_ms, to_ms;
    char providers[OUTAGE_PROVIDERS_MAX][SAMPLE_WORD_BYTES];
    size_t n_providers;
    struct outage_mark breaker[OUTAGE_BREAKER_MAX];
    size_t n_breaker;
};

struct outage_bucket {
    uint64_t served[OUTAGE_PROVIDERS_MAX], errors;
    double ttft_p50_ms, ttft_max_ms; /* NAN = nobody had a first token */
};

/* Writes down that a provider's breaker has this state now, when it is another one than before. Every breaker is closed
 * at the beginning. */
void outage_mark(struct outage *o, uint32_t at_ms, struct bytes provider, struct bytes state);
size_t outage_n_buckets(const struct outage *o);
void outage_read(const struct outage *o, size_t bucket, struct outage_bucket *out);
/* "outage.errors", "outage.ttft.p50_ms" and so on. */
void outage_figures(const struct outage *o, struct figures *f);

#endif

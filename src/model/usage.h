/* What an attempt consumed, in tokens. One convention for all providers: `input` is uncached input, each input token
 * is counted in exactly one of input, cache_read, cache_write_*; `output` includes reasoning. -1 = not reported. */
#ifndef RM_MODEL_USAGE_H
#define RM_MODEL_USAGE_H

#include <stdbool.h>
#include <stdint.h>

struct usage {
    int64_t input;
    int64_t cache_read;
    int64_t cache_write_5m;
    int64_t cache_write_1h;
    int64_t output;
    int64_t reasoning; /* part of output */
};
#define USAGE_NONE ((struct usage){-1, -1, -1, -1, -1, -1})

/* Reports are cumulative: every member that `later` reports replaces the one in *u. */
static inline void usage_merge(struct usage *u, const struct usage *later)
{
    if (later->input >= 0)
        u->input = later->input;
    if (later->cache_read >= 0)
        u->cache_read = later->cache_read;
    if (later->cache_write_5m >= 0)
        u->cache_write_5m = later->cache_write_5m;
    if (later->cache_write_1h >= 0)
        u->cache_write_1h = later->cache_write_1h;
    if (later->output >= 0)
        u->output = later->output;
    if (later->reasoning >= 0)
        u->reasoning = later->reasoning;
}
static inline bool usage_is_known(const struct usage *u)
{
    return u->input >= 0 || u->output >= 0;
}
/* All input tokens, cached or not; unreported parts count 0. A provider can report anything: the sum saturates. */
static inline int64_t usage_prompt(const struct usage *u)
{
    const int64_t parts[] = {u->input, u->cache_read, u->cache_write_5m, u->cache_write_1h};
    int64_t n = 0;
    for (int i = 0; i < 4; i++)
        if (parts[i] > 0 && __builtin_add_overflow(n, parts[i], &n))
            n = INT64_MAX;
    return n;
}

#endif

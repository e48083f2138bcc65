/* How a pretend provider behaves: what the command line and the file (mock_yaml.h) fill in. */
#ifndef RM_LAB_MOCK_CONF_H
#define RM_LAB_MOCK_CONF_H

#include "base/arena.h"
#include "lab/mock_chance.h"
#include "lab/mock_rule.h"
#include "lab/shape.h"

enum mock_prefill {
    PREFILL_IGNORE,   /* a last message of the assistant's changes nothing */
    PREFILL_CONTINUE, /* one that is the beginning of this provider's text is continued after it */
    PREFILL_REJECT    /* 400 */
};

struct mock_cache_conf {
    uint64_t ttl_ms; /* of a prefix from its last use; 0 = no cache. With the one-hour marker twelve times as long */
    uint64_t min_tokens; /* shorter prefixes are not kept */
};
struct mock_cold_conf {
    uint64_t after_ms; /* without a request; 0 = never cold */
    uint64_t connect_ms, first_token_ms;
};
struct mock_rate_conf {
    uint64_t per_s_milli; /* requests a second, in thousandths; 0 = no limit */
    uint64_t burst;       /* at once, at least 1 */
    int64_t retry_after_ms;
};

struct mock_conf {
    const char *name;   /* in the log and in messages; "" = none */
    const char *listen; /* "127.0.0.1:9101"; port 0 = any */
    enum shape_dialect dialect;
    const char *const *models; /* the others are answered 404 */
    size_t n_models;           /* 0 = any model */
    const char *model;         /* told in answers; "" = as asked */
    const char *key;           /* "" = any is taken */
    const char *words;
    struct spread ttft_ms, tokens;
    uint64_t gap_us; /* between tokens */
    bool no_usage;
    struct mock_cache_conf cache;
    struct mock_cold_conf cold;
    struct mock_rate_conf rate;
    const char *tls_cert, *tls_key; /* PEM files; NULL = plain */
    enum mock_prefill prefill;
    struct rule rules[RULES_MAX];
    size_t n_rules;
    uint64_t seed;
    unsigned fb_speed; /* of the models of fb.h; at least 1 */
};

/* Tokens 16, 40 ms to the first, 10 ms between them, a text of our own, no fault. */
void mock_conf_init(struct mock_conf *c);
/* A copy whose texts live in the arena. */
void mock_conf_copy(const struct mock_conf *from, struct arena *arena, struct mock_conf *to);
/* The words of a list with commas, or with `separator`, become the rows: each for one request, the last for good. */
bool mock_conf_faults(struct mock_conf *c, const char *list, char separator);

#endif

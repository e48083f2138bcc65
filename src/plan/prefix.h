/* Prompts that come again: a bounded table of the prefixes one core has seen, when they came, and which targets hold
 * them in their cache. Written by its own core only. Pure: `now_us` is a parameter.
 *
 *     bucket = hash of the key     [entry|entry|entry|entry]     full: the one longest unseen makes room */
#ifndef RM_PLAN_PREFIX_H
#define RM_PLAN_PREFIX_H

#include "base/buf.h"
#include "plan/registry.h"

enum { PREFIX_BUCKETS = 1024, PREFIX_WAYS = 4, PREFIX_WARM = 2 };

/* A target that holds it. */
struct warmth {
    uint16_t target_id;
    uint32_t n_tokens; /* that a hit reads */
    uint64_t until_us; /* 0 = none */
};

struct prefix {
    uint64_t key;                    /* 0 = the place is free */
    uint64_t last_us;                /* its last arrival */
    double gap_us;                   /* between two arrivals, weighted to the recent ones; 0 = never came twice */
    uint32_t n;                      /* arrivals in a row, none later than the cache's time after the one before */
    uint32_t n_output;               /* tokens of the last answer; 0 = unknown */
    struct warmth warm[PREFIX_WARM]; /* the one that ends first makes room */
};

struct prefixes;

/* 300 KB or so. */
struct prefixes *prefixes_new(void);
void prefixes_free(struct prefixes *p);

/* None ever came. */
bool prefixes_is_empty(const struct prefixes *p);

/* It arrived; a prompt's cache would live for ttl_us. `key` 0 is no prefix: nothing happens. */
void prefixes_see(struct prefixes *p, uint64_t key, uint64_t ttl_us, uint64_t now_us);
/* NULL when it is not in the table. Valid until the next prefixes_see. */
struct prefix *prefixes_find(const struct prefixes *p, uint64_t key);

/* What is expected of a prefix that has just arrived: it comes again with chance `again`, and so on from there, each
 * time gap_us later. For one that came once, by what the others did. */
struct rhythm {
    double gap_us, again;
};
struct rhythm prefixes_rhythm(const struct prefixes *p, const struct prefix *x);

/* A target's cache holds it / holds it no more (n_tokens 0). */
void prefix_warm(struct prefix *x, uint16_t target_id, uint32_t n_tokens, uint64_t until_us);
/* Tokens of it that a target's cache holds now; 0 = none. x may be NULL. */
uint32_t prefix_warmth(const struct prefix *x, uint16_t target_id, uint64_t now_us);

/* What is worth keeping over a restart: the prefixes that came within PREFIX_KEEP_S, a line each, and a line for each
 * target that still holds one:
 *
 *     prefix KEY AGO_US GAP_US TIMES OUTPUT
 *     warm KEY TOKENS LEFT_US provider host model     behind the prefix
 *
 * KEY is hexadecimal. */
enum { PREFIX_KEEP_S = 3600 };
void prefixes_write(const struct prefixes *p, const struct registry *r, uint64_t now_us, struct buf *out);
/* Reads such a line that was written away_us ago. Of a prefix that is known already (another core's line) the later
 * arrival counts, the rhythm of the one that came more often, and the targets of both. Targets are interned.
 * ERR_SYNTAX: not ours, nothing was taken over; ERR_LIMIT: more targets than fit. */
enum err prefixes_read_line(struct prefixes *p, struct registry *r, struct bytes line, uint64_t away_us,
                            uint64_t now_us) RM_MUST_USE;

#endif

/* How long targets stay away: when an outage began, how long past ones were, and how likely this one is to last. One
 * core's own view, written on failures only. Pure: `now_us` is a parameter. */
#ifndef RM_PLAN_OUTAGE_H
#define RM_PLAN_OUTAGE_H

#include <stdint.h>

/* 64 targets, the one longest without news makes room; 16 past outages each. About 10 KB. */
enum { OUTAGE_TARGETS = 64, OUTAGE_PAST = 16 };

struct outage {
    uint16_t target_id;
    uint8_t n_past;     /* entries of past_ms; the oldest makes room */
    uint64_t news_us;   /* the last failure or the end; 0 = the place is free */
    uint64_t since_us;  /* its first failure; 0 = none yet */
    uint64_t failed_us; /* its last one that is known of */
    uint64_t until_us;  /* its health has closed it until then, when last seen; 0 = not seen */
    uint64_t closed_us; /* it answered again; 0 = the outage is on */
    uint32_t past_ms[OUTAGE_PAST];
};

struct outages {
    struct outage v[OUTAGE_TARGETS];
    uint32_t n;
};

/* Empty is the zero value. */

/* The target failed. */
void outages_bad(struct outages *o, uint16_t target_id, uint64_t now_us);
/* The target was passed over because its health has closed it until `until_us` (0 = not known until when). */
void outages_shut(struct outages *o, uint16_t target_id, uint64_t now_us, uint64_t until_us);
/* The target gave a token. */
void outages_good(struct outages *o, uint16_t target_id, uint64_t now_us);
/* An outage of that length ended some time ago: for what was learned elsewhere. */
void outages_remember(struct outages *o, uint16_t target_id, uint64_t length_us, uint64_t now_us);
/* NULL when the target never failed here. Valid until the next outages_bad. */
const struct outage *outages_find(const struct outages *o, uint16_t target_id);

/* Where an outage stands. All 0 = none, and nothing is known of the target's past. */
struct outage_span {
    const struct outage *outage; /* NULL = the target never failed here */
    uint64_t age_us;             /* it began so long ago; 0 = it is not on */
    uint64_t known_us;           /* so long it lasted for certain: until the last failure that is known of */
    uint64_t sure_us;            /* so long from now it lasts for certain, for the target is not asked before */
};
/* until_us: the target is not asked before; 0 = it may be asked now. */
struct outage_span outage_span(const struct outage *o, uint64_t now_us, uint64_t until_us);
/* The chance that the target is still away `more_us` from now, from 0 to 1. */
double outage_lasts(const struct outage_span *s, uint64_t more_us);
/* The chance that an outage which has lasted `from_us` lasts `to_us` or longer, from 0 to 1; 1 where to <= from. `o`
 * NULL = nothing is known of the target's past. */
double outage_survival(const struct outage *o, uint64_t from_us, uint64_t to_us);

#endif

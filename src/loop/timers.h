/* The armed timers of one loop: a binary heap over (time, order of arming), so that timers of equal time fire in the
 * order in which they were armed, on every machine. A timer knows its place, hence arming, re-arming and cancelling
 * are O(log n). Private to this room. */
#ifndef RM_LOOP_TIMERS_H
#define RM_LOOP_TIMERS_H

#include "loop/loop.h"

struct timers_entry {
    uint64_t key_us;
    struct timer *timer;
};
/* The zero value is empty. */
struct timers {
    struct timers_entry *v;
    uint32_t n, cap;
    uint32_t next_order; /* wraps: of two timers with one time, one was armed within 2^31 of the other */
};

/* Puts t in, or moves it. key_us is when it fires. */
void timers_put(struct timers *ts, struct timer *t, uint64_t key_us);
/* Harmless when t is not in. */
void timers_remove(struct timers *ts, struct timer *t);
/* Takes out the first timer with key_us <= now_us, or NULL. */
struct timer *timers_take_due(struct timers *ts, uint64_t now_us);
/* When the first one fires; UINT64_MAX = none. */
uint64_t timers_next_us(const struct timers *ts);
/* Releases the heap's memory; no timer may be in. */
void timers_fini(struct timers *ts);

#endif

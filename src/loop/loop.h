/* One core's turn. Edge-triggered epoll: a descriptor is registered once for both directions; its owner reads until a
 * short read and writes until a short write.
 *
 *   turn:  wait -> clock -> due timers -> reading ahead -> ready descriptors -> next-queue (until empty) -> reap
 *
 * Only the loop's own thread may call anything here but loop_mail and loop_stop. Clock calls stand in this room alone.
 * The same header has a second implementation (loop_sim.c) for tests: virtual clock, no descriptors; chosen at link
 * time. */
#ifndef RM_LOOP_LOOP_H
#define RM_LOOP_LOOP_H

#include "base/err.h"
#include "base/list.h"

#include <stdatomic.h>
#include <stdint.h>

struct loop;

/* A timer; embedded in its owner, zeroed. fn runs from the loop, never from inside timer_arm. */
struct timer {
    void (*fn)(struct timer *t);
    uint64_t at_us; /* 0 = not armed */
    uint32_t index; /* place in the loop's heap + 1; the loop's own */
    uint32_t order; /* of arming; the loop's own */
};
/* A descriptor's owner. `ready` has LOOP_READ and/or LOOP_WRITE; errors and hang-ups set both. LOOP_HANGUP comes
 * besides when the peer has finished sending or the connection is broken: a read then ends in EOF or an error without
 * another edge.
 * Where several descriptors are ready at once, those that read ahead are asked to before any of their handlers runs, so
 * that the kernel's code for reading runs for all of them, and then ours. LOOP_ASK comes alone: the owner may read, and
 * do nothing else. If nothing is left to read he sets has_read, and when his turn comes he is told LOOP_AHEAD in place
 * of LOOP_READ. */
enum { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_HANGUP = 4, LOOP_ASK = 8, LOOP_AHEAD = 16 };
struct watch {
    void (*fn)(struct watch *w, unsigned ready);
    int fd;           /* -1 = not registered */
    bool is_level;    /* level-triggered and read-only: listeners */
    bool reads_ahead; /* is asked to, unless it has hung up */
    bool has_read;
};
/* Something to do later in this turn, or in the next, at most once. */
struct task {
    void (*fn)(struct task *t);
    struct list node; /* list_init before first use */
};
/* Memory that goes back at the end of the turn. */
struct reap {
    void (*fn)(struct reap *r);
    struct reap *next;
};
/* A message from another thread. It owns its memory; fn runs on the receiving loop and releases it. */
struct mail {
    void (*fn)(struct mail *m);
    struct mail *_Atomic next;
};

/* NULL = the system grants no descriptor for it; errno says why. */
struct loop *loop_new(void);
/* No timer may be armed and no descriptor registered. */
void loop_free(struct loop *l);
/* Runs turns until loop_stop. */
void loop_run(struct loop *l);
/* One turn; waits at most max_wait_us (0 = poll). For tests and tools. */
void loop_turn(struct loop *l, uint64_t max_wait_us);
/* Any thread, also a signal thread. */
void loop_stop(struct loop *l);

/* Monotonic microseconds, read once a turn; never 0. */
uint64_t loop_now_us(const struct loop *l);
/* Wall clock in ms, read afresh: stamps rows only. */
int64_t loop_wall_ms(const struct loop *l);
/* The same for this turn: read when it is first asked for. Only from a handler. */
int64_t loop_turn_wall_ms(struct loop *l);
/* Monotonic microseconds read now (for "time spent in our own process"). */
uint64_t loop_clock_us(void);
/* For the same, with fewer readings: when the running handler began, as near as the loop knows without reading; then,
 * once, when it ended (read now). Only from a handler. */
uint64_t loop_began_us(struct loop *l);
uint64_t loop_ended_us(struct loop *l);

/* Arms or re-arms. A time that has passed fires in the next turn. O(log n). */
void timer_arm(struct loop *l, struct timer *t, uint64_t at_us);
/* Harmless when not armed. */
void timer_cancel(struct loop *l, struct timer *t);
static inline bool timer_is_armed(const struct timer *t)
{
    return t->index != 0;
}

/* ERR_IO when the kernel refuses. The fd stays the owner's. */
enum err watch_add(struct loop *l, struct watch *w) RM_MUST_USE;
/* Unregisters (before the owner closes fd) and drops events of this turn that are still to be dispatched. */
void watch_del(struct loop *l, struct watch *w);

/* Queues; a task that is queued already stays where it is. */
void loop_post(struct loop *l, struct task *t);
/* For the next turn, which then comes at once; a task that is queued already stays where it is. For work that must let
 * the others have their turn. */
void loop_defer(struct loop *l, struct task *t);
void task_cancel(struct task *t);
/* Once per object. */
void loop_reap(struct loop *l, struct reap *r);
/* Any thread; wakes the loop. */
void loop_mail(struct loop *l, struct mail *m);

#endif

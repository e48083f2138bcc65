/* What a turn of the loop consists of, without waiting and without descriptors: shared by the real loop and the
 * simulated one. Both embed it as their first member and hand it out as struct loop's front. Private to this room. */
#ifndef RM_LOOP_TURN_H
#define RM_LOOP_TURN_H

#include "loop/loop.h"
#include "loop/timers.h"

struct turn {
    uint64_t now_us;
    uint64_t began_us; /* when the running handler began; 0 = not known */
    uint64_t ended_us; /* when the one before it ended: nothing has run since; 0 = not known */
    uint64_t wall_us;  /* the turn, by its clock, that wall_ms is of; 0 = none */
    int64_t wall_ms;
    bool fires_timers; /* the due timers are being called */
    struct timers timers;
    struct list tasks;
    struct list deferred; /* tasks of the next turn */
    struct reap *reap_first, **reap_end;
    struct mail *_Atomic letters; /* newest first */
};

void turn_init(struct turn *t, uint64_t now_us);
/* Delivers waiting mail, runs waiting tasks, reaps; then no timer may be armed. */
void turn_fini(struct turn *t);
/* Calls the timers that are due at now_us; those armed meanwhile wait for the next turn. */
void turn_fire(struct turn *t);
/* Calls the mail that has come so far, oldest first. */
void turn_deliver(struct turn *t);
/* Tasks until there is none, then the reaper; then what was deferred are the next turn's tasks. */
void turn_finish(struct turn *t);
/* Something is to be done without waiting. */
static inline bool turn_is_pressing(const struct turn *t)
{
    return !list_is_empty(&t->tasks) || t->reap_first != NULL || !list_is_empty(&t->deferred);
}
/* Queues; true when the mailbox was empty, so that the receiver has to be woken. Any thread. */
bool turn_mail(struct turn *t, struct mail *m);

#endif

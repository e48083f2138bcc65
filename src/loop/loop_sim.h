/* The simulated loop's own handles: what a test may do that a program may not. loop.h is implemented whole, on a
 * virtual clock: a turn never waits, it moves the clock to the next timer. There are no descriptors: watch_add is
 * ERR_UNSUPPORTED. loop_run ends when nothing is left to do. */
#ifndef RM_LOOP_LOOP_SIM_H
#define RM_LOOP_LOOP_SIM_H

#include "loop/loop.h"

/* The clock of a new loop, in microseconds; its wall clock is LOOP_SIM_WALL_MS then. */
#define LOOP_SIM_START_US UINT64_C(1000000)
#define LOOP_SIM_WALL_MS INT64_C(1800000000000)

/* When the next timer fires; 0 = none is armed. */
uint64_t loop_sim_next_us(const struct loop *l);
/* Neither a timer, nor a task, nor mail: only the outside can make something happen. */
bool loop_sim_is_idle(struct loop *l);
/* Turns until the clock stands at `at_us` and all that is due by then has been done. At most turns_max turns; false
 * when they did not suffice (something keeps itself busy). */
bool loop_sim_run_to(struct loop *l, uint64_t at_us, uint64_t turns_max);
/* Moves the wall clock against the monotonic one: an operator set the time. */
void loop_sim_shift_wall(struct loop *l, int64_t by_ms);

#endif

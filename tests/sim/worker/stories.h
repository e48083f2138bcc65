/* The scripted stories, and the seeded ones. */
#ifndef RM_TESTS_STORIES_H
#define RM_TESTS_STORIES_H

#include <stdbool.h>
#include <stdint.h>

/* Tells the stories whose name has `part` in it; returns how many faults they had. */
unsigned stories_run(const char *part, unsigned *n_told);
/* One seeded story; false = a law was broken (it was printed). is_loud: it also tells what happened. */
bool chance_run(uint64_t seed, bool is_loud);

#endif

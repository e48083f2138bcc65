/* Rounds that were measured earlier, kept in a file: a benchmark spread over days is one result. What is kept is every
 * request's times and not percentiles, which cannot be merged. Pure. */
#ifndef RM_LAB_ROUNDS_H
#define RM_LAB_ROUNDS_H

#include "lab/result.h"

/* "ringmain-bench-rounds/1": n_rounds rounds of the phases' samples, with the settings they were measured under. */
void rounds_json(const struct result *r, unsigned n_rounds, struct buf *out);
/* Puts the samples of an earlier file into r->phases; *n_rounds: how many rounds it had. The settings in r must be
 * those of the file: rounds under other settings are no more of the same. False: *why (for people, static) and r is as
 * it was. */
bool rounds_read(struct bytes json, struct result *r, unsigned *n_rounds, const char **why);

#endif

/* ${NAME} in values, from the environment that was handed in. Done on the finished tree and once only: what a variable
 * holds is a value and is never read as YAML, nor searched for a further ${…}. */
#ifndef RM_CONFIG_SUBSTITUTE_H
#define RM_CONFIG_SUBSTITUTE_H

#include "config/fault.h"

/* Sets `text` of every scalar below n. Tells variables that are not set, and ${ without an end. */
void substitute(struct node *n, const struct config_known *known, struct arena *a, struct fault_log *log);

#endif

/* The orders that a pretend provider takes while it runs, as JSON. Pure. */
#ifndef RM_LAB_MOCK_ORDER_H
#define RM_LAB_MOCK_ORDER_H

#include "base/arena.h"
#include "lab/mock_rule.h"

struct mock_order {
    struct bytes provider;    /* by name; p NULL = not told */
    int64_t port;             /* by port; -1 = not told */
    struct rule v[RULES_MAX]; /* the rows that hold from now on */
    size_t n;
};

/* {"fault":"429","times":1,"retry_after":2,…}: `fault` may be a number or words with commas, and the other members then
 * count for the last one. {"faults":[{…},{…}]}: rows, each with members of its own. {"provider":9102} or
 * {"provider":"A"}: who is meant. Without wants_faults only that is read, and the body may be empty. NULL or why not.
 */
const char *mock_order_read(struct bytes body, bool wants_faults, struct arena *arena, struct mock_order *out);

#endif

/* How many descriptors a configuration needs, how many the system grants, and what follows: how many client connections
 * can be served at once, or that a start makes no sense. */
#ifndef RM_SERVE_DESCRIPTORS_H
#define RM_SERVE_DESCRIPTORS_H

#include "config/config.h"

struct descriptors {
    uint64_t limit;       /* what this process may have open */
    uint64_t least;       /* below this there is no start: what the gateway itself uses, and eight clients */
    uint64_t needed;      /* for limits.connections, each with a connection to a provider */
    uint64_t connections; /* client connections that the limit carries: at most limits.connections, 0 = no start */
};

/* Raises the process's limit to the hard one. Returns what is in force then. */
uint64_t descriptors_raise(void);
/* Descriptors that are open now (those that were inherited). Looks at the first 1,024 numbers only. */
uint64_t descriptors_open(void);
/* n_open: what is open already and stays so. */
struct descriptors descriptors_of(const struct config *c, uint64_t limit, uint64_t n_open);
static inline bool descriptors_can_start(const struct descriptors *d)
{
    return d->limit >= d->least;
}
/* limits.connections cannot be had. */
static inline bool descriptors_are_short(const struct descriptors *d)
{
    return d->limit < d->needed;
}
/* One line that tells the shortage with its numbers and what follows. Only for one that is short. */
void descriptors_tell(const struct descriptors *d, const struct config *c, char *message, size_t cap);

#endif

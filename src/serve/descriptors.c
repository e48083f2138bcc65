/* Where the descriptors go:
 *
 *     open at start | own: loops, listeners, ledger, log, names | over: told "too many" | clients | providers
 *
 * A client's request needs a connection to a provider besides its own, so clients get half of what is left. Without
 * that bound a shortage would be met in the middle of requests, as failures of providers who did nothing wrong. */
#include "serve/descriptors.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>

enum {
    OWN_OF_WORKER = 5,    /* loop, wake-up, listener, two sockets for names */
    OWN = 24,             /* ledger and its journal, logs, admin listener and who asks it, files read at a reload */
    CLIENTS_LEAST = 8,    /* fewer are no service */
    OVER_PER_WORKER = 64, /* connections beyond the limit that are told so (http/server.c) */
    LOOKED_AT = 1024
};

uint64_t descriptors_raise(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return UINT64_MAX; /* not known: let the system refuse */
    rlim_t was = r.rlim_cur;
    r.rlim_cur = r.rlim_max;
    if (was < r.rlim_max && setrlimit(RLIMIT_NOFILE, &r) != 0)
        return was;
    return r.rlim_max;
}

uint64_t descriptors_open(void)
{
    uint64_t n = 0;
    for (int fd = 0; fd < LOOKED_AT; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

struct descriptors descriptors_of(const struct config *c, uint64_t limit, uint64_t n_open)
{
    uint64_t workers = c->workers > 0 ? c->workers : 1;
    uint64_t base = n_open + OWN + workers * OWN_OF_WORKER;
    uint64_t over = workers * OVER_PER_WORKER;
    uint64_t wanted = c->limits.connections;
    struct descriptors d = {
        .limit = limit, .least = base + 2 * CLIENTS_LEAST, .needed = base + over + 2 * wanted, .connections = wanted};
    if (limit >= d.needed)
        return d;
    if (limit < d.least) {
        d.connections = 0;
        return d;
    }
    uint64_t left = limit - base;
    uint64_t fits = (left - (over < left / 4 ? over : left / 4)) / 2;
    d.connections = fits < wanted ? fits : wanted;
    return d;
}

void descriptors_tell(const struct descriptors *d, const struct config *c, char *message, size_t cap)
{
    unsigned long long limit = d->limit, least = d->least, needed = d->needed, fits = d->connections;
    if (descriptors_can_start(d))
        snprintf(message, cap,
                 "the hard limit of open files (ulimit -Hn) is %llu: enough for %llu client connections at once; "
                 "limits.connections = %llu would need %llu",
                 limit, fits, (unsigned long long)c->limits.connections, needed);
    else
        snprintf(message, cap,
                 "too few descriptors: the hard limit of open files (ulimit -Hn) is %llu, a start needs %llu, and "
                 "limits.connections = %llu would need %llu",
                 limit, least, (unsigned long long)c->limits.connections, needed);
}

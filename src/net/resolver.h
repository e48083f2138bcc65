/* Names to addresses on one loop, without blocking it. c-ares on the loop, or getaddrinfo on a helper thread
 * (`resolver: system`). Answers are kept until their TTL (at least 1 s, at most 300 s; system: 30 s) and refreshed
 * before it ends; the last good answer is kept when a refresh fails. */
#ifndef RM_NET_RESOLVER_H
#define RM_NET_RESOLVER_H

#include "loop/loop.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum { RESOLVER_ADDRESSES_MAX = 16 };
struct address {
    struct sockaddr_storage sa; /* port 0 */
    socklen_t len;
};
struct addresses {
    struct address v[RESOLVER_ADDRESSES_MAX];
    int n;
};

struct resolver;
struct resolve; /* a question under way */
enum resolver_kind { RESOLVER_CARES, RESOLVER_SYSTEM };

struct resolver *resolver_new(struct loop *l, enum resolver_kind kind);
void resolver_free(struct resolver *r);
/* Called once from the loop (never from inside resolver_ask); a == NULL: not resolved, message says why. */
typedef void resolve_fn(const struct addresses *a, const char *message, void *arg);
struct resolve *resolver_ask(struct resolver *r, const char *host, resolve_fn *fn, void *arg);
void resolve_cancel(struct resolve *q);

#endif

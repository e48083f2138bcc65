/* Between the cache of names (resolver.c) and the two sources of answers. Private to this room. */
#ifndef RM_NET_RESOLVER_IMPL_H
#define RM_NET_RESOLVER_IMPL_H

#include "base/err.h"
#include "net/resolver.h"

enum { RESOLVER_HOST_BYTES = 256 };

struct resolver_entry; /* a name in the cache */

/* A source is embedded in its own struct. At most one question per entry is under way. */
struct name_source {
    /* Asks for e's host; resolver_answered follows, maybe from inside. */
    void (*ask)(struct name_source *s, struct resolver_entry *e, const char *host);
    /* Nothing is answered any more. */
    void (*free)(struct name_source *s);
};

struct name_source *resolver_cares_new(struct loop *l);
struct name_source *resolver_system_new(struct loop *l);

/* a NULL (or empty) = failed, message says why. ttl_s is clamped here. From the loop's thread. */
void resolver_answered(struct resolver_entry *e, const struct addresses *a, int64_t ttl_s, const char *message);

/* Replaces the servers of /etc/resolv.conf by "127.0.0.1:5300[,…]". For tests; c-ares only. */
enum err resolver_set_servers(struct resolver *r, const char *csv) RM_MUST_USE;
enum err resolver_cares_set_servers(struct name_source *s, const char *csv) RM_MUST_USE;

#endif

/* Warm connections to providers, of one core. Private to this room. */
#ifndef RM_UPSTREAM_POOL_H
#define RM_UPSTREAM_POOL_H

#include "base/list.h"
#include "config/config.h"
#include "http/client.h"
#include "net/dial.h"

struct endpoint; /* where connections of one provider go: provider, scheme, host, port, CA file */
struct pooled;   /* one connection and the endpoint it belongs to */

struct pool {
    struct loop *loop;
    struct resolver *resolver;
    struct readbufs *reads;
    struct list endpoints;
    struct list draining; /* answered, but the message's end has not been read yet */
    /* The provider that was asked for last (of a snapshot; until the next pool_prune, which comes with each new one),
     * and its endpoint. */
    const struct provider_conf *last;
    struct endpoint *last_endpoint;
    size_t n_idle;
};

void pool_init(struct pool *p, struct loop *l, struct resolver *r);
/* Closes what is idle, draining or being warmed. Connections that were taken must be back. */
void pool_fini(struct pool *p);

/* The idle connection that was used last and still looks alive, or NULL. The caller owns it. */
struct pooled *pool_take(struct pool *p, const struct provider_conf *provider);
/* Makes a fresh stream (owned from here on) a connection of the caller's. */
struct pooled *pool_adopt(struct pool *p, const struct provider_conf *provider, struct stream *s);
/* For exchanges, until it is put back or closed. */
struct client_conn *pooled_conn(struct pooled *c);
/* What is kept of the answers that come from there; as long as the connection is the caller's. */
struct answer_form **pooled_form(struct pooled *c);
/* The caller is done with its answer: idle if the HTTP message has ended too; else its end gets a short grace and is
 * read away; else closed. The request must have been sent whole. */
void pooled_put(struct pooled *c);
/* At once; with a reset while an exchange runs. */
void pooled_close(struct pooled *c);

/* Makes one idle connection when there is none, one try at a time. */
void pool_warm(struct pool *p, const struct provider_conf *provider);
/* Drops idle connections of endpoints that `now` does not have; all of them when now is NULL. */
void pool_prune(struct pool *p, const struct config *now);

#endif

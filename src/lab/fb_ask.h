/* One HTTP exchange of the failover bench on a loop that has others beside it: a connection of its own, a time limit
 * for the whole, parts as they come. */
#ifndef RM_LAB_FB_ASK_H
#define RM_LAB_FB_ASK_H

#include "base/buf.h"
#include "http/client.h"
#include "loop/loop.h"
#include "net/dial.h"

/* Where to. Strings are borrowed and outlive the asks. */
struct fb_target {
    const char *host;
    uint16_t port;
    struct tls_context *tls; /* NULL = plain */
    const char *prefix;      /* put before the path: "/v1", or "" */
    const char *key;         /* sent as a bearer token; "" = none */
};

struct fb_ask;
struct fb_ask_handlers {
    /* Each may be NULL. at_us: since the start, not 0. */
    void (*on_head)(struct fb_ask *a, unsigned status, struct bytes content_type);
    /* false = that is enough: on_end comes with a good end. */
    bool (*on_body)(struct fb_ask *a, struct bytes part, uint64_t at_us);
    /* Once, from the loop; the ask may be started again from inside. why: NULL = the body ended well, else what broke;
     * is_timeout: the limit was reached. */
    void (*on_end)(struct fb_ask *a, const char *why, bool is_timeout);
};

/* Embedded in its owner, zeroed. */
struct fb_ask {
    const struct fb_ask_handlers *handlers;
    struct loop *loop;
    struct resolver *resolver;
    struct dial *dial;
    struct client_conn *conn;
    struct timer timer;
    struct task ended;
    struct buf head;
    struct bytes body;
    struct client_request request; /* of both */
    uint64_t start_us;
    char why[160];
    bool is_running, is_broken, is_timeout;
};

void fb_ask_init(struct fb_ask *a, struct loop *l, struct resolver *r, const struct fb_ask_handlers *h);
/* Not running. body is borrowed until on_end; n 0 = none. */
void fb_ask_start(struct fb_ask *a, const struct fb_target *to, const char *method, const char *path, struct bytes body,
                  uint64_t timeout_us);
/* From now on it waits only so long. Running. */
void fb_ask_shorten(struct fb_ask *a, uint64_t timeout_us);
/* on_end will not come. Releases everything; harmless at any time after init. */
void fb_ask_fini(struct fb_ask *a);

#endif

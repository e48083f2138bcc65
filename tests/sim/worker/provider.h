/* Scripted providers at the other end of the gateway's connections, in memory. A script is words, separated by blanks;
 * the n-th request gets the n-th script, the last one is said again and again:
 *
 *     +20ms +5us +1s      let time pass
 *     head role token finish usage done end      an event stream, piece by piece (end: the last chunk)
 *     big:N               a token of N bytes             flood:N:M    N of them, M bytes each
 *     closing             the same head, and the connection ends with this answer
 *     comment  error  bad                    a comment, an error event, an event that is not JSON
 *     json                a whole answer with a length   html         one that is no answer
 *     status:N            an error answer                refusing:N   its head, and the body withheld
 *     fin  rst            the end of the connection
 *     deaf  listen        stop reading, and go on
 *
 * A token carries ~name.request.number~, so that it can be told which answer it was part of; a deterministic provider's
 * carries ~s.1.number~, the same whoever says it. */
#ifndef RM_TESTS_PROVIDER_H
#define RM_TESTS_PROVIDER_H

#include "base/buf.h"
#include "base/list.h"
#include "base/rng.h"
#include "net/resolver.h"
#include "net/stream.h"

enum connecting { CONNECTING_WORKS, CONNECTING_REFUSED, CONNECTING_UNKNOWN /* name */, CONNECTING_SILENT };
enum { SCRIPTS_MAX = 8, PEERS_MAX = 512, ANSWERS_MAX = 512 };

struct provider {
    const char *name; /* its host is name.test */
    bool is_anthropic;
    enum connecting connecting;
    uint64_t connect_us;
    size_t pipe_bytes;
    bool is_deterministic;
    bool is_hasty; /* it answers as soon as it has a request's head */
    const char *scripts[SCRIPTS_MAX];
    size_t n_scripts;
    struct rng *pieces; /* what it says comes in pieces of random size and distance; NULL = at once */
    /* what happened */
    struct peer *peers[PEERS_MAX]; /* by order of connecting; they stay after their end */
    size_t n_peers, n_dials, n_dials_cancelled, n_requests;
    unsigned n_said[ANSWERS_MAX]; /* tokens, by request (from 1) */
    bool is_confused;             /* a request came before the last answer was over, or was not HTTP */
};

/* One connection, seen from the provider. */
struct peer {
    struct provider *provider;
    struct loop *loop;
    struct stream *stream; /* NULL once closed */
    struct timer timer;    /* next word */
    struct timer piece_timer;
    struct buf in, out; /* out: from out_at on */
    size_t out_at;
    const char *script; /* what is still to be said; "" = listening */
    unsigned request;   /* which of the provider's requests it answers */
    unsigned n_tokens;
    size_t n_requests, n_written;
    struct buf last_request;
    size_t n_due; /* bytes of the request that is being answered already */
    bool is_deaf;
    bool ends;                  /* FIN once all is written */
    bool was_closed, was_reset; /* by the gateway */
    uint64_t closed_at_us;
};

struct net_sim {
    struct provider *providers;
    size_t n_providers;
};

/* The resolver is what a dial is handed, so it is the way to the network of one world. */
void net_sim_attach(struct resolver *r, struct net_sim *net);
struct peer *peer_new(struct provider *p, struct loop *l, struct stream *s);
/* Goes on in its script from here on, where a story decides the moment. */
void peer_say(struct peer *p, const char *script);
bool peer_is_open(const struct peer *p);
/* Closes what is still open; nothing of it may be dispatched afterwards. */
void provider_fini(struct provider *p);

#endif

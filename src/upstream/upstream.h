/* Provider side of one core: pools of warm connections, and exchanges: one attempt's request out, its answer in as
 * model events. It decides nothing: which provider, when to stop and what a failure means is told from above.
 *
 * Pull interface: `ready` says that exchange_next may have something. Nothing comes up from inside a call of the
 * owner's. */
#ifndef RM_UPSTREAM_UPSTREAM_H
#define RM_UPSTREAM_UPSTREAM_H

#include "base/fields.h"
#include "codec/json_splice.h"
#include "config/config.h"
#include "dialect/decode.h"
#include "dialect/dialect.h"
#include "model/output.h"
#include "net/dial.h"

struct upstream;
struct exchange;
typedef void exchange_ready_fn(struct exchange *x, void *arg);

struct upstream *upstream_new(struct loop *l, struct resolver *r);
/* Closes idle connections; all exchanges must be closed. */
void upstream_free(struct upstream *u);

struct exchange_spec {
    const struct provider_conf *provider; /* outlives the exchange (the request holds its snapshot) */
    const struct dialect *target;         /* the provider's */
    const struct dialect *client;         /* NULL for keepalives */
    const struct fields *client_fields;   /* NULL for keepalives */
    struct pieces body; /* borrowed until it is sent (exchange_reached) or close; for the replay until EXCHANGE_HEAD */
    bool is_stream;     /* a stream was asked for */
    bool is_fresh;      /* do not take a pooled connection */
    bool strips_usage;
    bool skip_bad_events;        /* on_bad_event: skip */
    bool is_text_unread;         /* a JSON answer goes to the client as it is: see struct decoder */
    uint32_t connect_timeout_ms; /* DNS, all addresses and TLS */
    unsigned max_depth;
    size_t max_event, max_body; /* limits.event_bytes, limits.body_bytes */
    struct bytes traceparent;   /* "" = none */
    exchange_ready_fn *ready;
    void *arg;
};

enum exchange_event_kind {
    EXCHANGE_NOTHING,
    EXCHANGE_REPLAYED, /* the reused connection was dead; a fresh one is being made (DESIGN 3.6a), once */
    EXCHANGE_HEAD,     /* status, fields, provider_request_id */
    EXCHANGE_OUTPUT,   /* one answer event: raw bytes and its model events */
    EXCHANGE_FLUSH,    /* all that was read is told: lasting raws end with the next call */
    EXCHANGE_ENDED,    /* well ended; the connection went back to the pool if it may */
    EXCHANGE_FAILED    /* failure; the exchange is over, only close is left */
};

/* Only the members of its kind are set. */
struct exchange_event {
    enum exchange_event_kind kind;
    unsigned status;
    const struct fields *fields;
    struct bytes provider_request_id; /* p NULL = none told */
    struct output out; /* OUTPUT. Its raw, where it is_lasting, stays until an OUTPUT whose raw is not, or
                          EXCHANGE_FLUSH, was told and the next call is made */
    bool is_last;      /* OUTPUT: there is nothing more before the next `ready`, so nobody need ask; in a call of
                          `ready` only, and its views end as that returns */
    const struct failure *failure; /* FAILED; told in-stream errors too: then the events before came as OUTPUT */
};

/* Starts at once; the first event comes through ready, later. A provider that answered an HTTP error, garbage, HTML, a
 * redirect, or an error event gives EXCHANGE_FAILED with the classified failure. content-encoding gzip or deflate of a
 * body is decoded; others are a protocol_error. */
struct exchange *exchange_open(struct upstream *u, const struct exchange_spec *spec);
/* How far it has come: no event tells of it, for nearly all have come so far when their head is there. connect_us: time
 * that connecting took, -1 = reused, or its heads were dropped. After a replay it begins anew. */
struct exchange_reach {
    bool is_connected, is_sent; /* sent: all of the request was handed to the kernel */
    int64_t connect_us;
};
struct exchange_reach exchange_reached(const struct exchange *x);
/* Views stay valid until the next call on this exchange. */
void exchange_next(struct exchange *x, struct exchange_event *ev);
/* The last OUTPUT was a whole answer, and nothing was wrong with it: EXCHANGE_ENDED would follow. Who knows may close
 * instead of asking on: the connection goes back to the pool all the same. The OUTPUT's raw stays until either. */
bool exchange_is_told(const struct exchange *x);
void exchange_pause(struct exchange *x);
void exchange_resume(struct exchange *x);
/* The request is out whole and the answer shown: lets go what only its head needed. fields and provider_request_id of
 * EXCHANGE_HEAD are not valid any more. */
void exchange_drop_heads(struct exchange *x);
/* It runs on a reused connection, and the peer's kernel has acknowledged nothing of the request: a first-token timeout
 * is then a connect_timeout (DESIGN 7). */
bool exchange_is_unacked(const struct exchange *x);
/* Cancels if still running: the provider sees the close in the same turn. Memory goes at the end of the turn. */
void exchange_close(struct exchange *x);

/* Idle connection to a standby, kept warm: makes one when the pool has none (at most one attempt at a time per
 * provider). */
void upstream_warm(struct upstream *u, const struct provider_conf *p);
size_t upstream_n_idle(const struct upstream *u);
/* Drops pooled connections of providers that the snapshot does not have any more, and all on drain. */
void upstream_prune(struct upstream *u, const struct config *now);
/* Nothing is in flight: what is kept for the next exchanges, beside connections, goes back. */
void upstream_rest(struct upstream *u);

#endif

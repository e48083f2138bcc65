/* The failover engine: one request in flight. Events in, actions out; no I/O, no clock, no bytes. It knows the rules of
 * DESIGN 3; plan/ answers its questions (who is a candidate, what does a failure mean).
 *
 *     serve                    relay
 *       | RELAY_START  ------->  |
 *       | <------ ACT_START(1)   |        attempt 1 on link 0
 *       | RELAY_FAILED(1) ---->  |
 *       | <------ ACT_START(2)   |        attempt 2 on link 1
 *       | RELAY_OUTPUT(2) ---->  |        first token
 *       | <------ ACT_COMMIT(2)  |        the gate opens
 *       | RELAY_ENDED(2) ----->  |
 *       | <------ ACT_END, ACT_RECORD
 *
 * Where the route resumes, a stream that breaks off after its commit goes back to trying: the next link is started with
 * a way to go on (ACT_START.resume), nothing of it is shown until RELAY_JOINED says that it met what the client has,
 * and then its gate opens by a further ACT_COMMIT. If nobody can go on, the first failure is what the client is told.
 *
 * Where the route hedges, a second attempt may be started beside one whose first token is late (ACT_START while another
 * is out); the first token decides which of the two is cancelled.
 *
 * Rules for the caller: after ACT_CANCEL(n) no event of attempt n may be fed any more (fed ones are ignored).
 * relay_wake_us() tells when RELAY_TIME must be fed at the latest; feeding it early is harmless. Actions are carried
 * out in order before the next event is fed. */
#ifndef RM_RELAY_RELAY_H
#define RM_RELAY_RELAY_H

#include "model/call.h"
#include "model/event.h"
#include "model/record.h"
#include "plan/directive.h"
#include "plan/hedge.h"
#include "plan/latency.h"
#include "plan/ratio.h"
#include "plan/registry.h"

struct relay;

struct relay_env { /* one per core */
    struct registry *registry;
    struct rng *rng;
    struct hedge_book *hedges;    /* NULL = no hedges */
    struct latency_core *latency; /* NULL = no history: `auto` stays at its fallback */
    struct ratio_core *ratios;    /* NULL = nothing is learned: four bytes a token */
};

struct relay_start {
    const struct config *config;
    const struct route_conf *route;
    const struct directive *directive; /* may be NULL */
    const struct call *call;
    uint64_t id;
    int64_t started_wall_ms;
    uint64_t now_us;            /* the request's arrival: its time 0 */
    const char *key, *trace_id; /* for the record; outlive the request */
    const char *dialect;        /* the client's, likewise; links of the same one can do more for it */
    const char *routing;        /* for the record: x-routing as it came, NULL = none; outlives the request */
    uint64_t affinity_key;      /* for the record; 0 = none */
};

enum relay_event_kind {
    RELAY_START,       /* once, first */
    RELAY_TIME,        /* time has passed */
    RELAY_CONNECTED,   /* n: a connection is there. connect_us = time it took, -1 = reused */
    RELAY_SENT,        /* n: the request was wholly written */
    RELAY_HEAD,        /* n: first response byte / head; status */
    RELAY_REPLAYED,    /* n: a reused connection died before any response byte; the exchange goes on with a fresh one
                          (3.6a) */
    RELAY_OUTPUT,      /* n: whole events of the answer that came together: event, n_further, and bytes (as they go to
                          the client) */
    RELAY_JOINED,      /* n, a resuming attempt: what comes from now on continues what the client has */
    RELAY_ENDED,       /* n: the answer is whole and well ended */
    RELAY_FAILED,      /* n: failure */
    RELAY_PAUSED,      /* n: we stopped reading (client is slow): idle time stands still */
    RELAY_RESUMED,     /* n */
    RELAY_CLIENT_GONE, /* the client left; is_stall: it stopped reading for client_stall_ms */
    RELAY_UNBUILDABLE, /* n: the link's request could not be written (dialect_build_body: ERR_UNSUPPORTED):
                          skipped_incapable, nothing was started */
    RELAY_DRAIN        /* our own stop: cut now */
};

struct relay_event {
    enum relay_event_kind kind;
    uint16_t n;      /* attempt */
    uint16_t status; /* HEAD */
    uint64_t now_us;
    uint32_t bytes;       /* OUTPUT: bytes that will go to the client */
    uint32_t n_further;   /* OUTPUT: events that follow `event` in memory */
    bool is_stall;        /* CLIENT_GONE */
    bool is_unacked;      /* TIME: attempt n is on a reused connection whose peer acknowledged nothing of it */
    int64_t connect_us;   /* CONNECTED */
    const char *adjusted; /* HEAD: what was changed for this link; "" = nothing */
    struct bytes provider_request_id; /* HEAD: n 0 = none */
    const struct event *event;        /* OUTPUT: the first; NULL = bytes only */
    const struct failure *failure;    /* FAILED */
    const char *why;                  /* UNBUILDABLE */
};

/* How an attempt goes on with an answer that broke off. The caller keeps the text that the client has. */
enum resume_way {
    RESUME_NONE,
    RESUME_PREFILL, /* the text stands as the last message, the assistant's: the model is to continue it */
    RESUME_RESTART  /* the same request again: it must repeat the text exactly, and goes on after it */
};

enum relay_action_kind {
    ACT_START,  /* start attempt n on link; is_fresh: do not use a pooled connection; quirks to respect; upstream_stream
                 */
    ACT_CANCEL, /* close attempt n at once; drop what it sent */
    ACT_COMMIT, /* the gate of attempt n opens: send the head (if not sent) and what is held; from now on relay
                   directly. For a non-streaming client it comes together with the whole answer */
    ACT_HEARTBEAT,       /* head (if not sent) and a comment */
    ACT_END,             /* finish the client's answer well: what the dialect still owes, then the end */
    ACT_ANSWER,          /* nothing was sent yet: answer with `answer` */
    ACT_ERROR_IN_STREAM, /* head was sent: tell `answer` inside the stream and end the body well-formed */
    ACT_ALARM,           /* operator should look: text (auth, quota, not_found) */
    ACT_RECORD           /* the request is over: record is final. Always the last action */
};

struct relay_answer {
    unsigned status;
    bool is_all_red;        /* several candidates: 503 all_providers_unavailable / 529 overloaded_error with attempts */
    struct failure failure; /* else: told by class (error_of_failure) */
    const char *provider;   /* whose failure it is; NULL = ours */
    int64_t retry_after_ms; /* -1 = none; whole seconds are the front's business */
    bool no_retry;          /* x-should-retry: false */
};

struct relay_action {
    enum relay_action_kind kind;
    uint16_t n;
    const struct link_conf *link;      /* START */
    bool is_fresh;                     /* START */
    bool is_stream;                    /* START: ask upstream for a stream */
    uint8_t quirks;                    /* START */
    enum resume_way resume;            /* START */
    uint32_t connect_timeout_ms;       /* START: the exchange enforces it (DNS, all addresses, TLS) */
    const struct relay_answer *answer; /* ANSWER, ERROR_IN_STREAM */
    const char *text;                  /* ALARM */
};

enum { RELAY_ACTIONS_MAX = 16 };
struct relay_actions {
    struct relay_action v[RELAY_ACTIONS_MAX];
    size_t n;
};

/* What an undisturbed request takes of the arena for it, with an id of its provider's. */
enum { RELAY_BYTES = 848 };
/* Memory comes from the arena. What env and `start` point to, and env itself, must outlive the relay; `start` need not.
 * call: until relay_let_go_of_call, or to the end. */
struct relay *relay_new(struct arena *a, const struct relay_env *env, const struct relay_start *start);
/* The call goes before the request's end: of a stream that is shown, and whose route does not resume. From then on the
 * engine goes by what is on record of it. Not while an event is fed. */
void relay_let_go_of_call(struct relay *r);
/* Feeds one event; *out is overwritten. */
void relay_event(struct relay *r, const struct relay_event *ev, struct relay_actions *out);
/* RELAY_CONNECTED of attempt n and, with is_sent, RELAY_SENT: without a look at the clocks, and no action follows. So
 * it may be told late, as long as it is told before the attempt's head, or an event that may end it. */
void relay_reached(struct relay *r, uint16_t n, int64_t connect_us, bool is_sent);
/* The short way of a RELAY_HEAD, and of a RELAY_OUTPUT that waits for its answer's end: no clock is due, no second
 * attempt is out or planned, and no action follows. After an output the engine may want to be woken earlier than
 * before. False: nothing was done, feed the event. */
bool relay_tell(struct relay *r, const struct relay_event *ev);
/* The short way of a RELAY_OUTPUT, as nearly all are: the answer of attempt n flows, no clock is due, and e only
 * counts. No action follows, and the engine need not be woken earlier than before. False: nothing was done, feed the
 * event. */
bool relay_flow(struct relay *r, uint16_t n, const struct event *e, uint64_t now_us);
/* When RELAY_TIME is due at the latest; 0 = nothing to wait for. */
uint64_t relay_wake_us(const struct relay *r);
bool relay_is_over(const struct relay *r);
bool relay_is_committed(const struct relay *r);
/* The record so far (trail for the response head), final at ACT_RECORD. Lives in the arena. */
const struct request_record *relay_record(const struct relay *r);
/* The front's part of the record: written before the row is taken. */
void relay_set_status(struct relay *r, unsigned status);
void relay_set_gateway_us(struct relay *r, int64_t us);
/* What was done about attempt n's prompt cache, for the record. */
void relay_mark_cache(struct relay *r, uint16_t n, enum cache_mark mark);
/* Adds words to the decision of attempt n, for the record. */
void relay_note(struct relay *r, uint16_t n, const char *words);

#endif

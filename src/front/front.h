/* Client side of one core: what comes in on the client listener. It authenticates, finds dialect and route, reads the
 * call, and hands it up whole; answers by itself what needs no provider (404, 401, 400, models, health).
 *
 * Answering a call goes through a `struct draft` per attempt: it turns exchange output into the client's bytes and
 * holds them back until the gate opens. */
#ifndef RM_FRONT_FRONT_H
#define RM_FRONT_FRONT_H

#include "config/config.h"
#include "dialect/dialect.h"
#include "dialect/encode.h"
#include "http/server.h"
#include "model/call.h"
#include "model/output.h"
#include "model/record.h"

struct front;
struct client_call;

struct front_ready { /* what /readyz and /healthz tell */
    bool is_draining;
    bool is_degraded; /* ledger */
    const char *text; /* JSON object text with details, or NULL */
};

struct front_handler {
    void (*on_call)(struct client_call *c, void *arg);
    void (*on_gone)(struct client_call *c, bool is_stall, void *arg); /* the call is gone after this */
    void (*on_writable)(struct client_call *c, void *arg);
    void (*ready)(struct front_ready *out, struct arena *a, void *arg);
    struct config *(*config)(void *arg); /* the core's current snapshot (borrowed); a call takes its own reference */
    uint64_t (*new_id)(void *arg);
    /* A request that never became a call (401, 404, 400, 413 …) for the access log and ledger. */
    void (*on_refused)(const struct request_record *rec, void *arg);
};

/* Kept as long as its answer takes; what only the request needs lies with the request's bytes. */
struct client_call {
    struct inbound *inbound; /* its head and body: until the request is let go */
    struct arena *arena;     /* the inbound's */
    struct config *config;   /* one reference, released by the front when the call is finished */
    const struct dialect *dialect;
    const struct route_conf *route;
    const struct call *call; /* in the inbound's asked_arena; NULL before the body was read, and once it was let go */
    const char *key;         /* name of the client key, "" = none */
    uint64_t id;
    char id_text[20];
    bool is_stream; /* as the call says */
    bool head_sent;
    const char *trace_id; /* from traceparent, "" = none */
    void *owner;          /* serve's */
};
/* The traceparent that the client sent, where it can be read; "" = none. */
struct bytes call_traceparent(const struct client_call *c);
/* The request's bytes go, and `call` with them. */
void call_let_go_of_request(struct client_call *c);

struct front *front_new(struct loop *l, const struct server_limits *limits, const struct front_handler *h, void *arg);
void front_accept(struct front *f, struct stream *s);
void front_set_limits(struct front *f, const struct server_limits *limits);
void front_drain(struct front *f);
void front_rest(struct front *f); /* see server_rest */
void front_close(struct front *f);
void front_free(struct front *f);
size_t front_n_conns(const struct front *f);

/* ---- draft: one attempt's answer on its way to the client ---- */

struct draft;
struct shown; /* front/shown.h */
struct draft_options {
    const struct dialect *target;
    const char *provider, *model; /* of the link, for headers and synthesised answers */
    struct bytes served_lines;    /* reply_served_lines of both; n 0 = they are written anew */
    size_t gate_bytes;            /* limits.gate_bytes */
    size_t body_bytes;            /* limits.body_bytes: of an answer that is collected */
    int64_t wall_ms;
    struct shown *shown; /* the route resumes: noted by draft_leave, and gone on with where another draft left it. NULL
                            = no */
};
/* Lives in memory of its own; freed by draft_free. */
struct draft *draft_new(struct client_call *c, const struct draft_options *o);
void draft_free(struct draft *d);
/* One exchange output (raw bytes and model events). Returns how many bytes it made for the client. After draft_commit
 * they go out with the next draft_flush; before, they are held. False when the gate would hold more than gate_bytes
 * (streaming clients), or the answer grows over body_bytes (the others). */
bool draft_put(struct draft *d, const struct output *in, uint32_t *n_bytes);
/* The same for the first and last output, where it and its raw stay until draft_end (or draft_free): nothing is copied
 * if it goes as it is. False: it is to be put. */
bool draft_lend(struct draft *d, const struct output *in);
/* The usual event in one step: put and flushed, all of it out. False: it was put, a flush is due; or, with *is_put
 * false, nothing was done, and it is to be put. */
bool draft_pass(struct draft *d, const struct output *in, bool *is_put);
/* Provider's response fields that may go down: read as the head goes out, so they stay until draft_commit of a stream,
 * draft_end of a whole answer. */
void draft_set_fields(struct draft *d, const struct fields *f);
/* The gate opens: the head goes out (unless sent) with the record's trail, then what is held. For a whole
 * (non-streaming) answer nothing is sent until draft_end. */
void draft_commit(struct draft *d, const struct request_record *rec);
/* Sends what was put since the last flush, in one write. */
void draft_flush(struct draft *d);
/* The answer is whole: sends what is still owed and finishes the call (client_call is gone afterwards). rec: the cost
 * header of whole answers. */
void draft_end(struct draft *d, const struct request_record *rec);
unsigned draft_status(const struct draft *d);
/* The attempt broke off after its commit, and another may go on: what the client has is noted in `shown`. */
void draft_leave(const struct draft *d);

/* ---- answers without a provider's output ---- */

/* Nothing was sent yet: an error answer with our headers. The call is gone afterwards. */
void call_answer_error(struct client_call *c, const struct answer_error *e, const struct request_record *rec,
                       bool no_retry);
/* The head was sent: the error as an in-stream event; the body ends well-formed. The call is gone afterwards. */
void call_error_in_stream(struct client_call *c, const struct answer_error *e);
/* Head (if not sent) and a comment, for heartbeat_ms. */
void call_heartbeat(struct client_call *c, const struct request_record *rec);
bool call_is_full(const struct client_call *c);

/* What the heads of all answers have in common that a link serves as the first that is tried: header lines, the last
 * one up to the time that it took. Written once, with the snapshot. */
void reply_served_lines(const char *provider, const char *model, struct buf *out);
/* x-ringmain-trail value (DESIGN 4). */
void trail_text(const struct request_record *rec, struct buf *out);

#endif

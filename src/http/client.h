/* The provider side's driver: one HTTP/1.1 connection to an upstream, one exchange at a time. Pull interface: on_ready
 * says that client_conn_next may have something; nothing comes up from inside a call of the owner's. */
#ifndef RM_HTTP_CLIENT_H
#define RM_HTTP_CLIENT_H

#include "base/buf.h"
#include "http/body.h"
#include "http/head.h"
#include "http/readbuf.h"
#include "net/stream.h"

struct client_conn;
typedef void client_ready_fn(struct client_conn *c, void *arg);

enum client_event_kind {
    CLIENT_NOTHING, /* wait for on_ready */
    CLIENT_HEAD,    /* final response head (1xx are swallowed) */
    CLIENT_BODY,    /* payload */
    CLIENT_USED_UP, /* all that was read was given: the next call reads anew, and payload views end with it */
    CLIENT_END,     /* the response is whole */
    CLIENT_BROKEN,  /* peer closed or reset before the response was whole */
    CLIENT_BAD      /* not HTTP, bad framing, head too large */
};
struct client_event {
    enum client_event_kind kind;
    const struct head *head; /* HEAD; valid until the exchange is finished; its texts as client_conn_give_head says */
    struct bytes body;       /* BODY; view, valid until the call after USED_UP, or the end of the exchange */
    const char *why;         /* BROKEN, BAD */
    bool any_response_byte;  /* BROKEN: at least one byte of a response had come */
};

struct client_request {
    struct bytes head;
    const struct bytes *body; /* n_body pieces */
    size_t n_body;
};

/* Takes a connected stream. head limits: bytes 32768, fields 200. */
struct client_conn *client_conn_new(struct loop *l, struct stream *s);
/* Reads go into buffers of this pool, which must outlive the connection. Without: allocated for each burst. */
void client_conn_share_reads(struct client_conn *c, struct readbufs *r);
/* Starts an exchange, written at the end of this turn: the request is borrowed until it is sent (or close), and all
 * that it points to. */
void client_conn_send(struct client_conn *c, const struct client_request *r, client_ready_fn *fn, void *arg);
/* Tells another one from here on. */
void client_conn_tell(struct client_conn *c, client_ready_fn *fn, void *arg);
void client_conn_next(struct client_conn *c, struct client_event *ev);
/* The usual, in one step: CLIENT_BODY is next, and this is its payload, a whole chunk; with its frame it is *framed.
 * False: ask client_conn_next. */
bool client_conn_payload(struct client_conn *c, struct bytes *out, struct bytes *framed);
/* After CLIENT_HEAD: the head, with what its fields and texts lie in, moves to the caller's arena, who lets it go when
 * he likes. That must be empty. */
void client_conn_give_head(struct client_conn *c, struct arena *to);
/* All that was read was given. */
bool client_conn_is_used_up(const struct client_conn *c);
/* For an owner that is called by on_ready and has been given everything: true = there is nothing more before the next
 * on_ready, so it need not ask. Payload views then end as it returns. */
bool client_conn_rests(struct client_conn *c);
/* Stop and go on reading (backpressure). */
void client_conn_pause(struct client_conn *c);
void client_conn_resume(struct client_conn *c);
/* The exchange's whole request was handed to the kernel. on_ready does not tell of it. */
bool client_conn_is_sent(const struct client_conn *c);
/* After CLIENT_END: may it serve another exchange? */
bool client_conn_is_reusable(const struct client_conn *c);
/* Detaches from the exchange; the connection is idle. fn is called when the idle connection turns stale. False: it is
 * that already, and nothing will be called. */
bool client_conn_idle(struct client_conn *c, client_ready_fn *stale_fn, void *arg) RM_MUST_USE;
/* An idle connection on which the peer has closed or sent something. */
bool client_conn_is_stale(struct client_conn *c);
/* Nothing of the exchange's request was acknowledged by the peer's kernel. */
bool client_conn_is_unacked(const struct client_conn *c);
/* Any bytes of the request were handed to the kernel. */
bool client_conn_any_sent(const struct client_conn *c);
void client_conn_close(struct client_conn *c);

#endif

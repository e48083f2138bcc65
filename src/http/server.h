/* The client side's driver. A connection is not a request: `struct server_conn` reads heads and bodies, each request is
 * a `struct inbound` that the owner answers. HTTP/1.1 today; h2 brings a second implementation behind the same calls.
 *
 * Requests are handed over whole (head and body). One at a time per connection; pipelined ones wait.
 * Everything comes up from the loop, never from inside a call of the owner's. */
#ifndef RM_HTTP_SERVER_H
#define RM_HTTP_SERVER_H

#include "base/buf.h"
#include "http/head.h"
#include "net/stream.h"

struct server; /* one per core and listener: limits, handler, its connections */
struct server_conn;
struct inbound;

struct server_limits {
    struct head_limits head;
    size_t body_bytes;
    uint64_t
        memory_bytes; /* of all request bodies in flight on this server; 0 = no limit. Over it: 503, why "memory" */
    uint32_t head_timeout_ms, body_timeout_ms, client_idle_ms, client_stall_ms;
    uint32_t requests_per_connection, connections;
    bool keeps_no_heads; /* for listeners with few requests and a secret in each: none stays in memory for the next */
};

struct server_handler {
    /* A whole request. in->head and in->body are valid until the inbound is finished, or until inbound_drop_request.
     * The owner must answer, now or later. */
    void (*on_request)(struct inbound *in, void *arg);
    /* The head is there and the body is about to be read: return 0 to go on, or an HTTP status to refuse at once (401,
     * 404, 413, 503 …) — then on_refused writes the answer. May be NULL. Called before 100-continue is sent. */
    unsigned (*on_head)(struct inbound *in, void *arg);
    /* The driver refuses a request by itself (400, 408, 413, 431, 505 …) or on_head did; the owner writes the answer
     * with inbound_head/body/end in the dialect of the path (in->head may be empty when it could not be parsed). why:
     * for people */
    void (*on_refused)(struct inbound *in, unsigned status, const char *why, void *arg);
    /* The client left (FIN, RST) or stalled (client_stall_ms; is_stall) before the answer was whole. No answer is
     * possible; the inbound is gone after this call. */
    void (*on_gone)(struct inbound *in, bool is_stall, void *arg);
    /* Unsent bytes fell below the low mark after inbound_is_full() was true. */
    void (*on_writable)(struct inbound *in, void *arg);
};

struct inbound {              /* a part of its connection */
    struct arena arena;       /* of this request; released when it is finished */
    struct arena asked_arena; /* for what is only needed as long as the request's own bytes are; released with them */
    const struct head *head;  /* never NULL */
    struct bytes body;        /* whole, de-chunked */
    uint64_t arrived_us;      /* when the head began to be read */
    void *owner;              /* the owner's own */
};

/* Most requests of a client have the same head but for their length. What the owner finds out from a head alone he may
 * note with it. Zeroes at first. */
struct head_memo {
    uint64_t version; /* of what else it depends on */
    const void *fact;
};
/* For on_head, and only in it: room that was there, and will be, at each request with this very head; NULL = none
 * (always, with keeps_no_heads). */
struct head_memo *inbound_memo(struct inbound *in);

struct server *server_new(struct loop *l, const struct server_limits *limits, const struct server_handler *h,
                          void *arg);
/* Limits for connections from now on. What is noted with heads (inbound_memo) is forgotten. */
void server_set_limits(struct server *s, const struct server_limits *limits);
/* Takes an accepted stream (owned from here on). Over limits.connections: answers 503 and closes. */
void server_accept(struct server *s, struct stream *stream);
size_t server_n_conns(const struct server *s);
/* Drain: idle connections close at once, answers carry `connection: close`. */
void server_drain(struct server *s);
/* Nothing is in flight: what is kept for the next requests goes back, heads (with clients' keys in them) included. */
void server_rest(struct server *s);
/* Closes what is left, without ceremony (on_gone is called for requests in flight). */
void server_close(struct server *s);
/* All connections must be gone. */
void server_free(struct server *s);

/* --- answering: head, then body parts, then end --- */
enum inbound_body { INBOUND_LENGTH, INBOUND_STREAM /* chunked, or until close for HTTP/1.0 */, INBOUND_NO_BODY };
/* fields: further header lines, ready ("name: value\r\n"…). For INBOUND_LENGTH the length of the body that follows.
 * A HEAD request gets the same head and no body; the driver sees to that. Date, connection and framing are the
 * driver's. */
void inbound_head(struct inbound *in, unsigned status, enum inbound_body kind, uint64_t length, struct bytes fields);
/* The same in two steps, without a copy: the further lines, about so many bytes, are put into the buffer that is
 * returned; then inbound_close_head, and nothing between. */
struct buf *inbound_open_head(struct inbound *in, unsigned status, enum inbound_body kind, uint64_t length,
                              size_t fields_bytes);
void inbound_close_head(struct inbound *in);
/* Body bytes, borrowed until inbound_flush or inbound_end; several puts are one chunk and one write. */
void inbound_put(struct inbound *in, struct bytes part);
/* Writes what was put (copies what the socket does not take). */
void inbound_flush(struct inbound *in);
/* The usual part of a stream in one step: put and flushed, if it is not long, nothing waits before it and the socket
 * takes it whole. False: nothing of it is owed that was not put, but it is to be flushed. All parts but the first may
 * be empty. */
enum { INBOUND_SEND_PARTS = 3, INBOUND_SEND_BYTES_MAX = 2048 };
bool inbound_send(struct inbound *in, const struct bytes parts[INBOUND_SEND_PARTS]);
/* The same of one part that is there with the frame of a chunk around it: size, CRLF, the part, CRLF. */
bool inbound_pass(struct inbound *in, struct bytes part, struct bytes framed);
/* The answer is whole: finishes, and flushes at the end of the turn at the latest. The inbound is the driver's again
 * and gone then. */
void inbound_end(struct inbound *in);
/* Breaks the connection off without a well-formed end. For faults that leave no other way. */
void inbound_abort(struct inbound *in);
/* Unsent bytes are over the high mark (64 KiB): stop feeding until on_writable. */
bool inbound_is_full(const struct inbound *in);
bool inbound_head_sent(const struct inbound *in);
/* The request's bytes go, and with them the texts of in->head, in->body and asked_arena: an answer may take long, and
 * nobody reads them any more. After inbound_head. */
void inbound_drop_request(struct inbound *in);

#endif

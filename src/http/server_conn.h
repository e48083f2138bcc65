/* Private to the room: one client connection, shared by server.c (life, reading) and inbound.c (answering). */
#ifndef RM_HTTP_SERVER_CONN_H
#define RM_HTTP_SERVER_CONN_H

#include "base/sm.h"
#include "http/body.h"
#include "http/server.h"

enum conn_state {
    CONN_IDLE,      /* no byte of a request yet */
    CONN_HEAD,      /* part of a head is there */
    CONN_BODY,      /* the head was accepted, its body is read */
    CONN_WAITING,   /* the owner has the request (or its refusal) and has not begun to answer */
    CONN_ANSWERING, /* inbound_head was called */
    CONN_FINISHING, /* inbound_end was called; the rest goes out */
    CONN_LINGER,    /* our side is shut; what the client still sends is thrown away so that it sees the answer */
    CONN_CLOSED
};

enum {
    CONN_PARTS_MAX = 16,
    CONN_HIGH_BYTES = 64 * 1024, /* inbound_is_full above it */
    CONN_LOW_BYTES = 16 * 1024,  /* on_writable below it */
    CONN_OK_LINE_BYTES = 17,     /* "HTTP/1.1 200 OK" and CRLF */
    CONN_DATE_LINE_BYTES = 37,   /* "date: Sun, 06 Nov 1994 08:49:37 GMT" and CRLF */
    CONN_START_BYTES = CONN_OK_LINE_BYTES + CONN_DATE_LINE_BYTES
};

/* The request as it came: from its head on, and until nobody needs it. In the inbound's asked_arena. */
struct asked {
    struct head head;
    struct body_reader reader;
    struct buf body;
    size_t body_counted; /* of server->memory_used */
};

/* A stream may be silent for long: it should hold little beside what it is answered with. */
struct server_conn {
    struct server *server;
    struct stream *stream;
    struct list node; /* in server->conns */
    struct timer timer;
    uint64_t deadline_us; /* 0 = none; the timer may be armed for an earlier time and is then armed again */
    union {
        struct task task; /* what must not happen inside a call of the owner's */
        struct reap reap; /* once it is closed */
    };

    struct buf in;       /* read and not used yet: a partial head, pipelined requests */
    struct bytes fresh;  /* the same, in a read buffer of the core's: only while it is looked at, or since it was read
                            ahead in this turn; and `in` is empty then */
    struct asked *asked; /* NULL = none */

    struct buf out; /* from out_at on: what the socket did not take yet */
    size_t out_at;
    struct bytes *parts; /* put, borrowed until the flush; CONN_PARTS_MAX, of the server. NULL while n_parts is 0 */
    size_t part_bytes;
    union {
        uint64_t length_left;     /* of the answer's body */
        uint64_t linger_until_us; /* once the answer is out */
    };

    struct inbound inbound;
    uint32_t n_requests;
    struct sm sm;
    uint8_t n_parts;
    bool is_ahead;   /* `fresh` was read ahead, and begins where its buffer does */
    bool can_read;   /* the last read was not short */
    bool is_hung_up; /* the peer's FIN stands behind what is still to be read: a short read is not the end */
    bool is_blocked; /* the last write was short: wait for the event */
    bool is_broken;  /* a write failed; the task tells */
    bool is_eof, is_full;
    bool must_close; /* after this answer */
    bool is_chunked : 1, is_bodyless : 1;
    bool may_stay : 1, is_of_minor_0 : 1; /* as the request's head says */
};

static inline size_t conn_pending(const struct server_conn *c)
{
    return c->out.n - c->out_at;
}

extern const struct sm_row conn_rows[];
static inline void conn_move(struct server_conn *c, enum conn_state state)
{
    sm_move(&c->sm, conn_rows, state, "http", "-");
}
/* Time after which conn is cut if nothing else happens; 0 = never. */
void conn_set_deadline(struct server_conn *c, uint64_t at_us);
/* Writes what is in `out`, then v[1 … n); v[0] is overwritten. What the socket does not take is copied to `out`. */
void conn_push(struct server_conn *c, struct iovec *v, int n);
/* What nearly all answers of this second begin with: the status line of a 200 and the header line "date" (RFC 9110
 * IMF-fixdate). */
const char *conn_start_lines(struct server_conn *c);
bool conn_must_close(const struct server_conn *c);
uint32_t conn_stall_ms(const struct server_conn *c);
struct loop *conn_loop(const struct server_conn *c);
/* Room for parts, until they are given back. */
void conn_borrow_parts(struct server_conn *c);
void conn_give_parts(struct server_conn *c);
/* The request's memory goes, and does not count any more; the inbound's head is an empty one then. */
void conn_drop_asked(struct server_conn *c);
void conn_close(struct server_conn *c, bool reset);

#endif

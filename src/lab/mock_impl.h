/* Inside the pretend provider: what its files share. mock.c has the providers and their listeners, mock_conn.c the
 * bytes of a connection, mock_chat.c decides an answer, mock_control.c takes orders. */
#ifndef RM_LAB_MOCK_IMPL_H
#define RM_LAB_MOCK_IMPL_H

#include "base/list.h"
#include "lab/mock.h"
#include "lab/mock_cache.h"
#include "lab/mock_log.h"
#include "lab/mock_quota.h"
#include "lab/mock_tls.h"
#include "lab/script.h"
#include "net/acceptor.h"
#include "net/listen.h"

struct mock {
    struct loop *loop;
    struct list providers;
};

struct conn;

struct provider {
    struct list node;
    struct mock *mock;
    struct arena arena;    /* texts of conf */
    struct mock_conf conf; /* its rules as they were at the start */
    struct rule rules[RULES_MAX];
    size_t n_rules;
    struct listen_address address;
    struct acceptor acceptor;
    int fd;                /* -1 = closed by the fault `refuse` */
    bool is_deaf;          /* the fault `deaf`: what comes is left in the kernel */
    struct timer schedule; /* when a row by time may change how connections are met */
    struct list conns;
    struct mock_log log;
    struct mock_cache *cache; /* NULL = none */
    struct mock_tls *tls;     /* NULL = plain */
    struct quota quota;
    uint64_t reset_us; /* start, or the last reset */
    uint64_t n_chats;  /* since then */
    uint64_t n_active; /* chats being answered */
    uint64_t used_us;  /* end of the last chat; 0 = none since then */
};

/* A request that came whole, and the answer to it. */
struct mock_request {
    const struct head *head;
    struct bytes body;
    struct arena *arena;
    struct script *script; /* out */
    struct seen *seen;     /* NULL for orders */
    struct conn *conn;
};

/* ---- mock.c ---- */

uint64_t provider_since_reset_ms(const struct provider *p);
/* No chat for so long that connection and model have gone cold. */
bool provider_is_cold(const struct provider *p);
/* The rows that hold from now on. `asker` is spared when a `refuse` row closes the connections; NULL = nobody is. A
 * connection that has given an order is heard even while the provider is deaf. */
void provider_set_rules(struct provider *p, const struct rule *v, size_t n, struct conn *asker);
/* As after the start: its own rows, numbers from 1, empty log and cache, cold. */
void provider_reset(struct provider *p, struct conn *asker);

/* ---- mock_conn.c ---- */

/* Takes an accepted descriptor. */
void mock_conn_accept(struct provider *p, struct stream *s);
void mock_conn_close(struct conn *c, bool reset);
/* The provider is no longer deaf: what came meanwhile is read, in a turn of its own. */
void mock_conn_hear(struct conn *c);
struct conn *mock_conn_of_node(struct list *node);

/* ---- mock_chat.c ---- */

/* Decides the answer to a request that is no order, and notes it in the log. */
void mock_chat_answer(struct provider *p, const struct mock_request *q);

/* ---- mock_control.c ---- */

/* Obeys an order (a path below /_mock/) and answers it. */
void mock_control_answer(struct provider *p, const struct mock_request *q);
/* {name: message} */
void mock_control_message(const struct mock_request *q, unsigned status, const char *name, const char *message);

#endif

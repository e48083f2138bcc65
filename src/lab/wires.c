#include "lab/wires.h"

#include "base/list.h"
#include "base/mem.h"

#include <stdio.h>

struct wire {
    struct list node;
    struct client_conn *conn;
    uint16_t port;
    struct tls_context *tls;
    char host[256];
};

struct wires {
    struct list idle;
};

struct wires *wires_new(void)
{
    struct wires *w = mem_zalloc(sizeof *w);
    list_init(&w->idle);
    return w;
}

static struct client_conn *unlink_wire(struct wire *x)
{
    struct client_conn *c = x->conn;
    list_del(&x->node);
    mem_free(x);
    return c;
}

void wires_free(struct wires *w)
{
    if (w == NULL)
        return;
    while (!list_is_empty(&w->idle))
        client_conn_close(unlink_wire(RM_CONTAINER(w->idle.next, struct wire, node)));
    mem_free(w);
}

static bool leads_to(const struct wire *x, const struct load_target *to)
{
    return x->port == to->port && x->tls == to->tls && strcmp(x->host, to->host) == 0;
}

struct client_conn *wires_take(struct wires *w, const struct load_target *to)
{
    for (struct list *at = w->idle.next, *next; at != &w->idle; at = next) {
        next = at->next;
        struct wire *x = RM_CONTAINER(at, struct wire, node);
        if (!leads_to(x, to))
            continue;
        struct client_conn *c = unlink_wire(x);
        if (!client_conn_is_stale(c))
            return c;
        client_conn_close(c);
    }
    return NULL;
}

static void on_stale(struct client_conn *c, void *arg)
{
    (void)c;
    client_conn_close(unlink_wire(arg));
}

void wires_put(struct wires *w, const struct load_target *to, struct client_conn *c)
{
    if (!client_conn_is_reusable(c)) {
        client_conn_close(c);
        return;
    }
    struct wire *x = mem_zalloc(sizeof *x);
    x->conn = c;
    x->port = to->port;
    x->tls = to->tls;
    snprintf(x->host, sizeof x->host, "%s", to->host);
    list_init(&x->node);
    list_push(&w->idle, &x->node);
    if (!client_conn_idle(c, on_stale, x))
        client_conn_close(unlink_wire(x));
}

/* The providers: their listeners, and the rows of faults that hold now. A `refuse` row closes the listener while it
 * holds, a `deaf` one leaves connections unread; a timer stands at the next moment at which a row's time begins or
 * ends. */
#include "lab/mock_impl.h"

#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <unistd.h>

/* ---- time ---- */

uint64_t provider_since_reset_ms(const struct provider *p)
{
    return (loop_now_us(p->mock->loop) - p->reset_us) / 1000;
}

bool provider_is_cold(const struct provider *p)
{
    uint64_t after_us = p->conf.cold.after_ms * 1000;
    if (after_us == 0 || p->n_active > 0)
        return false;
    return p->used_us == 0 || loop_now_us(p->mock->loop) - p->used_us >= after_us;
}

/* ---- the listener ---- */

static void on_stream(struct acceptor *a, struct stream *s)
{
    mock_conn_accept(RM_CONTAINER(a, struct provider, acceptor), s);
}

static void on_short(struct acceptor *a, bool is_news)
{
    if (is_news)
        LOG(LOG_WARN, "lab", "-", "port %u: out of descriptors: accepting is paused; raise the limit (ulimit -n)",
            RM_CONTAINER(a, struct provider, acceptor)->address.port);
}

static enum err open_listener(struct provider *p, char *message, size_t cap)
{
    if (p->fd >= 0)
        return ERR_OK;
    enum err e = listen_open(&p->address, 1, &p->fd, message, cap);
    if (e != ERR_OK) {
        p->fd = -1;
        return e;
    }
    p->acceptor = (struct acceptor){.on_stream = on_stream, .on_short = on_short};
    e = acceptor_open(&p->acceptor, p->mock->loop, p->fd);
    if (e != ERR_OK) {
        snprintf(message, cap, "the listener cannot be watched");
        close(p->fd);
        p->fd = -1;
    }
    return e;
}

/* As if the process had died: no listener, and all connections but `spared` are reset. */
static void close_listener(struct provider *p, struct conn *spared)
{
    if (p->fd >= 0) {
        acceptor_close(&p->acceptor);
        close(p->fd);
        p->fd = -1;
    }
    LIST_EACH(&p->conns, node)
    {
        struct conn *c = mock_conn_of_node(node);
        if (c != spared)
            mock_conn_close(c, true);
    }
}

/* Connections stay open and are not read. */
static void set_deaf(struct provider *p, bool is_deaf)
{
    if (p->is_deaf && !is_deaf) {
        LIST_EACH(&p->conns, node)
        mock_conn_hear(mock_conn_of_node(node));
    }
    p->is_deaf = is_deaf;
}

/* ---- the rows ---- */

static void follow_rules(struct provider *p, struct conn *asker)
{
    char message[160];
    uint64_t now_ms = provider_since_reset_ms(p), next_ms = rules_next_change(p->rules, p->n_rules, now_ms);
    enum fault_kind door = rules_door(p->rules, p->n_rules, now_ms);
    set_deaf(p, door == FAULT_DEAF);
    if (door == FAULT_REFUSE)
        close_listener(p, asker);
    else if (open_listener(p, message, sizeof message) != ERR_OK)
        LOG(LOG_ERROR, "lab", "-", "port %u: %s", p->address.port, message);
    timer_cancel(p->mock->loop, &p->schedule);
    if (next_ms != UINT64_MAX)
        timer_arm(p->mock->loop, &p->schedule, p->reset_us + next_ms * 1000);
}

static void on_schedule(struct timer *t)
{
    follow_rules(RM_CONTAINER(t, struct provider, schedule), NULL);
}

void provider_set_rules(struct provider *p, const struct rule *v, size_t n, struct conn *asker)
{
    RM_ASSERT(n <= RULES_MAX);
    if (n > 0)
        memcpy(p->rules, v, n * sizeof *v);
    p->n_rules = n;
    follow_rules(p, asker);
}

void provider_reset(struct provider *p, struct conn *asker)
{
    mock_log_clear(&p->log);
    if (p->cache != NULL)
        mock_cache_clear(p->cache);
    p->quota = (struct quota){0};
    p->reset_us = loop_now_us(p->mock->loop);
    p->n_chats = p->used_us = 0;
    provider_set_rules(p, p->conf.rules, p->conf.n_rules, asker);
}

/* ---- the whole ---- */

struct mock *mock_new(struct loop *l)
{
    struct mock *m = mem_zalloc(sizeof *m);
    m->loop = l;
    list_init(&m->providers);
    return m;
}

static void provider_free(struct provider *p)
{
    close_listener(p, NULL);
    timer_cancel(p->mock->loop, &p->schedule);
    mock_log_clear(&p->log);
    mock_cache_free(p->cache);
    mock_tls_free(p->tls);
    arena_fini(&p->arena);
    list_del(&p->node);
    mem_free(p);
}

static enum err set_up(struct provider *p, char *message, size_t cap)
{
    const struct mock_conf *c = &p->conf;
    if (!listen_address_parse(bytes_of(c->listen), &p->address)) {
        snprintf(message, cap, "'%s' is not host:port", c->listen);
        return ERR_SYNTAX;
    }
    if (c->cache.ttl_ms > 0)
        p->cache = mock_cache_new(&c->cache);
    if (c->tls_cert != NULL) {
        enum err e = mock_tls_new(c->tls_cert, c->tls_key, &p->tls, message, cap);
        if (e != ERR_OK)
            return e;
    }
    return open_listener(p, message, cap);
}

enum err mock_add(struct mock *m, const struct mock_conf *c, uint16_t *port, char *message, size_t message_cap)
{
    struct provider *p = mem_zalloc(sizeof *p);
    p->mock = m;
    p->fd = -1;
    p->schedule.fn = on_schedule;
    mock_conf_copy(c, &p->arena, &p->conf);
    list_init(&p->conns);
    list_put(&m->providers, &p->node);
    enum err e = set_up(p, message, message_cap);
    if (e != ERR_OK) {
        provider_free(p);
        return e;
    }
    *port = p->address.port;
    provider_reset(p, NULL);
    return ERR_OK;
}

void mock_free(struct mock *m)
{
    LIST_EACH(&m->providers, node)
    close_listener(LIST_ITEM(node, struct provider, node), NULL);
    loop_turn(m->loop, 0);
    LIST_EACH(&m->providers, node)
    provider_free(LIST_ITEM(node, struct provider, node));
    mem_free(m);
}

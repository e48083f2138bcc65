/* c-ares on our loop. It tells which of its sockets it wants to read or write; we watch them and give it a timer.
 *
 * A socket that is only read is watched level-triggered, because c-ares takes one piece of a TCP answer per call. While
 * it wants to write as well (a TCP query being sent) the watch is edge-triggered in both directions; each change
 * registers anew, which shows again whatever is ready. */
#include "net/resolver_impl.h"

#include "base/mem.h"
#include "net/address.h"

#include <ares.h>
#include <pthread.h>
#include <stdio.h>

enum { TIMEOUT_MS = 1000, TRIES = 3 };

struct cares {
    struct name_source source; /* first */
    struct loop *loop;
    ares_channel channel; /* NULL = not needed yet, or c-ares did not start: `message` says why */
    const char *message;
    struct timer timer;
    struct list sockets;
    bool is_ending;
};

struct cares_socket {
    struct list node;
    struct reap reap;
    struct watch watch;
    struct cares *cares;
    ares_socket_t fd;
};

/* A question on its way through c-ares. */
struct cares_question {
    struct cares *cares;
    struct resolver_entry *entry;
};

static void set_timer(struct cares *c)
{
    struct timeval tv;
    if (ares_timeout(c->channel, NULL, &tv) == NULL) {
        timer_cancel(c->loop, &c->timer);
        return;
    }
    uint64_t wait_us = (uint64_t)tv.tv_sec * 1000000 + (uint64_t)tv.tv_usec;
    timer_arm(c->loop, &c->timer, loop_now_us(c->loop) + wait_us + 1);
}

static void on_timer(struct timer *t)
{
    struct cares *c = RM_CONTAINER(t, struct cares, timer);
    ares_process_fd(c->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    set_timer(c);
}

static void on_socket(struct watch *w, unsigned ready)
{
    struct cares_socket *s = RM_CONTAINER(w, struct cares_socket, watch);
    struct cares *c = s->cares;
    ares_process_fd(c->channel, ready & LOOP_READ ? s->fd : ARES_SOCKET_BAD,
                    ready & LOOP_WRITE ? s->fd : ARES_SOCKET_BAD);
    set_timer(c);
}

static void free_socket(struct reap *r)
{
    mem_free(RM_CONTAINER(r, struct cares_socket, reap));
}

static struct cares_socket *find_socket(struct cares *c, ares_socket_t fd)
{
    LIST_EACH(&c->sockets, node)
    {
        struct cares_socket *s = LIST_ITEM(node, struct cares_socket, node);
        if (s->fd == fd)
            return s;
    }
    return NULL;
}

static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct cares *c = arg;
    struct cares_socket *s = find_socket(c, fd);
    if (s != NULL)
        watch_del(c->loop, &s->watch);
    if (!readable && !writable) {
        if (s != NULL) {
            list_del(&s->node);
            loop_reap(c->loop, &s->reap);
        }
        return;
    }
    if (s == NULL) {
        s = mem_zalloc(sizeof *s);
        s->cares = c;
        s->fd = fd;
        s->reap.fn = free_socket;
        list_put(&c->sockets, &s->node);
    }
    s->watch = (struct watch){.fn = on_socket, .fd = fd, .is_level = !writable};
    /* Not watched: the query times out, which is an answer too. */
    if (watch_add(c->loop, &s->watch) != ERR_OK)
        s->watch.fd = -1;
}

/* The smallest TTL of the records; 0 where they come from the hosts file. */
static int64_t collect(const struct ares_addrinfo *info, struct addresses *out)
{
    int64_t ttl_s = INT64_MAX;
    out->n = 0;
    for (const struct ares_addrinfo_node *node = info->nodes; node != NULL; node = node->ai_next) {
        if (out->n == RESOLVER_ADDRESSES_MAX || !address_from(node->ai_addr, &out->v[out->n]))
            continue;
        out->n++;
        if (node->ai_ttl < ttl_s)
            ttl_s = node->ai_ttl;
    }
    for (const struct ares_addrinfo_cname *alias = info->cnames; alias != NULL; alias = alias->next)
        if (alias->ttl < ttl_s)
            ttl_s = alias->ttl;
    return ttl_s;
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
    struct cares_question *q = arg;
    struct resolver_entry *e = q->entry;
    bool is_ending = q->cares->is_ending;
    struct addresses a = {.n = 0};
    int64_t ttl_s = 0;
    mem_free(q);
    if (status == ARES_SUCCESS)
        ttl_s = collect(info, &a);
    if (info != NULL)
        ares_freeaddrinfo(info);
    if (!is_ending)
        resolver_answered(e, &a, ttl_s, status == ARES_SUCCESS ? "the name has no address" : ares_strerror(status));
}

/* c-ares counts its initialisations without a lock, and each core has a resolver: once for the process, kept to its
 * end. */
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void init_library(void)
{
    ares_library_init(ARES_LIB_INIT_ALL);
}

/* At the first question: a channel takes 75 KB, and a gateway whose providers are addresses asks none. */
static bool start(struct cares *c)
{
    struct ares_options options = {
        .timeout = TIMEOUT_MS, .tries = TRIES, .sock_state_cb = on_socket_state, .sock_state_cb_data = c};
    if (c->channel != NULL)
        return true;
    pthread_once(&library_once, init_library);
    int status = ares_init_options(&c->channel, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
    if (status == ARES_SUCCESS)
        return true;
    c->channel = NULL;
    c->message = ares_strerror(status);
    return false;
}

static void cares_ask(struct name_source *source, struct resolver_entry *e, const char *host)
{
    struct cares *c = (struct cares *)source;
    struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    if (!start(c)) {
        resolver_answered(e, NULL, 0, c->message);
        return;
    }
    struct cares_question *q = mem_zalloc(sizeof *q);
    q->cares = c;
    q->entry = e;
    ares_getaddrinfo(c->channel, host, NULL, &hints, on_answer, q);
    set_timer(c);
}

static void cares_free(struct name_source *source)
{
    struct cares *c = (struct cares *)source;
    c->is_ending = true;
    if (c->channel != NULL)
        ares_destroy(c->channel);
    timer_cancel(c->loop, &c->timer);
    RM_ASSERT(list_is_empty(&c->sockets));
    mem_free(c);
}

struct name_source *resolver_cares_new(struct loop *l)
{
    struct cares *c = mem_zalloc(sizeof *c);
    c->source = (struct name_source){.ask = cares_ask, .free = cares_free};
    c->loop = l;
    c->timer.fn = on_timer;
    list_init(&c->sockets);
    return &c->source;
}

enum err resolver_cares_set_servers(struct name_source *source, const char *csv)
{
    struct cares *c = (struct cares *)source;
    if (!start(c) || ares_set_servers_ports_csv(c->channel, csv) != ARES_SUCCESS)
        return ERR_SYNTAX;
    return ERR_OK;
}

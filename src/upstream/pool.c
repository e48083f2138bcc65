/* The pool: one endpoint per place and provider, each with a stack of idle connections (the last used is the warmest,
 * and the rest grow old and go). Where a connection is, is which list it is in:
 *
 *     taken (in no list, its exchange owns it) --put--> idle ----take----> taken
 *                      \--put, message not at its end--> draining --end read--> idle
 *
 * A provider that has sent its terminal event often sends the last chunk a moment later. Waiting for it would delay the
 * answer, closing would cost the next request a handshake: so the rest is read away for a moment, bounded in time and
 * bytes. */
#include "upstream/pool.h"

#include "base/mem.h"
#include "dialect/decode.h"

enum {
    IDLE_US = 55000000,
    DRAIN_US = 250000,
    DRAIN_BYTES_MAX = 65536,
    WARM_US = 10000000,
    IDLE_PER_ENDPOINT_MAX = 128
};

struct endpoint {
    struct pool *pool;
    struct list node;
    struct list idle; /* most recently used first */
    size_t n_idle;
    size_t n_refs; /* connections, wherever they are */
    char *provider, *host, *ca_file;
    uint16_t port;
    bool is_tls;
    struct dial *warming;
    struct tls_context *warming_tls;
    struct timer warm_timer;
    struct answer_form *form; /* of the last whole answer, NULL = none is known */
};

struct pooled {
    struct endpoint *endpoint;
    struct client_conn *conn;
    struct list node;
    union {
        struct timer
            timer; /* idle or draining. While it is taken an older time may still be armed, which means nothing */
        struct reap reap; /* once it is closed */
    };
    uint64_t until_us; /* idle or draining for so long; 0 = neither */
    uint32_t n_drained;
    bool is_idle;
};

/* ---- endpoints ---- */

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool is_of(const struct endpoint *e, const struct provider_conf *p)
{
    return e->port == p->url.port && e->is_tls == p->url.is_tls && same_text(e->host, p->url.host) &&
           same_text(e->provider, p->name) && same_text(e->ca_file, p->ca_file);
}

static struct endpoint *find(struct pool *pool, const struct provider_conf *p)
{
    LIST_EACH(&pool->endpoints, node)
    {
        struct endpoint *e = LIST_ITEM(node, struct endpoint, node);
        if (is_of(e, p))
            return e;
    }
    return NULL;
}

static char *dup_text(const char *s)
{
    return s == NULL ? NULL : mem_dup(s, strlen(s));
}

static void on_warm_late(struct timer *t);

static struct endpoint *find_or_make(struct pool *pool, const struct provider_conf *p)
{
    struct endpoint *e = find(pool, p);
    if (e != NULL)
        return e;
    e = mem_zalloc(sizeof *e);
    e->pool = pool;
    e->provider = dup_text(p->name);
    e->host = dup_text(p->url.host);
    e->ca_file = dup_text(p->ca_file);
    e->port = p->url.port;
    e->is_tls = p->url.is_tls;
    e->warm_timer.fn = on_warm_late;
    list_init(&e->idle);
    list_put(&pool->endpoints, &e->node);
    return e;
}

static void stop_warming(struct endpoint *e)
{
    timer_cancel(e->pool->loop, &e->warm_timer);
    if (e->warming != NULL)
        dial_cancel(e->warming);
    e->warming = NULL;
    if (e->warming_tls != NULL)
        tls_context_unref(e->warming_tls);
    e->warming_tls = NULL;
}

static void endpoint_free(struct endpoint *e)
{
    RM_ASSERT(e->n_refs == 0 && e->warming == NULL);
    list_del(&e->node);
    mem_free(e->provider);
    mem_free(e->host);
    mem_free(e->ca_file);
    answer_form_free(e->form);
    mem_free(e);
}

/* ---- connections ---- */

static void release(struct reap *r)
{
    mem_free(RM_CONTAINER(r, struct pooled, reap));
}

static void leave_lists(struct pooled *c)
{
    c->until_us = 0;
    list_del(&c->node);
    if (c->is_idle) {
        c->is_idle = false;
        c->endpoint->n_idle--;
        c->endpoint->pool->n_idle--;
    }
}

struct client_conn *pooled_conn(struct pooled *c)
{
    return c->conn;
}

struct answer_form **pooled_form(struct pooled *c)
{
    return &c->endpoint->form;
}

void pooled_close(struct pooled *c)
{
    struct loop *l = c->endpoint->pool->loop;
    leave_lists(c);
    timer_cancel(l, &c->timer);
    client_conn_close(c->conn);
    c->conn = NULL;
    c->endpoint->n_refs--;
    c->reap = (struct reap){.fn = release};
    loop_reap(l, &c->reap);
}

static void on_stale(struct client_conn *conn, void *arg)
{
    pooled_close(arg);
}

/* Most connections are taken again long before: a timer that is armed for an earlier time stays, and is armed again. */
static void stay_until(struct pooled *c, uint64_t us)
{
    c->until_us = us;
    if (!timer_is_armed(&c->timer) || us < c->timer.at_us)
        timer_arm(c->endpoint->pool->loop, &c->timer, us);
}

static void on_time(struct timer *t)
{
    struct pooled *c = RM_CONTAINER(t, struct pooled, timer);
    struct loop *l = c->endpoint->pool->loop;
    if (c->until_us > loop_now_us(l))
        timer_arm(l, t, c->until_us);
    else if (c->until_us != 0)
        pooled_close(c);
}

struct pooled *pool_adopt(struct pool *p, const struct provider_conf *provider, struct stream *s)
{
    struct pooled *c = mem_zalloc(sizeof *c);
    c->endpoint = find_or_make(p, provider);
    c->endpoint->n_refs++;
    c->conn = client_conn_new(p->loop, s);
    client_conn_share_reads(c->conn, p->reads);
    c->timer.fn = on_time;
    list_init(&c->node);
    return c;
}

struct pooled *pool_take(struct pool *p, const struct provider_conf *provider)
{
    struct endpoint *e = provider == p->last ? p->last_endpoint : find(p, provider);
    if (e != NULL) {
        p->last = provider;
        p->last_endpoint = e;
    }
    while (e != NULL && !list_is_empty(&e->idle)) {
        struct pooled *c = LIST_ITEM(e->idle.next, struct pooled, node);
        if (!client_conn_is_stale(c->conn)) {
            leave_lists(c);
            return c;
        }
        pooled_close(c);
    }
    return NULL;
}

static void make_idle(struct pooled *c)
{
    struct endpoint *e = c->endpoint;
    leave_lists(c);
    if (e->n_idle >= IDLE_PER_ENDPOINT_MAX || !client_conn_idle(c->conn, on_stale, c)) {
        pooled_close(c);
        return;
    }
    list_push(&e->idle, &c->node);
    c->is_idle = true;
    e->n_idle++;
    e->pool->n_idle++;
    stay_until(c, loop_now_us(e->pool->loop) + IDLE_US);
}

/* Reads the rest away. False: the end has not come yet. */
static bool drain_ends(struct pooled *c)
{
    struct client_event ev;
    do {
        client_conn_next(c->conn, &ev);
        c->n_drained += ev.body.n;
    } while (ev.kind != CLIENT_NOTHING && ev.kind != CLIENT_END && ev.kind != CLIENT_BROKEN && ev.kind != CLIENT_BAD &&
             c->n_drained <= DRAIN_BYTES_MAX);
    if (ev.kind == CLIENT_NOTHING)
        return false;
    if (ev.kind == CLIENT_END && client_conn_is_reusable(c->conn))
        make_idle(c);
    else
        pooled_close(c);
    return true;
}

static void on_drain_ready(struct client_conn *conn, void *arg)
{
    drain_ends(arg);
}

void pooled_put(struct pooled *c)
{
    struct pool *p = c->endpoint->pool;
    if (client_conn_is_reusable(c->conn)) {
        make_idle(c);
        return;
    }
    client_conn_resume(c->conn);
    client_conn_tell(c->conn, on_drain_ready, c);
    c->n_drained = 0;
    if (drain_ends(c))
        return;
    list_put(&p->draining, &c->node);
    stay_until(c, loop_now_us(p->loop) + DRAIN_US);
}

/* ---- warming and pruning ---- */

static void on_warm_late(struct timer *t)
{
    stop_warming(RM_CONTAINER(t, struct endpoint, warm_timer));
}

static void on_warmed(const struct dial_result *r, void *arg)
{
    struct endpoint *e = arg;
    struct provider_conf like = {
        .name = e->provider, .url = {.is_tls = e->is_tls, .host = e->host, .port = e->port}, .ca_file = e->ca_file};
    e->warming = NULL;
    stop_warming(e);
    if (r->failure == DIAL_OK)
        make_idle(pool_adopt(e->pool, &like, r->stream));
}

static void close_stale(struct endpoint *e)
{
    LIST_EACH(&e->idle, node)
    {
        struct pooled *c = LIST_ITEM(node, struct pooled, node);
        if (client_conn_is_stale(c->conn))
            pooled_close(c);
    }
}

void pool_warm(struct pool *p, const struct provider_conf *provider)
{
    struct endpoint *e = find_or_make(p, provider);
    close_stale(e);
    if (!list_is_empty(&e->idle) || e->warming != NULL)
        return;
    struct tls_context *tls = provider->tls;
    e->warming_tls = tls == NULL ? NULL : tls_context_ref(tls);
    e->warming = dial_start(p->loop, p->resolver, tls, e->host, e->port, on_warmed, e);
    timer_arm(p->loop, &e->warm_timer, loop_now_us(p->loop) + WARM_US);
}

static bool has_endpoint(const struct config *now, const struct endpoint *e)
{
    for (size_t i = 0; now != NULL && i < now->n_providers; i++)
        if (is_of(e, &now->providers[i]))
            return true;
    return false;
}

void pool_prune(struct pool *p, const struct config *now)
{
    p->last = NULL;
    LIST_EACH(&p->endpoints, node)
    {
        struct endpoint *e = LIST_ITEM(node, struct endpoint, node);
        if (has_endpoint(now, e))
            continue;
        stop_warming(e);
        while (!list_is_empty(&e->idle))
            pooled_close(LIST_ITEM(e->idle.next, struct pooled, node));
        if (e->n_refs == 0)
            endpoint_free(e);
    }
}

void pool_init(struct pool *p, struct loop *l, struct resolver *r)
{
    *p = (struct pool){.loop = l, .resolver = r, .reads = readbufs_new()};
    list_init(&p->endpoints);
    list_init(&p->draining);
}

void pool_fini(struct pool *p)
{
    while (!list_is_empty(&p->draining))
        pooled_close(LIST_ITEM(p->draining.next, struct pooled, node));
    pool_prune(p, NULL);
    RM_ASSERT(list_is_empty(&p->endpoints));
    readbufs_free(p->reads);
}

/* The cache of names, one per loop.
 *
 *     ask --fresh--------------------------------------> ready ---task---> fn
 *      '---unknown or expired--> waiting --answer------> ready
 *                                   '--STALE_WAIT, if there is a last good answer--> ready
 *
 * A name that was asked for since its last answer is asked again at four fifths of its TTL, so a name in use never
 * makes a request wait. When that fails the last good answer is kept: a name server's bad hour is not a provider's. */
#include "net/resolver_impl.h"

#include "base/bytes.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { ENTRIES_MAX = 256, TTL_MIN_S = 1, TTL_MAX_S = 300 };
#define SECOND_US UINT64_C(1000000)
#define LAST_GOOD_US (5 * SECOND_US)  /* how long a last good answer counts as fresh after a failure */
#define STALE_WAIT_US (SECOND_US / 2) /* how long a question waits for a new answer where an old one exists */

struct resolver {
    struct loop *loop;
    struct name_source *source;
    enum resolver_kind kind;
    struct list entries; /* least recently asked first */
    int n_entries;
};

struct resolver_entry {
    struct list node;
    struct resolver *resolver;
    struct list waiting, ready; /* questions */
    struct task deliver;
    struct timer refresh, stale;
    struct addresses addresses; /* the last good answer */
    uint64_t fresh_until_us;
    bool has_answer, is_asking, was_asked_for;
    char message[128]; /* of the last failure */
    char host[RESOLVER_HOST_BYTES];
};

struct resolve {
    struct list node;
    resolve_fn *fn;
    void *arg;
};

static void make_ready(struct resolver_entry *e)
{
    struct list *node;
    timer_cancel(e->resolver->loop, &e->stale);
    while ((node = list_take(&e->waiting)) != NULL)
        list_put(&e->ready, node);
    if (!list_is_empty(&e->ready))
        loop_post(e->resolver->loop, &e->deliver);
}

static void deliver(struct task *t)
{
    struct resolver_entry *e = RM_CONTAINER(t, struct resolver_entry, deliver);
    /* Questions that a handler asks meanwhile come in the next round of the queue. */
    struct list batch, *node;
    list_init(&batch);
    while ((node = list_take(&e->ready)) != NULL)
        list_put(&batch, node);
    struct addresses copy = e->addresses;
    char message[sizeof e->message];
    memcpy(message, e->message, sizeof message);
    bool has_answer = e->has_answer;
    while ((node = list_take(&batch)) != NULL) {
        struct resolve *q = LIST_ITEM(node, struct resolve, node);
        resolve_fn *fn = q->fn;
        void *arg = q->arg;
        mem_free(q);
        fn(has_answer ? &copy : NULL, has_answer ? "" : message, arg);
    }
}

static void start(struct resolver_entry *e)
{
    if (e->is_asking)
        return;
    e->is_asking = true;
    e->was_asked_for = false;
    e->resolver->source->ask(e->resolver->source, e, e->host);
}

static void on_refresh(struct timer *t)
{
    struct resolver_entry *e = RM_CONTAINER(t, struct resolver_entry, refresh);
    if (e->was_asked_for)
        start(e);
}

static void on_stale(struct timer *t)
{
    struct resolver_entry *e = RM_CONTAINER(t, struct resolver_entry, stale);
    make_ready(e);
}

/* The present answer counts as fresh for span_us. */
static void keep(struct resolver_entry *e, uint64_t span_us)
{
    struct loop *l = e->resolver->loop;
    uint64_t now_us = loop_now_us(l);
    e->fresh_until_us = now_us + span_us;
    timer_arm(l, &e->refresh, now_us + span_us / 5 * 4);
}

void resolver_answered(struct resolver_entry *e, const struct addresses *a, int64_t ttl_s, const char *message)
{
    RM_ASSERT(e->is_asking);
    e->is_asking = false;
    if (a != NULL && a->n > 0) {
        int64_t kept_s = ttl_s < TTL_MIN_S ? TTL_MIN_S : ttl_s > TTL_MAX_S ? TTL_MAX_S : ttl_s;
        e->addresses = *a;
        e->has_answer = true;
        keep(e, (uint64_t)kept_s * SECOND_US);
    } else {
        snprintf(e->message, sizeof e->message, "%s", message);
        if (e->has_answer)
            keep(e, LAST_GOOD_US);
    }
    make_ready(e);
}

static struct resolver_entry *entry_find(struct resolver *r, const char *host)
{
    LIST_EACH(&r->entries, node)
    {
        struct resolver_entry *e = LIST_ITEM(node, struct resolver_entry, node);
        if (bytes_eq_nocase(bytes_of(e->host), bytes_of(host)))
            return e;
    }
    return NULL;
}

static void entry_free(struct resolver_entry *e)
{
    struct loop *l = e->resolver->loop;
    struct list *node;
    timer_cancel(l, &e->refresh);
    timer_cancel(l, &e->stale);
    task_cancel(&e->deliver);
    while ((node = list_take(&e->waiting)) != NULL || (node = list_take(&e->ready)) != NULL)
        mem_free(LIST_ITEM(node, struct resolve, node));
    list_del(&e->node);
    e->resolver->n_entries--;
    mem_free(e);
}

static bool is_idle(const struct resolver_entry *e)
{
    return !e->is_asking && list_is_empty(&e->waiting) && list_is_empty(&e->ready);
}

static void make_room(struct resolver *r)
{
    LIST_EACH(&r->entries, node)
    {
        struct resolver_entry *e = LIST_ITEM(node, struct resolver_entry, node);
        if (r->n_entries < ENTRIES_MAX)
            return;
        if (is_idle(e))
            entry_free(e);
    }
}

static struct resolver_entry *entry_new(struct resolver *r, const char *host)
{
    struct resolver_entry *e = mem_zalloc(sizeof *e);
    make_room(r);
    r->n_entries++;
    e->resolver = r;
    list_init(&e->waiting);
    list_init(&e->ready);
    e->deliver.fn = deliver;
    list_init(&e->deliver.node);
    e->refresh.fn = on_refresh;
    e->stale.fn = on_stale;
    snprintf(e->host, sizeof e->host, "%s", host);
    list_put(&r->entries, &e->node);
    return e;
}

struct resolver *resolver_new(struct loop *l, enum resolver_kind kind)
{
    struct resolver *r = mem_zalloc_lines(sizeof *r);
    r->loop = l;
    r->kind = kind;
    list_init(&r->entries);
    r->source = kind == RESOLVER_CARES ? resolver_cares_new(l) : resolver_system_new(l);
    return r;
}

void resolver_free(struct resolver *r)
{
    if (r == NULL)
        return;
    r->source->free(r->source);
    LIST_EACH(&r->entries, node)
    entry_free(LIST_ITEM(node, struct resolver_entry, node));
    mem_free(r);
}

enum err resolver_set_servers(struct resolver *r, const char *csv)
{
    return r->kind == RESOLVER_CARES ? resolver_cares_set_servers(r->source, csv) : ERR_UNSUPPORTED;
}

struct resolve *resolver_ask(struct resolver *r, const char *host, resolve_fn *fn, void *arg)
{
    struct resolve *q = mem_zalloc(sizeof *q);
    struct resolver_entry *e = entry_find(r, host);
    q->fn = fn;
    q->arg = arg;
    if (e == NULL)
        e = entry_new(r, host);
    list_del(&e->node); /* to the end: recently asked */
    list_put(&r->entries, &e->node);
    list_put(&e->waiting, &q->node);
    if (e->has_answer && loop_now_us(r->loop) < e->fresh_until_us) {
        e->was_asked_for = true;
        make_ready(e);
        return q;
    }
    if (e->has_answer && !timer_is_armed(&e->stale))
        timer_arm(r->loop, &e->stale, loop_now_us(r->loop) + STALE_WAIT_US);
    start(e);
    e->was_asked_for = true;
    return q;
}

void resolve_cancel(struct resolve *q)
{
    if (q == NULL)
        return;
    list_del(&q->node);
    mem_free(q);
}

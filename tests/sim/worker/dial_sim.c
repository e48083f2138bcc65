/* Link-time seam for net/dial.h and net/resolver.h: names lead to scripted providers, connections are in-memory
 * pipes. */
#include "net/dial.h"

#include "base/mem.h"
#include "provider.h"

#include <stdio.h>

struct resolver {
    struct net_sim *net;
};

struct dial {
    struct provider *provider; /* NULL = a name that nobody has */
    struct loop *loop;
    struct timer timer; /* the connection takes time; */
    struct task task;   /* … or none */
    struct reap reap;
    dial_fn *fn;
    void *arg;
};

struct resolver *resolver_new(struct loop *l, enum resolver_kind kind)
{
    (void)l;
    (void)kind;
    return mem_zalloc(sizeof(struct resolver));
}

void resolver_free(struct resolver *r)
{
    mem_free(r);
}

void net_sim_attach(struct resolver *r, struct net_sim *net)
{
    r->net = net;
}

static void give_back(struct reap *r)
{
    mem_count(MEM_CONN, -1);
    mem_free(RM_CONTAINER(r, struct dial, reap));
}

static void end(struct dial *d)
{
    timer_cancel(d->loop, &d->timer);
    task_cancel(&d->task);
    loop_reap(d->loop, &d->reap);
}

static void decide(struct dial *d)
{
    struct dial_result r = {.failure = DIAL_DNS};
    if (d->provider != NULL && d->provider->connecting == CONNECTING_REFUSED)
        r.failure = DIAL_REFUSED;
    if (d->provider != NULL && d->provider->connecting == CONNECTING_WORKS) {
        struct stream *theirs;
        r.failure = DIAL_OK;
        stream_pipe(d->loop, d->provider->pipe_bytes, &r.stream, &theirs);
        (void)peer_new(d->provider, d->loop, theirs);
    }
    snprintf(r.message, sizeof r.message, "%s", r.failure == DIAL_OK ? "" : "as scripted");
    end(d);
    d->fn(&r, d->arg);
}

static void on_timer(struct timer *t)
{
    decide(RM_CONTAINER(t, struct dial, timer));
}

static void on_task(struct task *t)
{
    decide(RM_CONTAINER(t, struct dial, task));
}

static struct provider *find(struct net_sim *net, const char *host)
{
    char name[32];
    for (size_t i = 0; net != NULL && i < net->n_providers; i++) {
        snprintf(name, sizeof name, "%s.test", net->providers[i].name);
        if (strcmp(name, host) == 0)
            return &net->providers[i];
    }
    return NULL;
}

struct dial *dial_start(struct loop *l, struct resolver *r, struct tls_context *tls, const char *host, uint16_t port,
                        dial_fn *fn, void *arg)
{
    RM_ASSERT(tls == NULL && port != 0);
    struct dial *d = mem_zalloc(sizeof *d);
    mem_count(MEM_CONN, 1);
    d->provider = find(r->net, host);
    d->loop = l;
    d->timer.fn = on_timer;
    d->task.fn = on_task;
    list_init(&d->task.node);
    d->reap.fn = give_back;
    d->fn = fn;
    d->arg = arg;
    if (d->provider != NULL)
        d->provider->n_dials++;
    if (d->provider == NULL || (d->provider->connecting != CONNECTING_SILENT && d->provider->connect_us == 0))
        loop_post(l, &d->task);
    else if (d->provider->connecting != CONNECTING_SILENT)
        timer_arm(l, &d->timer, loop_now_us(l) + d->provider->connect_us);
    return d;
}

void dial_cancel(struct dial *d)
{
    if (d == NULL)
        return;
    if (d->provider != NULL)
        d->provider->n_dials_cancelled++;
    end(d);
}

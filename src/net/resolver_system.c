/* `resolver: system`: getaddrinfo, which knows every NSS module but blocks. Each question gets a thread of its own, so
 * that a name whose server hangs does not hold up another; there is at most one question per name at a time.
 *
 * A thread may outlast the resolver. What both touch is `struct office`: reference counted, its loop is NULL once the
 * resolver has gone, and a thread looks at it and sends its mail under the lock. */
#include "net/resolver_impl.h"

#include "base/mem.h"
#include "net/address.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

enum { SYSTEM_TTL_S = 30 };

struct office {
    pthread_mutex_t lock;
    struct loop *loop; /* NULL = closed */
    int n_refs;
};

struct system_source {
    struct name_source source; /* first */
    struct office *office;
};

struct errand {
    struct mail mail;
    struct office *office;
    struct resolver_entry *entry;
    int status; /* getaddrinfo's */
    struct addresses addresses;
    char host[RESOLVER_HOST_BYTES];
};

static void office_unref(struct office *o)
{
    pthread_mutex_lock(&o->lock);
    int left = --o->n_refs;
    pthread_mutex_unlock(&o->lock);
    if (left > 0)
        return;
    pthread_mutex_destroy(&o->lock);
    mem_free(o);
}

static void on_return(struct mail *m)
{
    struct errand *x = RM_CONTAINER(m, struct errand, mail);
    /* Only this thread closes the office, so no lock is needed to look. */
    if (x->office->loop != NULL)
        resolver_answered(x->entry, x->status == 0 ? &x->addresses : NULL, SYSTEM_TTL_S,
                          x->status == 0 ? "the name has no address" : gai_strerror(x->status));
    office_unref(x->office);
    mem_free(x);
}

static void *look_up(void *arg)
{
    struct errand *x = arg;
    struct office *o = x->office;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    x->status = getaddrinfo(x->host, NULL, &hints, &found);
    for (const struct addrinfo *a = x->status == 0 ? found : NULL; a != NULL; a = a->ai_next)
        if (x->addresses.n < RESOLVER_ADDRESSES_MAX && address_from(a->ai_addr, &x->addresses.v[x->addresses.n]))
            x->addresses.n++;
    if (x->status == 0)
        freeaddrinfo(found);
    pthread_mutex_lock(&o->lock);
    bool is_sent = o->loop != NULL;
    if (is_sent)
        loop_mail(o->loop, &x->mail);
    pthread_mutex_unlock(&o->lock);
    if (!is_sent) {
        office_unref(o);
        mem_free(x);
    }
    return NULL;
}

/* Signals are main's business: the thread blocks them all. */
static bool send_thread(struct errand *x)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool ok = pthread_create(&thread, &attr, look_up, x) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return ok;
}

static void system_ask(struct name_source *source, struct resolver_entry *e, const char *host)
{
    struct office *o = ((struct system_source *)source)->office;
    struct errand *x = mem_zalloc(sizeof *x);
    x->mail.fn = on_return;
    x->office = o;
    x->entry = e;
    snprintf(x->host, sizeof x->host, "%s", host);
    pthread_mutex_lock(&o->lock);
    o->n_refs++;
    pthread_mutex_unlock(&o->lock);
    if (send_thread(x))
        return;
    office_unref(o);
    mem_free(x);
    resolver_answered(e, NULL, 0, "no thread for the lookup");
}

static void system_free(struct name_source *source)
{
    struct system_source *s = (struct system_source *)source;
    pthread_mutex_lock(&s->office->lock);
    s->office->loop = NULL;
    pthread_mutex_unlock(&s->office->lock);
    office_unref(s->office);
    mem_free(s);
}

struct name_source *resolver_system_new(struct loop *l)
{
    struct system_source *s = mem_zalloc(sizeof *s);
    s->source = (struct name_source){.ask = system_ask, .free = system_free};
    s->office = mem_zalloc(sizeof *s->office);
    pthread_mutex_init(&s->office->lock, NULL);
    s->office->loop = l;
    s->office->n_refs = 1;
    return &s->source;
}

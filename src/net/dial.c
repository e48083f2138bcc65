/* From a name to a usable stream:
 *
 *     resolve -> race -> [TLS] -> fn
 *
 * The race follows RFC 8305: addresses in the resolver's order with the families interleaved; the next one starts when
 * the last has been silent for 250 ms, or at once when it was refused. The first to connect wins, the others are
 * dropped. A TLS failure ends the dial: the address has answered, so another would be the same host. */
#include "net/dial.h"

#include "base/mem.h"
#include "net/address.h"
#include "net/resolver_impl.h"
#include "net/stream_impl.h"
#include "net/tcp.h"

#include <errno.h>
#include <stdio.h>

#define NEXT_ADDRESS_US UINT64_C(250000)

struct attempt_at {
    struct dial *dial;
    struct stream *stream; /* NULL = not started, or over */
};

struct dial {
    struct loop *loop;
    struct tls_context *tls; /* NULL = plain */
    dial_fn *fn;
    void *arg;
    struct resolve *question; /* NULL = answered or not needed */
    struct task begin;
    struct timer next_timer;
    struct reap reap;
    struct addresses addresses; /* in the order of trying */
    int n_started, n_running;
    struct attempt_at attempts[RESOLVER_ADDRESSES_MAX];
    struct stream *tls_stream;
    int last_errno;
    bool is_over;
    bool lacked_descriptors;
    uint16_t port;
    char host[RESOLVER_HOST_BYTES];
};

static void start_next(struct dial *d);

static void give_back(struct reap *r)
{
    struct dial *d = RM_CONTAINER(r, struct dial, reap);
    mem_count(MEM_CONN, -1);
    mem_free(d);
}

static void drop_attempts(struct dial *d)
{
    for (int i = 0; i < d->n_started; i++) {
        struct stream *s = d->attempts[i].stream;
        d->attempts[i].stream = NULL;
        if (s != NULL)
            stream_close(s, true);
    }
    d->n_running = 0;
}

/* After this the dial is only memory that waits for the end of the turn. */
static void end(struct dial *d)
{
    RM_ASSERT(!d->is_over);
    d->is_over = true;
    resolve_cancel(d->question);
    d->question = NULL;
    task_cancel(&d->begin);
    timer_cancel(d->loop, &d->next_timer);
    drop_attempts(d);
    if (d->tls != NULL)
        tls_context_unref(d->tls);
    loop_reap(d->loop, &d->reap);
}

static void succeed(struct dial *d, struct stream *s)
{
    struct dial_result r = {.stream = s, .failure = DIAL_OK};
    d->tls_stream = NULL;
    end(d);
    d->fn(&r, d->arg);
}

static void fail(struct dial *d, enum dial_failure failure, const char *about, const char *why)
{
    struct dial_result r = {.failure = failure};
    snprintf(r.message, sizeof r.message, "%s: %s", about, why);
    end(d);
    d->fn(&r, d->arg);
}

static void on_tls(struct stream *s, const char *message, void *arg)
{
    struct dial *d = arg;
    char why[128];
    if (message == NULL) {
        succeed(d, s);
        return;
    }
    snprintf(why, sizeof why, "%s", message);
    d->tls_stream = NULL;
    stream_close(s, true);
    fail(d, DIAL_TLS, d->host, why);
}

static void win(struct attempt_at *a, unsigned ready)
{
    struct dial *d = a->dial;
    struct stream *s = a->stream;
    a->stream = NULL;
    timer_cancel(d->loop, &d->next_timer);
    drop_attempts(d);
    stream_on_ready(s, NULL, NULL);
    stream_raise(s, ready | LOOP_WRITE); /* for the next owner: we have used up the edge */
    if (d->tls == NULL)
        succeed(d, s);
    else
        d->tls_stream = tls_connect(d->loop, d->tls, s, d->host, on_tls, d);
}

static void note_failure(struct dial *d, int e)
{
    if (e == EMFILE || e == ENFILE)
        d->lacked_descriptors = true;
    d->last_errno = e;
}

static void on_connecting(struct stream *s, unsigned ready, void *arg)
{
    struct attempt_at *a = arg;
    struct dial *d = a->dial;
    int e = tcp_connect_result(s);
    if (e == EINPROGRESS)
        return;
    if (e == 0) {
        win(a, ready);
        return;
    }
    a->stream = NULL;
    d->n_running--;
    stream_close(s, true);
    note_failure(d, e);
    start_next(d);
}

static void all_failed(struct dial *d)
{
    char about[RESOLVER_HOST_BYTES + 8];
    snprintf(about, sizeof about, "%s:%u", d->host, d->port);
    fail(d, d->lacked_descriptors ? DIAL_NO_DESCRIPTORS : DIAL_REFUSED, about, stream_errno_text(d->last_errno));
}

/* Starts the next address that can be started; without one, and with none running, the dial has failed. */
static void start_next(struct dial *d)
{
    timer_cancel(d->loop, &d->next_timer);
    while (d->n_started < d->addresses.n) {
        int i = d->n_started++;
        struct attempt_at *a = &d->attempts[i];
        int e = 0;
        a->dial = d;
        if (tcp_connect(d->loop, &d->addresses.v[i], &a->stream, &e) != ERR_OK) {
            note_failure(d, e);
            continue;
        }
        d->n_running++;
        stream_on_ready(a->stream, on_connecting, a);
        if (d->n_started < d->addresses.n)
            timer_arm(d->loop, &d->next_timer, loop_now_us(d->loop) + NEXT_ADDRESS_US);
        return;
    }
    if (d->n_running == 0)
        all_failed(d);
}

static void on_next_timer(struct timer *t)
{
    start_next(RM_CONTAINER(t, struct dial, next_timer));
}

static void on_begin(struct task *t)
{
    start_next(RM_CONTAINER(t, struct dial, begin));
}

/* The order stays within each family; the family of the first address begins. */
static void interleave(const struct addresses *from, uint16_t port, struct addresses *to)
{
    bool taken[RESOLVER_ADDRESSES_MAX] = {false};
    int family = from->n > 0 ? from->v[0].sa.ss_family : AF_UNSPEC;
    to->n = 0;
    while (to->n < from->n) {
        int pick = -1;
        for (int i = 0; i < from->n; i++) {
            if (taken[i])
                continue;
            if (pick < 0 || (from->v[i].sa.ss_family == family && from->v[pick].sa.ss_family != family))
                pick = i;
        }
        taken[pick] = true;
        to->v[to->n] = from->v[pick];
        address_set_port(&to->v[to->n++], port);
        family = from->v[pick].sa.ss_family == AF_INET ? AF_INET6 : AF_INET;
    }
}

static void on_resolved(const struct addresses *a, const char *message, void *arg)
{
    struct dial *d = arg;
    d->question = NULL;
    if (a == NULL) {
        fail(d, DIAL_DNS, d->host, message);
        return;
    }
    interleave(a, d->port, &d->addresses);
    start_next(d);
}

struct dial *dial_start(struct loop *l, struct resolver *r, struct tls_context *tls, const char *host, uint16_t port,
                        dial_fn *fn, void *arg)
{
    struct dial *d = mem_zalloc(sizeof *d);
    struct addresses literal = {.n = 1};
    mem_count(MEM_CONN, 1);
    d->loop = l;
    d->tls = tls != NULL ? tls_context_ref(tls) : NULL;
    d->fn = fn;
    d->arg = arg;
    d->port = port;
    d->begin.fn = on_begin;
    list_init(&d->begin.node);
    d->next_timer.fn = on_next_timer;
    d->reap.fn = give_back;
    snprintf(d->host, sizeof d->host, "%s", host);
    if (address_parse(host, &literal.v[0])) {
        interleave(&literal, port, &d->addresses);
        loop_post(l, &d->begin);
    } else {
        d->question = resolver_ask(r, host, on_resolved, d);
    }
    return d;
}

void dial_cancel(struct dial *d)
{
    if (d == NULL)
        return;
    struct stream *s = d->tls_stream;
    d->tls_stream = NULL;
    if (s != NULL)
        stream_close(s, true);
    end(d);
}

#include "net/acceptor.h"

#include "net/listen.h"

enum { ACCEPTS_A_TURN = 64, PAUSE_US = 100000 };

static void resume(struct timer *t)
{
    struct acceptor *a = RM_CONTAINER(t, struct acceptor, pause);
    a->watch.fd = a->fd;
    if (watch_add(a->loop, &a->watch) != ERR_OK)
        timer_arm(a->loop, t, loop_now_us(a->loop) + PAUSE_US);
}

static void pause_accepting(struct acceptor *a)
{
    bool is_news = !a->is_short;
    a->is_short = true;
    watch_del(a->loop, &a->watch);
    timer_arm(a->loop, &a->pause, loop_now_us(a->loop) + PAUSE_US);
    if (a->on_short != NULL)
        a->on_short(a, is_news);
}

static void on_ready(struct watch *w, unsigned ready)
{
    (void)ready;
    struct acceptor *a = RM_CONTAINER(w, struct acceptor, watch);
    for (int i = 0; i < ACCEPTS_A_TURN && a->watch.fd >= 0; i++) {
        int fd = listen_accept(a->fd);
        if (fd == -2)
            pause_accepting(a);
        if (fd < 0)
            return;
        a->is_short = false;
        struct stream *s;
        if (stream_accept(a->loop, fd, &s) == ERR_OK)
            a->on_stream(a, s);
    }
}

enum err acceptor_open(struct acceptor *a, struct loop *l, int fd)
{
    RM_ASSERT(a->on_stream != NULL);
    a->loop = l;
    a->fd = fd;
    a->is_short = false;
    a->watch = (struct watch){.fn = on_ready, .fd = fd, .is_level = true};
    a->pause = (struct timer){.fn = resume};
    return watch_add(l, &a->watch);
}

void acceptor_close(struct acceptor *a)
{
    if (a->loop == NULL)
        return;
    timer_cancel(a->loop, &a->pause);
    watch_del(a->loop, &a->watch);
}

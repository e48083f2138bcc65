/* The real loop: epoll, edge-triggered, one registration per descriptor for its whole life.
 *
 * epoll hands out up to EVENTS_MAX events a turn; they are read ahead in small groups and called one after another, and
 * a watch that is deleted meanwhile is struck from the rest of the batch. Other threads wake the loop through an
 * eventfd, which is a watch like any other. A wait is exact to a microsecond where the kernel has epoll_pwait2
 * (Linux 5.11), else rounded up to a whole millisecond: a timer is never early. */
#include "loop/loop.h"

#include "base/mem.h"
#include "loop/kernel.h"
#include "loop/turn.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Of a turn: their handlers run, then what they left for the turn's end, while what they have in hand is still in the
 * processor's cache. */
enum { EVENTS_MAX = 64, AHEAD_MAX = 16 /* events of which is read ahead at a time: each may take a buffer */ };
#define WAIT_MAX_US (UINT64_C(3600) * 1000000)
/* A timer that is further away is waited for by the turn's own clock, half of this short and in whole milliseconds;
 * then the clock is read. */
#define FAR_US UINT64_C(200000)

struct loop {
    struct turn turn; /* first: turn.c relies on it */
    int epoll_fd;
    int wake_fd; /* written from any thread, hence apart from the watch */
    struct watch wake;
    size_t n_watches;
    _Atomic bool stops;
    bool is_coarse;           /* the kernel, or a filter of the container's, knows milliseconds only */
    int n_events, next_event; /* the batch being called: [next_event, n_events) is still to come */
    struct epoll_event events[EVENTS_MAX];
};
_Static_assert(offsetof(struct loop, turn) == 0, "turn.c takes a loop for its turn");

static uint64_t clock_read_us(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t loop_clock_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

int64_t loop_wall_ms(const struct loop *l)
{
    return (int64_t)(clock_read_us(CLOCK_REALTIME) / 1000);
}

static void on_wake(struct watch *w, unsigned ready)
{
    struct loop *l = RM_CONTAINER(w, struct loop, wake);
    uint64_t count;
    /* Emptied first: mail that comes after the exchange in turn_deliver writes again. */
    ssize_t n = read(l->wake_fd, &count, sizeof count);
    (void)n;
    turn_deliver(&l->turn);
}

static void wake(struct loop *l)
{
    uint64_t one = 1;
    ssize_t n = write(l->wake_fd, &one, sizeof one);
    (void)n; /* EAGAIN: the counter is full, so it wakes anyway */
}

static void close_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

struct loop *loop_new(void)
{
    struct loop *l = mem_zalloc_lines(sizeof *l);
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->wake_fd = l->epoll_fd >= 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    l->wake = (struct watch){.fn = on_wake, .fd = l->wake_fd, .is_level = true};
    if (l->wake_fd < 0 || watch_add(l, &l->wake) != ERR_OK) {
        int why = errno;
        close_open(l->wake_fd);
        close_open(l->epoll_fd);
        mem_free(l);
        errno = why;
        return NULL;
    }
    turn_init(&l->turn, loop_clock_us());
    return l;
}

void loop_free(struct loop *l)
{
    if (l == NULL)
        return;
    turn_fini(&l->turn);
    watch_del(l, &l->wake);
    RM_ASSERT(l->n_watches == 0);
    close(l->wake_fd);
    close(l->epoll_fd);
    mem_free(l);
}

enum err watch_add(struct loop *l, struct watch *w)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = w};
    RM_ASSERT(w->fn != NULL && w->fd >= 0);
    w->has_read = false;
    if (!w->is_level)
        ev.events |= EPOLLOUT | EPOLLRDHUP | EPOLLET;
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, w->fd, &ev) != 0) {
        w->fd = -1;
        return ERR_IO;
    }
    l->n_watches++;
    return ERR_OK;
}

void watch_del(struct loop *l, struct watch *w)
{
    if (w->fd < 0)
        return;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    w->fd = -1;
    l->n_watches--;
    for (int i = l->next_event; i < l->n_events; i++)
        if (l->events[i].data.ptr == w)
            l->events[i].data.ptr = NULL;
}

static unsigned ready_bits(uint32_t events)
{
    unsigned ready = 0;
    if ((events & ~(uint32_t)(EPOLLIN | EPOLLOUT)) == 0) /* the rule */
        return (events & EPOLLIN ? LOOP_READ : 0) | (events & EPOLLOUT ? LOOP_WRITE : 0);
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        ready |= LOOP_READ;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        ready |= LOOP_WRITE;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        ready |= LOOP_HANGUP;
    return ready;
}

/* The events from next_event on. Returns how far. */
static __attribute__((noinline)) int read_ahead(struct loop *l)
{
    int end = l->n_events - l->next_event < AHEAD_MAX ? l->n_events : l->next_event + AHEAD_MAX;
    if (end - l->next_event == 1)
        return end;
    for (int i = l->next_event; i < end; i++) {
        struct watch *w = l->events[i].data.ptr;
        if (w != NULL && w->reads_ahead && (l->events[i].events & ~(uint32_t)EPOLLOUT) == EPOLLIN)
            w->fn(w, LOOP_ASK);
    }
    l->turn.ended_us = 0;
    return end;
}

static unsigned take_ready(struct watch *w, uint32_t events)
{
    unsigned ready = ready_bits(events);
    if (!w->has_read)
        return ready;
    w->has_read = false;
    return (ready & ~(unsigned)LOOP_READ) | LOOP_AHEAD;
}

static void call_ready(struct loop *l)
{
    int ahead = l->n_events > 1 ? 0 : 1; /* alone there is nothing to gain */
    for (int i; (i = l->next_event) < l->n_events;) {
        if (i == ahead)
            ahead = read_ahead(l);
        const struct epoll_event *ev = &l->events[i];
        struct watch *w = ev->data.ptr;
        l->next_event = i + 1;
        if (w == NULL)
            continue;
        l->turn.began_us = l->turn.ended_us;
        l->turn.ended_us = 0;
        w->fn(w, take_ready(w, ev->events));
    }
    l->n_events = l->next_event = 0;
    l->turn.began_us = 0;
}

/* Events, or -errno. */
static int wait_ms(struct loop *l, int ms)
{
#ifdef SYS_epoll_wait
    return (int)kernel_call(SYS_epoll_wait, l->epoll_fd, l->events, EVENTS_MAX, ms);
#else
    return (int)kernel_call(SYS_epoll_pwait, l->epoll_fd, l->events, EVENTS_MAX, ms);
#endif
}

static int wait_us(struct loop *l, uint64_t us)
{
    if (!l->is_coarse) {
        struct timespec ts = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
        int n = epoll_pwait2(l->epoll_fd, l->events, EVENTS_MAX, &ts, NULL);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return n >= 0 ? n : -errno;
        l->is_coarse = true;
    }
    return wait_ms(l, (int)((us + 999) / 1000));
}

/* Until the next timer, exactly. */
static __attribute__((noinline)) int wait_near(struct loop *l, uint64_t next_us, uint64_t most_us)
{
    uint64_t clock_us = loop_clock_us();
    /* The next turn's clock is one more than this one's at least, hence + 1. */
    if (most_us == 0 || turn_is_pressing(&l->turn) || next_us <= clock_us + 1)
        return wait_ms(l, 0);
    return wait_us(l, next_us - clock_us < most_us ? next_us - clock_us : most_us);
}

static int wait_for_events(struct loop *l, uint64_t max_wait_us)
{
    uint64_t next_us = timers_next_us(&l->turn.timers), soon_us = l->turn.now_us + FAR_US;
    if (max_wait_us < WAIT_MAX_US || next_us <= soon_us || turn_is_pressing(&l->turn))
        return wait_near(l, next_us, max_wait_us < WAIT_MAX_US ? max_wait_us : WAIT_MAX_US);
    uint64_t far_us = next_us - soon_us + FAR_US / 2;
    return wait_ms(l, (int)((far_us < WAIT_MAX_US ? far_us : WAIT_MAX_US) >> 10)); /* rather too short */
}

static inline __attribute__((always_inline)) void turn_once(struct loop *l, uint64_t max_wait_us)
{
    RM_ASSERT(l->n_events == 0); /* turns do not nest */
    int n = wait_for_events(l, max_wait_us);
    RM_ASSERT(n >= 0 || n == -EINTR);
    l->n_events = n > 0 ? n : 0;
    uint64_t clock_us = loop_clock_us();
    l->turn.now_us = clock_us > l->turn.now_us ? clock_us : l->turn.now_us + 1;
    l->turn.ended_us = l->turn.now_us;
    if (timers_next_us(&l->turn.timers) <= l->turn.now_us)
        turn_fire(&l->turn);
    call_ready(l);
    if (turn_is_pressing(&l->turn))
        turn_finish(&l->turn);
}

void loop_turn(struct loop *l, uint64_t max_wait_us)
{
    turn_once(l, max_wait_us);
}

void loop_run(struct loop *l)
{
    mem_shelf_open();
    while (!atomic_load_explicit(&l->stops, memory_order_acquire))
        turn_once(l, UINT64_MAX);
    mem_shelf_close();
    atomic_store_explicit(&l->stops, false, memory_order_release);
}

void loop_stop(struct loop *l)
{
    atomic_store_explicit(&l->stops, true, memory_order_release);
    wake(l);
}

void loop_mail(struct loop *l, struct mail *m)
{
    RM_ASSERT(m->fn != NULL);
    if (turn_mail(&l->turn, m))
        wake(l);
}

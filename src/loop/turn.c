/* The mailbox is a stack that any thread pushes on with one compare-and-swap; the receiver takes the whole stack and
 * turns it round, which gives the order of sending. Only the push that finds it empty wakes the receiver.
 *
 * A timer that is armed for a past time while the due timers are being called gets the key now + 1, so that a handler
 * which always re-arms itself cannot keep the turn from going on. */
#include "loop/turn.h"

static struct turn *turn_of(const struct loop *l)
{
    return (struct turn *)(void *)(uintptr_t)l;
}

void turn_init(struct turn *t, uint64_t now_us)
{
    *t = (struct turn){.now_us = now_us};
    list_init(&t->tasks);
    list_init(&t->deferred);
    t->reap_end = &t->reap_first;
    atomic_init(&t->letters, NULL);
}

void turn_fini(struct turn *t)
{
    turn_deliver(t);
    turn_finish(t);
    timers_fini(&t->timers);
}

void turn_fire(struct turn *t)
{
    struct timer *due;
    t->fires_timers = true;
    while ((due = timers_take_due(&t->timers, t->now_us)) != NULL) {
        t->ended_us = 0;
        due->at_us = 0;
        due->fn(due);
    }
    t->fires_timers = false;
}

void turn_deliver(struct turn *t)
{
    struct mail *newest = atomic_exchange_explicit(&t->letters, NULL, memory_order_acquire);
    struct mail *oldest = NULL;
    while (newest != NULL) {
        struct mail *next = atomic_load_explicit(&newest->next, memory_order_relaxed);
        atomic_store_explicit(&newest->next, oldest, memory_order_relaxed);
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct mail *next = atomic_load_explicit(&oldest->next, memory_order_relaxed);
        oldest->fn(oldest);
        oldest = next;
    }
}

static void run_tasks(struct turn *t)
{
    struct list *node;
    while ((node = list_take(&t->tasks)) != NULL) {
        struct task *task = LIST_ITEM(node, struct task, node);
        task->fn(task);
    }
}

static void reap(struct turn *t)
{
    struct reap *r = t->reap_first;
    t->reap_first = NULL;
    t->reap_end = &t->reap_first;
    while (r != NULL) {
        struct reap *next = r->next;
        r->fn(r);
        r = next;
    }
}

void turn_finish(struct turn *t)
{
    do {
        run_tasks(t);
        reap(t);
    } while (!list_is_empty(&t->tasks) || t->reap_first != NULL);
    for (struct list *node; (node = list_take(&t->deferred)) != NULL;)
        list_put(&t->tasks, node);
}

bool turn_mail(struct turn *t, struct mail *m)
{
    struct mail *head = atomic_load_explicit(&t->letters, memory_order_relaxed);
    do {
        atomic_store_explicit(&m->next, head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&t->letters, &head, m, memory_order_release, memory_order_relaxed));
    return head == NULL;
}

uint64_t loop_now_us(const struct loop *l)
{
    return turn_of(l)->now_us;
}

int64_t loop_turn_wall_ms(struct loop *l)
{
    struct turn *t = turn_of(l);
    if (t->wall_us != t->now_us) {
        t->wall_us = t->now_us;
        t->wall_ms = loop_wall_ms(l);
    }
    return t->wall_ms;
}

uint64_t loop_began_us(struct loop *l)
{
    struct turn *t = turn_of(l);
    uint64_t began_us = t->began_us;
    t->began_us = 0; /* what it did before is not counted twice */
    return began_us != 0 ? began_us : loop_clock_us();
}

uint64_t loop_ended_us(struct loop *l)
{
    return turn_of(l)->ended_us = loop_clock_us();
}

void timer_arm(struct loop *l, struct timer *t, uint64_t at_us)
{
    struct turn *turn = turn_of(l);
    RM_ASSERT(t->fn != NULL);
    t->at_us = at_us ? at_us : 1;
    uint64_t soonest_us = turn->fires_timers ? turn->now_us + 1 : 0;
    timers_put(&turn->timers, t, at_us > soonest_us ? at_us : soonest_us);
}

void timer_cancel(struct loop *l, struct timer *t)
{
    timers_remove(&turn_of(l)->timers, t);
    t->at_us = 0;
}

void loop_post(struct loop *l, struct task *t)
{
    RM_ASSERT(t->fn != NULL && t->node.next != NULL);
    if (!list_is_linked(&t->node))
        list_put(&turn_of(l)->tasks, &t->node);
}

void loop_defer(struct loop *l, struct task *t)
{
    RM_ASSERT(t->fn != NULL && t->node.next != NULL);
    if (!list_is_linked(&t->node))
        list_put(&turn_of(l)->deferred, &t->node);
}

void task_cancel(struct task *t)
{
    list_del(&t->node);
}

void loop_reap(struct loop *l, struct reap *r)
{
    struct turn *turn = turn_of(l);
    RM_ASSERT(r->fn != NULL && r->next == NULL && turn->reap_end != &r->next);
    *turn->reap_end = r;
    turn->reap_end = &r->next;
}

/* The loop on a virtual clock. A turn: if nothing is pressing, the clock moves to the next timer (at most max_wait_us);
 * then due timers, mail, tasks, reaper, as in the real loop. The clock moves by itself only in this way, so a story
 * depends on nothing but its inputs. */
#include "loop/loop_sim.h"

#include "base/mem.h"
#include "loop/turn.h"

struct loop {
    struct turn turn; /* first: turn.c relies on it */
    int64_t wall_offset_ms;
    _Atomic bool stops;
};
_Static_assert(offsetof(struct loop, turn) == 0, "turn.c takes a loop for its turn");

/* loop_clock_us has no loop to ask: it shows the clock of the loop that turned last on this thread. */
static _Thread_local uint64_t shown_clock_us = LOOP_SIM_START_US;

struct loop *loop_new(void)
{
    struct loop *l = mem_zalloc(sizeof *l);
    turn_init(&l->turn, LOOP_SIM_START_US);
    l->wall_offset_ms = LOOP_SIM_WALL_MS - (int64_t)(LOOP_SIM_START_US / 1000);
    shown_clock_us = LOOP_SIM_START_US;
    return l;
}

void loop_free(struct loop *l)
{
    if (l == NULL)
        return;
    turn_fini(&l->turn);
    mem_free(l);
}

uint64_t loop_clock_us(void)
{
    return shown_clock_us;
}

int64_t loop_wall_ms(const struct loop *l)
{
    return (int64_t)(l->turn.now_us / 1000) + l->wall_offset_ms;
}

static bool has_mail(struct loop *l)
{
    return atomic_load_explicit(&l->turn.letters, memory_order_relaxed) != NULL;
}

static void move_clock(struct loop *l, uint64_t max_wait_us)
{
    uint64_t next_us = timers_next_us(&l->turn.timers);
    uint64_t now_us = l->turn.now_us;
    if (turn_is_pressing(&l->turn) || has_mail(l))
        return;
    uint64_t limit_us = max_wait_us > UINT64_MAX - now_us ? UINT64_MAX : now_us + max_wait_us;
    uint64_t to_us = next_us < limit_us ? next_us : limit_us;
    if (to_us != UINT64_MAX && to_us > now_us)
        l->turn.now_us = to_us;
}

void loop_turn(struct loop *l, uint64_t max_wait_us)
{
    move_clock(l, max_wait_us);
    shown_clock_us = l->turn.now_us;
    turn_fire(&l->turn);
    turn_deliver(&l->turn);
    turn_finish(&l->turn);
}

void loop_run(struct loop *l)
{
    while (!atomic_load_explicit(&l->stops, memory_order_acquire) && !loop_sim_is_idle(l))
        loop_turn(l, UINT64_MAX);
    atomic_store_explicit(&l->stops, false, memory_order_release);
}

void loop_stop(struct loop *l)
{
    atomic_store_explicit(&l->stops, true, memory_order_release);
}

void loop_mail(struct loop *l, struct mail *m)
{
    RM_ASSERT(m->fn != NULL);
    turn_mail(&l->turn, m);
}

enum err watch_add(struct loop *l, struct watch *w)
{
    w->fd = -1;
    return ERR_UNSUPPORTED;
}

void watch_del(struct loop *l, struct watch *w)
{
    w->fd = -1; /* nothing was registered */
}

uint64_t loop_sim_next_us(const struct loop *l)
{
    uint64_t next_us = timers_next_us(&l->turn.timers);
    return next_us == UINT64_MAX ? 0 : next_us;
}

bool loop_sim_is_idle(struct loop *l)
{
    return loop_sim_next_us(l) == 0 && !turn_is_pressing(&l->turn) && !has_mail(l);
}

bool loop_sim_run_to(struct loop *l, uint64_t at_us, uint64_t turns_max)
{
    for (uint64_t i = 0; i < turns_max; i++) {
        uint64_t next_us = timers_next_us(&l->turn.timers);
        bool is_done = l->turn.now_us >= at_us && next_us > l->turn.now_us;
        if (is_done && !turn_is_pressing(&l->turn) && !has_mail(l))
            return true;
        loop_turn(l, at_us > l->turn.now_us ? at_us - l->turn.now_us : 0);
    }
    return false;
}

void loop_sim_shift_wall(struct loop *l, int64_t by_ms)
{
    l->wall_offset_ms += by_ms;
}

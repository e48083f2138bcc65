/* A binary heap in an array; children of i are 2i+1 and 2i+2. Each move of an entry writes the timer's place back, so
 * that a timer can be taken out of the middle. Keys lie in the heap itself: comparing touches a timer only where they
 * are equal. */
#include "loop/timers.h"

#include "base/mem.h"

static bool comes_before(const struct timers_entry *a, const struct timers_entry *b)
{
    if (a->key_us != b->key_us)
        return a->key_us < b->key_us;
    return (int32_t)(a->timer->order - b->timer->order) < 0;
}

static void place(struct timers *ts, uint32_t i, struct timers_entry e)
{
    ts->v[i] = e;
    e.timer->index = i + 1;
}

static uint32_t sift_up(struct timers *ts, uint32_t i, struct timers_entry e)
{
    while (i > 0) {
        uint32_t parent = (i - 1) / 2;
        if (!comes_before(&e, &ts->v[parent]))
            break;
        place(ts, i, ts->v[parent]);
        i = parent;
    }
    return i;
}

static uint32_t sift_down(struct timers *ts, uint32_t i, struct timers_entry e)
{
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= ts->n)
            break;
        if (child + 1 < ts->n && comes_before(&ts->v[child + 1], &ts->v[child]))
            child++;
        if (!comes_before(&ts->v[child], &e))
            break;
        place(ts, i, ts->v[child]);
        i = child;
    }
    return i;
}

/* Puts e where it belongs, starting from the hole at i. */
static void settle(struct timers *ts, uint32_t i, struct timers_entry e)
{
    i = sift_up(ts, i, e);
    i = sift_down(ts, i, e);
    place(ts, i, e);
}

void timers_put(struct timers *ts, struct timer *t, uint64_t key_us)
{
    struct timers_entry e = {key_us, t};
    uint32_t hole = t->index != 0 ? t->index - 1 : ts->n;
    t->order = ts->next_order++;
    if (t->index == 0) {
        if (ts->n == ts->cap) {
            ts->cap = ts->cap ? 2 * ts->cap : 64;
            size_t n = ts->cap * sizeof *ts->v;
            ts->v = ts->v != NULL ? mem_realloc(ts->v, n) : mem_zalloc_lines(n);
        }
        ts->n++;
    } else {
        RM_ASSERT(hole < ts->n && ts->v[hole].timer == t);
    }
    settle(ts, hole, e);
}

void timers_remove(struct timers *ts, struct timer *t)
{
    if (t->index == 0)
        return;
    uint32_t hole = t->index - 1;
    RM_ASSERT(hole < ts->n && ts->v[hole].timer == t);
    t->index = 0;
    ts->n--;
    if (hole < ts->n)
        settle(ts, hole, ts->v[ts->n]);
}

struct timer *timers_take_due(struct timers *ts, uint64_t now_us)
{
    if (ts->n == 0 || ts->v[0].key_us > now_us)
        return NULL;
    struct timer *t = ts->v[0].timer;
    timers_remove(ts, t);
    return t;
}

uint64_t timers_next_us(const struct timers *ts)
{
    return ts->n == 0 ? UINT64_MAX : ts->v[0].key_us;
}

void timers_fini(struct timers *ts)
{
    RM_ASSERT(ts->n == 0);
    mem_free(ts->v);
    *ts = (struct timers){0};
}

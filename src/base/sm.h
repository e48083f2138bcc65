/* State machines as tables. One row per state: its name, the set of states it may move to, whether it is final.
 * sm_move() is the only writer: it asserts the edge and, where the room's trace is on, writes a line. */
#ifndef RM_BASE_SM_H
#define RM_BASE_SM_H

#include "base/check.h"
#include "base/log.h"

#include <stdbool.h>
#include <stdint.h>

struct sm_row {
    const char *name;
    uint32_t next; /* bit i = may move to state i */
    bool is_final;
};
struct sm { /* its table is not kept: whoever moves it has it, and there are five of these to a stream */
    uint8_t state;
};

#define SM_TO(state) (UINT32_C(1) << (state))

static inline void sm_init(struct sm *m, unsigned state)
{
    m->state = (uint8_t)state;
}
/* Asserts the edge, and writes the trace line. */
void sm_look(const struct sm *m, const struct sm_row *rows, unsigned state, const char *room, const char *id)
    __attribute__((cold));
/* Moves to `state`; asserts that its table, `rows`, has the edge. `room` and `id` go into the trace line. */
static inline void sm_move(struct sm *m, const struct sm_row *rows, unsigned state, const char *room, const char *id)
{
    if ((rows[m->state].next & SM_TO(state & 31)) == 0 || state > 31 || log_is_tracing())
        sm_look(m, rows, state, room, id);
    m->state = (uint8_t)state;
}
static inline bool sm_is_final(const struct sm *m, const struct sm_row *rows)
{
    return rows[m->state].is_final;
}

#endif

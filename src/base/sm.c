#include "base/sm.h"

#include "base/check.h"
#include "base/log.h"

void sm_move(struct sm *m, unsigned state, const char *room, const char *id)
{
    RM_ASSERT(state < 32);
    RM_ASSERT((m->rows[m->state].next & SM_TO(state)) != 0);
    LOG(LOG_TRACE, room, id, "%s -> %s", m->rows[m->state].name, m->rows[state].name);
    m->state = (uint8_t)state;
}

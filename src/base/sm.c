#include "base/sm.h"

void sm_look(const struct sm *m, unsigned state, const char *room, const char *id)
{
    RM_ASSERT(state < 32 && (m->rows[m->state].next & SM_TO(state)) != 0);
    LOG(LOG_TRACE, room, id, "%s -> %s", m->rows[m->state].name, m->rows[state].name);
}

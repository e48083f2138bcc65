#include "base/sm.h"

void sm_look(const struct sm *m, const struct sm_row *rows, unsigned state, const char *room, const char *id)
{
    RM_ASSERT(state < 32 && (rows[m->state].next & SM_TO(state)) != 0);
    LOG(LOG_TRACE, room, id, "%s -> %s", rows[m->state].name, rows[state].name);
}

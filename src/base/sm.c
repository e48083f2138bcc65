#include "base/sm.h"

void sm_trace(const struct sm *m, unsigned state, const char *room, const char *id)
{
    LOG(LOG_TRACE, room, id, "%s -> %s", m->rows[m->state].name, m->rows[state].name);
}

#include "lab/mock_quota.h"

__extension__ typedef unsigned __int128 wide; /* microseconds times thousandths a second */

enum { REQUEST_MICRO = 1000000 };

bool quota_take(struct quota *q, const struct mock_rate_conf *c, uint64_t now_us)
{
    uint64_t full = c->burst * REQUEST_MICRO;
    if (c->per_s_milli == 0)
        return true;
    wide level = q->at_us == 0 ? full : q->level_micro + (wide)(now_us - q->at_us) * c->per_s_milli / 1000;
    q->level_micro = level < full ? (uint64_t)level : full;
    q->at_us = now_us;
    if (q->level_micro < REQUEST_MICRO)
        return false;
    q->level_micro -= REQUEST_MICRO;
    return true;
}

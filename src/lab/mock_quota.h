/* A provider's own limit of requests: a bucket that holds `burst` and is filled at a steady rate. Pure. */
#ifndef RM_LAB_MOCK_QUOTA_H
#define RM_LAB_MOCK_QUOTA_H

#include "lab/mock_conf.h"

struct quota {
    uint64_t level_micro; /* requests that may come now, in millionths */
    uint64_t at_us;       /* when that was so; 0 = full */
};

/* True: the request is within the limit, and counted. Without a limit always. */
bool quota_take(struct quota *q, const struct mock_rate_conf *c, uint64_t now_us);

#endif

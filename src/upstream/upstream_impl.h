/* What the files of this room share. */
#ifndef RM_UPSTREAM_UPSTREAM_IMPL_H
#define RM_UPSTREAM_UPSTREAM_IMPL_H

#include "upstream/pool.h"
#include "upstream/upstream.h"

struct upstream {
    struct loop *loop;
    struct resolver *resolver;
    struct pool pool;
};

#endif

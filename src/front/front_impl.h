/* Private to the room. */
#ifndef RM_FRONT_FRONT_IMPL_H
#define RM_FRONT_FRONT_IMPL_H

#include "front/front.h"
#include "front/keys.h"
#include "front/models.h"

struct front {
    struct loop *loop;
    struct server *server;
    struct key_hasher *hasher;
    struct front_handler handler;
    void *arg;
};

#endif

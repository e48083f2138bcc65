/* A front on the simulated loop, with a client at the other end of an in-memory stream and a small config made by hand:
 * routes "flagship" and "mini", client keys "team-a" and "team-b" (secrets of the same text), two providers. */
#ifndef RM_TESTS_FRONT_WORLD_H
#define RM_TESTS_FRONT_WORLD_H

#include "unit.h"

#include "front/front.h"
#include "loop/loop_sim.h"

struct front_world {
    struct loop *loop;
    struct front *front;
    struct config config;
    struct route_conf routes[2];
    struct client_key keys[2];
    struct stream *peer; /* NULL when closed */
    struct buf got;
    bool peer_eof;
    struct client_call *call; /* handed up and not finished */
    unsigned n_calls, n_gone, n_refused;
    struct request_record refused; /* texts are not valid any more, but for these: */
    char refused_route[64];
    struct front_ready ready;
    uint64_t last_id;
};

int front_world_set_up(void **state);
int front_world_tear_down(void **state);
void front_world_settle(struct front_world *w);
/* Sends a request and lets it happen. `fields`: header lines; a body gets its content-length. got is cleared before. */
void front_world_send(struct front_world *w, const char *request_line, const char *fields, const char *body);
void front_world_hang_up(struct front_world *w);
bool front_world_has(const struct front_world *w, const char *text);
/* The body of the answer, de-chunked. Valid until the next use of the world. */
const char *front_world_body(struct front_world *w);

#endif

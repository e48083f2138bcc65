/* One request of the load generator, from its start to its end, over one target or a chain of them. Private to load.c.
 */
#ifndef RM_LAB_SHOT_H
#define RM_LAB_SHOT_H

#include "lab/heard.h"
#include "lab/wires.h"

struct shot_world {
    struct loop *loop;
    struct resolver *resolver;
    struct wires *wires;
    const struct load_plan *plan;
    uint64_t began_us;
};

struct shot {
    const struct shot_world *world;
    struct sample *sample;
    size_t hop; /* index of the target */
    uint64_t hop_us;
    struct dial *dial;
    struct client_conn *conn;
    struct client_request request;
    bool is_running, is_reused, is_stream;
    struct heard heard;
    struct timer timer;
    struct task ended;
    void (*on_end)(struct shot *s);
};

/* Once before the first start. on_end is called from the loop after each shot; it may start the next. */
void shot_init(struct shot *s, const struct shot_world *w, void (*on_end)(struct shot *s));
/* The sample's due_us is set; the target is plan->targets[hop]. */
void shot_start(struct shot *s, struct sample *sample, size_t hop);
/* Ends it now with error "stopped"; on_end comes. Harmless when it is not running. */
void shot_stop(struct shot *s);

#endif

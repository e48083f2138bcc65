/* What a seeded story consists of, shared by its plan (chance.c) and its laws (laws.c). */
#ifndef RM_TESTS_CHANCE_H
#define RM_TESTS_CHANCE_H

#include "world.h"

enum { GUESTS_MAX = 8, GUEST_ASKS_MAX = 3 };

/* One client with a will of its own: what it asks, in which pieces it speaks, how it listens, when it leaves. */
struct guest {
    struct chance *chance;
    struct client *client; /* NULL before it came */
    struct timer timer;
    unsigned worker, n_asks, n_asked;
    size_t pipe_bytes, piece_bytes;
    uint64_t gap_us, leave_us; /* leave_us: 0 = never */
    uint64_t deaf_from_us, deaf_to_us;
    bool is_hasty; /* asks everything at once */
    enum { LEAVE_FIN, LEAVE_RESET, LEAVE_HALF } leaving;
    bool has_left;
    size_t seen_at, n_looked; /* of what it got */
    unsigned n_whole;
    unsigned asks[GUEST_ASKS_MAX]; /* enum ask, and: */
};
enum { ASK_WRONG_MODEL = 8, ASK_WRONG_BODY = 16, ASK_WRONG_ROUTING = 32 };

struct chance {
    struct world world;
    struct rng rng;
    struct guest guests[GUESTS_MAX];
    size_t n_guests;
    struct buf text; /* scripts and routes, NUL-separated */
    bool has_keepalive, is_drained, is_cut;
    bool is_deterministic;                /* every provider says the same */
    uint64_t drain_us, cut_us, reload_us; /* 0 = never */
    struct {
        unsigned n_answers, n_ok, n_errors, n_partial, n_left, n_resumed;
    } seen;
};

/* At every step of time. */
void laws_check_step(struct chance *c);
/* When everything is over. */
void laws_check_end(struct chance *c);

#endif

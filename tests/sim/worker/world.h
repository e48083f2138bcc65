/* The real serve, front, upstream and http on simulated loops: workers, clients and scripted providers of one story.
 * Time moves only when world_run_to moves it. */
#ifndef RM_TESTS_WORLD_H
#define RM_TESTS_WORLD_H

#include "ledger_sim.h"
#include "provider.h"

#include "base/mem.h"
#include "loop/loop_sim.h"
#include "plan/registry.h"
#include "serve/worker.h"

enum { WORLD_PROVIDERS = 3, WORLD_WORKERS_MAX = 2, WORLD_CLIENTS_MAX = 16, PIPE_BYTES = 65536 };

/* A client's connection. It reads whatever comes unless it is deaf. */
struct client {
    struct world *world;
    struct loop *loop;
    struct stream *stream; /* NULL = not connected (any more) */
    struct buf out, got;
    bool is_deaf, has_eof, was_reset;
    uint64_t got_at_us, closed_at_us; /* last byte; end seen */
};

struct world {
    const char *story;
    struct provider providers[WORLD_PROVIDERS]; /* a, b (OpenAI form), c (Anthropic form) */
    struct net_sim net;
    struct registry *registry;
    struct config *config;
    struct worker *workers[WORLD_WORKERS_MAX];
    unsigned n_workers;
    struct ledger ledger;
    struct client clients[WORLD_CLIENTS_MAX];
    size_t n_clients;
    int64_t n_live[MEM_N_TYPES]; /* before the world began */
    unsigned n_faults;
};

/* Fails the story, with the place; the story goes on. */
#define CHECK(w, cond) ((cond) ? (void)0 : world_fault((w), __FILE__, __LINE__, #cond))
void world_fault(struct world *w, const char *file, int line, const char *what);

/* `routes`: YAML of the routes. `more`: further top-level settings, "" = none. */
struct world_options {
    const char *story, *routes, *more;
    unsigned n_workers;
    uint64_t seed;
};
void world_init(struct world *w, const struct world_options *o);
/* Everything closes; nothing may be left. */
void world_fini(struct world *w);
/* A checked, prepared snapshot with one reference for the caller. `more` may name the providers; else they are all
 * there. */
struct config *world_config(struct world *w, const char *routes, const char *more);

/* Microseconds since the world began. */
uint64_t world_now(const struct world *w);
/* All loops, until everything due at that time is done. */
void world_run_to(struct world *w, uint64_t at_us);
void world_settle(struct world *w);
/* Exactly one turn of a worker's loop, without waiting. */
void world_turn(struct world *w, unsigned worker);
/* When the next timer of any worker fires; 0 = none is armed. */
uint64_t world_next(const struct world *w);
/* Objects of this type that came alive in this world. */
int64_t world_live(const struct world *w, enum mem_type type);
/* No exchange, no stream, no connection, no request: only the configuration is alive. */
bool world_is_quiet(const struct world *w);

/* Adds a script to a provider (0 = a, 1 = b, 2 = c). */
void world_script(struct world *w, unsigned provider, const char *script);
struct peer *world_peer(struct world *w, unsigned provider, size_t n);
const struct row *world_row(const struct world *w, size_t n);

struct client *client_open(struct world *w, unsigned worker, size_t pipe_bytes);
void client_send(struct client *c, struct bytes b);
void client_close(struct client *c, bool reset);
/* It reads again. */
void client_listen(struct client *c);

enum ask { ASK_OPENAI = 0, ASK_WHOLE = 0, ASK_STREAM = 1, ASK_ANTHROPIC = 2 };
/* Appends a request for route "m". `fields`: further header lines. */
void ask_text(struct buf *out, unsigned ask, const char *fields);
void client_ask(struct client *c, unsigned ask);

/* What came, from *at on: one answer, the next one with the next call. */
struct answer_seen {
    unsigned status; /* 0 = no head yet */
    bool is_whole;   /* its body has ended as HTTP says */
    bool is_broken;  /* not HTTP */
    struct buf body; /* without chunk framing, as far as it came; buf_fini */
};
void answer_see(struct bytes got, size_t *at, struct answer_seen *out);
bool client_has(const struct client *c, const char *text);
size_t client_count(const struct client *c, const char *text);
/* The only answer is whole and has this status. */
bool client_is_answered(const struct client *c, unsigned status);

#endif

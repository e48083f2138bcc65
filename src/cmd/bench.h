/* What the files of `ringmain bench` share: the options, the world of child processes, the run. Private to bench*.c. */
#ifndef RM_CMD_BENCH_H
#define RM_CMD_BENCH_H

#include "cmd/child.h"
#include "lab/load.h"
#include "lab/result.h"

#include <stdio.h>

enum { BENCH_STANDBYS_MAX = 20, BENCH_RUN_OK = 0, BENCH_RUN_FAILED = 1, BENCH_RUN_USAGE = 2, BENCH_RUN_STOPPED = 130 };

/* Three numbers of a pretend provider's first token. */
struct bench_pretend {
    unsigned p50_ms, p99_ms;
};

struct bench_options {
    struct buf command;
    const char *json, *html; /* NULL = none; json "-" = standard output */
    const char *resume_file; /* NULL = none */
    unsigned concurrency, n, rounds;
    double rate;      /* 0 = closed loop */
    uint64_t every_s; /* between the starts of rounds; 0 = at once */
    unsigned budget_ms, system_tokens, user_tokens;
    uint64_t seed;
    bool phases[PHASE_N], has_outage;
    struct expect expects[RESULT_EXPECTS_MAX];
    size_t n_expects;
    bool is_quick, keeps;
    /* real providers; config NULL = pretend ones */
    const char *config, *route;
    int64_t max_nusd; /* the spend cap; -1 = none */
    bool is_agreed;   /* --yes */
    unsigned max_tokens;
    struct bench_real *real; /* of config and route */
    /* what --quick makes smaller */
    struct bench_pretend a, b, c;
    unsigned tokens, tokens_per_s, ramp_ms;
    unsigned n_standbys, keepalive_s, cold_after_ms, cold_connect_ms, cold_first_ms;
    unsigned outage_rate, outage_length_ms, outage_from_ms, outage_to_ms, bucket_ms, cooldown_ms;
    uint64_t timeout_ms; /* of one request */
};

/* ---- bench_options.c ---- */

/* 0 = go on; else the exit code + 1, and everything is told. known: the figures that may be expected. o->real is the
 * caller's to free. */
int bench_options_read(int argc, char **argv, struct bench_options *o, const struct figures *known);
void bench_options_tell(const struct bench_options *o, struct result_settings *s);

/* ---- bench_real.c: a route of the user's own configuration ---- */

struct bench_real;

/* Loads the file and finds the route (NULL = its first). NULL: told on stderr. */
struct bench_real *bench_real_open(const char *path, const char *route);
void bench_real_free(struct bench_real *r);
/* The gateway's configuration: theirs, with the route as "bench", and behind one and two pretend links that fail as
 * "bench-fault" and "bench-double". */
struct bench_world;
void bench_real_config(const struct bench_real *r, const struct bench_world *w, unsigned budget_ms, struct buf *out);
/* The route's first link without a gateway; texts live in the arena. False: it speaks another dialect than Chat. */
bool bench_real_target(const struct bench_real *r, const struct bench_options *o, struct arena *a,
                       struct load_target *out);
/* What one request may cost at most, nano-dollars: directly, and through the whole chain. False where a link has no
 * price; *nameless is that link then. */
struct bench_worst {
    int64_t direct_nusd, chain_nusd;
};
bool bench_real_worst(const struct bench_real *r, size_t body_bytes, unsigned max_tokens, struct bench_worst *out,
                      char nameless[160]);
/* What a request that ended well has cost by the tokens it told, where exactly one real link was tried for it:
 * n_pretend of its attempts were pretend ones. NUSD_UNKNOWN = not known before the ledger is read. */
int64_t bench_real_cost(const struct bench_real *r, const struct sample *s, unsigned n_pretend);
void bench_real_tell(const struct bench_real *r, struct result_settings *s);

/* ---- bench_cap.c: the spend cap ---- */

struct bench_cap {
    bool is_on;
    int64_t max_nusd, worst_nusd; /* worst: of one request of the running phase */
    int64_t spent_nusd;           /* of phases that were read back */
    int64_t ended_nusd;           /* of requests of the running phase whose cost is known already */
    uint64_t n_open;              /* the others of it: each is taken for the worst */
};

/* May one more request start? Counts it then. */
bool bench_cap_may_start(struct bench_cap *c);
/* A request has ended; cost NUSD_UNKNOWN: it stays the worst. */
void bench_cap_ended(struct bench_cap *c, int64_t cost_nusd);
/* The phase is read back: what its requests have cost takes the place of the worst. A request whose cost is unknown has
 * cost the worst. */
void bench_cap_settle(struct bench_cap *c, const struct sample *v, size_t n);
/* Tells what the run will send and may cost, and asks. False: no. */
bool bench_cap_agree(const struct bench_options *o, const struct bench_cap *c, uint64_t n_requests);

/* ---- bench_world.c: pretend providers and the gateway as processes ---- */

struct bench_world {
    char dir[CHILD_DIR_BYTES];
    uint16_t port_a, port_b, port_c, port_down, port, admin_port;
    uint16_t ports_cold[BENCH_STANDBYS_MAX], ports_warm[BENCH_STANDBYS_MAX];
    pid_t providers, standbys, gateway;
    struct caller *caller;
};

/* False: told on stderr; world_close in either case. */
bool bench_world_open(struct bench_world *w, const struct bench_options *o);
void bench_world_close(struct bench_world *w, bool keeps_files);
/* New pretend providers A, B and C with the chances of this round. */
bool bench_world_restart(struct bench_world *w, const struct bench_options *o, unsigned round);
/* No faults, requests counted from 1 again: every phase of a round meets the same chances. Then the faults; NULL =
 * none. from_ms < to_ms: A's fault holds only then, counted from now. */
bool bench_world_faults(struct bench_world *w, const char *fault_a, const char *fault_b, unsigned from_ms,
                        unsigned to_ms);
/* A child that should run has ended: its name, else NULL. */
const char *bench_world_dead(struct bench_world *w);

/* ---- bench_ledger.c ---- */

/* Fills attempts, cost and waste of the samples with a request id from the gateway's ledger, waiting a few seconds for
 * the last of them. How many are missing. */
size_t bench_ledger_read(struct caller *c, uint16_t admin_port, struct sample *v, size_t n);

/* ---- bench_watch.c: the breaker's state, from a thread of its own ---- */

struct bench_watch;
/* Asks the admin listener every `every_ms` for the links of the route and marks them in *o until it is stopped; nobody
 * else touches *o meanwhile. began_us: the timeline's 0. NULL when no thread can be had. */
struct bench_watch *bench_watch_start(uint16_t admin_port, const char *route, unsigned every_ms, uint64_t began_us,
                                      struct outage *o);
void bench_watch_stop(struct bench_watch *w);

/* ---- bench_run.c ---- */

/* Measures; *r is closed. An exit code; BENCH_RUN_STOPPED after Ctrl-C, with what there is in *r. */
int bench_run(const struct bench_options *o, struct result *r);

/* ---- bench_progress.c: a bar on a terminal, else a line a phase; to stderr ---- */

struct bench_progress {
    bool is_terminal;
    unsigned n_steps, n_begun; /* phases of all rounds; how many of them were begun */
    unsigned round, rounds;
    const char *title;
};

void bench_progress_init(struct bench_progress *p, unsigned n_steps, unsigned rounds);
/* The next step begins. */
void bench_progress_step(struct bench_progress *p, unsigned round, const char *title);
/* NULL: waiting for a time to come. */
void bench_progress_tick(const struct bench_progress *p, const struct load_progress *l);
/* The step is over. */
void bench_progress_end(struct bench_progress *p, const struct sample *v, size_t n);
/* The bar is wiped. */
void bench_progress_fini(struct bench_progress *p);

/* ---- bench_show.c ---- */

void bench_show(const struct result *r, FILE *to);

/* ---- bench_file.c ---- */

/* Writes `text` to path by a temporary file beside it. False: told on stderr. A path that is no regular file (a pipe, a
 * device) is written directly. */
bool bench_write(const char *path, struct bytes text);
/* Before a run of minutes: can bench_write write there? False: told on stderr. */
bool bench_can_write(const char *path);
/* False: errno says why. */
bool bench_read(const char *path, struct buf *out);
/* o->resume_file: rounds of earlier runs into *r, and how many; none where it is not there. False: told on stderr. */
bool bench_rounds_load(const struct bench_options *o, struct result *r, unsigned *n_rounds);
bool bench_rounds_save(const struct bench_options *o, const struct result *r, unsigned n_rounds);

#endif

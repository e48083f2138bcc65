/* The running gateway: workers and ledger. The admin listener (panel/) stands beside it and reads what is told here. */
#ifndef RM_SERVE_SERVE_H
#define RM_SERVE_SERVE_H

#include "config/config.h"
#include "ledger/ledger.h"
#include "plan/registry.h"
#include "serve/worker.h"

struct gateway;

struct gateway_options {
    struct config *config; /* checked; one reference is taken */
    /* Loads the config again for a reload. ERR_OK: *out has one reference for the callee. Else faults were reported
     * already. */
    enum err (*reload)(void *arg, struct config **out);
    void *arg;
    uint64_t seed; /* 0 = from the system */
};

/* Opens listeners and ledger, starts the workers. message: what failed, for people. */
enum err gateway_start(const struct gateway_options *o, struct gateway **out, char *message,
                       size_t message_cap) RM_MUST_USE;
/* SIGHUP: validated whole, swapped in one step; a bad file changes nothing and says so. Reopens the access log. */
void gateway_reload(struct gateway *g);
/* Now and then and after a reload, on the main thread: writes down what outlives a stop (health and latencies, beside
 * the ledger; a stop does it by itself), and gives back what memory calls have left, if there are none. */
void gateway_keep(struct gateway *g);
/* Drains within drain_timeout (cut short by `is_urgent()` turning true), says what it cut, stops everything, frees the
 * gateway. */
void gateway_stop(struct gateway *g, bool (*is_urgent)(void));
/* Real address (after port 0). */
const char *gateway_listen(const struct gateway *g);
/* JSON objects for the admin API. Any thread. */
void gateway_health_json(struct gateway *g, struct buf *out);
/* Prometheus text: requests and attempts by outcome, spend, waste, connections, ledger. Any thread. */
void gateway_metrics(struct gateway *g, struct buf *out);
/* Path of the ledger file, "" = off. */
const char *gateway_ledger_path(const struct gateway *g);

#endif

/* The gateway's parts, for report.c. */
#ifndef RM_SERVE_GATEWAY_H
#define RM_SERVE_GATEWAY_H

#include "serve/serve.h"

/* The snapshot in force, with a reference for the caller. Any thread. */
struct config *gateway_config(struct gateway *g);
struct registry *gateway_registry(struct gateway *g);
struct latency *gateway_latency(struct gateway *g);
struct ratio_book *gateway_ratios(struct gateway *g);
struct ledger *gateway_ledger(struct gateway *g);
unsigned gateway_n_workers(const struct gateway *g);
const struct worker *gateway_worker(const struct gateway *g, unsigned i);

#endif

/* The parts of `ringmain price what-if`. */
#ifndef RM_CMD_PRICE_WHATIF_H
#define RM_CMD_PRICE_WHATIF_H

#include "config/config.h"
#include "sim/replay.h"

enum { POLICY_LINKS_MAX = 64, WHATIF_SETS_MAX = 64, WHATIF_REQUESTS_MAX = 200000 };

/* A route with what it needs, apart from the configuration it came from: it may be changed. Its links borrow providers,
 * prices and texts, which must outlive it. */
struct policy {
    struct config config; /* of one route: for the replay */
    struct route_conf route;
    struct link_conf links[POLICY_LINKS_MAX];
};
void policy_init(struct policy *p, struct config *config, const struct route_conf *route);
/* One `--set`, as "ttft_budget_ms=3000", "route.retries=0", "link.2.ttft_budget_ms=auto". False: `why` says what is
 * wrong. */
bool policy_set(struct policy *p, const char *text, struct buf *why) RM_MUST_USE;
/* The names that may be set, with their values, a line each. */
void policy_help(struct buf *out);

struct whatif {
    const struct past *past;
    const char *ledger;
    const char *policy_file; /* NULL = the present one */
    const char *sets[WHATIF_SETS_MAX];
    size_t n_sets;
    uint64_t seed;
    int64_t since_ms;
    struct policy present, other;
    bool has_other;                       /* there is a policy to try */
    int64_t n_keepalives, keepalive_nusd; /* at targets of the route, in that time; not played */
    struct replay_figures recorded;
    struct replay_result replayed, tried;
};
void whatif_print(const struct whatif *w, bool is_json);

#endif

/* A link-time seam for ledger/ledger.h: rows are kept in memory, as the few figures that a story asks about. */
#ifndef RM_TESTS_LEDGER_SIM_H
#define RM_TESTS_LEDGER_SIM_H

#include "ledger/ledger.h"

enum { ROW_ATTEMPTS_MAX = 12, LEDGER_SIM_CORES = 2 };

struct row_attempt {
    char provider[8];
    enum outcome outcome;
    bool is_started, is_served, in_stream;
    uint16_t status;
    int64_t start_us, connect_us, ttft_us, total_us;
};
struct row {
    bool is_keepalive; /* then only attempts[0] is set */
    uint64_t id;
    bool is_stream;
    enum outcome outcome;
    uint16_t status;
    int16_t served_link;
    int64_t ttft_us, total_us;
    unsigned n_attempts, n_started;
    struct row_attempt attempts[ROW_ATTEMPTS_MAX];
};
struct ledger_ring {
    struct ledger *ledger;
};
struct ledger {
    struct ledger_ring rings[LEDGER_SIM_CORES];
    struct row *rows;
    size_t n, cap;
};

void ledger_sim_init(struct ledger *l);
void ledger_sim_fini(struct ledger *l);
/* The n-th row that is not a keepalive; NULL = there is none. */
const struct row *ledger_sim_request(const struct ledger *l, size_t n);
size_t ledger_sim_n_keepalives(const struct ledger *l);

#endif

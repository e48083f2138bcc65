/* What `ringmain price budget` shows, between reading and drawing. */
#ifndef RM_CMD_PRICE_BUDGET_H
#define RM_CMD_PRICE_BUDGET_H

#include "base/buf.h"
#include "plan/tradeoff.h"

enum budget_mark { MARK_P99, MARK_CURRENT, MARK_CHEAPEST, MARKS };

struct budget_report {
    const char *provider, *model, *size, *effort; /* size, effort: NULL = all */
    struct survival survival;
    double n_answered, n_cut, n_left;
    uint64_t p50_us, p95_us, p99_us; /* of the calls that answer; what is left at the curve's end never does */
    uint64_t auto_us;                /* what `auto` would set from these */
    bool is_auto;                    /* the configuration says so */
    bool is_priced, is_cut_measured; /* cut_usd: known; from the ledger's own cut attempts */
    struct tradeoff_ask ask;
    struct tradeoff curve;
    uint64_t marks_us[MARKS]; /* 0 = not known */
};

const char *budget_mark_word(enum budget_mark m);
/* The three curves over the budget, as one picture. */
void budget_svg(const struct budget_report *r, struct buf *out);

#endif

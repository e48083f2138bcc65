/* A provider's invoice against what was recorded, by day and model, and where a difference lies. Pure.
 *
 *     difference = tokens + rates
 *     tokens     the invoice's tokens at the known price, less ours at the same price
 *     rates      the rest: the same tokens cost something else than the known price says */
#ifndef RM_PRICE_RECONCILE_H
#define RM_PRICE_RECONCILE_H

#include "price/invoice.h"
#include "price/price.h"

/* What was recorded on a day for a model: billed attempts. */
struct day_use {
    int64_t day; /* since 1970-01-01, UTC */
    struct bytes model;
    int64_t n_attempts, n_estimated, n_unpriced;
    struct usage usage;
    int64_t cost_nusd; /* of those with a price */
    int64_t estimated_nusd;
    int64_t n_classed;   /* in another class of service than the standard one */
    const char *service; /* the class, where there is but one; NULL and "" = the standard one */
    bool is_mixed;       /* in more than one class: `service` is one of them */
};

enum reconcile_verdict {
    RECONCILE_AGREES,
    RECONCILE_TOKENS,       /* the difference lies in the tokens */
    RECONCILE_RATES,        /* … in the rates */
    RECONCILE_BOTH,         /* … in both */
    RECONCILE_UNEXPLAINED,  /* costs differ, and there are no tokens or no price to tell why */
    RECONCILE_ONLY_OURS,    /* nothing of it on the invoice */
    RECONCILE_ONLY_INVOICE, /* nothing of it on the ledger */
};

struct reconcile_row {
    int64_t day;
    struct bytes model;        /* as the ledger has it, else as the invoice */
    struct bytes billed_model; /* as the invoice has it */
    bool has_ours, has_invoice;
    struct day_use ours;
    struct usage billed;                              /* of the invoice, uncached input; -1 = not told */
    int64_t billed_nusd;                              /* NUSD_UNKNOWN = not told */
    int64_t difference_nusd, tokens_nusd, rates_nusd; /* invoice less ours; NUSD_UNKNOWN = cannot be told */
    enum reconcile_verdict verdict;
};

struct reconcile {
    struct reconcile_row *rows; /* by day, then model */
    size_t n;
    int64_t ours_nusd, billed_nusd; /* sums of what is known */
};

struct reconcile_ask {
    const struct day_use *ours;
    size_t n_ours;
    const struct invoice *invoice;
    bool is_input_whole;    /* the invoice's input holds what was read from and written to the cache, too */
    uint32_t tolerance_ppm; /* of the invoice; half a cent is always let pass */
    /* service: as of day_use; "" where there are several */
    const struct price *(*find)(struct bytes model, const char *service, int64_t wall_ms, void *arg);
    void *arg;
};

/* Names are the same when they are equal, or equal without the date behind them. Rows of the invoice of one day and
 * model are added up. Everything in the arena. */
void reconcile(const struct reconcile_ask *ask, struct arena *arena, struct reconcile *out);
const char *reconcile_word(enum reconcile_verdict v);

#endif

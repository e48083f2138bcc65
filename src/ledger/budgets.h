/* What first-token budgets cut, what that cost, and how much of it was for nothing; and the times that lie behind it.
 */
#ifndef RM_LEDGER_BUDGETS_H
#define RM_LEDGER_BUDGETS_H

#include "ledger/reader.h"

struct budgets {
    int64_t n_cut, cut_nusd, n_cut_unpriced; /* attempts cut at their budget */
    int64_t n_moved;                         /* their calls that a later link answered */
    int64_t n_watched;                       /* attempts given half as much again that answered in it */
    int64_t n_late, late_nusd;               /* answered past a budget that did not cut; what a cut would have cost */
    /* Estimates: each watched answer stands for all that were not watched. */
    int64_t n_false, n_downgrades, false_nusd;
};

/* since_id: the smallest request id that counts. */
enum err budgets_read(struct ledger_reader *r, uint64_t since_id, struct budgets *out) RM_MUST_USE;
/* Lines "budgets    …" and "shadow     …", each beginning with a line end; nothing where there is nothing. */
void budgets_text(const struct budgets *b, struct buf *out);

/* One attempt of a target, as far as its first token goes. */
struct budget_sample {
    int64_t us;       /* until its first token, or until it ended without one */
    bool is_answered; /* it came */
    bool is_cut;      /* it did not, and was cut for that; else it ended for reasons of ours or the client's */
    int64_t prompt_bytes, input_tokens, cost_nusd; /* NUSD_UNKNOWN */
    const char *effort;                            /* "" = not given; valid during the call */
};
typedef void budget_sample_fn(const struct budget_sample *s, void *arg);
/* Every attempt for a client that was started there. */
enum err budgets_samples(struct ledger_reader *r, const char *provider, const char *model, uint64_t since_id,
                         budget_sample_fn *fn, void *arg) RM_MUST_USE;

#endif

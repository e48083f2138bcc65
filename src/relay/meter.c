/* Three cases. Reported: the provider told, and the answer ended well. Unbilled: nothing was written, or a 4xx or 5xx
 * came instead of a generation. Estimated: everything else, from what was reported before the cut and four bytes a
 * token. An unbilled attempt costs 0 even where no price is known: no price times no tokens is known. */
#include "relay/meter.h"

#include "plan/candidate.h"
#include "price/price.h"

static bool is_unbilled(const struct attempt *a, const struct failure *f)
{
    if (attempt_has_token(a) || a->text_bytes > 0 || usage_is_known(&a->usage))
        return false;
    if (f && f->is_unsent)
        return true;
    if (f && f->status >= 400 && !f->in_stream)
        return true;
    return !a->is_sent && a->head_us == 0;
}

static void clear_unknown(struct usage *u)
{
    int64_t *members[] = {&u->input, &u->cache_read, &u->cache_write_5m, &u->cache_write_1h, &u->output, &u->reasoning};
    for (size_t i = 0; i < RM_COUNTOF(members); i++)
        *members[i] = *members[i] < 0 ? 0 : *members[i];
}

static void estimate(struct usage *u, const struct attempt *a, const struct call *call)
{
    if (usage_prompt(u) == 0 && u->input < 0)
        u->input = candidate_prompt_tokens(call);
    int64_t seen = (int64_t)((a->text_bytes + 3) / 4);
    if (u->output < seen)
        u->output = seen;
}

void meter_close(struct attempt *a, const struct call *call, const struct failure *failure)
{
    struct attempt_record *rec = a->record;
    const struct price *price = a->link->price;
    rec->tokens = a->usage;
    rec->price_version = price ? price->version : NULL;
    if (is_unbilled(a, failure)) {
        rec->tokens_from = TOKENS_UNBILLED;
        rec->tokens = (struct usage){0};
        rec->cost_nusd = rec->waste_nusd = 0;
        return;
    }
    rec->tokens_from = TOKENS_REPORTED;
    if (rec->outcome != OUTCOME_OK || a->usage.input < 0 || a->usage.output < 0) {
        rec->tokens_from = TOKENS_ESTIMATED;
        estimate(&rec->tokens, a, call);
    }
    clear_unknown(&rec->tokens);
    rec->cost_nusd = price ? price_cost(price, &rec->tokens) : NUSD_UNKNOWN;
    rec->waste_nusd = rec->is_served ? 0 : rec->cost_nusd;
}

static int64_t plus(int64_t a, int64_t b)
{
    if (a == NUSD_UNKNOWN || b == NUSD_UNKNOWN)
        return NUSD_UNKNOWN;
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

void meter_sum(struct request_record *rec)
{
    rec->cost_nusd = rec->waste_nusd = 0;
    for (uint16_t i = 0; i < rec->n_attempts; i++) {
        rec->cost_nusd = plus(rec->cost_nusd, rec->attempts[i].cost_nusd);
        rec->waste_nusd = plus(rec->waste_nusd, rec->attempts[i].waste_nusd);
    }
}

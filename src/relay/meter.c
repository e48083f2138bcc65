/* Three cases. Reported: the provider told, and the answer ended well. Unbilled: nothing was written, or a 4xx or 5xx
 * came instead of a generation. Estimated: everything else, from what was reported before the end and the bytes
 * a token that this target's reports have taught (plan/ratio.h). An unbilled attempt costs 0 even where no price is
 * known: no price times no tokens is known.
 *
 * What is billed of an answer that was broken off is the provider's own rule (price/abort.h). It asks who broke it off:
 * we, by a budget, a deadline, a lost race, a client that left or our own stop; or the provider, before its first
 * token. What the provider broke off later is billed as far as it came.
 *
 * The price is that of the moment at which the attempt began, and of its class of service: what the answer says it was
 * charged as, else what was asked for. A class without rates of its own is priced at the standard ones, and the record
 * says so. */
#include "relay/meter.h"

#include "price/price.h"
#include "price/service_class.h"

#include <stdio.h>

void meter_open(struct attempt *a, const struct call *call, bool is_same_dialect, int64_t wall_ms)
{
    const struct link_conf *l = a->link;
    a->wall_ms = wall_ms;
    if (l->service != NULL)
        service_class_read(bytes_of(l->service), a->record->service);
    else if (is_same_dialect && !l->drops_service && call->service.n > 0)
        service_class_read(call->service, a->record->service);
}

void meter_hear(struct attempt *a, struct bytes service)
{
    if (service_class_of(service).n == 0)
        return;
    service_class_read(service, a->record->service);
    a->record->is_service_told = true;
}

static bool is_unbilled(const struct attempt *a, const struct failure *f)
{
    if (attempt_has_token(a) || a->text_bytes > 0 || usage_is_known(&a->record->tokens))
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

static bool is_cut_by_us(enum outcome o)
{
    switch (o) {
    case OUTCOME_TTFT_TIMEOUT:
    case OUTCOME_TOTAL_TIMEOUT:
    case OUTCOME_IDLE_TIMEOUT:
    case OUTCOME_DEADLINE:
    case OUTCOME_CLIENT_CANCELLED:
    case OUTCOME_HEDGE_LOST:
    case OUTCOME_DRAINED:
        return true;
    default:
        return false;
    }
}

/* NULL = it is nobody's to decide: billed as far as it came. */
static const struct abort_billing *rule_of(const struct attempt *a)
{
    const struct abort_billing *rules = a->link->provider->aborts;
    enum outcome o = a->record->outcome;
    bool is_broken_stream = o == OUTCOME_PROTOCOL_ERROR && attempt_has_token(a); /* we close what we cannot read */
    if (is_cut_by_us(o) || is_broken_stream)
        return &rules[a->is_stream ? ABORT_STREAM : ABORT_WHOLE];
    return o != OUTCOME_OK && !attempt_has_token(a) ? &rules[ABORT_FAILED] : NULL;
}

static int64_t more(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of an answer that was generated to its end: as much as the call allows, else as much as others had. 0 = not known. */
static int64_t whole_output(const struct attempt *a, const struct call *call, const struct ratio_core *ratios)
{
    int64_t most = call->max_tokens, n = call->n > 1 ? call->n : 1, all;
    if (a->link->max_output > 0 && most > a->link->max_output)
        most = a->link->max_output;
    if (most <= 0)
        return ratio_mean_output(ratios, a->link->target_id); /* of all choices together */
    return __builtin_mul_overflow(most, n, &all) ? INT64_MAX : all;
}

static void estimate(struct usage *u, const struct attempt *a, uint64_t text_bytes, const struct call *call,
                     const struct abort_billing *rule, const struct ratio_core *ratios)
{
    uint16_t target = a->link->target_id;
    if (usage_prompt(u) == 0 && u->input < 0)
        u->input = ratio_tokens(ratios, target, RATIO_PROMPT, call->prompt_bytes);
    if (rule != NULL && rule->rule == ABORT_INPUT) {
        u->output = u->reasoning = 0;
        return;
    }
    u->output = more(u->output, ratio_tokens(ratios, target, RATIO_OUTPUT, text_bytes));
    if (rule != NULL && rule->rule == ABORT_RUNS_ON)
        u->output = more(u->output, whole_output(a, call, ratios));
}

/* A prompt with images or sound is more than its text. */
static void learn(const struct attempt *a, const struct call *call, struct ratio_core *ratios)
{
    const struct usage *u = &a->record->tokens;
    struct ratio_sample sample = {.bytes = {call->prompt_bytes, a->text_bytes},
                                  .tokens = {call->has_vision || call->has_audio ? -1 : usage_prompt(u), u->output},
                                  .is_whole = true};
    ratio_learn(ratios, a->link->target_id, &sample);
}

static void set_unbilled(struct attempt_record *rec)
{
    rec->tokens_from = TOKENS_UNBILLED;
    rec->tokens = (struct usage){0};
    rec->cost_nusd = rec->waste_nusd = 0;
}

void meter_close(struct attempt *a, const struct call *call, const struct failure *failure, struct ratio_core *ratios)
{
    struct attempt_record *rec = a->record;
    const struct price *price = link_price(a->link, a->record->service, a->wall_ms, &rec->is_price_standin);
    rec->price_version = price ? price->version : NULL;
    if (is_unbilled(a, failure)) {
        set_unbilled(rec);
        return;
    }
    const struct abort_billing *rule = rule_of(a);
    if (rule != NULL)
        rec->abort_words = abort_words(*rule);
    if (rule != NULL && rule->rule == ABORT_NOTHING) {
        set_unbilled(rec);
        return;
    }
    rec->tokens_from = TOKENS_REPORTED;
    if (rec->outcome != OUTCOME_OK || a->record->tokens.input < 0 || a->record->tokens.output < 0) {
        rec->tokens_from = TOKENS_ESTIMATED;
        estimate(&rec->tokens, a, a->text_bytes, call, rule, ratios);
    } else if (ratios != NULL && rec->kind != ATTEMPT_KEEPALIVE) {
        learn(a, call, ratios);
    }
    clear_unknown(&rec->tokens);
    rec->cost_nusd = price ? price_cost(price, &rec->tokens) : NUSD_UNKNOWN;
    rec->waste_nusd = rec->is_served || rec->kind == ATTEMPT_KEEPALIVE ? 0 : rec->cost_nusd;
}

int64_t meter_cut_nusd(const struct attempt *a, const struct call *call, const struct ratio_core *ratios)
{
    const struct abort_billing *rule = &a->link->provider->aborts[a->is_stream ? ABORT_STREAM : ABORT_WHOLE];
    bool is_standin;
    const struct price *price = link_price(a->link, a->record->service, a->wall_ms, &is_standin);
    struct usage u = a->record->tokens;
    u.output = u.reasoning = -1; /* some report a first token of it with the prompt */
    if (rule->rule == ABORT_NOTHING)
        return 0;
    estimate(&u, a, 0, call, rule, ratios);
    clear_unknown(&u);
    return price_cost(price, &u);
}

bool meter_words(const struct attempt_record *rec, char out[METER_WORDS])
{
    const char *billed = rec->abort_words != NULL ? rec->abort_words : "";
    bool is_odd = rec->is_price_standin && rec->tokens_from != TOKENS_UNBILLED;
    out[0] = '\0';
    if (billed[0] == '\0' && !is_odd)
        return false;
    snprintf(out, METER_WORDS, "%s%s%s%s", billed, billed[0] != '\0' && is_odd ? "; " : "", is_odd ? rec->service : "",
             is_odd ? " has no rates of its own, priced as standard" : "");
    return true;
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

/* What was recorded of a route's requests, kept small: times, sizes, outcomes and tokens of requests and their
 * attempts, nothing of their content. Records come in any order; then it is sealed, and may be asked. */
#ifndef RM_SIM_PAST_H
#define RM_SIM_PAST_H

#include "model/record.h"

struct past;

enum { PAST_NO_TARGET = UINT16_MAX, PAST_TARGETS_MAX = 1024 };

/* Times are microseconds from the attempt's start; -1 = did not happen. */
struct past_attempt {
    uint64_t at_us; /* its start, on the past's clock */
    int64_t connect_us, head_us, token_us, end_us;
    int64_t retry_after_ms;
    const char *service; /* class of service; "" = the standard one */
    struct usage tokens;
    uint32_t request; /* by time, from 0 */
    uint16_t target, status;
    uint8_t outcome; /* enum outcome */
    uint8_t tokens_from, cache_mark;
    bool is_started, is_again; /* again: the next one of its request is at the same target */
};
struct past_request {
    uint64_t at_us; /* arrival, on the past's clock: rising */
    uint64_t id;
    int64_t wall_ms, prompt_bytes, max_tokens;
    uint64_t prefix_hash;
    int64_t ttft_us, total_us; /* from its arrival */
    int64_t cost_nusd, waste_nusd;
    const char *dialect, *effort;
    struct prompt_record prompt;
    size_t first_attempt;
    uint16_t n_attempts, n_started;
    uint8_t outcome;
    bool is_stream;
};

/* A keepalive: was its target well? */
struct past_sign {
    uint64_t at_us;
    uint16_t target;
    bool is_well;
};

/* The past's clock begins here: all times on it are later. */
#define PAST_START_US UINT64_C(1000000)

/* n_max: so many requests are kept at most (>= 1). When more come, whole minutes are dropped by chance, half of all
 * that are left each time, so that what is kept shows targets and their health at the full rate. */
struct past *past_new(size_t n_max, uint64_t seed);
void past_free(struct past *p);
/* Copies what is needed. Records without a start time are passed over. */
void past_add(struct past *p, const struct request_record *rec);
/* A keepalive that ended so; after the records. Passed over: at a target that no record names, and an outcome that says
 * nothing of the target. */
void past_add_sign(struct past *p, const char *provider, const char *model, int64_t wall_ms, enum outcome o);
/* Sorts; nothing is added after it. */
void past_seal(struct past *p);

/* ---- sealed ---- */

size_t past_n_seen(const struct past *p);    /* requests that were added */
size_t past_n(const struct past *p);         /* requests that are kept */
size_t past_n_unknown(const struct past *p); /* of those kept: it was not recorded what a prompt cache could hold */
unsigned past_one_in(const struct past *p);  /* of so many, one is kept */
const struct past_request *past_request(const struct past *p, size_t i);
const struct past_attempt *past_attempts(const struct past *p, const struct past_request *r);
/* By its place among all attempts: a request's are those from its first_attempt on. */
const struct past_attempt *past_attempt_at(const struct past *p, size_t at);
/* Targets have numbers from 0. PAST_NO_TARGET when no record names it. */
uint16_t past_target(const struct past *p, const char *provider, const char *model);
size_t past_n_targets(const struct past *p);
/* Attempts that say something of the target (not of the request, or of our own stop), by rising start. */
const struct past_attempt *const *past_of_target(const struct past *p, uint16_t target, size_t *n);
/* Its keepalives, by rising time. */
const struct past_sign *past_signs(const struct past *p, uint16_t target, size_t *n);

/* ---- words about outcomes ---- */

/* We ended it, before its own end: what would have come is not known. */
bool past_is_cut(const struct past_attempt *a);
/* The request's own mistake: it would have met the same anywhere. */
bool past_is_own_mistake(enum outcome o);
/* Nobody's fault, and no answer: the client left, or we stopped. */
bool past_is_given_up(enum outcome o);

#endif

/* Which fault a request gets: rows, the first that applies wins; all conditions of a row must hold. Pure: time, numbers
 * and chance are handed in. */
#ifndef RM_LAB_MOCK_RULE_H
#define RM_LAB_MOCK_RULE_H

#include "base/rng.h"
#include "lab/fault.h"

enum { RULE_RANGES_MAX = 16, RULE_MODEL_BYTES = 128, RULES_MAX = FAULT_LIST_MAX, RULE_ALWAYS_PPM = 1000000 };

struct rule {
    struct fault fault;     /* its `times` is counted down; at 0 the row applies no more */
    uint32_t ppm;           /* probability in millionths */
    int64_t from_ms, to_ms; /* since start or reset, [from, to); -1 = open */
    struct {
        uint64_t from, to; /* both included, from 1 */
    } requests[RULE_RANGES_MAX];
    size_t n_requests;            /* 0 = every request */
    char model[RULE_MODEL_BYTES]; /* "" = every model */
};

struct rule_facts {
    uint64_t n; /* number of the request since start or reset, from 1 */
    uint64_t since_reset_ms;
    struct bytes model; /* as asked for */
};

/* Always, for every request. */
void rule_init(struct rule *r, const struct fault *f);
/* The row of this request, its times taken down; NULL = none applies. */
const struct rule *rules_pick(struct rule *v, size_t n, const struct rule_facts *facts, struct rng *r);
/* How connections are met now: FAULT_REFUSE or FAULT_DEAF when that is the first row that depends on nothing but time
 * and holds now, else FAULT_NONE. */
enum fault_kind rules_door(const struct rule *v, size_t n, uint64_t since_reset_ms);
/* When that may change next, in ms since reset; UINT64_MAX = never by itself. */
uint64_t rules_next_change(const struct rule *v, size_t n, uint64_t since_reset_ms);

#endif

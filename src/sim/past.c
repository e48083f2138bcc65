/* Requests and attempts lie in two growing arrays, a request's attempts next to each other. Sealing sorts the requests
 * by time (the attempts stay where they are) and lists the attempts of each target.
 *
 * Thinning: minute m is kept while the lowest bits of a hash of m are 0, one more bit each time that too much is there;
 * where that would leave next to nothing (all of it lies in a few minutes), the same is done by request. So the choice
 * needs no second reading. */
#include "sim/past.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>

enum {
    MINUTE_MS = 60000,
    THIN_BITS_MAX = 30,
    NAMES_MAX = 256,
    TOKENS_MAX = 1000000000,
    DAYS_MAX = 1500,
    SIGNS_MAX = 1000000,
    DAY_S = 86400
};
#define TIME_US_MAX INT64_C(21600000000) /* six hours */
#define DAY_MS INT64_C(86400000)
#define WALL_MS_MAX INT64_C(253402300800000) /* the year 10000 */

struct name {
    struct name *next;
    const char *text;
};
struct target {
    const char *provider, *model;
    const struct past_attempt **attempts;
    size_t n;
    const struct past_sign *signs;
    size_t n_signs;
};

struct past {
    struct arena arena; /* texts and targets' lists */
    struct name *names;
    size_t n_names;
    struct target targets[PAST_TARGETS_MAX];
    size_t n_targets;
    struct past_request *requests;
    size_t n_requests, cap_requests;
    struct past_attempt *attempts;
    size_t n_attempts, cap_attempts;
    struct past_sign *signs;
    size_t n_signs, cap_signs;
    size_t n_max, n_seen;
    uint64_t seed;
    unsigned minute_bits, request_bits;
    bool is_sealed;
};

struct past *past_new(size_t n_max, uint64_t seed)
{
    RM_ASSERT(n_max > 0);
    struct past *p = mem_zalloc(sizeof *p);
    p->n_max = n_max;
    p->seed = seed;
    return p;
}

void past_free(struct past *p)
{
    if (p == NULL)
        return;
    arena_fini(&p->arena);
    mem_free(p->requests);
    mem_free(p->attempts);
    mem_free(p->signs);
    mem_free(p);
}

bool past_is_cut(const struct past_attempt *a)
{
    switch ((enum outcome)a->outcome) {
    case OUTCOME_TTFT_TIMEOUT:
    case OUTCOME_TOTAL_TIMEOUT:
    case OUTCOME_DEADLINE:
    case OUTCOME_HEDGE_LOST:
    case OUTCOME_CLIENT_CANCELLED:
    case OUTCOME_DRAINED:
        return true;
    default:
        return false;
    }
}

bool past_is_own_mistake(enum outcome o)
{
    return o == OUTCOME_CLIENT_ERROR || o == OUTCOME_CONTEXT_LENGTH || o == OUTCOME_CONTENT_POLICY ||
           o == OUTCOME_INCOMPATIBLE;
}

bool past_is_given_up(enum outcome o)
{
    return o == OUTCOME_CLIENT_CANCELLED || o == OUTCOME_DRAINED;
}

/* ---- adding ---- */

static const char *name_of(struct past *p, const char *text)
{
    text = text != NULL ? text : "";
    for (struct name *n = p->names; n != NULL; n = n->next)
        if (strcmp(n->text, text) == 0)
            return n->text;
    if (p->n_names++ >= NAMES_MAX)
        return "";
    struct name *n = ARENA_NEW(&p->arena, struct name);
    *n = (struct name){p->names, arena_dup(&p->arena, bytes_of(text)).p};
    p->names = n;
    return n->text;
}

static uint16_t find_target(const struct past *p, const char *provider, const char *model)
{
    for (size_t i = 0; i < p->n_targets; i++)
        if (strcmp(p->targets[i].model, model) == 0 && strcmp(p->targets[i].provider, provider) == 0)
            return (uint16_t)i;
    return PAST_NO_TARGET;
}

static uint16_t add_target(struct past *p, const char *provider, const char *model)
{
    provider = provider != NULL ? provider : "";
    model = model != NULL ? model : "";
    uint16_t at = find_target(p, provider, model);
    if (at != PAST_NO_TARGET || p->n_targets == PAST_TARGETS_MAX)
        return at;
    p->targets[p->n_targets] = (struct target){.provider = arena_dup(&p->arena, bytes_of(provider)).p,
                                               .model = arena_dup(&p->arena, bytes_of(model)).p};
    return (uint16_t)p->n_targets++;
}

static bool is_chosen(const struct past *p, uint64_t key, unsigned bits)
{
    struct rng hash = {p->seed ^ (key * UINT64_C(0x9e3779b97f4a7c15))};
    return (rng_next(&hash) & ((UINT64_C(1) << bits) - 1)) == 0;
}

static bool is_kept(const struct past *p, int64_t wall_ms, uint64_t id)
{
    return is_chosen(p, (uint64_t)(wall_ms / MINUTE_MS), p->minute_bits) && is_chosen(p, ~id, p->request_bits);
}

static size_t n_left(const struct past *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_requests; i++)
        n += is_kept(p, p->requests[i].wall_ms, p->requests[i].id);
    return n;
}

static void drop(struct past *p)
{
    size_t n = 0, n_attempts = 0;
    for (size_t i = 0; i < p->n_requests; i++) {
        struct past_request r = p->requests[i];
        if (!is_kept(p, r.wall_ms, r.id))
            continue;
        memmove(p->attempts + n_attempts, p->attempts + r.first_attempt, r.n_attempts * sizeof *p->attempts);
        r.first_attempt = n_attempts;
        n_attempts += r.n_attempts;
        p->requests[n++] = r;
    }
    p->n_requests = n;
    p->n_attempts = n_attempts;
}

/* Halves until there is room. */
static void thin(struct past *p)
{
    while (p->n_requests >= p->n_max && p->minute_bits + p->request_bits < THIN_BITS_MAX) {
        p->minute_bits++;
        if (n_left(p) < p->n_requests / 8) {
            p->minute_bits--;
            p->request_bits++;
        }
        drop(p);
    }
}

static void grow(struct past *p, size_t n_attempts)
{
    if (p->n_requests == p->cap_requests) {
        p->cap_requests = p->cap_requests ? 2 * p->cap_requests : 1024;
        p->requests = mem_realloc(p->requests, p->cap_requests * sizeof *p->requests);
    }
    if (p->n_attempts + n_attempts > p->cap_attempts) {
        p->cap_attempts = 2 * p->cap_attempts + n_attempts + 1024;
        p->attempts = mem_realloc(p->attempts, p->cap_attempts * sizeof *p->attempts);
    }
}

/* A ledger is a file like any other: what stands there is held within bounds. */
static int64_t within(int64_t v, int64_t min, int64_t max)
{
    return v < min ? min : v > max ? max : v;
}

static int64_t since(int64_t from_us, int64_t at_us)
{
    int64_t us = within(at_us, -1, TIME_US_MAX);
    return us < 0 ? -1 : us > from_us ? us - from_us : 0;
}

static struct usage tokens_within(const struct usage *u)
{
    return (struct usage){within(u->input, 0, TOKENS_MAX),          within(u->cache_read, 0, TOKENS_MAX),
                          within(u->cache_write_5m, 0, TOKENS_MAX), within(u->cache_write_1h, 0, TOKENS_MAX),
                          within(u->output, 0, TOKENS_MAX),         within(u->reasoning, 0, TOKENS_MAX)};
}

static uint8_t outcome_within(enum outcome o)
{
    return (unsigned)o < OUTCOME_N ? (uint8_t)o : OUTCOME_NONE;
}

static void add_attempt(struct past *p, const struct attempt_record *a)
{
    struct past_attempt *to = &p->attempts[p->n_attempts++];
    int64_t start_us = within(a->start_us, 0, TIME_US_MAX);
    *to = (struct past_attempt){.at_us = (uint64_t)start_us,
                                .connect_us = within(a->connect_us, -1, TIME_US_MAX),
                                .head_us = since(start_us, a->first_byte_us),
                                .token_us = since(start_us, a->ttft_us),
                                .end_us = since(start_us, a->total_us),
                                .retry_after_ms = within(a->retry_after_ms, -1, DAY_MS),
                                .service = name_of(p, a->service),
                                .tokens = tokens_within(&a->tokens),
                                .target = add_target(p, a->provider, a->model),
                                .status = a->status,
                                .outcome = outcome_within(a->outcome),
                                .tokens_from = (uint8_t)a->tokens_from,
                                .cache_mark = (uint8_t)a->cache_mark,
                                .is_started = a->is_started};
}

static struct prompt_record prompt_within(struct past *p, const struct prompt_record *from)
{
    struct prompt_record to = *from;
    to.head_bytes = within(from->head_bytes, 0, TOKENS_MAX);
    to.cache_bytes = within(from->cache_bytes, 0, TOKENS_MAX);
    to.cache_ttl_s = within(from->cache_ttl_s, 0, DAY_S);
    to.routing = name_of(p, from->routing);
    return to;
}

void past_add(struct past *p, const struct request_record *rec)
{
    RM_ASSERT(!p->is_sealed);
    if (rec->started_wall_ms <= 0 || rec->started_wall_ms > WALL_MS_MAX)
        return;
    p->n_seen++;
    if (p->n_requests >= p->n_max)
        thin(p);
    if (!is_kept(p, rec->started_wall_ms, rec->id) || p->n_requests >= p->n_max)
        return;
    grow(p, rec->n_attempts);
    struct past_request *r = &p->requests[p->n_requests++];
    *r = (struct past_request){.id = rec->id,
                               .wall_ms = rec->started_wall_ms,
                               .prompt_bytes = within(rec->prompt_bytes, 0, TOKENS_MAX),
                               .max_tokens = rec->max_tokens,
                               .prefix_hash = rec->prefix_hash,
                               .ttft_us = within(rec->ttft_us, -1, TIME_US_MAX),
                               .total_us = within(rec->total_us, -1, TIME_US_MAX),
                               .cost_nusd = rec->cost_nusd,
                               .waste_nusd = rec->waste_nusd,
                               .dialect = name_of(p, rec->dialect),
                               .effort = name_of(p, rec->effort),
                               .prompt = prompt_within(p, &rec->prompt),
                               .first_attempt = p->n_attempts,
                               .n_attempts = rec->n_attempts,
                               .outcome = outcome_within(rec->outcome),
                               .is_stream = rec->is_stream};
    for (uint16_t i = 0; i < rec->n_attempts; i++) {
        add_attempt(p, &rec->attempts[i]);
        r->n_started += rec->attempts[i].is_started;
    }
}

void past_add_sign(struct past *p, const char *provider, const char *model, int64_t wall_ms, enum outcome o)
{
    RM_ASSERT(!p->is_sealed);
    uint16_t target = find_target(p, provider, model);
    bool says_nothing = past_is_own_mistake(o) || past_is_given_up(o) || o == OUTCOME_NONE || o == OUTCOME_REPAIRED;
    if (target == PAST_NO_TARGET || says_nothing || wall_ms <= 0 || wall_ms > WALL_MS_MAX || p->n_signs == SIGNS_MAX)
        return;
    if (p->n_signs == p->cap_signs) {
        p->cap_signs = p->cap_signs ? 2 * p->cap_signs : 256;
        p->signs = mem_realloc(p->signs, p->cap_signs * sizeof *p->signs);
    }
    p->signs[p->n_signs++] = (struct past_sign){(uint64_t)wall_ms, target, o == OUTCOME_OK};
}

/* ---- sealing ---- */

static int by_time(const void *a, const void *b)
{
    const struct past_request *x = a, *y = b;
    if (x->wall_ms != y->wall_ms)
        return x->wall_ms < y->wall_ms ? -1 : 1;
    return x->id != y->id ? (x->id < y->id ? -1 : 1) : 0;
}

static int by_start(const void *a, const void *b)
{
    const struct past_attempt *x = *(const struct past_attempt *const *)a, *y = *(const struct past_attempt *const *)b;
    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool says_something(const struct past_attempt *a)
{
    return a->is_started && a->target != PAST_NO_TARGET && !past_is_own_mistake(a->outcome) &&
           a->outcome != OUTCOME_REPAIRED && a->outcome != OUTCOME_DRAINED && a->outcome != OUTCOME_NONE;
}

static void count_attempts(struct past *p)
{
    for (size_t i = 0; i < p->n_requests; i++) {
        const struct past_request *r = &p->requests[i];
        for (uint16_t k = 0; k < r->n_attempts; k++) {
            const struct past_attempt *a = &p->attempts[r->first_attempt + k];
            if (says_something(a))
                p->targets[a->target].n++;
        }
    }
}

static void list_targets(struct past *p)
{
    count_attempts(p);
    for (size_t t = 0; t < p->n_targets; t++) {
        p->targets[t].attempts = ARENA_ARRAY(&p->arena, const struct past_attempt *, p->targets[t].n + 1);
        p->targets[t].n = 0;
    }
    for (size_t i = 0; i < p->n_requests; i++) {
        const struct past_request *r = &p->requests[i];
        for (uint16_t k = 0; k < r->n_attempts; k++) {
            const struct past_attempt *a = &p->attempts[r->first_attempt + k];
            struct target *t = a->target == PAST_NO_TARGET ? NULL : &p->targets[a->target];
            if (t != NULL && says_something(a))
                t->attempts[t->n++] = a;
        }
    }
    for (size_t t = 0; t < p->n_targets; t++)
        if (p->targets[t].n > 0)
            qsort(p->targets[t].attempts, p->targets[t].n, sizeof p->targets[t].attempts[0], by_start);
}

static int by_target(const void *a, const void *b)
{
    const struct past_sign *x = a, *y = b;
    if (x->target != y->target)
        return x->target < y->target ? -1 : 1;
    return x->at_us < y->at_us ? -1 : x->at_us > y->at_us;
}

/* From wall time to the past's clock, which what came before the first request is not on. */
static void list_signs(struct past *p)
{
    size_t n = 0;
    uint64_t first_ms = p->n_requests > 0 ? (uint64_t)p->requests[0].wall_ms : UINT64_MAX;
    for (size_t i = 0; i < p->n_signs; i++) {
        struct past_sign s = p->signs[i];
        if (s.at_us < first_ms)
            continue;
        s.at_us = PAST_START_US + (s.at_us - first_ms) * 1000;
        p->signs[n++] = s;
    }
    p->n_signs = n;
    if (n > 0)
        qsort(p->signs, n, sizeof *p->signs, by_target);
    for (size_t i = n; i-- > 0;) {
        struct target *t = &p->targets[p->signs[i].target];
        t->signs = &p->signs[i];
        t->n_signs++;
    }
}

/* What is years older than the rest would only stretch the clock. */
static void drop_ancient(struct past *p)
{
    size_t n = 0;
    int64_t newest_ms = p->n_requests > 0 ? p->requests[p->n_requests - 1].wall_ms : 0;
    while (n < p->n_requests && newest_ms - p->requests[n].wall_ms > DAYS_MAX * DAY_MS)
        n++;
    p->n_requests -= n;
    memmove(p->requests, p->requests + n, p->n_requests * sizeof *p->requests);
}

void past_seal(struct past *p)
{
    RM_ASSERT(!p->is_sealed);
    p->is_sealed = true;
    if (p->n_requests > 0) {
        qsort(p->requests, p->n_requests, sizeof *p->requests, by_time);
        drop_ancient(p);
    }
    for (size_t i = 0; i < p->n_requests; i++) {
        struct past_request *r = &p->requests[i];
        r->at_us = PAST_START_US + (uint64_t)(r->wall_ms - p->requests[0].wall_ms) * 1000;
        for (uint16_t k = 0; k < r->n_attempts; k++) {
            struct past_attempt *a = &p->attempts[r->first_attempt + k];
            a->at_us += r->at_us;
            a->request = (uint32_t)i;
            a->is_again = k + 1 < r->n_attempts && a[1].is_started && a[1].target == a->target;
        }
    }
    list_targets(p);
    list_signs(p);
}

/* ---- sealed ---- */

size_t past_n_seen(const struct past *p)
{
    return p->n_seen;
}

size_t past_n(const struct past *p)
{
    return p->n_requests;
}

size_t past_n_unknown(const struct past *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_requests; i++)
        n += !p->requests[i].prompt.is_known && p->requests[i].n_started > 0;
    return n;
}

unsigned past_one_in(const struct past *p)
{
    return 1U << (p->minute_bits + p->request_bits);
}

const struct past_request *past_request(const struct past *p, size_t i)
{
    RM_ASSERT(p->is_sealed && i < p->n_requests);
    return &p->requests[i];
}

const struct past_attempt *past_attempts(const struct past *p, const struct past_request *r)
{
    return p->attempts + r->first_attempt;
}

const struct past_attempt *past_attempt_at(const struct past *p, size_t at)
{
    RM_ASSERT(at < p->n_attempts);
    return p->attempts + at;
}

uint16_t past_target(const struct past *p, const char *provider, const char *model)
{
    return find_target(p, provider, model);
}

size_t past_n_targets(const struct past *p)
{
    return p->n_targets;
}

const struct past_attempt *const *past_of_target(const struct past *p, uint16_t target, size_t *n)
{
    RM_ASSERT(p->is_sealed && target < p->n_targets);
    *n = p->targets[target].n;
    return p->targets[target].attempts;
}

const struct past_sign *past_signs(const struct past *p, uint16_t target, size_t *n)
{
    RM_ASSERT(p->is_sealed && target < p->n_targets);
    *n = p->targets[target].n_signs;
    return p->targets[target].signs;
}

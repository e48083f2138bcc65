/* How health moves. Each target and each credential has one 64-bit word:
 *
 *     63  62 61          48 47                       0
 *    [ state | generation  |  until, us               ]
 *
 *    CLOSED --failures, hint--> OPEN(until) --one CAS at or after until--> TRIAL(until kept)
 *      ^                         ^   |                                      |
 *      |                         |   '-- registry_force: the same CAS early |
 *      '---- success ------------+-- failure: later until; gone: same until '
 *
 * While a word says TRIAL only the holder of the token moves it, so a token never goes stale and there is never a
 * second trial. A reader may see the word one request late when it opens; the CAS makes it exact when it grants.
 * `until` is kept while the trial runs, so that giving it back is exact as well.
 *
 * A credential that is due grants its trial for the target too: nobody else gets past the credential meanwhile.
 *
 * The failure ratio is kept in ten buckets a window. Failures: one word [ epoch | bad ] a bucket, which cores share; a
 * bucket of another epoch is started anew by whoever comes first. Successes, one with nearly every request, are each
 * core's own: [ epoch | n_cleared | good ], added up when a failure asks. A core cannot clear another's: words of
 * another n_cleared do not count. So a target in good health is written by nobody. */
#include "plan/registry.h"

#include "base/arena.h"
#include "base/mem.h"

#include <pthread.h>

enum {
    BUCKETS = 10,
    RUN_PROBATION = 1 << 20, /* more than any `failures` setting */
    LEVEL_MAX = 16,
    KEEPALIVE_CALLS_A_DAY = 2880
};
#define SECOND_US UINT64_C(1000000)
#define TOUCH_EVERY_US (SECOND_US / 10)
#define UNTIL_MASK ((UINT64_C(1) << 48) - 1)
#define NOT_FOUND_US (600 * SECOND_US)
#define AUTH_US (300 * SECOND_US)
#define QUOTA_US (3600 * SECOND_US)
#define QUOTA_MAX_US (24 * QUOTA_US)
#define HINT_MAX_MS INT64_C(86400000)
#define RATE_PAIR_US (10 * SECOND_US)
#define WINDOW_DEFAULT_US (30 * SECOND_US)

struct health {
    _Atomic uint64_t word;
    _Atomic uint32_t run;   /* counted failures in a row */
    _Atomic uint32_t level; /* openings in a row without success: the doubling */
    _Atomic uint64_t last_429_us;
    _Atomic uint64_t window_us; /* as the last failure's route had it; 0 = none yet */
    _Atomic uint32_t n_cleared;
    _Atomic uint64_t buckets[BUCKETS]; /* failures */
};
struct target {
    struct health health;
    _Atomic uint8_t quirks;
    _Atomic uint64_t touch_us;
    _Atomic int64_t day;     /* of the two sums below */
    _Atomic int64_t spent;   /* nano-dollars of keepalives */
    _Atomic int64_t calls;   /* keepalives without a price */
    _Atomic uint64_t hedges; /* [ minute | count in it ], 32 bits each */
    const char *key;
};
struct credential {
    struct health health;
    const char *provider;
    uint64_t key_hash;
};
/* A core's successes. Only that core writes them; a failure reads all cores'. */
struct tally {
    _Atomic uint64_t good[REGISTRY_TARGETS_MAX][BUCKETS];
};
struct shared {
    pthread_mutex_t lock; /* interning only */
    struct arena names;
    uint16_t n_targets, n_credentials;
    struct target targets[REGISTRY_TARGETS_MAX];
    struct credential credentials[REGISTRY_CREDENTIALS_MAX];
    _Atomic(struct tally *) tallies[REGISTRY_CORES_MAX];
};
struct registry {
    struct shared *all;
    struct tally *own;
    bool is_first; /* and frees what is shared */
};

static struct registry *new_handle(struct shared *all, unsigned core)
{
    RM_ASSERT(core < REGISTRY_CORES_MAX);
    struct registry *r = mem_zalloc_lines(sizeof *r);
    r->all = all;
    r->own = atomic_load(&all->tallies[core]);
    if (r->own == NULL) {
        r->own = mem_zalloc(sizeof *r->own); /* large: pages of its own, that come when they are used */
        atomic_store(&all->tallies[core], r->own);
    }
    return r;
}

struct registry *registry_new(void)
{
    struct shared *all = mem_zalloc(sizeof *all);
    RM_ASSERT(pthread_mutex_init(&all->lock, NULL) == 0);
    arena_init(&all->names);
    struct registry *r = new_handle(all, 0);
    r->is_first = true;
    return r;
}

struct registry *registry_of_core(struct registry *first, unsigned core)
{
    return new_handle(first->all, core);
}

static void free_shared(struct shared *all)
{
    for (size_t i = 0; i < REGISTRY_CORES_MAX; i++)
        mem_free(atomic_load(&all->tallies[i]));
    arena_fini(&all->names);
    pthread_mutex_destroy(&all->lock);
    mem_free(all);
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    if (r->is_first)
        free_shared(r->all);
    mem_free(r);
}

/* ---- interning ---- */

enum err registry_intern_target(struct registry *r, const char *provider, const char *host, const char *model,
                                uint16_t *id)
{
    enum err e = ERR_OK;
    pthread_mutex_lock(&r->all->lock);
    struct arena_mark mark = arena_mark(&r->all->names);
    struct bytes key = arena_printf(&r->all->names, "%s %s %s", provider, host, model);
    uint16_t i = 0;
    while (i < r->all->n_targets && !bytes_is(key, r->all->targets[i].key))
        i++;
    if (i < r->all->n_targets) {
        arena_reset(&r->all->names, mark);
    } else if (i == REGISTRY_TARGETS_MAX) {
        arena_reset(&r->all->names, mark);
        e = ERR_LIMIT;
    } else {
        r->all->targets[i].key = key.p;
        r->all->n_targets++;
    }
    if (e == ERR_OK)
        *id = i;
    pthread_mutex_unlock(&r->all->lock);
    return e;
}

enum err registry_intern_credential(struct registry *r, const char *provider, uint64_t key_hash, uint16_t *id)
{
    enum err e = ERR_OK;
    pthread_mutex_lock(&r->all->lock);
    uint16_t i = 0;
    while (i < r->all->n_credentials && (r->all->credentials[i].key_hash != key_hash ||
                                         !bytes_is(bytes_of(provider), r->all->credentials[i].provider)))
        i++;
    if (i == r->all->n_credentials) {
        if (i == REGISTRY_CREDENTIALS_MAX) {
            e = ERR_LIMIT;
        } else {
            r->all->credentials[i].provider = arena_dup(&r->all->names, bytes_of(provider)).p;
            r->all->credentials[i].key_hash = key_hash;
            r->all->n_credentials++;
        }
    }
    if (e == ERR_OK)
        *id = i;
    pthread_mutex_unlock(&r->all->lock);
    return e;
}

/* ---- the word ---- */

static enum health_state state_of(uint64_t word)
{
    return (enum health_state)(word >> 62);
}

static uint64_t until_of(uint64_t word)
{
    return word & UNTIL_MASK;
}

static uint64_t word_next(uint64_t old, enum health_state state, uint64_t until)
{
    uint64_t generation = ((old >> 48) + 1) & 0x3fff;
    return ((uint64_t)state << 62) | (generation << 48) | (until > UNTIL_MASK ? UNTIL_MASK : until);
}

static bool swap(struct health *h, uint64_t *old, uint64_t word)
{
    return atomic_compare_exchange_strong(&h->word, old, word);
}

/* Opens until `until`; never shortens, never touches another's trial. */
static void open_until(struct health *h, uint64_t until)
{
    uint64_t old = atomic_load(&h->word);
    while (state_of(old) == HEALTH_CLOSED || (state_of(old) == HEALTH_OPEN && until_of(old) < until))
        if (swap(h, &old, word_next(old, HEALTH_OPEN, until)))
            return;
}

/* The holder of a trial ends it. */
static void settle(struct health *h, struct trial *t, enum health_state state, uint64_t until)
{
    uint64_t old = t->word;
    bool is_ours = swap(h, &old, word_next(old, state, until));
    RM_ASSERT(is_ours);
    t->word = 0;
}

static bool take_trial(struct health *h, uint64_t old, struct trial *t)
{
    uint64_t word = word_next(old, HEALTH_TRIAL, until_of(old));
    if (!swap(h, &old, word))
        return false;
    t->word = word;
    return true;
}

static struct health *health_of(struct registry *r, const struct trial *t)
{
    return t->is_credential ? &r->all->credentials[t->target_id].health : &r->all->targets[t->target_id].health;
}

static bool may_pass(uint64_t word, uint64_t now)
{
    return state_of(word) == HEALTH_CLOSED || (state_of(word) == HEALTH_OPEN && until_of(word) <= now);
}

enum pass registry_pass(struct registry *r, uint16_t target_id, uint16_t credential_id, uint64_t now_us,
                        struct trial *t)
{
    struct health *target = &r->all->targets[target_id].health;
    struct health *credential = &r->all->credentials[credential_id].health;
    uint64_t tw = atomic_load(&target->word), cw = atomic_load(&credential->word);
    *t = (struct trial){0};
    if (!may_pass(tw, now_us) || !may_pass(cw, now_us))
        return PASS_NO;
    if (state_of(cw) != HEALTH_CLOSED) {
        t->target_id = credential_id;
        t->is_credential = true;
        return take_trial(credential, cw, t) ? PASS_TRIAL : PASS_NO;
    }
    if (state_of(tw) == HEALTH_CLOSED)
        return PASS_YES;
    t->target_id = target_id;
    return take_trial(target, tw, t) ? PASS_TRIAL : PASS_NO;
}

bool registry_force(struct registry *r, uint16_t target_id, uint16_t credential_id, uint64_t now_us, struct trial *t)
{
    struct health *target = &r->all->targets[target_id].health;
    struct health *credential = &r->all->credentials[credential_id].health;
    uint64_t tw = atomic_load(&target->word), cw = atomic_load(&credential->word);
    *t = (struct trial){0};
    if (state_of(tw) == HEALTH_TRIAL || state_of(cw) == HEALTH_TRIAL)
        return false;
    if (state_of(cw) == HEALTH_OPEN) {
        t->target_id = credential_id;
        t->is_credential = true;
        return take_trial(credential, cw, t);
    }
    if (state_of(tw) == HEALTH_CLOSED)
        return true;
    t->target_id = target_id;
    return take_trial(target, tw, t);
}

static uint64_t soonest(uint64_t word, uint64_t now)
{
    if (state_of(word) == HEALTH_TRIAL) /* taken: how it ends is not known, so soon */
        return until_of(word) > now + SECOND_US ? until_of(word) : now + SECOND_US;
    return state_of(word) == HEALTH_OPEN && until_of(word) > now ? until_of(word) : 0;
}

uint64_t registry_until(const struct registry *r, uint16_t target_id, uint16_t credential_id, uint64_t now_us)
{
    uint64_t a = soonest(atomic_load(&r->all->targets[target_id].health.word), now_us);
    uint64_t b = soonest(atomic_load(&r->all->credentials[credential_id].health.word), now_us);
    return a > b ? a : b;
}

/* ---- the window ---- */

/* The bucket that is due now: its number since the start, 0 = never. */
static uint32_t epoch_of(uint64_t now_us, uint64_t window_us)
{
    uint64_t span = window_us / BUCKETS > 0 ? window_us / BUCKETS : 1;
    return (uint32_t)(now_us / span) + 1;
}

static void count_good(struct registry *r, uint16_t target_id, uint64_t now_us)
{
    const struct health *h = &r->all->targets[target_id].health;
    uint64_t window_us = atomic_load(&h->window_us);
    uint32_t epoch = epoch_of(now_us, window_us ? window_us : WINDOW_DEFAULT_US);
    _Atomic uint64_t *b = &r->own->good[target_id][epoch % BUCKETS];
    uint64_t old = atomic_load_explicit(b, memory_order_relaxed);
    uint64_t word = (uint64_t)epoch << 32 | (uint64_t)(uint16_t)atomic_load(&h->n_cleared) << 16;
    if (old >> 16 == word >> 16)
        word = (old & 0xffff) < 0xffff ? old : old - 1;
    atomic_store_explicit(b, word + 1, memory_order_relaxed);
}

static void count_bad(struct health *h, uint32_t epoch)
{
    _Atomic uint64_t *b = &h->buckets[epoch % BUCKETS];
    uint64_t old = atomic_load(b), word;
    do {
        word = old >> 32 == epoch ? old : (uint64_t)epoch << 32;
        if ((uint32_t)word == UINT32_MAX)
            return;
    } while (!atomic_compare_exchange_weak(b, &old, word + 1));
}

static bool is_in_window(uint64_t word, uint32_t epoch)
{
    return word != 0 && epoch - (uint32_t)(word >> 32) < BUCKETS;
}

static uint64_t n_good(const struct shared *all, uint16_t target_id, uint32_t epoch)
{
    uint64_t sum = 0;
    uint16_t cleared = (uint16_t)atomic_load(&all->targets[target_id].health.n_cleared);
    for (size_t c = 0; c < REGISTRY_CORES_MAX; c++) {
        const struct tally *t = atomic_load(&all->tallies[c]);
        for (int i = 0; t != NULL && i < BUCKETS; i++) {
            uint64_t w = atomic_load_explicit(&t->good[target_id][i], memory_order_relaxed);
            if (is_in_window(w, epoch) && (uint16_t)(w >> 16) == cleared)
                sum += w & 0xffff;
        }
    }
    return sum;
}

static uint64_t n_bad(const struct health *h, uint32_t epoch)
{
    uint64_t sum = 0;
    for (int i = 0; i < BUCKETS; i++) {
        uint64_t w = atomic_load(&h->buckets[i]);
        if (is_in_window(w, epoch))
            sum += (uint32_t)w;
    }
    return sum;
}

static void window_clear(struct health *h)
{
    atomic_fetch_add(&h->n_cleared, 1); /* the cores' own successes: of another time */
    for (int i = 0; i < BUCKETS; i++)
        atomic_store(&h->buckets[i], 0);
}

/* Written only where it differs: cores share this line. */
static void set_zero(_Atomic uint32_t *v)
{
    if (atomic_load(v) != 0)
        atomic_store(v, 0);
}

static uint64_t cooldown(struct health *h, const struct breaker_conf *b, struct rng *rng)
{
    uint32_t level = atomic_load(&h->level);
    if (level < LEVEL_MAX)
        atomic_fetch_add(&h->level, 1);
    uint64_t us = (uint64_t)b->cooldown_ms * 1000 << level, max = (uint64_t)b->cooldown_max_ms * 1000;
    return rng_jitter(rng, us < max ? us : max, 20);
}

/* ---- settling ---- */

static void give_back(struct registry *r, struct trial *t)
{
    if (t->word != 0)
        settle(health_of(r, t), t, HEALTH_OPEN, until_of(t->word));
}

/* A credential's trial went well as far as the credential goes. */
static void close_credential(struct registry *r, struct trial *t)
{
    struct health *h = health_of(r, t);
    atomic_store(&h->level, 0);
    settle(h, t, HEALTH_CLOSED, 0);
}

static void close_if_due(struct health *h, uint64_t now)
{
    uint64_t old = atomic_load(&h->word);
    while (state_of(old) == HEALTH_OPEN && until_of(old) <= now)
        if (swap(h, &old, word_next(old, HEALTH_CLOSED, 0)))
            return;
}

/* The word of the target after a success of the holder of t. */
static void close_by(struct registry *r, uint16_t target_id, uint64_t now, struct trial *t)
{
    struct health *target = &r->all->targets[target_id].health;
    if (t->is_credential) {
        close_credential(r, t);
        close_if_due(target, now);
    } else {
        settle(target, t, HEALTH_CLOSED, 0);
    }
    window_clear(target);
}

void registry_first_token(struct registry *r, uint16_t target_id, uint64_t now_us, struct trial *t)
{
    if (t->word == 0)
        return;
    atomic_store(&r->all->targets[target_id].health.run, RUN_PROBATION);
    close_by(r, target_id, now_us, t);
}

void registry_good(struct registry *r, uint16_t target_id, uint16_t credential_id, uint64_t now_us, struct trial *t)
{
    struct health *target = &r->all->targets[target_id].health;
    RM_ASSERT(t->word == 0 || !t->is_credential || t->target_id == credential_id);
    if (t->word != 0)
        close_by(r, target_id, now_us, t);
    else if (state_of(atomic_load(&target->word)) != HEALTH_CLOSED)
        return; /* an answer that was begun before it opened proves nothing of now */
    set_zero(&target->run);
    set_zero(&target->level);
    count_good(r, target_id, now_us);
}

void registry_neutral(struct registry *r, struct trial *t, uint64_t now_us)
{
    give_back(r, t);
}

/* A trial failed by a counted failure: open again, for longer; a forced one leaves the time as it was. */
static void reopen(struct registry *r, uint16_t target_id, uint64_t now, const struct breaker_conf *b, struct rng *rng,
                   struct trial *t)
{
    struct health *target = &r->all->targets[target_id].health;
    if (t->is_credential) { /* the credential was not what failed */
        uint64_t old = atomic_load(&target->word);
        give_back(r, t);
        if (state_of(old) == HEALTH_OPEN && until_of(old) <= now)
            open_until(target, now + cooldown(target, b, rng));
        return;
    }
    uint64_t until = until_of(t->word);
    settle(target, t, HEALTH_OPEN, until > now ? until : now + cooldown(target, b, rng));
}

static bool is_second_429(struct health *h, uint64_t now)
{
    uint64_t last = atomic_exchange(&h->last_429_us, now + 1);
    return last != 0 && now + 1 - last <= RATE_PAIR_US;
}

void registry_bad(struct registry *r, uint16_t target_id, uint64_t now_us, bool is_429, const struct breaker_conf *b,
                  struct rng *rng, struct trial *t)
{
    struct health *target = &r->all->targets[target_id].health;
    if (b->is_off) {
        give_back(r, t);
        return;
    }
    bool is_pair = is_429 && is_second_429(target, now_us);
    uint32_t run = atomic_fetch_add(&target->run, 1) + 1, epoch = epoch_of(now_us, (uint64_t)b->window_ms * 1000);
    if (run >= 2 * RUN_PROBATION) /* far from wrapping */
        atomic_store(&target->run, RUN_PROBATION);
    atomic_store(&target->window_us, (uint64_t)b->window_ms * 1000);
    count_bad(target, epoch);
    uint64_t bad = n_bad(target, epoch), total = bad + n_good(r->all, target_id, epoch);
    bool was_trial = t->word != 0;
    if (was_trial)
        reopen(r, target_id, now_us, b, rng, t);
    if (is_pair)
        open_until(target, now_us + 10 * SECOND_US);
    if (was_trial || state_of(atomic_load(&target->word)) != HEALTH_CLOSED)
        return;
    if (run >= b->failures || (total >= b->ratio_min && bad * 1000 >= total * b->ratio_permille))
        open_until(target, now_us + cooldown(target, b, rng));
}

static uint64_t hint_us(int64_t ms)
{
    int64_t clipped = ms < 0 ? 0 : ms > HINT_MAX_MS ? HINT_MAX_MS : ms;
    return (uint64_t)clipped * 1000;
}

void registry_hint(struct registry *r, uint16_t target_id, uint64_t now_us, int64_t retry_after_ms, struct rng *rng,
                   struct trial *t)
{
    uint64_t us = hint_us(retry_after_ms);
    uint64_t until = now_us + us + rng_below(rng, us / 10 + 1);
    struct health *target = &r->all->targets[target_id].health;
    if (t->word != 0 && !t->is_credential) {
        settle(target, t, HEALTH_OPEN, until);
        return;
    }
    give_back(r, t);
    open_until(target, until);
}

void registry_not_found(struct registry *r, uint16_t target_id, uint64_t now_us, struct trial *t)
{
    struct health *target = &r->all->targets[target_id].health;
    if (t->word != 0 && !t->is_credential) {
        settle(target, t, HEALTH_OPEN, now_us + NOT_FOUND_US);
        return;
    }
    give_back(r, t);
    open_until(target, now_us + NOT_FOUND_US);
}

static void close_account(struct registry *r, uint16_t credential_id, uint64_t until, struct trial *t)
{
    struct health *h = &r->all->credentials[credential_id].health;
    if (t->word != 0 && t->is_credential) {
        settle(h, t, HEALTH_OPEN, until);
        return;
    }
    give_back(r, t);
    open_until(h, until);
}

void registry_quota(struct registry *r, uint16_t credential_id, uint64_t now_us, int64_t hint_ms, struct trial *t)
{
    struct health *h = &r->all->credentials[credential_id].health;
    bool is_new = t->word != 0 || state_of(atomic_load(&h->word)) == HEALTH_CLOSED;
    uint32_t level = atomic_load(&h->level);
    if (is_new && level < LEVEL_MAX)
        atomic_fetch_add(&h->level, 1);
    else if (level > 0) /* requests in flight together are one discovery */
        level--;
    uint64_t us = QUOTA_US << level;
    if (us > QUOTA_MAX_US)
        us = QUOTA_MAX_US;
    if (hint_ms >= 0 && hint_us(hint_ms) > us)
        us = hint_us(hint_ms);
    close_account(r, credential_id, now_us + us, t);
}

void registry_auth(struct registry *r, uint16_t credential_id, uint64_t now_us, struct trial *t)
{
    close_account(r, credential_id, now_us + AUTH_US, t);
}

/* ---- quirks, keepalives ---- */

uint8_t registry_quirks(const struct registry *r, uint16_t target_id)
{
    return atomic_load(&r->all->targets[target_id].quirks);
}

bool registry_learn_quirk(struct registry *r, uint16_t target_id, uint8_t quirk)
{
    return (atomic_fetch_or(&r->all->targets[target_id].quirks, quirk) & quirk) != quirk;
}

void registry_touch(struct registry *r, uint16_t target_id, uint64_t now_us)
{
    _Atomic uint64_t *touch = &r->all->targets[target_id].touch_us;
    uint64_t old = atomic_load(touch);
    if (now_us < old + TOUCH_EVERY_US)
        return; /* cores share this line: a busy target is not written at every request */
    while (old < now_us && !atomic_compare_exchange_weak(touch, &old, now_us))
        ;
}

uint64_t registry_touched_us(const struct registry *r, uint16_t target_id)
{
    return atomic_load(&r->all->targets[target_id].touch_us);
}

bool registry_lease_keepalive(struct registry *r, uint16_t target_id, uint64_t now_us, uint64_t every_us)
{
    _Atomic uint64_t *touch = &r->all->targets[target_id].touch_us;
    uint64_t old = atomic_load(touch);
    if (old != 0 && now_us < old + every_us)
        return false;
    return atomic_compare_exchange_strong(touch, &old, now_us);
}

bool registry_take_hedge(struct registry *r, uint16_t target_id, uint64_t minute, uint32_t max)
{
    _Atomic uint64_t *word = &r->all->targets[target_id].hedges;
    uint64_t old = atomic_load(word), fresh;
    do {
        uint32_t n = old >> 32 == (minute & UINT32_MAX) ? (uint32_t)old : 0;
        if (n >= max)
            return false;
        fresh = minute << 32 | (n + 1);
    } while (!atomic_compare_exchange_weak(word, &old, fresh));
    return true;
}

/* The first of a new day starts the sums anew. The lease lets one keepalive in at a time, so this need not be exact. */
static void roll_day(struct target *t, int64_t day)
{
    int64_t old = atomic_load(&t->day);
    if (old != day && atomic_compare_exchange_strong(&t->day, &old, day)) {
        atomic_store(&t->spent, 0);
        atomic_store(&t->calls, 0);
    }
}

bool registry_keepalive_spend(struct registry *r, uint16_t target_id, int64_t day, int64_t cost_nusd, int64_t max_nusd)
{
    struct target *t = &r->all->targets[target_id];
    roll_day(t, day);
    if (cost_nusd == NUSD_UNKNOWN)
        return atomic_fetch_add(&t->calls, 1) + 1 < KEEPALIVE_CALLS_A_DAY;
    return atomic_fetch_add(&t->spent, cost_nusd) + cost_nusd < max_nusd;
}

bool registry_keepalive_allowed(const struct registry *r, uint16_t target_id, int64_t day, bool is_priced,
                                int64_t max_nusd)
{
    const struct target *t = &r->all->targets[target_id];
    if (atomic_load(&t->day) != day)
        return is_priced ? max_nusd > 0 : true;
    return is_priced ? atomic_load(&t->spent) < max_nusd : atomic_load(&t->calls) < KEEPALIVE_CALLS_A_DAY;
}

/* ---- for people ---- */

enum health_state registry_state(const struct registry *r, uint16_t target_id, uint64_t now_us)
{
    return state_of(atomic_load(&r->all->targets[target_id].health.word));
}

enum health_state registry_credential_state(const struct registry *r, uint16_t credential_id, uint64_t now_us)
{
    return state_of(atomic_load(&r->all->credentials[credential_id].health.word));
}

/* ---- written out and read back ----
 *
 *     target OPEN_LEFT_US RUN LEVEL QUIRKS provider host model
 *     credential OPEN_LEFT_US LEVEL KEY_HASH provider
 *
 * OPEN_LEFT_US 0 = not open. The name comes last and goes to the end of the line. */

static uint64_t open_left(const struct health *h, uint64_t now_us)
{
    uint64_t word = atomic_load(&h->word);
    return state_of(word) != HEALTH_CLOSED && until_of(word) > now_us ? until_of(word) - now_us : 0;
}

static void write_number(struct buf *out, uint64_t v)
{
    buf_put_u64(out, v);
    buf_putc(out, ' ');
}

void registry_write(const struct registry *r, uint64_t now_us, struct buf *out)
{
    for (uint16_t i = 0; i < r->all->n_targets; i++) {
        const struct target *t = &r->all->targets[i];
        uint64_t left = open_left(&t->health, now_us);
        if (left == 0 && atomic_load(&t->quirks) == 0)
            continue;
        buf_puts(out, "target ");
        write_number(out, left);
        write_number(out, atomic_load(&t->health.run));
        write_number(out, atomic_load(&t->health.level));
        write_number(out, atomic_load(&t->quirks));
        buf_puts(out, t->key);
        buf_putc(out, '\n');
    }
    for (uint16_t i = 0; i < r->all->n_credentials; i++) {
        const struct credential *c = &r->all->credentials[i];
        uint64_t left = open_left(&c->health, now_us);
        if (left == 0)
            continue;
        buf_puts(out, "credential ");
        write_number(out, left);
        write_number(out, atomic_load(&c->health.level));
        write_number(out, c->key_hash);
        buf_puts(out, c->provider);
        buf_putc(out, '\n');
    }
}

static bool read_numbers(struct bytes *line, uint64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!bytes_to_u64(bytes_cut(line, ' '), &v[i]))
            return false;
    return line->n > 0;
}

static void reopen_for(struct health *h, uint64_t now_us, uint64_t left, uint64_t level)
{
    if (left > 0)
        open_until(h, now_us + (left < UNTIL_MASK / 2 ? left : UNTIL_MASK / 2));
    atomic_store(&h->level, (uint32_t)(level < LEVEL_MAX ? level : LEVEL_MAX));
}

const char *registry_target_name(const struct registry *r, uint16_t target_id)
{
    return r->all->targets[target_id].key;
}

enum err registry_intern_name(struct registry *r, struct bytes name, uint16_t *id)
{
    struct bytes model = name, provider = bytes_cut(&model, ' '), host = bytes_cut(&model, ' ');
    if (model.n == 0)
        return ERR_SYNTAX;
    struct arena a = {0};
    enum err e =
        registry_intern_target(r, arena_dup(&a, provider).p, arena_dup(&a, host).p, arena_dup(&a, model).p, id);
    arena_fini(&a);
    return e;
}

static enum err read_target(struct registry *r, struct bytes line, uint64_t now_us)
{
    uint64_t v[4];
    uint16_t id;
    if (!read_numbers(&line, v, 4))
        return ERR_SYNTAX;
    enum err e = registry_intern_name(r, line, &id);
    if (e != ERR_OK)
        return e;
    reopen_for(&r->all->targets[id].health, now_us, v[0], v[2]);
    atomic_store(&r->all->targets[id].health.run, v[1] < RUN_PROBATION ? (uint32_t)v[1] : RUN_PROBATION);
    atomic_fetch_or(&r->all->targets[id].quirks, (uint8_t)v[3]);
    return ERR_OK;
}

static enum err read_credential(struct registry *r, struct bytes line, uint64_t now_us)
{
    uint64_t v[3];
    uint16_t id;
    if (!read_numbers(&line, v, 3))
        return ERR_SYNTAX;
    struct arena a = {0};
    enum err e = registry_intern_credential(r, arena_dup(&a, line).p, v[2], &id);
    arena_fini(&a);
    if (e == ERR_OK)
        reopen_for(&r->all->credentials[id].health, now_us, v[0], v[1]);
    return e;
}

enum err registry_read(struct registry *r, struct bytes text, uint64_t now_us)
{
    while (text.n > 0) {
        struct bytes line = bytes_cut(&text, '\n'), kind = bytes_cut(&line, ' ');
        enum err e = bytes_is(kind, "target")       ? read_target(r, line, now_us)
                     : bytes_is(kind, "credential") ? read_credential(r, line, now_us)
                                                    : ERR_SYNTAX;
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

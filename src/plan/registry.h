/* What cores share, as lock-free words, handed in and never global (DESIGN 7): health of targets and credentials,
 * quirks learned, keepalive leases. Lives outside the config snapshot and survives a reload.
 *
 * A target is keyed by provider name, host and model; a credential by provider name and a hash of its key. Keys are
 * interned at config load (under a lock, never on the request path); the request path uses the ids.
 *
 * A target's health is one 64-bit word  [ state | generation | until ]  moved by compare-and-swap, plus time-bucketed
 * counters. Half-open: one CAS takes the single trial. Pure but for the atomics: `now_us` is a parameter. */
#ifndef RM_PLAN_REGISTRY_H
#define RM_PLAN_REGISTRY_H

#include "base/rng.h"
#include "config/config.h"

struct registry;
enum { REGISTRY_TARGETS_MAX = 4096, REGISTRY_CREDENTIALS_MAX = 1024, REGISTRY_CORES_MAX = 256 };

/* The handle of core 0. It owns what is shared: it goes last. */
struct registry *registry_new(void);
/* The handle of another core: the same registry, but that successes are counted where no other core writes. One thread
 * at a time uses the handles of a core. */
struct registry *registry_of_core(struct registry *first, unsigned core);
void registry_free(struct registry *r);

/* Interns every target and credential of the snapshot and writes their ids into it. ERR_LIMIT when full. Call before
 * the snapshot is published. A credential whose key changed is a new one: its health starts good. */
enum err plan_bind(struct registry *r, struct config *c) RM_MUST_USE;

enum health_state { HEALTH_CLOSED /* good */, HEALTH_OPEN, HEALTH_TRIAL /* half-open, trial taken */ };

/* May a request start on this target now? */
enum pass { PASS_YES, PASS_TRIAL /* yes, as the one trial: *trial is the token to settle */, PASS_NO };
struct trial {
    uint16_t target_id; /* or credential */
    bool is_credential;
    uint64_t word; /* 0 = no trial held */
};
enum pass registry_pass(struct registry *r, uint16_t target_id, uint16_t credential_id, uint64_t now_us,
                        struct trial *t);
/* The soonest time (us) at which this target may be tried; 0 = now. */
uint64_t registry_until(const struct registry *r, uint16_t target_id, uint16_t credential_id, uint64_t now_us);

/* Takes the trial of an open target early, for a request that has no other candidate or was told to wait: true when *t
 * now holds it (or when the target is good and no trial is needed), false when another request holds the trial. A
 * forced trial that fails leaves `until` as it was. */
bool registry_force(struct registry *r, uint16_t target_id, uint16_t credential_id, uint64_t now_us, struct trial *t);
/* The first token of a trial: the target is open to all again, on probation: the next counted failure re-opens it,
 * registry_good ends the probation. Without a trial in `t` nothing happens. */
void registry_first_token(struct registry *r, uint16_t target_id, uint64_t now_us, struct trial *t);

/* Settling. `t` may hold a trial (it is released by each of these) or be empty. */
void registry_good(struct registry *r, uint16_t target_id, uint16_t credential_id, uint64_t now_us, struct trial *t);
void registry_neutral(struct registry *r, struct trial *t, uint64_t now_us);
/* A failure that counts (DESIGN 3.7). is_429: hintless 429s have the two-in-10-s rule. */
void registry_bad(struct registry *r, uint16_t target_id, uint64_t now_us, bool is_429, const struct breaker_conf *b,
                  struct rng *rng, struct trial *t);
/* Closed to requests until now + hint (jittered upward). */
void registry_hint(struct registry *r, uint16_t target_id, uint64_t now_us, int64_t retry_after_ms, struct rng *rng,
                   struct trial *t);
/* not_found: 10 min. */
void registry_not_found(struct registry *r, uint16_t target_id, uint64_t now_us, struct trial *t);
/* quota: 1 h doubling, or until the date told; auth: until changed, one try per 5 min. */
void registry_quota(struct registry *r, uint16_t credential_id, uint64_t now_us, int64_t hint_ms, struct trial *t);
void registry_auth(struct registry *r, uint16_t credential_id, uint64_t now_us, struct trial *t);

uint8_t registry_quirks(const struct registry *r, uint16_t target_id);
/* True when this call was the one that added it. */
bool registry_learn_quirk(struct registry *r, uint16_t target_id, uint8_t quirk);

/* Traffic and keepalive: last time a request or keepalive touched the target; the lease is one CAS. */
void registry_touch(struct registry *r, uint16_t target_id, uint64_t now_us);
bool registry_lease_keepalive(struct registry *r, uint16_t target_id, uint64_t now_us, uint64_t every_us);
/* Spend of keepalives today (nano-dollars; or calls when the price is unknown). True = still under the limit. day =
 * wall_ms / 86400000 */
bool registry_keepalive_spend(struct registry *r, uint16_t target_id, int64_t day, int64_t cost_nusd, int64_t max_nusd);

/* The same question without spending. is_priced false = calls are counted. */
bool registry_keepalive_allowed(const struct registry *r, uint16_t target_id, int64_t day, bool is_priced,
                                int64_t max_nusd);
/* One of `max` hedges in this minute, beside attempts at this target: true when it was taken. */
bool registry_take_hedge(struct registry *r, uint16_t target_id, uint64_t minute, uint32_t max);
/* Last touch; 0 = never. */
uint64_t registry_touched_us(const struct registry *r, uint16_t target_id);

/* Ids of a target and of a credential (plan_bind uses them; takes the lock). ERR_LIMIT when full. */
enum err registry_intern_target(struct registry *r, const char *provider, const char *host, const char *model,
                                uint16_t *id) RM_MUST_USE;
enum err registry_intern_credential(struct registry *r, const char *provider, uint64_t key_hash,
                                    uint16_t *id) RM_MUST_USE;

/* A target as "provider host model", for what is written out; valid as long as the registry. And back: ERR_SYNTAX
 * when it is no such text. */
const char *registry_target_name(const struct registry *r, uint16_t target_id);
enum err registry_intern_name(struct registry *r, struct bytes name, uint16_t *id) RM_MUST_USE;

/* For /readyz, /api and tests. */
enum health_state registry_state(const struct registry *r, uint16_t target_id, uint64_t now_us);
enum health_state registry_credential_state(const struct registry *r, uint16_t credential_id, uint64_t now_us);

/* Health written out and read back, as text lines: what is open, until when, how often it opened, what was learned.
 * Good targets without quirks are left out; a trial under way is written as open. Times are kept as what is left of
 * them, so the clock of another process may read them. Reading adds to what is there and never closes anything.
 * ERR_SYNTAX at the first line that is not ours (lines before it are in force), ERR_LIMIT when full. Main thread. */
void registry_write(const struct registry *r, uint64_t now_us, struct buf *out);
enum err registry_read(struct registry *r, struct bytes text, uint64_t now_us) RM_MUST_USE;

#endif

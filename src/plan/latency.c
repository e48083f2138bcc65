/* One key's history, on every core that had such a call:
 *
 *     key (target, size, effort) --> track of core 0: sketch, weather, counts     written by core 0 only
 *                                --> track of core 1: …                            (allocated at its first sample)
 *
 * A core that needs a budget merges all tracks' sketches, at most once a second and key, and keeps the result for
 * itself. So nothing on the request path is written by two cores but `regime`, which moves once in weeks.
 *
 * The budget is the asked percentile by Kaplan and Meier (sketch.c: cuts are "longer than", not samples), taken at the
 * upper end of its own uncertainty: q + sqrt(q (1 - q) / n), so that few samples make it rather too long than too
 * short. Weights halve every 2,000 samples of all cores together or four hours: a day-old regime weighs 1/64 at most.
 *
 * Watching. Every eighth attempt is given half as much again. It costs an outage a sixteenth of the budget on average,
 * and it is what the rest stands on: the estimate knows how things go on beyond the budget and can follow a rise
 * through it, and the share of false trips is measured: each watched attempt that answered late stands for seven that
 * were cut and would have. Two cuts in a row stop the watching: that may be an outage.
 *
 * Weather. In an outage cuts are no samples of latency at all: they would never have answered. Entered, they would lift
 * the curve's end above 1 - q and the budget with it, or freeze it for hours. So while the weather is bad (five late in
 * a row, or far too many among the last 64) the history stands still, and the last cuts before that, which wait for the
 * next answer in time, are dropped as well.
 *
 * Change of regime. A step up in latency looks the same at first: all is cut. What tells them apart is what happens to
 * those that may go on: the breaker's single trial is given half the budget more, then three, six, twelve times the
 * budget while trials stay silent (without a breaker every sixteenth of a run is such a trial), watched ones their half
 * more, a last link its deadline. If in bad weather two such answers come late and none in time, or three against at
 * most half as many that stayed silent, this is no outage: everything is forgotten on all cores (`regime` moves on) and
 * learned anew from the fallback. A step down by about half is seen by the middle of the answers, and treated so too.
 *
 * Following. While the history stands still, or cuts hide the percentile, the last known budget goes up and down with
 * the middle of the answers (a running mean of their logarithm, which the few cut ones hardly move). */
#include "plan/latency_impl.h"

#include "base/mem.h"
#include "plan/natural.h"

#include <math.h>

enum {
    HALF_LIFE_SAMPLES = 2000,
    WATCH_RUN_MAX = 2,
    RUN_BAD = 5,
    RUN_TRIAL_EVERY = 16,
    SILENT_MIN = 3,
    DOUBLINGS_MAX = 16,
    MIDDLE_MIN = 256 /* answers before its moving is believed */,
    CORES_MAX = 256
};
#define SECOND_US UINT64_C(1000000)
#define QUICK (1 / 128.0)
#define SLOW (1 / 1024.0)
#define SLOW_US (2 * 3600 * SECOND_US)
#define MOVED 0.45               /* in logarithms */
#define FOLLOWS 1.4              /* fourfold either way */
#define COLD_US (55 * SECOND_US) /* after that long an idle connection is dropped */

struct latency *latency_new(unsigned n_cores)
{
    RM_ASSERT(n_cores > 0 && n_cores <= CORES_MAX);
    struct latency *l = mem_zalloc(sizeof *l);
    l->n_cores = n_cores;
    l->cores = mem_zalloc_lines(n_cores * sizeof *l->cores);
    for (unsigned i = 0; i < n_cores; i++) {
        l->cores[i].all = l;
        l->cores[i].core = i;
    }
    return l;
}

void latency_free(struct latency *l)
{
    if (l == NULL)
        return;
    for (size_t i = 0; i < RM_COUNTOF(l->keys); i++) {
        struct key *k = atomic_load(&l->keys[i]);
        for (unsigned c = 0; k != NULL && c < l->n_cores; c++)
            mem_free(atomic_load(&k->tracks[c]));
        mem_free(k);
    }
    mem_free(l->cores);
    mem_free(l);
}

struct latency_core *latency_core(struct latency *l, unsigned core)
{
    RM_ASSERT(core < l->n_cores);
    return &l->cores[core];
}

/* ---- keys ---- */

static const char *const size_words[LATENCY_SIZES] = {"1k", "4k", "16k", "64k", "more"};
static const char *const effort_words[LATENCY_EFFORTS] = {"none", "minimal", "low", "medium", "high", "max"};

const char *latency_size_word(unsigned size)
{
    return size_words[size];
}

const char *latency_effort_word(unsigned effort)
{
    return effort_words[effort];
}

/* A client's own word counts as the most that can be asked: it must not make keys of its own. */
static uint8_t effort_of(struct bytes word)
{
    if (word.n == 0)
        return 0;
    if (bytes_is(word, "none"))
        return 1;
    for (uint8_t i = 1; i < LATENCY_EFFORTS; i++)
        if (bytes_is(word, effort_words[i]))
            return i;
    return LATENCY_EFFORTS - 1;
}

struct latency_key latency_key_of(uint16_t target_id, const struct call *call)
{
    static const uint64_t tokens[LATENCY_SIZES - 1] = {1000, 4000, 16000, 64000};
    struct latency_key k = {.target_id = target_id, .effort = effort_of(call->effort)};
    while (k.size < LATENCY_SIZES - 1 && call->prompt_bytes > tokens[k.size] * 4)
        k.size++;
    return k;
}

static size_t slot_of(struct latency_key k)
{
    RM_ASSERT(k.target_id < REGISTRY_TARGETS_MAX && k.size < LATENCY_SIZES && k.effort < LATENCY_EFFORTS);
    return (size_t)k.target_id * LATENCY_KEYS_PER_TARGET + k.size * LATENCY_EFFORTS + k.effort;
}

struct key *latency_find_key(const struct latency *l, struct latency_key name)
{
    return atomic_load_explicit(&l->keys[slot_of(name)], memory_order_acquire);
}

/* NULL when there are too many. */
static struct key *make_key(struct latency *l, struct latency_key name)
{
    struct key *k = latency_find_key(l, name), *none = NULL;
    if (k != NULL)
        return k;
    if (atomic_fetch_add(&l->n_keys, 1) >= LATENCY_KEYS_MAX) {
        atomic_fetch_sub(&l->n_keys, 1);
        return NULL;
    }
    k = mem_zalloc_lines(sizeof *k + l->n_cores * sizeof k->tracks[0]);
    k->name = name;
    if (atomic_compare_exchange_strong(&l->keys[slot_of(name)], &none, k))
        return k;
    atomic_fetch_sub(&l->n_keys, 1);
    mem_free(k);
    return none;
}

/* ---- a core's own track ---- */

static void forget(struct track *t, uint32_t regime)
{
    sketch_clear(&t->sketch);
    for (unsigned i = 0; i < LATENCY_PERCENTILES; i++)
        atomic_store_explicit(&t->budget_us[i], 0, memory_order_relaxed);
    for (unsigned i = 0; i < LATENCY_PERCENTILES; i++)
        t->known_us[i] = 0;
    t->middle = (struct middle){0};
    t->view.at_us = 0;
    t->recent = 0;
    t->run = t->n_pending = 0;
    t->n_late = t->n_in_time = t->n_silent = 0;
    atomic_store_explicit(&t->is_bad, false, memory_order_relaxed);
    atomic_store_explicit(&t->regime, regime, memory_order_release);
}

struct track *latency_track(struct latency_core *c, struct latency_key name, struct key **key)
{
    struct key *k = make_key(c->all, name);
    if (k == NULL)
        return NULL;
    struct track *t = atomic_load_explicit(&k->tracks[c->core], memory_order_relaxed);
    uint32_t regime = atomic_load_explicit(&k->regime, memory_order_relaxed);
    if (t == NULL) {
        uint32_t share = HALF_LIFE_SAMPLES / c->all->n_cores;
        t = mem_zalloc_lines(sizeof *t);
        t->key = k;
        sketch_init(&t->sketch, LATENCY_HALF_LIFE_US, share > 0 ? share : 1);
        atomic_store_explicit(&t->regime, regime, memory_order_relaxed);
        atomic_store_explicit(&k->tracks[c->core], t, memory_order_release);
    } else if (atomic_load_explicit(&t->regime, memory_order_relaxed) != regime) {
        forget(t, regime);
    }
    *key = k;
    return t;
}

/* Of a grant that is some time old; NULL = none. */
static struct track *track_of(const struct latency_grant *g)
{
    struct track *t = g->track;
    if (t == NULL)
        return NULL;
    uint32_t regime = atomic_load_explicit(&t->key->regime, memory_order_relaxed);
    if (atomic_load_explicit(&t->regime, memory_order_relaxed) != regime)
        forget(t, regime);
    return t;
}

static void count(_Atomic uint64_t *v)
{
    atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void add_money(_Atomic int64_t *v, int64_t nusd)
{
    if (nusd > 0)
        atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + nusd, memory_order_relaxed);
}

/* ---- merging ---- */

bool latency_merge(const struct latency *l, const struct key *k, uint64_t now_us, struct sketch_sum *sum)
{
    uint32_t regime = atomic_load_explicit(&k->regime, memory_order_relaxed);
    bool is_whole = true;
    memset(sum, 0, sizeof *sum);
    for (unsigned i = 0; i < l->n_cores; i++) {
        const struct track *t = atomic_load_explicit(&k->tracks[i], memory_order_acquire);
        if (t != NULL && atomic_load_explicit(&t->regime, memory_order_acquire) == regime)
            is_whole &= sketch_add(&t->sketch, now_us, sum);
    }
    return is_whole;
}

static double percentile(unsigned p)
{
    return auto_permille(p) / 1000.0;
}

/* The upper end of what the share q may be, n samples being what they are; at most half of the rest is added. */
static double upper(double q, double n)
{
    double more = sqrt(q * (1 - q) / (n > 1 ? n : 1)), most = (1 - q) / 2;
    return q + (more < most ? more : most);
}

/* Late or cut ones among the last 64: more than this is doubtful, so many are bad. */
static unsigned fair_up_to(unsigned p)
{
    return 2 + 128 * (1000 - auto_permille(p)) / 1000;
}

static unsigned bad_from(unsigned p)
{
    return 8 + 128 * (1000 - auto_permille(p)) / 1000;
}

/* The share that never answers, which is what the curve ends at, once that rests on several that were watched. */
static double hung_share(const struct sketch_sum *sum, const struct survival *s, double known_us)
{
    double n_silent = 0;
    for (unsigned i = sketch_bucket((uint64_t)(known_us * 1.35)); i < s->end && known_us > 0; i++)
        n_silent += sum->cut[i];
    return n_silent >= SILENT_MIN ? survival_end(s) : 0;
}

static void follow(struct track *t, const struct sketch_sum *sum, bool is_told)
{
    double n = sum->n_answered;
    for (unsigned p = 0; p < LATENCY_PERCENTILES && n > 0; p++) {
        double hung = hung_share(sum, &t->view.survival, t->known_us[p]);
        uint64_t us = is_told ? survival_quantile(&t->view.survival, upper(percentile(p), n) * (1 - hung)) : 0;
        bool may_rise = (unsigned)__builtin_popcountll(t->recent) <= fair_up_to(p);
        if (us != 0 && (may_rise || t->known_us[p] == 0 || (double)us < t->known_us[p])) {
            t->known_us[p] = (double)us;
            t->known_log[p] = t->middle.quick;
        }
        double by = t->known_log[p] != 0 ? t->middle.quick - t->known_log[p] : 0;
        by = by > FOLLOWS ? FOLLOWS : by < -FOLLOWS ? -FOLLOWS : by;
        atomic_store_explicit(&t->budget_us[p], (uint64_t)(t->known_us[p] * exp_near(by)), memory_order_relaxed);
    }
}

static bool has_moved(const struct middle *m)
{
    return m->n >= MIDDLE_MIN && fabs(m->quick - m->slow) > MOVED;
}

static void begin_anew(struct key *k, struct track *t)
{
    count(&t->counters.n_regimes);
    atomic_store_explicit(&k->n_silent_trials, 0, memory_order_relaxed);
    forget(t, atomic_fetch_add(&k->regime, 1) + 1);
}

static __attribute__((noinline)) void look_anew(struct latency_core *c, struct key *k, struct track *t, uint64_t now_us)
{
    struct sketch_sum sum;
    bool is_bad = atomic_load_explicit(&t->is_bad, memory_order_relaxed);
    if (!is_bad && has_moved(&t->middle))
        begin_anew(k, t);
    if (!latency_merge(c->all, k, now_us, &sum))
        return;
    t->view.at_us = now_us > 0 ? now_us : 1;
    t->view.n_answered = sum.n_answered;
    survival_of(&sum, &t->view.survival);
    follow(t, &sum, !is_bad);
}

static inline void refresh(struct latency_core *c, struct key *k, struct track *t, uint64_t now_us)
{
    if (t->view.at_us == 0 || now_us >= t->view.at_us + SECOND_US)
        look_anew(c, k, t, now_us);
}

uint64_t latency_known_budget(const struct latency *l, const struct key *k, const struct track *own, unsigned p)
{
    uint32_t regime = atomic_load_explicit(&k->regime, memory_order_relaxed);
    uint64_t us = own != NULL ? atomic_load_explicit(&own->budget_us[p], memory_order_relaxed) : 0;
    for (unsigned i = 0; i < l->n_cores && us == 0; i++) {
        const struct track *t = atomic_load_explicit(&k->tracks[i], memory_order_acquire);
        if (t != NULL && atomic_load_explicit(&t->regime, memory_order_acquire) == regime)
            us = atomic_load_explicit(&t->budget_us[p], memory_order_relaxed);
    }
    return us;
}

static uint64_t clamp(uint64_t us, const struct auto_conf *conf)
{
    uint64_t min = (uint64_t)conf->min_ms * 1000, max = (uint64_t)conf->max_ms * 1000;
    return us < min ? min : us > max ? max : us;
}

uint64_t latency_budget_of(const struct auto_conf *conf, double n_answered, uint64_t known_us, bool *is_known)
{
    *is_known = n_answered >= conf->min_samples && known_us != 0;
    return clamp(*is_known ? known_us : (uint64_t)conf->fallback_ms * 1000, conf);
}

uint64_t latency_budget_us(const struct survival *s, double n_answered, const struct auto_conf *conf)
{
    bool is_known;
    uint64_t us = survival_quantile(s, upper(percentile(conf->percentile), n_answered) * (1 - survival_end(s)));
    return latency_budget_of(conf, n_answered, us, &is_known);
}

/* ---- granting ---- */

static bool is_cold(struct latency_core *c, uint16_t target_id, uint64_t now_us)
{
    uint64_t *used = &c->used_us[target_id];
    bool is = *used == 0 || now_us >= *used + COLD_US;
    *used = now_us > 0 ? now_us : 1;
    return is;
}

static uint64_t half_more(uint64_t us)
{
    return us + us / 2;
}

static void allow(struct track *t, const struct auto_conf *conf, bool is_trial, uint32_t n_silent,
                  struct latency_grant *g)
{
    uint64_t max = (uint64_t)conf->max_ms * 1000;
    g->is_trial = is_trial || (t->run > 0 && t->run % RUN_TRIAL_EVERY == 0);
    if (g->is_trial)
        g->us <<= n_silent < DOUBLINGS_MAX ? n_silent : DOUBLINGS_MAX;
    else if (g->is_known && t->run < WATCH_RUN_MAX && ++t->n_asked % BUDGET_WATCH_EVERY == 0)
        g->is_watch = true;
    if (g->is_watch || g->is_trial)
        g->us = half_more(g->us) < max ? half_more(g->us) : max;
}

void latency_grant(struct latency_core *c, struct latency_key key, const struct auto_conf *conf, bool is_trial,
                   uint64_t connect_us, uint64_t now_us, struct latency_grant *out)
{
    struct key *k = NULL;
    struct track *t = latency_track(c, key, &k);
    *out = (struct latency_grant){.track = t, .is_shadow = conf->is_shadow};
    out->is_cold = is_cold(c, key.target_id, now_us);
    if (t == NULL) {
        out->us = out->base_us = latency_budget_of(conf, 0, 0, &out->is_known);
        return;
    }
    refresh(c, k, t, now_us);
    uint64_t known = latency_known_budget(c->all, k, t, conf->percentile);
    out->us = out->base_us = latency_budget_of(conf, t->view.n_answered, known, &out->is_known);
    if (!out->is_shadow)
        allow(t, conf, is_trial, atomic_load_explicit(&k->n_silent_trials, memory_order_relaxed), out);
    if (out->is_cold)
        out->us += connect_us < out->base_us ? connect_us : out->base_us;
}

/* ---- what came of it ---- */

/* Without the time that a cold start took to connect: the history is of targets that are warm. */
static uint64_t warm(const struct latency_grant *g, uint64_t us, int64_t connect_us)
{
    uint64_t off = g->is_cold && connect_us > 0 ? (uint64_t)connect_us : 0;
    return us > off ? us - off : 0;
}

/* Judges the weather after another end. */
static bool look_out(struct track *t, const struct auto_conf *conf, bool is_late)
{
    if (t->recent == 0 && !is_late) /* all in time, as those before it: nothing to judge */
        return false;
    t->recent = t->recent << 1 | is_late;
    bool was_bad = atomic_load_explicit(&t->is_bad, memory_order_relaxed);
    bool is_bad = t->run >= RUN_BAD || (unsigned)__builtin_popcountll(t->recent) >= bad_from(conf->percentile);
    if (is_bad && !was_bad)
        t->n_late = t->n_in_time = t->n_silent = 0;
    atomic_store_explicit(&t->is_bad, is_bad, memory_order_relaxed);
    return is_bad;
}

static void enter_pending(struct track *t, bool is_wanted, uint64_t now_us)
{
    for (unsigned i = 0; i < t->n_pending && is_wanted; i++)
        sketch_cut(&t->sketch, t->pending[i], now_us);
    t->n_pending = 0;
}

static bool is_new_regime(const struct track *t)
{
    return (t->n_late >= 2 && t->n_in_time == 0) || (t->n_late >= 3 && t->n_late >= 2 * t->n_silent);
}

static void move_middle(struct middle *m, uint64_t us, uint64_t now_us)
{
    double log_us = ln_u64(us), first = 1 / (double)(++m->n);
    uint64_t gone = m->at_us != 0 && now_us > m->at_us ? now_us - m->at_us : 0;
    double slow = SLOW + (gone < SLOW_US / 2 ? (double)gone / (double)SLOW_US : 0.5);
    m->at_us = now_us;
    m->quick += (log_us - m->quick) * (first > QUICK ? first : QUICK);
    m->slow += (log_us - m->slow) * (first > slow ? first : slow);
}

static void count_late(struct track *t, const struct latency_grant *g, uint64_t us, int64_t would_nusd)
{
    bool is_soon = us <= half_more(g->base_us);
    count(&t->counters.n_late);
    if (is_soon)
        count(&t->counters.n_late_soon);
    if (is_soon && g->is_watch)
        count(&t->counters.n_watched);
    add_money(&t->counters.late_nusd, would_nusd);
}

bool latency_answered(const struct auto_conf *conf, const struct latency_grant *g, uint64_t took_us, int64_t connect_us,
                      int64_t would_nusd, uint64_t now_us)
{
    struct track *t = track_of(g);
    uint64_t us = warm(g, took_us, connect_us);
    bool is_late = us > g->base_us;
    if (t == NULL)
        return is_late;
    struct key *k = t->key;
    bool was_run = t->run >= RUN_BAD;
    move_middle(&t->middle, us, now_us);
    if (!is_late) {
        t->run = 0;
        if (atomic_load_explicit(&k->n_silent_trials, memory_order_relaxed) != 0)
            atomic_store_explicit(&k->n_silent_trials, 0, memory_order_relaxed);
    }
    bool is_bad = look_out(t, conf, is_late), is_entered = !is_bad || g->is_shadow;
    count(&t->counters.n_answered);
    if (is_late)
        count_late(t, g, us, would_nusd);
    else
        enter_pending(t, is_entered && !was_run, now_us);
    if (is_entered)
        sketch_answered(&t->sketch, us, now_us);
    if (is_bad && is_late)
        t->n_late++;
    else if (is_bad)
        t->n_in_time++;
    if (is_bad && is_late && !g->is_shadow && is_new_regime(t)) {
        begin_anew(k, t);
        sketch_answered(&t->sketch, us, now_us);
    }
    return is_late;
}

void latency_cut(const struct auto_conf *conf, const struct latency_grant *g, uint64_t after_us, int64_t connect_us,
                 int64_t cost_nusd, uint64_t now_us)
{
    struct track *t = track_of(g);
    uint64_t us = warm(g, after_us, connect_us);
    if (t == NULL)
        return;
    if (us < g->base_us / 2) { /* the client's own short time, or the rest of a link's that a retry had */
        latency_left(g, after_us, connect_us, now_us);
        return;
    }
    t->run++;
    if (g->is_trial)
        atomic_fetch_add_explicit(&t->key->n_silent_trials, 1, memory_order_relaxed);
    count(&t->counters.n_cut);
    add_money(&t->counters.cut_nusd, cost_nusd);
    bool is_bad = look_out(t, conf, true);
    if (is_bad && us >= half_more(g->base_us) - g->base_us / 8)
        t->n_silent++;
    if (!is_bad && t->n_pending < LATENCY_PENDING_MAX)
        t->pending[t->n_pending++] = us;
}

void latency_left(const struct latency_grant *g, uint64_t after_us, int64_t connect_us, uint64_t now_us)
{
    struct track *t = track_of(g);
    if (t != NULL && !atomic_load_explicit(&t->is_bad, memory_order_relaxed))
        sketch_cut(&t->sketch, warm(g, after_us, connect_us), now_us);
}

void latency_moved(struct latency_core *c, struct latency_key key)
{
    struct key *k = NULL;
    struct track *t = latency_track(c, key, &k);
    if (t != NULL)
        count(&t->counters.n_moved);
}

uint64_t latency_quantile_us(struct latency_core *c, struct latency_key key, unsigned permille, uint32_t min_samples,
                             uint64_t now_us)
{
    struct key *k = latency_find_key(c->all, key);
    struct track *t = k != NULL ? latency_track(c, key, &k) : NULL;
    if (t == NULL)
        return 0;
    refresh(c, k, t, now_us);
    return t->view.n_answered >= min_samples ? survival_quantile(&t->view.survival, permille / 1000.0) : 0;
}

/* Plays the scenarios of Failover Bench through a gateway whose provider is a pretend one, and has each judged: sends
 * the calls, reads the provider's log for the attempts, asks the gateway for a healthy answer afterwards. The scenarios
 * run one after the other, the long one (S15) beside them: they share no model but the healthy one.
 *
 *     reset the provider -> a healthy answer? -> reset -> [S01 ... S14, S16]
 *                                                      -> [S15            ]  each: calls -> log -> healthy? -> verdict
 */
#ifndef RM_LAB_FB_RUN_H
#define RM_LAB_FB_RUN_H

#include "lab/fb_ask.h"
#include "lab/judge.h"

enum { FB_ATTEMPTS_MAX = 64 };

/* An attempt as it is shown; the first FB_ATTEMPTS_MAX of a scenario are kept. */
struct fb_attempt {
    int64_t ms; /* since the first attempt of the scenario */
    unsigned status;
    bool is_primary;
    char fault[24]; /* what the provider did; "" = answered well */
};

struct fb_row {
    const struct judge_scenario *scenario;
    bool is_wanted, is_done;
    struct judge_result result;
    struct judge_call call; /* the last one */
    uint64_t wall_us;       /* of the call; S15: of all together */
    size_t n_primary, n_fallback, n_prefill_refused;
    bool is_alive;
    char alive_why[JUDGE_TEXT_BYTES];
    bool is_log_short; /* the provider has forgotten a part of its log: the counts may be too low */
    struct fb_attempt attempts[FB_ATTEMPTS_MAX];
    size_t n_attempts;
};

struct fb_run_conf {
    struct fb_target gateway, wall; /* the wall's prefix and key are "" */
    unsigned speed;                 /* 1 = as published; the provider must have the same */
    bool has_fallback;
    bool is_wanted[JUDGE_SCENARIOS];
    void (*on_row)(const struct fb_row *row, void *arg); /* after each verdict; may be NULL */
    void *arg;
};

struct fb_run;

/* conf is copied, what it points to is borrowed. */
struct fb_run *fb_run_new(struct loop *l, const struct fb_run_conf *conf);
/* Runs the loop until all is done, the run cannot go on, or someone stops the loop. True: all wanted scenarios have
 * their verdict. False: *why says what is wrong, NULL = it was stopped. Once. */
bool fb_run_play(struct fb_run *r, const char **why);
/* JUDGE_SCENARIOS of them. */
const struct fb_row *fb_run_rows(const struct fb_run *r);
/* Not from inside the loop. */
void fb_run_free(struct fb_run *r);

#endif

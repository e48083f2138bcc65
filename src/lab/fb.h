/* The sixteen faults of Failover Bench (github failoverbench/failoverbench, methodology v0.1) as models of a pretend
 * provider: the name of the model chooses the fault. The facts are that test's, words and code are ours. Pure: the time
 * and the count of attempts are handed in. */
#ifndef RM_LAB_FB_H
#define RM_LAB_FB_H

#include "lab/fault.h"

struct fb_answer {
    struct fault fault;   /* FAULT_NONE = the whole answer */
    bool rejects_prefill; /* a last message of the assistant's is refused with a 400 */
};

enum { FB_N_WORDS = 60, FB_GAP_MS = 15 };
/* The answer of every healthy model: sixty words, a blank between them; one word a token, FB_GAP_MS apart. */
extern const char fb_words[];

/* "fb-ok", "fb-ok-noprefill", "fb-s01-…" to "fb-s16-…", exactly as the test spells them; what stands before the last
 * slash (a vendor's name, as some gateways write it) does not count. */
bool fb_is_model(struct bytes model);
/* What attempt number `attempt` (from 1, of this model since the last reset), `since_reset_ms` after it, gets. All
 * times are divided by `speed` (1 = as published), but for retry-after, which travels in whole seconds: the mock rounds
 * it up to one. The model must be one (fb_is_model). */
void fb_answer(struct bytes model, uint64_t attempt, uint64_t since_reset_ms, unsigned speed, struct fb_answer *out);

#endif

/* How many bytes of text a token is, learned per target from the calls that reported their tokens: separately for the
 * prompt and for the output. Estimates where no report came (relay/meter.c) use it, and how far it is off is measured
 * on the calls that report. Each core writes its own cells; who asks adds all cores' up. It outlives a reload and, in
 * the state file, a restart. Pure but for the atomics. */
#ifndef RM_PLAN_RATIO_H
#define RM_PLAN_RATIO_H

#include "base/buf.h"
#include "plan/registry.h"

struct ratio_book; /* all cores */
struct ratio_core; /* one core's part: written on its loop only */

enum ratio_side { RATIO_PROMPT, RATIO_OUTPUT, RATIO_N_SIDES };
enum {
    RATIO_SAMPLES_MIN = 20,   /* before that a token is taken for RATIO_FALLBACK bytes */
    RATIO_SAMPLES_MAX = 2048, /* a core's samples; then all are halved, so that old ones fade */
    RATIO_FALLBACK = 4
};

struct ratio_book *ratio_book_new(unsigned n_cores);
void ratio_book_free(struct ratio_book *b); /* NULL is fine */
struct ratio_core *ratio_core(struct ratio_book *b, unsigned core);

/* What a call reported, by side: so many tokens (below 0 = not told) for so many bytes of text. Without text, without
 * tokens, or with fewer than an eighth of a byte or more than 64 bytes a token a side is no sample: text is not what
 * these tokens were. */
struct ratio_sample {
    uint64_t bytes[RATIO_N_SIDES];
    int64_t tokens[RATIO_N_SIDES];
    bool is_whole; /* the answer came whole: its output counts for the mean of such */
};
void ratio_learn(struct ratio_core *c, uint16_t target_id, const struct ratio_sample *sample);

/* The tokens of so many bytes, rounded up; by RATIO_FALLBACK where the ratio is not known. c may be NULL. */
int64_t ratio_tokens(const struct ratio_core *c, uint16_t target_id, enum ratio_side side, uint64_t bytes);
/* The mean output of whole answers; 0 = not known. c may be NULL. */
int64_t ratio_mean_output(const struct ratio_core *c, uint16_t target_id);

/* For people; any thread. */
struct ratio_report {
    uint64_t n_samples;     /* as they weigh now */
    bool is_known;          /* false = the fallback is in force */
    uint64_t milli_bytes;   /* a token, in thousandths of a byte */
    int64_t error_permille; /* mean absolute error of the estimate in force, of the tokens reported; each call was
                               estimated before it was learned from. -1 = not known */
};
/* False when there is nothing of this target. */
bool ratio_report(const struct ratio_book *b, uint16_t target_id, enum ratio_side side, struct ratio_report *out);

/* One line a target: "ratio N BYTES TOKENS ERROR JUDGED N BYTES TOKENS ERROR JUDGED WHOLE TOKENS provider host model",
 * the first five of the prompt, the next of the output. */
void ratio_write(const struct ratio_book *b, const struct registry *r, struct buf *out);
/* Reads such a line into core 0's part, before its loop runs. Targets are interned. ERR_SYNTAX: not ours, nothing was
 * taken over; ERR_LIMIT: full. */
enum err ratio_read_line(struct ratio_book *b, struct registry *r, struct bytes line) RM_MUST_USE;
/* What such a line says of a side, and whose it is: "provider host model", in the line. False: not ours. */
bool ratio_line_report(struct bytes line, enum ratio_side side, struct bytes *name, struct ratio_report *out);

#endif

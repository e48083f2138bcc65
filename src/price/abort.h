/* What a provider bills for an attempt that ended without a whole answer. The table is data (data/abort_billing.json):
 * rows by vendor, and where they differ by dialect, each with how certain it is and where that is from. Pure. */
#ifndef RM_PRICE_ABORT_H
#define RM_PRICE_ABORT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum abort_rule {
    ABORT_INPUT_AND_GENERATED, /* the prompt, and the output until the end */
    ABORT_INPUT,               /* the prompt alone */
    ABORT_RUNS_ON,             /* the generation goes on to its own end, unseen */
    ABORT_NOTHING,
    ABORT_N_RULES
};
enum abort_certainty {
    ABORT_ASSUMED,    /* nobody says */
    ABORT_OBSERVED,   /* others report it */
    ABORT_DOCUMENTED, /* the provider says so */
    ABORT_CONFIGURED, /* the operator says so */
    ABORT_N_CERTAINTIES
};
/* How it ended. */
enum abort_when {
    ABORT_STREAM, /* a stream that we cut, or that lost */
    ABORT_WHOLE,  /* the same of an answer that was not asked for as a stream */
    ABORT_FAILED, /* the provider broke it off before its first token */
    ABORT_N_WHENS
};

struct abort_billing {
    enum abort_rule rule;
    enum abort_certainty certainty;
};

struct abort_table;

/* Reads a table; it lives in the arena. ERR_SYNTAX, ERR_LIMIT: *out is not set, and `why` gets a line for people. */
enum err abort_table_parse(struct bytes text, struct arena *arena, const struct abort_table **out,
                           struct buf *why) RM_MUST_USE;
/* The table that is compiled in. Never fails (asserted). */
const struct abort_table *abort_table_builtin(struct arena *arena);
/* The row of this vendor and dialect, else of the vendor, else of all ("*"). Every `when` has one of all (checked when
 * it is read). */
struct abort_billing abort_find(const struct abort_table *t, const char *vendor, const char *dialect,
                                enum abort_when when);

/* "input_and_generated"; "assumed". */
const char *abort_rule_word(enum abort_rule r);
const char *abort_certainty_word(enum abort_certainty c);
/* For a decision: "billed for input and output so far (assumed)". Static. */
const char *abort_words(struct abort_billing b);

#endif

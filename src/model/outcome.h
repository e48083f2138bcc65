/* The words for how an attempt or a request ended. Rows in outcome.def. */
#ifndef RM_MODEL_OUTCOME_H
#define RM_MODEL_OUTCOME_H

#include "base/bytes.h"

enum outcome {
#define OUTCOME(name, word) OUTCOME_##name,
#include "model/outcome.def"
#undef OUTCOME
    OUTCOME_N
};

const char *outcome_word(enum outcome o);
bool outcome_parse(struct bytes word, enum outcome *o);
/* skipped_*: the attempt was not started. */
bool outcome_is_skip(enum outcome o);

#endif

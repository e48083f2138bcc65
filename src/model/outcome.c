#include "model/outcome.h"

#include "base/check.h"

static const char *const words[OUTCOME_N] = {
#define OUTCOME(name, word) word,
#include "model/outcome.def"
#undef OUTCOME
};

const char *outcome_word(enum outcome o)
{
    RM_ASSERT((unsigned)o < OUTCOME_N);
    return words[o];
}

bool outcome_parse(struct bytes word, enum outcome *o)
{
    for (int i = 0; i < OUTCOME_N; i++)
        if (bytes_is(word, words[i])) {
            *o = (enum outcome)i;
            return true;
        }
    return false;
}

bool outcome_is_skip(enum outcome o)
{
    return o >= OUTCOME_SKIPPED_OPEN && o <= OUTCOME_SKIPPED_OFF;
}

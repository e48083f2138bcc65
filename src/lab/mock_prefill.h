/* A last message of the assistant's that is the beginning of the text which would be answered: where the answer goes
 * on. Pure. */
#ifndef RM_LAB_MOCK_PREFILL_H
#define RM_LAB_MOCK_PREFILL_H

#include "base/arena.h"

struct prefill_fit {
    int64_t first_word;      /* of the text */
    struct bytes first_text; /* what is sent in its place: the rest of a word, or the word without its blank; p NULL =
                                the word as it is */
};

/* The text is the words of `words`, repeated up to n_words. Words are compared; how they are separated in `said` does
 * not matter. False: it is no beginning of the text. first_text lives in the arena. */
bool prefill_fits(const char *words, int64_t n_words, struct bytes said, struct arena *arena, struct prefill_fit *out);

#endif

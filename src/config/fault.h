/* The faults of one load, collected and at the end put in the order of the file. A message names keys and words of the
 * file; it never holds the value of a secret setting, nor of an environment variable. */
#ifndef RM_CONFIG_FAULT_H
#define RM_CONFIG_FAULT_H

#include "config/config.h"
#include "config/node.h"

/* What a load writes faults to. */
struct fault_log {
    struct config_faults *faults;
    const char *file;
    size_t cap; /* of faults->v */
};

enum { FAULTS_MAX = 500 }; /* later ones are counted as errors, and not kept */

struct place { /* in the file, from 1; 0 = none */
    unsigned line, column;
};

static inline struct place place_of(const struct node *n)
{
    return (struct place){n->line, n->column};
}
static inline struct place place_of_key(const struct node *n)
{
    return (struct place){n->key_line, n->key_column};
}

void fault_error(struct fault_log *log, struct place at, const char *fmt, ...) RM_PRINTF(3, 4);
void fault_warning(struct fault_log *log, struct place at, const char *fmt, ...) RM_PRINTF(3, 4);
/* Sorts by line and column; faults of one place keep their order. */
void fault_sort(struct config_faults *f);
/* The word of the NULL-terminated list that is nearest to `word`, near enough to be meant; else NULL. */
const char *fault_nearest(struct bytes word, const char *const *words);
/* `; did you mean "x"?`, or "" where nothing is near. In the faults' arena. */
const char *fault_hint(struct fault_log *log, struct bytes word, const char *const *words);
/* The bytes as they may stand in a message: control characters as '?', at most 80. In the faults' arena. */
const char *fault_quote(struct fault_log *log, struct bytes b);

#endif

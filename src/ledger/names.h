/* The table `name` in memory: text -> small integer, so that a row holds a byte instead of a model's name. Bounded: a
 * client can ask for a thousand models that do not exist; what does not fit is stored as text in the row itself, which
 * every reader understands too. Used by the writing thread alone. */
#ifndef RM_LEDGER_NAMES_H
#define RM_LEDGER_NAMES_H

#include "base/bytes.h"

enum { NAMES_MAX = 4096 };

struct name {
    char *text; /* NUL-terminated */
    int64_t id;
};
struct names {
    struct name *slots; /* open addressing; grows, since most gateways know a dozen names */
    size_t n_slots;
    unsigned n;
    int64_t last_id;
};

struct names *names_new(void);
void names_free(struct names *t);
void names_clear(struct names *t);
/* NULL = not known. What is found stays until the next names_put, its text until names_clear. */
const struct name *names_find(const struct names *t, struct bytes text);
/* False when the table is full. The text is copied. */
bool names_put(struct names *t, struct bytes text, int64_t id);

#endif

/* Secrets out of texts that providers send back: some quote the key they were given. */
#ifndef RM_UPSTREAM_REDACT_H
#define RM_UPSTREAM_REDACT_H

#include "base/bytes.h"
#include "model/failure.h"

/* In place, NUL-terminated: the key itself, a piece of it at the very end (where the text was cut), and whatever looks
 * like somebody's key become "[key]". */
void redact_text(char *text, struct bytes key);
void redact_failure(struct failure *f, struct bytes key);

#endif

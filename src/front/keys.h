/* Client keys: who may use the gateway. Only their SHA-256 is known here. */
#ifndef RM_FRONT_KEYS_H
#define RM_FRONT_KEYS_H

#include "base/fields.h"
#include "config/config.h"

/* Hashes what clients present, and remembers the hashes of secrets that were right, so that a client's next request
 * costs little. No secret is kept. Making one is dear, using it is not: one per front. */
struct key_hasher;
struct key_hasher *key_hasher_new(void);
void key_hasher_free(struct key_hasher *h);

/* The key that these request fields present (Authorization: Bearer, or x-api-key): true and its name (the config's, ""
 * when no keys are configured and everyone may come in). False: no key, or one that is not known. The time taken does
 * not tell which key was nearly right, or which of them matched; a key that was right before takes less time. */
bool keys_check(struct key_hasher *h, const struct config *c, const struct fields *fields, const char **name);

#endif

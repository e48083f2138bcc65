/* Every presented secret is hashed and compared with every configured hash, each in fixed time, without an early exit:
 * a secret's hash cannot be approached byte by byte, and the number of comparisons is always the same. */
#include "front/keys.h"

#include <openssl/evp.h>

enum { HASH_BYTES = 32 };

static struct bytes bearer_token(struct bytes value)
{
    struct bytes scheme = bytes_cut(&value, ' ');
    return bytes_eq_nocase(scheme, BYTES("bearer")) ? bytes_trim(value) : BYTES("");
}

/* Index of the configured key with that secret, or -1. */
static int find_key(const struct config *c, struct bytes secret)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned n_hash = 0;
    int found = -1;
    if (secret.n == 0 || EVP_Digest(secret.p, secret.n, hash, &n_hash, EVP_sha256(), NULL) != 1)
        return -1;
    RM_ASSERT(n_hash == HASH_BYTES);
    for (size_t i = 0; i < c->n_keys; i++)
        if (bytes_eq_fixed_time(bytes_from(hash, HASH_BYTES), bytes_from(c->keys[i].sha256, HASH_BYTES)))
            found = (int)i;
    return found;
}

bool keys_check(const struct config *c, const struct fields *fields, const char **name)
{
    *name = "";
    if (c->n_keys == 0)
        return true;
    int by_bearer = find_key(c, bearer_token(fields_get(fields, "authorization")));
    int by_header = find_key(c, bytes_trim(fields_get(fields, "x-api-key")));
    int found = by_bearer >= 0 ? by_bearer : by_header;
    if (found >= 0)
        *name = c->keys[found].name;
    return found >= 0;
}

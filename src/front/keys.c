/* Every presented secret is hashed and compared with every configured hash, each in fixed time, without an early exit:
 * a secret's hash cannot be approached byte by byte, and the number of comparisons is always the same. */
#include "front/keys.h"

#include "base/mem.h"

#include <openssl/evp.h>

enum { HASH_BYTES = 32 };

struct key_hasher {
    EVP_MD *sha256; /* looked up once: OpenSSL's search for it costs ten times the hash of a key */
    EVP_MD_CTX *context;
};

struct key_hasher *key_hasher_new(void)
{
    struct key_hasher *h = mem_zalloc(sizeof *h);
    h->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    h->context = EVP_MD_CTX_new();
    RM_ASSERT(h->sha256 != NULL && h->context != NULL);
    return h;
}

void key_hasher_free(struct key_hasher *h)
{
    if (h == NULL)
        return;
    EVP_MD_CTX_free(h->context);
    EVP_MD_free(h->sha256);
    mem_free(h);
}

static bool hash_secret(struct key_hasher *h, struct bytes secret, unsigned char out[HASH_BYTES])
{
    return EVP_DigestInit_ex2(h->context, h->sha256, NULL) == 1 &&
           EVP_DigestUpdate(h->context, secret.p, secret.n) == 1 && EVP_DigestFinal_ex(h->context, out, NULL) == 1;
}

static struct bytes bearer_token(struct bytes value)
{
    struct bytes scheme = bytes_cut(&value, ' ');
    return bytes_eq_nocase(scheme, BYTES("bearer")) ? bytes_trim(value) : BYTES("");
}

/* Index of the configured key with that secret, or -1. */
static int find_key(struct key_hasher *h, const struct config *c, struct bytes secret)
{
    unsigned char hash[HASH_BYTES];
    int found = -1;
    if (secret.n == 0 || !hash_secret(h, secret, hash))
        return -1;
    for (size_t i = 0; i < c->n_keys; i++)
        if (bytes_eq_fixed_time(bytes_from(hash, HASH_BYTES), bytes_from(c->keys[i].sha256, HASH_BYTES)))
            found = (int)i;
    return found;
}

bool keys_check(struct key_hasher *h, const struct config *c, const struct fields *fields, const char **name)
{
    *name = "";
    if (c->n_keys == 0)
        return true;
    int by_bearer = find_key(h, c, bearer_token(fields_get(fields, "authorization")));
    int by_header = find_key(h, c, bytes_trim(fields_get(fields, "x-api-key")));
    int found = by_bearer >= 0 ? by_bearer : by_header;
    if (found >= 0)
        *name = c->keys[found].name;
    return found >= 0;
}

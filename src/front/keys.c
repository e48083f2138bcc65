/* Every presented secret is hashed and compared with every configured hash, each in fixed time, without an early exit:
 * a secret's hash cannot be approached byte by byte, and the number of comparisons is always the same.
 *
 * The hash is dear (OpenSSL's preparations more than the hash itself), and clients present the same few secrets again
 * and again. So the hashes of secrets that were found are remembered, under a tag of the secret made with a key that
 * chance chose for this hasher (tag.h). Neither a secret nor anything that it could be guessed from is kept: the tag
 * says nothing without its key, and the hash is what the configuration holds as well. What is remembered is a hash and
 * not a verdict; so a key that a reload has taken away is not found any more. A wrong secret is never remembered, so
 * that nobody can push the right ones out. */
#include "front/keys.h"

#include "base/mem.h"
#include "front/tag.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

enum { HASH_BYTES = 32, N_SLOTS = 64 };

struct slot {
    struct tag tag;
    unsigned char hash[HASH_BYTES];
    bool is_used;
};

struct key_hasher {
    EVP_MD *sha256; /* looked up once: OpenSSL's search for it costs ten times the hash of a key */
    EVP_MD_CTX *context;
    uint64_t tag_key[2];
    bool has_tag_key; /* else nothing is remembered */
    struct slot slots[N_SLOTS];
};

struct key_hasher *key_hasher_new(void)
{
    struct key_hasher *h = mem_zalloc_lines(sizeof *h);
    h->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    h->context = EVP_MD_CTX_new();
    RM_ASSERT(h->sha256 != NULL && h->context != NULL);
    h->has_tag_key = RAND_priv_bytes((unsigned char *)h->tag_key, sizeof h->tag_key) == 1;
    return h;
}

void key_hasher_free(struct key_hasher *h)
{
    if (h == NULL)
        return;
    EVP_MD_CTX_free(h->context);
    EVP_MD_free(h->sha256);
    OPENSSL_cleanse(h->tag_key, sizeof h->tag_key);
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

static int find_hash(const struct config *c, const unsigned char hash[HASH_BYTES])
{
    int found = -1;
    for (size_t i = 0; i < c->n_keys; i++)
        if (bytes_eq_fixed_time(bytes_from(hash, HASH_BYTES), bytes_from(c->keys[i].sha256, HASH_BYTES)))
            found = (int)i;
    return found;
}

/* Index of the configured key with that secret, or -1. */
static int find_key(struct key_hasher *h, const struct config *c, struct bytes secret)
{
    unsigned char hash[HASH_BYTES];
    if (secret.n == 0)
        return -1;
    struct tag tag = tag_of(h->tag_key, secret);
    struct slot *slot = &h->slots[tag.v[0] % N_SLOTS];
    if (slot->is_used && tag_eq(slot->tag, tag))
        return find_hash(c, slot->hash);
    if (!hash_secret(h, secret, hash))
        return -1;
    int found = find_hash(c, hash);
    if (found >= 0 && h->has_tag_key) {
        *slot = (struct slot){.tag = tag, .is_used = true};
        memcpy(slot->hash, hash, HASH_BYTES);
    }
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

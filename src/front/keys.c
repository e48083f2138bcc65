/* Every presented secret is hashed and compared with every configured hash, each in fixed time, without an early exit:
 * a secret's hash cannot be approached byte by byte, and the number of comparisons is always the same.
 *
 * The hash is dear, and clients present the same few secrets again and again. So the hashes of secrets that were found
 * are remembered, under a tag of the secret made with a key that chance chose for this hasher (tag.h). Neither a secret
 * nor anything that it could be guessed from is kept: the tag says nothing without its key, and the hash is what the
 * configuration holds as well. What is remembered is a hash and not a verdict; so a key that a reload has taken away is
 * not found any more. A wrong secret is never remembered, so that nobody can push the right ones out. */
#include "front/keys.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "front/tag.h"

#include <string.h>
#include <sys/random.h>

enum { N_SLOTS = 64 };

struct slot {
    struct tag tag;
    unsigned char hash[SHA256_BYTES];
    bool is_used;
};

struct key_hasher {
    uint64_t tag_key[2];
    bool has_tag_key; /* else nothing is remembered */
    struct slot slots[N_SLOTS];
};

struct key_hasher *key_hasher_new(void)
{
    struct key_hasher *h = mem_zalloc_lines(sizeof *h);
    h->has_tag_key = getrandom(h->tag_key, sizeof h->tag_key, 0) == sizeof h->tag_key;
    return h;
}

void key_hasher_free(struct key_hasher *h)
{
    if (h == NULL)
        return;
    explicit_bzero(h->tag_key, sizeof h->tag_key);
    mem_free(h);
}

static struct bytes bearer_token(struct bytes value)
{
    struct bytes scheme = bytes_cut(&value, ' ');
    return bytes_eq_nocase(scheme, BYTES("bearer")) ? bytes_trim(value) : BYTES("");
}

static int find_hash(const struct config *c, const unsigned char hash[SHA256_BYTES])
{
    int found = -1;
    for (size_t i = 0; i < c->n_keys; i++)
        if (bytes_eq_fixed_time(bytes_from(hash, SHA256_BYTES), bytes_from(c->keys[i].sha256, SHA256_BYTES)))
            found = (int)i;
    return found;
}

/* Index of the configured key with that secret, or -1. */
static int find_key(struct key_hasher *h, const struct config *c, struct bytes secret)
{
    unsigned char hash[SHA256_BYTES];
    if (secret.n == 0)
        return -1;
    struct tag tag = tag_of(h->tag_key, secret);
    struct slot *slot = &h->slots[tag.v[0] % N_SLOTS];
    if (slot->is_used && tag_eq(slot->tag, tag))
        return find_hash(c, slot->hash);
    sha256(secret, hash);
    int found = find_hash(c, hash);
    if (found >= 0 && h->has_tag_key) {
        *slot = (struct slot){.tag = tag, .is_used = true};
        memcpy(slot->hash, hash, SHA256_BYTES);
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

/* A record on the wire, and what the cipher is given:
 *
 *     17 03 03 nn nn | sealed: content, its type, (zeros) | tag
 *     additional data  under nonce = iv XOR number
 */
#include "net/tls13.h"

#include "base/err.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

enum { RECORDS_MAX = 1 << 24 }; /* what AES-GCM can bear; ChaCha20-Poly1305 could bear more */

void tls13_suites_init(struct tls13_suite suites[TLS13_SUITES])
{
    EVP_CIPHER *aes_128 = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL);
    EVP_CIPHER *aes_256 = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    EVP_CIPHER *chacha = EVP_CIPHER_fetch(NULL, "ChaCha20-Poly1305", NULL);
    suites[0] = (struct tls13_suite){0x1301, 32, RECORDS_MAX, aes_128, EVP_sha256()};
    suites[1] = (struct tls13_suite){0x1302, 48, RECORDS_MAX, aes_256, EVP_sha384()};
    suites[2] = (struct tls13_suite){0x1303, 32, RECORDS_MAX, chacha, EVP_sha256()};
}

void tls13_suites_fini(struct tls13_suite suites[TLS13_SUITES])
{
    for (int i = 0; i < TLS13_SUITES; i++)
        EVP_CIPHER_free(suites[i].cipher);
}

/* HKDF-Expand-Label with an empty context (RFC 8446 §7.1). All that is asked for here fits one block of the hash. */
static bool expand(const struct tls13_key *k, const char *label, uint8_t *out, size_t n)
{
    uint8_t info[32] = {0}, block[EVP_MAX_MD_SIZE];
    size_t n_label = strlen(label), n_info = 0;
    RM_ASSERT(n <= k->suite->secret_bytes && n_label + 5 <= sizeof info);
    info[n_info++] = 0;
    info[n_info++] = (uint8_t)n;
    info[n_info++] = (uint8_t)n_label;
    memcpy(info + n_info, label, n_label);
    n_info += n_label;
    info[n_info++] = 0; /* the context's length */
    info[n_info++] = 1; /* the block's number (RFC 5869 §2.3) */
    bool ok = HMAC(k->suite->hash, k->secret, k->suite->secret_bytes, info, n_info, block, NULL) != NULL;
    if (ok)
        memcpy(out, block, n);
    OPENSSL_cleanse(block, sizeof block);
    return ok;
}

/* The cipher's key and iv, from the secret. */
static bool set_up(struct tls13_key *k, int is_for_writing)
{
    uint8_t key[EVP_MAX_KEY_LENGTH];
    bool ok = expand(k, "tls13 key", key, (size_t)EVP_CIPHER_get_key_length(k->suite->cipher)) &&
              expand(k, "tls13 iv", k->iv, sizeof k->iv) &&
              EVP_CipherInit_ex2(k->ctx, k->suite->cipher, key, NULL, is_for_writing, NULL) == 1;
    OPENSSL_cleanse(key, sizeof key);
    k->n_records = 0;
    return ok;
}

bool tls13_key_init(struct tls13_key *k, const struct tls13_suite *suite, const uint8_t *secret, bool is_for_writing)
{
    *k = (struct tls13_key){.suite = suite, .ctx = EVP_CIPHER_CTX_new()};
    memcpy(k->secret, secret, suite->secret_bytes);
    if (k->ctx != NULL && set_up(k, is_for_writing))
        return true;
    tls13_key_fini(k);
    return false;
}

void tls13_key_fini(struct tls13_key *k)
{
    EVP_CIPHER_CTX_free(k->ctx);
    OPENSSL_cleanse(k, sizeof *k);
}

bool tls13_key_next(struct tls13_key *k)
{
    uint8_t next[TLS13_SECRET_MAX];
    bool ok = expand(k, "tls13 traffic upd", next, k->suite->secret_bytes);
    if (ok)
        memcpy(k->secret, next, k->suite->secret_bytes);
    OPENSSL_cleanse(next, sizeof next);
    return ok && set_up(k, -1);
}

/* Tells the cipher the next record's nonce and head. */
static bool begin_record(struct tls13_key *k, const char *head)
{
    uint8_t nonce[TLS13_NONCE_BYTES];
    int n;
    RM_ASSERT(k->n_records != UINT64_MAX);
    memcpy(nonce, k->iv, sizeof nonce);
    for (size_t i = 0; i < sizeof k->n_records; i++)
        nonce[sizeof nonce - 1 - i] ^= (uint8_t)(k->n_records >> 8 * i);
    k->n_records++;
    return EVP_CipherInit_ex2(k->ctx, NULL, NULL, nonce, -1, NULL) == 1 &&
           EVP_CipherUpdate(k->ctx, NULL, &n, (const uint8_t *)head, TLS13_HEAD_BYTES) == 1;
}

bool tls13_seal(struct tls13_key *k, enum tls13_type type, struct bytes plain, char *wire)
{
    size_t n_body = plain.n + 1 + TLS13_TAG_BYTES;
    uint8_t *to = (uint8_t *)wire + TLS13_HEAD_BYTES, inner = (uint8_t)type;
    int n = 0, n_type, n_last;
    RM_ASSERT(plain.n <= TLS13_PLAIN_MAX);
    wire[0] = TLS13_DATA;
    wire[1] = wire[2] = 3;
    wire[3] = (char)(n_body >> 8);
    wire[4] = (char)n_body;
    return begin_record(k, wire) &&
           (plain.n == 0 || EVP_CipherUpdate(k->ctx, to, &n, (const uint8_t *)plain.p, (int)plain.n) == 1) &&
           EVP_CipherUpdate(k->ctx, to + n, &n_type, &inner, 1) == 1 &&
           EVP_CipherFinal_ex(k->ctx, to + n + n_type, &n_last) == 1 &&
           EVP_CIPHER_CTX_ctrl(k->ctx, EVP_CTRL_AEAD_GET_TAG, TLS13_TAG_BYTES, to + plain.n + 1) == 1;
}

bool tls13_open(struct tls13_key *k, const char *wire, size_t n_body, char *plain, size_t *n, uint8_t *type)
{
    const uint8_t *body = (const uint8_t *)wire + TLS13_HEAD_BYTES;
    uint8_t tag[TLS13_TAG_BYTES];
    int n_some, n_last;
    *n = 0;
    if (n_body <= TLS13_TAG_BYTES || n_body > TLS13_BODY_MAX)
        return false;
    size_t n_inner = n_body - TLS13_TAG_BYTES;
    memcpy(tag, body + n_inner, sizeof tag);
    if (!begin_record(k, wire) || EVP_CipherUpdate(k->ctx, (uint8_t *)plain, &n_some, body, (int)n_inner) != 1 ||
        EVP_CIPHER_CTX_ctrl(k->ctx, EVP_CTRL_AEAD_SET_TAG, TLS13_TAG_BYTES, tag) != 1 ||
        EVP_CipherFinal_ex(k->ctx, (uint8_t *)plain + n_some, &n_last) != 1) {
        OPENSSL_cleanse(plain, n_inner);
        return false;
    }
    while (n_inner > 0 && plain[n_inner - 1] == 0)
        n_inner--;
    *type = n_inner > 0 ? (uint8_t)plain[n_inner - 1] : 0;
    *n = n_inner > 0 ? n_inner - 1 : 0;
    return true;
}

/* How records of TLS 1.3 are sealed and opened (RFC 8446 §5.2, §5.3, §7.1 to §7.3), with the traffic secret of one
 * direction. The ciphers are OpenSSL's; here is only what goes into them: keys from secrets, a record's number in its
 * nonce, its head as additional data, its true type behind its content. No I/O. */
#ifndef RM_NET_TLS13_H
#define RM_NET_TLS13_H

#include "base/bytes.h"

#include <openssl/evp.h>

enum {
    TLS13_HEAD_BYTES = 5,
    TLS13_TAG_BYTES = 16,
    TLS13_PLAIN_MAX = 16384, /* content of one record */
    /* What may follow a head: content, type and zeros, no more of all three than that (§5.4), and the tag. The 239
     * bytes over it that §5.2 allows are for ciphers that add more than these do. */
    TLS13_BODY_MAX = TLS13_PLAIN_MAX + 1 + TLS13_TAG_BYTES,
    TLS13_WIRE_MAX = TLS13_HEAD_BYTES + TLS13_BODY_MAX,
    TLS13_ADDED_BYTES = TLS13_HEAD_BYTES + 1 + TLS13_TAG_BYTES, /* a record of ours over its content */
    TLS13_SECRET_MAX = 48,
    TLS13_NONCE_BYTES = 12
};
enum tls13_type { TLS13_CHANGE_CIPHER = 20, TLS13_ALERT = 21, TLS13_HANDSHAKE = 22, TLS13_DATA = 23 };

/* A cipher suite (RFC 8446 §B.4) as OpenSSL has it. */
struct tls13_suite {
    uint16_t id;
    uint8_t secret_bytes; /* the length of its hash */
    uint32_t records_max; /* that we seal under one key (RFC 8446 §5.5) */
    EVP_CIPHER *cipher;   /* NULL where OpenSSL does not offer it */
    const EVP_MD *hash;
};
enum { TLS13_SUITES = 3 };
void tls13_suites_init(struct tls13_suite suites[TLS13_SUITES]);
void tls13_suites_fini(struct tls13_suite suites[TLS13_SUITES]);

/* One direction of a connection. The zero value holds nothing. */
struct tls13_key {
    const struct tls13_suite *suite; /* outlives it */
    EVP_CIPHER_CTX *ctx;
    uint64_t n_records; /* the number of the next one */
    uint8_t iv[TLS13_NONCE_BYTES];
    uint8_t secret[TLS13_SECRET_MAX];
};

/* From a traffic secret of suite->secret_bytes, which is copied; the next record is the first under it. False when
 * OpenSSL refuses; the key holds nothing then. */
bool tls13_key_init(struct tls13_key *k, const struct tls13_suite *suite, const uint8_t *secret, bool is_for_writing);
void tls13_key_fini(struct tls13_key *k);
/* After a KeyUpdate: the next secret, its first record. False when OpenSSL refuses: the key may not be used any more.
 */
bool tls13_key_next(struct tls13_key *k);

/* Writes the record of `plain` (at most TLS13_PLAIN_MAX) into wire, plain.n + TLS13_ADDED_BYTES long. */
bool tls13_seal(struct tls13_key *k, enum tls13_type type, struct bytes plain, char *wire);
/* Opens the record at wire: a head, and a body of n_body bytes, at most TLS13_BODY_MAX. plain has room for
 * n_body - TLS13_TAG_BYTES and may be the body itself; *n is the content's length, *type its type, 0 where it has none.
 * False where it is not a record that the peer sealed as this one: plain holds nothing of it then. */
bool tls13_open(struct tls13_key *k, const char *wire, size_t n_body, char *plain, size_t *n, uint8_t *type);

#endif

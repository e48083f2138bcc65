/* Client keys: tags and hashes against OpenSSL's SipHash and SHA-256, and that remembering changes no verdict. */
#include "unit.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "front/keys.h"
#include "front/tag.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/sha.h>
#include <stdio.h>

static void tags_are_siphash(void **state)
{
    unsigned char key[16], text[70], want[16], got[16];
    uint64_t words[2] = {0};
    for (size_t i = 0; i < sizeof key; i++) {
        key[i] = (unsigned char)i;
        words[i / 8] |= (uint64_t)i << 8 * (i % 8);
    }
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 7);
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    assert_non_null(mac);
    for (size_t n = 0; n <= sizeof text; n++) {
        size_t size = 16, length = 0;
        OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size), OSSL_PARAM_construct_end()};
        EVP_MAC_CTX *c = EVP_MAC_CTX_new(mac);
        assert_int_equal(EVP_MAC_init(c, key, sizeof key, params), 1);
        assert_int_equal(EVP_MAC_update(c, text, n), 1);
        assert_int_equal(EVP_MAC_final(c, want, &length, sizeof want), 1);
        assert_int_equal(length, 16);
        EVP_MAC_CTX_free(c);
        struct tag tag = tag_of(words, bytes_from(text, n));
        for (size_t i = 0; i < sizeof got; i++)
            got[i] = (unsigned char)(tag.v[i / 8] >> 8 * (i % 8));
        assert_memory_equal(got, want, sizeof want);
    }
    EVP_MAC_free(mac);
}

static void hashes_are_sha256(void **state)
{
    unsigned char text[260], want[SHA256_BYTES], got[SHA256_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 11 + 200);
    for (size_t n = 0; n <= sizeof text; n++) {
        SHA256(text, n, want);
        sha256(bytes_from(text, n), got);
        assert_memory_equal(got, want, sizeof want);
    }
}

enum { N_KEYS = 200, NAME_BYTES = 32 };

struct world {
    struct config config;
    struct client_key keys[N_KEYS];
    char names[N_KEYS][NAME_BYTES];
    struct key_hasher *hasher;
};

static void secret_of(char out[NAME_BYTES], int i)
{
    snprintf(out, NAME_BYTES, "secret-%d", i);
}

static int setup(void **state)
{
    struct world *w = mem_zalloc(sizeof *w);
    for (int i = 0; i < N_KEYS; i++) {
        char secret[NAME_BYTES];
        secret_of(secret, i);
        snprintf(w->names[i], NAME_BYTES, "team-%d", i);
        w->keys[i].name = w->names[i];
        SHA256((unsigned char *)secret, strlen(secret), w->keys[i].sha256);
    }
    w->config.keys = w->keys;
    w->config.n_keys = N_KEYS;
    w->hasher = key_hasher_new();
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    key_hasher_free(w->hasher);
    mem_free(w);
    return 0;
}

static bool check(struct world *w, const char *secret, const char **name)
{
    struct field v[] = {{BYTES("x-api-key"), bytes_of(secret)}};
    struct fields f = {.v = v, .n = 1};
    return keys_check(w->hasher, &w->config, &f, name);
}

static void remembered_keys_are_the_same_keys(void **state)
{
    struct world *w = *state;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < N_KEYS; i++) {
            char secret[NAME_BYTES];
            const char *name = NULL;
            secret_of(secret, i);
            assert_true(check(w, secret, &name));
            assert_string_equal(name, w->names[i]);
            secret[0] = 'S';
            assert_false(check(w, secret, &name));
            assert_false(check(w, "", &name));
        }
}

static void a_key_taken_away_is_not_found(void **state)
{
    struct world *w = *state;
    const char *name = NULL;
    assert_true(check(w, "secret-7", &name));
    assert_true(check(w, "secret-7", &name));
    struct client_key last = w->keys[N_KEYS - 1];
    w->keys[7] = last; /* as a reload would leave it */
    w->config.n_keys--;
    assert_false(check(w, "secret-7", &name));
    assert_true(check(w, "secret-199", &name));
    assert_string_equal(name, last.name);
    w->config.n_keys = 0;
    assert_true(check(w, "secret-7", &name)); /* everyone may come in */
    assert_string_equal(name, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_are_siphash), cmocka_unit_test(hashes_are_sha256),
        cmocka_unit_test_setup_teardown(remembered_keys_are_the_same_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_taken_away_is_not_found, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

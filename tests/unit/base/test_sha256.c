/* Against the examples of FIPS 180-2, appendix B; that every length agrees with OpenSSL is tests/unit/front/test_keys.c
 * (this room sees no OpenSSL). */
#include "unit.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "base/text.h"

static void is_hash(struct bytes in, const char *want)
{
    unsigned char hash[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];
    sha256(in, hash);
    text_hex(hash, sizeof hash, hex);
    assert_string_equal(hex, want);
}

static void of_the_standard(void **state)
{
    (void)state;
    is_hash(BYTES("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    is_hash(BYTES("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    is_hash(BYTES(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    is_hash((struct bytes){0}, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void of_a_million_bytes(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = memset(mem_alloc(N), 'a', N);
    is_hash(bytes_from(text, N), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_the_standard),
        cmocka_unit_test(of_a_million_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

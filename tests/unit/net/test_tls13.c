/* Records of TLS 1.3 against the trace of RFC 8448 §3, and against themselves in each suite. */
#include "unit.h"

#include "base/err.h"
#include "net/tls13.h"

#include <openssl/crypto.h>

static struct tls13_suite suites[TLS13_SUITES];

static size_t from_hex(const char *hex, uint8_t *out, size_t cap)
{
    size_t n = 0;
    assert_int_equal(OPENSSL_hexstr2buf_ex(out, cap, &n, hex, '\0'), 1);
    return n;
}

/* The client's application traffic secret of the trace, and the record it sends under it. */
static const char client_secret[] = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
static const char client_record[] =
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a62"
    "92a2977014bd1e3deae63aeebb21694915e4";

static void known_record(void **state)
{
    struct tls13_key out, in;
    uint8_t secret[TLS13_SECRET_MAX], want[128], iv[TLS13_NONCE_BYTES], type;
    char plain[50], wire[128], back[128];
    size_t n_want = from_hex(client_record, want, sizeof want), n;
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (char)i;
    from_hex(client_secret, secret, sizeof secret);
    from_hex("5b78923dee08579033e523d9", iv, sizeof iv);
    assert_true(tls13_key_init(&out, &suites[0], secret, true));
    assert_true(tls13_key_init(&in, &suites[0], secret, false));
    assert_memory_equal(out.iv, iv, sizeof iv);
    assert_true(tls13_seal(&out, TLS13_DATA, bytes_from(plain, sizeof plain), wire));
    assert_int_equal(sizeof plain + TLS13_ADDED_BYTES, n_want);
    assert_memory_equal(wire, want, n_want);
    assert_true(tls13_open(&in, wire, n_want - TLS13_HEAD_BYTES, back, &n, &type));
    assert_int_equal(n, sizeof plain);
    assert_int_equal(type, TLS13_DATA);
    assert_memory_equal(back, plain, n);
    tls13_key_fini(&out);
    tls13_key_fini(&in);
}

static struct tls13_key key_of(int suite, bool is_for_writing)
{
    struct tls13_key k;
    uint8_t secret[TLS13_SECRET_MAX];
    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (uint8_t)(7 * i);
    assert_true(tls13_key_init(&k, &suites[suite], secret, is_for_writing));
    return k;
}

static void go_and_come(struct tls13_key *out, struct tls13_key *in, size_t n_plain)
{
    static char plain[TLS13_PLAIN_MAX], wire[TLS13_WIRE_MAX], back[TLS13_BODY_MAX];
    uint8_t type;
    size_t n;
    memset(plain, (int)n_plain, n_plain);
    assert_true(tls13_seal(out, TLS13_HANDSHAKE, bytes_from(plain, n_plain), wire));
    assert_true(tls13_open(in, wire, n_plain + TLS13_ADDED_BYTES - TLS13_HEAD_BYTES, back, &n, &type));
    assert_int_equal(n, n_plain);
    assert_int_equal(type, TLS13_HANDSHAKE);
    assert_memory_equal(back, plain, n);
}

static void every_suite(void **state)
{
    static const size_t lengths[] = {1, 0, 15, 16, 17, 1000, TLS13_PLAIN_MAX};
    for (int suite = 0; suite < TLS13_SUITES; suite++) {
        struct tls13_key out = key_of(suite, true), in = key_of(suite, false);
        for (size_t i = 0; i < RM_COUNTOF(lengths); i++)
            go_and_come(&out, &in, lengths[i]);
        assert_int_equal(out.n_records, RM_COUNTOF(lengths));
        assert_true(tls13_key_next(&out) && tls13_key_next(&in));
        assert_int_equal(out.n_records, 0);
        go_and_come(&out, &in, 100);
        tls13_key_fini(&out);
        tls13_key_fini(&in);
    }
}

/* Whichever bit is changed, and whichever record stands in another's place. */
static void not_genuine(void **state)
{
    char wire[100], back[100];
    size_t n;
    uint8_t type;
    for (int suite = 0; suite < TLS13_SUITES; suite++)
        for (size_t at = 0; at <= 20 + TLS13_ADDED_BYTES; at++) {
            struct tls13_key out = key_of(suite, true), in = key_of(suite, false);
            assert_true(tls13_seal(&out, TLS13_DATA, BYTES("twenty bytes of text"), wire));
            if (at < 20 + TLS13_ADDED_BYTES)
                wire[at] = (char)(wire[at] ^ 1 << at % 8);
            else
                in.n_records++;
            memset(back, 'x', sizeof back);
            assert_false(tls13_open(&in, wire, 20 + TLS13_ADDED_BYTES - TLS13_HEAD_BYTES, back, &n, &type));
            for (int i = 0; i <= 20; i++)
                assert_int_equal(back[i], 0); /* what it would have been is not left behind */
            tls13_key_fini(&out);
            tls13_key_fini(&in);
        }
}

static void lengths_that_cannot_be(void **state)
{
    static char wire[TLS13_WIRE_MAX + 1], back[TLS13_BODY_MAX + 1];
    size_t n;
    uint8_t type;
    struct tls13_key in = key_of(0, false);
    assert_false(tls13_open(&in, wire, 0, back, &n, &type));
    assert_false(tls13_open(&in, wire, TLS13_TAG_BYTES, back, &n, &type));
    assert_false(tls13_open(&in, wire, TLS13_BODY_MAX + 1, back, &n, &type));
    tls13_key_fini(&in);
}

static int open_suites(void **state)
{
    tls13_suites_init(suites);
    return 0;
}

static int close_suites(void **state)
{
    tls13_suites_fini(suites);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_record),
        cmocka_unit_test(every_suite),
        cmocka_unit_test(not_genuine),
        cmocka_unit_test(lengths_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, open_suites, close_suites);
}

/* The hash of JSON text: the same everywhere and always, and another one for whatever differs. */
#include "unit.h"

#include "base/check.h"
#include "base/mem.h"
#include "codec/json_hash.h"

enum { LONGEST = 1300 };

static void fill(char *text)
{
    for (int i = 0; i < LONGEST; i++)
        text[i] = (char)(' ' + i * 7 % 90);
}

/* These values stand in ledgers; with the instruction and without, the same. */
static void it_stays(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint64_t want;
    } rows[] = {
        {0, UINT64_C(0x0)},
        {1, UINT64_C(0xcaa12ed00c4b2ba8)},
        {8, UINT64_C(0x7a3fef7b60cc170)},
        {15, UINT64_C(0x3794e95c69f052f3)},
        {16, UINT64_C(0x68aed418300d1030)},
        {17, UINT64_C(0x74839951eacc849c)},
        {63, UINT64_C(0xcd7a8be43a7cd75)},
        {64, UINT64_C(0xf33941389ab28293)},
        {127, UINT64_C(0xfcf5671ee2bc5b5d)},
        {128, UINT64_C(0x48751a8c0fd1b00a)},
        {129, UINT64_C(0xdc59167b11f418e1)},
        {200, UINT64_C(0xea0bd751f1f580ac)},
        {255, UINT64_C(0x967a07c9e76d2523)},
        {256, UINT64_C(0x71271c96f3cd26)},
        {1299, UINT64_C(0xd0ea8be865cc59f0)},
    };
    char text[LONGEST];
    fill(text);
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        assert_true(json_mix(rows[i].n, bytes_from(text, rows[i].n)) == rows[i].want);
    uint64_t all = 0;
    for (size_t n = 0; n <= LONGEST; n++)
        all = json_mix(all, bytes_from(text, n));
    assert_true(all == UINT64_C(0x6b43e16f93769e89));
}

/* No two of: the texts of each length, each with one of its bits turned, whatever the alignment. */
static void each_bit_counts(void **state)
{
    (void)state;
    char room[LONGEST + 8], *text = room;
    fill(text);
    for (size_t n = 0; n < LONGEST; n += n < 300 ? 1 : 111) {
        uint64_t plain = json_mix(1, bytes_from(text, n));
        assert_true(json_mix(2, bytes_from(text, n)) != plain);
        assert_true(n == 0 || json_mix(1, bytes_from(text, n - 1)) != plain);
        for (size_t bit = 0; bit < 7 * n; bit++) {
            text[bit / 7] = (char)(text[bit / 7] ^ 1 << bit % 7);
            assert_true(json_mix(1, bytes_from(text, n)) != plain);
            text[bit / 7] = (char)(text[bit / 7] ^ 1 << bit % 7);
        }
        char *moved = mem_alloc(n + 3);
        memcpy(moved + 3, text, n);
        assert_true(json_mix(1, bytes_from(moved + 3, n)) == plain);
        mem_free(moved);
    }
}

/* Words that change places are another text. */
static void order_counts(void **state)
{
    (void)state;
    char text[128], other[128];
    for (int i = 0; i < 128; i++)
        text[i] = (char)('A' + i / 8);
    uint64_t plain = json_mix(0, bytes_from(text, sizeof text));
    for (size_t i = 0; i < sizeof text; i += 8)
        for (size_t k = 0; k < i; k += 8) {
            memcpy(other, text, sizeof text);
            memcpy(other + i, text + k, 8);
            memcpy(other + k, text + i, 8);
            assert_true(json_mix(0, bytes_from(other, sizeof other)) != plain);
        }
}

#if !defined(HAS_MORE_TESTS)
#define HAS_MORE_TESTS
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_stays), cmocka_unit_test(each_bit_counts),
                                       cmocka_unit_test(order_counts), HAS_MORE_TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

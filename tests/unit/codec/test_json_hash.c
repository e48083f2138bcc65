/* The hash of JSON text: the same everywhere and always, and another one for whatever differs. */
#include "unit.h"

#include "base/check.h"
#include "base/mem.h"
#include "codec/json_hash.h"

enum { LONGEST = 300 };

static void fill(char *text)
{
    for (int i = 0; i < LONGEST; i++)
        text[i] = (char)(' ' + i * 7 % 90);
}

/* These values stand in ledgers. */
static void it_stays(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint64_t want;
    } rows[] = {
        {0, UINT64_C(0x68fb3eb4013f571)},    {1, UINT64_C(0x3e26b0ae5040403)},    {8, UINT64_C(0xe722acacff6494d7)},
        {63, UINT64_C(0x49a432c0204da6d2)},  {64, UINT64_C(0x3eaa0343e9816878)},  {127, UINT64_C(0x8a19c51071bf2dcc)},
        {128, UINT64_C(0x295102ef36f38e0b)}, {200, UINT64_C(0xe5c89d7a81eb800a)}, {299, UINT64_C(0x601933081a160d88)}};
    char text[LONGEST];
    fill(text);
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        assert_true(json_mix(rows[i].n, bytes_from(text, rows[i].n)) == rows[i].want);
}

/* No two of: the texts of each length, each with one of its bits turned, whatever the alignment. */
static void each_bit_counts(void **state)
{
    (void)state;
    char room[LONGEST + 8], *text = room;
    fill(text);
    for (size_t n = 0; n < LONGEST; n += n < 140 ? 1 : 17) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_stays),
        cmocka_unit_test(each_bit_counts),
        cmocka_unit_test(order_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The hash as a processor without AES rounds makes it: the same values. This program's own json_mix stands in for the
 * library's. */
#define RM_HASH_PORTABLE
#define HAS_MORE_TESTS cmocka_unit_test(a_round_is_that_of_the_standard),
#include "../../../src/codec/json_hash.c"

#include "unit.h"

/* FIPS 197, appendix B: the first round. */
static void a_round_is_that_of_the_standard(void **state)
{
    (void)state;
    static const unsigned char before[] = {0x19, 0x3d, 0xe3, 0xbe, 0xa0, 0xf4, 0xe2, 0x2b,
                                           0x9a, 0xc6, 0x8d, 0x2a, 0xe9, 0xf8, 0x48, 0x08};
    static const unsigned char key[] = {0xa0, 0xfa, 0xfe, 0x17, 0x88, 0x54, 0x2c, 0xb1,
                                        0x23, 0xa3, 0x39, 0x39, 0x2a, 0x6c, 0x76, 0x05};
    static const unsigned char after[] = {0xa4, 0x9c, 0x7f, 0xf2, 0x68, 0x9f, 0x35, 0x2b,
                                          0x6b, 0x5b, 0xea, 0x43, 0x02, 0x6a, 0x50, 0x49};
    lane l;
    memcpy(&l, before, sizeof l);
    l = round_by_tables(l, key);
    assert_memory_equal(&l, after, sizeof l);
}

#include "test_json_hash.c"

/* The scan in blocks once more, for machines with AVX2: twice the bytes in a vector, and characters beyond ASCII judged
 * as vectors too. Which of the two runs is asked for each text; the rest of the program needs no such machine. */
#include "codec/json_scan_impl.h"

#if defined(RM_HAS_WIDE)
#define RM_BLOCK_WIDE

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt")
#endif

#include "codec/json_block.c"

/* What two bytes that follow each other cannot be, in UTF-8: one bit for each kind of fault, set in the tables of the
 * first byte's upper half, of its lower half, and of the second's upper half; a fault that all three know of is one.
 * PAIR is no fault where a third or fourth byte is due. */
enum {
    SHORT = 1,   /* a lead, then none that follows */
    LONG = 2,    /* ASCII, then one that follows */
    OVER_3 = 4,  /* e0, then below a0 */
    BEYOND = 8,  /* f4, then above 8f; more than f4 */
    HALF = 16,   /* ed, then above 9f: half a surrogate pair */
    OVER_2 = 32, /* c0, c1 */
    OVER_4 = 64, /* f0, then below 90; more than f4, then those */
    PAIR = 128,  /* two that follow */
    ANY = SHORT | LONG | PAIR,
    PAST_F4 = ANY | BEYOND | OVER_4,
    SECOND = LONG | OVER_2 | PAIR
};

#define TWICE(...)               \
    {                            \
        __VA_ARGS__, __VA_ARGS__ \
    }
#define ALL(b)           \
    {                    \
        [0 ... 31] = (b) \
    }

const struct json_wide json_wide_constants = {
    .two = ALL(2),
    .limit = ALL(0x21),
    .slash = ALL('\\'),
    .half = ALL(15),
    .escape = TWICE(1, 0, '"', 0, 't', 0, 'f', 0, 0, 0, 0, 0, '\\', 0, 'n', '/'),
    .first_upper = TWICE(LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, PAIR, PAIR, PAIR, PAIR, SHORT | OVER_2, SHORT,
                         SHORT | OVER_3 | HALF, SHORT | BEYOND | OVER_4),
    .first_lower = TWICE(ANY | OVER_2 | OVER_3 | OVER_4, ANY | OVER_2, ANY, ANY, ANY | BEYOND, PAST_F4, PAST_F4,
                         PAST_F4, PAST_F4, PAST_F4, PAST_F4, PAST_F4, PAST_F4, PAST_F4 | HALF, PAST_F4, PAST_F4),
    .second_upper =
        TWICE(SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SECOND | OVER_3 | OVER_4,
              SECOND | OVER_3 | BEYOND, SECOND | HALF | BEYOND, SECOND | HALF | BEYOND, SHORT, SHORT, SHORT, SHORT),
    .lead3 = ALL(0xe0 - 0x80),
    .lead4 = ALL(0xf0 - 0x80),
    .top = ALL(0x80),
};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif

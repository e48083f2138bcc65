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

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif

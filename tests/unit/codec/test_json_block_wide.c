/* The bits of wide vectors under the same tests; the library's scan is the wide one where the machine has them. */
#include "codec/json_scan_impl.h"

#if defined(RM_HAS_WIDE)
#define RM_BLOCK_WIDE
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt")
#endif
#include "codec/json_block.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#include "test_json_block.c"

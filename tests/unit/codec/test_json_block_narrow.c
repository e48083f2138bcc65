/* The scan in blocks as an x86-64 without AVX2 has it, under the same tests. This program's own json_scan_block stands
 * in for the library's. */
#define RM_BLOCK_NARROW
#include "../../../src/codec/json_block.c"

#include "test_json_block.c"

/* The scan in blocks as a machine without SSE2 has it, under the same tests. This program's own json_scan_block stands
 * in for the library's. */
#define RM_BLOCK_PORTABLE
#include "../../../src/codec/json_block.c"

#include "test_json_block.c"

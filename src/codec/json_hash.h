/* A hash of JSON text for grouping what is equal: not against someone who looks for collisions. Equal on every machine,
 * and kept in ledgers: another way to mix would be another hash. By AES rounds where the processor has them. Pure. */
#ifndef RM_CODEC_JSON_HASH_H
#define RM_CODEC_JSON_HASH_H

#include "base/bytes.h"

/* h, going on with `text`. Mixing two texts one after the other is not mixing them joined. */
uint64_t json_mix(uint64_t h, struct bytes text);

#endif

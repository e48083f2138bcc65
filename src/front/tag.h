/* A short keyed fingerprint of bytes: SipHash-2-4 with 128 bits (Aumasson and Bernstein, "SipHash: a fast short-input
 * PRF", 2012). Who does not know the key can neither tell anything of the bytes from their tag nor find other bytes
 * with the same one. Pure. */
#ifndef RM_FRONT_TAG_H
#define RM_FRONT_TAG_H

#include "base/bytes.h"

struct tag {
    uint64_t v[2];
};

struct tag tag_of(const uint64_t key[2], struct bytes b);
/* Time does not depend on where they differ. */
static inline bool tag_eq(struct tag a, struct tag b)
{
    return ((a.v[0] ^ b.v[0]) | (a.v[1] ^ b.v[1])) == 0;
}

#endif

/* What the fuzz targets share. An input is the plain text of what is parsed, so that a seed is a file that can be read;
 * what varies besides (where it is split, sizes) is drawn from a hash of it. A broken law is an RM_ASSERT. */
#ifndef RM_TESTS_FUZZ_H
#define RM_TESTS_FUZZ_H

#include "base/bytes.h"
#include "base/check.h"
#include "base/rng.h"

#include <stddef.h>
#include <stdint.h>

/* The entry of libFuzzer; corpus.c calls the same one with the files of a corpus. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Chance of this input; `salt` tells several uses apart. */
static inline struct rng fuzz_rng(struct bytes in, uint64_t salt)
{
    return (struct rng){bytes_hash(in, salt)};
}

/* `inner` is empty or lies inside `outer`. */
static inline bool fuzz_is_inside(struct bytes inner, struct bytes outer)
{
    return inner.n == 0 || (inner.p >= outer.p && inner.p + inner.n <= outer.p + outer.n);
}

#endif

/* What a look at a block of JSON text says, and the looks by eight bytes in a word, for machines without vectors that
 * we know. Private to the room. */
#ifndef RM_CODEC_JSON_WORD_H
#define RM_CODEC_JSON_WORD_H

#include "base/bytes.h"

#include <endian.h>

/* A look at a block; a look for the end of a short string. */
enum { JSON_BLOCK = 64, JSON_SHORT = 32 };

struct json_bits {
    uint64_t stops;   /* quotes, control characters, bytes that are not ASCII */
    uint64_t slashes; /* backslashes */
};

/* 0x80 in each byte of w that is zero, exactly. */
static inline uint64_t json_word_zeros(uint64_t w)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    return ~(((w & low) + low) | w | low);
}

/* The eight flags (0x80 each) as the low eight bits. */
static inline uint64_t json_word_bits(uint64_t flags)
{
    return (flags >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

static inline struct json_bits json_bits_portable(const unsigned char *p)
{
    const uint64_t each = UINT64_C(0x0101010101010101), high = each * 0x80;
    struct json_bits b = {0, 0};
    for (unsigned i = 0; i < JSON_BLOCK; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, sizeof w);
        w = le64toh(w);
        uint64_t control = json_word_zeros(w & each * 0xe0);
        uint64_t stops = control | (w & high) | json_word_zeros(w ^ each * '"');
        b.stops |= json_word_bits(stops) << i;
        b.slashes |= json_word_bits(json_word_zeros(w ^ each * '\\')) << i;
    }
    return b;
}

static inline uint64_t json_high_portable(const unsigned char *p)
{
    uint64_t high = 0;
    for (unsigned i = 0; i < JSON_BLOCK; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, sizeof w);
        high |= json_word_bits(le64toh(w) & UINT64_C(0x8080808080808080)) << i;
    }
    return high;
}

static inline uint32_t json_odd_portable(const unsigned char *p)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint32_t odd = 0;
    for (unsigned i = 0; i < JSON_SHORT; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, sizeof w);
        w = le64toh(w);
        uint64_t flags = json_word_zeros(w & each * 0xe0) | (w & each * 0x80) | json_word_zeros(w ^ each * '"') |
                         json_word_zeros(w ^ each * '\\');
        odd |= (uint32_t)json_word_bits(flags) << i;
    }
    return odd;
}

#endif

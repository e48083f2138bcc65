/* Runs of bytes that need no attention, sixteen at a time (the compiler's vectors: any machine). Most of a request is
 * the inside of strings. */
#ifndef RM_CODEC_JSON_RUN_H
#define RM_CODEC_JSON_RUN_H

#include "base/bytes.h"

typedef signed char json_vec __attribute__((vector_size(16)));

static inline json_vec json_vec_at(const unsigned char *p)
{
    json_vec b;
    memcpy(&b, p, sizeof b);
    return b;
}

/* Index of the first byte of b that is not zero; 16 when all are. */
static inline unsigned json_vec_first(json_vec b)
{
    uint64_t half[2];
    memcpy(half, &b, sizeof half);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (half[0] != 0)
        return (unsigned)__builtin_ctzll(half[0]) / 8;
    return half[1] != 0 ? 8 + (unsigned)__builtin_ctzll(half[1]) / 8 : 16;
#else
    if (half[0] != 0)
        return (unsigned)__builtin_clzll(half[0]) / 8;
    return half[1] != 0 ? 8 + (unsigned)__builtin_clzll(half[1]) / 8 : 16;
#endif
}

/* Inside a string: index of the first byte among sixteen that is a quote, a backslash, a control character or not
 * ASCII; 16 when none is. */
static inline unsigned json_special_within(const unsigned char *p)
{
    json_vec b = json_vec_at(p); /* signed: what is not ASCII is below 0 */
    return json_vec_first((b == '"') | (b == '\\') | (b < 0x20));
}

/* Inside a string: the first byte that is a quote, a backslash, a control character or not ASCII; `end` when none. */
static inline const unsigned char *json_plain_end(const unsigned char *p, const unsigned char *end)
{
    while (end - p >= 16) {
        unsigned n = json_special_within(p);
        p += n;
        if (n < 16)
            return p;
    }
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* Opening brackets of both kinds, also those inside strings; stops counting above `most`. */
static inline size_t json_count_openings(struct bytes text, size_t most)
{
    size_t n = 0, at = 0;
    while (at < text.n && n <= most) {
        size_t end = text.n - at < 255 ? text.n : at + 255;
        uint8_t found = 0;
        for (; at < end; at++) /* becomes vectors */
            found = (uint8_t)(found + ((text.p[at] | 0x20) == '{'));
        n += found;
    }
    return n;
}

#endif

/* The looks of json_block.h with thirty-two bytes in a vector, and two that only pay with such: what stands behind
 * backslashes, and whether characters beyond ASCII are UTF-8. For files that are compiled for AVX2. Private to the
 * room.
 */
#ifndef RM_CODEC_JSON_WIDE_H
#define RM_CODEC_JSON_WIDE_H

#include "codec/json_block.h"

#include <immintrin.h>

static inline __m256i json_wide_load(const unsigned char *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* What the looks compare with. */
struct json_wide {
    unsigned char two[32], limit[32], slash[32]; /* see json_vec_stops */
    unsigned char half[32];                      /* of a byte's bits: the lower ones */
    unsigned char escape[32];                    /* by those: the byte that may stand behind a backslash */
    unsigned char first_upper[32], first_lower[32], second_upper[32];
    unsigned char lead3[32], lead4[32], top[32];
};
extern const struct json_wide json_wide_constants;

/* They are read from memory, or kept in registers over a loop: made anew from immediates, as compilers like to where
 * they know what they are, each of them would cost three instructions a look. So they are not to know. */
static inline const struct json_wide *json_wide_hidden(void)
{
    const struct json_wide *k = &json_wide_constants;
    __asm__("" : "+r"(k));
    return k;
}

/* As json_vec_stops. */
static inline __m256i json_wide_stops(const struct json_wide *k, __m256i v)
{
    return _mm256_subs_epi8(_mm256_xor_si256(v, json_wide_load(k->two)), json_wide_load(k->limit));
}

static inline __m256i json_wide_slashes(const struct json_wide *k, __m256i v)
{
    return _mm256_cmpeq_epi8(v, json_wide_load(k->slash));
}

static inline uint64_t json_wide_bits(__m256i a, __m256i b)
{
    return (uint32_t)_mm256_movemask_epi8(a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
}

static inline struct json_bits json_bits_wide(const struct json_wide *k, const unsigned char *p)
{
    __m256i a = json_wide_load(p), b = json_wide_load(p + 32);
    return (struct json_bits){json_wide_bits(json_wide_stops(k, a), json_wide_stops(k, b)),
                              json_wide_bits(json_wide_slashes(k, a), json_wide_slashes(k, b))};
}

static inline __m256i json_wide_odd(const struct json_wide *k, const unsigned char *p)
{
    __m256i v = json_wide_load(p);
    return _mm256_or_si256(json_wide_stops(k, v), json_wide_slashes(k, v));
}

static inline uint64_t json_high_wide(const unsigned char *p)
{
    return json_wide_bits(json_wide_load(p), json_wide_load(p + 32));
}

/* Which of the 32 bytes at p are a stop or a backslash. */
static inline uint32_t json_odd_wide(const struct json_wide *k, const unsigned char *p)
{
    return (uint32_t)_mm256_movemask_epi8(json_wide_odd(k, p));
}

/* None of the 128 bytes at p is a stop or a backslash. */
static inline bool json_is_plain_wide(const struct json_wide *k, const unsigned char *p)
{
    __m256i a = _mm256_or_si256(json_wide_odd(k, p), json_wide_odd(k, p + 32));
    __m256i b = _mm256_or_si256(json_wide_odd(k, p + 64), json_wide_odd(k, p + 96));
    return _mm256_movemask_epi8(_mm256_or_si256(a, b)) == 0;
}

/* Which of the 64 bytes at p may stand behind a backslash: all that may but b, r and u, which share their lower half of
 * bits with others: the table has one byte for each. */
static inline uint64_t json_escapes_wide(const struct json_wide *k, const unsigned char *p)
{
    __m256i table = json_wide_load(k->escape), a = json_wide_load(p), b = json_wide_load(p + 32);
    return json_wide_bits(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, a), a),
                          _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, b), b));
}

static inline __m256i json_wide_upper(const struct json_wide *k, __m256i v)
{
    return _mm256_and_si256(_mm256_srli_epi16(v, 4), json_wide_load(k->half));
}

/* No fault of UTF-8 ends in the 32 bytes at p; the 3 before them are readable, and were looked at with theirs. */
static inline bool json_is_utf8_wide(const struct json_wide *k, const unsigned char *p)
{
    __m256i first = json_wide_load(p - 1);
    __m256i faults = _mm256_and_si256(
        _mm256_and_si256(
            _mm256_shuffle_epi8(json_wide_load(k->first_upper), json_wide_upper(k, first)),
            _mm256_shuffle_epi8(json_wide_load(k->first_lower), _mm256_and_si256(first, json_wide_load(k->half)))),
        _mm256_shuffle_epi8(json_wide_load(k->second_upper), json_wide_upper(k, json_wide_load(p))));
    /* the highest bit: a third byte or a fourth is due here, behind a lead of three or four */
    __m256i third = _mm256_subs_epu8(json_wide_load(p - 2), json_wide_load(k->lead3));
    __m256i fourth = _mm256_subs_epu8(json_wide_load(p - 3), json_wide_load(k->lead4));
    __m256i due = _mm256_and_si256(_mm256_or_si256(third, fourth), json_wide_load(k->top));
    __m256i all = _mm256_xor_si256(due, faults);
    return _mm256_testz_si256(all, all);
}

#endif

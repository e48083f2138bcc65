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

/* As json_vec_stops. */
static inline __m256i json_wide_stops(__m256i v)
{
    return _mm256_subs_epi8(_mm256_xor_si256(v, _mm256_set1_epi8(2)), _mm256_set1_epi8(0x21));
}

static inline __m256i json_wide_slashes(__m256i v)
{
    return _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\'));
}

static inline uint64_t json_wide_bits(__m256i a, __m256i b)
{
    return (uint32_t)_mm256_movemask_epi8(a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
}

static inline struct json_bits json_bits_wide(const unsigned char *p)
{
    __m256i a = json_wide_load(p), b = json_wide_load(p + 32);
    return (struct json_bits){json_wide_bits(json_wide_stops(a), json_wide_stops(b)), json_wide_bits(a, b),
                              json_wide_bits(json_wide_slashes(a), json_wide_slashes(b))};
}

static inline __m256i json_wide_odd(const unsigned char *p)
{
    __m256i v = json_wide_load(p);
    return _mm256_or_si256(json_wide_stops(v), json_wide_slashes(v));
}

/* None of the 128 bytes at p is a stop or a backslash. */
static inline bool json_is_plain_wide(const unsigned char *p)
{
    __m256i a = _mm256_or_si256(json_wide_odd(p), json_wide_odd(p + 32));
    __m256i b = _mm256_or_si256(json_wide_odd(p + 64), json_wide_odd(p + 96));
    return _mm256_movemask_epi8(_mm256_or_si256(a, b)) == 0;
}

static inline __m256i json_wide_table(__m128i t)
{
    return _mm256_broadcastsi128_si256(t);
}

/* Which of the 64 bytes at p may stand behind a backslash: all that may but b, r and u, which share their low half of
 * bits with others: a table by those bits has one byte for each. */
static inline uint64_t json_escapes_wide(const unsigned char *p)
{
    __m256i table = json_wide_table(_mm_setr_epi8(1, 0, '"', 0, 't', 0, 'f', 0, 0, 0, 0, 0, '\\', 0, 'n', '/'));
    __m256i a = json_wide_load(p), b = json_wide_load(p + 32);
    return json_wide_bits(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, a), a),
                          _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, b), b));
}

/* What two bytes that follow each other cannot be, in UTF-8: one bit for each kind of fault, set in the tables of the
 * first byte's upper half, of its lower half, and of the second's upper half; a fault that all three know of is one.
 * PAIR is no fault where a third or fourth byte is due. */
enum {
    UTF8_SHORT = 1,   /* a lead, then none that follows */
    UTF8_LONG = 2,    /* ASCII, then one that follows */
    UTF8_OVER_3 = 4,  /* e0, then below a0 */
    UTF8_BEYOND = 8,  /* f4, then above 8f; more than f4 */
    UTF8_HALF = 16,   /* ed, then above 9f: half a surrogate pair */
    UTF8_OVER_2 = 32, /* c0, c1 */
    UTF8_OVER_4 = 64, /* f0, then below 90; more than f4 with those */
    UTF8_PAIR = 128,  /* two that follow */
    UTF8_ANY = UTF8_SHORT | UTF8_LONG | UTF8_PAIR,
    UTF8_LEAD_F = UTF8_SHORT | UTF8_BEYOND | UTF8_OVER_4,
    UTF8_PAST_F4 = UTF8_ANY | UTF8_BEYOND | UTF8_OVER_4,
    UTF8_SECOND = UTF8_LONG | UTF8_OVER_2 | UTF8_PAIR
};

static inline __m256i json_wide_upper(__m256i v)
{
    return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
}

/* The faults that end in the 32 bytes at p; the 3 before them are readable. */
static inline __m256i json_utf8_faults(const unsigned char *p)
{
    const __m256i first_upper = json_wide_table(
        _mm_setr_epi8(UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG,
                      (char)UTF8_PAIR, (char)UTF8_PAIR, (char)UTF8_PAIR, (char)UTF8_PAIR, UTF8_SHORT | UTF8_OVER_2,
                      UTF8_SHORT, UTF8_SHORT | UTF8_OVER_3 | UTF8_HALF, UTF8_LEAD_F));
    const __m256i first_lower = json_wide_table(_mm_setr_epi8(
        (char)(UTF8_ANY | UTF8_OVER_2 | UTF8_OVER_3 | UTF8_OVER_4), (char)(UTF8_ANY | UTF8_OVER_2), (char)UTF8_ANY,
        (char)UTF8_ANY, (char)(UTF8_ANY | UTF8_BEYOND), (char)UTF8_PAST_F4, (char)UTF8_PAST_F4, (char)UTF8_PAST_F4,
        (char)UTF8_PAST_F4, (char)UTF8_PAST_F4, (char)UTF8_PAST_F4, (char)UTF8_PAST_F4, (char)UTF8_PAST_F4,
        (char)(UTF8_PAST_F4 | UTF8_HALF), (char)UTF8_PAST_F4, (char)UTF8_PAST_F4));
    const __m256i second_upper = json_wide_table(
        _mm_setr_epi8(UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT,
                      (char)(UTF8_SECOND | UTF8_OVER_3 | UTF8_OVER_4), (char)(UTF8_SECOND | UTF8_OVER_3 | UTF8_BEYOND),
                      (char)(UTF8_SECOND | UTF8_HALF | UTF8_BEYOND), (char)(UTF8_SECOND | UTF8_HALF | UTF8_BEYOND),
                      UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT));
    __m256i first = json_wide_load(p - 1);
    __m256i faults = _mm256_and_si256(
        _mm256_and_si256(_mm256_shuffle_epi8(first_upper, json_wide_upper(first)),
                         _mm256_shuffle_epi8(first_lower, _mm256_and_si256(first, _mm256_set1_epi8(15)))),
        _mm256_shuffle_epi8(second_upper, json_wide_upper(json_wide_load(p))));
    /* the highest bit: a third byte or a fourth is due here, behind a lead of three or four */
    __m256i third = _mm256_subs_epu8(json_wide_load(p - 2), _mm256_set1_epi8(0xe0 - 0x80));
    __m256i fourth = _mm256_subs_epu8(json_wide_load(p - 3), _mm256_set1_epi8(0xf0 - 0x80));
    __m256i due = _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)0x80));
    return _mm256_xor_si256(due, faults);
}

/* No fault of UTF-8 ends in the 64 bytes at p; the 3 before them are readable, and were looked at with theirs. */
static inline bool json_is_utf8_wide(const unsigned char *p)
{
    __m256i faults = _mm256_or_si256(json_utf8_faults(p), json_utf8_faults(p + 32));
    return _mm256_testz_si256(faults, faults);
}

#endif

/* Sixty-four bytes of JSON text at a look: which of them are no plain text inside a string, as one bit each, the first
 * byte lowest. By AVX2 in files that ask for it (RM_BLOCK_WIDE, see json_block_wide.c); by SSE2, which every x86-64
 * has; by eight bytes in a word elsewhere (RM_BLOCK_PORTABLE asks for that anywhere, for the tests). Private to the
 * room. */
#ifndef RM_CODEC_JSON_BLOCK_H
#define RM_CODEC_JSON_BLOCK_H

#include "codec/json_word.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* ---- sixteen bytes in a vector ---- */

#if defined(__SSE2__)
/* The highest bit of each byte that stops. Flipping bit 1 brings the quote (0x22) to 0x20, beside the control
 * characters, and keeps what is above it above; as signed numbers, bytes that are not ASCII are below them all. So one
 * subtraction tells the three, and its sign is what is asked for. */
static inline __m128i json_vec_stops(__m128i v)
{
    return _mm_subs_epi8(_mm_xor_si128(v, _mm_set1_epi8(2)), _mm_set1_epi8(0x21));
}

static inline __m128i json_vec_slashes(__m128i v)
{
    return _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'));
}

static inline __m128i json_vec_load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline uint64_t json_vec_bits(__m128i a, __m128i b, __m128i c, __m128i d)
{
    uint64_t low = (uint32_t)_mm_movemask_epi8(a) | (uint32_t)_mm_movemask_epi8(b) << 16;
    uint64_t high = (uint32_t)_mm_movemask_epi8(c) | (uint32_t)_mm_movemask_epi8(d) << 16;
    return low | high << 32;
}

static inline struct json_bits json_bits_sse2(const unsigned char *p)
{
    __m128i a = json_vec_load(p), b = json_vec_load(p + 16), c = json_vec_load(p + 32), d = json_vec_load(p + 48);
    return (struct json_bits){
        json_vec_bits(json_vec_stops(a), json_vec_stops(b), json_vec_stops(c), json_vec_stops(d)),
        json_vec_bits(json_vec_slashes(a), json_vec_slashes(b), json_vec_slashes(c), json_vec_slashes(d))};
}

static inline uint64_t json_high_sse2(const unsigned char *p)
{
    return json_vec_bits(json_vec_load(p), json_vec_load(p + 16), json_vec_load(p + 32), json_vec_load(p + 48));
}

static inline bool json_is_plain_sse2(const unsigned char *p)
{
    __m128i any = _mm_setzero_si128();
    for (unsigned i = 0; i < JSON_BLOCK; i += 16) {
        __m128i v = json_vec_load(p + i);
        any = _mm_or_si128(any, _mm_or_si128(json_vec_stops(v), json_vec_slashes(v)));
    }
    return _mm_movemask_epi8(any) == 0;
}

static inline uint32_t json_odd_sse2(const unsigned char *p)
{
    __m128i a = json_vec_load(p), b = json_vec_load(p + 16);
    return (uint32_t)_mm_movemask_epi8(_mm_or_si128(json_vec_stops(a), json_vec_slashes(a))) |
           (uint32_t)_mm_movemask_epi8(_mm_or_si128(json_vec_stops(b), json_vec_slashes(b))) << 16;
}
#endif

/* ---- the one in use ---- */

#if defined(RM_BLOCK_WIDE)
#include "codec/json_wide.h"
#endif

#if !defined(RM_BLOCK_WIDE)
struct json_wide; /* of no use here */
#endif

/* The 64 bytes at p, all of them readable. `wide`: json_wide_constants, where vectors are wide. */
static inline struct json_bits json_bits_of(const struct json_wide *wide, const unsigned char *p)
{
#if defined(RM_BLOCK_WIDE)
    return json_bits_wide(wide, p);
#elif defined(__SSE2__) && !defined(RM_BLOCK_PORTABLE)
    return json_bits_sse2(p);
#else
    return json_bits_portable(p);
#endif
}

/* Which of the 64 bytes at p are not ASCII. */
static inline uint64_t json_high_of(const unsigned char *p)
{
#if defined(RM_BLOCK_WIDE)
    return json_high_wide(p);
#elif defined(__SSE2__) && !defined(RM_BLOCK_PORTABLE)
    return json_high_sse2(p);
#else
    return json_high_portable(p);
#endif
}

/* Which of the JSON_SHORT bytes at p are a stop or a backslash. */
static inline uint32_t json_odd_of(const struct json_wide *wide, const unsigned char *p)
{
#if defined(RM_BLOCK_WIDE)
    return json_odd_wide(wide, p);
#elif defined(__SSE2__) && !defined(RM_BLOCK_PORTABLE)
    return json_odd_sse2(p);
#else
    return json_odd_portable(p);
#endif
}

/* Some of the 64 bytes at p that may stand behind a backslash, of those that can be told quickly. */
static inline uint64_t json_escapes_of(const struct json_wide *wide, const unsigned char *p)
{
#if defined(RM_BLOCK_WIDE)
    return json_escapes_wide(wide, p);
#else
    return 0;
#endif
}

/* Plain text is looked for in so many bytes at once. */
#if defined(RM_BLOCK_WIDE)
enum { JSON_PLAIN = 2 * JSON_BLOCK };
#else
enum { JSON_PLAIN = JSON_BLOCK };
#endif

/* None of the JSON_PLAIN bytes at p is a stop or a backslash. */
static inline bool json_block_is_plain(const struct json_wide *wide, const unsigned char *p)
{
#if defined(RM_BLOCK_WIDE)
    return json_is_plain_wide(wide, p);
#elif defined(__SSE2__) && !defined(RM_BLOCK_PORTABLE)
    return json_is_plain_sse2(p);
#else
    struct json_bits b = json_bits_portable(p);
    return (b.stops | b.slashes) == 0;
#endif
}

/* The bytes that a backslash before them escapes; a run of backslashes escapes every second of its own. *carry: the
 * first byte of this block is escaped by the last of the one before; then the same for the next one.
 *
 *     text     a \ n \ \ \ " \ \ "
 *     slashes  0 1 0 1 1 1 0 1 1 0
 *     escaped  0 0 1 0 1 0 1 0 1 0
 *
 * A run that starts at an even place and one that starts at an odd place differ in which places count: subtracting the
 * run's start from the odd places carries through the run and tells both apart without a loop. */
static inline uint64_t json_escaped(uint64_t slashes, uint64_t *carry)
{
    const uint64_t odd = UINT64_C(0xaaaaaaaaaaaaaaaa);
    uint64_t open = slashes & ~*carry;
    uint64_t follows = open << 1;
    uint64_t codes = ((follows | odd) - open) ^ odd;
    uint64_t escaped = codes ^ (slashes | *carry);
    *carry = (codes & slashes) >> 63;
    return escaped;
}

#endif

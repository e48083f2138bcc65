/* Sixteen bytes a step, and a step is one round of AES: bytes replaced, moved and mixed, then the next bytes of the
 * text on top. Nothing of it is secret, and it is no cipher; processors just do such a round in one instruction, so
 * that hashing a long prompt costs a tenth of scanning it. A round can be undone: of two texts that differ in one
 * place, no step can make one.
 *
 *     lanes     0    1    2         7
 *     text   [ 16 | 16 | 16 | ... | 16 ][ 16 | 16 | 16 ...   a round of one lane waits for its last one only
 *
 * Eight lanes go through what is long, and are then taken one after the other as if they were text. What is left goes
 * the same way, its last sixteen bytes whole, even where some of them have been taken before.
 *
 * Without the instruction a round is made by tables (FIPS 197, section 5.1), and gives the same. */
#include "codec/json_hash.h"

#include <endian.h>

enum { STEP = 16, LANES = 8, STRIDE = LANES * STEP };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef uint64_t lane __attribute__((vector_size(STEP)));

/* ---- a round by tables ---- */

/* The column that a byte makes: by 2, 1, 1 and 3 in the field of AES, the lowest byte first. */
#define TWO(s) ((((s) << 1) ^ ((s) >= 0x80 ? 0x11b : 0)) & 0xff)
#define C(s) ((uint32_t)TWO(s) | (uint32_t)(s) << 8 | (uint32_t)(s) << 16 | (uint32_t)(TWO(s) ^ (s)) << 24)
#define ROW(a, b, c, d, e, f, g, h) C(a), C(b), C(c), C(d), C(e), C(f), C(g), C(h)

static const uint32_t columns[256] = {
    ROW(0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5), ROW(0x30, 0x01, 0x67, 0x2b, 0xfe, 0xd7, 0xab, 0x76),
    ROW(0xca, 0x82, 0xc9, 0x7d, 0xfa, 0x59, 0x47, 0xf0), ROW(0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4, 0x72, 0xc0),
    ROW(0xb7, 0xfd, 0x93, 0x26, 0x36, 0x3f, 0xf7, 0xcc), ROW(0x34, 0xa5, 0xe5, 0xf1, 0x71, 0xd8, 0x31, 0x15),
    ROW(0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a), ROW(0x07, 0x12, 0x80, 0xe2, 0xeb, 0x27, 0xb2, 0x75),
    ROW(0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0), ROW(0x52, 0x3b, 0xd6, 0xb3, 0x29, 0xe3, 0x2f, 0x84),
    ROW(0x53, 0xd1, 0x00, 0xed, 0x20, 0xfc, 0xb1, 0x5b), ROW(0x6a, 0xcb, 0xbe, 0x39, 0x4a, 0x4c, 0x58, 0xcf),
    ROW(0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85), ROW(0x45, 0xf9, 0x02, 0x7f, 0x50, 0x3c, 0x9f, 0xa8),
    ROW(0x51, 0xa3, 0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5), ROW(0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2),
    ROW(0xcd, 0x0c, 0x13, 0xec, 0x5f, 0x97, 0x44, 0x17), ROW(0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73),
    ROW(0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a, 0x90, 0x88), ROW(0x46, 0xee, 0xb8, 0x14, 0xde, 0x5e, 0x0b, 0xdb),
    ROW(0xe0, 0x32, 0x3a, 0x0a, 0x49, 0x06, 0x24, 0x5c), ROW(0xc2, 0xd3, 0xac, 0x62, 0x91, 0x95, 0xe4, 0x79),
    ROW(0xe7, 0xc8, 0x37, 0x6d, 0x8d, 0xd5, 0x4e, 0xa9), ROW(0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a, 0xae, 0x08),
    ROW(0xba, 0x78, 0x25, 0x2e, 0x1c, 0xa6, 0xb4, 0xc6), ROW(0xe8, 0xdd, 0x74, 0x1f, 0x4b, 0xbd, 0x8b, 0x8a),
    ROW(0x70, 0x3e, 0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e), ROW(0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e),
    ROW(0xe1, 0xf8, 0x98, 0x11, 0x69, 0xd9, 0x8e, 0x94), ROW(0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf),
    ROW(0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42, 0x68), ROW(0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb, 0x16),
};

static inline uint32_t turned(uint32_t v, unsigned by)
{
    return by == 0 ? v : v << by | v >> (32 - by);
}

static lane round_by_tables(lane state, const unsigned char *p)
{
    unsigned char from[STEP], to[STEP];
    memcpy(from, &state, STEP);
    for (unsigned c = 0; c < 4; c++) { /* columns */
        uint32_t v;
        memcpy(&v, p + 4 * c, sizeof v);
        v = le32toh(v);
        for (unsigned r = 0; r < 4; r++) /* rows, each moved by its number */
            v ^= turned(columns[from[4 * ((c + r) % 4) + r]], 8 * r);
        v = htole32(v);
        memcpy(to + 4 * c, &v, sizeof v);
    }
    memcpy(&state, to, STEP);
    return state;
}

/* ---- a round ---- */

#if defined(__x86_64__) && !defined(RM_HASH_PORTABLE)
#define HAS_AES
#endif

/* On top come the sixteen bytes at p. */
ALWAYS_INLINE lane with_text(lane state, const unsigned char *p, bool has_aes)
{
#if defined(HAS_AES)
    if (has_aes) {
        __asm__("vaesenc %1, %0, %0" : "+x"(state) : "m"(*(const unsigned char(*)[STEP])p));
        return state;
    }
#endif
    return round_by_tables(state, p);
}

/* On top comes another lane. */
ALWAYS_INLINE lane with_lane(lane state, lane other, bool has_aes)
{
#if defined(HAS_AES)
    if (has_aes) {
        __asm__("vaesenc %1, %0, %0" : "+x"(state) : "x"(other));
        return state;
    }
#endif
    unsigned char on_top[STEP];
    memcpy(on_top, &other, STEP);
    return round_by_tables(state, on_top);
}

/* ---- whole ---- */

/* All strides of the text, which has one. */
ALWAYS_INLINE lane mix_strides(lane state, struct bytes text, bool has_aes)
{
    const unsigned char *p = (const unsigned char *)text.p, *end = p + text.n / STRIDE * STRIDE;
    lane l[LANES];
    for (unsigned i = 0; i < LANES; i++)
        l[i] = state;
    for (; p != end; p += STRIDE)
        for (unsigned i = 0; i < LANES; i++)
            l[i] = with_text(l[i], p + i * STEP, has_aes);
    for (unsigned i = 0; i < LANES; i++)
        state = with_lane(state, l[i], has_aes);
    return state;
}

/* What is left of the text, from p on. */
ALWAYS_INLINE lane mix_rest(lane state, struct bytes text, const unsigned char *p, bool has_aes)
{
    const unsigned char *end = (const unsigned char *)text.p + text.n;
    unsigned char few[STEP] = {0};
    for (; end - p > STEP; p += STEP)
        state = with_text(state, p, has_aes);
    if (text.n >= STEP)
        return with_text(state, end - STEP, has_aes);
    memcpy(few, text.p, text.n);
    return with_text(state, few, has_aes);
}

ALWAYS_INLINE uint64_t mix(uint64_t h, struct bytes text, bool has_aes)
{
    text.p = text.n > 0 ? text.p : "";
    lane first = {htole64(h), htole64(text.n)}, state = first;
    if (text.n >= STRIDE)
        state = mix_strides(state, text, has_aes);
    state = mix_rest(state, text, (const unsigned char *)text.p + text.n / STRIDE * STRIDE, has_aes);
    for (unsigned i = 0; i < 3; i++) /* two carry each bit to all others */
        state = with_lane(state, first, has_aes);
    return le64toh(state[0]) ^ le64toh(state[1]);
}

#if defined(HAS_AES)
static __attribute__((target("avx"))) uint64_t mix_aes(uint64_t h, struct bytes text)
{
    return mix(h, text, true);
}
#endif

uint64_t json_mix(uint64_t h, struct bytes text)
{
#if defined(HAS_AES)
    if (__builtin_cpu_supports("aes") && __builtin_cpu_supports("avx"))
        return mix_aes(h, text);
#endif
    return mix(h, text, false);
}

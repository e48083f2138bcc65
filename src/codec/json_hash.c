/* Sixteen bytes a step, in four lanes that do not wait for each other, so that hashing a long prompt costs less than
 * scanning it. A step multiplies one word of the text by the other and what was before; the product's halves are folded
 * into one word. A word of JSON is never zero, so a step never forgets what was before. */
#include "codec/json_hash.h"

#include <endian.h>

__extension__ typedef unsigned __int128 wide; /* the type has no portable name */

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t word_at(const unsigned char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return le64toh(w);
}

static inline uint64_t fold(uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t turned(uint64_t v, unsigned by)
{
    return v << by | v >> (64 - by);
}

/* A product not yet folded: its halves go into the next one together with the text. */
struct lane {
    uint64_t low, high;
};

/* has_mulx: by the instruction that leaves its halves where they are wanted and takes a factor from memory; compilers
 * know of it, but move the halves about. */
ALWAYS_INLINE struct lane multiplied(struct lane l, const unsigned char *p, bool has_mulx)
{
    uint64_t x = word_at(p) ^ l.low ^ l.high;
#if defined(__x86_64__)
    if (has_mulx) {
        __asm__("mulx %3, %0, %1" : "=r"(l.low), "=r"(l.high) : "d"(x), "m"(*(const unsigned char(*)[8])(p + 8)));
        return l;
    }
#endif
    wide product = (wide)x * word_at(p + 8);
    return (struct lane){(uint64_t)product, (uint64_t)(product >> 64)};
}

static inline uint64_t folded(struct lane l)
{
    return l.low ^ l.high;
}

struct lanes {
    struct lane a, b, c, d;
};

ALWAYS_INLINE void step(struct lanes *l, const unsigned char *p, bool has_mulx)
{
    l->a = multiplied(l->a, p, has_mulx);
    l->b = multiplied(l->b, p + 16, has_mulx);
    l->c = multiplied(l->c, p + 32, has_mulx);
    l->d = multiplied(l->d, p + 48, has_mulx);
}

ALWAYS_INLINE uint64_t mix(uint64_t h, struct bytes text, bool has_mulx)
{
    const unsigned char *p = (const unsigned char *)(text.n > 0 ? text.p : ""), *end = p + text.n;
    struct lanes l = {{h, GOLDEN},
                      {h, UINT64_C(0xd6e8feb86659fd93)},
                      {h, UINT64_C(0xa0761d6478bd642f)},
                      {h, UINT64_C(0xe7037ed1a0b428db)}};
    for (const unsigned char *last = p + text.n / 128 * 128; p != last; p += 128) { /* two steps a turn */
        step(&l, p, has_mulx);
        step(&l, p + 64, has_mulx);
    }
    if (end - p >= 64) {
        step(&l, p, has_mulx);
        p += 64;
    }
    h = folded(l.a) ^ turned(folded(l.b), 16) ^ turned(folded(l.c), 32) ^ turned(folded(l.d), 48);
    for (; end - p >= 8; p += 8)
        h = fold(h ^ word_at(p), GOLDEN);
    for (; p < end; p++)
        h = (h ^ *p) * UINT64_C(0x100000001b3);
    return fold(h ^ text.n, UINT64_C(0xff51afd7ed558ccd));
}

#if defined(__x86_64__)
static __attribute__((target("bmi2"))) uint64_t mix_bmi2(uint64_t h, struct bytes text)
{
    return mix(h, text, true);
}
#endif

uint64_t json_mix(uint64_t h, struct bytes text)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("bmi2"))
        return mix_bmi2(h, text);
#endif
    return mix(h, text, false);
}

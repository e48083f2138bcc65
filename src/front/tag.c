#include "front/tag.h"

enum { ROUNDS = 2, LAST_ROUNDS = 4 };

struct state {
    uint64_t a, b, c, d;
};

static uint64_t turned(uint64_t v, unsigned by)
{
    return v << by | v >> (64 - by);
}

static void mix(struct state *s, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        s->a += s->b;
        s->c += s->d;
        s->b = turned(s->b, 13) ^ s->a;
        s->d = turned(s->d, 16) ^ s->c;
        s->a = turned(s->a, 32);
        s->c += s->b;
        s->a += s->d;
        s->b = turned(s->b, 17) ^ s->c;
        s->d = turned(s->d, 21) ^ s->a;
        s->c = turned(s->c, 32);
    }
}

/* Up to eight bytes, the first one lowest, on any machine. */
static uint64_t word_at(const char *p, size_t n)
{
    unsigned char all[8] = {0};
    uint64_t v = 0;
    memcpy(all, p, n);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&v, all, sizeof v);
#else
    for (int i = 7; i >= 0; i--)
        v = v << 8 | all[i];
#endif
    return v;
}

static void take(struct state *s, uint64_t word)
{
    s->d ^= word;
    mix(s, ROUNDS);
    s->a ^= word;
}

struct tag tag_of(const uint64_t key[2], struct bytes b)
{
    struct state s = {.a = key[0] ^ UINT64_C(0x736f6d6570736575),
                      .b = key[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                      .c = key[0] ^ UINT64_C(0x6c7967656e657261),
                      .d = key[1] ^ UINT64_C(0x7465646279746573)};
    struct tag tag;
    size_t at = 0;
    for (; b.n - at >= 8; at += 8)
        take(&s, word_at(b.p + at, 8));
    take(&s, (uint64_t)b.n << 56 | (at < b.n ? word_at(b.p + at, b.n - at) : 0));
    s.c ^= 0xee;
    mix(&s, LAST_ROUNDS);
    tag.v[0] = s.a ^ s.b ^ s.c ^ s.d;
    s.b ^= 0xdd;
    mix(&s, LAST_ROUNDS);
    tag.v[1] = s.a ^ s.b ^ s.c ^ s.d;
    return tag;
}

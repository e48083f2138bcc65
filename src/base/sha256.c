/* Names of variables and functions are the standard's. The last one or two blocks are made apart: what is left of the
 * text, a one bit, zeros, and the length in bits. */
#include "base/sha256.h"

#include "base/check.h"

#include <string.h>

enum { BLOCK = 64, ROUNDS = 64 };

struct state {
    uint32_t h[8];
};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store(unsigned char *p, uint32_t v)
{
    for (int i = 3; i >= 0; i--, v >>= 8)
        p[i] = (unsigned char)v;
}

/* 6.2.2, step 1. */
static void schedule(const unsigned char *block, uint32_t w[ROUNDS])
{
    for (int t = 0; t < 16; t++)
        w[t] = load(block + 4 * (size_t)t);
    for (int t = 16; t < ROUNDS; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

static void take_block(struct state *s, const unsigned char *block)
{
    /* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
    static const uint32_t k[ROUNDS] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t w[ROUNDS];
    schedule(block, w);
    uint32_t a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4], f = s->h[5], g = s->h[6], h = s->h[7];
    for (int t = 0; t < ROUNDS; t++) {
        uint32_t t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + k[t] + w[t];
        uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t of_block[8] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < RM_COUNTOF(of_block); i++)
        s->h[i] += of_block[i];
    explicit_bzero(w, sizeof w);
}

static void take_end(struct state *s, struct bytes rest, size_t n_all)
{
    unsigned char last[2 * BLOCK] = {0};
    size_t n = rest.n + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
    if (rest.n > 0)
        memcpy(last, rest.p, rest.n);
    last[rest.n] = 0x80;
    store(last + n - 8, (uint32_t)((uint64_t)n_all >> 29));
    store(last + n - 4, (uint32_t)((uint64_t)n_all << 3));
    for (size_t i = 0; i < n; i += BLOCK)
        take_block(s, last + i);
    explicit_bzero(last, sizeof last);
}

void sha256(struct bytes in, unsigned char out[SHA256_BYTES])
{
    struct state s = {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
    size_t at = 0;
    for (; in.n - at >= BLOCK; at += BLOCK)
        take_block(&s, (const unsigned char *)in.p + at);
    take_end(&s, bytes_slice(in, at, in.n), in.n);
    for (size_t i = 0; i < RM_COUNTOF(s.h); i++)
        store(out + 4 * i, s.h[i]);
}

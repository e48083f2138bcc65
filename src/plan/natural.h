/* Natural logarithm and its inverse, by series. libm's are more exact than a latency needs and read tables: asked once
 * a call, they kept 190 KB of its pages in a process that wants nothing else of it. */
#ifndef RM_PLAN_NATURAL_H
#define RM_PLAN_NATURAL_H

#include <stdint.h>
#include <string.h>

/* The logarithm, within 1e-7; of 0 as of 1. With v = 2^e m, m from 1 to 2, and s = (m - r) / (m + r), r the root of 2:
 *
 *     ln v = (e + 1/2) ln 2 + 2 (s + s^3 / 3 + s^5 / 5 + s^7 / 7 + …)        |s| < 0.172 */
static inline double ln_u64(uint64_t v)
{
    const double ln_2 = 0.69314718055994531, root_2 = 1.4142135623730951;
    double m = v > 0 ? (double)v : 1;
    uint64_t bits;
    memcpy(&bits, &m, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52);
    memcpy(&m, &bits, sizeof m);
    double s = (m - root_2) / (m + root_2), s2 = s * s;
    return (e + 0.5) * ln_2 + 2 * s * (1 + s2 * (1 / 3.0 + s2 * (1 / 5.0 + s2 / 7.0)));
}

/* e to the x, for x from -1.5 to 1.5, within a millionth of itself: the eighth power of e to the x / 8. */
static inline double exp_near(double x)
{
    double y = x / 8;
    double e = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6)))));
    e *= e;
    e *= e;
    return e * e;
}

#endif

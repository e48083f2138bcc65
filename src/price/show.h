/* Amounts as people read them. Rounded half away from zero once, at the last digit shown. Pure. */
#ifndef RM_PRICE_SHOW_H
#define RM_PRICE_SHOW_H

#include "base/buf.h"
#include "model/money.h"

enum { SHOW_PLACES_MAX = 9 };

/* "$25.01" of nano-dollars with so many decimals (at most 9), or "unknown". */
void show_usd(struct buf *out, int64_t nusd, unsigned places);
/* The same with its sign: "+$0.09", "-$16.00". */
void show_change(struct buf *out, int64_t nusd, unsigned places);
/* part / whole in units of 10^-places, times `scale` (100 for per cent, 1 for "times"). A whole of 0 gives 0. */
int64_t show_ratio(int64_t part, int64_t whole, int64_t scale, unsigned places);
/* A number in units of 10^-places: "0.03". `sign`: a plus is written too. */
void show_fixed(struct buf *out, int64_t v, unsigned places, bool sign);
/* Parts per million as per cent, without idle zeros: 5000 -> "0.5 %". */
void show_ppm(struct buf *out, uint32_t ppm);
/* "0.5%" or "0.005" -> parts per million, exactly. False: neither, over 100 %, or finer than a millionth. */
bool show_ppm_parse(struct bytes in, uint32_t *ppm);

#endif

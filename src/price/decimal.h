/* Decimal numbers as catalogues write them ("1.25e-06", 0.003, "2.9999999999999997e-07") -> whole units, without a
 * double on the way. Pure. */
#ifndef RM_PRICE_DECIMAL_H
#define RM_PRICE_DECIMAL_H

#include "base/bytes.h"

/* The number times 10^places, rounded half-up. NULL, or why not: not a number, negative, more than max. *is_rounded:
 * more than a millionth of it was rounded away, so that it was no mere artefact of a float. */
const char *decimal_units(struct bytes text, int places, int64_t max, int64_t *out, bool *is_rounded);

#endif

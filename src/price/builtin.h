/* data/prices.json and data/abort_billing.json as compiled in by tools/embed.py; a NUL follows the bytes. */
#ifndef RM_PRICE_BUILTIN_H
#define RM_PRICE_BUILTIN_H

#include <stddef.h>

extern const unsigned char price_data[];
extern const size_t price_data_n;
extern const unsigned char abort_data[];
extern const size_t abort_data_n;

#endif

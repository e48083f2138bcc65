/* Small pure conversions between numbers, times and text. */
#ifndef RM_BASE_TEXT_H
#define RM_BASE_TEXT_H

#include "base/buf.h"

/* Lower-case hexadecimal of n bytes; out takes 2 n + 1. */
void text_hex(const unsigned char *in, size_t n, char *out);
bool text_unhex(struct bytes in, unsigned char *out, size_t n);
/* A request id as shown: "req_" + 13 characters of Crockford base32, in time order. out takes 18. */
enum { TEXT_ID_BYTES = 18 };
void text_id(uint64_t id, char out[TEXT_ID_BYTES]);
bool text_id_parse(struct bytes in, uint64_t *id);
/* RFC 3339 UTC with milliseconds: 2026-11-30T07:00:00.123Z. out takes 25. */
enum { TEXT_TIME_BYTES = 25 };
void text_time(int64_t wall_ms, char out[TEXT_TIME_BYTES]);
/* RFC 3339 (with Z or +hh:mm) and the three HTTP date forms (RFC 9110 5.6.7) -> ms since 1970. */
bool text_time_parse(struct bytes in, int64_t *wall_ms);
/* "12.345678901" of nano-dollars, always nine decimals. */
void text_usd(struct buf *out, int64_t nusd);
/* The same to where it will stand, without a NUL; returns its end. */
enum { TEXT_USD_BYTES = 24 };
char *text_usd_at(char *at, int64_t nusd);
/* Decimal text of USD per million tokens -> pico-dollars per token, exactly; false on more than six decimals, a sign,
 * an exponent or overflow. */
bool text_price(struct bytes in, int64_t *pusd);
/* Percent-encodes each byte that stands in `escape` (punctuation or capitals), and controls, space, '%' and non-ASCII
 * always. */
void text_percent(struct buf *out, struct bytes in, const char *escape);

#endif

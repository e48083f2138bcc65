/* struct bytes: borrowed bytes, valid for the call they are passed to (or as long as their owner says). Not
 * NUL-terminated, may hold any byte. The zero value is the empty string. */
#ifndef RM_BASE_BYTES_H
#define RM_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const char *p; /* may be NULL when n is 0 */
    size_t n;
};

#define BYTES(literal) ((struct bytes){"" literal, sizeof(literal) - 1})

/* Inlined always, here and below: the length of a literal is known then. */
static inline __attribute__((always_inline)) struct bytes bytes_of(const char *cstr)
{
    return (struct bytes){cstr, cstr ? strlen(cstr) : 0};
}
static inline struct bytes bytes_from(const void *p, size_t n)
{
    return (struct bytes){(const char *)p, n};
}
static inline __attribute__((always_inline)) bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline __attribute__((always_inline)) bool bytes_is(struct bytes a, const char *cstr)
{
    return bytes_eq(a, bytes_of(cstr));
}
/* n bytes; see bytes_eq_nocase. */
bool bytes_same_nocase(const char *a, const char *b, size_t n);
/* ASCII case is ignored; other bytes must be equal. */
static inline bool bytes_eq_nocase(struct bytes a, struct bytes b)
{
    return a.n == b.n && bytes_same_nocase(a.p, b.p, a.n);
}
bool bytes_starts_with(struct bytes a, struct bytes prefix);
/* Whether no byte is a control character: all are at least 0x20 and none is DEL. A tab is one. */
bool bytes_is_plain(struct bytes a);
bool bytes_ends_with(struct bytes a, struct bytes suffix);
/* Offset of the first `needle` in `hay`, or SIZE_MAX. */
size_t bytes_find(struct bytes hay, struct bytes needle);
/* The same without regard to ASCII case. */
size_t bytes_find_nocase(struct bytes hay, struct bytes needle);
/* Offset of the first byte c, or SIZE_MAX. */
size_t bytes_find_byte(struct bytes hay, char c);
/* a[from, to); both clamped to a.n. */
struct bytes bytes_slice(struct bytes a, size_t from, size_t to);
/* Without leading and trailing space, tab, CR and LF. */
struct bytes bytes_trim(struct bytes a);
/* Splits at the first c: returns what stands before it and leaves the rest (after c) in *rest. Without a c returns all
 * and leaves *rest empty with p NULL. */
struct bytes bytes_cut(struct bytes *rest, char c);

/* Decimal digits only, whole input, no sign, no overflow. */
bool bytes_to_u64(struct bytes a, uint64_t *out);
/* The same with an optional leading minus. */
bool bytes_to_i64(struct bytes a, int64_t *out);
/* Decimal text of v; in `room`, which must stay. */
enum { BYTES_DIGITS_MAX = 20 };
struct bytes bytes_digits(uint64_t v, char room[BYTES_DIGITS_MAX]);
/* How many digits that text has. */
size_t bytes_n_digits(uint64_t v);
/* The same text, so that it ends where `end` is; returns its start. */
char *bytes_digits_before(char *end, uint64_t v);
/* True for well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF). */
bool bytes_is_utf8(struct bytes a);
/* 64-bit hash for tables and prefix grouping; seeded, not cryptographic. Equal on every machine. */
uint64_t bytes_hash(struct bytes a, uint64_t seed);
/* Edit distance (insert, delete, change), at most `limit` + 1. For "did you mean". */
unsigned bytes_distance(struct bytes a, struct bytes b, unsigned limit);
/* Time does not depend on where two strings of equal length differ. */
bool bytes_eq_fixed_time(struct bytes a, struct bytes b);

#endif

/* Header fields of a message: names and values as they came, order kept. Names compare without case; the name that is
 * looked for has letters, digits and hyphens.
 *
 * Most look-ups are for a field that is not there. `marks` answers those at once: a bit for each length and first
 * letter of a name (a small Bloom filter; of the names that clients and providers send, nearly none is taken for one
 * that is asked for), which the compiler knows of a literal. */
#ifndef RM_BASE_FIELDS_H
#define RM_BASE_FIELDS_H

#include "base/bytes.h"

struct field {
    struct bytes name;  /* a token (RFC 9110 5.6.2) */
    struct bytes value; /* without surrounding blanks */
};
struct fields {
    struct field *v;
    size_t n;
    uint64_t marks; /* field_mark of every name, or 0 = not noted: then all are looked at */
};

static inline uint64_t field_mark(struct bytes name)
{
    return UINT64_C(1) << ((name.n - ((unsigned char)name.p[0] | 0x20)) & 63);
}
/* Index of the first field of that name from `from` on; f->n when there is none. */
size_t fields_find(const struct fields *f, struct bytes name, size_t from);
/* How many of that name; the first one's value, with p NULL when there is none. */
size_t fields_count_of(const struct fields *f, struct bytes name, struct bytes *first);

/* The look-ups are inlined for the sake of the name's mark and length, which are constants then. */
#define FIELDS_INLINE static inline __attribute__((always_inline))

FIELDS_INLINE bool fields_may_have(const struct fields *f, struct bytes name)
{
    return f->marks == 0 || (f->marks & field_mark(name)) != 0;
}
/* The first field of that name; p is NULL when there is none. */
FIELDS_INLINE struct bytes fields_get(const struct fields *f, const char *name)
{
    struct bytes wanted = bytes_of(name);
    size_t at = fields_may_have(f, wanted) ? fields_find(f, wanted, 0) : f->n;
    return at < f->n ? f->v[at].value : (struct bytes){NULL, 0};
}
FIELDS_INLINE bool fields_has(const struct fields *f, const char *name)
{
    struct bytes wanted = bytes_of(name);
    return fields_may_have(f, wanted) && fields_find(f, wanted, 0) < f->n;
}
FIELDS_INLINE size_t fields_count(const struct fields *f, const char *name)
{
    struct bytes wanted = bytes_of(name), first;
    return fields_may_have(f, wanted) ? fields_count_of(f, wanted, &first) : 0;
}

#endif

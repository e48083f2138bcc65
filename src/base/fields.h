/* Header fields of a message: names and values as they came, order kept. Names compare without case. */
#ifndef RM_BASE_FIELDS_H
#define RM_BASE_FIELDS_H

#include "base/bytes.h"

struct field {
    struct bytes name;
    struct bytes value; /* without surrounding blanks */
};
struct fields {
    struct field *v;
    size_t n;
};

/* The first field of that name; p is NULL when there is none. */
struct bytes fields_get(const struct fields *f, const char *name);
bool fields_has(const struct fields *f, const char *name);
size_t fields_count(const struct fields *f, const char *name);

#endif

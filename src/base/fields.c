#include "base/fields.h"

static uint64_t eight_at(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t four_at(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Bit 5 is all that a letter's two forms differ by, and of what else a name may hold it makes only ^ and ~ the same.
 * The last step overlaps the one before. */
static bool is_named(struct bytes name, struct bytes wanted)
{
    uint64_t differ = 0;
    size_t n = wanted.n;
    if (name.n != n)
        return false;
    if (n < 4) {
        for (size_t at = 0; at < n; at++)
            differ |= (unsigned char)(name.p[at] ^ wanted.p[at]);
    } else if (n < 8) {
        differ = (four_at(name.p) ^ four_at(wanted.p)) | (four_at(name.p + n - 4) ^ four_at(wanted.p + n - 4));
    } else {
        differ = eight_at(name.p + n - 8) ^ eight_at(wanted.p + n - 8);
        for (size_t at = 0; at + 8 < n; at += 8)
            differ |= eight_at(name.p + at) ^ eight_at(wanted.p + at);
    }
    return (differ & ~UINT64_C(0x2020202020202020)) == 0;
}

size_t fields_find(const struct fields *f, struct bytes name, size_t from)
{
    while (from < f->n && !is_named(f->v[from].name, name))
        from++;
    return from;
}

size_t fields_count_of(const struct fields *f, struct bytes name, struct bytes *first)
{
    size_t n = 0;
    *first = (struct bytes){NULL, 0};
    for (size_t at = fields_find(f, name, 0); at < f->n; at = fields_find(f, name, at + 1))
        if (n++ == 0)
            *first = f->v[at].value;
    return n;
}

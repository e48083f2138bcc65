/* zlib behind a pull interface. What the caller gets at once is bounded by its own buffer, so a bomb meets the limits
 * of whoever collects. "deflate" means zlib-wrapped by the standard and raw by habit: the first byte tells them apart
 * (a raw stream does not begin with method 8 in the low nibble). */
#include "upstream/inflater.h"

#include "base/mem.h"

#include <limits.h>

enum coding coding_of(struct bytes value)
{
    if (value.n == 0 || bytes_eq_nocase(value, BYTES("identity")))
        return CODING_NONE;
    if (bytes_eq_nocase(value, BYTES("gzip")) || bytes_eq_nocase(value, BYTES("x-gzip")))
        return CODING_GZIP;
    return bytes_eq_nocase(value, BYTES("deflate")) ? CODING_DEFLATE : CODING_OTHER;
}

static void *take_memory(void *opaque, unsigned n, unsigned size)
{
    return mem_alloc((size_t)n * size);
}

static void put_memory(void *opaque, void *p)
{
    mem_free(p);
}

void inflater_init(struct inflater *f, enum coding coding)
{
    *f = (struct inflater){.coding = coding, .z = {.zalloc = take_memory, .zfree = put_memory}};
}

void inflater_fini(struct inflater *f)
{
    if (f->is_begun)
        inflateEnd(&f->z);
    f->is_begun = false;
}

static bool begin(struct inflater *f, unsigned char first)
{
    int bits = f->coding == CODING_GZIP ? 15 + 16 : (first & 0x0f) == 8 && first >> 4 <= 7 ? 15 : -15;
    f->is_begun = inflateInit2(&f->z, bits) == Z_OK;
    return f->is_begun;
}

/* A stream has ended and input is left. */
static bool begin_next_member(struct inflater *f, struct bytes *in)
{
    if (f->coding != CODING_GZIP) {
        in->n = 0;
        return true;
    }
    f->is_ended = false;
    return inflateReset(&f->z) == Z_OK;
}

enum inflate_result inflater_next(struct inflater *f, struct bytes *in, char *out, size_t cap, size_t *n)
{
    *n = 0;
    if (in->n > 0 && !f->is_begun && !begin(f, (unsigned char)in->p[0]))
        return INFLATE_BAD;
    while (f->is_begun) {
        if (f->is_ended && in->n > 0 && !begin_next_member(f, in))
            return INFLATE_BAD;
        if (f->is_ended)
            return INFLATE_MORE;
        unsigned chunk = in->n < UINT_MAX ? (unsigned)in->n : UINT_MAX;
        f->z.next_in = (unsigned char *)(uintptr_t)in->p;
        f->z.avail_in = chunk;
        f->z.next_out = (unsigned char *)out;
        f->z.avail_out = (unsigned)cap;
        int r = inflate(&f->z, Z_SYNC_FLUSH);
        size_t used = chunk - f->z.avail_in;
        in->p += used;
        in->n -= used;
        *n = cap - f->z.avail_out;
        f->is_ended = r == Z_STREAM_END;
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
            return INFLATE_BAD;
        if (*n > 0)
            return INFLATE_DATA;
        if (r == Z_BUF_ERROR || (in->n == 0 && !f->is_ended))
            return INFLATE_MORE;
    }
    return INFLATE_MORE;
}

/* The events do not depend on where the input was split, and what was handed out is the input. */
#include "fuzz.h"

#include "codec/sse.h"

#include <stdlib.h>

struct reading {
    struct buf log; /* name, data and kind of each event, told apart by lengths */
    struct buf raw;
    bool is_too_large;
};

static void note(struct reading *r, const struct sse_event *ev, char kind)
{
    RM_ASSERT(ev->data.n == 0 || !ev->is_verbatim || fuzz_is_inside(ev->data, ev->raw));
    RM_ASSERT(fuzz_is_inside(ev->name, ev->raw));
    buf_printf(&r->log, "%c%zu:%zu:", kind, ev->name.n, ev->data.n);
    buf_put(&r->log, ev->name);
    buf_put(&r->log, ev->data);
}

static bool drain(struct sse *s, struct reading *r)
{
    struct sse_event ev;
    for (;;) {
        switch (sse_next(s, &ev)) {
        case SSE_EVENT:
            note(r, &ev, 'E');
            buf_put(&r->raw, ev.raw);
            break;
        case SSE_COMMENT:
            note(r, &ev, 'C');
            buf_put(&r->raw, ev.raw);
            break;
        case SSE_MORE:
            return true;
        case SSE_TOO_LARGE:
            r->is_too_large = true;
            return false;
        }
    }
}

/* Pieces of up to `most` bytes, each in memory of exactly its size, so that reading past it is seen. */
static void read_split(struct bytes in, size_t max_event, uint32_t most, uint64_t salt, struct reading *r)
{
    struct rng rng = fuzz_rng(in, salt);
    struct sse s;
    struct sse_event ev;
    bool is_open = true;
    sse_init(&s, max_event);
    while (in.n > 0 && is_open) {
        size_t n = 1 + rng_below(&rng, most);
        n = n < in.n ? n : in.n;
        char *part = malloc(n);
        RM_ASSERT(part != NULL);
        memcpy(part, in.p, n);
        sse_feed(&s, bytes_from(part, n));
        is_open = drain(&s, r);
        free(part);
        in = bytes_slice(in, n, in.n);
    }
    if (is_open && !s.rest_is_done)
        buf_put(&r->raw, buf_bytes(&s.rest));
    if (is_open && sse_end(&s, &ev))
        note(r, &ev, 'L');
    sse_fini(&s);
}

static void reading_fini(struct reading *r)
{
    buf_fini(&r->log);
    buf_fini(&r->raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_from(data, size);
    static const uint32_t most[] = {UINT32_MAX / 2, 1, 3, 40};
    struct reading whole = {0};
    read_split(in, 1 << 20, most[0], 0, &whole);
    RM_ASSERT(!whole.is_too_large && bytes_eq(buf_bytes(&whole.raw), in));
    for (size_t i = 1; i < RM_COUNTOF(most); i++) {
        struct reading split = {0};
        read_split(in, 1 << 20, most[i], i, &split);
        RM_ASSERT(!split.is_too_large && bytes_eq(buf_bytes(&split.raw), in));
        RM_ASSERT(bytes_eq(buf_bytes(&split.log), buf_bytes(&whole.log)));
        reading_fini(&split);
    }
    /* A limit is kept wherever it is reached. */
    struct reading small = {0};
    read_split(in, 64, 24, 9, &small);
    RM_ASSERT(small.is_too_large || bytes_eq(buf_bytes(&small.log), buf_bytes(&whole.log)));
    reading_fini(&small);
    reading_fini(&whole);
    return 0;
}

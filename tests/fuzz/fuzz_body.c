/* A body under each framing: payload, end and what is left over do not depend on where the input was split. */
#include "fuzz.h"

#include "base/buf.h"
#include "http/body.h"

#include <stdlib.h>

struct reading {
    struct buf payload;
    enum body_result end; /* BODY_MORE: the input ended first */
    size_t n_left;
    bool is_whole_at_close;
};

static void read_piece(struct body_reader *b, struct bytes piece, struct reading *r)
{
    struct bytes in = piece, out;
    for (;;) {
        size_t before = in.n;
        r->end = body_next(b, &in, &out);
        RM_ASSERT(in.n <= before);
        if (r->end != BODY_DATA)
            break;
        RM_ASSERT(out.n > 0 && out.n <= before - in.n && fuzz_is_inside(out, piece));
        buf_put(&r->payload, out);
    }
    RM_ASSERT(r->end != BODY_MORE || in.n == 0);
    r->n_left = in.n;
}

static void read_split(struct bytes in, enum framing framing, uint64_t length, uint32_t most, struct reading *r)
{
    struct rng rng = fuzz_rng(in, most);
    struct body_reader b;
    body_init(&b, framing, length);
    read_piece(&b, BYTES(""), r);
    while (in.n > 0 && r->end == BODY_MORE) {
        size_t n = 1 + rng_below(&rng, most);
        n = n < in.n ? n : in.n;
        char *part = malloc(n);
        RM_ASSERT(part != NULL);
        memcpy(part, in.p, n);
        read_piece(&b, bytes_from(part, n), r);
        free(part);
        in = bytes_slice(in, n, in.n);
    }
    r->n_left += in.n;
    r->is_whole_at_close = body_is_whole_at_close(&b);
}

static void check(struct bytes in, enum framing framing, uint64_t length)
{
    static const uint32_t most[] = {1, 4, 50};
    struct reading whole = {0};
    read_split(in, framing, length, UINT32_MAX / 2, &whole);
    RM_ASSERT(whole.payload.n <= in.n);
    RM_ASSERT(whole.end != BODY_END || whole.is_whole_at_close);
    if (framing == FRAMING_LENGTH)
        RM_ASSERT(whole.payload.n == (length < in.n ? length : in.n) && (whole.end == BODY_END) == (length <= in.n));
    for (size_t i = 0; i < RM_COUNTOF(most); i++) {
        struct reading split = {0};
        read_split(in, framing, length, most[i], &split);
        RM_ASSERT(bytes_eq(buf_bytes(&split.payload), buf_bytes(&whole.payload)) && split.end == whole.end);
        RM_ASSERT(split.is_whole_at_close == whole.is_whole_at_close);
        RM_ASSERT(split.end == BODY_BAD || split.n_left == whole.n_left);
        buf_fini(&split.payload);
    }
    buf_fini(&whole.payload);
}

/* What our own writer frames, the reader reads. */
static void check_round_trip(struct bytes in)
{
    struct rng rng = fuzz_rng(in, 77);
    struct buf framed = {0};
    struct bytes rest = in;
    while (rest.n > 0) {
        char head[BODY_CHUNK_HEAD_BYTES];
        size_t n = 1 + rng_below(&rng, (uint32_t)rest.n);
        buf_put(&framed, bytes_from(head, body_chunk_head(head, n)));
        buf_put(&framed, bytes_slice(rest, 0, n));
        buf_puts(&framed, "\r\n");
        rest = bytes_slice(rest, n, rest.n);
    }
    buf_puts(&framed, "0\r\n\r\nnext");
    struct reading r = {0};
    read_split(buf_bytes(&framed), FRAMING_CHUNKED, 0, 30, &r);
    RM_ASSERT(r.end == BODY_END && r.n_left == 4 && bytes_eq(buf_bytes(&r.payload), in));
    buf_fini(&r.payload);
    buf_fini(&framed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_from(data, size);
    struct rng rng = fuzz_rng(in, 5);
    check(in, FRAMING_CHUNKED, 0);
    check(in, FRAMING_LENGTH, rng_below(&rng, (uint32_t)size + 20));
    check(in, FRAMING_UNTIL_CLOSE, 0);
    check(in, FRAMING_NONE, 0);
    check_round_trip(in);
    return 0;
}

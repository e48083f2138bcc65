/* Bodies: payload at every split, strict chunking, bounded lines. */
#include "unit.h"

#include "http/body.h"

#include "base/buf.h"
#include "base/check.h"

static enum body_result next(struct body_reader *b, bool is_quick, struct bytes *in, struct bytes *data)
{
    if (is_quick && body_whole_chunk(b, in, data))
        return BODY_DATA;
    bool is_dry = body_is_dry(b, *in);
    enum body_result r = body_next(b, in, data);
    assert_true(!is_dry || r == BODY_MORE);
    return r;
}

/* Feeds `in` in pieces of `step` bytes (first piece: `first`). Returns the last result; payload goes to *out, the
 * number of bytes used to *used. is_quick: whole chunks are asked for first. */
static enum body_result feed_by(bool is_quick, struct bytes in, enum framing f, uint64_t length, size_t first,
                                size_t step, struct buf *out, size_t *used)
{
    struct body_reader b;
    enum body_result r = BODY_MORE;
    body_init(&b, f, length);
    buf_clear(out);
    *used = 0;
    for (size_t at = 0, n = first; at <= in.n && r == BODY_MORE; at += n, n = step) {
        struct bytes piece = bytes_slice(in, at, at + n);
        struct bytes left = piece, data;
        while ((r = next(&b, is_quick, &left, &data)) == BODY_DATA)
            buf_put(out, data);
        *used += piece.n - left.n;
    }
    if (r == BODY_END)
        assert_true(body_is_whole_at_close(&b));
    return r;
}

static enum body_result feed(struct bytes in, enum framing f, uint64_t length, size_t first, size_t step,
                             struct buf *out, size_t *used)
{
    return feed_by(false, in, f, length, first, step, out, used);
}

static void assert_chunked(const char *text, enum body_result want, const char *payload, size_t n_left)
{
    struct bytes in = bytes_of(text);
    struct buf out = {0};
    size_t used = 0;
    for (size_t i = 0; i < 2 * in.n; i++) {
        size_t first = i / 2 + 1;
        enum body_result r = feed_by(i % 2 == 1, in, FRAMING_CHUNKED, 0, first, in.n, &out, &used);
        if (r != want)
            print_message("in: %s split %zu\n", text, first);
        assert_int_equal(r, want);
        if (want == BODY_END) {
            assert_string_equal(buf_cstr(&out), payload);
            assert_int_equal(used, in.n - n_left);
        }
    }
    assert_int_equal(feed(in, FRAMING_CHUNKED, 0, 1, 1, &out, &used), want);
    buf_fini(&out);
}

static void test_chunks_at_every_split(void **state)
{
    assert_chunked("5\r\nhello\r\n0\r\n\r\n", BODY_END, "hello", 0);
    assert_chunked("5\r\nhello\r\n0\r\n\r\nHTTP/1.1", BODY_END, "hello", 8);
    assert_chunked("00a;x=\"y\"\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\nT: v\r\nU: w\r\n\r\n", BODY_END,
                   "01234567890123456789a", 0);
    assert_chunked("0\r\n\r\n", BODY_END, "", 0);
    assert_chunked("5\r\nhel", BODY_MORE, "", 0);
    assert_chunked("5\r\nhello\r\n0\r\n", BODY_MORE, "", 0);
}

static void test_bad_chunks(void **state)
{
    static const char *const bad[] = {
        "0x5\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",  " 5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",  "\r\nhello\r\n0\r\n\r\n",
        ";x\r\nhello\r\n0\r\n\r\n",  "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",     "5\r\nhello0\r\n\r\n",
        "5\r\nhelloo\r\n0\r\n\r\n",  "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\n",       "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5g\r\nhello\r\n0\r\n\r\n",  "10000000000000000\r\nx",
        "fffffffffffffffff\r\nx",    "0\r\nT: v\n\r\n",
        "0\r\n T: v\r\n\r\n",        "0\r\n\rx",
    };
    for (size_t i = 0; i < RM_COUNTOF(bad); i++)
        assert_chunked(bad[i], BODY_BAD, "", 0);
}

static void test_lines_are_bounded(void **state)
{
    struct buf b = {0}, out = {0};
    size_t used = 0;
    buf_puts(&b, "5;");
    while (b.n < 9000)
        buf_putc(&b, 'x');
    assert_int_equal(feed(buf_bytes(&b), FRAMING_CHUNKED, 0, b.n, 1, &out, &used), BODY_BAD);
    buf_clear(&b);
    buf_puts(&b, "0\r\n");
    while (b.n < 9000)
        buf_puts(&b, "Trailer: of some length\r\n");
    assert_int_equal(feed(buf_bytes(&b), FRAMING_CHUNKED, 0, b.n, 1, &out, &used), BODY_BAD);
    buf_fini(&b);
    buf_fini(&out);
}

static void test_other_framings(void **state)
{
    struct buf out = {0};
    size_t used = 0;
    assert_int_equal(feed(BYTES("hello, world"), FRAMING_LENGTH, 5, 2, 2, &out, &used), BODY_END);
    assert_string_equal(buf_cstr(&out), "hello");
    assert_int_equal(used, 5);
    assert_int_equal(feed(BYTES("hell"), FRAMING_LENGTH, 5, 2, 2, &out, &used), BODY_MORE);
    assert_int_equal(feed(BYTES("next"), FRAMING_LENGTH, 0, 4, 4, &out, &used), BODY_END);
    assert_int_equal(used, 0);
    assert_int_equal(feed(BYTES("next"), FRAMING_NONE, 0, 4, 4, &out, &used), BODY_END);
    assert_int_equal(used, 0);
    assert_int_equal(feed(BYTES("all of it"), FRAMING_UNTIL_CLOSE, 0, 4, 3, &out, &used), BODY_MORE);
    assert_string_equal(buf_cstr(&out), "all of it");
    struct body_reader b;
    body_init(&b, FRAMING_UNTIL_CLOSE, 0);
    assert_true(body_is_whole_at_close(&b));
    body_init(&b, FRAMING_CHUNKED, 0);
    assert_false(body_is_whole_at_close(&b));
    body_init(&b, FRAMING_LENGTH, 3);
    assert_false(body_is_whole_at_close(&b));
    buf_fini(&out);
}

static void assert_whole(const char *text, const char *payload, size_t n_left)
{
    struct body_reader b;
    struct bytes in = bytes_of(text), data;
    body_init(&b, FRAMING_CHUNKED, 0);
    bool is_whole = body_whole_chunk(&b, &in, &data);
    assert_int_equal(is_whole, payload != NULL);
    assert_int_equal(in.n, n_left);
    if (payload != NULL)
        assert_true(bytes_eq(data, bytes_of(payload)));
}

/* A chunk in one piece; everything else is left as it was, for body_next. */
static void test_whole_chunks(void **state)
{
    assert_whole("5\r\nhello\r\n", "hello", 0);
    assert_whole("00005\r\nhello\r\n5\r\n", "hello", 3);
    assert_whole("5\r\nhello\r", NULL, 9);
    assert_whole("5\r\nhello\n\r", NULL, 10);
    assert_whole("5\n\nhello\r\n", NULL, 10);
    assert_whole("6\r\nhello\r\n", NULL, 10);
    assert_whole("5;a\r\nhello\r\n", NULL, 12);
    assert_whole("0\r\n\r\n", NULL, 5);
    assert_whole("\r\nhello\r\n", NULL, 9);
    assert_whole("ffffffffffffffff5\r\nhello\r\n", NULL, 26);
    assert_whole("", NULL, 0);
}

static void test_chunk_head(void **state)
{
    char out[BODY_CHUNK_HEAD_BYTES];
    assert_int_equal(body_chunk_head(out, 1), 3);
    assert_memory_equal(out, "1\r\n", 3);
    assert_int_equal(body_chunk_head(out, 0x1a2b), 6);
    assert_memory_equal(out, "1a2b\r\n", 6);
    assert_int_equal(body_chunk_head(out, SIZE_MAX), 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_at_every_split), cmocka_unit_test(test_bad_chunks),
        cmocka_unit_test(test_lines_are_bounded),     cmocka_unit_test(test_other_framings),
        cmocka_unit_test(test_whole_chunks),          cmocka_unit_test(test_chunk_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Heads: what is taken, what is refused, and that no split of the input changes the answer. */
#include "unit.h"

#include "base/mem.h"
#include "http/head.h"

static const struct head_limits limits = {.bytes = 512, .fields = 8};

struct parsed {
    struct arena arena;
    struct head head;
    enum head_result result;
    size_t used;
    const char *why;
};

static struct parsed parse(struct bytes in, enum head_kind kind)
{
    struct parsed p = {0};
    arena_init(&p.arena);
    p.result = head_parse(in, kind, false, &limits, &p.arena, &p.head, &p.used, &p.why);
    return p;
}

/* Every prefix says MORE until one says what the whole says. */
static void assert_result(struct bytes in, enum head_kind kind, enum head_result want)
{
    enum head_result r = HEAD_MORE;
    for (size_t n = 0; n <= in.n && r == HEAD_MORE; n++) {
        char *copy = mem_dup(in.p, n);
        struct parsed p = parse((struct bytes){copy, n}, kind);
        r = p.result;
        arena_fini(&p.arena);
        mem_free(copy);
    }
    if (r != want)
        print_message("in: %.*s\n", (int)in.n, in.p);
    assert_int_equal(r, want);
    struct parsed whole = parse(in, kind);
    assert_int_equal(whole.result, want);
    arena_fini(&whole.arena);
}

static void assert_request(const char *text, enum head_result want)
{
    assert_result(bytes_of(text), HEAD_REQUEST, want);
}
static void assert_response(const char *text, enum head_result want)
{
    assert_result(bytes_of(text), HEAD_RESPONSE, want);
}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"

static void test_request_is_read(void **state)
{
    struct bytes in = BYTES("POST /v1/x?a=b&c HTTP/1.1\r\nHost: example.com:80\r\nContent-Length:  65 \r\n"
                            "X-Empty:\r\nX-Utf: \xc3\xa9\r\nExpect: 100-Continue\r\n\r\nrest");
    struct parsed p = parse(in, HEAD_REQUEST);
    assert_int_equal(p.result, HEAD_OK);
    assert_int_equal(p.used, in.n - 4);
    assert_true(bytes_is(p.head.method, "POST"));
    assert_true(bytes_is(p.head.target, "/v1/x?a=b&c"));
    assert_true(bytes_is(p.head.path, "/v1/x"));
    assert_true(bytes_is(p.head.query, "a=b&c"));
    assert_true(bytes_is(p.head.host, "example.com:80"));
    assert_int_equal(p.head.fields.n, 5);
    assert_true(bytes_is(fields_get(&p.head.fields, "content-length"), "65"));
    assert_true(fields_has(&p.head.fields, "x-empty"));
    assert_int_equal(fields_get(&p.head.fields, "x-empty").n, 0);
    assert_int_equal(p.head.framing, FRAMING_LENGTH);
    assert_int_equal(p.head.content_length, 65);
    assert_true(p.head.keep_alive);
    assert_true(p.head.expects_continue);
    arena_fini(&p.arena);
}

static void test_targets(void **state)
{
    struct parsed p = parse(BYTES("GET http://real.example/v1/models?x HTTP/1.1\r\nHost: other\r\n\r\n"), HEAD_REQUEST);
    assert_int_equal(p.result, HEAD_OK);
    assert_true(bytes_is(p.head.host, "real.example"));
    assert_true(bytes_is(p.head.path, "/v1/models"));
    assert_true(bytes_is(p.head.query, "x"));
    arena_fini(&p.arena);
    p = parse(BYTES("GET https://h:1 HTTP/1.1\r\nHost: other\r\n\r\n"), HEAD_REQUEST);
    assert_int_equal(p.result, HEAD_OK);
    assert_true(bytes_is(p.head.path, "/"));
    arena_fini(&p.arena);
    assert_request("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", HEAD_OK);
    assert_request("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", HEAD_OK);
    assert_request("GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n", HEAD_BAD);
    assert_request("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", HEAD_BAD);
    assert_request("GET x HTTP/1.1\r\nHost: a\r\n\r\n", HEAD_BAD);
    assert_request("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", HEAD_BAD);
    assert_request("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", HEAD_BAD);
    assert_request("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", HEAD_BAD);
    assert_request("GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", HEAD_BAD);
}

static void test_framing_is_strict(void **state)
{
    static const char *const bad[] = {
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 65\r\nContent-Length: 65\r\n",
        "Content-Length: 65, 65\r\n",
        "Content-Length: +65\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x10\r\n",
        "Content-Length:\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked,\r\n",
        "Transfer-Encoding: \tchunked\x0b\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "X: y\r\n z\r\n",
        "Host: b\r\n",
    };
    for (size_t i = 0; i < RM_COUNTOF(bad); i++) {
        struct buf b = {0};
        buf_puts(&b, POST);
        buf_puts(&b, bad[i]);
        buf_puts(&b, "\r\n");
        assert_result(buf_bytes(&b), HEAD_REQUEST, HEAD_BAD);
        buf_fini(&b);
    }
    assert_request("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_BAD);
    struct parsed p = parse(BYTES(POST "transfer-encoding: ChunKed\r\n\r\n"), HEAD_REQUEST);
    assert_int_equal(p.result, HEAD_OK);
    assert_int_equal(p.head.framing, FRAMING_CHUNKED);
    arena_fini(&p.arena);
}

static void test_lines_are_strict(void **state)
{
    assert_request(GET "\r\n", HEAD_OK);
    assert_request("\r\n\r\n" GET "\r\n", HEAD_OK);
    assert_request("\r\n\r\n\r\n\r\n\r\n\r\n" GET "\r\n", HEAD_BAD);
    assert_request(GET "\n", HEAD_BAD);
    assert_request("GET / HTTP/1.1\nHost: a\r\n\r\n", HEAD_BAD);
    assert_request(GET "X: a\rb\r\n\r\n", HEAD_BAD);
    assert_request(GET "X: a\x01\r\n\r\n", HEAD_BAD);
    assert_request(GET "X\x7f: a\r\n\r\n", HEAD_BAD);
    assert_request(GET "NoColon\r\n\r\n", HEAD_BAD);
    assert_request(GET ": v\r\n\r\n", HEAD_BAD);
    assert_request(GET "X(y): v\r\n\r\n", HEAD_BAD);
    assert_request(GET " X: v\r\n\r\n", HEAD_BAD);
    assert_result(BYTES(GET "X: a\0b\r\n\r\n"), HEAD_REQUEST, HEAD_BAD);
    assert_request("GET / HTTP/1.1\r\n\r\n", HEAD_BAD);
    assert_request("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", HEAD_BAD);
    assert_request("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", HEAD_BAD);
    assert_request("GET / HTTP/1.0\r\n\r\n", HEAD_OK);
}

static void test_versions(void **state)
{
    assert_request("PRI * HTTP/2.0\r\n\r\n", HEAD_VERSION);
    assert_request("GET / HTTP/0.9\r\nHost: a\r\n\r\n", HEAD_VERSION);
    assert_request("GET / HTTP/1.2\r\nHost: a\r\n\r\n", HEAD_VERSION);
    assert_request("GET /\r\n", HEAD_BAD);
    assert_request("GET / HTTP/x.1\r\nHost: a\r\n\r\n", HEAD_BAD);
    assert_request("GET / http/1.1\r\nHost: a\r\n\r\n", HEAD_BAD);
    assert_response("HTTP/2 200 OK\r\n\r\n", HEAD_BAD);
}

static void test_limits(void **state)
{
    struct buf b = {0};
    buf_puts(&b, GET "X: ");
    while (b.n < limits.bytes + 10)
        buf_putc(&b, 'x');
    buf_puts(&b, "\r\n\r\n");
    assert_result(buf_bytes(&b), HEAD_REQUEST, HEAD_TOO_LARGE);
    buf_clear(&b);
    buf_puts(&b, GET);
    for (int i = 0; i < 8; i++)
        buf_puts(&b, "X: y\r\n");
    buf_puts(&b, "\r\n");
    assert_result(buf_bytes(&b), HEAD_REQUEST, HEAD_TOO_LARGE);
    buf_clear(&b);
    buf_puts(&b, GET "X: ");
    while (b.n < limits.bytes - 4)
        buf_putc(&b, 'x');
    buf_puts(&b, "\r\n\r\n");
    assert_int_equal(b.n, limits.bytes);
    assert_result(buf_bytes(&b), HEAD_REQUEST, HEAD_OK);
    buf_fini(&b);
}

static enum framing framing_of(const char *text, bool is_head, bool *keep_alive)
{
    struct arena a;
    struct head h;
    size_t used = 0;
    const char *why = NULL;
    arena_init(&a);
    assert_int_equal(head_parse(bytes_of(text), HEAD_RESPONSE, is_head, &limits, &a, &h, &used, &why), HEAD_OK);
    arena_fini(&a);
    *keep_alive = h.keep_alive;
    return h.framing;
}

static void test_responses(void **state)
{
    bool keeps = false;
    assert_int_equal(framing_of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, &keeps), FRAMING_LENGTH);
    assert_true(keeps);
    assert_int_equal(framing_of("HTTP/1.1 200\r\n\r\n", false, &keeps), FRAMING_UNTIL_CLOSE);
    assert_false(keeps);
    assert_int_equal(framing_of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true, &keeps), FRAMING_NONE);
    assert_int_equal(framing_of("HTTP/1.1 204 No\r\n\r\n", false, &keeps), FRAMING_NONE);
    assert_int_equal(framing_of("HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", false, &keeps), FRAMING_NONE);
    assert_int_equal(
        framing_of("HTTP/1.1 529 \r\nConnection: foo, Close\r\nTransfer-Encoding: chunked\r\n\r\n", false, &keeps),
        FRAMING_CHUNKED);
    assert_false(keeps);
    framing_of("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", false, &keeps);
    assert_false(keeps);
    framing_of("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\n", false, &keeps);
    assert_true(keeps);
    assert_response("HTTP/1.1 200 OK\nContent-Length: 3\n\n", HEAD_BAD);
    assert_response("<html>", HEAD_BAD);
    assert_response("HTTX", HEAD_BAD);
    assert_response("\r\nHTTP/1.1 200 OK\r\n\r\n", HEAD_BAD);
    assert_response("HTTP/1.1 20 OK\r\n\r\n", HEAD_BAD);
    assert_response("HTTP/1.1 2000 OK\r\n\r\n", HEAD_BAD);
    assert_response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_BAD);
    assert_response("HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\n", HEAD_BAD);
}

/* ---- the quick pass against the strict ones ---- */

static void assert_same_view(struct bytes a, const char *a_base, struct bytes b, const char *b_base)
{
    assert_int_equal(a.n, b.n);
    if (a.n > 0)
        assert_int_equal(a.p - a_base, b.p - b_base);
}

/* `quick` was parsed at `base`; `strict` at strict_base, where the same head stands. */
static void assert_same_head(const struct head *quick, const char *base, const struct head *strict,
                             const char *strict_base)
{
    assert_same_view(quick->method, base, strict->method, strict_base);
    assert_same_view(quick->target, base, strict->target, strict_base);
    assert_same_view(quick->query, base, strict->query, strict_base);
    assert_same_view(quick->host, base, strict->host, strict_base);
    assert_true(bytes_eq(quick->path, strict->path));
    assert_int_equal(quick->status, strict->status);
    assert_int_equal(quick->minor, strict->minor);
    assert_int_equal(quick->framing, strict->framing);
    assert_int_equal(quick->content_length, strict->content_length);
    assert_int_equal(quick->keep_alive, strict->keep_alive);
    assert_int_equal(quick->expects_continue, strict->expects_continue);
    assert_int_equal(quick->fields.n, strict->fields.n);
    assert_int_equal(quick->fields.marks, strict->fields.marks);
    for (size_t i = 0; i < quick->fields.n; i++) {
        assert_same_view(quick->fields.v[i].name, base, strict->fields.v[i].name, strict_base);
        assert_same_view(quick->fields.v[i].value, base, strict->fields.v[i].value, strict_base);
    }
}

/* An empty line before a request, or a last field whose value holds a tab, is for the strict passes. */
static void assert_passes_agree(struct bytes in, enum head_kind kind)
{
    static const struct head_limits wide = {.bytes = 65536, .fields = 200};
    struct buf odd = {0};
    if (kind == HEAD_REQUEST)
        buf_puts(&odd, "\r\n");
    size_t before = odd.n;
    buf_put(&odd, bytes_slice(in, 0, in.n - (kind == HEAD_RESPONSE ? 2 : 0)));
    if (kind == HEAD_RESPONSE)
        buf_puts(&odd, "X-Odd: a\tb\r\n\r\n");
    struct parsed q = {0}, s = {0};
    q.result = head_parse(in, kind, false, &wide, &q.arena, &q.head, &q.used, &q.why);
    s.result = head_parse(buf_bytes(&odd), kind, false, &wide, &s.arena, &s.head, &s.used, &s.why);
    if (q.result != s.result)
        print_message("in: %.*s\n", (int)in.n, in.p);
    assert_int_equal(q.result, s.result);
    if (q.result == HEAD_OK) {
        if (kind == HEAD_RESPONSE) {
            struct bytes name = s.head.fields.v[--s.head.fields.n].name;
            s.head.fields.marks = 0;
            for (size_t i = 0; i < s.head.fields.n; i++)
                s.head.fields.marks |= field_mark(s.head.fields.v[i].name);
            assert_true(bytes_is(name, "X-Odd"));
        }
        assert_same_head(&q.head, in.p, &s.head, odd.p + before);
    }
    arena_fini(&q.arena);
    arena_fini(&s.arena);
    buf_fini(&odd);
}

/* One byte of a head is replaced by each that there is, at each place; behind it stand more bytes or none. */
static void assert_passes_agree_near(const char *text, enum head_kind kind)
{
    static const char rest[] = "{\"model\":\"and some more bytes behind the head\"}";
    for (int has_rest = 0; has_rest < 2; has_rest++) {
        struct buf b = {0};
        buf_puts(&b, text);
        size_t n = b.n;
        if (has_rest && kind == HEAD_REQUEST)
            buf_puts(&b, rest);
        for (size_t at = 0; at < n - (kind == HEAD_RESPONSE ? 2 : 0); at++) {
            char before = b.p[at];
            for (int c = 0; c < 256; c++) {
                b.p[at] = (char)c;
                char *copy = mem_dup(b.p, b.n);
                assert_passes_agree((struct bytes){copy, b.n}, kind);
                mem_free(copy);
            }
            b.p[at] = before;
        }
        buf_fini(&b);
    }
}

static void test_quick_pass_agrees(void **state)
{
    assert_passes_agree_near("POST /v1/chat?a=b HTTP/1.1\r\nHost: a.example:80\r\nX-Api-Key-Of-Some-Length:  k \r\n"
                             "content-length: 65\r\nconnection: Close\r\n\r\n",
                             HEAD_REQUEST);
    assert_passes_agree_near("GET /x HTTP/1.0\r\nconnection: keep-alive\r\nExpect:\r\n\r\n", HEAD_REQUEST);
    assert_passes_agree_near("POST / HTTP/1.1\r\nHost:a\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_REQUEST);
    assert_passes_agree_near("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
                             HEAD_RESPONSE);
    assert_passes_agree_near("HTTP/1.0 429 Too Many\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n",
                             HEAD_RESPONSE);
}

static void test_views_follow_a_moved_head(void **state)
{
    struct bytes in = BYTES("GET http://h?q HTTP/1.1\r\nHost: a\r\nX:\r\nY: 12\r\n\r\n");
    char *first = mem_dup(in.p, in.n), *second = mem_dup(in.p, in.n);
    struct parsed p = parse((struct bytes){first, in.n}, HEAD_REQUEST);
    assert_int_equal(p.result, HEAD_OK);
    head_move(&p.head, (struct bytes){first, in.n}, second);
    memset(first, 'x', in.n);
    assert_true(bytes_is(p.head.method, "GET"));
    assert_true(bytes_is(p.head.path, "/"));
    assert_true(bytes_is(p.head.query, "q"));
    assert_true(bytes_is(p.head.host, "h"));
    assert_true(bytes_is(fields_get(&p.head.fields, "y"), "12"));
    assert_true(fields_has(&p.head.fields, "x"));
    mem_free(first);
    assert_ptr_equal(p.head.target.p, second + 4);
    mem_free(second);
    arena_fini(&p.arena);
}

static void test_writing_never_injects(void **state)
{
    struct buf b = {0};
    head_put_request(&b, "POST", BYTES("/v1/x"), BYTES("h:1"));
    head_put_field(&b, "a", BYTES("1"));
    head_put_field(&b, "b", BYTES("x\r\nevil: 1"));
    head_put_named(&b, BYTES("c: d"), BYTES("1"));
    head_put_named(&b, BYTES("e\r\nf"), BYTES("1"));
    head_put_named(&b, BYTES(""), BYTES("1"));
    head_put_named(&b, BYTES("g"), BYTES("x\nevil: 1"));
    head_put_named(&b, BYTES("h"), BYTES("\ttabs may stand"));
    head_put_field_u64(&b, "content-length", 12);
    head_put_end(&b);
    assert_string_equal(
        buf_cstr(&b), "POST /v1/x HTTP/1.1\r\nhost: h:1\r\na: 1\r\nh: \ttabs may stand\r\ncontent-length: 12\r\n\r\n");
    buf_clear(&b);
    head_put_status(&b, 429);
    assert_string_equal(buf_cstr(&b), "HTTP/1.1 429 Too Many Requests\r\n");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_is_read),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_framing_is_strict),
        cmocka_unit_test(test_lines_are_strict),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_responses),
        cmocka_unit_test(test_quick_pass_agrees),
        cmocka_unit_test(test_views_follow_a_moved_head),
        cmocka_unit_test(test_writing_never_injects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

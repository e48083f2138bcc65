/* Heads that were seen before: whatever is found says what the parser says, byte for byte. */
#include "unit.h"

#include "base/mem.h"
#include "http/heads.h"

#include <stdio.h>
#include <stdlib.h>

static const struct head_limits limits = {.bytes = 4096, .fields = 48};

#define LINES "Host: gateway.test:8080\r\nAuthorization: Bearer sk-0123456789\r\nX-Empty:\r\nAccept: a, b\r\n"
#define USUAL "POST /v1/x?a=b HTTP/1.1\r\n" LINES "Content-Length: 1234\r\nUser-Agent: u\r\n\r\n"

static void note(struct heads *h, struct bytes text)
{
    struct arena arena = {0};
    struct head head;
    size_t used;
    const char *why;
    assert_int_equal(head_parse(text, HEAD_REQUEST, false, &limits, &arena, &head, &used, &why), HEAD_OK);
    heads_note(h, bytes_slice(text, 0, used), &head);
    arena_fini(&arena);
}

/* The first one that is noted is kept. */
static struct heads *heads_of(const char *text)
{
    struct heads *h = heads_new();
    note(h, bytes_of(text));
    return h;
}

static void assert_same(struct bytes found, struct bytes parsed, struct bytes in)
{
    assert_true(bytes_eq(found, parsed));
    assert_true(found.n == 0 || (uintptr_t)found.p + found.n <= (uintptr_t)in.p ||
                (uintptr_t)found.p >= (uintptr_t)in.p + in.n);
}

static void assert_same_head(const struct head *f, const struct head *p, struct bytes in)
{
    assert_same(f->method, p->method, in);
    assert_same(f->target, p->target, in);
    assert_same(f->path, p->path, in);
    assert_same(f->query, p->query, in);
    assert_same(f->host, p->host, in);
    assert_int_equal(f->status, p->status);
    assert_int_equal(f->minor, p->minor);
    assert_int_equal(f->framing, p->framing);
    assert_int_equal(f->content_length, p->content_length);
    assert_int_equal(f->keep_alive, p->keep_alive);
    assert_int_equal(f->expects_continue, p->expects_continue);
    assert_int_equal(f->fields.n, p->fields.n);
    assert_int_equal(f->fields.marks, p->fields.marks);
    for (size_t i = 0; i < p->fields.n; i++) {
        assert_same(f->fields.v[i].name, p->fields.v[i].name, in);
        assert_same(f->fields.v[i].value, p->fields.v[i].value, in);
    }
}

/* Both ways over a copy that ends where the input does. Says whether the head was known. */
static bool is_found(struct heads *h, struct bytes text, const struct head_limits *l)
{
    struct arena arena = {0};
    struct head found, parsed;
    size_t used = 0, used_parsed = 0;
    const char *why;
    char *copy = malloc(text.n > 0 ? text.n : 1);
    assert_non_null(copy);
    memcpy(copy, text.p, text.n);
    struct bytes in = {copy, text.n};
    bool is = heads_find(h, in, l, &arena, &found, &used);
    if (is) {
        assert_int_equal(head_parse(in, HEAD_REQUEST, false, l, &arena, &parsed, &used_parsed, &why), HEAD_OK);
        assert_int_equal(used, used_parsed);
        assert_same_head(&found, &parsed, in);
    }
    arena_fini(&arena);
    free(copy);
    return is;
}

static bool finds(struct heads *h, const char *text)
{
    return is_found(h, bytes_of(text), &limits);
}

/* Is it kept, and found again? */
static bool is_kept(const char *text)
{
    struct heads *h = heads_of(text);
    bool is = finds(h, text);
    heads_free(h);
    return is;
}

static void test_only_the_length_may_differ(void **state)
{
    (void)state;
    struct heads *h = heads_of(USUAL);
    assert_true(finds(h, USUAL));
    assert_true(finds(h, "POST /v1/x?a=b HTTP/1.1\r\n" LINES "Content-Length: 0007\r\nUser-Agent: u\r\n\r\n"));
    assert_true(finds(h, "POST /v1/x?a=b HTTP/1.1\r\n" LINES "Content-Length: 9999\r\nUser-Agent: u\r\n\r\nbody"));
    assert_true(finds(h, USUAL USUAL));
    assert_false(finds(h, "POST /v1/x?a=b HTTP/1.1\r\n" LINES "Content-Length: 123\r\nUser-Agent: u\r\n\r\n"));
    assert_false(finds(h, "POST /v1/x?a=b HTTP/1.1\r\n" LINES "Content-Length: 123 \r\nUser-Agent: u\r\n\r\n"));
    assert_false(finds(h, "POST /v1/x?a=b HTTP/1.1\r\n" LINES "Content-Length: 12345\r\nUser-Agent: u\r\n\r\n"));
    assert_false(finds(h, "POST /v1/x?a=b HTTP/1.1\r\n" LINES "Content-Length: -123\r\nUser-Agent: u\r\n\r\n"));
    heads_free(h);
}

static void test_every_byte_counts(void **state)
{
    (void)state;
    struct bytes usual = BYTES(USUAL);
    struct heads *h = heads_of(USUAL);
    char text[sizeof USUAL];
    size_t digits = (size_t)(strstr(USUAL, ": 1234") + 2 - USUAL);
    for (size_t i = 0; i < usual.n; i++)
        for (unsigned c = 0; c < 256; c++) {
            bool is_digit = i >= digits && i < digits + 4 && c >= '0' && c <= '9';
            memcpy(text, USUAL, sizeof text);
            text[i] = (char)c;
            assert_int_equal(is_found(h, bytes_from(text, usual.n), &limits), c == (unsigned char)USUAL[i] || is_digit);
        }
    heads_free(h);
}

static void test_every_byte_may_be_more_or_missing(void **state)
{
    (void)state;
    struct bytes usual = BYTES(USUAL);
    struct heads *h = heads_of(USUAL);
    char text[sizeof USUAL + 1];
    for (size_t i = 0; i < usual.n; i++) {
        assert_false(is_found(h, bytes_slice(usual, 0, i), &limits));
        memcpy(text, USUAL, i);
        memcpy(text + i, &USUAL[i + 1], usual.n - i - 1);
        text[usual.n - 1] = '\n';
        assert_int_equal(is_found(h, bytes_from(text, usual.n), &limits), i + 1 == usual.n);
        memcpy(text + i + 1, &USUAL[i], usual.n - i);
        text[i] = ' ';
        assert_false(is_found(h, bytes_from(text, usual.n + 1), &limits));
    }
    heads_free(h);
}

static void test_limits_hold(void **state)
{
    (void)state;
    struct bytes usual = BYTES(USUAL);
    struct heads *h = heads_of(USUAL);
    assert_true(is_found(h, usual, &(struct head_limits){.bytes = usual.n, .fields = 6}));
    assert_false(is_found(h, usual, &(struct head_limits){.bytes = usual.n - 1, .fields = 6}));
    assert_false(is_found(h, usual, &(struct head_limits){.bytes = usual.n, .fields = 5}));
    heads_free(h);
}

static void test_what_is_kept(void **state)
{
    (void)state;
    char many[2048] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n";
    assert_true(is_kept("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"));
    assert_true(is_kept("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\n"));
    assert_true(is_kept("POST / HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length:12 \r\n\r\n"));
    assert_true(is_kept("PUT /a HTTP/1.1\r\nContent-Length: 00\r\nHost: a\r\n\r\n"));
    assert_false(is_kept("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    assert_false(is_kept("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_false(is_kept("POST http://b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"));
    assert_false(is_kept("\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"));
    size_t n = strlen(many);
    for (unsigned i = 2; i < 33; i++, n += 6)
        memcpy(many + n, "A: b\r\n", 7);
    memcpy(many + n, "\r\n", 3);
    assert_false(is_kept(many)); /* 33 fields */
    memcpy(many + n - 6, "\r\n", 3);
    assert_true(is_kept(many));
    memset(many + n - 12, 'A', 1100);
    memcpy(many + n + 1000, ": b\r\n\r\n", 8);
    assert_false(is_kept(many)); /* long */
}

static void fill(char *text, size_t cap, unsigned key)
{
    snprintf(text, cap, "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %u\r\nContent-Length: 10\r\n\r\n", key);
}

/* Four are kept, and of those that are not known each eighth takes the last one's place. */
static void test_the_last_few_are_kept(void **state)
{
    (void)state;
    struct heads *h = heads_new();
    char text[128];
    for (unsigned key = 100; key < 100 + 8 * 5; key++) {
        fill(text, sizeof text, key);
        note(h, bytes_of(text));
    }
    for (int round = 0; round < 3; round++) /* looking moves them, and loses none */
        for (unsigned key = 100; key < 100 + 8 * 5; key++) {
            fill(text, sizeof text, key);
            assert_int_equal(finds(h, text), key % 8 == 4 && key > 100);
        }
    heads_free(h);
}

static void test_what_is_noted_with_a_head(void **state)
{
    (void)state;
    struct heads *h = heads_new();
    assert_null(heads_memo(h));
    note(h, BYTES(USUAL));
    struct head_memo *memo = heads_memo(h);
    assert_non_null(memo);
    assert_true(memo->version == 0 && memo->fact == NULL);
    *memo = (struct head_memo){7, h};
    assert_false(finds(h, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"));
    assert_null(heads_memo(h));
    assert_true(finds(h, USUAL));
    assert_ptr_equal(heads_memo(h), memo);
    assert_true(memo->version == 7 && memo->fact == h);
    note(h, BYTES("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n")); /* not the eighth */
    assert_null(heads_memo(h));
    heads_forget(h);
    assert_null(heads_memo(h));
    assert_false(finds(h, USUAL));
    heads_free(h);
}

/* A head that takes the room of another one finds nothing noted. */
static void test_a_new_head_begins_without_a_note(void **state)
{
    (void)state;
    struct heads *h = heads_new();
    char text[128];
    for (unsigned key = 100; key < 100 + 8 * 9; key++) {
        fill(text, sizeof text, key);
        note(h, bytes_of(text));
        struct head_memo *memo = heads_memo(h);
        assert_int_equal(memo != NULL, (key - 100) % 8 == 0);
        if (memo == NULL)
            continue;
        assert_null(memo->fact);
        memo->fact = h;
    }
    heads_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_length_may_differ),
        cmocka_unit_test(test_every_byte_counts),
        cmocka_unit_test(test_every_byte_may_be_more_or_missing),
        cmocka_unit_test(test_limits_hold),
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_the_last_few_are_kept),
        cmocka_unit_test(test_what_is_noted_with_a_head),
        cmocka_unit_test(test_a_new_head_begins_without_a_note),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

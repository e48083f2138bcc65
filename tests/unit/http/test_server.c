/* The client side's driver over in-memory streams, on the simulated loop: every time limit is reached by moving the
 * clock. The owner under test is a small one that answers by path. */
#include "unit.h"

#include "base/mem.h"
#include "http/server.h"
#include "loop/loop_sim.h"

#include <stdio.h>

enum { PIPE_BYTES = 256 * 1024, TURNS_MAX = 100000, LOG_BYTES = 4096 };

struct world {
    struct loop *loop;
    struct server *server;
    struct stream *peer; /* the client's end; NULL when closed */
    struct buf got;      /* what the client has received */
    bool peer_eof, peer_reset, peer_is_deaf;
    struct inbound *held;
    struct buf log; /* what the owner saw */
    unsigned n_gone, n_writable;
    bool was_stall;
    unsigned head_status; /* on_head's answer to /no */
    unsigned n_new;       /* heads of /note that came without a note */
};

static struct server_limits usual_limits(void)
{
    return (struct server_limits){.head = {.bytes = 4096, .fields = 32},
                                  .body_bytes = 100000,
                                  .memory_bytes = 400000,
                                  .head_timeout_ms = 1000,
                                  .body_timeout_ms = 2000,
                                  .client_idle_ms = 5000,
                                  .client_stall_ms = 3000,
                                  .requests_per_connection = 100,
                                  .connections = 4};
}

/* ---- the owner ---- */

static void note(struct world *w, const char *what, struct bytes detail)
{
    buf_puts(&w->log, what);
    buf_put(&w->log, detail);
    buf_putc(&w->log, ';');
}

static void answer_stream(struct inbound *in)
{
    inbound_head(in, 200, INBOUND_STREAM, 0, BYTES("content-type: text/plain\r\n"));
    inbound_put(in, BYTES("one "));
    inbound_put(in, BYTES("two "));
    inbound_flush(in);
    inbound_put(in, BYTES("three"));
    inbound_end(in);
}

static void answer_echo(struct inbound *in)
{
    inbound_head(in, 200, INBOUND_LENGTH, in->body.n, BYTES("content-type: text/plain\r\n"));
    inbound_put(in, in->body);
    inbound_end(in);
}

enum { LONG_PART_BYTES = 40000 };

/* A short part, one that is borrowed, and short ones behind it, written in between or not. */
static void answer_parts(struct inbound *in, bool is_flushed)
{
    static char zeros[LONG_PART_BYTES];
    inbound_head(in, 200, INBOUND_LENGTH, 3 + LONG_PART_BYTES + 5, BYTES(""));
    inbound_put(in, BYTES("abc"));
    memset(zeros, '0', sizeof zeros);
    inbound_put(in, bytes_from(zeros, sizeof zeros));
    if (is_flushed)
        inbound_flush(in);
    inbound_put(in, BYTES("de"));
    inbound_put(in, BYTES("fgh"));
    inbound_end(in);
}

static void on_request(struct inbound *in, void *arg)
{
    struct world *w = arg;
    note(w, "request ", in->head->path);
    if (bytes_is(in->head->path, "/hold"))
        w->held = in;
    else if (bytes_is(in->head->path, "/stream"))
        answer_stream(in);
    else if (bytes_is(in->head->path, "/parts"))
        answer_parts(in, in->head->query.n > 0);
    else
        answer_echo(in);
}

static void note_head(struct world *w, struct inbound *in)
{
    struct head_memo *memo = inbound_memo(in);
    bool is_new = memo == NULL || memo->fact == NULL;
    w->n_new += is_new;
    if (memo != NULL)
        memo->fact = w;
}

static unsigned on_head(struct inbound *in, void *arg)
{
    struct world *w = arg;
    if (bytes_is(in->head->path, "/note"))
        note_head(w, in);
    return bytes_is(in->head->path, "/no") ? w->head_status : 0;
}

static void on_refused(struct inbound *in, unsigned status, const char *why, void *arg)
{
    struct world *w = arg;
    char text[16];
    snprintf(text, sizeof text, "%u", status);
    note(w, "refused ", bytes_of(text));
    inbound_head(in, status, INBOUND_LENGTH, strlen(why), BYTES(""));
    inbound_put(in, bytes_of(why));
    inbound_end(in);
}

static void on_gone(struct inbound *in, bool is_stall, void *arg)
{
    struct world *w = arg;
    w->n_gone++;
    w->was_stall = is_stall;
    if (w->held == in)
        w->held = NULL;
}

static void on_writable(struct inbound *in, void *arg)
{
    struct world *w = arg;
    assert_false(inbound_is_full(in));
    w->n_writable++;
}

static const struct server_handler handler = {.on_request = on_request,
                                              .on_head = on_head,
                                              .on_refused = on_refused,
                                              .on_gone = on_gone,
                                              .on_writable = on_writable};

/* ---- the client ---- */

static void on_peer(struct stream *s, unsigned ready, void *arg)
{
    struct world *w = arg;
    while (!w->peer_is_deaf) {
        size_t n = 0;
        enum io r = stream_read(s, buf_reserve(&w->got, 4096), 4096, &n);
        if (r == IO_OK)
            buf_grew(&w->got, n);
        w->peer_eof = w->peer_eof || r == IO_EOF;
        w->peer_reset = w->peer_reset || r == IO_ERROR;
        if (r != IO_OK)
            return;
    }
}

static void settle(struct world *w)
{
    assert_true(loop_sim_run_to(w->loop, loop_now_us(w->loop), TURNS_MAX));
}

static void pass_ms(struct world *w, unsigned ms)
{
    assert_true(loop_sim_run_to(w->loop, loop_now_us(w->loop) + (uint64_t)ms * 1000, TURNS_MAX));
}

static void connect_with(struct world *w, size_t cap)
{
    struct stream *ours;
    stream_pipe(w->loop, cap, &w->peer, &ours);
    stream_on_ready(w->peer, on_peer, w);
    w->peer_eof = w->peer_reset = false;
    server_accept(w->server, ours);
    settle(w);
}

static void send_bytes(struct world *w, struct bytes b)
{
    size_t n = 0;
    struct iovec v = {.iov_base = (void *)(uintptr_t)b.p, .iov_len = b.n};
    assert_int_equal(stream_write(w->peer, &v, 1, &n), IO_OK);
    assert_int_equal(n, b.n);
    settle(w);
}

static void send_text(struct world *w, const char *text)
{
    send_bytes(w, bytes_of(text));
}

static void hang_up(struct world *w)
{
    if (w->peer != NULL)
        stream_close(w->peer, false);
    w->peer = NULL;
    settle(w);
}

static bool has(struct world *w, const char *text)
{
    return bytes_find(buf_bytes(&w->got), bytes_of(text)) != SIZE_MAX;
}

static size_t count(struct bytes hay, const char *needle)
{
    size_t n = 0, at;
    while ((at = bytes_find(hay, bytes_of(needle))) != SIZE_MAX) {
        n++;
        hay = bytes_slice(hay, at + 1, hay.n);
    }
    return n;
}

static void forget(struct world *w)
{
    buf_clear(&w->got);
    buf_clear(&w->log);
}

static bool log_is(struct world *w, const char *text)
{
    return bytes_is(buf_bytes(&w->log), text);
}

static int set_up(void **state)
{
    struct world *w = mem_zalloc(sizeof *w);
    struct server_limits limits = usual_limits();
    w->loop = loop_new();
    w->server = server_new(w->loop, &limits, &handler, w);
    w->head_status = 401;
    connect_with(w, PIPE_BYTES);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    hang_up(w);
    server_close(w->server);
    settle(w);
    assert_int_equal(server_n_conns(w->server), 0);
    server_free(w->server);
    loop_free(w->loop);
    buf_fini(&w->got);
    buf_fini(&w->log);
    mem_free(w);
    for (int t = 0; t < MEM_N_TYPES; t++)
        assert_int_equal(mem_live((enum mem_type)t), 0);
    return 0;
}

/* ---- requests ---- */

#define HOST "Host: h\r\n"

static void test_answers_and_keeps_the_connection(void **state)
{
    struct world *w = *state;
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
    assert_true(has(w, "HTTP/1.1 200 OK\r\n"));
    assert_true(has(w, "date: Fri, 15 Jan 2027 08:00:00 GMT\r\n"));
    assert_true(has(w, "content-length: 5\r\n"));
    assert_true(has(w, "\r\n\r\nhello"));
    assert_false(has(w, "connection:"));
    forget(w);
    send_text(w, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
    assert_true(has(w, "transfer-encoding: chunked\r\n"));
    assert_true(has(w, "\r\n\r\n8\r\none two \r\n5\r\nthree\r\n0\r\n\r\n"));
    assert_false(w->peer_eof);
}

static void test_parts_keep_their_order(void **state)
{
    struct world *w = *state;
    const char *targets[] = {"/parts", "/parts?flushed"};
    for (size_t i = 0; i < RM_COUNTOF(targets); i++) {
        char text[64];
        forget(w);
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST "\r\n", targets[i]);
        send_text(w, text);
        size_t from = bytes_find(buf_bytes(&w->got), BYTES("\r\n\r\nabc0"));
        assert_true(from != SIZE_MAX);
        assert_int_equal(w->got.n - from - 4, 3 + LONG_PART_BYTES + 5);
        assert_int_equal(count(buf_bytes(&w->got), "0"),
                         LONG_PART_BYTES + count(bytes_slice(buf_bytes(&w->got), 0, from), "0"));
        assert_true(bytes_ends_with(buf_bytes(&w->got), BYTES("0defgh")));
    }
    forget(w);
    send_text(w, "HEAD /parts HTTP/1.1\r\n" HOST "\r\n");
    assert_true(has(w, "content-length: 40008\r\n") && !has(w, "abc"));
}

static void test_the_date_is_of_the_second(void **state)
{
    struct world *w = *state;
    uint64_t second_us = LOOP_SIM_START_US + 1000000;
    assert_true(loop_sim_run_to(w->loop, second_us - 2000, TURNS_MAX));
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
    send_text(w, "POST /no HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n");
    assert_true(has(w, "HTTP/1.1 200 OK\r\ndate: Fri, 15 Jan 2027 08:00:00 GMT\r\n"));
    assert_true(has(w, "HTTP/1.1 401 Unauthorized\r\ndate: Fri, 15 Jan 2027 08:00:00 GMT\r\n"));
    hang_up(w);
    connect_with(w, PIPE_BYTES);
    forget(w);
    assert_true(loop_sim_run_to(w->loop, second_us, TURNS_MAX));
    send_text(w, "GET /echo HTTP/1.1\r\n" HOST "\r\n");
    assert_true(has(w, "HTTP/1.1 200 OK\r\ndate: Fri, 15 Jan 2027 08:00:01 GMT\r\n"));
    loop_sim_shift_wall(w->loop, 59000);
    pass_ms(w, 1000);
    forget(w);
    send_text(w, "GET /echo HTTP/1.1\r\n" HOST "\r\n");
    assert_true(has(w, "date: Fri, 15 Jan 2027 08:01:01 GMT\r\n"));
}

static void test_every_split_gives_the_same(void **state)
{
    struct world *w = *state;
    const char *text = "POST http://h/echo?x=1 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                       "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nT: 1\r\n\r\n"
                       "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nxyz";
    struct bytes whole = bytes_of(text);
    for (size_t cut = 1; cut < whole.n; cut++) {
        forget(w);
        send_bytes(w, bytes_slice(whole, 0, cut));
        send_bytes(w, bytes_slice(whole, cut, whole.n));
        assert_true(log_is(w, "request /echo;request /echo;"));
        assert_true(has(w, "content-length: 7\r\n"));
        assert_true(has(w, "abcdefg"));
        assert_true(bytes_ends_with(buf_bytes(&w->got), BYTES("xyz")));
        if (cut % 40 == 0) { /* requests_per_connection */
            hang_up(w);
            connect_with(w, PIPE_BYTES);
        }
    }
    forget(w);
    for (size_t i = 0; i < whole.n; i++)
        send_bytes(w, bytes_slice(whole, i, i + 1));
    assert_true(log_is(w, "request /echo;request /echo;"));
}

static void test_pipelined_requests_wait_their_turn(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\nGET /echo HTTP/1.1\r\n" HOST "\r\n");
    assert_true(log_is(w, "request /hold;"));
    send_text(w, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
    assert_true(log_is(w, "request /hold;"));
    assert_int_equal(w->got.n, 0);
    answer_echo(w->held);
    assert_true(log_is(w, "request /hold;")); /* nothing comes up from inside a call */
    settle(w);
    assert_true(log_is(w, "request /hold;request /echo;request /stream;"));
    assert_int_equal(count(buf_bytes(&w->got), "HTTP/1.1 200 OK"), 3);
}

static void test_pipelined_bytes_are_bounded(void **state)
{
    struct world *w = *state;
    char many[20000];
    memset(many, 'x', sizeof many);
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    send_bytes(w, bytes_from(many, sizeof many));
    answer_echo(w->held);
    settle(w);
    assert_true(log_is(w, "request /hold;refused 431;") || log_is(w, "request /hold;refused 400;"));
    assert_true(w->peer_eof || w->peer_reset);
}

static void test_head_request_has_no_body(void **state)
{
    struct world *w = *state;
    send_text(w, "HEAD /stream HTTP/1.1\r\n" HOST "\r\n");
    assert_true(has(w, "transfer-encoding: chunked\r\n"));
    assert_true(bytes_ends_with(buf_bytes(&w->got), BYTES("\r\n\r\n")));
    assert_false(has(w, "one"));
    forget(w);
    send_text(w, "HEAD /echo HTTP/1.1\r\n" HOST "\r\n");
    assert_true(has(w, "content-length: 0\r\n"));
}

static void test_http_1_0(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_true(has(w, "connection: keep-alive\r\n"));
    assert_false(w->peer_eof);
    forget(w);
    send_text(w, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_true(has(w, "connection: close\r\n"));
    assert_true(has(w, "\r\n\r\none two three"));
    assert_false(has(w, "chunked"));
    assert_true(w->peer_eof);
}

static void test_expect_continue(void **state)
{
    struct world *w = *state;
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_true(bytes_is(buf_bytes(&w->got), "HTTP/1.1 100 Continue\r\n\r\n"));
    send_text(w, "hi");
    assert_true(has(w, "HTTP/1.1 200 OK"));
    forget(w);
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi");
    assert_false(has(w, "100 Continue"));
    assert_true(has(w, "HTTP/1.1 200 OK"));
    forget(w);
    send_text(w, "POST /no HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_false(has(w, "100 Continue"));
    assert_true(has(w, "HTTP/1.1 401"));
    assert_true(w->peer_eof);
}

static void test_unknown_expectation(void **state)
{
    struct world *w = *state;
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Expect: tea\r\nContent-Length: 2\r\n\r\nhi");
    assert_true(has(w, "HTTP/1.1 417"));
    assert_true(w->peer_eof);
}

/* ---- refusals ---- */

static void test_refused_by_head_without_a_body_keeps_the_connection(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /no HTTP/1.1\r\n" HOST "\r\n");
    assert_true(has(w, "HTTP/1.1 401"));
    assert_false(has(w, "connection: close"));
    send_text(w, "GET /echo HTTP/1.1\r\n" HOST "\r\n");
    assert_true(log_is(w, "refused 401;request /echo;"));
}

static void test_refused_with_an_unread_body_lingers(void **state)
{
    struct world *w = *state;
    send_text(w, "POST /no HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nabc");
    assert_true(has(w, "connection: close\r\n"));
    assert_true(w->peer_eof);
    send_text(w, "more of the body"); /* is taken and thrown away: no reset */
    assert_false(w->peer_reset);
    pass_ms(w, 1900);
    assert_int_equal(server_n_conns(w->server), 1);
    pass_ms(w, 200);
    assert_int_equal(server_n_conns(w->server), 0);
    assert_true(log_is(w, "refused 401;"));
}

/* What a client sends after its refusal, n times a piece of 100 bytes and ms between. True if it could send them all.
 */
static bool goes_on_sending(struct world *w, int n, unsigned ms)
{
    char piece[100];
    memset(piece, 'x', sizeof piece);
    send_text(w, "POST /no HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n");
    for (int i = 0; i < n; i++) {
        struct iovec v = {.iov_base = piece, .iov_len = sizeof piece};
        size_t sent = 0;
        pass_ms(w, ms);
        if (stream_write(w->peer, &v, 1, &sent) != IO_OK)
            return false;
        settle(w);
    }
    return true;
}

static void test_a_refused_body_of_any_size_is_read(void **state)
{
    struct world *w = *state;
    assert_true(goes_on_sending(w, 2 * (int)usual_limits().body_bytes / 100, 1));
    assert_int_equal(server_n_conns(w->server), 1);
    assert_false(w->peer_reset);
    hang_up(w);
    assert_int_equal(server_n_conns(w->server), 0);
}

static void test_a_refused_body_is_read_for_half_a_minute(void **state)
{
    struct world *w = *state;
    assert_true(goes_on_sending(w, 29, 1000));
    assert_int_equal(server_n_conns(w->server), 1);
    pass_ms(w, 1100);
    assert_int_equal(server_n_conns(w->server), 0);
}

static void test_a_drain_does_not_wait_for_a_refused_body(void **state)
{
    struct world *w = *state;
    assert_true(goes_on_sending(w, 3, 1000));
    server_drain(w->server);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(server_n_conns(w->server), 1);
        send_text(w, "more");
        pass_ms(w, 700);
    }
    assert_int_equal(server_n_conns(w->server), 0);
}

/* It would keep everybody else from their turn. */
static void test_a_refused_body_is_not_read_all_in_one_turn(void **state)
{
    enum { BYTES = 1000000, TURN_MOST = 2 * 64 * 1024 };
    struct world *w = *state;
    static char much[BYTES];
    size_t n = 0, n_more = 0;
    hang_up(w);
    connect_with(w, BYTES);
    send_text(w, "POST /no HTTP/1.1\r\n" HOST "Content-Length: 5000000\r\n\r\n");
    struct iovec v = {.iov_base = much, .iov_len = sizeof much};
    assert_int_equal(stream_write(w->peer, &v, 1, &n), IO_OK);
    assert_int_equal(n, BYTES);
    loop_turn(w->loop, 0);
    assert_int_equal(stream_write(w->peer, &v, 1, &n_more), IO_OK); /* as much as was read */
    assert_true(n_more > 0 && n_more <= TURN_MOST);
    settle(w);
    assert_int_equal(stream_write(w->peer, &v, 1, &n_more), IO_OK);
    assert_int_equal(n_more, BYTES);
}

static void test_malformed_requests_are_refused_once(void **state)
{
    struct world *w = *state;
    static const char *const bad[] = {
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3, 3\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: +3\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\n" HOST "X: 1\r\n folded\r\n\r\n",
        "GET /echo HTTP/1.1\r\n\r\n",
        "GET /echo HTTP/1.1\r\n" HOST HOST "\r\n",
        "GET /echo HTTP/1.1\nHost: h\n\n",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5x\r\nhello\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    };
    for (size_t i = 0; i < RM_COUNTOF(bad); i++) {
        forget(w);
        send_text(w, bad[i]);
        assert_true(log_is(w, "refused 400;"));
        assert_int_equal(count(buf_bytes(&w->got), "HTTP/1.1 "), 1);
        assert_true(has(w, "connection: close\r\n"));
        assert_true(w->peer_eof);
        send_text(w, "GET /echo HTTP/1.1\r\n" HOST "\r\n");
        assert_true(log_is(w, "refused 400;"));
        hang_up(w);
        connect_with(w, PIPE_BYTES);
    }
}

static void test_sizes(void **state)
{
    struct world *w = *state;
    char big[6000];
    memset(big, 'a', sizeof big);
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 100001\r\n\r\n");
    assert_true(log_is(w, "refused 413;"));
    hang_up(w);
    forget(w);
    connect_with(w, PIPE_BYTES);
    send_text(w, "GET /echo HTTP/1.1\r\nX: ");
    send_bytes(w, bytes_from(big, sizeof big));
    assert_true(log_is(w, "refused 431;"));
    hang_up(w);
    forget(w);
    connect_with(w, PIPE_BYTES);
    send_text(w, "GET /echo HTTP/2.0\r\n" HOST "\r\n");
    assert_true(log_is(w, "refused 505;"));
}

static void test_chunked_body_over_the_limit(void **state)
{
    struct world *w = *state;
    char part[4096];
    memset(part, 'a', sizeof part);
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffff\r\n");
    for (int i = 0; i < 26 && w->log.n == 0; i++)
        send_bytes(w, bytes_from(part, sizeof part));
    assert_true(log_is(w, "refused 413;"));
}

static void test_body_memory_is_admitted_and_given_back(void **state)
{
    struct world *w = *state;
    struct server_limits limits = usual_limits();
    char body[10000];
    memset(body, 'b', sizeof body);
    limits.memory_bytes = 20000;
    server_set_limits(w->server, &limits);
    send_text(w, "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 10000\r\n\r\n");
    send_bytes(w, bytes_from(body, sizeof body));
    assert_non_null(w->held);
    struct stream *first = w->peer;
    connect_with(w, PIPE_BYTES);
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10000\r\n\r\n");
    assert_true(log_is(w, "request /hold;refused 503;"));
    assert_true(has(w, "memory"));
    hang_up(w);
    assert_int_equal(w->held->body.n, sizeof body);
    inbound_drop_request(w->held);
    assert_int_equal(w->held->body.n + w->held->head->path.n + w->held->head->fields.n, 0);
    forget(w);
    connect_with(w, PIPE_BYTES);
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10000\r\n\r\n");
    send_bytes(w, bytes_from(body, sizeof body));
    assert_true(log_is(w, "request /echo;"));
    assert_true(w->got.n > sizeof body);
    stream_close(first, false);
    settle(w);
    assert_int_equal(w->n_gone, 1);
}

/* ---- time ---- */

static void test_idle_connection_is_closed(void **state)
{
    struct world *w = *state;
    pass_ms(w, 4900);
    assert_false(w->peer_eof);
    send_text(w, "GET /echo HTTP/1.1\r\n" HOST "\r\n");
    pass_ms(w, 4900);
    assert_false(w->peer_eof);
    pass_ms(w, 200);
    assert_true(w->peer_eof);
    assert_true(log_is(w, "request /echo;"));
    assert_int_equal(server_n_conns(w->server), 0);
}

static void test_slow_head(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /echo");
    for (int i = 0; i < 9; i++) {
        pass_ms(w, 100);
        send_text(w, "x");
    }
    assert_int_equal(w->got.n, 0);
    pass_ms(w, 150);
    assert_true(log_is(w, "refused 408;"));
    assert_true(w->peer_eof);
}

static void test_slow_body(void **state)
{
    struct world *w = *state;
    send_text(w, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n");
    for (int i = 0; i < 19; i++) {
        pass_ms(w, 100);
        send_text(w, "x");
    }
    assert_int_equal(w->got.n, 0);
    pass_ms(w, 150);
    assert_true(log_is(w, "refused 408;"));
    assert_true(w->peer_eof);
}

static void test_waiting_for_an_answer_has_no_limit_here(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    pass_ms(w, 1000000);
    assert_non_null(w->held);
    answer_echo(w->held);
    settle(w);
    assert_true(has(w, "200 OK"));
}

/* Puts 256 KiB in front of a client that does not read. */
static void fill(struct world *w)
{
    static const char block[32 * 1024] = {'z'};
    w->peer_is_deaf = true;
    inbound_head(w->held, 200, INBOUND_STREAM, 0, BYTES(""));
    for (int i = 0; i < 8 && !inbound_is_full(w->held); i++) {
        inbound_put(w->held, bytes_from(block, sizeof block));
        inbound_flush(w->held);
    }
    assert_true(inbound_is_full(w->held));
}

static void test_stalled_client_is_cut(void **state)
{
    struct world *w = *state;
    hang_up(w);
    connect_with(w, 32 * 1024);
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    fill(w);
    pass_ms(w, 2900);
    assert_int_equal(w->n_gone, 0);
    pass_ms(w, 200);
    assert_int_equal(w->n_gone, 1);
    assert_true(w->was_stall);
    assert_int_equal(server_n_conns(w->server), 0);
}

static void test_slow_client_slows_and_goes_on(void **state)
{
    struct world *w = *state;
    hang_up(w);
    connect_with(w, 32 * 1024);
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    fill(w);
    assert_int_equal(w->n_writable, 0);
    pass_ms(w, 2000);
    w->peer_is_deaf = false;
    on_peer(w->peer, LOOP_READ, w);
    settle(w);
    assert_int_equal(w->n_writable, 1);
    inbound_end(w->held);
    settle(w);
    assert_true(bytes_ends_with(buf_bytes(&w->got), BYTES("\r\n0\r\n\r\n")));
    pass_ms(w, 4000);
    assert_int_equal(w->n_gone, 0);
}

/* ---- a stream's parts in one step ---- */

enum way { WAY_PUT, WAY_SEND, WAY_PASS };

static void say(struct world *w, enum way way)
{
    static const char framed[] = "8\r\nabcdefgh\r\n";
    struct bytes parts[INBOUND_SEND_PARTS] = {BYTES("abc"), BYTES(""), BYTES("defgh")};
    bool is_out = false;
    if (way == WAY_PASS)
        is_out = inbound_pass(w->held, bytes_from(framed + 3, 8), bytes_of(framed));
    else if (way == WAY_SEND)
        is_out = inbound_send(w->held, parts);
    else
        for (size_t i = 0; i < INBOUND_SEND_PARTS; i++)
            inbound_put(w->held, parts[i]);
    if (!is_out)
        inbound_flush(w->held);
}

/* To a client that reads only when `cap` bytes and more are there, and then all. */
static void stream_to_slow(struct world *w, size_t cap, enum way way)
{
    hang_up(w);
    connect_with(w, cap);
    forget(w);
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    w->peer_is_deaf = true;
    inbound_head(w->held, 200, INBOUND_STREAM, 0, BYTES(""));
    inbound_put(w->held, BYTES("begun"));
    inbound_flush(w->held);
    for (int i = 0; i < 3; i++)
        say(w, way);
    w->peer_is_deaf = false;
    on_peer(w->peer, LOOP_READ, w);
    settle(w);
    say(w, way);
    inbound_end(w->held);
    settle(w);
}

static void test_parts_in_one_step_are_the_same_bytes(void **state)
{
    struct world *w = *state;
    for (size_t cap = 100; cap < 190; cap++) {
        struct buf long_way = {0};
        stream_to_slow(w, cap, WAY_PUT);
        buf_put(&long_way, buf_bytes(&w->got));
        assert_int_equal(count(buf_bytes(&long_way), "8\r\nabcdefgh\r\n"), 4);
        for (enum way way = WAY_SEND; way <= WAY_PASS; way++) {
            stream_to_slow(w, cap, way);
            assert_true(bytes_eq(buf_bytes(&w->got), buf_bytes(&long_way)));
        }
        buf_fini(&long_way);
    }
    assert_int_equal(w->n_gone, 0);
}

static void test_a_long_part_is_not_sent_in_one_step(void **state)
{
    static const char block[INBOUND_SEND_BYTES_MAX] = {'z'};
    struct world *w = *state;
    struct bytes parts[INBOUND_SEND_PARTS] = {bytes_from(block, sizeof block), {NULL, 0}, {NULL, 0}};
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    inbound_head(w->held, 200, INBOUND_STREAM, 0, BYTES(""));
    inbound_flush(w->held);
    assert_true(inbound_send(w->held, parts));
    parts[2] = BYTES("1");
    assert_false(inbound_send(w->held, parts));
    inbound_flush(w->held);
    inbound_end(w->held);
    settle(w);
    assert_int_equal(count(buf_bytes(&w->got), "\r\n800\r\nz"), 1);
    assert_int_equal(count(buf_bytes(&w->got), "\r\n801\r\nz"), 1);
    assert_int_equal(w->n_gone, 0);
}

/* ---- leaving ---- */

static void test_fin_while_waiting_counts_as_leaving(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    stream_shutdown(w->peer);
    settle(w);
    assert_int_equal(w->n_gone, 1);
    assert_false(w->was_stall);
}

static void test_fin_right_behind_the_request(void **state)
{
    struct world *w = *state;
    size_t n = 0;
    struct bytes text = BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\n");
    struct iovec v = {.iov_base = (void *)(uintptr_t)text.p, .iov_len = text.n};
    assert_int_equal(stream_write(w->peer, &v, 1, &n), IO_OK);
    stream_shutdown(w->peer);
    settle(w);
    assert_true(log_is(w, "request /hold;"));
    assert_int_equal(w->n_gone, 1);
}

static void test_reset_while_answering(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    inbound_head(w->held, 200, INBOUND_STREAM, 0, BYTES(""));
    inbound_put(w->held, BYTES("begin"));
    inbound_flush(w->held);
    stream_close(w->peer, true);
    w->peer = NULL;
    struct inbound *in = w->held;
    inbound_put(in, BYTES("into the void")); /* the write fails here and now; the owner hears of it later */
    inbound_flush(in);
    assert_int_equal(w->n_gone, 0);
    settle(w);
    assert_int_equal(w->n_gone, 1);
    assert_int_equal(server_n_conns(w->server), 0);
}

static void test_end_after_a_broken_write_tells_nothing(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    stream_close(w->peer, true);
    w->peer = NULL;
    answer_stream(w->held);
    settle(w);
    assert_int_equal(w->n_gone, 0);
    assert_int_equal(server_n_conns(w->server), 0);
}

static void test_abort(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    inbound_head(w->held, 200, INBOUND_STREAM, 0, BYTES(""));
    inbound_abort(w->held);
    settle(w);
    assert_true(w->peer_reset);
    assert_int_equal(w->n_gone, 0);
    assert_int_equal(server_n_conns(w->server), 0);
}

/* ---- many connections, and the end ---- */

static void test_connections_over_the_limit_are_told(void **state)
{
    struct world *w = *state;
    struct stream *others[3];
    for (size_t i = 0; i < RM_COUNTOF(others); i++) {
        struct stream *ours;
        stream_pipe(w->loop, 4096, &others[i], &ours);
        server_accept(w->server, ours);
    }
    struct stream *first = w->peer;
    connect_with(w, PIPE_BYTES);
    assert_true(has(w, "HTTP/1.1 503 "));
    assert_true(has(w, "{\"error\":{\"message\":"));
    assert_true(w->peer_eof);
    hang_up(w);
    assert_int_equal(server_n_conns(w->server), 4);
    for (size_t i = 0; i < RM_COUNTOF(others); i++)
        stream_close(others[i], false);
    w->peer = first;
}

static void test_requests_per_connection(void **state)
{
    struct world *w = *state;
    struct server_limits limits = usual_limits();
    limits.requests_per_connection = 2;
    server_set_limits(w->server, &limits);
    send_text(w, "GET /echo HTTP/1.1\r\n" HOST "\r\n");
    assert_false(has(w, "connection: close"));
    send_text(w, "GET /echo HTTP/1.1\r\n" HOST "\r\n");
    assert_true(has(w, "connection: close"));
    assert_true(w->peer_eof);
}

static void test_drain(void **state)
{
    struct world *w = *state;
    struct stream *idle = w->peer;
    connect_with(w, PIPE_BYTES);
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    server_drain(w->server);
    settle(w);
    assert_int_equal(server_n_conns(w->server), 1);
    answer_echo(w->held);
    settle(w);
    assert_true(has(w, "connection: close\r\n"));
    assert_true(w->peer_eof);
    stream_close(idle, false);
}

static void test_close_tells_of_requests_in_flight(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    server_close(w->server);
    settle(w);
    assert_int_equal(w->n_gone, 1);
    assert_int_equal(server_n_conns(w->server), 0);
}

/* ---- when an answer's end is written ---- */

static void take_in(struct world *w)
{
    on_peer(w->peer, LOOP_READ, w);
}

static void test_a_short_answer_is_written_at_the_end_of_the_turn(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    answer_stream(w->held);
    take_in(w);
    assert_true(has(w, "one two"));
    assert_false(has(w, "three"));
    settle(w);
    assert_true(has(w, "5\r\nthree\r\n0\r\n\r\n"));
    assert_int_equal(w->n_gone, 0);
}

static void test_a_long_answer_is_not_copied_to_wait(void **state)
{
    static char zeros[20000];
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    inbound_head(w->held, 200, INBOUND_LENGTH, sizeof zeros, BYTES(""));
    inbound_put(w->held, bytes_from(zeros, sizeof zeros));
    inbound_end(w->held);
    take_in(w);
    assert_true(w->got.n > sizeof zeros);
}

/* Answers n bytes, the first `cut` as a part of their own (0: in one), flushed or not. */
static void answer_cut_at(struct world *w, size_t n, size_t cut, bool is_flushed)
{
    static char text[20000];
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i % 23);
    forget(w);
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    inbound_head(w->held, 200, INBOUND_LENGTH, n, BYTES("x-a: b\r\n"));
    if (cut > 0)
        inbound_put(w->held, bytes_from(text, cut));
    if (is_flushed)
        inbound_flush(w->held);
    inbound_put(w->held, bytes_from(text + cut, n - cut));
    inbound_end(w->held);
    settle(w);
}

static void test_a_whole_answer_is_the_same_in_any_parts(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 5000, 16384, 16385, 20000};
    struct world *w = *state;
    for (size_t i = 0; i < RM_COUNTOF(sizes); i++) {
        struct buf want = {0};
        answer_cut_at(w, sizes[i], sizes[i] / 2, false);
        buf_put(&want, buf_bytes(&w->got));
        assert_true(want.n > sizes[i]);
        for (size_t k = 0; k < 4; k++) {
            answer_cut_at(w, sizes[i], k < 2 ? 0 : sizes[i] / 3, k % 2 == 0);
            assert_true(bytes_eq(buf_bytes(&w->got), buf_bytes(&want)));
        }
        buf_fini(&want);
    }
}

static void test_an_answer_that_waits_is_not_lost_at_the_close(void **state)
{
    struct world *w = *state;
    send_text(w, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    answer_echo(w->held);
    take_in(w);
    assert_int_equal(w->got.n, 0);
    server_close(w->server);
    settle(w);
    assert_true(has(w, "HTTP/1.1 200 OK\r\n"));
    assert_int_equal(w->n_gone, 0);
}

static void send_to_note(struct world *w, const char *key, unsigned n)
{
    char text[128];
    snprintf(text, sizeof text, "POST /note HTTP/1.1\r\n" HOST "Authorization: %s\r\nContent-Length: 1\r\n\r\nx", key);
    for (unsigned i = 0; i < n; i++)
        send_text(w, text);
}

/* Also where it is one of those that are not known and not kept. */
static void test_what_is_noted_with_heads_is_forgotten(void **state)
{
    struct world *w = *state;
    struct server_limits limits = usual_limits();
    send_to_note(w, "a", 5);
    assert_int_equal(w->n_new, 1);
    send_to_note(w, "b", 3);
    assert_int_equal(w->n_new, 4);
    server_rest(w->server);
    send_to_note(w, "a", 5);
    assert_int_equal(w->n_new, 5);
    server_set_limits(w->server, &limits);
    send_to_note(w, "b", 5);
    assert_int_equal(w->n_new, 6);
    limits.keeps_no_heads = true;
    server_set_limits(w->server, &limits);
    send_to_note(w, "b", 10);
    assert_int_equal(w->n_new, 16);
    assert_int_equal(count(buf_bytes(&w->log), "request /note;"), 28);
}

/* A head that is known, and another length each time: at once, and at every split. */
static void test_known_heads_are_split_as_others(void **state)
{
    struct world *w = *state;
    struct bytes whole = BYTES("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 04\r\n\r\nabcd"
                               "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 00\r\n\r\n"
                               "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 57\r\n\r\n"
                               "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 04\r\n\r\nPOST "
                               "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 07\r\n\r\n1234567");
    for (size_t cut = 0; cut < whole.n; cut++) {
        forget(w);
        if (cut > 0)
            send_bytes(w, bytes_slice(whole, 0, cut));
        send_bytes(w, bytes_slice(whole, cut, whole.n));
        assert_true(log_is(w, "request /echo;request /echo;request /echo;request /echo;"));
        assert_int_equal(count(buf_bytes(&w->got), "\r\n\r\nPOST /echo HTTP/1.1\r\n"), 1);
        assert_true(bytes_ends_with(buf_bytes(&w->got), BYTES("\r\n\r\n1234567")));
        if (cut % 20 == 0) { /* requests_per_connection */
            hang_up(w);
            connect_with(w, PIPE_BYTES);
        }
    }
}

#define WITH(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_answers_and_keeps_the_connection),
        WITH(test_parts_keep_their_order),
        WITH(test_the_date_is_of_the_second),
        WITH(test_every_split_gives_the_same),
        WITH(test_pipelined_requests_wait_their_turn),
        WITH(test_pipelined_bytes_are_bounded),
        WITH(test_head_request_has_no_body),
        WITH(test_http_1_0),
        WITH(test_expect_continue),
        WITH(test_unknown_expectation),
        WITH(test_refused_by_head_without_a_body_keeps_the_connection),
        WITH(test_refused_with_an_unread_body_lingers),
        WITH(test_a_refused_body_of_any_size_is_read),
        WITH(test_a_drain_does_not_wait_for_a_refused_body),
        WITH(test_a_refused_body_is_not_read_all_in_one_turn),
        WITH(test_a_refused_body_is_read_for_half_a_minute),
        WITH(test_malformed_requests_are_refused_once),
        WITH(test_sizes),
        WITH(test_chunked_body_over_the_limit),
        WITH(test_body_memory_is_admitted_and_given_back),
        WITH(test_idle_connection_is_closed),
        WITH(test_slow_head),
        WITH(test_slow_body),
        WITH(test_waiting_for_an_answer_has_no_limit_here),
        WITH(test_stalled_client_is_cut),
        WITH(test_slow_client_slows_and_goes_on),
        WITH(test_parts_in_one_step_are_the_same_bytes),
        WITH(test_a_long_part_is_not_sent_in_one_step),
        WITH(test_fin_while_waiting_counts_as_leaving),
        WITH(test_fin_right_behind_the_request),
        WITH(test_reset_while_answering),
        WITH(test_end_after_a_broken_write_tells_nothing),
        WITH(test_abort),
        WITH(test_connections_over_the_limit_are_told),
        WITH(test_requests_per_connection),
        WITH(test_drain),
        WITH(test_close_tells_of_requests_in_flight),
        WITH(test_a_short_answer_is_written_at_the_end_of_the_turn),
        WITH(test_a_long_answer_is_not_copied_to_wait),
        WITH(test_a_whole_answer_is_the_same_in_any_parts),
        WITH(test_an_answer_that_waits_is_not_lost_at_the_close),
        WITH(test_what_is_noted_with_heads_is_forgotten),
        WITH(test_known_heads_are_split_as_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

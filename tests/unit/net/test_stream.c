/* Streams over pipes and over TCP: bytes, edges, backpressure, ends, lifetimes. */
#include "unit.h"

#include "base/mem.h"
#include "ends.h"
#include "net/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static struct loop *l;

static int open_loop(void **state)
{
    l = loop_new();
    return 0;
}

static int close_loop(void **state)
{
    loop_free(l);
    assert_int_equal(mem_live(MEM_STREAM), 0);
    return 0;
}

static void pipe_open(struct end *a, struct end *b, size_t cap)
{
    struct stream *x, *y;
    stream_pipe(l, cap, &x, &y);
    end_attach(a, x);
    end_attach(b, y);
    loop_turn(l, 0);
    assert_int_equal(a->ready, LOOP_WRITE);
    a->n_ready = b->n_ready = 0;
    a->ready = b->ready = 0;
}

static void pipe_carries_bytes_and_the_end(void **state)
{
    struct end a = {0}, b = {0};
    size_t n;
    pipe_open(&a, &b, 100);
    struct iovec v[3] = {{(void *)(uintptr_t) "hello", 5}, {NULL, 0}, {(void *)(uintptr_t) " there", 6}};
    assert_int_equal(stream_write(a.stream, v, 3, &n), IO_OK);
    assert_int_equal(n, 11);
    assert_int_equal(b.n_ready, 0); /* never from inside a call */
    stream_close(a.stream, false);
    a.stream = NULL;
    loop_turn(l, 0);
    assert_true(bytes_is(buf_bytes(&b.in), "hello there"));
    assert_int_equal(b.last, IO_EOF); /* found although the read before was short */
    assert_int_equal(end_write(&b, "x", 1, &n), IO_ERROR);
    assert_true(strlen(stream_error(b.stream)) > 0);
    end_close(&b, false);
}

static void pipe_holds_a_fast_writer_back(void **state)
{
    struct end a = {0}, b = {.is_paused = true};
    size_t n;
    pipe_open(&a, &b, 10);
    assert_int_equal(end_write(&a, "0123456", 7, &n), IO_OK);
    assert_int_equal(end_write(&a, "789abc", 6, &n), IO_OK);
    assert_int_equal(n, 3);
    assert_int_equal(end_write(&a, "abc", 3, &n), IO_AGAIN);
    loop_turn(l, 0);
    assert_int_equal(a.n_ready, 0);
    b.is_paused = false;
    end_drain(&b);
    assert_int_equal(a.n_ready, 0);
    loop_turn(l, 0);
    assert_int_equal(a.ready, LOOP_WRITE);
    assert_int_equal(end_write(&a, "abc", 3, &n), IO_OK);
    loop_turn(l, 0);
    assert_true(bytes_is(buf_bytes(&b.in), "0123456789abc"));
    end_close(&a, false);
    end_close(&b, false);
}

static void pipe_reset_drops_what_is_on_its_way(void **state)
{
    struct end a = {0}, b = {.is_paused = true};
    size_t n;
    pipe_open(&a, &b, 10);
    assert_int_equal(end_write(&a, "01", 2, &n), IO_OK);
    end_close(&a, true);
    loop_turn(l, 0);
    assert_true(stream_is_stale(b.stream));
    char c[4];
    assert_int_equal(stream_read(b.stream, c, sizeof c, &n), IO_ERROR);
    assert_string_equal(stream_error(b.stream), "connection reset");
    end_close(&b, false);
}

static void closed_stream_is_told_nothing(void **state)
{
    struct end a = {0}, b = {0};
    size_t n;
    pipe_open(&a, &b, 10);
    assert_int_equal(end_write(&a, "01", 2, &n), IO_OK); /* b has an event coming */
    stream_close(b.stream, false);
    b.stream = NULL;
    loop_turn(l, 0);
    assert_int_equal(b.n_ready, 0);
    end_close(&a, false);
}

static void readiness_waits_for_an_owner(void **state)
{
    struct stream *x, *y;
    struct end a = {0}, b = {0};
    size_t n;
    stream_pipe(l, 10, &x, &y);
    end_attach(&a, x);
    assert_int_equal(end_write(&a, "late", 4, &n), IO_OK);
    loop_turn(l, 0);
    end_attach(&b, y);
    loop_turn(l, 0);
    assert_true(bytes_is(buf_bytes(&b.in), "late"));
    end_close(&a, false);
    end_close(&b, false);
}

/* One end is ours, the other a bare descriptor. */
static int tcp_open(struct end *e)
{
    uint16_t port = 0;
    int listener = listen_somewhere(&port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(listener >= 0 && fd >= 0);
    assert_true(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
    int got = accept_one(l, listener);
    struct stream *s;
    assert_int_equal(stream_accept(l, got, &s), ERR_OK);
    end_attach(e, s);
    close(listener);
    TURN_UNTIL(l, e->ready & LOOP_WRITE);
    e->n_ready = 0;
    e->ready = 0;
    return fd;
}

static void tcp_bytes_and_fin_in_one_edge(void **state)
{
    struct end e = {0};
    int fd = tcp_open(&e);
    char peer[64];
    tcp_peer(e.stream, peer, sizeof peer);
    assert_memory_equal(peer, "127.0.0.1:", 10);
    assert_false(stream_is_stale(e.stream));
    assert_int_equal(send(fd, "all of it", 9, 0), 9);
    close(fd);
    TURN_UNTIL(l, e.last == IO_EOF);
    assert_true(bytes_is(buf_bytes(&e.in), "all of it"));
    assert_true(stream_is_stale(e.stream));
    end_close(&e, false);
}

struct ahead {
    struct end end; /* first */
    size_t cap;     /* of the read when asked */
};

static void on_ahead(struct stream *s, unsigned ready, void *arg)
{
    struct ahead *a = arg;
    char b[16];
    size_t n = 0;
    if (ready != LOOP_ASK) {
        end_on_ready(s, ready, &a->end);
        return;
    }
    a->end.last = stream_read(s, b, a->cap, &n);
    buf_put(&a->end.in, bytes_from(b, n));
}

static int ahead_open(struct ahead *a, size_t cap)
{
    int fd = tcp_open(&a->end);
    a->cap = cap;
    stream_on_ready(a->end.stream, on_ahead, a);
    stream_read_ahead(a->end.stream);
    return fd;
}

static void tcp_reads_ahead(void **state)
{
    struct ahead a = {0}, b = {0};
    int fd_a = ahead_open(&a, 16), fd_b = ahead_open(&b, 4);
    assert_int_equal(write(fd_a, "12345678", 8), 8);
    assert_int_equal(write(fd_b, "12345678", 8), 8);
    TURN_UNTIL(l, a.end.n_ready > 0 && b.end.n_ready > 0);
    assert_int_equal(a.end.ready & (LOOP_READ | LOOP_AHEAD), LOOP_AHEAD);
    assert_int_equal(b.end.ready & (LOOP_READ | LOOP_AHEAD), LOOP_READ); /* it was not read dry */
    assert_true(bytes_is(buf_bytes(&a.end.in), "12345678"));
    assert_true(bytes_is(buf_bytes(&b.end.in), "12345678"));
    assert_false(stream_is_stale(a.end.stream));
    close(fd_a);
    close(fd_b);
    TURN_UNTIL(l, a.end.last == IO_EOF && b.end.last == IO_EOF);
    end_close(&a.end, false);
    end_close(&b.end, false);
}

static void tcp_reset_is_an_error(void **state)
{
    struct end e = {0};
    int fd = tcp_open(&e);
    struct linger at_once = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
    TURN_UNTIL(l, e.last == IO_ERROR);
    assert_string_equal(stream_error(e.stream), "connection reset");
    size_t n;
    assert_int_equal(end_write(&e, "x", 1, &n), IO_ERROR);
    end_close(&e, false);
}

/* A provider that answers 413 and closes while we still send: its answer must not be lost. */
static void tcp_answer_is_read_although_writing_failed(void **state)
{
    struct end e = {.is_paused = true};
    int fd = tcp_open(&e);
    size_t n;
    enum io r = IO_OK;
    assert_int_equal(send(fd, "too large", 9, 0), 9);
    TURN_UNTIL(l, e.ready & LOOP_READ);
    close(fd);
    for (int i = 0; i < TURNS_MAX && r != IO_ERROR; i++) {
        r = end_write(&e, "x", 1, &n);
        loop_turn(l, 1000);
    }
    assert_int_equal(r, IO_ERROR);
    end_drain(&e);
    assert_true(bytes_is(buf_bytes(&e.in), "too large"));
    end_drain(&e);
    assert_int_equal(e.last, IO_ERROR);
    end_close(&e, false);
}

static void tcp_close_with_reset_reaches_the_peer(void **state)
{
    struct end e = {0};
    int fd = tcp_open(&e);
    end_close(&e, true);
    char c;
    ssize_t n = -1;
    for (int i = 0; i < TURNS_MAX; i++) {
        n = recv(fd, &c, 1, 0);
        if (n >= 0 || errno != EAGAIN)
            break;
        loop_turn(l, 1000);
    }
    assert_int_equal(n, -1);
    assert_int_equal(errno, ECONNRESET);
    close(fd);
}

static void tcp_holds_a_fast_writer_back(void **state)
{
    static char block[65536];
    struct end e = {0};
    int fd = tcp_open(&e);
    size_t n, written = 0, got = 0;
    enum io r = IO_OK;
    for (int i = 0; i < TURNS_MAX && r == IO_OK; i++) {
        r = end_write(&e, block, sizeof block, &n);
        written += n;
    }
    assert_int_equal(r, IO_AGAIN);
    assert_true(stream_unacked(e.stream) <= written);
    loop_turn(l, 0);
    assert_int_equal(e.ready & LOOP_WRITE, 0);
    for (int i = 0; i < TURNS_MAX && got < written; i++) {
        ssize_t x = recv(fd, block, sizeof block, 0);
        got += x > 0 ? (size_t)x : 0;
        loop_turn(l, x > 0 ? 0 : 1000);
    }
    assert_int_equal(got, written);
    TURN_UNTIL(l, e.ready & LOOP_WRITE);
    assert_int_equal(end_write(&e, "x", 1, &n), IO_OK);
    stream_shutdown(e.stream);
    end_close(&e, false);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pipe_carries_bytes_and_the_end, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(pipe_holds_a_fast_writer_back, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(pipe_reset_drops_what_is_on_its_way, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(closed_stream_is_told_nothing, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(readiness_waits_for_an_owner, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(tcp_bytes_and_fin_in_one_edge, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(tcp_reads_ahead, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(tcp_reset_is_an_error, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(tcp_answer_is_read_although_writing_failed, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(tcp_close_with_reset_reaches_the_peer, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(tcp_holds_a_fast_writer_back, open_loop, close_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

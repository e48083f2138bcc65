/* The provider side's driver over an in-memory stream, on the simulated loop. */
#include "unit.h"

#include "base/mem.h"
#include "http/client.h"
#include "loop/loop_sim.h"

#define FLOOD_BYTES (4 * 1024 * 1024)
enum { TURN_BYTES_MAX = 512 * 1024, TURNS_MAX = 1000 };

struct reader {
    size_t n_total, n_now; /* body bytes: in all, and since the test last looked */
    bool is_over;
};

static const struct client_request request = {.head = BYTES("GET / HTTP/1.1\r\n\r\n")};

static void on_ready(struct client_conn *c, void *arg)
{
    struct reader *r = arg;
    struct client_event ev;
    do {
        client_conn_next(c, &ev);
        r->n_now += ev.body.n;
        r->n_total += ev.body.n;
        r->is_over = r->is_over || ev.kind == CLIENT_END;
    } while (ev.kind != CLIENT_NOTHING && !r->is_over);
}

static void pour(struct stream *s)
{
    static char zeros[64 * 1024];
    struct iovec head = {.iov_base = (void *)(uintptr_t) "HTTP/1.1 200 OK\r\n\r\n", .iov_len = 19};
    struct iovec body = {.iov_base = zeros, .iov_len = sizeof zeros};
    size_t n;
    assert_int_equal(stream_write(s, &head, 1, &n), IO_OK);
    for (size_t put = 0; put < FLOOD_BYTES; put += n)
        assert_int_equal(stream_write(s, &body, 1, &n), IO_OK);
}

/* A provider that sends faster than we read must not keep a core to itself. */
static void a_flood_is_read_turn_by_turn(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct stream *ours, *theirs;
    struct reader r = {0};
    unsigned n_turns = 0;
    stream_pipe(loop, 2 * FLOOD_BYTES, &ours, &theirs);
    struct client_conn *c = client_conn_new(loop, ours);
    client_conn_send(c, &request, on_ready, &r);
    pour(theirs);
    stream_close(theirs, false);
    for (; !r.is_over && n_turns < TURNS_MAX; n_turns++) {
        r.n_now = 0;
        loop_turn(loop, 0);
        assert_true(r.n_now <= TURN_BYTES_MAX);
    }
    assert_true(r.is_over);
    assert_int_equal(r.n_total, FLOOD_BYTES);
    assert_true(n_turns >= FLOOD_BYTES / TURN_BYTES_MAX);
    client_conn_close(c);
    loop_turn(loop, 0);
    loop_free(loop);
    assert_int_equal(mem_live(MEM_CONN), 0);
    assert_int_equal(mem_live(MEM_STREAM), 0);
}

/* As many pieces as one write takes, one less and some more; none of them may be left, or asked for twice. */
static void requests_of_many_pieces(void **state)
{
    static const size_t numbers[] = {0, 1, 62, 63, 64, 65, 73, 74, 126, 127, 128, 200};
    struct bytes pieces[200];
    (void)state;
    for (size_t i = 0; i < 200; i++)
        pieces[i] = bytes_slice(BYTES("abcdefg"), 0, i % 7); /* some are empty */
    for (size_t k = 0; k < RM_COUNTOF(numbers); k++) {
        struct client_request many = {.head = BYTES("POST / HTTP/1.1\r\n\r\n"), .body = pieces, .n_body = numbers[k]};
        struct loop *loop = loop_new();
        struct stream *ours, *theirs;
        struct reader r = {0};
        struct buf want = {0};
        char got[4096];
        size_t n = 0;
        stream_pipe(loop, sizeof got, &ours, &theirs);
        struct client_conn *c = client_conn_new(loop, ours);
        client_conn_send(c, &many, on_ready, &r);
        for (unsigned turn = 0; turn < 5; turn++)
            loop_turn(loop, 0);
        buf_put(&want, many.head);
        for (size_t i = 0; i < many.n_body; i++)
            buf_put(&want, pieces[i]);
        assert_int_equal(stream_read(theirs, got, sizeof got, &n), IO_OK);
        assert_true(bytes_eq(bytes_from(got, n), buf_bytes(&want)));
        client_conn_close(c);
        stream_close(theirs, false);
        buf_fini(&want);
        loop_turn(loop, 0);
        loop_free(loop);
    }
}

/* Closed between two turns of reading: nothing comes afterwards. */
static void a_flood_can_be_left(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct stream *ours, *theirs;
    struct reader r = {0};
    stream_pipe(loop, 2 * FLOOD_BYTES, &ours, &theirs);
    struct client_conn *c = client_conn_new(loop, ours);
    client_conn_send(c, &request, on_ready, &r);
    pour(theirs);
    for (unsigned n = 0; r.n_total == 0 && n < TURNS_MAX; n++)
        loop_turn(loop, 0);
    assert_true(r.n_total > 0 && !r.is_over);
    r.n_now = 0;
    client_conn_close(c);
    for (unsigned n = 0; n < 5; n++)
        loop_turn(loop, 0);
    assert_int_equal(r.n_now, 0);
    stream_close(theirs, false);
    loop_turn(loop, 0);
    loop_free(loop);
    assert_int_equal(mem_live(MEM_CONN), 0);
    assert_int_equal(mem_live(MEM_STREAM), 0);
}

/* It lies where it is until the turn's handlers have run. */
static void a_request_is_written_at_the_end_of_the_turn(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct stream *ours, *theirs;
    struct reader r = {0};
    char got[64];
    size_t n = 0;
    stream_pipe(loop, 4096, &ours, &theirs);
    struct client_conn *c = client_conn_new(loop, ours);
    client_conn_send(c, &request, on_ready, &r);
    assert_int_equal(stream_read(theirs, got, sizeof got, &n), IO_AGAIN);
    assert_false(client_conn_any_sent(c));
    loop_turn(loop, 0);
    assert_int_equal(stream_read(theirs, got, sizeof got, &n), IO_OK);
    assert_true(bytes_eq(bytes_from(got, n), request.head));
    assert_true(client_conn_any_sent(c));
    client_conn_close(c);
    stream_close(theirs, false);
    loop_turn(loop, 0);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_is_read_turn_by_turn),
        cmocka_unit_test(a_flood_can_be_left),
        cmocka_unit_test(a_request_is_written_at_the_end_of_the_turn),
        cmocka_unit_test(requests_of_many_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

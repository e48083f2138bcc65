/* The provider side's driver over an in-memory stream, on the simulated loop. */
#include "unit.h"

#include "base/mem.h"
#include "http/client.h"
#include "loop/loop_sim.h"

#define FLOOD_BYTES (4 * 1024 * 1024)
enum { TURN_BYTES_MAX = 512 * 1024, TURNS_MAX = 1000 };

struct reader {
    size_t n_total, n_now; /* body bytes: in all, and since the test last looked */
    unsigned n_told;       /* how often there was news */
    bool is_over;
};

static const struct client_request request = {.head = BYTES("GET / HTTP/1.1\r\n\r\n")};

static void on_ready(struct client_conn *c, void *arg)
{
    struct reader *r = arg;
    struct client_event ev;
    r->n_told++;
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

/* A pipe of so many bytes, read as they come. */
static void request_arrives_whole(const struct client_request *whole, size_t cap)
{
    struct loop *loop = loop_new();
    struct stream *ours, *theirs;
    struct reader r = {0};
    struct buf want = {0}, got = {0};
    stream_pipe(loop, cap, &ours, &theirs);
    struct client_conn *c = client_conn_new(loop, ours);
    client_conn_send(c, whole, on_ready, &r);
    for (unsigned turn = 0; turn < TURNS_MAX; turn++) {
        size_t n = 0;
        loop_turn(loop, 0);
        if (stream_read(theirs, buf_reserve(&got, cap), cap, &n) == IO_OK)
            buf_grew(&got, n);
    }
    buf_put(&want, whole->head);
    for (size_t i = 0; i < whole->n_body; i++)
        buf_put(&want, whole->body[i]);
    assert_true(bytes_eq(buf_bytes(&got), buf_bytes(&want)));
    client_conn_close(c);
    stream_close(theirs, false);
    buf_fini(&want);
    buf_fini(&got);
    loop_turn(loop, 0);
    loop_free(loop);
}

/* As many pieces as one write takes, one less and some more; none of them may be left, or asked for twice. Some are
 * empty; all of it goes out at once or in small parts. */
static void requests_of_many_pieces(void **state)
{
    static const size_t numbers[] = {0, 1, 62, 63, 64, 65, 73, 74, 126, 127, 128, 200};
    static const size_t caps[] = {100000, 997};
    static char text[700];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 26);
    for (unsigned one_long_in = 1; one_long_in < 20; one_long_in += 6)
        for (size_t k = 0; k < RM_COUNTOF(numbers); k++)
            for (size_t j = 0; j < RM_COUNTOF(caps); j++) {
                struct bytes pieces[200];
                for (size_t i = 0; i < 200; i++)
                    pieces[i] = bytes_from(text, i % one_long_in == one_long_in - 1 ? 450 + i : i % 7);
                struct client_request many = {
                    .head = BYTES("POST / HTTP/1.1\r\n\r\n"), .body = pieces, .n_body = numbers[k]};
                request_arrives_whole(&many, caps[j]);
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
    assert_false(client_conn_any_sent(c) || client_conn_is_sent(c));
    loop_turn(loop, 0);
    assert_int_equal(stream_read(theirs, got, sizeof got, &n), IO_OK);
    assert_true(bytes_eq(bytes_from(got, n), request.head));
    assert_true(client_conn_any_sent(c) && client_conn_is_sent(c));
    client_conn_close(c);
    stream_close(theirs, false);
    loop_turn(loop, 0);
    loop_free(loop);
}

static void answer(struct stream *s)
{
    struct bytes text = BYTES("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    struct iovec v = {.iov_base = (void *)(uintptr_t)text.p, .iov_len = text.n};
    size_t n;
    assert_int_equal(stream_write(s, &v, 1, &n), IO_OK);
}

/* On a connection that was read empty the first news is the answer's first byte, or the end. */
static void a_written_request_is_no_news(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct stream *ours, *theirs;
    struct reader r = {0}, idle = {0};
    char got[64];
    size_t n = 0;
    stream_pipe(loop, 4096, &ours, &theirs);
    struct client_conn *c = client_conn_new(loop, ours);
    client_conn_send(c, &request, on_ready, &r);
    loop_turn(loop, 0);
    answer(theirs);
    loop_turn(loop, 0);
    assert_true(r.is_over);
    assert_true(client_conn_idle(c, on_ready, &idle));
    loop_turn(loop, 0);
    assert_int_equal(stream_read(theirs, got, sizeof got, &n), IO_OK);
    r = (struct reader){0};
    client_conn_send(c, &request, on_ready, &r);
    loop_turn(loop, 0);
    assert_int_equal(stream_read(theirs, got, sizeof got, &n), IO_OK);
    assert_true(client_conn_is_sent(c));
    assert_int_equal(r.n_told, 0);
    answer(theirs);
    loop_turn(loop, 0);
    assert_true(r.is_over && r.n_told == 1);
    client_conn_close(c);
    stream_close(theirs, false);
    loop_turn(loop, 0);
    loop_free(loop);
}

/* The provider's end came with its last bytes: such a connection is not kept. */
static void a_closed_one_does_not_idle(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct stream *ours, *theirs;
    struct reader r = {0}, idle = {0};
    stream_pipe(loop, 4096, &ours, &theirs);
    struct client_conn *c = client_conn_new(loop, ours);
    client_conn_send(c, &request, on_ready, &r);
    loop_turn(loop, 0);
    answer(theirs);
    stream_close(theirs, false);
    loop_turn(loop, 0);
    assert_true(r.is_over && client_conn_is_reusable(c));
    assert_false(client_conn_idle(c, on_ready, &idle));
    loop_turn(loop, 0);
    assert_int_equal(idle.n_told, 0);
    client_conn_close(c);
    loop_turn(loop, 0);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_is_read_turn_by_turn),
        cmocka_unit_test(a_flood_can_be_left),
        cmocka_unit_test(a_request_is_written_at_the_end_of_the_turn),
        cmocka_unit_test(a_written_request_is_no_news),
        cmocka_unit_test(requests_of_many_pieces),
        cmocka_unit_test(a_closed_one_does_not_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

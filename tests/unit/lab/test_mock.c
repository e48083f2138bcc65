/* The mock over real sockets, on a loop that the test turns itself. */
#include "unit.h"

#include "base/buf.h"
#include "lab/mock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

struct stage {
    struct loop *loop;
    struct mock *mock;
    uint16_t port;
};

static void stage_init(struct stage *s, const char *key)
{
    struct mock_conf c;
    char message[160];
    mock_conf_init(&c);
    c.listen = "127.0.0.1:0";
    c.ttft_ms = spread_fixed(1);
    c.gap_us = 1000;
    c.tokens = spread_fixed(4);
    c.key = key;
    s->loop = loop_new();
    s->mock = mock_new(s->loop);
    assert_int_equal(mock_add(s->mock, &c, &s->port, message, sizeof message), ERR_OK);
}

static void stage_fini(struct stage *s)
{
    mock_free(s->mock);
    loop_free(s->loop);
}

static int dial(const struct stage *s)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons(s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&sa, sizeof sa) != 0) {
        close(fd);
        return -1;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void send_request(int fd, const char *path, const char *body)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", path,
                     strlen(body), body);
    assert_int_equal(write(fd, text, (size_t)n), n);
}

/* Turns the loop until `end` was read (0), the peer closed (1) or reset (2). */
static int read_until(struct stage *s, int fd, const char *end, struct buf *out)
{
    buf_clear(out);
    for (int turn = 0; turn < 5000; turn++) {
        loop_turn(s->loop, 2000);
        char *to = buf_reserve(out, 4096);
        ssize_t n = read(fd, to, 4096);
        if (n > 0)
            buf_grew(out, (size_t)n);
        else if (n == 0)
            return 1;
        else if (errno == ECONNRESET)
            return 2;
        if (end != NULL && bytes_find(buf_bytes(out), bytes_of(end)) != SIZE_MAX)
            return 0;
    }
    fail_msg("nothing more came after: %s", buf_cstr(out));
    return -1;
}

#define CHAT "/v1/chat/completions"
#define BODY "{\"model\":\"m\",\"user\":null,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

static void set_fault(struct stage *s, int fd, const char *json, struct buf *out)
{
    send_request(fd, "/_mock/fault", json);
    assert_int_equal(read_until(s, fd, "}", out), 0);
    assert_memory_equal(out->p, "HTTP/1.1 200", 12);
}

static void one_connection_many_answers(void **state)
{
    struct stage s;
    struct buf out = {0};
    stage_init(&s, "");
    int fd = dial(&s);
    for (int i = 0; i < 3; i++) {
        send_request(fd, CHAT, BODY);
        assert_int_equal(read_until(&s, fd, "[DONE]\n\n\r\n0\r\n\r\n", &out), 0);
    }
    set_fault(&s, fd, "{\"fault\":\"503\",\"times\":1}", &out);
    send_request(fd, CHAT, BODY);
    assert_int_equal(read_until(&s, fd, "}}", &out), 0);
    assert_memory_equal(out.p, "HTTP/1.1 503", 12);
    send_request(fd, CHAT, BODY);
    assert_int_equal(read_until(&s, fd, "[DONE]\n\n\r\n0\r\n\r\n", &out), 0);
    close(fd);
    buf_fini(&out);
    stage_fini(&s);
}

static void broken_connections(void **state)
{
    struct stage s;
    struct buf out = {0};
    stage_init(&s, "");
    int control = dial(&s);
    static const struct {
        const char *fault;
        int how;
        const char *last;
    } table[] = {{"{\"fault\":\"cut\",\"after\":2}", 1, "\" lamps\""},
                 {"{\"fault\":\"rst-after\",\"after\":1}", 2, "\"The\""},
                 {"{\"fault\":\"reset\"}", 2, NULL}};
    for (size_t i = 0; i < RM_COUNTOF(table); i++) {
        set_fault(&s, control, table[i].fault, &out);
        int fd = dial(&s);
        send_request(fd, CHAT, BODY);
        assert_int_equal(read_until(&s, fd, NULL, &out), table[i].how);
        if (table[i].last == NULL)
            assert_int_equal(out.n, 0);
        else
            assert_non_null(strstr(buf_cstr(&out), table[i].last));
        assert_null(strstr(buf_cstr(&out), "finish_reason\":\"stop"));
        close(fd);
    }
    close(control);
    buf_fini(&out);
    stage_fini(&s);
}

static void sees_who_hangs_up(void **state)
{
    struct stage s;
    struct buf out = {0};
    stage_init(&s, "");
    int control = dial(&s), fd = dial(&s);
    set_fault(&s, control, "{\"fault\":\"stall\",\"after\":1}", &out);
    send_request(fd, CHAT, BODY);
    assert_int_equal(read_until(&s, fd, "\"The\"", &out), 0);
    close(fd);
    for (int i = 0; i < 1000; i++) {
        send_request(control, "/_mock/log", "");
        assert_int_equal(read_until(&s, control, "]", &out), 0);
        if (strstr(buf_cstr(&out), "\"hung_up\":true") != NULL)
            break;
    }
    assert_non_null(strstr(
        buf_cstr(&out), "\"model\":\"m\",\"user\":null,\"stream\":true,\"fault\":\"stall\",\"status\":200,\"answered\":"
                        "false,\"hung_up\":true,\"hung_up_ms\":"));
    close(control);
    buf_fini(&out);
    stage_fini(&s);
}

static void refuses_and_comes_back(void **state)
{
    struct stage s;
    struct buf out = {0};
    stage_init(&s, "");
    int control = dial(&s), idle = dial(&s);
    send_request(idle, CHAT, BODY);
    assert_int_equal(read_until(&s, idle, "[DONE]\n\n\r\n0\r\n\r\n", &out), 0);
    set_fault(&s, control, "{\"fault\":\"refuse\"}", &out);
    assert_int_equal(read_until(&s, idle, NULL, &out), 2);
    assert_int_equal(dial(&s), -1);
    set_fault(&s, control, "{\"fault\":\"ok\"}", &out);
    int fd = dial(&s);
    assert_true(fd >= 0);
    close(fd);
    close(idle);
    close(control);
    buf_fini(&out);
    stage_fini(&s);
}

static void turn_a_while(struct stage *s)
{
    for (int i = 0; i < 20; i++)
        loop_turn(s->loop, 2000);
}

/* Nothing is read, neither from a connection that was there before nor from a new one; afterwards both are answered. */
static void deaf_for_a_while(void **state)
{
    struct stage s;
    struct buf out = {0};
    char byte;
    stage_init(&s, "");
    int control = dial(&s), idle = dial(&s);
    send_request(idle, CHAT, BODY);
    assert_int_equal(read_until(&s, idle, "[DONE]\n\n\r\n0\r\n\r\n", &out), 0);
    set_fault(&s, control, "{\"fault\":\"deaf\"}", &out);
    int fd = dial(&s), leaves = dial(&s);
    send_request(fd, CHAT, BODY);
    send_request(idle, CHAT, BODY);
    send_request(leaves, CHAT, BODY);
    turn_a_while(&s);
    assert_true(read(fd, &byte, 1) == -1 && errno == EAGAIN);
    assert_true(read(idle, &byte, 1) == -1 && errno == EAGAIN);
    close(leaves);
    turn_a_while(&s);
    set_fault(&s, control, "{\"fault\":\"ok\"}", &out);
    assert_int_equal(read_until(&s, fd, "[DONE]\n\n\r\n0\r\n\r\n", &out), 0);
    assert_int_equal(read_until(&s, idle, "[DONE]\n\n\r\n0\r\n\r\n", &out), 0);
    send_request(control, "/_mock/state", "");
    assert_int_equal(read_until(&s, control, "}}", &out), 0);
    assert_non_null(strstr(buf_cstr(&out), "\"requests\":3,")); /* who left was never read */
    close(fd);
    close(idle);
    close(control);
    buf_fini(&out);
    stage_fini(&s);
}

/* No write is larger than told, and characters, line ends and chunk sizes are cut: each turn of the loop is one write,
 * and the test reads after each. */
static void pieces_are_small(void **state)
{
    static const struct {
        const char *order;
        size_t most;
    } table[] = {{"{\"fault\":\"split\"}", 1}, {"{\"fault\":\"split:5\"}", 5}, {"{\"fault\":\"drip:1\"}", 1}};
    struct stage s;
    struct buf whole = {0}, out = {0};
    stage_init(&s, "");
    int control = dial(&s), fd = dial(&s);
    send_request(fd, CHAT, BODY);
    assert_int_equal(read_until(&s, fd, "0\r\n\r\n", &whole), 0);
    for (size_t i = 0; i < RM_COUNTOF(table); i++) {
        set_fault(&s, control, table[i].order, &out);
        send_request(fd, CHAT, BODY);
        buf_clear(&out);
        for (int turn = 0; turn < 20000 && out.n < whole.n; turn++) {
            loop_turn(s.loop, 2000);
            ssize_t n = read(fd, buf_reserve(&out, 4096), 4096);
            assert_true(n <= (ssize_t)table[i].most);
            if (n > 0)
                buf_grew(&out, (size_t)n);
        }
        assert_int_equal(out.n, whole.n); /* the ids have as many digits */
        assert_true(bytes_ends_with(buf_bytes(&out), BYTES("data: [DONE]\n\n\r\n0\r\n\r\n")));
    }
    close(fd);
    close(control);
    buf_fini(&out);
    buf_fini(&whole);
    stage_fini(&s);
}

/* Whoever sends a request on a connection before the answer to the last one came is answered in order. */
static void requests_in_a_row(void **state)
{
    struct stage s;
    struct buf out = {0};
    stage_init(&s, "");
    int fd = dial(&s);
    send_request(fd, CHAT, BODY);
    send_request(fd, "/_mock/log", "");
    assert_int_equal(read_until(&s, fd, "\"hung_up_ms\":null}]", &out), 0);
    const char *done = strstr(buf_cstr(&out), "[DONE]"), *log = strstr(out.p, "\"answered\":true");
    assert_true(done != NULL && log > done);
    close(fd);
    buf_fini(&out);
    stage_fini(&s);
}

static void wants_its_key(void **state)
{
    struct stage s;
    struct buf out = {0};
    stage_init(&s, "sk-1");
    int fd = dial(&s);
    send_request(fd, CHAT, BODY);
    assert_int_equal(read_until(&s, fd, "}}", &out), 0);
    assert_memory_equal(out.p, "HTTP/1.1 401", 12);
    assert_non_null(strstr(buf_cstr(&out), "invalid_api_key"));
    close(fd);
    buf_fini(&out);
    stage_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_connection_many_answers),
        cmocka_unit_test(broken_connections),
        cmocka_unit_test(sees_who_hangs_up),
        cmocka_unit_test(refuses_and_comes_back),
        cmocka_unit_test(deaf_for_a_while),
        cmocka_unit_test(pieces_are_small),
        cmocka_unit_test(requests_in_a_row),
        cmocka_unit_test(wants_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

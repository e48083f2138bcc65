/* Dialling over loopback: literals, names, a refused first address, cancel, descriptors running out. */
#include "unit.h"

#include "base/mem.h"
#include "ends.h"
#include "names.h"
#include "net/dial.h"
#include "net/resolver_impl.h"
#include "net/tcp.h"

#include <errno.h>
#include <sys/resource.h>

static struct loop *l;
static struct resolver *r;
static struct names names;

struct client {
    struct end end;
    struct dial_result result;
    int n_calls;
};

static void on_dialled(const struct dial_result *result, void *arg)
{
    struct client *c = arg;
    c->result = *result;
    c->n_calls++;
    if (result->stream)
        end_attach(&c->end, result->stream);
}

static int open_all(void **state)
{
    l = loop_new();
    r = resolver_new(l, RESOLVER_CARES);
    return names_open(&names) && resolver_set_servers(r, names.servers) == ERR_OK ? 0 : -1;
}

static int close_all(void **state)
{
    resolver_free(r);
    loop_free(l);
    close(names.fd);
    assert_int_equal(mem_live(MEM_STREAM), 0);
    assert_int_equal(mem_live(MEM_CONN), 0);
    return 0;
}

static void dial(struct client *c, const char *host, uint16_t port)
{
    *c = (struct client){.n_calls = 0};
    dial_start(l, r, NULL, host, port, on_dialled, c);
    assert_int_equal(c->n_calls, 0);
    for (int i = 0; i < TURNS_MAX && c->n_calls == 0; i++) {
        names_serve(&names);
        loop_turn(l, 2000);
    }
    assert_int_equal(c->n_calls, 1);
}

static void talk(struct client *c, int listener)
{
    size_t n;
    struct end server = {0};
    struct stream *s;
    int fd = accept_one(l, listener);
    assert_int_equal(stream_accept(l, fd, &s), ERR_OK);
    end_attach(&server, s);
    assert_int_equal(end_write(&c->end, "ping", 4, &n), IO_OK);
    TURN_UNTIL(l, server.in.n == 4);
    assert_int_equal(end_write(&server, "pong!", 5, &n), IO_OK);
    TURN_UNTIL(l, c->end.in.n == 5);
    assert_memory_equal(c->end.in.p, "pong!", 5);
    end_close(&c->end, false);
    TURN_UNTIL(l, server.last == IO_EOF);
    end_close(&server, false);
}

static void literal_address(void **state)
{
    struct client c;
    uint16_t port;
    int listener = listen_somewhere(&port);
    dial(&c, "127.0.0.1", port);
    assert_int_equal(c.result.failure, DIAL_OK);
    char want[32], peer[64];
    snprintf(want, sizeof want, "127.0.0.1:%u", port);
    tcp_peer(c.end.stream, peer, sizeof peer);
    assert_string_equal(peer, want);
    talk(&c, listener);
    close(listener);
}

/* The server speaks first: the edge came while the dial still had the stream. */
static void early_bytes_are_not_lost(void **state)
{
    struct client c;
    uint16_t port;
    int listener = listen_somewhere(&port);
    dial(&c, "127.0.0.1", port);
    int fd = accept_one(l, listener);
    assert_int_equal(send(fd, "hello", 5, 0), 5);
    TURN_UNTIL(l, c.end.in.n == 5);
    end_close(&c.end, true);
    close(fd);
    close(listener);
}

static void refused(void **state)
{
    struct client c;
    uint16_t port;
    close(listen_somewhere(&port));
    dial(&c, "127.0.0.1", port);
    assert_int_equal(c.result.failure, DIAL_REFUSED);
    assert_non_null(strstr(c.result.message, "connection refused"));
    dial(&c, "::1", port);
    assert_int_equal(c.result.failure, DIAL_REFUSED);
}

static void unknown_name(void **state)
{
    struct client c;
    names.mood = NAMES_NXDOMAIN;
    dial(&c, "nobody.test", 80);
    assert_int_equal(c.result.failure, DIAL_DNS);
    assert_non_null(strstr(c.result.message, "nobody.test"));
}

/* 127.0.0.2 refuses, 127.0.0.1 listens: at once, not after 250 ms. */
static void refused_address_moves_on(void **state)
{
    struct client c;
    uint16_t port;
    int listener = listen_somewhere(&port);
    names.n_v4 = 2;
    memcpy(names.v4[0], (unsigned char[]){127, 0, 0, 2}, 4);
    memcpy(names.v4[1], (unsigned char[]){127, 0, 0, 1}, 4);
    uint64_t since = loop_now_us(l);
    dial(&c, "two.test", port);
    assert_int_equal(c.result.failure, DIAL_OK);
    assert_true(loop_now_us(l) - since < 200000);
    talk(&c, listener);
    close(listener);
}

/* A listener whose queue is full drops what comes: the address is silent. */
static int listen_silently(const char *host, uint16_t port, int fillers[3])
{
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, host, &at.sin_addr), 1);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 0), 0);
    for (int i = 0; i < 3; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        int done = connect(fillers[i], (struct sockaddr *)&at, sizeof at);
        assert_true(done == 0 || errno == EINPROGRESS);
    }
    return fd;
}

static void silent_address_is_overtaken(void **state)
{
    struct client c;
    uint16_t port;
    int fillers[3];
    int listener = listen_somewhere(&port);
    int silent = listen_silently("127.0.0.2", port, fillers);
    names.n_v4 = 2;
    memcpy(names.v4[0], (unsigned char[]){127, 0, 0, 2}, 4);
    memcpy(names.v4[1], (unsigned char[]){127, 0, 0, 1}, 4);
    uint64_t since = loop_now_us(l);
    dial(&c, "two.test", port);
    uint64_t took_us = loop_now_us(l) - since;
    assert_int_equal(c.result.failure, DIAL_OK);
    char peer[64];
    tcp_peer(c.end.stream, peer, sizeof peer);
    assert_memory_equal(peer, "127.0.0.1:", 10);
    assert_true(took_us >= 250000 && took_us < 900000);
    talk(&c, listener);
    for (int i = 0; i < 3; i++)
        close(fillers[i]);
    close(silent);
    close(listener);
}

static void name_of_the_hosts_file(void **state)
{
    struct client c;
    uint16_t port;
    int listener = listen_somewhere(&port);
    dial(&c, "localhost", port); /* maybe [::1] first, where nobody listens */
    assert_int_equal(c.result.failure, DIAL_OK);
    talk(&c, listener);
    close(listener);
}

static void cancel_at_each_step(void **state)
{
    struct client c = {.n_calls = 0};
    uint16_t port;
    int listener = listen_somewhere(&port);
    names.n_v4 = 1;
    memcpy(names.v4[0], (unsigned char[]){127, 0, 0, 1}, 4);
    dial_cancel(dial_start(l, r, NULL, "127.0.0.1", port, on_dialled, &c)); /* before it begins */
    loop_turn(l, 0);
    struct dial *d = dial_start(l, r, NULL, "slow.test", port, on_dialled, &c); /* in the question */
    loop_turn(l, 0);
    dial_cancel(d);
    loop_turn(l, 0);
    for (int i = 0; i < 5; i++) {
        names_serve(&names);
        loop_turn(l, 1000);
    }
    assert_int_equal(c.n_calls, 0);
    close(listener);
}

static void out_of_descriptors(void **state)
{
    struct client c;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3; /* all are in use */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    dial(&c, "127.0.0.1", 9);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(c.result.failure, DIAL_NO_DESCRIPTORS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(literal_address, open_all, close_all),
        cmocka_unit_test_setup_teardown(early_bytes_are_not_lost, open_all, close_all),
        cmocka_unit_test_setup_teardown(refused, open_all, close_all),
        cmocka_unit_test_setup_teardown(unknown_name, open_all, close_all),
        cmocka_unit_test_setup_teardown(refused_address_moves_on, open_all, close_all),
        cmocka_unit_test_setup_teardown(silent_address_is_overtaken, open_all, close_all),
        cmocka_unit_test_setup_teardown(name_of_the_hosts_file, open_all, close_all),
        cmocka_unit_test_setup_teardown(cancel_at_each_step, open_all, close_all),
        cmocka_unit_test_setup_teardown(out_of_descriptors, open_all, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

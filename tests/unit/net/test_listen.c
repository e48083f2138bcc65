/* Listening addresses and sockets. */
#include "unit.h"

#include "ends.h"

#include <string.h>

static void good_addresses(void **state)
{
    struct listen_address a;
    assert_true(listen_address_parse(BYTES("127.0.0.1:8080"), &a));
    assert_string_equal(a.host, "127.0.0.1");
    assert_int_equal(a.port, 8080);
    assert_true(listen_address_parse(BYTES("[::1]:0"), &a));
    assert_string_equal(a.host, "::1");
    assert_int_equal(a.port, 0);
    assert_true(listen_address_parse(BYTES("localhost:65535"), &a));
    assert_true(listen_address_parse(BYTES("gateway.example:80"), &a));
    assert_true(listen_address_parse(BYTES("0.0.0.0:8080"), &a));
}

static void bad_addresses(void **state)
{
    static const char *const bad[] = {
        "",       ":8080",     "8080",  "127.0.0.1", "127.0.0.1:", "a:65536",       "a:-1",
        "a: 1",   "::1:8080",  "[::1]", "[::1]8080", "[a]:8080",   "[127.0.0.1]:1", "http://a:80",
        "a b:80", "[::1:8080", "a:80/", "[]:80",     "[zz::]:80"};
    struct listen_address a;
    for (size_t i = 0; i < RM_COUNTOF(bad); i++)
        if (listen_address_parse(bytes_of(bad[i]), &a))
            fail_msg("taken: %s", bad[i]);
    char long_host[300];
    memset(long_host, 'a', sizeof long_host);
    memcpy(long_host + 290, ":80", 4);
    assert_false(listen_address_parse(bytes_of(long_host), &a));
}

static bool is_loopback(const char *text)
{
    struct listen_address a;
    assert_true(listen_address_parse(bytes_of(text), &a));
    return listen_address_is_loopback(&a);
}

static void loopback(void **state)
{
    assert_true(is_loopback("127.0.0.1:1"));
    assert_true(is_loopback("127.9.8.7:1"));
    assert_true(is_loopback("[::1]:1"));
    assert_true(is_loopback("LocalHost:1"));
    assert_false(is_loopback("0.0.0.0:1"));
    assert_false(is_loopback("[::]:1"));
    assert_false(is_loopback("128.0.0.1:1"));
    assert_false(is_loopback("localhost.example:1"));
}

static void busy_is_told(void **state)
{
    struct listen_address a, b;
    int fds[3], other[2];
    char message[200] = "";
    assert_true(listen_address_parse(BYTES("127.0.0.1:0"), &a));
    assert_int_equal(listen_open(&a, 3, fds, message, sizeof message), ERR_OK);
    assert_int_not_equal(a.port, 0);
    b = a;
    assert_int_equal(listen_open(&b, 2, other, message, sizeof message), ERR_BUSY);
    assert_non_null(strstr(message, "in use"));
    assert_int_equal(listen_open(&b, 1, other, message, sizeof message), ERR_BUSY);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    assert_int_equal(listen_open(&b, 1, other, message, sizeof message), ERR_OK);
    int shared[2];
    assert_int_equal(listen_open(&a, 2, shared, message, sizeof message), ERR_BUSY);
    assert_int_equal(listen_accept(other[0]), -1);
    close(other[0]);
}

static void bad_host_is_told(void **state)
{
    struct listen_address a = {.host = "203.0.113.7", .port = 0}; /* not ours */
    int fd;
    char message[200] = "";
    assert_int_equal(listen_open(&a, 1, &fd, message, sizeof message), ERR_IO);
    assert_non_null(strstr(message, "203.0.113.7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_addresses), cmocka_unit_test(bad_addresses),    cmocka_unit_test(loopback),
        cmocka_unit_test(busy_is_told),   cmocka_unit_test(bad_host_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

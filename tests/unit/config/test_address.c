#include "unit.h"

#include "config/address.h"

struct row {
    const char *text, *host, *path, *authority;
    unsigned port;
};

static void good_urls(void **state)
{
    static const struct row rows[] = {
        {"https://api.openai.com/v1", "api.openai.com", "/v1", "api.openai.com", 443},
        {"HTTPS://API.OpenAI.com/V1///", "api.openai.com", "/V1", "api.openai.com", 443},
        {"http://127.0.0.1:9101", "127.0.0.1", "", "127.0.0.1:9101", 9101},
        {"http://localhost:80/", "localhost", "", "localhost", 80},
        {"https://h:443/a/b-c_d~e", "h", "/a/b-c_d~e", "h", 443},
        {"http://h:443", "h", "", "h:443", 443},
        {"http://[::1]:11434/v1", "::1", "/v1", "[::1]:11434", 11434},
        {"https://[2001:DB8::1]", "2001:db8::1", "", "[2001:db8::1]", 443},
        {"https://r.openai.azure.com/openai/deployments/x", "r.openai.azure.com", "/openai/deployments/x",
         "r.openai.azure.com", 443},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct arena a = {0};
        struct url u;
        assert_null(address_parse_url(bytes_of(rows[i].text), &a, &u));
        assert_string_equal(u.host, rows[i].host);
        assert_string_equal(u.path, rows[i].path);
        assert_string_equal(u.authority, rows[i].authority);
        assert_int_equal(u.port, rows[i].port);
        assert_int_equal(u.is_tls, rows[i].text[4] == 's' || rows[i].text[4] == 'S');
        arena_fini(&a);
    }
}

static void bad_urls(void **state)
{
    static const char *const rows[] = {
        "",
        "h",
        "ftp://h",
        "https:/h",
        "https://",
        "http://:80",
        "http://h:",
        "http://h:0",
        "http://h:65536",
        "http://h:8a",
        "http://u@h",
        "http://u:p@h",
        "http://h?x",
        "http://h/#f",
        "http://h /",
        "http://h/a b",
        "http://h/\"",
        "http://h/{x}",
        "http://[::1",
        "http://[::1]80",
        "http://[x]",
        "http://::1",
        "http://a..b",
        "http://-a",
        "http://h\r\nX: y",
        "http://h/v1/messages",
        "http://h/\xc3\xa9",
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct arena a = {0};
        struct url u;
        if (address_parse_url(bytes_of(rows[i]), &a, &u) == NULL)
            fail_msg("accepted: %s", rows[i]);
        assert_non_null(u.host);
        assert_non_null(u.path);
        assert_non_null(u.authority);
        arena_fini(&a);
    }
}

static void listen_addresses(void **state)
{
    static const char *const loopback[] = {"127.0.0.1:8080", "127.9.9.9:1", "[::1]:8080", "localhost:0"};
    static const char *const outside[] = {"0.0.0.0:8080", "[::]:8080", "10.0.0.1:80", "[fe80::1]:80"};
    static const char *const bad[] = {"",
                                      ":8080",
                                      "8080",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "1.2.3:80",
                                      "1.2.3.4.5:8",
                                      "256.0.0.1:8",
                                      "host:80",
                                      "[::1]",
                                      "::1:80",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:80:81"};
    bool is_loopback;
    for (size_t i = 0; i < RM_COUNTOF(loopback); i++) {
        is_loopback = false;
        assert_null(address_parse_listen(bytes_of(loopback[i]), &is_loopback));
        assert_true(is_loopback);
        is_loopback = true;
        assert_null(address_parse_listen(bytes_of(outside[i]), &is_loopback));
        assert_false(is_loopback);
    }
    for (size_t i = 0; i < RM_COUNTOF(bad); i++)
        if (address_parse_listen(bytes_of(bad[i]), &is_loopback) == NULL)
            fail_msg("accepted: %s", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(good_urls), cmocka_unit_test(bad_urls),
                                       cmocka_unit_test(listen_addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Heads of requests: with a mould they are the same as without, whatever the client sent. */
#include "unit.h"

#include "upstream/request.h"

static const char *const traces[] = {"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"};

static struct provider_conf provider_of(const char *dialect, struct header_line *headers, size_t n)
{
    return (struct provider_conf){.name = "p",
                                  .dialect = dialect,
                                  .vendor = "generic",
                                  .url = {.host = "h.example", .path = "/v1", .authority = "h.example:81"},
                                  .api_key = BYTES("secret-key"),
                                  .headers = headers,
                                  .n_headers = n};
}

static void head_of(const struct provider_conf *p, const char *client, const struct fields *fields, bool is_stream,
                    const char *trace, struct buf *out)
{
    struct exchange_spec spec = {.provider = p,
                                 .target = dialect_by_name(bytes_of(p->dialect)),
                                 .client = client != NULL ? dialect_by_name(bytes_of(client)) : NULL,
                                 .client_fields = fields,
                                 .body = {.n_bytes = 4321},
                                 .is_stream = is_stream,
                                 .traceparent = bytes_of(trace)};
    buf_clear(out);
    request_put_head(&spec, out);
}

static void assert_mould_changes_nothing(struct provider_conf *p, const char *client, const struct fields *fields)
{
    struct buf with = {0}, without = {0};
    for (int is_stream = 0; is_stream < 2; is_stream++)
        for (size_t i = 0; i < sizeof traces / sizeof traces[0]; i++) {
            p->mould = NULL;
            head_of(p, client, fields, is_stream, traces[i], &without);
            p->mould = request_mould_new(p);
            head_of(p, client, fields, is_stream, traces[i], &with);
            request_mould_free(p->mould);
            assert_string_equal(buf_cstr(&with), buf_cstr(&without));
        }
    buf_fini(&with);
    buf_fini(&without);
}

static void moulds_change_nothing(void **state)
{
    static const char *const dialects[] = {"openai", "anthropic"};
    static const char *const clients[] = {"openai", "anthropic", NULL};
    struct field newer[] = {{BYTES("Anthropic-Version"), BYTES("2026-10-21")}, {BYTES("x-api-key"), BYTES("theirs")}};
    struct field older[] = {{BYTES("anthropic-version"), BYTES("2023-06-01")}, {BYTES("accept"), BYTES("*/*")}};
    struct field beta[] = {{BYTES("anthropic-beta"), BYTES("a-1")}, {BYTES("anthropic-beta"), BYTES("b-2")}};
    struct fields sent[] = {{.v = newer, .n = 2}, {.v = older, .n = 2}, {.v = beta, .n = 2}, {.v = NULL, .n = 0}};
    struct header_line replacing[] = {{"Accept", "x/y"},      {"host", "other"},       {"authorization", "Basic abc"},
                                      {"X-More", "1"},        {"traceparent", "none"}, {"content-length", "7"},
                                      {"x-bad", "a\r\nb: c"}, {"user-agent", "me"}};
    for (size_t d = 0; d < 2; d++)
        for (size_t n = 0; n <= sizeof replacing / sizeof replacing[0]; n++) {
            struct provider_conf p = provider_of(dialects[d], replacing, n);
            for (size_t c = 0; c < 3; c++)
                for (size_t i = 0; i < 4; i++)
                    assert_mould_changes_nothing(&p, clients[c], clients[c] != NULL ? &sent[i] : NULL);
        }
}

static void a_head_is_this(void **state)
{
    struct buf b = {0};
    struct header_line headers[] = {{"x-more", "1"}, {"accept", "x/y"}};
    struct provider_conf p = provider_of("openai", headers, 2);
    p.mould = request_mould_new(&p);
    head_of(&p, "openai", &(struct fields){0}, false, traces[1], &b);
    assert_string_equal(buf_cstr(&b),
                        "POST /v1/chat/completions HTTP/1.1\r\nhost: h.example:81\r\ncontent-length: 4321\r\n"
                        "content-type: application/json\r\nuser-agent: ringmain/" RINGMAIN_VERSION "\r\n"
                        "accept-encoding: identity\r\nauthorization: Bearer secret-key\r\n"
                        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
                        "x-more: 1\r\naccept: x/y\r\n\r\n");
    request_mould_free(p.mould);
    struct field v[] = {{BYTES("anthropic-version"), BYTES("2026-10-21")}, {BYTES("anthropic-beta"), BYTES("a-1")}};
    struct fields fields = {.v = v, .n = 2};
    p = provider_of("anthropic", NULL, 0);
    p.mould = request_mould_new(&p);
    head_of(&p, "anthropic", &fields, true, "", &b);
    assert_true(bytes_find(buf_bytes(&b), BYTES("anthropic-version: 2026-10-21\r\nanthropic-beta: a-1\r\n")) !=
                SIZE_MAX);
    head_of(&p, "openai", &fields, true, "", &b);
    assert_true(bytes_find(buf_bytes(&b), BYTES("anthropic-version: 2023-06-01\r\naccept: text/event-stream\r\n")) !=
                SIZE_MAX);
    assert_true(bytes_find(buf_bytes(&b), BYTES("anthropic-beta")) == SIZE_MAX);
    request_mould_free(p.mould);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(moulds_change_nothing), cmocka_unit_test(a_head_is_this)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

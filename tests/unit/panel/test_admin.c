#include "unit.h"

#include "ledger/ledger.h"
#include "panel/admin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void health(struct buf *out, void *arg)
{
    buf_puts(out, "{\"targets\":[]}");
}

static void metrics(struct buf *out, void *arg)
{
    buf_puts(out, "ringmain_up 1\n");
}

static struct panel_options options(void)
{
    return (struct panel_options){.listen = "127.0.0.1:0", .ledger_path = "", .health = health, .metrics = metrics};
}

struct probe {
    struct arena arena;
    struct head head;
};

static void parse(struct probe *p, const char *text)
{
    size_t used;
    const char *why;
    struct head_limits limits = {16384, 100};
    memset(p, 0, sizeof *p);
    assert_int_equal(head_parse(bytes_of(text), HEAD_REQUEST, false, &limits, &p->arena, &p->head, &used, &why),
                     HEAD_OK);
}

static unsigned check(const struct panel_options *o, const char *text)
{
    struct probe p;
    parse(&p, text);
    struct admin *a = admin_new(o);
    unsigned status = admin_check(a, &p.head);
    admin_free(a);
    arena_fini(&p.arena);
    return status;
}

static void without_a_secret(void **state)
{
    struct panel_options o = options();
    assert_int_equal(check(&o, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:8081\r\n\r\n"), 0);
    assert_int_equal(check(&o, "HEAD /metrics HTTP/1.1\r\nHost: LocalHost\r\n\r\n"), 0);
    assert_int_equal(check(&o, "GET /metrics HTTP/1.1\r\nHost: [::1]:1\r\n\r\n"), 0);
    assert_int_equal(check(&o, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403);
    assert_int_equal(check(&o, "GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n"), 403);
    assert_int_equal(check(&o, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:80x\r\n\r\n"), 403);
    assert_int_equal(check(&o, "GET http://evil.example/metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403);
    assert_int_equal(check(&o, "POST /api/requests HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
    assert_int_equal(check(&o, "OPTIONS /api/requests HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
}

static void with_a_secret(void **state)
{
    struct panel_options o = options();
    o.has_secret = true;
    SHA256((const unsigned char *)"open sesame", 11, o.secret_sha256);
    assert_int_equal(check(&o, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 401);
    assert_int_equal(check(&o, "GET / HTTP/1.1\r\nHost: x.example\r\nAuthorization: Bearer open sesame\r\n\r\n"), 0);
    assert_int_equal(check(&o, "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer open sesam\r\n\r\n"), 401);
    assert_int_equal(check(&o, "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: open sesame\r\n\r\n"), 401);
    assert_int_equal(check(&o, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer open sesame\r\n"
                               "Authorization: Bearer x\r\n\r\n"),
                     401);
}

static void get(struct admin *a, const char *target, unsigned want, const char *part)
{
    char text[256];
    struct probe p;
    struct admin_answer answer;
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
    parse(&p, text);
    admin_answer(a, &p.head, &answer);
    assert_int_equal(answer.status, want);
    if (strstr(buf_cstr(&answer.body), part) == NULL)
        fail_msg("%s: no %s in %s", target, part, answer.body.p);
    buf_fini(&answer.body);
    arena_fini(&p.arena);
}

static void paths(void **state)
{
    struct panel_options o = options();
    struct admin *a = admin_new(&o);
    get(a, "/metrics", 200, "ringmain_up 1");
    get(a, "/api/health", 200, "targets");
    get(a, "/", 404, "\"error\"");
    get(a, "/ui", 404, "\"error\"");
    get(a, "/admin/keys", 404, "no such path");
    get(a, "/api/requests", 404, "there is no ledger");
    get(a, "/api/requests?n=0", 400, "from 1 to 1000");
    get(a, "/api/requests?n=5&before=zzz", 400, "request id");
    admin_free(a);
}

static void requests(void **state)
{
    char dir[] = "/tmp/ringmain-panel-XXXXXX", db[96], path[128];
    assert_non_null(mkdtemp(dir));
    snprintf(db, sizeof db, "%s/t.db", dir);
    struct panel_options o = options();
    o.ledger_path = db;
    struct admin *a = admin_new(&o);
    get(a, "/api/requests", 503, "no such ledger"); /* and again once it is there */
    struct ledger_options lo = {.path = db, .access_log = "off", .flush_ms = 5, .queue_rows = 10, .n_rings = 1};
    struct ledger *l = NULL;
    char message[160] = "";
    assert_int_equal(ledger_open(&lo, &l, message, sizeof message), ERR_OK);
    struct request_record rec = {.id = 1, .route = "flagship", .outcome = OUTCOME_OK, .served_link = -1};
    assert_true(ledger_put(ledger_ring(l, 0), &rec));
    ledger_close(l);
    get(a, "/api/requests?n=5", 200, "[{\"id\":\"req_0000000000001\"");
    get(a, "/api/requests?before=req_0000000000001", 200, "[]");
    get(a, "/api/requests/req_0000000000001", 200, "\"route\":\"flagship\"");
    get(a, "/api/requests/req_0000000000002", 404, "no such request");
    get(a, "/api/requests/nonsense", 404, "no request id");
    admin_free(a);
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", db, ends[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void over_the_wire(void **state)
{
    struct panel_options o = options();
    struct panel *p = NULL;
    char message[160] = "", text[2048];
    assert_int_equal(panel_start(&o, &p, message, sizeof message), ERR_OK);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sa.sin_port = htons((uint16_t)strtoul(strrchr(panel_listen(p), ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    static const char ask[] = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    assert_int_equal(write(fd, ask, sizeof ask - 1), sizeof ask - 1);
    size_t n = 0;
    ssize_t got;
    while (n < sizeof text - 1 && (got = read(fd, text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(fd);
    assert_non_null(strstr(text, "HTTP/1.1 200"));
    assert_non_null(strstr(text, "\r\n\r\nringmain_up 1\n"));
    assert_null(strstr(text, "Access-Control"));
    panel_stop(p);
    o.listen = "0.0.0.0:0";
    assert_int_equal(panel_start(&o, &p, message, sizeof message), ERR_UNSUPPORTED);
    assert_non_null(strstr(message, "secret"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_secret), cmocka_unit_test(with_a_secret), cmocka_unit_test(paths),
        cmocka_unit_test(requests),         cmocka_unit_test(over_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "front_world.h"

#include "base/mem.h"
#include "http/body.h"

#include <openssl/evp.h>
#include <stdio.h>

enum { PIPE_BYTES = 1024 * 1024, TURNS_MAX = 10000 };

static void on_call(struct client_call *c, void *arg)
{
    struct front_world *w = arg;
    w->call = c;
    w->n_calls++;
}

static void on_gone(struct client_call *c, bool is_stall, void *arg)
{
    struct front_world *w = arg;
    (void)is_stall;
    assert_ptr_equal(c, w->call);
    w->call = NULL;
    w->n_gone++;
}

static void on_writable(struct client_call *c, void *arg)
{
    assert_false(call_is_full(c));
}

static void tell_ready(struct front_ready *out, struct arena *a, void *arg)
{
    *out = ((struct front_world *)arg)->ready;
}

static struct config *config_of(void *arg)
{
    return &((struct front_world *)arg)->config;
}

static uint64_t new_id(void *arg)
{
    return ++((struct front_world *)arg)->last_id;
}

static void on_refused(const struct request_record *rec, void *arg)
{
    struct front_world *w = arg;
    w->n_refused++;
    w->refused = *rec;
    snprintf(w->refused_route, sizeof w->refused_route, "%s", rec->route);
    assert_string_not_equal(rec->dialect, "");
}

static void on_peer(struct stream *s, unsigned ready, void *arg)
{
    struct front_world *w = arg;
    for (;;) {
        size_t n = 0;
        enum io r = stream_read(s, buf_reserve(&w->got, 4096), 4096, &n);
        if (r == IO_OK)
            buf_grew(&w->got, n);
        w->peer_eof = w->peer_eof || r == IO_EOF || r == IO_ERROR;
        if (r != IO_OK)
            return;
    }
}

static void connect_client(struct front_world *w)
{
    struct stream *ours;
    stream_pipe(w->loop, PIPE_BYTES, &w->peer, &ours);
    stream_on_ready(w->peer, on_peer, w);
    w->peer_eof = false;
    front_accept(w->front, ours);
}

static void make_config(struct front_world *w)
{
    static const char *const names[] = {"team-a", "team-b"};
    w->routes[0] = (struct route_conf){.model = "flagship"};
    w->routes[1] = (struct route_conf){.model = "mini", .index = 1};
    for (size_t i = 0; i < RM_COUNTOF(names); i++) {
        w->keys[i].name = names[i];
        assert_int_equal(EVP_Digest(names[i], strlen(names[i]), w->keys[i].sha256, NULL, EVP_sha256(), NULL), 1);
    }
    w->config.routes = w->routes;
    w->config.n_routes = RM_COUNTOF(w->routes);
    w->config.keys = w->keys;
    w->config.n_keys = RM_COUNTOF(w->keys);
    w->config.limits.json_depth = 64;
    atomic_init(&w->config.refs, 1);
}

int front_world_set_up(void **state)
{
    static const struct front_handler handler = {.on_call = on_call,
                                                 .on_gone = on_gone,
                                                 .on_writable = on_writable,
                                                 .ready = tell_ready,
                                                 .config = config_of,
                                                 .new_id = new_id,
                                                 .on_refused = on_refused};
    struct server_limits limits = {.head = {.bytes = 8192, .fields = 50},
                                   .body_bytes = 10000,
                                   .memory_bytes = 100000,
                                   .head_timeout_ms = 1000,
                                   .body_timeout_ms = 1000,
                                   .client_idle_ms = 5000,
                                   .client_stall_ms = 1000,
                                   .requests_per_connection = 1000,
                                   .connections = 10};
    struct front_world *w = mem_zalloc(sizeof *w);
    w->loop = loop_new();
    make_config(w);
    w->front = front_new(w->loop, &limits, &handler, w);
    connect_client(w);
    *state = w;
    return 0;
}

void front_world_settle(struct front_world *w)
{
    assert_true(loop_sim_run_to(w->loop, loop_now_us(w->loop), TURNS_MAX));
}

int front_world_tear_down(void **state)
{
    struct front_world *w = *state;
    front_world_hang_up(w);
    front_close(w->front);
    front_world_settle(w);
    assert_int_equal(front_n_conns(w->front), 0);
    front_free(w->front);
    loop_free(w->loop);
    assert_int_equal(atomic_load(&w->config.refs), 1); /* every call gave its reference back */
    buf_fini(&w->got);
    mem_free(w);
    for (int t = 0; t < MEM_N_TYPES; t++)
        assert_int_equal(mem_live((enum mem_type)t), 0);
    return 0;
}

void front_world_hang_up(struct front_world *w)
{
    if (w->peer != NULL)
        stream_close(w->peer, false);
    w->peer = NULL;
    front_world_settle(w);
}

void front_world_send(struct front_world *w, const char *request_line, const char *fields, const char *body)
{
    struct buf b = {0};
    size_t n = 0;
    if (w->peer_eof) {
        front_world_hang_up(w);
        connect_client(w);
    }
    buf_clear(&w->got);
    buf_printf(&b, "%s HTTP/1.1\r\nHost: h\r\n%s", request_line, fields);
    if (body != NULL)
        buf_printf(&b, "Content-Length: %zu\r\n", strlen(body));
    buf_puts(&b, "\r\n");
    buf_puts(&b, body != NULL ? body : "");
    struct iovec v = {.iov_base = b.p, .iov_len = b.n};
    assert_int_equal(stream_write(w->peer, &v, 1, &n), IO_OK);
    assert_int_equal(n, b.n);
    buf_fini(&b);
    front_world_settle(w);
}

bool front_world_has(const struct front_world *w, const char *text)
{
    return bytes_find(buf_bytes(&w->got), bytes_of(text)) != SIZE_MAX;
}

const char *front_world_body(struct front_world *w)
{
    struct bytes end = BYTES("\r\n\r\n"), all = buf_bytes(&w->got);
    size_t at = bytes_find(all, end);
    assert_true(at != SIZE_MAX);
    struct bytes in = bytes_slice(all, at + end.n, all.n), data;
    if (bytes_find(bytes_slice(all, 0, at), BYTES("transfer-encoding: chunked")) == SIZE_MAX) {
        buf_drop(&w->got, at + end.n);
        return buf_cstr(&w->got);
    }
    struct buf body = {0};
    struct body_reader reader;
    body_init(&reader, FRAMING_CHUNKED, 0);
    enum body_result r;
    while ((r = body_next(&reader, &in, &data)) == BODY_DATA)
        buf_put(&body, data);
    assert_int_not_equal(r, BODY_BAD);
    if (r == BODY_END)
        buf_puts(&body, "<end>");
    buf_fini(&w->got);
    w->got = body;
    return buf_cstr(&w->got);
}

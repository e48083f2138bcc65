/* Exchanges over real loopback sockets: a scripted provider and the exchange run on one loop. What the exchange tells
 * is written down as a line of words and compared. */
#include "unit.h"

#include "base/mem.h"
#include "http/body.h"
#include "net/listen.h"
#include "upstream/upstream.h"

#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

#define CHUNK(content) \
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0," content "}]}\n\n"
#define HELLO CHUNK("\"delta\":{\"content\":\"Hello\"},\"finish_reason\":null")
#define STOP CHUNK("\"delta\":{},\"finish_reason\":\"stop\"")
#define DONE "data: [DONE]\n\n"
#define JSON                                                                                                      \
    "{\"id\":\"c\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\"," \
    "\"content\":\"Whole\"},\"finish_reason\":\"stop\"}]}"

enum { REPLIES_MAX = 4, CONNS_MAX = 4, TURNS_MAX = 3000, SILENT = 0, KEEP, FIN, RST };

/* What the provider does with the n-th request of its i-th connection. */
struct reply {
    struct buf bytes;
    int then;
    bool bytewise;
};
struct peer {
    struct world *world;
    struct stream *stream;
    struct buf in, out;
    size_t n_requests;
    struct timer timer;
    int then;
    bool bytewise, saw_close;
};
struct world {
    struct loop *loop;
    struct resolver *resolver;
    struct upstream *upstream;
    struct watch watch;
    struct reply replies[CONNS_MAX][REPLIES_MAX];
    struct peer peers[CONNS_MAX];
    size_t n_peers;
    struct provider_conf provider;
    struct buf request; /* the last whole request */
    /* the exchange's side */
    struct exchange *exchange;
    struct buf log, text, raw;
    struct failure failure;
    bool is_over, is_reach_noted, closes_at_output, pauses_at_head, was_told;
    struct bytes body;
    struct pieces pieces; /* in place of `body`, where there are any */
};

/* ---- the provider ---- */

static void peer_close(struct peer *p, bool reset)
{
    if (p->stream == NULL)
        return;
    timer_cancel(p->world->loop, &p->timer);
    stream_close(p->stream, reset);
    p->stream = NULL;
}

static void peer_write(struct peer *p)
{
    while (p->stream != NULL && p->out.n > 0) {
        size_t n = 0;
        struct iovec v = {p->out.p, p->bytewise ? 1 : p->out.n};
        enum io r = stream_write(p->stream, &v, 1, &n);
        if (r != IO_OK)
            return;
        buf_drop(&p->out, n);
        if (p->bytewise && p->out.n > 0) {
            timer_arm(p->world->loop, &p->timer, loop_now_us(p->world->loop) + 1);
            return;
        }
    }
    if (p->stream != NULL && (p->then == FIN || p->then == RST))
        peer_close(p, p->then == RST);
}

static void on_peer_timer(struct timer *t)
{
    peer_write(RM_CONTAINER(t, struct peer, timer));
}

static bool has_request(struct peer *p)
{
    struct head_limits limits = {8192, 50};
    struct arena arena = {0};
    struct head h;
    size_t used = 0;
    const char *why = NULL;
    enum head_result r = head_parse(buf_bytes(&p->in), HEAD_REQUEST, false, &limits, &arena, &h, &used, &why);
    arena_fini(&arena);
    assert_true(r == HEAD_OK || r == HEAD_MORE);
    size_t whole = used + h.content_length;
    if (r != HEAD_OK || p->in.n < whole)
        return false;
    buf_clear(&p->world->request);
    buf_put(&p->world->request, bytes_slice(buf_bytes(&p->in), 0, whole));
    buf_drop(&p->in, whole);
    return true;
}

static void on_peer(struct stream *s, unsigned ready, void *arg)
{
    struct peer *p = arg;
    struct world *w = p->world;
    char bytes[4096];
    size_t n = 0;
    enum io r;
    while ((r = stream_read(s, bytes, sizeof bytes, &n)) == IO_OK)
        buf_put(&p->in, (struct bytes){bytes, n});
    if (r != IO_AGAIN) {
        p->saw_close = true;
        peer_close(p, false);
        return;
    }
    while (has_request(p)) {
        assert_true(p->n_requests < REPLIES_MAX);
        struct reply *reply = &w->replies[p - w->peers][p->n_requests++];
        buf_put(&p->out, buf_bytes(&reply->bytes));
        p->then = reply->then;
        p->bytewise = reply->bytewise;
        peer_write(p);
        if (p->stream == NULL)
            return;
    }
    peer_write(p);
}

static void on_listen(struct watch *watch, unsigned ready)
{
    struct world *w = RM_CONTAINER(watch, struct world, watch);
    int fd = listen_accept(watch->fd);
    if (fd < 0)
        return;
    assert_true(w->n_peers < CONNS_MAX);
    struct peer *p = &w->peers[w->n_peers++];
    p->world = w;
    p->timer.fn = on_peer_timer;
    assert_int_equal(stream_accept(w->loop, fd, &p->stream), ERR_OK);
    stream_on_ready(p->stream, on_peer, p);
}

/* ---- the world ---- */

static void world_init(struct world *w)
{
    *w = (struct world){.watch = {.fn = on_listen, .fd = -1, .is_level = true}, .body = BYTES("{\"model\":\"m\"}")};
    struct listen_address a = {.host = "127.0.0.1"};
    char message[128];
    w->loop = loop_new();
    w->resolver = resolver_new(w->loop, RESOLVER_CARES);
    w->upstream = upstream_new(w->loop, w->resolver);
    assert_int_equal(listen_open(&a, 1, &w->watch.fd, message, sizeof message), ERR_OK);
    assert_int_equal(watch_add(w->loop, &w->watch), ERR_OK);
    w->provider =
        (struct provider_conf){.name = "p",
                               .dialect = "openai",
                               .vendor = "",
                               .api_key = BYTES("secret-key-000001"),
                               .url = {.host = "127.0.0.1", .port = a.port, .path = "/v1", .authority = "h:1"}};
}

static void world_fini(struct world *w)
{
    if (w->exchange != NULL)
        exchange_close(w->exchange);
    upstream_free(w->upstream);
    for (size_t i = 0; i < w->n_peers; i++) {
        peer_close(&w->peers[i], false);
        buf_fini(&w->peers[i].in);
        buf_fini(&w->peers[i].out);
    }
    for (size_t i = 0; i < CONNS_MAX; i++)
        for (size_t k = 0; k < REPLIES_MAX; k++)
            buf_fini(&w->replies[i][k].bytes);
    int fd = w->watch.fd;
    watch_del(w->loop, &w->watch);
    close(fd);
    resolver_free(w->resolver);
    loop_turn(w->loop, 0);
    loop_free(w->loop);
    buf_fini(&w->request);
    buf_fini(&w->log);
    buf_fini(&w->text);
    buf_fini(&w->raw);
    assert_int_equal(mem_live(MEM_EXCHANGE), 0);
    assert_int_equal(mem_live(MEM_CONN), 0);
    assert_int_equal(mem_live(MEM_STREAM), 0);
}

/* Replies: `type` NULL = the bytes as they are. */
static struct reply *reply(struct world *w, size_t conn, size_t n, unsigned status, const char *type, struct bytes body,
                           int then)
{
    struct reply *r = &w->replies[conn][n];
    r->then = then;
    if (type == NULL) {
        buf_put(&r->bytes, body);
        return r;
    }
    head_put_status(&r->bytes, status);
    head_put_field(&r->bytes, "content-type", bytes_of(type));
    head_put_field(&r->bytes, "x-request-id", BYTES("prov-1"));
    head_put_field_u64(&r->bytes, "content-length", body.n);
    head_put_end(&r->bytes);
    buf_put(&r->bytes, body);
    return r;
}

/* A chunked SSE answer, one chunk per character of `cuts`' worth; without the last chunk when it is to be cut. */
static struct reply *reply_stream(struct world *w, size_t conn, size_t n, const char *body, bool is_whole, int then)
{
    struct reply *r = &w->replies[conn][n];
    struct bytes rest = bytes_of(body);
    char head[BODY_CHUNK_HEAD_BYTES];
    r->then = then;
    head_put_status(&r->bytes, 200);
    buf_puts(&r->bytes, "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    while (rest.n > 0) {
        struct bytes part = bytes_slice(rest, 0, 50);
        buf_put(&r->bytes, (struct bytes){head, body_chunk_head(head, part.n)});
        buf_put(&r->bytes, part);
        buf_puts(&r->bytes, "\r\n");
        rest = bytes_slice(rest, part.n, rest.n);
    }
    if (is_whole)
        buf_puts(&r->bytes, "0\r\n\r\n");
    return r;
}

/* ---- the exchange's side ---- */

static void note_output(struct world *w, const struct exchange_event *ev)
{
    const struct output *out = &ev->out;
    buf_put(&w->raw, out->raw);
    w->was_told = exchange_is_told(w->exchange);
    for (size_t i = 0; i < out->n; i++)
        if (out->v[i].kind == EVENT_TEXT)
            buf_put(&w->text, out->v[i].text);
}

static void note_reach(struct world *w)
{
    struct exchange_reach reach = exchange_reached(w->exchange);
    if (w->is_reach_noted || !reach.is_connected)
        return;
    w->is_reach_noted = true;
    buf_puts(&w->log, reach.connect_us < 0 ? "reused " : "connected ");
    if (reach.is_sent)
        buf_puts(&w->log, "sent ");
}

static void note(struct world *w, const struct exchange_event *ev)
{
    switch (ev->kind) {
    case EXCHANGE_NOTHING:
    case EXCHANGE_FLUSH:
        return;
    case EXCHANGE_REPLAYED:
        buf_puts(&w->log, "replayed ");
        return;
    case EXCHANGE_HEAD:
        note_reach(w);
        buf_printf(&w->log, "head=%u ", ev->status);
        if (ev->provider_request_id.p != NULL)
            assert_true(bytes_is(ev->provider_request_id, "prov-1"));
        return;
    case EXCHANGE_OUTPUT:
        note_output(w, ev);
        return;
    case EXCHANGE_ENDED:
        buf_puts(&w->log, "ended");
        w->is_over = true;
        return;
    case EXCHANGE_FAILED:
        w->failure = *ev->failure;
        note_reach(w);
        buf_printf(&w->log, "failed=%s", outcome_word(ev->failure->outcome));
        w->is_over = true;
        return;
    }
}

static void close_exchange(struct world *w)
{
    exchange_close(w->exchange);
    w->exchange = NULL;
}

static void on_exchange(struct exchange *x, void *arg)
{
    struct world *w = arg;
    struct exchange_event ev;
    for (int i = 0; i < 1000; i++) {
        exchange_next(x, &ev);
        note(w, &ev);
        if (ev.kind == EXCHANGE_NOTHING)
            return;
        if (ev.kind == EXCHANGE_HEAD && w->pauses_at_head)
            exchange_pause(x);
        if (w->is_over || (ev.kind == EXCHANGE_OUTPUT && w->closes_at_output)) {
            close_exchange(w);
            return;
        }
    }
    fail();
}

static void open_exchange(struct world *w, uint32_t connect_ms)
{
    struct exchange_spec spec = {.provider = &w->provider,
                                 .target = dialect_by_name(bytes_of(w->provider.dialect)),
                                 .client = dialect_by_name(BYTES("openai")),
                                 .client_fields = &(const struct fields){0},
                                 .body = w->pieces.n > 0 ? w->pieces
                                                         : (struct pieces){.v = &w->body, .n = 1, .n_bytes = w->body.n},
                                 .is_stream = true,
                                 .connect_timeout_ms = connect_ms,
                                 .max_depth = 32,
                                 .max_event = 65536,
                                 .max_body = 1 << 20,
                                 .traceparent = BYTES("00-1-2-01"),
                                 .ready = on_exchange,
                                 .arg = w};
    buf_clear(&w->log);
    buf_clear(&w->text);
    buf_clear(&w->raw);
    w->is_over = w->is_reach_noted = false;
    w->exchange = exchange_open(w->upstream, &spec);
}

static void run(struct world *w)
{
    for (int i = 0; i < TURNS_MAX && w->exchange != NULL; i++)
        loop_turn(w->loop, 5000);
    assert_null(w->exchange);
}

static void turns(struct world *w, int n)
{
    for (int i = 0; i < n; i++)
        loop_turn(w->loop, 1000);
}

static void once(struct world *w, const char *log, const char *text)
{
    open_exchange(w, 1000);
    run(w);
    assert_string_equal(buf_cstr(&w->log), log);
    assert_string_equal(buf_cstr(&w->text), text);
}

/* ---- tests ---- */

static void test_stream_then_reuse(void **state)
{
    struct world w;
    world_init(&w);
    reply_stream(&w, 0, 0, HELLO STOP DONE, true, KEEP);
    reply_stream(&w, 0, 1, HELLO HELLO STOP DONE, true, KEEP)->bytewise = true;
    reply(&w, 0, 2, 200, "application/json", BYTES(JSON), KEEP);
    once(&w, "connected sent head=200 ended", "Hello");
    assert_string_equal(buf_cstr(&w.raw), HELLO STOP DONE);
    assert_int_equal(upstream_n_idle(w.upstream), 1);
    once(&w, "reused sent head=200 ended", "HelloHello");
    turns(&w, 20); /* the last chunk comes after [DONE]: it is read away */
    assert_int_equal(upstream_n_idle(w.upstream), 1);
    once(&w, "reused sent head=200 ended", "Whole");
    assert_string_equal(buf_cstr(&w.raw), JSON);
    assert_int_equal(w.n_peers, 1);
    world_fini(&w);
}

static void test_request_as_sent(void **state)
{
    struct world w;
    struct header_line lines[] = {{"User-Agent", "mine/1"}, {"X-Extra", "1"}, {"Content-Length", "7"}};
    world_init(&w);
    w.provider.headers = lines;
    w.provider.n_headers = 3;
    reply(&w, 0, 0, 200, "application/json", BYTES(JSON), KEEP);
    once(&w, "connected sent head=200 ended", "Whole");
    struct bytes r = buf_bytes(&w.request);
    assert_true(bytes_starts_with(r, BYTES("POST /v1/chat/completions HTTP/1.1\r\nhost: h:1\r\n")));
    assert_true(bytes_find(r, BYTES("\r\nauthorization: Bearer secret-key-000001\r\n")) != SIZE_MAX);
    assert_true(bytes_find(r, BYTES("\r\ncontent-type: application/json\r\n")) != SIZE_MAX);
    assert_true(bytes_find(r, BYTES("\r\naccept-encoding: identity\r\n")) != SIZE_MAX);
    assert_true(bytes_find(r, BYTES("\r\ncontent-length: 13\r\n")) != SIZE_MAX);
    assert_true(bytes_find(r, BYTES("\r\ntraceparent: 00-1-2-01\r\n")) != SIZE_MAX);
    assert_true(bytes_find(r, BYTES("\r\nUser-Agent: mine/1\r\nX-Extra: 1\r\n\r\n{\"model\":\"m\"}")) != SIZE_MAX);
    assert_true(bytes_find(r, BYTES("ringmain/")) == SIZE_MAX);
    assert_true(bytes_find(r, BYTES("Content-Length: 7")) == SIZE_MAX);
    world_fini(&w);
}

static void test_refusals(void **state)
{
    struct world w;
    world_init(&w);
    reply(&w, 0, 0, 429, "application/json",
          BYTES("{\"error\":{\"message\":\"Slow down, secret-key-000001\",\"type\":\"rate_limit_error\"}}"), KEEP);
    reply(&w, 0, 1, 503, "text/html", BYTES("<html>busy</html>"), KEEP);
    reply(&w, 0, 2, 302, "text/plain", BYTES("away"), KEEP);
    reply(&w, 1, 0, 500, NULL, BYTES("HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\n{\"error\":"), FIN);
    once(&w, "connected sent head=429 failed=rate_limited", "");
    assert_int_equal(w.failure.status, 429);
    assert_string_equal(w.failure.message, "Slow down, [key]");
    assert_int_equal(w.failure.class, FAILURE_RATE);
    once(&w, "reused sent head=503 failed=overloaded", "");
    assert_true(bytes_find(bytes_of(w.failure.message), BYTES("<")) == SIZE_MAX);
    once(&w, "reused sent head=302 failed=protocol_error", "");
    once(&w, "connected sent head=500 failed=server_error", "");
    assert_int_equal(w.n_peers, 2);
    world_fini(&w);
}

static void test_fresh_break_before_head(void **state)
{
    struct world w;
    world_init(&w);
    reply(&w, 0, 0, 0, NULL, BYTES(""), RST);
    reply(&w, 1, 0, 0, NULL, BYTES("HTTP/1.1 20"), FIN);
    reply(&w, 2, 0, 0, NULL, BYTES("SSH-2.0-x\r\n"), KEEP);
    once(&w, "connected sent failed=connect_error", "");
    assert_true(w.failure.is_established);
    assert_false(w.failure.is_unsent);
    once(&w, "connected sent failed=stream_error", "");
    once(&w, "connected sent failed=protocol_error", "");
    world_fini(&w);
}

static void test_reused_break_is_replayed_once(void **state)
{
    struct world w;
    world_init(&w);
    reply_stream(&w, 0, 0, HELLO STOP DONE, true, KEEP);
    reply(&w, 0, 1, 0, NULL, BYTES(""), RST);
    reply_stream(&w, 1, 0, HELLO STOP DONE, true, KEEP);
    reply(&w, 1, 1, 0, NULL, BYTES(""), FIN);
    reply(&w, 2, 0, 0, NULL, BYTES(""), FIN);
    once(&w, "connected sent head=200 ended", "Hello");
    once(&w, "replayed connected sent head=200 ended", "Hello");
    once(&w, "replayed connected sent failed=connect_error", "");
    assert_false(w.failure.is_reused);
    world_fini(&w);
}

static void test_idle_close_is_noticed(void **state)
{
    struct world w;
    world_init(&w);
    reply_stream(&w, 0, 0, HELLO STOP DONE, true, KEEP);
    reply_stream(&w, 1, 0, HELLO STOP DONE, true, KEEP);
    once(&w, "connected sent head=200 ended", "Hello");
    peer_close(&w.peers[0], false);
    turns(&w, 5);
    assert_int_equal(upstream_n_idle(w.upstream), 0);
    once(&w, "connected sent head=200 ended", "Hello");
    world_fini(&w);
}

static void test_cut_streams(void **state)
{
    struct world w;
    world_init(&w);
    reply_stream(&w, 0, 0, HELLO HELLO, false, FIN);
    reply_stream(&w, 1, 0, HELLO HELLO, false, RST);
    reply_stream(&w, 2, 0, HELLO HELLO, true, KEEP);
    reply_stream(&w, 2, 1, HELLO STOP, true, KEEP);
    once(&w, "connected sent head=200 failed=stream_error", "HelloHello");
    assert_int_equal(w.failure.status, 200);
    open_exchange(&w, 1000);
    run(&w);
    assert_string_equal(buf_cstr(&w.log), "connected sent head=200 failed=stream_error");
    once(&w, "connected sent head=200 failed=stream_error", "HelloHello");
    once(&w, "reused sent head=200 ended", "Hello");
    world_fini(&w);
}

/* Nobody waits for the end of an answer that was told whole. */
static void test_a_whole_answer_closed_when_told(void **state)
{
    struct world w;
    world_init(&w);
    reply(&w, 0, 0, 200, "application/json", BYTES(JSON), KEEP);
    reply(&w, 0, 1, 200, "application/json", BYTES(JSON), KEEP)->bytewise = true;
    reply_stream(&w, 0, 2, HELLO STOP DONE, true, KEEP);
    w.closes_at_output = true;
    for (int i = 0; i < 2; i++) {
        open_exchange(&w, 1000);
        run(&w);
        assert_string_equal(buf_cstr(&w.log), i == 0 ? "connected sent head=200 " : "reused sent head=200 ");
        assert_string_equal(buf_cstr(&w.text), "Whole");
        assert_true(w.was_told);
        assert_int_equal(upstream_n_idle(w.upstream), 1);
    }
    open_exchange(&w, 1000);
    run(&w);
    assert_string_equal(buf_cstr(&w.log), "reused sent head=200 ");
    assert_false(w.was_told);
    assert_int_equal(upstream_n_idle(w.upstream), 0);
    world_fini(&w);
}

static void test_cancel_reaches_the_peer(void **state)
{
    struct world w;
    world_init(&w);
    reply_stream(&w, 0, 0, HELLO, false, KEEP);
    reply_stream(&w, 1, 0, HELLO STOP DONE, true, KEEP);
    w.closes_at_output = true;
    open_exchange(&w, 1000);
    run(&w);
    turns(&w, 5);
    assert_true(w.peers[0].saw_close);
    assert_false(w.was_told);
    assert_int_equal(upstream_n_idle(w.upstream), 0);
    w.closes_at_output = false;
    once(&w, "connected sent head=200 ended", "Hello");
    world_fini(&w);
}

static void test_pause_holds_everything_back(void **state)
{
    struct world w;
    world_init(&w);
    reply_stream(&w, 0, 0, HELLO STOP DONE, true, KEEP);
    w.pauses_at_head = true;
    open_exchange(&w, 1000);
    turns(&w, 20);
    assert_non_null(w.exchange);
    assert_string_equal(buf_cstr(&w.log), "connected sent head=200 ");
    assert_int_equal(w.text.n, 0);
    w.pauses_at_head = false;
    exchange_resume(w.exchange);
    run(&w);
    assert_string_equal(buf_cstr(&w.text), "Hello");
    world_fini(&w);
}

static void test_interim_heads_and_limits(void **state)
{
    struct world w;
    world_init(&w);
    struct buf b = {0};
    buf_puts(&b, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
                 "content-type: application/json\r\n\r\n" JSON);
    reply(&w, 0, 0, 0, NULL, buf_bytes(&b), FIN)->bytewise = true;
    buf_clear(&b);
    for (int i = 0; i < 20; i++)
        buf_puts(&b, "HTTP/1.1 100 Continue\r\n\r\n");
    reply(&w, 1, 0, 0, NULL, buf_bytes(&b), KEEP);
    once(&w, "connected sent head=200 ended", "Whole");
    once(&w, "connected sent failed=protocol_error", "");
    assert_int_equal(upstream_n_idle(w.upstream), 0);
    buf_fini(&b);
    world_fini(&w);
}

static void test_refused_and_silent_connects(void **state)
{
    struct world w;
    world_init(&w);
    uint16_t port = w.provider.url.port;
    struct listen_address a = {.host = "127.0.0.1"};
    char message[128];
    int fd = -1;
    assert_int_equal(listen_open(&a, 1, &fd, message, sizeof message), ERR_OK);
    close(fd);
    w.provider.url.port = a.port;
    once(&w, "failed=connect_error", "");
    assert_true(w.failure.is_unsent);
    assert_false(w.failure.is_established);
    assert_int_equal(w.failure.status, 0);
    w.provider.url.port = port;
    w.provider.url.host = "192.0.2.1"; /* TEST-NET-1: nobody answers, or the kernel says unreachable */
    open_exchange(&w, 50);
    run(&w);
    assert_true(w.failure.outcome == OUTCOME_CONNECT_TIMEOUT || w.failure.outcome == OUTCOME_CONNECT_ERROR);
    assert_true(w.failure.is_unsent);
    world_fini(&w);
}

/* A listener whose queue is full drops what comes: the kernel's form of silence. */
static void test_connect_timeout(void **state)
{
    struct world w;
    world_init(&w);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    int fillers[4];
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&sa, sizeof sa);
    }
    w.provider.url.port = ntohs(sa.sin_port);
    open_exchange(&w, 60);
    run(&w);
    assert_string_equal(buf_cstr(&w.log), "failed=connect_timeout");
    assert_true(w.failure.is_unsent);
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
    close(fd);
    world_fini(&w);
}

static void test_close_while_connecting_or_waiting(void **state)
{
    struct world w;
    world_init(&w);
    open_exchange(&w, 1000);
    close_exchange(&w);
    turns(&w, 3);
    open_exchange(&w, 1000);
    for (int i = 0; i < 100 && bytes_find(buf_bytes(&w.log), BYTES("sent")) == SIZE_MAX; i++)
        turns(&w, 1);
    close_exchange(&w);
    for (int i = 0; i < 100 && w.n_peers > 0 && !w.peers[w.n_peers - 1].saw_close; i++)
        turns(&w, 1);
    assert_true(w.peers[w.n_peers - 1].saw_close);
    world_fini(&w);
}

/* Short ones are written in one piece, longer ones as what they consist of: the provider sees no difference. */
static void test_request_of_pieces(void **state)
{
    static const size_t sizes[] = {3, 100, 3000, 3071, 3072, 3073, 5000};
    static char text[5000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 26);
    for (size_t i = 0; i < RM_COUNTOF(sizes); i++) {
        struct bytes all = bytes_from(text, sizes[i]);
        struct bytes v[] = {
            bytes_slice(all, 0, 1), bytes_slice(all, 1, all.n - 1), {NULL, 0}, bytes_slice(all, all.n - 1, all.n)};
        struct world w;
        world_init(&w);
        w.pieces = (struct pieces){.v = v, .n = RM_COUNTOF(v), .n_bytes = all.n};
        reply(&w, 0, 0, 200, "application/json", BYTES(JSON), KEEP);
        once(&w, "connected sent head=200 ended", "Whole");
        size_t end = bytes_find(buf_bytes(&w.request), BYTES("\r\n\r\n"));
        assert_true(bytes_eq(bytes_slice(buf_bytes(&w.request), end + 4, w.request.n), all));
        world_fini(&w);
    }
}

/* More than the socket takes at once, so the write is continued piece by piece. */
static void test_large_request(void **state)
{
    struct world w;
    struct buf big = {0};
    world_init(&w);
    while (big.n < 6000000)
        buf_puts(&big, "0123456789abcdefghijklmnopqrstuvwxyz");
    w.body = buf_bytes(&big);
    reply(&w, 0, 0, 200, "application/json", BYTES(JSON), KEEP);
    once(&w, "connected sent head=200 ended", "Whole");
    assert_true(bytes_ends_with(buf_bytes(&w.request), w.body));
    assert_int_equal(upstream_n_idle(w.upstream), 1);
    buf_fini(&big);
    world_fini(&w);
}

static void test_gzip(void **state)
{
    struct world w;
    char packed[2048];
    struct buf b = {0};
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)JSON, .avail_in = sizeof JSON - 1};
    z.next_out = (unsigned char *)packed;
    z.avail_out = sizeof packed;
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = sizeof packed - z.avail_out;
    deflateEnd(&z);
    world_init(&w);
    head_put_status(&b, 200);
    head_put_field(&b, "content-type", BYTES("application/json"));
    head_put_field(&b, "content-encoding", BYTES("gzip"));
    head_put_field_u64(&b, "content-length", n);
    head_put_end(&b);
    buf_put(&b, (struct bytes){packed, n});
    reply(&w, 0, 0, 0, NULL, buf_bytes(&b), KEEP);
    once(&w, "connected sent head=200 ended", "Whole");
    assert_string_equal(buf_cstr(&w.raw), JSON);
    buf_fini(&b);
    world_fini(&w);
}

static void test_warm_and_prune(void **state)
{
    struct world w;
    world_init(&w);
    reply_stream(&w, 0, 0, HELLO STOP DONE, true, KEEP);
    upstream_warm(w.upstream, &w.provider);
    upstream_warm(w.upstream, &w.provider);
    for (int i = 0; i < 200 && upstream_n_idle(w.upstream) == 0; i++)
        turns(&w, 1);
    assert_int_equal(upstream_n_idle(w.upstream), 1);
    upstream_warm(w.upstream, &w.provider);
    once(&w, "reused sent head=200 ended", "Hello");
    assert_int_equal(w.n_peers, 1);
    struct config now = {.providers = &w.provider, .n_providers = 1};
    upstream_prune(w.upstream, &now);
    assert_int_equal(upstream_n_idle(w.upstream), 1);
    upstream_prune(w.upstream, NULL);
    assert_int_equal(upstream_n_idle(w.upstream), 0);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_then_reuse),
        cmocka_unit_test(test_request_as_sent),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_fresh_break_before_head),
        cmocka_unit_test(test_reused_break_is_replayed_once),
        cmocka_unit_test(test_idle_close_is_noticed),
        cmocka_unit_test(test_cut_streams),
        cmocka_unit_test(test_a_whole_answer_closed_when_told),
        cmocka_unit_test(test_cancel_reaches_the_peer),
        cmocka_unit_test(test_pause_holds_everything_back),
        cmocka_unit_test(test_interim_heads_and_limits),
        cmocka_unit_test(test_refused_and_silent_connects),
        cmocka_unit_test(test_connect_timeout),
        cmocka_unit_test(test_close_while_connecting_or_waiting),
        cmocka_unit_test(test_request_of_pieces),
        cmocka_unit_test(test_large_request),
        cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_warm_and_prune),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

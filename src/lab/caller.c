#include "lab/caller.h"

#include "base/mem.h"
#include "http/client.h"
#include "net/dial.h"

struct caller {
    struct loop *loop;
    struct resolver *resolver;
    const struct caller_ask *ask;
    struct arena *arena;
    struct caller_answer *answer;
    struct client_conn *conn;
    struct dial *dial;
    struct timer timer;
    struct buf head, body;
    struct bytes piece;
    uint64_t start_us;
    const char *why;               /* NULL while it goes well */
    struct client_request request; /* of head and piece */
    bool is_done;
};

struct caller *caller_new(void)
{
    struct caller *c = mem_zalloc(sizeof *c);
    c->loop = loop_new();
    RM_ASSERT(c->loop != NULL);
    c->resolver = resolver_new(c->loop, RESOLVER_SYSTEM);
    return c;
}

void caller_free(struct caller *c)
{
    if (c == NULL)
        return;
    resolver_free(c->resolver);
    loop_turn(c->loop, 0);
    loop_free(c->loop);
    buf_fini(&c->head);
    buf_fini(&c->body);
    mem_free(c);
}

static void finish(struct caller *c, const char *why)
{
    c->why = why;
    c->is_done = true;
    loop_stop(c->loop);
}

static void keep_head(struct caller *c, const struct head *h)
{
    struct caller_answer *a = c->answer;
    a->status = h->status;
    a->fields.n = h->fields.n;
    a->fields.v = ARENA_ARRAY(c->arena, struct field, h->fields.n + 1);
    for (size_t i = 0; i < h->fields.n; i++)
        a->fields.v[i] =
            (struct field){arena_dup(c->arena, h->fields.v[i].name), arena_dup(c->arena, h->fields.v[i].value)};
}

static void keep_body(struct caller *c, struct bytes part)
{
    uint64_t at = loop_now_us(c->loop) - c->start_us;
    if (c->answer->first_body_us == 0)
        c->answer->first_body_us = at;
    buf_put(&c->body, part);
    if (c->ask->on_body != NULL)
        c->ask->on_body(part, at, c->ask->arg);
}

static void on_conn(struct client_conn *conn, void *arg)
{
    struct caller *c = arg;
    struct client_event ev;
    while (!c->is_done) {
        client_conn_next(conn, &ev);
        switch (ev.kind) {
        case CLIENT_NOTHING:
            return;
        case CLIENT_HEAD:
            keep_head(c, ev.head);
            break;
        case CLIENT_USED_UP:
            break;
        case CLIENT_BODY:
            keep_body(c, ev.body);
            break;
        case CLIENT_END:
            finish(c, NULL);
            break;
        case CLIENT_BROKEN:
        case CLIENT_BAD:
            finish(c, ev.why);
            break;
        }
    }
}

static void on_dial(const struct dial_result *r, void *arg)
{
    struct caller *c = arg;
    c->dial = NULL;
    if (r->failure != DIAL_OK) {
        finish(c, arena_dup(c->arena, bytes_of(r->message)).p);
        return;
    }
    c->conn = client_conn_new(c->loop, r->stream);
    c->request = (struct client_request){buf_bytes(&c->head), &c->piece, c->piece.n > 0};
    client_conn_send(c->conn, &c->request, on_conn, c);
}

static void on_timeout(struct timer *t)
{
    finish(RM_CONTAINER(t, struct caller, timer), "no whole answer in time");
}

static void write_head(struct caller *c)
{
    buf_clear(&c->head);
    head_put_request(&c->head, c->ask->method, bytes_of(c->ask->path), bytes_of(c->ask->host));
    if (c->ask->body.n > 0) {
        head_put_field(&c->head, "content-type", BYTES("application/json"));
        head_put_field_u64(&c->head, "content-length", c->ask->body.n);
    }
    head_put_field(&c->head, "connection", BYTES("close"));
    head_put_end(&c->head);
}

enum err caller_do(struct caller *c, const struct caller_ask *ask, struct arena *a, struct caller_answer *out,
                   const char **why)
{
    *out = (struct caller_answer){0};
    c->ask = ask;
    c->arena = a;
    c->answer = out;
    c->is_done = false;
    c->why = NULL;
    c->piece = ask->body;
    buf_clear(&c->body);
    write_head(c);
    loop_turn(c->loop, 0);
    c->start_us = loop_now_us(c->loop);
    c->timer.fn = on_timeout;
    timer_arm(c->loop, &c->timer, c->start_us + ask->timeout_us);
    c->dial = dial_start(c->loop, c->resolver, NULL, ask->host, ask->port, on_dial, c);
    loop_run(c->loop);
    timer_cancel(c->loop, &c->timer);
    if (c->dial != NULL)
        dial_cancel(c->dial);
    if (c->conn != NULL)
        client_conn_close(c->conn);
    c->dial = NULL;
    c->conn = NULL;
    loop_turn(c->loop, 0);
    out->total_us = loop_now_us(c->loop) - c->start_us;
    out->body = arena_dup(a, buf_bytes(&c->body));
    *why = c->why;
    return c->why == NULL ? ERR_OK : ERR_IO;
}

/* Ends are told from a task, not from where they were found: there the connection is still in the middle of its call.
 */
#include "lab/fb_ask.h"

#include <stdio.h>

static void let_go(struct fb_ask *a)
{
    timer_cancel(a->loop, &a->timer);
    task_cancel(&a->ended);
    if (a->dial != NULL)
        dial_cancel(a->dial);
    if (a->conn != NULL)
        client_conn_close(a->conn);
    a->dial = NULL;
    a->conn = NULL;
    a->is_running = false;
}

static void on_ended(struct task *t)
{
    struct fb_ask *a = RM_CONTAINER(t, struct fb_ask, ended);
    char why[sizeof a->why];
    let_go(a);
    snprintf(why, sizeof why, "%s", a->why);
    a->handlers->on_end(a, a->is_broken ? why : NULL, a->is_timeout);
}

/* why NULL = well. The first end counts. */
static void end(struct fb_ask *a, const char *why)
{
    if (!a->is_running)
        return;
    a->is_running = false;
    a->is_broken = why != NULL;
    snprintf(a->why, sizeof a->why, "%s", why != NULL ? why : "");
    loop_post(a->loop, &a->ended);
}

static void on_timeout(struct timer *t)
{
    struct fb_ask *a = RM_CONTAINER(t, struct fb_ask, timer);
    a->is_timeout = a->is_running;
    end(a, "no end in time");
}

static uint64_t since_start(const struct fb_ask *a)
{
    uint64_t us = loop_now_us(a->loop) - a->start_us;
    return us > 0 ? us : 1;
}

static void on_conn(struct client_conn *conn, void *arg)
{
    struct fb_ask *a = arg;
    struct client_event ev;
    while (a->is_running) {
        client_conn_next(conn, &ev);
        if (ev.kind == CLIENT_NOTHING)
            return;
        if (ev.kind == CLIENT_HEAD && a->handlers->on_head != NULL)
            a->handlers->on_head(a, ev.head->status, fields_get(&ev.head->fields, "content-type"));
        else if (ev.kind == CLIENT_BODY && a->handlers->on_body != NULL &&
                 !a->handlers->on_body(a, ev.body, since_start(a)))
            end(a, NULL);
        else if (ev.kind == CLIENT_END)
            end(a, NULL);
        else if (ev.kind == CLIENT_BROKEN || ev.kind == CLIENT_BAD)
            end(a, ev.why != NULL ? ev.why : "the connection broke");
    }
}

static void on_dial(const struct dial_result *r, void *arg)
{
    struct fb_ask *a = arg;
    a->dial = NULL;
    if (r->failure != DIAL_OK) {
        end(a, r->message);
        return;
    }
    a->conn = client_conn_new(a->loop, r->stream);
    a->request = (struct client_request){buf_bytes(&a->head), &a->body, a->body.n > 0};
    client_conn_send(a->conn, &a->request, on_conn, a);
}

static void write_head(struct fb_ask *a, const struct fb_target *to, const char *method, const char *path)
{
    struct buf text = {0};
    buf_printf(&text, "%s%s", to->prefix, path);
    buf_clear(&a->head);
    head_put_request(&a->head, method, buf_bytes(&text), bytes_of(to->host));
    if (*to->key != '\0') {
        buf_clear(&text);
        buf_printf(&text, "Bearer %s", to->key);
        head_put_field(&a->head, "authorization", buf_bytes(&text));
    }
    if (a->body.n > 0 || strcmp(method, "POST") == 0) {
        head_put_field(&a->head, "content-type", BYTES("application/json"));
        head_put_field_u64(&a->head, "content-length", a->body.n);
    }
    head_put_field(&a->head, "connection", BYTES("close"));
    head_put_end(&a->head);
    buf_fini(&text);
}

void fb_ask_init(struct fb_ask *a, struct loop *l, struct resolver *r, const struct fb_ask_handlers *h)
{
    *a = (struct fb_ask){.handlers = h, .loop = l, .resolver = r, .timer.fn = on_timeout, .ended.fn = on_ended};
    list_init(&a->ended.node);
}

void fb_ask_start(struct fb_ask *a, const struct fb_target *to, const char *method, const char *path, struct bytes body,
                  uint64_t timeout_us)
{
    RM_ASSERT(!a->is_running && a->conn == NULL && a->dial == NULL);
    a->body = body;
    a->is_running = true;
    a->is_broken = a->is_timeout = false;
    a->start_us = loop_now_us(a->loop);
    write_head(a, to, method, path);
    timer_arm(a->loop, &a->timer, a->start_us + timeout_us);
    a->dial = dial_start(a->loop, a->resolver, to->tls, to->host, to->port, on_dial, a);
}

void fb_ask_shorten(struct fb_ask *a, uint64_t timeout_us)
{
    if (a->is_running && loop_now_us(a->loop) + timeout_us < a->timer.at_us)
        timer_arm(a->loop, &a->timer, loop_now_us(a->loop) + timeout_us);
}

void fb_ask_fini(struct fb_ask *a)
{
    if (a->loop != NULL)
        let_go(a);
    buf_fini(&a->head);
}

/* A connection reads one request, gets a script (script.h), plays it step by step with a timer, and watches all the
 * time whether the client leaves.
 *
 *     READING --request--> PLAYING --last step--> READING (keep) | closed (FIN, RST) | HANGING --client leaves-->
 * closed
 */
#include "lab/mock.h"

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/json_write.h"
#include "http/body.h"
#include "http/head.h"
#include "lab/mock_ask.h"
#include "lab/mock_log.h"
#include "lab/script.h"
#include "net/listen.h"
#include "net/stream.h"

#include <stdio.h>
#include <unistd.h>

enum { READ_BYTES = 65536, BODY_BYTES_MAX = 64 << 20, PIPELINED_BYTES_MAX = 1 << 20, WORDS_MAX = 100000 };

struct mock {
    struct loop *loop;
    struct list providers;
    uint64_t n_requests;
};

struct provider {
    struct list node;
    struct mock *mock;
    struct mock_conf conf;
    char *texts[3]; /* owned: model, key, words */
    struct listen_address address;
    struct watch listener;
    int fd; /* -1 = closed by the fault `refuse` */
    struct list conns;
    struct fault faults[FAULT_LIST_MAX];
    size_t n_faults, fault_at;
    struct mock_log log;
};

enum conn_state { CONN_READING, CONN_PLAYING, CONN_HANGING, CONN_CLOSED };

struct conn {
    struct list node;
    struct provider *provider;
    struct stream *stream;
    struct reap reap;
    struct timer timer;
    enum conn_state state;
    struct buf in, out;
    /* the request */
    struct arena arena;
    bool has_head;
    struct head head;
    struct body_reader reader;
    struct buf body;
    uint64_t seen; /* its number in the log; 0 = not logged */
    /* the answer */
    struct script script;
    size_t step;
    bool has_waited;   /* the pause before `step` is over */
    bool closes_after; /* the client asked for it */
};

/* ---- closing ---- */

static void conn_reaped(struct reap *r)
{
    struct conn *c = RM_CONTAINER(r, struct conn, reap);
    buf_fini(&c->in);
    buf_fini(&c->out);
    buf_fini(&c->body);
    arena_fini(&c->arena);
    mem_free(c);
}

static void conn_close(struct conn *c, bool reset)
{
    if (c->state == CONN_CLOSED)
        return;
    c->state = CONN_CLOSED;
    list_del(&c->node);
    timer_cancel(c->provider->mock->loop, &c->timer);
    stream_close(c->stream, reset);
    c->reap.fn = conn_reaped;
    loop_reap(c->provider->mock->loop, &c->reap);
}

static struct seen *seen_of(struct conn *c)
{
    return mock_log_find(&c->provider->log, c->seen);
}

/* The client left. */
static void conn_gone(struct conn *c)
{
    struct seen *s = seen_of(c);
    if (s != NULL && c->state != CONN_READING && !s->is_answered)
        s->hung_up_ms = (int64_t)(loop_now_us(c->provider->mock->loop) - s->arrived_us) / 1000;
    conn_close(c, false);
}

/* ---- the listener ---- */

static void conn_ready(struct stream *s, unsigned ready, void *arg);
static void conn_timer(struct timer *t);

static void on_connection(struct watch *w, unsigned ready)
{
    struct provider *p = RM_CONTAINER(w, struct provider, listener);
    int fd;
    for (int i = 0; i < 64 && (fd = listen_accept(w->fd)) >= 0; i++) {
        struct stream *s;
        if (stream_accept(p->mock->loop, fd, &s) != ERR_OK)
            continue;
        struct conn *c = mem_zalloc(sizeof *c);
        c->provider = p;
        c->stream = s;
        c->timer.fn = conn_timer;
        list_put(&p->conns, &c->node);
        stream_on_ready(s, conn_ready, c);
    }
}

static enum err open_listener(struct provider *p, char *message, size_t cap)
{
    if (p->fd >= 0)
        return ERR_OK;
    enum err e = listen_open(&p->address, 1, &p->fd, message, cap);
    if (e != ERR_OK) {
        p->fd = -1;
        return e;
    }
    p->listener = (struct watch){.fn = on_connection, .fd = p->fd, .is_level = true};
    e = watch_add(p->mock->loop, &p->listener);
    if (e != ERR_OK) {
        snprintf(message, cap, "the listener cannot be watched");
        close(p->fd);
        p->fd = -1;
    }
    return e;
}

/* As if the process had died: no listener, and all connections but `spared` are reset. */
static void close_listener(struct provider *p, struct conn *spared)
{
    if (p->fd >= 0) {
        watch_del(p->mock->loop, &p->listener);
        close(p->fd);
        p->fd = -1;
    }
    LIST_EACH(&p->conns, node)
    {
        struct conn *c = LIST_ITEM(node, struct conn, node);
        if (c != spared)
            conn_close(c, true);
    }
}

/* ---- faults ---- */

static void set_faults(struct provider *p, const struct fault *f, size_t n, struct conn *asker)
{
    char message[160];
    memcpy(p->faults, f, n * sizeof *f);
    p->n_faults = n;
    p->fault_at = 0;
    if (n > 0 && f[0].kind == FAULT_REFUSE)
        close_listener(p, asker);
    else if (open_listener(p, message, sizeof message) != ERR_OK)
        LOG(LOG_ERROR, "lab", "-", "port %u: %s", p->address.port, message);
}

/* The fault of the next request; takes it off the list when its times are up. */
static struct fault next_fault(struct provider *p)
{
    struct fault none;
    fault_parse(BYTES("ok"), &none);
    while (p->fault_at < p->n_faults && p->faults[p->fault_at].times == 0)
        p->fault_at++;
    if (p->fault_at == p->n_faults)
        return none;
    struct fault *f = &p->faults[p->fault_at];
    if (f->times > 0)
        f->times--;
    return *f;
}

/* ---- playing a script ---- */

static void read_more(struct conn *c);

static void finish(struct conn *c)
{
    struct seen *s = seen_of(c);
    enum script_end end = c->script.end;
    if (end == SCRIPT_HANG) {
        c->state = CONN_HANGING;
        return;
    }
    if (s != NULL)
        s->is_answered = true;
    if (end != SCRIPT_KEEP || c->closes_after) {
        conn_close(c, end == SCRIPT_RST);
        return;
    }
    c->state = CONN_READING;
    c->seen = 0;
    c->has_head = false;
    arena_fini(&c->arena);
    buf_clear(&c->body);
    read_more(c); /* a pipelined request may wait */
}

/* False = the client is gone, and so is the connection. */
static bool flush(struct conn *c)
{
    while (c->out.n > 0) {
        size_t n = 0;
        struct iovec v = {c->out.p, c->out.n};
        enum io io = stream_write(c->stream, &v, 1, &n);
        if (io == IO_AGAIN)
            return true;
        if (io != IO_OK) {
            conn_gone(c);
            return false;
        }
        buf_drop(&c->out, n);
    }
    return true;
}

/* Plays what is due; arms the timer for the next pause. */
static void play(struct conn *c)
{
    struct loop *l = c->provider->mock->loop;
    while (c->step < c->script.n) {
        const struct script_step *s = &c->script.steps[c->step];
        if (s->delay_us > 0 && !c->has_waited) {
            timer_arm(l, &c->timer, loop_now_us(l) + s->delay_us);
            break;
        }
        c->has_waited = false;
        buf_put(&c->out, s->data);
        c->step++;
    }
    if (flush(c) && c->step == c->script.n && c->out.n == 0)
        finish(c);
}

static void conn_timer(struct timer *t)
{
    struct conn *c = RM_CONTAINER(t, struct conn, timer);
    c->has_waited = true;
    play(c);
}

static void start_script(struct conn *c)
{
    struct seen *s = seen_of(c);
    if (s != NULL)
        s->status = c->script.status;
    c->state = CONN_PLAYING;
    c->step = 0;
    c->has_waited = false;
    play(c);
}

/* ---- answering ---- */

static void answer_json(struct conn *c, unsigned status, const struct buf *json)
{
    script_json(status, buf_bytes(json), &c->arena, &c->script);
}

static void answer_message(struct conn *c, unsigned status, const char *name, const char *message)
{
    struct buf json = {0};
    struct json_writer w;
    jw_init(&w, &json);
    jw_object(&w);
    jw_key(&w, name);
    jw_cstr(&w, message);
    jw_end(&w);
    answer_json(c, status, &json);
    buf_fini(&json);
}

/* The provider that a control request means: {"provider": PORT}, else the one that was asked. */
static struct provider *meant(struct conn *c)
{
    struct provider *p = c->provider;
    size_t at = bytes_find(buf_bytes(&c->body), BYTES("\"provider\":"));
    if (at == SIZE_MAX)
        return p;
    struct bytes rest = bytes_trim(bytes_slice(buf_bytes(&c->body), at + 11, c->body.n));
    size_t n = 0;
    while (n < rest.n && rest.p[n] >= '0' && rest.p[n] <= '9')
        n++;
    uint64_t port = 0;
    if (!bytes_to_u64(bytes_slice(rest, 0, n), &port))
        return p;
    LIST_EACH(&p->mock->providers, node)
    {
        struct provider *other = LIST_ITEM(node, struct provider, node);
        if (other->address.port == port)
            return other;
    }
    return NULL;
}

static void answer_control(struct conn *c)
{
    struct provider *p = meant(c);
    struct bytes path = c->head.path;
    struct fault faults[FAULT_LIST_MAX];
    size_t n = 0;
    const char *why = p == NULL ? "no provider listens on that port" : NULL;
    if (why == NULL && bytes_is(path, "/_mock/log")) {
        struct buf json = {0};
        mock_log_json(&p->log, &json);
        answer_json(c, 200, &json);
        buf_fini(&json);
        return;
    }
    if (why == NULL && bytes_is(path, "/_mock/fault"))
        why = mock_ask_control(buf_bytes(&c->body), &c->arena, faults, &n);
    else if (why == NULL && bytes_is(path, "/_mock/reset"))
        mock_log_clear(&p->log);
    else if (why == NULL)
        why = "control is POST /_mock/fault, GET /_mock/log, POST /_mock/reset";
    if (why != NULL) {
        answer_message(c, 400, "error", why);
        return;
    }
    set_faults(p, faults, n, c);
    answer_message(c, 200, "fault", n > 0 ? fault_word(&faults[0]) : "ok");
}

static bool is_chat_path(const struct conn *c)
{
    struct bytes end = c->provider->conf.dialect == SHAPE_OPENAI ? BYTES("/chat/completions") : BYTES("/v1/messages");
    return bytes_is(c->head.method, "POST") && bytes_ends_with(c->head.path, end);
}

static bool has_key(const struct conn *c)
{
    struct bytes key = bytes_of(c->provider->conf.key), got = fields_get(&c->head.fields, "authorization");
    if (key.n == 0)
        return true;
    if (c->provider->conf.dialect == SHAPE_ANTHROPIC)
        return bytes_eq(fields_get(&c->head.fields, "x-api-key"), key);
    return bytes_eq(bytes_slice(got, 0, 7), BYTES("Bearer ")) && bytes_eq(bytes_slice(got, 7, got.n), key);
}

static void answer_status(struct conn *c, const struct shape_request *r, unsigned status, const char *message)
{
    struct shape_error e;
    shape_error_of_status(r->dialect, status, &e);
    if (message != NULL)
        e.message = message;
    script_error(r, &e, &c->arena, &c->script);
}

static void note_chat(struct conn *c, const struct mock_ask *ask, const struct fault *f)
{
    struct seen *s = seen_of(c);
    if (s == NULL)
        return;
    snprintf(s->model, sizeof s->model, "%.*s", (int)ask->model.n, ask->model.p != NULL ? ask->model.p : "");
    s->is_stream = ask->is_stream;
    if (f->kind == FAULT_STATUS)
        snprintf(s->fault, sizeof s->fault, "%u", f->status);
    else if (f->kind != FAULT_NONE)
        snprintf(s->fault, sizeof s->fault, "%s", fault_word(f));
}

static void answer_chat(struct conn *c, struct shape_request *r)
{
    const struct mock_conf *conf = &c->provider->conf;
    struct mock_ask ask;
    const char *why = mock_ask_read(buf_bytes(&c->body), conf->dialect, &c->arena, &ask);
    struct fault f = ask.has_marker ? ask.marker : next_fault(c->provider);
    note_chat(c, &ask, &f);
    if (why != NULL) {
        answer_status(c, r, 400, why);
        return;
    }
    r->model = *conf->model != '\0' ? conf->model : arena_dup(&c->arena, ask.model).p;
    r->is_stream = ask.is_stream;
    r->wants_usage = ask.wants_usage;
    r->has_usage = !conf->no_usage;
    r->prompt_tokens = ask.prompt_tokens;
    r->is_cut_short = ask.max_tokens >= 0 && ask.max_tokens < conf->tokens;
    r->n_words = r->is_cut_short ? ask.max_tokens : conf->tokens;
    r->words = conf->words;
    struct script_pace pace = {conf->ttft_ms * (uint64_t)1000, conf->gap_ms * (uint64_t)1000};
    script_chat(r, &pace, &f, &c->arena, &c->script);
}

static void answer(struct conn *c)
{
    struct mock *m = c->provider->mock;
    c->closes_after = !c->head.keep_alive;
    if (bytes_starts_with(c->head.path, BYTES("/_mock/"))) {
        answer_control(c);
        start_script(c);
        return;
    }
    struct seen *s = mock_log_add(&c->provider->log, &c->head);
    c->seen = s->n;
    s->wall_ms = loop_wall_ms(m->loop);
    s->arrived_us = loop_now_us(m->loop);
    s->body_bytes = c->body.n;
    struct shape_request r = {
        .dialect = c->provider->conf.dialect, .n = ++m->n_requests, .created_s = s->wall_ms / 1000, .model = ""};
    if (!has_key(c))
        answer_status(c, &r, 401, NULL);
    else if (!is_chat_path(c))
        answer_status(c, &r, 404, "Invalid URL");
    else
        answer_chat(c, &r);
    start_script(c);
}

/* ---- reading ---- */

static void refuse(struct conn *c, unsigned status)
{
    c->closes_after = true;
    answer_message(c, status, "error", head_reason(status));
    start_script(c);
}

/* False = more is needed, or the request was refused. */
static bool read_head(struct conn *c)
{
    static const struct head_limits limits = {65536, 200};
    size_t used = 0;
    const char *why;
    struct bytes held = buf_bytes(&c->in);
    enum head_result r = head_parse(held, HEAD_REQUEST, false, &limits, &c->arena, &c->head, &used, &why);
    if (r == HEAD_MORE)
        return false;
    if (r != HEAD_OK) {
        refuse(c, 400);
        return false;
    }
    /* The views must survive the buffer: parse again from a copy in the arena. */
    struct bytes copy = arena_dup(&c->arena, bytes_slice(held, 0, used));
    r = head_parse(copy, HEAD_REQUEST, false, &limits, &c->arena, &c->head, &used, &why);
    RM_ASSERT(r == HEAD_OK);
    buf_drop(&c->in, used);
    body_init(&c->reader, c->head.framing, c->head.content_length);
    c->has_head = true;
    if (c->head.expects_continue) {
        buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
        return flush(c);
    }
    return true;
}

static void read_more(struct conn *c)
{
    if (c->state != CONN_READING || (!c->has_head && (c->in.n == 0 || !read_head(c))))
        return;
    struct bytes in = buf_bytes(&c->in), part;
    enum body_result r;
    while ((r = body_next(&c->reader, &in, &part)) == BODY_DATA && c->body.n + part.n <= BODY_BYTES_MAX)
        buf_put(&c->body, part);
    buf_drop(&c->in, c->in.n - in.n);
    if (r == BODY_END)
        answer(c);
    else if (r != BODY_MORE)
        refuse(c, r == BODY_DATA ? 413 : 400);
}

static void conn_ready(struct stream *s, unsigned ready, void *arg)
{
    struct conn *c = arg;
    if (c->out.n > 0 && !flush(c))
        return;
    for (;;) {
        size_t n = 0;
        char *to = buf_reserve(&c->in, READ_BYTES);
        enum io io = stream_read(s, to, READ_BYTES, &n);
        if (io == IO_AGAIN)
            break;
        if (io != IO_OK || c->in.n > PIPELINED_BYTES_MAX + BODY_BYTES_MAX) {
            conn_gone(c);
            return;
        }
        buf_grew(&c->in, n);
        if (n < READ_BYTES)
            break;
    }
    if (c->state == CONN_READING)
        read_more(c);
    else if (c->state == CONN_PLAYING && c->step == c->script.n && c->out.n == 0)
        finish(c);
}

/* ---- the whole ---- */

void mock_conf_init(struct mock_conf *c)
{
    *c = (struct mock_conf){.listen = "127.0.0.1:9101",
                            .model = "",
                            .key = "",
                            .words = "The lamps stay lit because the ring has two ways round.",
                            .ttft_ms = 40,
                            .gap_ms = 10,
                            .tokens = 16};
}

struct mock *mock_new(struct loop *l)
{
    struct mock *m = mem_zalloc(sizeof *m);
    m->loop = l;
    list_init(&m->providers);
    return m;
}

static void provider_free(struct provider *p)
{
    close_listener(p, NULL);
    mock_log_clear(&p->log);
    for (size_t i = 0; i < RM_COUNTOF(p->texts); i++)
        mem_free(p->texts[i]);
    list_del(&p->node);
    mem_free(p);
}

enum err mock_add(struct mock *m, const struct mock_conf *c, uint16_t *port, char *message, size_t message_cap)
{
    struct provider *p = mem_zalloc(sizeof *p);
    p->mock = m;
    p->fd = -1;
    p->conf = *c;
    const char **const texts[] = {&p->conf.model, &p->conf.key, &p->conf.words};
    for (size_t i = 0; i < RM_COUNTOF(texts); i++)
        *texts[i] = p->texts[i] = mem_dup(*texts[i], strlen(*texts[i]));
    if (p->conf.tokens > WORDS_MAX)
        p->conf.tokens = WORDS_MAX;
    list_init(&p->conns);
    list_put(&m->providers, &p->node);
    enum err e = ERR_SYNTAX;
    if (!listen_address_parse(bytes_of(c->listen), &p->address))
        snprintf(message, message_cap, "'%s' is not host:port", c->listen);
    else
        e = open_listener(p, message, message_cap);
    if (e != ERR_OK) {
        provider_free(p);
        return e;
    }
    *port = p->address.port;
    set_faults(p, c->faults, c->n_faults, NULL);
    return ERR_OK;
}

void mock_free(struct mock *m)
{
    LIST_EACH(&m->providers, node)
    close_listener(LIST_ITEM(node, struct provider, node), NULL);
    loop_turn(m->loop, 0);
    LIST_EACH(&m->providers, node)
    provider_free(LIST_ITEM(node, struct provider, node));
    mem_free(m);
}

#include "provider.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

enum { READ_BYTES = 4096, PIECE_BYTES = 300, PIECE_GAP_US = 3000 };

/* ---- what the words say ---- */

#define CHUNK_OF_OPENAI \
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":"

struct wording {
    const char *role, *token_before, *token_after, *finish, *usage, *done, *error, *json_before, *json_after;
};
static const struct wording openai = {
    .role = CHUNK_OF_OPENAI
    "[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
    .token_before = CHUNK_OF_OPENAI "[{\"index\":0,\"delta\":{\"content\":\"",
    .token_after = "\"},\"finish_reason\":null}]}\n\n",
    .finish = CHUNK_OF_OPENAI "[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    .usage = CHUNK_OF_OPENAI "[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8}}\n\n",
    .done = "data: [DONE]\n\n",
    .error = "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"code\":null}}\n\n",
    .json_before =
        "{\"id\":\"c1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,"
        "\"message\":{\"role\":\"assistant\",\"content\":\"",
    .json_after = "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,"
                  "\"total_tokens\":8}}",
};
static const struct wording anthropic = {
    .role = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"type\":\"message\","
            "\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
            "\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: "
            "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    .token_before = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
                    "{\"type\":\"text_delta\",\"text\":\"",
    .token_after = "\"}}\n\n",
    .finish = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: "
              "message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\","
              "\"stop_sequence\":null},\"usage\":{\"output_tokens\":3}}\n\n",
    .usage = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .done = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    .error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"broken\"}}\n\n",
    .json_before = "{\"id\":\"m1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":"
                   "\"text\",\"text\":\"",
    .json_after = "\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":5,"
                  "\"output_tokens\":3}}",
};

static const struct wording *wording_of(const struct peer *p)
{
    return p->provider->is_anthropic ? &anthropic : &openai;
}

static void put_chunk(struct peer *p, struct bytes text)
{
    buf_printf(&p->out, "%zx\r\n", text.n);
    buf_put(&p->out, text);
    buf_puts(&p->out, "\r\n");
}

static void put_mark(struct peer *p, struct buf *out)
{
    bool is_same = p->provider->is_deterministic;
    buf_printf(out, "~%s.%u.%u~", is_same ? "s" : p->provider->name, is_same ? 1 : p->request, p->n_tokens++);
    p->provider->n_said[p->request] = p->n_tokens;
}

static void put_token(struct peer *p, size_t n_bytes)
{
    struct buf text = {0};
    buf_puts(&text, wording_of(p)->token_before);
    put_mark(p, &text);
    if (text.n < n_bytes) {
        size_t n = n_bytes - text.n;
        memset(buf_reserve(&text, n), 'x', n);
        buf_grew(&text, n);
    }
    buf_puts(&text, wording_of(p)->token_after);
    put_chunk(p, buf_bytes(&text));
    buf_fini(&text);
}

static void put_json(struct peer *p)
{
    struct buf text = {0};
    buf_puts(&text, wording_of(p)->json_before);
    put_mark(p, &text);
    buf_puts(&text, wording_of(p)->json_after);
    buf_printf(&p->out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n", text.n);
    buf_put(&p->out, buf_bytes(&text));
    buf_fini(&text);
}

static void put_status(struct peer *p, unsigned status, bool has_body)
{
    const char *body = p->provider->is_anthropic
                           ? "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"as scripted\"}}"
                           : "{\"error\":{\"message\":\"as scripted\",\"type\":\"server_error\",\"code\":null}}";
    buf_printf(&p->out, "HTTP/1.1 %u X\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n", status,
               strlen(body));
    if (has_body)
        buf_puts(&p->out, body);
}

static void put_flood(struct peer *p, const char *numbers)
{
    char *end;
    unsigned long n = strtoul(numbers, &end, 10);
    unsigned long each = strtoul(end + 1, NULL, 10);
    for (unsigned long i = 0; i < n; i++)
        put_token(p, each);
}

static bool put_plain_word(struct peer *p, struct bytes word)
{
    const struct wording *say = wording_of(p);
    const struct {
        const char *word, *text;
    } events[] = {{"role", say->role},          {"finish", say->finish}, {"usage", say->usage},
                  {"done", say->done},          {"error", say->error},   {"comment", ": still here\n\n"},
                  {"bad", "data: {\"id\":\n\n"}};
    for (size_t i = 0; i < RM_COUNTOF(events); i++)
        if (bytes_is(word, events[i].word)) {
            put_chunk(p, bytes_of(events[i].text));
            return true;
        }
    return false;
}

static void put_word(struct peer *p, struct bytes word)
{
    struct bytes name = word;
    struct bytes first = bytes_cut(&name, ':'); /* name: what follows */
    if (put_plain_word(p, word))
        return;
    if (bytes_is(word, "head"))
        buf_puts(&p->out, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    else if (bytes_is(word, "closing"))
        buf_puts(&p->out, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
                          "transfer-encoding: chunked\r\n\r\n");
    else if (bytes_is(word, "html"))
        buf_puts(&p->out, "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>");
    else if (bytes_is(word, "end"))
        buf_puts(&p->out, "0\r\n\r\n");
    else if (bytes_is(word, "json"))
        put_json(p);
    else if (bytes_is(word, "token"))
        put_token(p, 0);
    else if (bytes_is(first, "big"))
        put_token(p, strtoul(name.p, NULL, 10));
    else if (bytes_is(first, "flood"))
        put_flood(p, name.p);
    else if (bytes_is(first, "status"))
        put_status(p, (unsigned)strtoul(name.p, NULL, 10), true);
    else if (bytes_is(first, "refusing"))
        put_status(p, (unsigned)strtoul(name.p, NULL, 10), false);
    else
        RM_UNREACHABLE();
}

/* ---- the connection ---- */

static void stop(struct peer *p)
{
    timer_cancel(p->loop, &p->timer);
    timer_cancel(p->loop, &p->piece_timer);
    p->script = "";
    buf_fini(&p->out);
    p->out_at = 0;
}

static void close_own(struct peer *p, bool reset)
{
    stop(p);
    stream_close(p->stream, reset);
    p->stream = NULL;
}

static void lose(struct peer *p, bool reset)
{
    p->was_closed = true;
    p->was_reset = reset;
    p->closed_at_us = loop_now_us(p->loop);
    close_own(p, false);
}

static size_t n_unsaid(const struct peer *p)
{
    return p->out.n - p->out_at;
}

static void write_some(struct peer *p)
{
    struct rng *pieces = p->provider->pieces;
    while (p->stream != NULL && n_unsaid(p) > 0 && !timer_is_armed(&p->piece_timer)) {
        size_t n = 0, most = pieces == NULL ? n_unsaid(p) : rng_between(pieces, 1, PIECE_BYTES);
        struct iovec v = {.iov_base = p->out.p + p->out_at, .iov_len = most < n_unsaid(p) ? most : n_unsaid(p)};
        if (stream_write(p->stream, &v, 1, &n) != IO_OK)
            return; /* full, or broken: reading tells */
        p->out_at += n;
        p->n_written += n;
        if (pieces != NULL && n_unsaid(p) > 0 && rng_below(pieces, 4) == 0)
            timer_arm(p->loop, &p->piece_timer, loop_now_us(p->loop) + rng_below(pieces, PIECE_GAP_US));
    }
    if (n_unsaid(p) > 0)
        return;
    buf_clear(&p->out);
    p->out_at = 0;
    if (p->stream != NULL && p->ends)
        close_own(p, false);
}

static uint64_t time_of(struct bytes word)
{
    char *unit;
    uint64_t n = strtoull(word.p + 1, &unit, 10);
    return *unit == 's' ? n * 1000000 : unit[0] == 'm' ? n * 1000 : n;
}

static void read_on(struct peer *p);

static void listen_again(struct peer *p)
{
    p->is_deaf = false;
    read_on(p);
}

/* Words until time has to pass. */
static void speak(struct peer *p)
{
    while (p->stream != NULL && p->script[0] != '\0') {
        size_t n = strcspn(p->script, " ");
        struct bytes word = {p->script, n};
        p->script += n + strspn(p->script + n, " ");
        if (word.p[0] == '+') {
            timer_arm(p->loop, &p->timer, loop_now_us(p->loop) + time_of(word));
            break;
        }
        if (bytes_is(word, "rst")) {
            close_own(p, true);
            return;
        }
        if (bytes_is(word, "fin"))
            p->ends = true;
        else if (bytes_is(word, "deaf"))
            p->is_deaf = true;
        else if (bytes_is(word, "listen"))
            listen_again(p);
        else
            put_word(p, word);
    }
    if (p->stream != NULL)
        write_some(p);
}

static void on_timer(struct timer *t)
{
    speak(RM_CONTAINER(t, struct peer, timer));
}

static void on_piece_timer(struct timer *t)
{
    write_some(RM_CONTAINER(t, struct peer, piece_timer));
}

static void begin_answer(struct peer *p, size_t n_bytes)
{
    struct provider *v = p->provider;
    bool is_silent = p->script[0] == '\0' && !timer_is_armed(&p->timer) && n_unsaid(p) == 0;
    v->is_confused = v->is_confused || !is_silent || n_bytes != p->in.n;
    buf_clear(&p->last_request);
    buf_put(&p->last_request, bytes_slice(buf_bytes(&p->in), 0, n_bytes));
    buf_drop(&p->in, n_bytes);
    p->request = (unsigned)++v->n_requests;
    RM_ASSERT(v->n_requests < ANSWERS_MAX);
    p->n_requests++;
    p->n_tokens = 0;
    size_t i = v->n_requests - 1;
    p->script = v->n_scripts == 0 ? "" : v->scripts[i < v->n_scripts ? i : v->n_scripts - 1];
    speak(p);
}

/* A request is whole when its content-length is there. */
static void look_for_request(struct peer *p)
{
    struct bytes in = buf_bytes(&p->in);
    size_t head = bytes_find(in, BYTES("\r\n\r\n"));
    if (head == SIZE_MAX)
        return;
    size_t at = bytes_find_nocase(bytes_slice(in, 0, head), BYTES("\r\ncontent-length:"));
    if (at == SIZE_MAX) {
        p->provider->is_confused = true;
        return;
    }
    size_t n = head + 4 + strtoul(in.p + at + sizeof "\r\ncontent-length:" - 1, NULL, 10);
    if (in.n < n && p->provider->is_hasty) {
        p->n_due = n - in.n;
        n = in.n;
    }
    if (in.n >= n)
        begin_answer(p, n);
}

static void hear(struct peer *p)
{
    size_t n = p->n_due < p->in.n ? p->n_due : p->in.n;
    p->n_due -= n;
    buf_put(&p->last_request, bytes_slice(buf_bytes(&p->in), 0, n));
    buf_drop(&p->in, n);
    if (p->n_due == 0)
        look_for_request(p);
}

static void read_on(struct peer *p)
{
    enum io r = IO_OK;
    while (p->stream != NULL && !p->is_deaf && r == IO_OK) {
        size_t n = 0;
        r = stream_read(p->stream, buf_reserve(&p->in, READ_BYTES), READ_BYTES, &n);
        if (r == IO_OK) {
            buf_grew(&p->in, n);
            hear(p);
        } else if (r != IO_AGAIN) {
            lose(p, r == IO_ERROR);
        }
    }
}

static void on_ready(struct stream *s, unsigned ready, void *arg)
{
    (void)s;
    struct peer *p = arg;
    if (ready & LOOP_READ)
        read_on(p);
    if ((ready & LOOP_WRITE) && p->stream != NULL)
        write_some(p);
}

struct peer *peer_new(struct provider *v, struct loop *l, struct stream *s)
{
    RM_ASSERT(v->n_peers < PEERS_MAX);
    struct peer *p = mem_zalloc(sizeof *p);
    v->peers[v->n_peers++] = p;
    p->provider = v;
    p->loop = l;
    p->stream = s;
    p->script = "";
    p->timer.fn = on_timer;
    p->piece_timer.fn = on_piece_timer;
    stream_on_ready(s, on_ready, p);
    return p;
}

void peer_say(struct peer *p, const char *script)
{
    RM_ASSERT(p->stream != NULL && p->script[0] == '\0');
    p->script = script;
    speak(p);
}

bool peer_is_open(const struct peer *p)
{
    return p->stream != NULL;
}

void provider_fini(struct provider *v)
{
    for (size_t i = 0; i < v->n_peers; i++) {
        struct peer *p = v->peers[i];
        if (p->stream != NULL)
            close_own(p, true);
        buf_fini(&p->in);
        buf_fini(&p->out);
        buf_fini(&p->last_request);
        mem_free(p);
    }
    v->n_peers = 0;
}

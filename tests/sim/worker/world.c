#include "world.h"

#include "base/check.h"
#include "serve/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

enum { TURNS_MAX = 200000, READ_BYTES = 8192 };

void world_fault(struct world *w, const char *file, int line, const char *what)
{
    const char *name = strrchr(file, '/');
    printf("%s: %s:%d: at %llu us: %s\n", w->story, name != NULL ? name + 1 : file, line,
           (unsigned long long)world_now(w), what);
    w->n_faults++;
}

/* ---- configuration ---- */

static const char *no_variable(const char *name, void *arg)
{
    (void)name;
    (void)arg;
    return NULL;
}

static void no_fare(const char *provider, const char *vendor, const char *model, struct arena *a, struct fare *out,
                    void *arg)
{
}

static enum err no_file(const char *path, struct arena *a, struct bytes *out)
{
    (void)path;
    (void)a;
    (void)out;
    return ERR_NOT_FOUND;
}

static const char providers[] = "providers:\n"
                                "  a: { dialect: openai, base_url: 'http://a.test/v1', api_key: ka }\n"
                                "  b: { dialect: openai, base_url: 'http://b.test/v1', api_key: kb }\n"
                                "  c: { dialect: anthropic, base_url: 'http://c.test', api_key: kc }\n";

struct config *world_config(struct world *w, const char *routes, const char *more)
{
    static const char *const dialects[] = {"openai", "anthropic", NULL};
    const struct config_known known = {.dialects = dialects,
                                       .vendors = vendor_names(),
                                       .cores = 1,
                                       .memory_bytes = UINT64_C(1) << 30,
                                       .getenv = no_variable,
                                       .fare = no_fare,
                                       .vendor_from_host = vendor_from_host};
    struct buf text = {0};
    struct config *c = NULL;
    struct config_faults faults;
    char message[200];
    buf_printf(&text, "workers: 1\n%s\n%sroutes:\n%s\n", more, strstr(more, "providers:") != NULL ? "" : providers,
               routes);
    enum err e = config_parse(buf_bytes(&text), "story.yaml", &known, no_file, &c, &faults);
    if (e != ERR_OK) {
        struct buf why = {0};
        config_faults_text(&faults, &why);
        printf("%s", buf_cstr(&why));
        buf_fini(&why);
    }
    RM_ASSERT(e == ERR_OK);
    RM_ASSERT(snapshot_prepare(c, w->registry, message, sizeof message) == ERR_OK);
    config_faults_fini(&faults);
    buf_fini(&text);
    return c;
}

/* ---- life ---- */

static void make_providers(struct world *w)
{
    static const char *const names[WORLD_PROVIDERS] = {"a", "b", "c"};
    for (unsigned i = 0; i < WORLD_PROVIDERS; i++)
        w->providers[i] = (struct provider){.name = names[i], .is_anthropic = i == 2, .pipe_bytes = PIPE_BYTES};
    w->net = (struct net_sim){.providers = w->providers, .n_providers = WORLD_PROVIDERS};
}

void world_init(struct world *w, const struct world_options *o)
{
    *w = (struct world){.story = o->story, .n_workers = o->n_workers};
    for (int t = 0; t < MEM_N_TYPES; t++)
        w->n_live[t] = mem_live((enum mem_type)t);
    make_providers(w);
    ledger_sim_init(&w->ledger);
    w->registry = registry_new();
    w->config = world_config(w, o->routes, o->more);
    for (unsigned i = 0; i < w->n_workers; i++) {
        struct worker_options options = {.core = i,
                                         .listen_fd = -1,
                                         .config = w->config,
                                         .registry = w->registry,
                                         .ledger = &w->ledger,
                                         .seed = o->seed + i};
        w->workers[i] = worker_new(&options);
        net_sim_attach(w->workers[i]->resolver, &w->net);
    }
}

static void check_nothing_left(struct world *w)
{
    for (int t = 0; t < MEM_N_TYPES; t++)
        if (world_live(w, (enum mem_type)t) != 0) {
            printf("%s: %lld of type %s left\n", w->story, (long long)world_live(w, (enum mem_type)t),
                   mem_type_name((enum mem_type)t));
            w->n_faults++;
        }
}

static void check_peers(struct world *w)
{
    for (unsigned i = 0; i < WORLD_PROVIDERS; i++) {
        CHECK(w, !w->providers[i].is_confused);
        for (size_t k = 0; k < w->providers[i].n_peers; k++)
            CHECK(w, !peer_is_open(w->providers[i].peers[k]));
    }
}

void world_fini(struct world *w)
{
    for (size_t i = 0; i < w->n_clients; i++)
        if (w->clients[i].stream != NULL)
            client_close(&w->clients[i], false);
    for (unsigned i = 0; i < w->n_workers; i++)
        worker_cut(w->workers[i], NULL);
    world_run_to(w, world_now(w) + 1000000);
    CHECK(w, world_next(w) == 0);
    check_peers(w);
    for (unsigned i = 0; i < WORLD_PROVIDERS; i++)
        provider_fini(&w->providers[i]);
    world_settle(w);
    for (unsigned i = 0; i < w->n_workers; i++)
        worker_free(w->workers[i]);
    for (size_t i = 0; i < w->n_clients; i++) {
        buf_fini(&w->clients[i].out);
        buf_fini(&w->clients[i].got);
    }
    config_unref(w->config);
    registry_free(w->registry);
    ledger_sim_fini(&w->ledger);
    w->n_workers = 0;
    check_nothing_left(w);
}

/* ---- time ---- */

uint64_t world_now(const struct world *w)
{
    return w->n_workers == 0 ? 0 : loop_now_us(w->workers[0]->loop) - LOOP_SIM_START_US;
}

uint64_t world_next(const struct world *w)
{
    uint64_t next = 0;
    for (unsigned i = 0; i < w->n_workers; i++) {
        uint64_t at = loop_sim_next_us(w->workers[i]->loop);
        if (at != 0 && (next == 0 || at < next))
            next = at;
    }
    return next == 0 ? 0 : next - LOOP_SIM_START_US;
}

/* Step by step from timer to timer, so that no loop is ahead of another. */
void world_run_to(struct world *w, uint64_t at_us)
{
    uint64_t step;
    do {
        step = world_next(w);
        if (step == 0 || step > at_us)
            step = at_us;
        for (unsigned i = 0; i < w->n_workers; i++)
            if (!loop_sim_run_to(w->workers[i]->loop, LOOP_SIM_START_US + step, TURNS_MAX)) {
                world_fault(w, __FILE__, __LINE__, "a loop does not come to rest");
                RM_UNREACHABLE();
            }
    } while (step < at_us);
}

void world_settle(struct world *w)
{
    world_run_to(w, world_now(w));
}

void world_turn(struct world *w, unsigned worker)
{
    loop_turn(w->workers[worker]->loop, 0);
}

int64_t world_live(const struct world *w, enum mem_type type)
{
    return mem_live(type) - w->n_live[type];
}

bool world_is_quiet(const struct world *w)
{
    return world_live(w, MEM_EXCHANGE) == 0 && world_live(w, MEM_STREAM) == 0 && world_live(w, MEM_CONN) == 0 &&
           world_live(w, MEM_RELAY) == 0 && world_live(w, MEM_CONFIG) == 1 + (int64_t)w->n_workers;
}

/* ---- providers and rows ---- */

void world_script(struct world *w, unsigned provider, const char *script)
{
    struct provider *p = &w->providers[provider];
    RM_ASSERT(p->n_scripts < SCRIPTS_MAX);
    p->scripts[p->n_scripts++] = script;
}

struct peer *world_peer(struct world *w, unsigned provider, size_t n)
{
    if (n >= w->providers[provider].n_peers)
        world_fault(w, __FILE__, __LINE__, "there is no such connection");
    RM_ASSERT(n < w->providers[provider].n_peers);
    return w->providers[provider].peers[n];
}

const struct row *world_row(const struct world *w, size_t n)
{
    static const struct row none;
    const struct row *row = ledger_sim_request(&w->ledger, n);
    return row != NULL ? row : &none;
}

/* ---- clients ---- */

static void end_client(struct client *c, bool was_reset)
{
    c->has_eof = true;
    c->was_reset = was_reset;
    c->closed_at_us = world_now(c->world);
    stream_close(c->stream, false);
    c->stream = NULL;
}

static void read_on(struct client *c)
{
    enum io r = IO_OK;
    while (c->stream != NULL && !c->is_deaf && r == IO_OK) {
        size_t n = 0;
        r = stream_read(c->stream, buf_reserve(&c->got, READ_BYTES), READ_BYTES, &n);
        if (r == IO_OK) {
            buf_grew(&c->got, n);
            c->got_at_us = world_now(c->world);
        } else if (r != IO_AGAIN) {
            end_client(c, r == IO_ERROR);
        }
    }
}

static void write_on(struct client *c)
{
    while (c->stream != NULL && c->out.n > 0) {
        size_t n = 0;
        struct iovec v = {.iov_base = c->out.p, .iov_len = c->out.n};
        if (stream_write(c->stream, &v, 1, &n) != IO_OK)
            return;
        buf_drop(&c->out, n);
    }
}

static void on_ready(struct stream *s, unsigned ready, void *arg)
{
    (void)s;
    struct client *c = arg;
    if (ready & LOOP_WRITE)
        write_on(c);
    if (ready & LOOP_READ)
        read_on(c);
}

struct client *client_open(struct world *w, unsigned worker, size_t pipe_bytes)
{
    RM_ASSERT(w->n_clients < WORLD_CLIENTS_MAX);
    struct client *c = &w->clients[w->n_clients++];
    struct stream *ours;
    *c = (struct client){.world = w, .loop = w->workers[worker]->loop};
    stream_pipe(c->loop, pipe_bytes, &c->stream, &ours);
    stream_on_ready(c->stream, on_ready, c);
    front_accept(w->workers[worker]->front, ours);
    return c;
}

void client_send(struct client *c, struct bytes b)
{
    buf_put(&c->out, b);
    write_on(c);
}

void client_close(struct client *c, bool reset)
{
    stream_close(c->stream, reset);
    c->stream = NULL;
}

void client_listen(struct client *c)
{
    c->is_deaf = false;
    read_on(c);
}

void ask_text(struct buf *out, unsigned ask, const char *fields)
{
    struct buf body = {0};
    bool is_anthropic = (ask & ASK_ANTHROPIC) != 0;
    buf_printf(&body, "{\"model\":\"m\",\"max_tokens\":50,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s}",
               ask & ASK_STREAM ? ",\"stream\":true" : "");
    buf_printf(out, "POST %s HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\n%s%scontent-length: %zu\r\n\r\n",
               is_anthropic ? "/v1/messages" : "/v1/chat/completions",
               is_anthropic ? "anthropic-version: 2023-06-01\r\n" : "", fields, body.n);
    buf_put(out, buf_bytes(&body));
    buf_fini(&body);
}

void client_ask(struct client *c, unsigned ask)
{
    struct buf text = {0};
    ask_text(&text, ask, "");
    client_send(c, buf_bytes(&text));
    buf_fini(&text);
}

/* ---- what a client got ---- */

/* Bytes of the body that stand in `in`, de-chunked; returns how many bytes of `in` it took. */
static size_t see_chunks(struct bytes in, struct answer_seen *out)
{
    size_t at = 0;
    for (;;) {
        struct bytes rest = bytes_slice(in, at, in.n);
        size_t line = bytes_find(rest, BYTES("\r\n"));
        char digits[20] = "", *end;
        if (line == SIZE_MAX)
            return at;
        memcpy(digits, rest.p, line < sizeof digits - 1 ? line : sizeof digits - 1);
        size_t n = strtoul(digits, &end, 16);
        out->is_broken = out->is_broken || end == digits || *end != '\0';
        size_t whole = line + 2 + n + 2;
        buf_put(&out->body, bytes_slice(rest, line + 2, line + 2 + n));
        if (rest.n < whole || out->is_broken)
            return at;
        out->is_broken = !bytes_ends_with(bytes_slice(rest, 0, whole), BYTES("\r\n"));
        at += whole;
        if (n == 0) {
            out->is_whole = true;
            return at;
        }
    }
}

static size_t see_length(struct bytes head, struct bytes in, struct answer_seen *out)
{
    size_t at = bytes_find_nocase(head, BYTES("\r\ncontent-length: "));
    char digits[20] = "";
    struct bytes value = bytes_slice(head, at + sizeof "\r\ncontent-length: " - 1, head.n);
    out->is_broken = at == SIZE_MAX;
    if (out->is_broken)
        return 0;
    memcpy(digits, value.p, value.n < sizeof digits - 1 ? value.n : sizeof digits - 1);
    size_t n = strtoul(digits, NULL, 10);
    buf_put(&out->body, bytes_slice(in, 0, n));
    out->is_whole = in.n >= n;
    return out->is_whole ? n : 0;
}

void answer_see(struct bytes got, size_t *at, struct answer_seen *out)
{
    struct bytes in = bytes_slice(got, *at, got.n);
    size_t head_end = bytes_find(in, BYTES("\r\n\r\n"));
    *out = (struct answer_seen){0};
    if (head_end == SIZE_MAX)
        return;
    struct bytes head = bytes_slice(in, 0, head_end + 2);
    struct bytes body = bytes_slice(in, head_end + 4, in.n);
    out->is_broken = !bytes_starts_with(head, BYTES("HTTP/1.1 "));
    out->status = (unsigned)strtoul(head.p + sizeof "HTTP/1.1 " - 1, NULL, 10);
    bool is_chunked = bytes_find_nocase(head, BYTES("\r\ntransfer-encoding: chunked\r\n")) != SIZE_MAX;
    size_t n = is_chunked ? see_chunks(body, out) : see_length(head, body, out);
    if (out->is_whole)
        *at += head_end + 4 + n;
}

bool client_has(const struct client *c, const char *text)
{
    return bytes_find(buf_bytes(&c->got), bytes_of(text)) != SIZE_MAX;
}

size_t client_count(const struct client *c, const char *text)
{
    struct bytes hay = buf_bytes(&c->got);
    size_t n = 0, at;
    while ((at = bytes_find(hay, bytes_of(text))) != SIZE_MAX) {
        n++;
        hay = bytes_slice(hay, at + 1, hay.n);
    }
    return n;
}

bool client_is_answered(const struct client *c, unsigned status)
{
    struct answer_seen seen;
    size_t at = 0;
    answer_see(buf_bytes(&c->got), &at, &seen);
    bool is_so = seen.status == status && seen.is_whole && !seen.is_broken && at == c->got.n;
    buf_fini(&seen.body);
    return is_so;
}

/* A seeded story: routes, scripts, guests and the operator's orders drawn from one seed, then run to its end. The same
 * seed gives the same bytes. */
#include "chance.h"
#include "stories.h"

#include <stdio.h>

#define MS UINT64_C(1000)
#define SEC UINT64_C(1000000)

enum { END_S = 150, TEXT_BYTES = 65536, REPLAY_EVERY = 20 };

static uint64_t between(struct chance *c, uint64_t lo, uint64_t hi)
{
    return rng_between(&c->rng, lo, hi);
}

static bool is_luck(struct chance *c, unsigned percent)
{
    return rng_below(&c->rng, 100) < percent;
}

static const char *pick(struct chance *c, const char *const *v, size_t n)
{
    return v[rng_below(&c->rng, n)];
}
#define PICK(c, v) pick((c), (v), RM_COUNTOF(v))

/* ---- the plan: scripts ---- */

static void put_gap(struct chance *c, struct buf *out)
{
    unsigned n = (unsigned)rng_below(&c->rng, 100);
    if (n < 50)
        return;
    uint64_t us = n < 80 ? between(c, 0, 2 * MS) : n < 97 ? between(c, 0, 150 * MS) : between(c, 0, 3 * SEC);
    buf_printf(out, "+%lluus ", (unsigned long long)us);
}

static void put_stream(struct chance *c, struct buf *out)
{
    static const char *const faults[] = {"fin", "rst", "error", "bad token finish done end", "end", "end fin", ""};
    unsigned n_tokens = (unsigned)between(c, 1, 12);
    unsigned cut = is_luck(c, 35) ? (unsigned)rng_below(&c->rng, n_tokens + 3) : UINT32_MAX;
    buf_puts(out, "head ");
    for (unsigned i = 0; i < n_tokens + 3; i++) {
        put_gap(c, out);
        if (i == cut) {
            buf_puts(out, PICK(c, faults));
            return;
        }
        if (is_luck(c, 5))
            buf_puts(out, "comment ");
        if (i == 0)
            buf_puts(out, "role ");
        else if (i <= n_tokens)
            buf_puts(out, is_luck(c, 5) ? "flood:12:9000 " : is_luck(c, 2) ? "big:30000 " : "token ");
        else
            buf_puts(out, i == n_tokens + 1 ? "finish usage " : "done ");
    }
    put_gap(c, out);
    buf_puts(out, is_luck(c, 85) ? "end " : "");
    buf_puts(out, is_luck(c, 15) ? "fin" : "");
}

static void put_script(struct chance *c, struct buf *out)
{
    static const char *const others[] = {"json",
                                         "json",
                                         "status:400",
                                         "status:401",
                                         "status:404",
                                         "status:413",
                                         "status:429",
                                         "status:500",
                                         "status:502",
                                         "status:503",
                                         "status:529",
                                         "html",
                                         "fin",
                                         "refusing:503",
                                         "rst",
                                         "json fin",
                                         ""};
    put_gap(c, out);
    if (is_luck(c, 65))
        put_stream(c, out);
    else
        buf_puts(out, PICK(c, others));
}

/* Texts live in one buffer that does not move. */
static const char *keep_text(struct chance *c, size_t from)
{
    buf_putc(&c->text, '\0');
    RM_ASSERT(c->text.n <= TEXT_BYTES);
    return c->text.p + from;
}

static void plan_provider(struct chance *c, struct provider *p)
{
    static const size_t pipes[] = {3, 90, 90, 1000, 1000, 65536, 65536, 65536};
    unsigned n = (unsigned)between(c, 1, SCRIPTS_MAX);
    for (unsigned i = 0; i < n; i++) {
        size_t from = c->text.n;
        put_script(c, &c->text);
        p->scripts[p->n_scripts++] = keep_text(c, from);
    }
    p->pipe_bytes = pipes[rng_below(&c->rng, RM_COUNTOF(pipes))];
    p->connect_us = is_luck(c, 50) ? 0 : between(c, 0, 30 * MS);
    p->connecting =
        is_luck(c, 85) ? CONNECTING_WORKS : (enum connecting)between(c, CONNECTING_REFUSED, CONNECTING_SILENT);
    p->is_hasty = is_luck(c, 15);
    p->pieces = is_luck(c, 70) ? &c->rng : NULL;
    p->is_deterministic = c->is_deterministic;
}

/* ---- the plan: routes ---- */

static const char *plan_routes(struct chance *c)
{
    static const char *const orders[] = {"a", "c", "a, b", "b, c", "c, a", "a, b, c", "c, b, a", "a, a, b"};
    static const char *const streams[] = {"auto", "auto", "auto", "on", "off"};
    size_t from = c->text.n;
    const char *order = PICK(c, orders);
    struct buf *out = &c->text;
    buf_printf(out, "  - { model: m, order: [%s], ttft_budget_ms: %u, idle_timeout_ms: %u, connect_timeout_ms: %u, ",
               order, (unsigned)between(c, 30, 500), (unsigned)between(c, 200, 2500), (unsigned)between(c, 15, 200));
    buf_printf(out, "deadline_ms: %u, total_budget_ms: %u, retries: %u, upstream_stream: %s, on_bad_event: %s",
               (unsigned)between(c, 500, 5000), (unsigned)between(c, 500, 5000), (unsigned)between(c, 0, 2),
               PICK(c, streams), is_luck(c, 30) ? "skip" : "fail");
    if (is_luck(c, 25))
        buf_printf(out, ", heartbeat_ms: %u", (unsigned)between(c, 20, 200));
    if (is_luck(c, c->is_deterministic ? 80 : 20))
        buf_puts(out, ", resume: on");
    if (c->has_keepalive)
        buf_printf(out, ", keepalive_sec: %u, keepalive_idle_stop_sec: 20", (unsigned)between(c, 1, 10));
    buf_puts(out, " }");
    return keep_text(c, from);
}

/* ---- the plan: guests ---- */

static unsigned plan_ask(struct chance *c)
{
    unsigned ask = is_luck(c, 70) ? ASK_STREAM : ASK_WHOLE;
    if (is_luck(c, 35))
        ask |= ASK_ANTHROPIC;
    if (is_luck(c, 6))
        ask |= is_luck(c, 33) ? ASK_WRONG_MODEL : is_luck(c, 50) ? ASK_WRONG_BODY : ASK_WRONG_ROUTING;
    return ask;
}

static void on_guest_timer(struct timer *t);

static void plan_guest(struct chance *c, struct guest *g)
{
    static const size_t sizes[] = {1, 70, 70, 1000, 1000, 65536, 65536, 65536};
    *g = (struct guest){.chance = c, .timer = {.fn = on_guest_timer}};
    g->worker = (unsigned)rng_below(&c->rng, c->world.n_workers);
    g->n_asks = (unsigned)between(c, 1, GUEST_ASKS_MAX);
    g->pipe_bytes = sizes[rng_below(&c->rng, RM_COUNTOF(sizes))];
    g->piece_bytes = sizes[rng_below(&c->rng, RM_COUNTOF(sizes))];
    g->gap_us = is_luck(c, 50) ? 20 : 5 * MS;
    g->is_hasty = is_luck(c, 15);
    g->leave_us = is_luck(c, 35) ? between(c, 1, is_luck(c, 50) ? 300 * MS : 4 * SEC) : 0;
    g->leaving = (int)rng_below(&c->rng, 3);
    if (is_luck(c, 30)) {
        g->deaf_from_us = between(c, 1, 500 * MS);
        g->deaf_to_us = g->deaf_from_us + between(c, 1, 1900 * MS); /* less than client_stall_ms */
    }
    for (unsigned i = 0; i < g->n_asks; i++)
        g->asks[i] = plan_ask(c);
    timer_arm(c->world.workers[g->worker]->loop, &g->timer, LOOP_SIM_START_US + 1 + rng_below(&c->rng, 300 * MS));
}

/* ---- guests at work ---- */

static void put_wrong(struct buf *out, unsigned ask)
{
    const char *body = ask & ASK_WRONG_MODEL ? "{\"model\":\"nobody\",\"messages\":[]}" : "{\"model\":";
    buf_printf(out, "POST %s HTTP/1.1\r\nhost: g\r\ncontent-length: %zu\r\n\r\n%s",
               ask & ASK_ANTHROPIC ? "/v1/messages" : "/v1/chat/completions", strlen(body), body);
}

static void ask_next(struct guest *g)
{
    unsigned ask = g->asks[g->n_asked++];
    struct buf *out = &g->client->out;
    if (ask & (ASK_WRONG_MODEL | ASK_WRONG_BODY))
        put_wrong(out, ask);
    else
        ask_text(out, ask, ask & ASK_WRONG_ROUTING ? "x-routing: order:nobody\r\n" : "");
}

/* Whole answers so far; what was seen once is not looked at again. */
static unsigned n_whole(struct guest *g)
{
    size_t from;
    struct answer_seen seen;
    if (g->client->got.n == g->n_looked)
        return g->n_whole;
    g->n_looked = g->client->got.n;
    do {
        from = g->seen_at;
        answer_see(buf_bytes(&g->client->got), &g->seen_at, &seen);
        g->n_whole += seen.is_whole;
        buf_fini(&seen.body);
    } while (g->seen_at > from);
    return g->n_whole;
}

static void say_piece(struct guest *g)
{
    struct buf all = buf_take(&g->client->out);
    size_t n = all.n < g->piece_bytes ? all.n : g->piece_bytes;
    struct iovec v = {.iov_base = all.p, .iov_len = n};
    size_t n_sent = 0;
    if (n > 0 && stream_write(g->client->stream, &v, 1, &n_sent) == IO_OK)
        buf_drop(&all, n_sent);
    g->client->out = all;
}

static void leave(struct guest *g)
{
    g->has_left = true;
    if (g->leaving == LEAVE_HALF) {
        buf_fini(&g->client->out);
        stream_shutdown(g->client->stream);
    } else {
        client_close(g->client, g->leaving == LEAVE_RESET);
    }
}

static void listen_or_not(struct guest *g, uint64_t now)
{
    bool is_deaf = now >= g->deaf_from_us && now < g->deaf_to_us;
    if (g->client->is_deaf && !is_deaf)
        client_listen(g->client);
    g->client->is_deaf = is_deaf;
}

/* True: there is more to do, later. */
static bool act(struct guest *g)
{
    struct world *w = &g->chance->world;
    uint64_t now = world_now(w);
    if (g->client == NULL && g->chance->is_drained)
        return false;
    if (g->client == NULL)
        g->client = client_open(w, g->worker, g->pipe_bytes);
    if (g->client->stream == NULL || g->has_left)
        return false;
    listen_or_not(g, now);
    if (g->client->stream == NULL)
        return false;
    if (g->leave_us != 0 && now >= g->leave_us) {
        leave(g);
        return false;
    }
    if (g->client->out.n > 0) {
        say_piece(g);
        return true;
    }
    unsigned n = n_whole(g);
    while (g->n_asked < g->n_asks && (g->is_hasty || n == g->n_asked))
        ask_next(g);
    if (n < g->n_asks)
        return true;
    client_close(g->client, false); /* satisfied */
    return false;
}

static void on_guest_timer(struct timer *t)
{
    struct guest *g = RM_CONTAINER(t, struct guest, timer);
    struct loop *l = g->chance->world.workers[g->worker]->loop;
    if (!act(g))
        return;
    bool is_speaking = g->client->out.n > 0;
    timer_arm(l, t, loop_now_us(l) + 1 + rng_below(&g->chance->rng, is_speaking ? g->gap_us : 20 * MS));
}

/* ---- the story ---- */

static void plan(struct chance *c, uint64_t seed)
{
    struct world *w = &c->world;
    *c = (struct chance){.rng = {.state = seed * UINT64_C(0x9e3779b97f4a7c15)}};
    (void)buf_reserve(&c->text, TEXT_BYTES);
    c->has_keepalive = is_luck(c, 25);
    c->is_deterministic = is_luck(c, 40);
    struct world_options o = {.story = "chance",
                              .routes = plan_routes(c),
                              .more = is_luck(c, 15) ? "limits: { client_stall_ms: 2000, gate_bytes: 1024 }"
                                                     : "limits: { client_stall_ms: 2000 }",
                              .n_workers = is_luck(c, 30) ? 2 : 1,
                              .seed = seed};
    world_init(w, &o);
    for (unsigned i = 0; i < WORLD_PROVIDERS; i++)
        plan_provider(c, &w->providers[i]);
    c->n_guests = between(c, 1, GUESTS_MAX);
    for (size_t i = 0; i < c->n_guests; i++)
        plan_guest(c, &c->guests[i]);
    c->reload_us = is_luck(c, 30) ? between(c, 1, 1 * SEC) : 0;
    c->drain_us = is_luck(c, 20) ? between(c, 1, 2 * SEC) : 0;
    c->cut_us = c->drain_us != 0 ? c->drain_us + between(c, 0, 3 * SEC) : 0;
}

static bool is_due(uint64_t *at_us, uint64_t now)
{
    if (*at_us == 0 || now < *at_us)
        return false;
    *at_us = 0;
    return true;
}

static void give_orders(struct chance *c)
{
    struct world *w = &c->world;
    uint64_t now = world_now(w);
    if (is_due(&c->reload_us, now)) {
        struct config *fresh = world_config(w, plan_routes(c), "limits: { client_stall_ms: 2000 }");
        for (unsigned i = 0; i < w->n_workers; i++)
            worker_reload(w->workers[i], fresh);
        config_unref(w->config);
        w->config = fresh;
    }
    if (is_due(&c->drain_us, now)) {
        c->is_drained = true;
        for (unsigned i = 0; i < w->n_workers; i++)
            worker_drain(w->workers[i]);
    }
    if (is_due(&c->cut_us, now)) {
        c->is_cut = true;
        for (unsigned i = 0; i < w->n_workers; i++)
            worker_cut(w->workers[i], NULL);
    }
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return b != 0 && b < a ? b : a;
}

static void run(struct chance *c)
{
    struct world *w = &c->world;
    while (world_now(w) < END_S * SEC && w->n_faults == 0) {
        uint64_t to = sooner(sooner(sooner(END_S * SEC, c->reload_us), c->drain_us), c->cut_us);
        world_run_to(w, sooner(to, world_next(w)));
        give_orders(c);
        world_settle(w);
        laws_check_step(c);
    }
}

static uint64_t hash_of(const struct chance *c)
{
    const struct world *w = &c->world;
    uint64_t hash = w->ledger.n;
    for (size_t i = 0; i < w->n_clients; i++)
        hash = bytes_hash(buf_bytes(&w->clients[i].got), hash);
    for (size_t i = 0; i < w->ledger.n; i++) {
        const struct row *row = &w->ledger.rows[i];
        uint64_t figures[] = {row->id, row->outcome, (uint64_t)row->total_us, (uint64_t)row->ttft_us, row->n_attempts};
        hash = bytes_hash(bytes_from(figures, sizeof figures), hash);
    }
    return hash;
}

static void tell(const struct chance *c)
{
    const struct world *w = &c->world;
    printf("%s\n", c->text.p);
    for (size_t i = 0; i < w->ledger.n; i++) {
        const struct row *row = &w->ledger.rows[i];
        printf("%s %s, status %u, %lld us:", row->is_keepalive ? "keepalive" : "request", outcome_word(row->outcome),
               row->status, (long long)row->total_us);
        for (unsigned k = 0; k < row->n_attempts; k++)
            printf(" %s;%s;%lldus", row->attempts[k].provider, outcome_word(row->attempts[k].outcome),
                   (long long)row->attempts[k].total_us);
        printf("\n");
    }
    printf("%u answers, %u ok, %u not, %u resumed; %u cut short; %u guests left\n", c->seen.n_answers, c->seen.n_ok,
           c->seen.n_errors, c->seen.n_resumed, c->seen.n_partial, c->seen.n_left);
}

/* Returns the story's hash. */
static uint64_t run_seed(uint64_t seed, bool is_loud, bool *is_lawful)
{
    static struct chance c; /* large */
    plan(&c, seed);
    run(&c);
    laws_check_end(&c);
    uint64_t hash = hash_of(&c);
    if (is_loud)
        tell(&c);
    for (size_t i = 0; i < c.n_guests; i++)
        timer_cancel(c.world.workers[c.guests[i].worker]->loop, &c.guests[i].timer);
    world_fini(&c.world);
    buf_fini(&c.text);
    *is_lawful = c.world.n_faults == 0;
    return hash;
}

bool chance_run(uint64_t seed, bool is_loud)
{
    bool is_lawful = false, is_again = true;
    uint64_t hash = run_seed(seed, is_loud, &is_lawful);
    if (!is_lawful || seed % REPLAY_EVERY != 0 || is_loud)
        return is_lawful;
    if (run_seed(seed, false, &is_again) != hash) {
        printf("seed %llu: two runs differ\n", (unsigned long long)seed);
        return false;
    }
    return is_again;
}

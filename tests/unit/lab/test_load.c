/* The load generator on a virtual clock, against a peer in memory that answers after a while, or stalls, or fails. The
 * network is this file: dial.h and resolver.h are answered here. */
#include "unit.h"

#include "base/buf.h"
#include "base/mem.h"
#include "lab/load.h"
#include "loop/loop_sim.h"

#include <stdio.h>

enum { MS = 1000, PORTS = 3, PIPE_BYTES = 1 << 16 };

enum manner { GOOD, SILENT, STATUS_429, ERROR_EVENT, CUT, CLOSES_FIRST, REFUSED };

struct network;

struct peer {
    struct network *net;
    struct stream *stream;
    struct timer timer;
    struct buf in;
    unsigned n_answers;
    int port;
    bool is_gone;
};

static struct network {
    struct loop *loop;
    enum manner manner[PORTS + 1]; /* by port, from 1 */
    uint64_t latency_us, stall_from_us, stall_to_us, began_us;
    struct peer *peers[4096];
    size_t n_peers, n_dials;
    bool drops_after_answer; /* the peer closes a kept connection at its next request */
} net;

/* ---- the peer ---- */

static const char answer[] =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: keep-alive\r\ncontent-length: %zu\r\n"
    "x-ringmain-provider: P\r\nx-ringmain-request-id: req_0000000000001\r\n\r\n%s";
static const char events[] = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
                             "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                             "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n"
                             "data: [DONE]\n\n";

static void say(struct peer *p, const char *text)
{
    size_t n = 0;
    struct iovec v = {(void *)(uintptr_t)text, strlen(text)};
    assert_int_equal(stream_write(p->stream, &v, 1, &n), IO_OK);
    assert_int_equal(n, v.iov_len);
}

static void hang_up(struct peer *p)
{
    if (!p->is_gone)
        stream_close(p->stream, false);
    p->is_gone = true;
}

static void on_time(struct timer *t)
{
    struct peer *p = RM_CONTAINER(t, struct peer, timer);
    char text[1024];
    if (p->is_gone)
        return;
    p->n_answers++;
    switch (net.manner[p->port]) {
    case GOOD:
        snprintf(text, sizeof text, answer, sizeof events - 1, events);
        say(p, text);
        break;
    case STATUS_429:
        say(p, "HTTP/1.1 429 Too Many\r\ncontent-length: 2\r\n\r\n{}");
        break;
    case ERROR_EVENT:
        say(p, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 27\r\n\r\n"
               "data: {\"error\":{\"m\":\"x\"}}\n\n");
        break;
    case CUT:
        say(p, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\n"
               "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n");
        hang_up(p);
        break;
    case CLOSES_FIRST:
        hang_up(p);
        break;
    case SILENT:
    case REFUSED:
        break;
    }
}

static bool takes_request(struct peer *p)
{
    size_t end = bytes_find(buf_bytes(&p->in), BYTES("\r\n\r\n{}"));
    if (end == SIZE_MAX)
        return false;
    buf_clear(&p->in);
    return true;
}

static void on_peer(struct stream *s, unsigned ready, void *arg)
{
    struct peer *p = arg;
    char part[4096];
    size_t n;
    enum io r;
    while (!p->is_gone && (r = stream_read(s, part, sizeof part, &n)) != IO_AGAIN) {
        if (r != IO_OK) {
            timer_cancel(net.loop, &p->timer);
            hang_up(p);
            return;
        }
        buf_put(&p->in, bytes_from(part, n));
    }
    if (p->is_gone || !takes_request(p))
        return;
    if (net.drops_after_answer && p->n_answers > 0) {
        hang_up(p);
        return;
    }
    uint64_t now = loop_now_us(net.loop) - net.began_us, at = now + net.latency_us;
    if (at >= net.stall_from_us && now < net.stall_to_us && at < net.stall_to_us + net.latency_us)
        at = net.stall_to_us + net.latency_us;
    if (net.manner[p->port] != SILENT)
        timer_arm(net.loop, &p->timer, net.began_us + at);
}

/* ---- dial.h and resolver.h ---- */

struct resolver {
    int unused;
};
struct dial {
    struct task task;
    struct reap reap;
    dial_fn *fn;
    void *arg;
    int port;
};

struct resolver *resolver_new(struct loop *l, enum resolver_kind kind)
{
    return mem_zalloc(sizeof(struct resolver));
}

void resolver_free(struct resolver *r)
{
    mem_free(r);
}

static void free_dial(struct reap *r)
{
    mem_free(RM_CONTAINER(r, struct dial, reap));
}

static void on_dialled(struct task *t)
{
    struct dial *d = RM_CONTAINER(t, struct dial, task);
    struct dial_result r = {.failure = DIAL_REFUSED};
    loop_reap(net.loop, &d->reap);
    if (net.manner[d->port] != REFUSED) {
        struct peer *p = mem_zalloc(sizeof *p);
        net.peers[net.n_peers++] = p;
        p->port = d->port;
        p->timer.fn = on_time;
        r.failure = DIAL_OK;
        stream_pipe(net.loop, PIPE_BYTES, &r.stream, &p->stream);
        stream_on_ready(p->stream, on_peer, p);
    }
    d->fn(&r, d->arg);
}

struct dial *dial_start(struct loop *l, struct resolver *r, struct tls_context *tls, const char *host, uint16_t port,
                        dial_fn *fn, void *arg)
{
    struct dial *d = mem_zalloc(sizeof *d);
    *d = (struct dial){.task.fn = on_dialled, .reap.fn = free_dial, .fn = fn, .arg = arg, .port = port};
    list_init(&d->task.node);
    net.n_dials++;
    loop_post(l, &d->task);
    return d;
}

void dial_cancel(struct dial *d)
{
    task_cancel(&d->task);
    loop_reap(net.loop, &d->reap);
}

/* ---- the stage ---- */

struct stage {
    struct loop *loop;
    struct resolver *resolver;
    struct load *load;
    struct load_target targets[PORTS];
    struct load_plan plan;
    struct sample v[1000];
    unsigned n_done;
};

static void set_up(struct stage *s)
{
    memset(s, 0, sizeof *s);
    memset(&net, 0, sizeof net);
    s->loop = net.loop = loop_new();
    s->resolver = resolver_new(s->loop, RESOLVER_SYSTEM);
    s->load = load_new(s->loop, s->resolver);
    net.latency_us = 20 * MS;
    static const char *const names[PORTS] = {"A", "B", "C"};
    for (int i = 0; i < PORTS; i++)
        s->targets[i] = (struct load_target){.name = names[i],
                                             .host = "x",
                                             .port = (uint16_t)(i + 1),
                                             .head = BYTES("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"),
                                             .body = BYTES("{}")};
    s->plan =
        (struct load_plan){.targets = s->targets, .n_targets = 1, .n = 10, .concurrency = 10, .timeout_us = 10000 * MS};
}

static void on_done(void *arg)
{
    ((struct stage *)arg)->n_done++;
}

static void begin(struct stage *s)
{
    load_start(s->load, &s->plan, s->v, on_done, s);
    net.began_us = load_began_us(s->load);
}

static void run(struct stage *s)
{
    begin(s);
    for (int i = 0; i < 100000 && s->n_done == 0; i++)
        loop_turn(s->loop, 1000 * MS);
    assert_int_equal(s->n_done, 1);
}

static void tear_down(struct stage *s)
{
    load_free(s->load);
    for (size_t i = 0; i < net.n_peers; i++) {
        timer_cancel(s->loop, &net.peers[i]->timer);
        hang_up(net.peers[i]);
    }
    loop_turn(s->loop, 0);
    for (size_t i = 0; i < net.n_peers; i++) {
        buf_fini(&net.peers[i]->in);
        mem_free(net.peers[i]);
    }
    resolver_free(s->resolver);
    loop_free(s->loop);
    assert_int_equal(mem_live(MEM_CONN), 0);
    assert_int_equal(mem_live(MEM_STREAM), 0);
}

static uint64_t latency_us(const struct sample *m)
{
    assert_true(m->is_ok && m->first_us >= m->due_us);
    return m->first_us - m->due_us;
}

/* ---- open loop ---- */

static void keeps_its_rate(void **state)
{
    struct stage s;
    set_up(&s);
    s.plan.rate = 100;
    s.plan.n = 300;
    s.plan.concurrency = 1000;
    run(&s);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(s.v[i].due_us, i * 10 * MS);
        assert_int_equal(s.v[i].start_us, i * 10 * MS);
        assert_int_equal(latency_us(&s.v[i]), 20 * MS);
    }
    assert_int_equal(load_progress(s.load)->behind_max_us, 0);
    tear_down(&s);
}

/* The server stands still from 1.0 s to 1.5 s. Each request that was due in it has waited for its end. */
static void assert_stall_is_felt(const struct stage *s, uint64_t n)
{
    unsigned n_felt = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct sample *m = &s->v[i];
        if (m->due_us < 1000 * MS || m->due_us >= 1500 * MS)
            continue;
        n_felt++;
        assert_true(latency_us(m) >= 1500 * MS - m->due_us);
    }
    assert_int_equal(n_felt, 50);
}

static void stall_is_felt_by_all_due_in_it(void **state)
{
    struct stage s;
    set_up(&s);
    s.plan.rate = 100;
    s.plan.n = 300;
    s.plan.concurrency = 1000;
    net.stall_from_us = 1000 * MS;
    net.stall_to_us = 1500 * MS;
    run(&s);
    assert_stall_is_felt(&s, 300);
    assert_int_equal(load_progress(s.load)->behind_max_us, 0);
    for (int i = 0; i < 95; i++)
        assert_int_equal(latency_us(&s.v[i]), 20 * MS);
    for (int i = 155; i < 300; i++)
        assert_int_equal(latency_us(&s.v[i]), 20 * MS);
    tear_down(&s);
}

/* The same with room for four requests at once: those that cannot be sent are not forgotten; they are sent late, the
 * generator says how late, and their latency counts from when they were due. */
static void stall_is_felt_though_sent_late(void **state)
{
    struct stage s;
    set_up(&s);
    s.plan.rate = 100;
    s.plan.n = 300;
    s.plan.concurrency = 4;
    net.stall_from_us = 1000 * MS;
    net.stall_to_us = 1500 * MS;
    run(&s);
    assert_stall_is_felt(&s, 300);
    assert_in_range(load_progress(s.load)->behind_max_us, 400 * MS, 600 * MS);
    unsigned n_late = 0;
    for (int i = 0; i < 300; i++)
        n_late += s.v[i].start_us > s.v[i].due_us + MS;
    assert_true(n_late >= 46);
    tear_down(&s);
}

/* What a closed loop would have seen of it: one bad request a worker. That is why --rate is there. */
static void closed_loop_omits(void **state)
{
    struct stage s;
    unsigned n_slow = 0;
    set_up(&s);
    s.plan.n = 100;
    s.plan.concurrency = 2;
    net.stall_from_us = 500 * MS;
    net.stall_to_us = 1000 * MS;
    run(&s);
    for (int i = 0; i < 100; i++)
        n_slow += latency_us(&s.v[i]) > 100 * MS;
    assert_int_equal(n_slow, 2);
    tear_down(&s);
}

/* ---- closed loop ---- */

static void ramp_and_workers(void **state)
{
    struct stage s;
    set_up(&s);
    s.plan.n = 40;
    s.plan.concurrency = 10;
    s.plan.ramp_us = 10 * MS;
    run(&s);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(s.v[i].start_us, i % 10 * MS + i / 10 * 20 * MS);
        assert_int_equal(s.v[i].due_us, s.v[i].start_us);
        assert_string_equal(s.v[i].provider, "P");
        assert_int_equal(s.v[i].request_id, 1);
        assert_int_equal(s.v[i].input, 7);
        assert_int_equal(s.v[i].output, 2);
        assert_int_equal(s.v[i].status, 200);
    }
    assert_int_equal(net.n_dials, 10); /* connections are kept */
    tear_down(&s);
}

static void kept_connections_serve_the_next_load(void **state)
{
    struct stage s;
    set_up(&s);
    run(&s);
    s.n_done = 0;
    run(&s);
    assert_int_equal(net.n_dials, 10);
    tear_down(&s);
}

/* A kept connection that the peer closes at the next request says nothing about the peer. */
static void dead_kept_connection_is_replayed(void **state)
{
    struct stage s;
    set_up(&s);
    net.drops_after_answer = true;
    s.plan.n = 3;
    s.plan.concurrency = 1;
    run(&s);
    for (int i = 0; i < 3; i++) {
        assert_true(s.v[i].is_ok);
        assert_int_equal(s.v[i].attempts, 1);
    }
    assert_int_equal(net.n_dials, 3);
    tear_down(&s);
}

static void spread_over_targets(void **state)
{
    struct stage s;
    set_up(&s);
    s.plan.n_targets = 3;
    net.manner[2] = STATUS_429;
    s.plan.n = 9;
    run(&s);
    for (int i = 0; i < 9; i++)
        assert_true(s.v[i].is_ok == (i % 3 != 1));
    tear_down(&s);
}

/* ---- failures ---- */

static void each_failure_has_its_word(void **state)
{
    static const struct {
        enum manner manner;
        const char *word;
        bool has_first;
    } rows[] = {{SILENT, "timeout", false}, {STATUS_429, "status_429", false}, {ERROR_EVENT, "error_event", false},
                {CUT, "truncated", true},   {CLOSES_FIRST, "broken", false},   {REFUSED, "refused", false}};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct stage s;
        set_up(&s);
        net.manner[1] = rows[i].manner;
        s.plan.n = 1;
        s.plan.timeout_us = 300 * MS;
        run(&s);
        assert_false(s.v[0].is_ok);
        assert_string_equal(s.v[0].error, rows[i].word);
        assert_true((s.v[0].first_us != 0) == rows[i].has_first);
        if (rows[i].manner == SILENT)
            assert_int_equal(s.v[0].end_us, 300 * MS);
        assert_int_equal(load_progress(s.load)->n_failed, 1);
        tear_down(&s);
    }
}

/* A client by itself: A hangs, A hangs again, B serves. */
static void chain_tries_in_turn(void **state)
{
    struct stage s;
    set_up(&s);
    net.manner[1] = SILENT;
    s.targets[2] = s.targets[1];
    s.targets[1] = s.targets[0];
    s.plan.n_targets = 3;
    s.plan.is_chain = true;
    s.plan.first_token_us = 300 * MS;
    s.plan.n = 1;
    run(&s);
    assert_true(s.v[0].is_ok);
    assert_int_equal(s.v[0].attempts, 3);
    assert_int_equal(s.v[0].first_us, 620 * MS);
    tear_down(&s);
}

/* After the first token nothing is tried again. */
static void chain_ends_with_the_first_token(void **state)
{
    struct stage s;
    set_up(&s);
    net.manner[1] = CUT;
    s.plan.n_targets = 2;
    s.plan.is_chain = true;
    s.plan.n = 1;
    run(&s);
    assert_string_equal(s.v[0].error, "truncated");
    assert_int_equal(s.v[0].attempts, 1);
    tear_down(&s);
}

static void chain_ends_with_its_last(void **state)
{
    struct stage s;
    set_up(&s);
    net.manner[1] = STATUS_429;
    net.manner[2] = ERROR_EVENT;
    s.plan.n_targets = 2;
    s.plan.is_chain = true;
    s.plan.n = 1;
    run(&s);
    assert_string_equal(s.v[0].error, "error_event");
    assert_string_equal(s.v[0].provider, "");
    assert_int_equal(s.v[0].attempts, 2);
    tear_down(&s);
}

/* ---- ends ---- */

static bool five_may_start(void *arg)
{
    return (*(unsigned *)arg)++ < 5;
}

static void a_cap_ends_it(void **state)
{
    struct stage s;
    unsigned asked = 0;
    set_up(&s);
    s.plan.concurrency = 2;
    s.plan.may_start = five_may_start;
    s.plan.arg = &asked;
    run(&s);
    assert_int_equal(load_progress(s.load)->n_started, 5);
    assert_int_equal(load_progress(s.load)->n_done, 5);
    assert_true(load_progress(s.load)->was_refused);
    tear_down(&s);
}

/* What is in flight may come out cheaper than it was taken for: then there is room again. */
struct purse {
    unsigned n_open, n_ended;
};

static bool two_at_once(void *arg)
{
    struct purse *p = arg;
    return p->n_open < 2 && p->n_ended + p->n_open < 7 && ++p->n_open > 0;
}

static void ended(const struct sample *s, void *arg)
{
    struct purse *p = arg;
    assert_true(s->is_ok && s->end_us > 0);
    p->n_open--;
    p->n_ended++;
}

static void a_cap_gives_room_again(void **state)
{
    struct stage s;
    struct purse purse = {0};
    set_up(&s);
    s.plan.concurrency = 5;
    s.plan.may_start = two_at_once;
    s.plan.on_end = ended;
    s.plan.arg = &purse;
    run(&s);
    assert_int_equal(purse.n_ended, 7);
    assert_int_equal(load_progress(s.load)->n_started, 7);
    assert_true(load_progress(s.load)->was_refused);
    tear_down(&s);
}

static void stop_gives_up(void **state)
{
    struct stage s;
    set_up(&s);
    net.manner[1] = SILENT;
    s.plan.n = 100;
    begin(&s);
    loop_sim_run_to(s.loop, net.began_us + 50 * MS, 10000);
    load_stop(s.load);
    load_stop(s.load);
    loop_turn(s.loop, 0);
    loop_turn(s.loop, 0);
    assert_int_equal(s.n_done, 1);
    assert_int_equal(load_progress(s.load)->n_started, 10);
    for (int i = 0; i < 10; i++)
        assert_string_equal(s.v[i].error, "stopped");
    tear_down(&s);
}

static void freed_while_running(void **state)
{
    struct stage s;
    set_up(&s);
    begin(&s);
    loop_sim_run_to(s.loop, net.began_us + 5 * MS, 10000);
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_its_rate),
        cmocka_unit_test(stall_is_felt_by_all_due_in_it),
        cmocka_unit_test(stall_is_felt_though_sent_late),
        cmocka_unit_test(closed_loop_omits),
        cmocka_unit_test(ramp_and_workers),
        cmocka_unit_test(kept_connections_serve_the_next_load),
        cmocka_unit_test(dead_kept_connection_is_replayed),
        cmocka_unit_test(spread_over_targets),
        cmocka_unit_test(each_failure_has_its_word),
        cmocka_unit_test(chain_tries_in_turn),
        cmocka_unit_test(chain_ends_with_the_first_token),
        cmocka_unit_test(chain_ends_with_its_last),
        cmocka_unit_test(a_cap_ends_it),
        cmocka_unit_test(a_cap_gives_room_again),
        cmocka_unit_test(stop_gives_up),
        cmocka_unit_test(freed_while_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

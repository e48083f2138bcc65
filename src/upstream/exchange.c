/* One attempt's traffic with a provider.
 *
 *     connecting --> waiting (for the head) --> answering --> ended ----.
 *         ^  |          |  |                        |                    v
 *         |  |          |  '--> refused (4xx, 5xx) -+--> failed ------> over
 *         '--+-replay---'                           |      ^
 *            '----------------------------------------------
 *
 * `ended` and `failed` are told by the next exchange_next; until then nothing is called. The connection is let go (to
 * the pool, or closed) as the exchange enters one of them, so `over` owns nothing but memory. */
#include "base/mem.h"
#include "base/sm.h"
#include "upstream/answer.h"
#include "upstream/redact.h"
#include "upstream/request.h"
#include "upstream/upstream_impl.h"

#include <stdio.h>

/* Patience for a refusal's body, and for the terminal marker of an answer that has named its finish. */
enum { OUTPUTS_PER_TURN = 16384 /* a packed answer is more than it looks: then the others have their turn */ };
enum { HEAD_BYTES = 1024, SHORT_BYTES = 3072 /* so that a usual head and a short body fit one block of the shelf */ };
enum { REFUSAL_US = 2000000, FINISH_US = 2000000, DIAL_AGAIN_US = 50000 };

enum exchange_state {
    EXCHANGE_CONNECTING,
    EXCHANGE_WAITING,
    EXCHANGE_REFUSED,
    EXCHANGE_ANSWERING,
    EXCHANGE_WELL,
    EXCHANGE_ILL,
    EXCHANGE_OVER
};
static const struct sm_row exchange_rows[] = {
    [EXCHANGE_CONNECTING] = {"connecting", SM_TO(EXCHANGE_WAITING) | SM_TO(EXCHANGE_ILL), false},
    [EXCHANGE_WAITING] = {"waiting",
                          SM_TO(EXCHANGE_CONNECTING) | SM_TO(EXCHANGE_REFUSED) | SM_TO(EXCHANGE_ANSWERING) |
                              SM_TO(EXCHANGE_ILL),
                          false},
    [EXCHANGE_REFUSED] = {"refused", SM_TO(EXCHANGE_ILL), false},
    [EXCHANGE_ANSWERING] = {"answering", SM_TO(EXCHANGE_WELL) | SM_TO(EXCHANGE_ILL), false},
    [EXCHANGE_WELL] = {"ended", SM_TO(EXCHANGE_OVER), false},
    [EXCHANGE_ILL] = {"failed", SM_TO(EXCHANGE_OVER), false},
    [EXCHANGE_OVER] = {"over", 0, true},
};

/* What is needed until the request is out and the answer is shown: a stream may run for long, and be silent. */
struct opening {
    struct exchange_spec spec;
    struct client_request request;
    struct buf head_out;
    struct dial *dial;
    uint64_t dial_us; /* when connecting began */
    int64_t connect_us;
    struct arena head_arena; /* the answer's head, and what was derived from it */
    struct fields fields;
};

struct exchange {
    exchange_ready_fn *ready;
    void *arg;
    struct upstream *upstream;
    struct loop *loop;
    const struct provider_conf *provider;
    const struct dialect *target;
    struct opening *opening; /* NULL once its heads were dropped */
    struct pooled *conn;
    unsigned n_outputs; /* since the last turn that was given to the others */
    struct sm sm;
    bool has_lent;   /* raws that lie in the read buffer were told, and the owner was not told to be done with them */
    bool is_flowing; /* the last thing told was an event known by its form, and nothing has happened since */
    bool has_answer;
    bool is_connected, is_reused, is_replayed, is_paused;
    bool is_sent;      /* as its connection was let go */
    bool is_body_read; /* the HTTP message has ended */
    bool is_closed;
    uint16_t status;
    struct timer timer; /* connecting: its limit; refused, answering: patience for the end */
    union {
        struct task task; /* to say "ready" later in the turn, or in the next */
        struct reap reap; /* once it is closed */
    };
    struct arena arena;      /* of the failure, if there is one */
    struct failure *failure; /* in `arena`, once there is one */
    const char *bad;         /* how the framing went wrong; NULL = it did not */
    struct answer answer;    /* once has_answer; not set before that */
};

static void move(struct exchange *x, enum exchange_state to)
{
    x->is_flowing = false;
    sm_move(&x->sm, exchange_rows, to, "upstream", "-");
}

static bool is_in(const struct exchange *x, enum exchange_state s)
{
    return x->sm.state == s;
}

/* ---- the ways out ---- */

static bool is_sent(const struct exchange *x)
{
    return x->conn != NULL ? client_conn_is_sent(pooled_conn(x->conn)) : x->is_sent;
}

static void close_conn(struct exchange *x)
{
    x->is_sent = is_sent(x);
    if (x->conn != NULL)
        pooled_close(x->conn);
    x->conn = NULL;
}

/* The pool reads on to the message's end; a request that is not out whole borrows memory that goes now. */
static void put_conn(struct exchange *x)
{
    if (x->conn == NULL || !is_sent(x)) {
        close_conn(x);
        return;
    }
    x->is_sent = true;
    pooled_put(x->conn);
    x->conn = NULL;
}

/* Most exchanges never need one, and a silent stream should not hold its texts. */
static struct failure *failure_of(struct exchange *x)
{
    if (x->failure == NULL)
        x->failure = ARENA_NEW(&x->arena, struct failure);
    return x->failure;
}

/* x->failure is set. */
static void seal_failure(struct exchange *x)
{
    struct failure *f = x->failure;
    timer_cancel(x->loop, &x->timer);
    if (f->status == 0)
        f->status = x->status;
    f->is_reused = x->is_reused;
    redact_failure(f, x->provider->api_key);
    move(x, EXCHANGE_ILL);
}

static void fail(struct exchange *x, enum outcome o, const char *why)
{
    failure_make(failure_of(x), o, why);
    close_conn(x);
    seal_failure(x);
}

static void end_well(struct exchange *x)
{
    timer_cancel(x->loop, &x->timer);
    put_conn(x);
    move(x, EXCHANGE_WELL);
}

/* ---- connecting ---- */

static void tell(struct exchange *x)
{
    x->ready(x, x->arg);
}

static void on_conn_ready(struct client_conn *c, void *arg)
{
    tell(arg);
}

static void send_request(struct exchange *x)
{
    x->is_connected = true;
    move(x, EXCHANGE_WAITING);
    client_conn_send(pooled_conn(x->conn), &x->opening->request, on_conn_ready, x);
    if (x->is_paused)
        client_conn_pause(pooled_conn(x->conn));
}

static uint64_t connect_end_us(const struct exchange *x)
{
    return x->opening->dial_us + (uint64_t)x->opening->spec.connect_timeout_ms * 1000;
}

/* A shortage of our own is no fault of the provider's: what lies idle is let go, and after a moment it is tried again.
 * False: there is no time left for that. */
static bool waits_for_descriptors(struct exchange *x)
{
    uint64_t again_us = loop_now_us(x->loop) + DIAL_AGAIN_US;
    upstream_prune(x->upstream, NULL);
    if (again_us >= connect_end_us(x))
        return false;
    timer_arm(x->loop, &x->timer, again_us);
    return true;
}

static void on_dialed(const struct dial_result *r, void *arg)
{
    struct exchange *x = arg;
    x->opening->dial = NULL;
    if (r->failure == DIAL_NO_DESCRIPTORS && waits_for_descriptors(x))
        return;
    timer_cancel(x->loop, &x->timer);
    if (r->failure == DIAL_OK) {
        x->opening->connect_us = (int64_t)(loop_now_us(x->loop) - x->opening->dial_us);
        x->conn = pool_adopt(&x->upstream->pool, x->provider, r->stream);
        send_request(x);
    } else {
        fail(x, OUTCOME_CONNECT_ERROR, r->message);
        x->failure->is_unsent = true;
    }
    tell(x);
}

static void dial_now(struct exchange *x)
{
    const struct provider_conf *p = x->provider;
    x->opening->dial = dial_start(x->loop, x->upstream->resolver, p->tls, p->url.host, p->url.port, on_dialed, x);
    timer_arm(x->loop, &x->timer, connect_end_us(x));
}

static void start_dial(struct exchange *x)
{
    x->is_connected = x->is_reused = x->is_sent = false;
    x->opening->dial_us = loop_now_us(x->loop);
    dial_now(x);
}

static void time_connect_out(struct exchange *x)
{
    char why[96];
    dial_cancel(x->opening->dial);
    x->opening->dial = NULL;
    snprintf(why, sizeof why, "no connection within %u ms", (unsigned)x->opening->spec.connect_timeout_ms);
    fail(x, OUTCOME_CONNECT_TIMEOUT, why);
    x->failure->is_unsent = true;
}

/* ---- refusals ---- */

static void classify(struct exchange *x)
{
    struct bytes vendor = x->answer.decoder.vendor;
    dialect_classify(x->target, vendor, x->status, &x->opening->fields, answer_refusal(&x->answer),
                     loop_wall_ms(x->loop), failure_of(x));
    if (x->is_body_read)
        put_conn(x);
    else
        close_conn(x);
    seal_failure(x);
}

static void settle(struct exchange *x, enum answer_result r);

static void on_timer(struct timer *t)
{
    struct exchange *x = RM_CONTAINER(t, struct exchange, timer);
    if (is_in(x, EXCHANGE_CONNECTING) && x->opening->dial == NULL) {
        dial_now(x);
        return;
    }
    if (is_in(x, EXCHANGE_CONNECTING))
        time_connect_out(x);
    else if (is_in(x, EXCHANGE_REFUSED))
        classify(x);
    else if (is_in(x, EXCHANGE_ANSWERING) && !x->is_paused)
        settle(x, answer_cut(&x->answer, "the stream did not end")); /* whole but for its marker */
    else
        return;
    tell(x);
}

/* Each step: true = look again, something moved; false = *ev is set, or there is nothing yet. */

static bool step_refused(struct exchange *x)
{
    struct client_event c;
    struct output none;
    client_conn_next(pooled_conn(x->conn), &c);
    switch (c.kind) {
    case CLIENT_NOTHING:
    case CLIENT_HEAD:
        return false;
    case CLIENT_USED_UP:
        return true;
    case CLIENT_BODY:
        answer_feed(&x->answer, c.body);
        answer_next(&x->answer, &none);
        if (answer_refusal_is_full(&x->answer))
            classify(x);
        return true;
    case CLIENT_END:
        x->is_body_read = true;
        classify(x);
        return true;
    case CLIENT_BROKEN:
    case CLIENT_BAD:
        classify(x);
        return true;
    }
    RM_UNREACHABLE();
    return false;
}

/* ---- the head ---- */

/* Kept longer than the connection: a non-streaming answer is committed only at its end. */
static void keep_head(struct exchange *x, const struct head *h)
{
    struct opening *o = x->opening;
    client_conn_give_head(pooled_conn(x->conn), &o->head_arena);
    o->fields = h->fields;
}

static void open_answer(struct exchange *x, const struct head *h)
{
    const struct exchange_spec *asked = &x->opening->spec;
    const struct provider_conf *p = x->provider;
    bool is_named = p->vendor != NULL && p->vendor[0] != '\0';
    struct answer_spec spec = {.target = x->target,
                               .vendor = is_named ? bytes_of(p->vendor) : vendor_from_host(bytes_of(p->url.host)),
                               .max_depth = asked->max_depth,
                               .max_event = asked->max_event,
                               .max_body = asked->max_body,
                               .strips_usage = asked->strips_usage,
                               .skip_bad_events = asked->skip_bad_events,
                               .is_text_unread = asked->is_text_unread,
                               .form = pooled_form(x->conn),
                               .arena = &x->arena,
                               .reads = x->upstream->pool.reads};
    answer_init(&x->answer, &spec, h);
    x->has_answer = true;
}

static void take_head(struct exchange *x, const struct head *h, struct exchange_event *ev)
{
    x->status = h->status;
    keep_head(x, h);
    open_answer(x, h);
    ev->kind = EXCHANGE_HEAD;
    ev->status = h->status;
    ev->fields = &x->opening->fields;
    ev->provider_request_id = dialect_request_id(x->target, &x->opening->fields);
    if (h->status >= 400) {
        move(x, EXCHANGE_REFUSED);
        timer_arm(x->loop, &x->timer, loop_now_us(x->loop) + REFUSAL_US);
    } else if (h->status >= 300) {
        fail(x, OUTCOME_PROTOCOL_ERROR, "the provider answered with a redirect");
    } else {
        move(x, EXCHANGE_ANSWERING);
    }
}

/* Broken before the head. DESIGN 3.6a: a reused connection may have died while idle. */
static bool break_early(struct exchange *x, const struct client_event *c, struct exchange_event *ev)
{
    bool any_sent = client_conn_any_sent(pooled_conn(x->conn));
    if (c->any_response_byte) {
        fail(x, OUTCOME_STREAM_ERROR, c->why);
        return true;
    }
    if (x->is_reused && !x->is_replayed) {
        close_conn(x);
        x->is_replayed = true;
        move(x, EXCHANGE_CONNECTING);
        start_dial(x);
        ev->kind = EXCHANGE_REPLAYED;
        return false;
    }
    fail(x, OUTCOME_CONNECT_ERROR, c->why);
    x->failure->is_established = true;
    x->failure->is_unsent = !any_sent;
    return true;
}

static bool step_waiting(struct exchange *x, struct exchange_event *ev)
{
    struct client_event c;
    client_conn_next(pooled_conn(x->conn), &c);
    switch (c.kind) {
    case CLIENT_NOTHING:
        return false;
    case CLIENT_HEAD:
        take_head(x, c.head, ev);
        return false;
    case CLIENT_BROKEN:
        return break_early(x, &c, ev);
    case CLIENT_BAD:
        fail(x, OUTCOME_PROTOCOL_ERROR, c.why);
        return true;
    case CLIENT_BODY:
    case CLIENT_USED_UP:
    case CLIENT_END:
        break;
    }
    RM_UNREACHABLE();
    return false;
}

/* ---- the answer ---- */

static void settle(struct exchange *x, enum answer_result r)
{
    if (r == ANSWER_DONE) {
        end_well(x);
        return;
    }
    *failure_of(x) = *x->answer.failure;
    if (x->is_body_read)
        put_conn(x);
    else
        close_conn(x);
    seal_failure(x);
}

/* Raws that were told lie in the read buffer, which is about to go: whoever has them must be done with them first. */
static bool take_back(struct exchange *x, struct exchange_event *ev)
{
    if (!x->has_lent)
        return false;
    x->has_lent = false;
    ev->kind = EXCHANGE_FLUSH;
    return true;
}

/* Nothing to read for now. */
static void wait_for_more(struct exchange *x)
{
    if (answer_is_finished(&x->answer) && !timer_is_armed(&x->timer))
        timer_arm(x->loop, &x->timer, loop_now_us(x->loop) + FINISH_US);
}

static bool read_body(struct exchange *x, struct exchange_event *ev)
{
    struct client_event c;
    enum answer_result r;
    client_conn_next(pooled_conn(x->conn), &c);
    switch (c.kind) {
    case CLIENT_NOTHING:
        wait_for_more(x);
        return false;
    case CLIENT_HEAD:
        return false;
    case CLIENT_BODY:
        answer_feed(&x->answer, c.body);
        return true;
    case CLIENT_USED_UP:
        answer_keep(&x->answer);
        return !take_back(x, ev);
    case CLIENT_END:
        x->is_body_read = true;
        return true;
    case CLIENT_BROKEN:
        r = answer_cut(&x->answer, c.why);
        close_conn(x); /* it is of no more use, even where the answer is whole */
        settle(x, r);
        return true;
    case CLIENT_BAD:
        x->bad = c.why;
        return true;
    }
    RM_UNREACHABLE();
    return false;
}

/* With the last event of what was read the owner is done with all of it: no flush need be told. */
static inline void tell_output(struct exchange *x, struct exchange_event *ev)
{
    struct client_conn *c = pooled_conn(x->conn);
    ev->kind = EXCHANGE_OUTPUT;
    x->n_outputs++;
    ev->is_last = answer_rests(&x->answer) && client_conn_rests(c);
    if (ev->is_last || (answer_is_used_up(&x->answer) && client_conn_is_used_up(c)))
        ev->out.is_lasting = false;
    x->has_lent = ev->out.is_lasting;
    x->is_flowing = x->answer.is_dry && x->n_outputs < OUTPUTS_PER_TURN;
}

static bool step_answering(struct exchange *x, struct exchange_event *ev)
{
    enum answer_result r = x->answer.is_dry ? ANSWER_MORE : answer_next(&x->answer, &ev->out);
    if (r == ANSWER_MORE && x->is_body_read)
        r = answer_end(&x->answer, &ev->out);
    if (r == ANSWER_OUTPUT) {
        tell_output(x, ev);
        return false;
    }
    if (r == ANSWER_MORE && x->bad == NULL)
        return read_body(x, ev);
    if (take_back(x, ev))
        return false; /* asking again gives r again */
    if (r == ANSWER_MORE)
        fail(x, OUTCOME_PROTOCOL_ERROR, x->bad);
    else
        settle(x, r);
    return true;
}

static bool step(struct exchange *x, struct exchange_event *ev)
{
    switch ((enum exchange_state)x->sm.state) {
    case EXCHANGE_CONNECTING:
    case EXCHANGE_OVER:
        return false;
    case EXCHANGE_WAITING:
        return step_waiting(x, ev);
    case EXCHANGE_REFUSED:
        return step_refused(x);
    case EXCHANGE_ANSWERING:
        return step_answering(x, ev);
    case EXCHANGE_WELL:
        move(x, EXCHANGE_OVER);
        ev->kind = EXCHANGE_ENDED;
        return false;
    case EXCHANGE_ILL:
        move(x, EXCHANGE_OVER);
        ev->kind = EXCHANGE_FAILED;
        ev->failure = x->failure;
        return false;
    }
    RM_UNREACHABLE();
    return false;
}

/* ---- the owner's calls ---- */

static void on_task(struct task *t)
{
    struct exchange *x = RM_CONTAINER(t, struct exchange, task);
    x->n_outputs = 0;
    tell(x);
}

/* A short request is written in one piece: the kernel takes longer to look at what a splice consists of than its copy
 * takes. */
static struct client_request whole_request(const struct pieces *body, struct buf *head)
{
    if (body->n_bytes > SHORT_BYTES)
        return (struct client_request){buf_bytes(head), body->v, body->n};
    char *at = buf_reserve(head, body->n_bytes);
    for (const struct bytes *b = body->v, *end = b + body->n; b < end; at += b++->n)
        if (b->n > 0)
            memcpy(at, b->p, b->n);
    buf_grew(head, body->n_bytes);
    return (struct client_request){.head = buf_bytes(head)};
}

static struct opening *opening_new(const struct exchange_spec *spec)
{
    struct opening *o = mem_take(sizeof *o);
    *o = (struct opening){.spec = *spec};
    o->connect_us = -1;
    if (spec->body.n_bytes <= SHORT_BYTES)
        (void)buf_reserve(&o->head_out, HEAD_BYTES + spec->body.n_bytes);
    request_put_head(&o->spec, &o->head_out);
    o->request = whole_request(&spec->body, &o->head_out);
    return o;
}

struct exchange *exchange_open(struct upstream *u, const struct exchange_spec *spec)
{
    RM_ASSERT(u != NULL && spec->provider != NULL && spec->target != NULL && spec->ready != NULL);
    struct exchange *x = memset(mem_take(sizeof *x), 0, offsetof(struct exchange, answer));
    mem_count(MEM_EXCHANGE, 1);
    x->upstream = u;
    x->loop = u->loop;
    x->ready = spec->ready;
    x->arg = spec->arg;
    x->provider = spec->provider;
    x->target = spec->target;
    x->opening = opening_new(spec);
    x->timer.fn = on_timer;
    x->task.fn = on_task;
    list_init(&x->task.node);
    sm_init(&x->sm, EXCHANGE_CONNECTING);
    x->conn = spec->is_fresh ? NULL : pool_take(&u->pool, spec->provider);
    x->is_reused = x->conn != NULL;
    if (x->conn != NULL)
        send_request(x);
    else
        start_dial(x);
    return x;
}

static __attribute__((noinline)) void next_any(struct exchange *x, struct exchange_event *ev)
{
    x->is_flowing = false;
    if (x->n_outputs >= OUTPUTS_PER_TURN) {
        if (!take_back(x, ev))
            loop_defer(x->loop, &x->task);
        return;
    }
    while (step(x, ev))
        ;
}

/* The usual event of a stream that runs, in few steps. False: nothing was lost, the long way goes on from here. */
static bool next_known(struct exchange *x, struct exchange_event *ev)
{
    struct bytes in, framed;
    if (!x->is_flowing || !client_conn_payload(pooled_conn(x->conn), &in, &framed) ||
        !answer_feed_known(&x->answer, in, &ev->out))
        return false;
    if (ev->out.raw.n == in.n)
        ev->out.framed = framed;
    tell_output(x, ev);
    return true;
}

void exchange_next(struct exchange *x, struct exchange_event *ev)
{
    RM_ASSERT(!x->is_closed);
    ev->kind = EXCHANGE_NOTHING;
    if (!next_known(x, ev) && !x->is_paused)
        next_any(x, ev);
}

void exchange_pause(struct exchange *x)
{
    RM_ASSERT(!x->is_closed);
    x->is_paused = true;
    x->is_flowing = false;
    if (x->conn != NULL)
        client_conn_pause(pooled_conn(x->conn));
}

void exchange_resume(struct exchange *x)
{
    RM_ASSERT(!x->is_closed);
    if (!x->is_paused)
        return;
    x->is_paused = false;
    if (x->conn != NULL)
        client_conn_resume(pooled_conn(x->conn));
    loop_post(x->loop, &x->task);
}

bool exchange_is_told(const struct exchange *x)
{
    return x->has_answer && x->is_body_read && answer_is_told(&x->answer);
}

struct exchange_reach exchange_reached(const struct exchange *x)
{
    return (struct exchange_reach){.is_connected = x->is_connected,
                                   .is_sent = is_sent(x),
                                   .connect_us = x->opening != NULL ? x->opening->connect_us : -1};
}

bool exchange_is_unacked(const struct exchange *x)
{
    return x->conn != NULL && x->is_reused && client_conn_is_unacked(pooled_conn(x->conn));
}

void exchange_drop_heads(struct exchange *x)
{
    struct opening *o = x->opening;
    if (o == NULL)
        return;
    buf_fini(&o->head_out);
    arena_fini(&o->head_arena);
    mem_put(o, sizeof *o);
    x->opening = NULL;
}

static void release(struct reap *r)
{
    struct exchange *x = RM_CONTAINER(r, struct exchange, reap);
    exchange_drop_heads(x);
    arena_fini(&x->arena);
    mem_put(x, sizeof *x);
    mem_count(MEM_EXCHANGE, -1);
}

void exchange_close(struct exchange *x)
{
    RM_ASSERT(!x->is_closed);
    x->is_closed = true;
    task_cancel(&x->task);
    timer_cancel(x->loop, &x->timer);
    if (x->opening != NULL)
        dial_cancel(x->opening->dial);
    if (exchange_is_told(x))
        put_conn(x);
    else
        close_conn(x);
    if (x->has_answer)
        answer_fini(&x->answer);
    x->has_answer = false;
    x->reap = (struct reap){.fn = release};
    loop_reap(x->loop, &x->reap);
}

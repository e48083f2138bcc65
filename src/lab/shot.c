/* A hop is a connection (kept or dialled), the request on it, and what is heard of the answer. A kept connection that
 * breaks before any byte of an answer says nothing about the peer: the hop is begun again on a fresh one. In a chain a
 * hop that fails before its first token is followed by the next one; after the first token nothing is. */
#include "lab/shot.h"

#include "base/text.h"

#include <stdio.h>

static void begin_hop(struct shot *s, bool wants_fresh);

static const struct load_target *target(const struct shot *s)
{
    return &s->world->plan->targets[s->hop];
}

static uint64_t clock_of(const struct shot *s)
{
    return loop_clock_us() - s->world->began_us;
}

static void word(char out[SAMPLE_WORD_BYTES], struct bytes text)
{
    snprintf(out, SAMPLE_WORD_BYTES, "%.*s", (int)text.n, text.p != NULL ? text.p : "");
}

/* ---- ends ---- */

static void let_go(struct shot *s)
{
    timer_cancel(s->world->loop, &s->timer);
    if (s->dial != NULL)
        dial_cancel(s->dial);
    if (s->conn != NULL)
        client_conn_close(s->conn);
    s->dial = NULL;
    s->conn = NULL;
    heard_fini(&s->heard);
}

static void end_shot(struct shot *s, const char *error)
{
    struct sample *m = s->sample;
    m->end_us = clock_of(s);
    m->is_ok = error == NULL;
    word(m->error, bytes_of(error));
    if (m->first_us == 0)
        m->provider[0] = '\0';
    let_go(s);
    s->is_running = false;
    loop_post(s->world->loop, &s->ended);
}

static bool has_next_hop(const struct shot *s)
{
    return s->world->plan->is_chain && s->sample->first_us == 0 && s->hop + 1 < s->world->plan->n_targets;
}

static void fail_hop(struct shot *s, const char *error)
{
    bool is_over_time = clock_of(s) - s->sample->start_us >= s->world->plan->timeout_us;
    if (!has_next_hop(s) || is_over_time) {
        end_shot(s, error);
        return;
    }
    let_go(s);
    s->hop++;
    begin_hop(s, false);
}

static void on_timer(struct timer *t)
{
    fail_hop(RM_CONTAINER(t, struct shot, timer), "timeout");
}

static void on_ended(struct task *t)
{
    struct shot *s = RM_CONTAINER(t, struct shot, ended);
    s->on_end(s);
}

/* ---- the answer ---- */

static void read_head(struct shot *s, const struct head *h)
{
    struct sample *m = s->sample;
    uint64_t n;
    m->status = h->status;
    struct bytes provider = fields_get(&h->fields, "x-ringmain-provider");
    word(m->provider, provider.p != NULL ? provider : bytes_of(target(s)->name));
    text_id_parse(fields_get(&h->fields, "x-ringmain-request-id"), &m->request_id);
    if (bytes_to_u64(fields_get(&h->fields, "x-ringmain-attempts"), &n) && n < UINT16_MAX)
        m->attempts = (uint16_t)n;
    s->is_stream = bytes_starts_with(fields_get(&h->fields, "content-type"), BYTES("text/event-stream"));
}

static void read_body(struct shot *s, struct bytes part)
{
    struct sample *m = s->sample;
    if (m->status != 200 || !s->is_stream)
        return;
    heard_feed(&s->heard, part, clock_of(s) + 1);
    if (m->first_us != 0 || s->heard.first_us == 0)
        return;
    m->first_us = s->heard.first_us - 1;
    if (m->first_us == 0)
        m->first_us = 1;
    /* From here on only the whole request's time counts. */
    timer_arm(s->world->loop, &s->timer, s->world->began_us + m->start_us + s->world->plan->timeout_us);
}

static void read_end(struct shot *s, bool is_whole, const char *broken)
{
    struct sample *m = s->sample;
    char status[SAMPLE_WORD_BYTES];
    const char *error = NULL;
    m->input = s->heard.input;
    m->output = s->heard.output;
    if (m->status == 0)
        error = broken;
    else if (m->status != 200) {
        snprintf(status, sizeof status, "status_%u", m->status);
        error = status;
    } else if (!s->is_stream)
        error = "no_stream";
    else
        error = heard_fault(&s->heard, is_whole);
    if (is_whole) {
        wires_put(s->world->wires, target(s), s->conn);
        s->conn = NULL;
    }
    if (error == NULL)
        end_shot(s, NULL);
    else
        fail_hop(s, error);
}

static void read_broken(struct shot *s, const struct client_event *ev)
{
    if (s->is_reused && ev->kind == CLIENT_BROKEN && !ev->any_response_byte) {
        client_conn_close(s->conn);
        s->conn = NULL;
        begin_hop(s, true);
        return;
    }
    if (ev->kind == CLIENT_BAD && s->sample->status == 0)
        read_end(s, false, "not_http");
    else
        read_end(s, false, "broken");
}

static void on_conn(struct client_conn *c, void *arg)
{
    struct shot *s = arg;
    struct client_event ev;
    while (s->is_running && s->conn == c) {
        client_conn_next(c, &ev);
        switch (ev.kind) {
        case CLIENT_NOTHING:
            return;
        case CLIENT_USED_UP:
            break;
        case CLIENT_HEAD:
            read_head(s, ev.head);
            break;
        case CLIENT_BODY:
            read_body(s, ev.body);
            break;
        case CLIENT_END:
            read_end(s, true, NULL);
            return;
        case CLIENT_BROKEN:
        case CLIENT_BAD:
            read_broken(s, &ev);
            return;
        }
    }
}

/* ---- the start ---- */

static void send_on(struct shot *s, struct client_conn *c)
{
    const struct load_target *to = target(s);
    s->conn = c;
    s->request = (struct client_request){to->head, &to->body, to->body.n > 0};
    client_conn_send(c, &s->request, on_conn, s);
}

static void on_dial(const struct dial_result *r, void *arg)
{
    struct shot *s = arg;
    s->dial = NULL;
    if (r->failure != DIAL_OK)
        fail_hop(s, r->failure == DIAL_DNS ? "no_address" : r->failure == DIAL_TLS ? "tls" : "refused");
    else
        send_on(s, client_conn_new(s->world->loop, r->stream));
}

/* The sooner of the two: the hop's first token, the whole request. */
static void arm(struct shot *s)
{
    const struct load_plan *p = s->world->plan;
    uint64_t end_us = s->sample->start_us + p->timeout_us;
    if (p->first_token_us > 0 && has_next_hop(s) && s->hop_us + p->first_token_us < end_us)
        end_us = s->hop_us + p->first_token_us;
    timer_arm(s->world->loop, &s->timer, s->world->began_us + end_us);
}

/* wants_fresh: the same hop again, because a kept connection was dead. */
static void begin_hop(struct shot *s, bool wants_fresh)
{
    const struct load_target *to = target(s);
    if (!wants_fresh) {
        heard_init(&s->heard);
        s->hop_us = clock_of(s);
        s->sample->attempts++;
        arm(s);
    }
    s->sample->status = 0;
    s->is_stream = false;
    struct client_conn *kept = wants_fresh ? NULL : wires_take(s->world->wires, to);
    s->is_reused = kept != NULL;
    if (kept != NULL)
        send_on(s, kept);
    else
        s->dial = dial_start(s->world->loop, s->world->resolver, to->tls, to->host, to->port, on_dial, s);
}

void shot_init(struct shot *s, const struct shot_world *w, void (*on_end)(struct shot *s))
{
    *s = (struct shot){.world = w, .on_end = on_end, .timer.fn = on_timer, .ended.fn = on_ended};
    list_init(&s->ended.node);
}

void shot_start(struct shot *s, struct sample *sample, size_t hop)
{
    RM_ASSERT(!s->is_running && !list_is_linked(&s->ended.node));
    s->sample = sample;
    s->hop = hop;
    s->is_running = true;
    sample->start_us = clock_of(s);
    begin_hop(s, false);
}

void shot_stop(struct shot *s)
{
    if (s->is_running)
        end_shot(s, "stopped");
}

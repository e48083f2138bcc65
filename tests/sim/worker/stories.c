/* Each story is a route, scripts for the providers, and what must be true at exact virtual times. The world checks at
 * each story's end that nothing is left: no object alive, no timer armed, no connection open. */
#include "stories.h"

#include "world.h"

#include <stdio.h>

#define MS UINT64_C(1000)
#define SEC UINT64_C(1000000)
#define ANSWER "head role token token finish usage done end"
#define TWO_LINKS "  - { model: m, order: [a, b], ttft_budget_ms: 100, idle_timeout_ms: 1000, retries: 0 }"

#define RESUMING "  - { model: m, order: [a, b], ttft_budget_ms: 100, idle_timeout_ms: 1000, retries: 0, resume: on }"

static const char in_stream_error[] = "data: {\"error\":";

static struct peer *peer_a(struct world *w)
{
    return world_peer(w, 0, 0);
}

static struct client *ask_at_once(struct world *w, unsigned ask)
{
    struct client *c = client_open(w, 0, PIPE_BYTES);
    client_ask(c, ask);
    world_settle(w);
    return c;
}

/* All timers have run off by themselves: pooled connections too. */
static void check_runs_dry(struct world *w, struct client *c)
{
    if (c->stream != NULL)
        client_close(c, false);
    world_run_to(w, world_now(w) + 56 * SEC);
    CHECK(w, world_is_quiet(w));
    CHECK(w, world_next(w) == 0);
}

/* ---- answers and failover ---- */

static void answers_and_runs_dry(struct world *w)
{
    world_script(w, 0, "+7ms head role +3ms token token finish usage done end");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 10 * MS - 1);
    CHECK(w, c->got.n == 0);
    world_run_to(w, 10 * MS);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_has(c, "~a.1.0~") && client_has(c, "~a.1.1~") && client_has(c, "data: [DONE]\n\n"));
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_OK && world_row(w, 0)->ttft_us == 10000);
    CHECK(w, world_row(w, 0)->n_attempts == 1 && world_row(w, 0)->attempts[0].connect_us == 0);
    check_runs_dry(w, c);
}

static void every_byte_alone(struct world *w)
{
    struct buf text = {0};
    world_script(w, 0, ANSWER);
    w->providers[0].pipe_bytes = 1;
    ask_text(&text, ASK_STREAM, "");
    struct client *c = client_open(w, 0, 1);
    for (size_t i = 0; i < text.n; i++) {
        client_send(c, bytes_slice(buf_bytes(&text), i, i + 1));
        world_run_to(w, world_now(w) + 10);
    }
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_has(c, "data: [DONE]\n\n"));
    buf_fini(&text);
    check_runs_dry(w, c);
}

static void whole_answer_is_collected(struct world *w)
{
    world_script(w, 0, "head role token +50ms token finish usage done end");
    struct client *c = ask_at_once(w, ASK_WHOLE);
    world_run_to(w, 50 * MS - 1);
    CHECK(w, c->got.n == 0);
    world_run_to(w, 50 * MS);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_has(c, "~a.1.0~~a.1.1~") && client_has(c, "\"chat.completion\""));
    check_runs_dry(w, c);
}

static void budget_ends_in_its_turn(struct world *w)
{
    world_script(w, 0, "head role");
    world_script(w, 1, "+5ms " ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 100 * MS - 1);
    CHECK(w, peer_is_open(peer_a(w)) && w->providers[1].n_dials == 0);
    loop_turn(w->workers[0]->loop, 1);
    CHECK(w, world_now(w) == 100 * MS);
    CHECK(w, peer_a(w)->was_reset && peer_a(w)->closed_at_us == LOOP_SIM_START_US + 100 * MS);
    CHECK(w, w->providers[1].n_dials == 1 && c->got.n == 0);
    world_run_to(w, 106 * MS);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_has(c, "a/m;ttft_timeout;status=200;100ms, b/m;ok;ttft=5ms"));
    CHECK(w, client_count(c, "~a.") == 0 && client_count(c, "~b.") == 2);
    check_runs_dry(w, c);
}

static void token_a_microsecond_early_is_in_time(struct world *w)
{
    world_script(w, 0, "head role +99999us token finish done end");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 100 * MS);
    CHECK(w, client_is_answered(c, 200) && client_has(c, "~a.1.0~"));
    CHECK(w, w->providers[1].n_dials == 0 && world_row(w, 0)->ttft_us == 99999);
    check_runs_dry(w, c);
}

static void connect_timeout_cancels_the_dial(struct world *w)
{
    w->providers[0].connecting = CONNECTING_SILENT;
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 40 * MS - 1);
    CHECK(w, w->providers[0].n_dials_cancelled == 0);
    world_run_to(w, 40 * MS);
    CHECK(w, w->providers[0].n_dials_cancelled == 1);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, world_row(w, 0)->attempts[0].outcome == OUTCOME_CONNECT_TIMEOUT);
    check_runs_dry(w, c);
}

static void refused_connect_goes_on_at_once(struct world *w)
{
    w->providers[0].connecting = CONNECTING_REFUSED;
    w->providers[1].connecting = CONNECTING_UNKNOWN;
    struct client *c = ask_at_once(w, ASK_STREAM);
    CHECK(w, client_is_answered(c, 503));
    CHECK(w, client_has(c, "\"all_providers_unavailable\""));
    CHECK(w, world_row(w, 0)->n_started == 2 && world_row(w, 0)->outcome == OUTCOME_ALL_UNAVAILABLE);
    check_runs_dry(w, c);
}

static void refusal_without_its_body_waits_two_seconds(struct world *w)
{
    world_script(w, 0, "+1ms refusing:503");
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 1 * MS + 2 * SEC - 1);
    CHECK(w, peer_is_open(peer_a(w)) && w->providers[1].n_dials == 0);
    world_run_to(w, 1 * MS + 2 * SEC);
    CHECK(w, peer_a(w)->was_reset);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, world_row(w, 0)->attempts[0].outcome == OUTCOME_OVERLOADED);
    CHECK(w, world_row(w, 0)->attempts[0].status == 503);
    check_runs_dry(w, c);
}

static void gate_holds_a_failing_200_back(struct world *w)
{
    world_script(w, 0, "head role +3ms error");
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 3 * MS);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_count(c, "\"role\":\"assistant\"") == 1 && !client_has(c, in_stream_error));
    CHECK(w, world_row(w, 0)->attempts[0].in_stream);
    check_runs_dry(w, c);
}

/* The answer is committed while the request is still going out: its bytes must live on. */
static void provider_answers_before_it_has_listened(struct world *w)
{
    static const char fill[] = "this is the prompt ";
    struct buf text = {0}, prompt = {0};
    while (prompt.n < 100000)
        buf_puts(&prompt, fill);
    buf_printf(&text, "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}",
               buf_cstr(&prompt));
    w->providers[0].is_hasty = true;
    w->providers[0].pipe_bytes = 2000;
    world_script(w, 0, "deaf head role token +10ms listen +10ms token finish done end");
    struct client *c = client_open(w, 0, 4096);
    buf_printf(&c->out, "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: %zu\r\n\r\n", text.n);
    client_send(c, buf_bytes(&text));
    world_settle(w);
    CHECK(w, client_has(c, "~a.1.0~") && peer_a(w)->n_due > 0);
    world_run_to(w, 20 * MS);
    CHECK(w, client_is_answered(c, 200) && peer_a(w)->n_due == 0);
    CHECK(w, bytes_find(buf_bytes(&peer_a(w)->last_request), buf_bytes(&prompt)) != SIZE_MAX);
    buf_fini(&text);
    buf_fini(&prompt);
    check_runs_dry(w, c);
}

/* ---- after commit ---- */

static void commit_then(struct world *w, const char *end)
{
    char script[80];
    snprintf(script, sizeof script, "head role token +4ms %s", end);
    world_script(w, 0, script);
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    CHECK(w, client_has(c, "~a.1.0~"));
    world_run_to(w, 4 * MS);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_count(c, in_stream_error) == 1);
    CHECK(w, !client_has(c, "[DONE]") && !client_has(c, "\"finish_reason\":\"stop\""));
    CHECK(w, w->providers[1].n_dials == 0);
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_STREAM_ERROR || world_row(w, 0)->outcome == OUTCOME_PROTOCOL_ERROR);
    CHECK(w, world_row(w, 0)->attempts[0].is_served);
    check_runs_dry(w, c);
}

static void commit_then_fin(struct world *w)
{
    commit_then(w, "fin");
}

static void commit_then_reset(struct world *w)
{
    commit_then(w, "rst");
}

static void commit_then_clean_end_without_marker(struct world *w)
{
    commit_then(w, "end");
}

static void commit_then_nonsense(struct world *w)
{
    commit_then(w, "bad token finish done end");
}

static void commit_then_silence_is_cut_by_idle_time(struct world *w)
{
    world_script(w, 0, "head role token +300ms token");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 1300 * MS - 1);
    CHECK(w, peer_is_open(peer_a(w)) && !client_has(c, in_stream_error));
    world_run_to(w, 1300 * MS);
    CHECK(w, peer_a(w)->was_reset && client_count(c, in_stream_error) == 1 && client_is_answered(c, 200));
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_IDLE_TIMEOUT);
    check_runs_dry(w, c);
}

/* ---- the client leaves ---- */

/* The close is seen by the gateway, and by the provider, in the turn that follows it: time does not move. */
static void leave_now(struct world *w, struct client *c, bool reset)
{
    uint64_t now = world_now(w);
    CHECK(w, peer_is_open(peer_a(w)));
    client_close(c, reset);
    world_turn(w, 0);
    CHECK(w, world_now(w) == now);
    CHECK(w, !peer_is_open(peer_a(w)) && peer_a(w)->was_reset);
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_CLIENT_CANCELLED);
    CHECK(w, world_is_quiet(w));
    check_runs_dry(w, c);
}

static void fin_before_any_byte_cancels(struct world *w)
{
    world_script(w, 0, "");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 20 * MS);
    leave_now(w, c, false);
}

static void reset_in_the_stream_cancels(struct world *w)
{
    world_script(w, 0, "head role token");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 20 * MS);
    leave_now(w, c, true);
}

static void fin_behind_the_request_cancels(struct world *w)
{
    struct client *c = client_open(w, 0, PIPE_BYTES);
    client_ask(c, ASK_WHOLE);
    client_close(c, false); /* request and FIN come together */
    world_settle(w);
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_CLIENT_CANCELLED);
    CHECK(w, w->providers[0].n_requests == 0);
    check_runs_dry(w, c);
}

static void leaving_cancels_a_dial(struct world *w)
{
    w->providers[0].connecting = CONNECTING_SILENT;
    struct client *c = ask_at_once(w, ASK_STREAM);
    client_close(c, false);
    world_turn(w, 0);
    CHECK(w, w->providers[0].n_dials_cancelled == 1);
    CHECK(w, world_is_quiet(w) && world_next(w) == 0);
}

static void leaving_between_two_tries(struct world *w)
{
    world_script(w, 0, "status:500");
    struct client *c = ask_at_once(w, ASK_STREAM); /* a pause of 50 to 150 ms before the retry */
    world_run_to(w, 40 * MS);
    CHECK(w, w->providers[0].n_requests == 1 && c->got.n == 0);
    client_close(c, false);
    world_turn(w, 0);
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_CLIENT_CANCELLED);
    world_run_to(w, 1 * SEC);
    CHECK(w, w->providers[0].n_requests == 1);
    check_runs_dry(w, c);
}

/* ---- backpressure ---- */

static void slow_client_slows_its_provider(struct world *w)
{
    world_script(w, 0, "head role flood:1000:4000 finish done end"); /* 4 MB */
    struct client *c = client_open(w, 0, 4096);
    c->is_deaf = true;
    client_ask(c, ASK_STREAM);
    world_settle(w);
    size_t n_taken = peer_a(w)->n_written;
    CHECK(w, n_taken > 64 * 1024 && n_taken < 400 * 1024);
    world_run_to(w, 20 * SEC); /* twenty times the idle time: it stands still */
    CHECK(w, peer_is_open(peer_a(w)) && peer_a(w)->n_written == n_taken);
    client_listen(c);
    world_settle(w);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_has(c, "~a.1.999~") && client_has(c, "data: [DONE]\n\n"));
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_OK);
    check_runs_dry(w, c);
}

static void idle_clock_stands_still_exactly(struct world *w)
{
    world_script(w, 0, "head role +10ms token +400ms big:100000"); /* paused at 410 ms by one event, then silence */
    struct client *c = client_open(w, 0, 4096);
    c->is_deaf = true;
    client_ask(c, ASK_STREAM);
    world_run_to(w, 7 * SEC);
    CHECK(w, peer_is_open(peer_a(w)));
    client_listen(c);
    world_run_to(w, 8 * SEC - 1);
    CHECK(w, peer_is_open(peer_a(w)) && !client_has(c, in_stream_error));
    world_run_to(w, 8 * SEC);
    CHECK(w, !peer_is_open(peer_a(w)) && client_has(c, in_stream_error));
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_IDLE_TIMEOUT);
    check_runs_dry(w, c);
}

static void stalled_client_is_cut(struct world *w)
{
    world_script(w, 0, "+5ms head role flood:500:4000 finish done end");
    struct client *c = client_open(w, 0, 4096);
    c->is_deaf = true;
    client_ask(c, ASK_STREAM);
    world_run_to(w, 5 * MS + 30 * SEC - 1);
    CHECK(w, peer_is_open(peer_a(w)));
    world_run_to(w, 5 * MS + 30 * SEC);
    CHECK(w, peer_a(w)->was_reset && peer_a(w)->closed_at_us == LOOP_SIM_START_US + 5 * MS + 30 * SEC);
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_CLIENT_CANCELLED);
    CHECK(w, world_live(w, MEM_RELAY) == 0);
    check_runs_dry(w, c);
}

static void whole_answer_that_is_not_read_is_cut(struct world *w)
{
    world_script(w, 0, "head role big:20000 finish done end");
    struct client *c = client_open(w, 0, 4096);
    c->is_deaf = true;
    client_ask(c, ASK_WHOLE);
    world_settle(w);
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_OK && world_live(w, MEM_RELAY) == 0);
    world_run_to(w, 30 * SEC - 1);
    CHECK(w, front_n_conns(w->workers[0]->front) == 1);
    world_run_to(w, 30 * SEC);
    CHECK(w, front_n_conns(w->workers[0]->front) == 0);
    check_runs_dry(w, c);
}

static void a_trickle_is_no_stall(struct world *w)
{
    world_script(w, 0, "head role flood:30:4000 finish done end");
    struct client *c = client_open(w, 0, 2048);
    c->is_deaf = true;
    client_ask(c, ASK_STREAM);
    for (int i = 0; i < 5; i++) { /* something moves every 29 s */
        world_run_to(w, world_now(w) + 29 * SEC);
        client_listen(c);
        c->is_deaf = true;
        world_settle(w);
    }
    client_listen(c);
    world_settle(w);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_has(c, "~a.1.29~") && world_row(w, 0)->outcome == OUTCOME_OK);
    check_runs_dry(w, c);
}

/* ---- drain and reload ---- */

static void drain_lets_the_answer_end(struct world *w)
{
    world_script(w, 0, "head role token +900ms token finish done end");
    struct client *idle = client_open(w, 0, PIPE_BYTES);
    struct client *c = ask_at_once(w, ASK_STREAM);
    worker_drain(w->workers[0]);
    world_settle(w);
    CHECK(w, idle->has_eof && !idle->was_reset); /* at once */
    CHECK(w, !c->has_eof && worker_in_flight(w->workers[0]) == 1);
    world_run_to(w, 900 * MS);
    CHECK(w, client_is_answered(c, 200) && client_has(c, "data: [DONE]\n\n"));
    CHECK(w, worker_in_flight(w->workers[0]) == 0);
    CHECK(w, c->has_eof && !c->was_reset);
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_OK);
    check_runs_dry(w, c);
}

static void drain_past_its_time_cuts(struct world *w)
{
    _Atomic unsigned n_cut = 0;
    world_script(w, 0, "head role token");
    world_script(w, 0, "head role");
    struct client *c = ask_at_once(w, ASK_STREAM);
    struct client *whole = ask_at_once(w, ASK_WHOLE);
    worker_drain(w->workers[0]);
    world_run_to(w, 50 * MS);
    worker_cut(w->workers[0], &n_cut);
    world_turn(w, 0);
    CHECK(w, n_cut == 2);
    CHECK(w, !peer_is_open(peer_a(w)) && !peer_is_open(world_peer(w, 0, 1)));
    CHECK(w, client_is_answered(c, 200) && client_count(c, in_stream_error) == 1 && !client_has(c, "[DONE]"));
    CHECK(w, client_is_answered(whole, 503));
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_DRAINED && world_row(w, 1)->outcome == OUTCOME_DRAINED);
    CHECK(w, world_is_quiet(w) && world_next(w) == 0);
}

static void requests_keep_the_snapshot_they_began_with(struct world *w)
{
    world_script(w, 0, "head role token +3s token finish done end");
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    struct config *now = world_config(w, "  - { model: m, order: [b] }", "");
    worker_reload(w->workers[0], now);
    config_unref(w->config);
    w->config = now;
    world_run_to(w, 1 * SEC);
    CHECK(w, world_live(w, MEM_CONFIG) == 4); /* two snapshots, a handle of each */
    struct client *later = client_open(w, 0, PIPE_BYTES);
    client_ask(later, ASK_STREAM);
    world_settle(w);
    CHECK(w, client_is_answered(later, 200) && client_has(later, "~b.1.0~"));
    world_run_to(w, 3 * SEC - 1);
    CHECK(w, world_live(w, MEM_CONFIG) == 4 && !client_has(c, "[DONE]"));
    world_run_to(w, 3 * SEC);
    CHECK(w, client_is_answered(c, 200) && client_has(c, "~a.1.1~"));
    CHECK(w, world_live(w, MEM_CONFIG) == 2);
    client_close(later, false);
    check_runs_dry(w, c);
}

static void reload_lets_go_of_dropped_providers(struct world *w)
{
    world_script(w, 0, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    CHECK(w, upstream_n_idle(w->workers[0]->upstream) == 1);
    struct config *now = world_config(w, "  - { model: m, order: [b] }", "");
    worker_reload(w->workers[0], now);
    config_unref(w->config);
    w->config = now;
    world_settle(w);
    CHECK(w, peer_is_open(peer_a(w))); /* the provider is still there, only the route has changed */
    CHECK(w, world_live(w, MEM_CONFIG) == 2);
    check_runs_dry(w, c);
}

static void reload_drops_connections_of_a_provider_that_left(struct world *w)
{
    world_script(w, 0, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    struct config *now =
        world_config(w, "  - { model: m, order: [b] }",
                     "providers:\n  b: { dialect: openai, base_url: 'http://b.test/v1', api_key: kb }");
    worker_reload(w->workers[0], now);
    config_unref(w->config);
    w->config = now;
    world_turn(w, 0);
    CHECK(w, !peer_is_open(peer_a(w)) && upstream_n_idle(w->workers[0]->upstream) == 0);
    check_runs_dry(w, c);
}

/* ---- the pool ---- */

static void second_request_takes_the_warm_connection(struct world *w)
{
    w->providers[0].connect_us = 20 * MS;
    world_script(w, 0, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 20 * MS);
    client_ask(c, ASK_STREAM);
    world_settle(w);
    CHECK(w, w->providers[0].n_dials == 1 && peer_a(w)->n_requests == 2);
    CHECK(w, world_row(w, 0)->attempts[0].connect_us == 20000 && world_row(w, 1)->attempts[0].connect_us == -1);
    CHECK(w, client_count(c, "data: [DONE]") == 2);
    check_runs_dry(w, c);
}

static void idle_connection_goes_after_55_seconds(struct world *w)
{
    world_script(w, 0, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 55 * SEC - 1);
    CHECK(w, peer_is_open(peer_a(w)) && upstream_n_idle(w->workers[0]->upstream) == 1);
    world_run_to(w, 55 * SEC);
    CHECK(w, !peer_is_open(peer_a(w)) && !peer_a(w)->was_reset);
    CHECK(w, upstream_n_idle(w->workers[0]->upstream) == 0);
    check_runs_dry(w, c);
}

/* Its timer is armed for the first time that it was idle; that has passed while it was taken, and while it was idle
 * again. */
static void idle_time_begins_anew_with_each_use(struct world *w)
{
    world_script(w, 0, ANSWER);
    world_script(w, 0, ANSWER);
    world_script(w, 0, "head role token +30000ms token finish usage done end");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 30 * SEC);
    client_ask(c, ASK_STREAM);
    world_run_to(w, 60 * SEC);
    CHECK(w, peer_is_open(peer_a(w)) && upstream_n_idle(w->workers[0]->upstream) == 1);
    client_ask(c, ASK_STREAM);
    world_run_to(w, 86 * SEC);
    CHECK(w, peer_is_open(peer_a(w)) && upstream_n_idle(w->workers[0]->upstream) == 0);
    world_run_to(w, 100 * SEC);
    CHECK(w, w->providers[0].n_dials == 1 && client_count(c, "data: [DONE]") == 3);
    world_run_to(w, 145 * SEC - 1);
    CHECK(w, peer_is_open(peer_a(w)));
    world_run_to(w, 145 * SEC);
    CHECK(w, !peer_is_open(peer_a(w)) && upstream_n_idle(w->workers[0]->upstream) == 0);
    check_runs_dry(w, c);
}

static void dead_pooled_connection_is_replayed(struct world *w)
{
    world_script(w, 0, ANSWER);
    world_script(w, 0, "+1ms fin"); /* the request came too late */
    world_script(w, 0, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    client_ask(c, ASK_STREAM);
    world_run_to(w, 1 * MS);
    CHECK(w, client_count(c, "data: [DONE]") == 2);
    CHECK(w, w->providers[0].n_dials == 2 && w->providers[0].n_requests == 3 && w->providers[1].n_dials == 0);
    CHECK(w, world_row(w, 1)->outcome == OUTCOME_OK && world_row(w, 1)->n_started == 1);
    CHECK(w, world_row(w, 1)->attempts[0].connect_us == 0); /* a fresh one */
    check_runs_dry(w, c);
}

static void closed_pooled_connection_is_not_taken(struct world *w)
{
    world_script(w, 0, ANSWER " +5ms fin");
    struct client *c = ask_at_once(w, ASK_STREAM);
    CHECK(w, upstream_n_idle(w->workers[0]->upstream) == 1);
    world_run_to(w, 5 * MS);
    CHECK(w, upstream_n_idle(w->workers[0]->upstream) == 0);
    client_ask(c, ASK_STREAM);
    world_settle(w);
    CHECK(w, client_count(c, "data: [DONE]") == 2 && w->providers[0].n_dials == 2);
    check_runs_dry(w, c);
}

static void connection_that_says_close_is_not_kept(struct world *w)
{
    world_script(w, 0, "closing role token finish done end");
    struct client *c = ask_at_once(w, ASK_STREAM);
    CHECK(w, upstream_n_idle(w->workers[0]->upstream) == 0 && !peer_is_open(peer_a(w)));
    client_ask(c, ASK_STREAM);
    world_settle(w);
    CHECK(w, client_count(c, "data: [DONE]") == 2 && w->providers[0].n_dials == 2);
    check_runs_dry(w, c);
}

static void late_end_is_waited_for_a_moment(struct world *w)
{
    world_script(w, 0, "head role token finish done +249ms end");
    struct client *c = ask_at_once(w, ASK_STREAM);
    CHECK(w, client_is_answered(c, 200)); /* the client does not wait */
    CHECK(w, upstream_n_idle(w->workers[0]->upstream) == 0);
    world_run_to(w, 249 * MS);
    CHECK(w, upstream_n_idle(w->workers[0]->upstream) == 1);
    check_runs_dry(w, c);
}

static void missing_end_closes_after_250_ms(struct world *w)
{
    world_script(w, 0, "head role token finish done");
    struct client *c = ask_at_once(w, ASK_STREAM);
    CHECK(w, client_is_answered(c, 200));
    world_run_to(w, 250 * MS - 1);
    CHECK(w, peer_is_open(peer_a(w)));
    world_run_to(w, 250 * MS);
    CHECK(w, !peer_is_open(peer_a(w)) && upstream_n_idle(w->workers[0]->upstream) == 0);
    check_runs_dry(w, c);
}

/* ---- standbys ---- */

static size_t n_keepalives(const struct world *w)
{
    return ledger_sim_n_keepalives(&w->ledger);
}

/* The route is used on both cores every 5 s; its standby gets one keepalive per 10 s from the two together. */
static void one_keepalive_per_period_and_process(struct world *w)
{
    struct client *c[2];
    world_script(w, 0, ANSWER);
    world_script(w, 1, "+30ms " ANSWER);
    for (unsigned i = 0; i < 2; i++)
        c[i] = client_open(w, i, PIPE_BYTES);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 2; i++)
            client_ask(c[i], ASK_STREAM);
        world_run_to(w, (round + 1) * 5 * SEC);
    }
    size_t n = n_keepalives(w);
    CHECK(w, n == w->providers[1].n_requests);
    CHECK(w, n == 10); /* in 100 s */
    CHECK(w, w->providers[0].n_requests == 40);
    bool is_tiny = false;
    for (size_t i = 0; i < w->providers[1].n_peers; i++)
        is_tiny = is_tiny ||
                  bytes_find(buf_bytes(&world_peer(w, 1, i)->last_request), BYTES("\"max_tokens\":1,")) != SIZE_MAX;
    CHECK(w, is_tiny);
}

static void keepalives_stop_when_the_route_is_idle(struct world *w)
{
    world_script(w, 0, ANSWER);
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 40 * SEC); /* keepalive_idle_stop_sec */
    size_t n = n_keepalives(w);
    CHECK(w, n >= 3 && n <= 4);
    world_run_to(w, 300 * SEC);
    CHECK(w, n_keepalives(w) == n);
    client_close(c, false);
    world_run_to(w, 360 * SEC);
    CHECK(w, world_is_quiet(w)); /* no connection is kept warm for an idle route */
}

static void standby_has_a_warm_connection(struct world *w)
{
    w->providers[1].connect_us = 30 * MS;
    world_script(w, 0, ANSWER);
    world_script(w, 0, "status:503");
    world_script(w, 1, ANSWER);
    struct client *c = client_open(w, 0, PIPE_BYTES);
    world_run_to(w, 1 * SEC);
    CHECK(w, w->providers[1].n_dials == 0); /* nobody uses the route */
    client_ask(c, ASK_STREAM);
    world_run_to(w, 3 * SEC);
    CHECK(w, w->providers[1].n_dials >= 1 && upstream_n_idle(w->workers[0]->upstream) >= 2);
    size_t n_dials = w->providers[1].n_dials;
    client_ask(c, ASK_STREAM);
    world_settle(w);
    CHECK(w, client_count(c, "data: [DONE]") == 2 && client_has(c, "~b."));
    CHECK(w, w->providers[1].n_dials == n_dials && world_row(w, 1)->attempts[1].connect_us == -1);
}

/* Only one of the two cores sends the keepalive, and later the other does not either. */
static void every_core_has_a_warm_connection(struct world *w)
{
    struct client *c[2];
    world_script(w, 0, ANSWER);
    world_script(w, 1, ANSWER);
    for (unsigned i = 0; i < 2; i++) {
        c[i] = client_open(w, i, PIPE_BYTES);
        client_ask(c[i], ASK_STREAM);
    }
    world_run_to(w, 2 * SEC);
    CHECK(w, n_keepalives(w) == 1 && w->providers[1].n_requests == 1);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(w, client_is_answered(c[i], 200));
        CHECK(w, upstream_n_idle(w->workers[i]->upstream) >= 2); /* one of a, one of b */
    }
}

static void keepalive_budget_ends_a_probe(struct world *w)
{
    world_script(w, 0, ANSWER);
    world_script(w, 1, "head role");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 2 * SEC);
    CHECK(w, n_keepalives(w) == 1 && w->ledger.rows[1].outcome == OUTCOME_TTFT_TIMEOUT);
    CHECK(w, w->ledger.rows[1].attempts[0].total_us == 100000);
    CHECK(w, world_live(w, MEM_EXCHANGE) == 0);
    client_close(c, false);
    world_run_to(w, 300 * SEC);
}

static void drain_ends_a_probe(struct world *w)
{
    world_script(w, 0, ANSWER);
    world_script(w, 1, "head role");
    struct client *c = ask_at_once(w, ASK_STREAM);
    while (w->providers[1].n_requests == 0 && world_now(w) < 3 * SEC)
        world_run_to(w, world_next(w));
    CHECK(w, world_live(w, MEM_EXCHANGE) == 1);
    worker_drain(w->workers[0]);
    world_turn(w, 0);
    CHECK(w, world_live(w, MEM_EXCHANGE) == 0);
    check_runs_dry(w, c);
}

static void reload_during_a_drain_wakes_no_standby(struct world *w)
{
    world_script(w, 0, "head role token +5s token finish done end");
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    worker_drain(w->workers[0]);
    worker_reload(w->workers[0], w->config);
    world_run_to(w, 4 * SEC);
    CHECK(w, w->providers[1].n_dials == 0 && n_keepalives(w) == 0);
    check_runs_dry(w, c);
}

/* ---- heartbeat ---- */

static void heartbeat_keeps_failover_possible(struct world *w)
{
    world_script(w, 0, "");
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 30 * MS - 1);
    CHECK(w, c->got.n == 0);
    world_run_to(w, 30 * MS);
    CHECK(w, client_has(c, "HTTP/1.1 200 OK\r\n") && client_count(c, ": ringmain\n\n") == 1);
    world_run_to(w, 90 * MS);
    CHECK(w, client_count(c, ": ringmain\n\n") == 3);
    world_run_to(w, 100 * MS);
    CHECK(w, client_is_answered(c, 200) && client_has(c, "~b.1.0~") && client_has(c, "data: [DONE]\n\n"));
    check_runs_dry(w, c);
}

static void heartbeat_then_all_red_is_told_in_stream(struct world *w)
{
    world_script(w, 0, "+40ms status:503");
    world_script(w, 1, "+40ms status:503");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 80 * MS);
    CHECK(w, client_is_answered(c, 200) && client_count(c, in_stream_error) == 1 && !client_has(c, "[DONE]"));
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_ALL_UNAVAILABLE);
    check_runs_dry(w, c);
}

/* ---- other dialects ---- */

static void anthropic_client_over_both_dialects(struct world *w)
{
    world_script(w, 2, "head role +5ms error");
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM | ASK_ANTHROPIC);
    world_run_to(w, 5 * MS);
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_has(c, "event: message_stop\n") && client_has(c, "~b.1.1~") && !client_has(c, "event: error"));
    check_runs_dry(w, c);
}

/* ---- resuming ---- */

static void be_deterministic(struct world *w)
{
    w->providers[0].is_deterministic = w->providers[1].is_deterministic = true;
}

static void check_three_tokens(struct world *w, const struct client *c)
{
    CHECK(w, client_is_answered(c, 200));
    CHECK(w, client_count(c, "~s.1.") == 3 && client_has(c, "~s.1.2~"));
    CHECK(w, client_count(c, "[DONE]") == 1 && client_count(c, "\"finish_reason\":\"stop\"") == 1);
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_OK && world_row(w, 0)->n_attempts == 2);
    CHECK(w, world_row(w, 0)->attempts[0].is_served && world_row(w, 0)->attempts[1].is_served);
}

static void resumed_where_it_broke_off(struct world *w)
{
    be_deterministic(w);
    world_script(w, 0, "head role token token +4ms fin");
    world_script(w, 1, "+1ms head role token +1ms token +1ms token finish usage done end");
    struct client *c = ask_at_once(w, ASK_STREAM);
    CHECK(w, client_count(c, "~s.1.") == 2);
    world_run_to(w, 6 * MS);
    CHECK(w, client_count(c, "~s.1.") == 2 && w->providers[1].n_requests == 1);
    world_run_to(w, 7 * MS);
    check_three_tokens(w, c);
    check_runs_dry(w, c);
}

static void resumed_byte_by_byte(struct world *w)
{
    be_deterministic(w);
    w->providers[0].pipe_bytes = w->providers[1].pipe_bytes = 1;
    world_script(w, 0, "head role token token fin");
    world_script(w, 1, "head role token token token finish usage done end");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 100 * MS);
    check_three_tokens(w, c);
    check_runs_dry(w, c);
}

/* The idle time is over, and in that very turn a token comes: it is not shown, for the next link will say it. */
static void late_bytes_are_not_told_twice(struct world *w)
{
    be_deterministic(w);
    world_script(w, 0, "head role token token +1s +1us token finish usage done end");
    world_script(w, 1, "head role token token token finish usage done end");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 2 * SEC);
    check_three_tokens(w, c);
    CHECK(w, world_row(w, 0)->attempts[0].outcome == OUTCOME_IDLE_TIMEOUT);
    check_runs_dry(w, c);
}

static void leaving_while_it_is_resumed(struct world *w)
{
    be_deterministic(w);
    world_script(w, 0, "head role token token +4ms fin");
    world_script(w, 1, "head role token +20ms token token finish usage done end");
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 10 * MS);
    client_close(c, false);
    world_settle(w);
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_CLIENT_CANCELLED);
    CHECK(w, world_peer(w, 1, 0)->was_closed && !world_row(w, 0)->attempts[1].is_served);
    check_runs_dry(w, c);
}

/* Each says something of its own. */
static void nobody_goes_on(struct world *w)
{
    world_script(w, 0, "head role token token +4ms fin");
    world_script(w, 1, ANSWER);
    struct client *c = ask_at_once(w, ASK_STREAM);
    world_run_to(w, 100 * MS);
    CHECK(w, client_is_answered(c, 200) && client_count(c, in_stream_error) == 1 && !client_has(c, "[DONE]"));
    CHECK(w, client_count(c, "~a.1.") == 2 && !client_has(c, "~b."));
    CHECK(w, world_row(w, 0)->outcome == OUTCOME_STREAM_ERROR);
    CHECK(w, world_row(w, 0)->attempts[1].outcome == OUTCOME_INCOMPATIBLE);
    check_runs_dry(w, c);
}

/* ---- all of them ---- */

#define KEEPALIVE(more) "  - { model: m, order: [a, b], ttft_budget_ms: 100, retries: 0, keepalive_sec: 10" more " }"

static const struct {
    const char *name;
    void (*tell)(struct world *w);
    const char *routes; /* NULL = TWO_LINKS */
    unsigned n_workers; /* 0 = 1 */
} stories[] = {
#define STORY(name) #name, name
    {STORY(answers_and_runs_dry), NULL, 0},
    {STORY(every_byte_alone), "  - { model: m, order: [a] }", 0},
    {STORY(whole_answer_is_collected), NULL, 0},
    {STORY(budget_ends_in_its_turn), NULL, 0},
    {STORY(token_a_microsecond_early_is_in_time), NULL, 0},
    {STORY(connect_timeout_cancels_the_dial), "  - { model: m, order: [a, b], connect_timeout_ms: 40 }", 0},
    {STORY(refused_connect_goes_on_at_once), NULL, 0},
    {STORY(refusal_without_its_body_waits_two_seconds), "  - { model: m, order: [a, b], ttft_budget_ms: 5000 }", 0},
    {STORY(gate_holds_a_failing_200_back), NULL, 0},
    {STORY(provider_answers_before_it_has_listened), NULL, 0},
    {STORY(commit_then_fin), NULL, 0},
    {STORY(commit_then_reset), NULL, 0},
    {STORY(commit_then_clean_end_without_marker), NULL, 0},
    {STORY(commit_then_nonsense), NULL, 0},
    {STORY(commit_then_silence_is_cut_by_idle_time), NULL, 0},
    {STORY(fin_before_any_byte_cancels), NULL, 0},
    {STORY(reset_in_the_stream_cancels), NULL, 0},
    {STORY(fin_behind_the_request_cancels), NULL, 0},
    {STORY(leaving_cancels_a_dial), NULL, 0},
    {STORY(leaving_between_two_tries), "  - { model: m, order: [a, b], ttft_budget_ms: 2000 }", 0},
    {STORY(slow_client_slows_its_provider), NULL, 0},
    {STORY(idle_clock_stands_still_exactly), NULL, 0},
    {STORY(stalled_client_is_cut), NULL, 0},
    {STORY(whole_answer_that_is_not_read_is_cut), NULL, 0},
    {STORY(a_trickle_is_no_stall), NULL, 0},
    {STORY(drain_lets_the_answer_end), NULL, 0},
    {STORY(drain_past_its_time_cuts), NULL, 0},
    {STORY(requests_keep_the_snapshot_they_began_with), "  - { model: m, order: [a], idle_timeout_ms: 10000 }", 0},
    {STORY(reload_lets_go_of_dropped_providers), NULL, 0},
    {STORY(reload_drops_connections_of_a_provider_that_left), NULL, 0},
    {STORY(second_request_takes_the_warm_connection), NULL, 0},
    {STORY(idle_connection_goes_after_55_seconds), NULL, 0},
    {STORY(idle_time_begins_anew_with_each_use), "  - { model: m, order: [a] }", 0},
    {STORY(dead_pooled_connection_is_replayed), NULL, 0},
    {STORY(closed_pooled_connection_is_not_taken), NULL, 0},
    {STORY(connection_that_says_close_is_not_kept), NULL, 0},
    {STORY(late_end_is_waited_for_a_moment), NULL, 0},
    {STORY(missing_end_closes_after_250_ms), NULL, 0},
    {STORY(one_keepalive_per_period_and_process), KEEPALIVE(""), 2},
    {STORY(keepalives_stop_when_the_route_is_idle), KEEPALIVE(", keepalive_idle_stop_sec: 40"), 0},
    {STORY(standby_has_a_warm_connection), KEEPALIVE(""), 0},
    {STORY(every_core_has_a_warm_connection), KEEPALIVE(""), 2},
    {STORY(keepalive_budget_ends_a_probe), KEEPALIVE(", keepalive_idle_stop_sec: 40"), 0},
    {STORY(drain_ends_a_probe), KEEPALIVE(""), 0},
    {STORY(reload_during_a_drain_wakes_no_standby), KEEPALIVE(""), 0},
    {STORY(heartbeat_keeps_failover_possible),
     "  - { model: m, order: [a, b], ttft_budget_ms: 100, retries: 0, heartbeat_ms: 30 }", 0},
    {STORY(heartbeat_then_all_red_is_told_in_stream),
     "  - { model: m, order: [a, b], ttft_budget_ms: 100, retries: 0, heartbeat_ms: 30 }", 0},
    {STORY(resumed_where_it_broke_off), RESUMING, 0},
    {STORY(resumed_byte_by_byte), RESUMING, 0},
    {STORY(late_bytes_are_not_told_twice), RESUMING, 0},
    {STORY(leaving_while_it_is_resumed), RESUMING, 0},
    {STORY(nobody_goes_on), RESUMING, 0},
    {STORY(anthropic_client_over_both_dialects), "  - { model: m, order: [c, b], ttft_budget_ms: 100, retries: 0 }", 0},
#undef STORY
};

unsigned stories_run(const char *part, unsigned *n_told)
{
    unsigned n_faults = 0;
    for (size_t i = 0; i < RM_COUNTOF(stories); i++) {
        struct world w;
        struct world_options o = {.story = stories[i].name,
                                  .routes = stories[i].routes != NULL ? stories[i].routes : TWO_LINKS,
                                  .more = "",
                                  .n_workers = stories[i].n_workers != 0 ? stories[i].n_workers : 1,
                                  .seed = 1};
        if (strstr(o.story, part) == NULL)
            continue;
        world_init(&w, &o);
        stories[i].tell(&w);
        world_fini(&w);
        n_faults += w.n_faults;
        ++*n_told;
    }
    return n_faults;
}

"""The failover rules (docs/failover.md), each on the real binary."""
import gzip
import json
import time

import pytest

from harness import (LAST, SLOW, SSE_HEAD, Reply, chunk, error_json, events, free_port, good, http, openai_chunk, provider_conf, stream, wait_for, whole)

HANG = [Reply(end="hang")]
DOWN = [Reply(http(503, error_json("openai", 503)))]


def status(n, dialect="openai", headers=(), **kw):
    return Reply(http(n, error_json(dialect, n, **kw), headers=headers))


def outcomes(row):
    return [a["outcome"] for a in row["attempts"]]


# ---- frames

JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
ANSWER = json.dumps(whole("openai", "word " * 100)).encode()
FRAMED = {
    "one chunk": Reply(CHUNKED + chunk(ANSWER) + LAST_CHUNK),
    "two chunks": Reply(CHUNKED + chunk(ANSWER[:9]) + chunk(ANSWER[9:]) + LAST_CHUNK),
    "three, with pauses": Reply(CHUNKED + chunk(ANSWER[:9]) + chunk(ANSWER[9:99]), .02, chunk(ANSWER[99:]), .02, LAST_CHUNK),
    "its end later": Reply(CHUNKED + chunk(ANSWER), .02, LAST_CHUNK),
    "its end cut": Reply(CHUNKED + chunk(ANSWER) + LAST_CHUNK[:2], .02, LAST_CHUNK[2:]),
    "a trailer": Reply(CHUNKED + chunk(ANSWER) + b"0\r\nX: y\r\n\r\n"),
    "blanks before": Reply(CHUNKED + chunk(b" \n"), .02, chunk(b"\xef\xbb\xbf") + chunk(ANSWER) + LAST_CHUNK),
    "a length": Reply(http(200, ANSWER)),
    "a length, with a pause": Reply(http(200, ANSWER)[:-9], .02, http(200, ANSWER)[-9:]),
    "bytes behind": Reply(http(200, ANSWER) + b"HTTP/1.1 200 OK\r\n"),
    "until close": Reply(JSON_HEAD + b"\r\n" + ANSWER, end="close"),
    "compressed": Reply(http(200, gzip.compress(ANSWER), headers=[("Content-Encoding", "gzip")])),
}


@pytest.mark.parametrize("form", FRAMED)
def test_a_whole_answer_is_the_same_in_every_frame(world, form):
    g, _ = world.chain([FRAMED[form]])
    for _ in range(3):  # over the connection that is there, or a new one
        assert g.chat(stream=False).body == ANSWER
    assert g.messages(stream=False).text() == "word " * 100


# ---- budgets and clocks

def test_a_slow_first_token_fails_over_at_the_budget(world):
    g, (a, b) = world.chain(HANG, good("openai"), route={"ttft_budget_ms": 200})
    t = time.monotonic()
    r = g.chat()
    took = time.monotonic() - t
    assert r.text() == "Hello from B." and r.is_well_ended()
    assert 0.19 < took < 1.5
    row = g.row(r)
    assert outcomes(row) == ["ttft_timeout", "ok"]
    assert 195_000 <= row["attempts"][0]["total_us"] < 200_000 + 60_000 * SLOW
    wait_for(lambda: a.requests[0].closed_at, what="A's connection to be closed")


def test_comments_do_not_stop_the_first_token_clock(world):
    quiet = stream(*([b": keep-alive\n\n", 0.02] * 40), end="hang", last=False)
    g, _ = world.chain([quiet], good("openai"), route={"ttft_budget_ms": 200})
    assert outcomes(g.row(g.chat())) == ["ttft_timeout", "ok"]


def test_reasoning_is_a_first_token(world):
    evs = [openai_chunk({"role": "assistant", "content": ""}), openai_chunk({"reasoning_content": "hm"}), 0.4, *events("openai", ["Hi"])[1:]]
    g, _ = world.chain([stream(*evs)], good("openai"), route={"ttft_budget_ms": 200})
    r = g.chat()
    assert r.headers["x-ringmain-provider"] == "a" and r.text() == "Hi"


def test_the_last_link_is_cut_by_the_deadline_only(world):
    late = stream(0.5, *events("openai", ["late"]))
    g, _ = world.chain(DOWN, [late], route={"ttft_budget_ms": 150})
    r = g.chat()
    assert r.text() == "late" and outcomes(g.row(r)) == ["overloaded", "ok"]


def test_deadline_gives_all_red_with_the_trail(world):
    g, _ = world.chain(DOWN, [status(429, headers=[("Retry-After", "7")])], HANG, route={"deadline_ms": 500, "ttft_budget_ms": 200})
    t = time.monotonic()
    r = g.chat()
    assert 0.45 < time.monotonic() - t < 1.5
    assert r.status == 503
    e = r.json()["error"]
    assert e["code"] == "all_providers_unavailable" and e["type"] == "upstream_unavailable" and e["param"] is None
    assert [(x["provider"], x["outcome"], x["status"]) for x in e["attempts"]] == [
        ("a", "overloaded", 503), ("b", "rate_limited", 429), ("c", "deadline", None)]
    assert int(r.headers["retry-after"]) >= 1
    assert "SECRET" not in json.dumps(e)


def test_all_red_in_messages_form(world):
    g, _ = world.chain(DOWN, DOWN)
    r = g.messages()
    assert r.status == 529 and r.json()["error"]["type"] == "overloaded_error"
    assert len(r.json()["error"]["attempts"]) == 2


def test_a_non_streaming_call_gets_the_budget_too(world):
    g, (a, b) = world.chain(HANG, good("openai"), route={"ttft_budget_ms": 200})
    r = g.chat(stream=False)
    assert r.json()["choices"][0]["message"]["content"] == "Hello from B."
    assert a.requests[0].json["stream"] is True and b.requests[0].json["stream"] is True
    assert r.json()["usage"]["prompt_tokens"] == 12


def test_n_above_one_is_not_streamed_upstream(world):
    g, (a,) = world.chain([Reply(http(200, whole("openai", "x")))])
    assert g.chat(stream=False, n=2).status == 200
    assert not a.requests[0].json.get("stream")


# ---- the gate and after it

def test_no_byte_before_the_first_token(world):
    evs = events("openai", ["Hi"])
    g, _ = world.chain([stream(evs[0], 0.3, *evs[1:])])
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": []})
    s.settimeout(0.2)
    with pytest.raises(TimeoutError):
        s.recv(1)
    s.settimeout(5)
    assert s.recv(1) == b"H"
    s.close()


def test_a_gate_that_holds_too_much_is_a_protocol_error(world):
    evs = [openai_chunk({"role": "assistant", "content": "", "x": "y" * 5000})] * 20 + events("openai", ["Hi"])
    g, _ = world.chain([stream(*evs)], good("openai"), config={"limits": {"gate_bytes": 20000}})
    assert outcomes(g.row(g.chat())) == ["protocol_error", "ok"]


def test_heartbeat_then_failover_then_answer(world):
    g, _ = world.chain([Reply(0.5, http(503, error_json("openai", 503)))], good("openai"), route={"heartbeat_ms": 150})
    r = g.chat()
    assert r.body.startswith(b":") and r.text() == "Hello from B." and r.is_well_ended()
    assert b"id:" not in r.body.split(b"data:")[0]


def test_heartbeat_then_all_red_comes_in_stream(world):
    g, _ = world.chain([Reply(0.4, http(503, error_json("openai", 503)))], [Reply(http(503, error_json("openai", 503)))], route={"heartbeat_ms": 100})
    r = g.chat()
    assert r.status == 200 and r.is_whole and not r.is_well_ended()
    assert r.stream_error()["code"] == "all_providers_unavailable"


def test_bytes_after_an_error_event_are_dropped(world):
    evs = events("openai", ["one"], done=False, finish=None, usage=None)
    err = b'data: {"error":{"message":"boom","type":"server_error","code":null}}\n\n'
    g, (a, b) = world.chain([stream(*evs, err, openai_chunk({"content": "SHOULD NOT"}), b"data: [DONE]\n\n")], good("openai"))
    r = g.chat()
    assert r.text() == "one" and b"SHOULD NOT" not in r.body and b"[DONE]" not in r.body
    assert r.stream_error() and not b.requests
    assert g.row(r)["attempts"][0]["in_stream"] is True


def test_on_bad_event_skip(world):
    evs = events("openai", ["one", "two"])
    g, _ = world.chain([stream(*evs[:2], b"data: {bad\n\n", *evs[2:])], route={"on_bad_event": "skip"})
    r = g.chat()
    assert r.text() == "onetwo" and r.is_well_ended()


def test_a_finish_without_an_end_is_an_end(world):
    evs = events("openai", ["one"], done=False)
    g, (a,) = world.chain([stream(*evs, last=False, end="hang")], route={"idle_timeout_ms": 20000})
    t = time.monotonic()
    r = g.chat()
    assert r.text() == "one" and r.is_well_ended() and time.monotonic() - t < 4
    row = g.row(r)
    assert row["outcome"] == "ok" and row["attempts"][0]["tokens_from"] == "reported"
    wait_for(lambda: a.requests[0].closed_at, what="the connection to be given up")


# ---- what moves on

def test_failover_on_replaces_or_extends(world):
    g, _ = world.chain([status(401, kind="invalid_request_error", code="invalid_api_key")], good("openai"), route={"failover_on": ["default", "auth_error"]})
    assert outcomes(g.row(g.chat())) == ["auth_error", "ok"]
    g, _ = world.chain(DOWN, good("openai"), route={"failover_on": ["rate_limited"]})
    assert g.chat().status == 503
    g, _ = world.chain([status(418, kind="teapot")], good("openai"), route={"failover_on": ["default", 418]})
    assert g.chat().text() == "Hello from B."


def test_a_400_of_a_later_link_does_not_end_the_chain(world):
    g, _ = world.chain(DOWN, [status(400, kind="invalid_request_error")], good("openai", "C here."))
    r = g.chat()
    assert r.text() == "C here." and outcomes(g.row(r)) == ["overloaded", "client_error", "ok"]


def test_context_length_moves_only_to_a_larger_window(world):
    too_long = [status(400, kind="invalid_request_error", code="context_length_exceeded", message="maximum context length is 8192 tokens")]
    links = {"a": {"context_window": 8192}, "b": {"context_window": 8192}, "c": {"context_window": 128000}}
    g, (a, b, c) = world.chain(too_long, good("openai"), good("openai", "C here."), links=links)
    assert g.chat().text() == "C here." and not b.requests and len(a.requests) == 1
    g, _ = world.chain(too_long, good("openai"), links={k: links[k] for k in "ab"})
    r = g.chat()
    assert r.status == 400 and r.json()["error"]["code"] == "context_length_exceeded"


def test_an_empty_account_is_not_the_clients_fault(world):
    broke = [status(400, "anthropic", kind="invalid_request_error", message="Your credit balance is too low to access the API.")]
    g, (a, b) = world.chain(broke, good("openai"), dialects=["anthropic", "openai"])
    assert outcomes(g.row(g.chat())) == ["quota_exhausted", "ok"]
    r = g.chat()
    assert [e[1] for e in r.trail()] == ["skipped_open", "ok"] and len(a.requests) == 1
    assert "alarm" in g.log()


def test_content_policy_is_an_answer(world):
    g, (a, b) = world.chain([status(400, kind="invalid_request_error", code="content_policy_violation")], good("openai"))
    r = g.chat()
    assert r.status == 400 and r.json()["error"]["code"] == "content_policy_violation" and not b.requests


# ---- the same target again

def test_replay_on_a_dead_pooled_connection(world):
    g, (a,) = world.chain(lambda req: good("openai", "fine", "m-a")(req))
    assert g.chat().status == 200
    wait_for(lambda: a.open == 1)
    a.drop_idle()
    wait_for(lambda: a.open == 0)
    r = g.chat()
    row = g.row(r)
    assert r.status == 200 and outcomes(row) == ["ok"] and r.headers["x-ringmain-attempts"] == "1"


def test_a_connection_is_reused(world):
    g, (a,) = world.chain(lambda req: good("openai", "fine", "m-a")(req))
    for _ in range(5):
        assert g.chat().status == 200
    assert a.connections == 1
    row = g.row(g.chat())
    assert row["attempts"][0]["connect_us"] is None


def test_repair_of_stream_options_is_remembered(world):
    def script(req):
        if b"stream_options" in req.body:
            return status(400, kind="invalid_request_error", code="unknown_parameter", message="Unrecognized request argument supplied: stream_options")
        return good("openai", "fine", "m-a")(req)
    g, (a,) = world.chain(script)
    r = g.chat()
    assert r.text() == "fine" and outcomes(g.row(r)) == ["repaired", "ok"]
    assert outcomes(g.row(g.chat())) == ["ok"]
    assert len(a.requests) == 3


def test_no_retry_after_a_503(world):
    g, (a, b) = world.chain(DOWN, good("openai"), route={"retries": 3})
    g.chat()
    assert len(a.requests) == 1


def test_wait_retry_after(world):
    g, (a,) = world.chain([status(429, headers=[("Retry-After-Ms", "150")]), *[Reply(SSE_HEAD, *[chunk(e) for e in events("openai", ["ok"])], LAST)]],
                          route={"wait_retry_after_ms": 1000})
    r = g.chat()
    assert r.text() == "ok" and outcomes(g.row(r)) == ["rate_limited", "ok"]
    assert a.requests[1].arrived - a.requests[0].arrived >= 0.14


def test_attempts_are_bounded(world):
    g, ps = world.chain(*[[status(500)]] * 3, route={"max_attempts": 4, "retries": 1})
    assert g.chat().status == 503
    assert sum(len(p.requests) for p in ps) == 4


# ---- the breaker

def test_the_breaker_opens_and_one_trial_decides(world):
    state = {"mode": "down"}

    def script(req):
        return {"down": DOWN[0], "hang": HANG[0], "up": good("openai", "A is back.", "m-a")(req)}[state["mode"]]
    g, (a, b) = world.chain(script, good("openai"), route={"ttft_budget_ms": 300, "breaker": {"failures": 5, "cooldown_ms": 400}})
    for _ in range(5):
        g.chat()
    assert len(a.requests) == 5
    t = time.monotonic()
    r = g.chat()
    assert time.monotonic() - t < 0.3 and [e[1] for e in r.trail()] == ["skipped_open", "ok"] and len(a.requests) == 5
    state["mode"] = "hang"
    time.sleep(0.55)  # the cooldown itself is what is tested
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: g.chat(), range(30)))
    assert all(r.text() == "Hello from B." for r in answers)
    assert len(a.requests) == 6, "exactly one trial"
    assert sum(r.headers["x-ringmain-attempts"] == "2" for r in answers) == 1
    state["mode"] = "up"
    wait_for(lambda: g.chat().text() == "A is back.", 5, "the trial that closes")
    assert g.chat().text() == "A is back."


def test_a_trial_whose_client_leaves_gives_it_back(world):
    state = {"mode": "down"}

    def script(req):
        return {"down": DOWN[0], "hang": HANG[0], "up": good("openai", "A is back.", "m-a")(req)}[state["mode"]]
    g, (a, b) = world.chain(script, good("openai"), route={"breaker": {"failures": 2, "cooldown_ms": 300}})
    g.chat(), g.chat()
    state["mode"] = "hang"
    time.sleep(0.45)
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": []})
    wait_for(lambda: len(a.requests) == 3, what="the trial")
    s.close()
    wait_for(lambda: a.requests[2].closed_at)
    state["mode"] = "up"
    wait_for(lambda: g.chat().text() == "A is back.", 3, "another trial")


def test_a_hint_closes_the_target_until_then(world):
    g, (a, b) = world.chain([status(429, headers=[("Retry-After", "1")]), *[Reply(SSE_HEAD, *[chunk(e) for e in events("openai", ["A"])], LAST)] * 1], good("openai"))
    assert g.chat().text() == "Hello from B."
    assert [e[1] for e in g.chat().trail()] == ["skipped_open", "ok"]
    wait_for(lambda: g.chat().text() == "A", 3, "the hint to pass")


def test_a_single_candidate_is_never_skipped(world):
    g, (a,) = world.chain([status(400, kind="invalid_request_error"), status(429, headers=[("Retry-After", "1")]), *DOWN * 6, good("openai", "ok", "m-a")(type("R", (), {"body": b""}))])
    assert g.chat(stream=False).status == 400
    r = g.chat(stream=False)
    assert r.status == 429 and r.headers["retry-after"] == "1" or int(r.headers["retry-after"]) <= 2
    for _ in range(6):
        assert g.chat(stream=False).status == 503
    assert g.chat(stream=False).status == 200


# ---- single candidate: by class

@pytest.mark.parametrize("fault,want,code", [
    (status(500), 502, None), (status(429, kind="insufficient_quota", code="insufficient_quota"), 429, "insufficient_quota"),
    (status(401, kind="invalid_request_error", code="invalid_api_key"), 502, "provider_auth_error"),
    (status(404, kind="invalid_request_error", code="model_not_found"), 404, "model_not_found"), (Reply(http(200, b"<html>hi</html>", "text/html")), 502, None),
    (Reply(http(302, b"", headers=[("Location", "http://127.0.0.1:1/")])), 502, None), (Reply(http(200, b"")), 502, None)])
def test_single_candidate_answers(world, fault, want, code):
    g, (a,) = world.chain([fault], route={"retries": 0})
    r = g.chat()
    assert r.status == want, r.body
    e = r.json()["error"]
    assert "<" not in e["message"] and "SECRET" not in e["message"]
    if code:
        assert code in (e["code"], e["type"])
    if want == 502 and code == "provider_auth_error":
        assert "a" in e["message"] and r.headers["x-should-retry"] == "false"


# ---- x-routing, x-cache

def test_x_routing(world):
    g, (a, b) = world.chain(good("openai", "A.", "m-a"), good("openai"))
    assert g.chat(headers=[("x-routing", "order: b, a")]).text() == "Hello from B."
    assert g.chat(headers=[("x-routing", "order:b/m-b;fallback:off")]).text() == "Hello from B."
    for bad in ("order: nobody", "fast: yes", "order: a; order: b", "ttft: 5", "ttft: 99999999", "deadline: x", "order:", "fallback: maybe"):
        r = g.chat(headers=[("x-routing", bad)])
        assert r.status == 400 and r.json()["error"]["code"] == "invalid_routing", bad
    assert "a" in g.chat(headers=[("x-routing", "order: nobody")]).json()["error"]["message"]
    r = g.chat(headers=[("x-routing", "order: a"), ("x-routing", "order: b")])
    assert r.status == 400


def test_x_routing_tightens_the_budget(world):
    g, _ = world.chain(HANG, good("openai"))
    t = time.monotonic()
    assert g.chat(headers=[("x-routing", "ttft: 150")]).text() == "Hello from B."
    assert time.monotonic() - t < 1.5


def test_x_cache_reaches_an_anthropic_target(world):
    g, (a,) = world.chain(good("anthropic"), dialects=["anthropic"])
    g.chat(headers=[("x-cache", "ttl=600")])
    assert a.requests[0].json["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    g.chat(headers=[("x-cache", "ttl=60")])
    assert a.requests[1].json["cache_control"]["type"] == "ephemeral"
    assert a.requests[1].json["cache_control"].get("ttl", "5m") == "5m"


# ---- state does not travel, capabilities

def test_state_does_not_travel(world):
    g, (a, b) = world.chain(DOWN, good("anthropic"), dialects=["anthropic", "anthropic"])
    r = g.messages(container="c_1")
    assert [x["outcome"] for x in g.row(r)["attempts"]] == ["overloaded", "skipped_state"] and not b.requests


def test_incapable_links_are_skipped(world):
    schema = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}
    g, (a, b, c) = world.chain(DOWN, good("openai"), good("openai", "C here."), links={"b": {"supports": {"json_schema": False}}})
    r = g.chat(response_format=schema)
    assert r.text() == "C here." and not b.requests
    assert [e[1] for e in r.trail()] == ["overloaded", "skipped_incapable", "ok"]


def test_max_output_clamps_or_skips(world):
    g, (a, b) = world.chain(DOWN, good("openai"), links={"b": {"max_output": 8192}})
    r = g.chat(max_tokens=64000)
    assert b.requests[0].json["max_tokens"] == 8192
    assert "max_tokens=8192" in r.headers["x-ringmain-adjusted"] and "max_tokens=8192" in g.row(r)["adjusted"]
    g, (a, b) = world.chain(DOWN, good("openai"), links={"b": {"max_output": 8192, "adjust": "skip"}})
    assert g.chat(max_tokens=64000).status == 503 and not b.requests


# ---- keepalive

def test_a_standby_is_kept_warm(world):
    g, (a, b) = world.chain(good("openai", "A.", "m-a"), good("openai"), route={"keepalive_sec": 1})
    g.chat()
    probe = wait_for(lambda: b.requests, 5, "a keepalive")[0]
    assert probe.json.get("max_tokens", probe.json.get("max_completion_tokens")) == 1 and probe.json["stream"] is True
    assert len(a.requests) == 1
    wait_for(lambda: b"ringmain_keepalives_total 1" in g.admin("/metrics").body or b"ringmain_keepalives_total 2" in g.admin("/metrics").body)


def test_a_keepalives_400_does_not_open_the_breaker(world):
    g, (a, b) = world.chain(good("openai", "A.", "m-a"), [status(400, kind="invalid_request_error")], route={"keepalive_sec": 1, "breaker": {"failures": 1}})
    g.chat()
    wait_for(lambda: len(b.requests) >= 2, 6, "two keepalives")
    health = json.loads(g.admin("/api/health").body)
    assert [x["breaker"] for x in health["routes"][0]["links"]] == ["closed", "closed"]


# ---- money

def test_waste_is_priced(world):
    evs = events("openai", ["one"], finish=None, usage=None, done=False)
    g, _ = world.chain([stream(*evs, last=False, end="close")], good("openai"),
                       config={"prices": {"m-a": {"input": "5", "output": "30"}, "m-b": {"input": "1", "output": "4"}}})
    r = g.chat(stream=False)
    row = g.row(r)
    a, b = row["attempts"]
    assert a["tokens_from"] == "estimated" and a["cost_nusd"] == a["waste_nusd"] > 0
    assert b["tokens_from"] == "reported" and b["cost_nusd"] == 12 * 1000 + 4 * 4000 and b["waste_nusd"] == 0
    assert row["cost_nusd"] == a["cost_nusd"] + b["cost_nusd"] and row["waste_nusd"] == a["waste_nusd"]
    assert r.headers["x-ringmain-cost-usd"] == "%d.%09d" % divmod(row["cost_nusd"], 10**9)


def test_unknown_price_is_null(world):
    g, _ = world.chain(good("openai", "A.", "m-a"))
    row = g.row(g.chat())
    assert row["cost_nusd"] is None and row["attempts"][0]["price_version"] is None

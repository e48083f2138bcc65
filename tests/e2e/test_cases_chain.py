"""Cases of the kinds BRK, CAN, CHN, MID and TMO: chains, the breaker, cancelling, failures after the first token, timeouts.
What must happen stands in cases/<id>/expect.md; times are shortened where the sentence stays shown."""
import contextlib
import itertools
import json
import time

import pytest

from case_player import (KEY2, chunks_of, connect_small, messages_request, raw_stream_text, read_to_end, read_words, reply, request,
                         script, stage, up)  # noqa: F401 (stage is a fixture)
from harness import SLOW, Reply, cpu_seconds, good, read_response, wait_for

WORDS = [f"w{i} " for i in range(40)]
FINE = "fine from B"


# ---- BRK

def test_brk_dedup_one_failure_each(stage):
    """With `failures: 2`, one request that fails on A and B must leave both closed; the second opens both."""
    p = stage.play("brk-dedup", route={"breaker": {"failures": 2, "ratio_min": 1000}})
    assert p.send().text() == FINE
    assert [h["breaker"] for h in p.health().values()] == ["closed", "closed", "closed"]
    assert p.send().text() == FINE
    assert [h["breaker"] for h in p.health().values()] == ["open", "open", "closed"]
    assert p.calls() == {"a": 2, "b": 2, "c": 2}
    r = p.send()
    assert r.text() == FINE and p.outcomes(r) == ["skipped_open", "skipped_open", "ok"] and p.calls()["a"] == 2


def test_brk_dedup_however_far_apart(stage):
    """25 a minute apart, in small: failures further apart than the window still add up to a row."""
    p = stage.play("brk-dedup", route={"breaker": {"failures": 3, "window_ms": 1000, "ratio_min": 1000}})
    for _ in range(3):
        assert p.health()["a"]["breaker"] == "closed"
        p.send()
        time.sleep(1.1)  # the window's passing is what is tested
    assert p.health()["a"]["breaker"] == "open"


def test_brk_dedup_refused_counts(stage):
    p = stage.play("brk-dedup", "ac", route={"breaker": {"failures": 2, "ratio_min": 1000}})
    p.p["a"].close()
    for want in (["connect_error", "ok"], ["connect_error", "ok"], ["skipped_open", "ok"]):
        assert p.outcomes(p.send()) == want
    assert p.health()["a"]["breaker"] == "open"


def test_brk_halfopen_one_trial_for_200(stage):
    p = stage.play("brk-halfopen", route={"ttft_budget_ms": 1000, "breaker": {"failures": 5, "cooldown_ms": 400}})
    for _ in range(5):
        assert p.send().text() == FINE
    assert p.health()["a"]["breaker"] == "open" and len(p.p["a"].requests) == 5
    wait_for(lambda: p.health()["a"]["retry_in_ms"] == 0, 3, "the cooldown")
    socks = [p.open(p.bytes()) for _ in range(200)]
    answers = []
    for s in socks:
        with contextlib.closing(s):
            answers.append(read_response(s))
    assert all(r.text() == FINE and r.is_well_ended() for r in answers)
    assert len(p.p["a"].requests) == 6, "exactly one trial"
    tried = [r for r in answers if r.headers["x-ringmain-attempts"] == "2"]
    assert len(tried) == 1 and p.outcomes(tried[0]) == ["ttft_timeout", "ok"]
    assert 950_000 <= p.row(tried[0])["attempts"][0]["total_us"] <= 1_000_000 + 300_000 * SLOW
    for r in answers[::20]:
        if r is not tried[0]:
            skipped, served = p.row(r)["attempts"]
            assert skipped["outcome"] == "skipped_open" and served["start_us"] < 100_000 * SLOW
    p.p["a"].script = good("openai", "A again", "alpha-large")
    wait_for(lambda: p.send().text() == "A again", 8, "a later trial")


def test_brk_halfopen_a_leaving_client_gives_it_back(stage):
    p = stage.play("brk-halfopen", route={"breaker": {"failures": 5, "cooldown_ms": 300}})
    for _ in range(5):
        p.send()
    wait_for(lambda: p.health()["a"]["retry_in_ms"] == 0, 3, "the cooldown")
    s = p.open(p.bytes())
    wait_for(lambda: len(p.p["a"].requests) == 6, what="the trial")
    s.close()
    wait_for(lambda: p.p["a"].requests[5].closed_at, what="the trial's end")
    p.p["a"].script = good("openai", "A again", "alpha-large")
    assert p.send().text() == "A again", "the very next request is the next trial"


def test_brk_single(stage):
    p = stage.play("brk-single", route={"breaker": {"failures": 1}, "wait_retry_after_ms": 0})
    r = p.send(1)
    assert r.status == 400 and r.json()["error"]["message"] == "bad" and p.health()["a"]["breaker"] == "closed"
    r = p.send(2)
    assert r.status == 429 and 1 <= int(r.headers["retry-after"]) <= 2
    t = time.monotonic()
    r = p.send(3)
    assert r.status == 200 and r.text() == "ok" and time.monotonic() - t < 0.5 * SLOW


# ---- CAN

def test_can_dirtyconn(stage):
    turns = itertools.cycle([reply("can-dirtyconn", "a", 1), reply("can-dirtyconn", "a", 2)])
    p = stage.play("can-dirtyconn", scripts={"a": lambda req: next(turns)})
    for _ in range(100):
        with contextlib.closing(p.open(p.bytes(1))) as s:
            read_words(s, 1)
        r = p.send(2, key=KEY2)
        assert r.status == 200 and r.text() == "SECOND" and b"FIRST" not in r.body
    assert p.row(r)["key"] == "second"
    assert len(p.p["a"].requests) == 200


@pytest.mark.parametrize("variant", ["after three words", "whole answer pending", "silent"])
def test_can_noabort(stage, variant):
    n = {"after three words": 1, "whole answer pending": 2, "silent": 3}[variant]
    p = stage.play("can-noabort", scripts={"a": script("can-noabort", "a", [n], pace=0.2 if n == 1 else 1)}, route={"ttft_budget_ms": 1500})
    s = p.open(p.bytes(n))
    req = wait_for(lambda: p.p["a"].requests, what="the request at A")[0]
    if n == 1:
        read_words(s, 3)
    left = time.monotonic()
    s.close()
    wait_for(lambda: req.closed_at, what="the upstream's end")
    assert req.closed_at - left < 0.1 * SLOW
    row = p.last_row()
    assert row["outcome"] == "client_cancelled" and len(row["attempts"]) == 1
    assert not p.p["b"].requests


class Flood:
    """A Chat stream of so many megabytes, counting what could be written."""

    def __init__(self, mb):
        self.event = up_event()
        self.n, self.sent, self.total = mb * 1024, 0, mb * 1024 * len(self.event)

    def reply(self, req=None):
        def parts():
            yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            piece = b"%x\r\n%s\r\n" % (len(self.event), self.event) * 8
            for _ in range(self.n // 8):
                yield piece
                self.sent += len(piece)
            yield b"0\r\n\r\n"
        r = Reply(end="close")
        r.parts = parts()
        return r


def up_event():
    return b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"alpha-large","choices":[{"index":0,"delta":{"content":"' + b"z" * 900 + \
        b'"},"finish_reason":null}]}\n\n'


def settled(value, still=0.3, bound=10):
    """The value once it has not changed for a while."""
    end = time.monotonic() + bound * SLOW
    last, since = value(), time.monotonic()
    while time.monotonic() - since < still:
        assert time.monotonic() < end, "never at rest"
        time.sleep(0.01)
        if value() != last:
            last, since = value(), time.monotonic()
    return last


def test_can_slowclient(world):
    flood = Flood(64)
    g, (a,) = world.chain(lambda req: flood.reply(), config={"limits": {"client_stall_ms": 1500}}, route={"model": "chain-main", "idle_timeout_ms": 1000})
    with contextlib.closing(connect_small(g)) as s:
        s.sendall(request("can-slowclient"))
        wait_for(lambda: flood.sent > 0, what="the first bytes")
        at = settled(lambda: flood.sent)
        assert at < flood.total / 2, "the gateway reads on although nobody reads from it"
        wait_for(lambda: a.requests[0].closed_at, 5, "the upstream's end after the stall limit")
        rest, closed = read_to_end(s, 5)
        assert closed and b"[DONE]" not in rest
    line = wait_for(lambda: g.access(), what="the row")[0]
    row = g.row(line["id"])
    assert row["outcome"] == "client_cancelled" and len(g.access()) == 1


def test_can_slowclient_a_hundred(world):
    floods = []

    def each(req):
        floods.append(Flood(16))
        return floods[-1].reply()
    # A sanitizer keeps freed memory for a while; what is measured here is what is held.
    g, (a,) = world.chain(each, config={"limits": {"client_stall_ms": 60000}}, route={"model": "chain-main"},
                          env={"ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=16"})
    before = g.rss_kb()
    socks = [connect_small(g) for _ in range(100)]
    for s in socks:
        s.sendall(request("can-slowclient"))
    wait_for(lambda: len(floods) == 100 and all(f.sent for f in floods), 30, "all to begin")
    settled(lambda: sum(f.sent for f in floods), bound=30)
    assert sum(f.sent for f in floods) < sum(f.total for f in floods) / 2, "the gateway reads on although nobody reads from it"
    assert g.rss_kb() - before < 100 * 512, "a client that does not read must not be buffered for without a bound"
    for s in socks:
        s.close()
    wait_for(lambda: all(r.closed_at for r in a.requests), 10, "the upstreams' ends")


# ---- CHN

def test_chn_exhausted(stage):
    # Here 300 ms for the budget, 900 for the deadline. The breaker is on, so that B's hint is known.
    p = stage.play("chn-exhausted", route={"deadline_ms": 900, "ttft_budget_ms": 300, "breaker": {}}, keys={"a": "sk-prov-A-SECRET-7788"})
    t = time.monotonic()
    r = p.send()
    took = time.monotonic() - t
    assert 0.88 < took < 0.9 + 0.2 * SLOW
    assert r.status == 503 and 1 <= int(r.headers["retry-after"]) <= 9
    e = r.json()["error"]
    assert [(x["provider"], x["outcome"], x["status"]) for x in e["attempts"]] == [
        (p.name["a"], "overloaded", 503), (p.name["b"], "rate_limited", 429), (p.name["c"], "deadline", None)]
    assert 500 < e["attempts"][2]["ms"] <= 950
    for secret in ("SECRET", "?", "http://", ".c:"):
        assert secret not in r.body.decode(), secret


def test_chn_exhausted_nothing_left_but_hints(stage):
    """Where every target is closed, the soonest hint is the answer's: 7 s, jittered upward."""
    p = stage.play("chn-exhausted", "ab", scripts={"a": script("chn-exhausted", "b")}, route={"breaker": {}})
    r = p.send()
    assert r.status == 503 and 7 <= int(r.headers["retry-after"]) <= 9
    r = p.send()
    assert r.status == 503 and [a["outcome"] for a in r.json()["error"]["attempts"]] == ["skipped_open", "skipped_open"] and p.calls() == {"a": 1, "b": 1}


def test_chn_maxtokens(stage):
    p = stage.play("chn-maxtokens", links={"b": {"max_output": 8192}})
    r = p.send()
    assert r.text() == FINE and p.p["a"].requests[0].json["max_tokens"] == 64000
    assert p.p["b"].requests[0].json["max_tokens"] == 8192
    assert "max_tokens=8192" in r.headers["x-ringmain-adjusted"] and "max_tokens=8192" in p.row(r)["adjusted"]


def test_chn_maxtokens_skip(stage):
    p = stage.play("chn-maxtokens", links={"b": {"max_output": 8192, "adjust": "skip"}})
    r = p.send()
    assert p.outcomes(r) == ["server_error", "skipped_incapable"] and not p.p["b"].requests
    assert r.status == 502  # A was the only candidate: its own failure by class


@pytest.mark.parametrize("retries,attempts", [(0, 8), (1, 8), (3, 8), (1, 4)])
def test_chn_multiply(stage, retries, attempts):
    p = stage.play("chn-multiply", route={"retries": retries, "max_attempts": attempts, "deadline_ms": 3000})
    t = time.monotonic()
    r = p.send()
    assert time.monotonic() - t < 3 and r.status == 503
    calls = p.calls()
    assert all(n <= 1 + retries for n in calls.values()) and sum(calls.values()) == min(attempts, 3 * (1 + retries))
    order = [n for _, n in sorted((req.arrived, letter) for letter, q in p.p.items() for req in q.requests)]
    assert order == sorted(order), "never A again after B"
    assert r.headers["x-ringmain-attempts"] == str(sum(calls.values()))


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_chn_prefill(stage, dialect):
    p = stage.play("chn-prefill", dialects={"b": dialect})
    r = p.send()
    assert r.text() == "".join(WORDS) and not r.is_well_ended() and r.is_whole
    e = r.stream_error()
    assert e["message"] and "prefill" not in e["message"].lower() and e.get("code") != 400
    assert not p.p["b"].requests and p.outcomes(r) == ["stream_error"]


def test_chn_respformat(stage):
    p = stage.play("chn-respformat", links={"b": {"supports": {"json_schema": False}}})
    r = p.send()
    assert json.loads(r.text()) == {"n": 4} and p.outcomes(r) == ["server_error", "skipped_incapable", "ok"]
    assert not p.p["b"].requests and p.p["c"].requests[0].json["response_format"]["json_schema"]["schema"]["required"] == ["n"]


def test_chn_respformat_messages_target(stage):
    """C speaks Messages: the schema goes in that API's own form, or the link is skipped; never prose as a 200."""
    p = stage.play("chn-respformat", scripts={"c": good("anthropic", '{"n":4}', "beta-large")}, dialects={"c": "anthropic"}, links={"b": {"supports": {"json_schema": False}}})
    r = p.send()
    sent = p.p["c"].requests[0].json
    assert "response_format" not in sent and '"required":["n"]' in p.p["c"].requests[0].body.decode()
    assert r.status == 200 and json.loads(r.text()) == {"n": 4} and p.outcomes(r) == ["server_error", "skipped_incapable", "ok"]
    assert not p.p["b"].requests


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_chn_silent(stage, client):
    p = stage.play("chn-silent", route={"ttft_budget_ms": 300, "breaker": {"failures": 1, "cooldown_ms": 60000}})
    data = p.bytes() if client == "chat" else messages_request(p.alias)
    with contextlib.closing(p.open(data)) as s:
        t = time.monotonic()
        first = s.recv(1)
        took = time.monotonic() - t
        rest, _ = read_to_end(s, 1)
    assert first == b"H" and FINE.encode() in rest and 0.29 < took < 0.3 + 0.06 + 0.1 * SLOW
    assert len(p.p["a"].requests) == 1
    silent = p.p["a"].requests[0]
    wait_for(lambda: silent.closed_at, what="A's end")
    assert 0.25 < silent.closed_at - silent.arrived < 0.3 + 0.05 * SLOW
    assert p.health()["a"]["breaker"] == "open", "a timeout counts"
    assert p.outcomes(p.send()) == ["skipped_open", "ok"]


def test_chn_spin(stage):
    p = stage.play("chn-spin")
    r = p.send(1)
    assert r.text() == "w0 w1 w2 " and not r.is_well_ended() and r.is_whole and r.stream_error()["message"]
    assert "finish_reason\":\"" not in r.body.decode()
    time.sleep(0.1)  # "idle within 100 ms"
    before = cpu_seconds(p.g)
    time.sleep(0.5)
    assert cpu_seconds(p.g) - before < 0.1 * SLOW
    second = p.send(2)
    assert second.text() == "naïve — 東京 🚋 ok" and second.is_well_ended()
    rows = [p.row(r), p.row(second)]
    assert [len(x["attempts"]) for x in rows] == [1, 1] and rows[0]["outcome"] == "rate_limited" and rows[0]["attempts"][0]["in_stream"] is True
    assert rows[1]["outcome"] == "ok"


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_chn_ttftheaders(stage, client):
    p = stage.play("chn-ttftheaders", route={"ttft_budget_ms": 300})
    r = p.send() if client == "chat" else p.messages()
    assert r.text() == FINE and b"late" not in r.body and b": hi" not in r.body and r.is_well_ended()
    first = p.row(r)["attempts"][0]
    assert first["outcome"] == "ttft_timeout" and 295_000 <= first["total_us"] <= 300_000 + 60_000 * SLOW
    assert 0 < first["first_byte_us"] < 250_000, "its head had come at once"
    wait_for(lambda: p.p["a"].requests[0].closed_at, what="A's end")


def test_chn_wrongmodel(stage):
    # The body's model is as the serving provider wrote it (DESIGN §4).
    p = stage.play("chn-wrongmodel")
    r = p.send()
    assert {c["model"] for c in chunks_of(r)} == {"delta-chat"}
    assert (r.headers["x-ringmain-provider"], r.headers["x-ringmain-model"], r.headers["x-ringmain-attempts"]) == (p.name["b"], "delta-chat", "2")
    assert [e[0] for e in r.trail()] == [f"{p.name['a']}/alpha-large", f"{p.name['b']}/delta-chat"]
    assert [(a["provider"], a["model"]) for a in p.row(r)["attempts"]] == [(p.name["a"], "alpha-large"), (p.name["b"], "delta-chat")]
    m = p.messages()  # a translated answer carries the target's model
    assert json.loads(m.events()[0][1])["message"]["model"] == "delta-chat" and m.headers["x-ringmain-model"] == "delta-chat"


# ---- MID

@pytest.mark.parametrize("client", ["chat", "messages"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_mid_cut(stage, n, client):
    p = stage.play("mid-cut", scripts={"a": script("mid-cut", "a", [n])})
    r = p.send(1) if client == "chat" else p.send(3)
    assert r.text() == "".join(WORDS), "all forty words, once"
    assert r.is_whole and not r.is_well_ended(), "the HTTP body is well-formed, the stream is not a normal end"
    body = r.body.decode()
    assert "[DONE]" not in body and "message_stop" not in body and "stop_reason\":\"" not in body and "finish_reason\":\"" not in body
    name, data = r.events()[-1]
    assert r.stream_error()["message"] and json.loads(data).get("type") == (None if client == "chat" else "error") and name == (None if client == "chat" else "error")
    row = p.row(r)
    assert row["outcome"] == "stream_error" and [a["outcome"] for a in row["attempts"]] == ["stream_error"] and not p.p["b"].requests


@pytest.mark.parametrize("client", ["chat", "messages"])
@pytest.mark.parametrize("keep", [0, 1, 39])
def test_mid_cut_elsewhere(stage, keep, client):
    """The neighbours: the cut after other numbers of words, and inside an event (only whole events are relayed)."""
    data = up("mid-cut", "up-a-1.http")
    ends = [i for i in range(len(data)) if data.startswith(b"\n\n\r\n", i)]
    at = ends[keep] + 4
    p = stage.play("mid-cut", scripts={"a": [Reply(data[:at + 60], end="rst")]})
    r = p.send(1) if client == "chat" else p.send(3)
    assert r.text() == "".join(WORDS[:keep + 1]) and r.is_whole and not r.is_well_ended() and r.stream_error()


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_mid_dup(stage, client):
    """The case's own client speaks Responses, which comes later; the law is the same for the others."""
    p = stage.play("mid-dup")
    body = b'{"model":"chain-main","stream":true,"messages":[{"role":"user","content":"hi"}]}'
    r = p.chat(body) if client == "chat" else p.messages()
    assert r.body.count(b"Bonjour!") == 1 and r.text() == "Bonjour!" and r.stream_error() and not r.is_well_ended()
    assert r.body.count(b"message_start\n") == (1 if client == "messages" else 0)
    assert not p.p["b"].requests


def test_mid_latefail(stage):
    p = stage.play("mid-latefail")
    r = p.send(1)
    assert r.status == 200 and r.text() == FINE and r.is_well_ended() and r.events()[-1] == (None, "[DONE]")
    r = p.send(2)
    assert r.status == 200 and r.text() == FINE and r.is_well_ended() and [e[0] for e in r.events()][:1] == ["message_start"]
    for n in (3, 4):  # Responses and Gemini come later: 404 in a body, and nobody is called
        before = p.calls()
        r = p.send(n)
        assert r.status == 404 and r.json()["error"]["message"] and p.calls() == before


def test_mid_stall(stage):
    p = stage.play("mid-stall", route={"idle_timeout_ms": 400})
    t = time.monotonic()
    r = p.send(1)
    took = time.monotonic() - t
    assert r.text() == "".join(WORDS[:20]) and r.stream_error()["message"] and not r.is_well_ended() and r.is_whole
    assert 0.4 < took < 0.4 + 0.3 * SLOW and p.outcomes(r) == ["idle_timeout"]
    wait_for(lambda: p.p["a"].requests[0].closed_at, what="A's end")
    r = p.send(2)
    assert r.text() == "naïve — 東京 🚋 ok" and r.is_well_ended()


# ---- TMO

def test_tmo_heartbeat(stage):
    p = stage.play("tmo-heartbeat", pace=0.3, route={"heartbeat_ms": 300, "ttft_budget_ms": 1500})  # 1000 ms and 5000 ms in the case
    with contextlib.closing(p.open(p.bytes())) as s:
        t = time.monotonic()
        got = s.recv(65536)
        took = time.monotonic() - t
        while b":" not in got.partition(b"\r\n\r\n")[2]:
            got += s.recv(65536)
        assert got.startswith(b"HTTP/1.1 200") and b"data:" not in got and 0.29 < took < 0.3 + 0.2 * SLOW
        rest, _ = read_to_end(s, 1.5)
    assert raw_stream_text(rest) == "naïve — 東京 🚋 ok" and rest.rstrip().endswith(b"0") and b"[DONE]" in rest


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_tmo_heartbeat_then_b(stage, client):
    late = Reply(0.6, *script("brk-halfopen", "a")[0].parts, end="close")
    p = stage.play("tmo-heartbeat", scripts={"a": [late]}, route={"heartbeat_ms": 200, "ttft_budget_ms": 1500})
    with contextlib.closing(p.open(p.bytes() if client == "chat" else messages_request(p.alias))) as s:
        r = read_response(s)
    assert r.status == 200 and r.text() == FINE and r.is_well_ended() and r.body.count(b"HTTP/1.1") == 0
    assert r.body.startswith(b":") and p.outcomes(r) == ["overloaded", "ok"]


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_tmo_heartbeat_then_all_fail(stage, client):
    down = script("brk-halfopen", "a")[0]
    p = stage.play("tmo-heartbeat", scripts={"a": [Reply(0.4, *down.parts, end="close")], "b": [down]}, route={"heartbeat_ms": 150})
    r = p.send() if client == "chat" else p.messages()
    assert r.status == 200 and r.is_whole and not r.is_well_ended() and r.body.startswith(b":")
    e = r.stream_error()
    assert e["code"] == "all_providers_unavailable" if client == "chat" else e["type"] == "overloaded_error"


def test_tmo_reasonsilence_untouched(stage):
    p = stage.play("tmo-reasonsilence", pace=0.2, route={"ttft_budget_ms": 2000, "idle_timeout_ms": 2000})  # gaps of 600 and 800 ms
    r = p.send()
    assert r.is_well_ended() and r.headers["x-ringmain-provider"] == p.name["a"] and b'"hm"' in r.body and not p.p["b"].requests
    assert chunks_of(r)[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_tmo_reasonsilence_abandoned(stage):
    p = stage.play("tmo-reasonsilence", pace=0.2, route={"ttft_budget_ms": 400})
    r = p.send()
    assert r.text() == FINE and p.outcomes(r) == ["ttft_timeout", "ok"]
    assert 395_000 <= p.row(r)["attempts"][0]["total_us"] <= 400_000 + 60_000 * SLOW


def test_tmo_reasonsilence_reasoning_stops_the_clock(stage):
    p = stage.play("tmo-reasonsilence", pace=0.2, route={"ttft_budget_ms": 1000})  # reasoning at 0.6 s, the call at 1.4 s
    r = p.send()
    assert r.headers["x-ringmain-provider"] == p.name["a"] and r.is_well_ended()
    row = p.row(r)
    assert 550_000 < row["ttft_us"] < 1_000_000 < row["total_us"]

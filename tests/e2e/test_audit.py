"""What users are promised about the surface, sentence by sentence: header lines on every kind of answer, the members of the
ledger's object and when they are null, the access log, reload, precedence of settings, forms of base URLs, the command line
and the pages of docs/."""
import concurrent.futures
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from harness import (BINARY, ROOT, SLOW, Reply, error_json, events, free_port, good, http, openai_chunk, provider_conf, read_response, stream,
                     wait_for, whole)

DOWN = [Reply(http(503, error_json("openai", 503)))]
HANG = [Reply(end="hang")]
ID = re.compile(r"req_[0-9a-z]{13}")
ENTRY = r"[A-Za-z0-9_.-]+/[^;, ]+;(ok;ttft=\d+ms|skipped_[a-z]+|[a-z_]+(;status=\d+)?;\d+ms)"
TRAIL = re.compile(rf"{ENTRY}(, {ENTRY})*")


def cli(*args, cwd=None, env=None, stdin=None):
    return subprocess.run([BINARY, *args], cwd=cwd, env={**os.environ, **(env or {})}, input=stdin, capture_output=True, text=True, timeout=60)


def status(n, headers=(), **kw):
    return Reply(http(n, error_json("openai", n, **kw), headers=headers))


def outcomes(row):
    return [a["outcome"] for a in row["attempts"]]


def in_force(g, config):
    """Reloads and waits until the new configuration is in force on the worker."""
    n = g.log().count("is in force")
    g.config = config
    g.write(config)
    g.proc.send_signal(signal.SIGHUP)
    wait_for(lambda: g.log().count("is in force") > n, what="the reload")
    g.call("/healthz", None, method="GET")  # orders to a worker come before what was sent after them


# ---------------------------------------------------------------- header lines of ours

KEY = "rk-audit"
KEYS = {"client_keys": [{"name": "me", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """One gateway, one answer of every kind: {name: (response, the dialect asked in)}."""
    from conftest import World
    w = World(tmp_path_factory.mktemp("answers"))
    ps = {n: w.provider(s) for n, s in {"good": good("openai"), "down": DOWN, "down2": DOWN, "bad": [status(400, kind="invalid_request_error")],
                                        "auth": [status(401, kind="invalid_request_error", code="invalid_api_key")]}.items()}
    route = lambda model, *order: {"model": model, "order": list(order), "retries": 0, "breaker": "off"}
    g = w.gateway({**KEYS, "limits": {"body_bytes": 4096}, "providers": {n: provider_conf(p.port) for n, p in ps.items()},
                   "routes": [route("r", "good"), route("over", "down", "good"), route("red", "down", "down2"), route("one", "down"),
                              route("bad", "bad"), route("auth", "auth")]})
    out = {}
    for dialect, call, path in (("openai", g.chat, "/v1/chat/completions"), ("anthropic", g.messages, "/v1/messages")):
        key = [("Authorization", f"Bearer {KEY}")]
        for is_stream in (True, False):
            for model in ("r", "over", "red", "one", "bad", "auth", "nobody"):
                out[f"{dialect}-{model}-{'stream' if is_stream else 'whole'}"] = call(model, is_stream, headers=key)
        out[f"{dialect}-no-key"] = call("r")
        out[f"{dialect}-bad-json"] = g.call(path, b"{", key)
        out[f"{dialect}-too-large"] = g.call(path, b"x" * 5000, key)
        out[f"{dialect}-method"] = g.call(path, None, key, method="GET")
        out[f"{dialect}-routing"] = call("r", headers=[*key, ("x-routing", "order: nobody")])
        out[f"{dialect}-cache"] = call("r", headers=[*key, ("x-cache", "forever")])
    out["openai-no-path"] = g.call("/v1/responses", {}, key)
    out["anthropic-no-path"] = g.call("/v1/messages/count_tokens", {}, key)
    yield g, out
    w.end()


def test_every_answer_has_an_id_of_its_own(answers):
    _, out = answers
    ids = [r.headers.get("x-ringmain-request-id", "") for r in out.values()]
    assert all(ID.fullmatch(i) for i in ids), [n for n, r in out.items() if "x-ringmain-request-id" not in r.headers]
    assert len(set(ids)) == len(ids)


def test_every_answer_counts_its_attempts(answers):
    _, out = answers
    for name, r in out.items():
        want = 2 if "-over-" in name or "-red-" in name else 1 if re.search("-(r|one|bad|auth)-(stream|whole)$", name) else 0
        assert r.headers.get("x-ringmain-attempts") == str(want), name


def test_every_trail_is_in_its_grammar(answers):
    _, out = answers
    for name, r in out.items():
        trail = r.headers.get("x-ringmain-trail")
        assert (trail is not None) == (r.headers["x-ringmain-attempts"] != "0"), name
        assert trail is None or TRAIL.fullmatch(trail), (name, trail)


def test_streams_tell_proxies_not_to_hold_them(answers):
    _, out = answers
    for name, r in out.items():
        is_stream = r.status == 200 and name.endswith("-stream")
        assert (r.headers.get("x-accel-buffering") == "no") == is_stream, name
        assert r.headers["content-type"] == ("text/event-stream; charset=utf-8" if is_stream else "application/json"), name
        if is_stream:
            assert r.headers["cache-control"] == "no-cache"


def test_who_served_stands_on_what_was_served(answers):
    _, out = answers
    for name, r in out.items():
        if r.status == 200:
            assert (r.headers["x-ringmain-provider"], r.headers["x-ringmain-model"]) == ("good", "over" if "-over-" in name else "r"), name


WANT = {"r": 200, "over": 200, "red": (503, 529), "one": (503, 529), "bad": 400, "auth": 502, "nobody": 404, "no-key": 401, "bad-json": 400,
        "too-large": 413, "method": 405, "routing": 400, "cache": 400, "no-path": 404}


def test_errors_are_in_the_clients_dialect(answers):
    _, out = answers
    for name, r in out.items():
        dialect, kind = name.removesuffix("-stream").removesuffix("-whole").split("-", 1)
        want = WANT[kind]
        assert r.status == (want if isinstance(want, int) else want[dialect == "anthropic"]), (name, r.body)
        if r.status == 200:
            continue
        d = r.json()
        assert {"message", "type"} <= set(d["error"]), name
        if dialect == "openai":
            assert set(d) == {"error"} and {"param", "code"} <= set(d["error"]), name
        else:
            assert d["type"] == "error" and d["request_id"] == r.headers["x-ringmain-request-id"], name


def test_x_should_retry_false_exactly_where_nothing_helps(answers):
    _, out = answers
    for name, r in out.items():
        assert (r.headers.get("x-should-retry") == "false") == ("-auth-" in name), name
        assert r.headers.get("x-should-retry") in (None, "false"), name
        is_soon = "-red-" in name or "-one-" in name
        assert ("retry-after" in r.headers) == is_soon, name
        if is_soon:
            assert int(r.headers["retry-after"]) >= 1


def test_both_forms_of_all_red_have_the_same_members(answers):
    _, out = answers
    for name in ("openai-red-whole", "anthropic-red-stream"):
        r = out[name]
        e = r.json()["error"]
        assert e["retry_after_ms"] == 1000 * int(r.headers["retry-after"])
        assert [set(a) for a in e["attempts"]] == [{"provider", "model", "outcome", "status", "ms"}] * 2
        assert [(a["provider"], a["model"], a["outcome"], a["status"]) for a in e["attempts"]] == [("down", "red", "overloaded", 503), ("down2", "red", "overloaded", 503)]
        assert [f"{a['ms']}ms" for a in e["attempts"]] == [entry[-1] for entry in r.trail()]


def test_every_answer_is_in_the_ledger_and_the_access_log(answers):
    g, out = answers
    rows = {name: g.row(r) for name, r in out.items()}
    for name, r in out.items():
        row = rows[name]
        assert row["status"] == r.status and row["id"] == r.headers["x-ringmain-request-id"], name
        assert row["key"] == (None if re.search("no-key|no-path|method", name) else "me"), name  # path and method are judged before the key
        assert row["dialect"] == name.split("-")[0], name
        assert sum(a["start_us"] is not None for a in row["attempts"]) == int(r.headers["x-ringmain-attempts"]), name
    lines = wait_for(lambda: (x := {line["id"]: line for line in g.access()}) and len(x) >= len(out) and x, what="the access log")
    for name, r in out.items():
        line, row = lines[r.headers["x-ringmain-request-id"]], rows[name]
        assert list(line)[0] == "id" and line["time"] == row["started"], name
        for member in ("key", "route", "dialect", "stream", "status", "outcome", "provider", "model"):
            assert line[member] == row[member], (name, member)
        assert line["attempts"] == int(r.headers["x-ringmain-attempts"]), name


def test_health_answers_without_a_key(answers):
    g, _ = answers
    assert g.call("/healthz", None, method="GET").json() == {"status": "ok"}
    assert g.call("/readyz", None, method="GET").json() == {"status": "ready", "ledger": "ok", "providers_off": []}
    assert g.call("/readyz", None, method="HEAD").status == 200
    assert g.call("/v1/models", None, method="GET").status == 401


# ---------------------------------------------------------------- retry-after, x-should-retry, skips

@pytest.mark.parametrize("a,b,soonest,no_retry", [(7, 20, 7, False), (20, 7, 7, False), (70, 90, 70, True), (None, 90, None, False)])
def test_retry_after_is_the_soonest_that_a_target_may_be_tried(world, a, b, soonest, no_retry):
    reply = lambda s: [status(429, headers=[("Retry-After", str(s))] if s else [])]
    g, _ = world.chain(reply(a), reply(b))
    r = g.chat()
    told = int(r.headers["retry-after"])
    assert r.status == 503 and (told == 1 if soonest is None else soonest <= told <= soonest * 1.5 + 1)
    assert (r.headers.get("x-should-retry") == "false") == no_retry


def test_skips_stand_in_all_red_answers(world):
    g, (a, b) = world.chain([status(429, headers=[("Retry-After", "30")])], [status(429, headers=[("Retry-After", "40")])])
    g.chat()
    r = g.chat()
    e = r.json()["error"]
    assert r.status == 503 and r.headers["x-ringmain-attempts"] == "0"
    assert [(x["provider"], x["outcome"], x["status"], x["ms"]) for x in e["attempts"]] == [("a", "skipped_open", None, 0), ("b", "skipped_open", None, 0)]
    assert r.headers["x-ringmain-trail"] == "a/m-a;skipped_open, b/m-b;skipped_open"
    assert 25 <= int(r.headers["retry-after"]) <= 46 and len(a.requests) == len(b.requests) == 1
    row = g.row(r)
    assert row["outcome"] == "all_unavailable" and row["cost_nusd"] == 0 and row["ttft_us"] is None
    for x in row["attempts"]:
        assert all(x[k] is None for k in ("status", "start_us", "connect_us", "first_byte_us", "ttft_us", "total_us")) and x["tokens_from"] == "unbilled"


# ---------------------------------------------------------------- the object

def test_members_of_the_object_and_when_they_are_null(world):
    first = [status(429, headers=[("Retry-After", "1"), ("x-request-id", "prov-1")])]
    g, _ = world.chain(first, good("openai"), links={"b": {"max_output": 40}}, config={"prices": {"m-a": {"input": "1", "output": "2"}, "m-b": {"input": "3", "output": "15"}}})
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    before = time.time()
    r = g.chat(max_tokens=50, reasoning_effort="low", headers=[("traceparent", f"00-{trace}-00f067aa0ba902b7-01")])
    row = g.row(r)
    a, b = row["attempts"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", row["started"])
    import datetime
    assert abs(datetime.datetime.fromisoformat(row["started"]).timestamp() - before) < 5
    assert (row["key"], row["route"], row["dialect"], row["stream"], row["status"], row["outcome"]) == (None, "r", "openai", True, 200, "ok")
    assert (row["provider"], row["model"], row["served_link"], row["max_tokens"], row["effort"], row["trace_id"]) == ("b", "m-b", 1, 50, "low", trace)
    assert row["adjusted"] == r.headers["x-ringmain-adjusted"] and "max_tokens=40" in row["adjusted"]
    assert row["prompt_bytes"] > 0
    assert (a["n"], a["kind"], a["link"], a["provider"], a["model"], a["outcome"], a["in_stream"], a["status"]) == (1, "client", 0, "a", "m-a", "rate_limited", False, 429)
    assert a["retry_after_ms"] == 1000 and a["provider_request_id"] == "prov-1" and a["tokens_from"] == "unbilled" and a["cost_nusd"] == 0 == a["waste_nusd"]
    assert a["ttft_us"] is None and a["connect_us"] is not None and "next link" in a["decision"]
    assert 0 <= a["start_us"] <= a["first_byte_us"] <= a["total_us"] <= b["start_us"] <= b["first_byte_us"] <= b["ttft_us"] <= b["total_us"] <= row["total_us"]
    assert row["ttft_us"] == b["ttft_us"] and b["retry_after_ms"] is None and b["price_version"]
    assert b["tokens"] == {"input": 12, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "output": 4, "reasoning": 0}
    assert b["cost_nusd"] == row["cost_nusd"] == 12 * 3000 + 4 * 15000 and row["waste_nusd"] == 0
    wait_for(lambda: g.row(g.chat(headers=[("x-routing", "order: b")]))["attempts"][0]["connect_us"] is None, what="a reused connection")


def test_the_cost_is_told_where_it_is_known_in_time(world):
    g, _ = world.chain(good("openai"), config={"prices": {"a/m-a": {"input": "1", "output": "1"}}})
    assert g.chat(stream=False).headers["x-ringmain-cost-usd"] == "0.000016000"
    assert "x-ringmain-cost-usd" not in g.chat().headers
    g, _ = world.chain(good("openai"))
    assert "x-ringmain-cost-usd" not in g.chat(stream=False).headers


def test_no_text_of_anybody_is_kept(world):
    g, _ = world.chain(good("openai", "the ANSWERTEXT is here"))
    g.row(g.chat(content="my PROMPTTEXT is here"))
    kept = b"".join(p.read_bytes() for p in g.dir.glob("ringmain.db*")) + (g.dir / "access.log").read_bytes() + g.log().encode()
    assert b"PROMPTTEXT" not in kept and b"ANSWERTEXT" not in kept


def test_a_row_is_visible_soon(world):
    g, _ = world.chain(good("openai"), config={"ledger_flush_ms": 100})
    g.admin("/api/requests")
    for _ in range(5):
        r = g.chat()
        t = time.monotonic()
        g.row(r)
        assert time.monotonic() - t < 0.25 * SLOW


def test_what_was_seen_of_a_cancelled_call_is_counted(world):
    evs = events("openai", ["x" * 40] * 3, finish=None, usage=None, done=False)
    g, (a,) = world.chain([stream(*evs, last=False, end="hang")], config={"prices": {"m-a": {"input": "1", "output": "1"}}})
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": [{"role": "user", "content": "y" * 400}]})
    got = b""
    while got.count(b"x" * 40) < 3:
        got += s.recv(65536)
    s.close()
    rid = re.search(rb"x-ringmain-request-id: (\S+)", got).group(1).decode()
    x = g.row(rid)["attempts"][0]
    assert x["outcome"] == "client_cancelled" and x["tokens_from"] == "estimated"
    assert x["tokens"]["output"] == 30 and x["tokens"]["input"] >= 100 and x["waste_nusd"] == 0 < x["cost_nusd"]


# ---------------------------------------------------------------- reload

def test_limits_change_with_a_reload(world):
    g, _ = world.chain(good("openai"))
    assert g.chat(content="x" * 3000).status == 200
    in_force(g, {**g.config, "limits": {"body_bytes": 2048}})
    assert g.chat(content="x" * 3000).status == 413
    in_force(g, {**g.config, "limits": {}})
    assert g.chat(content="x" * 3000).status == 200


def test_what_needs_a_restart_keeps_its_value_and_is_named_each_time(world):
    g, _ = world.chain(good("openai"), config={"limits": {"connections": 3}})
    changed = {**g.config, "workers": 2, "listen": f"127.0.0.1:{free_port()}", "ledger": "sqlite:other.db", "access_log": "other.log", "ledger_flush_ms": 50,
               "resolver": "system", "limits": {"connections": 1, "memory": "64M", "ledger_queue_rows": 64}}
    for n in (1, 2):
        in_force(g, changed)
        told = [line for line in g.log().splitlines() if "until a restart" in line]
        assert len(told) == n
        for word in ("workers", "listen", "ledger", "access_log", "ledger_flush_ms", "resolver", "limits.connections", "limits.memory", "limits.ledger_queue_rows"):
            assert re.search(rf" {re.escape(word)}[,\"]", told[-1]), (word, told[-1])
    held = [g.connect(), g.connect()]
    assert g.chat().status == 200  # the third connection: the old value counts
    for s in held:
        s.close()
    g.row(g.chat())
    assert not (g.dir / "other.db").exists() and not (g.dir / "other.log").exists()


def test_a_reload_cannot_open_the_gateway(world):
    """The listener stays where it is until a restart, so its client keys cannot go by a reload that moves it."""
    p = world.provider(good("openai"))
    port = free_port()
    conf = {"listen": f"0.0.0.0:{port}", **KEYS, "providers": {"a": provider_conf(p.port)}, "routes": [{"model": "r", "order": ["a"]}]}
    g = world.gateway(conf, wait=False)
    g.port = port
    wait_for(g._is_up, 10)
    assert g.chat().status == 401
    n = g.log().count("nothing was changed")
    g.write({**{k: v for k, v in g.config.items() if k != "client_keys"}, "listen": f"127.0.0.1:{port}"})
    g.proc.send_signal(signal.SIGHUP)
    wait_for(lambda: g.log().count("nothing was changed") > n, what="the refusal")
    assert "client_keys" in g.log() and g.chat().status == 401 and g.chat(headers=[("x-api-key", KEY)]).status == 200


def test_keys_and_routes_change_with_a_reload(world):
    g, _ = world.chain(good("openai"), config=KEYS)
    assert g.chat(headers=[("x-api-key", KEY)]).status == 200
    in_force(g, {**g.config, "client_keys": [{"name": "new", "sha256": hashlib.sha256(b"rk-new").hexdigest()}], "routes": [{"model": "other", "order": ["a"]}]})
    assert g.chat(headers=[("x-api-key", KEY)]).status == 401
    assert g.chat(headers=[("x-api-key", "rk-new")]).status == 404
    assert g.row(g.chat("other", headers=[("x-api-key", "rk-new")]))["key"] == "new"


def test_sighup_reopens_the_access_log(world):
    g, _ = world.chain(good("openai"))
    first = g.chat().headers["x-ringmain-request-id"]
    wait_for(lambda: any(x["id"] == first for x in g.access()))
    (g.dir / "access.log").rename(g.dir / "access.log.1")
    in_force(g, g.config)
    wait_for(lambda: (g.dir / "access.log").exists())
    second = g.chat().headers["x-ringmain-request-id"]
    wait_for(lambda: any(x["id"] == second for x in g.access()))
    assert first not in (g.dir / "access.log").read_text() and second not in (g.dir / "access.log.1").read_text()


def test_health_survives_a_reload(world):
    g, (a, b) = world.chain([status(429, headers=[("Retry-After", "60")])], good("openai"))
    g.chat()
    in_force(g, {**g.config, "drain_timeout_ms": 5000})
    assert [e[1] for e in g.chat().trail()] == ["skipped_open", "ok"] and len(a.requests) == 1


def test_a_standby_stays_in_use_over_a_reload(world):
    g, (a, b) = world.chain(good("openai"), good("openai"), route={"keepalive_sec": 1})
    g.chat()
    wait_for(lambda: b.requests, 5, "a keepalive")
    in_force(g, {**g.config, "drain_timeout_ms": 5000})
    n = len(b.requests)
    wait_for(lambda: len(b.requests) > n, 5, "a keepalive after the reload")


# ---------------------------------------------------------------- limits

def test_bodies_are_admitted_against_the_memory(world):
    g, _ = world.chain(good("openai"), config={"limits": {"memory": 1048576}})
    assert g.chat(content="x" * 500_000).status == 200
    r = g.chat(content="x" * 1_500_000)
    assert r.status == 503 and r.headers["retry-after"] == "1" and "limits.memory" in r.json()["error"]["message"]
    r = g.messages(content="x" * 1_500_000)
    assert r.status == 529 and r.json()["error"]["type"] == "overloaded_error" and "x-should-retry" not in r.headers
    assert g.chat().status == 200


def test_a_client_that_sends_its_whole_body_first_sees_the_refusal(world):
    """The refusal comes with the head; a close while the body is still on its way would reset the connection and lose it."""
    g, _ = world.chain(good("openai"), config={"limits": {"body_bytes": 4000000}, **KEYS})
    key = [("Authorization", f"Bearer {KEY}")]
    body = json.dumps({"model": "r", "messages": [{"role": "user", "content": "x" * 12_000_000}]}).encode()
    for path, headers, status in (("/v1/chat/completions", key, 413), ("/v1/messages", key, 413), ("/v1/nothing", key, 404), ("/v1/chat/completions", [], 401)):
        r = g.call(path, body, headers)
        assert r.status == status and "error" in r.json(), (path, r)


def test_json_depth_is_a_setting(world):
    g, (a,) = world.chain(good("openai"), config={"limits": {"json_depth": 8}})
    deep = lambda n: {"model": "r", "stream": True, "messages": [{"role": "user", "content": "x"}], "metadata": json.loads("[" * n + "]" * n)}
    assert g.call("/v1/chat/completions", deep(6)).status == 200
    r = g.call("/v1/chat/completions", deep(12))
    assert r.status == 400 and r.json()["error"]["type"] == "invalid_request_error" and len(a.requests) == 1


def test_rows_that_are_lost_are_counted_loudly(world):
    import sqlite3
    g, _ = world.chain(good("openai"), config={"limits": {"ledger_queue_rows": 16}})
    g.row(g.chat())
    metric = lambda name: int(re.search(rf"^{name} (\d+)$", g.admin("/metrics").body.decode(), re.M).group(1))
    lock = sqlite3.connect(g.dir / "ringmain.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    for _ in range(60):
        assert g.chat(stream=False).status == 200
    lost = wait_for(lambda: metric("ringmain_ledger_rows_lost_total"), 20, "lost rows to be counted")
    assert g.call("/readyz", None, method="GET").json() == {"status": "degraded", "ledger": "degraded", "providers_off": []}
    lock.execute("ROLLBACK")
    lock.close()
    wait_for(lambda: metric("ringmain_ledger_rows_waiting") == 0, what="the rest to be written")
    lost = metric("ringmain_ledger_rows_lost_total")
    wait_for(lambda: metric("ringmain_ledger_rows_written_total") == 61 - lost, what="all but the lost to be written")
    assert "lost" in g.log()


# ---------------------------------------------------------------- stopping

def test_idle_connections_go_at_once(world):
    evs = events("openai", [f"w{i} " for i in range(20)])
    g, (a,) = world.chain([stream(*evs, gap=0.02)])
    idle = g.send("/healthz", None, method="GET")
    read_response(idle)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        busy = pool.submit(g.chat)
        wait_for(lambda: a.requests)
        g.proc.send_signal(signal.SIGTERM)
        t = time.monotonic()
        assert idle.recv(1) == b"" and time.monotonic() - t < 0.3 * SLOW
        assert not busy.done()
        assert busy.result().is_well_ended()
    assert g.proc.wait(10 * SLOW) == 0
    idle.close()


def test_answers_during_a_drain_say_close(world):
    evs = events("openai", ["late"])
    g, (a,) = world.chain([stream(0.5, *evs)])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(g.chat)
        wait_for(lambda: a.requests)
        g.proc.send_signal(signal.SIGTERM)
        r = running.result()
    assert r.is_well_ended() and r.headers["connection"] == "close" and g.proc.wait(10 * SLOW) == 0


def test_a_second_signal_stops_at_once(world):
    g, (a,) = world.chain([stream(*events("openai", ["one"], done=False, finish=None, usage=None), last=False, end="hang")])
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": []})
    assert s.recv(1)
    g.proc.send_signal(signal.SIGTERM)
    wait_for(lambda: "stopping" in g.log())
    t = time.monotonic()
    g.proc.send_signal(signal.SIGTERM)
    assert g.proc.wait(10 * SLOW) == 0 and time.monotonic() - t < 3 * SLOW
    s.close()


# ---------------------------------------------------------------- precedence and overrides

@pytest.mark.parametrize("defaults,route,link,asked,want", [
    (None, None, None, None, "r-builtin"), (200, None, None, None, 200), (5000, 200, None, None, 200), (5000, 5000, 200, None, 200), (5000, 5000, 5000, 200, 200)])
def test_the_nearest_setting_counts(world, defaults, route, link, asked, want):
    ms = lambda v: {"ttft_budget_ms": v} if v else {}
    slow = [stream(0.6, *events("openai", ["A."], model="m-a"))]
    g, _ = world.chain(slow, good("openai"), config={"defaults": ms(defaults)}, route=ms(route), links={"a": ms(link)})
    row = g.row(g.chat(headers=[("x-routing", f"ttft: {asked}")] if asked else []))
    if want == "r-builtin":
        assert outcomes(row) == ["ok"]
    else:
        assert outcomes(row) == ["ttft_timeout", "ok"] and want * 1000 - 5000 <= row["attempts"][0]["total_us"] <= want * 1000 + 80_000 * SLOW


def test_client_routing_says_what_clients_may_steer(world):
    g, (a, b) = world.chain(good("openai", "A."), good("openai"), route={"client_routing": ["order"]})
    assert g.chat(headers=[("x-routing", "order: b")]).text() == "Hello from B."
    for bad in ("ttft: 200", "deadline: 5000", "fallback: off"):
        r = g.chat(headers=[("x-routing", bad)])
        assert r.status == 400 and r.json()["error"]["code"] == "invalid_routing"


def test_x_routing_deadline_and_fallback(world):
    g, (a, b) = world.chain(HANG, good("openai"), route={"ttft_budget_ms": 5000})
    t = time.monotonic()
    r = g.chat(headers=[("x-routing", "deadline: 300; fallback: off")])
    assert r.status == 504 and 0.28 < time.monotonic() - t < 1.5 * SLOW and not b.requests
    assert [e[1] for e in r.trail()] == ["deadline"]


@pytest.mark.parametrize("failover_on,fault,moves", [
    ([429], status(429), True), ([429], status(503), False), (["default", 400], status(400, kind="invalid_request_error"), True), (["ttft_timeout"], status(503), False),
    (["default", "content_policy"], status(400, kind="invalid_request_error", code="content_policy_violation"), True), ([418], status(418), True)])
def test_failover_on_takes_words_and_numbers(world, failover_on, fault, moves):
    g, (a, b) = world.chain([fault], good("openai"), route={"failover_on": failover_on, "retries": 0})
    assert (g.chat().status == 200) == moves == bool(b.requests)


def test_set_and_drop_of_a_link(world):
    g, (a,) = world.chain(good("openai"), links={"a": {"set": {"service_tier": "flex", "temperature": 0.5}, "drop": ["user"]}})
    r = g.chat(temperature=1, user="somebody")
    sent = a.requests[0].json
    assert sent["service_tier"] == "flex" and sent["temperature"] == 0.5 and "user" not in sent
    assert all(word in r.headers["x-ringmain-adjusted"] for word in ("service_tier", "temperature", "user"))


@pytest.mark.parametrize("need,supports", [
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}, "tools"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}, "vision"),
    ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "prefill"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}, "json_schema")])
def test_a_link_that_does_not_support_it_is_skipped(world, need, supports):
    g, (a, b) = world.chain(good("openai", "A."), good("openai"), links={"a": {"supports": {supports: False}}})
    body = {"model": "r", "stream": True, "messages": [{"role": "user", "content": "x"}], **need}
    r = g.call("/v1/chat/completions", body)
    assert [e[1] for e in r.trail()] == ["skipped_incapable", "ok"] and not a.requests
    assert g.chat().text() == "A."


@pytest.mark.parametrize("mode,stream_usage,is_stream", [("auto", None, True), ("auto", False, False), ("on", False, True), ("off", None, False)])
def test_upstream_stream(world, mode, stream_usage, is_stream):
    g, (a,) = world.chain(good("openai"), route={"upstream_stream": mode}, links={"a": {} if stream_usage is None else {"supports": {"stream_usage": stream_usage}}})
    r = g.chat(stream=False)
    assert r.text() == "Hello from B." and bool(a.requests[0].json.get("stream")) == is_stream
    assert ("stream_options" in a.requests[0].json) == (is_stream and stream_usage is not False)


def test_total_budget_takes_the_budgets_place(world):
    slow = [Reply(0.6, http(200, whole("openai", "slow")))]
    g, _ = world.chain(slow, good("openai"), route={"upstream_stream": "off", "ttft_budget_ms": 5000, "total_budget_ms": 200})
    r = g.chat(stream=False)
    assert r.text() == "Hello from B." and outcomes(g.row(r)) == ["total_timeout", "ok"]


# ---------------------------------------------------------------- providers

@pytest.mark.parametrize("dialect,suffix,path", [
    ("openai", "/v1", "/v1/chat/completions"), ("openai", "/v1/", "/v1/chat/completions"), ("openai", "/openai/v1", "/openai/v1/chat/completions"),
    ("openai", "/api/paas/v4", "/api/paas/v4/chat/completions"), ("anthropic", "", "/v1/messages"), ("anthropic", "/", "/v1/messages"), ("anthropic", "/v1", "/v1/messages"),
    ("anthropic", "/anthropic", "/anthropic/v1/messages"), ("anthropic", "/anthropic/v1/", "/anthropic/v1/messages")])
def test_forms_of_base_urls(world, dialect, suffix, path):
    p = world.provider(good(dialect))
    g = world.gateway({"providers": {"a": {"dialect": dialect, "base_url": f"http://127.0.0.1:{p.port}{suffix}", "api_key": "k"}}, "routes": [{"model": "r", "order": ["a"]}]})
    assert g.chat().text() == "Hello from B." and p.requests[0].path == path
    assert p.requests[0].headers["host"] == f"127.0.0.1:{p.port}"


def test_models_map_and_headers_of_a_provider(world):
    p = world.provider(good("openai"))
    prov = {**provider_conf(p.port), "models": {"r": "their/r-1"}, "headers": {"X-Title": "shop", "HTTP-Referer": "https://shop.example"}}
    g = world.gateway({"providers": {"a": prov}, "routes": [{"model": "r", "order": ["a"]}, {"model": "s", "chain": [{"provider": "a", "model": "own"}]}, {"model": "t", "order": ["a"]}]})
    for model in "rst":
        assert g.chat(model).status == 200
    assert [q.json["model"] for q in p.requests] == ["their/r-1", "own", "t"]
    assert p.requests[0].headers["x-title"] == "shop" and p.requests[0].headers["http-referer"] == "https://shop.example"


def test_vendor_can_be_named(world):
    p = world.provider(good("anthropic"))
    ask = lambda vendor: {**provider_conf(p.port, "anthropic"), **({"vendor": vendor} if vendor else {})}
    g = world.gateway({"providers": {"a": ask(None), "b": ask("anthropic")}, "routes": [{"model": "a", "order": ["a"]}, {"model": "b", "order": ["b"]}]})
    assert g.chat("a").status == g.chat("b").status == 200
    bad = cli("check", "-c", str(g.path), cwd=g.dir)
    assert bad.returncode == 0
    (g.dir / "bad.yaml").write_text(json.dumps({"providers": {"a": ask("opnai")}, "routes": [{"model": "a", "order": ["a"]}]}))
    out = cli("check", "-c", "bad.yaml", cwd=g.dir)
    assert out.returncode == 1 and "openai" in out.stderr


@pytest.mark.parametrize("resolver", ["c-ares", "system"])
def test_both_resolvers_find_and_miss_names(world, resolver):
    p = world.provider(good("openai"))
    provs = {"a": provider_conf(p.port, host="no-such-host.invalid"), "b": provider_conf(p.port, host="localhost")}
    g = world.gateway({"resolver": resolver, "providers": provs, "routes": [{"model": "r", "order": ["a", "b"], "connect_timeout_ms": 5000, "ttft_budget_ms": 8000}]})
    r = g.chat()
    assert r.text() == "Hello from B." and [e[1] for e in r.trail()][0] in ("connect_error", "connect_timeout") and r.trail()[1][1] == "ok"


def test_keepalives_stop_at_their_spend_and_when_idle(world):
    dear = {"prices": {"m-b": {"input": "1000", "output": "1000"}}}
    g, (a, b) = world.chain(good("openai"), good("openai"), config=dear, route={"keepalive_sec": 1, "keepalive_max_usd_per_day": "0.02"})
    g.chat()
    wait_for(lambda: len(b.requests) == 2, 6, "two keepalives")  # 16 tokens at a thousandth of a dollar each
    time.sleep(2.5)  # the passing of time is what is tested
    assert len(b.requests) == 2
    g, (a, b) = world.chain(good("openai"), good("openai"), route={"keepalive_sec": 1, "keepalive_idle_stop_sec": 2})
    g.chat()
    time.sleep(3.5)
    n = len(b.requests)
    assert 1 <= n <= 2
    time.sleep(2)
    assert len(b.requests) == n


def test_keepalives_are_on_the_ledger_as_such(world):
    g, (a, b) = world.chain(good("openai"), good("openai"), config={"prices": {"m-b": {"input": "1", "output": "1"}}}, route={"keepalive_sec": 1})
    g.chat()
    db = str(g.dir / "ringmain.db")
    total = wait_for(lambda: (x := json.loads(cli("ledger", "sum", "--json", "--db", db).stdout)) and x["keepalives"] and x, 6, "a keepalive on the ledger")
    assert total["requests"] == 1 and total["keepalive_nusd"] == total["keepalives"] * 16_000


# ---------------------------------------------------------------- the command line

def check(tmp_path, conf):
    (tmp_path / "ringmain.yaml").write_text(json.dumps(conf))
    out = cli("check", "--json", cwd=tmp_path)
    return out.returncode, json.loads(out.stdout)


@pytest.mark.parametrize("what,providers,route,word", [
    ("one account", {"a": {}}, {"chain": [{"provider": "a", "model": "x"}, {"provider": "a", "model": "y"}]}, "one account"),
    ("one host", {"a": {}, "b": {}}, {"order": ["a", "b"]}, "one host"),
    ("dearer", {"a": {}, "b": {"base_url": "http://other.test/v1"}}, {"chain": [{"provider": "a", "model": "cheap"}, {"provider": "b", "model": "dear"}]}, "dearer"),
    ("keepalive", {"a": {}, "b": {"base_url": "http://other.test/v1"}}, {"order": ["a", "b"], "keepalive_sec": 30}, "no known price"),
    ("reasoning", {"a": {}}, {"chain": [{"provider": "a", "model": "o3-mini"}], "ttft_budget_ms": 900}, "reasons"),
    ("resume", {"a": {}}, {"order": ["a"], "resume": "on"}, "no second link")])
def test_check_warns(tmp_path, what, providers, route, word):
    prices = {"cheap": {"input": "1", "output": "1"}, "dear": {"input": "2", "output": "2"}} if what == "dearer" else {}
    full = {n: {"dialect": "openai", "base_url": "http://host.test/v1", "api_key": "k", **p} for n, p in providers.items()}
    code, got = check(tmp_path, {"providers": full, "routes": [{"model": "r", **route}], "prices": prices})
    assert code == 0 and got["ok"] and got["errors"] == 0
    assert any(f["severity"] == "warning" and word in f["message"] and f["line"] for f in got["faults"]), got


def test_what_is_not_built_is_refused_with_its_word(tmp_path):
    base = {"providers": {"a": {"dialect": "openai", "base_url": "http://host.test/v1", "api_key": "k", "proxy": "http://proxy.test"}},
            "routes": [{"model": "r", "order": ["a"]}]}
    code, got = check(tmp_path, base)
    assert code == 1 and any("not built yet" in f["message"] for f in got["faults"])


def test_defaults_are_what_the_design_says(tmp_path):
    page = (ROOT / "docs/settings.md").read_text()
    want = {"listen": "127.0.0.1:8080", "admin": "127.0.0.1:8081", "ledger": "sqlite:ringmain.db", "ledger_flush_ms": 100, "access_log": "stdout", "drain_timeout_ms": 30000,
            "resolver": "c-ares", "header_bytes": 32768, "headers": 100, "body_bytes": 33554432, "memory": "25%", "connections": 10000, "json_depth": 128,
            "event_bytes": 8388608, "gate_bytes": 262144, "head_timeout_ms": 10000, "body_timeout_ms": 30000, "client_idle_ms": 75000, "client_stall_ms": 30000,
            "requests_per_connection": 10000, "ledger_queue_rows": 65536, "strategy": "failover", "ttft_budget_ms": 15000, "connect_timeout_ms": 2000,
            "idle_timeout_ms": 60000, "deadline_ms": 120000, "total_budget_ms": 90000, "upstream_stream": "auto", "retries": 1, "max_attempts": 8,
            "wait_retry_after_ms": 0, "on_bad_event": "fail", "resume": "off", "failures": 5, "ratio": 0.5, "ratio_min": 10, "window_ms": 30000, "cooldown_ms": 5000,
            "cooldown_max_ms": 60000, "keepalive_sec": "off", "keepalive_idle_stop_sec": 900, "keepalive_max_usd_per_day": "1.00", "heartbeat_ms": "off", "adjust": "clamp"}
    for name, value in want.items():
        rows = re.findall(rf"^\| `{name}` \|[^|]*\| `([^`]*)` \|", page, re.M)
        assert str(value) in rows, (name, rows)


def test_the_ledger_for_people_and_programs(world):
    g, _ = world.chain(DOWN, good("openai"), config={"prices": {"m-a": {"input": "1", "output": "1"}, "m-b": {"input": "1", "output": "1"}}})
    ids = [g.chat().headers["x-ringmain-request-id"] for _ in range(3)]
    g.row(ids[-1])
    ledger = lambda *a: cli("ledger", *a, cwd=g.dir, env={"COLUMNS": "200"})
    lines = ledger("tail", "-c", str(g.path)).stdout.splitlines()
    assert [re.search(ID, x).group(0) for x in lines] == ids and all("b/m-b" in x and "attempts=2" in x and "cost=$0.000016000" in x for x in lines)
    assert [json.loads(x)["id"] for x in ledger("tail", "-n", "2", "--json", "-c", str(g.path)).stdout.splitlines()] == ids[1:]
    text = ledger("show", ids[0], "-c", str(g.path)).stdout
    for want in (ids[0], "a/m-a", "b/m-b", "overloaded", "status 503", "unbilled", "reported", "served", "first token", "$0.000016000", "next link"):
        assert want in text, want
    text = ledger("sum", "-c", str(g.path)).stdout
    for want in ("requests   3, of which 3 needed more than one attempt", "attempts   6", "$0.000048000", "waste      $0.000000000 (0.000 %)", "a/m-a", "b/m-b"):
        assert want in text, (want, text)
    got = json.loads(ledger("sum", "--since", "1h", "--json", "-c", str(g.path)).stdout)
    assert (got["requests"], got["attempts"], got["cost_nusd"], got["waste_nusd"], got["outcomes"]) == (3, 6, 48000, 0, {"ok": 3})
    assert ledger("show", "req_0000000000000", "-c", str(g.path)).returncode == 1
    assert ledger("show").returncode == 2 and ledger("sum", "--since", "sometime", "-c", str(g.path)).returncode == 2
    assert ledger("tail", "--db", "nowhere.db").returncode == 1


def test_exit_codes_and_json(tmp_path):
    assert cli("check", "-c", "nowhere.yaml", cwd=tmp_path).returncode == 1
    assert cli("serve", "-c", "nowhere.yaml", cwd=tmp_path).returncode == 1
    assert cli("check", "too", "many", cwd=tmp_path).returncode == 2
    assert cli("keys", "make", cwd=tmp_path).returncode == 2
    assert cli("mock", "--fault", "nonsense", cwd=tmp_path).returncode == 2
    assert cli("demo", "--nonsense", cwd=tmp_path).returncode == 2
    got = json.loads(cli("keys", "new", "--name", "x", "--json").stdout)
    assert hashlib.sha256(got["key"].encode()).hexdigest() == got["sha256"] and got["name"] == "x"
    assert got["sha256"] in cli("keys", "hash", stdin=got["key"] + "\n").stdout


# ---------------------------------------------------------------- the admin listener

def test_admin_lists_and_pages(world):
    g, _ = world.chain(good("openai"))
    ids = [g.chat().headers["x-ringmain-request-id"] for _ in range(5)]
    g.row(ids[-1])
    got = [x["id"] for x in g.admin("/api/requests?n=2").json()]
    assert got == ids[:2:-1]
    assert [x["id"] for x in g.admin(f"/api/requests?n=9&before={got[-1]}").json()] == ids[2::-1]
    assert g.admin("/api/requests?n=0").status == 400
    assert g.admin("/api/requests", method="HEAD").status == 200
    for host in ("localhost", "[::1]:1", f"127.0.0.1:{g.admin_port}"):
        assert g.admin("/api/health", host=host).status == 200
    for host in ("localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"):
        assert g.admin("/api/health", host=host).status == 403
    assert g.admin("/api/requests", method="DELETE").status == 405


def test_admin_can_be_off(world):
    g, _ = world.chain(good("openai"), config={"admin": "off", "ledger": "off", "access_log": "off"})
    assert g.chat().text() == "Hello from B."
    assert g.call("/readyz", None, method="GET").json()["ledger"] == "off"
    assert socket.socket().connect_ex(("127.0.0.1", g.admin_port)) != 0 and not (g.dir / "ringmain.db").exists()


def test_the_access_log_goes_to_standard_output(world):
    g, _ = world.chain(good("openai"), config={"access_log": "stdout"})
    rid = g.chat().headers["x-ringmain-request-id"]
    g.stop()
    lines = g.proc.stdout.read().decode().splitlines()
    assert [json.loads(x)["id"] for x in lines] == [rid] and lines[0].startswith('{"id":"req_')


# ---------------------------------------------------------------- the pages

PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", *[f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")]]


@pytest.mark.parametrize("page", PAGES)
def test_files_named_in_the_pages_exist(page):
    text = (ROOT / page).read_text()
    known = ["/" + str(p.relative_to(ROOT)) for top in ROOT.iterdir() if top.is_dir() and top.name not in ("build", ".git")
             for p in top.rglob("*.*")] + [f"/{p.name}" for p in ROOT.iterdir()]
    names = set(re.findall(r"`([a-z0-9_./-]+\.(?:c|h|md|py|def|json|sh|build))`", text)) | set(re.findall(r"\]\(([^):]+\.md)\)", text))
    for name in names:
        assert any(k.endswith("/" + name.removeprefix("../")) for k in known), name


def test_every_outcome_word_is_explained():
    words = re.findall(r'^OUTCOME\w*\([^"]*"([a-z_]+)"', (ROOT / "src/model/outcome.def").read_text(), re.M)
    page = (ROOT / "docs/outcomes.md").read_text()
    assert len(words) > 25
    for word in words:
        assert f"`{word}`" in page or word in ("none", "hedge_lost"), word


def test_every_room_stands_in_the_architecture():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    for room in (p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
        assert f"`{room}`" in page, room


def test_the_readmes_config_is_fine(tmp_path):
    text = re.search(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
    (tmp_path / "ringmain.yaml").write_text(text)
    out = cli("check", "-c", "ringmain.yaml", cwd=tmp_path, env={"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"})
    assert out.returncode == 0, out.stderr
    assert len([x for x in text.splitlines() if x and not x.startswith("#")]) <= 10
    missing = cli("check", "-c", "ringmain.yaml", cwd=tmp_path)
    if "OPENAI_API_KEY" not in os.environ:
        assert missing.returncode == 1 and "OPENAI_API_KEY" in missing.stderr

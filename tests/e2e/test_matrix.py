"""What happens when: the whole matrix of client dialect x target dialect x streaming or not x fault, in one table.

Chain: A (with the fault) then B (healthy), retries 1, ttft budget 250 ms, idle 300 ms (500_once: 4 s, for a retry needs its head
within a quarter of the budget). One gateway serves every cell; each cell has
providers of its own, so no cell's breaker or credential touches another's."""
import itertools
import json
import time

import pytest

from harness import (LAST, SSE_HEAD, Reply, chunk, error_json, events, free_port, good, http, openai_chunk, provider_conf, stream,
                     wait_for, whole)

TTFT_MS, IDLE_MS = 250, 300

# fault: (streaming client, non-streaming client). Each is what the client sees, the outcomes of the trail in order, and how often
# A was asked. What the client sees: "A" / "B" = that provider's whole answer; a number = that status as a whole answer in the
# client's dialect; "cut" = A's text so far, then an error inside the stream, and no normal end.
TABLE = {
    "ok":                     (("A", "ok", 1),                          ("A", "ok", 1)),
    "rate_limited":           (("B", "rate_limited ok", 1),             ("B", "rate_limited ok", 1)),
    "rate_limited_hint":      (("B", "rate_limited ok", 1),             ("B", "rate_limited ok", 1)),
    "500_once":               (("A", "server_error ok", 2),             ("A", "server_error ok", 2)),
    "503":                    (("B", "overloaded ok", 1),               ("B", "overloaded ok", 1)),
    "529":                    (("B", "overloaded ok", 1),               ("B", "overloaded ok", 1)),
    "400":                    ((400, "client_error", 1),                (400, "client_error", 1)),
    "401":                    ((502, "auth_error", 1),                  (502, "auth_error", 1)),
    "404":                    ((404, "not_found", 1),                   (404, "not_found", 1)),
    "422":                    ((422, "client_error", 1),                (422, "client_error", 1)),
    "refused":                (("B", "connect_error ok", 0),            ("B", "connect_error ok", 0)),
    "reset_before_head":      (("B", "connect_error connect_error ok", 2), ("B", "connect_error connect_error ok", 2)),
    "hang_before_head":       (("B", "ttft_timeout ok", 1),             ("B", "ttft_timeout ok", 1)),
    "hang_after_head":        (("B", "ttft_timeout ok", 1),             ("B", "ttft_timeout ok", 1)),
    "hang_after_role":        (("B", "ttft_timeout ok", 1),             ("B", "ttft_timeout ok", 1)),
    "error_in_200":           (("B", "overloaded ok", 1),               ("B", "overloaded ok", 1)),
    "cut_after_token":        (("cut", "stream_error", 1),              ("B", "stream_error ok", 1)),
    "stall_after_token":      (("cut", "idle_timeout", 1),              ("B", "idle_timeout ok", 1)),
    "malformed_event":        (("cut", "protocol_error", 1),            ("B", "protocol_error ok", 1)),
    "no_terminator":          (("A", "ok", 1),                          ("A", "ok", 1)),
    "client_leaves":          (("gone", "client_cancelled", 1),         ("gone", "client_cancelled", 1)),
    "slow_client":            (("A", "ok", 1),                          ("A", "ok", 1)),
}
CLIENTS = TARGETS = ("openai", "anthropic")
CELLS = [(c, t, s, f) for c, t, s, f in itertools.product(CLIENTS, TARGETS, (True, False), TABLE)]


def cell_name(c, t, s, f):
    return f"{c}-{t}-{'stream' if s else 'whole'}-{f}"


TEXT = ["Hello", " from", " A."]
BIG = [" w%05d" % i + "x" * 900 for i in range(1500)]  # more than any socket buffer between us


def script(target, fault):
    """A's behaviour, as a script for Provider."""
    d = target
    ok = lambda words=TEXT, **kw: stream(*events(d, words, model="m-a", **kw))
    role = events(d, [], usage=(12, 4), done=False, **({"finish": None} if d == "openai" else {"stop": None}))
    role = role[:1]
    overload = (b'data: {"error":{"message":"overloaded","type":"server_error","code":"overloaded"}}\n\n' if d == "openai" else
                b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"overloaded"}}\n\n')
    if d == "openai":
        overload = b'data: {"error":{"message":"Service overloaded","type":"server_error","code":"503"}}\n\n'
    head = [e for e in events(d, TEXT[:2], model="m-a", done=False, **({"finish": None, "usage": None} if d == "openai" else {"stop": None}))]
    kinds = {"429": ("rate_limit_exceeded", "rate_limit_error"), "503": ("server_error", "overloaded_error"), "529": ("server_error", "overloaded_error"),
             "400": ("invalid_request_error", "invalid_request_error"), "401": ("invalid_request_error", "authentication_error"),
             "404": ("invalid_request_error", "not_found_error"), "422": ("invalid_request_error", "invalid_request_error"),
             "500": ("server_error", "api_error")}

    def status(n, headers=(), code=None):
        kind = kinds[str(n)][d == "anthropic"]
        return Reply(http(n, error_json(d, n, kind, f"made-up {n}", code), headers=headers))
    limited = [("anthropic-ratelimit-requests-remaining", "0")] if d == "anthropic" else []
    return {
        "ok": [ok()],
        "rate_limited": [status(429, limited)],
        "rate_limited_hint": [status(429, [("Retry-After", "7")])],
        "500_once": [status(500), ok()],
        "503": [status(503)],
        "529": [status(529)],
        "400": [status(400)],
        "401": [status(401, code="invalid_api_key")],
        "404": [status(404, code="model_not_found")],
        "422": [status(422)],
        "refused": [],
        "reset_before_head": [Reply(end="rst")],
        "hang_before_head": [Reply(end="hang")],
        "hang_after_head": [Reply(SSE_HEAD, end="hang")],
        "hang_after_role": [stream(*role, last=False, end="hang")],
        "error_in_200": [stream(*role, overload)],
        "cut_after_token": [stream(*head, last=False, end="close")],
        "stall_after_token": [stream(*head, last=False, end="hang")],
        "malformed_event": [stream(*head, b"data: {\"broken\n\n", *events(d, TEXT)[2:])],
        "no_terminator": [stream(*events(d, TEXT, done=False, **({"usage": None} if d == "openai" else {})), end="close")],
        "client_leaves": [stream(*head, last=False, end="hang")],
        "slow_client": [ok(BIG)],
    }[fault]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    from conftest import World
    w = World(tmp_path_factory.mktemp("matrix"))
    providers, conf, routes = {}, {}, []
    for cell in CELLS:
        name = cell_name(*cell)
        _, target, _, fault = cell
        if fault == "refused":
            port = free_port()
        else:
            providers[name] = w.provider(script(target, fault))
            port = providers[name].port
        conf[f"a-{name}"] = provider_conf(port, target, key=f"sk-secret-a-{name}")
    healthy = {}
    for target in TARGETS:
        healthy[target] = w.provider(good(target, "Hello from B."))
    for cell in CELLS:
        name = cell_name(*cell)
        conf[f"b-{name}"] = provider_conf(healthy[cell[1]].port, cell[1], key="sk-secret-b")
        routes.append({"model": name, "chain": [{"provider": f"a-{name}", "model": "m-a"}, {"provider": f"b-{name}", "model": "m-b"}],
                       "ttft_budget_ms": 4000 if cell[3] in ("500_once", "client_leaves") else TTFT_MS,
                       "idle_timeout_ms": 4000 if cell[3] == "client_leaves" else IDLE_MS, "connect_timeout_ms": 200})
    g = w.gateway({"providers": conf, "routes": routes})
    yield g, providers
    code = g.stop()
    for p in w.providers:
        p.close()
    assert code == 0, g.log()
    assert "sk-secret" not in g.log()


def body_for(client, name, is_stream):
    body = {"model": name, "stream": is_stream, "messages": [{"role": "user", "content": "Say something."}]}
    if client == "anthropic":
        body["max_tokens"] = 100
    return body


def check_answer(r, client, is_stream, text):
    assert r.status == 200, r.body
    assert r.text() == text
    assert r.is_whole
    if is_stream:
        assert r.headers["content-type"].startswith("text/event-stream")
        assert r.is_well_ended(), r.body[-300:]
        assert r.body.count(b"[DONE]") == (1 if client == "openai" else 0)
        assert r.body.count(b"event: message_stop") == (1 if client == "anthropic" else 0)
    else:
        assert r.headers["content-type"].startswith("application/json")
        assert "choices" in r.json() if client == "openai" else r.json()["type"] == "message"


def check_error(r, client, status):
    assert r.status == status, r.body
    e = r.json()
    assert e["type"] == "error" if client == "anthropic" else "type" not in e
    assert isinstance(e["error"]["message"], str) and e["error"]["message"]
    assert b"sk-secret" not in r.body
    if client == "openai":
        assert e["error"]["code"] is None or isinstance(e["error"]["code"], str)


def check_cut(r, client, text):
    assert r.status == 200
    assert r.is_whole, "the HTTP body is well-formed"
    assert r.text() == text
    assert not r.is_well_ended()
    assert r.stream_error()["message"]
    assert b"finish_reason\":\"" not in r.body.replace(b" ", b"") and b"message_delta" not in r.body


def read_slowly(s):
    """Waits until the gateway must have filled every buffer, then reads."""
    from harness import read_response
    time.sleep(0.3)  # the client's own slowness: what is tested
    return read_response(s)


@pytest.mark.parametrize("client,target,is_stream,fault", CELLS, ids=[cell_name(*c) for c in CELLS])
def test_cell(matrix, client, target, is_stream, fault):
    gateway, providers = matrix
    name = cell_name(client, target, is_stream, fault)
    sees, outcomes, n_asked = TABLE[fault][0 if is_stream else 1]
    path = "/v1/chat/completions" if client == "openai" else "/v1/messages"
    body = body_for(client, name, is_stream)
    a = providers.get(name)
    if sees == "gone":
        s = gateway.send(path, body)
        wait_for(lambda: a.requests, what="A to be asked")
        if is_stream:
            assert s.recv(10)
        t = time.monotonic()
        s.close()
        wait_for(lambda: a.requests[0].closed_at, what="A to see the close")
        assert a.requests[0].closed_at - t < 1.0
        row = wait_for(lambda: next((x for x in json.loads(gateway.admin("/api/requests?n=5").body) if x["route"] == name), None))
    else:
        if fault == "slow_client":
            r = read_slowly(gateway.send(path, body))
        else:
            r = gateway.call(path, body)
        text = "".join(BIG if fault == "slow_client" else TEXT)
        if sees == "A":
            check_answer(r, client, is_stream, text)
        elif sees == "B":
            check_answer(r, client, is_stream, "Hello from B.")
        elif sees == "cut":
            check_cut(r, client, "".join(TEXT[:2]))
        else:
            check_error(r, client, sees)
        row = gateway.row(r)
        if sees in ("A", "B"):
            assert r.headers["x-ringmain-provider"] == f"{sees.lower()}-{name}"
            assert [e[1] for e in r.trail()] == outcomes.split()
            assert r.headers["x-ringmain-attempts"] == str(len(outcomes.split()))
    assert [x["outcome"] for x in row["attempts"]] == outcomes.split()
    assert row["outcome"] == outcomes.split()[-1]
    assert row["route"] == name and row["dialect"] == client and row["stream"] == is_stream
    if a is not None:
        assert len(a.requests) == n_asked

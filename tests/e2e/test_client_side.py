"""The client listener: HTTP, keys, limits, errors in the dialect of the path."""
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import socket
import time

import pytest

from harness import Reply, error_json, events, good, http, provider_conf, read_response, stream, wait_for

KEY = "rk-test-client-0001"
KEYS = {"client_keys": [{"name": f"other{i}", "sha256": hashlib.sha256(b"x%d" % i).hexdigest()} for i in range(50)] +
        [{"name": "team", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]}
BODY = {"model": "r", "messages": [{"role": "user", "content": "x"}]}


def raw(g, data):
    """Sends bytes and returns everything until the gateway closes or is quiet."""
    with contextlib.closing(g.connect()) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR) if False else None
        s.settimeout(2)
        out = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            while True:
                x = s.recv(65536)
                if not x:
                    break
                out += x
        return out


def test_client_keys(world):
    g, (a,) = world.chain(good("openai"), config=KEYS)
    r = g.chat()
    assert r.status == 401 and r.json()["error"]["code"] == "invalid_api_key"
    r = g.messages()
    assert r.status == 401 and r.json()["error"]["type"] == "authentication_error"
    for bad in ("rk-test-client-0002", "", "' OR '1'='1", KEY + "x", KEY[:-1]):
        assert g.chat(headers=[("Authorization", f"Bearer {bad}")]).status == 401
    assert not a.requests
    r = g.chat(headers=[("Authorization", f"Bearer {KEY}")])
    assert r.status == 200 and g.row(r)["key"] == "team"
    assert g.messages(headers=[("x-api-key", KEY)]).status == 200
    assert g.call("/v1/models", None, method="GET").status == 401
    assert KEY not in g.log() and KEY not in (g.dir / "access.log").read_text()
    head = a.requests[0].raw_head.decode()
    assert KEY not in head and "Bearer sk-key-a-SECRET" in head


def test_a_head_that_was_right_is_asked_for_its_key_again_after_a_reload(world):
    g, _ = world.chain(good("openai"), config=KEYS)
    config = g.config

    def ask(key):
        return g.chat(headers=[("Authorization", f"Bearer {key}")]).status
    assert [ask(KEY) for _ in range(20)] == [200] * 20
    assert ask(KEY[:-1] + "2") == 401 and ask(KEY) == 200
    g.reload({**config, "client_keys": KEYS["client_keys"][:-1]})
    assert [ask(KEY) for _ in range(10)] == [401] * 10
    g.reload(config)
    assert [ask(KEY) for _ in range(10)] == [200] * 10


def test_a_request_is_its_keys_whatever_heads_came_before(world):
    g, _ = world.chain(good("openai"), config=KEYS)
    body = json.dumps(BODY).encode()
    for first, second in (("alpha", "beta"), ("beta", "alpha")):  # both names change hands
        named = [{"name": name, "sha256": hashlib.sha256(key).hexdigest()} for name, key in ((first, b"rk-1"), (second, b"rk-2"))]
        g.reload({**g.config, "client_keys": named})
        asked = [1, 2, 2, 1, 1, 2] * 3
        keys = []
        with contextlib.closing(g.connect()) as s:
            for n in asked:
                s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nX-Api-Key: rk-%d\r\nContent-Length: %03d\r\n\r\n" % (n, len(body)) + body)
                keys.append(g.row(read_response(s))["key"])
        assert keys == [(first, second)[n - 1] for n in asked]


def test_nothing_of_the_clients_goes_up(world):
    g, (a,) = world.chain(good("openai"))
    g.chat(headers=[("Cookie", "session=1"), ("X-Api-Key", "other-secret"), ("X-Forwarded-For", "1.2.3.4"), ("OpenAI-Organization", "org-1"),
                    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("anthropic-beta", "b1")])
    h = a.requests[0].headers
    assert not {"cookie", "x-api-key", "x-forwarded-for", "openai-organization", "anthropic-beta"} & set(h)
    assert h["accept-encoding"] == "identity" and h["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c")


def test_paths_and_methods(world):
    g, _ = world.chain(good("openai"))
    assert g.call("/healthz", None, method="GET").status == 200
    r = g.call("/readyz", None, method="GET")
    assert r.status == 200 and r.json()["status"] == "ready"
    r = g.call("/healthz", None, method="HEAD")
    assert r.status == 200 and r.body == b""
    r = g.call("/v1/models", None, method="GET")
    assert [m["id"] for m in r.json()["data"]] == ["r"] and r.json()["object"] == "list"
    r = g.call("/v1/models", None, [("anthropic-version", "2023-06-01")], method="GET")
    assert r.json()["data"][0]["type"] == "model" and r.json()["data"][0]["id"] == "r"
    for path in ("/v1beta/models/x:generateContent", "/v1beta/models/x:streamGenerateContent?alt=sse"):
        r = g.call(path, BODY)
        assert r.status == 404 and r.json()["error"] == {"code": 404, "status": "NOT_FOUND", "message": r.json()["error"]["message"]}, r.body
    for path in ("/v1/completions", "/v1/embeddings", "/v1/responses", "/nope"):
        r = g.call(path, BODY)
        assert r.status == 404 and r.json()["error"]["message"], path
    r = g.call("/v1/messages/count_tokens", BODY)
    assert r.status == 404 and r.json()["type"] == "error" and r.json()["error"]["type"] == "not_found_error"
    r = g.call("/v1/chat/completions", None, method="GET")
    assert r.status == 405 and "POST" in r.headers["allow"]
    assert all("x-ringmain-request-id" in g.call(p, BODY).headers for p in ("/nope", "/v1/messages/count_tokens"))


def test_absolute_form_and_missing_host(world):
    g, _ = world.chain(good("openai"))
    body = json.dumps(BODY).encode()
    head = b"POST http://ringmain.test/v1/chat/completions HTTP/1.1\r\nHost: other\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert raw(g, head + body).startswith(b"HTTP/1.1 200")
    assert raw(g, b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert raw(g, b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert raw(g, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.")
    assert raw(g, b"GET /healthz HTTP/3.0\r\nHost: a\r\n\r\n")[9:12] in (b"505", b"400")
    assert raw(g, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").startswith(b"HTTP/1.1 400")


def test_expect_continue(world):
    g, _ = world.chain(good("openai"), config=KEYS)
    body = json.dumps(BODY).encode()
    with contextlib.closing(g.connect()) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % (KEY.encode(), len(body)))
        assert s.recv(100).startswith(b"HTTP/1.1 100")
        s.sendall(body)
        assert read_response(s).status == 200
    with contextlib.closing(g.connect()) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert read_response(s).status == 401


def test_keep_alive_and_pipelining(world):
    g, (a,) = world.chain(good("openai"))
    body = json.dumps(BODY).encode()
    one = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with contextlib.closing(g.connect()) as s:
        for _ in range(3):
            s.sendall(one)
            assert read_response(s).status == 200
    out = raw(g, one * 3 + one.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n"))
    assert out.count(b"HTTP/1.1 200") == 4
    g2, _ = world.chain(good("openai"), config={"limits": {"requests_per_connection": 2}})
    assert raw(g2, one * 3).count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize("body,why", [(b"", "empty"), (b"[]", "object"), (b"{", None), (b'{"model":"r"', None), (b'{"messages":[]}', "model"),
                                      (b'{"model":1}', "model"), (b'{"model":""}', "model"), (b'{"model":"r","stream":"yes"}', "stream"),
                                      (b'{"model":"r","model":"r"}', "model"), (b'{"model":"r","n":0}', "n"), (b'{"model":"r\\r\\nX: y"}', None),
                                      (b'{"model":"r","x":"\xff"}', None), (b"[" * 100000, None), (b'{"model":"r","x":' + b"[" * 100000, None)])
def test_bad_bodies(shared, body, why):
    g, a = shared
    for path, kind in (("/v1/chat/completions", None), ("/v1/messages", "error")):
        n = len(a.requests)
        r = g.call(path, body)
        assert r.status == 400, r.body
        e = r.json()
        assert e.get("type") == kind and e["error"]["type"] == "invalid_request_error"
        if why:
            assert why in e["error"]["message"]
        assert len(a.requests) == n


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    from conftest import World
    w = World(tmp_path_factory.mktemp("shared"))
    g, (a,) = w.chain(good("openai"), config={"limits": {"body_bytes": 200000, "header_bytes": 8192, "headers": 40}})
    yield g, a
    assert g.stop() == 0, g.log()
    a.close()


def test_unknown_route(shared):
    r = shared[0].chat("nobody\"<x>")
    assert r.status == 404 and r.json()["error"]["code"] == "model_not_found"


def test_limits_of_sizes(shared):
    g, a = shared
    n = len(a.requests)
    big = json.dumps({**BODY, "x": "y" * 300000}).encode()
    r = g.call("/v1/chat/completions", big)
    assert r.status == 413 and r.json()["error"]["message"]
    out = raw(g, b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n")
    assert out.startswith(b"HTTP/1.1 400") or out.startswith(b"HTTP/1.1 413")
    chunked = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n" % (len(big), big)
    assert raw(g, chunked).startswith(b"HTTP/1.1 413")
    assert raw(g, b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 10000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431")
    assert raw(g, b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 60 + b"\r\n").startswith(b"HTTP/1.1 431")
    assert len(a.requests) == n


def test_slow_heads_and_bodies(world):
    g, _ = world.chain(good("openai"), config={"limits": {"head_timeout_ms": 200, "body_timeout_ms": 200, "client_idle_ms": 300}})
    out = raw(g, b"GET /healthz HTTP/1.1\r\nHost:")
    assert out == b"" or out.startswith(b"HTTP/1.1 408")
    assert raw(g, b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{").startswith(b"HTTP/1.1 408")
    t = time.monotonic()
    assert raw(g, b"") == b""
    assert 0.2 < time.monotonic() - t < 1.5
    assert g.chat().status == 200


def test_connections_are_bounded(world):
    g, _ = world.chain(good("openai"), config={"limits": {"connections": 4}})
    socks = [g.connect() for _ in range(4)]
    wait_for(lambda: b"503" in raw(g, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"), what="the fifth to be refused")
    for s in socks:
        s.close()
    wait_for(lambda: b"200 OK" in raw(g, b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), what="room again")


def test_a_slow_client_slows_its_upstream_and_is_cut(world):
    evs = events("openai", ["x" * 1000] * 30000)
    g, (a, ) = world.chain([stream(*evs)], config={"limits": {"client_stall_ms": 400}})
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": []})
    wait_for(lambda: a.requests)
    row = wait_for(lambda: next(iter(json.loads(g.admin("/api/requests?n=1").body)), None), 8, "the stalled client's row")
    assert row["outcome"] == "client_cancelled"
    wait_for(lambda: a.open == 0, what="A's connection to be closed")
    s.close()


def test_client_leaves_at_every_stage(world):
    g, (a, b) = world.chain(lambda req: Reply(end="hang"), good("openai"))
    for half in (False, True):
        n = len(a.requests)
        s = g.send("/v1/chat/completions", BODY)
        wait_for(lambda: len(a.requests) > n)
        t = time.monotonic()
        s.shutdown(socket.SHUT_WR) if half else s.close()
        wait_for(lambda: a.requests[n].closed_at)
        assert a.requests[n].closed_at - t < 0.5
        s.close()
    assert not b.requests
    before = g.n_fds()
    socks = [g.send("/v1/chat/completions", BODY) for _ in range(50)]
    wait_for(lambda: len(a.requests) >= 52)
    for s in socks:
        s.close()
    wait_for(lambda: g.n_fds() <= before, what="every descriptor to be closed")


def test_bytes_pass_as_they_are(world):
    body = b'{"temperature":1e2,"model":"r" ,"stream":true,"big":9223372036854775807123,"messages":[{"content":"\\u0041\\u0000","role":"user"}],"z":{"b":1,"a":2}}'
    g, (a,) = world.chain([stream(*events("openai", ["Hi"]))])
    g.call("/v1/chat/completions", body)
    g.call("/v1/chat/completions", body)
    want = b'{"stream_options":{"include_usage":true},' + body[1:].replace(b'"r"', b'"m-a"')
    assert a.requests[0].body == want and a.requests[1].body == want


def test_usage_is_added_and_taken_out(world):
    evs = [e.replace(b'"choices"', b'"usage":null,"choices"', 1) if b'"usage"' not in e else e for e in events("openai", ["Hi", " there"])]
    g, (a,) = world.chain([stream(*evs)])
    r = g.chat()
    assert b"usage" not in r.body and r.is_well_ended() and r.text() == "Hi there"
    row = g.row(r)
    assert (row["attempts"][0]["tokens"]["input"], row["attempts"][0]["tokens"]["output"]) == (12, 4)
    r = g.chat(stream_options={"include_usage": True})
    assert r.body == b"".join(evs)


def test_same_dialect_streams_are_byte_equal(world):
    evs = [b": hello\n\n", *events("anthropic", ["Hi"])]
    evs[2] = evs[2].replace(b'}\n', b' }\n')
    g, _ = world.chain([Reply(SSE_HEAD_X, *[b"%x\r\n%s\r\n" % (len(e), e) for e in evs], b"0\r\n\r\n")], dialects=["anthropic"])
    r = g.messages()
    assert r.body == b"".join(evs[1:])
    assert r.headers["request-id"] == "req_p1" and "anthropic-ratelimit-requests-remaining" in r.headers
    assert not {"set-cookie", "x-hop", "anthropic-organization-id"} & set(r.headers)
    assert r.headers["x-accel-buffering"] == "no" and r.headers["cache-control"] == "no-cache"


SSE_HEAD_X = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nrequest-id: req_p1\r\nX-Hop: 1\r\nConnection: x-hop\r\n"
              b"anthropic-ratelimit-requests-remaining: 5\r\nanthropic-organization-id: org\r\nSet-Cookie: a=b\r\n\r\n")


@contextlib.contextmanager
def stopped(g):
    """What is done meanwhile lies ready when the gateway goes on."""
    os.kill(g.proc.pid, signal.SIGSTOP)
    wait_for(lambda: pathlib.Path(f"/proc/{g.proc.pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt", what="the gateway to stop")
    try:
        yield
    finally:
        os.kill(g.proc.pid, signal.SIGCONT)


def post_bytes(body):
    raw = json.dumps(body).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw


class OneByOne:
    """A socket of which reading one response takes nothing of the next."""

    def __init__(self, s):
        self.s = s

    def recv(self, _):
        return self.s.recv(1)


def test_many_at_once(world):
    """What many clients and their providers have sent is read before any of it is looked at: whole calls, one in parts, one that waits behind
    another, a body longer than the first read, clients that leave."""
    g, (a,) = world.chain(good("openai"))
    whole = post_bytes(BODY)
    long = post_bytes({**BODY, "messages": [{"role": "user", "content": "y" * 70_000}]})
    asked = [whole] * 20 + [long] * 3 + [whole * 2, b"", b"junk\r\n\r\n", whole[:40]] + [whole] * 20
    for _ in range(3):
        clients = [g.connect() for _ in asked]
        with stopped(g):
            for c, data in zip(clients, asked):
                c.sendall(data)
            for c in clients[-8:]:
                c.close()
        clients[26].sendall(whole[40:])
        for c, data in list(zip(clients, asked))[:-8]:
            for _ in range(data.count(b"POST ")):
                assert read_response(OneByOne(c)).status == 200
        assert read_response(clients[25]).status == 400
        for c in clients[:-8]:
            c.close()
    assert g.chat().status == 200

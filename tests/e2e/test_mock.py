"""`ringmain mock` from outside: what each fault is on the wire, byte for byte over raw sockets, and what the file and the
orders do. The expected bytes are built here from the protocols, not taken from the mock."""
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time

import pytest

from harness import BINARY, SLOW, Gateway, chunk, cpu_seconds, provider_conf, read_response, wait_for

WORDS = "one two three"


# ---------------------------------------------------------------- the mock as a process

class Mock:
    """ringmain mock; ports by name (or by position, where there is none)."""

    def __init__(self, tmp, config=None, args=()):
        self.err = open(tmp / "mock.err", "wb+")
        if config is not None:
            (tmp / "mock.yaml").write_text(json.dumps(config))
            args = ("-c", str(tmp / "mock.yaml"), *args)
        self.proc = subprocess.Popen([BINARY, "mock", *args], stdout=subprocess.PIPE, stderr=self.err, text=True)
        n = len(config["providers"]) if config else 1 + sum(a == "--provider" for a in args[1:])
        self.lines = [self.proc.stdout.readline().strip() for _ in range(n)]
        assert all(re.search(r" on port \d+$", line) for line in self.lines), (self.lines, (tmp / "mock.err").read_text())
        self.ports = [int(line.rsplit(" ", 1)[1]) for line in self.lines]
        self.names = {line.split(":")[0]: port for line, port in zip(self.lines, self.ports) if ":" in line}
        self.port = self.ports[0]

    def connect(self, port=None):
        s = socket.create_connection(("127.0.0.1", port or self.port))
        s.settimeout(20 * SLOW)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def order(self, path, body=None, port=None, method="POST"):
        with self.connect(port) as s:
            send(s, path, body, method=method)
            return read_response(s)

    def fault(self, word, port=None, **more):
        r = self.order("/_mock/fault", {"fault": word, **more}, port)
        assert r.status == 200, r.body
        return r

    def log(self, port=None, after=0):
        return self.order(f"/_mock/log?after={after}", port=port, method="GET").json()

    def state(self, port=None):
        return self.order("/_mock/state", port=port, method="GET").json()

    def chat(self, port=None, stream=True, model="m", content="hi", headers=(), **more):
        body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": content}], **more}
        with self.connect(port) as s:
            send(s, "/v1/chat/completions", body, headers)
            return read_response(s)

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        try:
            code = self.proc.wait(20 * SLOW)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise
        self.err.seek(0)
        assert code == 0, self.err.read().decode()


@pytest.fixture
def start(tmp_path):
    running = []

    def one(config=None, *args):
        running.append(Mock(tmp_path, config, args))
        return running[-1]
    yield one
    for m in running:
        m.stop()


def plain(dialect="openai", **more):
    pace = {} if "tokens_per_s" in more else {"gap_ms": 1}
    return {"name": "A", "port": 0, "dialect": dialect, "words": WORDS, "tokens": 3, "ttft": 1, **pace, **more}


def send(s, path, body=None, headers=(), method="POST"):
    if isinstance(body, (dict, list)):
        body = json.dumps(body, ensure_ascii=False).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: mock.test\r\nContent-Length: {len(body or b'')}\r\n"
    for k, v in headers:
        head += f"{k}: {v}\r\n"
    s.sendall(head.encode() + b"\r\n" + (body or b""))


def ask(dialect, stream=True, **more):
    path = "/v1/chat/completions" if dialect == "openai" else "/v1/messages"
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}], **more}
    if dialect == "anthropic":
        body["max_tokens"] = 100
    return path, body


# ---------------------------------------------------------------- what is expected on the wire

def js(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def n_prompt(dialect, stream, **more):
    _, body = ask(dialect, stream, **more)
    return (len(json.dumps(body)) + 3) // 4


def head(dialect, n, status="200 OK", kind="text/event-stream; charset=utf-8", more=()):
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}"]
    if dialect == "openai":
        lines += [f"x-request-id: req_mock{n}", "openai-organization: org-mock", "openai-version: 2020-10-01", "x-ratelimit-remaining-requests: 4999"]
    else:
        lines += [f"request-id: req_mock{n}", "anthropic-organization-id: 00000000-0000-4000-8000-000000000000", "anthropic-ratelimit-requests-remaining: 4999"]
    return "\r\n".join([*lines, *more, "", ""]).encode()


STREAMED = ("Cache-Control: no-cache", "Transfer-Encoding: chunked")


class Expected:
    """The events of one streamed answer, each as its chunk."""

    def __init__(self, dialect, n=1):
        self.dialect, self.n = dialect, n

    def head(self, **more):
        return head(self.dialect, self.n, more=STREAMED, **more)

    def _openai(self, delta, finish=None):
        base = {"id": f"chatcmpl-mock{self.n}", "object": "chat.completion.chunk", "created": 1111111111, "model": "m",
                "service_tier": "default", "system_fingerprint": "fp_mock"}
        return f"data: {js({**base, 'choices': [{'index': 0, 'delta': delta, 'logprobs': None, 'finish_reason': finish}]})}\n\n"

    def _anthropic(self, *events):
        return "".join(f"event: {name}\ndata: {js({'type': name, **data})}\n\n" for name, data in events)

    def open(self):
        if self.dialect == "openai":
            return chunk(self._openai({"role": "assistant", "content": ""}).encode())
        usage = {"input_tokens": n_prompt("anthropic", True), "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
        message = {"id": f"msg_mock{self.n}", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
                   "stop_sequence": None, "usage": usage}
        return chunk(self._anthropic(("message_start", {"message": message}),
                                     ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}), ("ping", {})).encode())

    def word(self, text):
        if self.dialect == "openai":
            return chunk(self._openai({"content": text}).encode())
        return chunk(self._anthropic(("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}})).encode())

    def words(self, n=3):
        return b"".join(self.word(w) for w in ["one", " two", " three"][:n])

    def finish(self, n=3):
        if self.dialect == "openai":
            return chunk(self._openai({}, "stop").encode())
        return chunk(self._anthropic(("content_block_stop", {"index": 0}),
                                     ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": n}})).encode())

    def terminal(self):
        return chunk(b"data: [DONE]\n\n") if self.dialect == "openai" else chunk(self._anthropic(("message_stop", {})).encode())

    def error(self):
        if self.dialect == "openai":
            e = {"error": {"message": "The server had an error while processing your request.", "type": "server_error", "param": None, "code": None}}
            return chunk(f"data: {js(e)}\n\n".encode())
        e = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": f"req_mock{self.n}"}
        return chunk(f"event: error\ndata: {js(e)}\n\n".encode())

    def comment(self):
        return chunk(b": still here\n\n" + (b"" if self.dialect == "openai" else self._anthropic(("ping", {})).encode()))

    def bad(self):
        if self.dialect == "openai":
            return chunk(b'data: {"id":"chatcmpl-mock","choices":[{"index":0,"del\n\n')
        return chunk(b'event: content_block_delta\ndata: {"type":"content_block_delta","ind\n\n')

    def good(self):
        return self.head() + self.open() + self.words() + self.finish() + self.terminal() + LAST


LAST = b"0\r\n\r\n"
PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n"


def same_date(raw):
    return re.sub(rb'"created":\d{10}', b'"created":1111111111', raw)


def take(s, n):
    """n bytes and no more, or fewer when the peer ends before."""
    got = b""
    while len(got) < n:
        x = s.recv(min(65536, n - len(got)))
        if not x:
            break
        got += x
    return got


def how_it_ends(s, end):
    """keep, fin, rst or hang. A FIN or RST that is expected is waited for; else an order is sent on the same connection."""
    try:
        if end in ("keep", "hang"):
            send(s, "/_mock/state", method="GET")
            s.settimeout(20 * SLOW if end == "keep" else 0.3)
        x = s.recv(65536)
        return "fin" if x == b"" else "keep" if x.startswith(b"HTTP/1.1 200") else repr(x)
    except TimeoutError:
        return "hang"
    except (ConnectionResetError, BrokenPipeError):
        return "rst"


def stream_faults():
    def of(make):
        return lambda d: make(Expected(d))
    yield "ok", of(lambda e: e.good()), "keep"
    yield "reset", of(lambda e: b""), "rst"
    yield "reset-after-head", of(lambda e: e.head()), "rst"
    yield "hang", of(lambda e: b""), "hang"
    yield "hang-after-head", of(lambda e: e.head()), "hang"
    yield "hang-after-role", of(lambda e: e.head() + e.open()), "hang"
    yield "error-in-200", of(lambda e: e.head() + e.error() + LAST), "keep"
    yield "error-after-token:2", of(lambda e: e.head() + e.open() + e.words(2) + e.error() + LAST), "keep"
    yield "cut:0", of(lambda e: e.head() + e.open()), "fin"
    yield "cut:2", of(lambda e: e.head() + e.open() + e.words(2)), "fin"
    yield "end-early:1", of(lambda e: e.head() + e.open() + e.words(1) + LAST), "keep"
    yield "rst-after:1", of(lambda e: e.head() + e.open() + e.words(1)), "rst"
    yield "stall:2", of(lambda e: e.head() + e.open() + e.words(2)), "hang"
    yield "malformed", of(lambda e: e.head() + e.open() + e.bad() + e.words() + e.finish() + e.terminal() + LAST), "keep"
    yield "malformed:1", of(lambda e: e.head() + e.open() + e.words(1) + e.bad() + e.word(" two") + e.word(" three") + e.finish() + e.terminal() + LAST), "keep"
    yield "no-done", of(lambda e: e.head() + e.open() + e.words() + e.finish() + LAST), "keep"
    yield "no-last-chunk", of(lambda e: e.head() + e.open() + e.words() + e.finish() + e.terminal()), "fin"
    yield "wrong-type", of(lambda e: e.head(kind="text/plain") + e.good()[len(e.head()):]), "keep"
    yield "slow:50", of(lambda e: e.good()), "keep"
    yield "slow-after-head:50", of(lambda e: e.good()), "keep"
    yield "huge:9000", of(lambda e: e.head() + e.open() + e.word("x" * 9000) + e.words() + e.finish() + e.terminal() + LAST), "keep"
    yield "split:7", of(lambda e: e.good()), "keep"
    yield "drip:0", of(lambda e: e.good()), "keep"
    yield "comments", of(lambda e: e.head() + 3 * e.comment() + e.open() + b"".join(e.word(w) + e.comment() for w in ("one", " two", " three"))
                         + e.finish() + e.terminal() + LAST), "keep"
    yield "html", lambda d: head(d, 1, kind="text/html", more=[f"Content-Length: {len(PAGE)}"]) + PAGE, "keep"
    yield "html:502", lambda d: head(d, 1, "502 Bad Gateway", "text/html", [f"Content-Length: {len(PAGE)}"]) + PAGE, "keep"
    yield "empty", lambda d: head(d, 1, kind="text/event-stream", more=["Content-Length: 0"]), "keep"


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("word, expected, end", [pytest.param(*x, id=x[0]) for x in stream_faults()])
def test_stream_byte_for_byte(start, dialect, word, expected, end):
    m = start({"providers": [plain(dialect, faults=[{"fault": word}])]})
    with m.connect() as s:
        send(s, *ask(dialect))
        want = expected(dialect)
        try:
            got = take(s, len(want))
        except ConnectionResetError:
            got = b""
            assert end == "rst" and want == b""
        assert same_date(got) == want
        assert how_it_ends(s, end) == end
    assert m.log()[0]["fault"] == (None if word == "ok" else word.split(":")[0])


STATUSES = {
    400: ("Bad Request", "invalid_request_error", "invalid_value", "invalid_request_error"),
    401: ("Unauthorized", "invalid_request_error", "invalid_api_key", "authentication_error"),
    403: ("Forbidden", "invalid_request_error", "unsupported_country_region_territory", "permission_error"),
    404: ("Not Found", "invalid_request_error", "model_not_found", "not_found_error"),
    429: ("Too Many Requests", "requests", "rate_limit_exceeded", "rate_limit_error"),
    500: ("Internal Server Error", "server_error", None, "api_error"),
    503: ("Service Unavailable", "server_error", None, "overloaded_error"),
    529: (None, "server_error", None, "overloaded_error"),
}


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_statuses_in_each_shape(start, dialect):
    m = start({"providers": [plain(dialect)]})
    for n, (status, (reason, kind, code, kind_a)) in enumerate(STATUSES.items(), 1):
        m.fault(f"{status}")
        with m.connect() as s:
            send(s, *ask(dialect))
            r = read_response(s)
        assert r.status == status and r.headers["content-type"] == "application/json" and "retry-after" not in r.headers
        assert reason is None or r.raw_head.split(b"\r\n")[0] == f"HTTP/1.1 {status} {reason}".encode()
        d = r.json()
        if dialect == "openai":
            assert list(d) == ["error"] and list(d["error"]) == ["message", "type", "param", "code"]
            assert (d["error"]["type"], d["error"]["code"]) == (kind, code)
        else:
            assert d["type"] == "error" and d["error"]["type"] == kind_a and d["request_id"] == f"req_mock{n}" == r.headers["request-id"]


def test_account_context_and_policy(start):
    m = start({"providers": [plain(), plain("anthropic", name="B")]})
    want = {"quota": ((429, "insufficient_quota"), (400, "credit balance is too low")),
            "context": ((400, "context_length_exceeded"), (400, "prompt is too long")),
            "policy": ((400, "content_policy_violation"), (400, "content filtering policy"))}
    for word, ((status, code), (status_a, text)) in want.items():
        m.fault(word)
        m.fault(word, provider="B")
        r = m.chat()
        assert (r.status, r.json()["error"]["code"]) == (status, code)
        with m.connect(m.names["B"]) as s:
            send(s, *ask("anthropic"))
            r = read_response(s)
        assert r.status == status_a and text in r.json()["error"]["message"]


def test_retry_after_in_seconds_and_in_parts_of_one(start):
    m = start({"providers": [plain(faults=[{"fault": "429:2", "times": 1}, {"fault": "429", "retry_after": 0.25}])]})
    assert m.chat().headers["retry-after"] == "2"
    r = m.chat()
    assert (r.headers["retry-after"], r.headers["retry-after-ms"]) == ("1", "250")


@pytest.mark.parametrize("word, share, end", [("cut", 0.5, "fin"), ("rst-after", 0.5, "rst"), ("stall", 0.5, "hang"), ("hang-after-head", 0, "hang"),
                                              ("hang-after-role", None, "hang"), ("reset-after-head", 0, "rst"), ("no-last-chunk", 1, "fin")])
def test_whole_answers_break_inside_their_length(start, word, share, end):
    m = start({"providers": [plain()]})
    good = m.chat(stream=False)
    m.order("/_mock/reset")  # so that the next one has the same id
    m.fault(word)
    with m.connect() as s:
        path, body = ask("openai", False)
        send(s, path, body)
        raw = take(s, 1)
        while not raw.endswith(b"\r\n\r\n"):
            raw += take(s, 1)
        length = int(re.search(rb"Content-Length: (\d+)", raw).group(1))
        assert length == len(good.body)
        n = 1 if share is None else length - 1 if share == 1 else int(length * share)
        assert same_date(take(s, n)) == same_date(good.body)[:n]
        assert how_it_ends(s, end) == end


def test_whole_answers(start):
    m = start({"providers": [plain()]})
    r = m.chat(stream=False)
    d = r.json()
    assert d["choices"][0]["message"]["content"] == WORDS and d["usage"]["completion_tokens"] == 3
    m.fault("malformed")
    with pytest.raises(json.JSONDecodeError):
        m.chat(stream=False).json()
    m.fault("comments")
    r = m.chat(stream=False)
    assert r.body.startswith(b"\n\n\n{") and r.json()["choices"][0]["message"]["content"] == WORDS
    m.fault("huge:100000")
    assert m.chat(stream=False).json()["choices"][0]["message"]["content"] == WORDS + "x" * 100000
    m.fault("error-in-200")
    assert m.chat(stream=False).json()["error"]["type"] == "server_error"


# ---------------------------------------------------------------- time

def test_slow_heads_and_slow_bodies(start):
    """The head of `slow` waits; that of `slow-after-head` does not, and what follows does."""
    m = start({"providers": [plain(faults=[{"fault": "slow:300", "times": 1}, {"fault": "slow-after-head:2000"}])]})
    for head_waits in (True, False):
        with m.connect() as s:
            t0 = time.monotonic()
            send(s, *ask("openai"))
            raw = take(s, 1)
            at_head = time.monotonic() - t0
            while b"one" not in raw:
                raw += s.recv(65536)
            at_word = time.monotonic() - t0
        assert at_head >= 0.295 if head_waits else at_word >= 1.995 > at_head


def test_silences_end_when_they_were_told_to(start):
    m = start({"providers": [plain(faults=[{"fault": "hang:200", "times": 1}, {"fault": "stall:2:200", "times": 1}, {"fault": "hang-after-head", "for_ms": 200}])]})
    for n, want in enumerate([b"", Expected("openai", 2).head() + Expected("openai", 2).open() + Expected("openai", 2).words(2), Expected("openai", 3).head()], 1):
        with m.connect() as s:
            t0 = time.monotonic()
            send(s, *ask("openai"))
            assert same_date(take(s, 1 << 20)) == want  # up to the FIN
            assert time.monotonic() - t0 >= 0.195


def test_words_come_at_their_pace(start):
    """80 tokens a second: the last of 21 words is due 250 ms after the first, and that 50 ms after the request."""
    m = start({"providers": [plain(tokens_per_s=80, tokens=21, ttft=50)]})
    t0 = time.monotonic()
    r = m.chat()
    assert r.is_well_ended() and r.times[-1][0] - t0 >= 0.295


@pytest.mark.parametrize("word, more, pause, most", [("split:60", {"for_ms": 20}, 0.02, 60), ("drip:1", {}, 0.001, 1)])
def test_pieces_take_their_time(start, word, more, pause, most):
    """That no piece is larger is shown in tests/unit/lab/test_mock.c, where nobody can join them."""
    m = start({"providers": [plain(words="één twee", tokens=2, faults=[{"fault": word, **more}])]})
    with m.connect() as s:
        t0 = time.monotonic()
        send(s, *ask("openai"))
        raw = b""
        while not raw.endswith(LAST):
            raw += s.recv(65536)
        assert time.monotonic() - t0 >= (len(raw) / most - 1) * pause * 0.99
    assert "één" in raw.decode() and " twee" in raw.decode()


# ---------------------------------------------------------------- rows of faults

def statuses(m, n, **more):
    return [m.chat(**more).status for _ in range(n)]


def test_rows_by_number_model_and_times(start):
    m = start({"providers": [plain(faults=[{"fault": "cut:1", "model": "gpt-x", "times": 2}, {"fault": "503", "requests": [1, 3]},
                                           {"fault": "429", "requests": ["5-6"]}])]})
    assert statuses(m, 7) == [503, 200, 503, 200, 429, 429, 200]
    assert [m.chat(model="gpt-x").is_whole for _ in range(3)] == [False, False, True]
    m.order("/_mock/reset")
    assert statuses(m, 3) == [503, 200, 503]
    assert not m.chat(model="gpt-x").is_whole
    assert [x["fault"] for x in m.log()] == ["503", None, "503", "cut"]
    assert [(x["n"], x["model"], x["attempt"]) for x in m.log()] == [(1, "m", 1), (2, "m", 2), (3, "m", 3), (4, "gpt-x", 1)]


def test_rows_by_time(start):
    m = start({"providers": [plain(faults=[{"fault": "503", "from_s": 0.4, "to_s": 0.8}])]})
    m.order("/_mock/reset")

    def seen(status):
        return m.chat(stream=False).status == status
    wait_for(lambda: seen(503), 5, "the outage")
    wait_for(lambda: seen(200), 5, "its end")
    for x in m.log():
        assert x["fault"] == ("503" if 400 <= x["at_ms"] < 800 else None), x


def test_out_of_descriptors(start):
    """Who comes waits in the queue, the wait costs nothing, and is answered once there are descriptors again."""
    m = start()
    n = max(map(int, os.listdir(f"/proc/{m.proc.pid}/fd"))) + 1
    subprocess.run(["prlimit", f"--pid={m.proc.pid}", f"--nofile={n}:"], check=True)
    waiting = [m.connect() for _ in range(5)]
    for s in waiting:
        send(s, *ask("openai", stream=False))

    def said():
        m.err.seek(0)
        return m.err.read().count(b"out of descriptors")
    wait_for(said, what="the shortage to be told")
    before, begun = cpu_seconds(m), time.monotonic()
    wait_for(lambda: time.monotonic() - begun > 1)
    spent = cpu_seconds(m) - before
    assert spent < 0.15, f"{spent} s of CPU in a second of waiting"
    assert said() == 1
    subprocess.run(["prlimit", f"--pid={m.proc.pid}", "--nofile=1000:"], check=True)
    for s in waiting:
        with contextlib.closing(s):
            assert read_response(s).status == 200


def test_a_closed_listener_by_time(start):
    m = start({"providers": [plain(), plain(name="B")]})
    b = m.names["B"]
    idle = m.connect(b)
    m.order("/_mock/fault", {"fault": "refuse", "from_s": 0, "to_s": 1000000, "provider": "B"})
    with pytest.raises(ConnectionResetError):
        idle.recv(1)
    with pytest.raises(ConnectionRefusedError):
        m.connect(b)
    since = m.order("/_mock/state", {"provider": "B"}).json()["since_reset_ms"]
    m.order("/_mock/fault", {"fault": "refuse", "to_s": round(since / 1000 + 0.3, 3), "provider": b})

    def is_open():
        with contextlib.suppress(ConnectionRefusedError):
            m.connect(b).close()
            return True
    wait_for(is_open, 5, "the listener to open again by itself")
    assert m.chat(port=b).is_well_ended()


def test_probability_is_seeded(start):
    rows = [{"fault": "500", "probability": 0.3}]
    config = {"seed": 7, "providers": [plain(faults=rows, tokens=1), plain(name="B", faults=rows, tokens=1)]}
    m = start(config)
    first = statuses(m, 60)
    assert 5 <= first.count(500) <= 35
    assert first != statuses(m, 60, port=m.names["B"])
    m.order("/_mock/reset")
    assert statuses(m, 60) == first
    assert statuses(start(config), 60) == first
    assert statuses(start(config, "--seed", "8"), 60) != first


def test_same_seed_same_bytes(start):
    """Two processes, the same requests in the same order: the same bytes but for the date."""
    config = {"seed": 21, "providers": [plain(ttft={"p50": 2, "p99": 9}, tokens={"uniform": [2, 40]}, gap_ms=0,
                                              faults=[{"fault": "cut:2", "probability": 0.2}, {"fault": "429", "probability": 0.2}])]}

    def story():
        m, out = start(config), []
        for i in range(25):
            with m.connect() as s:
                send(s, *ask("openai", i % 3 != 0), headers=[("Connection", "close")])
                out.append(same_date(take(s, 1 << 20)))
        return out
    a, b = story(), story()
    assert a == b and len({len(x) for x in a}) > 5


# ---------------------------------------------------------------- what a provider has

def test_models_key_and_told_name(start):
    m = start({"providers": [plain(models=["m1", "m2"], model="told", key="k"), plain("anthropic", name="B", models=["m1"], key="k")]})
    good, bad = [("Authorization", "Bearer k")], [("Authorization", "Bearer x")]
    assert m.chat(model="m1", headers=bad).json()["error"]["code"] == "invalid_api_key"
    r = m.chat(model="zzz", headers=good)
    assert r.status == 404 and r.json()["error"]["code"] == "model_not_found" and "zzz" in r.json()["error"]["message"]
    assert m.chat(model="m2", stream=False, headers=good).json()["model"] == "told"
    with m.connect(m.names["B"]) as s:
        path, body = ask("anthropic")
        send(s, path, {**body, "model": "zzz"}, [("x-api-key", "k")])
        r = read_response(s)
    assert r.status == 404 and r.json()["error"] == {"type": "not_found_error", "message": "model: zzz"}


def test_rate_limit(start):
    m = start({"providers": [plain(rate_limit={"per_s": 0.001, "burst": 3, "retry_after_s": 2})]})
    assert statuses(m, 5) == [200, 200, 200, 429, 429]
    assert m.chat().headers["retry-after"] == "2"
    assert m.log()[-1]["fault"] == "rate-limit"
    m = start({"providers": [plain(rate_limit={"per_s": 10})]})
    assert m.chat().status == 200
    wait_for(lambda: m.chat().status == 200, 5, "the bucket to fill")


def test_usage_can_be_kept_back(start):
    m = start({"providers": [plain(usage=False)]})
    assert b'"usage"' not in m.chat(stream_options={"include_usage": True}).body and "usage" not in m.chat(stream=False).json()


LONG = "The ring keeps the street lit. " * 200


def openai_cached(m, messages, **more):
    with m.connect() as s:
        send(s, "/v1/chat/completions", {"model": "m", "messages": messages, **more})
        r = read_response(s).json()
    u = r["usage"]
    assert u["prompt_tokens_details"]["cached_tokens"] <= u["prompt_tokens"]
    return u["prompt_tokens_details"]["cached_tokens"]


def test_openai_cache_is_automatic_and_ends(start):
    m = start({"providers": [plain(cache={"ttl_s": 1, "min_tokens": 1024})]})
    first = [{"role": "system", "content": LONG}, {"role": "user", "content": "a"}]
    assert openai_cached(m, first) == 0
    hit = openai_cached(m, first + [{"role": "assistant", "content": "x"}, {"role": "user", "content": "b"}])
    assert hit >= 1024 and hit % 128 == 0
    assert openai_cached(m, [{"role": "system", "content": "No. " + LONG}]) == 0  # another beginning
    assert openai_cached(m, [{"role": "user", "content": "short"}]) == 0
    assert openai_cached(m, [{"role": "user", "content": "short"}]) == 0  # too short to be kept
    time.sleep(1.1)  # nothing to wait for: what is shown is that nobody asked in between
    assert openai_cached(m, first) == 0
    assert openai_cached(m, first) >= 1024
    m.order("/_mock/reset")
    assert openai_cached(m, first) == 0


def test_a_refused_request_writes_no_cache(start):
    m = start({"providers": [plain(cache={}, faults=[{"fault": "503", "times": 1}])]})
    messages = [{"role": "user", "content": LONG}]
    assert m.chat(content=LONG, stream=False).status == 503
    assert openai_cached(m, messages) == 0
    assert openai_cached(m, messages) >= 1024


def anthropic_usage(m, system, messages, **more):
    with m.connect() as s:
        send(s, "/v1/messages", {"model": "m", "max_tokens": 9, "system": system, "messages": messages, **more})
        return read_response(s).json()["usage"]


def marked(text, **ttl):
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral", **ttl}}


def test_anthropic_cache_by_markers(start):
    m = start({"providers": [plain("anthropic", cache={"ttl_s": 300, "min_tokens": 1024})]})
    user = [{"role": "user", "content": "hi"}]
    u = anthropic_usage(m, LONG, user)
    assert u["cache_creation_input_tokens"] == u["cache_read_input_tokens"] == 0  # no marker, no cache
    u = anthropic_usage(m, [marked(LONG)], user)
    written = u["cache_creation_input_tokens"]
    assert written > 1024 and u["cache_creation"] == {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0}
    u = anthropic_usage(m, [marked(LONG)], user)
    assert (u["cache_read_input_tokens"], u["cache_creation_input_tokens"]) == (written, 0) and "cache_creation" not in u
    u = anthropic_usage(m, [{"type": "text", "text": LONG}], [{"role": "user", "content": [marked("more")]}])  # the marker moved on
    assert u["cache_read_input_tokens"] == written and 0 < u["cache_creation_input_tokens"] < 20
    u = anthropic_usage(m, [marked("New. " + LONG, ttl="1h")], user)
    assert u["cache_creation"]["ephemeral_1h_input_tokens"] == u["cache_creation_input_tokens"] > 1024
    u = anthropic_usage(m, "Auto. " + LONG, user, cache_control={"type": "ephemeral"})
    assert u["cache_creation_input_tokens"] > 1024
    assert m.log()[-1]["cache_write"] == u["cache_creation_input_tokens"]


def test_a_cached_prompt_is_faster(start):
    m = start({"providers": [plain(ttft={"base": 1, "per_1k_tokens": 200}, cache={})]})
    t0 = time.monotonic()
    m.chat(content=LONG)
    assert time.monotonic() - t0 >= 0.3  # some 1,600 tokens
    x = [openai_cached(m, [{"role": "user", "content": LONG}]) for _ in range(2)]
    assert x[1] >= 1024


def test_cold_start(start):
    m = start({"providers": [plain(cold={"after_ms": 60000, "connect_ms": 200, "first_token_ms": 300})]})
    t0 = time.monotonic()
    with m.connect() as s:
        send(s, *ask("openai"))
        take(s, 1)
    assert time.monotonic() - t0 >= 0.495  # both: a new connection, and the model
    fast = []
    for _ in range(5):
        t0 = time.monotonic()
        m.chat()
        fast.append(time.monotonic() - t0)
    assert min(fast) < 0.495  # warm now
    m.order("/_mock/reset")
    t0 = time.monotonic()
    m.chat()
    assert time.monotonic() - t0 >= 0.495


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    d = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", d / "key.pem", "-out", d / "cert.pem", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    return d


def test_tls(start, tmp_path, certificate):
    for name in ("key.pem", "cert.pem"):
        (tmp_path / name).write_bytes((certificate / name).read_bytes())
    m = start({"providers": [plain(tls={"cert": "cert.pem", "key": str(certificate / "key.pem")}, words="é" * 3000 + " b", tokens=60),
                             plain(name="control")]})
    trust = ssl.create_default_context(cafile=certificate / "cert.pem")
    trust.set_alpn_protocols(["h2", "http/1.1"])
    with trust.wrap_socket(m.connect(), server_hostname="localhost") as s:
        assert s.selected_alpn_protocol() == "http/1.1"
        for _ in range(2):
            send(s, *ask("openai"))
            r = read_response(s)
            assert r.is_well_ended() and r.text().count("é") == 90000
    m.order("/_mock/fault", {"fault": "cut:2", "provider": "A"}, m.names["control"])
    with trust.wrap_socket(m.connect(), server_hostname="localhost", suppress_ragged_eofs=False) as s:
        send(s, *ask("openai"))
        with pytest.raises(ssl.SSLEOFError):  # the connection dies without a goodbye
            take(s, 1 << 24)
    with m.connect() as s:  # no TLS at all
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert not take(s, 1 << 16).startswith(b"HTTP")
    log = m.order("/_mock/log", {"provider": "A"}, m.names["control"]).json()
    assert [x["fault"] for x in log] == [None, None, "cut"]


def test_deaf_by_time(start):
    m = start({"providers": [plain(faults=[{"fault": "deaf", "to_s": 1000000}]), plain(name="control")]})
    with m.connect() as s:  # taken by the kernel and by the mock, and read by nobody
        send(s, *ask("openai"))
        s.settimeout(0.3)
        with pytest.raises(TimeoutError):
            s.recv(1)
        m.order("/_mock/fault", {"fault": "ok", "provider": "A"}, m.names["control"])
        s.settimeout(20 * SLOW)
        assert read_response(s).is_well_ended()
    assert len(m.order("/_mock/log", {"provider": "A"}, m.names["control"]).json()) == 1
    m.order("/_mock/fault", {"fault": "deaf", "model": "m"})  # a request was read, to know its model
    with m.connect() as s:
        send(s, *ask("openai"))
        wait_for(lambda: m.state()["active"] == 1, 5, "the request to be seen")
        s.settimeout(0.1)
        with pytest.raises(TimeoutError):
            s.recv(1)


def test_a_handshake_that_hangs_is_a_connect_timeout(start, tmp_path, certificate):
    for name in ("key.pem", "cert.pem"):
        (tmp_path / name).write_bytes((certificate / name).read_bytes())
    m = start({"providers": [plain(tls={"cert": "cert.pem", "key": "key.pem"}, faults=[{"fault": "deaf"}]), plain(name="B"), plain(name="C", faults=[{"fault": "deaf"}])]})
    providers = {"a": provider_conf(m.names["A"], scheme="https", host="localhost", ca_file=str(certificate / "cert.pem")),
                 "b": provider_conf(m.names["B"]), "c": provider_conf(m.names["C"])}
    defaults = {"connect_timeout_ms": 200, "ttft_budget_ms": 600, "retries": 1}
    routes = [{"model": "m", "order": ["a", "b"]}, {"model": "n", "order": ["c", "b"]}]
    g = Gateway(tmp_path, {"providers": providers, "defaults": defaults, "routes": routes})
    try:
        t0 = time.monotonic()
        r = g.chat(model="m")
        assert r.is_well_ended() and 0.2 <= time.monotonic() - t0
        assert re.fullmatch(r"a/m;connect_timeout;\d+ms, b/m;ok;ttft=\d+ms", r.headers["x-ringmain-trail"])
        # without TLS such a connection is open, and nothing but the first token's budget can tell
        assert re.fullmatch(r"c/n;ttft_timeout;\d+ms, b/n;ok;ttft=\d+ms", g.chat(model="n").headers["x-ringmain-trail"])
    finally:
        assert g.stop() == 0, g.log()


# ---------------------------------------------------------------- prefill

def said(m, text, model="m", **more):
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": text}]
    with m.connect() as s:
        send(s, "/v1/chat/completions", {"model": model, "stream": True, "messages": messages, **more})
        return read_response(s)


def test_prefill(start):
    m = start({"providers": [plain(prefill="continue", tokens=5)]})
    for text, rest in [("", "one two three one two"), ("one two", " three one two"), ("one two ", "three one two"), ("one  tw", "o three one two"),
                       ("one two three one two", ""), ("two", "one two three one two"), ("one tw o", "one two three one two")]:
        r = said(m, text, stream_options={"include_usage": True})
        assert r.is_well_ended() and r.text() == rest, (text, r.text())
    assert said(m, "one", max_tokens=2).text() == " two three"
    m = start({"providers": [plain(prefill="reject")]})
    r = said(m, "one")
    assert r.status == 400 and "prefill" in r.json()["error"]["message"] and m.log()[-1]["fault"] == "prefill"
    assert m.chat().text() == WORDS
    m = start({"providers": [plain()]})
    assert said(m, "one two").text() == WORDS


def test_failover_bench_models(start):
    m = start(None, "--listen", "127.0.0.1:0", "--fb-speed", "20")
    whole = m.chat(model="fb-ok").text()
    assert len(whole.split()) == 60
    some = " ".join(whole.split()[:40])
    assert said(m, some, "fb-ok").text() == whole[len(some):]
    assert said(m, some, "fb-ok-noprefill").status == 400
    assert [m.chat(model="fb-s03-500-then-200").status for _ in range(2)] == [500, 200]
    r = m.chat(model="vendor/fb-s08-stream-cut")
    assert not r.is_whole and len(r.text().split()) == 40
    m.fault("503", times=1)
    assert m.chat(model="fb-ok").status == 503  # a row goes before the model's own
    m.order("/_mock/reset")
    assert m.chat(model="fb-s03-500-then-200").status == 500


# ---------------------------------------------------------------- orders and the log

def test_log_tells_who_left_and_when(start):
    m = start({"providers": [plain(faults=[{"fault": "stall:1"}])]})
    with m.connect() as s:
        send(s, *ask("openai"), headers=[("Authorization", "Bearer very-secret")])
        raw = b""
        while b'"one"' not in raw:
            raw += s.recv(65536)
        assert m.state()["active"] == 1
        assert m.log()[0]["hung_up"] is False
    x = wait_for(lambda: m.log()[0]["hung_up"] and m.log()[0], 5, "the hang-up to be seen")
    assert x["hung_up_ms"] >= 0 and x["answered"] is False and x["provider"] == "A" and x["status"] == 200 and x["prompt_tokens"] > 5
    assert "very-secret" not in json.dumps(x) and m.state()["active"] == 0


def test_log_counts_what_it_no_longer_has(start):
    m = start({"providers": [plain(tokens=1, gap_ms=0, ttft=0)]})
    with m.connect() as s:
        for _ in range(1100):
            send(s, *ask("openai", False))
            read_response(s)
    state, log = m.state(), m.log()
    assert (state["requests"], state["overwritten"], state["attempts"]) == (1100, 76, {"m": 1100})
    assert len(log) == 1024 and [x["n"] for x in log] == list(range(77, 1101))
    assert [x["n"] for x in m.log(after=1098)] == [1099, 1100]
    m.order("/_mock/reset")
    assert m.log() == [] and m.state()["overwritten"] == 0
    m.chat()
    assert m.log()[0]["n"] == 1


def test_rows_at_run_time(start):
    m = start({"providers": [plain(), plain(name="B")]})
    r = m.order("/_mock/fault", {"faults": [{"fault": "503", "requests": [2, "4-5"]}, {"fault": 429, "model": "x", "retry_after": 3}], "provider": m.names["B"]})
    assert r.status == 200
    assert statuses(m, 5, port=m.names["B"]) == [200, 503, 200, 503, 503]
    assert m.chat(port=m.names["B"], model="x").headers["retry-after"] == "3"
    assert statuses(m, 2) == [200, 200]
    m.fault("ok", provider="B")
    assert statuses(m, 2, port=m.names["B"]) == [200, 200]


@pytest.mark.parametrize("body, why", [
    (b"{", "no JSON object"), (b"[1]", "no JSON object"), (b"", "no JSON object"), ({}, "`fault`"), ({"fault": "cuts"}, "`fault`"), ({"fault": 200}, "`fault`"),
    ({"fault": "503", "time": 1}, "`time` is not known"), ({"fault": "503", "probability": 1.5}, "`probability`"), ({"fault": "503", "probability": -1}, "`probability`"),
    ({"fault": "503", "requests": [0]}, "`requests`"), ({"fault": "503", "requests": ["5-2"]}, "`requests`"), ({"fault": "503", "requests": []}, "`requests`"),
    ({"fault": "503", "from_s": 4, "to_s": 4}, "`from_s`"), ({"fault": "503", "model": ""}, "`model`"), ({"fault": "503", "provider": "Z"}, "no provider"),
    ({"fault": "503", "provider": 1}, "no provider"), ({"fault": "503", "provider": True}, "`provider`"), ({"faults": []}, "`faults`"), ({"faults": [7]}, "`fault`"),
    ({"fault": "huge", "bytes": 1 << 40}, "`bytes`"), ({"fault": "503", "retry_after": "2"}, "`retry_after`"), ({"fault": ",".join(["503"] * 40)}, "`fault`"),
])
def test_bad_orders(start, body, why):
    m = start({"providers": [plain()]})
    m.fault("503")
    r = m.order("/_mock/fault", body)
    assert r.status == 400 and why in r.json()["error"], r.body
    assert m.chat().status == 503  # what held before still holds
    assert m.order("/_mock/nothing").status == 404


def test_bad_requests_do_not_hurt(start):
    m = start({"providers": [plain(), plain("anthropic", name="B")]})
    for port in m.ports:
        for raw in (b"\x00\x01\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
                    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            with m.connect(port) as s:
                s.sendall(raw)
                assert take(s, 1 << 16).startswith(b"HTTP/1.1 400")
        for body in (b"", b"{", b"[]", b'{"model":7}', b'{"model":"m","messages":[]}', b'{"model":"m","messages":"x"}', b"{" * 500):
            with m.connect(port) as s:
                send(s, "/v1/chat/completions" if port == m.port else "/v1/messages", body)
                assert read_response(s).status == 400
        with m.connect(port) as s:
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
    assert m.chat().is_well_ended()


# ---------------------------------------------------------------- the file

def refused(tmp_path, text, *args):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    p = subprocess.run([BINARY, "mock", "-c", str(path), *args], capture_output=True, text=True, timeout=30 * SLOW)
    return p.returncode, p.stderr.replace(f"{path}:", "")


@pytest.mark.parametrize("text, line", [
    ("", "error:"),
    ("seed: 7\n", "1:1: error: the file has no providers"),
    ("providers: []\n", '1:12: error: "providers" is a list; expected a list of 1 to 64 providers'),
    ("sed: 7\nproviders: [ { port: 0 } ]\n", '1:1: error: "sed" is not a setting of the file; did you mean "seed"?'),
    ("providers:\n  - { port: 0, dialct: openai }\n", '2:16: error: "dialct" is not a setting of a provider; did you mean "dialect"?'),
    ("providers:\n  - { port: 0, dialect: gemini }\n", '2:25: error: "dialect" is "gemini"; expected openai or anthropic'),
    ("providers:\n  - { name: A }\n", "2:5: error: a provider needs listen or port"),
    ("providers:\n  - { port: 0, listen: 'x:1' }\n", "exclude each other"),
    ("providers:\n  - { port: 99999 }\n", '2:13: error: "port" is "99999"; expected a whole number from 0 to 65535'),
    ("providers:\n  - { port: 0, ttft: { p50: 400, p99: 100 } }\n", "p99 no less than p50"),
    ("providers:\n  - { port: 0, ttft: { uniform: [9, 3] } }\n", "the smaller number first"),
    ("providers:\n  - { port: 0, ttft: { p5: 3 } }\n", '"p5" is no distribution; did you mean "p50"?'),
    ("providers:\n  - { port: 0, tokens: { base: 1, per_1k_tokens: 1 } }\n", "expected a number, uniform, or p50 and p99"),
    ("providers:\n  - { port: 0, prefill: contine }\n", 'did you mean "continue"?'),
    ("providers:\n  - { port: 0, usage: maybe }\n", "expected true or false"),
    ("providers:\n  - { port: 0, tls: { cert: a } }\n", '"tls" needs cert and key'),
    ("providers:\n  - { port: 0, cold: { connect_ms: 5 } }\n", '"cold" needs after_ms'),
    ("providers:\n  - { port: 0, rate_limit: { burst: 5 } }\n", '"rate_limit" needs per_s'),
    ("providers:\n  - { port: 0, rate_limit: { per_s: 0 } }\n", '"per_s" is "0"'),
    ("providers:\n  - { port: 0, faults: [ { fault: cutt } ] }\n", '2:35: error: "fault" is "cutt"; expected a fault of those that `ringmain mock --help` lists; did you mean "cut"?'),
    ("providers:\n  - { port: 0, faults: [ { times: 1 } ] }\n", 'needs fault'),
    ("providers:\n  - { port: 0, faults: [ { fault: cut, probability: 2 } ] }\n", "expected a number from 0 to 1"),
    ("providers:\n  - { port: 0, faults: [ { fault: cut, from_s: 3, to_s: 2 } ] }\n", "from_s must be less than to_s"),
    ("providers:\n  - { port: 0, faults: [ { fault: cut, requests: [0] } ] }\n", "a number from 1"),
    ("providers:\n  - { port: 0, port: 1 }\n", "stands twice"),
    ("providers:\n  - { name: A, port: 0 }\n  - { name: A, port: 0 }\n", '3:5: error: two providers are called "A"'),
])
def test_bad_files(tmp_path, text, line):
    code, err = refused(tmp_path, text)
    assert code == 1 and line in err, err


def test_all_faults_of_a_file_at_once(tmp_path):
    code, err = refused(tmp_path, "providers:\n  - { port: 0, ttft: x, gap_ms: y }\n  - { port: 0, kye: z }\n")
    assert code == 1 and err.count("error:") == 3 and "2:22" in err and "2:33" in err and "3:16" in err


def test_what_cannot_be_opened(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        code, err = refused(tmp_path, f"providers: [ {{ name: A, port: {s.getsockname()[1]} }} ]")
        assert code == 1 and err.startswith("ringmain mock: A: 127.0.0.1:")
    code, err = refused(tmp_path, "providers: [ { name: A, port: 0, tls: { cert: none.pem, key: none.pem } } ]")
    assert code == 1 and "none.pem cannot be read or holds no certificate" in err
    p = subprocess.run([BINARY, "mock", "-c", str(tmp_path / "missing.yaml")], capture_output=True, text=True)
    assert p.returncode == 1 and "missing.yaml: No such file" in p.stderr
    code, err = refused(tmp_path, "providers: [ { port: 0 } ]", "--fault", "503")
    assert code == 2 and "with -c FILE" in err


def test_the_page_s_examples_are_good(tmp_path):
    """Every YAML block of docs/mock.md that has providers is a file that the mock takes; JSON blocks are orders it obeys."""
    import pathlib
    page = (pathlib.Path(__file__).parents[2] / "docs/mock.md").read_text()
    files = [b for b in re.findall(r"```yaml\n(.*?)```", page, re.S) if "providers:" in b]
    orders = [json.loads(b) for b in re.findall(r"-d '(\{.*?\})'", page)]
    assert len(files) >= 2 and len(orders) >= 3
    for n, text in enumerate(files):
        text = re.sub(r"(listen: 127\.0\.0\.1|port):( ?)\d+", r"\1:\g<2>0", text)
        text = re.sub(r"^ *tls:.*\n", "", text, flags=re.M)
        path = tmp_path / f"{n}.yaml"
        path.write_text(text)
        p = subprocess.Popen([BINARY, "mock", "-c", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = p.stdout.readline()
        p.send_signal(signal.SIGTERM)
        _, err = p.communicate(timeout=20 * SLOW)
        assert " on port " in line and p.returncode == 0, err
    (tmp_path / "m").mkdir()
    m = Mock(tmp_path / "m", {"providers": [plain(), plain(name="B")]})
    try:
        for order in orders:
            if "provider" in order:
                order["provider"] = "B"
            assert m.order("/_mock/fault" if "fault" in order or "faults" in order else "/_mock/reset", order).status == 200, order
    finally:
        m.stop()


def test_help():
    p = subprocess.run([BINARY, "mock", "--help"], capture_output=True, text=True)
    assert p.returncode == 0 and "-c, --config FILE" in p.stdout and "slow-after-head" in p.stdout and "/_mock/state" in p.stdout


@pytest.mark.parametrize("args, says", [
    (["--nonsense"], "nonsense"), (["extra"], "'extra' is too much"), (["--fault", "cutt:3"], "--fault: 'cutt:3' is not understood; did you mean cut?"),
    (["--fault", "503,zzzzz"], "--fault: '503,zzzzz' is not understood\n"), (["--ttft-ms", "x"], "--ttft-ms: 'x' is not understood\n"),
    (["--provider", "prt=1"], "--provider: 'prt=1' is not understood\n"), (["--dialect", "gemini"], "--dialect: 'gemini' is not understood\n"),
])
def test_usage_is_short(args, says):
    p = subprocess.run([BINARY, "mock", *args], capture_output=True, text=True, timeout=20 * SLOW)
    assert p.returncode == 2 and p.stdout == "" and says in p.stderr
    assert p.stderr.count("\n") == 2 and p.stderr.endswith("ringmain mock --help tells the options and faults\n")

"""Plays the folders of tests/e2e/cases: scripted providers for up-*.http, raw clients for request*.http.

A `Stage` is one gateway for a whole test module. Every play gets providers of its own (their names are used once, so that
no health is shared) and a route of its own, brought in by a reload. Requests are sent as they stand, but for the model's
name: `chain-main` becomes the route's name, which is as long, so that no length changes."""
import contextlib
import hashlib
import itertools
import json
import pathlib
import re
import socket
import time

import pytest

from conftest import World
from harness import SLOW, Reply, provider_conf, read_response, wait_for

HERE = pathlib.Path(__file__).resolve().parent / "cases"
KEY, KEY2 = "rk-test-client-0001", "rk-test-client-0002"
ALIAS = b"chain-main"
# Prices of the cases, USD per million tokens.
PRICES = {"alpha-large": {"input": "5.00", "cache_read": "0.50", "output": "30.00"},
          "beta-large": {"input": "3.00", "cache_read": "0.30", "cache_write_5m": "3.75", "cache_write_1h": "6.00", "output": "15.00"},
          "gamma-pro": {"input": "1.25", "cache_read": "0.125", "output": "10.00"}, "delta-chat": {"input": "1.00", "output": "4.00"}}
ROUTE = {"ttft_budget_ms": 2000, "idle_timeout_ms": 5000, "deadline_ms": 30000, "retries": 0, "breaker": "off"}
BREAKER = {"failures": 5}
SERIAL = itertools.count()


def client_keys():
    return [{"name": n, "sha256": hashlib.sha256(k.encode()).hexdigest()} for n, k in (("first", KEY), ("second", KEY2))]


def up(case, name):
    return (HERE / case / name).read_bytes()


def spec(case):
    return json.loads((HERE / case / "case.json").read_text())


def reply(case, who, n, pace=1.0, cuts=None):
    """The n-th answer (from 1; the last repeats) of a case's provider, its pauses times `pace`; `cuts` replaces its cuts."""
    replies = spec(case)["providers"][who]["replies"]
    r = replies[min(n, len(replies)) - 1]
    data, at, parts = up(case, r["file"]), 0, []
    for offset, ms in r["cuts"] if cuts is None else cuts:
        parts += [data[at:offset]] if offset > at else []
        parts += [ms * pace / 1000] if ms else []
        at = offset
    parts.append(data[at:])
    end, _, ms = r["end"].partition(":")
    if end == "hang":
        return Reply(*parts, int(ms) / 1000, end="close")
    if end == "keep" and ms:
        return Reply(*parts, int(ms) * pace / 1000, end="close")
    return Reply(*parts, end=end)


def script(case, who, only=None, **kw):
    """A provider's script: its answers in order, or the answers `only` names."""
    n = len(spec(case)["providers"][who]["replies"])
    return [reply(case, who, i, **kw) for i in only or range(1, n + 1)]


def request(case, n=None, alias=ALIAS, key=None, path=None, headers=()):
    """The bytes of a case's client, with another route, key, path or further header lines where asked."""
    data = up(case, "request.http" if n is None else f"request-{n}.http")
    if key:
        data = data.replace(KEY.encode(), key.encode())
    if path:
        data = re.sub(rb"^POST \S+", b"POST " + path.encode(), data)
    for k, v in headers:
        data = data.replace(b"\r\n", f"\r\n{k}: {v}\r\n".encode(), 1)
    return data.replace(ALIAS, alias)


MESSAGES = b'{"model":"chain-main","max_tokens":256,"stream":%s,"messages":[{"role":"user","content":"Say something short."}]}'


def messages_request(alias=ALIAS, stream=True, body=None):
    """The same question as a Messages client asks it."""
    body = (body or MESSAGES % (b"true" if stream else b"false")).replace(ALIAS, alias)
    return b"POST /v1/messages HTTP/1.1\r\nHost: ringmain.test\r\nContent-Type: application/json\r\nx-api-key: %s\r\nanthropic-version: 2023-06-01\r\n" \
           b"Content-Length: %d\r\n\r\n%s" % (KEY.encode(), len(body), body)


def chat_request(body, alias=ALIAS, headers=b""):
    body = body.replace(ALIAS, alias)
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: ringmain.test\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%s" \
           b"Content-Length: %d\r\n\r\n%s" % (KEY.encode(), headers, len(body), body)


def read_to_end(s, bound=3.0):
    """Everything until the peer closes; (bytes, did it close)."""
    s.settimeout(bound)  # of silence
    out = b""
    try:
        while x := s.recv(65536):
            out += x
        return out, True
    except TimeoutError:
        return out, False
    except ConnectionError:
        return out, True


class Play:
    """One route with its providers on a gateway. `p` maps a letter to its provider, `name` to the provider's name there."""

    def __init__(self, gateway, case, alias, providers, names):
        self.g, self.case, self.alias, self.p, self.name = gateway, case, alias, providers, names

    def bytes(self, n=None, **kw):
        return request(self.case, n, self.alias, **kw)

    def open(self, data):
        s = self.g.connect()
        s.sendall(data)
        return s

    def exchange(self, data):
        with contextlib.closing(self.open(data)) as s:
            return read_response(s)

    def send(self, n=None, **kw):
        return self.exchange(self.bytes(n, **kw))

    def messages(self, stream=True, body=None):
        return self.exchange(messages_request(self.alias, stream, body))

    def chat(self, body, headers=b""):
        return self.exchange(chat_request(body, self.alias, headers))

    def row(self, r):
        return self.g.row(r)

    def outcomes(self, r):
        return [a["outcome"] for a in self.row(r)["attempts"]]

    def last_row(self):
        """The newest row of this route, once there is one: for clients that left before they had an id."""
        def get():
            rows = self.g.admin("/api/requests?n=50").json()
            rows = rows["requests"] if isinstance(rows, dict) else rows
            rows = [x for x in rows if x["route"] == self.alias.decode()]
            return rows[0] if rows else None
        return self.g.row(wait_for(get, 3, "a row of the route")["id"])

    def health(self):
        """{letter: the link's health} of this route."""
        routes = self.g.admin("/api/health").json()["routes"]
        links = next(r for r in routes if r["model"] == self.alias.decode())["links"]
        return {letter: next(x for x in links if x["provider"] == name) for letter, name in self.name.items()}

    def calls(self):
        return {letter: len(p.requests) for letter, p in self.p.items()}


def model_of(case, who, dialect):
    """The model whose name stands in the answers, else the one the cases give to that letter."""
    c = spec(case)["providers"].get(who, {"replies": []})
    for r in c["replies"]:
        found = re.search(rb'"model":"([a-z-]+)"', up(case, r["file"]))
        if found:
            return found.group(1).decode()
    return "beta-large" if dialect == "anthropic" else {"a": "alpha-large", "b": "delta-chat"}.get(who, "eps")


class Stage:
    def __init__(self, tmp):
        self.world, self.g = World(tmp), None
        self.ended = []

    def gateway(self):
        if self.g is not None and self.g.proc.poll() is not None:  # a crash fails its own test, not the rest of the module
            self.ended.append(self.g)
            self.g = None
        if self.g is None:
            self.g = self.world.gateway({"client_keys": client_keys(), "prices": PRICES, "providers": {"none": provider_conf(1)},
                                         "routes": [{"model": "none", "order": ["none"], **ROUTE}]})
        return self.g

    def play(self, case, letters=None, scripts=None, dialects=None, links=None, route=None, models=None, keys=None, **kw):
        """Brings a case's providers and a route for them into the gateway. scripts: {letter: script} instead of the case's own."""
        g, serial = self.gateway(), next(SERIAL)
        known = spec(case)["providers"]
        scripts, dialects, links, models, keys = scripts or {}, dialects or {}, links or {}, models or {}, keys or {}
        letters = letters or "".join(sorted(set(known) | set(scripts)))
        alias = f"route-{serial:04d}"
        conf, providers, names = json.loads(json.dumps(g.config)), {}, {}
        chain = []
        for letter in letters:
            name = f"{letter}{serial}"
            dialect = dialects.get(letter) or known.get(letter, {}).get("dialect", "openai").split(" ")[0]
            p = self.world.provider(scripts[letter] if letter in scripts else script(case, letter, **kw))
            providers[letter], names[letter] = p, name
            conf["providers"][name] = provider_conf(p.port, dialect, key=keys.get(letter, f"sk-prov-{letter}-SECRET-{serial}"))
            chain.append({"provider": name, "model": models.get(letter) or model_of(case, letter, dialect), **links.get(letter, {})})
        conf["routes"].append({"model": alias, "chain": chain, **ROUTE, **(route or {})})
        n = g.log().count("is in force")
        g.reload(conf)
        assert g.log().count("is in force") > n, g.log()[-2000:]
        return Play(g, case, alias.encode(), providers, names)

    def close(self):
        if self.g is not None:
            self.ended.append(self.g)
        codes = [(g.stop(), g.log()) for g in self.ended]
        for p in self.world.providers:
            p.close()
        for code, log in codes:
            assert code == 0 and "ERROR: " not in log and "runtime error" not in log, log[-8000:]


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    s = Stage(tmp_path_factory.mktemp("stage"))
    yield s
    s.close()


def raw_stream_text(body):
    """The text of a Chat stream's bytes as far as whole events go."""
    out = ""
    for line in body.split(b"\n"):
        if line.startswith(b"data:") and b"[DONE]" not in line:
            with contextlib.suppress(ValueError):
                d = json.loads(line[5:])
                for c in d.get("choices") or []:
                    out += c["delta"].get("content") or ""
    return out


def chunks_of(response):
    """The JSON events of a Chat stream."""
    return [json.loads(d) for _, d in response.events() if d.strip() != "[DONE]"]


def tool_calls(response):
    """A Chat stream's tool calls as a client adds them up: [(index, id, name, arguments)]."""
    calls = {}
    for c in chunks_of(response):
        for choice in c.get("choices") or []:
            for t in choice["delta"].get("tool_calls") or []:
                one = calls.setdefault(t["index"], {"id": "", "name": "", "arguments": ""})
                one["id"] += t.get("id") or ""
                one["name"] += (t.get("function") or {}).get("name") or ""
                one["arguments"] += (t.get("function") or {}).get("arguments") or ""
    return [(i, c["id"], c["name"], c["arguments"]) for i, c in sorted(calls.items())]


def read_words(s, n, bound=5.0):
    """Reads from a socket until n content events have come; returns the bytes."""
    out, end = b"", time.monotonic() + bound * SLOW
    while out.count(b'"content":"') + out.count(b"text_delta") < n:
        assert time.monotonic() < end, out
        x = s.recv(65536)
        assert x, out
        out += x
    return out


def connect_small(g, size=4096):
    """A connection whose receive buffer is small, so that a reader who stops is felt at once."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    s.connect(("127.0.0.1", g.port))
    return s

"""Seeded stories of bad providers and bad clients, played against the real binary from both sides at once. What is asked is seen from
outside: the process lives, every request that got an id has one row that fits what its client saw, a well-ended answer is one attempt's
text and nothing else, a healthy route beside it never suffers, and in the end nothing is left: no descriptor, no running core.

RINGMAIN_CHAOS_SEED and RINGMAIN_CHAOS_STORIES choose other stories and more of them."""
import concurrent.futures
import contextlib
import gzip
import json
import os
import random
import re
import socket
import struct
import threading
import time

import pytest

from harness import SLOW, cpu_seconds, error_json, events, good, provider_conf, read_response, wait_for, whole

SEED = int(os.environ.get("RINGMAIN_CHAOS_SEED", "1"))
STORIES = int(os.environ.get("RINGMAIN_CHAOS_STORIES", "90"))  # per world
CLIENTS = 10
N_WORDS = 6

CONTROL_TEXT = "All is well."


# ---------------------------------------------------------------- what providers say

def text_of(tag, n=N_WORDS):
    return "<" + tag + "".join(f" w{i}" for i in range(n)) + " " + tag + ">"


def words_of(tag):
    whole_text = text_of(tag)
    parts = whole_text.split(" ")
    return [p if i == 0 else " " + p for i, p in enumerate(parts)]


def sse(dialect, tag):
    return events(dialect, words_of(tag), model=tag)


def framed(rng, body, content_type, status=200, coding=None, keep=True):
    """Head and body in one of the framings."""
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n"
    if coding:
        head += f"Content-Encoding: {coding}\r\n"
    how = rng.choice(["length", "chunked", "chunked", "close"]) if keep else "close"
    if how == "length":
        return (head + f"Content-Length: {len(body)}\r\n\r\n").encode() + body, True
    if how == "close":
        return (head + "Connection: close\r\n\r\n").encode() + body, False
    out, at = b"", 0
    while at < len(body):
        n = rng.randint(1, max(1, len(body) // 3))
        out += b"%x\r\n%s\r\n" % (len(body[at:at + n]), body[at:at + n])
        at += n
    return (head + "Transfer-Encoding: chunked\r\n\r\n").encode() + out + b"0\r\n\r\n", True


class Wild:
    """A provider that does what its dice say. `tags` knows each attempt that was answered in full by the rules: such an answer must
    come out as it is; from any other attempt nothing well-ended may be mixed with somebody else's."""

    def __init__(self, name, dialect, seed):
        self.name, self.dialect, self.seed = name, dialect, seed
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.listen(256)
        self.port = self.sock.getsockname()[1]
        self.lock = threading.Lock()
        self.conns, self.n_conns, self.n_tags = set(), 0, 0
        self.stopped = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                c, _ = self.sock.accept()
            except OSError:
                return
            with self.lock:
                self.n_conns += 1
                n = self.n_conns
                self.conns.add(c)
            threading.Thread(target=self._serve, args=(c, random.Random(f"{self.seed}/{self.name}/{n}")), daemon=True).start()

    def close(self):
        self.stopped = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        with self.lock:
            for c in list(self.conns):
                with contextlib.suppress(OSError):
                    c.shutdown(socket.SHUT_RDWR)

    def _tag(self):
        with self.lock:
            self.n_tags += 1
            return f"{self.name}{self.n_tags}"

    @staticmethod
    def _read_request(c, buf, with_body=True):
        while b"\r\n\r\n" not in buf:
            x = c.recv(65536)
            if not x:
                return None, b""
            buf += x
        head, rest = buf.split(b"\r\n\r\n", 1)
        m = re.search(rb"content-length: *(\d+)", head, re.I)
        want = int(m.group(1)) if m else 0
        while with_body and len(rest) < want:
            x = c.recv(65536)
            if not x:
                return None, b""
            rest += x
        return rest[:want], rest[want:]

    def _serve(self, c, rng):
        try:
            c.settimeout(5)
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start = rng.random()
            if start < 0.03:
                self._reset(c)
                return
            if start < 0.05:  # says something without being asked
                c.sendall(framed(rng, b"".join(sse(self.dialect, self._tag())), "text/event-stream")[0])
            elif start < 0.06:
                c.sendall(b"\x15\x03\x01\x00\x02\x02\x28")
            buf = b""
            while not self.stopped:
                early = rng.random() < 0.05
                body, buf = self._read_request(c, buf, not early)
                if body is None:
                    return
                is_stream = early or b'"stream":true' in body.replace(b" ", b"")
                if not self._act(c, rng, is_stream) or early:
                    return
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.conns.discard(c)
            with contextlib.suppress(OSError):
                c.close()

    @staticmethod
    def _reset(c):
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _answer(self, rng, is_stream, keep=True, coding=None):
        tag = self._tag()
        body = b"".join(sse(self.dialect, tag)) if is_stream else json.dumps(whole(self.dialect, text_of(tag), tag)).encode()
        if coding == "gzip":
            body = gzip.compress(body)
        return framed(rng, body, "text/event-stream" if is_stream else "application/json", coding=coding, keep=keep)

    def _act(self, c, rng, is_stream):
        """True: the connection goes on."""
        deed = rng.choice([self.well, self.well, self.well, self.well_in_pieces, self.cut, self.status, self.status, self.lie, self.interim,
                           self.heads, self.one_event, self.comments, self.error_inside, self.more_than_asked, self.late_noise, self.hang,
                           self.packed, self.packed_badly, self.not_http, self.redirect, self.half_closed, self.bad_chunk, self.bad_event,
                           self.slow, self.two_answers, self.empty])
        return deed(c, rng, is_stream)

    def well(self, c, rng, is_stream):
        b, keep = self._answer(rng, is_stream)
        c.sendall(b)
        return keep

    def well_in_pieces(self, c, rng, is_stream):
        b, keep = self._answer(rng, is_stream)
        at = 0
        while at < len(b):
            n = rng.choice([1, 2, 7, 40, 300])
            c.sendall(b[at:at + n])
            at += n
            if rng.random() < 0.1:
                time.sleep(rng.random() * 0.01)
        return keep

    def slow(self, c, rng, is_stream):
        b, keep = self._answer(rng, is_stream)
        for part in (b[:len(b) // 3], b[len(b) // 3:len(b) // 2], b[len(b) // 2:]):
            time.sleep(rng.choice([0.02, 0.1, 0.15, 0.3, 0.31]))
            c.sendall(part)
        return keep

    def cut(self, c, rng, is_stream):
        b, _ = self._answer(rng, is_stream)
        c.sendall(b[:rng.randint(0, len(b) - 1)])
        if rng.random() < 0.5:
            self._reset(c)
        return False

    def status(self, c, rng, is_stream):
        n = rng.choice([400, 401, 403, 404, 408, 413, 422, 429, 429, 500, 500, 502, 503, 503, 504, 520, 529, 599])
        body = rng.choice([json.dumps(error_json(self.dialect, n)).encode(), b"<html>no</html>", b"", b"{", b"\xff\xfe", b"x" * 200000])
        b, keep = framed(rng, body, rng.choice(["application/json", "text/html"]), n)
        if n == 429 and rng.random() < 0.5:
            b = b.replace(b"\r\n", b"\r\nRetry-After: " + rng.choice([b"1", b"-5", b"99999999999999999999", b"x", b"0.5"]) + b"\r\n", 1)
        c.sendall(b)
        return keep

    def lie(self, c, rng, is_stream):
        tag = self._tag()
        body = b"".join(sse(self.dialect, tag)) if is_stream else json.dumps(whole(self.dialect, text_of(tag), tag)).encode()
        n = rng.choice([len(body) + 10, len(body) // 2, 0, 2 ** 62])
        c.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: {'text/event-stream' if is_stream else 'application/json'}\r\n"
                  f"Content-Length: {n}\r\n\r\n".encode() + body)
        return rng.random() < 0.3

    def interim(self, c, rng, is_stream):
        for _ in range(rng.choice([1, 3, 8, 9, 40])):
            c.sendall(b"HTTP/1.1 " + rng.choice([b"100 Continue", b"102 Processing", b"103 Early Hints\r\nLink: x"]) + b"\r\n\r\n")
        return self.well(c, rng, is_stream)

    def heads(self, c, rng, is_stream):
        c.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(rng.choice([5, 250, 3000])):
            c.sendall(b"X-A: " + b"b" * rng.choice([1, 90]) + b"\r\n")
        return False

    def one_event(self, c, rng, is_stream):
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"a\":\"")
        for _ in range(40):
            c.sendall(b"x" * 8192)
        return False

    def comments(self, c, rng, is_stream):
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        end = time.monotonic() + rng.choice([0.02, 0.5])
        while time.monotonic() < end:
            c.sendall(b": c\n\n" * rng.choice([1, 5000]))
            time.sleep(0.001)
        return False

    def error_inside(self, c, rng, is_stream):
        evs = sse(self.dialect, self._tag())
        at = rng.randint(0, len(evs) - 1)
        error = json.dumps(error_json(self.dialect, 500)).encode()
        body = b"".join(evs[:at]) + (b"event: error\n" if self.dialect == "anthropic" else b"") + b"data: " + error + b"\n\n" + b"".join(evs[at:])
        b, keep = framed(rng, body, "text/event-stream")
        c.sendall(b)
        return keep

    def bad_event(self, c, rng, is_stream):
        evs = sse(self.dialect, self._tag())
        at = rng.randint(0, len(evs) - 1)
        bad = rng.choice([b"data: {\n\n", b"data: \xff\xff\n\n", b"event: x\ndata: [1]\n\n", b"data: nul\x00\n\n", b"\x00\n\n"])
        c.sendall(framed(rng, b"".join(evs[:at]) + bad + b"".join(evs[at:]), "text/event-stream", keep=False)[0])
        return False

    def bad_chunk(self, c, rng, is_stream):
        evs = sse(self.dialect, self._tag())
        out = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        at = rng.randint(0, len(evs) - 1)
        for i, e in enumerate(evs):
            out += b"%x\r\n%s\r\n" % (len(e), e)
            if i == at:
                out += rng.choice([b"zz\r\n", b"fffffffffffffffff\r\n", b"5\r\nab\r\n\r\n", b"-1\r\n", b"1;" + b"e" * 9000, b"\r\n\r\n"])
        c.sendall(out)
        return False

    def more_than_asked(self, c, rng, is_stream):
        b, keep = self._answer(rng, is_stream)
        c.sendall(b + rng.choice([b"X", b"\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]))
        return keep

    def two_answers(self, c, rng, is_stream):
        b, keep = self._answer(rng, is_stream)
        c.sendall(b + self._answer(rng, is_stream)[0])
        return keep

    def late_noise(self, c, rng, is_stream):
        b, keep = self._answer(rng, is_stream)
        c.sendall(b)
        time.sleep(rng.random() * 0.03)
        c.sendall(rng.choice([b"\x00", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]))
        return keep and rng.random() < 0.5

    def hang(self, c, rng, is_stream):
        if rng.random() < 0.5:
            b, _ = self._answer(rng, is_stream)
            c.sendall(b[:rng.randint(1, len(b) - 1)])
        c.settimeout(3)
        return bool(c.recv(1))

    def packed(self, c, rng, is_stream):
        b, keep = self._answer(rng, is_stream, coding="gzip")
        c.sendall(b)
        return keep

    def packed_badly(self, c, rng, is_stream):
        body = bytearray(gzip.compress(b"".join(sse(self.dialect, self._tag()))))
        body[rng.randint(10, len(body) - 1)] ^= 0x55
        c.sendall(framed(rng, bytes(body), "text/event-stream", coding=rng.choice(["gzip", "deflate", "br"]), keep=False)[0])
        return False

    def not_http(self, c, rng, is_stream):
        c.sendall(rng.choice([b"SSH-2.0-x\r\n", b"\x15\x03\x03\x00\x02\x02\x46", b"HTTP/2 200\r\n\r\n", b"\r\n" * 50, b"HTTP/1.1 999999\r\n\r\n",
                              b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"HTTP/1.1 200 OK\r\n: x\r\n\r\n"]))
        return False

    def redirect(self, c, rng, is_stream):
        c.sendall(rng.choice([b"HTTP/1.1 302 F\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n",
                              b"HTTP/1.1 204 N\r\n\r\n", b"HTTP/1.1 304 N\r\n\r\n"]))
        return rng.random() < 0.5

    def half_closed(self, c, rng, is_stream):
        b, _ = self._answer(rng, is_stream)
        c.sendall(b)
        c.shutdown(socket.SHUT_WR)
        return True

    def empty(self, c, rng, is_stream):
        c.sendall(framed(rng, b"", rng.choice(["text/event-stream", "application/json"]))[0])
        return True


# ---------------------------------------------------------------- what clients do

class Seen:
    """What one request's client saw. `left`: it did not wait for the end by its own will."""

    def __init__(self, deed, dialect, is_stream, response=None, left=False):
        self.deed, self.dialect, self.is_stream, self.response, self.left = deed, dialect, is_stream, response, left

    def __repr__(self):
        r = self.response
        return f"{self.deed} {self.dialect} stream={self.is_stream} " + (f"{r.status} {r.headers} {r.body[-2000:]!r}" if r else "no response")


def ask(rng, dialect, is_stream, model):
    body = {"model": model, "stream": is_stream, "messages": [{"role": "user", "content": "x" * rng.choice([1, 50, 70000])}]}
    if dialect == "anthropic":
        body["max_tokens"] = 50
    elif rng.random() < 0.3:
        body["stream_options"] = {"include_usage": rng.random() < 0.5}
    return json.dumps(body).encode()


def head(path, headers, n=None):
    lines = [f"POST {path} HTTP/1.1", "Host: ringmain.test", "Content-Type: application/json"] + [f"{k}: {v}" for k, v in headers]
    if n is not None:
        lines.append(f"Content-Length: {n}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class ByteByByte:
    """All that comes until the end, given out in such pieces that reading one response takes nothing of the next."""

    def __init__(self, s):
        self.bytes, self.at = b"", 0
        while x := s.recv(65536):
            self.bytes += x

    def recv(self, _):
        self.at += 1
        return self.bytes[self.at - 1:self.at]


def leave(s, rng):
    if rng.random() < 0.5:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def play(g, seed, n):
    """One client's story; returns the list of Seen."""
    rng = random.Random(f"{seed}/client/{n}")
    dialect, is_stream = rng.choice(["openai", "anthropic"]), rng.random() < 0.6
    path = "/v1/chat/completions" if dialect == "openai" else "/v1/messages"
    headers = []
    if rng.random() < 0.25:
        headers.append(("x-routing", rng.choice(["ttft:100", "deadline:200", "fallback:off", "order:b,a", "order:b; ttft:120", "order:z", "what"])))
    body = ask(rng, dialect, is_stream, rng.choice(["r", "r", "r", "one", "absent"]))
    deed = rng.choice(["read", "read", "read", "read", "slow body", "chunked", "continue", "leave", "leave", "leave late", "half close", "part of it",
                       "slow reader", "pipeline", "garbage behind", "huge head", "bad json", "many"])

    def whole_one(s, h, b, left=False):
        s.sendall(h + b)
        return Seen(deed, dialect, is_stream, read_response(s), left)

    def seen(response=None, left=False):
        return [Seen(deed, dialect, is_stream, response, left)]

    with contextlib.closing(g.connect()) as s:
        try:
            if deed == "slow body":
                s.sendall(head(path, headers, len(body)))
                for i in range(4):
                    s.sendall(body[i * len(body) // 4:(i + 1) * len(body) // 4])
                    time.sleep(0.01)
                return seen(read_response(s))
            if deed == "chunked":
                s.sendall(head(path, headers + [("Transfer-Encoding", "chunked")]))
                for i in range(3):
                    x = body[i * len(body) // 3:(i + 1) * len(body) // 3]
                    s.sendall(b"%x;x=y\r\n%s\r\n" % (len(x), x))
                s.sendall(b"0\r\nTrailer: 1\r\n\r\n")
                return seen(read_response(s))
            if deed == "continue":
                s.sendall(head(path, headers + [("Expect", "100-continue")], len(body)))
                s.sendall(body)
                return seen(read_response(s))
            if deed in ("leave", "leave late"):
                s.sendall(head(path, headers, len(body)) + body)
                if deed == "leave late":
                    s.recv(rng.choice([1, 500]))
                else:
                    time.sleep(rng.choice([0, 0.001, 0.01, 0.05, 0.1, 0.15, 0.2]))
                leave(s, rng)
                return []
            if deed == "half close":
                s.sendall(head(path, headers, len(body)) + body)
                time.sleep(rng.choice([0, 0.02]))
                s.shutdown(socket.SHUT_WR)
                s.settimeout(5 * SLOW)
                while s.recv(65536):
                    pass
                return []
            if deed == "part of it":
                h = head(path, headers, len(body)) + body
                s.sendall(h[:rng.randint(0, len(h) - 1)])
                leave(s, rng)
                return []
            if deed == "slow reader":
                s.sendall(head(path, headers, len(body)) + body)
                time.sleep(rng.choice([0.1, 0.3]))
                return seen(read_response(s))
            if deed == "pipeline":
                s.sendall(head(path, headers, len(body)) + body + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                both = ByteByByte(s)
                first = seen(read_response(both))
                if first[0].response.headers.get("connection") != "close":
                    assert read_response(both).status == 200, "the pipelined request"
                return first
            if deed == "garbage behind":
                s.sendall(head(path, headers, len(body)) + body + b"\x00\xff garbage\r\n\r\n")
                return seen(read_response(s))
            if deed == "huge head":
                s.sendall(head(path, headers + [("X-Big", "y" * 40000)], len(body)) + body)
                r = read_response(s)
                assert r.status == 431
                return seen(r)
            if deed == "bad json":
                r = whole_one(s, head(path, headers, 9), b'{"model":')
                assert r.response.status == 400
                return [r]
            if deed == "many":
                out = []
                for _ in range(3):
                    out.append(whole_one(s, head(path, headers, len(body)), body))
                    if out[-1].response.headers.get("connection") == "close":
                        break
                return out
            return [whole_one(s, head(path, headers, len(body)), body)]
        except TimeoutError as e:
            raise AssertionError(f"story {n}: {deed} got no answer ({dialect}, stream={is_stream}, {headers}, {body[:60]})") from e
        except (ConnectionResetError, BrokenPipeError):
            if deed in ("leave", "leave late", "half close", "part of it"):
                return []
            raise AssertionError(f"story {n}: {deed} was cut off")


TAG = re.compile(r"\b([a-c]\d+)\b")


def judge(seen, row):
    """One client's view against its row in the ledger."""
    r = seen.response
    assert row["status"] == r.status, (seen, row)
    if not r.is_whole:
        raise AssertionError(f"cut off: {seen} {row}")
    is_sse = b"text/event-stream" in r.raw_head.lower()
    if r.status != 200:
        assert not is_sse and row["outcome"] != "ok", (seen, row)
        assert "error" in r.json(), seen
        return
    if is_sse and not r.is_well_ended():
        assert row["outcome"] not in ("ok", "client_cancelled"), (seen, row)
        assert r.stream_error(), seen
        assert b"[DONE]" not in r.body and b"message_stop" not in r.body, seen
        text = text_before_error(r)
    else:
        assert row["outcome"] == "ok", (seen, row)
        text = r.text()
    tags = set(TAG.findall(text))
    assert len(tags) <= 1, f"two attempts in one answer: {seen}"
    if row["outcome"] == "ok" and text:
        (tag,) = tags
        assert text == text_of(tag), f"not one attempt's whole text: {seen} {row}"


def text_before_error(response):
    out = ""
    for _, data in response.events():
        d = json.loads(data)
        if d.get("choices"):
            out += d["choices"][0]["delta"].get("content") or ""
        elif d.get("type") == "content_block_delta":
            out += d["delta"].get("text", "")
    return out


# ---------------------------------------------------------------- the world around them

def config_of(rng, wilds, control_port):
    names = [w.name for w in wilds]
    route = {"ttft_budget_ms": rng.choice([100, 150, 300]), "idle_timeout_ms": rng.choice([150, 300]), "deadline_ms": rng.choice([500, 900]),
             "total_budget_ms": 300, "connect_timeout_ms": 200, "retries": rng.choice([0, 1, 2]), "max_attempts": rng.choice([2, 8]),
             "breaker": rng.choice(["off", {"failures": 3, "cooldown_ms": 100, "cooldown_max_ms": 400}]),
             "upstream_stream": rng.choice(["auto", "on", "off"]), "on_bad_event": rng.choice(["fail", "skip"])}
    if rng.random() < 0.5:
        route["keepalive_sec"] = 1
    if rng.random() < 0.4:
        route["heartbeat_ms"] = rng.choice([30, 120])
    if rng.random() < 0.3:
        route["wait_retry_after_ms"] = 1000
    return {"providers": {**{w.name: provider_conf(w.port, w.dialect, key=f"sk-{w.name}") for w in wilds}, "h": provider_conf(control_port)},
            "routes": [{"model": "r", "chain": [{"provider": n, "model": f"m-{n}"} for n in names], **route},
                       {"model": "one", "chain": [{"provider": names[0], "model": "m-one"}], **route},
                       {"model": "control", "chain": [{"provider": "h", "model": "m-h"}]}],
            "limits": {"event_bytes": 65536, "client_stall_ms": 2000, "body_timeout_ms": 3000, "head_timeout_ms": 3000}, "drain_timeout_ms": 300}


def n_sockets(g):
    n = 0
    for fd in os.listdir(f"/proc/{g.proc.pid}/fd"):
        with contextlib.suppress(OSError):
            n += os.readlink(f"/proc/{g.proc.pid}/fd/{fd}").startswith("socket:")
    return n


class Control(threading.Thread):
    """The healthy route beside the chaos."""

    def __init__(self, g):
        super().__init__(daemon=True)
        self.g, self.faults, self.n, self.done = g, [], 0, threading.Event()

    def run(self):
        while not self.done.is_set():
            t = time.monotonic()
            try:
                r = self.g.chat(model="control", stream=self.n % 2 == 0)
                took = time.monotonic() - t
                if r.status != 200 or r.text() != CONTROL_TEXT or took > 3 * SLOW:
                    self.faults.append((r.status, took, r.body))
            except (OSError, AssertionError) as e:
                self.faults.append((e, time.monotonic() - t))
            self.n += 1
            self.done.wait(0.02)


@pytest.mark.parametrize("world_n", range(4))
def test_stories(world, world_n):
    seed = f"{SEED}/{world_n}"
    rng = random.Random(seed)
    wilds = [Wild("a", "openai", seed), Wild("b", "anthropic", seed), Wild("c", "openai", seed)][:rng.choice([2, 3, 3])]
    control = world.provider(good("openai", CONTROL_TEXT, "m-h"))
    config = config_of(rng, wilds, control.port)
    config["workers"] = 1 + world_n % 2
    g = world.gateway(config)
    assert g.chat(model="control").status == 200
    control.drop_idle()
    wait_for(lambda: control.open == 0, what="the idle connection to go")
    n_open = n_sockets(g)
    beside = Control(g)
    beside.start()
    views = []
    try:
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            stories = [pool.submit(play, g, seed, n) for n in range(STORIES)]
            for i, story in enumerate(stories):
                views += story.result(60 * SLOW)
                if i % 40 == 20:
                    again = config_of(rng, wilds, control.port)
                    g.reload({**g.config, "routes": again["routes"]})
    finally:
        beside.done.set()
        beside.join(30 * SLOW)
        for w in wilds:
            w.close()
    assert g.proc.poll() is None, g.log()
    assert not beside.faults, beside.faults[:3]
    assert beside.n > 3

    views = [v for v in views if v.response is not None and "x-ringmain-request-id" in v.response.headers]
    assert len(views) > STORIES / 4
    ids = [v.response.headers["x-ringmain-request-id"] for v in views]
    assert len(set(ids)) == len(ids)
    wait_for(lambda: set(ids) <= {x["id"] for x in g.access()}, what="every request's row")
    rows = [x["id"] for x in g.access()]
    assert len(rows) == len(set(rows)), "a request with two rows"
    for v, rid in zip(views, ids):
        judge(v, g.row(rid))

    control.drop_idle()
    wait_for(lambda: n_sockets(g) <= n_open, 5, f"the connections to be given back ({n_open} before, {n_sockets(g)} now)")
    assert g.rss_kb() < 700 * 1024
    before = cpu_seconds(g)
    time.sleep(0.5)  # the passing of time is what is tested
    assert cpu_seconds(g) - before < 0.2, "a core is busy with nothing"


@pytest.mark.parametrize("world_n", range(3))
def test_a_stop_in_the_middle(world, world_n):
    """SIGTERM while the stories go on: the process ends with 0 in its time, and what clients saw is what the books say."""
    seed = f"{SEED}/stop/{world_n}"
    rng = random.Random(seed)
    wilds = [Wild("a", "openai", seed), Wild("b", "anthropic", seed)]
    control = world.provider(good("openai", CONTROL_TEXT, "m-h"))
    config = config_of(rng, wilds, control.port)
    config["workers"] = 1 + world_n % 2
    g = world.gateway(config)
    views, lock, started = [], threading.Lock(), threading.Semaphore(0)

    def story(n):
        started.release()
        with contextlib.suppress(OSError, AssertionError):  # a client of a stopped gateway is refused or cut
            got = play(g, seed, n)
            with lock:
                views.extend(got)
    try:
        with concurrent.futures.ThreadPoolExecutor(2 * CLIENTS) as pool:
            for n in range(3 * CLIENTS):
                pool.submit(story, n)
            for _ in range(rng.randint(CLIENTS, 3 * CLIENTS)):
                assert started.acquire(timeout=20 * SLOW)
            began = time.monotonic()
            assert g.stop() == 0, g.log()
            assert time.monotonic() - began < 6 * SLOW  # drain_timeout, the lingering, the ledger
    finally:
        for w in wilds:
            w.close()
    rows = g.access()
    by_id = {x["id"]: x for x in rows}
    assert len(by_id) == len(rows), "a request with two rows"
    for v in views:
        if v.response is None or "x-ringmain-request-id" not in v.response.headers:
            continue
        row = by_id[v.response.headers["x-ringmain-request-id"]]
        if v.response.is_whole:
            judge(v, row)
        else:
            assert row["outcome"] == "drained", (v, row)


# ---------------------------------------------------------------- single faults that stories found

def test_a_provider_that_floods_does_not_starve_the_others(world):
    """It sends as fast as it can be read; deadlines and other requests go on."""
    done = threading.Event()
    block = b": c\n\n" * 200000
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(8)

    def pour(c):
        with contextlib.suppress(OSError):
            c.recv(65536)
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            while not done.is_set():
                c.sendall(block)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                c, _ = sock.accept()
                threading.Thread(target=pour, args=(c,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    g = world.gateway({"providers": {"a": provider_conf(sock.getsockname()[1])},
                       "routes": [{"model": "r", "ttft_budget_ms": 300, "deadline_ms": 600, "chain": [{"provider": "a", "model": "m"}]}]})
    try:
        flooded = [g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": []}) for _ in range(2)]
        for s in flooded:
            with contextlib.closing(s):
                assert g.call("/healthz", None, method="GET").status == 200
                r = read_response(s)
                assert r.status == 504 and r.trail()[0][1] == "deadline"
                assert int(r.trail()[0][-1][:-2]) < 600 + 1500 * SLOW
    finally:
        done.set()
        sock.close()


def test_a_collected_answer_has_a_limit(world):
    from harness import Reply, SSE_HEAD, chunk, openai_chunk
    block = chunk(openai_chunk({"content": "x" * 1000}) * 50)
    g, _ = world.chain([Reply(SSE_HEAD, *[block] * 60, end="hang")], good("openai"), config={"limits": {"body_bytes": 1000000}})
    r = g.chat(stream=False)
    assert r.status == 200 and r.text() == "Hello from B."
    assert r.trail()[0][1] == "protocol_error"


def test_a_fin_behind_more_than_is_read_is_seen(world):
    from harness import Reply
    g, (a,) = world.chain([Reply(end="hang")])
    with contextlib.closing(g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": []})) as s:
        wait_for(lambda: a.requests, what="the upstream request")
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 60000)
        s.shutdown(socket.SHUT_WR)
        wait_for(lambda: a.requests[0].closed_at, 2, "the upstream to be cancelled")


def test_a_drain_lets_a_slow_client_have_its_last_bytes(world):
    import signal
    text = "y" * 8000000
    g, _ = world.chain(good("openai", text))
    with contextlib.closing(g.send("/v1/chat/completions", {"model": "r", "stream": False, "messages": []})) as s:
        wait_for(g.access, 10, "the row")
        g.proc.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in g.log(), what="the stop to begin")
        r = read_response(s)
    assert r.status == 200 and r.is_whole and r.text() == text


def test_a_small_packed_answer_that_is_huge_does_not_starve_the_others(world):
    from harness import Reply
    packed = gzip.compress(b": c\n\n" * 8000000)
    answer = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)) + packed
    g, _ = world.chain([Reply(answer, end="hang")], route={"ttft_budget_ms": 200, "deadline_ms": 400})
    with contextlib.closing(g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": []})) as s:
        r = read_response(s)
    assert r.status == 504 and r.trail()[0][1] == "deadline"

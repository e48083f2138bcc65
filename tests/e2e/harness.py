"""What the end-to-end tests stand on: the real binary as `Gateway`, and scripted providers as `Provider`, which answer raw
bytes so that every fault can be had exactly. Nothing here sleeps for luck: waits are on conditions, with a bound."""
import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("RINGMAIN_BINARY", str(ROOT / "build/debug/ringmain"))
# Stretches upper bounds, never budgets: the binary has sanitizers in it, and the machine may have other work.
SLOW = float(os.environ.get("RINGMAIN_TEST_SLOWDOWN", max(3.0, 2 * os.getloadavg()[0] / os.cpu_count())))


def cpu_seconds(x):
    """CPU that x.proc has used."""
    fields = open(f"/proc/{x.proc.pid}/stat").read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def wait_for(condition, bound=5.0, what="condition"):
    """Polls until condition() is truthy and returns it; fails after `bound` seconds."""
    end = time.monotonic() + bound * SLOW
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"waited {bound * SLOW:.1f} s in vain for {what}")
        time.sleep(0.005)


GIVEN = set()


def free_port():
    """One that is free, was not given before in this run, and lies below those that the kernel gives to whoever connects: else
    any connection could take it before it is used."""
    for _ in range(1000):
        port = random.randrange(10000, 20000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            if port not in GIVEN:
                GIVEN.add(port)
                return port
    raise AssertionError("no free port")


# ---------------------------------------------------------------- providers

class Request:
    def __init__(self, n, method, path, headers, body, arrived):
        self.n, self.method, self.path, self.headers, self.body, self.arrived = n, method, path, headers, body, arrived
        self.closed_at = None  # when the peer was seen to close before our answer was whole

    @property
    def json(self):
        return json.loads(self.body)


class Reply:
    """Raw bytes with pauses: parts are bytes, or a number of seconds to wait (cut short when the peer leaves).
    end: close (FIN), rst, keep (wait for the next request), hang (silent until the peer leaves)."""

    def __init__(self, *parts, end="keep"):
        self.parts, self.end = parts, end


def http(status, body=b"", content_type="application/json", headers=(), reason="X"):
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    for k, v in headers:
        head += f"{k}: {v}\r\n"
    return head.encode() + b"\r\n" + body


SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(b):
    return b"%x\r\n%s\r\n" % (len(b), b)


LAST = b"0\r\n\r\n"


class Provider:
    """One listening port. `script` maps the n-th request (from 1) to a Reply: a list (its last one repeats) or a function
    (request) -> Reply. Requests seen are in .requests."""

    def __init__(self, script, port=0, tls=None):
        self.script = script
        self.requests = []
        self.connections = 0
        self.open = 0
        self.tls = tls
        self.lock = threading.Lock()
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind(("127.0.0.1", port))
        self.sock.listen(512)
        self.port = self.sock.getsockname()[1]
        self.stopped = False
        self.conns = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                c, _ = self.sock.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.open += 1
                self.conns.add(c)
            threading.Thread(target=self._serve, args=(c,), daemon=True).start()

    def _serve(self, c):
        try:
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw = c
            if self.tls:
                c = self.tls.wrap_socket(c, server_side=True)
            buf = b""
            while not self.stopped:
                while b"\r\n\r\n" not in buf:
                    x = c.recv(65536)
                    if not x:
                        return
                    buf += x
                head, buf = buf.split(b"\r\n\r\n", 1)
                lines = head.decode("latin1").split("\r\n")
                method, path, _ = lines[0].split(" ", 2)
                headers = {}
                for line in lines[1:]:
                    k, _, v = line.partition(":")
                    headers[k.strip().lower()] = v.strip()
                want = int(headers.get("content-length", 0))
                while len(buf) < want:
                    x = c.recv(65536)
                    if not x:
                        return
                    buf += x
                body, buf = buf[:want], buf[want:]
                with self.lock:
                    req = Request(len(self.requests) + 1, method, path, headers, body, time.monotonic())
                    req.raw_head = head
                    self.requests.append(req)
                reply = self.script(req) if callable(self.script) else self.script[min(req.n, len(self.script)) - 1]
                if not self._answer(c, raw, req, reply):
                    return
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.open -= 1
                self.conns.discard(c)
            with contextlib.suppress(OSError):
                c.close()

    def _gone(self, raw):
        try:
            raw.setblocking(False)
            return raw.recv(1, socket.MSG_PEEK) == b""
        except (BlockingIOError, InterruptedError):
            return False
        except (OSError, ValueError):
            return True
        finally:
            with contextlib.suppress(OSError):
                raw.setblocking(True)

    def _wait(self, raw, seconds, req):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.stopped:
            if self._gone(raw):
                req.closed_at = time.monotonic()
                return False
            time.sleep(0.002)
        return True

    def _answer(self, c, raw, req, reply):
        try:
            for part in reply.parts:
                if isinstance(part, (bytes, bytearray)):
                    c.sendall(part)
                elif not self._wait(raw, part, req):
                    return False
        except OSError:
            req.closed_at = time.monotonic()
            return False
        if reply.end == "keep":
            return True
        if reply.end == "hang":
            self._wait(raw, 120, req)
        elif reply.end == "rst":
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def drop_idle(self):
        """Closes every open connection (as a provider does with idle ones)."""
        with self.lock:
            for c in list(self.conns):
                with contextlib.suppress(OSError):
                    c.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.stopped = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.drop_idle()


# ---------------------------------------------------------------- answers in both dialects

WORDS = ["Hello", " from", " %s", "."]


def openai_chunk(delta, finish=None, model="m-a", **more):
    return ("data: " + json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1796000000, "model": model,
                                   "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}) + "\n\n").encode()


def openai_events(words, model="m-a", finish="stop", usage=(12, 4), done=True):
    yield openai_chunk({"role": "assistant", "content": ""}, model=model)
    for w in words:
        yield openai_chunk({"content": w}, model=model)
    if finish:
        yield openai_chunk({}, finish, model=model)
    if usage:
        yield ("data: " + json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1796000000, "model": model, "choices": [],
                                      "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}}) + "\n\n").encode()
    if done:
        yield b"data: [DONE]\n\n"


def anthropic_event(name, data):
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def anthropic_events(words, model="m-a", stop="end_turn", usage=(12, 4), done=True):
    yield anthropic_event("message_start", {"message": {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
                          "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": usage[0], "output_tokens": 1}}})
    yield anthropic_event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
    for w in words:
        yield anthropic_event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": w}})
    if stop:
        yield anthropic_event("content_block_stop", {"index": 0})
        yield anthropic_event("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": usage[1]}})
    if done:
        yield anthropic_event("message_stop", {})


def events(dialect, words, **kw):
    return list(openai_events(words, **kw) if dialect == "openai" else anthropic_events(words, **kw))


def stream(*evs, gap=0.0, end="keep", last=True):
    """A Reply that streams the events, one chunk each."""
    parts = [SSE_HEAD]
    for e in evs:
        parts.append(chunk(e) if isinstance(e, (bytes, bytearray)) else e)
        if gap:
            parts.append(gap)
    if last:
        parts.append(LAST)
    return Reply(*parts, end=end)


def whole(dialect, text, model="m-a", usage=(12, 4)):
    if dialect == "openai":
        return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1796000000, "model": model,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}}
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": usage[0], "output_tokens": usage[1]}}


def good(dialect, text="Hello from B.", model="m-b", usage=(12, 4)):
    """A script that answers well: as a stream when asked for one, else whole."""
    def script(req):
        if b'"stream":true' in req.body.replace(b" ", b""):
            words = [w if i == 0 else " " + w for i, w in enumerate(text.split(" "))]
            return stream(*events(dialect, words, model=model, usage=usage))
        return Reply(http(200, whole(dialect, text, model, usage)))
    return script


def error_json(dialect, status, kind=None, message="made up", code=None):
    if dialect == "openai":
        return {"error": {"message": message, "type": kind or "server_error", "param": None, "code": code}}
    return {"type": "error", "error": {"type": kind or "api_error", "message": message}, "request_id": "req_x"}


# ---------------------------------------------------------------- the gateway

def provider_conf(port, dialect="openai", key="sk-prov-secret", scheme="http", host="127.0.0.1", **more):
    base = f"{scheme}://{host}:{port}" + ("/v1" if dialect == "openai" else "")
    return {"dialect": dialect, "base_url": base, "api_key": key, **more}


class Gateway:
    def __init__(self, tmp, config, env=None, binary=BINARY, wait=True, name="ringmain", nofile=None, pass_fds=()):
        """nofile: (soft, hard) limit of open files that it starts under; pass_fds: descriptors that it inherits."""
        self.dir = pathlib.Path(tmp)
        self.port, self.admin_port = free_port(), free_port()
        self.config = {"listen": f"127.0.0.1:{self.port}", "admin": f"127.0.0.1:{self.admin_port}", "workers": 1,
                       "ledger": "sqlite:ringmain.db", "ledger_flush_ms": 20, "access_log": "access.log", **config}
        self.path = self.dir / f"{name}.yaml"
        self.write(self.config)
        self.err = open(self.dir / f"{name}.err", "wb+")
        self.env = {**os.environ, **(env or {})}
        self.env.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0")
        self.proc = subprocess.Popen([binary, "serve", "-c", str(self.path)], cwd=self.dir, stdout=subprocess.PIPE, stderr=self.err, env=self.env,
                                     pass_fds=pass_fds, preexec_fn=nofile and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, nofile)))
        if wait:
            wait_for(self._is_up, 10, "the gateway to listen")

    def write(self, config):
        self.path.write_text(json.dumps(config, indent=1))

    def _is_up(self):
        if self.proc.poll() is not None:
            raise AssertionError(f"the gateway ended with {self.proc.returncode}:\n{self.log()}")
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def log(self):
        return (self.dir / self.err.name).read_text(errors="replace") if isinstance(self.err.name, str) else ""

    def access(self):
        p = self.dir / "access.log"
        return [json.loads(line) for line in p.read_text().splitlines()] if p.exists() else []

    def reload(self, config=None):
        n = self.log().count("reload:")
        if config is not None:
            self.config = config
            self.write(config)
        self.proc.send_signal(signal.SIGHUP)
        wait_for(lambda: self.log().count("reload:") > n, 5, "the reload to be reported")

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port))
        s.settimeout(20 * SLOW)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def send(self, path, body, headers=(), method="POST"):
        """Opens a connection, sends a request, returns the socket."""
        s = self.connect()
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: ringmain.test\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        for k, v in headers:
            head += f"{k}: {v}\r\n"
        s.sendall(head.encode() + b"\r\n" + (body or b""))
        return s

    def call(self, path, body, headers=(), method="POST"):
        with contextlib.closing(self.send(path, body, headers, method)) as s:
            return read_response(s, method == "HEAD")

    def chat(self, model="r", stream=True, content="Say something.", headers=(), **more):
        return self.call("/v1/chat/completions", {"model": model, "stream": stream, "messages": [{"role": "user", "content": content}], **more}, headers)

    def messages(self, model="r", stream=True, content="Say something.", headers=(), **more):
        return self.call("/v1/messages", {"model": model, "stream": stream, "max_tokens": 100, "messages": [{"role": "user", "content": content}], **more}, headers)

    def admin(self, path, headers=(), method="GET", host=None):
        def connect():
            try:
                return socket.create_connection(("127.0.0.1", self.admin_port))
            except ConnectionRefusedError:
                return None
        with wait_for(connect, 5, "the admin listener") as s:
            s.settimeout(10)
            head = f"{method} {path} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{self.admin_port}'}\r\nConnection: close\r\n"
            for k, v in headers:
                head += f"{k}: {v}\r\n"
            s.sendall(head.encode() + b"\r\n")
            return read_response(s, method == "HEAD")

    def row(self, response_or_id):
        """The request's object, once it is visible."""
        rid = response_or_id if isinstance(response_or_id, str) else response_or_id.headers["x-ringmain-request-id"]

        def get():
            r = self.admin(f"/api/requests/{rid}")
            return r.json() if r.status == 200 else None
        return wait_for(get, 3, f"row {rid}")

    def n_fds(self):
        return len(os.listdir(f"/proc/{self.proc.pid}/fd"))

    def rss_kb(self):
        for line in open(f"/proc/{self.proc.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1])

    def stop(self, sig=signal.SIGTERM, bound=20):
        if self.proc.poll() is None:
            self.proc.send_signal(sig)
            try:
                self.proc.wait(bound * SLOW)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
                raise AssertionError("the gateway did not stop:\n" + self.log())
        return self.proc.returncode


class Response:
    def __init__(self, status, headers, raw_head, body, is_whole, times=()):
        self.status, self.headers, self.raw_head, self.body, self.is_whole, self.times = status, headers, raw_head, body, is_whole, times

    def json(self):
        return json.loads(self.body)

    def events(self):
        """[(name, data text)] of an SSE body."""
        out = []
        for block in self.body.decode().split("\n\n"):
            name, data = None, []
            for line in block.split("\n"):
                if line.startswith("event:"):
                    name = line[6:].strip()
                elif line.startswith("data:"):
                    data.append(line[5:].lstrip(" ") if line.startswith("data: ") else line[5:])
            if data:
                out.append((name, "\n".join(data)))
        return out

    def text(self):
        """The answer's text, whatever the dialect, stream or whole."""
        if b"text/event-stream" not in self.raw_head.lower():
            d = self.json()
            if "choices" in d:
                return d["choices"][0]["message"]["content"]
            return "".join(b.get("text", "") for b in d["content"])
        out = ""
        for _, data in self.events():
            if data.strip() == "[DONE]":
                continue
            d = json.loads(data)
            if d.get("choices"):
                out += d["choices"][0]["delta"].get("content") or ""
            elif d.get("type") == "content_block_delta":
                out += d["delta"].get("text", "")
        return out

    def is_well_ended(self):
        """True for a stream that ended as its dialect demands."""
        evs = self.events()
        if not evs or not self.is_whole:
            return False
        return evs[-1][1].strip() == "[DONE]" or evs[-1][0] == "message_stop"

    def stream_error(self):
        """The error object of an in-stream error at the end, else None."""
        evs = self.events()
        if not evs or evs[-1][1].strip() == "[DONE]":
            return None
        d = json.loads(evs[-1][1])
        return d.get("error") if isinstance(d, dict) else None

    def trail(self):
        return [e.split(";") for e in self.headers.get("x-ringmain-trail", "").split(", ") if e]


def read_response(s, is_head=False):
    buf = b""
    while b"\r\n\r\n" not in buf:
        x = s.recv(65536)
        if not x:
            raise AssertionError(f"closed before a response: {buf!r}")
        buf += x
    head, rest = buf.split(b"\r\n\r\n", 1)
    if head.startswith(b"HTTP/1.1 100"):
        while b"\r\n\r\n" not in rest:
            rest += s.recv(65536)
        head, rest = rest.split(b"\r\n\r\n", 1)
    lines = head.decode("latin1").split("\r\n")
    status = int(lines[0].split(" ")[1])
    headers = {}
    for line in lines[1:]:
        k, _, v = line.partition(":")
        headers[k.strip().lower()] = v.strip()
    times = []
    if is_head or status in (204, 304):
        return Response(status, headers, head, b"", True)
    if headers.get("transfer-encoding") == "chunked":
        body, is_whole = b"", False
        while True:
            while b"\r\n" not in rest:
                x = s.recv(65536)
                if not x:
                    return Response(status, headers, head, body, False, times)
                rest += x
            line, rest = rest.split(b"\r\n", 1)
            n = int(line.split(b";")[0], 16)
            while len(rest) < n + 2:
                x = s.recv(65536)
                if not x:
                    return Response(status, headers, head, body + rest, False, times)
                rest += x
            if n == 0:
                return Response(status, headers, head, body, rest[:2] == b"\r\n", times)
            times.append((time.monotonic(), n))
            body, rest = body + rest[:n], rest[n + 2:]
    if "content-length" in headers:
        n = int(headers["content-length"])
        while len(rest) < n:
            x = s.recv(65536)
            if not x:
                return Response(status, headers, head, rest, False)
            rest += x
        return Response(status, headers, head, rest[:n], True)
    while True:
        x = s.recv(65536)
        if not x:
            return Response(status, headers, head, rest, True)
        rest += x

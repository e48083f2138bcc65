"""What the counts stand on: a gateway under callgrind or strace, a client on one kept connection, and figures as the
difference of two runs, so that start, warm-up and stop cancel out. Everything is on that costs: a client key, the ledger and
the access log on files."""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from harness import (BINARY, LAST, SSE_HEAD, Gateway, Provider, Reply, anthropic_events, chunk, http, openai_chunk, openai_events,  # noqa: E402,F401
                     provider_conf, read_response, stream, wait_for)

KEY = "counts-key"


def config(port, dialect="openai", ca=None, **route):
    """Under a tool on a busy machine a connection may take its time: what is counted does not depend on it. With `ca`, a certificate's
    file, the provider is reached over TLS."""
    secure = {"scheme": "https", "ca_file": str(ca)} if ca else {}
    return {"providers": {"a": provider_conf(port, dialect, **secure)}, "ledger_flush_ms": 200, "defaults": {"connect_timeout_ms": 60_000, "ttft_budget_ms": 60_000},
            "client_keys": [{"name": "app", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}],
            "routes": [{"model": "r", "chain": [{"provider": "a", "model": "m-a"}], **route}]}


def filled(text, n):
    return (text * (n // len(text) + 1))[:max(n, 0)]


def request_bytes(n_body, stream=False):
    """One whole HTTP request with a body of n_body bytes."""
    body = {"model": "r", **({"stream": True} if stream else {}),
            "messages": [{"role": "system", "content": "You are brief."}, {"role": "user", "content": ""}]}
    body["messages"][1]["content"] = filled("The quick brown fox jumps over the lazy dog, again. ", n_body - len(json.dumps(body)))
    return post(json.dumps(body).encode())


def post(raw):
    return (f"POST /v1/chat/completions HTTP/1.1\r\nHost: counts.test\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n").encode() + raw


TALK = ["Can you read this and say why it takes so long?\n", 'while (i < n) {\n\tputs("step\\n");\n\ti += 2;\n}\n',
        'Since Monday the graph named "p99" is up by a fifth; ', "Élodie wrote: déjà vu — no, a naïve loop. ",
        "Nothing else ran beside it, and a second machine shows the same. "]


def conversation_bytes(n_body):
    """One whole HTTP request whose body is a conversation of about n_body bytes, in turns of 900, with the escapes and the
    characters beyond ASCII that code and prose bring: harder to scan than one long text."""
    messages = [{"role": "system", "content": "You are brief."}]
    while len(json.dumps(messages, ensure_ascii=False).encode()) < n_body - 200:
        role = "user" if len(messages) % 2 else "assistant"
        messages.append({"role": role, "content": filled("".join(TALK), 830)})
    messages.append({"role": "user", "content": "Go on."})
    raw = json.dumps({"model": "r", "messages": messages}, ensure_ascii=False).encode()
    return post(raw)


def whole_answer(n_body=1500):
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1796000000, "model": "m-a", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 280, "total_tokens": 780}}
    body["choices"][0]["message"]["content"] = filled("Somewhere a dog sleeps and does not care. ", n_body - len(json.dumps(body)))
    return Reply(http(200, body))


def run_calls(gateway, n, request):
    """n calls one after the other on one connection; all must succeed."""
    with contextlib.closing(gateway.connect()) as s:
        for _ in range(n):
            s.sendall(request)
            r = read_response(s)
            assert r.status == 200 and r.is_whole, (r.status, r.body)


# ---------------------------------------------------------------- many calls at once

@contextlib.contextmanager
def stopped(gateway):
    """What is done meanwhile lies ready when the gateway goes on."""
    os.kill(gateway.proc.pid, signal.SIGSTOP)
    wait_for(lambda: process_state(gateway.proc.pid) in "Tt", 10, "the gateway to stop")
    try:
        yield
    finally:
        os.kill(gateway.proc.pid, signal.SIGCONT)


class Crowd:
    """Clients and their provider, in rounds: all requests are there before the gateway looks, and so are all answers. That
    is a gateway with more to do than it has time for, whatever the machine does: it is stopped meanwhile."""

    def __init__(self, n):
        self.n = n
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.upstream = {}

    def run(self, gateway, rounds, request, answer):
        """`rounds` rounds of n calls each, on kept connections."""
        clients = [gateway.connect() for _ in range(self.n)]
        for _ in range(rounds):
            with stopped(gateway):
                for c in clients:
                    c.sendall(request)
            asked = self.whole_requests()
            with stopped(gateway):
                for u in asked:
                    u.sendall(answer)
            for c in clients:
                r = read_response(c)
                assert r.status == 200 and r.is_whole, (r.status, r.body)
        for c in clients:
            c.close()

    def whole_requests(self):
        """The provider's connections with a whole request each, as soon as there are n."""
        found, deadline = [], time.monotonic() + 60
        while len(found) < self.n:
            assert time.monotonic() < deadline, f"{len(found)} of {self.n} requests have come"
            ready, _, _ = select.select([self.listener, *self.upstream], [], [], 1)
            for s in ready:
                if s is self.listener:
                    c, _ = s.accept()
                    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.upstream[c] = b""
                    continue
                got = s.recv(65536)
                if not got:
                    del self.upstream[s]
                    s.close()
                    continue
                self.upstream[s] += got
                if is_whole_request(self.upstream[s]):
                    self.upstream[s] = b""
                    found.append(s)
        return found

    def close(self):
        for s in (self.listener, *self.upstream):
            s.close()


def is_whole_request(got):
    head, end, body = got.partition(b"\r\n\r\n")
    return bool(end) and len(body) == int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))


def process_state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# ---------------------------------------------------------------- streams that the test drives

def certificate(folder):
    """A certificate for 127.0.0.1, which is its own authority: (path, what a TLS server is made of)."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=counts", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"], cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return folder / "cert.pem", context


class Stepper:
    """A provider whose streams are driven from the test, so that each chunk is one read and one write of the gateway
    whatever the machine does."""

    def __init__(self, tls=None):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.tls = tls

    def accept(self):
        """The next connection, its request read."""
        c, _ = self.listener.accept()
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls is not None:
            c = self.tls.wrap_socket(c, server_side=True)
        got = b""
        while b"\r\n\r\n" not in got:
            got += c.recv(65536)
        head, body = got.split(b"\r\n\r\n", 1)
        want = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
        while len(body) < want:
            body += c.recv(65536)
        return c

    def close(self):
        self.listener.close()


def word(i):
    return f" token-{i:06d}"


class Speech:
    """How a provider speaks: the events before its words, the event of a word, the events after them. `more`: members that
    each event has besides."""

    def __init__(self, **more):
        self.first = [openai_chunk({"role": "assistant", "content": ""}, **more)]
        self.event = lambda i: openai_chunk({"content": word(i)}, **more)
        self.last = [openai_chunk({}, "stop", **more), b"data: [DONE]\n\n"]


class AnthropicSpeech:
    def __init__(self):
        whole = list(anthropic_events([word(0)]))
        self.first, self.last = whole[:2], whole[3:]
        self.event = lambda i: whole[2].replace(b"token-000000", b"token-%06d" % i)


PLAIN, WITH_USAGE, ANTHROPIC = Speech(), Speech(usage=None), AnthropicSpeech()


class Watcher:
    """Reads a stream up to a mark."""

    def __init__(self, sock):
        self.sock, self.rest = sock, b""

    def until(self, mark):
        while mark not in self.rest:
            got = self.sock.recv(65536)
            assert got, "closed too early"
            self.rest += got
        self.rest = self.rest[self.rest.index(mark) + len(mark):]


def open_stream(gateway, stepper, speech=PLAIN):
    """A stream with its first token out: (client socket, its watcher, provider's socket)."""
    s = gateway.connect()
    s.sendall(request_bytes(2000, stream=True))
    up = stepper.accept()
    up.sendall(SSE_HEAD + b"".join(chunk(e) for e in [*speech.first, speech.event(0)]))
    watcher = Watcher(s)
    watcher.until(b"HTTP/1.1 200")
    watcher.until(b"token-000000")
    return s, watcher, up


def end_stream(s, watcher, up, speech=PLAIN):
    up.sendall(b"".join(chunk(e) for e in speech.last) + LAST)
    watcher.until(b"[DONE]")
    watcher.until(b"0\r\n\r\n")
    s.close()
    up.close()


def run_stream(gateway, stepper, n, speech=PLAIN):
    """One stream of n chunks; each is sent when the one before has reached the client."""
    s, watcher, up = open_stream(gateway, stepper, speech)
    for i in range(1, n):
        up.sendall(chunk(speech.event(i)))
        watcher.until(b"token-%06d" % i)
    end_stream(s, watcher, up, speech)


def run_streams(gateway, stepper, n_streams, n):
    """n_streams streams of n chunks; the next chunks of all lie ready at once."""
    streams = [open_stream(gateway, stepper) for _ in range(n_streams)]
    for i in range(1, n):
        with stopped(gateway):
            for _, _, up in streams:
                up.sendall(chunk(PLAIN.event(i)))
        for _, watcher, _ in streams:
            watcher.until(b"token-%06d" % i)
    for s in streams:
        end_stream(*s)


# ---------------------------------------------------------------- a life under a tool

def life(folder, tool, work, port, **route):
    """Starts the gateway under `tool`, calls work(gateway), stops it."""
    folder.mkdir()
    under = folder / "under"
    under.write_text(f'#!/bin/sh\nexec {tool} "{os.path.abspath(BINARY)}" "$@"\n')
    under.chmod(0o755)
    gateway = Gateway(folder, config(port, **route), binary=str(under))
    try:
        work(gateway)
    finally:
        code = gateway.stop(bound=60)
    assert code == 0, gateway.log()


def instructions(folder, work, port, **route):
    """{thread: user instructions} of one life. A `rep` instruction counts once per step."""
    life(folder, f"valgrind --quiet --tool=callgrind --separate-threads=yes --callgrind-out-file={folder}/cg.%p", work, port, **route)
    counts = {}
    for path in folder.glob("cg.*-*"):
        counts[path.name.rsplit("-", 1)[1]] = int(re.search(r"^totals: (\d+)", path.read_text(), re.M).group(1))
    assert counts, sorted(p.name for p in folder.iterdir())
    return counts


def system_calls(folder, work, port, **route):
    """{thread: {call: count}} of one life."""
    life(folder, f"strace -D -ff -q -o {folder}/st", work, port, **route)
    files = list(folder.glob("st.*"))
    wait_for(lambda: all("+++ exited" in p.read_text(errors="replace")[-200:] for p in files), 10, "strace to end")
    threads = {}
    for path in files:
        names = re.findall(r"^(\w+)\(", path.read_text(errors="replace"), re.M)
        threads[path.suffix] = {name: names.count(name) for name in set(names)}
    return threads


def loop_of(threads):
    """The worker's system calls."""
    return max(threads.values(), key=lambda calls: calls.get("epoll_pwait2", 0) + calls.get("epoll_wait", 0))


def together(works):
    """Runs the functions in threads, at the same time; an exception of one is raised here."""
    errors = []

    def run(work):
        try:
            work()
        except BaseException as e:
            errors.append(e)
    threads = [threading.Thread(target=run, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]

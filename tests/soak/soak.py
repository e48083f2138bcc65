#!/usr/bin/env python3
"""Mixed load with failovers for any time, and then the question whether anything has grown: memory, live objects, descriptors, or the
difference between what was asked and what the ledger holds.

    tests/soak/soak.py [--minutes 2] [--clients 12] [--seed 1] [--no-memory] [--plant memory|descriptor]

The binary is RINGMAIN_BINARY, else the release build; the providers are its own `mock`. Exit code 0: nothing grew and nothing unexpected was
answered. What is compared, and how:

- memory: resident KB each second, after a warm-up (two fifths of the time, at most a minute), in which tables fill up. The line through
  the samples must not rise by more than 1 MB over the span, or by more than 0.5 MB where the median of the last third is also 0.5 MB
  above that of the first. Without a leak it rises by 0.3 to 0.5 MB, in two minutes as in thirty; 100 bytes a request make 1 MB in
  10,000 requests.
- live objects and descriptors: before the load and after it, both times with no connection to a provider open (a reload to other
  addresses lets them go). They must be equal.
- ledger: rows = requests counted by the gateway = lines of the access log; each answer that a client had has its row; none lost."""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
os.environ.setdefault("RINGMAIN_BINARY", str(ROOT / "build/release/ringmain"))
import harness  # noqa: E402
from harness import Gateway, free_port, provider_conf, read_response, wait_for  # noqa: E402

GROWTH_KB, SURE_GROWTH_KB, SETTLE_S = 512, 1024, 20
PROMPTS = ["Say something about the sea. " * n for n in (1, 3, 10, 40, 150, 800)]
WORDS = "The sea was calm and the boats were out before the sun."

# route: (links as (provider, the mock's model), what a client must see). A model's name is the mock's fault.
ROUTES = {
    "good": ([("good", "m")], "text"),
    "tls": ([("tls", "m")], "text"),
    "translated": ([("claude", "m")], "text"),
    "limited": ([("bad", "429"), ("good", "m")], "text"),
    "overloaded": ([("bad", "503"), ("claude", "m")], "text"),
    "hanging": ([("bad", "hang"), ("good", "m")], "text"),
    "resetting": ([("bad", "reset"), ("tls", "m")], "text"),
    "inside": ([("bad", "error-in-200"), ("good", "m")], "text"),
    "strange": ([("bad", "html"), ("good", "m")], "text"),
    "cut": ([("bad", "cut:5"), ("good", "m")], "broken"),  # after its first token: told in the stream
    "red": ([("bad", "429"), ("bad", "500")], "error"),
    "slow": ([("slow", "m")], "text"),
}
FAULTS = ["429", "503", "500", "hang", "reset", "error-in-200", "html", "cut:5"]


class Providers:
    """One `ringmain mock` with all of them."""

    def __init__(self, folder):
        self.ports = {name: free_port() for name in ("good", "bad", "claude", "tls", "slow")}
        self.ca = certificate(folder)
        pace = {"ttft": 3, "gap_ms": 1, "words": WORDS, "tokens": 12}
        more = {"claude": {"dialect": "anthropic"}, "tls": {"tls": {"cert": "cert.pem", "key": "key.pem"}}, "slow": {"gap_ms": 30},
                "bad": {"faults": [{"fault": f, "model": f} for f in FAULTS]}}
        file = folder / "mock.yaml"
        file.write_text(json.dumps({"providers": [{"name": n, "port": p, **pace, **more.get(n, {})} for n, p in self.ports.items()]}))
        self.err = open(folder / "mock.err", "wb")
        self.proc = subprocess.Popen([harness.BINARY, "mock", "-c", str(file)], stdout=subprocess.DEVNULL, stderr=self.err)
        wait_for(lambda: all(self._listens(p) for p in self.ports.values()), 10, "the pretend providers")

    @staticmethod
    def _listens(port):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    def conf(self, away=False):
        """away: at addresses where nobody is, so that a reload lets every connection go."""
        at = lambda n: 1 if away else self.ports[n]
        return {"good": provider_conf(at("good")), "bad": provider_conf(at("bad")), "slow": provider_conf(at("slow")),
                "claude": provider_conf(at("claude"), "anthropic"), "tls": provider_conf(at("tls"), scheme="https", ca_file=str(self.ca))}

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait(20)
        self.err.close()


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
                    "-days", "2", "-subj", "/CN=soak", "-addext", "subjectAltName=IP:127.0.0.1"], cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem"


def config(providers, away=False):
    routes = []
    for i, (model, (links, _)) in enumerate(ROUTES.items()):
        chain = [{"provider": p, "model": m, **({"ttft_budget_ms": 250} if m == "hang" else {})} for p, m in links]
        # Every second route without a breaker: its faults are met each time; the others' soon by one request in many.
        routes.append({"model": model, "chain": chain, "idle_timeout_ms": 30000, **({"breaker": "off"} if i % 2 else {})})
    return {"providers": providers.conf(away), "routes": routes, "workers": 2, "drain_timeout_ms": 1000}


# ---------------------------------------------------------------- clients

class Clients:
    """Threads that ask, each with dice of its own. `faults` are answers that nobody should have had."""

    def __init__(self, gateway, n, seed):
        self.gateway, self.stop_at, self.lock = gateway, time.monotonic() + 1e9, threading.Lock()
        self.faults, self.done, self.ids = [], collections.Counter(), set()
        self.threads = [threading.Thread(target=self._live, args=(random.Random(f"{seed}/{i}"),), daemon=True) for i in range(n)]

    def run(self, seconds, each_second):
        self.stop_at = time.monotonic() + seconds
        for t in self.threads:
            t.start()
        while time.monotonic() < self.stop_at and not self.faults:
            time.sleep(min(1, max(0, self.stop_at - time.monotonic())))
            each_second()
        self.stop_at = 0
        for t in self.threads:
            t.join(120)
            if t.is_alive():
                self.faults.append("a client waits for an answer that does not come")

    def _live(self, rng):
        sock = None
        while time.monotonic() < self.stop_at:
            deed = rng.choices([self.ask, self.leave, self.leave_in_body, self.refused], [20, 3, 1, 1])[0]
            try:
                sock = deed(rng, sock)
            except (OSError, AssertionError, ValueError, KeyError) as e:
                with self.lock:
                    self.faults.append(f"{deed.__name__}: {type(e).__name__}: {e}")
                return
        if sock is not None:
            sock.close()

    def _counted(self, what, response=None):
        """response: one that is in the ledger."""
        with self.lock:
            self.done[what] += 1
            if response is not None and "x-ringmain-request-id" in response.headers:
                self.ids.add(response.headers["x-ringmain-request-id"])

    @staticmethod
    def _request(path, body, length=None):
        raw = json.dumps(body).encode()
        return (f"POST {path} HTTP/1.1\r\nHost: soak.test\r\nContent-Type: application/json\r\n"
                f"Content-Length: {length or len(raw)}\r\n\r\n").encode() + raw

    def _call(self, rng, route, stream=None):
        is_messages = rng.random() < 0.2
        body = {"model": route, "stream": rng.random() < 0.6 if stream is None else stream, "messages": [{"role": "user", "content": rng.choice(PROMPTS)}]}
        return body, self._request("/v1/messages", {**body, "max_tokens": 100}) if is_messages else self._request("/v1/chat/completions", body)

    def ask(self, rng, sock):
        """A whole answer or a stream, read to its end and held against what its route must give."""
        route = rng.choice(list(ROUTES))
        body, raw = self._call(rng, route)
        sock = sock or self.gateway.connect()
        sock.sendall(raw)
        r = read_response(sock)
        expected = ROUTES[route][1]
        self._counted(f"{route} {r.status}", r)
        if expected == "broken" and not body["stream"]:
            expected = "text"  # nothing was told yet: the next link serves
        if expected == "text":
            assert r.status == 200 and r.is_whole and r.text().strip() == WORDS, (route, r.status, r.body[-300:])
            assert not body["stream"] or r.is_well_ended(), (route, r.body[-300:])
        elif expected == "broken":
            is_open = r.status == 200 and r.text().startswith("The sea was calm") and r.stream_error() is not None
            assert is_open or r.text().strip() == WORDS, (route, r.status, r.body[-300:])  # or the breaker has gone past it
        else:
            assert r.status in (429, 500, 502, 503, 529) and b"error" in r.body, (route, r.status, r.body[-300:])
        if rng.random() < 0.7 and r.headers.get("connection") != "close":
            return sock
        sock.close()
        return None

    def leave(self, rng, sock):
        """Goes in the middle: before an answer, or in a stream; by FIN or RST."""
        own = self.gateway.connect()
        own.sendall(self._call(rng, rng.choice(["slow", "slow", "hanging", "good", "tls"]), True)[1])
        if rng.random() < 0.7:
            own.recv(200)
        if rng.random() < 0.5:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        own.close()
        self._counted("left")
        return sock

    def leave_in_body(self, rng, sock):
        own = self.gateway.connect()
        own.sendall(self._request("/v1/chat/completions", {"model": "good"}, length=5000))
        own.close()
        self._counted("left in the body")
        return sock

    def refused(self, rng, sock):
        """What the gateway answers by itself."""
        path, body, status = rng.choice([("/v1/chat/completions", {"model": "nobody", "messages": []}, 404), ("/v1/chat/completions", [], 400),
                                         ("/v1/nothing", {}, 404), ("/healthz", None, 200)])
        r = self.gateway.call(path, body, method="POST" if body is not None else "GET")
        assert r.status == status, (path, r.status, r.body[:200])
        self._counted(f"by itself {status}", r if status != 200 else None)  # /healthz is in no ledger
        return sock


# ---------------------------------------------------------------- what is looked at

def metrics(gateway):
    text = gateway.admin("/metrics").body.decode()
    return {m.group(1): float(m.group(2)) for m in re.finditer(r"^(ringmain_[^ ]+) ([\d.]+)$", text, re.M)}


def live(gateway):
    """Objects by type, and descriptors, of a gateway that nobody uses but this question."""
    m = metrics(gateway)
    found = {name.split('"')[1]: int(v) for name, v in m.items() if name.startswith("ringmain_live_objects")}
    assert found, "the gateway does not tell its live objects"
    return {**found, "descriptors": gateway.n_fds()}


def at_rest(gateway, providers, like=None):
    """Lets every connection to a provider go, and reads what lives. like: waits until it is that, for so long as connections end."""
    gateway.reload({**gateway.config, **config(providers, away=True)})
    wait_for(lambda: metrics(gateway)["ringmain_requests_in_flight"] == 0, 30, "requests in flight to end")
    end, was, now = time.monotonic() + SETTLE_S, None, live(gateway)
    while now != (like or was) and time.monotonic() < end:
        time.sleep(0.1)
        was, now = now, live(gateway)
    gateway.reload({**gateway.config, **config(providers)})
    return now


def growth(samples):
    """(KB by which the line through the samples rises, KB between the medians of the first and of the last third)."""
    n, third = len(samples), max(1, len(samples) // 3)
    x_mean, y_mean = (n - 1) / 2, statistics.fmean(samples)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in enumerate(samples)) / max(1, sum((x - x_mean) ** 2 for x in range(n)))
    return slope * (n - 1), statistics.median(samples[-third:]) - statistics.median(samples[:third])


def has_grown(line_kb, medians_kb):
    return line_kb > SURE_GROWTH_KB or (line_kb > GROWTH_KB and medians_kb > GROWTH_KB)


def rows_of(folder):
    with contextlib.closing(sqlite3.connect(f"file:{folder / 'ringmain.db'}?mode=ro", uri=True)) as db:
        return db.execute("SELECT count(*) FROM request").fetchone()[0]


def told_of_requests(m):
    return int(sum(v for name, v in m.items() if name.startswith("ringmain_requests_total")) + m["ringmain_refused_total"])


def books(gateway, clients, faults):
    """Ledger, access log and counters tell the same number, and know each answer that a client had."""
    m = metrics(gateway)
    with contextlib.suppress(AssertionError):
        wait_for(lambda: rows_of(gateway.dir) == told_of_requests(metrics(gateway)), 10, "the last rows")
    n, rows, lines = told_of_requests(metrics(gateway)), rows_of(gateway.dir), 0
    unknown = set(clients.ids)
    for line in open(gateway.dir / "access.log"):
        lines += 1
        unknown.discard(json.loads(line)["id"])
    print(f"soak: {n} requests by the counters, {rows} rows, {lines} lines of the access log, {len(clients.ids)} answers with an id")
    if not n == rows == lines:
        faults.append("counters, ledger and access log differ")
    if unknown:
        faults.append(f"{len(unknown)} answers have no row, for one {sorted(unknown)[0]}")
    if m["ringmain_ledger_rows_lost_total"] or m["ringmain_ledger_degraded"]:
        faults.append("the ledger has lost rows or is degraded")


def planted(kind, folder):
    """The environment under which the gateway loses something with each connection."""
    if not kind:
        return {}
    subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", folder / "plant.so", ROOT / "tests/soak/plant.c"], check=True)
    return {"LD_PRELOAD": str(folder / "plant.so"), "PLANT": kind}


def soak(o, folder):
    providers = Providers(folder)
    gateway = Gateway(folder, config(providers), env=planted(o.plant, folder))
    faults = []
    try:
        Clients(gateway, 2, "warm").run(3, lambda: None)
        before = at_rest(gateway, providers)
        clients, samples = Clients(gateway, o.clients, o.seed), []
        start, warm_s = time.monotonic(), min(60, o.minutes * 60 * 2 / 5)
        clients.run(o.minutes * 60, lambda: samples.append((time.monotonic() - start, gateway.rss_kb())))
        faults += clients.faults[:5]
        kept = [kb for at, kb in samples if at > warm_s]
        line_kb, medians_kb = growth(kept) if len(kept) > 2 else (0, 0)
        after = at_rest(gateway, providers, before)
        tell(clients, samples, kept, line_kb, medians_kb, before, after)
        if has_grown(line_kb, medians_kb) and not o.no_memory:
            faults.append(f"memory grows: by {line_kb:.0f} KB on the line, {medians_kb:.0f} KB between the thirds")
        if after != before:
            faults.append(f"left behind: {({k: after[k] - before[k] for k in after if after[k] != before[k]})}")
        books(gateway, clients, faults)
        if len(kept) <= 2 and not faults:
            faults.append("too short for a judgement of memory")
    finally:
        code = gateway.stop(bound=60)
        providers.stop()
    if code != 0:
        faults.append(f"the gateway ended with {code}:\n{gateway.log()[-2000:]}")
    return faults


def tell(clients, samples, kept, line_kb, medians_kb, before, after):
    total = sum(clients.done.values())
    print(f"soak: {total} calls: " + ", ".join(f"{k}: {v}" for k, v in sorted(clients.done.items())))
    if kept:
        tenths = ", ".join(str(samples[len(samples) * i // 10][1]) for i in range(10))
        print(f"soak: resident KB each tenth of the time: {tenths}, {samples[-1][1]}; after the warm-up the line rises by {line_kb:.0f}, "
              f"the thirds' medians differ by {medians_kb:.0f}")
    print(f"soak: alive before {before}\nsoak: alive after  {after}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--minutes", type=float, default=2)
    ap.add_argument("--clients", type=int, default=12)
    ap.add_argument("--seed", default="1")
    ap.add_argument("--no-memory", action="store_true", help="do not judge resident memory: a sanitizer keeps what was freed")
    ap.add_argument("--plant", choices=["memory", "descriptor"], help="a leak on purpose: this run must fail")
    o = ap.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        faults = soak(o, pathlib.Path(folder))
    for f in faults:
        print(f"soak: FAULT: {f}")
    print("soak: " + ("failed" if faults else "nothing grew, nothing was left, nothing unexpected was answered"))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

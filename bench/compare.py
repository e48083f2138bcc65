#!/usr/bin/env python3
"""Ringmain beside HAProxy and nginx: runs the bench kit's workloads and those that the kit has not, and writes one table with ratios and
what was asked for. See README.md.

    bench/compare.py KIT [--quick] [--only kit,latency,connections,unasked,tls,translation,workers,leaving,hang,size,burst,counts]

Writes build/bench/DATE.json and DATE.md, and prints the table. Exit code: 0, whatever the figures are; 1 when something could not be
measured, 2 for usage."""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import stage
import table
from stage import HERE, LOAD_CPU, MOCK_DIALECTS, PROXY_CPU, ROOT, TLS_PORT, WORK, Kit, Process, Proxy, Refused, chunks, in_turns, requests, ringmain

WHOLE = ("-b", 2048)
PACED = ("--chunks", 200, "--mock", "gap=2000")
CONNECTIONS = {1: 2000, 8: 2000, 64: 2000, 1000: 31250}  # clients: microseconds between chunks, so that the load can be made on one core


def told(what, figures):
    print(f"  {what}: " + ", ".join(f"{k} {v:.4g}" for k, v in figures.items()), flush=True)


def nginx(kit):
    return Proxy("nginx", ["nginx", "-c", kit.folder / "targets/nginx.conf"], 8081)


def haproxy(kit):
    return Proxy("haproxy", ["haproxy", "-db", "-f", kit.folder / "targets/haproxy.cfg"], 8082)


@contextlib.contextmanager
def running(*makers):
    """Starts one after the other, ends all."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(_Ending(make()))).process for make in makers]


class _Ending:
    def __init__(self, process):
        self.process = process

    def close(self):
        self.process.stop()


def warm(kit, proxies):
    for p in proxies:
        kit.load(p, "-c", 64, "-t", 0.5)
        kit.load(p, "-c", 64, "-s", "-t", 0.5)


# ---- the parts ----

def part_kit(kit, o):
    """The kit's own workloads. As shipped, an answer is collected from a stream, so that row is its own; see README.md."""
    shipped, direct = HERE / "ringmain.json", HERE / "ringmain-direct.json"
    if o.quick:
        plan = [(["--targets", "nginx,haproxy", "--target-file", direct], "W1,W1r,W2,W3,W3p,L,LS,W4"),
                (["--targets", "nginx", "--target-file", direct, "--target-file", shipped], "W5")]
    else:
        plan = [(["--targets", "nginx,haproxy", "--target-file", direct, "--target-file", shipped], "W1,W1r,W2,W3,W3p,L,LS,W4,W5")]
    merged, versions = {}, {}
    WORK.mkdir(parents=True, exist_ok=True)
    for targets, workloads in plan:
        for old in [*WORK.glob("direct.*"), *WORK.glob("ringmain.db*"), *WORK.glob("access.log")]:
            old.unlink()
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            streams = "1000" if o.quick else "1000,5000,9500"
            cmd = [kit.folder / "proxybench", *targets, "--workloads", workloads, "--rounds", o.rounds, "--seconds", o.seconds, "--streams", streams,
                   "--hold", 2 if o.quick else 5, "--out", out.name]
            with contextlib.suppress(FileNotFoundError):
                pathlib.Path(out.name).write_text("")
            subprocess.run([str(x) for x in cmd], cwd=ROOT, check=True, env={**os.environ, "RINGMAIN_BINARY": stage.BINARY})
            got = json.loads(pathlib.Path(out.name).read_text())
        versions |= got["versions"]
        for name, figures in got["medians"].items():
            merged.setdefault(name, {}).update(figures)
    return {"medians": merged, "versions": versions}


def compared(kit, o, proxies, runs):
    """{run: {proxy: figures}}"""
    warm(kit, proxies)
    got = {}
    for name, measure in runs.items():
        print(f"{name}:", flush=True)
        got[name] = in_turns(o.rounds, {p.name: lambda p=p: measure(p) for p in proxies}, told)
    return got


def part_latency(kit, o):
    """The kit's L and LS with no wait at the provider: its histogram has steps of 1.6 % of the whole time, which are 33 us of LS's 5 ms."""
    def run(seen, rate, *args):
        def measure(p):
            r = kit.load(p, "-c", 256, "-t", max(o.seconds, 2), "-r", rate, "-b", 2048, *args)
            return {"p50_us": r[seen]["p50"], "p99_us": r[seen]["p99"], "errors": r["errors"] + (r["ok"] == 0)}
        return measure
    runs = {"L": run("latency_us", 1000), "LS": run("ttft_us", 100, "-s", "--chunks", 20, "--mock", "ttft=0 gap=1000 chunks=20")}
    with running(kit.provider, lambda: nginx(kit), lambda: haproxy(kit), lambda: ringmain("direct", 8094)) as (provider, *proxies):
        got = compared(kit, o, [stage.Target(provider.name, stage.PROVIDER_PORT), *proxies], runs)
    for by_proxy in got.values():
        alone = by_proxy.pop(provider.name)
        for figures in by_proxy.values():
            figures |= {q: figures[q] - alone[q] for q in ("p50_us", "p99_us")}
    return got


def part_connections(kit, o):
    runs = {}
    for n, gap in CONNECTIONS.items():
        if n == 64 or (o.quick and n == 8):
            continue  # 64 are the kit's own W1 and W3p
        runs[f"W1 {n}"] = lambda p, n=n: requests(kit, p, "-c", n, "-t", o.seconds, *WHOLE)
        runs[f"W3p {n}"] = lambda p, n=n, gap=gap: chunks(kit, p, "-c", n, "-t", o.seconds, "--chunks", 200 if n < 1000 else 40, "--mock",
                                                          f"gap={gap}" + (" chunks=40" if n == 1000 else ""))
    with running(kit.provider, lambda: nginx(kit), lambda: haproxy(kit), lambda: ringmain("direct", 8094)) as (_, *proxies):
        return compared(kit, o, proxies, runs)


def part_unasked(kit, o):
    """Streams whose client did not ask for usage: the gateway asks and takes it out again; for the others nothing differs."""
    body = kit.body("-s", "-b", 2048, "--mock", "gap=2000")
    bare = re.sub(rb'"stream_options":\{"include_usage":true\},', b"", body)
    if bare == body:
        raise Refused("the kit's streams do not ask for usage: the row W3p is already that of those who do not")
    file = WORK / "unasked.json"
    WORK.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bare)
    run = lambda p: chunks(kit, p, "-c", 64, "-t", o.seconds, "--chunks", 200, "--body-file", file)
    with running(kit.provider, lambda: nginx(kit), lambda: haproxy(kit), lambda: ringmain("direct", 8094)) as (_, *proxies):
        return compared(kit, o, proxies, {"W3p": run})


def held(kit, o, proxy, n):
    """Memory of n silent streams: resident bytes each, above those of the proxy when idle."""
    kit.load(proxy, "-n", 4, "-c", 2, "-s")
    idle = proxy.rss()
    with tempfile.TemporaryDirectory() as folder:
        ready = pathlib.Path(folder) / "ready"
        load = subprocess.Popen(kit.command(proxy, "-s", "-c", n, "-n", n, "--ramp", 250, "--timeout", 600, "--ready-file", ready, "--sources", 4,
                                            "--mock", "gap=1000000 chunks=3600"), stdout=subprocess.PIPE)
        try:
            stage.wait_for(ready.exists, f"{n} streams through {proxy.name}", 60)
            time.sleep(o.hold)
            each = (proxy.rss() - idle) / n
        finally:
            load.send_signal(signal.SIGTERM)
            errors = json.loads(load.communicate()[0])["errors"]
    return {"rss_bytes": each, "idle_mb": idle / 1e6, "errors": errors}


def part_tls(kit, o):
    stage.certificate()
    front = lambda: Process("tls-front", ["haproxy", "-db", "-f", stage.peers_config("front.cfg")], TLS_PORT, LOAD_CPU)
    peers = [lambda: Proxy("nginx", ["nginx", "-c", stage.peers_config("nginx.conf")], 8181),
             lambda: Proxy("haproxy", ["haproxy", "-db", "-f", stage.peers_config("haproxy.cfg")], 8182),
             lambda: ringmain("direct-tls", 8194, providers=tls_provider())]
    runs = {"W1": lambda p: requests(kit, p, "-c", 64, "-t", o.seconds, *WHOLE), "W3p": lambda p: chunks(kit, p, "-c", 64, "-t", o.seconds, *PACED)}
    with running(kit.provider, front, *peers) as (_, _, *proxies):
        got = compared(kit, o, proxies, runs)
    got["W4"] = {}
    for peer in peers:  # each fresh: memory that a run before has left would be counted
        with running(kit.provider, front, peer) as (_, _, proxy):
            got["W4"][proxy.name] = held(kit, o, proxy, 1000)
            told(f"{proxy.name} W4", got["W4"][proxy.name])
    return got


def tls_provider():
    link = lambda name, url: f'  {name}: {{ dialect: openai, base_url: "{url}", api_key: "sk-bench", ca_file: ca.pem }}\n'
    return "providers:\n" + link("ok", f"https://127.0.0.1:{TLS_PORT}/v1") + \
        "".join(f'  {n}: {{ dialect: openai, base_url: "http://127.0.0.1:{p}/v1", api_key: "sk-bench" }}\n' for n, p in (("limited", 9102), ("hung", 9103)))


def pretend(dialect):
    """Our own pretend provider, at once and paced: the kit's speaks no Anthropic. 190 words are the 1.5 KB of the kit's answer."""
    at_once, paced = MOCK_DIALECTS[dialect]
    return Process(f"mock-{dialect}", [stage.BINARY, "mock", "--dialect", dialect, "--ttft-ms", 0, "--tokens", 190,
                                       "--provider", f"port={at_once},gap-ms=0", "--provider", f"port={paced},gap-ms=4"], paced, LOAD_CPU)


def two_dialects():
    """Providers and routes: the same dialect and the other, for whole answers and for paced streams."""
    providers, routes = "providers:\n", "routes:\n"
    for model, dialect, path in (("same", "openai", "/v1"), ("translated", "anthropic", "")):
        for port, pace in zip(MOCK_DIALECTS[dialect], ("", "-paced")):
            providers += f'  {model}{pace}: {{ dialect: {dialect}, base_url: "http://127.0.0.1:{port}{path}", api_key: "sk-bench" }}\n'
            routes += f"  - {{ model: {model}{pace}, upstream_stream: off, breaker: off, chain: [{{ provider: {model}{pace} }}] }}\n"
    return {"providers": providers, "routes": routes}


def part_translation(kit, o):
    """An OpenAI client at an Anthropic target, beside the same client at an OpenAI target: one gateway, both providers our own."""
    runs = {"W1": ("", lambda g: requests(kit, g, "-c", 64, "-t", o.seconds, *WHOLE)), "W3p": ("-paced", lambda g: chunks(kit, g, "-c", 64, "-t", o.seconds))}
    with running(lambda: pretend("openai"), lambda: pretend("anthropic"), lambda: ringmain("translation", 8196, **two_dialects())) as (_, _, gateway):
        def at(model, measure):
            gateway.model = model
            return measure(gateway)
        return {w: stage.in_turns(o.rounds, {m: lambda m=m: at(m + pace, measure) for m in ("same", "translated")}, told)
                for w, (pace, measure) in runs.items()}


def part_workers(kit, o):
    """One worker on one core; two on all cores, the load beside them."""
    every = f"{PROXY_CPU},{LOAD_CPU}"
    with running(kit.provider, lambda: ringmain("one-worker", 8198), lambda: ringmain("two-workers", 8200, cpus=every, workers="workers: 2")) as (_, *proxies):
        return compared(kit, o, proxies, {"W1": lambda p: requests(kit, p, "-c", 64, "-t", o.seconds, *WHOLE)})


def part_leaving(kit, o):
    """64 clients of paced streams die at once: how long until the provider has lost all of them."""
    got = {}
    with running(kit.provider, lambda: nginx(kit), lambda: haproxy(kit), lambda: ringmain("direct", 8094)) as (_, *proxies):
        for p in proxies:
            load = subprocess.Popen(kit.command(p, "-s", "-c", 64, "-n", 64, "--mock", "gap=20000 chunks=3000"), stdout=subprocess.DEVNULL)
            stage.wait_for(lambda: kit.stats()["active"] == 64, "64 streams")
            load.kill()
            load.wait()
            t = time.monotonic()
            stage.wait_for(lambda: kit.stats()["active"] == 0, f"{p.name} to close its streams", 30)
            got[p.name] = {"ms": (time.monotonic() - t) * 1000}
            told(p.name, got[p.name])
    return got


def over_budget(proxy, path, head, body, n):
    """Milliseconds beyond 200 until the answer is whole, of n requests one after the other: by a clock of microseconds, where the kit's has
    steps of 2 ms at that height."""
    ask = (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer sk-bench-0123456789abcdef\r\n{head}"
           f"Content-Length: {len(body)}\r\n\r\n").encode() + body
    times, errors = [], 0
    with socket.create_connection(("127.0.0.1", proxy.port)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(n):
            t = time.perf_counter()
            s.sendall(ask)
            answer = http.client.HTTPResponse(s)
            answer.begin()
            answer.read()
            times.append((time.perf_counter() - t) * 1000 - 200)
            errors += answer.status != 200
    return times, errors


def part_hang(kit, o):
    """The primary hangs, its budget is 200 ms: how long after it the other's whole answer is there."""
    n, body = (15 if o.quick else 150), kit.body("-b", 2048)
    ours = ("/v1/chat/completions", "x-routing: order:hung,ok\r\n")
    ways = {"nginx": ("/hung/v1/chat/completions", ""), "direct": ours, "ringmain": ours}
    shipped = {"upstream_stream": "", "budget": "ttft_budget_ms: 200"}
    got = {}
    with running(kit.provider, lambda: nginx(kit), lambda: ringmain("direct", 8094), lambda: ringmain("ringmain", 8210, **shipped)) as (_, *proxies):
        for p in proxies:
            over_budget(p, *ways[p.name], body, 2)
            times, errors = over_budget(p, *ways[p.name], body, n)
            times.sort()
            got[p.name] = {"p50_us": times[n // 2] * 1000, "p99_us": times[min(n - 1, n * 99 // 100)] * 1000, "errors": errors}
            told(p.name, got[p.name])
    return got


def part_size(kit, o):
    """The program stripped, and the resident memory of one that has just started."""
    with tempfile.TemporaryDirectory() as folder:
        bare = pathlib.Path(folder) / "ringmain"
        subprocess.run(["strip", "-o", bare, stage.BINARY], check=True)
        size = bare.stat().st_size
    with running(lambda: ringmain("direct", 8094)) as (gateway,):
        return {"binary_mb": size / 1e6, "idle_mb": gateway.rss() / 1e6}


def part_burst(kit, o):
    """2,000 requests of 1 MB, 20 at once: resident memory before, at most, and when it is over."""
    n = 200 if o.quick else 2000
    with running(kit.provider, lambda: ringmain("direct", 8094)) as (_, gateway):
        kit.load(gateway, "-c", 20, "-n", 400, *WHOLE)
        before = most = gateway.rss()
        load = subprocess.Popen(kit.command(gateway, "-c", 20, "-n", n, "-b", 1000000), stdout=subprocess.PIPE)
        while load.poll() is None:
            most = max(most, gateway.rss())
            time.sleep(0.02)
        errors = json.loads(load.communicate()[0])["errors"]
        with contextlib.suppress(Refused):
            stage.wait_for(lambda: gateway.rss() <= before * 1.1, "memory to come back", 5)
        figures = {"before_mb": before / 1e6, "most_mb": most / 1e6, "after_mb": gateway.rss() / 1e6, "errors": errors}
    told(f"{n} requests", figures)
    return figures


def part_counts(kit, o):
    """What is exact: instructions, system calls and bytes, as the tests measure and gate them."""
    run = subprocess.run([ROOT / "build/venv/bin/python", "-m", "pytest", "-q", "-s", "tests/counts"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "RINGMAIN_BINARY": stage.BINARY})
    lines = [x.strip() for x in run.stdout.splitlines() if re.match(r"  \S.*: ", x)]
    print("\n".join(lines), flush=True)
    if run.returncode != 0:
        print(run.stdout[-2000:])
    return {"passed": run.returncode == 0, "lines": lines}


PARTS = {"kit": part_kit, "latency": part_latency, "connections": part_connections, "unasked": part_unasked, "tls": part_tls, "translation": part_translation,
         "workers": part_workers, "leaving": part_leaving, "hang": part_hang, "size": part_size, "burst": part_burst, "counts": part_counts}


# ---- all of it ----

def machine():
    cpu = re.search(r"^model name[^:]*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    return {"cores": os.cpu_count(), "cpu": cpu.group(1) if cpu else "unknown", "kernel": os.uname().release, "commit": commit,
            "when": time.strftime("%Y-%m-%d %H:%M"), "load_before": os.getloadavg()[0]}


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("kit", nargs="?", default=os.environ.get("RINGMAIN_BENCH_KIT"), help="the folder of the bench kit, writable (RINGMAIN_BENCH_KIT)")
    ap.add_argument("--quick", action="store_true", help="one short round: shows that it works; its figures are rough")
    ap.add_argument("--rounds", type=int)
    ap.add_argument("--seconds", type=float, help="of each run")
    ap.add_argument("--only", help="parts, with commas; default: all (quick: all but counts, which take minutes)")
    ap.add_argument("--out", help="the table and the figures go to this name with .md and .json")
    o = ap.parse_args()
    o.rounds = o.rounds or (1 if o.quick else 3)
    o.seconds = o.seconds or (0.6 if o.quick else 4)
    o.hold = 1 if o.quick else 5
    o.parts = o.only.split(",") if o.only else [p for p in PARTS if p != "counts" or not o.quick]
    if not o.kit or set(o.parts) - set(PARTS):
        ap.error("give the bench kit's folder, and parts among: " + " ".join(PARTS))
    return o


def measure(kit, o):
    result = {"machine": machine(), "quick": o.quick, "rounds": o.rounds, "seconds": o.seconds, "parts": {}, "failed": {}}
    for name in o.parts:
        print(f"\n== {name}: {PARTS[name].__doc__ or 'W1 and W3p by the number of clients'}".split("\n")[0], flush=True)
        t = time.monotonic()
        try:
            result["parts"][name] = PARTS[name](kit, o)
        except (Refused, subprocess.CalledProcessError, OSError) as e:
            result["failed"][name] = str(e)
            print(f"  not measured: {e}", flush=True)
        print(f"  ({time.monotonic() - t:.0f} s)", flush=True)
    result["machine"]["load_after"] = os.getloadavg()[0]
    return result


def main():
    o = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        kit = Kit(o.kit)
    except Refused as e:
        sys.exit(f"bench: {e}")
    result = measure(kit, o)
    text = table.markdown(result)
    out = pathlib.Path(o.out) if o.out else WORK / time.strftime("%Y-%m-%d-%H%M")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_name(out.name + ".json").write_text(json.dumps(result, indent=1) + "\n")
    out.with_name(out.name + ".md").write_text(text)
    print("\n" + text)
    print(f"written: {out}.json, {out}.md")
    sys.exit(1 if result["failed"] else 0)


if __name__ == "__main__":
    main()

"""Descriptors: the limit is raised at start, its shortage is told in numbers before anybody meets it, and running out does neither
spin nor take the service down."""
import contextlib
import json
import os
import re
import resource
import socket
import subprocess
import time

import pytest

from harness import BINARY, SLOW, SSE_HEAD, Reply, chunk, cpu_seconds, good, openai_chunk, provider_conf, read_response, wait_for


def config(port, **more):
    return {"providers": {"a": provider_conf(port)}, "routes": [{"model": "r", "order": ["a"]}], **more}


def limit_of(g):
    """(soft, hard) of the running process."""
    line = next(x for x in open(f"/proc/{g.proc.pid}/limits") if x.startswith("Max open files"))
    return tuple(map(int, line.split()[3:5]))


def promised(log):
    return int(re.search(r"enough for (\d+) client connections", log).group(1))


def test_the_limit_is_raised_to_the_hard_one(world):
    g = world.gateway(config(world.provider(good("openai")).port, limits={"connections": 100}), nofile=(64, 1024))
    assert limit_of(g) == (1024, 1024)
    assert "open files" not in g.log()  # enough for what is configured: nothing to say
    assert g.chat().text() == "Hello from B."


def refused(tmp_path, world, nofile, pass_fds=()):
    g = world.gateway(config(1), nofile=nofile, pass_fds=pass_fds, wait=False)
    world.gateways.remove(g)
    assert g.proc.wait(20 * SLOW) == 1, g.log()
    lines = g.log().splitlines()
    assert len(lines) == 1, lines  # no assertion, no trace
    return lines[0]


def test_too_few_to_start(tmp_path, world):
    line = refused(tmp_path, world, (30, 30))
    said = re.fullmatch(r"ringmain: too few descriptors: the hard limit of open files \(ulimit -Hn\) is 30, a start needs (\d+), "
                        r"and limits.connections = 10000 would need (\d+)", line)
    assert said, line
    least, needed = map(int, said.groups())
    assert 30 < least < 80 and needed > 20000
    g = world.gateway(config(world.provider(good("openai")).port), nofile=(least, least))  # what it says is enough
    assert promised(g.log()) >= 4
    assert g.chat().text() == "Hello from B."
    assert g.admin("/api/health").status == 200


def test_inherited_descriptors_count(tmp_path, world):
    with contextlib.ExitStack() as stack:
        fds = [stack.enter_context(open(os.devnull)).fileno() for _ in range(60)]
        top = max(fds) + 1
        line = refused(tmp_path, world, (top, top), pass_fds=fds)
    assert f"is {top}, a start needs" in line


@pytest.mark.parametrize("n", range(4, 12))
def test_no_crash_whatever_few_there_are(tmp_path, world, n):
    assert refused(tmp_path, world, (n, n)).startswith("ringmain: ")


def test_check_says_it(tmp_path):
    path = tmp_path / "ringmain.yaml"
    path.write_text(json.dumps(config(1)))

    def check(nofile, *more):
        return subprocess.run([BINARY, "check", "-c", str(path), *more], capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile)))
    short = check(200)
    said = re.search(r"files +200 may be open: enough for (\d+) client connections at once, limits.connections = 10000 would need 2\d{4}", short.stdout)
    assert short.returncode == 0 and said, short
    figures = json.loads(check(200, "--json").stdout)
    assert figures["ok"] and figures["descriptors"]["limit"] == 200 and figures["descriptors"]["connections"] == int(said.group(1))
    none = check(25)
    assert none.returncode == 1 and "error: too few descriptors" in none.stderr and "is 25," in none.stderr
    figures = json.loads(check(25, "--json").stdout)
    assert not figures["ok"] and figures["errors"] == 1 and figures["descriptors"]["connections"] == 0


def test_as_many_as_promised_are_served_and_the_next_is_told(world):
    """All of the promised clients have a stream at once, each with a connection to the provider; one more is answered 503."""
    def script(req):
        return Reply(SSE_HEAD, chunk(openai_chunk({"content": "Hello"})), end="hang")
    a = world.provider(script)
    g = world.gateway(config(a.port), nofile=(120, 120))
    n = promised(g.log())
    assert 20 <= n < 60
    streams = []
    for _ in range(n):  # one after the other: a connection that was closed a moment ago would count
        s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": [{"role": "user", "content": "x"}]})
        got = b""
        while b"Hello" not in got:
            more = s.recv(65536)
            assert more, (len(streams), got)
            got += more
        assert got.startswith(b"HTTP/1.1 200")
        streams.append(s)
    assert len(a.requests) == n
    over = g.call("/healthz", None, method="GET")
    assert over.status == 503 and over.json()["error"]["code"] == "too_many_connections" and int(over.headers["retry-after"]) >= 1
    for s in streams:
        s.close()
    wait_for(lambda: g.call("/healthz", None, method="GET").status == 200, what="places for clients again")
    wait_for(lambda: a.open == 0, what="the provider's streams to be closed")
    assert "out of descriptors" not in g.log()


def test_running_out_while_serving_does_not_spin(world):
    """The limit falls under what is open (another way to it: somebody else's files). Clients wait in the queue, the log says it
    once, neither listener spins, and then all are served."""
    a = world.provider(good("openai"))
    g = world.gateway(config(a.port))
    assert g.chat().text() == "Hello from B."
    assert g.admin("/metrics").status == 200
    n = g.n_fds()
    subprocess.run(["prlimit", f"--pid={g.proc.pid}", f"--nofile={n}:"], check=True)
    ask = {"model": "r", "stream": False, "messages": [{"role": "user", "content": "x"}]}
    waiting = [g.send("/v1/chat/completions", ask) for _ in range(30)]
    wait_for(lambda: g.log().count("out of descriptors") >= 1, what="the shortage to be told")
    panel = socket.create_connection(("127.0.0.1", g.admin_port))
    panel.settimeout(20 * SLOW)
    before, start = cpu_seconds(g), time.monotonic()
    wait_for(lambda: time.monotonic() - start > 1)
    spent = cpu_seconds(g) - before
    assert spent < 0.15, f"{spent} s of CPU in a second of waiting"  # it tries again some thirty times
    assert g.log().count("out of descriptors") < 5
    subprocess.run(["prlimit", f"--pid={g.proc.pid}", "--nofile=1000:"], check=True)
    for s in waiting:
        assert read_response(s).status == 200
        s.close()
    with contextlib.closing(panel):
        panel.sendall(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{g.admin_port}\r\n\r\n".encode())
        assert read_response(panel).status == 200
    assert g.admin("/api/health").status == 200

"""Cases of the kinds USE, UX, OPS and POL: tokens and money, what the operator sees, running it, connections kept warm.
What must happen stands in cases/<id>/expect.md. Money is told in nano-dollars; a case's micro-USD are a thousand of them."""
import concurrent.futures
import contextlib
import json
import signal
import socket
import sqlite3
import struct
import subprocess
import time

import pytest

from case_player import PRICES, chunks_of, client_keys, read_words, reply, request, script, stage, up  # noqa: F401 (stage is a fixture)
from harness import BINARY, SLOW, Reply, cpu_seconds, events, good, openai_chunk, provider_conf, read_response, stream, wait_for

FINE = "fine from B"
TEXT = "naïve — 東京 🚋 ok"
PLAIN = b'{"model":"chain-main","stream":true,"messages":[{"role":"user","content":"Say something short."}]}'


def cost(p, r):
    """(cost of the request, of each attempt) in micro-USD."""
    row = p.row(r)
    return row["cost_nusd"] / 1000, [a["cost_nusd"] / 1000 for a in row["attempts"]]


def tokens(p, r, n=-1):
    return p.row(r)["attempts"][n]["tokens"]


# ---- USE

def abort(stage, dialect, scripts, read):
    """The only row of a request whose client leaves once `read` is through."""
    p = stage.play("use-abortrow", scripts=scripts, dialects={"a": dialect}, models={"a": "beta-large" if dialect == "anthropic" else "alpha-large"})
    s = p.open(p.bytes())
    req = wait_for(lambda: p.p["a"].requests, what="the request at A")[0]
    read(s)
    s.close()
    wait_for(lambda: req.closed_at, what="A's end")
    row = p.last_row()
    mine = lambda: [x for x in p.g.access() if x["id"] == row["id"]]
    wait_for(mine, what="the line")
    assert len(mine()) == 1 and len(row["attempts"]) == 1
    return row, row["attempts"][0]


SLOW_CHAT = [stream(openai_chunk({"role": "assistant", "content": ""}), 0.2, *[e for _ in range(60) for e in (openai_chunk({"content": "Hello"}), 0.05)])]


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
def test_use_abortrow(stage, dialect):
    row, a = abort(stage, dialect, None if dialect == "anthropic" else {"a": SLOW_CHAT}, lambda s: read_words(s, 3))
    assert row["outcome"] == a["outcome"] == "client_cancelled" and a["tokens_from"] == "estimated"
    assert a["tokens"]["input"] == 25 if dialect == "anthropic" else a["tokens"]["input"] > 0
    assert 3 <= a["tokens"]["output"] <= 40
    rate = (3, 15) if dialect == "anthropic" else (5, 30)
    assert row["cost_nusd"] == 1000 * (a["tokens"]["input"] * rate[0] + a["tokens"]["output"] * rate[1])


@pytest.mark.parametrize("dialect,said", [("anthropic", False), ("anthropic", True), ("openai", True)])
def test_use_abortrow_before_any_delta(stage, dialect, said):
    """`said`: the provider's first event, which is no token, had come. A message_start already reports one output token."""
    scripts = {"a": [Reply(*reply("use-abortrow", "a", 1).parts[:1], end="hang")]} if not said else None if dialect == "anthropic" else {"a": SLOW_CHAT}
    row, a = abort(stage, dialect, scripts, lambda s: time.sleep(0.15))
    assert row["outcome"] == a["outcome"] == "client_cancelled" and a["tokens_from"] == "estimated"
    assert a["tokens"]["input"] > 0 and a["tokens"]["output"] == (1 if said and dialect == "anthropic" else 0)


def test_use_anthtotal(stage):
    p = stage.play("use-anthtotal")
    r = p.send()
    u = r.json()["usage"]
    assert (u["prompt_tokens"], u["prompt_tokens_details"]["cached_tokens"], u["completion_tokens"], u["total_tokens"]) == (9920, 9000, 50, 9970)
    assert cost(p, r) == (6810, [6810]) and r.headers["x-ringmain-cost-usd"] == "0.006810000"
    t = tokens(p, r)
    assert (t["input"], t["cache_read"], t["cache_write_5m"], t["cache_write_1h"], t["output"]) == (120, 9000, 800, 0, 50)


def test_use_anthtotal_streamed(stage):
    """The same counts from a stream, to a Chat client that asked for usage."""
    start = {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "beta-large", "content": [], "stop_reason": None, "stop_sequence": None,
                                                  "usage": {"input_tokens": 120, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 800, "output_tokens": 1}}}
    evs = events("anthropic", ["ok"], usage=(120, 50))
    evs[0] = f"event: message_start\ndata: {json.dumps(start)}\n\n".encode()
    p = stage.play("use-anthtotal", scripts={"a": [stream(*evs)]})
    r = p.chat(PLAIN.replace(b'"stream":true', b'"stream":true,"stream_options":{"include_usage":true}'))
    u = chunks_of(r)[-1]["usage"]
    assert (u["prompt_tokens"], u["prompt_tokens_details"]["cached_tokens"], u["completion_tokens"], u["total_tokens"]) == (9920, 9000, 50, 9970)
    assert cost(p, r) == (6810, [6810])


def test_use_attemptcost(stage):
    p = stage.play("use-attemptcost", models={"a": "alpha-large"})
    r = p.send()
    row = p.row(r)
    a, b = row["attempts"]
    assert r.text() == FINE and (a["outcome"], a["in_stream"], b["outcome"]) == ("overloaded", True, "ok") and (a["model"], b["model"]) == ("alpha-large", "delta-chat")
    assert a["tokens"]["input"] == 25 and a["tokens"]["output"] == 4
    assert a["cost_nusd"] == 1000 * (25 * 5 + a["tokens"]["output"] * 30) and a["waste_nusd"] == a["cost_nusd"]
    # B's stream reports nothing, so its tokens are estimated (the case's 12 and 4 are the whole form's).
    assert b["tokens_from"] == "estimated" and b["tokens"]["input"] > 0 and b["tokens"]["output"] == 3
    assert b["cost_nusd"] == 1000 * (b["tokens"]["input"] * 1 + b["tokens"]["output"] * 4) and b["waste_nusd"] == 0
    assert row["cost_nusd"] == a["cost_nusd"] + b["cost_nusd"] and row["waste_nusd"] == a["waste_nusd"]


def test_use_attemptcost_reported(stage):
    p = stage.play("use-attemptcost", models={"a": "alpha-large"}, scripts={"b": good("openai", FINE, "delta-chat")})
    r = p.send()
    row = p.row(r)
    a, b = row["attempts"]
    assert b["tokens_from"] == "reported" and (b["tokens"]["input"], b["tokens"]["output"]) == (12, 4) and b["cost_nusd"] == 1000 * (12 + 4 * 4)
    assert row["cost_nusd"] == a["cost_nusd"] + b["cost_nusd"] and a["price_version"] and b["price_version"]


@pytest.mark.parametrize("form", ["whole", "stream"])
def test_use_cachedouble(stage, form):
    scripts = None
    if form == "stream":
        usage = json.loads(up("use-cachedouble", "up-a-1.http").partition(b"\r\n\r\n")[2])["usage"]
        last = ("data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "alpha-large", "choices": [], "usage": usage}) + "\n\n").encode()
        scripts = {"a": [stream(*events("openai", ["ok"], model="alpha-large", usage=None, done=False), last, b"data: [DONE]\n\n")]}
    p = stage.play("use-cachedouble", scripts=scripts)
    for r in (p.send(), p.chat(PLAIN), p.messages()):
        assert cost(p, r) == (55000, [55000])
        t = tokens(p, r)
        assert (t["input"], t["cache_read"], t["output"]) == (4000, 16000, 900)
    u = json.loads(next(d for n, d in r.events() if n == "message_delta"))["usage"]
    assert u["output_tokens"] == 900 and u.get("input_tokens", 4000) == 4000 and u.get("cache_read_input_tokens", 16000) == 16000


def test_use_cumulative(stage):
    p = stage.play("use-cumulative")
    for r in (p.send(), p.chat(PLAIN), p.chat(PLAIN.replace(b"true", b"false"))):
        t = tokens(p, r)
        assert (t["input"], t["output"]) == (25, 15) and cost(p, r)[0] == 25 * 3 + 15 * 15


def test_use_emptychoices(stage):
    p = stage.play("use-emptychoices")
    for r in (p.send(), p.messages()):
        assert r.text() == TEXT and r.is_well_ended()
        t = tokens(p, r)
        assert (t["input"], t["output"]) == (11, 9)
    late = [part for part in reply("use-emptychoices", "a", 1).parts if isinstance(part, bytes)]
    p = stage.play("use-emptychoices", "ab", scripts={"a": [Reply(*late[:2], 1.0, *late[2:], end="close")], "b": good("openai", FINE)}, route={"ttft_budget_ms": 300})
    r = p.send()
    assert r.text() == FINE and p.outcomes(r) == ["ttft_timeout", "ok"], "an empty choices is no first token"


def test_use_incompleteusage_in_chat(stage):
    """The case's target speaks Responses, which comes later; a Chat answer that was cut off by its length is priced in full too."""
    evs = events("openai", ["part"], model="alpha-large", finish="length", usage=(64, 1500))
    p = stage.play("use-cachedouble", scripts={"a": [stream(*evs)]})
    r = p.chat(PLAIN)
    t = tokens(p, r)
    assert (t["input"], t["output"]) == (64, 1500) and cost(p, r)[0] == 45320


def test_use_nulbyte(stage):
    p = stage.play("use-nulbyte")
    n = len(p.g.access())
    r = p.send()
    assert b"keep\\u0000this" in p.p["a"].requests[0].body and b"out\\u0000put" in r.body and r.text() == "out\0put"
    assert p.messages(stream=False).text() == "out\0put"
    assert cost(p, r)[0] == 3 * 5 + 2 * 30
    lines = wait_for(lambda: p.g.access()[n + 1:] and p.g.access()[n:], what="the lines")  # access() parses each line as JSON
    assert [x["outcome"] for x in lines] == ["ok", "ok"]
    assert b"\0" not in (p.g.dir / "access.log").read_bytes()


def test_use_reasondouble(stage):
    p = stage.play("use-reasondouble")
    r = p.send()
    assert cost(p, r) == (30500, [30500])
    t = tokens(p, r)
    assert (t["output"], t["reasoning"]) == (1000, 800)


def test_use_usageleak(stage):
    p = stage.play("use-usageleak", route={"breaker": {"failures": 1}})
    r = p.send(1)
    assert all(c["choices"] for c in chunks_of(r)) and b'"usage"' not in r.body and r.text() == TEXT and r.is_well_ended()
    t = tokens(p, r)
    assert (t["input"], t["output"]) == (11, 9) and p.p["a"].requests[0].json["stream_options"] == {"include_usage": True}
    r = p.send(2)
    empty = [i for i, c in enumerate(chunks_of(r)) if not c["choices"]]
    assert empty == [len(chunks_of(r)) - 1] and chunks_of(r)[-1]["usage"]["total_tokens"] == 20 and r.events()[-1][1] == "[DONE]"
    r = p.send(3)
    assert r.status == 200 and r.text() == TEXT and p.outcomes(r) == ["repaired", "ok"] and len(p.p["a"].requests) == 4
    assert "stream_options" in p.p["a"].requests[2].json and "stream_options" not in p.p["a"].requests[3].json
    assert p.health()["a"]["breaker"] == "closed" and tokens(p, r)["output"] > 0


def test_use_write1h(stage):
    p = stage.play("use-write1h")
    for r in (p.send(), p.messages(stream=False)):
        assert cost(p, r) == (21855, [21855])
        t = tokens(p, r)
        assert (t["input"], t["cache_write_5m"], t["cache_write_1h"], t["output"]) == (10, 1000, 3000, 5)


# ---- UX

def test_ux_whyfailover(stage):
    p = stage.play("ux-whyfailover")
    r = p.send()
    row = p.row(r)
    first, second = row["attempts"]
    assert (first["n"], first["provider"], first["status"], first["outcome"]) == (1, p.name["a"], 503, "overloaded") and first["decision"] and first["total_us"] > 0
    assert (second["n"], second["provider"], second["status"], second["outcome"]) == (2, p.name["b"], 200, "ok") and second["ttft_us"] > 0
    assert second["tokens"]["output"] > 0 and second["cost_nusd"] > 0 and second["price_version"]
    assert row["id"] == r.headers["x-ringmain-request-id"] and row["served_link"] == 1
    shown = subprocess.run([BINARY, "ledger", "show", row["id"], "--db", str(p.g.dir / "ringmain.db")], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0
    for word in (p.name["a"], "503", "overloaded", p.name["b"], "200", "ok"):
        assert word in shown.stdout, shown.stdout


# ---- OPS

def answer_times(p, n, pause=0.005):
    took, ids = [], []
    with contextlib.closing(p.g.connect()) as s:
        for _ in range(n):
            t = time.monotonic()
            s.sendall(p.bytes())
            r = read_response(s)
            took.append(time.monotonic() - t)
            assert r.status == 200
            ids.append(r.headers["x-ringmain-request-id"])
            time.sleep(pause)
    return sorted(took), ids


def test_ops_dbstall(stage):
    """200 a second for two seconds of a locked ledger (20 in the case)."""
    p = stage.play("ops-dbstall", scripts={"a": [Reply(up("ops-dbstall", "up-a-1.http"))]})
    free, before = answer_times(p, 200)
    lock = sqlite3.connect(p.g.dir / "ringmain.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    locked, during = answer_times(p, 300)
    wait_for(lambda: time.monotonic() - began > 2, what="two seconds of it")
    lock.execute("ROLLBACK")
    lock.close()
    p99 = lambda xs: xs[int(len(xs) * 0.99) - 1]
    assert p99(locked) - p99(free) < 0.020 * SLOW
    ids = before + during
    for i in ids[::25] + ids[-1:]:
        assert p.row(i)["outcome"] == "ok"
    listed = p.g.admin("/api/requests?n=1000").json()
    listed = listed["requests"] if isinstance(listed, dict) else listed
    ours = [x["id"] for x in listed if x["route"] == p.alias.decode()]
    assert len(ours) == len(set(ours)) and set(ours) == set(ids), "all there, none twice"


def test_ops_diskfull(world, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("a small disk can only be mounted by root")
    try:
        a = world.provider([Reply(up("ops-diskfull", "up-a-1.http"))])
        g = world.gateway({"client_keys": client_keys(), "providers": {"a": provider_conf(a.port)}, "routes": [{"model": "chain-main", "order": ["a"]}],
                           "ledger": f"sqlite:{disk}/ringmain.db", "access_log": f"{disk}/access.log"})
        p = request("ops-diskfull")

        def ask(n):
            ids = []
            with contextlib.closing(g.connect()) as s:
                for _ in range(n):
                    s.sendall(p)
                    r = read_response(s)
                    assert r.status == 200
                    ids.append(r.headers["x-ringmain-request-id"])
            return ids
        ids = ask(20)
        g.row(ids[-1])
        with contextlib.suppress(OSError), open(disk / "fill", "wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
        degraded = lambda: g.call("/readyz", None, method="GET").body.count(b"degraded") or b"ringmain_ledger_degraded 1" in g.admin("/metrics").body
        for _ in range(40):
            ids += ask(50)
            if degraded():
                break
        wait_for(degraded, 5, "the full disk to be told")
        told = lambda: b"degraded" in g.call("/readyz", None, method="GET").body
        for _ in range(40):  # the last free page may still take a small row: what is told follows the last write
            if told():
                break
            ids += ask(50)
        wait_for(told, 5, "/readyz to tell it")
        ids += ask(20)
        (disk / "fill").unlink()
        for i in ids[:3] + ids[-3:]:
            wait_for(lambda i=i: g.admin(f"/api/requests/{i}").status == 200, 10, "the rows after space came back")
        total = subprocess.run([BINARY, "ledger", "sum", "--json", "--db", str(disk / "ringmain.db")], capture_output=True, text=True, timeout=60)
        assert json.loads(total.stdout)["requests"] == len(ids)
        assert g.stop() == 0
        with contextlib.closing(sqlite3.connect(disk / "ringmain.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for line in (disk / "access.log").read_text().splitlines():
            json.loads(line)
    finally:
        for g in world.gateways:
            g.stop()
        subprocess.run(["umount", "-l", str(disk)], capture_output=True)


def close_waits(pid, port):
    """Sockets of that port in CLOSE-WAIT."""
    n = 0
    for line in open(f"/proc/{pid}/net/tcp").read().splitlines()[1:]:
        f = line.split()
        n += f[3] == "08" and int(f[1].split(":")[1], 16) == port
    return n


@pytest.mark.parametrize("phase", ["silent", "streaming", "half-closed"])
def test_ops_fdleak(stage, phase):
    n = 2 if phase == "streaming" else 1
    p = stage.play("ops-fdleak", scripts={"a": script("ops-fdleak", "a", [n])}, route={"ttft_budget_ms": 20000})
    wait_for(lambda: p.g.n_fds(), what="descriptors")
    before = p.g.n_fds()
    socks = [p.open(p.bytes(n)) for _ in range(100)]
    wait_for(lambda: len(p.p["a"].requests) == 100, 20, "all at A")
    for i, s in enumerate(socks):
        if phase == "streaming":
            read_words(s, 1)
        if phase == "half-closed":
            s.shutdown(socket.SHUT_WR)
        elif i % 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if phase != "half-closed":
            s.close()
    wait_for(lambda: all(r.closed_at for r in p.p["a"].requests), 20, "A's ends")
    for s in socks:
        s.close()
    wait_for(lambda: p.g.n_fds() <= before, 10, "the descriptors to come back")
    wait_for(lambda: close_waits(p.g.proc.pid, p.g.port) == 0, 5, "no CLOSE-WAIT")


def test_ops_fdleak_few_descriptors(world):
    a = world.provider(good("openai"))
    g = world.gateway({"client_keys": client_keys(), "providers": {"a": provider_conf(a.port)}, "routes": [{"model": "chain-main", "order": ["a"]}]})
    subprocess.run(["prlimit", f"--pid={g.proc.pid}", "--nofile=64:64"], check=True)
    socks = [socket.create_connection(("127.0.0.1", g.port)) for _ in range(90)]
    wait_for(lambda: g.n_fds() >= 60, what="the shortage")
    c, t = cpu_seconds(g), time.monotonic()
    time.sleep(1)
    assert (cpu_seconds(g) - c) / (time.monotonic() - t) < 0.10 * SLOW
    for s in socks:
        s.close()
    with contextlib.closing(g.connect()) as s:
        s.sendall(request("ops-fdleak", 1))
        assert read_response(s).status == 200


def test_ops_reloadgap(world):
    a = world.provider(script("ops-reloadgap", "a", pace=0.3))
    b = world.provider(good("openai", FINE))
    conf = {"client_keys": client_keys(), "providers": {"a": provider_conf(a.port), "b": provider_conf(b.port)},
            "routes": [{"model": "chain-main", "order": ["a", "b"], "retries": 0}]}
    g = world.gateway(conf)
    full = g.config
    without = {**full, "providers": {"b": full["providers"]["b"]}, "routes": [{"model": "chain-main", "order": ["b"], "retries": 0}]}
    stop, refused = [], []

    def knock():
        while not stop:
            try:
                socket.create_connection(("127.0.0.1", g.port)).close()
            except OSError as e:
                refused.append(e)
            time.sleep(0.005)

    def copy():
        with contextlib.closing(g.connect()) as s:
            s.sendall(request("ops-reloadgap"))
            return read_response(s)
    with concurrent.futures.ThreadPoolExecutor(11) as pool:
        pool.submit(knock)
        running = [pool.submit(copy) for _ in range(10)]
        wait_for(lambda: len(a.requests) == 10, what="the copies to run")
        for i in range(20):
            n = g.log().count("is in force")
            g.write(without if i % 2 else full)
            g.proc.send_signal(signal.SIGHUP)
            wait_for(lambda: g.log().count("is in force") > n, what="the reload")
        assert not any(f.done() for f in running), "all twenty while they ran"
        answers = [f.result() for f in running]
        stop.append(True)
    for r in answers:
        assert r.text() == "".join(f"w{i} " for i in range(40)) * 2 and r.is_well_ended(), (r.status, r.body[-300:], g.log()[-1500:])
    assert not refused
    assert g.call("/readyz", None, method="GET").status == 200


# ---- POL

@pytest.mark.parametrize("end", ["FIN", "RST on the next write", "FIN in the middle of the next request"])
def test_pol_stale(stage, end):
    one, two = Reply(up("pol-stale", "up-a-1.http")), Reply(up("pol-stale", "up-a-2.http"))
    def play(req):
        if req.n == 1:
            return Reply(*one.parts, 0.05, end="close") if end == "FIN" else one
        if req.n == 2 and end == "FIN in the middle of the next request":
            return Reply(end="close")
        if req.n == 2 and end == "RST on the next write":
            return Reply(end="rst")
        return two
    p = stage.play("pol-stale", scripts={"a": play}, route={"breaker": {"failures": 1}})
    assert p.send(1).text() == "one"
    if end == "FIN":
        wait_for(lambda: p.p["a"].open == 0, what="A to close")
    r = p.send(2)
    assert r.status == 200 and r.text() == "two" and p.outcomes(r) == ["ok"] and r.headers["x-ringmain-attempts"] == "1"
    assert p.health()["a"]["breaker"] == "closed" and p.p["a"].connections == 2
    assert [q.body for q in p.p["a"].requests[-1:]] == [p.p["a"].requests[0].body], "the whole body again"


def test_pol_warmcost_no_post_without_it(stage):
    p = stage.play("pol-warmcost", "ab", scripts={"a": good("openai", "A.", "alpha-large"), "b": good("openai", FINE)})
    p.chat(PLAIN)
    time.sleep(1.5)  # "idle": that nothing is sent in this time is what is tested
    assert p.calls() == {"a": 1, "b": 0}


def test_pol_warmcost_a_400_and_the_cap(world):
    a, bad, dear = world.provider(good("openai", "A.", "alpha-large")), world.provider(script("pol-warmcost", "a")), world.provider(good("openai", FINE, "delta-chat"))
    route = {"model": "chain-main", "keepalive_sec": 1, "keepalive_max_usd_per_day": "0.00003", "breaker": {"failures": 1}}
    g = world.gateway({"client_keys": client_keys(), "prices": PRICES, "providers": {n: provider_conf(x.port) for n, x in (("a", a), ("bad", bad), ("dear", dear))},
                       "routes": [{**route, "chain": [{"provider": "a", "model": "alpha-large"}, {"provider": "bad", "model": "beta-large"}, {"provider": "dear", "model": "delta-chat"}]}]})
    body = PLAIN
    call = lambda: g.call("/v1/chat/completions", body, [("Authorization", "Bearer rk-test-client-0001")])
    assert call().text() == "A."
    wait_for(lambda: len(bad.requests) >= 3 and dear.requests, 8, "keepalives")
    # One costs 12 + 4*4 = 28 micro-USD; with a cap of 30 a day the second would pass it.
    assert len(dear.requests) <= 2 and len(bad.requests) >= 3, "stopped by the cap"
    n_dear = len(dear.requests)
    wait_for(lambda: len(bad.requests) >= 4, 4, "a further second")
    assert len(dear.requests) == n_dear
    links = g.admin("/api/health").json()["routes"][0]["links"]
    assert [x["breaker"] for x in links] == ["closed"] * 3, "the 400 opens nothing"
    for q in bad.requests + dear.requests:
        assert q.json["stream"] is True and q.json.get("max_tokens", q.json.get("max_completion_tokens")) == 1
    assert dear.connections <= 2 and call().text() == "A."
    summed = lambda: json.loads(subprocess.run([BINARY, "ledger", "sum", "--json", "--db", str(g.dir / "ringmain.db")], capture_output=True, text=True, timeout=60).stdout)
    # A keepalive is an attempt without a request: rows of its own kind, priced, not among the requests.
    got = wait_for(lambda: (x := summed())["keepalives"] >= len(bad.requests) + len(dear.requests) and x["requests"] == 2 and x, 5, "the keepalives' rows")
    assert got["keepalive_nusd"] == n_dear * 28000


def test_pol_h2retry_frames_to_an_h1_request(stage):
    """HTTP/2 to providers comes later; its frames as an answer are a fault of the provider's, and the next link answers."""
    settings, ack = b"\0\0\0\x04\0\0\0\0\0", b"\0\0\0\x04\x01\0\0\0\0"
    for frames in (settings + ack + b"\0\0\x08\x07" + bytes(13), settings + ack + b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07"):
        p = stage.play("brk-halfopen", scripts={"a": [Reply(frames, end="close")]})
        r = p.send()
        assert r.text() == FINE and p.outcomes(r) == ["protocol_error", "ok"]

"""ringmain price what-if: a real gateway makes a ledger; its requests are played again, as they were and under other policies."""
import json
import os
import pty
import sqlite3
import subprocess
import urllib.request

import pytest

from harness import BINARY, SLOW, Reply, events, good, provider_conf, stream, wait_for

PRICES = {"m-a": {"input": "2", "output": "10"}, "m-b": {"input": "4", "output": "20"}}
N = 15  # every third is not answered by A
HANGS = N // 3
BUDGET = min(2000, int(200 * SLOW))  # ms: a busy machine's good answers are not to be cut


def run(g, *args, code=0, cwd=None):
    p = subprocess.run([BINARY, "price", "what-if", *map(str, args)], cwd=cwd or g.dir, capture_output=True, text=True, timeout=60 * SLOW)
    assert p.returncode == code, (p.returncode, p.stdout[-2000:], p.stderr[-2000:])
    return p.stdout, p.stderr


def ask(g, *args, **kw):
    return json.loads(run(g, "-c", g.path, "--json", *args, **kw)[0])


@pytest.fixture
def past(world):
    n = [0]

    def a(req):
        n[0] += 1
        return Reply(end="hang") if n[0] % 3 == 0 else stream(0.02, *events("openai", ["Hello", " from", " A."], model="m-a"))
    g, _ = world.chain(a, good("openai"), config={"prices": PRICES}, route={"ttft_budget_ms": BUDGET, "retries": 0, "breaker": "off"})
    for i in range(N):
        r = g.chat(stream=i % 2 == 0)
        assert r.status == 200
    g.row(r)
    return g


def test_the_present_policy_comes_out_as_recorded(past):
    w = ask(past)
    r, p = w["recorded"], w["replayed"]
    assert r["requests"] == r["answered"] == N and r["attempts"] == N + HANGS and r["answered_later"] == HANGS
    assert r["ttft_p50_us"] < BUDGET * 1000 <= r["ttft_p99_us"] and r["cost_nusd"] > r["waste_nusd"] > 0
    assert w["what_if"] is None and w["on_record"] == N and w["one_in"] == 1
    # Everything is on record, so nothing is drawn: the engine decides again what it decided.
    assert p["draws"] == {"recorded": N + HANGS, "drawn": 0, "beyond": 0, "guessed": 0, "unknown": 0}
    assert p["attempts"] == r["attempts"] and p["availability_ppm"] == 1_000_000
    assert p["cost_nusd"] == r["cost_nusd"] and p["waste_nusd"] == r["waste_nusd"]
    for q in ("p50", "p95", "p99"):
        # The recorded times hold the gateway's own work, and milliseconds of a busy machine's timers.
        assert abs(p[f"ttft_{q}_us"] - r[f"ttft_{q}_us"]) <= 0.1 * r[f"ttft_{q}_us"] + 20_000 * SLOW
    assert w["error"]["cost_nusd"] == 0 and w["error"]["availability_ppm"] == 0


def test_another_budget_and_another_order(past):
    half = BUDGET // 2
    w = ask(past, "--set", f"route.ttft_budget_ms={half}")
    saved = w["replayed"]["ttft_p99_us"] - w["what_if"]["ttft_p99_us"]
    assert abs(saved - half * 1000) <= 50_000 and w["set"] == [f"route.ttft_budget_ms={half}"]
    w = ask(past, "--set", "order=b,a")
    f = w["what_if"]
    assert f["attempts"] == N and f["answered_later"] == 0 and f["waste_nusd"] == 0 and f["ttft_p99_us"] < BUDGET * 1000
    assert f["draws"]["recorded"] == HANGS and f["draws"]["drawn"] == N - HANGS
    assert any(f"only {HANGS} attempts of b/m-b" in x for x in w["warnings"])
    w = ask(past, "--set", "order=a", "--set", "deadline_ms=2000")  # nobody follows: what hung fails
    assert w["what_if"]["failed"] == HANGS and w["what_if"]["answered"] == N - HANGS
    w = ask(past, "--set", "hedge=on", "--set", "hedge.after=200", "--set", "hedge.max_extra_spend=100%")
    assert w["what_if"]["ttft_p99_us"] < w["replayed"]["ttft_p99_us"]


def test_the_same_seed_says_the_same(past):
    args = ("--set", "order=b,a", "--seed", 7)
    assert ask(past, *args) == ask(past, *args)


def test_another_file_and_a_target_without_history(past):
    other = dict(past.config)
    other["providers"] = {**other["providers"], "c": {**other["providers"]["b"]}}
    route = {k: v for k, v in other["routes"][0].items() if k not in ("order", "chain")}
    other["routes"] = [{**route, "chain": [{"provider": "c", "model": "m-c"}, {"provider": "b", "model": "m-b"}]}]
    path = past.dir / "other.yaml"
    path.write_text(json.dumps(other))
    w = ask(past, "--policy", path)
    assert w["policy"] == str(path) and w["what_if"]["answered"] == N and w["what_if"]["draws"]["unknown"] == N
    assert any(x.startswith("c/m-c has no history") for x in w["warnings"])
    w = json.loads(run(past, "-c", path, "--json")[0])  # taken for the present policy, it is not the one of that time
    assert f"{N} of {N + HANGS} recorded attempts were at targets that the present policy does not have" in w["warnings"]


def test_progress_on_a_terminal_only(quiet):
    ours, its = pty.openpty()
    p = subprocess.run([BINARY, "price", "what-if", "-c", str(quiet.path)], cwd=quiet.dir, stdout=subprocess.PIPE, stderr=its, timeout=60 * SLOW)
    os.close(its)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    assert p.returncode == 0 and "reading the ledger: 1 requests" in said and said.endswith("\r\x1b[K") and b"\x1b" not in p.stdout


def test_for_people(past):
    out, err = run(past, "-c", past.path, "--set", "ttft_budget_ms=300", "--since", "1h")
    lines = out.splitlines()
    assert err == "" and "what if: ttft_budget_ms=300" in lines
    table = {line[:26].strip(): line for line in lines}
    assert "100.000 %" in table["answered"] and "points" in table["answered"]
    assert table["dollars"].count("$") == 3 and table["first token, p99"].count(" ms") == 3
    assert "Assumed:" in lines and any(line.startswith("- ") for line in lines)


@pytest.mark.parametrize("args, code, says", [
    (["--set", "ttft_budget=300"], 2, "did you mean ttft_budget_ms?"),
    (["--set", "ttft_budget_ms=0"], 2, "ttft_budget_ms takes auto, or milliseconds from 10 to 3600000"),
    (["--set", "ttft_budget_ms"], 2, "expected NAME=VALUE"),
    (["--set", "link.3.retries=0"], 2, "links are link.1 to link.2"),
    (["--set", "link.1.deadline_ms=100"], 2, "no setting that can be tried"),
    (["--set", "order=b,x"], 2, "'x' is no link of route r; it has: a/m-a b/m-b"),
    (["--set", "order="], 2, "is no link of route r"),
    (["--set", "cache.standby=perhaps"], 2, "cache.standby takes one of never, expected_value, sustained, always"),
    (["--set", "cache.sustained_after_ms=soon"], 2, "cache.sustained_after_ms takes a whole number from 0 to 86400000"),
    (["--set", "cache.stanby=never"], 2, "did you mean cache.standby?"),
    (["--set", "breaker.ratio=200%"], 2, "a share such as"),
    (["--since", "soon"], 2, "--since takes"),
    (["--seed", "x"], 2, "--seed takes a whole number"),
    (["--route", "nope"], 1, "has no route 'nope'; it has: r"),
    (["--db", "none.db"], 1, "none.db"),
    (["--since", "2031-01-01T00:00:00Z"], 1, "has no request of route r since"),
    (["more"], 2, "usage:"),
])
def test_what_is_wrong_is_told(quiet, args, code, says):
    out, err = run(quiet, "-c", quiet.path, *args, code=code)
    assert says in err and out == ""


@pytest.fixture
def quiet(world):
    g, _ = world.chain(good("openai"), good("openai"))
    g.row(g.chat())
    return g


def test_a_damaged_ledger_is_told(quiet):
    broken = quiet.dir / "broken.db"
    broken.write_bytes(os.urandom(8192))
    _, err = run(quiet, "-c", quiet.path, "--db", broken, code=1)
    assert "broken.db" in err


# ---------------------------------------------------------------- prompt caches

CACHE_PRICES = {m: {"input": str(p), "output": str(5 * p), "cache_read": str(p / 10), "cache_write_5m": str(p * 1.25), "cache_write_1h": str(2 * p)}
                for m, p in (("m-a", 3), ("m-b", 2))}
MARK = {"cache_control": {"type": "ephemeral"}}
TALKS, TURNS = 3, 8
AWAY = range(2, 6)  # turns in which the first provider is overloaded


class Mock:
    def __init__(self, tmp):
        cached = {"dialect": "anthropic", "port": 0, "ttft": 5, "gap_ms": 0, "tokens": 20, "cache": {"ttl_s": 300, "min_tokens": 1024}}
        (tmp / "mock.yaml").write_text(json.dumps({"providers": [{"name": "A", **cached}, {"name": "B", **cached}]}))
        self.proc = subprocess.Popen([BINARY, "mock", "-c", str(tmp / "mock.yaml")], stdout=subprocess.PIPE, text=True)
        self.ports = [int(self.proc.stdout.readline().rsplit(" ", 1)[1]) for _ in range(2)]

    def fault(self, word):
        r = urllib.request.urlopen(f"http://127.0.0.1:{self.ports[0]}/_mock/fault", json.dumps({"fault": word}).encode(), timeout=20 * SLOW)
        assert r.status == 200

    def close(self):
        self.proc.kill()
        self.proc.wait()


def outage(world, cache):
    """Conversations that grow, a long system prompt in common, through an outage of the first provider; the gateway afterwards."""
    mock = Mock(world.tmp)
    try:
        links = [{"provider": p, "model": f"m-{p}"} for p in "ab"]
        g = world.gateway({"workers": 1, "prices": CACHE_PRICES,
                           "providers": {p: provider_conf(port, "anthropic") for p, port in zip("ab", mock.ports)},
                           "routes": [{"model": "r", "chain": links, "retries": 0, "breaker": "off", "ttft_budget_ms": 5000, "cache": cache}]})
        talks = [[] for _ in range(TALKS)]
        for turn in range(TURNS):
            mock.fault("529" if turn in AWAY else "ok")
            for k, talk in enumerate(talks):
                talk.append({"role": "user", "content": [{"type": "text", "text": f"Talk {k}, turn {turn}. " + "More of it. " * 60, **MARK}]})
                r = g.call("/v1/messages", {"model": "r", "max_tokens": 100, "stream": True, "messages": talk,
                                            "system": [{"type": "text", "text": "A long prefix. " * 400, **MARK}]})
                stays = turn >= AWAY.stop and cache.get("return") == "by_value"
                assert r.status == 200 and r.headers["x-ringmain-provider"] == ("b" if turn in AWAY or stays else "a"), r.body
                del talk[-1]["content"][0]["cache_control"]  # it moves on
                talk.append({"role": "assistant", "content": r.text()})
        g.row(r)
        return g
    finally:
        mock.close()


def near(a, b, share):
    assert abs(a - b) <= share * b, (a, b)


@pytest.mark.parametrize("standby", ["never", "expected_value", "always"])
def test_the_bill_of_an_outage_with_caches_comes_out_as_recorded(world, standby):
    w = ask(outage(world, {"standby": standby}))
    r, p = w["recorded"], w["replayed"]
    assert r["answered"] == TALKS * TURNS and r["cache_read_tokens"] > 0 and w["not_judged"] == 0
    assert p["attempts"] == r["attempts"] == TALKS * (TURNS + len(AWAY))
    near(p["cost_nusd"], r["cost_nusd"], 0.02)
    near(p["cache_read_tokens"], r["cache_read_tokens"], 0.05)


def test_another_cache_rule_costs_what_it_would_have(world):
    """Two real runs under two rules: the ledger of each, played under the other's rule, gives the other's bill."""
    never, always = outage(world, {"standby": "never"}), outage(world, {"standby": "always"})
    truth = {rule: ask(g)["recorded"] for rule, g in (("never", never), ("always", always))}
    assert truth["always"]["cost_nusd"] < 0.9 * truth["never"]["cost_nusd"]
    for g, rule in ((never, "always"), (always, "never")):
        w = ask(g, "--set", f"cache.standby={rule}")
        near(w["what_if"]["cost_nusd"], truth[rule]["cost_nusd"], 0.03)
        near(w["what_if"]["cache_read_tokens"], truth[rule]["cache_read_tokens"], 0.05)


def test_going_back_by_value_costs_what_it_would_have(world):
    w = ask(outage(world, {"standby": "always"}), "--set", "cache.return=by_value")
    truth = ask(outage(world, {"standby": "always", "return": "by_value"}))["recorded"]
    assert truth["cost_nusd"] < 0.9 * w["recorded"]["cost_nusd"]  # B is cheaper, and warm
    assert w["what_if"]["answered"] == TALKS * TURNS and w["what_if"]["draws"]["drawn"] > 0
    near(w["what_if"]["cost_nusd"], truth["cost_nusd"], 0.03)


def test_keepalives_are_told_apart(world):
    g, (_, b) = world.chain(good("openai"), good("openai"), config={"prices": PRICES}, route={"keepalive_sec": 1})
    g.row(g.chat())
    wait_for(lambda: ask(g)["keepalives"] > 0, 20, "a keepalive on record")
    w = ask(g)
    assert w["keepalive_nusd"] > 0 and w["recorded"]["requests"] == 1 and w["recorded"]["cost_nusd"] == w["replayed"]["cost_nusd"]
    assert " keepalives at its targets, for $" in run(g, "-c", g.path)[0]


def test_rows_of_an_older_version_are_counted(quiet):
    db = sqlite3.connect(quiet.dir / "ringmain.db")
    db.execute("UPDATE request SET needs = NULL")
    db.commit()
    db.close()
    w = ask(quiet, "--set", "cache.standby=always")
    assert w["not_judged"] == 1 and any(x.startswith("1 of 1 requests could not be judged by a cache rule") for x in w["warnings"])


def test_help():
    p = subprocess.run([BINARY, "price", "what-if", "--help"], capture_output=True, text=True, timeout=60 * SLOW)
    assert p.returncode == 0 and "ttft_budget_ms" in p.stdout and "200000" in p.stdout

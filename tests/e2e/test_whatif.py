"""ringmain price what-if: a real gateway makes a ledger; its requests are played again, as they were and under other policies."""
import json
import os
import pty
import subprocess

import pytest

from harness import BINARY, SLOW, Reply, events, good, stream

PRICES = {"m-a": {"input": "2", "output": "10"}, "m-b": {"input": "4", "output": "20"}}
N = 15  # every third is not answered by A
HANGS = N // 3


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
    g, _ = world.chain(a, good("openai"), config={"prices": PRICES}, route={"ttft_budget_ms": 600, "retries": 0, "breaker": "off"})
    for i in range(N):
        r = g.chat(stream=i % 2 == 0)
        assert r.status == 200
    g.row(r)
    return g


def test_the_present_policy_comes_out_as_recorded(past):
    w = ask(past)
    r, p = w["recorded"], w["replayed"]
    assert r["requests"] == r["answered"] == N and r["attempts"] == N + HANGS and r["answered_later"] == HANGS
    assert r["ttft_p50_us"] < 600_000 <= r["ttft_p99_us"] and r["cost_nusd"] > r["waste_nusd"] > 0
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
    w = ask(past, "--set", "route.ttft_budget_ms=300")
    saved = w["replayed"]["ttft_p99_us"] - w["what_if"]["ttft_p99_us"]
    assert 250_000 <= saved <= 350_000 and w["set"] == ["route.ttft_budget_ms=300"]
    w = ask(past, "--set", "order=b,a")
    f = w["what_if"]
    assert f["attempts"] == N and f["answered_later"] == 0 and f["waste_nusd"] == 0 and f["ttft_p99_us"] < 600_000
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
    (["--set", "cache.standby=never"], 2, "cache rules are not replayed"),
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


def test_help():
    p = subprocess.run([BINARY, "price", "what-if", "--help"], capture_output=True, text=True, timeout=60 * SLOW)
    assert p.returncode == 0 and "ttft_budget_ms" in p.stdout and "200000" in p.stdout

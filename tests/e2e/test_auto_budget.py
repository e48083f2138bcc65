"""`ttft_budget_ms: auto` from outside: the gateway learns how long a provider takes, cuts what takes longer, only watches when
it is told to, and knows it all again after a restart."""
import json
import math
import random
import re
import sqlite3
import subprocess
import time
import xml.etree.ElementTree

import pytest

from harness import BINARY, SLOW, Gateway, Provider, Reply, good, provider_conf, wait_for

FALLBACK_MS, FLOOR_MS = 8000, 150
AUTO = {"percentile": "p99", "min_ms": FLOOR_MS, "max_ms": 20000, "fallback_ms": FALLBACK_MS, "min_samples": 20}


class Moods:
    """A provider that answers at once until told to hang, or to be slow."""

    def __init__(self):
        self.mood = "quick"
        self.well = good("openai", "Hello from A.", model="m-a")

    def __call__(self, req):
        if self.mood == "hang":
            return Reply(end="hang")
        if self.mood == "slow":
            reply = self.well(req)
            return Reply(0.6, *reply.parts)
        return self.well(req)


@pytest.fixture
def world(tmp_path):
    moods = Moods()
    a, b = Provider(moods), Provider(good("openai"))
    made = []

    def start(**route):
        g = Gateway(tmp_path, {"providers": {"a": provider_conf(a.port), "b": provider_conf(b.port)},
                               "prices": {"m-a": {"input": "2.00", "output": "8.00"}},
                               "routes": [{"model": "r", "chain": [{"provider": "a", "model": "m-a"}, {"provider": "b", "model": "m-b"}],
                                           "ttft_budget_ms": "auto", "ttft_auto": AUTO, **route}]},
                    name=f"ringmain{len(made)}")
        made.append(g)
        return g
    start.moods = moods
    yield start
    for g in made:
        g.stop()
    a.close()
    b.close()


def learn(g, n=40):
    for _ in range(n):
        r = g.chat()
        assert r.status == 200 and r.text() == "Hello from A."


def link(g):
    return g.admin("/api/health").json()["routes"][0]["links"][0]


def known(g):
    """Once what was learned is merged, at the first call after a second."""
    def ask():
        learn(g, 1)
        return link(g)["latency"][0]["is_known"]
    wait_for(ask, 10, "a budget that is known")


def test_what_hangs_is_cut_by_what_was_learned(world):
    g = world()
    assert link(g)["latency"] == []
    learn(g)
    known(g)
    world.moods.mood = "hang"
    begin = time.monotonic()
    r = g.chat()
    took = time.monotonic() - begin
    assert r.text() == "Hello from B."
    assert [e[1] for e in r.trail()] == ["ttft_timeout", "ok"]
    assert FLOOR_MS / 1000 <= took < FALLBACK_MS / 1000
    first = g.row(r)["attempts"][0]
    assert first["outcome"] == "ttft_timeout"
    assert FLOOR_MS * 1000 <= first["total_us"] - first["start_us"] < FALLBACK_MS * 1000
    told = wait_for(lambda: next((k for k in link(g)["latency"] if k["cut"] == 1), None), 5, "the cut to be told")
    assert told["size"] == "1k" and told["effort"] == "none" and told["moved"] == 1
    metrics = g.admin("/metrics").body.decode()
    assert 'ringmain_ttft_cut_total{provider="a",model="m-a"} 1' in metrics
    assert 'ringmain_ttft_budget_seconds{provider="a",model="m-a",size="1k",effort="none"}' in metrics


def test_the_fallback_rules_until_then(world):
    g = world(ttft_auto={**AUTO, "fallback_ms": 300, "min_samples": 200})
    learn(g, 5)
    world.moods.mood = "hang"
    r = g.chat()
    assert r.text() == "Hello from B."
    first = g.row(r)["attempts"][0]
    assert first["total_us"] - first["start_us"] >= 300000  # a cold start would have been given more, a warm one has just this
    assert not link(g)["latency"][0]["is_known"]


def test_the_shadow_cuts_nothing_and_says_what_it_would_have(world):
    g = world(ttft_budget_mode="shadow")
    learn(g)
    known(g)
    world.moods.mood = "slow"
    r = g.chat()
    assert r.text() == "Hello from A."
    row = g.row(r)
    assert [a["outcome"] for a in row["attempts"]] == ["ok"]
    decision = row["attempts"][0]["decision"]
    said = re.fullmatch(r"budget (\d+) ms would have cut here, for \$(0\.\d{9})", decision)
    assert said and FLOOR_MS <= int(said[1]) < 600
    told = link(g)["latency"][0]
    assert told["late_nusd"] == round(float(said[2]) * 1e9)
    ledger = json.loads(subprocess.run([BINARY, "ledger", "sum", "--json", "--db", str(g.dir / "ringmain.db")], capture_output=True, check=True).stdout)
    assert ledger["budgets"]["late"] == 1 and ledger["budgets"]["late_nusd"] == told["late_nusd"] and ledger["budgets"]["cut"] == 0
    assert told["late"] == 1 and told["cut"] == 0 and told["late_nusd"] > 0


def test_a_number_can_be_watched_too(world):
    g = world(ttft_budget_ms=5000, ttft_budget_mode="shadow")
    learn(g)
    known(g)
    world.moods.mood = "slow"
    row = g.row(g.chat())
    assert "would have cut here" in row["attempts"][0]["decision"]


def test_a_fixed_budget_says_nothing(world):
    g = world(ttft_budget_ms=5000)
    learn(g)
    known(g)
    world.moods.mood = "slow"
    row = g.row(g.chat())
    assert not row["attempts"][0]["decision"]


def test_a_client_may_ask_for_less(world):
    g = world()
    learn(g)
    known(g)
    world.moods.mood = "hang"
    r = g.chat(headers=[("x-routing", "ttft:100")])
    assert r.text() == "Hello from B."
    first = g.row(r)["attempts"][0]
    assert 100000 <= first["total_us"] - first["start_us"] < FALLBACK_MS * 1000
    assert link(g)["latency"][0]["cut"] == 0  # that was the client's own impatience


def test_a_restart_forgets_nothing(world):
    g = world()
    learn(g)
    known(g)
    assert g.stop() == 0
    state = g.dir / "ringmain.db.state"
    assert state.read_text().startswith("ringmain-state 1 ") and (state.stat().st_mode & 0o077) == 0
    g = world()
    assert link(g)["latency"][0]["is_known"]
    world.moods.mood = "hang"
    g.chat()  # the first on a new connection has time to connect as well
    r = g.chat()
    first = g.row(r)["attempts"][0]
    assert first["outcome"] == "ttft_timeout"
    assert first["total_us"] - first["start_us"] < FALLBACK_MS * 1000


def test_a_damaged_state_is_told_and_set_aside(world):
    g = world()
    learn(g)
    assert g.stop() == 0
    state = g.dir / "ringmain.db.state"
    text = state.read_bytes()
    state.write_bytes(text[: len(text) // 2])
    g = world()
    wait_for(lambda: "is damaged and not used" in g.log(), 5, "a word of it")
    assert link(g)["latency"] == []
    assert (g.dir / "ringmain.db.state.damaged").exists()
    learn(g, 2)


# ---------------------------------------------------------------- ringmain price budget

def budget(g, *more, code=0):
    r = subprocess.run([BINARY, "price", "budget", "-c", str(g.path), *more], capture_output=True, text=True, timeout=60 * SLOW)
    assert r.returncode == code, (r.stdout, r.stderr)
    return r.stdout if code == 0 else r.stderr


def remember(g, n=2000, hung=40, seed=7):
    """Calls of another day, put into the ledger: lognormal times to the first token, a fiftieth cut at 8 s."""
    rng = random.Random(seed)
    took = [int(900_000 * math.exp(0.5 * rng.gauss(0, 1))) for _ in range(n)]
    db = sqlite3.connect(g.dir / "ringmain.db")
    for i, us in enumerate(took):
        db.execute("INSERT INTO request (id, started_ms, route, outcome, provider, model, served_link, ttft_us, prompt_bytes, a_n, a_kind, a_link,"
                   " a_provider, a_model, a_outcome, a_flags, a_start_us, a_ttft_us, a_total_us, a_input, a_output, a_cost_nusd) VALUES"
                   " (?, 0, 'r', 'ok', 'a', 'm-a', 0, ?, 4000, 1, 0, 0, 'a', 'm-a', 'ok', 6, 100, ?, ?, 1000, 10, 2080000)",
                   (i + 1, us + 100, us + 100, us + 5000))
    for i in range(hung):
        db.execute("INSERT INTO request (id, started_ms, route, outcome, prompt_bytes, n_attempts) VALUES (?, 0, 'r', 'ok', 4000, 1)", (n + i + 1,))
        db.execute("INSERT INTO attempt (request_id, n, kind, link, provider, model, outcome, flags, start_us, total_us, input, cost_nusd) VALUES"
                   " (?, 1, 0, 0, 'a', 'm-a', 'ttft_timeout', 2, 0, 8000000, 1000, 2000000)", (n + i + 1,))
    db.commit()
    db.close()
    return sorted(took)


def test_the_curve_of_a_budget(world, tmp_path):
    g = world()
    g.stop()
    took = remember(g)
    got = json.loads(budget(g, "--target", "a/m-a", "--json"))
    assert (got["answered"], got["cut"], got["left"]) == (2000, 40, 0)
    assert got["p50_us"] == pytest.approx(took[1000], rel=0.03) and got["p99_us"] == pytest.approx(took[1980], rel=0.05)
    assert got["p99_us"] <= got["auto_us"] == got["in_force_us"] < 1.3 * got["p99_us"]
    assert got["hung_ppm"] == pytest.approx(40 / 2040 * 1e6, rel=0.01)
    assert got["cut_nusd"] == 2_000_000
    points = got["points"]
    for p in points:
        n_false = sum(us > p["budget_us"] for us in took)
        assert p["false_ppm"] == pytest.approx(n_false / len(took) * 1e6, abs=15000)
        assert p["waste_nusd"] == pytest.approx(p["cut_ppm"] * 1000 * 2_000_000 / 1e6, abs=2000)
        waits = sum(min(us, p["budget_us"]) + (us > p["budget_us"]) * got["next_us"] for us in took) + 40 * (p["budget_us"] + got["next_us"])
        assert p["wait_us"] == pytest.approx(waits / 2040, rel=0.03)
        assert p["total_nusd"] == pytest.approx(p["waste_nusd"] + p["wait_us"] * 10_000_000 / 1e3, rel=0.001)
    assert min(points, key=lambda p: p["total_nusd"])["budget_us"] == got["cheapest_us"]
    dear = json.loads(budget(g, "--target", "a/m-a", "--json", "--value-of-second", "1"))
    none = json.loads(budget(g, "--target", "a/m-a", "--json", "--value-of-second", "0"))
    assert dear["cheapest_us"] <= got["cheapest_us"] < none["cheapest_us"]


def test_the_curve_in_the_terminal_and_as_a_picture(world, tmp_path):
    g = world()
    g.stop()
    remember(g)
    svg = tmp_path / "curve.svg"
    text = budget(g, "--target", "a/m-a", "--svg", str(svg))
    assert "2000 answers, 40 cut, 0 that left" in text
    for mark in ("p99", "in force", "cheapest"):
        assert text.count(f"{mark} ") >= 1 and "<- " in text
    assert "\u2588" in text
    root = xml.etree.ElementTree.fromstring(svg.read_text())
    tags = [e.tag.split("}")[1] for e in root.iter()]
    assert tags.count("polyline") == 3 and "script" not in tags
    drawn = " ".join(e.text or "" for e in root.iter())
    assert "cheapest" in drawn and "in force" in drawn and "a/m-a" in drawn


@pytest.mark.parametrize("args,code,word", [
    (["--target", "nothing"], 2, "PROVIDER/MODEL"), ([], 2, "usage"), (["--target", "a/m-a", "--size", "2k"], 2, "1k, 4k"),
    (["--target", "a/m-a", "--value-of-second", "-1"], 2, "US dollars"), (["--target", "a/m-a", "--next-ms", "0"], 2, "next-ms"),
    (["--target", "a/m-a", "--from-ledger", "tomorrow"], 1, "30m, 24h"), (["--target", "a/m-x"], 1, "holds 0 answers"),
    (["--target", "a/m-a", "--effort", "high"], 1, "like that"), (["--target", "a/m-a", "--svg", "/nowhere/at/all.svg"], 1, "/nowhere"),
    (["--target", "a/m-a", "more"], 2, "usage"), (["--target", "a/m-a", "--hang-share", "101%"], 2, "a share"),
])
def test_what_is_asked_wrongly(world, args, code, word):
    g = world()
    g.stop()
    remember(g, 100, 2)
    assert word in budget(g, *args, code=code)

"""`ttft_budget_ms: auto` from outside: the gateway learns how long a provider takes, cuts what takes longer, only watches when
it is told to, and knows it all again after a restart."""
import json
import re
import subprocess
import time

import pytest

from harness import BINARY, Gateway, Provider, Reply, good, provider_conf, wait_for

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

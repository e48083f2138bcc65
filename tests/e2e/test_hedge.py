"""`hedge` (docs/failover.md): a second attempt beside a slow first one. Off by default, capped, and its price is on the ledger."""
import json
import time

from harness import Reply, error_json, events, good, http, stream, wait_for

PRICES = {"m-a": {"input": "10", "output": "10"}, "m-b": {"input": "10", "output": "10"}}
HEDGE = {"hedge": {"after": 100, "max_extra_spend": "100%", "max_per_minute": 100}, "ttft_budget_ms": 3000, "retries": 0}


def late(seconds, text="late from A"):
    def script(req):
        return stream(seconds, *events("openai", [text], model="m-a"))
    return script


def fed(g, n=3):
    """A route that has spent a little: what is lost is paid from that."""
    for _ in range(n):
        assert g.chat().status == 200


def hedged(world, first, second, **kw):
    """A answers at once until the switch is thrown."""
    switch = {"on": False}
    g, ps = world.chain(lambda req: (first(req) if callable(first) else first) if switch["on"] else good("openai", "at once", "m-a")(req), second,
                        route=HEDGE, config={"prices": PRICES}, **kw)
    fed(g)
    switch["on"] = True
    return g, ps


def test_the_hedge_wins(world):
    g, (a, b) = hedged(world, Reply(end="hang"), good("anthropic"), dialects=["openai", "anthropic"])
    t = time.monotonic()
    r = g.chat()
    assert time.monotonic() - t >= 0.1 and r.text() == "Hello from B." and r.is_well_ended()
    row = g.row(r)
    one, two = row["attempts"]
    assert [(x["kind"], x["outcome"]) for x in (one, two)] == [("client", "hedge_lost"), ("hedge", "ok")]
    assert two["start_us"] >= 100_000 and two["decision"].startswith("beside attempt 1, without a token after 1")
    assert one["waste_nusd"] == one["cost_nusd"] > 0 and row["waste_nusd"] == one["waste_nusd"] and two["waste_nusd"] == 0
    wait_for(lambda: a.requests[-1].closed_at, what="the loser to be cancelled")
    assert r.headers["x-ringmain-trail"].startswith("a/m-a;hedge_lost;") and r.headers["x-ringmain-attempts"] == "2"


def test_the_hedge_loses(world):
    g, (a, b) = hedged(world, late(0.3), [Reply(end="hang")])
    r = g.chat()
    assert r.text() == "late from A"
    row = g.row(r)
    assert [(x["kind"], x["outcome"]) for x in row["attempts"]] == [("client", "ok"), ("hedge", "hedge_lost")]
    wait_for(lambda: b.requests[-1].closed_at, what="the hedge to be cancelled")


def test_for_a_client_that_waits_too(world):
    g, (a, b) = hedged(world, Reply(end="hang"), good("openai"))
    r = g.chat(stream=False)
    assert r.text() == "Hello from B." and [x["outcome"] for x in g.row(r)["attempts"]] == ["hedge_lost", "ok"]


def test_a_failure_leaves_the_other_alone(world):
    g, (a, b) = hedged(world, late(0.4), [Reply(http(503, error_json("openai", 503)))])
    r = g.chat()
    assert r.text() == "late from A" and [x["outcome"] for x in g.row(r)["attempts"]] == ["ok", "overloaded"]


def test_a_client_that_leaves_cancels_both(world):
    g, (a, b) = hedged(world, Reply(end="hang"), [Reply(end="hang")])
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": [{"role": "user", "content": "hi"}]})
    wait_for(lambda: b.requests, what="the hedge")
    s.close()
    wait_for(lambda: a.requests[-1].closed_at and b.requests[-1].closed_at, what="both to be cancelled")


def test_in_time_there_is_none(world):
    g, (a, b) = world.chain(good("openai", "A", "m-a"), good("openai"), route=HEDGE, config={"prices": PRICES})
    fed(g, 10)
    assert not b.requests


def test_it_stops_at_its_cap(world):
    """Two per cent of nothing: the route has not spent enough to lose an attempt."""
    g, (a, b) = world.chain(late(0.25), good("openai"), route={**HEDGE, "hedge": {"after": 100, "max_extra_spend": "2%"}}, config={"prices": PRICES})
    assert g.chat().text() == "late from A" and not b.requests


def test_so_many_a_minute(world):
    g, (a, b) = world.chain(late(0.25), [Reply(end="hang")], route={**HEDGE, "hedge": {"after": 100, "max_extra_spend": "100%", "max_per_minute": 2}},
                            config={"prices": PRICES})
    for _ in range(5):
        assert g.chat().text() == "late from A"
    assert 1 <= len(b.requests) <= 4  # the minute may end in between


def test_check_says_what_it_may_cost(world, tmp_path):
    import subprocess
    from harness import BINARY
    conf = {"providers": {"a": {"dialect": "openai", "base_url": "http://one.test/v1", "api_key": "k"}, "b": {"dialect": "openai", "base_url": "http://two.test/v1", "api_key": "k"}},
            "routes": [{"model": "r", "order": ["a", "b"], "hedge": {"after": 800, "max_extra_spend": "2%"}}]}
    (tmp_path / "c.yaml").write_text(json.dumps(conf))
    out = subprocess.run([BINARY, "check", "-c", str(tmp_path / "c.yaml")], capture_output=True, text=True)
    assert out.returncode == 0 and "hedge" in out.stdout + out.stderr and "2.00%" in out.stdout + out.stderr, out.stdout + out.stderr
